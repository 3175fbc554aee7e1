"""Dense, Dropout and Flatten of tf.layers."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.models.keras.layers import core as keras
from penstock._src.models.layers.base import Layer
from penstock._src.models.layers.functional import arguments, function_of
from penstock.compat import v1 as tf


@export(v1=["layers.Dense"])
class Dense(keras.Dense, Layer):
    """activation(inputs · kernel + bias).

    Args:
        units: Number of outputs of each example.
        activation: Function applied to the result, or None for a linear layer.
        use_bias: Whether to add a bias vector.
        kernel_initializer: Initializer of the weights.
        bias_initializer: Initializer of the bias.
        kernel_regularizer: Function of the weights whose result is added to the losses.
        bias_regularizer: Function of the bias whose result is added to the losses.
        activity_regularizer: Function of the layer's output whose result is added to the losses.
        kernel_constraint: Function applied to the weights after each update.
        bias_constraint: Function applied to the bias after each update.
        trainable: Whether the variables are added to the collection of trainable variables.
        name: Name of the operation.
        **kwargs: Passed to the base class: `name`, `dtype`, `trainable`, `input_shape`.

    >>> with tf.Graph().as_default():
    ...     layer = tf.layers.Dense(10)
    ...     y = layer(tf.ones([2, 3]))
    >>> y.shape, [v.name for v in layer.variables]
    (TensorShape([2, 10]), ['dense/kernel:0', 'dense/bias:0'])
    """

    def __init__(self, units: int, activation: Any = None, use_bias: bool = True, kernel_initializer: Any = None,
                 bias_initializer: Any = tf.zeros_initializer(), kernel_regularizer: Any = None, bias_regularizer: Any = None,
                 activity_regularizer: Any = None, kernel_constraint: Any = None, bias_constraint: Any = None,
                 trainable: bool = True, name: str | None = None, **kwargs: Any):
        super().__init__(**arguments(locals()))


dense = function_of(Dense, "dense", """activation(inputs · kernel + bias), with variables from the open variable scope.

    >>> with tf.Graph().as_default():
    ...     hidden = tf.layers.dense(tf.ones([2, 3]), 128, activation=tf.nn.relu)
    >>> hidden.shape
    TensorShape([2, 128])
    """)


@export(v1=["layers.Dropout"])
class Dropout(keras.Dropout, Layer):
    """Sets a fraction of the inputs to zero while training.

    Args:
        rate: Fraction of the inputs set to zero. The others are divided by 1 - `rate`.
        noise_shape: Shape of the random mask, which broadcasts to that of the inputs: 1 in a dimension drops it as a whole.
        seed: Seed of the mask.
        name: Name of the layer and prefix of its variables.
        **kwargs: `dtype`, `_reuse` and `_scope`.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     print(sess.run(tf.layers.Dropout(rate=0.4)(tf.ones([3]), training=False)))
    [1. 1. 1.]
    """

    def __init__(self, rate: float = 0.5, noise_shape: Any = None, seed: int | None = None, name: str | None = None,
                 **kwargs: Any):
        super().__init__(**arguments(locals()))

    def call(self, inputs: Any, training: Any = False) -> Any:
        """The inputs, with some of them zero while training."""
        return super().call(inputs, training=training)


dropout = function_of(Dropout, "dropout", """Sets a fraction of the inputs to zero while training.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     print(sess.run(tf.layers.dropout(tf.ones([3]), rate=0.4, training=False)))
    [1. 1. 1.]
    """, variables=False, call={"training": False})


@export(v1=["layers.Flatten"])
class Flatten(keras.Flatten, Layer):
    """Each example as a vector.

    Args:
        data_format: `"channels_last"` or `"channels_first"`.
        **kwargs: `dtype`, `_reuse` and `_scope`.

    >>> tf.layers.Flatten()(tf.ones([2, 3, 4])).shape
    TensorShape([2, 12])
    """


@export(v1=["layers.flatten"])
def flatten(inputs: Any, name: str | None = None, data_format: str = "channels_last") -> Any:
    """Each example as a vector.

    Args:
        inputs: Tensor with a batch in its first dimension.
        name: Name of the operation.
        data_format: `"channels_last"` or `"channels_first"`: the order of the elements.

    Returns:
        A matrix [batch, elements of an example].

    >>> tf.layers.flatten(tf.zeros([2, 3, 4])).shape
    TensorShape([2, 12])
    """
    return Flatten(name=name, data_format=data_format)(inputs)
