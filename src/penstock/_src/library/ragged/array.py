"""Shapes of ragged tensors: expand_dims, tile, size, rank, masks, where, concat and stack."""
from __future__ import annotations

from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph.constant import constant_value
from penstock._src.graph.node import Tensor
from penstock._src.library.ragged.broadcasting import aligned, with_partitions
from penstock._src.library.ragged.functional import map_flat_values
from penstock._src.library.ragged.gather import coordinates, gather
from penstock._src.library.ragged.ranges import repeat_ranges
from penstock._src.library.ragged.segments import get_positive_axis, int_tensor, lengths_to_splits, repeat
from penstock._src.library.ragged.tensor import RaggedTensor, convert_to_tensor_or_ragged_tensor, match_row_splits_dtypes
from penstock.compat import v1 as tf


def expand_dims(input: Any, axis: Any, name: str | None = None) -> Any:
    """A dimension of size 1 at `axis`."""
    with tf.name_scope(name, "RaggedExpandDims", []):
        input = convert_to_tensor_or_ragged_tensor(input, name="input")
        if not isinstance(input, RaggedTensor):
            return tf.expand_dims(input, axis)
        ndims = None if input.shape.ndims is None else input.shape.ndims + 1
        axis = get_positive_axis(axis, ndims)
        n = input.nrows()
        if axis == 0:
            return RaggedTensor.from_uniform_row_length(input, uniform_row_length=n, nrows=1, validate=False)
        if axis == 1:
            return RaggedTensor.from_uniform_row_length(input, uniform_row_length=1, nrows=n, validate=False)
        return input.with_values(expand_dims(input.values, axis - 1))


def squeeze(input: Any, axis: Any = None, name: str | None = None) -> Any:
    """A ragged tensor without the dimensions in `axis`, which all have size 1."""
    with tf.name_scope(name, "RaggedSqueeze", []):
        if axis is None:
            raise ValueError("Ragged.squeeze must have an axis argument.")
        axes = [axis] if isinstance(axis, int) else axis
        if not isinstance(axes, (list, tuple)) or not all(isinstance(a, int) for a in axes):
            raise TypeError("Axis must be a list or tuple of integers.")
        gone = {get_positive_axis(a, input.shape.ndims) for a in axes}
        splits = input.nested_row_splits
        ones = {a: tf.reduce_all(tf.equal(splits[a - 1][1:] - splits[a - 1][:-1], 1)) for a in gone if 0 < a <= len(splits)}
        if 0 in gone:
            ones[0] = tf.equal(tf.size(splits[0]), 2)
        checks = [tf.Assert(one, [f"the given axis (axis = {a}) is not squeezable!"]) for a, one in ones.items()]
        kept = [s for a, s in enumerate(splits, 1) if a not in gone]
        inner = [a - len(splits) for a in gone if a > len(splits)]
        if 0 in gone and not kept:
            inner.append(0)
        with tf.control_dependencies([c for c in checks if c is not None]):
            flat = tf.identity(input.flat_values)
        flat = tf.squeeze(flat, inner) if inner else flat
        kept = kept[1:] if 0 in gone else kept
        return RaggedTensor.from_nested_row_splits(flat, kept, validate=False) if kept else flat


def reverse(tensor: Any, axis: Any, name: str | None = None) -> Any:
    """Reverses the given dimensions."""
    message = "`axis` must be a list of int or a constant tensor when reversing axes in a ragged tensor"
    with tf.name_scope(name, "Reverse", [tensor]):
        if isinstance(axis, Tensor):
            axis = constant_value(axis)
            if axis is None:
                raise TypeError(message)
            axis = axis.tolist()
        elif not isinstance(axis, (list, tuple)) or not all(isinstance(a, int) for a in axis):
            raise TypeError(message)
        tensor = convert_to_tensor_or_ragged_tensor(tensor, name="tensor")
        axes = [get_positive_axis(a, tensor.shape.ndims) for a in axis]
        if not axes:
            return tensor
        slices = [slice(None)] * (max(axes) + 1)
        for a in axes:
            slices[a] = slice(None, None, -1)
        return tensor[tuple(slices)]


def one_hot(indices: Any, depth: Any, on_value: Any = None, off_value: Any = None, axis: int | None = None, dtype: Any = None,
            name: str | None = None) -> Any:
    """One-hot rows of ragged indices; the new dimension is the last one, or an `axis` within the flat values."""
    if isinstance(axis, int) and axis >= 0:
        if axis <= indices.ragged_rank:
            raise ValueError(f"axis ({axis}) must be greater than indices.ragged_rank ({indices.ragged_rank}).")
        axis -= indices.ragged_rank
    with tf.name_scope(name, "RaggedOneHot", []):
        return indices.with_flat_values(tf.one_hot(indices.flat_values, depth, on_value, off_value, axis, dtype))


def bitcast(input: Any, type: Any, name: str | None = None) -> Any:
    """The bits of the innermost values as another type; sizes may differ only where the innermost dimension is uniform."""
    type = dtypes.as_dtype(type)
    with tf.name_scope(name, "Bitcast", []):
        input = convert_to_tensor_or_ragged_tensor(input, name="input")
        if input.dtype.size < type.size and input.flat_values.shape.rank is not None and input.flat_values.shape.rank < 2:
            raise ValueError("`input.flat_values` is required to have rank >= 2 when input.dtype.size < type.size. Actual "
                             f"rank: {input.flat_values.shape.rank}")
        return input.with_flat_values(tf.bitcast(input.flat_values, type))


def size(input: Any, out_type: Any = dtypes.int32, name: str | None = None) -> Any:
    """The number of innermost values."""
    input = convert_to_tensor_or_ragged_tensor(input)
    flat = input.flat_values if isinstance(input, RaggedTensor) else input
    return tf.size(flat, out_type=out_type, name=name)


def rank(input: Any, name: str | None = None) -> Any:
    """The rank, ragged and uniform dimensions together."""
    with tf.name_scope(name, "RaggedRank", []):
        input = convert_to_tensor_or_ragged_tensor(input)
        if isinstance(input, RaggedTensor):
            return input.ragged_rank + tf.rank(input.flat_values)
        return tf.rank(input)


@export("ragged.boolean_mask")
def boolean_mask(data: Any, mask: Any, name: str | None = None) -> Any:
    """The elements of `data` where `mask` is True, keeping the rows."""
    with tf.name_scope(name, "RaggedMask", []):
        data = convert_to_tensor_or_ragged_tensor(data, name="data")
        mask = convert_to_tensor_or_ragged_tensor(mask, dtypes.bool, name="mask")
        splits_dtype, (data, mask) = match_row_splits_dtypes(data, mask, return_dtype=True)
        if mask.shape.ndims is None:
            raise ValueError("mask.shape.ndims must be known statically")
        if mask.shape.ndims == 0:
            raise ValueError("mask cannot be scalar")
        if isinstance(mask, RaggedTensor):
            return _mask_by_ragged(data, mask, splits_dtype)
        if isinstance(data, RaggedTensor) and mask.shape.ndims > 1:
            mask = RaggedTensor.from_tensor(mask, ragged_rank=mask.shape.ndims - 1, row_splits_dtype=splits_dtype)
            return _mask_by_ragged(data, mask, splits_dtype)
        if isinstance(data, RaggedTensor):
            lengths = tf.boolean_mask(data.row_lengths(), mask)
            keep = repeat(mask, data.row_lengths())
            return RaggedTensor.from_row_lengths(boolean_mask(data.values, keep), lengths, validate=False)
        if mask.shape.ndims > 1:
            ones = tf.reduce_sum(tf.cast(mask, splits_dtype), axis=-1)
            out = tf.boolean_mask(data, mask)
            lengths = tf.reshape(ones, [-1])
            out = RaggedTensor.from_row_lengths(out, lengths, validate=False)
            shape = tf.shape(mask, out_type=splits_dtype)
            for axis in reversed(range(1, mask.shape.ndims - 1)):
                rows = tf.reduce_prod(shape[:axis])
                out = RaggedTensor.from_row_splits(out, tf.range(rows + 1) * shape[axis], validate=False)
            return out
        return tf.boolean_mask(data, mask)


def _mask_by_ragged(data: Any, mask: RaggedTensor, splits_dtype: Any) -> Any:
    if not isinstance(data, RaggedTensor):
        data = RaggedTensor.from_tensor(data, ragged_rank=mask.ragged_rank, row_splits_dtype=splits_dtype)
    check = tf.debugging.assert_equal(mask.row_splits, data.row_splits, message="Inputs must have identical ragged splits")
    with tf.control_dependencies([c for c in [check] if c is not None]):
        values = boolean_mask(data.values, mask.values)
    if mask.shape.ndims != 2:
        return data.with_values(values)
    kept = tf.unsorted_segment_sum(tf.cast(mask.values, splits_dtype), mask.value_rowids(), mask.nrows())
    return RaggedTensor.from_row_lengths(values, kept, validate=False)


@export(v1=["ragged.where"])
def where(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Any:
    """x where the condition holds, else y; without them, the positions where it holds.

    A ragged condition whose rows x and y have chooses elements of them, which may have further dimensions.
    """
    ragged = [v for v in (condition, x, y) if isinstance(v, RaggedTensor)]
    if len(ragged) == 3 and len({v.ragged_rank for v in ragged}) == 1 and x.flat_values.shape.rank != 1:
        return map_flat_values(tf.where, condition, x, y, name=name)
    return where_v2(condition, x, y, name)


def where_v2(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Any:
    """As `where`; the three are broadcast."""
    if (x is None) != (y is None):
        raise ValueError("x and y must be either both None or both non-None")
    with tf.name_scope("RaggedWhere", name, []):
        condition = convert_to_tensor_or_ragged_tensor(condition, name="condition")
        if x is None:
            if not isinstance(condition, RaggedTensor):
                return tf.where(condition)
            at = tf.where(condition.flat_values)
            return tf.concat([tf.gather(coordinates(condition), at[:, 0]), at[:, 1:]], 1)
        x, y = convert_to_tensor_or_ragged_tensor(x, name="x"), convert_to_tensor_or_ragged_tensor(y, name="y")
        condition, x, y = match_row_splits_dtypes(condition, x, y)
        if not isinstance(condition, RaggedTensor) and condition.shape.rank == 1:
            return _where_rows(condition, x, y)
        partitions, flats = aligned(condition, x, y)
        return with_partitions(tf.where_v2(*flats), partitions)


def _where_rows(condition: Any, x: Any, y: Any) -> Any:
    """Whole rows of x or y."""
    if condition.shape.ndims is None or condition.shape.ndims > 1:
        raise ValueError("Input shapes do not match.")
    n = tf.shape(condition, out_type=dtypes.int64)[0]
    both = concat([x, y], axis=0)
    return gather(both, tf.where(condition, tf.range(n), tf.range(n) + n))


def tile(input: Any, multiples: Any, name: str | None = None) -> Any:
    """Repeats each dimension multiples[axis] times."""
    with tf.name_scope(name, "RaggedTile", []):
        input = convert_to_tensor_or_ragged_tensor(input, name="input")
        if not isinstance(input, RaggedTensor):
            return tf.tile(input, multiples, name)
        multiples = int_tensor(multiples, "multiples", input.row_splits.dtype)
        multiples.shape.assert_has_rank(1)
        known = constant_value(multiples)
        splits = _tile_splits(input, multiples)
        rows = input.shape.static_dims[0] if input.shape.static_dims is not None else None
        if known is not None and rows is not None:
            splits[0].set_shape([rows * int(known[0]) + 1])
        return RaggedTensor.from_nested_row_splits(_tile_values(input, multiples, known), splits, validate=False)


def _tile_values(rt: RaggedTensor, multiples: Any, known: Any) -> Any:
    flat, splits = rt.flat_values, rt.nested_row_splits
    inner = multiples[rt.ragged_rank + 1:]
    last = splits[-1]
    flat = repeat_ranges(flat, last, multiples[rt.ragged_rank]) if known is None or known[rt.ragged_rank] != 1 else flat
    scaled = last * multiples[rt.ragged_rank]
    for axis in range(rt.ragged_rank - 1, -1, -1):
        outer = splits[axis - 1] if axis > 0 else tf.stack([tf.zeros_like(splits[0][0]), tf.shape(
            splits[0], out_type=splits[0].dtype)[0] - 1])
        bounds = tf.gather(scaled, outer)
        flat = repeat_ranges(flat, bounds, multiples[axis]) if known is None or known[axis] != 1 else flat
        scaled = bounds * multiples[axis]
    if flat.shape.ndims == 1:
        return flat
    return tf.tile(flat, tf.concat([tf.ones([1], inner.dtype), inner], 0))


def _tile_splits(rt: RaggedTensor, multiples: Any) -> list:
    """The row lengths of each level, repeated as the levels above them are."""
    out, splits = [], rt.nested_row_splits
    for axis in range(rt.ragged_rank):
        lengths = (splits[axis][1:] - splits[axis][:-1]) * multiples[axis + 1]
        bounds = tf.range(tf.shape(lengths, out_type=splits[axis].dtype)[0] + 1)
        for above in range(axis, -1, -1):
            outer = splits[above - 1] if above > 0 else tf.stack([tf.zeros_like(splits[0][0]), tf.shape(
                splits[0], out_type=splits[0].dtype)[0] - 1])
            bounds = tf.gather(bounds, outer)
            lengths = repeat_ranges(lengths, bounds, multiples[above])
            bounds = bounds * multiples[above]
        out.append(lengths_to_splits(lengths))
    return out


# -- concat and stack ----------------------------------------------------------------------------------------------------
def concat(values: Any, axis: Any, name: str | None = None) -> Any:
    """Joins ragged tensors along an axis."""
    values = list(values) if isinstance(values, (list, tuple)) else [values]
    with tf.name_scope(name, "RaggedConcat", []):
        return _join(values, axis, stack_values=False)


@export("ragged.stack")
def stack(values: Any, axis: int = 0, name: str | None = None) -> Any:
    """Joins ragged tensors along a new axis.

    >>> tf.ragged.stack([[1, 2], [3]])
    """
    values = list(values) if isinstance(values, (list, tuple)) else [values]
    with tf.name_scope(name, "RaggedStack", []):
        return _join(values, axis, stack_values=True)


def _join(values: list, axis: Any, stack_values: bool) -> Any:
    if not values:
        raise ValueError("rt_inputs may not be empty.")
    rts = [convert_to_tensor_or_ragged_tensor(v, name="rt_input") for v in values]
    splits_dtype, rts = match_row_splits_dtypes(*rts, return_dtype=True)
    rts = list(rts)
    if len(rts) == 1 and not stack_values:
        return rts[0]
    ndims = next((r.shape.ndims for r in rts if r.shape.ndims is not None), None)
    shape = TensorShape([None] * ndims) if ndims is not None else TensorShape(None)
    for r in rts:
        r.shape.assert_is_compatible_with(shape) if ndims is None else r.shape.assert_has_rank(ndims)
    out_dims = None if ndims is None else ndims + 1 if stack_values else ndims
    axis = get_positive_axis(axis, out_dims)
    if stack_values and ndims == 1 and axis == 0:
        splits_dtype = splits_dtype if any(isinstance(r, RaggedTensor) for r in rts) else dtypes.int32
        lengths = tf.stack([tf.shape(r, out_type=splits_dtype)[0] for r in rts])
        return RaggedTensor.from_row_lengths(tf.concat(rts, 0), lengths, validate=False)
    if all(not isinstance(r, RaggedTensor) for r in rts):
        if ndims is None or out_dims is None or axis in (ndims - 1, out_dims - 1) or not stack_values and axis == 0:
            return tf.stack(rts, axis) if stack_values else tf.concat(rts, axis)
    for i, r in enumerate(rts):
        if not isinstance(r, RaggedTensor):
            rts[i] = RaggedTensor.from_tensor(r, ragged_rank=1, row_splits_dtype=splits_dtype) if r.shape.ndims != 1 else r
    deepest = max([r.ragged_rank for r in rts if isinstance(r, RaggedTensor)] + [1])
    rts = [_at_least(r, deepest, splits_dtype) for r in rts]
    if axis == 0:
        return _stack_rows(rts) if stack_values else _concat_rows(rts)
    if axis == 1:
        return _join_columns(rts, stack_values)
    inner = _join([r.values for r in rts], axis - 1, stack_values)
    return rts[0].with_values(inner)


def _at_least(rt: Any, ragged_rank: int, splits_dtype: Any) -> Any:
    """The tensor with at least that many ragged dimensions (uniform ones become ragged)."""
    if not isinstance(rt, RaggedTensor):
        most = (rt.shape.ndims or 2) - 1
        return RaggedTensor.from_tensor(rt, ragged_rank=max(1, min(ragged_rank, most)), row_splits_dtype=splits_dtype) \
            if most >= 1 else rt
    if rt.ragged_rank < ragged_rank and (rt.flat_values.shape.ndims is None or rt.flat_values.shape.ndims > 1):
        return rt.with_flat_values(RaggedTensor.from_tensor(
            rt.flat_values, ragged_rank=min(ragged_rank - rt.ragged_rank, (rt.flat_values.shape.ndims or 2) - 1),
            row_splits_dtype=splits_dtype))
    return rt


def _concat_rows(rts: list) -> RaggedTensor:
    values = concat([r.values for r in rts], 0) if any(isinstance(r.values, RaggedTensor) for r in rts) \
        else tf.concat([r.values for r in rts], 0)
    lengths = tf.concat([r.row_lengths() for r in rts], 0)
    return RaggedTensor.from_row_lengths(values, lengths, validate=False)


def _stack_rows(rts: list) -> RaggedTensor:
    rows = tf.stack([r.nrows() for r in rts])
    return RaggedTensor.from_row_lengths(_concat_rows(rts), rows, validate=False)


def _join_columns(rts: list, stack_values: bool) -> RaggedTensor:
    """Row i of the result is made of the rows i of all inputs, in turn."""
    n, count = rts[0].nrows(), len(rts)
    checks = [tf.debugging.assert_equal(r.nrows(), n, message="Input tensors have incompatible shapes.") for r in rts[1:]]
    with tf.control_dependencies([c for c in checks if c is not None]):
        everything = _concat_rows(rts)
        order = tf.reshape(tf.transpose(tf.reshape(tf.range(n * count), [count, -1])), [-1])
    rows = gather(everything, order)
    if stack_values:
        return RaggedTensor.from_row_splits(rows, tf.range(n + 1) * count, validate=False)
    return RaggedTensor.from_row_splits(rows.values, tf.gather(rows.row_splits, tf.range(n + 1) * count), validate=False)


def ones_like(rt: RaggedTensor, dtype: Any = None) -> RaggedTensor:
    """Ones in the shape of a ragged tensor."""
    return rt.with_flat_values(tf.ones_like(rt.flat_values, dtype))

