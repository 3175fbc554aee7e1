"""Operators side by side on the diagonal."""
from __future__ import annotations

from typing import Any

import penstock as tf
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.library.linalg import util
from penstock._src.library.linalg.algebra import adjoint_rule, cholesky_rule, inverse_rule, same_hints
from penstock._src.library.linalg.linear_operator import LinearOperator


@export("linalg.LinearOperatorBlockDiag")
class LinearOperatorBlockDiag(LinearOperator):
    """The block-diagonal matrix of a list of square operators."""

    _parameter_ndims = {"operators": 0}

    def __init__(self, operators: Any, is_non_singular: bool | None = None, is_self_adjoint: bool | None = None,
                 is_positive_definite: bool | None = None, is_square: bool = True, name: str | None = None):
        self._operators = operators = util.checked_operators(operators)
        sum_of = "The direct sum of {0} operators is always {0}."
        is_non_singular = util.all_hint(operators, "is_non_singular", is_non_singular, sum_of.format("non-singular"))
        is_self_adjoint = util.all_hint(operators, "is_self_adjoint", is_self_adjoint, sum_of.format("self-adjoint"))
        is_positive_definite = util.all_hint(operators, "is_positive_definite", is_positive_definite,
                                             sum_of.format("positive definite"))
        if not (is_square and all(o.is_square for o in operators)):
            raise ValueError("Can only represent a block diagonal of square matrices.")
        parents = [p for o in operators for p in o.graph_parents]
        name = "_ds_".join(o.name for o in operators) if name is None else name
        with name_scope(name, values=parents):
            super().__init__(operators[0].dtype, parents, is_non_singular, is_self_adjoint, is_positive_definite, True,
                             name)

    operators = property(lambda self: self._operators, doc="The blocks.")

    def _shape(self) -> TensorShape:
        matrix = TensorShape([util.total([o.range_dimension for o in self.operators]),
                              util.total([o.domain_dimension for o in self.operators])])
        return util.broadcast_batch_shape(self.operators).concatenate(matrix)

    def _shape_tensor(self) -> Tensor:
        matrix = tf.stack([util.total([o.range_dimension_tensor() for o in self.operators]),
                           util.total([o.domain_dimension_tensor() for o in self.operators])])
        return tf.concat([util.broadcast_batch_sizes(self.operators), matrix], 0)

    def _split(self, x: Tensor, axis: int) -> list[Tensor]:
        """`x` cut along an axis into the parts that the blocks act on."""
        sizes = [o.domain_dimension.value for o in self.operators]
        if None in sizes:
            sizes = [o.domain_dimension_tensor() for o in self.operators]
        return tf.split(x, sizes, axis=axis)

    def _by_block(self, x: Tensor, adjoint_arg: bool, apply: Any) -> Tensor:
        parts = self._split(x, -1 if adjoint_arg else -2)
        done = [apply(o, part) for o, part in zip(self.operators, parts, strict=True)]
        return tf.concat(util.broadcast_batch(done), axis=-2)

    def _matmul(self, x: Tensor, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        return self._by_block(x, adjoint_arg, lambda o, part: o.matmul(part, adjoint=adjoint, adjoint_arg=adjoint_arg))

    def _solve(self, rhs: Tensor, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        return self._by_block(rhs, adjoint_arg, lambda o, part: o.solve(part, adjoint=adjoint, adjoint_arg=adjoint_arg))

    def _determinant(self) -> Tensor:
        return util.product([o.determinant() for o in self.operators])

    def _log_abs_determinant(self) -> Tensor:
        return util.total([o.log_abs_determinant() for o in self.operators])

    def _trace(self) -> Tensor:
        return util.total([o.trace() for o in self.operators])

    def _columns(self, vectors: list[Tensor]) -> Tensor:
        """Vectors of the blocks, with broadcast batch dimensions, one after the other."""
        columns = util.broadcast_batch([v[..., tf.newaxis] for v in vectors])
        return tf.squeeze(tf.concat(columns, axis=-2), axis=-1)

    def _diag_part(self) -> Tensor:
        return self._columns([o.diag_part() for o in self.operators])

    def _eigvals(self) -> Tensor:
        return self._columns([o.eigvals() for o in self.operators])

    def _to_dense(self) -> Tensor:
        blocks = util.broadcast_batch([o.to_dense() for o in self.operators])
        width = self.domain_dimension.value
        width = self.domain_dimension_tensor() if width is None else width
        rows, before = [], 0
        for block in blocks:
            size = block.shape[-1] if block.shape.rank is not None else None
            size = getattr(size, "value", size)
            size = tf.shape(block)[-1] if size is None else size
            lead = tf.shape(block)[:-1]
            left = tf.zeros(tf.concat([lead, [before]], 0), dtype=block.dtype)
            before = before + size
            right = tf.zeros(tf.concat([lead, [width - before]], 0), dtype=block.dtype)
            rows.append(tf.concat([left, block, right], axis=-1))
        dense = tf.concat(rows, axis=-2)
        dense.set_shape(self.shape)
        return dense

    def _assert_non_singular(self) -> Any:
        return tf.group(*(o.assert_non_singular() for o in self.operators))

    def _assert_self_adjoint(self) -> Any:
        return tf.group(*(o.assert_self_adjoint() for o in self.operators))

    def _assert_positive_definite(self) -> Any:
        return tf.group(*(o.assert_positive_definite() for o in self.operators))


@adjoint_rule(LinearOperatorBlockDiag)
def _adjoint_block_diag(a):
    return LinearOperatorBlockDiag([o.adjoint() for o in a.operators], **same_hints(a))


@inverse_rule(LinearOperatorBlockDiag)
def _inverse_block_diag(a):
    return LinearOperatorBlockDiag([o.inverse() for o in a.operators], **same_hints(a))


@cholesky_rule(LinearOperatorBlockDiag)
def _cholesky_block_diag(a):
    return LinearOperatorBlockDiag([o.cholesky() for o in a.operators], is_non_singular=True)
