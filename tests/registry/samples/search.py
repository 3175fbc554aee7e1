"""Samples of searches."""
import numpy as np

from penstock._src.base import dtypes
from tests.registry.sample import f, i, sample

ROWS = np.sort(f(2, 5), 1)

sample("LowerBound", ROWS, f(2, 3), expect=lambda r, v: np.stack([np.searchsorted(*p) for p in zip(r, v)]))
sample("UpperBound", np.array([[1, 2, 2, 5]], np.int32), i(1, 4, low=0, high=7), out_type=dtypes.int64)
sample("UnravelIndex", np.array([2, 5, 7], np.int32), np.array([3, 3], np.int32),
       expect=lambda j, d: np.stack(np.unravel_index(j, d)))
sample("UnravelIndex", np.int32(5), np.array([3, 3], np.int32))
