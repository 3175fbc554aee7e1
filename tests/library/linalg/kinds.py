"""One operator of every kind, with the matrix it represents."""
import numpy as np

import penstock as tf

L = tf.linalg
RNG = np.random.RandomState(8)


def numbers(shape, dtype):
    """Random numbers of a type."""
    x = np.asarray(RNG.randn(*shape))
    return np.asarray(x + 1j * RNG.randn(*shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def well(shape, dtype):
    """Matrices whose diagonal dominates."""
    return numbers(shape, dtype) + 5 * np.eye(shape[-1], dtype=dtype)


def diag(batch, n, dtype):
    d = numbers((*batch, n), dtype) + 3
    return L.LinearOperatorDiag(d), d[..., None] * np.eye(n)


def full_matrix(batch, n, dtype):
    m = well((*batch, n, n), dtype)
    return L.LinearOperatorFullMatrix(m), m


def identity(batch, n, dtype):
    eye = np.broadcast_to(np.eye(n, dtype=dtype), (*batch, n, n))
    return L.LinearOperatorIdentity(n, batch_shape=batch, dtype=dtype), eye


def scaled_identity(batch, n, dtype):
    c = numbers(batch, dtype) + 3
    return L.LinearOperatorScaledIdentity(n, c), np.asarray(c)[..., None, None] * np.eye(n)


def lower_triangular(batch, n, dtype):
    m = well((*batch, n, n), dtype)
    return L.LinearOperatorLowerTriangular(m), np.tril(m)


def composition(batch, n, dtype):
    (a, x), (b, y) = full_matrix(batch, n, dtype), diag((), n, dtype)
    return L.LinearOperatorComposition([a, b]), x @ y


def block_diag(batch, n, dtype):
    (a, x), (b, y) = full_matrix(batch, n - 1, dtype), diag(batch, 1, dtype)
    out = np.zeros((*batch, n, n), dtype)
    out[..., :n - 1, :n - 1], out[..., n - 1:, n - 1:] = x, y
    return L.LinearOperatorBlockDiag([a, b]), out


def block_lower_triangular(batch, n, dtype):
    (a, x), (c, z) = full_matrix(batch, n - 1, dtype), diag(batch, 1, dtype)
    below = numbers((*batch, 1, n - 1), dtype)
    out = np.zeros((*batch, n, n), dtype)
    out[..., :n - 1, :n - 1], out[..., n - 1:, :n - 1], out[..., n - 1:, n - 1:] = x, below, z
    return L.LinearOperatorBlockLowerTriangular([[a], [L.LinearOperatorFullMatrix(below), c]]), out


def kronecker(batch, n, dtype):
    (a, x), (b, y) = full_matrix((), 2, dtype), full_matrix(batch, n // 2, dtype)
    dense = np.einsum("ij,...kl->...ikjl", x, y).reshape(*batch, n, n)
    return L.LinearOperatorKronecker([a, b]), dense


def _circulant(kind, batch, sizes, dtype):
    spectrum = numbers((*batch, *sizes), dtype) + 4
    axes = tuple(range(-len(sizes), 0))
    n = int(np.prod(sizes))
    eye = np.eye(n).reshape(n, *sizes)
    wide = spectrum.reshape(*batch, 1, *sizes)
    columns = np.fft.ifftn(wide * np.fft.fftn(eye, axes=axes), axes=axes).reshape(*batch, n, n)
    return kind(spectrum, input_output_dtype=np.complex128), np.swapaxes(columns, -1, -2)


def circulant(batch, n, dtype):
    return _circulant(L.LinearOperatorCirculant, batch, (n,), dtype)


def circulant_2d(batch, n, dtype):
    return _circulant(L.LinearOperatorCirculant2D, batch, (2, n // 2), dtype)


def circulant_3d(batch, n, dtype):
    return _circulant(L.LinearOperatorCirculant3D, batch, (1, 2, n // 2), dtype)


def householder(batch, n, dtype):
    v = numbers((*batch, n), dtype)
    norm = np.sum(np.abs(v) ** 2, -1)[..., None, None]
    return L.LinearOperatorHouseholder(v), np.eye(n) - 2 * v[..., :, None] * v.conj()[..., None, :] / norm


def toeplitz(batch, n, dtype):
    col, row = numbers((*batch, n), dtype), numbers((*batch, n), dtype)
    col[..., 0] += 5
    row[..., 0] = col[..., 0]
    i, j = np.indices((n, n))
    return L.LinearOperatorToeplitz(col, row), np.where(i >= j, col[..., np.maximum(i - j, 0)], row[..., np.maximum(j - i, 0)])


def low_rank_update(batch, n, dtype):
    base, x = diag((), n, dtype)
    u, v, d = numbers((*batch, n, 2), dtype), numbers((*batch, n, 2), dtype), numbers((*batch, 2), dtype)
    dense = x + (u * d[..., None, :]) @ np.conj(np.swapaxes(v, -1, -2))
    return L.LinearOperatorLowRankUpdate(base, u, d, v), dense


def permutation(batch, n, dtype):
    order = np.stack([RNG.permutation(n) for _ in range(int(np.prod(batch)))]).reshape(*batch, n)
    return L.LinearOperatorPermutation(order, dtype=dtype), np.eye(n, dtype=dtype)[order]


def tridiag(batch, n, dtype):
    m = well((*batch, n, n), dtype)
    i, j = np.indices((n, n))
    return L.LinearOperatorTridiag(m, "matrix"), np.where(np.abs(i - j) <= 1, m, 0)


def inversion(batch, n, dtype):
    a, x = full_matrix(batch, n, dtype)
    return L.LinearOperatorInversion(a), np.linalg.inv(x)


def adjoint(batch, n, dtype):
    a, x = full_matrix(batch, n, dtype)
    return L.LinearOperatorAdjoint(a), np.conj(np.swapaxes(x, -1, -2))


KINDS = [diag, full_matrix, identity, scaled_identity, lower_triangular, composition, block_diag, block_lower_triangular,
         kronecker, circulant,
         circulant_2d, circulant_3d, householder, toeplitz, low_rank_update, permutation, tridiag, inversion, adjoint]
