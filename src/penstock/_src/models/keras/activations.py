"""tf.keras.activations: functions that layers apply to their outputs, by name or themselves."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.models.keras import backend as K
from penstock._src.models.keras.utils.generic_utils import deserialize_keras_object
from penstock._src.models.keras.utils.object_config import serialized
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
    """x where it is positive, else alpha * (exp(x) - 1).

    Args:
        x: A tensor of floating point numbers.
        alpha: The negative of the value that large negative inputs approach.

    Returns:
        A tensor of the shape of `x`.

    >>> tf.keras.activations.elu([-1e9, 0., 2.]).numpy().tolist()
    [-1.0, 0.0, 2.0]
    """
    return K.elu(x, alpha)


@export("keras.activations.selu")
def selu(x: Any) -> Any:
    """The scaled exponential linear unit.

    Args:
        x: A tensor of floating point numbers.

    Returns:
        A tensor of the shape of `x`.

    >>> tf.keras.activations.selu([0.]).numpy().tolist()
    [0.0]
    """
    return tf.nn.selu(x)


@export("keras.activations.softplus")
def softplus(x: Any) -> Any:
    """log(1 + exp(x)).

    Args:
        x: A tensor of floating point numbers.

    Returns:
        A tensor of the shape of `x`.

    >>> tf.keras.activations.softplus([100.]).numpy().tolist()
    [100.0]
    """
    return tf.nn.softplus(x)


@export("keras.activations.softsign")
def softsign(x: Any) -> Any:
    """x / (1 + |x|).

    Args:
        x: A tensor of floating point numbers.

    Returns:
        A tensor of the shape of `x`.

    >>> tf.keras.activations.softsign([-1., 0., 1.]).numpy().tolist()
    [-0.5, 0.0, 0.5]
    """
    return tf.nn.softsign(x)


@export(v2=["keras.activations.swish", "keras.activations.silu"])
def swish(x: Any) -> Any:
    """x * sigmoid(x).

    Args:
        x: A tensor of floating point numbers.

    Returns:
        A tensor of the shape of `x`.

    >>> tf.keras.activations.swish([0.]).numpy().tolist()
    [0.0]
    """
    return tf.nn.swish(x)


@export(v2=["keras.activations.gelu"])
def gelu(x: Any, approximate: bool = False) -> Any:
    """x times the probability that a standard normal number is smaller than x.

    Args:
        x: A tensor of floating point numbers.
        approximate: Whether to use the formula with tanh, which is faster on some devices.

    Returns:
        A tensor of the shape of `x`.

    >>> tf.keras.activations.gelu([-100., 0., 100.]).numpy().tolist()
    [-0.0, 0.0, 100.0]
    """
    x = tf.convert_to_tensor(x)
    if approximate:
        return 0.5 * x * (1. + tf.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))
    return 0.5 * x * (1. + tf.erf(x * 0.7071067811865476))


@export(v2=["keras.activations.mish"])
def mish(x: Any) -> Any:
    """x * tanh(softplus(x)).

    Args:
        x: A tensor of floating point numbers.

    Returns:
        A tensor of the shape of `x`.

    >>> tf.keras.activations.mish([0., 100.]).numpy().tolist()
    [0.0, 100.0]
    """
    return x * tf.tanh(tf.nn.softplus(x))


@export("keras.activations.relu")
def relu(x: Any, alpha: float = 0., max_value: Any = None, threshold: Any = 0) -> Any:
    """max(x, 0), with a slope below the threshold and a bound above.

    Args:
        x: A tensor of floating point numbers.
        alpha: The slope below the threshold.
        max_value: The largest result, or None.
        threshold: Inputs below it are taken as 0, or lie on the slope `alpha`.

    Returns:
        A tensor of the shape of `x`.

    >>> tf.keras.activations.relu([-2., 1., 9.], max_value=6.).numpy().tolist()
    [0.0, 1.0, 6.0]
    """
    return K.relu(x, alpha=alpha, max_value=max_value, threshold=threshold)


@export(v2=["keras.activations.relu6"])
def relu6(x: Any) -> Any:
    """x held between 0 and 6.

    Args:
        x: A tensor of floating point numbers.

    Returns:
        A tensor of the shape of `x`.

    >>> tf.keras.activations.relu6([-2., 1., 9.]).numpy().tolist()
    [0.0, 1.0, 6.0]
    """
    return tf.nn.relu6(x)


@export(v2=["keras.activations.leaky_relu"])
def leaky_relu(x: Any, negative_slope: float = 0.2) -> Any:
    """x where it is positive, else negative_slope * x.

    Args:
        x: A tensor of floating point numbers.
        negative_slope: The slope of negative inputs.

    Returns:
        A tensor of the shape of `x`.

    >>> tf.keras.activations.leaky_relu([-2., 3.], negative_slope=0.5).numpy().tolist()
    [-1.0, 3.0]
    """
    return tf.nn.leaky_relu(x, alpha=negative_slope)


@export(v2=["keras.activations.log_softmax"])
def log_softmax(x: Any, axis: int = -1) -> Any:
    """The logarithm of the softmax.

    Args:
        x: A tensor of floating point numbers.
        axis: The axis whose exponentials sum to one.

    Returns:
        A tensor of the shape of `x`.

    >>> round(float(tf.keras.activations.log_softmax([[0., 0.]])[0, 0]), 3)
    -0.693
    """
    return tf.nn.log_softmax(x, axis=axis)


@export("keras.activations.tanh")
def tanh(x: Any) -> Any:
    """The hyperbolic tangent.

    Args:
        x: A tensor of floating point numbers.

    Returns:
        A tensor of the shape of `x`.

    >>> tf.keras.activations.tanh([0.]).numpy().tolist()
    [0.0]
    """
    return tf.nn.tanh(x)


@export("keras.activations.sigmoid")
def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)).

    Args:
        x: A tensor of floating point numbers.

    Returns:
        A tensor of the shape of `x`.

    >>> tf.keras.activations.sigmoid([0.]).numpy().tolist()
    [0.5]
    """
    return K.keep_logits(tf.nn.sigmoid(x), x, "Sigmoid")


@export("keras.activations.exponential")
def exponential(x: Any) -> Any:
    """exp(x).

    Args:
        x: A tensor of floating point numbers.

    Returns:
        A tensor of the shape of `x`.

    >>> tf.keras.activations.exponential([0.]).numpy().tolist()
    [1.0]
    """
    return tf.exp(x)


@export("keras.activations.hard_sigmoid")
def hard_sigmoid(x: Any) -> Any:
    """0.2 x + 0.5, held between 0 and 1.

    Args:
        x: A tensor of floating point numbers.

    Returns:
        A tensor of the shape of `x`.

    >>> tf.keras.activations.hard_sigmoid(tf.constant([-3., 0., 3.])).numpy().tolist()
    [0.0, 0.5, 1.0]
    """
    return K.hard_sigmoid(x)


@export("keras.activations.linear")
def linear(x: Any) -> Any:
    """x.

    Args:
        x: A tensor of floating point numbers.

    Returns:
        `x` itself.

    >>> tf.keras.activations.linear(3.0)
    3.0
    """
    return x


silu = swish
_NAMED = {f.__name__: f for f in (softmax, elu, selu, softplus, softsign, swish, gelu, mish, relu, relu6, leaky_relu,
                                  log_softmax, tanh, sigmoid, exponential, hard_sigmoid, linear)} | {"silu": silu}


@export("keras.activations.serialize")
def serialize(activation: Any, use_legacy_format: bool = False) -> Any:
    """The name (or configuration) of an activation.

    Args:
        activation: A function of this module, or a registered one.
        use_legacy_format: Whether to write the format of Keras 2.

    Returns:
        A name, or a configuration.

    >>> tf.keras.activations.serialize(tf.keras.activations.tanh)
    'tanh'
    """
    name = getattr(activation, "__name__", None)
    if name is not None and name.removesuffix("_v2") in _NAMED:
        return name.removesuffix("_v2")
    return serialized(activation, use_legacy_format)


@export("keras.activations.deserialize")
def deserialize(name: Any, custom_objects: Any = None, use_legacy_format: bool = False) -> Any:
    """The activation of a name or configuration.

    Args:
        name: What `serialize` returned.
        custom_objects: A dictionary of further functions by name.
        use_legacy_format: Whether it is the format of Keras 2.

    Returns:
        A function of a tensor.

    Raises:
        ValueError: for an unknown name.

    >>> tf.keras.activations.deserialize("tanh") is tf.keras.activations.tanh
    True
    """
    if isinstance(name, dict) and name.get("class_name") not in ("function", *_NAMED):             # a layer
        return tf.keras.layers.deserialize(name, custom_objects)
    return deserialize_keras_object(name, _NAMED, custom_objects, "activation function")


@export("keras.activations.get")
def get(identifier: Any) -> Any:
    """An activation: itself, or by its name; None is the linear one.

    Args:
        identifier: A name, a configuration, a function, or None.

    Returns:
        A function of a tensor.

    Raises:
        ValueError: for an unknown name.

    >>> tf.keras.activations.get("relu") is tf.keras.activations.relu
    True
    """
    if identifier is None:
        return linear
    if isinstance(identifier, (str, dict)):
        return deserialize(identifier)
    if callable(identifier):
        return identifier
    raise TypeError(f"Could not interpret activation function identifier: {identifier!r}")
