"""Fewer bits for each number: bfloat16 and float16."""
from __future__ import annotations

from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.models.compression.codec import Codec
from penstock._src.ops.registry import get


class _Cast(Codec):
    """Numbers in another type."""

    _type: Any

    def encode(self, x: Any) -> list:
        return [get("Cast")(x, DstT=self._type)]

    def decode(self, parts: list, size: Any, dtype: Any) -> Any:
        return get("Cast")(parts[0], DstT=dtype)


@export("distribute.experimental.compression.Bfloat16")
class Bfloat16(_Cast):
    """The range of float32 with 8 bits of precision, in 2 bytes."""

    kind, lossy, _type = "bfloat16", False, dtypes.bfloat16


@export("distribute.experimental.compression.Float16")
class Float16(_Cast):
    """11 bits of precision up to 65504, in 2 bytes; what is larger is cut to it."""

    kind, lossy, _type = "float16", False, dtypes.float16

    def encode(self, x: Any) -> list:
        """The numbers within the range of float16. Those that are not finite stay so."""
        cut = get("Minimum")(get("Maximum")(x, get("Cast")(-65504.0, DstT=x.dtype)), get("Cast")(65504.0, DstT=x.dtype))
        return super().encode(get("SelectV2")(get("IsFinite")(x), cut, x))
