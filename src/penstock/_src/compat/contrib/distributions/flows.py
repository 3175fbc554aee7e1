"""Bijectors whose maps are networks: masked autoregressive flows, RealNVP, batch normalization."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from penstock._src.base.api import export
from penstock._src.compat.contrib.distributions.bijectors import Bijector
from penstock._src.graph.node import Tensor
from penstock.compat import v1 as tf


def _export(made: Any) -> Any:
    return export(v1=[f"contrib.distributions.bijectors.{made.__name__}"])(made)


# -- masked autoregressive flows --------------------------------------------------------------------------------------------
def _mask(num_blocks: int, n_in: int, n_out: int, exclusive: bool) -> np.ndarray:
    """A kernel's mask: outputs of a block see the inputs of blocks before it, and (unless `exclusive`) of their own."""
    blocks_in, blocks_out = n_in // num_blocks, n_out // num_blocks
    source, target = np.arange(n_in) // max(blocks_in, 1), np.arange(n_out) // max(blocks_out, 1)
    seen = source[:, None] < target if exclusive else source[:, None] <= target
    return (seen & (source < num_blocks)[:, None]).astype(np.float64)


@_export
def masked_dense(inputs: Any, units: int, num_blocks: int | None = None, exclusive: bool = False,
                 kernel_initializer: Any = None, reuse: Any = None, name: str | None = None, *args: Any, **kwargs: Any
                 ) -> Tensor:
    """A dense layer whose outputs of a block depend only on inputs of earlier blocks (and, unless `exclusive`, of this one)."""
    depth = inputs.shape.with_rank_at_least(1).as_list()[-1]
    if depth is None:
        raise NotImplementedError("The size of the last dimension must be known when the graph is built.")
    mask = _mask(num_blocks or depth, depth, units, exclusive)
    start = kernel_initializer or tf.glorot_normal_initializer()

    def masked(shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        return tf.constant(mask, dtype) * start(shape, dtype)
    with tf.name_scope(name, "masked_dense", [inputs]):
        layer = tf.layers.Dense(units, *args, kernel_initializer=masked, name=name, _reuse=reuse, _scope=name,
                                kernel_constraint=lambda w: tf.constant(mask, w.dtype.base_dtype) * w, **kwargs)
        return layer.apply(inputs)


def _clipped(x: Tensor, low: float, high: float, clip_gradient: bool) -> Tensor:
    """`x` within limits; the gradient passes unchanged unless `clip_gradient`."""
    clipped = tf.clip_by_value(x, low, high)
    return clipped if clip_gradient else x + tf.stop_gradient(clipped - x)


@_export
def masked_autoregressive_default_template(hidden_layers: Any, shift_only: bool = False, activation: Any = tf.nn.relu,
                                           log_scale_min_clip: float = -5.0, log_scale_max_clip: float = 3.0,
                                           log_scale_clip_gradient: bool = False, name: str | None = None, *args: Any,
                                           **kwargs: Any) -> Callable:
    """A template from vectors to a shift and a logarithm of a scale, where number k depends on those before it alone.

    Args:
        hidden_layers: Units of each hidden layer.
        shift_only: Whether to leave the scale out; it is None then.
        activation: Of hidden layers.
        log_scale_min_clip: The least logarithm of a scale.
        log_scale_max_clip: The largest logarithm of a scale.
        log_scale_clip_gradient: Whether gradients are zero beyond those limits.
        name: Of the template.
        args: For `masked_dense`.
        kwargs: For `masked_dense`.

    Returns:
        A function whose variables are made by its first call.
    """
    name = name or "masked_autoregressive_default_template"
    with tf.name_scope(name):
        def network(x: Any) -> tuple[Tensor, Tensor | None]:
            depth = x.shape.with_rank_at_least(1).as_list()[-1]
            if depth is None:
                raise NotImplementedError("The size of the last dimension must be known when the graph is built.")
            shape = tf.shape(x)
            out = x[tf.newaxis] if x.shape.ndims == 1 else x
            for i, units in enumerate(hidden_layers):
                out = masked_dense(out, units, depth, i == 0, activation=activation, *args, **kwargs)  # noqa: B026
            last = masked_dense(out, depth if shift_only else 2 * depth, depth, not hidden_layers, activation=None,
                                *args, **kwargs)  # noqa: B026
            if shift_only:
                return tf.reshape(last, shape), None
            pairs = tf.reshape(last, tf.concat([shape, [2]], 0))
            pairs.set_shape(x.shape.concatenate(2))
            shift, log_scale = tf.unstack(pairs, 2, axis=-1)
            return shift, _clipped(log_scale, log_scale_min_clip, log_scale_max_clip, log_scale_clip_gradient)
        return tf.make_template(name, network)


@_export
class MaskedAutoregressiveFlow(Bijector):
    """y = x * exp(log_scale(y)) + shift(y), where shift and scale of a number depend on the numbers of y before it.

    >>> flow = bijectors.MaskedAutoregressiveFlow(bijectors.masked_autoregressive_default_template([64, 64]))

    The inverse takes one call of the network, and `forward` one call for each number.
    """

    def __init__(self, shift_and_log_scale_fn: Callable, is_constant_jacobian: bool = False, validate_args: bool = False,
                 unroll_loop: bool = False, name: str | None = None):
        super().__init__(forward_min_event_ndims=1, is_constant_jacobian=is_constant_jacobian, validate_args=validate_args,
                         name=name or "masked_autoregressive_flow")
        self._shift_and_log_scale_fn, self._unroll_loop = shift_and_log_scale_fn, unroll_loop

    def _forward(self, x: Tensor) -> Tensor:
        def better(y: Tensor) -> Tensor:
            shift, log_scale = self._shift_and_log_scale_fn(y)
            y = x if log_scale is None else x * tf.exp(log_scale)
            return y if shift is None else y + shift
        count = x.shape.with_rank_at_least(1).as_list()[-1]
        if self._unroll_loop:
            if count is None:
                raise ValueError("The final dimension of `x` must be known at graph construction time if "
                                 f"`unroll_loop=True`. `x.shape: {x.shape}`")
            y = tf.zeros_like(x)
            for _ in range(count):
                y = better(y)
            return y
        total = tf.shape(x)[-1]
        return tf.while_loop(lambda i, _: i < total, lambda i, y: (i + 1, better(y)), (0, better(tf.zeros_like(x))))[1]

    def _inverse(self, y: Tensor) -> Tensor:
        shift, log_scale = self._shift_and_log_scale_fn(y)
        x = y if shift is None else y - shift
        return x if log_scale is None else x * tf.exp(-log_scale)

    def _inverse_log_det_jacobian(self, y: Tensor) -> Tensor:
        _, log_scale = self._shift_and_log_scale_fn(y)
        return tf.zeros([], y.dtype) if log_scale is None else -tf.reduce_sum(log_scale, axis=-1)


# -- RealNVP ----------------------------------------------------------------------------------------------------------------
@_export
def real_nvp_default_template(hidden_layers: Any, shift_only: bool = False, activation: Any = tf.nn.relu,
                              name: str | None = None, *args: Any, **kwargs: Any) -> Callable:
    """A template of dense layers from the numbers that stay to the shift and the logarithm of the scale of the others."""
    name = name or "real_nvp_default_template"
    with tf.name_scope(name):
        def network(x: Any, output_units: int) -> tuple[Tensor, Tensor | None]:
            vector = x.shape.ndims == 1
            out = x[tf.newaxis] if vector else x
            for units in hidden_layers:
                out = tf.layers.dense(out, units, activation, *args, **kwargs)
            out = tf.layers.dense(out, output_units if shift_only else 2 * output_units, None, *args, **kwargs)
            out = out[0] if vector else out
            if shift_only:
                return out, None
            shift, log_scale = tf.split(out, 2, axis=-1)
            return shift, log_scale
        return tf.make_template(name, network)


@_export
class RealNVP(Bijector):
    """The first `num_masked` numbers stay; the others are scaled and shifted by functions of those.

    >>> flow = bijectors.RealNVP(2, bijectors.real_nvp_default_template([64, 64]))
    """

    def __init__(self, num_masked: int, shift_and_log_scale_fn: Callable, is_constant_jacobian: bool = False,
                 validate_args: bool = False, name: str | None = None):
        super().__init__(forward_min_event_ndims=1, is_constant_jacobian=is_constant_jacobian, validate_args=validate_args,
                         name=name or "real_nvp")
        if num_masked <= 0:
            raise ValueError("num_masked must be a positive integer.")
        self._num_masked, self._shift_and_log_scale_fn = num_masked, shift_and_log_scale_fn

    def _parts(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        """The numbers that stay, the others, and the shift and the logarithm of the scale of these."""
        depth = x.shape.with_rank_at_least(1).as_list()[-1]
        if depth is None:
            raise NotImplementedError("The size of the last dimension must be known when the graph is built.")
        if self._num_masked >= depth:
            raise ValueError("Number of masked units must be smaller than the event size.")
        kept, rest = x[..., :self._num_masked], x[..., self._num_masked:]
        return kept, rest, *self._shift_and_log_scale_fn(kept, depth - self._num_masked)

    def _forward(self, x: Tensor) -> Tensor:
        kept, rest, shift, log_scale = self._parts(x)
        rest = rest if log_scale is None else rest * tf.exp(log_scale)
        return tf.concat([kept, rest if shift is None else rest + shift], -1)

    def _inverse(self, y: Tensor) -> Tensor:
        kept, rest, shift, log_scale = self._parts(y)
        rest = rest if shift is None else rest - shift
        return tf.concat([kept, rest if log_scale is None else rest * tf.exp(-log_scale)], -1)

    def _forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        log_scale = self._parts(x)[3]
        return tf.zeros([], x.dtype) if log_scale is None else tf.reduce_sum(log_scale, axis=-1)


# -- batch normalization ------------------------------------------------------------------------------------------------------
@_export
class BatchNormalization(Bijector):
    """The inverse of batch normalization: `inverse` normalizes, with the moments of the batch if `training`."""

    def __init__(self, batchnorm_layer: Any = None, training: bool = True, validate_args: bool = False,
                 name: str = "batch_normalization"):
        layer = batchnorm_layer or tf.layers.BatchNormalization(gamma_constraint=lambda x: tf.nn.relu(x) + 1e-6)
        if not isinstance(layer, tf.layers.BatchNormalization) and not isinstance(layer, tf.keras.layers.BatchNormalization):
            raise ValueError(f"batchnorm_layer must be an instance of BatchNormalization layer. Got {type(layer)}")
        if getattr(layer, "renorm", False):
            raise ValueError("BatchNorm Bijector does not support renormalization.")
        if getattr(layer, "virtual_batch_size", None):
            raise ValueError("BatchNorm Bijector does not support virtual batch sizes.")
        self.batchnorm, self._training = layer, training
        super().__init__(forward_min_event_ndims=1, validate_args=validate_args, name=name)

    def _axes(self, x: Tensor) -> tuple[list[int], list[int]]:
        """The axes over which moments are, and the shape of what is learned."""
        given = self.batchnorm.axis
        kept = [a % x.shape.ndims for a in (given if isinstance(given, (list, tuple)) else [given])]
        return [a for a in range(x.shape.ndims) if a not in kept], \
            [d if a in kept else 1 for a, d in enumerate(x.shape.as_list())]

    def _built(self, x: Tensor) -> None:
        if not self.batchnorm.built:
            self.batchnorm.build(x.shape)

    def _forward(self, x: Tensor) -> Tensor:
        self._built(x)
        layer, shape = self.batchnorm, self._axes(x)[1]
        deviation = tf.sqrt(tf.reshape(layer.moving_variance, shape) + layer.epsilon)
        x = x - tf.reshape(layer.beta, shape) if layer.center else x
        x = x / tf.reshape(layer.gamma, shape) if layer.scale else x
        return x * deviation + tf.reshape(layer.moving_mean, shape)

    def _inverse(self, y: Tensor) -> Tensor:
        self._built(y)
        return self.batchnorm(y, training=self._training)

    def _inverse_log_det_jacobian(self, y: Tensor) -> Tensor:
        self._built(y)
        layer = self.batchnorm
        variance = tf.nn.moments(y, self._axes(y)[0])[1] if self._training else layer.moving_variance
        total = -0.5 * tf.reduce_sum(tf.log(variance + layer.epsilon))
        return total + tf.reduce_sum(tf.log(layer.gamma)) if layer.scale else total
