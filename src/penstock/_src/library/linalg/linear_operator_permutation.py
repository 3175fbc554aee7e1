"""Permutations of rows."""
from __future__ import annotations

from typing import Any

import penstock as tf
from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.library.linalg import util
from penstock._src.library.linalg.algebra import adjoint_rule, inverse_rule
from penstock._src.library.linalg.linear_operator import LinearOperator


@export("linalg.LinearOperatorPermutation")
class LinearOperatorPermutation(LinearOperator):
    """The matrix that puts row perm[i] of its argument in row i."""

    _parameter_ndims = {"perm": 1}

    def __init__(self, perm: Any, dtype: Any = dtypes.float32, is_non_singular: bool | None = None,
                 is_self_adjoint: bool | None = None, is_positive_definite: bool | None = None,
                 is_square: bool | None = None, name: str = "LinearOperatorPermutation"):
        with name_scope(name, values=[perm]):
            self._perm = util.tensor_or_variable(perm, "perm")
            if self._perm.shape.rank == 0:
                raise ValueError(f"Argument `perm` must have at least 1 dimension. Received: {perm}.")
            if not self._perm.dtype.is_integer:
                raise TypeError(f"Argument `perm` must be integer dtype. Received: {perm}.")
            if is_non_singular is False:
                raise ValueError("A Permutation operator is always non-singular.")
            if is_square is False:
                raise ValueError("A Permutation operator is always square.")
            super().__init__(dtype, [self._perm], True, is_self_adjoint, is_positive_definite, True, name)

    perm = property(lambda self: self._perm, doc="The rows in their new order.")

    def _shape(self) -> TensorShape:
        shape = self._perm.shape
        return shape.concatenate(shape[-1:])

    def _shape_tensor(self) -> Tensor:
        shape = tf.shape(self._perm)
        return tf.concat([shape, shape[-1:]], 0)

    def _assert_non_singular(self) -> Any:
        return tf.no_op("assert_non_singular")

    def _inverse_perm(self) -> Tensor:
        return tf.cast(tf.argsort(self._perm, axis=-1), self._perm.dtype)

    def _order(self, x: Tensor, perm: Tensor) -> Tensor:
        """`x` with its rows in the order of `perm`, batch dimensions broadcast."""
        index, rows = util.broadcast_batch([tf.convert_to_tensor(perm)[..., tf.newaxis], x])
        return tf.gather(rows, index[..., 0], batch_dims=rows.shape.rank - 2) if rows.shape.rank is not None else \
            tf.matmul(tf.one_hot(index[..., 0], tf.shape(rows)[-2], dtype=rows.dtype), rows)

    def _matmul(self, x: Tensor, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        return self._order(util.adjoint_if(x, adjoint_arg), self._inverse_perm() if adjoint else self._perm)

    def _solve(self, rhs: Tensor, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        return self._matmul(rhs, not adjoint, adjoint_arg)       # the inverse of a permutation is its adjoint

    def _to_dense(self) -> Tensor:
        return tf.one_hot(self._perm, self.domain_dimension_tensor(), dtype=self.dtype)

    def _diag_part(self) -> Tensor:
        return tf.cast(tf.equal(self._perm, tf.range(tf.cast(self.domain_dimension_tensor(), self._perm.dtype))),
                       self.dtype)

    def _log_abs_determinant(self) -> Tensor:
        return tf.zeros(self._batch_sizes(), self.dtype)

    def _cond(self) -> Tensor:
        return tf.ones(self._batch_sizes(), self.dtype)


def _inverse(a: LinearOperatorPermutation) -> LinearOperatorPermutation:
    return LinearOperatorPermutation(a._inverse_perm(), dtype=a.dtype, is_self_adjoint=a.is_self_adjoint,
                                     is_positive_definite=a.is_positive_definite)


adjoint_rule(LinearOperatorPermutation)(_inverse)
inverse_rule(LinearOperatorPermutation)(_inverse)
