"""Counts of sparse and ragged values."""
import numpy as np

from tests.registry.sample import sample

NONE = np.zeros(0, np.int32)
SPLITS = np.array([0, 3, 3, 5], np.int64)
VALUES = np.array([1, 1, 3, 0, 7], np.int32)
PLACES = np.array([[0, 0], [0, 2], [0, 3], [2, 1], [2, 2]], np.int64)
SHAPE = np.array([3, 4], np.int64)
DENSE = np.array([[0, 2, 0, 1], [0, 0, 0, 0], [1, 0, 0, 0]], np.int32)
sample("RaggedBincount", SPLITS, VALUES, np.int32(4), NONE, expect=lambda *a: DENSE)
sample("RaggedBincount", SPLITS, VALUES, np.int32(4), NONE, binary_output=True, expect=lambda *a: np.minimum(DENSE, 1))
sample("SparseBincount", PLACES, VALUES, SHAPE, np.int32(4), NONE, expect=lambda *a: DENSE)
sample("SparseBincount", PLACES[:, 1:], VALUES, SHAPE[1:], np.int32(4), np.array([1, 2, 3, 4, 5], np.float32), grad=False,
       expect=lambda *a: np.array([4, 3, 0, 3], np.float32))
COUNTED = (np.array([[0, 1], [0, 3], [2, 0], [2, 7]], np.int64), np.array([2, 1, 1, 1], np.int32), np.array([3, 8], np.int64))
sample("RaggedCountSparseOutput", SPLITS, VALUES, NONE, binary_output=False, expect=lambda *a: COUNTED)
sample("SparseCountSparseOutput", PLACES, VALUES, SHAPE, NONE, binary_output=False, expect=lambda *a: COUNTED)
sample("SparseCountSparseOutput", PLACES, VALUES, SHAPE, np.array([1, 2, 3, 4, 5], np.int32), binary_output=False, maxlength=5,
       expect=lambda *a: (COUNTED[0][:3], np.array([3, 3, 4], np.int32), np.array([3, 5], np.int64)))
sample("DenseCountSparseOutput", VALUES, NONE, binary_output=True, minlength=9,
       expect=lambda *a: (np.array([[0], [1], [3], [7]], np.int64), np.ones(4, np.int32), np.array([9], np.int64)))
