"""Samples of arithmetic with sparse tensors."""
import numpy as np

from tests.registry.sample import f, i, sample

A, B = np.array([[0, 1], [1, 0], [2, 1]], np.int64), np.array([[0, 0], [1, 0]], np.int64)
SHAPE = np.array([3, 2], np.int64)


def dense(indices, values, shape):
    out = np.zeros(shape, values.dtype)
    np.add.at(out, tuple(indices.T), values)
    return out


sample("SparseAdd", A, f(3), SHAPE, B, f(2), SHAPE, np.float32(0))
sample("SparseAdd", A, np.array([1, 5, 2], np.int32), SHAPE, B, np.array([1, -5], np.int32), SHAPE, np.int32(1))
sample("SparseAdd", A, (f(3) + 1j * f(3)).astype(np.complex64), SHAPE, B, np.ones(2, np.complex64), SHAPE, np.float32(0.1))
sample("SparseAddGrad", f(4), A, B, np.array([[0, 0], [0, 1], [1, 0], [2, 1]], np.int64),
       expect=lambda g, a, b, s: (g[[1, 2, 3]], g[[0, 2]]))
for _values, _dense in ((f(3), f(3, 2)), (i(3), i(3, 2)), (f(3, dtype=np.float64), f(3, 2, dtype=np.float64))):
    sample("SparseTensorDenseAdd", A, _values, SHAPE, _dense, expect=lambda x, v, n, b: dense(x, v, n) + b)
    sample("SparseDenseCwiseMul", A, _values, SHAPE, _dense, expect=lambda x, v, n, d: v * d[tuple(x.T)])
    sample("SparseDenseCwiseAdd", A, _values, SHAPE, _dense, expect=lambda x, v, n, d: v + d[tuple(x.T)])
sample("SparseTensorDenseAdd", A.astype(np.int32), f(3), SHAPE.astype(np.int32), f(3, 2))
for _shape in ((3, 1), (2,), (1, 1), ()):
    for _name in ("Add", "Mul", "Div"):
        sample(f"SparseDenseCwise{_name}", A, f(3), SHAPE, f(*_shape, low=1))
sample("SparseSparseMaximum", A, f(3), SHAPE, B, f(2), SHAPE)
sample("SparseSparseMaximum", A, i(3), SHAPE, B, i(2), SHAPE)
sample("SparseSparseMinimum", A, f(3), SHAPE, B, f(2), SHAPE)
for _left in (False, True):
    for _right in (False, True):
        _b = f(3 if _left else 2, 4)
        sample("SparseTensorDenseMatMul", A, f(3), SHAPE, _b.T.copy() if _right else _b, adjoint_a=_left, adjoint_b=_right)
sample("SparseTensorDenseMatMul", A, i(3), SHAPE, i(2, 2), expect=lambda x, v, n, b: dense(x, v, n) @ b)
sample("SparseTensorDenseMatMul", A.astype(np.int32), (f(3) + 1j * f(3)).astype(np.complex64), SHAPE,
       (f(3, 2) + 1j * f(3, 2)).astype(np.complex64), adjoint_a=True, expect=lambda x, v, n, b: dense(x, v, n).conj().T @ b)
sample("SparseSoftmax", np.array([[0, 0], [0, 1], [2, 1]], np.int64), f(3), SHAPE)
sample("SparseSoftmax", np.array([[0, 0, 1], [0, 0, 2], [1, 0, 0]], np.int64), f(3, dtype=np.float64),
       np.array([2, 1, 3], np.int64))
