"""Slices: `tensor[...]`, tf.slice and tf.strided_slice. The meaning of a specification is in `kernels.strided`."""
from __future__ import annotations

import builtins
import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors
from penstock._src.base.api import export
from penstock._src.base.dispatch import by_dispatchers
from penstock._src.base.static_shape import Dimension, Dims, rank_is
from penstock._src.graph.constant import constant_value, partial_values
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.kernels import arrays, reuse, strided
from penstock._src.kernels.strided import MASK_NAMES, MASKS
from penstock._src.ops import rules
from penstock._src.ops.array.array import known, shape_of
from penstock._src.ops.array.concat import stack
from penstock._src.ops.array.select import boolean_mask
from penstock._src.ops.composite import dispatched
from penstock._src.ops.math.math import unbroadcast
from penstock._src.ops.registry import get, internal, op

# -- Slice ------------------------------------------------------------------------------------------------------------
slice_op = op("Slice", "input: T, begin: Index, size: Index -> output: T", "T: type, Index: type in {index}")


@rules.batching.rule(slice_op)
def _slice_batching(op, rows, input, begin, size):
    if begin.stacked or size.stacked:
        return None
    return [slice_op(input.tensor, rows.prefixed(begin, [0]), rows.prefixed(size, [-1]))]



@slice_op.shape
def _slice_shape(input, begin, size, *, c):
    (n,), (m,) = rank_is(begin, 1), rank_is(size, 1)
    if n is not None and m is not None and n != m:
        raise ValueError(f"begin and size must have one length, but have {n} and {m}")
    starts, sizes = partial_values(c.input("begin")), partial_values(c.input("size"))
    rank = len(input) if input is not None else n if n is not None else m
    if rank is None:
        return None
    dims = rank_is(input, rank)
    if starts is None or sizes is None:
        return (None,) * rank
    rank_is(input, len(starts))
    return tuple(_slice_size(*triple) for triple in zip(dims, starts, sizes, strict=True))


def _slice_size(dim: int | None, start: int | None, size: int | None) -> int | None:
    if size is None:
        return None
    if size == -1:
        return None if dim is None or start is None else dim - start
    if dim is not None and start is not None and not 0 <= start <= start + size <= dim:
        raise ValueError(f"Slice of {size} from {start} is not within a dimension of size {dim}")
    return size


@rules.regions.lower(slice_op)
def _slice_in_region(op, r):
    view = r.view(op.inputs[0])
    for axis, (begin, size) in enumerate(zip(r.constant(op.inputs[1]).tolist(), op.outputs[0].static_dims, strict=True)):
        view = r.part(view, axis, begin, size)
    return [view]


@slice_op.kernel
def _slice_kernel(input, begin, size):
    dims = arrays.dims_of(input)
    starts, sizes = begin.tolist(), size.tolist()
    if begin.dim() != 1 or size.dim() != 1 or not len(starts) == len(sizes) == len(dims):
        raise errors.invalid(f"Expected begin and size arguments to be 1-D tensors of size {len(dims)}, but got shapes "
                             f"{arrays.show(begin.shape)} and {arrays.show(size.shape)} instead.")
    index = []
    for i, (d, b, s) in enumerate(zip(dims, starts, sizes, strict=True)):
        if not 0 <= b <= d:
            raise errors.invalid(f"Expected begin[{i}] in [0, {d}], but got {b}")
        s = d - b if s == -1 else s
        if not 0 <= s <= d - b:
            raise errors.invalid(f"Expected size[{i}] in [0, {d - b}], but got {s}")
        index.append(builtins.slice(b, b + s))
    return arrays.part(input, tuple(index))


@slice_op.gradient
def _slice_gradient(op, grad):
    x, begin = op.inputs[:2]
    start = constant_value(begin)
    taken = op.outputs[0].static_dims
    if start is not None and known(x.static_dims) and known(taken):
        rest = [d - b - s for d, b, s in zip(x.static_dims, start.tolist(), taken, strict=True)]
        paddings: Any = np.stack([start, np.array(rest, start.dtype)], 1).reshape(len(rest), 2)
    else:
        column = get("Pack")([get("Rank")(x), 1])
        shape = get("Shape")(x, out_type=begin.dtype)
        after = get("Sub")(get("Sub")(shape, begin), get("Shape")(op.outputs[0], out_type=begin.dtype))
        paddings = get("ConcatV2")([get("Reshape")(begin, column), get("Reshape")(after, column)], 1)
    return get("Pad")(grad, paddings), None, None


@export("slice")
@dispatched
def slice(input_: Any, begin: Any, size: Any, name: str | None = None) -> Tensor:
    """The part of a tensor that starts at `begin` and has `size` (-1: all the rest).

    Args:
        input_: Tensor.
        begin: First index along each axis.
        size: Number of elements along each axis.
        name: Name of the operation.

    Returns:
        A tensor of the type of `input_`. `input_[2:5]` does the same for fixed indices.

    >>> tf.slice([[1, 2], [3, 4]], [1, 0], [1, -1]).numpy()
    array([[3, 4]], dtype=int32)
    """
    return slice_op(input_, begin, size, name=name)


# -- StridedSlice -----------------------------------------------------------------------------------------------------
_INPUTS = "begin: Index, end: Index, strides: Index"
_ATTRS = f"T: type, Index: type in {{index}}, {MASKS}"

strided_slice_op = op("StridedSlice", f"input: T, {_INPUTS} -> output: T",
                      f"T: type, Index: type in {{int16 int32 int64}}, {MASKS}")
rules.rows.parts.add(strided_slice_op)
strided_slice_grad = op("StridedSliceGrad", f"shape: Index, {_INPUTS}, dy: T -> output: T", _ATTRS)
_MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")


def _shifted_masks(op: Any) -> dict[str, int]:
    """The masks for stacked rows: the whole of their axis, before the others."""
    return {m: op.attrs[m] << 1 | (m in _MASKS[:2]) for m in _MASKS}


@rules.batching.rule(strided_slice_op)
def _strided_slice_batching(op, rows, input, begin, end, strides):
    if not (begin.stacked or end.stacked or strides.stacked):
        return rows.again(op, [input.tensor, rows.prefixed(begin, [0]), rows.prefixed(end, [0]), rows.prefixed(strides, [1])],
                          **_shifted_masks(op))
    if [op.attrs[m] for m in _MASKS] != [0, 0, 0, 0, 1] or op.inputs[1].static_dims != (1,) or not begin.stacked:
        return None
    at = get("Reshape")(begin.tensor, np.array([-1], np.int32))            # row i takes element at[i], as in x[i]
    size = get("Cast")(get("Shape")(input.tensor)[int(input.stacked)], DstT=at.dtype.base_dtype)
    at = get("SelectV2")(get("Less")(at, get("ZerosLike")(at)), at + size, at)
    return [get("GatherV2")(input.tensor, at, np.int32(input.stacked), batch_dims=int(input.stacked))]


@rules.batching.rule(strided_slice_grad)
def _strided_slice_grad_batching(op, rows, shape, begin, end, strides, dy):
    if shape.stacked or begin.stacked or end.stacked or strides.stacked:
        return None
    return rows.again(op, [rows.shape(shape.tensor), rows.prefixed(begin, [0]), rows.prefixed(end, [0]),
                           rows.prefixed(strides, [1]), dy.tensor], **_shifted_masks(op))


tensor_update = op("TensorStridedSliceUpdate", f"input: T, {_INPUTS}, value: T -> output: T", _ATTRS)


def _plan(rank: int, c: Any, begin: Dims, end: Dims, strides: Dims, masks: dict) -> list | None:
    """The plan as far as it is known at build time; None if not even its length is."""
    n = next((rank_is(d, 1)[0] for d in (begin, end, strides) if d is not None and rank_is(d, 1)[0] is not None), None)
    if n is None:
        return None
    values = (partial_values(c.input(name)) for name in ("begin", "end", "strides"))
    low, high, steps = ((None,) * n if v is None else v for v in values)
    try:
        return strided.plan(rank, low, high, steps, **masks)
    except errors.InvalidArgumentError as e:
        raise ValueError(e.message) from None


def _sliced(input: Dims, begin: Dims, end: Dims, strides: Dims, c: Any, masks: dict) -> Dims:
    for d in (begin, end, strides):
        rank_is(d, 1)
    parts = _plan(len(input), c, begin, end, strides, masks) if input is not None else None
    if parts is None or input is None:
        return None
    try:
        return strided.sliced_dims(input, parts)
    except errors.InvalidArgumentError as e:
        raise ValueError(e.message) from None


def _part_in_region(op, r, view, bounds):
    """The part of a view that constant bounds select."""
    begin, end, strides = (r.constant(b).tolist() for b in bounds)
    parts = strided.plan(len(view.dims), begin, end, strides, **_masks(op))
    index, flips = strided.index_of(view.dims, parts)
    if flips:
        raise r.Unfit("goes backwards")
    at = 0
    for i in index:
        if i is None:
            view = r.with_axis(view, at)
        elif isinstance(i, int):
            view = r.without_axis(r.part(view, at, i, 1), at)
            continue
        else:
            view = r.part(view, at, i.start, len(range(*i.indices(view.dims[at]))), i.step or 1)
        at += 1
    return view


@rules.regions.lower(strided_slice_op)
def _strided_slice_in_region(op, r):
    return [_part_in_region(op, r, r.view(op.inputs[0]), op.inputs[1:])]


@rules.regions.lower(strided_slice_grad)
def _strided_slice_grad_in_region(op, r):
    to = r.filled(op.outputs[0].static_dims, 0.0, r.kind(op.outputs[0]))
    part, dy = _part_in_region(op, r, to, op.inputs[1:4]), r.view(op.inputs[4])
    if part.dims != dy.dims:
        raise r.Unfit("another shape")
    r.copy(part, dy)
    return [to]


rules.regions.views |= {slice_op, strided_slice_op}


@strided_slice_op.shape
def _strided_slice_shape(input, begin, end, strides, *, c, begin_mask, end_mask, ellipsis_mask, new_axis_mask,
                         shrink_axis_mask):
    return _sliced(input, begin, end, strides, c, dict(zip(MASK_NAMES, (
        begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask), strict=True)))


@strided_slice_op.kernel
def _strided_slice_kernel(input, begin, end, strides, *, begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask):
    return strided.read(input, begin, end, strides, begin_mask=begin_mask, end_mask=end_mask,
                        ellipsis_mask=ellipsis_mask, new_axis_mask=new_axis_mask, shrink_axis_mask=shrink_axis_mask)


@rules.program.prepare(strided_slice_op)
def _strided_slice_prepare(known):
    rank, bounds = known.rank(0), [known.const(i) for i in (1, 2, 3)]
    if rank is None or any(b is None or b.ndim != 1 for b in bounds) or not known.plain():
        return None
    (begin, end, strides), masks = (b.tolist() for b in bounds), _masks(known.op)
    dims, parts = known.dims(0), strided.plan(rank, begin, end, strides, **masks)
    if dims is None:
        return _of_any_size(strided.index_of_any(parts), (begin, end, strides), masks)
    index, flips = strided.index_of(dims, parts)
    return None if flips else lambda input, begin, end, strides: input[index]


def _of_any_size(index: tuple | None, bounds: tuple, masks: dict) -> Callable | None:
    """A kernel for an index that holds for any size; where a position does not exist, the plan for that size raises."""
    if index is None:
        return None

    def run(input, begin, end, strides):
        try:
            return input[index]
        except IndexError:
            strided.located(arrays.dims_of(input), *bounds, **masks)
            raise
    return run


@strided_slice_op.value
def _strided_slice_value(op, values):
    x = op.inputs[0]
    if not x.dtype.is_integer or x.static_dims is None or len(x.static_dims) != 1:
        return None
    given, begin, end, strides = (values(i) for i in range(4))
    if given is None or any(b is None or None in b for b in (begin, end, strides)):
        return None
    try:
        parts = strided.plan(1, begin, end, strides, **_masks(op))
        parts = [p for p in parts if p.axis is not None]
        if len(parts) != 1 or len(op.outputs[0].static_dims or ()) > 1:
            return None
        first, count = parts[0].bounds(len(given))
    except errors.InvalidArgumentError:
        return None
    step = parts[0].stride
    assert step is not None                       # known, as the bounds are
    return tuple(given[first + i * step] for i in range(count))


def _masks(op: Any) -> dict[str, int]:
    return {n: op.attrs[n] for n in MASK_NAMES}


@strided_slice_op.gradient
def _strided_slice_gradient(op, grad):
    x, begin, end, strides = op.inputs
    if begin.dtype == dtypes.int16:
        begin, end, strides = (get("Cast")(b, DstT=dtypes.int32) for b in (begin, end, strides))
    return strided_slice_grad(shape_of(x, begin.dtype), begin, end, strides, grad, **_masks(op)), None, None, None


strided_slice_grad.shape(lambda shape, begin, end, strides, dy, *, c: c.dims("shape"))


@strided_slice_grad.kernel
def _strided_slice_grad_kernel(shape, begin, end, strides, dy, *, begin_mask, end_mask, ellipsis_mask, new_axis_mask,
                               shrink_axis_mask):
    out = arrays.zeros(arrays.checked_dims(shape), dy)
    masks = dict(zip(MASK_NAMES, (begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask), strict=True))
    part, flips = strided.strided_view(out, begin, end, strides, **masks)
    if arrays.dims_of(part) != arrays.dims_of(dy):
        raise errors.invalid(f"shape of dy was {arrays.show(arrays.dims_of(dy))} instead of "
                             f"{arrays.show(arrays.dims_of(part))}")
    part[...] = arrays.flip(dy, flips)
    return out


@rules.program.prepare(strided_slice_grad)
def _strided_slice_grad_prepare(known):
    shape, *bounds = [known.const(i) for i in range(4)]
    if shape is None or any(b is None or b.ndim != 1 for b in bounds) or not known.floating(4):
        return None
    dims, slot = tuple(shape.tolist()), known.dims(4)
    begin, end, strides = (b.tolist() for b in bounds)
    index, flips = strided.index_of(dims, strided.plan(len(dims), begin, end, strides, **_masks(known.op)))
    if flips or slot is None or min(dims, default=0) < 0 or slot != _selected(dims, index):
        return None

    def run(shape, begin, end, strides, dy):
        out = torch.zeros(dims, dtype=dy.dtype, device=dy.device)
        out[index] = dy
        return out
    return run


def _rows_among_zeros(op: Any, fed: Any) -> tuple[int, int] | None:
    """Which rows a gradient of a slice fills, if it fills whole rows, in sequence."""
    if any(not t.op.opdef.constant or id(t) in fed for t in op.inputs[:4]):
        return None
    shape, low, high, strides = (t.op.attrs["value"].reshape(-1).tolist() for t in op.inputs[:4])
    try:
        index, flips = strided.index_of(tuple(shape), strided.plan(len(shape), low, high, strides, **_masks(op)))
    except errors.InvalidArgumentError:
        return None
    if flips or not shape or any(not isinstance(i, builtins.slice) for i in index):
        return None
    begin, end, step = index[0].indices(shape[0])
    slot = (end - begin, *shape[1:])
    return (begin, end) if step == 1 and op.inputs[4].static_dims == slot == _selected(tuple(shape), index) else None


rules.fusion.among_zeros[strided_slice_grad] = _rows_among_zeros


def _selected(dims: tuple, index: tuple) -> tuple:
    """The shape of x[index] for an x of shape `dims`."""
    return tuple(torch.empty(()).expand(dims)[index].shape)


@strided_slice_grad.gradient
def _strided_slice_grad_gradient(op, grad):
    return None, None, None, None, strided_slice_op(grad, *op.inputs[1:4], **_masks(op))


tensor_update.shape(lambda input, begin, end, strides, value: input)


# -- one index that a loop computes ------------------------------------------------------------------------------------
# x[:, t] with a counter t: the index is a number, and gradients are added to the part that was read.
select_at = internal("_SelectAt", "input: T, index: Index -> output: T", "T: type, Index: type in {index}, axis: int")
add_at = internal("_AddAt", "total: T, index: Index, part: T -> output: T", "T: type, Index: type in {index}, axis: int")
rules.numbers.inputs[select_at] = rules.numbers.inputs[add_at] = frozenset(["index"])
rules.program.consumes[add_at] = frozenset(["total"])


def _at(index: Any, dims: Any, axis: int) -> int:
    """The index, which is a number, or the one of this axis among others."""
    i = int(index[axis] if isinstance(index, torch.Tensor) and index.ndim else index)
    if not -dims[axis] <= i < dims[axis]:
        raise errors.invalid(f"slice index {i} of dimension {axis} out of bounds.")
    return i


@select_at.kernel
def _select_at_kernel(input, index, *, axis):
    if type(index) is int and -input.shape[axis] <= index < input.shape[axis]:
        return input.select(axis, index)
    return input.select(axis, _at(index, input.shape, axis))


def _references(total: Any, index: Any, part: Any, *, axis: int) -> int:
    return sys.getrefcount(total)


_GIVEN = functools.partial(_references, axis=0)(object(), 0, 0) if sys.version_info < (3, 14) else 0


@add_at.kernel
def _add_at_kernel(total, index, part, *, axis):
    if sys.getrefcount(total) > _GIVEN or not reuse.owned(0, total):
        total = total.clone(memory_format=torch.contiguous_format)
    total.select(axis, _at(index, total.shape, axis)).add_(part)
    return total


def _one_index(op: Any, loop: Any, begin: Any, strides: Any) -> tuple[int, Any] | None:
    """The axis and the index of a slice that takes one element along one axis, and all along the others; or None."""
    steps = loop.constant(strides)
    if steps is None or (steps != 1).any() or loop.constant(begin) is not None or \
            op.attrs["ellipsis_mask"] or op.attrs["new_axis_mask"]:
        return None
    axes = [i for i in range(len(steps)) if op.attrs["shrink_axis_mask"] >> i & 1]
    others = (i for i in range(len(steps)) if i not in axes)
    if len(axes) != 1 or not all(op.attrs["begin_mask"] >> i & op.attrs["end_mask"] >> i & 1 for i in others):
        return None
    computed = id(begin) not in loop.step.fed and begin.op.opdef is get("Pack")
    return axes[0], begin.op.inputs[axes[0]] if computed else begin


# x[:, a:b] with computed bounds: they are numbers
part_at = internal("_PartAt", "input: T, begin: Index, end: Index -> output: T", "T: type, Index: type in {index}, axis: int")
rules.numbers.inputs[part_at] = frozenset(["begin", "end"])


@part_at.kernel
def _part_at_kernel(input, begin, end, *, axis):
    return input[(builtins.slice(None),) * axis + (builtins.slice(int(begin), int(end)),)]


def _one_part(op: Any, loop: Any) -> tuple[int, Any, Any] | None:
    """The axis and the bounds of a slice whose bounds along one axis are computed, and which takes all along others."""
    _, begin, end, strides = op.inputs
    steps, pack = loop.constant(strides), get("Pack")
    if steps is None or (steps != 1).any() or op.attrs["ellipsis_mask"] or op.attrs["new_axis_mask"] or \
            op.attrs["shrink_axis_mask"] or any(id(t) in loop.step.fed or t.op.opdef is not pack for t in (begin, end)):
        return None
    both = op.attrs["begin_mask"] & op.attrs["end_mask"]
    axes = [i for i in range(len(steps)) if not both >> i & 1]
    if len(axes) != 1 or (op.attrs["begin_mask"] | op.attrs["end_mask"]) >> axes[0] & 1:
        return None
    return axes[0], begin.op.inputs[axes[0]], end.op.inputs[axes[0]]


def _part_in_loop(op: Any, loop: Any) -> None:
    found = _one_part(op, loop)
    if found is not None:
        axis, begin, end = found
        x = op.inputs[0]
        op.opdef, op.counts = part_at, (None, None, None)
        op.attrs = {"T": x.dtype, "Index": begin.dtype, "axis": axis}
        op.set_inputs([x, begin, end])


@rules.loops.improve(strided_slice_op)
def _strided_slice_in_loop(op, loop):
    if op.control_inputs or op.inputs[0].dtype.torch is None:
        return
    found = _one_index(op, loop, op.inputs[1], op.inputs[3])
    if found is None:
        _part_in_loop(op, loop)
    else:
        axis, index = found
        x = op.inputs[0]
        op.opdef, op.counts = select_at, (None, None)
        op.attrs = {"T": x.dtype, "Index": index.dtype, "axis": axis}
        op.set_inputs([x, index])


@rules.loops.adds_to_part(strided_slice_grad)
def _add_to_slice(op, total, put, loop):
    found = _one_index(put, loop, put.inputs[1], put.inputs[3])
    dims, part = op.outputs[0].static_dims, put.inputs[4]
    if found is None or dims is None or None in dims or total.static_dims != dims or not total.dtype.is_floating or \
            part.static_dims != (*dims[:found[0]], *dims[found[0] + 1:]):
        return False
    op.opdef, op.counts = add_at, (None, None, None)
    op.attrs = {"T": total.dtype, "Index": found[1].dtype, "axis": found[0]}
    op.set_inputs([total, found[1], part])
    return True


@tensor_update.kernel
def _tensor_update_kernel(input, begin, end, strides, value, *, begin_mask, end_mask, ellipsis_mask, new_axis_mask,
                          shrink_axis_mask):
    out = arrays.copy(input)
    strided.write(out, begin, end, strides, value, begin_mask=begin_mask, end_mask=end_mask,
                  ellipsis_mask=ellipsis_mask, new_axis_mask=new_axis_mask, shrink_axis_mask=shrink_axis_mask)
    return out


@tensor_update.gradient
def _tensor_update_gradient(op, grad):
    _, begin, end, strides, value = op.inputs
    part = strided_slice_op(grad, begin, end, strides, **_masks(op))
    outside = tensor_update(grad, begin, end, strides, get("ZerosLike")(part), **_masks(op))
    return outside, None, None, None, unbroadcast(part, value, part)


@export("strided_slice")
@dispatched
def strided_slice(input_: Any, begin: Any, end: Any, strides: Any = None, begin_mask: int = 0, end_mask: int = 0,
                  ellipsis_mask: int = 0, new_axis_mask: int = 0, shrink_axis_mask: int = 0, var: Any = None,
                  name: str | None = None) -> Tensor:
    """The elements from `begin` to `end` in steps of `strides`; the masks select which bounds to ignore.

    `tensor[...]` is the readable way to write it.

    Args:
        input_: Tensor.
        begin: First index in each dimension.
        end: Index after the last one.
        strides: Step in each dimension; 1 by default. Negative steps go backwards.
        begin_mask: Bit i ignores `begin[i]`: the slice starts at the edge.
        end_mask: Bit i ignores `end[i]`: the slice ends at the edge.
        ellipsis_mask: Bit i makes entry i an ellipsis.
        new_axis_mask: Bit i makes entry i a new dimension of size 1.
        shrink_axis_mask: Bit i takes index `begin[i]` alone and removes the dimension.
        var: Variable that an assignment to the slice updates.
        name: Name of the operation.

    Returns:
        A tensor.

    >>> tf.strided_slice([1, 2, 3, 4, 5], [0], [5], [2]).numpy()
    array([1, 3, 5], dtype=int32)
    """
    if strides is None:
        strides = get("OnesLike")(convert(begin))
    masks = dict(zip(MASK_NAMES, (begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask), strict=True))
    out = strided_slice_op(input_, begin, end, strides, name=name, **masks)
    if var is not None:
        out.assign = _assigner(var, (begin, end, strides), masks, name)
    return out


def _assigner(var: Any, bounds: tuple, masks: dict, parent: str | None) -> Any:
    def assign(value: Any, name: str | None = None) -> Any:
        """Sets the slice of the variable."""
        begin, end, strides = bounds
        return var._strided_slice_assign(begin=begin, end=end, strides=strides, value=value,
                                         name=name or (parent or "strided_slice") + "_assign", **masks)
    return assign


# -- tensor[...] ------------------------------------------------------------------------------------------------------
_INDEX_ERROR = ("Only integers, slices (`:`), ellipsis (`...`), tf.newaxis (`None`) and scalar tf.int32/tf.int64 "
                "tensors are valid indices")


def _check_index(index: Any) -> None:
    if isinstance(index, (int, Dimension)):
        return
    dtype = getattr(index, "dtype", None)
    if dtype is None or dtypes.as_dtype(dtype).base_dtype not in (dtypes.int32, dtypes.int64, dtypes.int16,
                                                                   dtypes.int8, dtypes.uint8) \
            or index.shape and len(index.shape) > 0:
        raise TypeError(f"{_INDEX_ERROR}, got {index!r}")


def _given(bound: Any) -> bool:
    return bound is not None and (isinstance(bound, Tensor) or bound is not sys.maxsize and not (
        isinstance(bound, int) and bound == sys.maxsize))


def _read_spec(spec: Any) -> tuple[list, list, list, dict[str, int]]:
    """begin, end, strides and masks of the expression in brackets."""
    begin: list = []
    end: list = []
    strides: list = []
    masks = dict.fromkeys(MASK_NAMES, 0)
    b: Any
    e: Any
    for i, s in enumerate(spec):
        b, e, step = 0, 0, 1
        if isinstance(s, builtins.slice):
            for name, bound in (("begin_mask", s.start), ("end_mask", s.stop)):
                if _given(bound):
                    _check_index(bound)
                else:
                    masks[name] |= 1 << i
            b = s.start if _given(s.start) else 0
            e = s.stop if _given(s.stop) else 0
            if s.step is not None:
                _check_index(s.step)
                step = s.step
        elif s is Ellipsis:
            masks["ellipsis_mask"] |= 1 << i
        elif s is None:
            masks["new_axis_mask"] |= 1 << i
        else:
            _check_index(s)
            b, e = s, s if isinstance(s, Tensor) else s + 1       # the end does not matter where an axis is shrunk
            masks["shrink_axis_mask"] |= 1 << i
        begin.append(b)
        end.append(e)
        strides.append(step)
    return begin, end, strides, masks


def _packed(bounds: tuple[list, list, list]) -> list:
    """The bounds as three vectors of one integer type."""
    wide = any(isinstance(x, Tensor) and x.dtype.base_dtype == dtypes.int64 or isinstance(x, np.int64)
               or isinstance(x, int) and not -2**31 <= x < 2**31 for group in bounds for x in group)
    dtype = dtypes.int64 if wide else dtypes.int32
    out = []
    for group in bounds:
        items = [_typed(x, dtype) for x in group]
        out.append(stack(items) if any(isinstance(x, Tensor) for x in items)
                   else convert(dtypes.exact_cast(dtypes.integers(items), dtype.as_numpy_dtype), name="stack"))
    return out


def _typed(x: Any, dtype: Any) -> Any:
    if isinstance(x, Tensor):
        return x if x.dtype.base_dtype == dtype else get("Cast")(x, DstT=dtype)
    if hasattr(x, "_as_graph_element") or hasattr(x, "handle"):
        return _typed(convert(x), dtype)
    return int(x)


@export("__operators__.getitem")
def slice_helper(tensor: Any, slice_spec: Any, var: Any = None) -> Any:
    """tensor[slice_spec]; for a variable, the result also has `assign`."""
    if not isinstance(tensor, Tensor) and var is None:        # may be a symbolic tensor of a library
        out = by_dispatchers(slice_helper, (tensor, slice_spec), {})
        if out is not NotImplemented:
            return out
    if isinstance(slice_spec, bool) or isinstance(slice_spec, (Tensor, np.ndarray)) and slice_spec.dtype == bool:
        return boolean_mask(tensor, slice_spec)
    spec = slice_spec if isinstance(slice_spec, (list, tuple)) else [slice_spec]
    if isinstance(slice_spec, list) and slice_spec and all(isinstance(s, bool) for s in slice_spec):
        raise errors.invalid(f"a list of booleans is not an index: {slice_spec}. Use tf.boolean_mask(x, mask).")
    begin, end, strides, masks = _read_spec(spec)
    with name_scope(None, "strided_slice", [tensor, *begin, *end, *strides]) as scope:
        packed = _packed((begin, end, strides))
        return strided_slice(tensor, *packed, var=var, name=scope, **masks)


slice_helper._dispatchers = []  # type: ignore[attr-defined]
Tensor.__getitem__ = slice_helper  # type: ignore[method-assign]
Tensor.OVERLOADABLE_OPERATORS.add("__getitem__")
