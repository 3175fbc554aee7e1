"""tf.create_partitioned_variables: the parts of a variable as a list."""
from __future__ import annotations

from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.state.variables.scope import get_variable_scope, variable_scope
from penstock._src.state.variables.store import current_store


@export(v1=["create_partitioned_variables"])
def create_partitioned_variables(shape: Any, slicing: Any, initializer: Any, dtype: Any = dtypes.float32,
                                 trainable: bool = True, collections: Any = None, name: str | None = None,
                                 reuse: Any = None) -> list:
    """A list of variables that are the parts of one of shape `shape`, cut as `slicing` says."""
    if len(shape) != len(slicing):
        raise ValueError(f"The 'shape' and 'slicing' of a partitioned Variable must have the length: shape: {shape}, "
                         f"slicing: {slicing}")
    if len(shape) < 1:
        raise ValueError(f"A partitioned Variable must have rank at least 1: shape: {shape}")
    with variable_scope(name, "PartitionedVariable", reuse=reuse):
        return list(get_variable_scope()._get_partitioned_variable(
            current_store(), None, shape=shape, dtype=dtype, initializer=initializer, trainable=trainable,
            partitioner=lambda **kwargs: slicing, collections=collections))
