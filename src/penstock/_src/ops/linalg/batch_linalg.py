"""Old names of batch ops, from before ops on matrices supported any rank."""
from __future__ import annotations

from typing import Any

from penstock._src.ops.linalg.decompositions import self_adjoint_eig, self_adjoint_eig_v2, svd_op
from penstock._src.ops.linalg.linalg import (
    cholesky_grad,
    cholesky_op,
    matrix_determinant_op,
    matrix_inverse_op,
    matrix_solve_ls,
    matrix_solve_op,
    matrix_triangular_solve,
)
from penstock._src.ops.registry import GRADIENTS, op


def _batch_op(old: str, current: Any, args: str, attrs: str) -> None:
    """Declares an old name of an op, with the rules and kernels of the current one."""
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
