"""tf.keras.preprocessing: sequences, text and images as arrays, and datasets from folders."""
from penstock._src.base import api as _api
from penstock._src.models.keras.preprocessing import from_directory, image, image_generator, sequence, text  # noqa: F401

for _module in (image, sequence, text):
    _api.install(_module.__name__, "v2", f"keras.preprocessing.{_module.__name__.rsplit('.', 1)[-1]}.")
