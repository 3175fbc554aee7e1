"""How two contributions become one (`merge_op`), and what is done with the last result (`final_op`)."""
from __future__ import annotations

import functools
from collections.abc import Callable

import torch

from penstock._src.base import errors

Merge = Callable[[torch.Tensor, torch.Tensor], None]
_UNORDERED = (torch.complex64, torch.complex128)
_WIDER = {torch.uint16: torch.int32, torch.uint32: torch.int64, torch.uint64: torch.int64}     # ATen adds few unsigned types


def _add(into: torch.Tensor, x: torch.Tensor) -> None:
    into.add_(x)


def _mul(into: torch.Tensor, x: torch.Tensor) -> None:
    into.mul_(x)


def _min(into: torch.Tensor, x: torch.Tensor) -> None:
    torch.minimum(into, x, out=into)


def _max(into: torch.Tensor, x: torch.Tensor) -> None:
    torch.maximum(into, x, out=into)


MERGES: dict[str, Merge] = {"Add": _add, "Mul": _mul, "Min": _min, "Max": _max}


@functools.cache
def merge_op(name: str, dtype: torch.dtype) -> Merge:
    """The function `merge(into, x)` that puts the combination of both into the first.

    >>> merge_op("Add", torch.float32)(total, part)
    """
    found = MERGES.get(name)
    if found is None:
        raise errors.invalid(f"{name!r} is not a merge op: {', '.join(MERGES)}.")
    if name in ("Min", "Max") and dtype in _UNORDERED:
        raise errors.invalid(f"Numbers of type {dtype} have no order: {name} cannot merge them.")
    wide = _WIDER.get(dtype)
    if wide is None:
        return found
    if dtype == torch.uint64 and name in ("Min", "Max"):
        return _ordered_as_signed(found)

    def merge(into: torch.Tensor, x: torch.Tensor) -> None:
        total = into.to(wide)
        found(total, x.to(wide))
        into.copy_(total.to(dtype))
    return merge


def _ordered_as_signed(found: Merge) -> Merge:
    """Compares 64 bits without a sign: flipping the highest one makes the order that of signed numbers."""
    def merge(into: torch.Tensor, x: torch.Tensor) -> None:
        flip = torch.tensor(-2 ** 63, dtype=torch.int64, device=into.device)
        total = into.view(torch.int64) ^ flip
        found(total, x.view(torch.int64) ^ flip)
        into.view(torch.int64).copy_(total ^ flip)
    return merge


def finish(name: str, total: torch.Tensor, members: int) -> torch.Tensor:
    """The final op on the merged value, which may be written into."""
    if name == "Id":
        return total
    if name != "Div":
        raise errors.invalid(f"{name!r} is not a final op: use Id or Div.")
    if total.is_floating_point() or total.is_complex():
        return total.div_(members)
    wide = _WIDER.get(total.dtype)
    if wide is None:
        return total.div_(members, rounding_mode="trunc")
    return torch.div(total.to(wide), members, rounding_mode="trunc").to(total.dtype)
