"""Array functions of structured tensors: tf.concat, tf.gather, tf.expand_dims and others act on every field.

Without fields, they act on a tensor of the records' shape. The table is keyed by the name of the function.
"""
from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from penstock._src.base import dtypes
from penstock._src.library.ragged.shape import DynamicRaggedShape, filled
from penstock._src.library.ragged.structured import StructuredTensor
from penstock._src.library.ragged.tensor import convert_to_tensor_or_ragged_tensor
from penstock.compat import v1 as tf


def _axis(axis: int, rank: int, what: str = "axis") -> int:
    if not -rank <= axis < rank:
        raise ValueError(f"{what}={axis} out of bounds: expected {-rank}<={what}<{rank}")
    return axis % rank


def _each_field(values: list[StructuredTensor], rank: int, fn: Callable[[list], Any]) -> StructuredTensor:
    """`fn` of each field of all values, as a field of records of another rank."""
    names = values[0].field_names()
    if names:
        return StructuredTensor.from_fields({n: fn([v.field_value(n) for v in values]) for n in names}, [None] * rank)
    return StructuredTensor.from_shape(DynamicRaggedShape.from_tensor(fn([filled(v._ragged_shape, 0) for v in values])))


def expand_dims(input: StructuredTensor, axis: Any = None, name: str | None = None, dim: Any = None) -> StructuredTensor:
    """A dimension of size 1 at `axis`."""
    at = _axis(dim if axis is None else axis, input.rank + 1)
    with tf.name_scope(name, "ExpandDims", []):
        return _each_field([input], input.rank + 1, lambda fields: tf.expand_dims(fields[0], at))


def gather(params: StructuredTensor, indices: Any, validate_indices: Any = None, name: str | None = None, axis: Any = None,
           batch_dims: int = 0) -> StructuredTensor:
    """The records at `indices` of a dimension."""
    batch_dims = _axis(batch_dims, params.rank + 1, "batch_dims") if batch_dims < 0 else batch_dims
    at = _axis(batch_dims if axis is None else axis, params.rank)
    if batch_dims > at:
        raise ValueError(f"batch_dims={batch_dims} out of bounds: expected 0<=batch_dims<={at}")
    indices = convert_to_tensor_or_ragged_tensor(indices)
    with tf.name_scope(name, "Gather", []):
        return _each_field([params], params.rank - 1 + indices.shape.rank - batch_dims,
                           lambda fields: tf.gather(fields[0], indices, axis=at, batch_dims=batch_dims))


def concat(values: Any, axis: int, name: str | None = "concat") -> StructuredTensor:
    """The records of several structured tensors with the same fields, in sequence."""
    if not isinstance(values, (list, tuple)) or not all(isinstance(v, StructuredTensor) for v in values):
        raise ValueError("Structured tensors are joined with structured tensors only")
    first = values[0]
    for v in values[1:]:
        if set(v.field_names()) != set(first.field_names()):
            raise ValueError(f"The structured tensors have different fields: {sorted(first.field_names())} and "
                             f"{sorted(v.field_names())}")
        if v.rank != first.rank:
            raise ValueError(f"The structured tensors have ranks {first.rank} and {v.rank}")
    at = _axis(axis, first.rank)
    with tf.name_scope(name, "concat", []):
        return _each_field(list(values), first.rank, lambda fields: tf.concat(fields, at))


def random_shuffle(value: StructuredTensor, seed: int | None = None, name: str | None = None) -> StructuredTensor:
    """The records of the outermost dimension in random order."""
    if value.rank == 0:
        raise ValueError("A single record has no order to shuffle")
    with tf.name_scope(name, "shuffle", []):
        return gather(value, tf.random_shuffle(tf.range(value.nrows()), seed=seed))


def size(input: StructuredTensor, out_type: Any = None, name: str | None = None) -> Any:
    """The number of records."""
    return tf.cast(tf.size(filled(input._ragged_shape, 0), out_type=dtypes.int64), out_type or dtypes.int32, name=name)


def _like(make: Callable) -> Callable:
    """zeros_like and ones_like: a tensor of the records' shape, ragged from two dimensions on."""
    def made(value: StructuredTensor, dtype: Any, name: str | None) -> Any:
        with tf.name_scope(name, make.__name__ + "_like", []):
            fill = make([], dtype or dtypes.float32)
            if value.rank < 2:
                return filled(value._ragged_shape, fill)
            return filled(DynamicRaggedShape.from_row_partitions(value.row_partitions), fill)
    return lambda input=None, tensor=None, dtype=None, name=None: made(tensor if input is None else input, dtype, name)


FUNCTIONS: dict[str, Callable] = {
    "concat": concat, "expand_dims": expand_dims, "gather": gather, "random_shuffle": random_shuffle, "size": size,
    "ones_like": _like(tf.ones), "zeros_like": _like(tf.zeros),
    "rank": lambda input, name=None: tf.constant(input.rank, dtypes.int32, name=name),
    "shape": lambda input, name=None, out_type=None: input._ragged_shape.with_dtype(out_type or dtypes.int32)}


def dispatch(fn: Callable, args: tuple, kwargs: dict) -> Any:
    """The version of `fn` for structured tensors, or NotImplemented."""
    handler = FUNCTIONS.get(fn.__name__.removesuffix("_v1").removesuffix("_v2"))
    if handler is None:
        return NotImplemented
    given = inspect.signature(fn).bind(*args, **kwargs).arguments     # v1 and v2 functions order their arguments differently
    return handler(**{k: v for k, v in given.items() if k in inspect.signature(handler).parameters})


StructuredTensor._dispatch = staticmethod(dispatch)       # type: ignore[attr-defined]
