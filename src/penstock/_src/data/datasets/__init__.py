"""tf.data: the public classes of datasets, iterators and optionals, in terms of the ops of `ops.data`."""
from penstock._src.data.datasets import (
    csv,
    dataset,
    dataset_v1,
    examples,
    extras,
    grouping,
    iterators,
    optional,
    options,
    readers,
    sampling,
    saving,
    scanning,
    stats,
)
