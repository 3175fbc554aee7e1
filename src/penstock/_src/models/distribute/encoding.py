"""The encoded form of a gradient: reductions between workers send it again instead of the decoded gradient.

The compressor (`compression/memory.py`) leaves an `Encoding` with each gradient that it has encoded and decoded. A gradient
that is changed afterwards is another tensor, has none, and is reduced as it is. Encoded numbers that may be added (fewer bits)
are reduced; others are exchanged, decoded, and added up in the order of the workers, so that all get the same bits.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from penstock._src.graph.indexed_slices import IndexedSlices, add_gradients
from penstock._src.ops.registry import get


class Encoding(NamedTuple):
    """The tensors that represent a gradient, the function that makes it of them, and whether they may be added instead."""
    parts: list
    decode: Callable[[list], Any]
    linear: bool


def with_encoding(gradient: Any, encoding: Encoding) -> Any:
    """The gradient; what reduces it between workers finds the encoding."""
    _holder(gradient)._encoding = encoding
    return gradient


def encoding_of(gradient: Any) -> Encoding | None:
    """The encoding of a gradient, if any."""
    return getattr(_holder(gradient), "_encoding", None)


def _holder(gradient: Any) -> Any:
    return gradient.values if isinstance(gradient, IndexedSlices) else gradient


def encoded_sums(workers: Any, gradients: Sequence[Sequence]) -> list:
    """The sums, over all replicas of all workers, of gradients that have encodings: one for each list of replicas."""
    found: list[list[Encoding]] = [[encoding_of(g) for g in replicas] for replicas in gradients]     # type: ignore[misc]
    sums: list[list] = [[] for _ in found]
    linear = [(i, e) for i, replicas in enumerate(found) for e in replicas if e.linear]
    for dtype in dict.fromkeys(e.parts[0].dtype for _, e in linear):
        some = [(i, e) for i, e in linear if e.parts[0].dtype == dtype]
        for (i, e), total in zip(some, workers.reduced([e.parts[0] for _, e in some]), strict=True):
            sums[i].append(e.decode([total]))
    others = [(i, e) for i, replicas in enumerate(found) for e in replicas if not e.linear]
    for theirs in workers.exchanged([p for _, e in others for p in e.parts]) if others else ():
        left = iter(theirs)
        for i, e in others:
            sums[i].append(e.decode([next(left) for _ in e.parts]))
    return [_added(s) for s in sums]


def _added(gradients: list) -> Any:
    if len(gradients) == 1:
        return gradients[0]
    return add_gradients(gradients) if isinstance(gradients[0], IndexedSlices) else get("AddN")(gradients)
