"""Functions of each element, with NumPy's promotion of their operands."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import penstock as tf
from penstock._src.library.numpy.types import default_float, floating, name, promoted, tensor, value


def _document(fn: Callable, title: str, doc: str) -> Callable:
    fn.__name__ = fn.__qualname__ = title
    fn.__doc__ = doc
    return fn


def _unary(names: str, function: Callable, fraction: bool = False) -> Callable:
    """Exports a function of one array; `fraction`: integers become numbers with a fraction first."""
    first = names.split()[0]

    def call(x: Any) -> Any:
        return function(floating(x) if fraction else tensor(x))
    value(_document(call, first, f"NumPy's `{first}` on tensors."), *names.split())
    return call


def _binary(names: str, function: Callable, fraction: bool = False) -> Callable:
    """Exports a function of two arrays that are promoted to one type."""
    first = names.split()[0]

    def call(x1: Any, x2: Any) -> Any:
        a, b = promoted(x1, x2)
        if fraction and not a.dtype.is_floating and not a.dtype.is_complex:
            a, b = (tf.cast(v, default_float()) for v in (a, b))
        return function(a, b)
    value(_document(call, first, f"NumPy's `{first}` on tensors."), *names.split())
    return call


def _by_type(of_bool: Callable, otherwise: Callable) -> Callable:
    return lambda *args: (of_bool if args[0].dtype == tf.bool else otherwise)(*args)


def _number(x: Any) -> Any:
    """Booleans as integers, for functions that have no answer for them."""
    return tf.cast(x, tf.int8) if x.dtype == tf.bool else x


# -- one operand ------------------------------------------------------------------------------------------------------
_unary("abs absolute", _by_type(tf.identity, tf.abs))
_unary("fabs", tf.abs, True)
_unary("positive", tf.identity)
_unary("negative", tf.negative)
_unary("square", _by_type(tf.identity, tf.square))
_unary("conj conjugate", tf.math.conj)
for _names, _function in (
        ("exp", tf.exp), ("expm1", tf.math.expm1), ("log", tf.math.log), ("log1p", tf.math.log1p), ("sqrt", tf.sqrt),
        ("sin", tf.sin), ("cos", tf.cos), ("tan", tf.tan), ("arcsin", tf.asin), ("arccos", tf.acos), ("arctan", tf.atan),
        ("sinh", tf.sinh), ("cosh", tf.cosh), ("tanh", tf.tanh), ("arcsinh", tf.asinh), ("arccosh", tf.acosh),
        ("arctanh", tf.atanh)):
    _unary(_names, _function, True)
_unary("exp2", lambda x: tf.pow(tf.constant(2, x.dtype), x), True)
_unary("log2", lambda x: tf.math.log(x) / tf.constant(math.log(2), x.dtype), True)
_unary("log10", lambda x: tf.math.log(x) / tf.constant(math.log(10), x.dtype), True)
_unary("cbrt", lambda x: tf.sign(x) * tf.pow(tf.abs(x), tf.constant(1 / 3, x.dtype)), True)
_unary("deg2rad", lambda x: x * tf.constant(math.pi / 180, x.dtype), True)
_unary("rad2deg", lambda x: x * tf.constant(180 / math.pi, x.dtype), True)
_unary("floor", tf.floor, True)
_unary("ceil", tf.math.ceil, True)
_unary("fix", lambda x: tf.where(x > 0, tf.floor(x), tf.math.ceil(x)), True)
_unary("bitwise_not", _by_type(tf.logical_not, tf.bitwise.invert))
_unary("logical_not", lambda x: tf.logical_not(tf.cast(x, tf.bool)))
_unary("isfinite", tf.math.is_finite, True)
_unary("isinf", tf.math.is_inf, True)
_unary("isnan", tf.math.is_nan, True)
_unary("isneginf", lambda x: tf.equal(x, tf.cast(-math.inf, x.dtype)), True)
_unary("isposinf", lambda x: tf.equal(x, tf.cast(math.inf, x.dtype)), True)
_unary("signbit", _by_type(lambda x: tf.zeros_like(x), lambda x: tf.less(x, 0)))


def _sinc(x: Any) -> Any:
    scaled = x * tf.constant(math.pi, x.dtype)
    safe = tf.where(tf.equal(scaled, 0), tf.ones_like(scaled), scaled)
    return tf.where(tf.equal(scaled, 0), tf.ones_like(scaled), tf.sin(safe) / safe)


_unary("sinc", _sinc, True)


def _reciprocal(x: Any) -> Any:
    return tf.ones_like(x) // x if x.dtype.is_integer else tf.math.reciprocal(x)


_unary("reciprocal", _reciprocal)


@name("sign")
def sign(x: Any, out: Any = None, where: Any = None, **kwargs: Any) -> Any:
    """-1, 0 or 1."""
    if out is not None or where is not None or kwargs:
        raise ValueError("tf.experimental.numpy.sign takes one array, and neither out nor where")
    x = tensor(x)
    if x.dtype.is_complex:
        return tf.cast(tf.sign(tf.math.real(x)), x.dtype)
    return tf.sign(_number(x)) if x.dtype != tf.bool else tf.cast(x, tf.int8)


@name("real")
def real(val: Any) -> Any:
    """The real part."""
    return tf.math.real(tensor(val))


@name("imag")
def imag(val: Any) -> Any:
    """The imaginary part; zeros for real numbers."""
    x = tensor(val)
    return tf.math.imag(x) if x.dtype.is_complex else tf.zeros_like(x)


@name("angle")
def angle(z: Any, deg: bool = False) -> Any:
    """The angle of complex numbers."""
    out = tf.math.angle(floating(z))
    return out * tf.constant(180 / math.pi, out.dtype) if deg else out


@name("iscomplex")
def iscomplex(x: Any) -> Any:
    """Whether each element has an imaginary part."""
    return tf.not_equal(imag(x), 0)


@name("isreal")
def isreal(x: Any) -> Any:
    """Whether each element has no imaginary part."""
    x = tensor(x)
    return tf.equal(tf.math.imag(x), 0) if x.dtype.is_complex else tf.ones_like(x, tf.bool)


@name("iscomplexobj")
def iscomplexobj(x: Any) -> bool:
    """Whether the type is complex."""
    return tensor(x).dtype.is_complex


@name("isrealobj")
def isrealobj(x: Any) -> bool:
    """Whether the type is not complex."""
    return not iscomplexobj(x)


@name("isscalar")
def isscalar(num: Any) -> bool:
    """Whether it is a number, not an array of one."""
    return num.shape.rank == 0 if isinstance(num, (tf.Tensor, tf.Variable)) else np.isscalar(num)


def _rounded(a: Any, decimals: int = 0) -> Any:
    a = tensor(a)
    if decimals == 0 or a.dtype.is_integer and decimals > 0:
        return tf.round(a) if a.dtype.is_floating else a
    factor = tf.constant(10.0 ** decimals, default_float() if a.dtype.is_integer else a.dtype)
    return tf.cast(tf.round(tf.cast(a, factor.dtype) * factor) / factor, a.dtype)


@name("around")
def around(a: Any, decimals: int = 0) -> Any:
    """Rounds to a number of decimals."""
    return _rounded(a, decimals)


@name("round")
def round(a: Any, decimals: int = 0) -> Any:
    """Rounds to a number of decimals."""
    return _rounded(a, decimals)


@name("clip")
def clip(a: Any, a_min: Any, a_max: Any) -> Any:
    """Values outside of the bounds become the bounds."""
    if a_min is None and a_max is None:
        raise ValueError("Not more than one of `a_min` and `a_max` may be `None`.")
    a = tensor(a)
    if a_max is not None:
        a = tf.minimum(*promoted(a, a_max))
    return a if a_min is None else tf.maximum(*promoted(a, a_min))


# -- two operands -----------------------------------------------------------------------------------------------------
def _divided(a: Any, b: Any) -> Any:
    """Small integers have a quotient in float32, others in the default type."""
    if a.dtype == tf.bool or a.dtype.is_integer and a.dtype.size > 2:
        a, b = (tf.cast(v, default_float()) for v in (a, b))
    return tf.truediv(a, b)


_binary("add", _by_type(tf.logical_or, tf.add))
_binary("subtract", tf.subtract)
_binary("multiply", _by_type(tf.logical_and, tf.multiply))
_binary("divide true_divide", _divided)          # tf.divide is the operator, which calls this one
_binary("floor_divide", lambda a, b: tf.math.floordiv(_number(a), _number(b)))
_binary("mod remainder", lambda a, b: tf.math.floormod(_number(a), _number(b)))
_binary("power", lambda a, b: tf.pow(_number(a), _number(b)))
_binary("maximum", _by_type(tf.logical_or, tf.maximum))
_binary("minimum", _by_type(tf.logical_and, tf.minimum))
_binary("arctan2", tf.atan2, True)
_binary("hypot", lambda a, b: tf.sqrt(tf.square(a) + tf.square(b)), True)
_binary("nextafter", tf.math.nextafter, True)
_binary("bitwise_and", _by_type(tf.logical_and, tf.bitwise.bitwise_and))
_binary("bitwise_or", _by_type(tf.logical_or, tf.bitwise.bitwise_or))
_binary("bitwise_xor", _by_type(tf.math.logical_xor, tf.bitwise.bitwise_xor))
_binary("equal", tf.equal)
_binary("not_equal", tf.not_equal)
for _names, _function in (("greater", tf.greater), ("greater_equal", tf.greater_equal), ("less", tf.less),
                          ("less_equal", tf.less_equal)):
    _binary(_names, lambda a, b, f=_function: f(_number(a), _number(b)))


def _logical(title: str, function: Callable) -> None:
    def call(x1: Any, x2: Any) -> Any:
        return function(tf.cast(tensor(x1), tf.bool), tf.cast(tensor(x2), tf.bool))
    value(_document(call, title, f"NumPy's `{title}` on tensors."), title)


_logical("logical_and", tf.logical_and)
_logical("logical_or", tf.logical_or)
_logical("logical_xor", tf.math.logical_xor)


def _logaddexp(a: Any, b: Any) -> Any:
    largest = tf.maximum(a, b)
    difference = a - b
    return tf.where(tf.math.is_nan(difference), a + b, largest + tf.math.log1p(tf.exp(-tf.abs(difference))))


_binary("logaddexp", _logaddexp, True)


def _logaddexp2(a: Any, b: Any) -> Any:
    two = tf.constant(math.log(2), a.dtype)
    return _logaddexp(a * two, b * two) / two


_binary("logaddexp2", _logaddexp2, True)
_binary("heaviside", lambda a, b: tf.where(a < 0, tf.zeros_like(a), tf.where(a > 0, tf.ones_like(a), b)), True)


@name("float_power")
def float_power(x1: Any, x2: Any) -> Any:
    """A power of numbers with a fraction."""
    return tf.pow(*map(floating, promoted(x1, x2)))


@name("divmod")
def divmod(x1: Any, x2: Any) -> tuple:
    """Quotient and remainder."""
    a, b = promoted(x1, x2)
    return tf.math.floordiv(a, b), tf.math.floormod(a, b)


def _gcd(a: Any, b: Any) -> Any:
    def step(x: Any, y: Any) -> tuple:
        new = tf.where(tf.not_equal(y, 0), tf.math.floormod(x, tf.where(tf.not_equal(y, 0), y, tf.ones_like(y))), y)
        return tf.where(tf.not_equal(y, 0), y, x), tf.where(tf.not_equal(y, 0), new, tf.zeros_like(y))
    a, b = tf.abs(a) + tf.zeros_like(b), tf.abs(b) + tf.zeros_like(a)
    return tf.while_loop(lambda _, y: tf.reduce_any(tf.not_equal(y, 0)), step, (a, b))[0]


def _integers(x1: Any, x2: Any, what: str) -> list:
    a, b = promoted(x1, x2)
    if not a.dtype.is_integer:
        raise ValueError(f"Arguments to {what} must be integers.")
    return [a, b]


@name("gcd")
def gcd(x1: Any, x2: Any) -> Any:
    """The greatest common divisor."""
    return _gcd(*_integers(x1, x2, "gcd"))


@name("lcm")
def lcm(x1: Any, x2: Any) -> Any:
    """The least common multiple."""
    a, b = _integers(x1, x2, "lcm")
    divisor = _gcd(a, b)
    return tf.where(tf.equal(divisor, 0), tf.zeros_like(divisor),
                    tf.abs(a * b) // tf.where(tf.equal(divisor, 0), tf.ones_like(divisor), divisor))


# -- comparisons of whole arrays --------------------------------------------------------------------------------------
@name("isclose")
def isclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    """Whether elements are equal within a tolerance."""
    a, b = promoted(a, b)
    if not a.dtype.is_floating and not a.dtype.is_complex:
        return tf.equal(a, b)
    difference, bound = tf.abs(a - b), atol + rtol * tf.abs(b)
    close = (difference <= tf.cast(bound, difference.dtype)) & tf.math.is_finite(tf.abs(b)) | tf.equal(a, b)
    return close | tf.math.is_nan(a) & tf.math.is_nan(b) if equal_nan else close


@name("allclose")
def allclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    """Whether all elements are equal within a tolerance."""
    return tf.reduce_all(isclose(a, b, rtol, atol, equal_nan))


@name("array_equal")
def array_equal(a1: Any, a2: Any) -> Any:
    """Whether shapes and elements are equal."""
    a, b = promoted(a1, a2)
    if not a.shape.is_compatible_with(b.shape):
        return tf.constant(False)
    if a.shape.is_fully_defined() and b.shape.is_fully_defined():
        return tf.reduce_all(tf.equal(a, b))
    same = tf.reduce_all(tf.equal(tf.shape(a), tf.shape(b))) if a.shape.rank == b.shape.rank else tf.constant(False)
    return tf.cond(same, lambda: tf.reduce_all(tf.equal(a, b)), lambda: tf.constant(False))
