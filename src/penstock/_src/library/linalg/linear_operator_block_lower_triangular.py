"""Operators in the lower triangle of a square of blocks."""
from __future__ import annotations

from typing import Any

import penstock as tf
from penstock._src.base.api import export
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.library.linalg import util
from penstock._src.library.linalg.algebra import inverse_rule, same_hints
from penstock._src.library.linalg.blocks import BlockOperator
from penstock._src.library.linalg.linear_operator_full_matrix import LinearOperatorFullMatrix


@export("linalg.LinearOperatorBlockLowerTriangular")
class LinearOperatorBlockLowerTriangular(BlockOperator):
    """The matrix of rows of blocks: row i has i + 1 operators, the last of which is square and on the diagonal.

    >>> a, b, c = (tf.linalg.LinearOperatorFullMatrix(m) for m in ([[2.]], [[1.], [3.]], [[1., 0.], [0., 4.]]))
    >>> tf.linalg.LinearOperatorBlockLowerTriangular([[a], [b, c]]).to_dense()
    """

    _parameter_ndims = {"operators": 0}

    def __init__(self, operators: Any, is_non_singular: bool | None = None, is_self_adjoint: bool | None = None,
                 is_positive_definite: bool | None = None, is_square: bool | None = None,
                 name: str = "LinearOperatorBlockLowerTriangular"):
        tf.debugging.assert_proper_iterable(operators)
        self._operators = rows = [list(row) for row in operators]
        if not rows:
            raise ValueError(f"Argument `operators` must be a list of >=1 operators. Received: {operators}.")
        _check_rows(rows)
        if is_square is False:
            raise ValueError("`LinearOperatorBlockLowerTriangular` must be square.")
        self._all_operators = util.checked_operators([o for row in rows for o in row])
        self._diagonal_operators = diagonal = [row[-1] for row in rows]
        is_non_singular = _non_singular(diagonal, is_non_singular)
        with name_scope(name):
            super().__init__(rows[0][0].dtype, [p for o in self._all_operators for p in o.graph_parents], is_non_singular,
                             is_self_adjoint, is_positive_definite, True, name)

    def _matmul_blocks(self, x: list, adjoint: bool, adjoint_arg: bool) -> list:
        count = len(self.operators)
        if adjoint:          # column i of blocks, from the diagonal down
            return [util.total([self.operators[j][i].matmul(x[j], True, adjoint_arg) for j in range(i, count)])
                    for i in range(count)]
        return [util.total([o.matmul(part, False, adjoint_arg) for o, part in zip(row, x, strict=False)])
                for row in self.operators]

    def _solve_blocks(self, rhs: list, adjoint: bool, adjoint_arg: bool) -> list:
        """Substitution, forward or (for the adjoint, which is upper triangular) backward."""
        rhs = [util.adjoint_if(part, adjoint_arg) for part in rhs]
        found: dict[int, Tensor] = {}
        count = len(self.operators)
        for i in reversed(range(count)) if adjoint else range(count):
            known = [self.operators[j][i].matmul(x, adjoint=True) if adjoint else self.operators[i][j].matmul(x)
                     for j, x in found.items()]
            left = rhs[i] - util.total(known) if known else rhs[i]
            found[i] = self.operators[i][i].solve(left, adjoint=adjoint)
        return [found[i] for i in range(count)]

    def _diag_part(self) -> Tensor:
        return self._columns([o.diag_part() for o in self._diagonal_operators])

    def _trace(self) -> Tensor:
        return util.total([o.trace() for o in self._diagonal_operators])

    def _eigvals(self) -> Tensor:
        return self._columns([o.eigvals() for o in self._diagonal_operators])

    def _to_dense(self) -> Tensor:
        return self._dense_rows([[o.to_dense() for o in row] for row in self.operators])

    def _assert_non_singular(self) -> Any:
        return tf.group(*(o.assert_non_singular() for o in self._diagonal_operators))


def _check_rows(rows: list[list]) -> None:
    """ValueError unless the rows are those of a triangle whose blocks fit each other."""
    for i, row in enumerate(rows):
        if len(row) != i + 1:
            raise ValueError(f"Argument `operators[{i}]` must contain `{i + 1}` blocks. Received: {len(row)} blocks.")
        if row[-1].is_square is False:
            raise ValueError(f"Blocks on the diagonal must be square; operators[{i}][-1] is not.")
        for j in range(i):
            for here, other, kind in ((row[j], rows[i - 1][j], "domain_dimension"), (row[j], row[j + 1], "range_dimension")):
                own, its = getattr(here, kind), getattr(other, kind)
                if (own == its) is False:
                    raise ValueError(f"`operators[{i}][{j}].{kind}` ({own}) must be the same as that of the block beside it, "
                                     f"which is {its}.")


def _non_singular(diagonal: list, given: bool | None) -> bool | None:
    """The hint: the diagonal decides, if its hints are known."""
    known = util.all_hint(diagonal, "is_non_singular", given, "A block lower triangular operator with non-singular operators "
                          "on its diagonal is always non-singular.")
    if any(o.is_non_singular is False for o in diagonal):
        if given:
            raise ValueError("A block lower triangular operator with a singular operator on its diagonal is always singular.")
        return False
    return known


@inverse_rule(LinearOperatorBlockLowerTriangular)
def _inverse_block_lower_triangular(a: LinearOperatorBlockLowerTriangular) -> LinearOperatorBlockLowerTriangular:
    """Row by row: block (i, j) of the inverse is -inv(A_ii) times the sum over k of A_ik inv_kj."""
    rows: list[list] = []
    for i, row in enumerate(a.operators):
        last = row[-1].inverse()
        before = [util.total([row[k].matmul(rows[k][j]).to_dense() for k in range(j, i)]) for j in range(i)]
        rows.append([*(LinearOperatorFullMatrix(-last.matmul(block)) for block in before), last])
    return LinearOperatorBlockLowerTriangular(rows, **same_hints(a))
