"""tf.vectorized_map: a function of every row, stacked. The function is traced once; rows are computed in a loop."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base import nest
from penstock._src.base.api import export
from penstock._src.ops.control.map_fn import map_fn_v2


@export("vectorized_map")
def vectorized_map(fn: Callable, elems: Any) -> Any:
    """fn of every row of `elems`, stacked: as tf.map_fn, whose `dtype` it finds out by itself.

    >>> tf.vectorized_map(lambda row: tf.reduce_sum(row), tf.constant([[1., 2.], [3., 4.]]))
    [3., 7.]
    """
    import penstock
    elems = nest.map_structure(penstock.convert_to_tensor, elems)
    rows = nest.map_structure(lambda t: penstock.TensorSpec(t.shape[1:], t.dtype), elems)
    traced = penstock.function(lambda row: nest.map_structure(penstock.convert_to_tensor, fn(row)))
    outputs = traced.get_concrete_function(rows).structured_outputs
    signature = nest.map_structure(lambda t: penstock.TensorSpec(t.shape, t.dtype), outputs)
    return map_fn_v2(traced, elems, fn_output_signature=signature)
