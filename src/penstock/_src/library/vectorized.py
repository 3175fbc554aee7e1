"""tf.vectorized_map, and the loops of `ops.parallel_for`: a function of every row, stacked.

The function is traced once; rows are computed in a loop.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base import nest
from penstock._src.base.api import LazyModule, export
from penstock._src.library.map_fn import map_fn_v2

tf = LazyModule("penstock")


@export("vectorized_map")
def vectorized_map(fn: Callable, elems: Any, fallback_to_while_loop: bool = True, warn: bool = True) -> Any:
    """fn of every row of `elems`, stacked: as tf.map_fn, whose `dtype` it infers. It always is a loop.

    Args:
        fn: Function of a row.
        elems: Tensor, or structure of tensors.
        fallback_to_while_loop: Accepted; it always is a loop.
        warn: Accepted.

    Returns:
        The results, stacked.

    >>> tf.vectorized_map(lambda x: x * x, tf.constant([1, 2, 3])).numpy().tolist()
    [1, 4, 9]
    """
    elems = nest.map_structure(tf.convert_to_tensor, elems)
    rows = nest.map_structure(lambda t: tf.TensorSpec(t.shape[1:], t.dtype), elems)
    traced = tf.function(lambda row: nest.map_structure(tf.convert_to_tensor, fn(row)))
    outputs = traced.get_concrete_function(rows).structured_outputs
    signature = nest.map_structure(lambda t: tf.TensorSpec(t.shape, t.dtype), outputs)
    return map_fn_v2(traced, elems, fn_output_signature=signature)


def pfor(loop_fn: Callable, iters: Any, fallback_to_while_loop: bool = True, parallel_iterations: int | None = None,
         warn: bool = False) -> Any:
    """loop_fn of the numbers 0 to `iters` - 1, stacked."""
    return vectorized_map(loop_fn, tf.range(iters))


def for_loop(loop_fn: Callable, loop_fn_dtypes: Any, iters: Any, parallel_iterations: int | None = None) -> Any:
    """loop_fn of the numbers 0 to `iters` - 1, stacked; `loop_fn_dtypes` are the dtypes of its results."""
    return map_fn_v2(loop_fn, tf.range(iters), dtype=loop_fn_dtypes, parallel_iterations=parallel_iterations)
