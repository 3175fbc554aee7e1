"""The inverse of an operator without a specialized form."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.library.linalg.algebra import agreeing_hint, inverse_rule, product_hints, solve_rule
from penstock._src.library.linalg.linear_operator import LinearOperator
from penstock._src.library.linalg.linear_operator_composition import LinearOperatorComposition


@export("linalg.LinearOperatorInversion")
class LinearOperatorInversion(LinearOperator):
    """A^-1 of an operator A: products solve with A, and solutions multiply by A."""

    _parameter_ndims = {"operator": 0}

    def __init__(self, operator: LinearOperator, is_non_singular: bool | None = None,
                 is_self_adjoint: bool | None = None, is_positive_definite: bool | None = None,
                 is_square: bool | None = None, name: str | None = None):
        self._operator = operator
        if operator.is_square is False or is_square is False:
            raise ValueError("Inversion is only defined for square operators.")
        if operator.is_non_singular is False or is_non_singular is False:
            raise ValueError(f"operator and supplied hints must have `is_non_singular` equal to `True` or `None`. "
                             f"Found: {operator.is_non_singular}, {is_non_singular}")
        same = "The inverse of a {0} operator is always {0}."
        is_self_adjoint = agreeing_hint(operator, "is_self_adjoint", is_self_adjoint, same.format("self-adjoint"))
        is_positive_definite = agreeing_hint(operator, "is_positive_definite", is_positive_definite,
                                             same.format("positive-definite"))
        name = operator.name + "_inv" if name is None else name
        with name_scope(name, values=operator.graph_parents):
            super().__init__(operator.dtype, operator.graph_parents, True, is_self_adjoint, is_positive_definite, True,
                             name)

    operator = property(lambda self: self._operator, doc="The operator whose inverse this is.")

    def _shape(self) -> TensorShape:
        return self.operator.shape

    def _shape_tensor(self) -> Tensor:
        return self.operator.shape_tensor()

    def _matmul(self, x: Tensor, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        return self.operator.solve(x, adjoint=adjoint, adjoint_arg=adjoint_arg)

    def _solve(self, rhs: Tensor, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        return self.operator.matmul(rhs, adjoint=adjoint, adjoint_arg=adjoint_arg)

    def _determinant(self) -> Tensor:
        return 1.0 / self.operator.determinant()

    def _log_abs_determinant(self) -> Tensor:
        return -self.operator.log_abs_determinant()

    def _eigvals(self) -> Tensor:
        return 1.0 / self.operator.eigvals()

    def _cond(self) -> Tensor:
        return self.operator.cond()

    def _assert_non_singular(self) -> Any:
        return self.operator.assert_non_singular()

    def _assert_positive_definite(self) -> Any:
        return self.operator.assert_positive_definite()

    def _assert_self_adjoint(self) -> Any:
        return self.operator.assert_self_adjoint()


@inverse_rule(LinearOperator)
def _inverse_operator(a: LinearOperator) -> LinearOperatorInversion:
    return LinearOperatorInversion(a, is_self_adjoint=a.is_self_adjoint, is_positive_definite=a.is_positive_definite)


inverse_rule(LinearOperatorInversion)(lambda a: a.operator)
solve_rule(LinearOperatorInversion, LinearOperator)(lambda a, b: a.operator.matmul(b))


@solve_rule(LinearOperator, LinearOperator)
def _solve_operator_operator(a: LinearOperator, b: LinearOperator) -> LinearOperatorComposition:
    return LinearOperatorComposition([LinearOperatorInversion(a), b], **product_hints(a, b))
