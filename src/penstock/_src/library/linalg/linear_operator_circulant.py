"""Circulant operators: diagonal after a Fourier transform, in one, two or three nested levels of blocks."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

import penstock as tf
from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.library.linalg import util
from penstock._src.library.linalg.algebra import (
    adjoint_rule,
    commuting_hints,
    inverse_rule,
    matmul_rule,
    same_hints,
    solve_rule,
)
from penstock._src.library.linalg.linear_operator import LinearOperator


def to_complex(x: Tensor) -> Tensor:
    """`x` as complex numbers of its precision."""
    if x.dtype.is_complex:
        return x
    return tf.cast(x, dtypes.complex128 if x.dtype.base_dtype == dtypes.float64 else dtypes.complex64)


class CirculantBase(LinearOperator):
    """F^-1 diag(spectrum) F, where F is the Fourier transform over `block_depth` dimensions."""

    block_depth = 1

    @property
    def _experimental_parameter_ndims_to_matrix_ndims(self) -> dict[str, Any]:
        return {"spectrum": self.block_depth}

    def __init__(self, spectrum: Any, input_output_dtype: Any = dtypes.complex64, is_non_singular: bool | None = None,
                 is_self_adjoint: bool | None = None, is_positive_definite: bool | None = None,
                 is_square: bool | None = True, name: str | None = None):
        name = name or type(self).__name__
        with name_scope(name, values=[spectrum]):
            self._spectrum = convert(spectrum, name="spectrum")
            rank = self._spectrum.shape.rank
            if rank is not None and rank < self.block_depth:
                raise ValueError(f"Argument spectrum must have at least {self.block_depth} dimensions.  Found: "
                                 f"{self._spectrum}")
            if not self._spectrum.dtype.is_complex:
                if is_self_adjoint is False:
                    raise ValueError("A real spectrum always corresponds to a self-adjoint operator.")
                is_self_adjoint = True
            if is_square is False:
                raise ValueError("A [[nested] block] circulant operator is always square.")
            super().__init__(input_output_dtype, [self._spectrum], is_non_singular, is_self_adjoint,
                             is_positive_definite, True, name)

    spectrum = property(lambda self: self._spectrum, doc="The transform of the first column.")

    @property
    def block_shape(self) -> TensorShape:
        """The sizes of the dimensions that are transformed."""
        return self._spectrum.shape[-self.block_depth:]

    def block_shape_tensor(self) -> Tensor:
        """The sizes of the dimensions that are transformed, as a tensor."""
        return tf.shape(self._spectrum)[-self.block_depth:]

    def _axes(self) -> list[int]:
        return list(range(-self.block_depth, 0))

    def _transform(self, x: Tensor, inverse: bool = False) -> Tensor:
        suffix = {1: "", 2: "2d", 3: "3d"}[self.block_depth]
        return getattr(tf.signal, ("ifft" if inverse else "fft") + suffix)(x)

    def convolution_kernel(self, name: str = "convolution_kernel") -> Tensor:
        """The first column: the inverse transform of the spectrum."""
        with self._name_scope(name):
            return tf.cast(self._transform(to_complex(self._spectrum), inverse=True), self.dtype)

    def _shape(self) -> TensorShape:
        shape = self._spectrum.shape
        if shape.rank is None:
            return shape
        block = self.block_shape
        size = math.prod(block.static_dims) if block.is_fully_defined() else None
        return shape[:-self.block_depth].concatenate([size, size])

    def _shape_tensor(self) -> Tensor:
        shape = tf.shape(self._spectrum)
        size = tf.reduce_prod(shape[-self.block_depth:])
        return tf.concat([shape[:-self.block_depth], tf.stack([size, size])], 0)

    def _filter(self, x: Tensor, adjoint_arg: bool, factor: Tensor) -> Tensor:
        """F^-1 diag(factor) F x."""
        factor = tf.expand_dims(factor, -self.block_depth - 1)                 # [..., 1, block]
        rows = tf.cast(tf.math.conj(x) if adjoint_arg else tf.linalg.matrix_transpose(x), factor.dtype)
        blocks = tf.reshape(rows, tf.concat([tf.shape(rows)[:-1], self.block_shape_tensor()], 0))
        done = self._transform(factor * self._transform(blocks), inverse=True)
        lead = tf.shape(done)[:-self.block_depth]
        flat = tf.reshape(done, tf.concat([lead, [tf.reduce_prod(self.block_shape_tensor())]], 0))
        result = tf.cast(tf.linalg.matrix_transpose(flat), self.dtype)
        if x.shape.rank is not None and self.shape.rank is not None:
            batch = tf.broadcast_static_shape(x.shape[:-2], self.batch_shape)
            result.set_shape(batch.concatenate([self.shape.static_dims[-2], x.shape.static_dims[-2 if adjoint_arg else -1]]))
        return result

    def _matmul(self, x: Tensor, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        return self._filter(x, adjoint_arg, util.conj_if(to_complex(self._spectrum), adjoint))

    def _solve(self, rhs: Tensor, adjoint: bool = False, adjoint_arg: bool = False) -> Tensor:
        return self._filter(rhs, adjoint_arg, 1.0 / util.conj_if(to_complex(self._spectrum), adjoint))

    def _determinant(self) -> Tensor:
        return tf.cast(tf.reduce_prod(self._spectrum, axis=self._axes()), self.dtype)

    def _log_abs_determinant(self) -> Tensor:
        return tf.cast(tf.reduce_sum(tf.math.log(tf.abs(self._spectrum)), axis=self._axes()), self.dtype)

    def _trace(self) -> Tensor:
        return tf.cast(tf.reduce_sum(self._spectrum, axis=self._axes()), self.dtype)

    def _diag_part(self) -> Tensor:
        diagonal = self.shape[:-1] if self.shape.is_fully_defined() else self.shape_tensor()[:-1]
        mean = tf.cast(tf.reduce_mean(self._spectrum, axis=self._axes()), self.dtype)
        return mean[..., tf.newaxis] * tf.ones(diagonal, dtype=self.dtype)

    def assert_hermitian_spectrum(self, name: str = "assert_hermitian_spectrum") -> Any:
        """An op that fails unless the convolution kernel, and so the matrix, is real."""
        with self._name_scope(name):
            imag = tf.math.imag(self.convolution_kernel())
            eps = np.finfo(self.dtype.real_dtype.as_numpy_dtype).eps
            return tf.compat.v1.assert_less(tf.abs(imag), eps * tf.cast(self.domain_dimension_tensor(), imag.dtype),
                                            message="Spectrum was not Hermitian")

    def _assert_non_singular(self) -> Any:
        return util.assert_nonzero(self._spectrum, "Singular operator:  Spectrum contained zero values.")

    def _assert_positive_definite(self) -> Any:
        return util.assert_positive(tf.math.real(self._spectrum),
                                    "Not positive definite:  Real part of spectrum was not all positive.")

    def _assert_self_adjoint(self) -> Any:
        return util.assert_real(self._spectrum, "Not self-adjoint:  The spectrum contained non-zero imaginary part.")


@export("linalg.LinearOperatorCirculant")
class LinearOperatorCirculant(CirculantBase):
    """A circulant matrix: every column is the one before it, rotated by one."""


@export("linalg.LinearOperatorCirculant2D")
class LinearOperatorCirculant2D(CirculantBase):
    """A block circulant matrix whose blocks are circulant: a convolution in two dimensions."""

    block_depth = 2


@export("linalg.LinearOperatorCirculant3D")
class LinearOperatorCirculant3D(CirculantBase):
    """A nested block circulant matrix: a convolution in three dimensions."""

    block_depth = 3


def _like(a: CirculantBase, spectrum: Tensor, hints: dict) -> CirculantBase:
    return type(a)(spectrum, input_output_dtype=a.dtype, **hints)


@adjoint_rule(CirculantBase)
def _adjoint_circulant_base(a: CirculantBase) -> CirculantBase:
    return _like(a, util.conj_if(a.spectrum, a.spectrum.dtype.is_complex), same_hints(a))


@inverse_rule(CirculantBase)
def _inverse_circulant_base(a: CirculantBase) -> CirculantBase:
    return _like(a, 1.0 / a.spectrum, same_hints(a))


for _kind in (LinearOperatorCirculant, LinearOperatorCirculant2D, LinearOperatorCirculant3D):
    matmul_rule(_kind, _kind)(lambda a, b: _like(a, a.spectrum * b.spectrum, commuting_hints(a, b)))
    solve_rule(_kind, _kind)(lambda a, b: _like(a, b.spectrum / a.spectrum, commuting_hints(a, b)))
