"""`dynamic_embedding`: embedding variables under the names of TensorFlow Recommenders Addons (TFRA)."""
from penstock._src.models.dynamic_embedding import layers, lookups, policies, variable  # noqa: F401
