"""Samples of padding."""
import numpy as np

from tests.registry.sample import f, s, sample

AROUND = np.array([[1, 0], [2, 1]], np.int32)

sample("Pad", f(2, 3), AROUND, expect=np.pad)
sample("Pad", s("a"), np.array([[1, 1]], np.int32))
sample("PadV2", f(2, 3), AROUND, np.float32(7), grad=[0], expect=lambda x, p, c: np.pad(x, p, constant_values=c))
sample("MirrorPad", f(3, 4), AROUND, mode="REFLECT", expect=lambda x, p: np.pad(x, p, "reflect"))
sample("MirrorPad", f(3, 4), AROUND, mode="SYMMETRIC", expect=lambda x, p: np.pad(x, p, "symmetric"))
sample("MirrorPadGrad", f(4, 7), AROUND, mode="REFLECT")
sample("MirrorPadGrad", f(4, 7), AROUND, mode="SYMMETRIC")
