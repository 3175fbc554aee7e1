"""Operators side by side on the diagonal."""
from __future__ import annotations

from typing import Any

import penstock as tf
from penstock._src.base.api import export
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.library.linalg import util
from penstock._src.library.linalg.algebra import (
    adjoint_rule,
    cholesky_rule,
    inverse_rule,
    matmul_rule,
    product_hints,
    same_hints,
    solve_rule,
)
from penstock._src.library.linalg.blocks import BlockOperator
from penstock._src.library.linalg.linear_operator import LinearOperator


@export("linalg.LinearOperatorBlockDiag")
class LinearOperatorBlockDiag(BlockOperator):
    """The block-diagonal matrix of a list of operators, square or not."""

    _parameter_ndims = {"operators": 0}

    def __init__(self, operators: Any, is_non_singular: bool | None = None, is_self_adjoint: bool | None = None,
                 is_positive_definite: bool | None = None, is_square: bool | None = True, name: str | None = None):
        operators = util.checked_operators(operators)
        self._operators = self._diagonal_operators = self._all_operators = operators
        sum_of = "The direct sum of {0} operators is always {0}."
        is_non_singular = util.all_hint(operators, "is_non_singular", is_non_singular, sum_of.format("non-singular"))
        is_self_adjoint = util.all_hint(operators, "is_self_adjoint", is_self_adjoint, sum_of.format("self-adjoint"))
        is_positive_definite = util.all_hint(operators, "is_positive_definite", is_positive_definite,
                                             sum_of.format("positive definite"))
        if is_square and not all(o.is_square for o in operators):
            is_square = None                     # rectangular blocks may add up to a square: the shape decides
        parents = [p for o in operators for p in o.graph_parents]
        name = "_ds_".join(o.name for o in operators) if name is None else name
        with name_scope(name, values=parents):
            super().__init__(operators[0].dtype, parents, is_non_singular, is_self_adjoint, is_positive_definite, is_square,
                             name)

    def _matmul_blocks(self, x: list, adjoint: bool, adjoint_arg: bool) -> list:
        return [o.matmul(part, adjoint, adjoint_arg) for o, part in zip(self.operators, x, strict=True)]

    def _solve_blocks(self, rhs: list, adjoint: bool, adjoint_arg: bool) -> list:
        return [o.solve(part, adjoint, adjoint_arg) for o, part in zip(self.operators, rhs, strict=True)]

    def _pair(self, other: LinearOperator, adjoint: bool, adjoint_arg: bool, name: str) -> tuple:
        left, right = super()._pair(other, adjoint, adjoint_arg, name)
        if isinstance(right, LinearOperatorBlockDiag):
            if len(right.operators) != len(left.operators):
                raise ValueError(f"Operators are incompatible: {len(left.operators)} and {len(right.operators)} blocks.")
            for a, b in zip(left.operators, right.operators, strict=True):
                if (b.range_dimension == a.domain_dimension) is False:
                    raise ValueError(f"Operators are incompatible. Expected blocks of `{name}` to have dimension "
                                     f"{a.domain_dimension} but got {b.range_dimension}.")
        return left, right

    def _square_blocks(self) -> bool:
        return all(o.is_square for o in self.operators)

    def _trace(self) -> Tensor:
        return util.total([o.trace() for o in self.operators]) if self._square_blocks() else super()._trace()

    def _diag_part(self) -> Tensor:
        return self._columns([o.diag_part() for o in self.operators]) if self._square_blocks() else super()._diag_part()

    def _eigvals(self) -> Tensor:
        return self._columns([o.eigvals() for o in self.operators])

    def _to_dense(self) -> Tensor:
        return self._dense_rows([[o.to_dense()] for o in self.operators])

    def _assert_non_singular(self) -> Any:
        return tf.group(*(o.assert_non_singular() for o in self.operators))

    def _assert_self_adjoint(self) -> Any:
        return tf.group(*(o.assert_self_adjoint() for o in self.operators))

    def _assert_positive_definite(self) -> Any:
        return tf.group(*(o.assert_positive_definite() for o in self.operators))


def _same_hints(a: LinearOperatorBlockDiag) -> dict[str, Any]:
    return {**same_hints(a), "is_square": a.is_square}


@adjoint_rule(LinearOperatorBlockDiag)
def _adjoint_block_diag(a: LinearOperatorBlockDiag) -> LinearOperatorBlockDiag:
    return LinearOperatorBlockDiag([o.adjoint() for o in a.operators], **_same_hints(a))


@inverse_rule(LinearOperatorBlockDiag)
def _inverse_block_diag(a: LinearOperatorBlockDiag) -> LinearOperatorBlockDiag:
    return LinearOperatorBlockDiag([o.inverse() for o in a.operators], **_same_hints(a))


@cholesky_rule(LinearOperatorBlockDiag)
def _cholesky_block_diag(a: LinearOperatorBlockDiag) -> LinearOperatorBlockDiag:
    return LinearOperatorBlockDiag([o.cholesky() for o in a.operators], is_non_singular=True)


@matmul_rule(LinearOperatorBlockDiag, LinearOperatorBlockDiag)
def _matmul_block_diag(a: LinearOperatorBlockDiag, b: LinearOperatorBlockDiag) -> LinearOperatorBlockDiag:
    return LinearOperatorBlockDiag([x.matmul(y) for x, y in zip(a.operators, b.operators, strict=True)], **product_hints(a, b))


@solve_rule(LinearOperatorBlockDiag, LinearOperatorBlockDiag)
def _solve_block_diag(a: LinearOperatorBlockDiag, b: LinearOperatorBlockDiag) -> LinearOperatorBlockDiag:
    return LinearOperatorBlockDiag([x.solve(y) for x, y in zip(a.operators, b.operators, strict=True)], **product_hints(a, b))
