"""Multiples of the identity."""
from __future__ import annotations

from typing import Any

import penstock as tf
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph.convert import convert
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
from penstock._src.library.linalg.linear_operator_diag import LinearOperatorDiag
from penstock._src.library.linalg.linear_operator_identity import IdentityBase


@export("linalg.LinearOperatorScaledIdentity")
class LinearOperatorScaledIdentity(IdentityBase):
    """A (batch of) matrices c I, with one `multiplier` c for every member of the batch."""

    _parameter_ndims = {"multiplier": 0}

    def __init__(self, num_rows: Any, multiplier: Any, is_non_singular: bool | None = None,
                 is_self_adjoint: bool | None = None, is_positive_definite: bool | None = None, is_square: bool = True,
                 assert_proper_shapes: bool = False, name: str = "LinearOperatorScaledIdentity"):
        self._assert_proper_shapes = assert_proper_shapes
        with name_scope(name, values=[multiplier, num_rows]):
            self._multiplier = util.tensor_or_variable(multiplier, "multiplier")
            if not self._multiplier.dtype.is_complex:
                if is_self_adjoint is False:
                    raise ValueError("A real diagonal operator is always self adjoint.")
                is_self_adjoint = True
            if not is_square:
                raise ValueError("A ScaledIdentity operator is always square.")
            super().__init__(self._multiplier.dtype.base_dtype, None, is_non_singular, is_self_adjoint,
                             is_positive_definite, True, name)
            self._set_num_rows(num_rows)

    multiplier = property(lambda self: self._multiplier, doc="The factors [B1, ..., Bb].")

    def _shape(self) -> TensorShape:
        return self._multiplier.shape.concatenate(self._matrix_shape())

    def _shape_tensor(self) -> Tensor:
        return tf.concat([tf.shape(self._multiplier), self._matrix_sizes()], 0)

    def _assert_non_singular(self) -> Any:
        return util.assert_positive(tf.abs(self._multiplier), "LinearOperator was singular")

    def _assert_positive_definite(self) -> Any:
        return util.assert_positive(tf.math.real(self._multiplier), "LinearOperator was not positive definite.")

    def _assert_self_adjoint(self) -> Any:
        return util.assert_real(self._multiplier, "LinearOperator was not self-adjoint")

    def _factor(self, adjoint: bool) -> Tensor:
        return util.conj_if(self._multiplier, adjoint)[..., tf.newaxis, tf.newaxis]

    def _matmul(self, x: Tensor, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        return self._checked_rows(util.adjoint_if(x, adjoint_arg)) * self._factor(adjoint)

    def _solve(self, rhs: Tensor, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        return self._checked_rows(util.adjoint_if(rhs, adjoint_arg)) / self._factor(adjoint)

    def _determinant(self) -> Tensor:
        return self._multiplier ** tf.cast(self._num_rows, self.dtype)

    def _log_abs_determinant(self) -> Tensor:
        return tf.cast(self._num_rows, self.dtype.real_dtype) * tf.math.log(tf.abs(self._multiplier))

    def _trace(self) -> Tensor:
        return self._multiplier * tf.cast(self._num_rows, self.dtype)

    def _diag_part(self) -> Tensor:
        return self._ones_diag() * self._multiplier[..., tf.newaxis]

    def _eigvals(self) -> Tensor:
        return self._diag_part()

    def add_to_tensor(self, mat: Any, name: str = "add_to_tensor") -> Tensor:
        """c I + mat."""
        with self._name_scope(name):
            mat = convert(mat, name="mat")
            return tf.linalg.set_diag(mat, self._multiplier[..., tf.newaxis] + tf.linalg.diag_part(mat))


@adjoint_rule(LinearOperatorScaledIdentity)
def _adjoint_scaled_identity(a: LinearOperatorScaledIdentity) -> LinearOperatorScaledIdentity:
    return LinearOperatorScaledIdentity(a._num_rows, util.conj_if(a.multiplier, a.dtype.is_complex), **same_hints(a))


@cholesky_rule(LinearOperatorScaledIdentity)
def _cholesky_scaled_identity(a: LinearOperatorScaledIdentity) -> LinearOperatorScaledIdentity:
    return LinearOperatorScaledIdentity(a._num_rows, tf.sqrt(a.multiplier), is_non_singular=True, is_self_adjoint=True,
                                        is_positive_definite=True)


@inverse_rule(LinearOperatorScaledIdentity)
def _inverse_scaled_identity(a: LinearOperatorScaledIdentity) -> LinearOperatorScaledIdentity:
    return LinearOperatorScaledIdentity(a._num_rows, 1.0 / a.multiplier, **same_hints(a))


@matmul_rule(LinearOperatorScaledIdentity, LinearOperatorScaledIdentity)
def _matmul_scaled_identity_scaled_identity(a: LinearOperatorScaledIdentity,
                                            b: LinearOperatorScaledIdentity) -> LinearOperatorScaledIdentity:
    return LinearOperatorScaledIdentity(a._num_rows, a.multiplier * b.multiplier, **commuting_hints(a, b))


@matmul_rule(LinearOperatorDiag, LinearOperatorScaledIdentity)
def _matmul_diag_scaled_identity(a: LinearOperatorDiag, b: LinearOperatorScaledIdentity) -> LinearOperatorDiag:
    return LinearOperatorDiag(a.diag * b.multiplier[..., tf.newaxis], **commuting_hints(a, b))


@matmul_rule(LinearOperatorScaledIdentity, LinearOperatorDiag)
def _matmul_scaled_identity_diag(a: LinearOperatorScaledIdentity, b: LinearOperatorDiag) -> LinearOperatorDiag:
    return LinearOperatorDiag(a.multiplier[..., tf.newaxis] * b.diag, **commuting_hints(a, b))


@solve_rule(LinearOperatorScaledIdentity, LinearOperatorScaledIdentity)
def _solve_scaled_identity_scaled_identity(a: LinearOperatorScaledIdentity,
                                           b: LinearOperatorScaledIdentity) -> LinearOperatorScaledIdentity:
    return LinearOperatorScaledIdentity(a._num_rows, b.multiplier / a.multiplier, **commuting_hints(a, b))


@solve_rule(LinearOperatorDiag, LinearOperatorScaledIdentity)
def _solve_diag_scaled_identity(a: LinearOperatorDiag, b: LinearOperatorScaledIdentity) -> LinearOperatorDiag:
    return LinearOperatorDiag(b.multiplier[..., tf.newaxis] / a.diag, **commuting_hints(a, b))


@solve_rule(LinearOperatorScaledIdentity, LinearOperatorDiag)
def _solve_scaled_identity_diag(a: LinearOperatorScaledIdentity, b: LinearOperatorDiag) -> LinearOperatorDiag:
    return LinearOperatorDiag(b.diag / a.multiplier[..., tf.newaxis], **commuting_hints(a, b))
