"""Counting."""
import numpy as np

from tests.registry.sample import i, sample

NONE = np.zeros(0, np.int32)
sample("Bincount", i(20, low=0, high=6), np.int32(6), NONE, expect=lambda x, n, w: np.bincount(x, minlength=6))
sample("Bincount", np.array([1, 1, 9], np.int32), np.int32(3), np.array([1, 2, 4], np.float32),
       expect=lambda x, n, w: np.array([0, 3, 0], np.float32), grad=False)
sample("DenseBincount", np.array([[1, 1], [0, 2]], np.int32), np.int32(3), NONE,
       expect=lambda x, n, w: np.array([[0, 2, 0], [1, 0, 1]], np.int32))
sample("DenseBincount", np.array([1, 1, 0], np.int64), np.int64(3), NONE, binary_output=True,
       expect=lambda x, n, w: np.array([1, 1, 0], np.int32))
VALUES = np.array([-1.0, 0.0, 1.5, 2.0, 5.0, 15], np.float32)
sample("HistogramFixedWidth", VALUES, np.array([0, 5], np.float32), np.int32(5), grad=False,
       expect=lambda v, r, n: np.array([2, 1, 1, 0, 2], np.int32))
sample("Bucketize", VALUES, boundaries=[0.0, 1.5, 4.0], expect=lambda v: np.digitize(v, [0, 1.5, 4]).astype(np.int32))
