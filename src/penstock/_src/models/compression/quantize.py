"""A few bits for each number and one scale for all of them: eight bits, one bit, three values."""
from __future__ import annotations

from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.models.compression.codec import Codec
from penstock._src.ops.registry import get


def _cast(x: Any, dtype: Any) -> Any:
    return get("Cast")(x, DstT=dtype)


def _greatest(x: Any) -> Any:
    """The greatest absolute value; 0 for no numbers."""
    return get("Max")(get("ConcatV2")([get("Abs")(x), get("Cast")([0.0], DstT=x.dtype)], 0), 0)


def _in_rows(x: Any, width: int) -> Any:
    """A vector in rows of `width`, filled up with zeros."""
    missing = get("FloorMod")(-get("Size")(x), width)
    return get("Reshape")(get("Pad")(x, get("Reshape")(get("Pack")([0, missing]), [1, 2])), [-1, width])


def pack(digits: Any, base: int, per_byte: int) -> Any:
    """Digits (uint8, less than `base`), so many to a byte."""
    weights = _cast([base ** i for i in range(per_byte)], dtypes.uint8)
    return get("Sum")(_in_rows(digits, per_byte) * weights, 1)


def unpack(packed: Any, base: int, per_byte: int, size: Any) -> Any:
    """The digits of `pack`, as int32."""
    weights = [base ** i for i in range(per_byte)]
    column = get("ExpandDims")(_cast(packed, dtypes.int32), 1)
    digits = get("FloorMod")(get("FloorDiv")(column, weights), base)
    return get("Slice")(get("Reshape")(digits, [-1]), [0], get("Pack")([size]))


@export("distribute.experimental.compression.Int8")
class Int8(Codec):
    """Integers from -127 to 127 times a scale, so that the largest element is kept; off by at most scale / 2."""

    kind = "int8"

    def encode(self, x: Any) -> list:
        """The integers and the largest element."""
        greatest = _greatest(x)
        steps = get("Round")(get("DivNoNan")(x, greatest) * get("Cast")(127.0, DstT=x.dtype))
        return [_cast(steps, dtypes.int8), greatest]

    def decode(self, parts: list, size: Any, dtype: Any) -> Any:
        """The integers times the scale."""
        return _cast(parts[0], dtype) * (_cast(parts[1], dtype) / 127.0)


@export("distribute.experimental.compression.OneBit")
class OneBit(Codec):
    """One bit for each number: whether it is negative. The others of a block become their mean, and so do the negative ones.

    The sum of each block is kept. For use with error feedback, without which training does not get far.
    """

    kind = "one_bit"

    def __init__(self, block: int = 256):
        if block < 1:
            raise ValueError(f"block must be positive, got {block}")
        self.block = block

    def encode(self, x: Any) -> list:
        """The bits, eight to a byte, and two means for each block."""
        rows, there = _in_rows(x, self.block), _in_rows(get("OnesLike")(x), self.block)
        negative = get("Less")(x, get("ZerosLike")(x))
        below = _in_rows(_cast(negative, x.dtype), self.block)
        means = [get("DivNoNan")(get("Sum")(rows * part, 1), get("Sum")(part, 1)) for part in (there - below, below)]
        return [pack(_cast(negative, dtypes.uint8), 2, 8), get("Pack")(means, axis=1)]

    def decode(self, parts: list, size: Any, dtype: Any) -> Any:
        """One of the two means of its block for each bit."""
        block = get("FloorDiv")(get("Range")(0, size, 1), self.block)
        means = get("Reshape")(_cast(parts[1], dtype), [-1])
        return get("GatherV2")(means, block * 2 + unpack(parts[0], 2, 8, size), 0)


@export("distribute.experimental.compression.Ternary")
class Ternary(Codec):
    """-1, 0 or 1 times a scale, five to a byte. The scale is `part` of the largest element; what is at least half of it is
    sent.

    For use with error feedback, as OneBit.
    """

    kind = "ternary"

    def __init__(self, part: float = 1.0):
        if not 0 < part <= 1:
            raise ValueError(f"part must be above 0 and at most 1, got {part}")
        self.part = part

    def encode(self, x: Any) -> list:
        """The digits 0, 1 and 2, and the scale."""
        scale = _greatest(x) * get("Cast")(self.part, DstT=x.dtype)
        relative = get("DivNoNan")(x, scale)
        half = get("Cast")(0.5, DstT=x.dtype)
        up, down = get("GreaterEqual")(relative, half), get("LessEqual")(relative, -half)
        one = _cast([1], dtypes.uint8)
        return [pack(one + _cast(up, dtypes.uint8) - _cast(down, dtypes.uint8), 3, 5), scale]

    def decode(self, parts: list, size: Any, dtype: Any) -> Any:
        """The digits, less one, times the scale."""
        return _cast(unpack(parts[0], 3, 5, size) - 1, dtype) * _cast(parts[1], dtype)
