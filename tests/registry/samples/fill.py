"""Samples of tensors made of one value."""
import numpy as np

from penstock._src.base import dtypes
from tests.registry.sample import b, f, s, sample

sample("Fill", np.array([2, 3], np.int32), np.float32(4.5), expect=lambda d, v: np.full(d, v))
sample("Fill", np.array([2], np.int64), np.array(b"x", object))
sample("ZerosLike", f(2, 3), expect=np.zeros_like)
sample("ZerosLike", s("a", "b"))
sample("OnesLike", f(2, 3), expect=np.ones_like)
sample("OnesLike", b(2, 3), expect=np.ones_like)
sample("Empty", np.array([2, 3], np.int32), dtype=dtypes.float32, init=True, expect=lambda d: np.zeros(d, np.float32))
