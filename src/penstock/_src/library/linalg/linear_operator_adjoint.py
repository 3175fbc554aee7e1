"""The adjoint of an operator without a specialized form."""
from __future__ import annotations

from typing import Any

import penstock as tf
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.library.linalg import util
from penstock._src.library.linalg.algebra import adjoint_rule, agreeing_hint
from penstock._src.library.linalg.linear_operator import LinearOperator


@export("linalg.LinearOperatorAdjoint")
class LinearOperatorAdjoint(LinearOperator):
    """A^H of an operator A: every method calls that of A with `adjoint` inverted."""

    _parameter_ndims = {"operator": 0}

    def __init__(self, operator: LinearOperator, is_non_singular: bool | None = None,
                 is_self_adjoint: bool | None = None, is_positive_definite: bool | None = None,
                 is_square: bool | None = None, name: str | None = None):
        self._operator = operator
        same = "The adjoint of a{} operator is always{}."
        is_square = agreeing_hint(operator, "is_square", is_square, same.format(" square", " square"))
        is_non_singular = agreeing_hint(operator, "is_non_singular", is_non_singular,
                                        same.format(" non-singular", " non-singular"))
        is_self_adjoint = agreeing_hint(operator, "is_self_adjoint", is_self_adjoint,
                                        same.format(" self-adjoint", " self-adjoint"))
        is_positive_definite = agreeing_hint(operator, "is_positive_definite", is_positive_definite,
                                             same.format(" positive-definite", " positive-definite"))
        name = operator.name + "_adjoint" if name is None else name
        with name_scope(name, values=operator.graph_parents):
            super().__init__(operator.dtype, operator.graph_parents, is_non_singular, is_self_adjoint,
                             is_positive_definite, is_square, name)

    operator = property(lambda self: self._operator, doc="The operator whose adjoint this is.")

    def _shape(self) -> TensorShape:
        shape = self.operator.shape
        return shape if shape.rank is None else shape[:-2].concatenate([shape[-1], shape[-2]])

    def _shape_tensor(self) -> Tensor:
        shape = self.operator.shape_tensor()
        return tf.concat([shape[:-2], [shape[-1], shape[-2]]], 0)

    def _matmul(self, x: Tensor, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        return self.operator.matmul(x, adjoint=not adjoint, adjoint_arg=adjoint_arg)

    def _matvec(self, x: Tensor, adjoint: bool = False) -> Tensor:
        return self.operator.matvec(x, adjoint=not adjoint)

    def _solve(self, rhs: Tensor, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        return self.operator.solve(rhs, adjoint=not adjoint, adjoint_arg=adjoint_arg)

    def _solvevec(self, rhs: Tensor, adjoint: bool = False) -> Tensor:
        return self.operator.solvevec(rhs, adjoint=not adjoint)

    def _conj(self, x: Tensor) -> Tensor:
        return util.conj_if(x, self.dtype.is_complex)

    def _determinant(self) -> Tensor:
        return self._conj(self.operator.determinant())

    def _log_abs_determinant(self) -> Tensor:
        return self.operator.log_abs_determinant()

    def _trace(self) -> Tensor:
        return self._conj(self.operator.trace())

    def _diag_part(self) -> Tensor:
        return self._conj(self.operator.diag_part())

    def _to_dense(self) -> Tensor:
        return tf.linalg.adjoint(self.operator.to_dense())

    def _assert_non_singular(self) -> Any:
        return self.operator.assert_non_singular()

    def _assert_positive_definite(self) -> Any:
        return self.operator.assert_positive_definite()

    def _assert_self_adjoint(self) -> Any:
        return self.operator.assert_self_adjoint()


@adjoint_rule(LinearOperator)
def _adjoint_operator(a: LinearOperator) -> LinearOperatorAdjoint:
    return LinearOperatorAdjoint(a, is_non_singular=a.is_non_singular, is_self_adjoint=a.is_self_adjoint,
                                 is_positive_definite=a.is_positive_definite, is_square=a.is_square)


adjoint_rule(LinearOperatorAdjoint)(lambda a: a.operator)
