"""Adding up gradients of the same variable: tensors, rows of tensors, or none."""
from __future__ import annotations

from typing import Any

from penstock._src.graph.convert import convert
from penstock._src.graph.indexed_slices import IndexedSlices
from penstock._src.ops.registry import get


def added(a: Any, b: Any) -> Any:
    """The sum of two gradients, either of which may be missing or of some rows."""
    if a is None or b is None:
        return a if b is None else b
    if isinstance(a, IndexedSlices) and isinstance(b, IndexedSlices):
        return IndexedSlices(get("ConcatV2")([a.values, b.values], 0), get("ConcatV2")([a.indices, b.indices], 0),
                             a.dense_shape)
    return get("AddV2")(convert(a), convert(b))
