"""Samples of convolutions with the padding and resizing before them."""
import numpy as np

from tests.registry.sample import f, sample

_PADS = np.array([[0, 0], [1, 2], [2, 1], [0, 0]], np.int32)
for _mode in ("REFLECT", "SYMMETRIC"):
    for _padding in ("SAME", "VALID"):
        sample("FusedPadConv2D", f(1, 5, 6, 2), _PADS, f(3, 2, 2, 3), mode=_mode, strides=[1, 2, 2, 1], padding=_padding)
        sample("FusedResizeAndPadConv2D", f(1, 4, 3, 2), np.array([6, 5], np.int32), _PADS, f(3, 2, 2, 3), mode=_mode,
               strides=[1, 1, 1, 1], padding=_padding, resize_align_corners=_mode == "REFLECT")


def _one_by_one(x, pads, w):
    padded = np.pad(x, pads, "symmetric")
    return np.einsum("bhwi,io->bhwo", padded, w[0, 0])


sample("FusedPadConv2D", f(2, 5, 6, 2), _PADS, f(1, 1, 2, 3), mode="SYMMETRIC", strides=[1, 1, 1, 1], padding="VALID",
       expect=_one_by_one)
