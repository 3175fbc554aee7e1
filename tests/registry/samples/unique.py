"""Samples of sets, permutations and one-hot rows."""
import numpy as np

from penstock._src.base import dtypes
from tests.registry.sample import f, i, s, sample

MATRIX = np.array([[1, 2, 1], [1, 2, 1], [0, 3, 0]], np.int32)

sample("Unique", i(9, low=0, high=4))
sample("Unique", s("b", "a", "b"), out_idx=dtypes.int64)
sample("Unique", np.array([2.5, -1, 2.5], np.float32))
sample("UniqueV2", MATRIX, np.array([0], np.int64))
sample("UniqueV2", MATRIX, np.array([1], np.int64))
sample("UniqueV2", i(9, low=0, high=4), np.array([], np.int64))
sample("UniqueWithCounts", i(9, low=0, high=4))
sample("UniqueWithCounts", s("b", "a", "b"))
sample("UniqueWithCountsV2", MATRIX, np.array([0], np.int64))
sample("ListDiff", i(9, low=0, high=6), i(4, low=0, high=3))
sample("ListDiff", s("b", "a", "b", "c"), s("b"))
sample("ListDiff", f(4), f(2))
sample("InvertPermutation", np.array([2, 0, 3, 1], np.int32), expect=np.argsort)
sample("OneHot", i(2, 3, low=-1, high=5), np.int32(4), np.float32(2), np.float32(-1), grad=False)
sample("OneHot", i(2, 3, low=0, high=4), np.int32(4), np.float32(1), np.float32(0), axis=0, grad=False)
sample("OneHot", i(3, low=0, high=4, dtype=np.int64), np.int32(4), np.int32(1), np.int32(0), axis=1,
       expect=lambda j, d, on, off: np.eye(4, dtype=np.int32)[j])
sample("OneHot", np.array([0, 2, -1], np.int8), np.int32(3), np.float32(1), np.float32(0),
       expect=lambda i, n, on, off: np.array([[1, 0, 0], [0, 0, 1], [0, 0, 0]], np.float32))
