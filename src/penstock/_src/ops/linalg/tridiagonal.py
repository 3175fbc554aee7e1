"""Tridiagonal matrices: products and solutions.

In the compact form, three rows hold the superdiagonal (its last element is not read), the diagonal, and the
subdiagonal (its first element is not read).
"""
from __future__ import annotations

from typing import Any

import torch

import penstock as tf
from penstock._src.base import errors
from penstock._src.base.api import export
from penstock._src.base.static_shape import merge, rank_at_least
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.ops import rules
from penstock._src.ops.composite import dispatched
from penstock._src.ops.linalg.matrices import equal_size
from penstock._src.ops.registry import get, op

_TYPES = "T: type in {float64 float32 complex64 complex128}"

# -- solution ---------------------------------------------------------------------------------------------------------
tridiagonal_solve_op = op("TridiagonalSolve", "diagonals: T, rhs: T -> output: T",
                          "partial_pivoting: bool = True, " + _TYPES)
rules.batching.leading[tridiagonal_solve_op] = (0, 1)


@tridiagonal_solve_op.shape
def _tridiagonal_solve_shape(diagonals, rhs):
    rank_at_least(diagonals, 2), rank_at_least(rhs, 2)
    if diagonals is None or rhs is None:
        return rhs
    equal_size(diagonals[-2], 3)
    return (*merge(diagonals[:-2], rhs[:-2]), equal_size(diagonals[-1], rhs[-2]), rhs[-1])


@tridiagonal_solve_op.kernel
def _tridiagonal_solve_kernel(diagonals, rhs, *, partial_pivoting):
    if diagonals.dim() < 2 or diagonals.shape[-2] != 3:
        raise errors.invalid(f"Expected 3 diagonals, got shape {list(diagonals.shape)}")
    if rhs.dim() < 2 or rhs.shape[:-2] != diagonals.shape[:-2] or rhs.shape[-2] != diagonals.shape[-1]:
        raise errors.invalid(f"The length of diagonals and the rows of rhs must be equal: shapes "
                             f"{list(diagonals.shape)} and {list(rhs.shape)}")
    if rhs.numel() == 0:
        return rhs
    return _eliminate(diagonals, rhs, partial_pivoting)


def _eliminate(diagonals: torch.Tensor, rhs: torch.Tensor, pivot: bool) -> torch.Tensor:
    """Gaussian elimination, row after row for the whole batch: each row needs the one before it.

    After a row exchange a row reaches two elements past the diagonal, hence `second`.
    """
    upper, middle, lower = (d.unsqueeze(-1) for d in diagonals.unbind(-2))         # [..., M, 1]
    m = middle.shape[-2]
    main, first, second, right = [middle[..., 0, :]], [upper[..., 0, :]], [], [rhs[..., 0, :]]
    zero = torch.zeros_like(main[0])
    if m == 1:
        first[0] = zero
    for i in range(1, m):
        below, diag = lower[..., i, :], middle[..., i, :]
        after = upper[..., i, :] if i < m - 1 else zero
        top: tuple[torch.Tensor, ...] = (main[-1], first[-1], zero, right[-1])
        row: tuple[torch.Tensor, ...] = (below, diag, after, rhs[..., i, :])
        if pivot:
            swap = below.abs() > main[-1].abs()
            top, row = (tuple(torch.where(swap, b, a) for a, b in zip(top, row, strict=True)),
                        tuple(torch.where(swap, a, b) for a, b in zip(top, row, strict=True)))
        main[-1], first[-1], right[-1] = top[0], top[1], top[3]
        second.append(top[2])
        factor = row[0] / top[0]
        main.append(row[1] - factor * top[1])
        first.append(row[2] - factor * top[2])
        right.append(row[3] - factor * top[3])
    solution = [right[-1] / main[-1]]
    for i in range(m - 2, -1, -1):
        rest = right[i] - first[i] * solution[-1]
        if i < m - 2:
            rest = rest - second[i] * solution[-2]
        solution.append(rest / main[i])
    return torch.stack(solution[::-1], -2)


def _shift(x: Tensor, by: int) -> Tensor:
    """Rows moved up (1) or down (-1) by one, with zeros moved in."""
    rank = x.shape.rank
    kept = x[..., 1:, :] if by > 0 else x[..., :-1, :]
    here = [[0, 1], [0, 0]] if by > 0 else [[1, 0], [0, 0]]
    lead = [[0, 0]] * (rank - 2) if rank is not None else None
    if lead is not None:
        return tf.pad(kept, lead + here)
    return tf.pad(kept, tf.concat([tf.zeros([tf.rank(x) - 2, 2], tf.int32), here], 0))


@tridiagonal_solve_op.gradient
def _tridiagonal_solve_gradient(op, grad):
    upper, middle, lower = tf.unstack(op.inputs[0], num=3, axis=-2)
    flipped = tf.stack([_shift(lower[..., tf.newaxis], 1)[..., 0], middle, _shift(upper[..., tf.newaxis], -1)[..., 0]],
                       axis=-2)
    grad_rhs = tridiagonal_solve_op(tf.math.conj(flipped), grad, partial_pivoting=op.attrs["partial_pivoting"])
    x = tf.math.conj(op.outputs[0])
    by_diagonal = [tf.reduce_sum(grad_rhs * y, axis=-1) for y in (_shift(x, 1), x, _shift(x, -1))]
    return -tf.stack(by_diagonal, axis=-2), grad_rhs


# -- product ----------------------------------------------------------------------------------------------------------
tridiagonal_mat_mul = op("TridiagonalMatMul", "superdiag: T, maindiag: T, subdiag: T, rhs: T -> output: T", _TYPES)


@tridiagonal_mat_mul.shape
def _tridiagonal_mat_mul_shape(superdiag, maindiag, subdiag, rhs):
    for d in (superdiag, maindiag, subdiag, rhs):
        rank_at_least(d, 2)
    diagonal = merge(merge(superdiag, maindiag), subdiag)
    if diagonal is None or rhs is None:
        return rhs
    equal_size(diagonal[-2], 1)
    return (*merge(diagonal[:-2], rhs[:-2]), equal_size(diagonal[-1], rhs[-2]), rhs[-1])


@tridiagonal_mat_mul.kernel
def _tridiagonal_mat_mul_kernel(superdiag, maindiag, subdiag, rhs):
    if not superdiag.shape == maindiag.shape == subdiag.shape or maindiag.dim() < 2 or maindiag.shape[-2] != 1:
        raise errors.invalid("Diagonals must have one shape [..., 1, M], got "
                             f"{[list(d.shape) for d in (superdiag, maindiag, subdiag)]}")
    if rhs.dim() < 2 or rhs.shape[:-1] != maindiag.shape[:-2] + maindiag.shape[-1:]:
        raise errors.invalid(f"rhs of shape {list(rhs.shape)} does not match diagonals of shape {list(maindiag.shape)}")
    upper, middle, lower = (d.squeeze(-2).unsqueeze(-1) for d in (superdiag, maindiag, subdiag))
    out = middle * rhs
    out[..., :-1, :] += upper[..., :-1, :] * rhs[..., 1:, :]
    out[..., 1:, :] += lower[..., 1:, :] * rhs[..., :-1, :]
    return out


@tridiagonal_mat_mul.gradient
def _tridiagonal_mat_mul_gradient(op, grad):
    upper, middle, lower = (tf.linalg.adjoint(d) for d in op.inputs[:3])
    rhs = tf.math.conj(op.inputs[3])
    by_diagonal = [tf.expand_dims(tf.reduce_sum(r * grad, axis=-1), -2) for r in (_shift(rhs, 1), rhs, _shift(rhs, -1))]
    return *by_diagonal, _shift(upper * grad, -1) + middle * grad + _shift(lower * grad, 1)


# -- public functions -------------------------------------------------------------------------------------------------
def _from_matrix(matrix: Tensor) -> list[Tensor]:
    """The three diagonals of a matrix, each padded to its length."""
    dims = matrix.static_dims
    m1, m2 = (None, None) if dims is None else (dims[-1], dims[-2])
    if m1 is not None and m2 is not None and m1 != m2:
        raise ValueError(f"Expected last two dimensions of diagonals to be same, got {m1} and {m2}")
    if dims is None or not (m1 or m2):
        return tf.unstack(tf.linalg.diag_part(matrix, k=(-1, 1), align="LEFT_RIGHT"), 3, axis=-2)
    part = get("MatrixDiagPart")
    lead = [[0, 0]] * (len(dims) - 2)
    return [tf.pad(part(matrix[..., :-1, 1:]), lead + [[0, 1]]), part(matrix),
            tf.pad(part(matrix[..., 1:, :-1]), lead + [[1, 0]])]


def _from_sequence(diagonals: Any) -> list[Tensor]:
    if not isinstance(diagonals, (tuple, list)) or len(diagonals) != 3:
        raise ValueError("Expected diagonals to be a sequence of length 3.")
    upper, middle, lower = (convert(d) for d in diagonals)
    if not (lower.shape[:-1].is_compatible_with(middle.shape[:-1])
            and upper.shape[:-1].is_compatible_with(middle.shape[:-1])):
        raise ValueError("Tensors representing the three diagonals must have the same shape,except for the last "
                         f"dimension, got {lower.shape}, {middle.shape}, {upper.shape}")
    return [_whole(upper, middle, "superdiagonal", [0, 1]), middle, _whole(lower, middle, "subdiagonal", [1, 0])]


def _whole(diagonal: Tensor, middle: Tensor, name: str, side: list[int]) -> Tensor:
    dims, whole = diagonal.static_dims, middle.static_dims
    if not dims or not whole:
        return diagonal
    n, m = dims[-1], whole[-1]
    if n is None or m is None or n == m:
        return diagonal
    if n != m - 1:
        raise ValueError(f"Expected {name} to be have length {m} or {m - 1}, got {n}.")
    return tf.pad(diagonal, [[0, 0]] * (len(dims) - 1) + [side])


def _compact(diagonals: Any, diagonals_format: str) -> Tensor:
    if diagonals_format == "compact":
        return convert(diagonals, name="diagonals")
    if diagonals_format == "sequence":
        return tf.stack(_from_sequence(diagonals), axis=-2)
    if diagonals_format == "matrix":
        return tf.stack(_from_matrix(convert(diagonals, name="diagonals")), axis=-2)
    raise ValueError(f"Unrecognized diagonals_format: {diagonals_format}")


@export("linalg.tridiagonal_solve")
@dispatched
def tridiagonal_solve(diagonals: Any, rhs: Any, diagonals_format: str = "compact", transpose_rhs: bool = False,
                      conjugate_rhs: bool = False, name: str | None = None, partial_pivoting: bool = True,
                      perturb_singular: bool = False) -> Tensor:
    """Solves tridiagonal systems; `rhs` and the result are [..., M] or [..., M, K] (transpose_rhs: rhs is [..., K, M]).

    Where a rank is not known, rhs is taken for a matrix.

    `diagonals` is [..., 3, M] ("compact": superdiagonal, diagonal, subdiagonal), a sequence of three vectors
    ("sequence"), or [..., M, M] ("matrix").
    """
    if perturb_singular:
        raise ValueError("perturb_singular is not supported: singular systems have no solution here.")
    diagonals, rhs = _compact(diagonals, diagonals_format), convert(rhs, name="rhs")
    rank, rhs_rank = diagonals.shape.rank, rhs.shape.rank
    _check_solve(diagonals, rhs, rank, rhs_rank)
    if conjugate_rhs:
        rhs = tf.math.conj(rhs)
    if rank is not None and rhs_rank == rank - 1:
        _check_rows(diagonals, rhs.shape.static_dims[-1])
        solved = tridiagonal_solve_op(diagonals, tf.expand_dims(rhs, -1), partial_pivoting=partial_pivoting, name=name)
        return tf.squeeze(solved, -1)
    if transpose_rhs:
        rhs = tf.linalg.matrix_transpose(rhs)
    if rank is not None and rhs_rank is not None:
        _check_rows(diagonals, rhs.shape.static_dims[-2])
    return tridiagonal_solve_op(diagonals, rhs, partial_pivoting=partial_pivoting, name=name)


def _check_solve(diagonals: Tensor, rhs: Tensor, rank: Any, rhs_rank: Any) -> None:
    if rank is None or rhs_rank is None:
        return
    if rank < 2:
        raise ValueError(f"Expected diagonals to have rank at least 2, got {rank}")
    if rhs_rank not in (rank, rank - 1):
        raise ValueError(f"Expected the rank of rhs to be {rank - 1} or {rank}, got {rhs_rank}")
    if diagonals.shape.static_dims[-2] not in (None, 3):
        raise ValueError(f"Expected 3 diagonals got {diagonals.shape.static_dims[-2]}")
    if not diagonals.shape[:-2].is_compatible_with(rhs.shape[:rank - 2]):
        raise ValueError(f"Batch shapes {diagonals.shape[:-2]} and {rhs.shape[:rank - 2]} are incompatible")


def _check_rows(diagonals: Tensor, rows: int | None) -> None:
    size = diagonals.shape.static_dims[-1]
    if size and rows and size != rows:
        raise ValueError(f"The diagonals and rhs must have the same number of rows, got {size} and {rows}")


@export("linalg.tridiagonal_matmul")
@dispatched
def tridiagonal_matmul(diagonals: Any, rhs: Any, diagonals_format: str = "compact", name: str | None = None) -> Tensor:
    """The product of a tridiagonal matrix and `rhs` [..., M, N]; see `tridiagonal_solve` for the formats."""
    if diagonals_format == "sequence":
        rows = [convert(d) for d in diagonals]
    elif diagonals_format == "matrix":
        rows = _from_matrix(convert(diagonals, name="diagonals"))
    elif diagonals_format == "compact":
        rows = tf.unstack(convert(diagonals, name="diagonals"), num=3, axis=-2)
    else:
        raise ValueError(f"Unrecognized diagonals_format: {diagonals_format}")
    return tridiagonal_mat_mul(*(tf.expand_dims(r, -2) for r in rows), rhs, name=name)


@export("linalg.eigh_tridiagonal")
@dispatched
def eigh_tridiagonal(alpha: Any, beta: Any, eigvals_only: bool = True, select: str = "a", select_range: Any = None,
                     tol: Any = None, name: str | None = None) -> Any:
    """Eigenvalues, in non-decreasing order, of the Hermitian matrix with diagonal `alpha` [N] and superdiagonal `beta` [N-1].

    Args:
      alpha: the diagonal; only its real part counts.
      beta: the elements above the diagonal.
      eigvals_only: False for the pair of eigenvalues and eigenvectors (columns).
      select: "a" for all eigenvalues, "v" for those in the interval `select_range` (min, max], "i" for those with
        indices in `select_range`, both ends included.
      select_range: a pair.
      tol: accepted; the result is as accurate as the dtype allows.
      name: of the operations.
    """
    if select not in ("a", "v", "i"):
        raise ValueError(f"'select must have a value in {{'a', 'i', 'v'}}, got {select!r}")
    with tf.name_scope(name or "eigh_tridiagonal"):
        alpha, beta = convert(alpha, name="alpha"), convert(beta, name="beta")
        if alpha.dtype != beta.dtype:
            raise TypeError(f"'alpha' and 'beta' must have the same type, got {alpha.dtype} and {beta.dtype}")
        zero = tf.zeros([1], beta.dtype)
        upper = tf.linalg.diag(tf.concat([beta, zero], 0))
        above = tf.roll(upper, 1, axis=1)
        matrix = tf.linalg.diag(tf.cast(tf.math.real(alpha), alpha.dtype)) + above + tf.linalg.adjoint(above)
        values, vectors = tf.linalg.eigh(matrix)
        values = tf.math.real(values)
        if select != "a":
            values, vectors = _selected(values, vectors, select, select_range)
        return values if eigvals_only else (values, vectors)


def _selected(values: Tensor, vectors: Tensor, select: str, bounds: Any) -> tuple[Tensor, Tensor]:
    low, high = bounds[0], bounds[1]
    if select == "i":
        return values[low:high + 1], vectors[:, low:high + 1]
    kept = tf.where((values > tf.cast(low, values.dtype)) & (values <= tf.cast(high, values.dtype)))[:, 0]
    return tf.gather(values, kept), tf.gather(vectors, kept, axis=1)
