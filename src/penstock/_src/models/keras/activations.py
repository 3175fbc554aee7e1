"""tf.keras.activations: functions that layers apply to their outputs, by name or themselves."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.models.keras import backend as K
from penstock._src.models.keras.utils.generic_utils import deserialize_keras_object, serialize_keras_object
from penstock.compat import v1 as tf


@export("keras.activations.softmax")
def softmax(x: Any, axis: Any = -1) -> Any:
    """The softmax along `axis`, or over several axes together; `x` has at least two axes.

    Args:
        x: A tensor.
        axis: An axis, or several of them.
    """
    rank = K.ndim(x)
    if isinstance(axis, (tuple, list)):
        return tf.exp(x - tf.reduce_logsumexp(x, axis=list(axis), keepdims=True))
    if rank == 1:
        raise ValueError(f"softmax needs at least two axes, got {x}")
    y = tf.nn.softmax(x, axis=axis)
    return K.keep_logits(y, x, "Softmax") if axis in (-1, (rank or 0) - 1) else y


@export("keras.activations.elu")
def elu(x: Any, alpha: float = 1.0) -> Any:
    """x where it is positive, else alpha * (exp(x) - 1)."""
    return K.elu(x, alpha)


@export("keras.activations.selu")
def selu(x: Any) -> Any:
    """The scaled exponential linear unit."""
    return tf.nn.selu(x)


@export("keras.activations.softplus")
def softplus(x: Any) -> Any:
    """log(1 + exp(x))."""
    return tf.nn.softplus(x)


@export("keras.activations.softsign")
def softsign(x: Any) -> Any:
    """x / (1 + |x|)."""
    return tf.nn.softsign(x)


@export(v2=["keras.activations.swish", "keras.activations.silu"])
def swish(x: Any) -> Any:
    """x * sigmoid(x)."""
    return tf.nn.swish(x)


@export(v2=["keras.activations.gelu"])
def gelu(x: Any, approximate: bool = False) -> Any:
    """x times the probability that a standard normal number is smaller than x."""
    x = tf.convert_to_tensor(x)
    if approximate:
        return 0.5 * x * (1. + tf.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))
    return 0.5 * x * (1. + tf.erf(x * 0.7071067811865476))


@export(v2=["keras.activations.mish"])
def mish(x: Any) -> Any:
    """x * tanh(softplus(x))."""
    return x * tf.tanh(tf.nn.softplus(x))


@export("keras.activations.relu")
def relu(x: Any, alpha: float = 0., max_value: Any = None, threshold: Any = 0) -> Any:
    """max(x, 0), with a slope below the threshold and a bound above.

    >>> tf.keras.activations.relu(tf.constant([-2., 1., 9.]), max_value=6)      # [0., 1., 6.]
    """
    return K.relu(x, alpha=alpha, max_value=max_value, threshold=threshold)


@export(v2=["keras.activations.relu6"])
def relu6(x: Any) -> Any:
    """x held between 0 and 6."""
    return tf.nn.relu6(x)


@export(v2=["keras.activations.leaky_relu"])
def leaky_relu(x: Any, negative_slope: float = 0.2) -> Any:
    """x where it is positive, else negative_slope * x."""
    return tf.nn.leaky_relu(x, alpha=negative_slope)


@export(v2=["keras.activations.log_softmax"])
def log_softmax(x: Any, axis: int = -1) -> Any:
    """The logarithm of the softmax."""
    return tf.nn.log_softmax(x, axis=axis)


@export("keras.activations.tanh")
def tanh(x: Any) -> Any:
    """The hyperbolic tangent."""
    return tf.nn.tanh(x)


@export("keras.activations.sigmoid")
def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x))."""
    return K.keep_logits(tf.nn.sigmoid(x), x, "Sigmoid")


@export("keras.activations.exponential")
def exponential(x: Any) -> Any:
    """exp(x)."""
    return tf.exp(x)


@export("keras.activations.hard_sigmoid")
def hard_sigmoid(x: Any) -> Any:
    """0.2 x + 0.5, held between 0 and 1."""
    return K.hard_sigmoid(x)


@export("keras.activations.linear")
def linear(x: Any) -> Any:
    """x."""
    return x


silu = swish
_NAMED = {f.__name__: f for f in (softmax, elu, selu, softplus, softsign, swish, gelu, mish, relu, relu6, leaky_relu,
                                  log_softmax, tanh, sigmoid, exponential, hard_sigmoid, linear)} | {"silu": silu}


@export("keras.activations.serialize")
def serialize(activation: Any, use_legacy_format: bool = False) -> Any:
    """The name (or configuration) of an activation."""
    name = getattr(activation, "__name__", None)
    if name is not None and name.removesuffix("_v2") in _NAMED:
        return name.removesuffix("_v2")
    return serialize_keras_object(activation)


@export("keras.activations.deserialize")
def deserialize(name: Any, custom_objects: Any = None, use_legacy_format: bool = False) -> Any:
    """The activation of a name or configuration."""
    if isinstance(name, dict) and name.get("class_name") not in _NAMED:             # a layer
        return tf.keras.layers.deserialize(name, custom_objects)
    return deserialize_keras_object(name, _NAMED, custom_objects, "activation function")


@export("keras.activations.get")
def get(identifier: Any) -> Any:
    """An activation: itself, or by its name; None is the linear one.

    >>> tf.keras.activations.get("relu")
    """
    if identifier is None:
        return linear
    if isinstance(identifier, (str, dict)):
        return deserialize(identifier)
    if callable(identifier):
        return identifier
    raise TypeError(f"Could not interpret activation function identifier: {identifier!r}")
