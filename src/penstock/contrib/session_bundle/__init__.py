"""tf.contrib.session_bundle: models for serving as they were exported before SavedModel."""
from penstock.contrib.session_bundle import exporter, gc, loading  # noqa: F401
