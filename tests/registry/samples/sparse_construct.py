"""Samples of SparseToDense."""
import numpy as np

from tests.registry.sample import f, i, s, sample

INDICES = np.array([[0, 1], [2, 0]], np.int64)
SHAPE = np.array([3, 2], np.int64)


def dense(indices, shape, values, default):
    out = np.full(shape, default, dtype=np.asarray(values).dtype)
    out[tuple(indices.T)] = values
    return out


for _values, _default in ((f(2), np.float32(7)), (i(2), np.int32(-1)), (f(2, dtype=np.float16), np.float16(2)),
                          (s("a", "b"), np.array(b"-", object)), (np.array([True, True]), np.bool_(False))):
    sample("SparseToDense", INDICES, SHAPE, _values, _default, expect=dense)
sample("SparseToDense", INDICES.astype(np.int32), SHAPE.astype(np.int32), np.float32(3), np.float32(7), expect=dense)
sample("SparseToDense", np.array([3, 1], np.int64), np.array([5], np.int64), f(2), np.float32(0), validate_indices=False)
sample("SparseToDense", np.array([1, 1], np.int64), np.array([3], np.int64), np.array([5, 6], np.int32), np.int32(0),
       validate_indices=False, expect=lambda *_: np.array([0, 6, 0]))
