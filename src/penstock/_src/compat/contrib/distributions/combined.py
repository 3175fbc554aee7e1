"""Distributions made of others: transformed, independent, mixed, quantized."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.compat.contrib.distributions.bijectors import Identity
from penstock._src.graph.node import Tensor
from penstock._src.library.distributions.distribution import NOT_REPARAMETERIZED, Distribution
from penstock.compat import v1 as tf


def _export(cls: type) -> type:
    return export(v1=[f"contrib.distributions.{cls.__name__}"])(cls)


@_export
class TransformedDistribution(Distribution):
    """The image of a distribution under a bijector.

    >>> ds.TransformedDistribution(ds.Normal(0., 1.), ds.bijectors.Exp()).prob(1.)     # log-normal
    """

    def __init__(self, distribution: Any, bijector: Any = None, batch_shape: Any = None, event_shape: Any = None,
                 validate_args: bool = False, name: str | None = None):
        bijector = bijector or Identity(validate_args=validate_args)
        name = name or ("" if bijector.name == "identity" else bijector.name) + distribution.name.rstrip("/")
        self._distribution, self._bijector = distribution, bijector
        self._given_batch = None if batch_shape is None else tf.TensorShape(tf.get_static_value(batch_shape) if tf.is_tensor(
            batch_shape) else batch_shape)
        self._given_event = None if event_shape is None else tf.TensorShape(tf.get_static_value(event_shape) if tf.is_tensor(
            event_shape) else event_shape)
        super().__init__(dtype=distribution.dtype, reparameterization_type=distribution.reparameterization_type,
                         validate_args=validate_args, allow_nan_stats=distribution.allow_nan_stats, name=name)

    distribution = property(lambda self: self._distribution)
    bijector = property(lambda self: self._bijector)

    def _base_event(self) -> TensorShape:
        return self._distribution.event_shape if self._given_event is None else self._given_event

    def _batch_shape(self) -> TensorShape:
        return self._distribution.batch_shape if self._given_batch is None else self._given_batch

    def _batch_shape_tensor(self) -> Tensor:
        return self._distribution.batch_shape_tensor()

    def _event_shape(self) -> TensorShape:
        return self._bijector.forward_event_shape(self._base_event())

    def _event_shape_tensor(self) -> Tensor:
        return self._bijector.forward_event_shape_tensor(self._distribution.event_shape_tensor())

    def _extra(self) -> list[int]:
        """What the base distribution draws more of, to fill shapes that were given."""
        given = [] if self._given_batch is None else self._given_batch.as_list()
        return given + ([] if self._given_event is None else self._given_event.as_list())

    def _sample_n(self, n: Any, seed: Any = None) -> Tensor:
        shape = tf.concat([[n], tf.constant(self._extra(), tf.int32)], 0)
        return self._bijector.forward(self._distribution.sample(shape, seed=seed))

    def _ndims(self) -> int:
        return max(self._bijector.inverse_min_event_ndims, self.event_shape.ndims)

    def _log_prob(self, y: Tensor) -> Tensor:
        x = self._bijector.inverse(y)
        log_prob = self._distribution.log_prob(x)
        if self._given_event is not None:
            log_prob = tf.reduce_sum(log_prob, list(range(-self._given_event.ndims, 0)))
        return log_prob + self._bijector.inverse_log_det_jacobian(y, self._ndims())

    def _monotonic(self, what: str, y: Tensor) -> Tensor:
        if self._given_event is not None or self.event_shape.ndims:
            raise NotImplementedError(f"{what} is not implemented when overriding event_shape")
        return getattr(self._distribution, what)(self._bijector.inverse(y))

    def _cdf(self, y: Tensor) -> Tensor:
        return self._monotonic("cdf", y)

    def _log_cdf(self, y: Tensor) -> Tensor:
        return self._monotonic("log_cdf", y)

    def _survival_function(self, y: Tensor) -> Tensor:
        return self._monotonic("survival_function", y)

    def _quantile(self, p: Tensor) -> Tensor:
        if self._given_event is not None:
            raise NotImplementedError("quantile is not implemented when overriding event_shape")
        return self._bijector.forward(self._distribution.quantile(p))

    def _mean(self) -> Tensor:
        if not self._bijector.is_constant_jacobian or self._given_event is not None:
            raise NotImplementedError("mean is not implemented for non-affine bijectors")
        return self._bijector.forward(self._distribution.mean())

    def _entropy(self) -> Tensor:
        if not self._bijector.is_constant_jacobian:
            raise NotImplementedError("entropy is not implemented")
        entropy = self._distribution.entropy()
        if self._given_event is not None:
            entropy = entropy * float(self._given_event.num_elements())
        zeros = tf.zeros(self.event_shape_tensor(), self.dtype)
        return entropy - self._bijector.inverse_log_det_jacobian(zeros, self._ndims())


@_export
class Independent(Distribution):
    """Takes batch dimensions of a distribution as dimensions of one event."""

    def __init__(self, distribution: Any, reinterpreted_batch_ndims: int | None = None, validate_args: bool = False,
                 name: str | None = None):
        if reinterpreted_batch_ndims is None:
            reinterpreted_batch_ndims = max(0, distribution.batch_shape.ndims - 1)
        self._distribution, self._count = distribution, int(reinterpreted_batch_ndims)
        if distribution.batch_shape.ndims is not None and self._count > distribution.batch_shape.ndims:
            raise ValueError(f"reinterpreted_batch_ndims({self._count}) cannot exceed distribution.batch_ndims("
                             f"{distribution.batch_shape.ndims})")
        super().__init__(dtype=distribution.dtype, reparameterization_type=distribution.reparameterization_type,
                         validate_args=validate_args, allow_nan_stats=distribution.allow_nan_stats,
                         name=name or "Independent" + distribution.name.rstrip("/"))

    distribution = property(lambda self: self._distribution)
    reinterpreted_batch_ndims = property(lambda self: self._count)

    def _batch_shape(self) -> TensorShape:
        shape = self._distribution.batch_shape
        return shape if shape.ndims is None else shape[:shape.ndims - self._count]

    def _batch_shape_tensor(self) -> Tensor:
        shape = self._distribution.batch_shape_tensor()
        return shape[:tf.size(shape) - self._count]

    def _event_shape(self) -> TensorShape:
        shape = self._distribution.batch_shape
        return TensorShape(None) if shape.ndims is None else shape[shape.ndims - self._count:].concatenate(
            self._distribution.event_shape)

    def _event_shape_tensor(self) -> Tensor:
        shape = self._distribution.batch_shape_tensor()
        return tf.concat([shape[tf.size(shape) - self._count:], self._distribution.event_shape_tensor()], 0)

    def _sum(self, x: Tensor) -> Tensor:
        return tf.reduce_sum(x, list(range(-self._count, 0))) if self._count else x

    def _sample_n(self, n: Any, seed: Any = None) -> Tensor:
        return self._distribution.sample(n, seed=seed)

    def _log_prob(self, x: Tensor) -> Tensor:
        return self._sum(self._distribution.log_prob(x))

    def _entropy(self) -> Tensor:
        return self._sum(self._distribution.entropy())

    def _mean(self) -> Tensor:
        return self._distribution.mean()

    def _variance(self) -> Tensor:
        return self._distribution.variance()

    def _stddev(self) -> Tensor:
        return self._distribution.stddev()

    def _mode(self) -> Tensor:
        return self._distribution.mode()


class _Mixed(Distribution):
    """The common part of mixtures; a derived class defines all components' values along axis -1 of the batch."""

    def _component_values(self, what: str, *args: Any) -> Tensor:
        raise NotImplementedError

    def _log_weights(self) -> Tensor:
        return tf.nn.log_softmax(self._cat.logits)

    def _log_prob(self, x: Tensor) -> Tensor:
        return tf.reduce_logsumexp(self._component_values("log_prob", x) + self._log_weights(), axis=-1)

    def _cdf(self, x: Tensor) -> Tensor:
        return tf.reduce_sum(self._component_values("cdf", x) * self._cat.probs, axis=-1)

    def _weighted(self, values: Tensor) -> Tensor:
        """The weighted sum over components, whose axis precedes the event."""
        ndims = self.event_shape.ndims
        weights = tf.reshape(self._cat.probs, tf.concat([tf.shape(self._cat.probs), [1] * ndims],
                                                        0)) if ndims else self._cat.probs
        return tf.reduce_sum(values * weights, axis=-1 - ndims)

    def _mean(self) -> Tensor:
        return self._weighted(self._component_values("mean"))

    def _variance(self) -> Tensor:
        mean = self._component_values("mean")
        between = tf.square(mean - tf.expand_dims(self._mean(), -1 - self.event_shape.ndims))
        return self._weighted(self._component_values("variance") + between)

    def _picked(self, samples: Tensor, n: Any, seed: Any) -> Tensor:
        """One component's sample for each: `samples` is [n, batch, components, event]."""
        ndims = self.event_shape.ndims
        chosen = tf.one_hot(self._cat.sample(n, seed=seed), self._cat.event_size, dtype=samples.dtype)
        chosen = tf.reshape(chosen, tf.concat([tf.shape(chosen), tf.ones([ndims], tf.int32)], 0))
        return tf.reduce_sum(samples * chosen, axis=-1 - ndims)


@_export
class MixtureSameFamily(_Mixed):
    """A mixture whose components are the last batch dimension of one distribution.

    >>> ds.MixtureSameFamily(ds.Categorical(probs=[0.3, 0.7]), ds.Normal([-1., 1.], [0.1, 0.5]))
    """

    def __init__(self, mixture_distribution: Any, components_distribution: Any, reparameterize: bool = False,
                 validate_args: bool = False, allow_nan_stats: bool = True, name: str = "MixtureSameFamily"):
        self._cat, self._components = mixture_distribution, components_distribution
        super().__init__(dtype=components_distribution.dtype, reparameterization_type=NOT_REPARAMETERIZED,
                         validate_args=validate_args, allow_nan_stats=allow_nan_stats, name=name)

    mixture_distribution = property(lambda self: self._cat)
    components_distribution = property(lambda self: self._components)

    def _batch_shape(self) -> TensorShape:
        return self._components.batch_shape[:-1]

    def _batch_shape_tensor(self) -> Tensor:
        return self._components.batch_shape_tensor()[:-1]

    def _event_shape(self) -> TensorShape:
        return self._components.event_shape

    def _event_shape_tensor(self) -> Tensor:
        return self._components.event_shape_tensor()

    def _component_values(self, what: str, *args: Any) -> Tensor:
        return getattr(self._components, what)(*(tf.expand_dims(a, -1 - self.event_shape.ndims) for a in args))

    def _sample_n(self, n: Any, seed: Any = None) -> Tensor:
        return self._picked(self._components.sample(n, seed=seed), n, None if seed is None else seed + 1)


@_export
class Mixture(_Mixed):
    """A mixture of several distributions with the same shapes."""

    def __init__(self, cat: Any, components: Any, validate_args: bool = False, allow_nan_stats: bool = True,
                 use_static_graph: bool = False, name: str = "Mixture"):
        if not isinstance(components, (list, tuple)) or not components:
            raise ValueError("components must be a non-empty list or tuple")
        dtype = components[0].dtype
        if any(c.dtype != dtype for c in components):
            raise TypeError(f"All components must have the same dtype, but saw dtypes: {[c.dtype for c in components]}")
        self._cat, self._components = cat, list(components)
        super().__init__(dtype=dtype, reparameterization_type=NOT_REPARAMETERIZED, validate_args=validate_args,
                         allow_nan_stats=allow_nan_stats, name=name)

    cat = property(lambda self: self._cat)
    components = property(lambda self: self._components)
    num_components = property(lambda self: len(self._components))

    def _batch_shape(self) -> TensorShape:
        return self._cat.batch_shape

    def _batch_shape_tensor(self) -> Tensor:
        return self._cat.batch_shape_tensor()

    def _event_shape(self) -> TensorShape:
        return self._components[0].event_shape

    def _event_shape_tensor(self) -> Tensor:
        return self._components[0].event_shape_tensor()

    def _component_values(self, what: str, *args: Any) -> Tensor:
        axis = -1 if args else -1 - self.event_shape.ndims
        return tf.stack([getattr(c, what)(*args) for c in self._components], axis=axis)

    def _sample_n(self, n: Any, seed: Any = None) -> Tensor:
        drawn = [c.sample(n, seed=None if seed is None else seed + i) for i, c in enumerate(self._components, 1)]
        return self._picked(tf.stack(drawn, axis=-1 - self.event_shape.ndims), n, seed)

    def entropy_lower_bound(self, name: str = "entropy_lower_bound") -> Tensor:
        """A bound from below: the weighted mean of the components' entropies."""
        with self._name_scope(name):
            return tf.reduce_sum(self._component_values("entropy") * self._cat.probs, -1)


@_export
class QuantizedDistribution(Distribution):
    """The smallest integer that is not less than a number of the base distribution, cut off at `low` and `high`."""

    def __init__(self, distribution: Any, low: Any = None, high: Any = None, validate_args: bool = False,
                 name: str = "QuantizedDistribution"):
        self._dist = distribution
        self._low = None if low is None else tf.cast(low, distribution.dtype)
        self._high = None if high is None else tf.cast(high, distribution.dtype)
        super().__init__(dtype=distribution.dtype, reparameterization_type=NOT_REPARAMETERIZED, validate_args=validate_args,
                         allow_nan_stats=distribution.allow_nan_stats, name=name)

    distribution = property(lambda self: self._dist)

    def _batch_shape(self) -> TensorShape:
        return self._dist.batch_shape

    def _batch_shape_tensor(self) -> Tensor:
        return self._dist.batch_shape_tensor()

    def _sample_n(self, n: Any, seed: Any = None) -> Tensor:
        x = tf.ceil(self._dist.sample(n, seed=seed))
        x = x if self._low is None else tf.maximum(x, self._low)
        return x if self._high is None else tf.minimum(x, self._high)

    def _cdf(self, y: Tensor) -> Tensor:
        j = tf.floor(y)
        p = self._dist.cdf(j)
        if self._low is not None:
            p = tf.where_v2(j < self._low, tf.zeros_like(p), p)
        return p if self._high is None else tf.where_v2(j < self._high, p, tf.ones_like(p))

    def _prob(self, y: Tensor) -> Tensor:
        return self._cdf(y) - self._cdf(y - 1.0)
