"""Samples of the ragged ops."""
import numpy as np

from tests.registry.sample import f, sample

sample("RaggedRange", np.array([0, 5, 8], np.int32), np.array([3, 5, 2], np.int32), np.array([1, 1, -2], np.int32),
       expect=lambda a, b, c: [np.array([0, 3, 3, 6]), np.array([0, 1, 2, 8, 6, 4])])
SPLITS = np.array([0, 2, 2, 5], np.int64)
sample("RaggedGather", [SPLITS], f(5, 2), np.array([2, 0, 2], np.int64), OUTPUT_RAGGED_RANK=1, grad=False)
sample("RaggedTensorToSparse", [SPLITS], f(5), expect=lambda splits, values: [
    np.array([[0, 0], [0, 1], [2, 0], [2, 1], [2, 2]]), values, np.array([3, 3])])
sample("RaggedTensorToTensor", np.array([-1, -1], np.int64), f(5), np.float32(9), [SPLITS], row_partition_types=["ROW_SPLITS"],
       expect=lambda _, v, d, p: np.array([[v[0], v[1], d], [d] * 3, v[2:]]))
sample("RaggedTensorToTensor", np.array([4, 2, -1], np.int64), f(5, 2), f(1), [SPLITS], row_partition_types=["ROW_SPLITS"],
       expect=lambda _, v, d, p: np.array([v[:2], [[d[0]] * 2] * 2, v[2:4], [[d[0]] * 2] * 2]))
sample("RaggedTensorToTensor", np.int32(-1), f(4), np.float32(0),
       [np.int32(3), np.array([0, 0, 2], np.int32), np.array([0, 1, 1, 2], np.int32)],
       row_partition_types=["FIRST_DIM_SIZE", "VALUE_ROWIDS", "VALUE_ROWIDS"],
       expect=lambda _, v, d, p: np.array([[[v[0], 0], [v[1], v[2]]], [[0, 0], [0, 0]], [[v[3], 0], [0, 0]]]))
