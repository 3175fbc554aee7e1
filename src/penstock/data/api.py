"""Everything under tf.data: importing this module makes the names known."""
from penstock.data import (
    dataset,
    dataset_v1,
    extras,
    grouping,
    iterators,
    optional,
    options,
    readers,
    sampling,
    scanning,
)

__all__ = ["dataset", "dataset_v1", "extras", "grouping", "iterators", "optional", "options", "readers", "sampling", "scanning"]
