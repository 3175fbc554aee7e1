"""Samples of the ragged ops."""
import numpy as np

from tests.registry.sample import f, sample

sample("RaggedRange", np.array([0, 5, 8], np.int32), np.array([3, 5, 2], np.int32), np.array([1, 1, -2], np.int32),
       expect=lambda a, b, c: [np.array([0, 3, 3, 6]), np.array([0, 1, 2, 8, 6, 4])])
SPLITS = np.array([0, 2, 2, 5], np.int64)
sample("RaggedGather", [SPLITS], f(5, 2), np.array([2, 0, 2], np.int64), OUTPUT_RAGGED_RANK=1, grad=False)
sample("RaggedTensorToSparse", [SPLITS], f(5), expect=lambda splits, values: [
    np.array([[0, 0], [0, 1], [2, 0], [2, 1], [2, 2]]), values, np.array([3, 3])])
