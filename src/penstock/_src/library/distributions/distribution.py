"""The base class of distributions.

A distribution has parameters, which broadcast against each other to its batch shape, and events of an event shape. A derived
class lists its parameters with `Parameter`, and defines the formulas as `_log_prob`, `_sample_n` and so on; of pairs (`prob`
and `log_prob`, `variance` and `stddev`, ...) only one is needed. The public methods convert their arguments,
open name scopes, and put the sample shape in front.
"""
from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph.node import Tensor
from penstock._src.library.distributions.checks import checked
from penstock._src.library.distributions.divergence import cross_entropy, kl_divergence
from penstock.compat import v1 as tf


@export(v1=["distributions.ReparameterizationType"])
class ReparameterizationType:
    """Whether samples of a distribution are differentiable in its parameters."""

    def __init__(self, rep_type: str):
        self._rep_type = rep_type

    def __repr__(self) -> str:
        return f"<Reparameteriation Type: {self._rep_type}>"

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__


FULLY_REPARAMETERIZED = ReparameterizationType("FULLY_REPARAMETERIZED")
NOT_REPARAMETERIZED = ReparameterizationType("NOT_REPARAMETERIZED")
export.value(FULLY_REPARAMETERIZED, v1=["distributions.FULLY_REPARAMETERIZED"])
export.value(NOT_REPARAMETERIZED, v1=["distributions.NOT_REPARAMETERIZED"])


class Parameter:
    """A parameter of a distribution, read as an attribute; its last `event_rank` dimensions belong to the event."""

    def __init__(self, doc: str, event_rank: int | None = 0):
        self.__doc__, self.event_rank = doc, event_rank

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, obj: Any, owner: type | None = None) -> Any:
        return self if obj is None else obj._values[self.name]

    def __set__(self, obj: Any, value: Any) -> None:
        raise AttributeError(f"{self.name} of a distribution cannot be changed; create another with copy()")


def _signature(cls: type) -> inspect.Signature:
    """The signature of the class is that of `__init__`; `__new__` only records the arguments."""
    signature = inspect.signature(cls.__init__)          # type: ignore[misc]
    return signature.replace(parameters=list(signature.parameters.values())[1:])


@export(v1=["distributions.Distribution"])
class Distribution:
    """A (batch of) probability distributions.

    >>> tf.distributions.Normal(loc=[0., 1.], scale=1.).log_prob(0.5)
    """

    __signature__: ClassVar[inspect.Signature]
    _made_with: Any
    _values: dict[str, Any]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.__signature__ = _signature(cls)

    def __new__(cls, *args: Any, **kwargs: Any) -> Distribution:
        self = super().__new__(cls)
        self._made_with = (args, kwargs)
        self._values = {}
        return self

    def __init__(self, dtype: Any, reparameterization_type: Any, validate_args: bool, allow_nan_stats: bool,
                 parameters: dict | None = None, graph_parents: Any = None, name: str | None = None):
        for i, t in enumerate(graph_parents or ()):
            if t is None or not tf.is_tensor(t):
                raise ValueError(f"Graph parent item {i} is not a Tensor; {t}.")
        if not name or name[-1] != "/":
            with tf.name_scope(name or type(self).__name__) as name:
                pass
        self._dtype, self._reparameterization_type, self._name = dtype, reparameterization_type, name
        self._allow_nan_stats, self._validate_args = allow_nan_stats, validate_args
        self._given, self._graph_parents = parameters, list(graph_parents or ())

    def _set(self, name: str, validate_args: bool, allow_nan_stats: bool, reparameterized: Any = NOT_REPARAMETERIZED,
             dtype: Any = None, positive: tuple[str, ...] = (), checks: Any = (), **values: Any) -> None:
        """The common part of constructors: converts the parameters to one floating type, with their checks."""
        typed = any(tf.is_tensor(v) or isinstance(v, (np.ndarray, np.generic)) for v in values.values())
        known = next((tf.as_dtype(v.dtype).base_dtype for v in values.values() if tf.is_tensor(v)),
                     None if typed else tf.float32)
        for key, value in values.items():
            value = tf.convert_to_tensor(value, name=key, preferred_dtype=known)
            asserts = [tf.assert_positive(value)] if validate_args and key in positive else []
            values[key] = checked(value, *asserts) if asserts else tf.identity(value, name=key)
        tf.debugging.assert_same_float_dtype(list(values.values()))
        self._values.update(values)
        first = next(iter(values.values()))
        Distribution.__init__(self, dtype=dtype or first.dtype.base_dtype, reparameterization_type=reparameterized,
                              validate_args=validate_args, allow_nan_stats=allow_nan_stats,
                              graph_parents=list(values.values()), name=name)

    # What it is.

    name = property(lambda self: self._name, doc="The name scope of its operations, with a slash.")
    dtype = property(lambda self: self._dtype, doc="The type of its samples.")
    allow_nan_stats = property(lambda self: self._allow_nan_stats, doc="Whether an undefined statistic is NaN, not an error.")
    validate_args = property(lambda self: self._validate_args, doc="Whether parameters and arguments are checked.")
    reparameterization_type = property(lambda self: self._reparameterization_type,
                                       doc="Whether samples are differentiable in the parameters.")

    @property
    def parameters(self) -> dict[str, Any]:
        """The arguments that it was created with."""
        if self._given is not None:
            return {k: v for k, v in self._given.items() if k not in ("self", "__class__") and not k.startswith("__")}
        args, kwargs = self._made_with
        bound = inspect.signature(type(self).__init__).bind(self, *args, **kwargs)
        bound.apply_defaults()
        found = dict(list(bound.arguments.items())[1:])
        found.update(found.pop("kwargs", {}))
        return found

    @property
    def _parameters(self) -> dict[str, Any] | None:
        return self._given

    @_parameters.setter
    def _parameters(self, value: dict[str, Any] | None) -> None:
        self._given = value

    def copy(self, **override_parameters_kwargs: Any) -> Distribution:
        """A copy with some arguments replaced."""
        return type(self)(**dict(self.parameters, **override_parameters_kwargs))

    @classmethod
    def _declared(cls) -> dict[str, Parameter]:
        return {n: p for c in reversed(cls.__mro__) for n, p in vars(c).items() if isinstance(p, Parameter)}

    @classmethod
    def param_shapes(cls, sample_shape: Any, name: str = "DistributionParamShapes") -> dict[str, Tensor]:
        """The shapes of parameters for which samples have `sample_shape`."""
        with tf.name_scope(name, values=[sample_shape]):
            return cls._param_shapes(sample_shape)

    @classmethod
    def param_static_shapes(cls, sample_shape: Any) -> dict[str, TensorShape]:
        """The same, as static shapes."""
        if isinstance(sample_shape, TensorShape):
            if not sample_shape.is_fully_defined():
                raise ValueError("TensorShape sample_shape must be fully defined")
            sample_shape = sample_shape.as_list()
        static = {}
        for name, shape in cls.param_shapes(sample_shape).items():
            value = tf.get_static_value(shape)
            if value is None:
                raise ValueError("sample_shape must be a fully-defined TensorShape or list/tuple")
            static[name] = TensorShape(value)
        return static

    @classmethod
    def _param_shapes(cls, sample_shape: Any) -> dict[str, Tensor]:
        declared = cls._declared()
        if not declared or any(p.event_rank for p in declared.values()):
            raise NotImplementedError("_param_shapes not implemented")
        shape = tf.convert_to_tensor(sample_shape, dtype=tf.int32)
        return {name: shape for name in declared}

    # Shapes.

    def _batch_shape_tensor(self) -> Tensor:
        shape = None
        for name, p in self._declared().items():
            if name in self._values and p.event_rank is not None:
                mine = tf.shape(self._values[name])
                mine = mine[:-p.event_rank] if p.event_rank else mine
                shape = mine if shape is None else tf.broadcast_dynamic_shape(shape, mine)
        if shape is None:
            raise NotImplementedError(f"batch_shape_tensor is not implemented: {type(self).__name__}")
        return shape

    def batch_shape_tensor(self, name: str = "batch_shape_tensor") -> Tensor:
        """The batch shape: the number of distributions."""
        with self._name_scope(name):
            if self.batch_shape.is_fully_defined():
                return tf.convert_to_tensor(self.batch_shape.as_list(), dtype=tf.int32, name="batch_shape")
            return self._batch_shape_tensor()

    def _batch_shape(self) -> TensorShape:
        shape = None
        for name, p in self._declared().items():
            if name in self._values and p.event_rank is not None:
                mine = self._values[name].shape
                mine = mine[:-p.event_rank] if p.event_rank and mine.ndims is not None else mine
                shape = mine if shape is None else tf.broadcast_static_shape(shape, mine)
        return TensorShape(None) if shape is None else shape

    @property
    def batch_shape(self) -> TensorShape:
        """The static batch shape."""
        return TensorShape(self._batch_shape())

    def _event_shape_tensor(self) -> Tensor:
        return tf.constant([], dtype=tf.int32)

    def event_shape_tensor(self, name: str = "event_shape_tensor") -> Tensor:
        """The shape of one event."""
        with self._name_scope(name):
            if self.event_shape.is_fully_defined():
                return tf.convert_to_tensor(self.event_shape.as_list(), dtype=tf.int32, name="event_shape")
            return self._event_shape_tensor()

    def _event_shape(self) -> TensorShape:
        return TensorShape([])

    @property
    def event_shape(self) -> TensorShape:
        """The static event shape."""
        return TensorShape(self._event_shape())

    def is_scalar_event(self, name: str = "is_scalar_event") -> Tensor:
        """Whether events are scalars."""
        with self._name_scope(name):
            return self._is_scalar(self.event_shape, self.event_shape_tensor, "is_scalar_event")

    def is_scalar_batch(self, name: str = "is_scalar_batch") -> Tensor:
        """Whether this is one distribution, not a batch."""
        with self._name_scope(name):
            return self._is_scalar(self.batch_shape, self.batch_shape_tensor, "is_scalar_batch")

    @staticmethod
    def _is_scalar(static: TensorShape, dynamic: Any, name: str) -> Tensor:
        if static.ndims is not None:
            return tf.convert_to_tensor(static.ndims == 0, name=name)
        return tf.equal(tf.size(dynamic()), 0, name=name)

    # Samples.

    def _sample_n(self, n: Any, seed: Any = None) -> Tensor:
        raise NotImplementedError(f"sample_n is not implemented: {type(self).__name__}")

    def _call_sample_n(self, sample_shape: Any, seed: Any, name: str, **kwargs: Any) -> Tensor:
        with self._name_scope(name, [sample_shape]):
            sample_shape = tf.convert_to_tensor(sample_shape, dtype=tf.int32, name="sample_shape")
            sample_shape, n = self._as_vector(sample_shape)
            samples = self._sample_n(n, seed, **kwargs)
            samples = tf.reshape(samples, tf.concat([sample_shape, tf.shape(samples)[1:]], 0))
            return self._with_sample_shape(samples, sample_shape)

    def sample(self, sample_shape: Any = (), seed: Any = None, name: str = "sample", **kwargs: Any) -> Tensor:
        """Samples of shape `sample_shape + batch_shape + event_shape`."""
        return self._call_sample_n(sample_shape, seed, name, **kwargs)

    @staticmethod
    def _as_vector(x: Tensor) -> tuple[Tensor, Tensor]:
        """A sample shape as a vector, and how many samples it requests."""
        static = tf.get_static_value(x)
        count = tf.reduce_prod(x) if static is None else tf.constant(int(np.prod(static)), tf.int32)
        if x.shape.ndims is None:
            return tf.reshape(x, [-1]), count
        if x.shape.ndims > 1:
            raise ValueError("The sample shape must be a scalar or a vector.")
        return (tf.reshape(x, [1]) if x.shape.ndims == 0 else x), count

    def _with_sample_shape(self, x: Tensor, sample_shape: Tensor) -> Tensor:
        value = tf.get_static_value(sample_shape)
        dims = sample_shape.static_dims
        front = TensorShape(value) if value is not None else TensorShape([None] * dims[0]) \
            if dims is not None and len(dims) == 1 and dims[0] is not None else TensorShape(None)
        x.set_shape(front.concatenate(self.batch_shape).concatenate(self.event_shape))
        return x

    # Functions of a value. Each can be computed from its counterpart.

    def _either(self, name: str, value: Any, first: str, second: str, through: Any, kwargs: dict) -> Tensor:
        with self._name_scope(name, [value]):
            value = self._value(value)
            try:
                return getattr(self, first)(value, **kwargs)
            except NotImplementedError as missing:
                try:
                    return through(getattr(self, second)(value, **kwargs))
                except NotImplementedError:
                    raise missing from None

    def _value(self, value: Any) -> Tensor:
        return tf.convert_to_tensor(value, name="value", preferred_dtype=self.dtype)

    def _absent(self, what: str) -> NotImplementedError:
        return NotImplementedError(f"{what} is not implemented: {type(self).__name__}")

    def _log_prob(self, value: Tensor) -> Tensor:
        raise self._absent("log_prob")

    def _call_log_prob(self, value: Any, name: str, **kwargs: Any) -> Tensor:
        return self._either(name, value, "_log_prob", "_prob", tf.log, kwargs)

    def log_prob(self, value: Any, name: str = "log_prob", **kwargs: Any) -> Tensor:
        """The logarithm of the density or mass at `value`."""
        return self._call_log_prob(value, name, **kwargs)

    def _prob(self, value: Tensor) -> Tensor:
        raise self._absent("prob")

    def _call_prob(self, value: Any, name: str, **kwargs: Any) -> Tensor:
        return self._either(name, value, "_prob", "_log_prob", tf.exp, kwargs)

    def prob(self, value: Any, name: str = "prob", **kwargs: Any) -> Tensor:
        """The density or mass at `value`."""
        return self._call_prob(value, name, **kwargs)

    def _log_cdf(self, value: Tensor) -> Tensor:
        raise self._absent("log_cdf")

    def _call_log_cdf(self, value: Any, name: str, **kwargs: Any) -> Tensor:
        return self._either(name, value, "_log_cdf", "_cdf", tf.log, kwargs)

    def log_cdf(self, value: Any, name: str = "log_cdf", **kwargs: Any) -> Tensor:
        """The logarithm of the probability of at most `value`."""
        return self._call_log_cdf(value, name, **kwargs)

    def _cdf(self, value: Tensor) -> Tensor:
        raise self._absent("cdf")

    def _call_cdf(self, value: Any, name: str, **kwargs: Any) -> Tensor:
        return self._either(name, value, "_cdf", "_log_cdf", tf.exp, kwargs)

    def cdf(self, value: Any, name: str = "cdf", **kwargs: Any) -> Tensor:
        """The probability of at most `value`."""
        return self._call_cdf(value, name, **kwargs)

    def _log_survival_function(self, value: Tensor) -> Tensor:
        raise self._absent("log_survival_function")

    def _call_log_survival_function(self, value: Any, name: str, **kwargs: Any) -> Tensor:
        return self._either(name, value, "_log_survival_function", "_full_cdf", lambda p: tf.log1p(-p), kwargs)

    def log_survival_function(self, value: Any, name: str = "log_survival_function", **kwargs: Any) -> Tensor:
        """The logarithm of the probability of more than `value`."""
        return self._call_log_survival_function(value, name, **kwargs)

    def _survival_function(self, value: Tensor) -> Tensor:
        raise self._absent("survival_function")

    def _call_survival_function(self, value: Any, name: str, **kwargs: Any) -> Tensor:
        return self._either(name, value, "_survival_function", "_full_cdf", lambda p: 1.0 - p, kwargs)

    def survival_function(self, value: Any, name: str = "survival_function", **kwargs: Any) -> Tensor:
        """The probability of more than `value`."""
        return self._call_survival_function(value, name, **kwargs)

    def _full_cdf(self, value: Tensor, **kwargs: Any) -> Tensor:
        return self.cdf(value, **kwargs)

    def _quantile(self, value: Tensor) -> Tensor:
        raise self._absent("quantile")

    def _call_quantile(self, value: Any, name: str, **kwargs: Any) -> Tensor:
        with self._name_scope(name, [value]):
            return self._quantile(self._value(value), **kwargs)

    def quantile(self, value: Any, name: str = "quantile", **kwargs: Any) -> Tensor:
        """The inverse of `cdf`."""
        return self._call_quantile(value, name, **kwargs)

    # Statistics.

    def _entropy(self) -> Tensor:
        raise self._absent("entropy")

    def entropy(self, name: str = "entropy", **kwargs: Any) -> Tensor:
        """The Shannon entropy, in nats."""
        with self._name_scope(name):
            return self._entropy(**kwargs)

    def _mean(self) -> Tensor:
        raise self._absent("mean")

    def mean(self, name: str = "mean", **kwargs: Any) -> Tensor:
        """The mean."""
        with self._name_scope(name):
            return self._mean(**kwargs)

    def _variance(self) -> Tensor:
        raise self._absent("variance")

    def variance(self, name: str = "variance", **kwargs: Any) -> Tensor:
        """The variance, for each component of an event."""
        with self._name_scope(name):
            try:
                return self._variance(**kwargs)
            except NotImplementedError as missing:
                try:
                    return tf.square(self._stddev(**kwargs))
                except NotImplementedError:
                    raise missing from None

    def _stddev(self) -> Tensor:
        raise self._absent("stddev")

    def stddev(self, name: str = "stddev", **kwargs: Any) -> Tensor:
        """The standard deviation, for each component of an event."""
        with self._name_scope(name):
            try:
                return self._stddev(**kwargs)
            except NotImplementedError as missing:
                try:
                    return tf.sqrt(self._variance(**kwargs))
                except NotImplementedError:
                    raise missing from None

    def _covariance(self) -> Tensor:
        raise self._absent("covariance")

    def covariance(self, name: str = "covariance", **kwargs: Any) -> Tensor:
        """The covariance between the components of an event."""
        with self._name_scope(name):
            return self._covariance(**kwargs)

    def _mode(self) -> Tensor:
        raise self._absent("mode")

    def mode(self, name: str = "mode", **kwargs: Any) -> Tensor:
        """The most likely event."""
        with self._name_scope(name):
            return self._mode(**kwargs)

    def _cross_entropy(self, other: Distribution) -> Tensor:
        return cross_entropy(self, other, allow_nan_stats=self.allow_nan_stats)

    def cross_entropy(self, other: Distribution, name: str = "cross_entropy") -> Tensor:
        """The cross entropy of `other` relative to this one."""
        with self._name_scope(name):
            return self._cross_entropy(other)

    def _kl_divergence(self, other: Distribution) -> Tensor:
        return kl_divergence(self, other, allow_nan_stats=self.allow_nan_stats)

    def kl_divergence(self, other: Distribution, name: str = "kl_divergence") -> Tensor:
        """The Kullback-Leibler divergence of `other` from this one."""
        with self._name_scope(name):
            return self._kl_divergence(other)

    def _undefined(self, value: Tensor, where_defined: Tensor, assertion: Any) -> Tensor:
        """A statistic that only some members of a batch have: NaN for the others, or an error (`allow_nan_stats=False`)."""
        if self.allow_nan_stats:
            nan = tf.fill(self.batch_shape_tensor(), np.array(np.nan, self.dtype.as_numpy_dtype), name="nan")
            return tf.where_v2(where_defined, value, nan)
        return checked(value, assertion())

    def __str__(self) -> str:
        parts = [f'"{self.name}"']
        if self.batch_shape.ndims is not None:
            parts.append(f"batch_shape={self.batch_shape}")
        if self.event_shape.ndims is not None:
            parts.append(f"event_shape={self.event_shape}")
        return f"tfp.distributions.{type(self).__name__}({', '.join(parts)}, dtype={tf.as_dtype(self.dtype).name})"

    def __repr__(self) -> str:
        return (f"<tfp.distributions.{type(self).__name__} '{self.name}' batch_shape={self.batch_shape} "
                f"event_shape={self.event_shape} dtype={tf.as_dtype(self.dtype).name}>")

    @contextlib.contextmanager
    def _name_scope(self, name: str | None = None, values: Any = None) -> Iterator[str]:
        with tf.name_scope(self.name), tf.name_scope(name, values=(values or []) + self._graph_parents) as scope:
            yield scope


Distribution.__signature__ = _signature(Distribution)
