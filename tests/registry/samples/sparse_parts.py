"""Samples of concat, split and slice of sparse tensors."""
import numpy as np

from tests.registry.sample import f, i, s, sample

A, B = np.array([[0, 1], [2, 0]], np.int64), np.array([[1, 3], [2, 2]], np.int64)
A_SHAPE, B_SHAPE = np.array([3, 2], np.int64), np.array([3, 4], np.int64)

for _a, _b in ((f(2), f(2)), (i(2), i(2)), (s("a", "b"), s("c", "d"))):
    sample("SparseConcat", [A, B], [_a, _b], [A_SHAPE, B_SHAPE], concat_dim=1)
sample("SparseConcat", [A, A], [f(2), f(2)], [A_SHAPE, A_SHAPE], concat_dim=-2)
for _values in (f(2), i(2), s("c", "d")):
    sample("SparseSplit", np.int64(1), B, _values, B_SHAPE, num_split=3)
    sample("SparseSlice", B, _values, B_SHAPE, np.array([1, 1], np.int64), np.array([1, 9], np.int64))
sample("SparseSlice", B, f(2), B_SHAPE, np.array([0, 2], np.int64), np.array([3, 2], np.int64))
sample("SparseSliceGrad", f(1), B, np.array([1, 1], np.int64), np.array([[0, 2]], np.int64),
       expect=lambda g, x, start, out: np.array([g[0], 0]))
