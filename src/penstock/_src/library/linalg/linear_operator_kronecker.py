"""Kronecker products."""
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


def _number(size: Any, tensor: Any) -> Any:
    return tensor() if size.value is None else size.value


@export("linalg.LinearOperatorKronecker")
class LinearOperatorKronecker(LinearOperator):
    """The Kronecker product op1 x op2 x ... of a list of operators."""

    _parameter_ndims = {"operators": 0}

    def __init__(self, operators: Any, is_non_singular: bool | None = None, is_self_adjoint: bool | None = None,
                 is_positive_definite: bool | None = None, is_square: bool | None = None, name: str | None = None):
        self._operators = operators = util.checked_operators(operators)
        product_of = "The Kronecker product of {0} operators is always {0}."
        is_non_singular = util.all_hint(operators, "is_non_singular", is_non_singular,
                                        product_of.format("non-singular"))
        is_self_adjoint = util.all_hint(operators, "is_self_adjoint", is_self_adjoint,
                                        product_of.format("self-adjoint"))
        is_positive_definite = util.all_hint(operators, "is_positive_definite", is_positive_definite,
                                             product_of.format("positive-definite"))
        parents = [p for o in operators for p in o.graph_parents]
        name = "_x_".join(o.name for o in operators) if name is None else name
        with name_scope(name, values=parents):
            super().__init__(operators[0].dtype, parents, is_non_singular, is_self_adjoint, is_positive_definite,
                             is_square, name)

    operators = property(lambda self: self._operators, doc="The factors.")

    def _shape(self) -> TensorShape:
        matrix = TensorShape([util.product([o.range_dimension for o in self.operators]),
                              util.product([o.domain_dimension for o in self.operators])])
        return util.broadcast_batch_shape(self.operators).concatenate(matrix)

    def _shape_tensor(self) -> Tensor:
        matrix = tf.stack([util.product([o.range_dimension_tensor() for o in self.operators]),
                           util.product([o.domain_dimension_tensor() for o in self.operators])])
        return tf.concat([util.broadcast_batch_sizes(self.operators), matrix], 0)

    def _by_factor(self, x: Tensor, adjoint: bool, adjoint_arg: bool, apply: Any, turned: bool) -> Tensor:
        """Applies every factor to its part of the row index.

        A row number of `x` has one digit per factor. The first digit becomes the rows, a factor is applied to them,
        and they go to the back: (d1 d2 C) to (d2 C r1) to (C r1 r2).
        """
        result = x = util.adjoint_if(x, adjoint_arg)
        columns = tf.shape(x)[-1]
        inner = [_number(o.domain_dimension, o.domain_dimension_tensor) for o in self.operators]
        outer = [_number(o.range_dimension, o.range_dimension_tensor) for o in self.operators]
        if adjoint != turned:
            inner, outer = outer, inner
        for i, operator in enumerate(self.operators):
            rest = util.product([columns, *inner[i + 1:], *outer[:i]])
            shape = tf.concat([tf.shape(result)[:-2], tf.stack([inner[i], rest])], 0)
            result = tf.linalg.matrix_transpose(apply(operator, tf.reshape(result, shape)))
        shape = tf.concat([tf.shape(result)[:-2], tf.stack([columns, util.product(outer)])], 0)
        result = tf.linalg.matrix_transpose(tf.reshape(result, shape))
        if x.shape.rank is not None and self.shape.rank is not None:
            rows = self.shape.static_dims[-1 if adjoint != turned else -2]
            batch = tf.broadcast_static_shape(x.shape[:-2], self.batch_shape)
            result.set_shape(batch.concatenate([rows, x.shape.static_dims[-1]]))
        return result

    def _matmul(self, x: Tensor, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        return self._by_factor(x, adjoint, adjoint_arg, lambda o, part: o.matmul(part, adjoint=adjoint), False)

    def _solve(self, rhs: Tensor, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        return self._by_factor(rhs, adjoint, adjoint_arg, lambda o, part: o.solve(part, adjoint=adjoint), True)

    def _powers(self) -> list[Tensor]:
        """N / n_i for every factor: the exponent of its determinant."""
        sizes = [o.domain_dimension_tensor() for o in self.operators]
        return [tf.cast(util.product([tf.constant(1), *sizes[:i], *sizes[i + 1:]]), self.dtype)
                for i in range(len(sizes))]

    def _determinant(self) -> Tensor:
        return util.product([o.determinant() ** p for o, p in zip(self.operators, self._powers(), strict=True)])

    def _log_abs_determinant(self) -> Tensor:
        return util.total([o.log_abs_determinant() * p for o, p in zip(self.operators, self._powers(), strict=True)])

    def _trace(self) -> Tensor:
        return util.product([o.trace() for o in self.operators])

    def _outer(self, vectors: list[Tensor]) -> Tensor:
        """The Kronecker product of vectors."""
        result = vectors[0]
        for v in vectors[1:]:
            pairs = result[..., :, tf.newaxis] * v[..., tf.newaxis, :]
            sizes = tf.shape(pairs)
            known = pairs.shape
            result = tf.reshape(pairs, tf.concat([sizes[:-2], [sizes[-2] * sizes[-1]]], 0))
            if known.rank is not None:
                last = None if None in known.static_dims[-2:] else known.static_dims[-2] * known.static_dims[-1]
                result.set_shape(known[:-2].concatenate([last]))
        return result

    def _diag_part(self) -> Tensor:
        return self._outer([o.diag_part() for o in self.operators])

    def _eigvals(self) -> Tensor:
        return self._outer([o.eigvals() for o in self.operators])

    def _to_dense(self) -> Tensor:
        result = self.operators[0].to_dense()
        for operator in self.operators[1:]:
            other = operator.to_dense()
            pairs = result[..., :, tf.newaxis, :, tf.newaxis] * other[..., tf.newaxis, :, tf.newaxis, :]
            sizes = tf.shape(pairs)
            matrix = tf.stack([sizes[-4] * sizes[-3], sizes[-2] * sizes[-1]])
            result = tf.reshape(pairs, tf.concat([sizes[:-4], matrix], 0))
        result.set_shape(self.shape)
        return result

    def _each(self, assertion: str, otherwise: Any) -> Any:
        if all(o.is_square for o in self.operators):
            return tf.group(*(getattr(o, assertion)() for o in self.operators))
        return otherwise()

    def _assert_non_singular(self) -> Any:
        return self._each("assert_non_singular", super()._assert_non_singular)

    def _assert_self_adjoint(self) -> Any:
        return self._each("assert_self_adjoint", super()._assert_self_adjoint)


@adjoint_rule(LinearOperatorKronecker)
def _adjoint_kronecker(a: LinearOperatorKronecker) -> LinearOperatorKronecker:
    hints = {**same_hints(a), "is_square": a.is_square}
    return LinearOperatorKronecker([o.adjoint() for o in a.operators], **hints)


@inverse_rule(LinearOperatorKronecker)
def _inverse_kronecker(a: LinearOperatorKronecker) -> LinearOperatorKronecker:
    return LinearOperatorKronecker([o.inverse() for o in a.operators], **same_hints(a))


@cholesky_rule(LinearOperatorKronecker)
def _cholesky_kronecker(a: LinearOperatorKronecker) -> LinearOperatorKronecker:
    return LinearOperatorKronecker([o.cholesky() for o in a.operators], is_non_singular=True, is_square=True)
