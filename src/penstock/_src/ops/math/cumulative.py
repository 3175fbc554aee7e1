"""Running sums and products along an axis."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from penstock._src.base import errors
from penstock._src.base.api import export
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.kernels import unsigned
from penstock._src.ops import rules
from penstock._src.ops.composite import dispatched
from penstock._src.ops.math.math import conj
from penstock._src.ops.registry import OpDef, get, op


def _cumulative(name: str, types: str, run: Callable, start: Any) -> OpDef:
    """An op that runs along an axis; run(x, axis) includes each element, `start` begins an exclusive one."""
    made = op(name, "x: T, axis: Tidx -> out: T", "exclusive: bool = False, reverse: bool = False, "
              f"T: type in {{{types}}}, Tidx: type in {{index}} = int32")
    rules.batching.axis[made] = 1

    made.shape(lambda x, axis: x)

    def kernel(x, axis, *, exclusive, reverse):
        if axis.ndim:
            raise errors.invalid(f"ScanOp: axis must be a scalar, not {list(axis.shape)}")
        at = _checked(int(axis), x.ndim)
        if x.numel() == 0:
            return x
        x = x.flip(at) if reverse else x
        out = run(x, at)
        if exclusive:
            first = torch.full_like(out.narrow(at, 0, 1), start)
            out = torch.cat([first, out.narrow(at, 0, x.shape[at] - 1)], at)
        return out.flip(at) if reverse else out
    made.kernel(kernel)
    return made


def _checked(axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise errors.invalid(f"ScanOp: Expected scan axis in the range [{-rank}, {rank}), but got {axis}")
    return axis % rank


cumsum_op = _cumulative("Cumsum", "numeric quantized", lambda x, axis: torch.cumsum(x, axis, dtype=x.dtype), 0)
cumprod_op = _cumulative("Cumprod", "numeric quantized", lambda x, axis: torch.cumprod(x, axis, dtype=x.dtype), 1)
rules.regions.lower[cumsum_op] = lambda op, r: [r.running(
    r.view(op.inputs[0]), int(r.constant(op.inputs[1])), op.attrs["exclusive"], op.attrs["reverse"])]
cumulative_logsumexp_op = _cumulative("CumulativeLogsumexp", "float", torch.logcumsumexp, float("-inf"))
for _op in (cumsum_op, cumprod_op):
    _op.kernel(unsigned.wrapping(_op.kernels["any"].fn), types=unsigned.TYPES)


@cumulative_logsumexp_op.kernel(types="half bfloat16")
def _cumulative_logsumexp_kernel_half_bfloat16(x, axis, *, exclusive, reverse):
    out = cumulative_logsumexp_op.kernels["any"].fn(x.to(torch.float32), axis, exclusive=exclusive, reverse=reverse)
    return out.to(x.dtype)


# -- gradients --------------------------------------------------------------------------------------------------------
def _flags(op: Any) -> dict[str, bool]:
    return {"exclusive": op.attrs["exclusive"], "reverse": not op.attrs["reverse"]}


cumsum_op.gradient(lambda op, grad: (cumsum_op(grad, op.inputs[1], **_flags(op)), None))


@cumprod_op.gradient
def _cumprod_gradient(op, grad):
    x, axis = op.inputs
    total = cumsum_op(conj(op.outputs[0]) * grad, axis, **_flags(op))
    return get("DivNoNan")(total, conj(x)), None


@cumulative_logsumexp_op.gradient
def _cumulative_logsumexp_gradient(op, grad):
    """The sum of exp(x_i - out_j) grad_j, by running log-sum-exps of the positive and the negative gradients."""
    x, axis = op.inputs
    zero, lowest = convert(0, grad.dtype.base_dtype), convert(grad.dtype.min, grad.dtype.base_dtype)

    def part(sign: Tensor) -> Tensor:
        there = get("Greater")(sign, zero)
        logs = get("SelectV2")(there, get("Log")(get("SelectV2")(there, sign, get("OnesLike")(sign))), lowest)
        return get("Exp")(cumulative_logsumexp_op(logs - op.outputs[0], axis, **_flags(op)) + x)
    return part(grad) - part(-grad), None


# -- public functions -------------------------------------------------------------------------------------------------
@export("math.cumsum", "cumsum")
@dispatched
def cumsum(x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None) -> Tensor:
    """The sums of all elements up to each one along `axis`.

    Args:
        x: Tensor of numbers.
        axis: The axis to sum along.
        exclusive: Whether each result leaves out its own element.
        reverse: Whether to begin at the end.
        name: Name of the operation.

    Returns:
        Tensor of the shape of `x`.

    >>> tf.cumsum([1, 2, 3]).numpy().tolist()
    [1, 3, 6]
    """
    with name_scope(name, "Cumsum", [x]) as scope:
        return cumsum_op(convert(x, name="x"), axis, exclusive=exclusive, reverse=reverse, name=scope)


@export("math.cumprod", v1=["cumprod"])
@dispatched
def cumprod(x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None) -> Tensor:
    """The products of all elements up to each one along `axis`.

    Args:
        x: Tensor of numbers.
        axis: The axis to multiply along.
        exclusive: Whether each result leaves out its own element.
        reverse: Whether to begin at the end.
        name: Name of the operation.

    Returns:
        Tensor of the shape of `x`.

    >>> tf.math.cumprod([1, 2, 3]).numpy().tolist()
    [1, 2, 6]
    """
    with name_scope(name, "Cumprod", [x]) as scope:
        return cumprod_op(convert(x, name="x"), axis, exclusive=exclusive, reverse=reverse, name=scope)


@export("math.cumulative_logsumexp")
@dispatched
def cumulative_logsumexp(x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False,
                         name: str | None = None) -> Tensor:
    """log(sum(exp(x))) of all elements up to each one along `axis`, without overflow.

    Args:
        x: Tensor of floating point numbers.
        axis: The axis to sum along.
        exclusive: Whether each result leaves out its own element.
        reverse: Whether to begin at the end.
        name: Name of the operation.

    Returns:
        Tensor of the shape of `x`.

    >>> tf.math.cumulative_logsumexp([0.]).numpy().tolist()
    [0.0]
    """
    with name_scope(name, "CumulativeLogsumexp", [x]) as scope:
        return cumulative_logsumexp_op(convert(x, name="x"), axis, exclusive=exclusive, reverse=reverse, name=scope)
