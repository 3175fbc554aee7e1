"""Products of operators, not multiplied out: the default result of one operator times another."""
from __future__ import annotations

from typing import Any

import penstock as tf
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.library.linalg import util
from penstock._src.library.linalg.algebra import matmul_rule, product_hints
from penstock._src.library.linalg.linear_operator import LinearOperator
from penstock._src.library.linalg.linear_operator_adjoint import LinearOperatorAdjoint


def _is_with_adjoint(operators: list) -> bool:
    """Whether the product is of the form A B ... B^H A^H."""
    if len(operators) % 2:
        return False
    middle = len(operators) // 2
    return all(_is_adjoint_of(a, b) for a, b in zip(operators[:middle], reversed(operators[middle:]), strict=True))


def _is_adjoint_of(a: LinearOperator, b: LinearOperator) -> bool:
    if a is b:
        return bool(a.is_self_adjoint)
    return isinstance(a, LinearOperatorAdjoint) and a.operator is b or isinstance(b, LinearOperatorAdjoint) and b.operator is a


def _implied(given: bool | None, what: str) -> bool:
    if given is False:
        raise ValueError(f"A product of the form A A^H is always {what}.")
    return True


@export("linalg.LinearOperatorComposition")
class LinearOperatorComposition(LinearOperator):
    """The product op1 op2 ... of a list of operators."""

    _parameter_ndims = {"operators": 0}

    def __init__(self, operators: Any, is_non_singular: bool | None = None, is_self_adjoint: bool | None = None,
                 is_positive_definite: bool | None = None, is_square: bool | None = None, name: str | None = None):
        self._operators = operators = util.checked_operators(operators)
        is_non_singular = util.all_hint(operators, "is_non_singular", is_non_singular,
                                        "The composition of non-singular operators is always non-singular.")
        if _is_with_adjoint(operators):
            is_square, is_self_adjoint = True, _implied(is_self_adjoint, "self-adjoint")
            if is_non_singular:
                is_positive_definite = _implied(is_positive_definite, "positive definite, if it is non-singular")
        parents = [p for o in operators for p in o.graph_parents]
        name = "_o_".join(o.name for o in operators) if name is None else name
        with name_scope(name, values=parents):
            super().__init__(operators[0].dtype, parents, is_non_singular, is_self_adjoint, is_positive_definite,
                             is_square, name)

    operators = property(lambda self: self._operators, doc="The factors.")

    def _shape(self) -> TensorShape:
        inner = self.operators[0].domain_dimension
        for operator in self.operators[1:]:
            inner.assert_is_compatible_with(operator.range_dimension)
            inner = operator.domain_dimension
        matrix = TensorShape([self.operators[0].range_dimension, self.operators[-1].domain_dimension])
        return util.broadcast_batch_shape(self.operators).concatenate(matrix)

    def _shape_tensor(self) -> Tensor:
        matrix = tf.stack([self.operators[0].range_dimension_tensor(), self.operators[-1].domain_dimension_tensor()])
        return tf.concat([util.broadcast_batch_sizes(self.operators), matrix], 0)

    def _matmul(self, x: Tensor, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        first, *rest = self.operators if adjoint else self.operators[::-1]
        result = first.matmul(x, adjoint=adjoint, adjoint_arg=adjoint_arg)
        for operator in rest:
            result = operator.matmul(result, adjoint=adjoint)
        return result

    def _solve(self, rhs: Tensor, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        first, *rest = self.operators[::-1] if adjoint else self.operators
        solution = first.solve(rhs, adjoint=adjoint, adjoint_arg=adjoint_arg)
        for operator in rest:
            solution = operator.solve(solution, adjoint=adjoint)
        return solution

    def _determinant(self) -> Tensor:
        return util.product([o.determinant() for o in self.operators])

    def _log_abs_determinant(self) -> Tensor:
        return util.total([o.log_abs_determinant() for o in self.operators])

    def _assert_non_singular(self) -> Any:
        if all(o.is_square for o in self.operators):
            return tf.group(*(o.assert_non_singular() for o in self.operators))
        return super()._assert_non_singular()


@matmul_rule(LinearOperator, LinearOperator)
def _matmul_operator_operator(a: LinearOperator, b: LinearOperator) -> LinearOperatorComposition:
    return LinearOperatorComposition([a, b], **product_hints(a, b))
