"""Normalization of each example separately: LayerNormalization, GroupNormalization, UnitNormalization."""
from __future__ import annotations

from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.models.keras import backend as K
from penstock._src.models.keras.engine.base_layer import Layer
from penstock._src.models.keras.engine.input_spec import InputSpec
from penstock._src.models.keras.layers.parts import checked_axes, described, dims_of, read
from penstock.compat import v1 as tf

_AFFINE = ("center", "scale", "beta_initializer", "gamma_initializer", "beta_regularizer", "gamma_regularizer",
           "beta_constraint", "gamma_constraint")


class _Affine(Layer):
    """A layer with a scale (gamma) and an offset (beta), each if wanted."""

    center: Any
    scale: Any

    def _make_affine(self, shape: list) -> None:
        for name, wanted in (("gamma", self.scale), ("beta", self.center)):
            made = None
            if wanted:
                made = self.add_weight(name=name, shape=shape, initializer=getattr(self, f"{name}_initializer"),
                                       regularizer=getattr(self, f"{name}_regularizer"),
                                       constraint=getattr(self, f"{name}_constraint"), trainable=True,
                                       experimental_autocast=False)
            setattr(self, name, made)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The inputs' shape."""
        return input_shape


def _at_least_float32(inputs: Any) -> Any:
    return tf.cast(inputs, dtypes.float32) if inputs.dtype.base_dtype in (dtypes.float16, dtypes.bfloat16) else inputs


def _moments(inputs: Any, axes: list) -> tuple:
    """Mean and variance; of small floats as float32."""
    x = _at_least_float32(inputs)
    mean, variance = tf.nn.moments(x, axes, keep_dims=True)
    return x, mean, variance


@export("keras.layers.LayerNormalization")
class LayerNormalization(_Affine):
    """Each example with mean 0 and variance 1 over `axis`, scaled and shifted.

    Unlike batch normalization, it does the same in training and inference, and does not depend on the batch.

    Args:
        axis: Axis or axes to normalize over; usually the features.
        epsilon: Small number added to the variance.
        center: Whether to add a learned offset (beta).
        scale: Whether to multiply by a learned scale (gamma).
        beta_initializer: Initializer of the offset.
        gamma_initializer: Initializer of the scale.
        beta_regularizer: Function of the offset whose result is added to the losses.
        gamma_regularizer: Function of the scale whose result is added to the losses.
        beta_constraint: Function applied to the offset after each update.
        gamma_constraint: Function applied to the scale after each update.
        trainable: Whether training updates the weights.
        name: Name of the layer.
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.

    >>> tf.keras.layers.LayerNormalization(epsilon=1e-6)
    """

    axis: Any                           # one or several; a list once the layer is built
    beta: Any
    epsilon: Any
    gamma: Any

    def __init__(self, axis: Any = -1, epsilon: float = 0.001, center: bool = True, scale: bool = True,
                 beta_initializer: Any = "zeros", gamma_initializer: Any = "ones", beta_regularizer: Any = None,
                 gamma_regularizer: Any = None, beta_constraint: Any = None, gamma_constraint: Any = None,
                 trainable: bool = True, name: str | None = None, **kwargs: Any):
        super().__init__(name=name, trainable=trainable, **kwargs)
        if not isinstance(axis, (int, list, tuple)):
            raise (TypeError if context.process.eager else ValueError)(
                f"Expected an int or a list/tuple of ints for the argument 'axis', but received: {axis}")
        self.axis = axis if isinstance(axis, int) else list(axis)
        read(self, epsilon=epsilon, center=center, scale=scale, beta_initializer=beta_initializer,
             gamma_initializer=gamma_initializer, beta_regularizer=beta_regularizer, gamma_regularizer=gamma_regularizer,
             beta_constraint=beta_constraint, gamma_constraint=gamma_constraint)
        self.supports_masking = True

    def build(self, input_shape: Any) -> None:
        """Creates scale and offset."""
        shape = tf.TensorShape(input_shape)
        if shape.rank is None:
            raise ValueError(f"Input shape {input_shape} has undefined rank.")
        self.axis = axes = checked_axes(self.axis, shape.rank)
        self._make_affine([dims_of(shape)[a] for a in axes])
        super().build(input_shape)

    def call(self, inputs: Any) -> Any:
        """The inputs, normalized; of a RaggedTensor, with zeros at the ends of its rows."""
        if isinstance(inputs, tf.RaggedTensor):
            return tf.RaggedTensor.from_tensor(self.call(inputs.to_tensor()), inputs.nested_row_lengths())
        if self._compute_dtype and not inputs.dtype.is_floating:
            inputs = tf.cast(inputs, self._compute_dtype)
        rank = len(inputs.shape)
        x, mean, variance = _moments(inputs, self.axis)
        dims = dims_of(inputs.shape)

        def wide(v: Any) -> Any:
            if v is None or self.axis == [rank - 1]:
                return v
            if sorted(self.axis) != self.axis:
                order = sorted(range(len(self.axis)), key=self.axis.__getitem__)
                v = tf.transpose(v, order)
            return tf.reshape(v, [dims[i] if i in self.axis else 1 for i in range(rank)])
        scale, offset = wide(self.gamma), wide(self.beta)
        outputs = tf.nn.batch_normalization(x, mean, variance, None if offset is None else tf.cast(offset, x.dtype),
                                            None if scale is None else tf.cast(scale, x.dtype), self.epsilon)
        outputs = tf.cast(outputs, inputs.dtype)
        if not context.executing_eagerly():
            outputs.set_shape(inputs.shape)
        return outputs

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        return described(self, super().get_config(), ("axis", "epsilon", *_AFFINE))


@export(v2=["keras.layers.GroupNormalization"])
class GroupNormalization(_Affine):
    """Groups of channels of each example with mean 0 and variance 1, scaled and shifted.

    Args:
        groups: How many groups the channels form; -1 for one channel each.
        axis: The axis of channels.
        epsilon: Added to the variance.
        center: Whether to add `beta`.
        scale: Whether to multiply by `gamma`.
        beta_initializer: Initializer of `beta`.
        gamma_initializer: Initializer of `gamma`.
        beta_regularizer: Function of `beta` whose result is added to the losses.
        gamma_regularizer: Function of `gamma` whose result is added to the losses.
        beta_constraint: Function applied to `beta` after each update.
        gamma_constraint: Function applied to `gamma` after each update.
        **kwargs: Passed to the base class: `name`, `dtype`, `trainable`, `input_shape`.

    Raises:
        ValueError: if the channels do not divide into the groups.

    >>> tf.keras.layers.GroupNormalization(groups=2)(tf.ones([1, 4])).numpy().tolist()
    [[0.0, 0.0, 0.0, 0.0]]
    """

    axis: Any
    beta: Any
    center: Any
    epsilon: Any
    gamma: Any
    groups: Any
    scale: Any

    def __init__(self, groups: int = 32, axis: int = -1, epsilon: float = 1e-3, center: bool = True, scale: bool = True,
                 beta_initializer: Any = "zeros", gamma_initializer: Any = "ones", beta_regularizer: Any = None,
                 gamma_regularizer: Any = None, beta_constraint: Any = None, gamma_constraint: Any = None, **kwargs: Any):
        super().__init__(**kwargs)
        self.supports_masking = True
        read(self, groups=groups, axis=axis, epsilon=epsilon, center=center, scale=scale, beta_initializer=beta_initializer,
             gamma_initializer=gamma_initializer, beta_regularizer=beta_regularizer, gamma_regularizer=gamma_regularizer,
             beta_constraint=beta_constraint, gamma_constraint=gamma_constraint)

    def build(self, input_shape: Any) -> None:
        """Creates scale and offset."""
        dims = dims_of(input_shape)
        size = dims[checked_axes(self.axis, len(dims))[0]]
        if size is None:
            raise ValueError(f"Axis {self.axis} of input tensor should have a defined dimension but the layer received an "
                             f"input with shape {input_shape}.")
        if self.groups == -1:
            self.groups = size
        if size < self.groups:
            raise ValueError(f"Number of groups ({self.groups}) cannot be more than the number of channels ({size}).")
        if size % self.groups:                                      # the other way round, in the words of Keras
            raise ValueError(f"Number of groups ({self.groups}) must be a multiple of the number of channels ({size}).")
        self.input_spec = InputSpec(ndim=len(dims), axes={self.axis: size})
        self._make_affine([size])
        super().build(input_shape)

    def call(self, inputs: Any, mask: Any = None) -> Any:
        """The inputs, normalized; those where `mask` is false do not count in means and variances."""
        rank = len(inputs.shape)
        axis = self.axis % rank
        x = _at_least_float32(inputs)
        weights = None if mask is None else tf.broadcast_to(tf.cast(mask, x.dtype), tf.shape(x))
        mean = self._mean_of_groups(x, axis, weights)
        variance = self._mean_of_groups(tf.math.squared_difference(x, tf.stop_gradient(mean)), axis, weights)
        target = [1] * rank
        target[axis] = -1
        gamma = tf.cast(tf.reshape(self.gamma, target), x.dtype) if self.scale else None
        beta = tf.cast(tf.reshape(self.beta, target), x.dtype) if self.center else None
        x = tf.nn.batch_normalization(x, mean, variance, beta, gamma, self.epsilon)
        return tf.cast(x, inputs.dtype)

    def _mean_of_groups(self, x: Any, axis: int, weights: Any) -> Any:
        """For each example and channel the mean of the channel's group."""
        if weights is None:
            return self._of_groups(tf.reduce_mean, x, axis)
        return tf.math.divide_no_nan(self._of_groups(tf.reduce_sum, x * weights, axis),
                                     self._of_groups(tf.reduce_sum, weights, axis))

    def _of_groups(self, reduce: Any, x: Any, axis: int) -> Any:
        """For each example and channel the mean or sum of the channel's group. Channels come first: the large array is read
        along whole channels, and the arrays with an axis of groups are small."""
        rank = len(x.shape)
        channels = reduce(x, [i for i in range(1, rank) if i != axis], keepdims=True)
        sizes = K.mixed_shape(x)
        small = tf.reshape(channels, [sizes[0], self.groups, sizes[axis] // self.groups])
        wide = tf.broadcast_to(reduce(small, -1, keepdims=True), tf.shape(small))
        return tf.reshape(wide, tf.shape(channels))

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        return described(self, super().get_config(), ("groups", "axis", "epsilon", *_AFFINE))


@export(v2=["keras.layers.UnitNormalization"])
class UnitNormalization(Layer):
    """Each example divided by its Euclidean norm over `axis`.

    Args:
        axis: The axis, or axes, of the norm.
        **kwargs: Passed to the base class: `name`, `dtype`, `trainable`, `input_shape`.

    >>> tf.keras.layers.UnitNormalization()(tf.constant([[3., 4.]])).numpy().round(2).tolist()[0][0] > 0.59
    True
    """

    def __init__(self, axis: Any = -1, **kwargs: Any):
        super().__init__(**kwargs)
        if not isinstance(axis, (int, list, tuple)):
            raise TypeError("Invalid value for `axis` argument: expected an int or a list/tuple of ints. Received: "
                            f"axis={axis}")
        self.axis = list(axis) if isinstance(axis, (list, tuple)) else axis
        self.supports_masking = True

    def build(self, input_shape: Any) -> None:
        """Checks the axes."""
        checked_axes(self.axis, len(tf.TensorShape(input_shape)))
        super().build(input_shape)

    def call(self, inputs: Any) -> Any:
        """The inputs, divided."""
        return tf.nn.l2_normalize(inputs, axis=self.axis)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The inputs' shape."""
        return input_shape

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        return described(self, super().get_config(), ("axis",))
