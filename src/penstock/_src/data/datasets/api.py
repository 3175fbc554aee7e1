"""Everything under tf.data: importing this module makes the names known."""
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

__all__ = ["csv", "dataset", "dataset_v1", "examples", "extras", "grouping", "iterators", "optional", "options",
           "readers", "sampling", "saving", "scanning", "stats"]
