"""Factorizations, determinants, solves."""
import numpy as np

from tests.registry.sample import f, sample

T = (0, 2, 1)


def well(*shape, dtype=np.float32):
    """Matrices whose diagonal dominates."""
    return (f(*shape, low=-1, high=1) + 3 * np.eye(shape[-1])).astype(dtype)


def definite(*shape, dtype=np.float32):
    """Symmetric positive definite matrices."""
    a = f(*shape, low=-1, high=1)
    return (a @ np.swapaxes(a, -1, -2) + np.diag(np.arange(1, shape[-1] + 1))).astype(dtype)


def complexes(*shape):
    """Complex matrices whose diagonal dominates."""
    return (well(*shape) + 1j * f(*shape, low=-0.5, high=0.5)).astype(np.complex64)


def hermitian(*shape):
    """Hermitian positive definite matrices."""
    a = complexes(*shape)
    return (a @ np.conj(np.swapaxes(a, -1, -2))).astype(np.complex64)


for name in ("Cholesky", "BatchCholesky"):
    sample(name, definite(2, 3, 3), expect=np.linalg.cholesky, grad=False)
sample("Cholesky", definite(4, 4, dtype=np.float64), expect=np.linalg.cholesky, grad=False)
sample("Cholesky", hermitian(3, 3), expect=np.linalg.cholesky, rtol=1e-4, grad=False)
sample("Cholesky", np.zeros((2, 0, 0), np.float32), expect=np.linalg.cholesky)


def cholesky_grad(l, grad):
    middle = np.tril(l.T @ grad)
    middle[np.diag_indices(len(l))] /= 2
    inverse = np.linalg.inv(l)
    both = inverse.T @ middle @ inverse
    return (both + both.T) / 2


for name in ("CholeskyGrad", "BatchCholeskyGrad"):
    sample(name, np.linalg.cholesky(definite(3, 3)), np.tril(f(3, 3)), expect=cholesky_grad, rtol=1e-4)

for name in ("MatrixDeterminant", "BatchMatrixDeterminant"):
    sample(name, well(2, 3, 3), expect=np.linalg.det, rtol=1e-4)
sample("MatrixDeterminant", complexes(3, 3), expect=np.linalg.det, rtol=1e-4)
sample("MatrixDeterminant", np.zeros((2, 0, 0), np.float32), expect=np.linalg.det)
sample("LogMatrixDeterminant", well(2, 3, 3), expect=np.linalg.slogdet, rtol=1e-4)
sample("LogMatrixDeterminant", complexes(3, 3), rtol=1e-4, grad=False,
       expect=lambda a: [v.astype(np.complex64) for v in np.linalg.slogdet(a)])

for name in ("MatrixInverse", "BatchMatrixInverse"):
    sample(name, well(2, 3, 3), expect=np.linalg.inv, rtol=1e-4)
    sample(name, well(2, 3, 3), adjoint=True, expect=lambda a: np.linalg.inv(a.transpose(T)), rtol=1e-4)
sample("MatrixInverse", complexes(3, 3), adjoint=True, expect=lambda a: np.linalg.inv(a.conj().T), rtol=1e-4)

for name in ("MatrixSolve", "BatchMatrixSolve"):
    sample(name, well(2, 3, 3), f(2, 3, 2), expect=np.linalg.solve, rtol=1e-4)
    sample(name, well(2, 3, 3), f(2, 3, 2), adjoint=True, rtol=1e-4,
           expect=lambda a, b: np.linalg.solve(a.transpose(T), b))
sample("MatrixSolve", complexes(3, 3), complexes(3, 3), expect=np.linalg.solve, rtol=1e-4)

for name in ("MatrixTriangularSolve", "BatchMatrixTriangularSolve"):
    sample(name, well(2, 3, 3), f(2, 3, 2), rtol=1e-4, expect=lambda a, b: np.linalg.solve(np.tril(a), b))
    sample(name, well(2, 3, 3), f(2, 3, 2), lower=False, rtol=1e-4,
           expect=lambda a, b: np.linalg.solve(np.triu(a), b))
    sample(name, well(2, 3, 3), f(2, 3, 2), adjoint=True, rtol=1e-4,
           expect=lambda a, b: np.linalg.solve(np.tril(a).transpose(T), b))
sample("MatrixTriangularSolve", well(3, 3), f(2, 3, 2), rtol=1e-4, expect=lambda a, b: np.linalg.solve(np.tril(a), b))
sample("MatrixTriangularSolve", complexes(3, 3), complexes(3, 3), lower=False, adjoint=True, rtol=1e-4,
       expect=lambda a, b: np.linalg.solve(np.triu(a).conj().T, b))


def ridge(a, b, penalty):
    if a.shape[-2] >= a.shape[-1]:
        return np.linalg.solve(a.T @ a + penalty * np.eye(a.shape[1]), a.T @ b)
    return a.T @ np.linalg.solve(a @ a.T + penalty * np.eye(a.shape[0]), b)


for name in ("MatrixSolveLs", "BatchMatrixSolveLs"):
    sample(name, f(4, 2), f(4, 3), np.float64(0.5), expect=ridge, rtol=1e-4, grad=[0, 1])
    sample(name, f(2, 4), f(2, 3), np.float64(0.5), expect=ridge, rtol=1e-4, grad=[0, 1])
sample("MatrixSolveLs", f(4, 2), f(4, 3), np.float64(0), fast=False, rtol=1e-4, grad=False,
       expect=lambda a, b, _: np.linalg.lstsq(a, b, rcond=None)[0])

sample("Qr", f(4, 3), rtol=1e-4, expect=lambda a: list(np.linalg.qr(a)))
sample("Qr", well(2, 3, 3), rtol=1e-4, expect=lambda a: list(np.linalg.qr(a)))
sample("Qr", f(4, 2), full_matrices=True, rtol=1e-4, grad=False, expect=lambda a: list(np.linalg.qr(a, "complete")))
sample("Qr", complexes(3, 3), rtol=1e-4, grad=False, expect=lambda a: list(np.linalg.qr(a)))

for name in ("Svd", "BatchSvd"):
    sample(name, well(2, 3, 3), compute_uv=False, rtol=1e-4,
           expect=lambda a: [np.linalg.svd(a, compute_uv=False), *2 * [np.zeros(0, np.float32)]])
    sample(name, np.diag([3, 2, 1]).astype(np.float32) + f(3, 3, low=-0.1, high=0.1), rtol=1e-4)
sample("Svd", f(3, 2) + np.eye(3, 2, dtype=np.float32), full_matrices=True, rtol=1e-4)

for name in ("SelfAdjointEigV2", "BatchSelfAdjointEigV2"):
    sample(name, definite(2, 3, 3), compute_v=False, rtol=1e-4, grad=False,
           expect=lambda a: [np.linalg.eigvalsh(a), np.zeros(0, np.float32)])
    sample(name, definite(2, 3, 3), rtol=1e-4, grad=False)         # vectors: up to their signs, in tests/ops
sample("SelfAdjointEigV2", hermitian(3, 3), compute_v=False, rtol=1e-4,
       expect=lambda a: [np.linalg.eigvalsh(a).astype(np.complex64), np.zeros(0, np.complex64)])
for name in ("SelfAdjointEig", "BatchSelfAdjointEig"):
    sample(name, definite(3, 3))
sample("Eig", np.diag([3, 2, 1]).astype(np.float32), compute_v=False, Tout="complex64", grad=False,   # in tests/ops
       expect=lambda a: [np.complex64([3, 2, 1]), np.zeros(0, np.complex64)])
sample("Eig", np.diag([3, 2, 1]).astype(np.float32), Tout="complex64", grad=False,
       expect=lambda a: [np.complex64([3, 2, 1]), np.eye(3, dtype=np.complex64)])

SWAPS = np.array([[0, 2, 0], [1, 0, 0], [0, 0, 3]], np.float32)
sample("Lu", SWAPS, expect=lambda a: [np.diag([1, 2, 3]).astype(np.float32), np.int32([1, 0, 2])])
sample("Lu", well(2, 3, 3), output_idx_type="int64")
sample("Lu", complexes(3, 3))
