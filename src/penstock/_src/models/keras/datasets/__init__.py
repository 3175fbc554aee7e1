"""tf.keras.datasets: well-known data from files at the usual cache place, and the digits that come with the package."""
from penstock._src.models.keras.datasets import arrays  # noqa: F401
