"""Samples of the map of sparse tensors: each handle is new, so values cannot be compared."""
import numpy as np

from tests.registry.sample import f, s, sample

INDICES, SHAPE = np.array([[0, 1], [2, 0]], np.int64), np.array([3, 2], np.int64)

for _values in (f(2), s("a", "b")):
    sample("AddSparseToTensorsMap", INDICES, _values, SHAPE, random=True)
    sample("AddManySparseToTensorsMap", INDICES, _values, SHAPE, random=True)
