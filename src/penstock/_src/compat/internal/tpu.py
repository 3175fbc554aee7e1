"""`tf.compat.v1.tpu.cross_replica_sum`, which libraries call where they may run on the cores of a TPU."""
from __future__ import annotations

from typing import Any

import penstock.compat.v1 as tf
from penstock._src.base.api import export
from penstock._src.compat.programs.inside.tpu_function import get_tpu_context


@export(v1=["contrib.tpu.cross_replica_sum", "tpu.cross_replica_sum"])
def cross_replica_sum(x: Any, group_assignment: Any = None, name: str | None = None) -> Any:
    """The sum of a tensor over the cores of a TPU: with one device, the tensor itself.

    Raises:
        UnimplementedError: in a context of several shards.
    """
    if (get_tpu_context().number_of_shards or 1) > 1:
        raise tf.errors.UnimplementedError(None, None, "TPUs are not supported: sums over several shards are those of "
                                                       "tf.distribute.get_replica_context().all_reduce")
    return tf.identity(x, name)
