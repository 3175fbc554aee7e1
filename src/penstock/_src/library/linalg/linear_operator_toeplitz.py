"""Toeplitz operators: constant along every diagonal."""
from __future__ import annotations

from typing import Any

import penstock as tf
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.library.linalg import util
from penstock._src.library.linalg.algebra import adjoint_rule, same_hints
from penstock._src.library.linalg.linear_operator import LinearOperator
from penstock._src.library.linalg.linear_operator_circulant import LinearOperatorCirculant, to_complex


@export("linalg.LinearOperatorToeplitz")
class LinearOperatorToeplitz(LinearOperator):
    """A (batch of) square Toeplitz matrices, from their first column and first row (whose first element is the same)."""

    _parameter_ndims = {"col": 1, "row": 1}

    def __init__(self, col: Any, row: Any, is_non_singular: bool | None = None, is_self_adjoint: bool | None = None,
                 is_positive_definite: bool | None = None, is_square: bool | None = None,
                 name: str = "LinearOperatorToeplitz"):
        with name_scope(name, values=[row, col]):
            self._row = util.tensor_or_variable(row, "row")
            self._col = util.tensor_or_variable(col, "col")
            for argument, value in (("row", self._row), ("col", self._col)):
                if value.shape.rank == 0:
                    raise ValueError(f"Argument {argument} must have at least 1 dimension.  Found: {value}")
            sizes = {v.shape.static_dims[-1] for v in (self._row, self._col) if v.shape.rank is not None} - {None}
            if len(sizes) > 1:
                raise ValueError("row and col have different sizes, but the matrix must be square.")
            if is_square is False:
                raise ValueError("Only square Toeplitz operators currently supported.")
            super().__init__(self._row.dtype, [self._row, self._col], is_non_singular, is_self_adjoint,
                             is_positive_definite, True, name)

    row = property(lambda self: self._row, doc="The first row.")
    col = property(lambda self: self._col, doc="The first column.")

    def _shape(self) -> TensorShape:
        shape = tf.broadcast_static_shape(self._row.shape, self._col.shape)
        return shape.concatenate(shape[-1:])

    def _shape_tensor(self) -> Tensor:
        shape = tf.broadcast_dynamic_shape(tf.shape(self._row), tf.shape(self._col))
        return tf.concat([shape, shape[-1:]], 0)

    def _assert_self_adjoint(self) -> Any:
        return tf.compat.v1.assert_equal(tf.convert_to_tensor(self._row), tf.math.conj(self._col),
                                         message="row and col are not the same, and so this operator is not "
                                                 "self-adjoint.")

    def _embedding(self) -> LinearOperatorCirculant:
        """A circulant operator of twice the size whose upper left quarter is this one."""
        zeros = tf.zeros(self.shape_tensor()[:-1], self.dtype)
        col, row = self._col + zeros, self._row + zeros
        column = tf.concat([col, tf.zeros_like(col[..., :1]), tf.reverse(row[..., 1:], [-1])], axis=-1)
        return LinearOperatorCirculant(tf.signal.fft(to_complex(column)), input_output_dtype=self.dtype)

    def _matmul(self, x: Tensor, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        x = util.adjoint_if(x, adjoint_arg)
        doubled = tf.concat([x, tf.zeros_like(x)], axis=-2)
        result = self._embedding().matmul(doubled, adjoint=adjoint)[..., :self.domain_dimension_tensor(), :]
        if x.shape.rank is not None and self.shape.rank is not None:
            batch = tf.broadcast_static_shape(x.shape[:-2], self.batch_shape)
            result.set_shape(batch.concatenate([self.shape.static_dims[-1], x.shape.static_dims[-1]]))
        return result

    def _diagonal_value(self) -> Tensor:
        return self._col[..., 0] + tf.zeros(self._batch_sizes(), self.dtype)

    def _trace(self) -> Tensor:
        return tf.cast(self.domain_dimension_tensor(), self.dtype) * self._diagonal_value()

    def _diag_part(self) -> Tensor:
        size = self.domain_dimension.value
        ones = tf.ones([self.domain_dimension_tensor() if size is None else size], self.dtype)
        return self._diagonal_value()[..., tf.newaxis] * ones


@adjoint_rule(LinearOperatorToeplitz)
def _adjoint_toeplitz(a: LinearOperatorToeplitz) -> LinearOperatorToeplitz:
    conj = a.dtype.is_complex
    return LinearOperatorToeplitz(util.conj_if(a.row, conj), util.conj_if(a.col, conj), **same_hints(a))
