"""tf.keras.wrappers: Keras models for other libraries."""
from penstock._src.models.keras.wrappers import scikit_learn  # noqa: F401
