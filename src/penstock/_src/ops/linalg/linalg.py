"""Linear algebra on the innermost two dimensions: factorizations, determinants, inverses and solves.

Kernels call torch.linalg (LAPACK, cuSOLVER). Half precision is computed in float32. Gradients follow from the
differential of each defining equation (Giles, "Collected matrix derivative results for forward and reverse mode
algorithmic differentiation"; Murray, "Differentiation of the Cholesky decomposition").
"""
from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch

from penstock._src.base import dtypes, errors
from penstock._src.base.api import export
from penstock._src.base.static_shape import broadcast, merge, rank_at_least, rank_is
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.ops import rules
from penstock._src.ops.array.array import matrix_transpose
from penstock._src.ops.composite import dispatched
from penstock._src.ops.control.control_flow import cond
from penstock._src.ops.registry import GRADIENTS, get, op

_TYPES = "T: type in {float64 float32 half complex64 complex128}"
_REAL = "T: type in {half float32 float64}"


# -- what shape rules share -------------------------------------------------------------------------------------------
def equal_size(a: int | None, b: int | None) -> int | None:
    """The size that two dimensions have in common; ValueError if they differ."""
    if a is not None and b is not None and a != b:
        raise ValueError(f"Dimensions must be equal, but are {a} and {b}")
    return b if a is None else a


def _matrix(dims: Any) -> tuple[Any, int | None, int | None]:
    """Batch dims, rows and columns of a matrix shape."""
    rank_at_least(dims, 2)
    return (None, None, None) if dims is None else (dims[:-2], dims[-2], dims[-1])


def _square(dims: Any) -> tuple[Any, int | None]:
    """Batch dims and size of a square matrix shape."""
    batch, rows, cols = _matrix(dims)
    return batch, equal_size(rows, cols)


def _with(batch: Any, *sizes: int | None) -> Any:
    return None if batch is None else (*batch, *sizes)


def square_shape(input: Any) -> Any:
    """Shape rule of ops that map a square matrix to one of the same size."""
    batch, n = _square(input)
    return _with(batch, n, n)


def _smaller(m: int | None, n: int | None) -> int | None:
    if m == 0 or n == 0:
        return 0
    return None if m is None or n is None else min(m, n)


# -- what kernels share -----------------------------------------------------------------------------------------------
def in_float32(kernel: Callable) -> Callable:
    """The kernel computed in float32 for half inputs, with outputs as half again."""
    @functools.wraps(kernel)
    def wrapped(*args: torch.Tensor, **attrs: Any) -> Any:
        if args[0].dtype is not torch.float16:
            return kernel(*args, **attrs)
        out = kernel(*(a.float() if a.dtype is torch.float16 else a for a in args), **attrs)
        if isinstance(out, tuple):
            return tuple(o.half() if o.dtype is torch.float32 else o for o in out)
        return out.half()
    return wrapped


def check_matrix(x: torch.Tensor, square: bool = True) -> None:
    """InvalidArgumentError unless `x` is a (batch of) matrices."""
    if x.dim() < 2:
        raise errors.invalid(f"Input tensor must have rank >= 2, got shape {list(x.shape)}")
    if square and x.shape[-1] != x.shape[-2]:
        raise errors.invalid(f"Input matrix must be square, got shape {list(x.shape)}")


def check_info(info: torch.Tensor, message: str) -> None:
    """InvalidArgumentError with `message` if LAPACK reported a failure for any matrix."""
    if info.numel() and bool((info != 0).any()):
        raise errors.invalid(message)


# -- what gradients share ---------------------------------------------------------------------------------------------
def matmul(a: Any, b: Any, adjoint_a: bool = False, adjoint_b: bool = False) -> Tensor:
    """Product of (batches of) matrices; batch dimensions broadcast."""
    return get("BatchMatMulV2")(a, b, adj_x=adjoint_a, adj_y=adjoint_b)


def _adjoint(x: Any) -> Tensor:
    return matrix_transpose(x, conjugate=True)


def _lower(x: Tensor) -> Tensor:
    return get("MatrixBandPart")(x, -1, 0)


def _diag_part(x: Tensor) -> Tensor:
    return get("MatrixDiagPart")(x)


def _with_diag(x: Tensor, diagonal: Tensor) -> Tensor:
    return get("MatrixSetDiag")(x, diagonal)


def _half_diagonal(x: Tensor) -> Tensor:
    return _with_diag(x, _diag_part(x) * 0.5)


def _as_matrix(x: Tensor) -> Tensor:
    """[...] as [..., 1, 1]."""
    expand = get("ExpandDims")
    return expand(expand(x, -1), -1)


def sum_to(grad: Tensor, x: Tensor) -> Tensor:
    """A gradient summed over the batch dimensions along which `x` was broadcast."""
    if grad.static_dims is not None and grad.static_dims == x.static_dims and None not in grad.static_dims:
        return grad
    shape = get("Shape")
    wanted = shape(x)
    axes, _ = get("BroadcastGradientArgs")(wanted, shape(grad))
    return get("Reshape")(get("Sum")(grad, axes), wanted)


# -- Cholesky ---------------------------------------------------------------------------------------------------------
cholesky_op = op("Cholesky", "input: T -> output: T", _TYPES)
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
    middle = _lower(_half_diagonal(matmul(factor, grad, adjoint_a=True)))
    left = matrix_triangular_solve(factor, middle, adjoint=True)
    both = matrix_triangular_solve(factor, _adjoint(left), adjoint=True)
    return (both + _adjoint(both)) * 0.5


@export("linalg.cholesky", v1=["cholesky"])
@dispatched
def cholesky(input: Any, name: str | None = None) -> Tensor:
    """The lower triangular L of A = L L^H, for self-adjoint positive definite A; the upper triangle is not read.

    Args:
        input: Matrices [..., n, n]; only the lower triangles are read.
        name: Name of the operation.

    Returns:
        A tensor of the type and shape of `input`; NaN for a matrix that is not positive definite.

    >>> tf.linalg.cholesky([[4., 2.], [2., 3.]])
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


cholesky_grad = op("CholeskyGrad", "l: T, grad: T -> output: T", _REAL)
cholesky_grad.shape(lambda l, grad: square_shape(l))
cholesky_grad.kernel(in_float32(_cholesky_grad))


@export("linalg.cholesky_solve", v1=["cholesky_solve"])
@dispatched
def cholesky_solve(chol: Any, rhs: Any, name: str | None = None) -> Tensor:
    """Solves `A X = rhs` where `chol` is the Cholesky factor of A.

    >>> x = tf.linalg.cholesky_solve(tf.linalg.cholesky(a), b)
    """
    with name_scope(name, "cholesky_solve", [chol, rhs]):
        return matrix_triangular_solve(chol, matrix_triangular_solve(chol, rhs), adjoint=True)


# -- determinants -----------------------------------------------------------------------------------------------------
matrix_determinant_op = op("MatrixDeterminant", "input: T -> output: T", _TYPES)
matrix_determinant_op.shape(lambda input: _square(input)[0])


@matrix_determinant_op.kernel
@in_float32
def _matrix_determinant_kernel(input):
    check_matrix(input)
    return torch.linalg.det(input)


@matrix_determinant_op.gradient
def _matrix_determinant_gradient(op, grad):
    # d det(A) = det(A) tr(A^-1 dA)
    scale = grad * get("Conj")(op.outputs[0]) if op.outputs[0].dtype.is_complex else grad * op.outputs[0]
    return _as_matrix(scale) * matrix_inverse(op.inputs[0], adjoint=True)


@export("linalg.det", v1=["matrix_determinant"])
@dispatched
def matrix_determinant(input: Any, name: str | None = None) -> Tensor:
    """The determinant of square matrices.

    Args:
        input: Square matrices [..., n, n].
        name: Name of the operation.

    Returns:
        A tensor without the last two dimensions.
    """
    return matrix_determinant_op(input, name=name)


log_matrix_determinant = op("LogMatrixDeterminant", "input: T -> sign: T, log_abs_determinant: T", _TYPES,
                            export_as="linalg.slogdet")


@log_matrix_determinant.shape
def _log_matrix_determinant_shape(input):
    batch, _ = _square(input)
    return [batch, batch]


@log_matrix_determinant.kernel
@in_float32
def _log_matrix_determinant_kernel(input):
    check_matrix(input)
    sign, magnitude = torch.linalg.slogdet(input)
    return sign, magnitude.to(input.dtype)


@log_matrix_determinant.gradient
def _log_matrix_determinant_gradient(op, _, grad):
    return _as_matrix(grad) * matrix_inverse(op.inputs[0], adjoint=True)


# -- inverse and solves -----------------------------------------------------------------------------------------------
matrix_inverse_op = op("MatrixInverse", "input: T -> output: T", "adjoint: bool = False, " + _TYPES)
matrix_inverse_op.shape(square_shape)


@matrix_inverse_op.kernel
@in_float32
def _matrix_inverse_kernel(input, *, adjoint):
    check_matrix(input)
    inverse, info = torch.linalg.inv_ex(input.mH if adjoint else input)
    check_info(info, "Input is not invertible.")
    return inverse


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
    """
    return matrix_inverse_op(input, adjoint=adjoint, name=name)


def _solve_shape(matrix: Any, rhs: Any, square: bool, batches: Callable) -> Any:
    batch, rows, cols = _matrix(matrix)
    other, rhs_rows, count = _matrix(rhs)
    if square:
        rows = cols = equal_size(rows, cols)
    rows = equal_size(rows, rhs_rows)
    return _with(batches(batch, other), rows if square else cols, count)


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


matrix_solve_op = op("MatrixSolve", "matrix: T, rhs: T -> output: T", "adjoint: bool = False, " + _TYPES)
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

    >>> x = tf.linalg.solve([[2., 0.], [0., 4.]], [[2.], [2.]])
    """
    return matrix_solve_op(matrix, rhs, adjoint=adjoint, name=name)


matrix_triangular_solve = op("MatrixTriangularSolve", "matrix: T, rhs: T -> output: T",
                             "lower: bool = True, adjoint: bool = False, " + _TYPES,
                             export_as="linalg.triangular_solve", v1_as="matrix_triangular_solve")
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
                     _TYPES + ", fast: bool = True")


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
        gram = _with_diag(gram, _diag_part(gram) + l2_regularizer)
    return cholesky(gram)


def _when_tall(matrix: Tensor, tall: Callable, wide: Callable) -> Any:
    """tall() if the matrix has at least as many rows as columns, else wide(); decided at run time if need be."""
    if matrix.static_dims is not None and None not in matrix.static_dims[-2:]:
        return tall() if matrix.static_dims[-2] >= matrix.static_dims[-1] else wide()
    sizes = get("Shape")(matrix)
    return cond(sizes[-2] >= sizes[-1], tall, wide)


@matrix_solve_ls.gradient
def _matrix_solve_ls_gradient(op, grad):
    if not op.attrs["fast"]:
        raise ValueError("Gradient not defined for fast=False")
    a, b, penalty = op.inputs
    penalty = get("Cast")(penalty, DstT=a.dtype.base_dtype)

    def tall():
        # X = (A^H A + p I)^-1 A^H B
        z = cholesky_solve(gram_cholesky(a, penalty, True), grad)
        both = matmul(op.outputs[0], z, adjoint_b=True)
        return matmul(b, z, adjoint_b=True) - matmul(a, both + _adjoint(both)), matmul(a, z)

    def wide():
        # X = A^H (A A^H + p I)^-1 B
        factor = gram_cholesky(a, penalty, False)
        grad_b = cholesky_solve(factor, matmul(a, grad))
        y = cholesky_solve(factor, b)
        rest = grad - matmul(a, grad_b, adjoint_a=True)
        return matmul(y, rest, adjoint_b=True) - matmul(grad_b, matmul(y, a, adjoint_a=True)), grad_b
    return (*_when_tall(a, tall, wide), None)


@export("linalg.lstsq", v1=["matrix_solve_ls"])
@dispatched
def lstsq(matrix: Any, rhs: Any, l2_regularizer: Any = 0.0, fast: bool = True, name: str | None = None) -> Tensor:
    """Solves least-squares problems: the X of least |matrix X - rhs|^2 + l2_regularizer |X|^2.

    `fast` solves the normal equations; otherwise an orthogonal decomposition finds the solution of least norm, also
    for matrices of deficient rank, and the regularizer is ignored.
    """
    matrix = convert(matrix, name="matrix")
    if matrix.dtype.name == "complex128" and not isinstance(l2_regularizer, Tensor) and l2_regularizer != 0:
        raise NotImplementedError("matrix_solve_ls is currently disabled for complex128 and l2_regularizer != 0 due to "
                                  "poor accuracy.")
    if not fast:
        return matrix_solve_ls(matrix, rhs, l2_regularizer, fast=False, name=name)
    with name_scope(name, "matrix_solve_ls", [matrix, rhs, l2_regularizer]):
        rhs = convert(rhs, matrix.dtype, name="rhs")
        return _when_tall(
            matrix,
            lambda: cholesky_solve(gram_cholesky(matrix, l2_regularizer, True), matmul(matrix, rhs, adjoint_a=True)),
            lambda: matmul(matrix, cholesky_solve(gram_cholesky(matrix, l2_regularizer, False), rhs), adjoint_a=True))


# -- QR ---------------------------------------------------------------------------------------------------------------
qr = op("Qr", "input: T -> q: T, r: T", "full_matrices: bool = False, " + _TYPES, export_as="linalg.qr", v1_as="qr")


@qr.shape
def _qr_shape(input, *, full_matrices):
    batch, m, n = _matrix(input)
    p = m if full_matrices else _smaller(m, n)
    return [_with(batch, m, p), _with(batch, p, n)]


@qr.kernel
@in_float32
def _qr_kernel(input, *, full_matrices):
    check_matrix(input, square=False)
    q, r = torch.linalg.qr(input, "complete" if full_matrices else "reduced")
    return q, r


@qr.gradient
def _qr_gradient(op, grad_q, grad_r):
    q, r = op.outputs
    if r.static_dims is None or q.static_dims is None or None in (*r.static_dims[-2:], *q.static_dims[-2:]):
        raise NotImplementedError("QrGrad not implemented with dynamic shapes.")
    rows, columns = q.static_dims[-2], r.static_dims[-1]
    if rows >= columns:
        if r.static_dims[-2] != columns:
            raise NotImplementedError("QrGrad not implemented when nrows > ncols and full_matrices is true.")
        return _tall_qr_gradient(q, r, grad_q, grad_r)
    # A = [X Y], R = [U V]: X = Q U is a square decomposition, and V = Q^H Y.
    grad_u, grad_v = grad_r[..., :rows], grad_r[..., rows:]
    grad_q = grad_q + matmul(op.inputs[0][..., rows:], grad_v, adjoint_b=True)
    return get("ConcatV2")([_tall_qr_gradient(q, r[..., :rows], grad_q, grad_u), matmul(q, grad_v)], -1)


def _tall_qr_gradient(q: Tensor, r: Tensor, grad_q: Tensor, grad_r: Tensor) -> Tensor:
    def times_inverse_adjoint(x):                       # x R^-H
        return _adjoint(matrix_triangular_solve(r, _adjoint(x), lower=False))
    turn = matmul(q, grad_q, adjoint_a=True)
    scale = matmul(r, grad_r, adjoint_b=True)
    lower = _lower(turn - _adjoint(turn) + scale - _adjoint(scale))
    grad = matmul(q, grad_r + times_inverse_adjoint(lower)) + times_inverse_adjoint(grad_q - matmul(q, turn))
    if not q.dtype.is_complex:
        return grad
    diagonal = get("MatrixDiagPart")(scale - _adjoint(turn))    # the diagonal of R is real: that fixes the phases of Q
    phases = get("MatrixDiag")(diagonal - _complex(get("Real")(diagonal, Tout=_real_of(q.dtype)), q.dtype))
    return grad + times_inverse_adjoint(matmul(q, phases, adjoint_b=True))


def _complex(x: Tensor, dtype: Any) -> Tensor:
    return get("Cast")(x, DstT=dtype)


def _real_of(dtype: Any) -> Any:
    return dtypes.float64 if dtype.base_dtype == dtypes.complex128 else dtypes.float32


# -- singular values --------------------------------------------------------------------------------------------------
svd_op = op("Svd", "input: T -> s: T, u: T, v: T", "compute_uv: bool = True, full_matrices: bool = False, " + _TYPES)


@svd_op.shape
def _svd_shape(input, *, compute_uv, full_matrices):
    batch, m, n = _matrix(input)
    p = _smaller(m, n)
    if not compute_uv:
        return [_with(batch, p), (0,), (0,)]
    return [_with(batch, p), _with(batch, m, m if full_matrices else p), _with(batch, n, n if full_matrices else p)]


@svd_op.kernel
@in_float32
def _svd_kernel(input, *, compute_uv, full_matrices):
    check_matrix(input, square=False)
    if not compute_uv:
        nothing = input.new_empty(0)
        return torch.linalg.svdvals(input).to(input.dtype), nothing, nothing
    u, s, vh = torch.linalg.svd(input, full_matrices=full_matrices)
    return s.to(input.dtype), u, vh.mH


@export("linalg.svd", v1=["svd"])
@dispatched
def svd(tensor: Any, full_matrices: bool = False, compute_uv: bool = True, name: str | None = None) -> Any:
    """Singular values `s`, and left and right singular vectors: tensor = u diag(s) v^H.

    >>> s, u, v = tf.linalg.svd([[3., 0.], [4., 5.]])
    """
    s, u, v = svd_op(tensor, compute_uv=compute_uv, full_matrices=full_matrices, name=name)
    s = get("Real")(s, Tout=s.dtype.real_dtype) if s.dtype.is_complex else s
    return (s, u, v) if compute_uv else s


@svd_op.gradient
def _svd_gradient_2(op, grad_s, grad_u, grad_v):
    a = op.inputs[0]
    if not op.attrs["compute_uv"]:
        _, u, v = svd_op(a)
        return matmul(u * get("ExpandDims")(grad_s, -2), v, adjoint_b=True)
    if a.dtype.is_complex:
        raise NotImplementedError("SVD gradient is not implemented for complex types and compute_uv=True.")
    s, u, v = op.outputs
    m, n = (merge(a.static_dims[-2:], (_at(grad_u, -2), _at(grad_v, -2))) if a.static_dims is not None
            else (_at(grad_u, -2), _at(grad_v, -2)))
    if m is None or n is None:
        raise NotImplementedError("SVD gradient has not been implemented for input with unknown inner matrix shape.")
    if op.attrs["full_matrices"] and abs(m - n) > 1:
        raise NotImplementedError("svd gradient is not implemented for abs(m - n) > 1 when full_matrices is True")
    if m > n:                                           # the gradient of A^H = V S U^H, transposed
        return _adjoint(_svd_gradient(s, v, u, grad_s, grad_v, grad_u, n, m, op.attrs["full_matrices"]))
    return _svd_gradient(s, u, v, grad_s, grad_u, grad_v, m, n, op.attrs["full_matrices"])


def _at(x: Tensor, i: int) -> int | None:
    return None if x.static_dims is None else x.static_dims[i]


def _svd_gradient(s: Tensor, u: Tensor, v: Tensor, grad_s: Tensor, grad_u: Tensor, grad_v: Tensor, m: int, n: int,
                  full: bool) -> Tensor:
    """The gradient by a real [..., m, n] matrix, m <= n.

    With A = U S V1^T, where V1 is the first m columns of V, the rotations U^T dU and V1^T dV1 are antisymmetric, and
    their elements are combinations of U^T dA V1 over s_j^2 - s_i^2. Equal singular values make the gradient infinite.
    """
    expand, diag = get("ExpandDims"), get("MatrixDiag")
    squares = s * s
    gap = expand(squares, -2) - expand(squares, -1)
    gap = _with_diag(gap, get("OnesLike")(s))           # nothing infinite, also for second gradients
    over_gap = _with_diag(1.0 / gap, get("ZerosLike")(s))
    v1 = v[..., :m] if n > m and full else v
    grad_v1 = grad_v[..., :m] if n > m and full else grad_v
    turn_u = over_gap * matmul(u, grad_u, adjoint_a=True)
    turn_v = over_gap * matmul(v1, grad_v1, adjoint_a=True)
    middle = (diag(grad_s) + (turn_u + _adjoint(turn_u)) * expand(s, -2)
              + expand(s, -1) * (turn_v + _adjoint(turn_v)))
    grad = matmul(u, matmul(middle, v1, adjoint_b=True))
    if m == n:
        return grad
    outside = _adjoint(grad_v1) - matmul(matmul(grad_v1, v1, adjoint_a=True), v1, adjoint_b=True)
    if full:
        outside -= matmul(matmul(v1, grad_v[..., m:], adjoint_a=True), v[..., m:], adjoint_b=True)
    return grad + matmul(u / expand(s, -2), outside)


# -- eigenvalues ------------------------------------------------------------------------------------------------------
self_adjoint_eig_v2 = op("SelfAdjointEigV2", "input: T -> e: T, v: T", "compute_v: bool = True, " + _TYPES)


def _eig_shape(input: Any, *, compute_v: bool) -> list:
    batch, n = _square(input)
    return [_with(batch, n), _with(batch, n, n) if compute_v else (0,)]


self_adjoint_eig_v2.shape(_eig_shape)


@self_adjoint_eig_v2.kernel
@in_float32
def _self_adjoint_eig_v2_kernel(input, *, compute_v):
    check_matrix(input)
    try:
        if not compute_v:
            return torch.linalg.eigvalsh(input).to(input.dtype), input.new_empty(0)
        e, v = torch.linalg.eigh(input)
    except torch.linalg.LinAlgError:
        raise errors.invalid("Self-adjoint eigen decomposition was not successful. The input might not be "
                             "valid.") from None
    return e.to(input.dtype), v


@self_adjoint_eig_v2.gradient
def _self_adjoint_eig_v2_gradient(op, grad_e, grad_v):
    expand, diag = get("ExpandDims"), get("MatrixDiag")
    e = op.outputs[0]
    if op.attrs["compute_v"]:
        v = op.outputs[1]
        gap = _with_diag(expand(e, -2) - expand(e, -1), get("OnesLike")(e))
        over_gap = _with_diag(1.0 / gap, get("ZerosLike")(e))
        middle = diag(grad_e) + over_gap * matmul(v, grad_v, adjoint_a=True)
    else:
        _, v = self_adjoint_eig_v2(op.inputs[0])
        middle = diag(grad_e)
    grad = matmul(v, matmul(middle, v, adjoint_b=True))
    return _half_diagonal(_lower(grad + _adjoint(grad)))       # only the lower triangle is read


@export("linalg.eigh", v1=["self_adjoint_eig"])
@dispatched
def eigh(tensor: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Eigenvalues, in non-decreasing order, and eigenvectors (columns) of self-adjoint matrices.

    Args:
        tensor: Self-adjoint matrices [..., n, n]; only the lower triangles are read.
        name: Name of the operation.

    Returns:
        Eigenvalues [..., n] and eigenvectors [..., n, n].

    >>> e, v = tf.linalg.eigh([[2., 1.], [1., 2.]])
    """
    e, v = self_adjoint_eig_v2(tensor, name=name)
    return e, v


@export("linalg.eigvalsh", v1=["self_adjoint_eigvals"])
@dispatched
def eigvalsh(tensor: Any, name: str | None = None) -> Tensor:
    """Eigenvalues of self-adjoint matrices, in non-decreasing order."""
    return self_adjoint_eig_v2(tensor, compute_v=False, name=name)[0]


self_adjoint_eig = op("SelfAdjointEig", "input: T -> output: T", _REAL)


@self_adjoint_eig.shape
def _self_adjoint_eig_shape(input):
    batch, n = _square(input)
    return _with(batch, None if n is None else n + 1, n)


@self_adjoint_eig.kernel
@in_float32
def _self_adjoint_eig_kernel(input):
    check_matrix(input)
    e, v = torch.linalg.eigh(input)
    return torch.cat([e.unsqueeze(-2), v], -2)


eig_op = op("Eig", "input: T -> e: Tout, v: Tout",
            "compute_v: bool = True, T: type in {float32 float64 complex64 complex128}, Tout: type in {complex}")
eig_op.shape(_eig_shape)


@eig_op.kernel
def _eig_kernel(input, *, compute_v, Tout):
    check_matrix(input)
    if not bool(torch.isfinite(input).all()):           # LAPACK would not come back
        raise errors.invalid("Eigen decomposition was not successful. The input contains infinities or NaNs.")
    if not compute_v:
        return torch.linalg.eigvals(input).to(Tout.torch), input.new_empty(0, dtype=Tout.torch)
    e, v = torch.linalg.eig(input)
    return e.to(Tout.torch), v.to(Tout.torch)


@eig_op.gradient
def _eig_gradient(op, grad_e, grad_v):
    # A V = V diag(e): the gradient is V^-H (diag(ge) + (V^H gv - V^H V diag(Re(V^H gv))) / conj(e_j - e_i)) V^H.
    expand, diag = get("ExpandDims"), get("MatrixDiag")
    e, dtype = op.outputs[0], op.outputs[0].dtype
    if op.attrs["compute_v"]:
        v = op.outputs[1]
        gap = _with_diag(expand(e, -2) - expand(e, -1), get("OnesLike")(e))
        over_gap = _with_diag(1.0 / get("Conj")(gap), get("ZerosLike")(e))
        turn = matmul(v, grad_v, adjoint_a=True)
        along = diag(_complex(get("Real")(get("MatrixDiagPart")(turn), Tout=_real_of(dtype)), dtype))
        middle = diag(grad_e) + over_gap * (turn - matmul(matmul(v, v, adjoint_a=True), along))
    else:
        _, v = eig_op(op.inputs[0], Tout=dtype)
        middle = diag(grad_e)
    grad = matrix_solve_op(_adjoint(v), matmul(middle, v, adjoint_b=True))
    source = op.inputs[0].dtype
    return grad if source.is_complex else get("Real")(grad, Tout=source)


def _complex_of(dtype: Any) -> Any:
    return dtypes.complex128 if dtype in (dtypes.float64, dtypes.complex128) else dtypes.complex64


@export("linalg.eig", "eig")
@dispatched
def eig(tensor: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Eigenvalues and right eigenvectors (columns) of general square matrices; both are complex."""
    tensor = convert(tensor, name="tensor")
    e, v = eig_op(tensor, Tout=_complex_of(tensor.dtype.base_dtype), name=name)
    return e, v


@export("linalg.eigvals", "eigvals")
@dispatched
def eigvals(tensor: Any, name: str | None = None) -> Tensor:
    """Eigenvalues of general square matrices, as complex numbers."""
    tensor = convert(tensor, name="tensor")
    return eig_op(tensor, Tout=_complex_of(tensor.dtype.base_dtype), compute_v=False, name=name)[0]


# -- LU ---------------------------------------------------------------------------------------------------------------
lu = op("Lu", "input: T -> lu: T, p: output_idx_type", _TYPES + ", output_idx_type: type in {index} = int32",
        export_as="linalg.lu")


@lu.shape
def _lu_shape(input):
    batch, n = _square(input)
    return [_with(batch, n, n), _with(batch, n)]


@lu.kernel
def _lu_kernel(input, *, output_idx_type):
    check_matrix(input)
    wide = input.float() if input.dtype is torch.float16 else input
    factors, pivots, info = torch.linalg.lu_factor_ex(wide)
    check_info(info, "Input is not invertible.")
    if not input.numel():
        return input, torch.empty(input.shape[:-1], dtype=output_idx_type.torch, device=input.device)
    permutation = torch.lu_unpack(factors, pivots, unpack_data=False)[0].real.argmax(-2)
    return factors.to(input.dtype), permutation.to(output_idx_type.torch)


# -- the names of batch ops, from before ops took any rank ------------------------------------------------------------
def _batch_op(old: str, current: Any, args: str, attrs: str) -> None:
    """An op under the name it had when it took batches only: rules and kernels are the current op's."""
    made = op(old, args, attrs)
    made.shape(current.shape_rule)
    made.kernel(current.kernels["any"].fn)
    gradient = GRADIENTS.get(current.name)
    if gradient is not None:
        made.gradient(gradient)


_DOUBLES = "T: type in {float64 float32}"
_batch_op("BatchCholesky", cholesky_op, "input: T -> output: T", _DOUBLES)
_batch_op("BatchCholeskyGrad", cholesky_grad, "l: T, grad: T -> output: T", _DOUBLES)
_batch_op("BatchMatrixDeterminant", matrix_determinant_op, "input: T -> output: T",
          "T: type in {float32 float64 complex64 complex128}")
_batch_op("BatchMatrixInverse", matrix_inverse_op, "input: T -> output: T", "adjoint: bool = False, " + _DOUBLES)
_batch_op("BatchMatrixSolve", matrix_solve_op, "matrix: T, rhs: T -> output: T", "adjoint: bool = False, " + _DOUBLES)
_batch_op("BatchMatrixSolveLs", matrix_solve_ls, "matrix: T, rhs: T, l2_regularizer: float64 -> output: T",
          _DOUBLES + ", fast: bool = True")
_batch_op("BatchMatrixTriangularSolve", matrix_triangular_solve, "matrix: T, rhs: T -> output: T",
          "lower: bool = True, adjoint: bool = False, " + _DOUBLES)
_batch_op("BatchSelfAdjointEig", self_adjoint_eig, "input: T -> output: T", _DOUBLES)
_batch_op("BatchSelfAdjointEigV2", self_adjoint_eig_v2, "input: T -> e: T, v: T", "compute_v: bool = True, " + _DOUBLES)
_batch_op("BatchSvd", svd_op, "input: T -> s: T, u: T, v: T",
          "compute_uv: bool = True, full_matrices: bool = False, T: type in {float32 float64 complex64 complex128}")
