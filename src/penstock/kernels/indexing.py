"""Checked row and multi-dimensional indices, shared by gathers and scatters.

Everything that indexes goes through here first, so that an index out of range is an InvalidArgumentError that names
the index, its value and the bound, and never a crash.
"""
from __future__ import annotations

from collections.abc import Iterator

import torch

from penstock.errors import invalid


def _position(flat: int, dims: tuple[int, ...]) -> str:
    """`[i,j]` for the position of a flat index in a tensor of shape `dims`; nothing for a scalar."""
    out: list[int] = []
    for d in reversed(dims):
        out.append(flat % d)
        flat //= d
    return f"[{','.join(map(str, reversed(out)))}]" if dims else ""


def checked(indices: torch.Tensor, limit: int, name: str = "indices") -> torch.Tensor:
    """`indices` as int64, all of them known to be in [0, limit)."""
    wide = indices.long()
    bad = (wide < 0) | (wide >= limit)
    if bool(bad.any()):
        at = int(bad.reshape(-1).nonzero()[0])
        raise invalid(f"{name}{_position(at, tuple(indices.shape))} = {int(wide.reshape(-1)[at])} is not in "
                      f"[0, {limit})")
    return wide


def flat_nd(indices: torch.Tensor, dims: tuple[int, ...], name: str = "indices") -> torch.Tensor:
    """Row numbers into a tensor of shape `dims` whose first K dimensions are merged, for indices of shape [..., K]."""
    if indices.ndim < 1:
        raise invalid(f"{name} must be at least a vector")
    k = indices.shape[-1]
    if k > len(dims):
        raise invalid(f"index innermost dimension length must be <= params rank; saw: {k} vs. {len(dims)}")
    wide = indices.reshape(-1, k).long()
    sizes = torch.tensor(dims[:k], dtype=torch.int64, device=indices.device)
    bad = ((wide < 0) | (wide >= sizes)).any(1)
    if bool(bad.any()):
        at = int(bad.nonzero()[0])
        values = ", ".join(map(str, wide[at].tolist()))
        raise invalid(f"{name}{_position(at, tuple(indices.shape[:-1]))} = [{values}] does not index into shape "
                      f"[{','.join(map(str, dims))}]")
    strides, step = [], 1
    for d in reversed(dims[:k]):
        strides.append(step)
        step *= d
    weights = torch.tensor(strides[::-1], dtype=torch.int64, device=indices.device)
    return (wide * weights).sum(1)


def rounds(indices: torch.Tensor) -> Iterator[torch.Tensor | slice]:
    """Positions of a vector of indices in groups without duplicates, in order: usually one group of all.

    Applying an update group after group gives what applying it index after index would.
    """
    n = indices.numel()
    order = torch.argsort(indices, stable=True)
    ordered = indices[order]
    start = torch.ones(n, dtype=torch.bool, device=indices.device)
    if n:
        start[1:] = ordered[1:] != ordered[:-1]
    if bool(start.all()):
        yield slice(None)
        return
    places = torch.arange(n, device=indices.device)
    first = torch.cummax(torch.where(start, places, torch.zeros_like(places)), 0).values
    occurrence = torch.empty_like(places)
    occurrence[order] = places - first
    for i in range(int(occurrence.max()) + 1):
        yield (occurrence == i).nonzero().reshape(-1)
