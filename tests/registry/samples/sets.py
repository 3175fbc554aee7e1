"""Samples of sets along the last axis."""
import numpy as np

from tests.registry.sample import s, sample

INDICES = np.array([[0, 0], [0, 1], [2, 0], [2, 1]], np.int64)
SHAPE = np.array([3, 2], np.int64)
DENSE = np.array([[1, 2, 2], [4, 5, 6], [7, 8, 9]])

for _kind in (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16):
    sample("SetSize", INDICES, np.array([3, 3, 1, 9], _kind), SHAPE, expect=lambda *_: np.array([1, 0, 2]))
    sample("DenseToDenseSetOperation", DENSE.astype(_kind), DENSE[::-1].astype(_kind), set_operation="union")
for _operation in ("a-b", "b-a", "intersection", "union"):
    sample("DenseToDenseSetOperation", DENSE, DENSE[:, 1:] + 1, set_operation=_operation)
    sample("DenseToSparseSetOperation", DENSE, INDICES, np.array([2, 3, 7, 10]), SHAPE, set_operation=_operation)
    sample("SparseToSparseSetOperation", INDICES, s("b", "a", "c", "d"), SHAPE, INDICES[1:], s("b", "d", "e"), SHAPE,
           set_operation=_operation)
