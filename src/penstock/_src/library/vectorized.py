"""tf.vectorized_map, and the loops of `ops.parallel_for`: a function of every row, stacked.

Most functions become ops on all rows at once (`ops/control/vectorize.py`); others are loops.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base import nest, tf_logging
from penstock._src.base.api import LazyModule, export
from penstock._src.graph.composite_tensor import CompositeTensor
from penstock._src.graph.type_spec import type_spec_from_value
from penstock._src.library.map_fn import map_fn_v2
from penstock._src.ops.control.vectorize import NotVectorizable, vectorized

tf = LazyModule("penstock")


@export("vectorized_map")
def vectorized_map(fn: Callable, elems: Any, fallback_to_while_loop: bool = True, warn: bool = True) -> Any:
    """fn of every row of `elems`, stacked, computed for all rows at once: as tf.map_fn, and faster.

    An op that has no form for all rows is a loop over the rows. A function with side effects, custom gradients or TensorArrays
    is a loop as a whole.

    Args:
        fn: Function of a row.
        elems: Tensor, or structure of tensors with the same number of rows.
        fallback_to_while_loop: Whether such a function is allowed.
        warn: Whether a warning is logged then.

    Returns:
        The results, stacked.

    Raises:
        ValueError: `fn` has to be a loop, and `fallback_to_while_loop` is False.

    >>> tf.vectorized_map(lambda x: x * x, tf.constant([1, 2, 3])).numpy().tolist()
    [1, 4, 9]
    """
    elems = nest.map_structure(tf.convert_to_tensor, elems)
    flat = nest.flatten(elems)
    sizes = [t.shape[0] for t in flat if t.shape[0] is not None]
    count = sizes[0] if sizes else tf.shape(flat[0])[0]

    def of_row(*rows: Any) -> Any:
        results = fn(nest.pack_sequence_as(elems, rows))
        if any(isinstance(r, CompositeTensor) for r in nest.flatten(results)):
            raise NotVectorizable("it returns composite tensors")
        return nest.map_structure(_tensor, results)
    try:
        return vectorized(of_row, flat, count)
    except NotVectorizable as e:
        if not fallback_to_while_loop:
            raise ValueError(f"The function cannot run for all rows at once: {e}") from e
        if warn:
            tf_logging.warning("tf.vectorized_map: %s; the function runs in a loop", e)
    return _looped(fn, elems)


def _tensor(result: Any) -> Any:
    """A result as a tensor; None stays."""
    return None if result is None else tf.convert_to_tensor(result)


def _looped(fn: Callable, elems: Any) -> Any:
    rows = nest.map_structure(lambda t: tf.TensorSpec(t.shape[1:], t.dtype), elems)
    traced = tf.function(lambda row: nest.map_structure(
        lambda r: r if isinstance(r, CompositeTensor) else _tensor(r), fn(row)))
    outputs = traced.get_concrete_function(rows).structured_outputs
    signature = nest.map_structure(
        lambda t: type_spec_from_value(t) if isinstance(t, CompositeTensor) else tf.TensorSpec(t.shape, t.dtype), outputs)
    return map_fn_v2(traced, elems, fn_output_signature=signature)


def pfor(loop_fn: Callable, iters: Any, fallback_to_while_loop: bool = True, parallel_iterations: int | None = None,
         warn: bool = False) -> Any:
    """loop_fn of the numbers 0 to `iters` - 1, stacked."""
    return vectorized_map(loop_fn, tf.range(iters), fallback_to_while_loop, warn)


def for_loop(loop_fn: Callable, loop_fn_dtypes: Any, iters: Any, parallel_iterations: int | None = None) -> Any:
    """loop_fn of the numbers 0 to `iters` - 1, stacked; `loop_fn_dtypes` are the dtypes of its results."""
    return map_fn_v2(loop_fn, tf.range(iters), dtype=loop_fn_dtypes, parallel_iterations=parallel_iterations)
