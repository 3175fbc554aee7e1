"""Operators that are plain matrices."""
from __future__ import annotations

from typing import Any

import penstock as tf
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.library.linalg import util
from penstock._src.library.linalg.linear_operator import LinearOperator


@export("linalg.LinearOperatorFullMatrix")
class LinearOperatorFullMatrix(LinearOperator):
    """A (batch of) matrices [..., M, N] as an operator."""

    _parameter_ndims = {"matrix": 2}

    def __init__(self, matrix: Any, is_non_singular: bool | None = None, is_self_adjoint: bool | None = None,
                 is_positive_definite: bool | None = None, is_square: bool | None = None,
                 name: str = "LinearOperatorFullMatrix"):
        with name_scope(name, values=[matrix]):
            self._matrix = util.tensor_or_variable(matrix, "matrix")
            if self._matrix.dtype.base_dtype not in util.FLOATING:
                raise TypeError(f"Argument matrix must have dtype in {list(util.FLOATING)}.  Found: "
                                f"{self._matrix.dtype}")
            rank = self._matrix.shape.rank
            if rank is not None and rank < 2:
                raise ValueError(f"Argument matrix must have at least 2 dimensions.  Found: {self._matrix}")
            super().__init__(self._matrix.dtype, [self._matrix], is_non_singular, is_self_adjoint,
                             is_positive_definite, is_square, name)

    matrix = property(lambda self: self._matrix, doc="The matrix.")

    def _shape(self) -> TensorShape:
        return self._matrix.shape

    def _shape_tensor(self) -> Tensor:
        return tf.shape(self._matrix)

    def _matmul(self, x: Tensor, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        return tf.matmul(self._matrix, x, adjoint_a=adjoint, adjoint_b=adjoint_arg)

    def _to_dense(self) -> Tensor:
        return tf.convert_to_tensor(self._matrix)
