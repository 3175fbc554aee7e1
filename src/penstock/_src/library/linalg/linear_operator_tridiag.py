"""Tridiagonal operators."""
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

_FORMATS = ("matrix", "sequence", "compact")


@export("linalg.LinearOperatorTridiag")
class LinearOperatorTridiag(LinearOperator):
    """A (batch of) square tridiagonal matrices, in one of the formats of tf.linalg.tridiagonal_solve."""

    @property
    def _experimental_parameter_ndims_to_matrix_ndims(self) -> dict[str, Any]:
        return {"diagonals": [1, 1, 1] if self.diagonals_format == "sequence" else 2}

    def __init__(self, diagonals: Any, diagonals_format: str = "compact", is_non_singular: bool | None = None,
                 is_self_adjoint: bool | None = None, is_positive_definite: bool | None = None,
                 is_square: bool | None = None, name: str = "LinearOperatorTridiag"):
        if diagonals_format not in _FORMATS:
            raise ValueError(f"Argument `diagonals_format` must be one of {_FORMATS}. Found: {diagonals_format}.")
        if is_square is False:
            raise ValueError("Only square tridiagonal operators are supported.")
        with name_scope(name, values=diagonals if isinstance(diagonals, (list, tuple)) else [diagonals]):
            if diagonals_format == "sequence":
                self._diagonals: Any = [util.tensor_or_variable(d, "diagonals") for d in diagonals]
                parents = self._diagonals
            else:
                self._diagonals = util.tensor_or_variable(diagonals, "diagonals")
                parents = [self._diagonals]
                if self._diagonals.shape.rank is not None and self._diagonals.shape.rank < 2:
                    raise ValueError(f"Argument `diagonals` must have at least 2 dimensions. Found: {self._diagonals}")
            self._format = diagonals_format
            super().__init__(parents[0].dtype, parents, is_non_singular, is_self_adjoint, is_positive_definite, True,
                             name)

    diagonals = property(lambda self: self._diagonals, doc="The diagonals that the operator was created from.")
    diagonals_format = property(lambda self: self._format, doc='"matrix", "sequence" or "compact".')

    def _rows(self) -> list[Tensor]:
        """Superdiagonal, diagonal and subdiagonal, all of one length."""
        if self._format == "sequence":
            zeros = tf.zeros(self.shape_tensor()[:-1], self.dtype)
            return [d + zeros for d in self._diagonals]
        if self._format == "compact":
            return tf.unstack(tf.convert_to_tensor(self._diagonals), num=3, axis=-2)
        matrix = tf.convert_to_tensor(self._diagonals)
        part = tf.linalg.diag_part
        zero = tf.zeros_like(part(matrix)[..., :1])
        return [tf.concat([part(matrix[..., :-1, 1:]), zero], -1), part(matrix),
                tf.concat([zero, part(matrix[..., 1:, :-1])], -1)]

    def _shape(self) -> TensorShape:
        if self._format == "matrix":
            return self._diagonals.shape
        if self._format == "compact":
            shape = self._diagonals.shape
            return shape if shape.rank is None else shape[:-2].concatenate([shape.static_dims[-1], shape.static_dims[-1]])
        shape = self._diagonals[0].shape
        for d in self._diagonals[1:]:
            shape = tf.broadcast_static_shape(shape, d.shape)
        return shape.concatenate(shape[-1:])

    def _shape_tensor(self) -> Tensor:
        if self._format == "matrix":
            return tf.shape(self._diagonals)
        if self._format == "compact":
            shape = tf.shape(self._diagonals)
            return tf.concat([shape[:-2], shape[-1:], shape[-1:]], 0)
        shape = tf.shape(self._diagonals[0])
        for d in self._diagonals[1:]:
            shape = tf.broadcast_dynamic_shape(shape, tf.shape(d))
        return tf.concat([shape, shape[-1:]], 0)

    def _assert_self_adjoint(self) -> Any:
        upper, middle, lower = self._rows()
        off = tf.compat.v1.assert_equal(upper[..., :-1], tf.math.conj(lower[..., 1:]),
                                        message="Matrix is not self-adjoint.")
        return tf.group(off, util.assert_real(middle, "Matrix is not self-adjoint."))

    def _turned(self, adjoint: bool) -> list[Tensor]:
        """The diagonals of this operator or of its adjoint."""
        upper, middle, lower = self._rows()
        if not adjoint:
            return [upper, middle, lower]
        return [tf.math.conj(tf.roll(lower, -1, -1)), tf.math.conj(middle), tf.math.conj(tf.roll(upper, 1, -1))]

    def _matmul(self, x: Tensor, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        x = util.adjoint_if(x, adjoint_arg)
        upper, middle, lower = (d[..., tf.newaxis] for d in self._turned(adjoint))
        above, below = upper[..., :-1, :] * x[..., 1:, :], lower[..., 1:, :] * x[..., :-1, :]
        row = tf.zeros_like(above[..., :1, :] if x.shape.rank is None else (middle * x)[..., :1, :])
        return middle * x + tf.concat([above, row], -2) + tf.concat([row, below], -2)

    def _solve(self, rhs: Tensor, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        diagonals = tf.stack(self._turned(adjoint), axis=-2)
        diagonals, rhs = util.broadcast_batch([diagonals, util.adjoint_if(rhs, adjoint_arg)])
        return tf.linalg.tridiagonal_solve(diagonals, rhs)

    def _diag_part(self) -> Tensor:
        return self._rows()[1]

    def _to_dense(self) -> Tensor:
        upper, middle, lower = self._rows()
        lead = [[0, 0]] * (upper.shape.rank - 1) if upper.shape.rank is not None else None
        if lead is None:
            return super()._to_dense()
        above = tf.pad(tf.linalg.diag(upper[..., :-1]), lead + [[0, 1], [1, 0]])
        below = tf.pad(tf.linalg.diag(lower[..., 1:]), lead + [[1, 0], [0, 1]])
        return tf.linalg.diag(middle) + above + below


@adjoint_rule(LinearOperatorTridiag)
def _adjoint_tridiag(a: LinearOperatorTridiag) -> LinearOperatorTridiag:
    return LinearOperatorTridiag(tf.stack(a._turned(True), axis=-2), **same_hints(a))
