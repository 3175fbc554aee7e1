"""Padding: with a constant, or with mirrored elements."""
from __future__ import annotations

from typing import Any

import numpy as np
import torch

from penstock._src.base import errors
from penstock._src.base.api import export
from penstock._src.base.static_shape import Dims, merge, rank_is, show
from penstock._src.graph import context
from penstock._src.graph.constant import constant_value
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.kernels import arrays, unsigned
from penstock._src.ops import rules
from penstock._src.ops.array.array import known, shape_of
from penstock._src.ops.composite import dispatched
from penstock._src.ops.registry import get, op

_TYPES = "T: type, Tpaddings: type in {index} = int32"
_MIRROR_TYPES = _TYPES + ", mode: string in {REFLECT SYMMETRIC}"

pad_op = op("Pad", "input: T, paddings: Tpaddings -> output: T", _TYPES)
pad_v2_op = op("PadV2", "input: T, paddings: Tpaddings, constant_values: T -> output: T", _TYPES)
mirror_pad = op("MirrorPad", "input: T, paddings: Tpaddings -> output: T", _MIRROR_TYPES)
mirror_pad_grad = op("MirrorPadGrad", "input: T, paddings: Tpaddings -> output: T", _MIRROR_TYPES)


@rules.batching.rule(pad_op, pad_v2_op, mirror_pad, mirror_pad_grad)
def _pad_batching(op, rows, input, paddings, *value):
    if paddings.stacked or value and value[0].stacked:
        return None
    return rows.again(op, [input.tensor, rows.prefixed(paddings, [[0, 0]]), *(v.tensor for v in value)])


def _padded(input: Dims, paddings: Dims, c: Any, sign: int = 1) -> Dims:
    """The static shape after padding, or (sign -1) after taking the padding away."""
    rank_is(paddings, 2)
    rank = rank_is(paddings, 2)[0] if input is None else len(input)
    if paddings is not None and paddings[1] not in (None, 2):
        raise ValueError(f"Dimension must be 2 but is {paddings[1]}: paddings {show(paddings)}")
    if rank is None:
        return None
    if rank_is(paddings, 2)[0] not in (None, rank):
        raise ValueError(f"Shape must be rank {paddings[0]} but is rank {rank}: {show(input)} for paddings "
                         f"{show(paddings)}")
    value = c.const("paddings")
    dims = rank_is(input, rank)
    if value is None:
        return (None,) * rank
    if (value < 0).any():
        raise ValueError(f"Paddings must be non-negative: {value.tolist()}")
    return tuple(None if d is None else d + sign * int(v) for d, v in zip(dims, value.sum(1), strict=True))


pad_op.shape(lambda input, paddings, *, c: _padded(input, paddings, c))
pad_v2_op.shape(lambda input, paddings, constant_values, *, c: _padded(input, paddings, c))
mirror_pad.shape(lambda input, paddings, *, c: _padded(input, paddings, c))
mirror_pad_grad.shape(lambda input, paddings, *, c: _padded(input, paddings, c, -1))


def _amounts(dims: tuple, paddings: torch.Tensor) -> list[list[int]]:
    if paddings.dim() != 2 or paddings.shape[1] != 2:
        raise errors.invalid(f"paddings must be a matrix with 2 columns: {arrays.show(paddings.shape)}")
    if paddings.shape[0] != len(dims):
        raise errors.invalid(f"The first dimension of paddings must be the rank of inputs{arrays.show(paddings.shape)} "
                             f"{arrays.show(dims)}")
    out = paddings.tolist()
    for before, after in out:
        if before < 0 or after < 0:
            raise errors.invalid(f"Paddings must be non-negative: {before} {after}")
    return out


def _pad(input: Any, paddings: torch.Tensor, value: Any) -> Any:
    dims = arrays.dims_of(input)
    amounts = _amounts(dims, paddings)
    sizes = [d + b + a for d, (b, a) in zip(dims, amounts, strict=True)]
    arrays.checked_dims(torch.tensor(sizes, dtype=torch.int64))
    if not isinstance(input, torch.Tensor):
        out: Any = np.full(sizes, b"" if value is None else arrays.boxed(value)[()], dtype=object)
    elif value is None:
        out = torch.zeros(sizes, dtype=input.dtype, device=input.device)
    else:
        if value.dim():
            raise errors.invalid(f"constant_values must be a scalar. Found: {arrays.show(value.shape)}")
        out = torch.empty(sizes, dtype=input.dtype, device=input.device).copy_(value)
    out[tuple(slice(b, b + d) for d, (b, _) in zip(dims, amounts, strict=True))] = input
    return out


pad_op.kernel(lambda input, paddings: _pad(input, paddings, None))
pad_v2_op.kernel(_pad)


def _unpad(op: Any, grad: Tensor) -> Any:
    x, paddings = op.inputs[:2]
    value = constant_value(paddings)
    if value is not None:
        begin: Any = value[:, 0]
    else:
        begin = get("Reshape")(paddings[:, :1], [-1])
    return get("Slice")(grad, begin, shape_of(x, paddings.dtype.base_dtype))


pad_op.gradient(lambda op, grad: (_unpad(op, grad), None))
pad_v2_op.gradient(lambda op, grad: (_unpad(op, grad), None, None))


# -- mirrors --------------------------------------------------------------
def _edge(size: int, before: int, after: int, mode: str) -> int:
    """How many elements at each end of an axis of this size are not mirrored."""
    edge = 1 if mode == "REFLECT" else 0
    if max(before, after) > size - edge:
        word = "less than" if edge else "no greater than"
        raise errors.invalid(f"paddings must be {word} the dimension size: {before}, {after} not {word} {size}")
    return edge


def _mirrored(x: Any, axis: int, start: int, count: int) -> Any:
    """Slices of an axis, in reverse order."""
    return arrays.flip(arrays.part(x, (*(slice(None),) * axis, slice(start, start + count))), (axis,))


@mirror_pad.kernel
def _mirror_pad_kernel(input, paddings, *, mode):
    dims = arrays.dims_of(input)
    out = input
    for axis, (before, after) in enumerate(_amounts(dims, paddings)):
        if before or after:
            edge = _edge(dims[axis], before, after, mode)
            out = arrays.cat([_mirrored(out, axis, edge, before), out,
                              _mirrored(out, axis, dims[axis] - edge - after, after)], axis)
    return out


@mirror_pad_grad.kernel
def _mirror_pad_grad_kernel(input, paddings, *, mode):
    out = input
    for axis, (before, after) in enumerate(_amounts(tuple(input.shape), paddings)):
        if before or after:
            size = input.shape[axis] - before - after
            if size < 0:
                raise errors.invalid(f"Paddings {before} and {after} are larger than the size {input.shape[axis]}")
            edge = _edge(size, before, after, mode)
            inner = out.narrow(axis, before, size).clone()
            inner.narrow(axis, edge, before).add_(_mirrored(out, axis, 0, before))
            inner.narrow(axis, size - edge - after, after).add_(_mirrored(out, axis, before + size, after))
            out = inner
    return out


mirror_pad_grad.kernel(unsigned.wrapping(_mirror_pad_grad_kernel), types=unsigned.TYPES)


mirror_pad.gradient(lambda op, grad: (mirror_pad_grad(grad, op.inputs[1], mode=op.attrs["mode"]), None))
mirror_pad_grad.gradient(lambda op, grad: (mirror_pad(grad, op.inputs[1], mode=op.attrs["mode"]), None))


# -- the public functions --------------------------------------------------------------
def _given(paddings: Any) -> Any:
    """The paddings that the caller wrote out as numbers, None for each that is a tensor without a known value."""
    if isinstance(paddings, Tensor):
        value = constant_value(paddings)
        return None if value is None else value.tolist()
    if isinstance(paddings, (list, tuple)):
        return [_given(p) for p in paddings]
    return np.asarray(paddings).tolist() if hasattr(paddings, "__array__") else paddings


def _known_result(dims: Dims, paddings: Any) -> Dims:
    """The static shape of the result from partly known paddings."""
    given = _given(paddings)
    if not isinstance(given, list) or dims is None or len(given) != len(dims):
        return None
    return tuple(None if d is None or not isinstance(p, list) or None in p else d + sum(p)
                 for d, p in zip(dims, given, strict=True))


@export(v1=["pad"])
@dispatched
def pad(tensor: Any, paddings: Any, mode: str = "CONSTANT", name: str | None = None,
        constant_values: Any = 0) -> Tensor:
    """`tensor` with paddings[i] = (before, after) elements added around axis i.

    Args:
        tensor: Tensor.
        paddings: Integer matrix [rank, 2]: elements to add before and after each axis.
        mode: `"CONSTANT"`, `"REFLECT"` (without the border) or `"SYMMETRIC"` (with the border).
        name: Name of the operation.
        constant_values: Value of the new elements in mode `"CONSTANT"`.

    Returns:
        A tensor of the type of `tensor`.

    >>> tf.pad([[1, 2]], [[0, 1], [1, 0]]).numpy()
    array([[0, 1, 2],
           [0, 0, 0]], dtype=int32)
    """
    kind = mode.upper()
    if kind == "CONSTANT":
        if isinstance(constant_values, Tensor) or not np.isscalar(constant_values) or constant_values != 0:
            out = pad_v2_op(tensor, paddings, constant_values, name=name)
        else:
            out = pad_op(tensor, paddings, name=name)
    elif kind in ("REFLECT", "SYMMETRIC"):
        out = mirror_pad(tensor, paddings, mode=kind, name=name)
    else:
        raise ValueError(f"Value of argument `mode` expected to be CONSTANT, REFLECT, or SYMMETRIC. Received `mode` = {kind}")
    if not context.executing_eagerly() and not known(out.static_dims):
        extra = _known_result(convert(tensor).static_dims if not isinstance(tensor, Tensor) else tensor.static_dims, paddings)
        out.static_dims = merge(out.static_dims, extra)
    return out


@export(v2=["pad"])
@dispatched
def pad_v2(tensor: Any, paddings: Any, mode: str = "CONSTANT", constant_values: Any = 0,
           name: str | None = None) -> Tensor:
    """`tensor` with paddings[i] = (before, after) elements added around axis i.

    Args:
        tensor: Tensor.
        paddings: A row for each axis: how much before and after.
        mode: `"CONSTANT"`, `"REFLECT"` or `"SYMMETRIC"`, which repeats the edge.
        constant_values: The value of constant padding.
        name: Name of the operation.

    Returns:
        The larger tensor.

    Raises:
        InvalidArgumentError: for paddings that do not fit the rank, or are larger than a reflection can be.

    >>> tf.pad([1, 2], [[1, 2]]).numpy().tolist()
    [0, 1, 2, 0, 0]
    """
    return pad(tensor, paddings, mode, name, constant_values)
