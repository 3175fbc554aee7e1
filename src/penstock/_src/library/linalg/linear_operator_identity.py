"""The identity, and the base of operators of the form c I."""
from __future__ import annotations

from typing import Any

import numpy as np

import penstock as tf
from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph.constant import constant_value
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.library.linalg import util
from penstock._src.library.linalg.algebra import adjoint_rule, cholesky_rule, inverse_rule, matmul_rule, solve_rule
from penstock._src.library.linalg.linear_operator import LinearOperator


class IdentityBase(LinearOperator):
    """An operator that is given by its number of rows."""

    _num_rows: Tensor
    _num_rows_static: Any
    _assert_proper_shapes: bool

    def _set_num_rows(self, num_rows: Any) -> None:
        util.refuse_variable(num_rows, "num_rows")
        rows = util.shape_tensor(num_rows, name="num_rows")
        self._num_rows = checked_size(rows, "num_rows", 0, self._assert_proper_shapes)
        self._num_rows_static = constant_value(rows)

    def _matrix_shape(self) -> TensorShape:
        rows = None if self._num_rows_static is None else int(self._num_rows_static)
        return TensorShape([rows, rows])

    def _matrix_sizes(self) -> Tensor:
        return tf.stack([self._num_rows, self._num_rows])

    def _ones_diag(self) -> Tensor:
        if self.shape.is_fully_defined():
            return tf.ones(self.shape[:-1], dtype=self.dtype)
        return tf.ones(self.shape_tensor()[:-1], dtype=self.dtype)

    def _checked_rows(self, x: Tensor) -> Tensor:
        return util.after([util.assert_rows(self, x)], x) if self._assert_proper_shapes else x


def checked_size(size: Tensor, name: str, rank: int, at_run_time: bool) -> Tensor:
    """A size (rank 0) or a shape (rank 1), checked to hold non-negative integers; at run time too, if wanted."""
    if not size.dtype.is_integer:
        raise TypeError(f"Argument {name} must be integer type.  Found: {size}")
    static = constant_value(size)
    if static is not None:
        if static.ndim != rank:
            raise ValueError(f"Argument {name} must be a {rank}-D Tensor.  Found: {static}")
        if np.any(static < 0):
            raise ValueError(f"Argument {name} must be non-negative.  Found: {static}")
    if not at_run_time:
        return size
    v1 = tf.compat.v1
    return util.after([v1.assert_rank(size, rank, message=f"Argument {name} must be a {rank}-D Tensor."),
                       v1.assert_non_negative(size, message=f"Argument {name} must be non-negative.")], size)


@export("linalg.LinearOperatorIdentity")
class LinearOperatorIdentity(IdentityBase):
    """A (batch of) identity matrices. Without a `batch_shape`, arguments pass through unchanged."""

    def __init__(self, num_rows: Any, batch_shape: Any = None, dtype: Any = None, is_non_singular: bool = True,
                 is_self_adjoint: bool = True, is_positive_definite: bool = True, is_square: bool = True,
                 assert_proper_shapes: bool = False, name: str = "LinearOperatorIdentity"):
        for hint, kind in ((is_self_adjoint, "self adjoint"), (is_non_singular, "non-singular"),
                           (is_positive_definite, "positive-definite"), (is_square, "square")):
            if not hint:
                raise ValueError(f"An identity operator is always {kind}.")
        self._assert_proper_shapes = assert_proper_shapes
        with name_scope(name):
            super().__init__(dtypes.as_dtype(dtype or dtypes.float32), None, True, True, True, True, name)
            util.refuse_variable(batch_shape, "batch_shape")
            self._set_num_rows(num_rows)
            self._batch = None
            if batch_shape is not None:
                batch = util.shape_tensor(batch_shape, name="batch_shape_arg")
                self._batch_static = constant_value(batch)
                self._batch = checked_size(batch, "batch_shape", 1, assert_proper_shapes)

    def _shape(self) -> TensorShape:
        if self._batch is None:
            return self._matrix_shape()
        return TensorShape(None if self._batch_static is None else self._batch_static).concatenate(self._matrix_shape())

    def _shape_tensor(self) -> Tensor:
        if self._batch is None:
            return self._matrix_sizes()
        return tf.concat([self._batch, self._matrix_sizes()], 0)

    def _assert_non_singular(self) -> Any:
        return tf.no_op("assert_non_singular")

    def _assert_positive_definite(self) -> Any:
        return tf.no_op("assert_positive_definite")

    def _assert_self_adjoint(self) -> Any:
        return tf.no_op("assert_self_adjoint")

    def _matmul(self, x: Tensor, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        return self._broadcast(self._checked_rows(util.adjoint_if(x, adjoint_arg)))

    def _broadcast(self, x: Tensor) -> Tensor:
        """`x` with its batch dimensions broadcast to this operator's."""
        if self._batch is None:
            return x
        lead = self.batch_shape.concatenate([1, 1])
        if lead.is_fully_defined():
            if tf.broadcast_static_shape(x.shape, lead).is_compatible_with(x.shape) and x.shape.rank is not None:
                return x
            return x + tf.zeros(lead, dtype=self.dtype)
        return x + tf.zeros(tf.concat([self.batch_shape_tensor(), [1, 1]], 0), dtype=self.dtype)

    def _solve(self, rhs: Tensor, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        return self._matmul(rhs, adjoint_arg=adjoint_arg)

    def _determinant(self) -> Tensor:
        return tf.ones(self.batch_shape_tensor(), dtype=self.dtype)

    def _log_abs_determinant(self) -> Tensor:
        return tf.zeros(self.batch_shape_tensor(), dtype=self.dtype)

    def _trace(self) -> Tensor:
        return tf.cast(self._num_rows, self.dtype) * tf.ones(self._batch_sizes(), dtype=self.dtype)

    def _diag_part(self) -> Tensor:
        return self._ones_diag()

    def _eigvals(self) -> Tensor:
        return self._ones_diag()

    def _cond(self) -> Tensor:
        return tf.ones(self._batch_sizes(), dtype=self.dtype)

    def add_to_tensor(self, mat: Any, name: str = "add_to_tensor") -> Tensor:
        """I + mat."""
        with self._name_scope(name):
            mat = convert(mat, name="mat")
            return tf.linalg.set_diag(mat, 1 + tf.linalg.diag_part(mat))


adjoint_rule(LinearOperatorIdentity)(lambda a: a)
inverse_rule(LinearOperatorIdentity)(lambda a: a)
matmul_rule(LinearOperatorIdentity, LinearOperator)(lambda a, b: b)
matmul_rule(LinearOperator, LinearOperatorIdentity)(lambda a, b: a)
matmul_rule(LinearOperatorIdentity, LinearOperatorIdentity)(lambda a, b: a)
solve_rule(LinearOperatorIdentity, LinearOperator)(lambda a, b: b)


@cholesky_rule(LinearOperatorIdentity)
def _cholesky_identity(a: LinearOperatorIdentity) -> LinearOperatorIdentity:
    return LinearOperatorIdentity(a._num_rows, batch_shape=a.batch_shape_tensor(), dtype=a.dtype)
