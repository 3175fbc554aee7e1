"""Functions over ragged tensors: map_flat_values, and tf.map_fn row by row."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base import dtypes, nest
from penstock._src.base.api import export
from penstock._src.graph.composite_tensor import CompositeTensor
from penstock._src.graph.type_spec import BatchableTypeSpec, TensorSpec, TypeSpec, type_spec_from_value
from penstock._src.library.ragged.broadcasting import with_partitions
from penstock._src.library.ragged.spec import RaggedTensorSpec
from penstock._src.library.ragged.tensor import RaggedTensor, convert_to_tensor_or_ragged_tensor, match_row_splits_dtypes
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
    if any(r.ragged_rank != matched[0].ragged_rank for r in matched):
        raise ValueError("All ragged inputs must have the same ragged_rank.")
    sizes = {r.flat_values.shape[:1].as_list()[0] for r in matched if r.flat_values.shape.rank} - {None}
    if len(sizes) > 1:
        raise ValueError(f"Input RaggedTensors' flat_values must all have the same outer-dimension size.  Got sizes: {sizes}")
    out = op(*inner_args, **inner_kwargs)
    rows, found = matched[0].flat_values.shape[:1], getattr(out, "shape", None)
    if found is not None and (found.rank == 0 or not found[:1].is_compatible_with(rows)):
        raise ValueError("tf.ragged.map_flat_values requires that the output of `op` have the same outer-dimension size as "
                         f"flat_values of any ragged inputs. (output shape: {found}; expected outer dimension size: "
                         f"{rows.as_list()[0] if rows.rank else None})")
    return with_partitions(out, merged_partitions(matched))


def merged_partitions(ragged: Any) -> list:
    """The common partitions of ragged tensors, outermost first, with the static information of all of them."""
    partitions = [r._row_partition for r in ragged]
    merged = partitions[0]
    for other in partitions[1:]:
        if other._row_splits is not merged._row_splits:
            merged = merged._merge_precomputed_encodings(other)
        elif other._uniform_row_length is not None:
            merged = merged._merge_precomputed_encodings(other, validate=False)
    values = [r.values for r in ragged]
    return [merged, *merged_partitions(values)] if isinstance(values[0], RaggedTensor) else [merged]


def assert_splits_match(nested: list) -> list:
    """Assertions that ragged tensors have the same rows; ValueError if it is known statically that they do not."""
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
    """tf.map_fn where some elems, or the result, are composite.

    In the loop, a composite value is represented by the variants of its TypeSpec: one per row for elems
    (`_to_batched_tensor_list`), one for each result, from which the batch is created at the end.
    """
    elems = nest.map_structure(convert_to_tensor_or_composite, elems)
    flat = nest.flatten(elems)
    _check_same_rows(flat)
    specs = [type_spec_from_value(e) for e in flat]
    for s in specs:
        if not isinstance(s, BatchableTypeSpec):
            raise TypeError(f"Found unsupported type for elems: {s.value_type.__name__} cannot be batched.")
    results = nest.map_structure(_result_spec, dtype) if dtype is not None else \
        nest.map_structure(lambda e: _row_spec(type_spec_from_value(e)), elems)
    out_specs = nest.flatten(results)
    scalars = _Scalars(dtype is None)
    with tf.name_scope(name, "map", flat):
        rows = [t for s, e in zip(specs, flat, strict=True) for t in s._to_batched_tensor_list(e)]
        row_specs = [s._unbatch() for s in specs]
        kinds = [t.dtype for s in out_specs for t in s._flat_tensor_specs]

        def one(pieces: list) -> list:
            given, at = [], 0
            for s in row_specs:
                count = len(s._flat_tensor_specs)
                given.append(s._from_compatible_tensor_list(pieces[at:at + count]))
                at += count
            value = fn(nest.pack_sequence_as(elems, given))
            nest.assert_same_structure(value, results)
            return [t for i, (s, v) in enumerate(zip(out_specs, nest.flatten(value), strict=True))
                    for t in _encoded(s, scalars.as_row(i, s, v))]
        mapped = tf.map_fn(one, rows, dtype=kinds, parallel_iterations=parallel_iterations or 10, back_prop=back_prop,
                           swap_memory=swap_memory, infer_shape=infer_shape)
        return nest.pack_sequence_as(results, scalars.from_rows(_decoded(out_specs, mapped, specs[0])))


class _Scalars:
    """Which results of rows are scalars, where no signature describes the results. They become a dense tensor; TensorFlow,
    which takes them for rows, raises an error."""

    def __init__(self, inferred: bool):
        self._inferred = inferred
        self._found: dict[int, bool] = {}                # by the position among the results: whether all of them are scalars

    def as_row(self, i: int, spec: Any, value: Any) -> Any:
        """A result as a row of a ragged tensor."""
        if not self._inferred or getattr(spec, "ragged_rank", 1) != 0 or isinstance(value, CompositeTensor):
            return value
        value = tf.convert_to_tensor(value, dtype=spec.dtype)
        scalar = value.shape.rank == 0
        self._found[i] = scalar and self._found.get(i, True)
        return tf.reshape(value, [1]) if scalar else value

    def from_rows(self, batches: list) -> list:
        """The batches of results, dense where all rows are scalars."""
        for i, batch in enumerate(batches):
            if self._found.get(i):
                batches[i] = batch.flat_values
                batches[i].set_shape(batch.shape[:1])
        return batches


def convert_to_tensor_or_composite(value: Any) -> Any:
    """Composite values stay as they are; anything else becomes a Tensor."""
    if isinstance(value, CompositeTensor):
        return value
    return convert_to_tensor_or_ragged_tensor(value)


def _check_same_rows(flat: list) -> None:
    shapes = [e.shape for e in flat if hasattr(e, "shape")]          # user types may have none
    for shape in shapes:
        if shape.rank == 0:
            raise ValueError("elements in elems must be 1+ dimensional Tensors, not scalars")
        if not shape[:1].is_compatible_with(shapes[0][:1]):
            raise ValueError(f"elements in elems must have the same number of rows: {shapes[0]} and {shape}")


def _row_spec(spec: Any) -> Any:
    """The type of a result that is like a row of the elems."""
    row = spec._unbatch()
    if isinstance(row, TensorSpec):
        return TensorSpec(None, row.dtype)
    return RaggedTensorSpec(None, row.dtype, 0, row.row_splits_dtype) if getattr(row, "ragged_rank", 1) == 0 else row


def _result_spec(t: Any) -> Any:
    if isinstance(t, TypeSpec):
        return t
    if isinstance(t, RaggedTensorType):
        return RaggedTensorSpec(None, t.dtype, t.ragged_rank - 1, t.row_splits_dtype)      # of one row
    return TensorSpec(None, t)


def _encoded(spec: Any, value: Any) -> list:
    """The tensors that represent one result; ValueError if it is not of the declared type."""
    value = convert_to_tensor_or_composite(value) if not isinstance(spec, TensorSpec) else \
        tf.convert_to_tensor(value, dtype=spec.dtype) if not isinstance(value, RaggedTensor) else value
    if not spec.is_compatible_with(value):
        raise ValueError(f"Expected `fn` to return a value of type {spec}. But it returned {value}.")
    return spec._to_tensor_list(value)


def _decoded(specs: list, tensors: list, first: Any) -> list:
    """The batched results."""
    rows = first.shape.static_dims[0] if getattr(first, "shape", None) is not None and first.shape.static_dims else None
    out, at = [], 0
    for s in specs:
        count = len(s._flat_tensor_specs)
        batched = s._batch(rows)
        out.append(batched._from_compatible_tensor_list(tensors[at:at + count]))
        at += count
    return out


class RaggedTensorType:
    """dtype and number of ragged dimensions: how tf.map_fn is told that its result is ragged."""

    def __init__(self, dtype: Any, ragged_rank: int, row_splits_dtype: Any = dtypes.int64):
        self._dtype, self._ragged_rank = dtypes.as_dtype(dtype), ragged_rank
        self._row_splits_dtype = dtypes.as_dtype(row_splits_dtype)

    dtype = property(lambda self: self._dtype, doc="The DType of the values.")
    ragged_rank = property(lambda self: self._ragged_rank, doc="The number of ragged dimensions.")
    row_splits_dtype = property(lambda self: self._row_splits_dtype, doc="The DType of row splits.")


export.value(RaggedTensorType, v1=["ragged.RaggedTensorType"])
