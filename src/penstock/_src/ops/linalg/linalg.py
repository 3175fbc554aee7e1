"""Linear algebra on the innermost two dimensions: Cholesky factors, determinants, inverses and solves.

Kernels call torch.linalg (LAPACK, cuSOLVER). Half precision is computed in float32. Gradients follow from the
differential of each defining equation (Giles, "Collected matrix derivative results for forward and reverse mode
algorithmic differentiation"; Murray, "Differentiation of the Cholesky decomposition").
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from penstock._src.base import errors
from penstock._src.base.api import export
from penstock._src.base.static_shape import broadcast, merge, rank_is
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.ops import rules
from penstock._src.ops.composite import dispatched
from penstock._src.ops.control.control_flow import cond
from penstock._src.ops.linalg.matrices import (
    REAL,
    TYPES,
    adjoint_of,
    as_matrix,
    check_info,
    check_matrix,
    diag_part,
    equal_size,
    half_diagonal,
    in_float32,
    lower_part,
    matmul,
    matrix_dims,
    square_dims,
    square_shape,
    sum_to,
    with_batch,
    with_diag,
)
from penstock._src.ops.registry import get, op

# -- Cholesky ---------------------------------------------------------------------------------------------------------
cholesky_op = op("Cholesky", "input: T -> output: T", TYPES)
rules.batching.leading[cholesky_op] = (0,)
cholesky_op.shape(square_shape)


@cholesky_op.kernel
@in_float32
def _cholesky_kernel(input):
    check_matrix(input)
    factor, info = torch.linalg.cholesky_ex(input)
    if info.is_cpu and not info.any():
        return factor
    failed = torch.full_like(factor, math.nan).tril_()       # a matrix that has no factor gets NaNs, as in TensorFlow 2.21
    return torch.where((info > 0)[..., None, None], failed, factor)


rules.regions.lower[cholesky_op] = lambda op, r: [r.cholesky(r.view(op.inputs[0]))]


@cholesky_op.gradient
def _cholesky_gradient(op, grad):
    # A = L L^H yields L^-1 dA L^-H = L^-1 dL + (L^-1 dL)^H, of which L^-1 dL is the lower triangle, half the diagonal.
    factor = op.outputs[0]
    middle = lower_part(half_diagonal(matmul(factor, grad, adjoint_a=True)))
    left = matrix_triangular_solve(factor, middle, adjoint=True)
    both = matrix_triangular_solve(factor, adjoint_of(left), adjoint=True)
    return (both + adjoint_of(both)) * 0.5


@export("linalg.cholesky", v1=["cholesky"])
@dispatched
def cholesky(input: Any, name: str | None = None) -> Tensor:
    """The lower triangular L of A = L L^H, for self-adjoint positive definite A; the upper triangle is not read.

    Args:
        input: Matrices [..., n, n]; only the lower triangles are read.
        name: Name of the operation.

    Returns:
        A tensor of the type and shape of `input`; NaN for a matrix that is not positive definite.

    >>> tf.linalg.cholesky([[4., 2.], [2., 5.]]).numpy()
    array([[2., 0.],
           [1., 2.]], dtype=float32)
    """
    return cholesky_op(input, name=name)


def _cholesky_grad(l, grad):
    check_matrix(l)
    check_matrix(grad)
    middle = torch.tril(l.mT @ grad)
    middle.diagonal(dim1=-2, dim2=-1).mul_(0.5)
    left = torch.linalg.solve_triangular(l.mT, middle, upper=True)
    both = torch.linalg.solve_triangular(l.mT, left.mT, upper=True)
    return (both + both.mT) * 0.5


cholesky_grad = op("CholeskyGrad", "l: T, grad: T -> output: T", REAL)
rules.batching.leading[cholesky_grad] = (0, 1)
cholesky_grad.shape(lambda l, grad: square_shape(l))
cholesky_grad.kernel(in_float32(_cholesky_grad))


@export("linalg.cholesky_solve", v1=["cholesky_solve"])
@dispatched
def cholesky_solve(chol: Any, rhs: Any, name: str | None = None) -> Tensor:
    """Solves `A X = rhs` where `chol` is the Cholesky factor of A.

    Args:
        chol: Cholesky factors [..., n, n].
        rhs: Right-hand sides [..., n, k].
        name: Name of the operation.

    Returns:
        Solutions [..., n, k].

    >>> tf.linalg.cholesky_solve(tf.linalg.cholesky([[4., 0.], [0., 4.]]), [[4.], [8.]]).numpy().tolist()
    [[1.0], [2.0]]
    """
    with name_scope(name, "cholesky_solve", [chol, rhs]):
        return matrix_triangular_solve(chol, matrix_triangular_solve(chol, rhs), adjoint=True)


# -- determinants -----------------------------------------------------------------------------------------------------
matrix_determinant_op = op("MatrixDeterminant", "input: T -> output: T", TYPES)
rules.batching.leading[matrix_determinant_op] = (0,)
matrix_determinant_op.shape(lambda input: square_dims(input)[0])


@matrix_determinant_op.kernel
@in_float32
def _matrix_determinant_kernel(input):
    check_matrix(input)
    return torch.linalg.det(input)


@matrix_determinant_op.gradient
def _matrix_determinant_gradient(op, grad):
    # d det(A) = det(A) tr(A^-1 dA)
    scale = grad * get("Conj")(op.outputs[0]) if op.outputs[0].dtype.is_complex else grad * op.outputs[0]
    return as_matrix(scale) * matrix_inverse(op.inputs[0], adjoint=True)


@export("linalg.det", v1=["matrix_determinant"])
@dispatched
def matrix_determinant(input: Any, name: str | None = None) -> Tensor:
    """The determinant of square matrices.

    Args:
        input: Square matrices [..., n, n].
        name: Name of the operation.

    Returns:
        A tensor without the last two dimensions.

    >>> tf.linalg.det([[2., 0.], [0., 4.]]).numpy()
    np.float32(8.0)
    """
    return matrix_determinant_op(input, name=name)


log_matrix_determinant = op("LogMatrixDeterminant", "input: T -> sign: T, log_abs_determinant: T", TYPES,
                            export_as="linalg.slogdet")
rules.batching.leading[log_matrix_determinant] = (0,)


@log_matrix_determinant.shape
def _log_matrix_determinant_shape(input):
    batch, _ = square_dims(input)
    return [batch, batch]


@log_matrix_determinant.kernel
@in_float32
def _log_matrix_determinant_kernel(input):
    check_matrix(input)
    sign, magnitude = torch.linalg.slogdet(input)
    return sign, magnitude.to(input.dtype)


@log_matrix_determinant.gradient
def _log_matrix_determinant_gradient(op, _, grad):
    return as_matrix(grad) * matrix_inverse(op.inputs[0], adjoint=True)


# -- inverse and solves -----------------------------------------------------------------------------------------------
_SINGULAR = "Input is not invertible."
matrix_inverse_op = op("MatrixInverse", "input: T -> output: T", "adjoint: bool = False, " + TYPES)
rules.batching.leading[matrix_inverse_op] = (0,)
matrix_inverse_op.shape(square_shape)


@matrix_inverse_op.kernel
@in_float32
def _matrix_inverse_kernel(input, *, adjoint):
    check_matrix(input)
    inverse, info = torch.linalg.inv_ex(input.mH if adjoint else input)
    check_info(info, _SINGULAR)
    return inverse


@rules.regions.lower(matrix_inverse_op)
def _matrix_inverse_in_region(op, r):
    matrix = r.view(op.inputs[0])
    unit = r.filled(matrix.dims, 0.0, matrix.kind)
    r.copy(r.diagonal(unit), r.filled(matrix.dims[:-1], 1.0, matrix.kind))
    return [r.solved(matrix, unit, op.attrs["adjoint"], _SINGULAR)]


@matrix_inverse_op.gradient
def _matrix_inverse_gradient(op, grad):
    # d A^-1 = -A^-1 dA A^-1
    inverse = op.outputs[0]
    if op.attrs["adjoint"]:
        return -matmul(inverse, matmul(grad, inverse, adjoint_a=True))
    return -matmul(inverse, matmul(grad, inverse, adjoint_b=True), adjoint_a=True)


@export("linalg.inv", v1=["matrix_inverse"])
@dispatched
def matrix_inverse(input: Any, adjoint: bool = False, name: str | None = None) -> Tensor:
    """The inverse of square matrices, or of their adjoints; InvalidArgumentError if one has none.

    Args:
        input: Square matrices [..., n, n].
        adjoint: Whether to invert the adjoints.
        name: Name of the operation.

    Returns:
        A tensor of the type and shape of `input`.

    >>> tf.linalg.inv([[2., 0.], [0., 4.]]).numpy()
    array([[0.5 , 0.  ],
           [0.  , 0.25]], dtype=float32)
    """
    return matrix_inverse_op(input, adjoint=adjoint, name=name)


def _solve_shape(matrix: Any, rhs: Any, square: bool, batches: Callable) -> Any:
    batch, rows, cols = matrix_dims(matrix)
    other, rhs_rows, count = matrix_dims(rhs)
    if square:
        rows = cols = equal_size(rows, cols)
    rows = equal_size(rows, rhs_rows)
    return with_batch(batches(batch, other), rows if square else cols, count)


def _check_solve(matrix: torch.Tensor, rhs: torch.Tensor, square: bool = True) -> None:
    check_matrix(matrix, square)
    check_matrix(rhs, square=False)
    if matrix.shape[-2] != rhs.shape[-2]:
        raise errors.invalid(f"Input matrix and rhs are incompatible: shapes {list(matrix.shape)} and "
                             f"{list(rhs.shape)}")


def _same_batch(matrix: torch.Tensor, rhs: torch.Tensor) -> None:
    if matrix.shape[:-2] != rhs.shape[:-2]:
        raise errors.invalid(f"All input tensors must have the same outer dimensions: shapes {list(matrix.shape)} and "
                             f"{list(rhs.shape)}")


matrix_solve_op = op("MatrixSolve", "matrix: T, rhs: T -> output: T", "adjoint: bool = False, " + TYPES)
rules.batching.leading[matrix_solve_op] = (0, 1)
matrix_solve_op.shape(lambda matrix, rhs: _solve_shape(matrix, rhs, True, merge))


@matrix_solve_op.kernel
@in_float32
def _matrix_solve_kernel(matrix, rhs, *, adjoint):
    _check_solve(matrix, rhs)
    _same_batch(matrix, rhs)
    solution, info = torch.linalg.solve_ex(matrix.mH if adjoint else matrix, rhs)
    check_info(info, "Input matrix is not invertible.")
    return solution


@rules.regions.lower(matrix_solve_op)
def _matrix_solve_in_region(op, r):
    return [r.solved(*(r.view(t) for t in op.inputs), op.attrs["adjoint"], "Input matrix is not invertible.")]


def _solve_gradients(op: Any, grad_rhs: Tensor) -> Tensor:
    """The gradient by the matrix, from that by the right-hand side: -A^-H G X^H."""
    solution = op.outputs[0]
    if op.attrs["adjoint"]:
        return -matmul(solution, grad_rhs, adjoint_b=True)
    return -matmul(grad_rhs, solution, adjoint_b=True)


@matrix_solve_op.gradient
def _matrix_solve_gradient(op, grad):
    grad_rhs = matrix_solve(op.inputs[0], grad, adjoint=not op.attrs["adjoint"])
    return _solve_gradients(op, grad_rhs), grad_rhs


@export("linalg.solve", v1=["matrix_solve"])
@dispatched
def matrix_solve(matrix: Any, rhs: Any, adjoint: bool = False, name: str | None = None) -> Tensor:
    """Solves `matrix X = rhs`, or matrix^H X = rhs.

    Args:
        matrix: Matrices [..., n, n].
        rhs: Right-hand sides [..., n, k].
        adjoint: Whether to solve with the conjugate transpose.
        name: Name of the operation.

    Returns:
        Solutions [..., n, k].

    >>> tf.linalg.solve([[2., 0.], [0., 4.]], [[2.], [2.]]).numpy().tolist()
    [[1.0], [0.5]]
    """
    return matrix_solve_op(matrix, rhs, adjoint=adjoint, name=name)


matrix_triangular_solve = op("MatrixTriangularSolve", "matrix: T, rhs: T -> output: T",
                             "lower: bool = True, adjoint: bool = False, " + TYPES,
                             export_as="linalg.triangular_solve", v1_as="matrix_triangular_solve")


@rules.batching.rule(matrix_triangular_solve)
def _matrix_triangular_solve_batching(op, rows, matrix, rhs):
    made = rows.aligned([matrix, rhs])
    return None if made is None else rows.again(op, made)

matrix_triangular_solve.shape(lambda matrix, rhs: _solve_shape(matrix, rhs, True, broadcast))


@matrix_triangular_solve.kernel
@in_float32
def _matrix_triangular_solve_kernel(matrix, rhs, *, lower, adjoint):
    _check_solve(matrix, rhs)
    return torch.linalg.solve_triangular(matrix.mH if adjoint else matrix, rhs, upper=lower == adjoint)


@rules.regions.lower(matrix_triangular_solve)
def _matrix_triangular_solve_in_region(op, r):
    matrix, rhs = (r.view(t) for t in op.inputs)
    batch = op.outputs[0].static_dims[:-2]
    matrix, rhs = (r.repeated(v, (*batch, *v.dims[-2:])) for v in (matrix, rhs))
    return [r.solved_triangular(matrix, rhs, op.attrs["lower"], op.attrs["adjoint"])]


@matrix_triangular_solve.gradient
def _matrix_triangular_solve_gradient(op, grad):
    matrix, rhs = op.inputs
    lower = op.attrs["lower"]
    grad_rhs = matrix_triangular_solve(matrix, grad, lower=lower, adjoint=not op.attrs["adjoint"])
    grad_matrix = get("MatrixBandPart")(_solve_gradients(op, grad_rhs), *((-1, 0) if lower else (0, -1)))
    return sum_to(grad_matrix, matrix), sum_to(grad_rhs, rhs)


matrix_solve_ls = op("MatrixSolveLs", "matrix: T, rhs: T, l2_regularizer: float64 -> output: T",
                     TYPES + ", fast: bool = True")


@matrix_solve_ls.shape
def _matrix_solve_ls_shape(matrix, rhs, l2_regularizer):
    rank_is(l2_regularizer, 0)
    return _solve_shape(matrix, rhs, False, merge)


@matrix_solve_ls.kernel
@in_float32
def _matrix_solve_ls_kernel(matrix, rhs, l2_regularizer, *, fast):
    _check_solve(matrix, rhs, square=False)
    _same_batch(matrix, rhs)
    if l2_regularizer.dim():
        raise errors.invalid(f"l2_regularizer must be scalar, got shape {list(l2_regularizer.shape)}")
    penalty = float(l2_regularizer)
    if not penalty >= 0:
        raise errors.invalid("l2_regularizer must be >= 0.")
    m, n = matrix.shape[-2:]
    if matrix.numel() == 0 or rhs.numel() == 0:
        return matrix.new_zeros(*matrix.shape[:-2], n, rhs.shape[-1])
    if not fast:
        return _minimum_norm(matrix, rhs)
    tall = m >= n
    gram = matrix.mH @ matrix if tall else matrix @ matrix.mH
    gram.diagonal(dim1=-2, dim2=-1).add_(penalty)
    factor, info = torch.linalg.cholesky_ex(gram)
    check_info(info, "Input matrix was rank deficient or ill-conditioned. Try setting fast=False or provide a larger "
                     "l2_regularizer > 0.")
    if tall:
        return torch.cholesky_solve(matrix.mH @ rhs, factor)
    return matrix.mH @ torch.cholesky_solve(rhs, factor)


def _minimum_norm(matrix: torch.Tensor, rhs: torch.Tensor) -> torch.Tensor:
    """The least-squares solution of least norm, for matrices of any rank."""
    if matrix.device.type == "cpu":
        return torch.linalg.lstsq(matrix, rhs, driver="gelsy").solution
    return torch.linalg.pinv(matrix) @ rhs


def gram_cholesky(matrix: Any, l2_regularizer: Any, first_kind: bool) -> Tensor:
    """Cholesky factor of A^H A + penalty I (first kind) or of A A^H + penalty I."""
    gram = matmul(matrix, matrix, adjoint_a=first_kind, adjoint_b=not first_kind)
    if isinstance(l2_regularizer, Tensor) or l2_regularizer != 0:
        gram = with_diag(gram, diag_part(gram) + l2_regularizer)
    return cholesky(gram)


def when_tall(matrix: Tensor, tall: Callable, wide: Callable) -> Any:
    """tall() if the matrix has at least as many rows as columns, else wide(); decided at run time if need be."""
    if matrix.static_dims is not None and None not in matrix.static_dims[-2:]:
        return tall() if matrix.static_dims[-2] >= matrix.static_dims[-1] else wide()
    sizes = get("Shape")(matrix)
    return cond(sizes[-2] >= sizes[-1], tall, wide)


@matrix_solve_ls.gradient
def _matrix_solve_ls_gradient(op, grad):
    if not op.attrs["fast"]:
        raise ValueError("matrix_solve_ls has a gradient only with fast=True")
    a, b, penalty = op.inputs
    penalty = get("Cast")(penalty, DstT=a.dtype.base_dtype)

    def tall():
        # X = (A^H A + p I)^-1 A^H B
        z = cholesky_solve(gram_cholesky(a, penalty, True), grad)
        both = matmul(op.outputs[0], z, adjoint_b=True)
        return matmul(b, z, adjoint_b=True) - matmul(a, both + adjoint_of(both)), matmul(a, z)

    def wide():
        # X = A^H (A A^H + p I)^-1 B
        factor = gram_cholesky(a, penalty, False)
        grad_b = cholesky_solve(factor, matmul(a, grad))
        y = cholesky_solve(factor, b)
        rest = grad - matmul(a, grad_b, adjoint_a=True)
        return matmul(y, rest, adjoint_b=True) - matmul(grad_b, matmul(y, a, adjoint_a=True)), grad_b
    return (*when_tall(a, tall, wide), None)


@export("linalg.lstsq", v1=["matrix_solve_ls"])
@dispatched
def lstsq(matrix: Any, rhs: Any, l2_regularizer: Any = 0.0, fast: bool = True, name: str | None = None) -> Tensor:
    """Solves least-squares problems: the X of least |matrix X - rhs|^2 + l2_regularizer |X|^2.

    `fast` solves the normal equations; otherwise an orthogonal decomposition finds the solution of least norm, also
    for matrices of deficient rank, and the regularizer is ignored.

    Args:
        matrix: Matrices [..., m, n].
        rhs: Right-hand sides [..., m, k].
        l2_regularizer: Weight of the size of the solution.
        fast: Whether to solve the normal equations; otherwise by an orthogonal decomposition.
        name: Name of the operation.

    Returns:
        Solutions [..., n, k].

    >>> tf.linalg.lstsq([[1.], [1.]], [[1.], [3.]]).numpy().round(4).tolist()
    [[2.0]]
    """
    matrix = convert(matrix, name="matrix")
    if matrix.dtype.name == "complex128" and not isinstance(l2_regularizer, Tensor) and l2_regularizer != 0:
        raise NotImplementedError("matrix_solve_ls does not support an l2_regularizer for complex128: it would be inaccurate.")
    if not fast:
        return matrix_solve_ls(matrix, rhs, l2_regularizer, fast=False, name=name)
    with name_scope(name, "matrix_solve_ls", [matrix, rhs, l2_regularizer]):
        rhs = convert(rhs, matrix.dtype, name="rhs")
        return when_tall(
            matrix,
            lambda: cholesky_solve(gram_cholesky(matrix, l2_regularizer, True), matmul(matrix, rhs, adjoint_a=True)),
            lambda: matmul(matrix, cholesky_solve(gram_cholesky(matrix, l2_regularizer, False), rhs), adjoint_a=True))
