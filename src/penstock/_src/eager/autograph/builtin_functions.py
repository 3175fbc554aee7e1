"""Builtin functions that take tensors in rewritten code."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base import dtypes
from penstock._src.eager.autograph.staged import symbolic
from penstock._src.graph.convert import convert
from penstock._src.ops.control.print import print_v2
from penstock._src.ops.registry import get


def _print(*args: Any, **kwargs: Any) -> None:
    """print; with tensors, when the graph runs."""
    if any(map(symbolic, args)):
        print_v2(*args, **{k: v for k, v in kwargs.items() if k in ("sep", "end")})
    else:
        print(*args, **kwargs)


def _len(x: Any) -> Any:
    """len; of a tensor, its first dimension, which may be known only when the graph runs."""
    if getattr(x, "_is_tensor_array", False):
        return x.size()
    if not symbolic(x):
        return len(x)
    dims = convert(x).static_dims
    if dims == ():
        raise ValueError("len() of a scalar tensor")
    if dims is not None and dims[0] is not None:
        return dims[0]
    return get("StridedSlice")(get("Shape")(convert(x)), [0], [1], [1], shrink_axis_mask=1)


def _range(*args: Any) -> Any:
    """range; with tensors, a tensor of numbers."""
    if not any(map(symbolic, args)):
        return range(*args)
    start, limit, delta = {1: (0, *args, 1), 2: (*args, 1)}.get(len(args), args)
    dtype = next(convert(a).dtype.base_dtype for a in args if symbolic(a))
    return get("Range")(*(convert(a, dtype) if not symbolic(a) else convert(a) for a in (start, limit, delta)))


def _int(*args: Any) -> Any:
    return _cast(args[0], dtypes.int32) if args and symbolic(args[0]) else int(*args)


def _float(*args: Any) -> Any:
    return _cast(args[0], dtypes.float32) if args and symbolic(args[0]) else float(*args)


def _cast(x: Any, dtype: Any) -> Any:
    x = convert(x)
    return get("StringToNumber")(x, out_type=dtype) if x.dtype == dtypes.string else get("Cast")(x, DstT=dtype)


def _reducing(plain: Callable, op: str) -> Callable:
    """A builtin over a sequence that reduces a tensor of one dimension."""
    def reduce(*args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and symbolic(args[0]):
            return get(op)(convert(args[0]), 0)
        return plain(*args, **kwargs)
    return reduce


def _abs(x: Any) -> Any:
    return get("Abs")(convert(x)) if symbolic(x) else abs(x)


REPLACED: dict[Any, Callable] = {
    print: _print, len: _len, range: _range, int: _int, float: _float, abs: _abs, any: _reducing(any, "Any"),
    all: _reducing(all, "All"), sum: _reducing(sum, "Sum"), max: _reducing(max, "Max"), min: _reducing(min, "Min"),
}
