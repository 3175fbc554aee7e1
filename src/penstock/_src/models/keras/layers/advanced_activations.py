"""Activations with arguments, some of them learned, as layers."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.models.keras import backend as K
from penstock._src.models.keras.engine.base_layer import Layer
from penstock._src.models.keras.engine.input_spec import InputSpec
from penstock._src.models.keras.layers.parts import described, dims_of, read
from penstock.compat import v1 as tf


def _by_api(first: str, second: str) -> str:
    """A message in the words of 1.x or of 2.x."""
    return second if context.eager_outside_functions() else first


class _Activation(Layer):
    """A layer whose outputs have the shape of its inputs."""

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.supports_masking = True

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The inputs' shape."""
        return input_shape


@export("keras.layers.LeakyReLU")
class LeakyReLU(_Activation):
    """x where it is positive, else alpha * x.

    Args:
        alpha: Slope for negative inputs.
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.
    """

    def __init__(self, alpha: float = 0.3, **kwargs: Any):
        if "negative_slope" in kwargs:
            alpha = kwargs.pop("negative_slope")
        super().__init__(**kwargs)
        if alpha is None:
            raise ValueError(f"The alpha value of a Leaky ReLU layer cannot be None"
                             f"{_by_api(', needs a float. Got', '. Expecting a float. Received:')} {alpha}")
        self.alpha = K.cast_to_floatx(alpha)

    def call(self, inputs: Any) -> Any:
        """The activation."""
        return K.relu(inputs, alpha=float(self.alpha))

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        return {**super().get_config(), "alpha": float(self.alpha)}


@export("keras.layers.PReLU")
class PReLU(_Activation):
    """x where it is positive, else alpha * x, with a learned alpha for each element (the same along `shared_axes`).

    Args:
        alpha_initializer: Initializer of the slopes.
        alpha_regularizer: Function of the slopes whose result is added to the losses.
        alpha_constraint: Function applied to the slopes after each update.
        shared_axes: Axes along which the slope is shared, such as [1, 2] for images.
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.
    """

    alpha_constraint: Any
    alpha_initializer: Any
    alpha_regularizer: Any

    def __init__(self, alpha_initializer: Any = "zeros", alpha_regularizer: Any = None, alpha_constraint: Any = None,
                 shared_axes: Any = None, **kwargs: Any):
        super().__init__(**kwargs)
        read(self, alpha_initializer=alpha_initializer, alpha_regularizer=alpha_regularizer, alpha_constraint=alpha_constraint)
        self.shared_axes = shared_axes
        if shared_axes is not None:
            self.shared_axes = list(shared_axes) if isinstance(shared_axes, (list, tuple)) else [shared_axes]

    def build(self, input_shape: Any) -> None:
        """Makes alpha."""
        dims = dims_of(input_shape)
        shared = self.shared_axes or []
        shape = [1 if i in shared else d for i, d in enumerate(dims)][1:]
        self.alpha = self.add_weight(shape=shape, name="alpha", initializer=self.alpha_initializer,
                                     regularizer=self.alpha_regularizer, constraint=self.alpha_constraint)
        axes = {i: d for i, d in enumerate(dims) if i and i not in shared} if shared else {}
        self.input_spec = InputSpec(ndim=len(dims), axes=axes)
        super().build(input_shape)

    def call(self, inputs: Any) -> Any:
        """The activation."""
        return tf.nn.relu(inputs) - self.alpha * tf.nn.relu(-inputs)

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        return described(self, super().get_config(), ("alpha_initializer", "alpha_regularizer", "alpha_constraint",
                                                      "shared_axes"))


@export("keras.layers.ELU")
class ELU(_Activation):
    """x where it is positive, else alpha * (exp(x) - 1).

    Args:
        alpha: Factor for negative inputs.
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.
    """

    def __init__(self, alpha: float = 1.0, **kwargs: Any):
        super().__init__(**kwargs)
        if alpha is None:
            raise ValueError(f"Alpha of an ELU layer cannot be None, expecting a float. Received: {alpha}")
        self.alpha = K.cast_to_floatx(alpha)

    def call(self, inputs: Any) -> Any:
        """The activation."""
        return K.elu(inputs, float(self.alpha))

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        return {**super().get_config(), "alpha": float(self.alpha)}


@export("keras.layers.ThresholdedReLU")
class ThresholdedReLU(_Activation):
    """x where it is greater than theta, else 0.

    Args:
        theta: The threshold.
        **kwargs: Passed to the base class: `name`, `dtype`, `trainable`, `input_shape`.

    >>> tf.keras.layers.ThresholdedReLU(1.0)(tf.constant([[0.5, 2.]])).numpy().tolist()
    [[0.0, 2.0]]
    """

    def __init__(self, theta: float = 1.0, **kwargs: Any):
        super().__init__(**kwargs)
        if theta is None or theta < 0:
            raise ValueError(_by_api(
                f"Theta of a Thresholded ReLU layer cannot be None or negative, requires a float. Got {theta}",
                f"Theta of a Thresholded ReLU layer cannot be None, expecting a float. Received: {theta}" if theta is None else
                f"The theta value of a Thresholded ReLU layer should be >=0. Received: {theta}"))
        self.theta = K.cast_to_floatx(theta)

    def call(self, inputs: Any) -> Any:
        """The activation."""
        return inputs * tf.cast(tf.greater(inputs, tf.cast(float(self.theta), inputs.dtype)), inputs.dtype)

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        return {**super().get_config(), "theta": float(self.theta)}


@export("keras.layers.Softmax")
class Softmax(_Activation):
    """The softmax along `axis`; masked positions get zero.

    A call may pass a `mask`.

    Args:
        axis: Axis or axes to normalize over.
        robust_masking: Whether masked inputs are replaced by a large negative number, instead of being reduced by one.
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.
    """

    def __init__(self, axis: Any = -1, robust_masking: bool = False, **kwargs: Any):
        super().__init__(**kwargs)
        self.axis, self.robust_masking = axis, robust_masking

    def call(self, inputs: Any, mask: Any = None) -> Any:
        """The activation."""
        if mask is not None:
            inputs = self._masked(inputs, tf.convert_to_tensor(mask))
        axes = self.axis if isinstance(self.axis, (tuple, list)) else [self.axis]
        if not axes:
            raise IndexError(f"A softmax needs at least one axis, and there is none for inputs of shape {inputs.shape}.")
        if len(axes) > 1:
            return tf.exp(inputs - tf.reduce_logsumexp(inputs, axis=list(axes), keepdims=True))
        return tf.nn.softmax(inputs, axis=axes[0])

    def _masked(self, inputs: Any, mask: Any) -> Any:
        if K.ndim(mask) < K.ndim(inputs):
            mask = tf.reshape(mask, tf.concat([tf.shape(mask), [1] * (K.ndim(inputs) - K.ndim(mask))], 0))
        low = tf.float16.min / 2. if inputs.dtype.base_dtype == tf.float16 else -1e9        # with room for a sum
        if not self.robust_masking:
            return inputs + (1. - tf.cast(mask, inputs.dtype)) * low
        kept = mask if mask.dtype == tf.bool else tf.cast(mask, tf.float32) > 0.5
        return tf.where_v2(kept, inputs, tf.cast(low, inputs.dtype))

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        config = described(self, super().get_config(), ("axis",))
        return {**config, "robust_masking": True} if self.robust_masking else config


@export("keras.layers.ReLU")
class ReLU(_Activation):
    """max(x, 0), with a slope below the threshold and a bound above.

    Args:
        max_value: Upper bound of the output; none by default.
        negative_slope: Slope below the threshold.
        threshold: Inputs below are cut off.
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.
    """

    def __init__(self, max_value: Any = None, negative_slope: float = 0, threshold: float = 0, **kwargs: Any):
        super().__init__(**kwargs)
        if max_value is not None and max_value < 0.:
            raise ValueError(_by_api(f"max_value of Relu layer cannot be negative value: {max_value}",
                                     f"max_value of a ReLU layer cannot be a negative value. Received: {max_value}"))
        if negative_slope is None or negative_slope < 0.:
            raise ValueError(_by_api(f"negative_slope of Relu layer cannot be negative value: {negative_slope}",
                                     f"negative_slope of a ReLU layer cannot be a negative value. Received: {negative_slope}"))
        if threshold is None or threshold < 0. and context.eager_outside_functions():
            raise ValueError(_by_api(f"threshold of Relu layer cannot be None. Got: {threshold}",
                                     f"threshold of a ReLU layer cannot be a negative value. Received: {threshold}"))
        self.max_value = None if max_value is None else K.cast_to_floatx(max_value)
        self.negative_slope, self.threshold = K.cast_to_floatx(negative_slope), K.cast_to_floatx(threshold)

    def call(self, inputs: Any) -> Any:
        """The activation."""
        return K.relu(inputs, alpha=float(self.negative_slope), threshold=float(self.threshold),
                      max_value=None if self.max_value is None else float(self.max_value))

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        plain = (lambda v: v) if context.process.eager else float
        return {**super().get_config(), "max_value": None if self.max_value is None else plain(self.max_value),
                "negative_slope": plain(self.negative_slope), "threshold": plain(self.threshold)}
