"""Samples of sparse tensors in another order or shape."""
import numpy as np

from tests.registry.sample import f, i, s, sample

INDICES = np.array([[0, 3], [2, 1], [2, 0], [0, 1]], np.int64)
SHAPE = np.array([4, 5], np.int64)
ORDER = [3, 0, 2, 1]

for _values in (f(4), i(4), f(4, dtype=np.float16), s("a", "b", "c", "d")):
    sample("SparseReorder", INDICES, _values, SHAPE, expect=lambda x, v, n: (x[ORDER], v[ORDER]))
sample("SparseReshape", INDICES, SHAPE, np.array([2, -1], np.int64),
       expect=lambda x, old, new: (np.stack(np.unravel_index(np.ravel_multi_index(x.T, old), (2, 10)), 1), np.array([2, 10])))
sample("SparseReshape", INDICES, SHAPE, SHAPE, expect=lambda x, old, new: (x, old))
sample("SparseReshape", np.zeros((0, 2), np.int64), SHAPE, np.array([20], np.int64))
sample("SparseFillEmptyRows", INDICES[ORDER], f(4), SHAPE, np.float32(9))
sample("SparseFillEmptyRows", INDICES[ORDER], s("a", "b", "c", "d"), SHAPE, np.array(b"-", object))
sample("SparseFillEmptyRows", np.zeros((0, 2), np.int64), f(0), SHAPE, np.float32(9), grad=False)
sample("SparseFillEmptyRowsGrad", np.array([2, 0], np.int64), f(4), grad=False,
       expect=lambda m, g: (g[m], np.float32(g[1] + g[3])))
