"""Bijectors: invertible maps with the logarithm of their Jacobian determinant, from which distributions are transformed.

A derived class defines `_forward`, `_inverse` and one of `_forward_log_det_jacobian` and `_inverse_log_det_jacobian`,
for events of
`forward_min_event_ndims` dimensions; events with more dimensions sum over them.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph.node import Tensor
from penstock._src.library.distributions.checks import fill_triangular, fill_triangular_inverse, softplus_inverse
from penstock.compat import v1 as tf


def _export(cls: type) -> type:
    return export(v1=[f"contrib.distributions.bijectors.{cls.__name__}"])(cls)


@_export
class Bijector:
    """The base of bijectors.

    >>> tf.contrib.distributions.bijectors.Exp().forward(1.0)
    """

    def __init__(self, graph_parents: Any = None, is_constant_jacobian: bool = False, validate_args: bool = False,
                 dtype: Any = None, forward_min_event_ndims: int | None = None, inverse_min_event_ndims: int | None = None,
                 name: str | None = None):
        if forward_min_event_ndims is None and inverse_min_event_ndims is None:
            raise ValueError("Must specify at least one of `forward_min_event_ndims` and `inverse_min_event_ndims`.")
        first = inverse_min_event_ndims if forward_min_event_ndims is None else forward_min_event_ndims
        second = forward_min_event_ndims if inverse_min_event_ndims is None else inverse_min_event_ndims
        for key, value in (("forward_min_event_ndims", first), ("inverse_min_event_ndims", second)):
            if not isinstance(value, int):
                raise TypeError(f"Expected {key} to be of type int, got {type(value).__name__}")
            if value < 0:
                raise ValueError(f"{key} must be a non-negative integer.")
        self._forward_min_event_ndims, self._inverse_min_event_ndims = first, second
        self._graph_parents, self._is_constant_jacobian = list(graph_parents or ()), is_constant_jacobian
        self._validate_args, self._dtype, self._name = validate_args, dtype, name or type(self).__name__.lower()

    graph_parents = property(lambda self: self._graph_parents)
    forward_min_event_ndims = property(lambda self: self._forward_min_event_ndims)
    inverse_min_event_ndims = property(lambda self: self._inverse_min_event_ndims)
    is_constant_jacobian = property(lambda self: self._is_constant_jacobian)
    validate_args = property(lambda self: self._validate_args)
    dtype = property(lambda self: self._dtype)
    name = property(lambda self: self._name)
    _is_injective = property(lambda self: True)

    def _tensor(self, x: Any, name: str) -> Tensor:
        return tf.convert_to_tensor(x, name=name, preferred_dtype=self._dtype)

    def _forward_event_shape(self, input_shape: TensorShape) -> TensorShape:
        return input_shape

    def forward_event_shape(self, input_shape: Any) -> TensorShape:
        """The static shape of `forward` of events of a shape."""
        return self._forward_event_shape(TensorShape(input_shape))

    def _inverse_event_shape(self, output_shape: TensorShape) -> TensorShape:
        return output_shape

    def inverse_event_shape(self, output_shape: Any) -> TensorShape:
        """The static shape of `inverse` of events of a shape."""
        return self._inverse_event_shape(TensorShape(output_shape))

    def _forward_event_shape_tensor(self, input_shape: Tensor) -> Tensor:
        return input_shape

    def forward_event_shape_tensor(self, input_shape: Any, name: str = "forward_event_shape_tensor") -> Tensor:
        """The same as a tensor."""
        return self._forward_event_shape_tensor(tf.convert_to_tensor(input_shape, tf.int32))

    def _inverse_event_shape_tensor(self, output_shape: Tensor) -> Tensor:
        return output_shape

    def inverse_event_shape_tensor(self, output_shape: Any, name: str = "inverse_event_shape_tensor") -> Tensor:
        """The same as a tensor."""
        return self._inverse_event_shape_tensor(tf.convert_to_tensor(output_shape, tf.int32))

    def _forward(self, x: Tensor) -> Tensor:
        raise NotImplementedError("forward not implemented.")

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError("inverse not implemented.")

    def _forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        raise NotImplementedError("forward_log_det_jacobian not implemented.")

    def _inverse_log_det_jacobian(self, y: Tensor) -> Tensor:
        raise NotImplementedError("inverse_log_det_jacobian not implemented.")

    def forward(self, x: Any, name: str = "forward") -> Tensor:
        """The image of x."""
        with tf.name_scope(f"{self._name}/{name}"):
            return self._forward(self._tensor(x, "x"))

    def inverse(self, y: Any, name: str = "inverse") -> Tensor:
        """The x whose image is y."""
        with tf.name_scope(f"{self._name}/{name}"):
            return self._inverse(self._tensor(y, "y"))

    def forward_log_det_jacobian(self, x: Any, event_ndims: int, name: str = "forward_log_det_jacobian") -> Tensor:
        """The logarithm of the absolute Jacobian determinant at x, for events of so many dimensions."""
        with tf.name_scope(f"{self._name}/{name}"):
            x = self._tensor(x, "x")
            self._check_ndims(self._forward_min_event_ndims, event_ndims)
            try:
                return _summed(self._forward_log_det_jacobian(x), x, event_ndims, self._forward_min_event_ndims)
            except NotImplementedError:
                y = self._forward(x)
                return -_summed(self._inverse_log_det_jacobian(y), y, self._ndims_forward(event_ndims),
                                self._inverse_min_event_ndims)

    def inverse_log_det_jacobian(self, y: Any, event_ndims: int, name: str = "inverse_log_det_jacobian") -> Tensor:
        """The same of the inverse, at y."""
        with tf.name_scope(f"{self._name}/{name}"):
            y = self._tensor(y, "y")
            self._check_ndims(self._inverse_min_event_ndims, event_ndims)
            try:
                return _summed(self._inverse_log_det_jacobian(y), y, event_ndims, self._inverse_min_event_ndims)
            except NotImplementedError:
                x = self._inverse(y)
                return -_summed(self._forward_log_det_jacobian(x), x, self._ndims_inverse(event_ndims),
                                self._forward_min_event_ndims)

    def _ndims_forward(self, event_ndims: int) -> int:
        return event_ndims - self._forward_min_event_ndims + self._inverse_min_event_ndims

    def _ndims_inverse(self, event_ndims: int) -> int:
        return event_ndims - self._inverse_min_event_ndims + self._forward_min_event_ndims

    @staticmethod
    def _check_ndims(least: int, event_ndims: Any) -> None:
        if not isinstance(event_ndims, (int, np.integer)):
            raise ValueError(f"Expected integer event_ndims, got {event_ndims}")
        if event_ndims < least:
            raise ValueError(f"event_ndims ({event_ndims}) must be larger than min_event_ndims ({least})")


def _summed(ldj: Tensor, x: Tensor, event_ndims: int, least: int) -> Tensor:
    """The sum over the event dimensions beyond those of the bijector itself; a constant counts once for each element."""
    extra = event_ndims - least
    if extra == 0:
        return ldj
    batch = tf.shape(x)[:x.shape.ndims - least] if least else tf.shape(x)
    return tf.reduce_sum(tf.broadcast_to(ldj, tf.broadcast_dynamic_shape(tf.shape(ldj), batch)), list(range(-extra, 0)))


@_export
class Identity(Bijector):
    """y = x."""

    def __init__(self, validate_args: bool = False, name: str = "identity"):
        super().__init__(forward_min_event_ndims=0, is_constant_jacobian=True, validate_args=validate_args, name=name)

    def _forward(self, x: Tensor) -> Tensor:
        return x

    def _inverse(self, y: Tensor) -> Tensor:
        return y

    def _forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        return tf.zeros([], x.dtype)


def _elementwise(name: str, doc: str, forward: Callable, inverse: Callable, forward_ldj: Callable) -> type:
    """A bijector of single numbers, from three functions."""
    def __init__(self: Any, validate_args: bool = False, name: str = name.lower()) -> None:
        Bijector.__init__(self, forward_min_event_ndims=0, validate_args=validate_args, name=name)
    members = {"__init__": __init__, "__doc__": doc, "__module__": __name__, "_forward": lambda self, x: forward(x),
               "_inverse": lambda self, y: inverse(y), "_forward_log_det_jacobian": lambda self, x: forward_ldj(x)}
    return _export(type(name, (Bijector,), members))


Exp = _elementwise("Exp", "y = exp(x).", tf.exp, tf.log, lambda x: x)
Sigmoid = _elementwise("Sigmoid", "y = 1 / (1 + exp(-x)).", tf.sigmoid, lambda y: tf.log(y) - tf.log1p(-y),
                       lambda x: -tf.nn.softplus(-x) - tf.nn.softplus(x))
Softsign = _elementwise("Softsign", "y = x / (1 + |x|).", lambda x: x / (1.0 + tf.abs(x)), lambda y: y / (1.0 - tf.abs(y)),
                        lambda x: -2.0 * tf.log1p(tf.abs(x)))
Square = _elementwise("Square", "y = x ** 2, for positive x.", tf.square, tf.sqrt, lambda x: math.log(2.0) + tf.log(x))
Tanh = _elementwise("Tanh", "y = tanh(x).", tf.tanh, tf.atanh,
                    lambda x: 2.0 * (math.log(2.0) - x - tf.nn.softplus(-2.0 * x)))


@_export
class Softplus(Bijector):
    """y = log(1 + exp(x)), or a sharper one with a small `hinge_softness`."""

    def __init__(self, hinge_softness: Any = None, validate_args: bool = False, name: str = "softplus"):
        super().__init__(forward_min_event_ndims=0, validate_args=validate_args, name=name)
        self._softness = 1.0 if hinge_softness is None else hinge_softness

    def _forward(self, x: Tensor) -> Tensor:
        return self._softness * tf.nn.softplus(x / self._softness)

    def _inverse(self, y: Tensor) -> Tensor:
        return self._softness * softplus_inverse(y / self._softness)

    def _forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        return -tf.nn.softplus(-x / self._softness)


@_export
class PowerTransform(Bijector):
    """y = (1 + x * power) ** (1 / power); exp(x) for power 0."""

    def __init__(self, power: float = 0.0, validate_args: bool = False, name: str = "power_transform"):
        super().__init__(forward_min_event_ndims=0, validate_args=validate_args, name=name)
        if power < 0:
            raise ValueError("`power` must be a non-negative number.")
        self.power = power

    def _forward(self, x: Tensor) -> Tensor:
        return tf.exp(x) if self.power == 0 else tf.exp(tf.log1p(x * self.power) / self.power)

    def _inverse(self, y: Tensor) -> Tensor:
        return tf.log(y) if self.power == 0 else tf.math.expm1(tf.log(y) * self.power) / self.power

    def _forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        return x if self.power == 0 else (1.0 / self.power - 1.0) * tf.log1p(x * self.power)


@_export
class AffineScalar(Bijector):
    """y = scale * x + shift, for each number."""

    def __init__(self, shift: Any = None, scale: Any = None, validate_args: bool = False, name: str = "affine_scalar"):
        super().__init__(forward_min_event_ndims=0, is_constant_jacobian=True, validate_args=validate_args, name=name)
        self.shift = None if shift is None else tf.convert_to_tensor(shift, name="shift")
        self.scale = None if scale is None else tf.convert_to_tensor(scale, name="scale")

    def _forward(self, x: Tensor) -> Tensor:
        x = x if self.scale is None else x * self.scale
        return x if self.shift is None else x + self.shift

    def _inverse(self, y: Tensor) -> Tensor:
        y = y if self.shift is None else y - self.shift
        return y if self.scale is None else y / self.scale

    def _forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        return tf.zeros([], x.dtype) if self.scale is None else tf.log(tf.abs(self.scale))


@_export
class AffineLinearOperator(Bijector):
    """y = scale @ x + shift, where scale is a linear operator."""

    def __init__(self, shift: Any = None, scale: Any = None, validate_args: bool = False, name: str = "affine_linear_operator"):
        super().__init__(forward_min_event_ndims=1, is_constant_jacobian=True, validate_args=validate_args, name=name)
        self.shift = None if shift is None else tf.convert_to_tensor(shift, name="shift")
        self.scale = scale

    def _forward(self, x: Tensor) -> Tensor:
        y = x if self.scale is None else self.scale.matvec(x)
        return y if self.shift is None else y + self.shift

    def _inverse(self, y: Tensor) -> Tensor:
        x = y if self.shift is None else y - self.shift
        return x if self.scale is None else self.scale.solvevec(x)

    def _forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        return tf.zeros([], x.dtype) if self.scale is None else self.scale.log_abs_determinant()


@_export
class Affine(AffineLinearOperator):
    """y = scale @ x + shift, where scale is an identity, a diagonal or a lower triangular matrix, or a sum of them."""

    def __init__(self, shift: Any = None, scale_identity_multiplier: Any = None, scale_diag: Any = None, scale_tril: Any = None,
                 scale_perturb_factor: Any = None, scale_perturb_diag: Any = None, validate_args: bool = False,
                 name: str = "affine", dtype: Any = None):
        scale = _affine_scale(shift, scale_identity_multiplier, scale_diag, scale_tril, scale_perturb_factor,
                              scale_perturb_diag)
        super().__init__(shift=shift, scale=scale, validate_args=validate_args, name=name)


def _affine_scale(shift: Any, multiplier: Any, diag: Any, tril: Any, factor: Any, perturb_diag: Any) -> Any:
    given = [tf.convert_to_tensor(v) for v in (multiplier, diag, tril) if v is not None]
    if not given and factor is None:
        return None
    if factor is not None:
        factor = tf.convert_to_tensor(factor)
        rows = factor.shape.as_list()[-2]
        base = tf.eye(rows, dtype=factor.dtype) if not given else _dense_scale(multiplier, diag, tril, rows)
        middle = factor if perturb_diag is None else factor * tf.convert_to_tensor(perturb_diag)[..., tf.newaxis, :]
        return tf.linalg.LinearOperatorFullMatrix(base + tf.matmul(middle, factor, transpose_b=True), is_non_singular=True)
    if tril is not None:
        rows = tf.convert_to_tensor(tril).shape.as_list()[-1]
        return tf.linalg.LinearOperatorLowerTriangular(_dense_scale(multiplier, diag, tril, rows), is_non_singular=True)
    if diag is not None:
        diag = tf.convert_to_tensor(diag)
        return tf.linalg.LinearOperatorDiag(diag if multiplier is None else diag + multiplier[..., tf.newaxis]
                                            if tf.is_tensor(multiplier) and multiplier.shape.ndims else diag + multiplier,
                                            is_non_singular=True)
    if shift is None:
        raise ValueError("scale_identity_multiplier needs a shift, from which it takes the number of dimensions")
    rows = tf.convert_to_tensor(shift).shape.as_list()[-1]
    return tf.linalg.LinearOperatorScaledIdentity(rows, tf.convert_to_tensor(multiplier), is_non_singular=True)


def _dense_scale(multiplier: Any, diag: Any, tril: Any, rows: int) -> Tensor:
    total = None
    if tril is not None:
        total = tf.matrix_band_part(tf.convert_to_tensor(tril), -1, 0)
    if diag is not None:
        each = tf.matrix_diag(tf.convert_to_tensor(diag))
        total = each if total is None else total + each
    if multiplier is not None:
        multiplier = tf.convert_to_tensor(multiplier)
        each = multiplier[..., tf.newaxis, tf.newaxis] * tf.eye(rows, dtype=multiplier.dtype)
        total = each if total is None else total + each
    return total


@_export
class Invert(Bijector):
    """The inverse of another one."""

    def __init__(self, bijector: Any, validate_args: bool = False, name: str | None = None):
        super().__init__(forward_min_event_ndims=bijector.inverse_min_event_ndims,
                         inverse_min_event_ndims=bijector.forward_min_event_ndims, validate_args=validate_args,
                         is_constant_jacobian=bijector.is_constant_jacobian, name=name or f"invert_{bijector.name}")
        self.bijector = bijector

    def _forward(self, x: Tensor) -> Tensor:
        return self.bijector.inverse(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.bijector.forward(y)

    def _forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        return self.bijector.inverse_log_det_jacobian(x, self._forward_min_event_ndims)

    def _forward_event_shape(self, input_shape: TensorShape) -> TensorShape:
        return self.bijector.inverse_event_shape(input_shape)

    def _inverse_event_shape(self, output_shape: TensorShape) -> TensorShape:
        return self.bijector.forward_event_shape(output_shape)


@_export
class Chain(Bijector):
    """Several, in sequence; the last in the list comes first."""

    def __init__(self, bijectors: Any = None, validate_args: bool = False, name: str | None = None):
        bijectors = list(bijectors or ())
        least = max([b.forward_min_event_ndims for b in bijectors], default=0)
        out = max([b.inverse_min_event_ndims for b in bijectors], default=0)
        name = name or ("identity" if not bijectors else "_of_".join(["chain", *(b.name for b in bijectors)]))
        super().__init__(forward_min_event_ndims=least, inverse_min_event_ndims=out, validate_args=validate_args,
                         is_constant_jacobian=all(b.is_constant_jacobian for b in bijectors), name=name)
        self.bijectors = bijectors

    def _forward(self, x: Tensor) -> Tensor:
        for b in reversed(self.bijectors):
            x = b.forward(x)
        return x

    def _inverse(self, y: Tensor) -> Tensor:
        for b in self.bijectors:
            y = b.inverse(y)
        return y

    def _forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        total, ndims = tf.zeros([], x.dtype), self._forward_min_event_ndims
        for b in reversed(self.bijectors):
            total = total + b.forward_log_det_jacobian(x, max(ndims, b.forward_min_event_ndims))
            x, ndims = b.forward(x), b._ndims_forward(max(ndims, b.forward_min_event_ndims))
        return total

    def _forward_event_shape(self, input_shape: TensorShape) -> TensorShape:
        for b in reversed(self.bijectors):
            input_shape = b.forward_event_shape(input_shape)
        return input_shape

    def _inverse_event_shape(self, output_shape: TensorShape) -> TensorShape:
        for b in self.bijectors:
            output_shape = b.inverse_event_shape(output_shape)
        return output_shape


@_export
class Inline(Bijector):
    """A bijector of functions.

    >>> Inline(forward_fn=tf.exp, inverse_fn=tf.log, inverse_log_det_jacobian_fn=lambda y: -tf.log(y),
               forward_min_event_ndims=0)
    """

    def __init__(self, forward_fn: Callable | None = None, inverse_fn: Callable | None = None,
                 inverse_log_det_jacobian_fn: Callable | None = None, forward_log_det_jacobian_fn: Callable | None = None,
                 forward_event_shape_fn: Callable | None = None, forward_event_shape_tensor_fn: Callable | None = None,
                 inverse_event_shape_fn: Callable | None = None, inverse_event_shape_tensor_fn: Callable | None = None,
                 is_constant_jacobian: bool = False, validate_args: bool = False, forward_min_event_ndims: int | None = None,
                 inverse_min_event_ndims: int | None = None, name: str = "inline"):
        super().__init__(forward_min_event_ndims=forward_min_event_ndims, inverse_min_event_ndims=inverse_min_event_ndims,
                         is_constant_jacobian=is_constant_jacobian, validate_args=validate_args, name=name)
        for key, function in {"_forward": forward_fn, "_inverse": inverse_fn,
                              "_inverse_log_det_jacobian": inverse_log_det_jacobian_fn,
                              "_forward_log_det_jacobian": forward_log_det_jacobian_fn,
                              "_forward_event_shape": forward_event_shape_fn, "_inverse_event_shape": inverse_event_shape_fn,
                              "_forward_event_shape_tensor": forward_event_shape_tensor_fn,
                              "_inverse_event_shape_tensor": inverse_event_shape_tensor_fn}.items():
            if function is not None:
                setattr(self, key, function)


@_export
class Permute(Bijector):
    """The elements of vectors in another order."""

    def __init__(self, permutation: Any, validate_args: bool = False, name: str = "permute"):
        super().__init__(forward_min_event_ndims=1, is_constant_jacobian=True, validate_args=validate_args, name=name)
        self.permutation = tf.convert_to_tensor(permutation, name="permutation")

    def _forward(self, x: Tensor) -> Tensor:
        return tf.gather(x, self.permutation, axis=-1)

    def _inverse(self, y: Tensor) -> Tensor:
        return tf.gather(y, tf.math.invert_permutation(self.permutation), axis=-1)

    def _forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        return tf.zeros([], x.dtype)


@_export
class SoftmaxCentered(Bijector):
    """The softmax of a vector with a zero at its end: n numbers as n + 1 probabilities."""

    def __init__(self, validate_args: bool = False, name: str = "softmax_centered"):
        super().__init__(forward_min_event_ndims=1, validate_args=validate_args, name=name)

    def _forward_event_shape(self, input_shape: TensorShape) -> TensorShape:
        dims = input_shape.as_list()
        return TensorShape([*dims[:-1], None if dims[-1] is None else dims[-1] + 1])

    def _inverse_event_shape(self, output_shape: TensorShape) -> TensorShape:
        dims = output_shape.as_list()
        return TensorShape([*dims[:-1], None if dims[-1] is None else dims[-1] - 1])

    def _forward(self, x: Tensor) -> Tensor:
        return tf.nn.softmax(tf.concat([x, tf.zeros_like(x[..., :1])], -1))

    def _inverse(self, y: Tensor) -> Tensor:
        return tf.log(y[..., :-1]) - tf.log(y[..., -1:])

    def _inverse_log_det_jacobian(self, y: Tensor) -> Tensor:
        return -tf.reduce_sum(tf.log(y), axis=-1)


@_export
class FillTriangular(Bijector):
    """Vectors as triangular matrices."""

    def __init__(self, upper: bool = False, validate_args: bool = False, name: str = "fill_triangular"):
        super().__init__(forward_min_event_ndims=1, inverse_min_event_ndims=2, is_constant_jacobian=True,
                         validate_args=validate_args, name=name)
        self._upper = upper

    def _forward(self, x: Tensor) -> Tensor:
        return fill_triangular(x, upper=self._upper)

    def _inverse(self, y: Tensor) -> Tensor:
        return fill_triangular_inverse(y, upper=self._upper)

    def _inverse_event_shape(self, output_shape: TensorShape) -> TensorShape:
        *batch, n, _ = output_shape.as_list()
        return TensorShape([*batch, None if n is None else n * (n + 1) // 2])

    def _inverse_log_det_jacobian(self, y: Tensor) -> Tensor:
        return tf.zeros(tf.shape(y)[:-2], y.dtype)

    def _forward_event_shape(self, input_shape: TensorShape) -> TensorShape:
        *batch, d = input_shape.as_list()
        n = None if d is None else int(math.isqrt(8 * d + 1) - 1) // 2
        return TensorShape([*batch, n, n])

    def _forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        return tf.zeros(tf.shape(x)[:-1], x.dtype)
