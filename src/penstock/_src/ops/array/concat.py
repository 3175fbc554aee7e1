"""Joining and dividing tensors: concat, stack, unstack, split, tile, repeat."""
from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors
from penstock._src.base.api import export
from penstock._src.base.static_shape import Dims, merge, rank_is, show
from penstock._src.graph import context
from penstock._src.graph.constant import PARTIAL_RULES, constant_value
from penstock._src.graph.convert import convert
from penstock._src.graph.indexed_slices import IndexedSlices
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.kernels import arrays
from penstock._src.ops import rules
from penstock._src.ops.array.array import canonical, known, reshape_op, shape_of
from penstock._src.ops.composite import dispatched
from penstock._src.ops.core import identity
from penstock._src.ops.registry import OpDef, get, op

# -- concat --------------------------------------------------------------
concat_v2 = op("ConcatV2", "values: N * T, axis: Tidx -> output: T",
               "N: int >= 2, T: type, Tidx: type in {index} = int32")
rules.batching.axis[concat_v2] = -1
concat_op = op("Concat", "concat_dim: int32, values: N * T -> output: T", "N: int >= 2, T: type")


def _joined(values: list, axis: np.ndarray | None) -> Dims:
    """The static shape of values joined along an axis that may not be known."""
    rank = next((len(v) for v in values if v is not None), None)
    if rank is None:
        return None
    if rank == 0:
        raise ValueError("Can't concatenate scalars (use tf.stack instead)")
    if axis is None:
        for v in values:
            rank_is(v, rank)
        return (None,) * rank
    if axis.ndim:
        raise ValueError(f"Shape must be rank 0 but is rank {axis.ndim}: the axis of a concat is a scalar")
    at = canonical(int(axis), rank)
    total: int | None = 0
    rest: Dims = (None,) * rank
    for v in values:
        dims = rank_is(v, rank)
        size = dims[at]
        total = None if total is None or size is None else total + size
        try:
            rest = merge(rest, dims[:at] + (None,) + dims[at + 1:])
        except ValueError:
            raise ValueError("Dimensions must be equal except in the one that is concatenated, but are "
                             + " and ".join(show(s) for s in values)) from None
    return rest[:at] + (total,) + rest[at + 1:]


concat_v2.shape(lambda values, axis, *, c: _joined(values, c.const("axis")))
concat_op.shape(lambda concat_dim, values, *, c: _joined(values, c.const("concat_dim")))


def join(values: list, axis: Any) -> Any:
    """The kernel of concat."""
    if axis.ndim:
        raise errors.invalid(f"Concat dim tensor should be a scalar integer, but got shape "
                             f"{arrays.show(axis.shape)}")
    first = arrays.dims_of(values[0])
    rank, at = len(first), int(axis)
    if any(not arrays.dims_of(v) for v in values):
        raise errors.invalid("ConcatOp : Can't concatenate scalars (use tf.stack instead)")
    if not -rank <= at < rank:
        raise errors.invalid(f"ConcatOp : Expected concatenating dimensions in the range [{-rank}, {rank}), but got "
                             f"{at}")
    at += rank if at < 0 else 0
    for i, v in enumerate(values):
        dims = arrays.dims_of(v)
        if len(dims) != rank:
            raise errors.invalid(f"ConcatOp : Ranks of all input tensors should match: shape[0] = {arrays.show(first)} "
                                 f"vs. shape[{i}] = {arrays.show(dims)}")
        if dims[:at] != first[:at] or dims[at + 1:] != first[at + 1:]:
            raise errors.invalid(f"ConcatOp : Dimensions of inputs should match: shape[0] = {arrays.show(first)} vs. "
                                 f"shape[{i}] = {arrays.show(dims)}")
    return arrays.cat(values, at)


concat_v2.kernel(join)
rules.algebra.joins.add(concat_v2)
rules.regions.lower[concat_v2] = lambda op, r: [r.joined([r.view(t) for t in op.inputs[:-1]], int(r.constant(op.inputs[-1])))]


@rules.program.prepare(concat_v2)
def _concat_v2_prepare(known):
    n = known.attrs["N"]
    axis, all_dims = known.const(n), [known.dims(i) for i in range(n)]
    if axis is None or any(d is None for d in all_dims) or not known.plain() or not all_dims[0]:
        return None
    at = canonical(int(axis), len(all_dims[0]))
    return lambda values, axis: torch.cat(values, at)
concat_op.kernel(lambda concat_dim, values: join(values, concat_dim))


@concat_v2.value
def _concat_v2_value(op, values):
    dims = op.outputs[0].static_dims
    if not op.inputs[0].dtype.is_integer or dims is None or len(dims) != 1:
        return None
    parts = [values(i) for i in range(len(op.inputs) - 1)]
    return None if any(p is None for p in parts) else tuple(itertools.chain(*parts))


def _concat_gradient(values: list, axis: Tensor, grad: Any) -> list:
    """The part of the gradient that belongs to each value."""
    if isinstance(grad, IndexedSlices):
        return _sparse_concat_gradient(values, axis, grad)
    at = constant_value(axis)
    rank = next((len(v.static_dims) for v in values if v.static_dims is not None), None)
    if at is not None and rank is not None:
        n = canonical(int(at), rank)
        sizes = [v.static_dims[n] if v.static_dims is not None else None for v in values]
        if None not in sizes:
            return list(split_v(grad, np.array(sizes, np.int32), np.int32(n), num_split=len(sizes)))
    shapes = get("ShapeN")(values)
    axis = axis if axis.dtype == dtypes.int32 else get("Cast")(axis, DstT=dtypes.int32)
    axis = get("FloorMod")(axis, get("Rank")(values[0]))
    begins = concat_offset(axis, shapes)
    return [get("Slice")(grad, b, s) for b, s in zip(begins, shapes, strict=True)]


def _sparse_concat_gradient(values: list, axis: Tensor, grad: IndexedSlices) -> list:
    at = constant_value(axis)
    rank = next((len(v.static_dims) for v in values if v.static_dims is not None), None)
    if at is None or rank is None and int(at) < 0:
        raise ValueError("A gradient of IndexedSlices needs an axis that is known when the graph is built")
    n = canonical(int(at), rank) if rank is not None else int(at)
    shapes = [get("Shape")(v, out_type=grad.indices.dtype) for v in values]
    if n > 0:
        sizes = [s[n] for s in shapes]
        parts = split_v(grad.values, get("Pack")(sizes), np.int32(n), num_split=len(sizes))
        return [IndexedSlices(p, grad.indices, s) for p, s in zip(parts, shapes, strict=True)]
    out, start = [], convert(0, grad.indices.dtype)
    for s in shapes:
        end = start + s[0]
        inside = get("LogicalAnd")(get("GreaterEqual")(grad.indices, start), get("Less")(grad.indices, end))
        rows = get("Squeeze")(get("Where")(inside), squeeze_dims=[1])
        out.append(IndexedSlices(get("GatherV2")(grad.values, rows, 0),
                                 get("Sub")(get("GatherV2")(grad.indices, rows, 0), start), s))
        start = end
    return out


concat_v2.gradient(lambda op, grad: [*_concat_gradient(list(op.inputs[:-1]), op.inputs[-1], grad), None])
concat_op.gradient(lambda op, grad: [None, *_concat_gradient(list(op.inputs[1:]), op.inputs[0], grad)])

concat_offset = op("ConcatOffset", "concat_dim: int32, shape: N * shape_type -> offset: N * shape_type",
                   "N: int >= 2, shape_type: type in {index} = int32").no_gradient()
concat_offset.shape(lambda concat_dim, shape: list(shape))


@concat_offset.kernel
def _concat_offset_kernel(concat_dim, shape):
    rows = [arrays.ints(s) for s in shape]
    rank = len(rows[0])
    for i, s in enumerate(shape):
        if s.dim() != 1:
            raise errors.invalid(f"input {i} should be a vector, but got shape {arrays.show(s.shape)}")
        if len(rows[i]) != rank:
            raise errors.invalid(f"input {i} should contain {rank} elements, but got {len(rows[i])}")
    at = arrays.canonical_axis(int(concat_dim), rank, f"Concat dim is out of range: {int(concat_dim)} vs. {rank}")
    out, offset = [], 0
    for i, r in enumerate(rows):
        for j, size in enumerate(r):
            if j != at and size != rows[0][j]:
                raise errors.invalid(f"All dimensions except {at} must match. Input {i} has shape "
                                     f"[{' '.join(map(str, r))}] and doesn't match input 0 with shape "
                                     f"[{' '.join(map(str, rows[0]))}].")
        out.append(torch.tensor([offset if j == at else 0 for j in range(rank)], dtype=shape[0].dtype))
        offset += r[at]
    return out


@export("concat")
@dispatched
def concat(values: Any, axis: Any, name: str | None = "concat") -> Tensor:
    """Tensors joined along an axis.

    Args:
        values: Tensors of one type, whose sizes may differ along `axis` only.
        axis: Axis to join along; negative numbers count from the end.
        name: Name of the operation.

    Returns:
        A tensor.

    Raises:
        ValueError: if other sizes or the ranks differ.

    >>> tf.concat([[[1, 2]], [[3, 4]]], 0).numpy()
    array([[1, 2],
           [3, 4]], dtype=int32)
    """
    if not isinstance(values, (list, tuple)):
        values = [values]
    if len(values) == 1:
        with name_scope(name) as scope:
            at = convert(axis, dtypes.int32, "concat_dim")
            if at.static_dims is not None and at.static_dims != ():
                raise ValueError(f"Shape must be rank 0 but is rank {len(at.static_dims)}: the axis of a concat is a scalar")
            return identity(convert(values[0]), name=scope)
    return concat_v2(values, axis, name=name)


parallel_concat = op("ParallelConcat", "values: N * T -> output: T", "N: int >= 1, T: type, shape: shape").no_gradient()


@parallel_concat.shape
def _parallel_concat_shape(values, *, shape):
    dims = shape.static_dims
    if not known(dims):
        raise ValueError(f"shape attr must be fully defined: {show(dims)}")
    for v in values:
        if v is not None and not len(v):
            raise ValueError("The rank of the values must be greater than that of a scalar, 0.")
        if v is not None and v != (1, *dims[1:]):
            raise ValueError(f"All input shapes must be (1, {show(dims[1:])[1:]} but one is {show(v)}")
    return dims




@parallel_concat.kernel
def _parallel_concat_kernel(values):
    if any(not len(v.shape) for v in values):
        raise errors.invalid("The rank of the values must be greater than that of a scalar, 0.")
    return join(values, torch.tensor(0))


@export("parallel_stack")
@dispatched
def parallel_stack(values: Any, name: str | None = "parallel_stack") -> Tensor:
    """Tensors of one static shape stacked along a new first axis, each copied as it becomes ready.

    Args:
        values: Tensors of one static shape.
        name: Name of the operation.

    Returns:
        A tensor with one more dimension, the first.

    >>> with tf.Graph().as_default(), tf.compat.v1.Session() as sess:
    ...     print(sess.run(tf.parallel_stack([tf.constant([1, 2]), tf.constant([3, 4])])))
    [[1 2]
     [3 4]]
    """
    if context.executing_eagerly():
        raise RuntimeError("parallel_stack is not supported in eager execution: use tf.stack")
    with name_scope(name):
        first = convert(values[0])
        if not known(first.static_dims):
            raise ValueError(f"parallel_stack needs static shapes, got {first.shape}")
        expanded = [get("ExpandDims")(convert(v), 0) for v in values]
        return parallel_concat(expanded, shape=(len(values), *first.static_dims))


# -- stack, unstack --------------------------------------------------------------
pack_op = op("Pack", "values: N * T -> output: T", "N: int >= 1, T: type, axis: int = 0")
rules.batching.axis_attr[pack_op] = "axis"


@rules.regions.lower(pack_op)
def _pack_in_region(op, r):
    axis = op.attrs["axis"] % len(op.outputs[0].static_dims)
    return [r.joined([r.with_axis(r.view(t), axis) for t in op.inputs], axis)]


@pack_op.shape
def _pack_shape(values, *, axis):
    dims: Dims = None
    for v in values:
        dims = merge(dims, v)
    if dims is None:
        return None
    at = canonical(axis, len(dims) + 1)
    return dims[:at] + (len(values),) + dims[at:]


@pack_op.kernel
def _pack_kernel(values, *, axis):
    first = arrays.dims_of(values[0])
    for i, v in enumerate(values):
        if arrays.dims_of(v) != first:
            raise errors.invalid(f"Shapes of all inputs must match: values[0].shape = {arrays.show(first)} != "
                                 f"values[{i}].shape = {arrays.show(arrays.dims_of(v))}")
    rank = len(first) + 1
    return arrays.stack(values, arrays.canonical_axis(axis, rank, f"axis = {axis} not in [{-rank}, {rank})"))


@pack_op.value
def _pack_value(op, values):
    dims = op.outputs[0].static_dims
    if not op.inputs[0].dtype.is_integer or dims is not None and len(dims) != 1:
        return None
    parts = [values(i) for i in range(len(op.inputs))]
    return tuple(None if p is None else p[0] for p in parts)


pack_op.gradient(lambda op, grad: list(unpack_op(grad, num=op.attrs["N"], axis=op.attrs["axis"])))

unpack_op: OpDef = op("Unpack", "value: T -> output: num * T", "num: int >= 0, T: type, axis: int = 0")
rules.batching.axis_attr[unpack_op] = "axis"


@rules.regions.lower(unpack_op)
def _unpack_in_region(op, r):
    value, axis = r.view(op.inputs[0]), op.attrs["axis"]
    return [r.without_axis(r.part(value, axis, i, 1), axis) for i in range(len(op.outputs))]
rules.lists.elements[pack_op] = rules.lists.elements[unpack_op] = lambda op, i: op.inputs[0]


@unpack_op.shape
def _unpack_shape(value, *, num, axis):
    if value is None:
        return [None] * num
    at = canonical(axis, len(value))
    if value[at] not in (None, num):
        raise ValueError(f"Dimension must be {num} but is {value[at]}: {show(value)} cannot be unstacked into {num}")
    return [value[:at] + value[at + 1:]] * num


@unpack_op.kernel
def _unpack_kernel(value, *, num, axis):
    dims = arrays.dims_of(value)
    at = arrays.canonical_axis(axis, len(dims), f"axis = {axis} not in [{-len(dims)}, {len(dims)})")
    if dims[at] != num:
        raise errors.invalid(f"Input shape axis {at} must equal {num}, got shape {arrays.show(dims)}")
    if isinstance(value, torch.Tensor):
        return list(value.unbind(at))
    return [arrays.boxed(v) for v in np.moveaxis(value, at, 0)]


unpack_op.gradient(lambda op, *grads: pack_op(list(grads), axis=op.attrs["axis"]))


@export("stack")
@dispatched
def stack(values: Any, axis: int = 0, name: str | None = "stack") -> Tensor:
    """Tensors of one shape joined along a new axis.

    Args:
        values: Tensors of one type and shape.
        axis: Position of the new axis in the result.
        name: Name of the operation.

    Returns:
        A tensor with one axis more than each of `values`.

    Raises:
        ValueError: if shapes differ or `axis` is out of range.

    >>> tf.stack([[1, 2], [3, 4]], axis=1).numpy()
    array([[1, 3],
           [2, 4]], dtype=int32)
    """
    if axis == 0:
        try:
            return convert(values, name=name)       # a constant, when the values are
        except (TypeError, ValueError):
            pass                                    # the op raises the error
    dims = convert(values[0]).static_dims
    if dims is not None and not -len(dims) - 1 <= axis <= len(dims):
        raise ValueError(f"Argument `axis` = {axis} not in range [{-len(dims) - 1}, {len(dims) + 1})")
    return pack_op(values, axis=axis, name=name)


@export("unstack")
@dispatched
def unstack(value: Any, num: int | None = None, axis: int = 0, name: str | None = "unstack") -> list:
    """The slices of a tensor along an axis, as a list.

    Args:
        value: Tensor of rank 1 or more.
        num: Size of `axis`, if the static shape does not have it.
        axis: Axis to take apart.
        name: Name of the operation.

    Returns:
        A list of tensors with one axis less.

    Raises:
        ValueError: if the size of `axis` is unknown and `num` is None.

    >>> x, y = tf.unstack([[1, 2], [3, 4]])
    >>> x.numpy(), y.numpy()
    (array([1, 2], dtype=int32), array([3, 4], dtype=int32))
    """
    if num is None:
        value = convert(value)
        dims = value.static_dims
        if dims is not None:
            if not -len(dims) <= axis < len(dims):
                raise ValueError(f"Argument `axis` = {axis} not in range [{-len(dims)}, {len(dims)})")
            num = dims[axis]
        if num is None:
            raise ValueError(f"Cannot infer argument `num` from shape {value.shape}")
    return unpack_op(value, num=num, axis=axis, name=name)


# -- split --------------------------------------------------------------
split_op = op("Split", "split_dim: int32, value: T -> output: num_split * T", "num_split: int >= 1, T: type")
split_v = op("SplitV", "value: T, size_splits: Tlen, split_dim: int32 -> output: num_split * T",
             "num_split: int >= 1, T: type, Tlen: type in {int8 index} = int64")
rules.batching.axis.update({split_op: 0, split_v: 2})


# -- parts that are known of a stack whose other parts are not (get_static_value with partial=True) ---------------------------
def _partial_stack(tensor: Any, value_of: Any) -> np.ndarray | None:
    if tensor.op.attrs["axis"] != 0:
        return None
    out = np.empty([len(tensor.op.inputs)], object)
    out[:] = [value_of(t) for t in tensor.op.inputs]
    return None if all(v is None for v in out) else out


def _partial_part(tensor: Any, value_of: Any) -> Any:
    known_parts = value_of(tensor.op.inputs[0]) if tensor.op.attrs["axis"] == 0 else None
    return None if known_parts is None else known_parts[tensor.value_index]


def _partial_split(tensor: Any, value_of: Any) -> np.ndarray | None:
    axis, parts = value_of(tensor.op.inputs[0]), value_of(tensor.op.inputs[1])
    if axis is None or int(axis) != 0 or parts is None:
        return None
    return np.split(parts, len(tensor.op.outputs))[tensor.value_index]


PARTIAL_RULES.update({pack_op: _partial_stack, unpack_op: _partial_part, split_op: _partial_split})
rules.raw_ops.arguments[split_op] = rules.raw_ops.arguments[split_v] = {"split_dim": "axis"}

rules.algebra.divides.add(split_op)


@rules.regions.lower(split_op)
def _split_in_region(op, r):
    axis, value, num = int(r.constant(op.inputs[0])), r.view(op.inputs[1]), op.attrs["num_split"]
    size = value.dims[axis] // num
    return [r.part(value, axis, i * size, size) for i in range(num)]


@rules.regions.lower(split_v)
def _split_v_in_region(op, r):
    value, axis = r.view(op.inputs[0]), int(r.constant(op.inputs[2]))
    sizes = [t.static_dims[axis] for t in op.outputs]
    return [r.part(value, axis, sum(sizes[:i]), size) for i, size in enumerate(sizes)]


rules.regions.views |= {split_op, split_v, unpack_op}


@split_op.shape
def _split_shape(split_dim, value, *, num_split, c):
    at = _known_axis(value, c)
    if at is None:
        return _unknown_parts(value, num_split)
    size = value[at]
    if size is not None and size % num_split:
        raise ValueError(f"Number of ways to split should evenly divide the split dimension: {show(value)} cannot be "
                         f"split into {num_split} along axis {at}")
    return [value[:at] + (None if size is None else size // num_split,) + value[at + 1:]] * num_split


def _known_axis(value: Dims, c: Any) -> int | None:
    """The axis of a split, counted from the front; None if the rank or the axis is unknown."""
    axis = c.const("split_dim")
    return None if value is None or axis is None else canonical(int(axis), len(value))


def _unknown_parts(value: Dims, count: int) -> list[Dims]:
    """The shapes of the parts of a split along an unknown axis."""
    return [None if value is None else (None,) * len(value)] * count


def _split_axis(split_dim: Any, rank: int) -> int:
    if split_dim.numel() != 1:
        raise errors.invalid("split_dim must have exactly one element.")
    at = int(split_dim)
    return arrays.canonical_axis(at, rank, f"-input rank({-rank}) <= split_dim < input rank ({rank}), but got {at}")


def cut(value: Any, sizes: list[int], axis: int) -> list:
    """Views of `value`, `sizes` long along an axis."""
    if isinstance(value, torch.Tensor):
        return list(value.split(sizes, axis))
    return np.split(value, np.cumsum(sizes)[:-1], axis)


@split_op.kernel
def _split_kernel(split_dim, value, *, num_split):
    dims = arrays.dims_of(value)
    at = _split_axis(split_dim, len(dims))
    if dims[at] % num_split:
        raise errors.invalid(f"Number of ways to split should evenly divide the split dimension, but got split_dim "
                             f"{at} (size = {dims[at]}) and num_split {num_split}")
    return cut(value, [dims[at] // num_split] * num_split, at)


@rules.program.prepare(split_op)
def _split_prepare(known):
    axis, dims, num = known.const(0), known.dims(1), known.attrs["num_split"]
    if axis is None or dims is None or not known.floating(1):
        return None
    at = canonical(int(axis), len(dims))
    size = dims[at] // num
    return (lambda split_dim, value: value.unsafe_split(size, at)) if size and not dims[at] % num else None


@split_v.shape
def _split_v_shape(value, size_splits, split_dim, *, num_split, c):
    at = _known_axis(value, c)
    if at is None:
        return _unknown_parts(value, num_split)
    given = c.const("size_splits")
    if given is None:
        return [value[:at] + (None,) + value[at + 1:]] * num_split
    sizes = given.reshape(-1).tolist()
    if len(sizes) != num_split:
        raise ValueError(f"Length of size_splits should be equal to num_outputs: {len(sizes)} and {num_split}")
    _check_sizes(sizes, ValueError)
    rest = sum(s for s in sizes if s >= 0)
    if sizes.count(-1) == 1 and value[at] is not None and rest <= value[at]:
        sizes = [value[at] - rest if s == -1 else s for s in sizes]
    if value[at] is not None and (-1 not in sizes and sum(sizes) != value[at] or rest > value[at]):
        raise ValueError(f"can't split axis of size {value[at]} into pieces of size {sizes}")
    return [value[:at] + (None if s == -1 else s,) + value[at + 1:] for s in sizes]


def _check_sizes(sizes: list[int], error: Any) -> None:
    for i, s in enumerate(sizes):
        if s < -1:
            raise error(f"Split size at index {i} must be >= 0. Got: {s}")
    if sizes.count(-1) > 1:
        raise error("There can only be one -1 in the input.")


@split_v.kernel
def _split_v_kernel(value, size_splits, split_dim, *, num_split):
    dims = arrays.dims_of(value)
    at = _split_axis(split_dim, len(dims))
    sizes = arrays.ints(size_splits)
    if len(sizes) != num_split:
        raise errors.invalid(f"size of the split_tensor must be 1-D and have the same elements as outputs: got "
                             f"{len(sizes)} sizes for {num_split} outputs")
    _check_sizes(sizes, errors.invalid)
    rest = sum(s for s in sizes if s != -1)
    if -1 in sizes and rest <= dims[at]:
        sizes = [dims[at] - rest if s == -1 else s for s in sizes]
    if sum(sizes) != dims[at] or min(sizes) < 0:
        raise errors.invalid(f"Determined shape must either match input shape along split_dim exactly if fully "
                             f"specified, or be less than the size of the input along split_dim if not fully "
                             f"specified.  Got: "
                             f"{sum(sizes)} for {dims[at]}")
    return cut(value, sizes, at)


@rules.program.prepare(split_v)
def _split_v_prepare(known):
    dims, given, axis = known.dims(0), known.const(1), known.const(2)
    if dims is None or given is None or axis is None or not known.floating():
        return None
    at, sizes = canonical(int(axis), len(dims)), given.reshape(-1).tolist()
    if min(sizes) < 0 or sum(sizes) != dims[at] or len(sizes) != known.attrs["num_split"]:
        return None
    return lambda value, size_splits, split_dim: value.unsafe_split_with_sizes(sizes, at)


split_op.gradient(lambda op, *grads: (None, _rejoined(grads, op.inputs[0])))
split_v.gradient(lambda op, *grads: (_rejoined(grads, op.inputs[2]), None, None))


def _rejoined(grads: tuple, axis: Tensor) -> Tensor:
    return concat_v2(list(grads), axis) if len(grads) > 1 else grads[0]


@export("split")
@dispatched
def split(value: Any, num_or_size_splits: Any, axis: Any = 0, num: int | None = None,
          name: str | None = "split") -> list:
    """Splits a tensor along an axis, into so many equal parts or into parts of the given sizes (one may be -1).

    Args:
        value: Tensor to divide.
        num_or_size_splits: Number of equal parts, or a list with the size of each part.
        axis: Axis to divide.
        num: Number of parts, if `num_or_size_splits` is a tensor without a static shape.
        name: Name of the operation.

    Returns:
        A list of tensors.

    Raises:
        ValueError: if the axis is not divisible into equal parts, or the sizes do not add up to it.

    >>> a, b = tf.split([1, 2, 3, 4], 2)
    >>> a.numpy(), b.numpy()
    (array([1, 2], dtype=int32), array([3, 4], dtype=int32))
    >>> [part.shape.as_list() for part in tf.split(tf.zeros([2, 6]), [1, 2, -1], axis=1)]
    [[2, 1], [2, 2], [2, 3]]
    """
    if isinstance(num_or_size_splits, (int, np.integer)) or hasattr(num_or_size_splits, "__index__") \
            and type(num_or_size_splits).__name__ == "Dimension":
        return split_op(axis, value, num_split=int(num_or_size_splits), name=name)
    sizes = convert(num_or_size_splits)
    if sizes.static_dims == ():
        raise ValueError("Rank-0 tensors are not supported as the num_or_size_splits argument to split. Argument "
                         f"provided: {num_or_size_splits}")
    if num is None:
        num = sizes.static_dims[0] if sizes.static_dims is not None else None
        if num is None:
            raise ValueError(f"Cannot infer argument `num` from shape {sizes.shape}")
    return split_v(value, sizes, axis, num_split=num, name=name)


# -- tile, repeat --------------------------------------------------------------
tile_op = op("Tile", "input: T, multiples: Tmultiples -> output: T", "T: type, Tmultiples: type in {index} = int32")
rules.batching.rule[tile_op] = lambda op, rows, input, multiples: None if multiples.stacked else [
    tile_op(input.tensor, rows.prefixed(multiples, [1]))]


@rules.regions.lower(tile_op)
def _tile_in_region(op, r):
    value, times = r.view(op.inputs[0]), r.constant(op.inputs[1]).tolist()
    apart = r.reshaped(value, [n for d in value.dims for n in (1, d)])
    return [r.reshaped(r.repeated(apart, [n for d, m in zip(value.dims, times, strict=True) for n in (m, d)]),
                       op.outputs[0].static_dims)]


@tile_op.shape
def _tile_shape(input, multiples, *, c):
    (n,) = rank_is(multiples, 1)
    times = c.dims("multiples")
    rank = len(input) if input is not None else n
    if rank is None:
        return None
    dims = rank_is(input, rank)
    if times is None:
        return (None,) * rank
    if len(times) != rank:
        raise ValueError(f"Shape must be rank {len(times)} but is rank {rank}: multiples {times} for {show(input)}")
    return tuple(None if d is None or m is None else d * m for d, m in zip(dims, times, strict=True))


@tile_op.kernel
def _tile_kernel(input, multiples):
    dims, times = arrays.dims_of(input), arrays.ints(multiples)
    if multiples.dim() != 1:
        raise errors.invalid(f"Expected multiples to be 1-D, but got shape {arrays.show(multiples.shape)}")
    if len(times) != len(dims):
        raise errors.invalid(f"Expected multiples argument to be a vector of length {len(dims)} but got length "
                             f"{len(times)}")
    for i, m in enumerate(times):
        if m < 0:
            raise errors.invalid(f"Expected multiples[{i}] >= 0, but got {m}")
    if all(m == 1 for m in times):
        return input
    sizes = [d * m for d, m in zip(dims, times, strict=True)]
    if math.prod(sizes) >> 62:
        arrays.checked_dims(torch.tensor(sizes, dtype=torch.int64))
    return arrays.repeat(input, times)


@tile_op.gradient
def _tile_gradient(op, grad):
    x, multiples = op.inputs
    grad = convert(grad)
    times = constant_value(multiples)
    if known(x.static_dims) and times is not None:
        pairs: Any = [int(n) for pair in zip(times, x.static_dims, strict=True) for n in pair]
        axes: Any = np.arange(0, len(pairs), 2, dtype=np.int32)
    else:
        shape = get("Shape")(x, out_type=multiples.dtype)
        pairs = reshape_op(get("Transpose")(pack_op([multiples, shape]), [1, 0]), [-1])
        axes = get("Range")(0, get("Size")(pairs), 2)
    out = get("Sum")(reshape_op(grad, pairs), axes)
    return (out if known(x.static_dims) else reshape_op(out, shape_of(x))), None


tile_grad = op("TileGrad", "input: T, multiples: int32 -> output: T", "T: type").no_gradient()


@tile_grad.shape
def _tile_grad_shape(input, multiples, *, c):
    (n,) = rank_is(multiples, 1)
    rank = len(input) if input is not None else n
    return None if rank is None else (None,) * rank


@tile_grad.kernel
def _tile_grad_kernel(input, multiples):
    dims, times = arrays.dims_of(input), arrays.ints(multiples)
    if multiples.dim() != 1 or len(times) != len(dims):
        raise errors.invalid(f"Expected multiples argument to be a vector of length {len(dims)}, got {times}")
    if any(m < 1 or d % m for d, m in zip(dims, times, strict=True)):
        raise errors.invalid(f"Expected multiples that divide {arrays.show(dims)}, got {times}")
    pairs = [n for d, m in zip(dims, times, strict=True) for n in (m, d // m)]
    return input.reshape(pairs).sum(tuple(range(0, len(pairs), 2)), dtype=input.dtype) if dims else input


@export("tile", v1=["manip.tile"])
@dispatched
def tile(input: Any, multiples: Any, name: str | None = None) -> Tensor:
    """A tensor repeated `multiples[i]` times along axis i.

    Args:
        input: Tensor.
        multiples: How often to repeat along each axis.
        name: Name of the operation.

    Returns:
        A tensor of the type of `input`.

    >>> tf.tile([[1, 2]], [2, 2]).numpy()
    array([[1, 2, 1, 2],
           [1, 2, 1, 2]], dtype=int32)
    """
    return tile_op(input, multiples, name=name)
