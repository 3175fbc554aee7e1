"""Convolutions of each channel separately: depthwise, and separable ones, which mix the channels afterwards."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.models.keras import backend as K
from penstock._src.models.keras.backend.conv import layout
from penstock._src.models.keras.engine.base_layer import Layer
from penstock._src.models.keras.layers.convolutional import Conv, Conv2D
from penstock._src.models.keras.layers.parts import described, dims_of, numbers, output_length, passed, read
from penstock.compat import v1 as tf


class SeparableConv(Conv):
    """The base of separable convolutions: a kernel over space and one over channels."""

    depth_multiplier: Any

    _many_batch_axes = False

    def __init__(self, rank: int, filters: int, kernel_size: Any, strides: Any = 1, padding: str = "valid",
                 data_format: Any = None, dilation_rate: Any = 1, depth_multiplier: int = 1, activation: Any = None,
                 use_bias: bool = True, depthwise_initializer: Any = "glorot_uniform",
                 pointwise_initializer: Any = "glorot_uniform", bias_initializer: Any = "zeros",
                 depthwise_regularizer: Any = None, pointwise_regularizer: Any = None, bias_regularizer: Any = None,
                 activity_regularizer: Any = None, depthwise_constraint: Any = None, pointwise_constraint: Any = None,
                 bias_constraint: Any = None, trainable: bool = True, name: str | None = None, **kwargs: Any):
        super().__init__(rank=rank, filters=filters, kernel_size=kernel_size, strides=strides, padding=padding,
                         data_format=data_format, dilation_rate=dilation_rate, activation=activation, use_bias=use_bias,
                         bias_initializer=bias_initializer, bias_regularizer=bias_regularizer,
                         activity_regularizer=activity_regularizer, bias_constraint=bias_constraint, trainable=trainable,
                         name=name, **kwargs)
        read(self, depth_multiplier=depth_multiplier, depthwise_initializer=depthwise_initializer,
             pointwise_initializer=pointwise_initializer, depthwise_regularizer=depthwise_regularizer,
             pointwise_regularizer=pointwise_regularizer, depthwise_constraint=depthwise_constraint,
             pointwise_constraint=pointwise_constraint)

    def build(self, input_shape: Any) -> None:
        """Creates the two kernels and the bias."""
        channels = self._channels(input_shape)
        self.depthwise_kernel = self._weight("depthwise_kernel", (*self.kernel_size, channels, self.depth_multiplier),
                                             "depthwise")
        self.pointwise_kernel = self._weight(
            "pointwise_kernel", (1,) * self.rank + (self.depth_multiplier * channels, self.filters), "pointwise")
        self.bias = self._bias(self.filters)
        Layer.build(self, input_shape)

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        config = described(self, super().get_config(), (
            "depth_multiplier", "depthwise_initializer", "pointwise_initializer", "depthwise_regularizer",
            "pointwise_regularizer", "depthwise_constraint", "pointwise_constraint"))
        return config if context.eager_outside_functions() else {k: v for k, v in config.items() if k != "kernel_initializer"}


@export("keras.layers.SeparableConv1D", "keras.layers.SeparableConvolution1D")
class SeparableConv1D(SeparableConv):
    """A separable convolution over time."""

    def __init__(self, filters: int, kernel_size: Any, strides: Any = 1, padding: str = "valid", data_format: Any = None,
                 dilation_rate: Any = 1, depth_multiplier: int = 1, activation: Any = None, use_bias: bool = True,
                 depthwise_initializer: Any = "glorot_uniform", pointwise_initializer: Any = "glorot_uniform",
                 bias_initializer: Any = "zeros", depthwise_regularizer: Any = None, pointwise_regularizer: Any = None,
                 bias_regularizer: Any = None, activity_regularizer: Any = None, depthwise_constraint: Any = None,
                 pointwise_constraint: Any = None, bias_constraint: Any = None, **kwargs: Any):
        super().__init__(rank=1, **passed(locals()))

    def call(self, inputs: Any) -> Any:
        """The convolutions, the bias, the activation."""
        if self.padding == "causal":
            inputs = tf.pad(inputs, self._causal_padding())
        return self._finished(K.separable_conv1d(
            inputs, self.depthwise_kernel, self.pointwise_kernel, strides=self.strides,
            padding="valid" if self.padding == "causal" else self.padding, data_format=self.data_format,
            dilation_rate=self.dilation_rate))


@export("keras.layers.SeparableConv2D", "keras.layers.SeparableConvolution2D")
class SeparableConv2D(SeparableConv):
    """A separable convolution over images.

    A depthwise convolution per channel, then a 1x1 convolution that mixes the channels: fewer weights than Conv2D.

    Args:
        filters: Number of channels of the output.
        kernel_size: Height and width of the filters; one integer for both.
        strides: Step of the window in each dimension; one integer for all.
        padding: `"valid"` uses only complete windows; `"same"` pads with zeros so that stride 1 keeps the size.
        data_format: `"channels_last"` or `"channels_first"`; by default that of the Keras configuration.
        dilation_rate: Distance between the elements of a filter; 1 for none. It cannot be combined with strides above 1.
        depth_multiplier: Number of outputs per input channel of the depthwise convolution.
        activation: Function applied to the result, or None for a linear layer.
        use_bias: Whether to add a bias vector.
        depthwise_initializer: Initializer of the depthwise filters.
        pointwise_initializer: Initializer of the pointwise filters.
        bias_initializer: Initializer of the bias.
        depthwise_regularizer: Function of the depthwise filters whose result is added to the losses.
        pointwise_regularizer: Function of the pointwise filters whose result is added to the losses.
        bias_regularizer: Function of the bias whose result is added to the losses.
        activity_regularizer: Function of the layer's output whose result is added to the losses.
        depthwise_constraint: Function applied to the depthwise filters after each update.
        pointwise_constraint: Function applied to the pointwise filters after each update.
        bias_constraint: Function applied to the bias after each update.
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.
    """

    def __init__(self, filters: int, kernel_size: Any, strides: Any = (1, 1), padding: str = "valid", data_format: Any = None,
                 dilation_rate: Any = (1, 1), depth_multiplier: int = 1, activation: Any = None, use_bias: bool = True,
                 depthwise_initializer: Any = "glorot_uniform", pointwise_initializer: Any = "glorot_uniform",
                 bias_initializer: Any = "zeros", depthwise_regularizer: Any = None, pointwise_regularizer: Any = None,
                 bias_regularizer: Any = None, activity_regularizer: Any = None, depthwise_constraint: Any = None,
                 pointwise_constraint: Any = None, bias_constraint: Any = None, **kwargs: Any):
        super().__init__(rank=2, **passed(locals()))

    def call(self, inputs: Any) -> Any:
        """The convolutions, the bias, the activation."""
        return self._finished(K.separable_conv2d(
            inputs, self.depthwise_kernel, self.pointwise_kernel, strides=self.strides, padding=self.padding,
            data_format=self.data_format, dilation_rate=self.dilation_rate))


class _Depthwise(Conv):
    """The base of depthwise convolutions: `depth_multiplier` outputs for each channel."""

    depth_multiplier: Any

    _many_batch_axes = False

    def _read_depthwise(self, depth_multiplier: int, depthwise_initializer: Any, depthwise_regularizer: Any,
                        depthwise_constraint: Any, dilation_rate: Any) -> None:
        read(self, depth_multiplier=depth_multiplier, depthwise_initializer=depthwise_initializer,
             depthwise_regularizer=depthwise_regularizer, depthwise_constraint=depthwise_constraint)
        self.dilation_rate = numbers(dilation_rate, self.rank, "dilation_rate")
        self._check_sizes()

    def build(self, input_shape: Any) -> None:
        """Creates kernel and bias."""
        if len(tf.TensorShape(input_shape)) < self.rank + 2:
            raise ValueError(f"Inputs to `{type(self).__name__}` should have rank {self.rank + 2}. Received input shape:",
                             str(input_shape))
        channels = self._channels(input_shape)
        self.depthwise_kernel = self._weight("depthwise_kernel", (*self.kernel_size, channels, self.depth_multiplier),
                                             "depthwise")
        self.bias = self._bias(channels * self.depth_multiplier)
        Layer.build(self, input_shape)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The shape of the outputs."""
        dims = dims_of(input_shape)
        channels = dims[1 if self.data_format == "channels_first" else -1] * self.depth_multiplier
        space = [output_length(d, k, self.padding, s, r) for d, k, s, r in
                 zip(self._space(dims), self.kernel_size, self.strides, self.dilation_rate)]
        return tf.TensorShape(self._around(self._batch(dims), space, channels))

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        config = described(self, super().get_config(), (
            "depth_multiplier", "depthwise_initializer", "depthwise_regularizer", "depthwise_constraint"))
        return {k: v for k, v in config.items()
                if k not in ("filters", "kernel_initializer", "kernel_regularizer", "kernel_constraint")}


@export("keras.layers.DepthwiseConv2D")
class DepthwiseConv2D(_Depthwise, Conv2D):
    """A convolution of each channel of images by itself.

    Inputs are [batch, height, width, channels], the output has channels * depth_multiplier channels.

    Args:
        kernel_size: Height and width of the filters; one integer for both.
        strides: Step of the window in each dimension; one integer for all.
        padding: `"valid"` uses only complete windows; `"same"` pads with zeros so that stride 1 keeps the size.
        depth_multiplier: Number of outputs per input channel of the depthwise convolution.
        data_format: `"channels_last"` or `"channels_first"`; by default that of the Keras configuration.
        activation: Function applied to the result, or None for a linear layer.
        use_bias: Whether to add a bias vector.
        depthwise_initializer: Initializer of the depthwise filters.
        bias_initializer: Initializer of the bias.
        depthwise_regularizer: Function of the depthwise filters whose result is added to the losses.
        bias_regularizer: Function of the bias whose result is added to the losses.
        activity_regularizer: Function of the layer's output whose result is added to the losses.
        depthwise_constraint: Function applied to the depthwise filters after each update.
        bias_constraint: Function applied to the bias after each update.
        dilation_rate: Distance between the elements of a filter; 1 for none. It cannot be combined with strides above 1.
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.
    """

    def __init__(self, kernel_size: Any, strides: Any = (1, 1), padding: str = "valid", depth_multiplier: int = 1,
                 data_format: Any = None, activation: Any = None, use_bias: bool = True,
                 depthwise_initializer: Any = "glorot_uniform", bias_initializer: Any = "zeros",
                 depthwise_regularizer: Any = None, bias_regularizer: Any = None, activity_regularizer: Any = None,
                 depthwise_constraint: Any = None, bias_constraint: Any = None, dilation_rate: Any = (1, 1), **kwargs: Any):
        super().__init__(filters=None, kernel_size=kernel_size, strides=strides, padding=padding, data_format=data_format,
                         activation=activation, use_bias=use_bias, bias_initializer=bias_initializer,
                         bias_regularizer=bias_regularizer, activity_regularizer=activity_regularizer,
                         bias_constraint=bias_constraint, **kwargs)
        self._read_depthwise(depth_multiplier, depthwise_initializer, depthwise_regularizer, depthwise_constraint,
                             dilation_rate)

    def call(self, inputs: Any) -> Any:
        """The convolution, the bias, the activation."""
        return self._finished(K.depthwise_conv2d(inputs, self.depthwise_kernel, strides=self.strides, padding=self.padding,
                                                 dilation_rate=self.dilation_rate, data_format=self.data_format))


@export(v2=["keras.layers.DepthwiseConv1D"])
class DepthwiseConv1D(_Depthwise):
    """A convolution of each channel separately, over time."""

    def __init__(self, kernel_size: Any, strides: Any = 1, padding: str = "valid", depth_multiplier: int = 1,
                 data_format: Any = None, dilation_rate: Any = 1, activation: Any = None, use_bias: bool = True,
                 depthwise_initializer: Any = "glorot_uniform", bias_initializer: Any = "zeros",
                 depthwise_regularizer: Any = None, bias_regularizer: Any = None, activity_regularizer: Any = None,
                 depthwise_constraint: Any = None, bias_constraint: Any = None, **kwargs: Any):
        super().__init__(1, filters=None, kernel_size=kernel_size, strides=strides, padding=padding, data_format=data_format,
                         activation=activation, use_bias=use_bias, bias_initializer=bias_initializer,
                         bias_regularizer=bias_regularizer, activity_regularizer=activity_regularizer,
                         bias_constraint=bias_constraint, **kwargs)
        self._read_depthwise(depth_multiplier, depthwise_initializer, depthwise_regularizer, depthwise_constraint,
                             dilation_rate)

    def call(self, inputs: Any) -> Any:
        """As one over two axes, the first of size one."""
        if self.padding == "causal":
            inputs = tf.pad(inputs, self._causal_padding())
        axis = 2 if self.data_format == "channels_first" else 1
        stride = self.strides[0]
        form = layout(2, self.data_format)
        strides = [1, 1, stride, stride] if form == "NCHW" else [1, stride, stride, 1]
        outputs = tf.nn.depthwise_conv2d(tf.expand_dims(inputs, axis), tf.expand_dims(self.depthwise_kernel, 0), strides,
                                         "VALID" if self.padding == "causal" else self.padding.upper(),
                                         rate=(1, self.dilation_rate[0]), data_format=form)
        return self._finished(tf.squeeze(outputs, [axis]))
