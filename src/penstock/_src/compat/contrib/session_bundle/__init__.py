"""tf.contrib.session_bundle: models for serving as they were exported before SavedModel."""
from penstock._src.compat.contrib.session_bundle import exporter, gc, loading  # noqa: F401
