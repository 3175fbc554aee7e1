"""Lists of tensors with the interface of one tensor, on ATen's kernels over lists.

A rule that is written for one tensor (an optimizer's update) runs on many small ones with a few launches. Functions without
such a kernel run tensor by tensor.
"""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

_NAMES = "abs add addcdiv addcmul copy_ div exp lerp mul neg pow rsqrt sign sqrt sub".split()
_LISTED: dict[str, Callable] = {
    form: getattr(torch, f"_foreach_{form}") for name in _NAMES for form in {name, f"{name.rstrip('_')}_"}
    if hasattr(torch, f"_foreach_{form}")}
_BY_TENSOR = {                    # those that take one tensor for all; torch._foreach_add would read it on the host
    form: getattr(torch.ops.aten, f"_foreach_{form}").Tensor for form in ("add", "add_", "div", "div_", "mul", "mul_")}


class Many:
    """A list of tensors of one type on one device."""

    __slots__ = ("of",)

    def __init__(self, of: list[torch.Tensor]):
        self.of = of

    dtype = property(lambda self: self.of[0].dtype)
    is_cpu = property(lambda self: self.of[0].is_cpu)

    def is_complex(self) -> bool:
        """Whether the tensors are."""
        return self.of[0].is_complex()

    def __getattr__(self, name: str) -> Callable:
        return functools.partial(_called, name, self)

    def __add__(self, other: Any) -> Many:
        return _called("add", self, other)

    def __sub__(self, other: Any) -> Many:
        return _called("sub", self, other)

    def __rsub__(self, other: Any) -> Many:
        return _called("add", _called("neg", self), other)

    def __mul__(self, other: Any) -> Many:
        return _called("mul", self, other)

    def __truediv__(self, other: Any) -> Many:
        return _called("div", self, other)

    def __gt__(self, other: Any) -> Many:
        return _called("gt", self, other)

    __radd__, __rmul__ = __add__, __mul__

    @classmethod
    def __torch_function__(cls, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Many:
        """A function of torch, tensor by tensor."""
        kwargs = kwargs or {}
        count = next(len(a.of) for a in (*args, *kwargs.values()) if isinstance(a, Many))
        return Many([func(*[_at(a, i) for a in args], **{n: _at(a, i) for n, a in kwargs.items()}) for i in range(count)])


def _at(value: Any, i: int) -> Any:
    return value.of[i] if isinstance(value, Many) else value


def _called(name: str, self: Many, *args: Any, **kwargs: Any) -> Many:
    """The method of that name, of all tensors."""
    in_place = name.endswith("_")
    if name.rstrip("_") == "addcmul" and not isinstance(args[1], Many):
        return _called("add_" if in_place else "add", self, args[0] * args[1], alpha=kwargs.get("value", 1))
    listed = (_BY_TENSOR if any(isinstance(a, torch.Tensor) for a in args) else _LISTED).get(name)
    if listed is None:
        out = [getattr(t, name)(*[_at(a, i) for a in args], **kwargs) for i, t in enumerate(self.of)]
    else:
        out = listed(self.of, *[a.of if isinstance(a, Many) else a for a in args], **kwargs)
    return self if in_place else Many(list(out))
