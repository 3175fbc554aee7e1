"""Bijectors between shapes, of matrices, and of the distribution functions of some distributions."""
from __future__ import annotations

import math
from typing import Any

from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.compat.contrib.distributions.bijectors import AffineScalar, Bijector, Chain, FillTriangular, Softplus
from penstock._src.graph.node import Tensor
from penstock.compat import v1 as tf


def _export(cls: type) -> type:
    return export(v1=[f"contrib.distributions.bijectors.{cls.__name__}"])(cls)


# -- shapes -----------------------------------------------------------------------------------------------------------------
@_export
class Reshape(Bijector):
    """Events in another shape; one dimension of each shape may be -1.

    >>> bijectors.Reshape(event_shape_out=[1, -1]).forward(tf.ones([5, 4]))        # shape [5, 1, 4]
    """

    def __init__(self, event_shape_out: Any, event_shape_in: Any = (-1,), validate_args: bool = False,
                 name: str | None = None):
        shapes = [tf.get_static_value(tf.convert_to_tensor(s, tf.int32)) for s in (event_shape_in, event_shape_out)]
        if any(s is None for s in shapes):
            raise NotImplementedError("Shapes of events must be known when the graph is built.")
        for shape in shapes:
            if shape.ndim != 1:
                raise ValueError("Shapes of events must be vectors.")
            if (shape == -1).sum() > 1:
                raise ValueError("must have at most one `-1`.")
            if (shape < -1).any():
                raise ValueError("elements must be either positive integers or `-1`.")
        sizes = [math.prod(s.tolist()) for s in shapes]
        if min(sizes) > 0 and sizes[0] != sizes[1]:
            raise ValueError("Input/output `event_size`s do not match.")
        self._in, self._out = (s.tolist() for s in shapes)
        super().__init__(forward_min_event_ndims=len(self._in), inverse_min_event_ndims=len(self._out),
                         is_constant_jacobian=True, validate_args=validate_args, name=name or "reshape")

    @staticmethod
    def _static(shape: TensorShape, old: list[int], new: list[int]) -> TensorShape:
        dims = shape.as_list()
        kept, event = dims[:len(dims) - len(old)], dims[len(dims) - len(old):]
        if any(a not in (-1, b) and b is not None for a, b in zip(old, event, strict=True)):
            raise ValueError(f"Input `event_shape` does not match `event_shape_in`: {event} and {old}")
        if -1 not in new:
            return TensorShape([*kept, *new])
        rest = None if None in event else math.prod(event) // max(math.prod(d for d in new if d != -1), 1)
        return TensorShape([*kept, *(rest if d == -1 else d for d in new)])

    def _reshaped(self, x: Tensor, old: list[int], new: list[int]) -> Tensor:
        batch = tf.shape(x)[:tf.rank(x) - len(old)]
        y = tf.reshape(x, tf.concat([batch, tf.constant(new, tf.int32)], 0))
        if x.shape.ndims is not None:
            y.set_shape(self._static(x.shape, old, new))
        return y

    def _forward(self, x: Tensor) -> Tensor:
        return self._reshaped(x, self._in, self._out)

    def _inverse(self, y: Tensor) -> Tensor:
        return self._reshaped(y, self._out, self._in)

    def _forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        return tf.zeros([], x.dtype)

    def _inverse_log_det_jacobian(self, y: Tensor) -> Tensor:
        return tf.zeros([], y.dtype)

    def _forward_event_shape(self, input_shape: TensorShape) -> TensorShape:
        return self._static(input_shape, self._in, self._out)

    def _inverse_event_shape(self, output_shape: TensorShape) -> TensorShape:
        return self._static(output_shape, self._out, self._in)


@_export
class Ordered(Bijector):
    """Vectors of increasing numbers as vectors of any numbers: the first, and the logarithms of the differences."""

    def __init__(self, validate_args: bool = False, name: str = "ordered"):
        super().__init__(forward_min_event_ndims=1, validate_args=validate_args, name=name)

    def _forward(self, x: Tensor) -> Tensor:
        return tf.concat([x[..., :1], tf.log(x[..., 1:] - x[..., :-1])], -1)

    def _inverse(self, y: Tensor) -> Tensor:
        return tf.cumsum(tf.concat([y[..., :1], tf.exp(y[..., 1:])], -1), axis=-1)

    def _inverse_log_det_jacobian(self, y: Tensor) -> Tensor:
        return tf.reduce_sum(y[..., 1:], axis=-1)


# -- matrices ---------------------------------------------------------------------------------------------------------------
@_export
class CholeskyOuterProduct(Bijector):
    """Y = X X', for lower triangular X with a positive diagonal."""

    def __init__(self, validate_args: bool = False, name: str = "cholesky_outer_product"):
        super().__init__(forward_min_event_ndims=2, validate_args=validate_args, name=name)

    def _forward(self, x: Tensor) -> Tensor:
        return tf.matmul(x, x, adjoint_b=True)

    def _inverse(self, y: Tensor) -> Tensor:
        return tf.cholesky(y)

    def _forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        diag = tf.matrix_diag_part(x)
        size = tf.cast(tf.shape(diag)[-1], x.dtype)
        powers = tf.range(size, 0, -1, dtype=x.dtype)
        return tf.reduce_sum(powers * tf.log(diag), axis=-1) + size * math.log(2.0)


@_export
class MatrixInverseTriL(Bijector):
    """The inverse of a lower triangular matrix."""

    def __init__(self, validate_args: bool = False, name: str = "matrix_inverse_tril"):
        super().__init__(forward_min_event_ndims=2, validate_args=validate_args, name=name)

    def _forward(self, x: Tensor) -> Tensor:
        rows = tf.shape(x)[-1]
        return tf.matrix_triangular_solve(x, tf.eye(rows, batch_shape=tf.shape(x)[:-2], dtype=x.dtype))

    _inverse = _forward

    def _forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        rows = tf.cast(tf.shape(x)[-1], x.dtype)
        return -(rows + 1.0) * tf.reduce_sum(tf.log(tf.abs(tf.matrix_diag_part(x))), axis=-1)


@_export
class TransformDiagonal(Bijector):
    """A bijector of the diagonal of matrices; the other elements stay."""

    def __init__(self, diag_bijector: Any, validate_args: bool = False, name: str = "transform_diagonal"):
        self._diag_bijector = diag_bijector
        super().__init__(forward_min_event_ndims=2, validate_args=validate_args, name=name)

    def _forward(self, x: Tensor) -> Tensor:
        return tf.matrix_set_diag(x, self._diag_bijector.forward(tf.matrix_diag_part(x)))

    def _inverse(self, y: Tensor) -> Tensor:
        return tf.matrix_set_diag(y, self._diag_bijector.inverse(tf.matrix_diag_part(y)))

    def _forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        return self._diag_bijector.forward_log_det_jacobian(tf.matrix_diag_part(x), event_ndims=1)

    def _inverse_log_det_jacobian(self, y: Tensor) -> Tensor:
        return self._diag_bijector.inverse_log_det_jacobian(tf.matrix_diag_part(y), event_ndims=1)


@_export
class ScaleTriL(Chain):
    """Vectors as lower triangular matrices with a positive diagonal, for scales of multivariate distributions."""

    def __init__(self, diag_bijector: Any = None, diag_shift: Any = 1e-5, validate_args: bool = False,
                 name: str = "scale_tril"):
        diag_bijector = diag_bijector or Softplus(validate_args=validate_args)
        if diag_shift is not None:
            diag_bijector = Chain([AffineScalar(shift=diag_shift), diag_bijector])
        super().__init__([TransformDiagonal(diag_bijector), FillTriangular()], validate_args=validate_args, name=name)


# -- distribution functions -----------------------------------------------------------------------------------------------
@_export
class Gumbel(Bijector):
    """y = exp(-exp(-(x - loc) / scale)), the distribution function of Gumbel's distribution."""

    def __init__(self, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool = False, name: str = "gumbel"):
        self._loc, self._scale = tf.convert_to_tensor(loc), tf.convert_to_tensor(scale)
        super().__init__(forward_min_event_ndims=0, validate_args=validate_args, name=name)

    loc = property(lambda self: self._loc)
    scale = property(lambda self: self._scale)

    def _forward(self, x: Tensor) -> Tensor:
        return tf.exp(-tf.exp(-(x - self._loc) / self._scale))

    def _inverse(self, y: Tensor) -> Tensor:
        return self._loc - self._scale * tf.log(-tf.log(y))

    def _forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        z = (x - self._loc) / self._scale
        return -z - tf.exp(-z) - tf.log(self._scale)


@_export
class Weibull(Bijector):
    """y = 1 - exp(-(x / scale) ** concentration), the distribution function of Weibull's distribution."""

    def __init__(self, scale: Any = 1.0, concentration: Any = 1.0, validate_args: bool = False, name: str = "weibull"):
        self._scale, self._concentration = tf.convert_to_tensor(scale), tf.convert_to_tensor(concentration)
        super().__init__(forward_min_event_ndims=0, validate_args=validate_args, name=name)

    scale = property(lambda self: self._scale)
    concentration = property(lambda self: self._concentration)

    def _forward(self, x: Tensor) -> Tensor:
        return -tf.math.expm1(-((x / self._scale) ** self._concentration))

    def _inverse(self, y: Tensor) -> Tensor:
        return self._scale * (-tf.log1p(-y)) ** (1.0 / self._concentration)

    def _forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        z, power = x / self._scale, self._concentration
        return -(z ** power) + (power - 1.0) * tf.log(z) + tf.log(power) - tf.log(self._scale)


@_export
class Kumaraswamy(Bijector):
    """y = (1 - (1 - x) ** (1 / b)) ** (1 / a), the quantiles of Kumaraswamy's distribution."""

    def __init__(self, concentration1: Any = None, concentration0: Any = None, validate_args: bool = False,
                 name: str = "kumaraswamy"):
        self._a, self._b = tf.convert_to_tensor(concentration1), tf.convert_to_tensor(concentration0)
        super().__init__(forward_min_event_ndims=0, validate_args=validate_args, name=name)

    concentration1 = property(lambda self: self._a)
    concentration0 = property(lambda self: self._b)

    def _forward(self, x: Tensor) -> Tensor:
        return tf.exp(tf.log1p(-tf.exp(tf.log1p(-x) / self._b)) / self._a)

    def _inverse(self, y: Tensor) -> Tensor:
        return -tf.math.expm1(self._b * tf.log1p(-(y ** self._a)))

    def _inverse_log_det_jacobian(self, y: Tensor) -> Tensor:
        return tf.log(self._a) + tf.log(self._b) + (self._a - 1.0) * tf.log(y) + (self._b - 1.0) * tf.log1p(-(y ** self._a))


@_export
class SinhArcsinh(Bijector):
    """y = sinh((arcsinh(x) + skewness) * tailweight)."""

    def __init__(self, skewness: Any = None, tailweight: Any = None, validate_args: bool = False, name: str = "SinhArcsinh"):
        self._skewness = tf.convert_to_tensor(0.0 if skewness is None else skewness, name="skewness")
        self._tailweight = tf.convert_to_tensor(1.0 if tailweight is None else tailweight, name="tailweight",
                                                dtype=self._skewness.dtype)
        super().__init__(forward_min_event_ndims=0, validate_args=validate_args, name=name)

    skewness = property(lambda self: self._skewness)
    tailweight = property(lambda self: self._tailweight)

    def _forward(self, x: Tensor) -> Tensor:
        return tf.sinh((tf.asinh(x) + self._skewness) * self._tailweight)

    def _inverse(self, y: Tensor) -> Tensor:
        return tf.sinh(tf.asinh(y) / self._tailweight - self._skewness)

    def _forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        inner = tf.abs((tf.asinh(x) + self._skewness) * self._tailweight)
        log_cosh = inner + tf.log1p(tf.exp(-2.0 * inner)) - math.log(2.0)
        size = tf.maximum(tf.abs(x), 1.0)             # log(x ** 2 + 1) / 2 without overflow
        return log_cosh + tf.log(self._tailweight) - tf.log(size) - 0.5 * tf.log((x / size) ** 2 + 1.0 / size ** 2)
