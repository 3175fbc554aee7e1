"""tf.map_fn: a function of every row of dense, ragged or sparse tensors."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base import nest
from penstock._src.base.api import export
from penstock._src.graph.composite_tensor import CompositeTensor
from penstock._src.graph.type_spec import TensorSpec, TypeSpec
from penstock._src.library.ragged.functional import map_rows as ragged_map_rows
from penstock._src.ops.control.map_fn import checked, map_rows


@export(v1=["map_fn"])
def map_fn(fn: Callable, elems: Any, dtype: Any = None, parallel_iterations: int | None = None, back_prop: bool = True,
           swap_memory: bool = False, infer_shape: bool = True, name: str | None = None,
           fn_output_signature: Any = None) -> Any:
    """fn of every row of `elems`, stacked. `dtype` is the structure of fn's results where it differs from elems'.

    Args:
        fn: Function of one slice, with the structure of `elems`.
        elems: Tensor or nest of tensors with a common first axis.
        dtype: Old name of `fn_output_signature`.
        parallel_iterations: How many iterations may run at the same time.
        back_prop: Accepted for compatibility and unused.
        swap_memory: Accepted for compatibility and unused: memory is not swapped to the host.
        infer_shape: Whether all results have the same static shape.
        name: Name of the operation.
        fn_output_signature: Types or specs of the results of `fn`, where they differ from those of `elems`.

    Returns:
        The results of `fn`, stacked along a new first axis.

    >>> tf.map_fn(lambda x: x * x, tf.constant([1, 2, 3])).numpy()
    array([1, 4, 9], dtype=int32)
    """
    fn = checked(fn)
    dtype = dtype if fn_output_signature is None else fn_output_signature
    if any(_composite(e) for e in [*nest.flatten(elems), *nest.flatten(dtype)]):
        return ragged_map_rows(fn, elems, dtype, parallel_iterations, back_prop, swap_memory, infer_shape, name)
    return map_rows(fn, elems, dtype, parallel_iterations, back_prop, swap_memory, infer_shape, name)


def _composite(e: Any) -> bool:
    """Whether a value, or a type of results, is composite."""
    return isinstance(e, CompositeTensor) or hasattr(e, "ragged_rank") or \
        isinstance(e, TypeSpec) and not isinstance(e, TensorSpec)


@export(v2=["map_fn"])
def map_fn_v2(fn: Callable, elems: Any, dtype: Any = None, parallel_iterations: int | None = None,
              back_prop: bool = True, swap_memory: bool = False, infer_shape: bool = True, name: str | None = None,
              fn_output_signature: Any = None) -> Any:
    """fn of every row of `elems`, stacked. fn_output_signature is the structure of fn's results if it differs.

    Args:
        fn: Function of an element.
        elems: Tensor, or structure of tensors, whose first axis is gone through.
        dtype: Old name of `fn_output_signature`.
        parallel_iterations: How many rounds of a graph's loop may overlap.
        back_prop: Whether gradients go through.
        swap_memory: Accepted; it changes nothing here.
        infer_shape: Whether all results have one shape.
        fn_output_signature: Types, or TensorSpecs, of the results, where they are not those of the elements.
        name: Name of the operation.

    Returns:
        The results, stacked.

    >>> tf.map_fn(lambda x: x * x, tf.constant([1, 2, 3])).numpy().tolist()
    [1, 4, 9]
    """
    return map_fn(fn, elems, dtype, parallel_iterations, back_prop, swap_memory, infer_shape, name, fn_output_signature)
