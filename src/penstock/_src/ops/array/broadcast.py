"""Broadcasting as an operation, and functions that use it: meshgrid, sequence masks, repeats."""
from __future__ import annotations

from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape, as_dims, bracketed, broadcast, rank_is, show
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.kernels import arrays
from penstock._src.ops import rules
from penstock._src.ops.array.array import known, reshape_op, shape_internal
from penstock._src.ops.composite import dispatched
from penstock._src.ops.math.math import unbroadcast
from penstock._src.ops.registry import get, op

broadcast_to_op = op("BroadcastTo", "input: T, shape: Tidx -> output: T", "T: type, Tidx: type in {index} = int32",
                     export_as="broadcast_to")


@rules.batching.rule(broadcast_to_op)
def _broadcast_to_batching(op, rows, input, shape):
    if shape.stacked or op.outputs[0].static_dims is None or rows.rank(input) is None:
        return None
    return [broadcast_to_op(rows.widened(input, len(op.outputs[0].static_dims)), rows.shape(shape.tensor))]

rules.arithmetic.repeats[broadcast_to_op] = 0
rules.pointwise.instruction[broadcast_to_op] = "COPY"
rules.regions.each[broadcast_to_op] = "CONVERT"


@broadcast_to_op.shape
def _broadcast_to_shape(input, shape, *, c):
    rank_is(shape, 1)
    dims = c.dims("shape")
    if dims is None or input is None:
        return dims
    if len(input) > len(dims):
        raise ValueError(f"Shape must be at most rank {len(dims)} but is rank {len(input)}: {show(input)} cannot be "
                         f"broadcast to {show(dims)}")
    for d, w in zip(input, dims[len(dims) - len(input):], strict=True):
        if d not in (None, 1) and w is not None and d != w:
            raise ValueError(f"Incompatible shapes: unable to broadcast tensor of shape {bracketed(input)} to tensor of "
                             f"shape {bracketed(dims)}")
    return dims


@broadcast_to_op.kernel
def _broadcast_to_kernel(input, shape):
    dims, wanted = arrays.dims_of(input), arrays.checked_dims(shape)
    if not arrays.expands(dims, wanted):
        raise errors.invalid(f"Unable to broadcast tensor of shape {arrays.show(dims)} to tensor of shape "
                             f"{arrays.show(wanted)}")
    arrays.fits(wanted)
    return arrays.expand(input, wanted)


@rules.program.prepare(broadcast_to_op)
def _broadcast_to_prepare(known):
    dims = known.out()
    if known.dims(0) is None or dims is None or known.const(1) is None or not known.floating():
        return None
    return lambda input, shape: input.expand(dims)


broadcast_to_op.gradient(lambda op, grad: (unbroadcast(grad, op.inputs[0], op.outputs[0]), None))

broadcast_args = op("BroadcastArgs", "s0: T, s1: T -> r0: T", "T: type in {index} = int32").no_gradient()


@broadcast_args.shape
def _broadcast_args_shape(s0, s1):
    (a,), (b,) = rank_is(s0, 1), rank_is(s1, 1)
    return (None if a is None or b is None else max(a, b),)


@broadcast_args.kernel
def _broadcast_args_kernel(s0, s1):
    try:
        dims = broadcast(tuple(arrays.ints(s0)), tuple(arrays.ints(s1)))
    except ValueError:
        raise errors.invalid(f"Incompatible shapes: {arrays.show(arrays.ints(s0))} vs. "
                             f"{arrays.show(arrays.ints(s1))}") from None
    return torch.tensor(dims, dtype=s0.dtype)


@export("broadcast_dynamic_shape")
@dispatched
def broadcast_dynamic_shape(shape_x: Any, shape_y: Any) -> Tensor:
    """The shape to which tensors of two shapes, given as tensors, broadcast.

    Args:
        shape_x: Integer vector.
        shape_y: Integer vector.

    Returns:
        The common shape as a vector.

    Raises:
        InvalidArgumentError: if they do not broadcast.

    >>> tf.broadcast_dynamic_shape([1, 3], [2, 1]).numpy().tolist()
    [2, 3]
    """
    return broadcast_args(shape_x, shape_y)


@export("broadcast_static_shape")
@dispatched
def broadcast_static_shape(shape_x: Any, shape_y: Any) -> TensorShape:
    """The TensorShape to which two TensorShapes broadcast.

    Args:
        shape_x: A TensorShape.
        shape_y: A TensorShape.

    Returns:
        The common TensorShape.

    Raises:
        ValueError: if they do not broadcast.

    >>> tf.broadcast_static_shape(tf.TensorShape([1, 3]), tf.TensorShape([2, 1]))
    TensorShape([2, 3])
    """
    return TensorShape.of(broadcast(as_dims(shape_x), as_dims(shape_y)))


# -- meshgrid --------------------------------------------------------------
@export("meshgrid")
@dispatched
def meshgrid(*args: Any, **kwargs: Any) -> list:
    """Coordinates on a grid: for n vectors, n tensors of rank n.

    Args:
        *args: Vectors.
        **kwargs: `indexing`: `"xy"` (the default) exchanges the first two axes, `"ij"` does not; `name`.

    Returns:
        A list with one tensor per vector.

    Raises:
        ValueError: for another `indexing`.

    >>> x, y = tf.meshgrid([1, 2], [3, 4, 5])
    >>> x.numpy().tolist()
    [[1, 2], [1, 2], [1, 2]]
    """
    indexing, name = kwargs.pop("indexing", "xy"), kwargs.pop("name", "meshgrid")
    if kwargs:
        raise TypeError(f"'{next(iter(kwargs))}' is an invalid keyword argument for this function")
    if indexing not in ("xy", "ij"):
        raise ValueError("indexing parameter must be either 'xy' or 'ij'")
    with name_scope(name, "meshgrid", args):
        lines = [convert(a) for a in args]
        order = list(range(len(lines)))
        if indexing == "xy" and len(lines) > 1:
            order[:2] = [1, 0]
        sizes: list[Any] = [0] * len(lines)
        for line, at in zip(lines, order, strict=True):
            sizes[at] = int(np.prod(line.static_dims)) if known(line.static_dims) else get("Size")(line)
        whole = get("Pack")(sizes) if any(isinstance(s, Tensor) for s in sizes) else np.array(sizes, np.int32)
        out = []
        for line, at in zip(lines, order, strict=True):
            thin = [1] * len(lines)
            thin[at] = sizes[at] if not isinstance(sizes[at], Tensor) else -1
            out.append(broadcast_to_op(reshape_op(line, thin), whole))
        return out


@export("sequence_mask")
@dispatched
def sequence_mask(lengths: Any, maxlen: Any = None, dtype: Any = dtypes.bool, name: str | None = None) -> Tensor:
    """For each length, a row that is True in its first `length` positions.

    Args:
        lengths: Tensor of integers.
        maxlen: Number of columns; by default the largest length.
        dtype: Type of the result.
        name: Name of the operation.

    Returns:
        A tensor with the shape of `lengths` and one more dimension of `maxlen`.

    >>> tf.sequence_mask([1, 3], 3).numpy()
    array([[ True, False, False],
           [ True,  True,  True]])
    """
    with name_scope(name, "SequenceMask", [lengths, maxlen]):
        lengths = convert(lengths)
        if maxlen is None:
            flat = reshape_op(lengths, [-1])
            longest = get("Max")(flat, 0)
            maxlen = get("Maximum")(convert(0, lengths.dtype), longest)
        else:
            maxlen = convert(maxlen)
        if maxlen.static_dims not in ((), None):
            raise ValueError(f"`maxlen` must be scalar, got shape {show(maxlen.static_dims)}")
        places = get("Range")(convert(0, maxlen.dtype), maxlen, convert(1, maxlen.dtype))
        ends = get("ExpandDims")(lengths, -1)
        if ends.dtype != places.dtype:
            ends = get("Cast")(ends, DstT=places.dtype)
        result = get("Less")(places, ends)
        dtype = dtypes.as_dtype(dtype or dtypes.bool)
        return result if dtype == dtypes.bool else get("Cast")(result, DstT=dtype)


# -- repeat --------------------------------------------------------------
@export("repeat")
@dispatched
def repeat(input: Any, repeats: Any, axis: int | None = None, name: str | None = None) -> Tensor:
    """Each slice along `axis` (by default, each element) repeated so many times.

    Args:
        input: Tensor.
        repeats: How often: a number for all, or one for each element along `axis`.
        axis: The axis; by default the flattened tensor is repeated.
        name: Name of the operation.

    Returns:
        Tensor with repeated elements.

    >>> tf.repeat([1, 2], [3, 1]).numpy().tolist()
    [1, 1, 1, 2]
    """
    count = int(repeats) if isinstance(repeats, (int, np.integer)) and repeats > 0 else 0
    with name_scope(name, "Repeat", [input, repeats]):
        data = convert(input, name="data")
        repeats = convert(repeats, name="repeats")
        if repeats.dtype not in (dtypes.int32, dtypes.int64):
            repeats = get("Cast")(repeats, DstT=dtypes.int32)
        if axis is None:
            data, axis = reshape_op(data, [-1]), 0
        if data.ndim == 0:
            data = reshape_op(data, [1])
        elif data.static_dims is None:                        # a rank of 0 becomes 1
            sizes = get("ConcatV2")([[1], shape_internal(data)], 0)
            data = reshape_op(data, sizes[-get("Maximum")(get("Rank")(data), 1):])
        axis = _axis_of_repeat(axis, data.ndim)
        if count and data.static_dims is not None and data.static_dims.count(None) < 2 and 0 not in data.static_dims:
            return _repeated_evenly(data, count, axis)
        fixed = None if data.static_dims is None else data.static_dims[axis]
        rows = shape_internal(data)[axis] if fixed is None else fixed
        if repeats.static_dims in (None, (None,)):            # one number for all slices, or one for each
            repeats = broadcast_to_op(repeats, get("Pack")([rows]))
        if repeats.ndim == 0 or repeats.static_dims == (1,):
            index = _even(rows, reshape_op(repeats, []))
        else:
            _check_repeats(repeats, fixed)
            index = _uneven(repeats)
        return get("GatherV2")(data, index, axis)


def _repeated_evenly(data: Tensor, count: int, axis: int) -> Tensor:
    """Every slice `count` times, as a broadcast: its gradient is a sum, not a scatter."""
    dims = [-1 if d is None else d for d in data.static_dims]
    wide = get("ExpandDims")(data, axis + 1)
    if -1 in dims:
        sizes = shape_internal(wide, optimize=False)
        whole = get("ConcatV2")([sizes[:axis + 1], [count], sizes[axis + 2:]], 0)
    else:
        whole = [*dims[:axis + 1], count, *dims[axis + 1:]]
    merged = -1 if dims[axis] == -1 else dims[axis] * count
    return reshape_op(broadcast_to_op(wide, whole), [*dims[:axis], merged, *dims[axis + 1:]])


def _axis_of_repeat(axis: Any, rank: int | None) -> int:
    if not isinstance(axis, (int, np.integer)):
        raise TypeError(f"`axis` must be an int; got {type(axis).__name__}")
    if rank is None and axis < 0:
        raise ValueError("axis may only be negative if data.shape.ndims is statically known")
    if rank is not None and not -rank <= axis < rank:
        raise ValueError(f"axis={axis} out of bounds: expected {-rank}<=axis<{rank}")
    return int(axis if rank is None else axis % rank)


def _check_repeats(repeats: Tensor, rows: int | None) -> None:
    if repeats.ndim is not None and repeats.ndim != 1:
        raise ValueError(f"repeats must be a scalar or a vector, got shape {repeats.shape}")
    if repeats.static_dims is not None and None not in (rows, repeats.static_dims[0]) and repeats.static_dims[0] != rows:
        raise ValueError(f"Dimensions {rows} and {repeats.static_dims[0]} are not compatible: repeats must have one element "
                         "per slice")


def _even(rows: Any, times: Tensor) -> Tensor:
    """0, 0, … 1, 1, …: each of `rows` positions, `times` times."""
    if not isinstance(rows, Tensor):
        rows = convert(rows, times.dtype)
    elif rows.dtype != times.dtype:
        rows = get("Cast")(rows, DstT=times.dtype)
    zero, one = convert(0, times.dtype), convert(1, times.dtype)
    line = get("Range")(zero, rows, one)
    return reshape_op(broadcast_to_op(get("ExpandDims")(line, 1), get("Pack")([rows, times])), [-1])


def _uneven(repeats: Tensor) -> Tensor:
    """Position i as often as repeats[i] says: the number of slices that end at or before each place of the result."""
    ends = get("Cumsum")(repeats, 0)
    zero, one = convert(0, repeats.dtype), convert(1, repeats.dtype)
    total = get("Sum")(repeats, [0])
    places = get("Range")(zero, total, one)
    return get("UpperBound")(get("ExpandDims")(ends, 0), get("ExpandDims")(places, 0), out_type=repeats.dtype)[0]
