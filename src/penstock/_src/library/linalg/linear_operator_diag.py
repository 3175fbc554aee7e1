"""Diagonal operators."""
from __future__ import annotations

from typing import Any

import penstock as tf
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.library.linalg import util
from penstock._src.library.linalg.algebra import (
    adjoint_rule,
    cholesky_rule,
    commuting_hints,
    inverse_rule,
    matmul_rule,
    same_hints,
    solve_rule,
)
from penstock._src.library.linalg.linear_operator import LinearOperator


@export("linalg.LinearOperatorDiag")
class LinearOperatorDiag(LinearOperator):
    """A (batch of) square diagonal matrices, from a vector [..., N] of diagonal elements."""

    _parameter_ndims = {"diag": 1}

    def __init__(self, diag: Any, is_non_singular: bool | None = None, is_self_adjoint: bool | None = None,
                 is_positive_definite: bool | None = None, is_square: bool | None = None,
                 name: str = "LinearOperatorDiag"):
        with name_scope(name, values=[diag]):
            self._diag = util.tensor_or_variable(diag, "diag")
            if self._diag.shape.rank == 0:
                raise ValueError(f"Argument diag must have at least 1 dimension.  Found: {self._diag}")
            if not self._diag.dtype.is_complex:
                if is_self_adjoint is False:
                    raise ValueError("A real diagonal operator is always self adjoint.")
                is_self_adjoint = True
            if is_square is False:
                raise ValueError("Only square diagonal operators currently supported.")
            super().__init__(self._diag.dtype, [self._diag], is_non_singular, is_self_adjoint, is_positive_definite,
                             True, name)

    diag = property(lambda self: self._diag, doc="The diagonal elements.")

    def _shape(self) -> TensorShape:
        shape = self._diag.shape
        return shape.concatenate(shape[-1:])

    def _shape_tensor(self) -> Tensor:
        shape = tf.shape(self._diag)
        return tf.concat([shape, shape[-1:]], 0)

    def _assert_non_singular(self) -> Any:
        return util.assert_nonzero(self._diag, "Singular operator:  Diagonal contained zero values.")

    def _assert_positive_definite(self) -> Any:
        entries = ("Diagonal operator had diagonal entries with non-positive real part" if self.dtype.is_complex
                   else "Real diagonal operator had non-positive diagonal entries")
        return util.assert_positive(tf.math.real(self._diag), f"{entries}, thus was not positive definite.")

    def _assert_self_adjoint(self) -> Any:
        return util.assert_real(self._diag, "This diagonal operator contained non-zero imaginary values.   Thus it was "
                                            "not self-adjoint.")

    def _matmul(self, x: Tensor, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        return tf.expand_dims(util.conj_if(self._diag, adjoint), -1) * util.adjoint_if(x, adjoint_arg)

    def _matvec(self, x: Tensor, adjoint: bool = False) -> Tensor:
        return util.conj_if(self._diag, adjoint) * x

    def _determinant(self) -> Tensor:
        return tf.reduce_prod(self._diag, axis=[-1])

    def _log_abs_determinant(self) -> Tensor:
        return tf.cast(tf.reduce_sum(tf.math.log(tf.abs(self._diag)), axis=[-1]), self.dtype)

    def _solve(self, rhs: Tensor, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        return util.adjoint_if(rhs, adjoint_arg) * tf.expand_dims(1.0 / util.conj_if(self._diag, adjoint), -1)

    def _to_dense(self) -> Tensor:
        return tf.linalg.diag(self._diag)

    def _diag_part(self) -> Tensor:
        return tf.convert_to_tensor(self._diag)

    def _add_to_tensor(self, x: Tensor) -> Tensor:
        return tf.linalg.set_diag(x, self._diag + tf.linalg.diag_part(x))

    def _eigvals(self) -> Tensor:
        return tf.convert_to_tensor(self._diag)


@adjoint_rule(LinearOperatorDiag)
def _adjoint_diag(a: LinearOperatorDiag) -> LinearOperatorDiag:
    return LinearOperatorDiag(util.conj_if(a.diag, a.dtype.is_complex), **same_hints(a))


@cholesky_rule(LinearOperatorDiag)
def _cholesky_diag(a: LinearOperatorDiag) -> LinearOperatorDiag:
    return LinearOperatorDiag(tf.sqrt(a.diag), is_non_singular=True, is_self_adjoint=True, is_positive_definite=True)


@inverse_rule(LinearOperatorDiag)
def _inverse_diag(a: LinearOperatorDiag) -> LinearOperatorDiag:
    return LinearOperatorDiag(1.0 / a.diag, **same_hints(a))


@matmul_rule(LinearOperatorDiag, LinearOperatorDiag)
def _matmul_diag_diag(a: LinearOperatorDiag, b: LinearOperatorDiag) -> LinearOperatorDiag:
    return LinearOperatorDiag(a.diag * b.diag, **commuting_hints(a, b))


@solve_rule(LinearOperatorDiag, LinearOperatorDiag)
def _solve_diag_diag(a: LinearOperatorDiag, b: LinearOperatorDiag) -> LinearOperatorDiag:
    return LinearOperatorDiag(b.diag / a.diag, **commuting_hints(a, b))
