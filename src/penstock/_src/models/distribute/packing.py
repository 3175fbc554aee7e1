"""Packing: many tensors are concatenated before they are copied between devices, and split afterwards."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock._src.graph.scopes import device
from penstock._src.ops.registry import get


class Packing:
    """Which tensors go into which pack: neighbours, so that packs have about the same size."""

    def __init__(self, shapes: list[list[int]], sizes: list[int], groups: list[range]):
        self._shapes, self._sizes, self._groups = shapes, sizes, groups

    @classmethod
    def of(cls, columns: Sequence, num_packs: int) -> Packing | None:
        """The packing of some values into `num_packs`; None if there is nothing to pack, or a shape is unknown."""
        shapes = [column[0].shape for column in columns]
        if num_packs < 1 or len(columns) <= num_packs or not all(s.is_fully_defined() for s in shapes):
            return None
        sizes = [s.num_elements() for s in shapes]
        groups: list[Any]
        groups, begin, packed, total = [], 0, 0, sum(sizes)
        for i, size in enumerate(sizes):
            packed += size
            left = num_packs - len(groups) - 1
            if i + 1 == len(sizes) or left and packed * num_packs >= total * (len(groups) + 1):
                groups.append(range(begin, i + 1))
                begin = i + 1
        return cls([s.as_list() for s in shapes], sizes, groups)

    def packed(self, columns: Sequence, where: Sequence[str]) -> list:
        """For each pack, its tensor on every device."""
        out = []
        for members in self._groups:
            pack = []
            for k, d in enumerate(where):
                with device(d or None):
                    flat = [get("Reshape")(columns[i][k], [-1]) for i in members]
                    pack.append(flat[0] if len(flat) == 1 else get("ConcatV2")(flat, 0))
            out.append(pack)
        return out

    def unpacked(self, packs: Sequence, where: Sequence[str]) -> list:
        """The inverse: for each value, its tensor on every device."""
        columns: list[list[Any]] = [[None] * len(where) for _ in self._sizes]
        for members, pack in zip(self._groups, packs, strict=True):
            for k, d in enumerate(where):
                with device(d or None):
                    sizes = [self._sizes[i] for i in members]
                    parts = [pack[k]] if len(sizes) == 1 else get("SplitV")(pack[k], sizes, 0, num_split=len(sizes))
                    for i, part in zip(members, parts, strict=True):
                        columns[i][k] = get("Reshape")(part, self._shapes[i])
        return columns
