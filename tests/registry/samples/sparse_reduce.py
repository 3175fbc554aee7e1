"""Samples of reductions of sparse tensors."""
import numpy as np

from tests.registry.sample import f, i, sample

INDICES = np.array([[0, 0, 1], [0, 2, 0], [1, 1, 1], [1, 2, 1]], np.int64)
SHAPE = np.array([2, 3, 2], np.int64)

for _axes in ([0], [1, 2], [-1], [0, 1, 2]):
    for _keep in (False, True):
        for _name in ("SparseReduceSum", "SparseReduceMax", "SparseReduceSumSparse", "SparseReduceMaxSparse"):
            sample(_name, INDICES, f(4), SHAPE, np.array(_axes, np.int32), keep_dims=_keep)
for _name in ("SparseReduceSum", "SparseReduceMax"):
    sample(_name, INDICES, i(4), SHAPE, np.array([0], np.int32))
    sample(_name, INDICES, i(4, low=0, dtype=np.uint16), SHAPE, np.int32(1))
    sample(_name, INDICES, f(4, dtype=np.float16), SHAPE, np.int32(1), rtol=1e-2, atol=1e-2)
