"""An operator plus one of low rank: L + U D V^H."""
from __future__ import annotations

from typing import Any

import penstock as tf
from penstock._src.base.api import export
from penstock._src.base.static_shape import Dimension, TensorShape
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.library.linalg import util
from penstock._src.library.linalg.linear_operator import LinearOperator
from penstock._src.library.linalg.linear_operator_diag import LinearOperatorDiag
from penstock._src.library.linalg.linear_operator_identity import LinearOperatorIdentity


@export("linalg.LinearOperatorLowRankUpdate")
class LinearOperatorLowRankUpdate(LinearOperator):
    """L + U D V^H for a base operator L and matrices U, V [..., N, K]; D is diagonal, and V is U, by default.

    Solutions and determinants need those of L and of the K x K matrix C = D^-1 + V^H L^-1 U (Woodbury's formula).
    """

    _parameter_ndims = {"base_operator": 0, "u": 2, "diag_update": 1, "v": 2}

    def __init__(self, base_operator: LinearOperator, u: Any, diag_update: Any = None, v: Any = None,
                 is_diag_update_positive: bool | None = None, is_non_singular: bool | None = None,
                 is_self_adjoint: bool | None = None, is_positive_definite: bool | None = None,
                 is_square: bool | None = None, name: str = "LinearOperatorLowRankUpdate"):
        positive = is_diag_update_positive if diag_update is not None else True
        if diag_update is None and is_diag_update_positive is False:
            raise ValueError("The default diagonal is positive, but is_diag_update_positive=False.")
        self._use_cholesky = bool(base_operator.is_positive_definite and base_operator.is_self_adjoint and positive
                                  and v is None)
        if base_operator.is_self_adjoint and v is None and not base_operator.dtype.is_complex:
            if is_self_adjoint is False:
                raise ValueError("A = L + UDU^H, with L self-adjoint and D real diagonal.  Since UDU^H is "
                                 "self-adjoint, this must be a self-adjoint operator.")
            is_self_adjoint = True
        if self._use_cholesky:
            if is_positive_definite is False or is_self_adjoint is False:
                raise ValueError("By its arguments the operator is self-adjoint and positive definite.")
            is_positive_definite = is_self_adjoint = True
        with name_scope(name, values=[u, diag_update, v]):
            self._base, self._positive = base_operator, positive
            self._u = util.tensor_or_variable(u, "u")
            self._v = self._u if v is None else util.tensor_or_variable(v, "v")
            self._diag_update = util.tensor_or_variable(diag_update, "diag_update")
            parents = [*base_operator.graph_parents, self._u, self._v]
            parents += [] if self._diag_update is None else [self._diag_update]
            super().__init__(base_operator.dtype, parents, is_non_singular, is_self_adjoint, is_positive_definite,
                             is_square, name)
            self._diag_operator = self._make_diag_operator()
            self._check_shapes()

    u = property(lambda self: self._u, doc="The matrix U.")
    v = property(lambda self: self._v, doc="The matrix V.")
    diag_update = property(lambda self: self._diag_update, doc="The diagonal of D, or None for the identity.")
    diag_operator = property(lambda self: self._diag_operator, doc="D as an operator.")
    base_operator = property(lambda self: self._base, doc="The operator L.")
    is_diag_update_positive = property(lambda self: self._positive, doc="Hint: D has positive elements.")

    def _make_diag_operator(self) -> LinearOperator:
        if self._diag_update is not None:
            return LinearOperatorDiag(self._diag_update, is_positive_definite=self._positive)
        rank = self._u.shape.static_dims[-1] if self._u.shape.rank is not None else None
        return LinearOperatorIdentity(tf.shape(self._u)[-1] if rank is None else rank, dtype=self.dtype)

    def _check_shapes(self) -> None:
        both = tf.broadcast_static_shape(self._u.shape, self._v.shape)
        batch = tf.broadcast_static_shape(self._base.batch_shape, both[:-2])
        if both.rank is None:
            return
        self._base.domain_dimension.assert_is_compatible_with(Dimension(both.static_dims[-2]))
        if self._diag_update is not None and self._diag_update.shape.rank is not None:
            Dimension(both.static_dims[-1]).assert_is_compatible_with(Dimension(self._diag_update.shape.static_dims[-1]))
            tf.broadcast_static_shape(batch, self._diag_update.shape[:-1])

    def _shape(self) -> TensorShape:
        batch = tf.broadcast_static_shape(self._base.batch_shape, self._u.shape[:-2])
        return batch.concatenate(self._base.shape[-2:])

    def _shape_tensor(self) -> Tensor:
        batch = tf.broadcast_dynamic_shape(self._base.batch_shape_tensor(), tf.shape(self._u)[:-2])
        return tf.concat([batch, self._base.shape_tensor()[-2:]], 0)

    def _matmul(self, x: Tensor, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        left, right = (self._v, self._u) if adjoint else (self._u, self._v)
        inner = tf.matmul(right, x, adjoint_a=True, adjoint_b=adjoint_arg)
        update = tf.matmul(left, self._diag_operator.matmul(inner, adjoint=adjoint))
        return self._base.matmul(x, adjoint=adjoint, adjoint_arg=adjoint_arg) + update

    def _capacitance(self) -> Tensor:
        """C = D^-1 + V^H L^-1 U."""
        inner = tf.matmul(self._v, self._base.solve(tf.convert_to_tensor(self._u)), adjoint_a=True)
        return self._diag_operator.inverse().add_to_tensor(inner)

    def _determinant(self) -> Tensor:
        if self.is_positive_definite:
            return tf.exp(self.log_abs_determinant())
        return tf.linalg.det(self._capacitance()) * self._diag_operator.determinant() * self._base.determinant()

    def _log_abs_determinant(self) -> Tensor:
        if self._use_cholesky:
            diagonal = tf.linalg.diag_part(tf.linalg.cholesky(self._capacitance()))
            inner = 2 * tf.reduce_sum(tf.math.log(diagonal), axis=[-1])
        else:
            inner = tf.linalg.slogdet(self._capacitance())[1]
        return inner + self._diag_operator.log_abs_determinant() + self._base.log_abs_determinant()

    def _solve(self, rhs: Tensor, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        if self._base.is_non_singular is False:
            raise ValueError("Solve not implemented unless this is a perturbation of a non-singular LinearOperator.")
        left, right = (self._v, self._u) if adjoint else (self._u, self._v)
        first = self._base.solve(rhs, adjoint=adjoint, adjoint_arg=adjoint_arg)
        inner = tf.matmul(right, first, adjoint_a=True)
        if self._use_cholesky:
            inner = util.cholesky_solve(tf.linalg.cholesky(self._capacitance()), inner)
        else:
            inner = util.solve(self._capacitance(), inner, adjoint=adjoint)
        return first - self._base.solve(tf.matmul(left, inner), adjoint=adjoint)

    def _trace(self) -> Tensor:
        return self._base.trace() + tf.reduce_sum(self._update_diagonal(), axis=-1)

    def _diag_part(self) -> Tensor:
        return self._base.diag_part() + self._update_diagonal()

    def _update_diagonal(self) -> Tensor:
        """The diagonal of U D V^H."""
        scaled = self._diag_operator.matmul(tf.linalg.adjoint(self._v))
        return tf.reduce_sum(self._u * tf.linalg.matrix_transpose(scaled), axis=-1)
