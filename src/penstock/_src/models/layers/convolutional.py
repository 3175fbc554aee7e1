"""Convolutions of tf.layers."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.models.keras.layers import convolutional as keras
from penstock._src.models.keras.layers import convolutional_separable as separable
from penstock._src.models.layers.base import Layer
from penstock._src.models.layers.functional import arguments, function_of
from penstock.compat import v1 as tf


@export(v1=["layers.Conv1D"])
class Conv1D(keras.Conv1D, Layer):
    """A convolution over one dimension.

    Args:
        filters: Number of channels of the result.
        kernel_size: Size of the filters in each dimension; one integer for all.
        strides: Step of the window in each dimension; one integer for all.
        padding: `"valid"` uses only complete windows; `"same"` pads with zeros so that stride 1 keeps the size.
        data_format: `"channels_last"` or `"channels_first"`.
        dilation_rate: Distance between the elements of a filter; 1 for none. It cannot be combined with strides above 1.
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
        name: Name of the layer and prefix of its variables.
        **kwargs: `dtype`, `_reuse` and `_scope`.

    >>> with tf.Graph().as_default():
    ...     y = tf.layers.Conv1D(8, 3)(tf.ones([2, 10, 3]))
    >>> y.shape
    TensorShape([2, 8, 8])
    """

    def __init__(self, filters: int, kernel_size: Any, strides: Any = 1, padding: str = "valid",
                 data_format: str = "channels_last", dilation_rate: Any = 1, activation: Any = None, use_bias: bool = True,
                 kernel_initializer: Any = None, bias_initializer: Any = tf.zeros_initializer(), kernel_regularizer: Any = None,
                 bias_regularizer: Any = None, activity_regularizer: Any = None, kernel_constraint: Any = None,
                 bias_constraint: Any = None, trainable: bool = True, name: str | None = None, **kwargs: Any):
        super().__init__(**arguments(locals()))


@export(v1=["layers.Conv2D"])
class Conv2D(keras.Conv2D, Layer):
    """A convolution over images.

    Args:
        filters: Number of channels of the result.
        kernel_size: Size of the filters in each dimension; one integer for all.
        strides: Step of the window in each dimension; one integer for all.
        padding: `"valid"` uses only complete windows; `"same"` pads with zeros so that stride 1 keeps the size.
        data_format: `"channels_last"` or `"channels_first"`.
        dilation_rate: Distance between the elements of a filter; 1 for none. It cannot be combined with strides above 1.
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
        name: Name of the layer and prefix of its variables.
        **kwargs: `dtype`, `_reuse` and `_scope`.

    >>> with tf.Graph().as_default():
    ...     layer = tf.layers.Conv2D(32, 3, activation=tf.nn.relu)
    ...     y = layer(tf.ones([1, 28, 28, 1]))
    >>> y.shape, layer.kernel.shape
    (TensorShape([1, 26, 26, 32]), TensorShape([3, 3, 1, 32]))
    """

    def __init__(self, filters: int, kernel_size: Any, strides: Any = (1, 1), padding: str = "valid",
                 data_format: str = "channels_last", dilation_rate: Any = (1, 1), activation: Any = None, use_bias: bool = True,
                 kernel_initializer: Any = None, bias_initializer: Any = tf.zeros_initializer(), kernel_regularizer: Any = None,
                 bias_regularizer: Any = None, activity_regularizer: Any = None, kernel_constraint: Any = None,
                 bias_constraint: Any = None, trainable: bool = True, name: str | None = None, **kwargs: Any):
        super().__init__(**arguments(locals()))


@export(v1=["layers.Conv3D"])
class Conv3D(keras.Conv3D, Layer):
    """A convolution over volumes.

    Args:
        filters: Number of channels of the result.
        kernel_size: Size of the filters in each dimension; one integer for all.
        strides: Step of the window in each dimension; one integer for all.
        padding: `"valid"` uses only complete windows; `"same"` pads with zeros so that stride 1 keeps the size.
        data_format: `"channels_last"` or `"channels_first"`.
        dilation_rate: Distance between the elements of a filter; 1 for none. It cannot be combined with strides above 1.
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
        name: Name of the layer and prefix of its variables.
        **kwargs: `dtype`, `_reuse` and `_scope`.

    >>> with tf.Graph().as_default():
    ...     y = tf.layers.Conv3D(8, 3)(tf.ones([2, 6, 6, 6, 1]))
    >>> y.shape
    TensorShape([2, 4, 4, 4, 8])
    """

    def __init__(self, filters: int, kernel_size: Any, strides: Any = (1, 1, 1), padding: str = "valid",
                 data_format: str = "channels_last", dilation_rate: Any = (1, 1, 1), activation: Any = None,
                 use_bias: bool = True, kernel_initializer: Any = None, bias_initializer: Any = tf.zeros_initializer(),
                 kernel_regularizer: Any = None, bias_regularizer: Any = None, activity_regularizer: Any = None,
                 kernel_constraint: Any = None, bias_constraint: Any = None, trainable: bool = True, name: str | None = None,
                 **kwargs: Any):
        super().__init__(**arguments(locals()))


@export(v1=["layers.SeparableConv1D"])
class SeparableConv1D(separable.SeparableConv1D, Layer):
    """A convolution of each channel, then one across channels, over one dimension.

    Args:
        filters: Number of channels of the result.
        kernel_size: Size of the filters in each dimension; one integer for all.
        strides: Step of the window in each dimension; one integer for all.
        padding: `"valid"` uses only complete windows; `"same"` pads with zeros so that stride 1 keeps the size.
        data_format: `"channels_last"` or `"channels_first"`.
        dilation_rate: Distance between the elements of a filter; 1 for none. It cannot be combined with strides above 1.
        depth_multiplier: Number of filters per channel.
        activation: Function applied to the result, or None for a linear layer.
        use_bias: Whether to add a bias vector.
        depthwise_initializer: Initializer of the filters of channels.
        pointwise_initializer: Initializer of the weights across channels.
        bias_initializer: Initializer of the bias.
        depthwise_regularizer: Function of the filters of channels whose result is added to the losses.
        pointwise_regularizer: Function of the weights across channels whose result is added to the losses.
        bias_regularizer: Function of the bias whose result is added to the losses.
        activity_regularizer: Function of the layer's output whose result is added to the losses.
        depthwise_constraint: Function applied to the filters of channels after each update.
        pointwise_constraint: Function applied to the weights across channels after each update.
        bias_constraint: Function applied to the bias after each update.
        trainable: Whether the variables are added to the collection of trainable variables.
        name: Name of the layer and prefix of its variables.
        **kwargs: `dtype`, `_reuse` and `_scope`.

    >>> with tf.Graph().as_default():
    ...     y = tf.layers.SeparableConv1D(8, 3)(tf.ones([2, 10, 3]))
    >>> y.shape
    TensorShape([2, 8, 8])
    """

    def __init__(self, filters: int, kernel_size: Any, strides: Any = 1, padding: str = "valid",
                 data_format: str = "channels_last", dilation_rate: Any = 1, depth_multiplier: int = 1, activation: Any = None,
                 use_bias: bool = True, depthwise_initializer: Any = None, pointwise_initializer: Any = None,
                 bias_initializer: Any = tf.zeros_initializer(), depthwise_regularizer: Any = None,
                 pointwise_regularizer: Any = None, bias_regularizer: Any = None, activity_regularizer: Any = None,
                 depthwise_constraint: Any = None, pointwise_constraint: Any = None, bias_constraint: Any = None,
                 trainable: bool = True, name: str | None = None, **kwargs: Any):
        super().__init__(**arguments(locals()))


@export(v1=["layers.SeparableConv2D"])
class SeparableConv2D(separable.SeparableConv2D, Layer):
    """A convolution of each channel, then one across channels, over images.

    Args:
        filters: Number of channels of the result.
        kernel_size: Size of the filters in each dimension; one integer for all.
        strides: Step of the window in each dimension; one integer for all.
        padding: `"valid"` uses only complete windows; `"same"` pads with zeros so that stride 1 keeps the size.
        data_format: `"channels_last"` or `"channels_first"`.
        dilation_rate: Distance between the elements of a filter; 1 for none. It cannot be combined with strides above 1.
        depth_multiplier: Number of filters per channel.
        activation: Function applied to the result, or None for a linear layer.
        use_bias: Whether to add a bias vector.
        depthwise_initializer: Initializer of the filters of channels.
        pointwise_initializer: Initializer of the weights across channels.
        bias_initializer: Initializer of the bias.
        depthwise_regularizer: Function of the filters of channels whose result is added to the losses.
        pointwise_regularizer: Function of the weights across channels whose result is added to the losses.
        bias_regularizer: Function of the bias whose result is added to the losses.
        activity_regularizer: Function of the layer's output whose result is added to the losses.
        depthwise_constraint: Function applied to the filters of channels after each update.
        pointwise_constraint: Function applied to the weights across channels after each update.
        bias_constraint: Function applied to the bias after each update.
        trainable: Whether the variables are added to the collection of trainable variables.
        name: Name of the layer and prefix of its variables.
        **kwargs: `dtype`, `_reuse` and `_scope`.

    >>> with tf.Graph().as_default():
    ...     y = tf.layers.SeparableConv2D(8, 3)(tf.ones([2, 10, 10, 3]))
    >>> y.shape
    TensorShape([2, 8, 8, 8])
    """

    def __init__(self, filters: int, kernel_size: Any, strides: Any = (1, 1), padding: str = "valid",
                 data_format: str = "channels_last", dilation_rate: Any = (1, 1), depth_multiplier: int = 1,
                 activation: Any = None, use_bias: bool = True, depthwise_initializer: Any = None,
                 pointwise_initializer: Any = None, bias_initializer: Any = tf.zeros_initializer(),
                 depthwise_regularizer: Any = None, pointwise_regularizer: Any = None, bias_regularizer: Any = None,
                 activity_regularizer: Any = None, depthwise_constraint: Any = None, pointwise_constraint: Any = None,
                 bias_constraint: Any = None, trainable: bool = True, name: str | None = None, **kwargs: Any):
        super().__init__(**arguments(locals()))


@export(v1=["layers.Conv2DTranspose"])
class Conv2DTranspose(keras.Conv2DTranspose, Layer):
    """A transposed convolution over images.

    Args:
        filters: Number of channels of the result.
        kernel_size: Size of the filters in each dimension; one integer for all.
        strides: Step of the window in each dimension; one integer for all.
        padding: `"valid"` uses only complete windows; `"same"` pads with zeros so that stride 1 keeps the size.
        data_format: `"channels_last"` or `"channels_first"`.
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
        name: Name of the layer and prefix of its variables.
        **kwargs: `dtype`, `_reuse` and `_scope`.

    >>> with tf.Graph().as_default():
    ...     y = tf.layers.Conv2DTranspose(8, 3, strides=2, padding="same")(tf.ones([1, 4, 4, 3]))
    >>> y.shape
    TensorShape([1, 8, 8, 8])
    """

    def __init__(self, filters: int, kernel_size: Any, strides: Any = (1, 1), padding: str = "valid",
                 data_format: str = "channels_last", activation: Any = None, use_bias: bool = True,
                 kernel_initializer: Any = None, bias_initializer: Any = tf.zeros_initializer(), kernel_regularizer: Any = None,
                 bias_regularizer: Any = None, activity_regularizer: Any = None, kernel_constraint: Any = None,
                 bias_constraint: Any = None, trainable: bool = True, name: str | None = None, **kwargs: Any):
        super().__init__(**arguments(locals()))


@export(v1=["layers.Conv3DTranspose"])
class Conv3DTranspose(keras.Conv3DTranspose, Layer):
    """A transposed convolution over volumes.

    Args:
        filters: Number of channels of the result.
        kernel_size: Size of the filters in each dimension; one integer for all.
        strides: Step of the window in each dimension; one integer for all.
        padding: `"valid"` uses only complete windows; `"same"` pads with zeros so that stride 1 keeps the size.
        data_format: `"channels_last"` or `"channels_first"`.
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
        name: Name of the layer and prefix of its variables.
        **kwargs: `dtype`, `_reuse` and `_scope`.

    >>> with tf.Graph().as_default():
    ...     y = tf.layers.Conv3DTranspose(8, 3, strides=2, padding="same")(tf.ones([2, 4, 4, 4, 1]))
    >>> y.shape
    TensorShape([2, 8, 8, 8, 8])
    """

    def __init__(self, filters: int, kernel_size: Any, strides: Any = (1, 1, 1), padding: str = "valid",
                 data_format: str = "channels_last", activation: Any = None, use_bias: bool = True,
                 kernel_initializer: Any = None, bias_initializer: Any = tf.zeros_initializer(), kernel_regularizer: Any = None,
                 bias_regularizer: Any = None, activity_regularizer: Any = None, kernel_constraint: Any = None,
                 bias_constraint: Any = None, trainable: bool = True, name: str | None = None, **kwargs: Any):
        super().__init__(**arguments(locals()))


conv1d = function_of(Conv1D, "conv1d", """A convolution over one dimension, with variables from the open variable scope.

    >>> with tf.Graph().as_default():
    ...     y = tf.layers.conv1d(tf.ones([2, 10, 3]), filters=8, kernel_size=3)
    >>> y.shape
    TensorShape([2, 8, 8])
    """)
conv2d = function_of(Conv2D, "conv2d", """A convolution over images, with variables from the open variable scope.

    >>> with tf.Graph().as_default():
    ...     images = tf.zeros([1, 28, 28, 1])
    ...     features = tf.layers.conv2d(images, filters=32, kernel_size=5, padding="same", activation=tf.nn.relu)
    >>> features.shape
    TensorShape([1, 28, 28, 32])
    """)
conv3d = function_of(Conv3D, "conv3d", """A convolution over volumes, with variables from the open variable scope.

    >>> with tf.Graph().as_default():
    ...     y = tf.layers.conv3d(tf.ones([2, 6, 6, 6, 1]), filters=8, kernel_size=3)
    >>> y.shape
    TensorShape([2, 4, 4, 4, 8])
    """)
separable_conv1d = function_of(SeparableConv1D, "separable_conv1d",
                               """A convolution of each channel, then one across channels, over one dimension.

    >>> with tf.Graph().as_default():
    ...     y = tf.layers.separable_conv1d(tf.ones([2, 10, 3]), filters=8, kernel_size=3)
    >>> y.shape
    TensorShape([2, 8, 8])
    """)
separable_conv2d = function_of(SeparableConv2D, "separable_conv2d",
                               """A convolution of each channel, then one across channels, over images.

    >>> with tf.Graph().as_default():
    ...     y = tf.layers.separable_conv2d(tf.ones([2, 10, 10, 3]), filters=8, kernel_size=3)
    >>> y.shape
    TensorShape([2, 8, 8, 8])
    """)
conv2d_transpose = function_of(Conv2DTranspose, "conv2d_transpose", """A transposed convolution over images.

    >>> with tf.Graph().as_default():
    ...     y = tf.layers.conv2d_transpose(tf.ones([1, 4, 4, 3]), filters=8, kernel_size=3, strides=2, padding="same")
    >>> y.shape
    TensorShape([1, 8, 8, 8])
    """)
conv3d_transpose = function_of(Conv3DTranspose, "conv3d_transpose", """A transposed convolution over volumes.

    >>> with tf.Graph().as_default():
    ...     y = tf.layers.conv3d_transpose(tf.ones([2, 4, 4, 4, 1]), filters=8, kernel_size=3, strides=2, padding="same")
    >>> y.shape
    TensorShape([2, 8, 8, 8, 8])
    """)
