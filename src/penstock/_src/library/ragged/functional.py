"""Functions over ragged tensors: map_flat_values, and tf.map_fn row by row."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base import dtypes, nest
from penstock._src.base.api import export
from penstock._src.library.ragged.tensor import RaggedTensor, is_ragged, match_row_splits_dtypes
from penstock.compat import v1 as tf


@export("ragged.map_flat_values")
def map_flat_values(op: Callable, *args: Any, **kwargs: Any) -> Any:
    """op of the innermost values; every ragged argument must have the same rows.

    >>> tf.ragged.map_flat_values(tf.ones_like, rt)
    """
    ragged: list = []

    def flat(value: Any) -> Any:
        if isinstance(value, RaggedTensor):
            ragged.append(value)
            return value.flat_values
        if isinstance(value, list):
            return [flat(v) for v in value]
        return value
    inner_args = [flat(a) for a in args]
    inner_kwargs = {k: flat(v) for k, v in kwargs.items()}
    if not ragged:
        return op(*args, **kwargs)
    matched = match_row_splits_dtypes(*ragged)
    splits = [r.nested_row_splits for r in matched]
    if any(len(s) != len(splits[0]) for s in splits):
        raise ValueError("All ragged arguments must have the same ragged_rank")
    with tf.control_dependencies(assert_splits_match(splits)):
        return matched[0].with_flat_values(op(*inner_args, **inner_kwargs))


def assert_splits_match(nested: list) -> list:
    """Assertions that ragged tensors have the same rows; ValueError where it is known that they have not."""
    message = "Inputs must have identical ragged splits"
    checks = []
    for other in nested[1:]:
        if len(other) != len(nested[0]):
            raise ValueError(message)
        for a, b in zip(nested[0], other, strict=True):
            if a is not b:
                checks.append(tf.debugging.assert_equal(a, b, message=message))
    return [c for c in checks if c is not None]


def map_rows(fn: Callable, elems: Any, dtype: Any = None, parallel_iterations: Any = None, back_prop: bool = True,
             swap_memory: bool = False, infer_shape: bool = True, name: str | None = None) -> Any:
    """tf.map_fn where some elems, or the result, are ragged."""
    if dtype is None:
        dtype = nest.map_structure(lambda e: _type_of(e), elems)
    with tf.name_scope(name, "RaggedMap", []):
        flat = nest.flatten(elems)
        encoded = [e._to_variant(batched_input=True) if isinstance(e, RaggedTensor) else tf.convert_to_tensor(e) for e in flat]
        kinds = [(e.dtype, e.ragged_rank - 1) if isinstance(e, RaggedTensor) else None for e in flat]
        out_types = nest.flatten(dtype)

        def one(row: Any) -> Any:
            pieces = [p if k is None else _decoded(p, k) for p, k in zip(row, kinds, strict=True)]
            result = nest.flatten(fn(nest.pack_sequence_as(elems, pieces)))
            return [_encoded(r, t) for r, t in zip(result, out_types, strict=True)]
        plain = [dtypes.variant if _is_ragged_type(t) else dtypes.as_dtype(t) for t in out_types]
        mapped = tf.map_fn(one, encoded, dtype=plain, parallel_iterations=parallel_iterations or 10, back_prop=back_prop,
                           swap_memory=swap_memory, infer_shape=infer_shape)
        out = [RaggedTensor._from_variant(m, t.dtype, t.ragged_rank + 1) if _is_ragged_type(t) else m
               for m, t in zip(mapped, out_types, strict=True)]
        return nest.pack_sequence_as(dtype, out)


def _type_of(e: Any) -> Any:
    if isinstance(e, RaggedTensor):
        return RaggedTensorType(e.dtype, e.ragged_rank - 1, e.row_splits.dtype) if e.ragged_rank > 1 else e.dtype
    return tf.convert_to_tensor(e).dtype


def _is_ragged_type(t: Any) -> bool:
    return hasattr(t, "ragged_rank")


def _decoded(piece: Any, kind: tuple) -> Any:
    dtype, rank = kind
    if rank == 0:
        from penstock._src.library.ragged.conversion import from_variant_op
        return from_variant_op(piece, input_ragged_rank=0, output_ragged_rank=0, Tvalues=dtype,
                               Tsplits=dtypes.int64).output_dense_values
    return RaggedTensor._from_variant(piece, dtype, rank)


def _encoded(result: Any, wanted: Any) -> Any:
    if not _is_ragged_type(wanted):
        return result
    if wanted.ragged_rank == 0 and not is_ragged(result):
        from penstock._src.library.ragged.conversion import to_variant_op
        return to_variant_op([], result, batched_input=False)
    if not isinstance(result, RaggedTensor) or result.ragged_rank != wanted.ragged_rank:
        raise ValueError(f"The declared ragged rank ({wanted.ragged_rank}) mismatches the result "
                         f"({getattr(result, 'ragged_rank', 0)})")
    return result._to_variant(batched_input=False)


class RaggedTensorType:
    """dtype and number of ragged dimensions: how tf.map_fn is told that its result is ragged."""

    def __init__(self, dtype: Any, ragged_rank: int, row_splits_dtype: Any = dtypes.int64):
        self._dtype, self._ragged_rank = dtypes.as_dtype(dtype), ragged_rank
        self._row_splits_dtype = dtypes.as_dtype(row_splits_dtype)

    dtype = property(lambda self: self._dtype, doc="The DType of the values.")
    ragged_rank = property(lambda self: self._ragged_rank, doc="The number of ragged dimensions.")
    row_splits_dtype = property(lambda self: self._row_splits_dtype, doc="The DType of row splits.")


export.value(RaggedTensorType, v1=["ragged.RaggedTensorType"])
