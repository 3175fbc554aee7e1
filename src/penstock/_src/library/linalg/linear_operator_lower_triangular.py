"""Lower triangular operators: what Cholesky factors are."""
from __future__ import annotations

from typing import Any

import penstock as tf
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.library.linalg import util
from penstock._src.library.linalg.algebra import cholesky_rule, matmul_rule, non_singular_hint, solve_rule
from penstock._src.library.linalg.linear_operator import LinearOperator
from penstock._src.library.linalg.linear_operator_diag import LinearOperatorDiag


@export("linalg.LinearOperatorLowerTriangular")
class LinearOperatorLowerTriangular(LinearOperator):
    """A (batch of) square lower triangular matrices; the upper triangle of `tril` is not read."""

    _parameter_ndims = {"tril": 2}

    def __init__(self, tril: Any, is_non_singular: bool | None = None, is_self_adjoint: bool | None = None,
                 is_positive_definite: bool | None = None, is_square: bool | None = None,
                 name: str = "LinearOperatorLowerTriangular"):
        if is_square is False:
            raise ValueError("Only square lower triangular operators supported at this time.")
        with name_scope(name, values=[tril]):
            self._matrix = util.tensor_or_variable(tril, "tril")
            if self._matrix.dtype.base_dtype not in util.FLOATING:
                raise TypeError(f"Argument tril must have dtype in {list(util.FLOATING)}.  Found: {self._matrix.dtype}")
            rank = self._matrix.shape.rank
            if rank is not None and rank < 2:
                raise ValueError(f"Argument tril must have at least 2 dimensions.  Found: {self._matrix}")
            super().__init__(self._matrix.dtype, [self._matrix], is_non_singular, is_self_adjoint,
                             is_positive_definite, True, name)

    tril = property(lambda self: self._matrix, doc="The matrix whose lower triangle counts.")

    def _lower(self) -> Tensor:
        return tf.linalg.band_part(self._matrix, -1, 0)

    def _diagonal(self) -> Tensor:
        return tf.linalg.diag_part(self._matrix)

    def _shape(self) -> TensorShape:
        return self._matrix.shape

    def _shape_tensor(self) -> Tensor:
        return tf.shape(self._matrix)

    def _assert_non_singular(self) -> Any:
        return util.assert_nonzero(self._diagonal(), "Singular operator:  Diagonal contained zero values.")

    def _matmul(self, x: Tensor, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        return tf.matmul(self._lower(), x, adjoint_a=adjoint, adjoint_b=adjoint_arg)

    def _solve(self, rhs: Tensor, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        return tf.linalg.triangular_solve(self._matrix, util.adjoint_if(rhs, adjoint_arg), lower=True, adjoint=adjoint)

    def _determinant(self) -> Tensor:
        return tf.reduce_prod(self._diagonal(), axis=[-1])

    def _log_abs_determinant(self) -> Tensor:
        return tf.reduce_sum(tf.math.log(tf.abs(self._diagonal())), axis=[-1])

    def _to_dense(self) -> Tensor:
        return self._lower()

    def _diag_part(self) -> Tensor:
        return self._diagonal()

    def _eigvals(self) -> Tensor:
        return self._diagonal()


@cholesky_rule(LinearOperator)
def _cholesky_operator(a: LinearOperator) -> LinearOperatorLowerTriangular:
    return LinearOperatorLowerTriangular(tf.linalg.cholesky(a.to_dense()), is_non_singular=True, is_self_adjoint=False)


def _scaled(tril: Tensor, a: Any, b: Any) -> LinearOperatorLowerTriangular:
    return LinearOperatorLowerTriangular(tril, is_non_singular=non_singular_hint(a, b), is_square=True)


@matmul_rule(LinearOperatorDiag, LinearOperatorLowerTriangular)
def _matmul_diag_lower_triangular(a: LinearOperatorDiag, b: LinearOperatorLowerTriangular) -> LinearOperatorLowerTriangular:
    return _scaled(a.diag[..., tf.newaxis] * b.to_dense(), a, b)


@matmul_rule(LinearOperatorLowerTriangular, LinearOperatorDiag)
def _matmul_lower_triangular_diag(a: LinearOperatorLowerTriangular, b: LinearOperatorDiag) -> LinearOperatorLowerTriangular:
    return _scaled(a.to_dense() * b.diag[..., tf.newaxis, :], a, b)


@matmul_rule(LinearOperatorLowerTriangular, LinearOperatorLowerTriangular)
def _matmul_lower_triangular_lower_triangular(a: LinearOperatorLowerTriangular,
                                              b: LinearOperatorLowerTriangular) -> LinearOperatorLowerTriangular:
    return _scaled(tf.matmul(a.to_dense(), b.to_dense()), a, b)


@solve_rule(LinearOperatorDiag, LinearOperatorLowerTriangular)
def _solve_diag_lower_triangular(a: LinearOperatorDiag, b: LinearOperatorLowerTriangular) -> LinearOperatorLowerTriangular:
    return _scaled(b.to_dense() / a.diag[..., tf.newaxis], a, b)
