"""tf.keras.preprocessing: sequences, text and images as arrays, and datasets from folders."""
from penstock._src.models.keras.preprocessing import from_directory, image, image_generator, sequence, text  # noqa: F401
