"""Operations on the bits of integers."""
from __future__ import annotations

from collections.abc import Callable

import torch

from penstock._src.base import errors
from penstock._src.base import static_shape as shapes
from penstock._src.kernels import unsigned
from penstock._src.ops import rules
from penstock._src.ops.registry import OpDef, op

_WIDTH = {torch.int8: 8, torch.uint8: 8, torch.int16: 16, torch.uint16: 16, torch.int32: 32, torch.uint32: 32,
          torch.int64: 64, torch.uint64: 64}


def _bits(name: str, kernel: Callable, public: str, *, commutative: bool = True) -> OpDef:
    made = op(name, "x: T, y: T -> z: T", "T: type in {integer}", commutative=commutative,
              export_as=f"bitwise.{public}").no_gradient()
    rules.batching.elementwise.add(made)
    made.shape(shapes.broadcast)
    made.kernel(kernel)
    return made


bitwise_and = _bits("BitwiseAnd", torch.bitwise_and, "bitwise_and")
bitwise_or = _bits("BitwiseOr", torch.bitwise_or, "bitwise_or")
bitwise_xor = _bits("BitwiseXor", torch.bitwise_xor, "bitwise_xor")

invert = op("Invert", "x: T -> y: T", "T: type in {integer}", export_as="bitwise.invert").no_gradient()
rules.arithmetic.involution.add(invert)
rules.batching.elementwise.add(invert)
invert.shape(lambda x: x)
invert.kernel(torch.bitwise_not)
invert.kernel(unsigned.wrapping(torch.bitwise_not), types=unsigned.TYPES)


def _distance(y: torch.Tensor) -> torch.Tensor:
    """How far to shift: at most by all bits but one, and never by a negative number."""
    return torch.clamp(y.to(torch.int64), 0, _WIDTH[y.dtype] - 1)


def _left(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    by = _distance(y)
    x = unsigned.signed(x) if unsigned.is_wide(x) else x
    return torch.bitwise_left_shift(x, by.to(x.dtype))


def _right(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    if x.dtype is torch.uint64:
        by = _distance(y)
        moved = torch.bitwise_right_shift(unsigned.signed(x), by)
        mask = torch.where(by == 0, torch.full_like(by, -1), (torch.ones_like(by) << (64 - by).clamp(max=63)) - 1)
        return unsigned.unsigned(moved & mask)
    if unsigned.is_wide(x):
        return torch.bitwise_right_shift(x.to(torch.int64), _distance(y)).to(x.dtype)
    return torch.bitwise_right_shift(x, _distance(y).to(x.dtype))


left_shift = _bits("LeftShift", _left, "left_shift", commutative=False)
right_shift = _bits("RightShift", _right, "right_shift", commutative=False)
left_shift.kernel(lambda x, y: unsigned.unsigned(_left(x, y)), types=unsigned.TYPES)

population_count = op("PopulationCount", "x: T -> y: uint8", "T: type in {integer}").no_gradient()
population_count.shape(lambda x: x)


@population_count.kernel
def _population_count_kernel(x):
    """The number of ones, adding up neighbouring groups of bits."""
    width = _WIDTH[x.dtype]
    wide = (unsigned.signed(x) if x.dtype is torch.uint64 else x).to(torch.int64)
    low = wide & ((1 << min(width, 63)) - 1)
    count = ((wide >> 63) & 1) if width == 64 else torch.zeros_like(wide)
    for shift, mask in ((1, 0x5555555555555555), (2, 0x3333333333333333), (4, 0x0F0F0F0F0F0F0F0F)):
        low = (low & mask) + ((low >> shift) & mask)
    for shift in (8, 16, 32):
        low = low + (low >> shift)
    return (count + (low & 0x7F)).to(torch.uint8)


compare_and_bitpack = op("CompareAndBitpack", "input: T, threshold: T -> output: uint8",
                         "T: type in {bool half float32 float64 int8 int16 int32 int64}").no_gradient()


@compare_and_bitpack.shape
def _compare_and_bitpack_shape(input, threshold):
    if threshold is not None and len(threshold):
        raise ValueError(f"Shape must be rank 0 but is rank {len(threshold)}: threshold")
    if input is None:
        return None
    if not input or (input[-1] or 0) % 8:
        raise ValueError(f"Inner dimension of input must be divisible by 8, but saw shape: {list(input)}")
    return (*input[:-1], None if input[-1] is None else input[-1] // 8)


@compare_and_bitpack.kernel
def _compare_and_bitpack_kernel(input, threshold):
    if threshold.ndim:
        raise errors.invalid(f"Compare must be a scalar, but saw shape: {list(threshold.shape)}")
    if not input.ndim or input.shape[-1] % 8:
        raise errors.invalid(f"Inner dimension of input should be divisible by 8, but saw shape: {list(input.shape)}")
    bits = (input if input.dtype is torch.bool else input > threshold).unflatten(-1, (-1, 8))
    weights = torch.tensor([128, 64, 32, 16, 8, 4, 2, 1], dtype=torch.uint8, device=input.device)
    return (bits * weights).sum(-1, dtype=torch.uint8)
