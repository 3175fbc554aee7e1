"""Initializers: callables that return the initial value of a variable from its shape.

Each is written once (`_make`); the v1 classes take a dtype in the constructor and a `partition_info` in calls, the v2 classes
neither. Convolutional orthogonal ones are in `orthogonal.py`.
"""
from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.graph.convert import constant, convert
from penstock._src.graph.random_seed import next_initializer_seed
from penstock._src.ops.random import random, stateless_random
from penstock._src.ops.registry import get

_TRUNCATED_STDDEV = .87962566103423978        # of a standard normal distribution cut off at two deviations


def _config_names(cls: type) -> list[str]:
    return [n for n in inspect.signature(cls).parameters if n not in ("dtype", "verify_shape")]


class Initializer:
    """The base of all initializers: conversion to and from configurations."""

    dtype: Any = None
    seed: int | None = None

    def _draw(self, kind: str, shape: Any, a: Any, b: Any, dtype: Any) -> Any:
        """Random values of a kind (random_uniform, random_normal, truncated_normal) with two parameters."""
        return getattr(random, kind)(shape, a, b, dtype, seed=self.seed)

    def _make(self, shape: Any, dtype: Any, full_shape: Any) -> Any:
        raise NotImplementedError

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
        dtype = self.dtype if dtype is None else dtypes.as_dtype(dtype)
        return self._make(shape, dtype, shape if partition_info is None else partition_info.full_shape)

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the initializer."""
        config = {n: getattr(self, n) for n in _config_names(type(self))}
        return {**config, "dtype": self.dtype.name} if self.dtype is not None else config

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """The initializer of a configuration."""
        return cls(**config)


class InitializerV2(Initializer):
    """An initializer of the v2 API: the dtype is an argument of the call alone."""

    _floating_only = True
    _given_seed: int | None = None              # drawn at the first call, if the process has seeds for initializers

    def __init_subclass__(cls) -> None:
        cls.__name__ = cls.__name__.removesuffix("V2")          # as configurations call it

    def _draw(self, kind: str, shape: Any, a: Any, b: Any, dtype: Any) -> Any:
        """Random values of a kind; with a seed, the same at each call."""
        seed = self.seed if self.seed is not None else self._given_seed
        if seed is None:
            seed = self._given_seed = next_initializer_seed()
        if seed is None:
            return super()._draw(kind, shape, a, b, dtype)
        name = "stateless_" + kind
        return getattr(stateless_random, name)(shape, [seed, 0], a, b, dtype)

    def __call__(self, shape: Any, dtype: Any = dtypes.float32, **kwargs: Any) -> Any:      # type: ignore[override]
        """Values of a shape; with `partition_shape`, of that part of it."""
        dtype = dtypes.as_dtype(dtype)
        known = ("partition_shape", "partition_offset", "layout")
        for name in kwargs:
            if name not in known:
                raise TypeError(f"Keyword argument should be one of {list(known)}. Received: {name}")
        part = kwargs.get("partition_shape")
        return self._make(shape if part is None else part, floating(dtype) if self._floating_only else dtype, shape)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """The initializer of a configuration."""
        return cls(**{k: v for k, v in config.items() if k != "dtype"})


def floating(dtype: Any) -> Any:
    """A dtype that must be a floating one."""
    dtype = dtypes.as_dtype(dtype)
    if not dtype.is_floating:
        raise ValueError(f"Expected floating point type, got {dtype}.")
    return dtype


def fans(shape: Any) -> tuple[int, int]:
    """Numbers of inputs and outputs of a unit, for a matrix or a convolution kernel of this shape."""
    shape = [int(d) for d in shape]
    if len(shape) < 2:
        n = shape[0] if shape else 1
        return n, n
    field = math.prod(shape[:-2])
    return shape[-2] * field, shape[-1] * field


def _filled(shape: Any, value: Any, dtype: Any) -> Any:
    dims = convert(shape, None if _is_tensor(shape) or len(shape) else dtypes.int32)
    return get("Fill")(dims, constant(value, dtype), name="zeros" if not value else "ones")


def _is_tensor(shape: Any) -> bool:
    return not isinstance(shape, (list, tuple)) and not hasattr(shape, "rank") or hasattr(shape, "op")


def _zero(dtype: Any) -> Any:
    return "" if dtype == dtypes.string else False if dtype.is_bool else 0


# -- constants --------------------------------------------------------------------------------------------------------
@export(v1=["initializers.zeros", "zeros_initializer"])
class Zeros(Initializer):
    """Zeros (False, empty strings).

    Args:
        dtype: Type of the values, unless the variable has another.

    >>> tf.zeros_initializer()([2]).numpy()
    array([0., 0.], dtype=float32)
    """

    def __init__(self, dtype: Any = dtypes.float32):
        self.dtype = dtypes.as_dtype(dtype)

    def _make(self, shape: Any, dtype: Any, full_shape: Any) -> Any:
        return _filled(shape, _zero(dtype), dtype)


@export(v2=["zeros_initializer", "initializers.zeros", "initializers.Zeros"])
class ZerosV2(InitializerV2):
    """Zeros (False, empty strings).

    >>> tf.keras.initializers.Zeros()([2], dtype=tf.float32).numpy()
    array([0., 0.], dtype=float32)
    """

    _floating_only = False
    _make = Zeros._make


@export(v1=["initializers.ones", "ones_initializer"])
class Ones(Initializer):
    """Ones (True).

    Args:
        dtype: Type of the values, unless the variable has another.

    >>> tf.ones_initializer()([2]).numpy()
    array([1., 1.], dtype=float32)
    """

    def __init__(self, dtype: Any = dtypes.float32):
        self.dtype = dtypes.as_dtype(dtype)

    def _make(self, shape: Any, dtype: Any, full_shape: Any) -> Any:
        return _filled(shape, True if dtype.is_bool else 1, dtype)


@export(v2=["ones_initializer", "initializers.ones", "initializers.Ones"])
class OnesV2(InitializerV2):
    """Ones (True).

    >>> tf.keras.initializers.Ones()([2], dtype=tf.float32).numpy()
    array([1., 1.], dtype=float32)
    """

    _floating_only = False

    def _make(self, shape: Any, dtype: Any, full_shape: Any) -> Any:
        if not (dtype.is_floating or dtype.is_complex or dtype.is_integer or dtype.is_bool):
            raise ValueError(f"Expected numeric or boolean dtype, got {dtype}.")
        return Ones._make(self, shape, dtype, full_shape)  # type: ignore[arg-type]


def _check_constant(value: Any) -> None:
    if not (np.isscalar(value) or isinstance(value, (list, tuple, np.ndarray))):
        raise TypeError(f"Invalid type for initial value: {value} of type: {type(value).__name__}. Expected Python scalar, "
                        "list or tuple of values, or numpy.ndarray.")


@export(v1=["initializers.constant", "constant_initializer"])
class Constant(Initializer):
    """A given value: one for all elements, or a list of them, of which the last is repeated.

    Args:
        value: Number, list or array.
        dtype: Type of the values, unless the variable has another.
        verify_shape: Whether the value must have the shape of the variable.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     w = tf.get_variable("w", [2, 2], initializer=tf.constant_initializer([1., 2., 3., 4.]))
    ...     sess.run(w.initializer)
    ...     print(sess.run(w))
    [[1. 2.]
     [3. 4.]]
    """

    def __init__(self, value: Any = 0, dtype: Any = dtypes.float32, verify_shape: bool = False):
        _check_constant(value)
        self.value, self.dtype, self._verify_shape = value, dtypes.as_dtype(dtype), verify_shape

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None, verify_shape: Any = None) -> Any:
        verify = self._verify_shape if verify_shape is None else verify_shape
        return constant(self.value, self.dtype if dtype is None else dtype, shape, verify_shape=verify)


@export(v2=["constant_initializer", "initializers.constant", "initializers.Constant"])
class ConstantV2(InitializerV2):
    """A given value: one for all elements, or an array of the variable's size."""

    def __init__(self, value: Any = 0):
        _check_constant(value)
        self.value = value

    def __call__(self, shape: Any, dtype: Any = None, **kwargs: Any) -> Any:                # type: ignore[override]
        part = kwargs.get("partition_shape")
        if part is not None and np.ndim(self.value):        # which part of the array is meant is not known here
            raise ValueError("Constant initializer doesn't support partition-related arguments")
        return constant(self.value, dtype, shape if part is None else part, broadcast=True)


# -- random values ----------------------------------------------------------------------------------------------------
@export(v1=["initializers.random_uniform", "random_uniform_initializer"])
class RandomUniform(Initializer):
    """Uniform values in [minval, maxval).

    Args:
        minval: Smallest value.
        maxval: End of the range, which is not included; 1 by default for floating-point types.
        seed: Seed of the operation. With the graph's seed it fixes the numbers drawn; by default they differ in every run.
        dtype: Type of the values, unless the variable has another.

    >>> with tf.Graph().as_default():
    ...     w = tf.get_variable("w", [3, 4], initializer=tf.random_uniform_initializer(-0.1, 0.1))
    >>> w.shape
    TensorShape([3, 4])
    """

    def __init__(self, minval: Any = 0, maxval: Any = None, seed: int | None = None, dtype: Any = dtypes.float32):
        self.minval, self.maxval, self.seed, self.dtype = minval, maxval, seed, dtypes.as_dtype(dtype)

    def _make(self, shape: Any, dtype: Any, full_shape: Any) -> Any:
        return self._draw("random_uniform", shape, self.minval, self.maxval, dtype)


@export(v2=["random_uniform_initializer", "initializers.RandomUniform"])
class RandomUniformV2(InitializerV2):
    """Uniform values in [minval, maxval).

    Args:
        minval: The smallest value.
        maxval: The limit, which is excluded.
        seed: An integer that makes the values repeatable.

    >>> values = tf.keras.initializers.RandomUniform(2.0, 3.0)([4])
    >>> print(bool(tf.reduce_all((values >= 2.0) & (values < 3.0))))
    True
    """

    _floating_only = False
    _make = RandomUniform._make

    def __init__(self, minval: Any = -0.05, maxval: Any = 0.05, seed: int | None = None):
        self.minval, self.maxval, self.seed = minval, maxval, seed

    def __call__(self, shape: Any, dtype: Any = dtypes.float32, **kwargs: Any) -> Any:      # type: ignore[override]
        dtype = dtypes.as_dtype(dtype)
        if not dtype.is_floating and not dtype.is_integer:
            raise ValueError(f"Expected float or integer dtype, got {dtype}.")
        return super().__call__(shape, dtype, **kwargs)


@export(v1=["initializers.random_normal", "random_normal_initializer"])
class RandomNormal(Initializer):
    """Normally distributed values.

    Args:
        mean: Mean of the distribution.
        stddev: Standard deviation.
        seed: Seed of the operation. With the graph's seed it fixes the numbers drawn; by default they differ in every run.
        dtype: Type of the values, unless the variable has another.

    >>> with tf.Graph().as_default():
    ...     w = tf.get_variable("w", [3, 4], initializer=tf.random_normal_initializer(stddev=0.1))
    >>> w.shape
    TensorShape([3, 4])
    """

    def __init__(self, mean: Any = 0.0, stddev: Any = 1.0, seed: int | None = None, dtype: Any = dtypes.float32):
        self.mean, self.stddev, self.seed, self.dtype = mean, stddev, seed, floating(dtype)

    def _make(self, shape: Any, dtype: Any, full_shape: Any) -> Any:
        return self._draw("random_normal", shape, self.mean, self.stddev, dtype)


@export(v2=["random_normal_initializer", "initializers.RandomNormal"])
class RandomNormalV2(InitializerV2):
    """Normally distributed values.

    Args:
        mean: Their mean.
        stddev: Their standard deviation.
        seed: An integer that makes the values repeatable.

    >>> tf.keras.initializers.RandomNormal(mean=5.0, stddev=0.0)([2]).numpy()
    array([5., 5.], dtype=float32)
    """

    _make = RandomNormal._make

    def __init__(self, mean: Any = 0.0, stddev: Any = 0.05, seed: int | None = None):
        self.mean, self.stddev, self.seed = mean, stddev, seed


@export(v1=["initializers.truncated_normal", "truncated_normal_initializer"])
class TruncatedNormal(Initializer):
    """Normally distributed values, without those beyond two standard deviations.

    Args:
        mean: Mean of the distribution.
        stddev: Standard deviation before truncation.
        seed: Seed of the operation. With the graph's seed it fixes the numbers drawn; by default they differ in every run.
        dtype: Type of the values, unless the variable has another.

    >>> with tf.Graph().as_default():
    ...     w = tf.get_variable("w", [3, 4], initializer=tf.truncated_normal_initializer(stddev=0.1))
    >>> w.shape
    TensorShape([3, 4])
    """

    def __init__(self, mean: Any = 0.0, stddev: Any = 1.0, seed: int | None = None, dtype: Any = dtypes.float32):
        self.mean, self.stddev, self.seed, self.dtype = mean, stddev, seed, floating(dtype)

    def _make(self, shape: Any, dtype: Any, full_shape: Any) -> Any:
        return self._draw("truncated_normal", shape, self.mean, self.stddev, dtype)


@export(v2=["initializers.TruncatedNormal"])
class TruncatedNormalV2(InitializerV2):
    """Normally distributed values, without those beyond two standard deviations.

    Args:
        mean: Mean of the distribution.
        stddev: Its standard deviation before values are left out.
        seed: A number that makes the values reproducible.

    >>> float(tf.reduce_max(tf.abs(tf.keras.initializers.TruncatedNormal(stddev=1.0, seed=1)([1000])))) <= 2
    True
    """

    _make = TruncatedNormal._make

    def __init__(self, mean: Any = 0.0, stddev: Any = 0.05, seed: int | None = None):
        self.mean, self.stddev, self.seed = mean, stddev, seed


@export(v1=["initializers.uniform_unit_scaling", "uniform_unit_scaling_initializer"])
class UniformUnitScaling(Initializer):
    """Uniform values that preserve the scale of the inputs."""

    def __init__(self, factor: float = 1.0, seed: int | None = None, dtype: Any = dtypes.float32):
        self.factor, self.seed, self.dtype = factor, seed, floating(dtype)

    def _make(self, shape: Any, dtype: Any, full_shape: Any) -> Any:
        limit = math.sqrt(3 / max(1.0, math.prod(float(d) for d in full_shape[:-1]))) * self.factor
        return random.random_uniform(shape, -limit, limit, dtype, seed=self.seed)


@export(v1=["initializers.variance_scaling", "variance_scaling_initializer"])
class VarianceScaling(Initializer):
    """Values whose variance is `scale` divided by the number of inputs, of outputs, or their mean.

    Args:
        scale: Factor of the variance.
        mode: `"fan_in"` (inputs), `"fan_out"` (outputs) or `"fan_avg"` (their mean).
        distribution: `"truncated_normal"`, `"untruncated_normal"` or `"uniform"`.
        seed: Seed of the operation. With the graph's seed it fixes the numbers drawn; by default they differ in every run.
        dtype: Floating-point type.

    >>> with tf.Graph().as_default():
    ...     w = tf.get_variable("w", [3, 4], initializer=tf.variance_scaling_initializer())
    >>> w.shape
    TensorShape([3, 4])
    """

    def __init__(self, scale: float = 1.0, mode: str = "fan_in", distribution: str = "truncated_normal",
                 seed: int | None = None, dtype: Any = dtypes.float32):
        if scale <= 0.:
            raise ValueError("`scale` must be positive float.")
        if mode not in ("fan_in", "fan_out", "fan_avg"):
            raise ValueError(f"Invalid `mode` argument: {mode!r}. Use 'fan_in', 'fan_out' or 'fan_avg'.")
        distribution = distribution.lower()
        if distribution not in ("normal", "uniform", "truncated_normal", "untruncated_normal"):
            raise ValueError(f"Invalid `distribution` argument: {distribution}")
        self.scale, self.mode, self.distribution = scale, mode, distribution
        self.seed, self.dtype = seed, floating(dtype)

    def _make(self, shape: Any, dtype: Any, full_shape: Any) -> Any:
        fan_in, fan_out = fans(full_shape)
        n = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2.}[self.mode]
        scale = self.scale / max(1., n)
        if self.distribution in ("normal", "truncated_normal"):
            return self._draw("truncated_normal", shape, 0.0, math.sqrt(scale) / _TRUNCATED_STDDEV, dtype)
        if self.distribution == "untruncated_normal":
            return self._draw("random_normal", shape, 0.0, math.sqrt(scale), dtype)
        limit = math.sqrt(3.0 * scale)
        return self._draw("random_uniform", shape, -limit, limit, dtype)


@export(v2=["initializers.VarianceScaling"])
class VarianceScalingV2(InitializerV2):
    """Values whose variance is `scale` divided by the number of inputs, of outputs, or their mean.

    Args:
        scale: Factor of the variance.
        mode: `"fan_in"` for the number of inputs, `"fan_out"` for outputs, `"fan_avg"` for their mean.
        distribution: `"truncated_normal"`, `"untruncated_normal"` or `"uniform"`.
        seed: A number that makes the values reproducible.

    Raises:
        ValueError: for a scale that is not positive, or an unknown mode or distribution.

    >>> tf.keras.initializers.VarianceScaling(2.0, seed=1)([4, 3]).shape
    TensorShape([4, 3])
    """

    _make = VarianceScaling._make

    def __init__(self, scale: float = 1.0, mode: str = "fan_in", distribution: str = "truncated_normal",
                 seed: int | None = None):
        VarianceScaling.__init__(self, scale, mode, distribution, seed)  # type: ignore[arg-type]
        self.dtype = None


@export(v1=["glorot_uniform_initializer", "initializers.glorot_uniform"])
class GlorotUniform(VarianceScaling):
    """Uniform values of variance 2 / (inputs + outputs), the default of layers.

    Args:
        seed: An integer that makes the values repeatable.

    >>> values = tf.keras.initializers.GlorotUniform(seed=1)([3, 3])
    >>> print(bool(tf.reduce_all(tf.abs(values) <= 1.0)))
    True
    """

    def __init__(self, seed: int | None = None, dtype: Any = dtypes.float32):
        super().__init__(1.0, "fan_avg", "uniform", seed, dtype)


@export(v1=["glorot_normal_initializer", "initializers.glorot_normal"])
class GlorotNormal(VarianceScaling):
    """Truncated normal values of variance 2 / (inputs + outputs).

    Args:
        seed: An integer that makes the values repeatable.

    >>> tf.keras.initializers.GlorotNormal(seed=1)([3, 2]).shape
    TensorShape([3, 2])
    """

    def __init__(self, seed: int | None = None, dtype: Any = dtypes.float32):
        super().__init__(1.0, "fan_avg", "truncated_normal", seed, dtype)


_SCALING = """Args:
    seed: An integer that makes the values repeatable.

>>> tf.keras.initializers.{}(seed=1)([3, 2]).shape
TensorShape([3, 2])"""


def _scaling(scale: float, mode: str, distribution: str, title: str, words: str) -> None:
    """The named members of the family: lecun_normal, he_uniform … (v1 functions, v2 classes)."""
    name = "".join(f"_{c.lower()}" if c.isupper() and i else c.lower() for i, c in enumerate(title))

    def make(seed: int | None = None) -> VarianceScaling:
        return VarianceScaling(scale, mode, distribution, seed)
    make.__name__, make.__doc__ = name, words

    def init(self: Any, seed: int | None = None) -> None:
        VarianceScalingV2.__init__(self, scale, mode, distribution, seed)
    made = type(title, (VarianceScalingV2,), {"__init__": init, "__doc__": f"{words}\n\n{_SCALING.format(title)}",
                                              "get_config": lambda self: {"seed": self.seed}})
    if not name.startswith("glorot"):
        export.value(make, v1=[f"initializers.{name}"])
    export.value(made, v2=[f"initializers.{name}", f"initializers.{title}"])


_scaling(1., "fan_in", "truncated_normal", "LecunNormal", "Truncated normal values of variance 1 / inputs.")
_scaling(1., "fan_in", "uniform", "LecunUniform", "Uniform values of variance 1 / inputs.")
_scaling(2., "fan_in", "truncated_normal", "HeNormal", "Truncated normal values of variance 2 / inputs.")
_scaling(2., "fan_in", "uniform", "HeUniform", "Uniform values of variance 2 / inputs.")
_scaling(1., "fan_avg", "truncated_normal", "GlorotNormal", "Truncated normal values of variance 2 / (inputs + outputs).")
_scaling(1., "fan_avg", "uniform", "GlorotUniform", "Uniform values of variance 2 / (inputs + outputs).")


# -- matrices ---------------------------------------------------------------------------------------------------------
def random_orthogonal(rows: int, columns: int, dtype: Any, seed: int | None) -> Any:
    """A random matrix with orthonormal columns (rows >= columns), uniformly distributed."""
    return orthogonal_from(random.random_normal([rows, columns], dtype=dtype, seed=seed))


def orthogonal_from(normal: Any) -> Any:
    """A matrix with orthonormal columns, from one of normally distributed values."""
    q, r = get("Qr")(normal, full_matrices=False)
    return get("Mul")(q, get("Sign")(get("MatrixDiagPart")(r)))


@export(v1=["initializers.orthogonal", "orthogonal_initializer"])
class Orthogonal(Initializer):
    """A matrix with orthonormal rows or columns, whichever are fewer; kernels are seen as [-1, last] matrices."""

    def __init__(self, gain: float = 1.0, seed: int | None = None, dtype: Any = dtypes.float32):
        self.gain, self.seed, self.dtype = gain, seed, floating(dtype)

    def _make(self, shape: Any, dtype: Any, full_shape: Any) -> Any:
        if len(shape) < 2:
            raise ValueError("The tensor to initialize must be at least two-dimensional. Received: "
                             f"shape={tuple(shape)} of rank {len(shape)}.")
        rows, columns = math.prod(int(d) for d in shape[:-1]), int(shape[-1])
        q = orthogonal_from(self._draw("random_normal", [max(rows, columns), min(rows, columns)], 0., 1., dtype))
        if rows < columns:
            q = get("Transpose")(q, [1, 0])
        return get("Mul")(constant(self.gain, dtype), get("Reshape")(q, [int(d) for d in shape]))


@export(v2=["initializers.Orthogonal", "initializers.orthogonal"])
class OrthogonalV2(InitializerV2):
    """A matrix with orthonormal rows or columns, whichever are fewer.

    Args:
        gain: Factor of the matrix.
        seed: A number that makes the values reproducible.

    Raises:
        ValueError: for a shape with fewer than two axes.

    >>> w = tf.keras.initializers.Orthogonal(seed=1)([3, 3])
    >>> round(float(tf.norm(w @ tf.transpose(w) - tf.eye(3))), 3)
    0.0
    """

    _make = Orthogonal._make

    def __init__(self, gain: float = 1.0, seed: int | None = None):
        self.gain, self.seed = gain, seed


@export(v1=["initializers.identity"])
class Identity(Initializer):
    """The identity matrix times `gain`."""

    def __init__(self, gain: float = 1.0, dtype: Any = dtypes.float32):
        self.gain, self.dtype = gain, floating(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
        whole = shape if partition_info is None else partition_info.full_shape
        made = self._make(whole, self.dtype if dtype is None else dtypes.as_dtype(dtype), whole)
        return made if partition_info is None else get("Slice")(made, list(partition_info.var_offset), list(shape))

    def _make(self, shape: Any, dtype: Any, full_shape: Any) -> Any:
        if len(shape) != 2:
            raise ValueError("Identity matrix initializer can only be used for 2D matrices. Received: "
                             f"shape={tuple(shape)} of rank {len(shape)}.")
        rows, columns = (int(d) for d in shape)
        return constant(np.eye(rows, columns) * self.gain, dtype)


@export(v2=["initializers.Identity", "initializers.identity"])
class IdentityV2(InitializerV2):
    """The identity matrix times `gain`.

    Args:
        gain: Factor of the matrix.

    Raises:
        ValueError: for a shape that is not a matrix.

    >>> tf.keras.initializers.Identity(2.0)([2, 2]).numpy().tolist()
    [[2.0, 0.0], [0.0, 2.0]]
    """

    _make = Identity._make

    def __init__(self, gain: float = 1.0):
        self.gain = gain
