"""The zero operator."""
from __future__ import annotations

from typing import Any

import penstock as tf
from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph.constant import constant_value
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.library.linalg import util
from penstock._src.library.linalg.algebra import adjoint_rule, matmul_rule
from penstock._src.library.linalg.linear_operator import LinearOperator
from penstock._src.library.linalg.linear_operator_identity import checked_size


@export("linalg.LinearOperatorZeros")
class LinearOperatorZeros(LinearOperator):
    """A (batch of) zero matrices [..., num_rows, num_columns]."""

    def __init__(self, num_rows: Any, num_columns: Any = None, batch_shape: Any = None, dtype: Any = None,
                 is_non_singular: bool | None = False, is_self_adjoint: bool | None = True,
                 is_positive_definite: bool | None = False, is_square: bool | None = True,
                 assert_proper_shapes: bool = False, name: str = "LinearOperatorZeros"):
        self._assert_proper_shapes = assert_proper_shapes
        with name_scope(name):
            if not is_self_adjoint and is_square:
                raise ValueError("A zero operator is always self adjoint.")
            if is_non_singular:
                raise ValueError("A zero operator is always singular.")
            if is_positive_definite:
                raise ValueError("A zero operator is always not positive-definite.")
            super().__init__(dtypes.as_dtype(dtype or dtypes.float32), None, False, is_self_adjoint, False, is_square,
                             name)
            sizes = {"num_rows": num_rows, "num_columns": num_rows if num_columns is None else num_columns,
                     "batch_shape": [] if batch_shape is None else batch_shape}
            for argument, value in sizes.items():
                util.refuse_variable(value, argument)
            made = [checked_size(util.shape_tensor(v, name=n), n, int(n == "batch_shape"), assert_proper_shapes)
                    for n, v in sizes.items()]
            self._num_rows, self._num_columns, self._batch = made
            rows, columns, batch = (constant_value(m) for m in made)
            if is_square and rows is not None and columns is not None and rows != columns:
                raise ValueError(f"LinearOperatorZeros initialized as is_square=True, but got num_rows({rows}) != "
                                 f"num_columns({columns})")
            self._static = TensorShape(batch).concatenate(
                [None if size is None else int(size) for size in (rows, columns)])

    def _shape(self) -> TensorShape:
        return self._static

    def _shape_tensor(self) -> Tensor:
        return tf.concat([self._batch, tf.stack([self._num_rows, self._num_columns])], 0)

    def _assert_non_singular(self) -> Any:
        raise tf.errors.InvalidArgumentError(None, None, "Zero operators are always non-invertible.")

    def _assert_positive_definite(self) -> Any:
        raise tf.errors.InvalidArgumentError(None, None, "Zero operators are always non-positive definite.")

    def _assert_self_adjoint(self) -> Any:
        return tf.no_op("assert_self_adjoint")

    def _matmul(self, x: Tensor, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        x = util.adjoint_if(x, adjoint_arg)
        if self._assert_proper_shapes:
            x = util.after([util.assert_rows(self.adjoint() if adjoint else self, x)], x)
        rows = self._num_columns if adjoint else self._num_rows
        batch = tf.broadcast_dynamic_shape(self.batch_shape_tensor(), tf.shape(x)[:-2])
        return tf.zeros(tf.concat([batch, tf.stack([rows, tf.shape(x)[-1]])], 0), dtype=self.dtype)

    def _determinant(self) -> Tensor:
        return tf.zeros(self._batch_sizes(), dtype=self.dtype)

    def _trace(self) -> Tensor:
        return tf.zeros(self._batch_sizes(), dtype=self.dtype)

    def _to_dense(self) -> Tensor:
        return tf.zeros(self.shape_tensor(), dtype=self.dtype)

    def _diag_part(self) -> Tensor:
        size = tf.minimum(self._num_rows, self._num_columns)
        return tf.zeros(tf.concat([self.batch_shape_tensor(), [size]], 0), dtype=self.dtype)

    def _eigvals(self) -> Tensor:
        return self._diag_part()

    def add_to_tensor(self, mat: Any, name: str = "add_to_tensor") -> Tensor:
        """`mat`, broadcast to this operator's batch."""
        with self._name_scope(name):
            return convert(mat, name="mat") + tf.zeros(tf.concat([self.batch_shape_tensor(), [1, 1]], 0), self.dtype)


@adjoint_rule(LinearOperatorZeros)
def _adjoint_zeros(a: LinearOperatorZeros) -> LinearOperatorZeros:
    if a.is_square:
        return a
    return LinearOperatorZeros(a._num_columns, a._num_rows, batch_shape=a._batch, dtype=a.dtype, is_self_adjoint=None,
                               is_square=a.is_square)


def _product(zeros: LinearOperatorZeros, other: LinearOperator) -> LinearOperatorZeros:
    if not zeros.is_square or not other.is_square:
        raise ValueError("Products with operators that are not square are not supported.")
    return zeros


matmul_rule(LinearOperatorZeros, LinearOperator)(_product)
matmul_rule(LinearOperator, LinearOperatorZeros)(lambda a, b: _product(b, a))
matmul_rule(LinearOperatorZeros, LinearOperatorZeros)(_product)
