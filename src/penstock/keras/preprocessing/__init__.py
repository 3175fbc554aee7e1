"""tf.keras.preprocessing: sequences, text and images as arrays, and datasets from folders."""
from penstock import api as _api
from penstock.keras.preprocessing import from_directory, image, image_generator, sequence, text  # noqa: F401

for _module in (image, sequence, text):
    _api.install(_module.__name__, "v2", f"keras.preprocessing.{_module.__name__.rsplit('.', 1)[-1]}.")
