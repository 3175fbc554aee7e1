"""Evenly spaced numbers: Range and LinSpace."""
from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors, tracing
from penstock._src.base import static_shape as shapes
from penstock._src.base.api import export
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.ops.composite import dispatched
from penstock._src.ops.math.cast import cast
from penstock._src.ops.registry import get, op

range_op = op("Range", "start: Tidx, limit: Tidx, delta: Tidx -> output: Tidx",
              "Tidx: type in {bfloat16 half float32 float64 int8 int16 int32 int64 uint16 uint32} = int32",
              host="start limit delta").no_gradient()


def _length(start: Any, limit: Any, delta: Any, error: Any) -> int:
    """How many numbers a range has; of scalars of the range's type, in whose precision they are divided."""
    exact_start, exact_limit, exact_delta = start, limit, delta
    start, limit, delta = start.item(), limit.item(), delta.item()
    if delta == 0:
        raise error(f"Requires delta != 0: {delta}")
    if delta > 0 and start > limit:
        raise error(f"Requires start <= limit when delta > 0: {start}/{limit}")
    if delta < 0 and start < limit:
        raise error(f"Requires start >= limit when delta < 0: {start}/{limit}")
    if isinstance(start, int):
        return -((start - limit) // delta)
    exact = float((exact_limit - exact_start) / exact_delta)
    if not math.isfinite(exact):
        raise error(f"Requires finite start, limit and delta: {start}/{limit}/{delta}")
    if exact >= 2**63:
        raise error(f"Requires ((limit - start) / delta) <= {2**63 - 1}: ({limit} - {start}) / {delta}")
    return math.ceil(exact)


@range_op.shape
def _range_shape(start, limit, delta, *, c):
    for name, dims in (("start", start), ("limit", limit), ("delta", delta)):
        if dims is not None and len(dims):
            raise ValueError(f"{name} must be a scalar, not of shape {shapes.show(dims)}")
    known = [c.const(n) for n in ("start", "limit", "delta")]
    if any(k is None for k in known):
        return (None,)
    with np.errstate(all="ignore"):
        start, limit, delta = (k[()] for k in known)
        return (_length(start, limit, delta, ValueError),)


@range_op.kernel
def _range_kernel(start, limit, delta):
    for name, t in (("start", start), ("limit", limit), ("delta", delta)):
        if t.ndim > 1 or t.numel() != 1:
            raise errors.invalid(f"{name} must be a scalar, not shape {list(t.shape)}")
    if start.dtype in _PLAIN and start.dtype is limit.dtype is delta.dtype:
        first, last, step = start.item(), limit.item(), delta.item()
        if (step > 0 and first <= last or step < 0 and first >= last) and abs(last - first) <= _MOST:
            return torch.arange(first, last, step, dtype=start.dtype, device=start.device)
    first, step = start.item(), delta.item()
    n = _length(start, limit, delta, errors.invalid)
    if n > _MOST:
        raise errors.ResourceExhaustedError(None, None, f"OOM when making a range of {n} numbers")
    if start.dtype.is_floating_point:
        index = torch.arange(n, dtype=torch.float64, device=start.device)
        return (first + index * step).to(start.dtype)
    if start.dtype in _PLAIN:
        return torch.arange(first, limit.item(), step, dtype=start.dtype, device=start.device)
    index = torch.arange(n, dtype=torch.int64, device=start.device)
    return (first + index * step).to(start.dtype)


_MOST = 2 ** 40
_PLAIN = (torch.int32, torch.int64)


@export("range")
@dispatched
def range(start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None, name: str | None = "range") -> Tensor:
    """Numbers from `start` (0 by default) up to, but not including, `limit`.

    Args:
        start: First number; the limit, if `limit` is None.
        limit: End, which is not included.
        delta: Difference between neighbours.
        dtype: Element type, by default the widest of the arguments' types.
        name: Name of the operation.

    Returns:
        A vector.

    >>> tf.range(3, 18, 3).numpy()
    array([ 3,  6,  9, 12, 15], dtype=int32)
    """
    if limit is None:
        start, limit = 0, start
    with name_scope(name, "Range", [start, limit, delta]) as scope:
        wanted = None if dtype is None else dtypes.as_dtype(dtype)
        parts = [cast(v, wanted) if isinstance(v, Tensor) and wanted is not None else convert(v, wanted, n)
                 for v, n in ((start, "start"), (limit, "limit"), (delta, "delta"))]
        if wanted is None:
            for p in parts:
                if p.dtype.base_dtype not in _HIERARCHY:
                    raise TypeError(f"tf.range does not take numbers of type {p.dtype.name}")
            wanted = max((p.dtype.base_dtype for p in parts), key=_HIERARCHY.index)
            parts = [cast(p, wanted) for p in parts]
        return range_op(*parts, name=scope)


_HIERARCHY = [dtypes.uint16, dtypes.int16, dtypes.uint32, dtypes.int32, dtypes.int64, dtypes.float16, dtypes.bfloat16,
              dtypes.float32, dtypes.float64]

lin_space = op("LinSpace", "start: T, stop: T, num: Tidx -> output: T",
               "T: type in {float}, Tidx: type in {index} = int32").no_gradient()


@lin_space.shape
def _lin_space_shape(start, stop, num, *, c):
    for dims in (start, stop, num):
        shapes.rank_is(dims, 0)
    n = c.const("num")
    if n is None:
        return (None,)
    if int(n) <= 0:
        raise ValueError(f"Requires num > 0: {int(n)}")
    return (int(n),)


@lin_space.kernel
def _lin_space_kernel(start, stop, num):
    if start.ndim or stop.ndim or num.ndim:
        raise errors.invalid("start, stop and num must be scalars")
    n = int(num)
    if not 0 < n <= _MOST:
        raise errors.invalid(f"Requires num > 0: {n}")
    if not tracing.lowering():
        return torch.linspace(start.item(), stop.item(), n, dtype=torch.float64, device=start.device).to(start.dtype)
    first, last = start.double(), stop.double()           # from both ends, as torch.linspace does
    at, step = torch.arange(n, device=start.device), (last - first) / max(n - 1, 1)
    return torch.where(at < n / 2, first + step * at, last - step * (n - 1 - at)).to(start.dtype)


def _linspace_of_any_rank(first: Tensor, last: Tensor, steps: Tensor, axis: int, name: str) -> Tensor:
    """Tensors of unknown rank spread along a new axis: the numbers vary along the last axis, which moves to its place."""
    rank = get("Rank")(first)
    place = axis if axis >= 0 else rank + (axis + 1)
    first, last = (get("ExpandDims")(t, -1) for t in (first, last))
    spread = first + (last - first) * steps
    before, after = get("Range")(0, place, 1), get("Range")(place, rank, 1)
    order = get("ConcatV2")([before, get("Reshape")(rank, [1]), after], 0)
    return get("Transpose")(spread, order, name=name)


@export("linspace", v1=["lin_space"])
@dispatched
def linspace(start: Any, stop: Any, num: Any, name: str | None = None, axis: int = 0) -> Tensor:
    """`num` evenly spaced numbers from `start` to `stop`, both included, along a new axis.

    Args:
        start: First number, or tensor of first numbers.
        stop: Last number.
        num: How many numbers.
        name: Name of the operation.
        axis: Position of the new axis.

    Returns:
        A tensor; a vector for scalars.

    >>> tf.linspace(10.0, 12.0, 3).numpy()
    array([10., 11., 12.], dtype=float32)
    """
    if not isinstance(num, Tensor) and num == 0:                     # the op returns at least one
        one = linspace(start, stop, 1, name, axis)
        return one[(*[slice(None)] * (axis % one.shape.rank), slice(0, 0))]
    with name_scope(name, "LinSpace", [start, stop]) as scope:
        start = convert(start, name="start")
        stop = convert(stop, start.dtype.base_dtype if not isinstance(stop, Tensor) else None, "stop")
        if start.dtype.is_integer:
            start, stop = cast(start, dtypes.float64), cast(stop, dtypes.float64)
        if start.shape.rank == 0 and stop.shape.rank == 0 and axis in (0, -1):
            num = num if isinstance(num, Tensor) else convert(num, name="num")
            return lin_space(start, stop, num, name=scope)
        steps = get("LinSpace")(convert(0, start.dtype.base_dtype), convert(1, start.dtype.base_dtype), num)
        total = start + get("ZerosLike")(stop)
        rank = total.shape.rank
        if rank is None:
            return _linspace_of_any_rank(total, stop + get("ZerosLike")(start), steps, axis, scope)
        if not -rank - 1 <= axis <= rank:
            raise ValueError(f"axis must be in [{-rank - 1}, {rank}], not {axis}")
        place = axis if axis >= 0 else axis + rank + 1
        grid = get("Reshape")(steps, [1] * place + [-1] + [1] * (rank - place))
        first, last = (get("ExpandDims")(t, place) for t in (total, stop + get("ZerosLike")(start)))
        return get("AddV2")(first, (last - first) * grid, name=scope)
