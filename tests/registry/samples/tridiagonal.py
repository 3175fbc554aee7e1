"""Tridiagonal matrices."""
import numpy as np

from tests.registry.sample import f, sample


def dense(diagonals):
    """The matrices of compact diagonals."""
    out = np.zeros((*diagonals.shape[:-2], diagonals.shape[-1], diagonals.shape[-1]), diagonals.dtype)
    for k in range(diagonals.shape[-1]):
        out[..., k, k] = diagonals[..., 1, k]
        if k:
            out[..., k - 1, k] = diagonals[..., 0, k - 1]
            out[..., k, k - 1] = diagonals[..., 2, k]
    return out


def diagonals(*shape):
    """Diagonals of matrices with strong main diagonals."""
    return f(*shape, low=-1, high=1) + np.float32([[0], [3], [0]])


for pivot in (True, False):
    sample("TridiagonalSolve", diagonals(2, 3, 4), f(2, 4, 2), partial_pivoting=pivot, rtol=1e-4,
           expect=lambda d, b: np.linalg.solve(dense(d), b))
sample("TridiagonalSolve", np.float32([[2, 1, 0], [0, 3, 1], [0, 1, 4]]), f(3, 1), rtol=1e-4,
       expect=lambda d, b: np.linalg.solve(dense(d), b))            # a zero pivot: rows have to change places
sample("TridiagonalSolve", diagonals(3, 1), f(1, 2), expect=lambda d, b: b / d[1])
sample("TridiagonalMatMul", f(2, 1, 4), f(2, 1, 4), f(2, 1, 4), f(2, 4, 3), rtol=1e-4,
       expect=lambda up, mid, low, b: dense(np.concatenate([up, mid, low], -2)) @ b)
