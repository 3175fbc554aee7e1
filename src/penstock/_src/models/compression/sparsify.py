"""Few of the numbers, with their places: the largest ones, or those that reach a threshold."""
from __future__ import annotations

import math
from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.models.compression.codec import Codec, as_codec
from penstock._src.ops.registry import get


class _Sparse(Codec):
    """Elements and their indices; the elements may be encoded further by another codec."""

    sparsifies = True
    values: Codec | None

    def places(self, x: Any) -> Any:
        """The indices of the elements that are sent (int32)."""
        raise NotImplementedError

    def encode(self, x: Any) -> list:
        where = self.places(x)
        chosen = get("GatherV2")(x, where, 0)
        return [where, *([chosen] if self.values is None else self.values.encode(chosen))]

    def decode(self, parts: list, size: Any, dtype: Any) -> Any:
        where, *rest = parts
        chosen = get("Cast")(rest[0], DstT=dtype) if self.values is None else \
            self.values.decode(rest, get("Size")(where), dtype)
        return get("ScatterNd")(get("ExpandDims")(where, 1), chosen, get("Pack")([size]))


@export("distribute.experimental.compression.TopK")
class TopK(_Sparse):
    """The `ratio` of the elements (at least one) that are largest in absolute value.

    >>> TopK(0.01, values="float16")       # one percent, in 6 bytes each
    """

    kind = "top_k"

    def __init__(self, ratio: float = 0.01, values: Any = None):
        if not 0 < ratio <= 1:
            raise ValueError(f"ratio must be above 0 and at most 1, got {ratio}")
        self.ratio, self.values = ratio, None if values is None else as_codec(values)

    def places(self, x: Any) -> Any:
        """The indices of the largest elements."""
        known = x.shape.num_elements()
        if known is not None:
            k: Any = min(known, max(1, math.ceil(known * self.ratio)))
        else:
            count = get("Cast")(get("Ceil")(get("Cast")(get("Size")(x), DstT=dtypes.float64) * self.ratio), DstT=dtypes.int32)
            k = get("Minimum")(get("Size")(x), get("Maximum")(count, 1))
        return get("TopKV2")(get("Abs")(x), k, sorted=False)[1]


@export("distribute.experimental.compression.Threshold")
class Threshold(_Sparse):
    """The elements whose absolute value is at least `threshold`, or (`relative`) that part of the largest one."""

    kind = "threshold"

    def __init__(self, threshold: float, relative: bool = False, values: Any = None):
        if not threshold > 0:
            raise ValueError(f"threshold must be positive, got {threshold}")
        self.threshold, self.relative = threshold, relative
        self.values = None if values is None else as_codec(values)

    def places(self, x: Any) -> Any:
        """The indices of the elements that are large, or not a number."""
        size = get("Abs")(x)
        limit = get("Cast")(self.threshold, DstT=x.dtype)
        if self.relative:
            limit = limit * get("Max")(get("ConcatV2")([size, get("Cast")([0.0], DstT=x.dtype)], 0), 0)
        large = get("LogicalNot")(get("Less")(size, limit))
        if self.relative:
            large = get("LogicalAnd")(large, get("NotEqual")(size, get("ZerosLike")(size)))
        return get("Cast")(get("Reshape")(get("Where")(large), [-1]), DstT=dtypes.int32)
