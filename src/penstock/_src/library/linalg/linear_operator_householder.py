"""Householder reflections."""
from __future__ import annotations

from typing import Any

import penstock as tf
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.library.linalg import util
from penstock._src.library.linalg.algebra import adjoint_rule, inverse_rule
from penstock._src.library.linalg.linear_operator import LinearOperator


@export("linalg.LinearOperatorHouseholder")
class LinearOperatorHouseholder(LinearOperator):
    """The reflection I - 2 v v^H / |v|^2 in the hyperplane orthogonal to an axis v."""

    _parameter_ndims = {"reflection_axis": 1}

    def __init__(self, reflection_axis: Any, is_non_singular: bool | None = None, is_self_adjoint: bool | None = None,
                 is_positive_definite: bool | None = None, is_square: bool | None = None,
                 name: str = "LinearOperatorHouseholder"):
        with name_scope(name, values=[reflection_axis]):
            self._axis = util.tensor_or_variable(reflection_axis, "reflection_axis")
            if self._axis.shape.rank == 0:
                raise ValueError(f"Argument reflection_axis must have at least 1 dimension.  Found: {self._axis}")
            if is_self_adjoint is False:
                raise ValueError("A Householder operator is always self adjoint.")
            if is_positive_definite is True:
                raise ValueError("A Householder operator is always non-positive definite.")
            if is_square is False:
                raise ValueError("A Householder operator is always square.")
            super().__init__(self._axis.dtype, [self._axis], is_non_singular, True, False, True, name)

    reflection_axis = property(lambda self: self._axis, doc="The axis v, of any length but 0.")

    def _unit(self) -> Tensor:
        axis = tf.convert_to_tensor(self._axis)
        return axis / tf.linalg.norm(axis, axis=-1, keepdims=True)

    def _shape(self) -> TensorShape:
        shape = self._axis.shape
        return shape.concatenate(shape[-1:])

    def _shape_tensor(self) -> Tensor:
        shape = tf.shape(self._axis)
        return tf.concat([shape, shape[-1:]], 0)

    def _assert_non_singular(self) -> Any:
        return tf.no_op("assert_non_singular")

    def _assert_positive_definite(self) -> Any:
        raise tf.errors.InvalidArgumentError(None, None, "Householder operators are always non-positive definite.")

    def _assert_self_adjoint(self) -> Any:
        return tf.no_op("assert_self_adjoint")

    def _matmul(self, x: Tensor, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        x = util.adjoint_if(x, adjoint_arg)
        column = self._unit()[..., tf.newaxis]
        return x - 2 * column * tf.matmul(column, x, adjoint_a=True)

    def _solve(self, rhs: Tensor, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        return self._matmul(rhs, adjoint, adjoint_arg)          # a reflection undoes itself

    def _trace(self) -> Tensor:
        return tf.cast(self.domain_dimension_tensor() - 2, self.dtype) * tf.ones(self._batch_sizes(), self.dtype)

    def _determinant(self) -> Tensor:
        return -tf.ones(self._batch_sizes(), self.dtype)

    def _log_abs_determinant(self) -> Tensor:
        return tf.zeros(self._batch_sizes(), self.dtype)

    def _to_dense(self) -> Tensor:
        column = self._unit()[..., tf.newaxis]
        matrix = -2 * tf.matmul(column, column, adjoint_b=True)
        return tf.linalg.set_diag(matrix, 1.0 + tf.linalg.diag_part(matrix))

    def _diag_part(self) -> Tensor:
        unit = self._unit()
        return 1.0 - 2 * unit * tf.math.conj(unit)

    def _eigvals(self) -> Tensor:
        axis = self._diag_part()
        return tf.concat([-tf.ones_like(axis[..., :1]), tf.ones_like(axis[..., 1:])], axis=-1)

    def _cond(self) -> Tensor:
        return tf.ones(self._batch_sizes(), self.dtype)


adjoint_rule(LinearOperatorHouseholder)(lambda a: a)
inverse_rule(LinearOperatorHouseholder)(lambda a: a)
