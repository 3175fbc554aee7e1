"""Convolutions over one, two or three axes, and their transposes."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.models.keras import backend as K
from penstock._src.models.keras import regularizers
from penstock._src.models.keras.backend.conv import OP_NAMES, layout
from penstock._src.models.keras.engine.base_layer import Layer
from penstock._src.models.keras.engine.input_spec import InputSpec
from penstock._src.models.keras.layers.parts import (
    data_format_of,
    described,
    dims_of,
    numbers,
    output_length,
    padding_of,
    passed,
    read,
    transposed_length,
)
from penstock.compat import v1 as tf


class Conv(Layer):
    """The base of convolutions: kernel, bias, activation; `rank` is the number of axes that the kernel moves along."""

    activation: Any
    use_bias: Any

    _many_batch_axes = True             # whether inputs may have several axes before those of an image, in 2.x

    def __init__(self, rank: int, filters: Any, kernel_size: Any, strides: Any = 1, padding: str = "valid",
                 data_format: Any = None, dilation_rate: Any = 1, activation: Any = None, use_bias: bool = True,
                 kernel_initializer: Any = "glorot_uniform", bias_initializer: Any = "zeros", kernel_regularizer: Any = None,
                 bias_regularizer: Any = None, activity_regularizer: Any = None, kernel_constraint: Any = None,
                 bias_constraint: Any = None, trainable: bool = True, name: str | None = None, fused: bool = False,
                 groups: int = 1, **kwargs: Any):
        super().__init__(trainable=trainable, name=name, activity_regularizer=regularizers.get(activity_regularizer), **kwargs)
        self.rank, self.fused = rank, fused
        self.filters = int(filters) if isinstance(filters, float) else filters
        self.groups = groups or 1
        if self.filters is not None and self.filters <= 0:
            raise ValueError(f"`filters` must be positive. Received: filters={filters}")
        if self.filters is not None and self.filters % self.groups:
            raise ValueError("The number of filters must be evenly divisible by the number of groups. Received: "
                             f"groups={groups}, filters={filters}")
        self.kernel_size = numbers(kernel_size, rank, "kernel_size")
        self.strides = numbers(strides, rank, "strides")
        self.padding = padding_of(padding, "causal")
        if self.padding == "causal" and rank != 1:
            raise ValueError("Causal padding is only supported for `Conv1D` and `SeparableConv1D`.")
        self.data_format = data_format_of(data_format)
        self.dilation_rate = numbers(dilation_rate, rank, "dilation_rate")
        self._check_sizes()
        read(self, activation=activation, use_bias=use_bias, kernel_initializer=kernel_initializer,
             bias_initializer=bias_initializer, kernel_regularizer=kernel_regularizer, bias_regularizer=bias_regularizer,
             kernel_constraint=kernel_constraint, bias_constraint=bias_constraint)
        self.input_spec = self._spec()

    # -- building -----------------------------------------------------------------------------------------------------
    def _check_sizes(self) -> None:
        for name in ("kernel_size", "strides"):
            if self.filters is not None and not all(getattr(self, name)):
                raise ValueError(f"The argument `{name}` cannot contain 0(s). Received: {getattr(self, name)}")
        if context.eager_outside_functions() and max(self.strides) > 1 and max(self.dilation_rate) > 1:
            raise ValueError("`strides > 1` not supported in conjunction with `dilation_rate > 1`. Received: "
                             f"strides={self.strides} and dilation_rate={self.dilation_rate}")

    def _spec(self, axes: dict[int, int] | None = None) -> InputSpec:
        """The inputs that the layer takes: in 1.x, and of some layers, with one batch axis."""
        if self._many_batch_axes and context.eager_outside_functions():
            return InputSpec(min_ndim=self.rank + 2, axes=axes)
        return InputSpec(ndim=self.rank + 2, axes=axes)

    def _channels_axis(self) -> int:
        return -1 - self.rank if self.data_format == "channels_first" else -1

    def _channels(self, input_shape: Any) -> int:
        """The number of channels of the inputs, which must be known; from now on the only one accepted."""
        axis = self._channels_axis()
        dims = dims_of(input_shape)
        if len(dims) != self.rank + 2 and self._spec().ndim is not None:
            raise ValueError(f"Inputs should have rank {self.rank + 2}. Received input shape: {input_shape}")
        if dims[axis] is None:
            raise ValueError("The channel dimension of the inputs should be defined. Found `None`. The input_shape received is "
                             f"{input_shape}.")
        self.input_spec = self._spec({axis: dims[axis]})
        return dims[axis]

    def _weight(self, name: str, shape: tuple, kind: str) -> Any:
        """A weight with the initializer, regularizer and constraint of a kind: kernel, bias, depthwise, pointwise."""
        return self.add_weight(name=name, shape=shape, initializer=getattr(self, f"{kind}_initializer"),
                               regularizer=getattr(self, f"{kind}_regularizer"), constraint=getattr(self, f"{kind}_constraint"),
                               trainable=True, dtype=self.dtype)

    def _bias(self, size: int) -> Any:
        return self._weight("bias", (size,), "bias") if self.use_bias else None

    def build(self, input_shape: Any) -> None:
        """Creates kernel and bias."""
        channels = self._channels(input_shape)
        if channels % self.groups:
            raise ValueError("The number of input channels must be evenly divisible by the number of groups. Received "
                             f"groups={self.groups}, but the input has {channels} channels (its shape is {input_shape}).")
        self.compute_output_shape(input_shape)
        self.kernel = self._weight("kernel", (*self.kernel_size, channels // self.groups, self.filters), "kernel")
        self.bias = self._bias(self.filters)
        super().build(input_shape)

    # -- calling ------------------------------------------------------------------------------------------------------
    def call(self, inputs: Any) -> Any:
        """The convolution, the bias, the activation."""
        if self.padding == "causal":
            inputs = tf.pad(inputs, self._causal_padding(len(inputs.shape)))
        padding = "VALID" if self.padding == "causal" else self.padding.upper()
        outputs = tf.nn.convolution(inputs, self.kernel, padding, strides=self.strides, dilation_rate=self.dilation_rate,
                                    data_format=layout(self.rank, self.data_format), name=OP_NAMES[self.rank])
        return self._finished(outputs)

    def _causal_padding(self, rank: int = 3) -> list:
        padding = [[0, 0]] * rank
        padding[-1 if self.data_format == "channels_first" else -2] = [self.dilation_rate[0] * (self.kernel_size[0] - 1), 0]
        return padding

    def _finished(self, outputs: Any) -> Any:
        """With bias and activation."""
        if self.use_bias:
            if self.data_format == "channels_last":
                outputs = tf.nn.bias_add(outputs, self.bias)
            elif self.rank == 2 and len(outputs.shape) == 4:
                outputs = tf.nn.bias_add(outputs, self.bias, data_format="NCHW")
            else:
                outputs = outputs + tf.reshape(self.bias, (-1,) + (1,) * self.rank)
        return outputs if self.activation is None else self.activation(outputs)

    # -- description --------------------------------------------------------------------------------------------------
    def _around(self, batch: list, space: list, channels: Any) -> list:
        """A shape in the layer's layout."""
        return [*batch, channels, *space] if self.data_format == "channels_first" else [*batch, *space, channels]

    def _batch(self, dims: list) -> list:
        """The sizes of the axes before those of an image."""
        return dims[:-1 - self.rank]

    def _space(self, dims: list) -> list:
        """The sizes of the axes that the kernel moves along."""
        return dims[-self.rank:] if self.data_format == "channels_first" else dims[-1 - self.rank:-1]

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The shape of the outputs."""
        dims = dims_of(input_shape)
        space = [output_length(d, k, self.padding, s, r) for d, k, s, r in
                 zip(self._space(dims), self.kernel_size, self.strides, self.dilation_rate)]
        if any(d is not None and d <= 0 for d in space) and context.eager_outside_functions():
            raise ValueError(f"One of the dimensions in the output is <= 0 due to downsampling in {self.name}. Consider "
                             f"increasing the input size. Received input shape {dims} which would produce output shape with "
                             "a zero or negative value in a dimension.")
        return tf.TensorShape(self._around(self._batch(dims), space, self.filters))

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        groups = ("groups",) if self.groups != 1 or context.eager_outside_functions() else ()       # 1.x has none
        return described(self, super().get_config(), (
            "filters", "kernel_size", "strides", "padding", "data_format", "dilation_rate", *groups, "activation", "use_bias",
            "kernel_initializer", "bias_initializer", "kernel_regularizer", "bias_regularizer", "activity_regularizer",
            "kernel_constraint", "bias_constraint"))


@export("keras.layers.Conv1D", "keras.layers.Convolution1D")
class Conv1D(Conv):
    """A convolution over time; with padding 'causal', no output sees a later input.

    Inputs are [batch, time, channels], the output is [batch, new time, filters].

    Args:
        filters: Number of channels of the output.
        kernel_size: Length of the filters.
        strides: Step of the window in each dimension; one integer for all.
        padding: `"valid"` uses only complete windows; `"same"` keeps the length at stride 1; `"causal"` pads the beginning
            only.
        data_format: `"channels_last"` or `"channels_first"`; by default that of the Keras configuration.
        dilation_rate: Distance between the elements of a filter; 1 for none. It cannot be combined with strides above 1.
        activation: Function applied to the result, or None for a linear layer.
        use_bias: Whether to add a bias vector.
        kernel_initializer: Initializer of the filters.
        bias_initializer: Initializer of the bias.
        kernel_regularizer: Function of the weights whose result is added to the losses.
        bias_regularizer: Function of the bias whose result is added to the losses.
        activity_regularizer: Function of the layer's output whose result is added to the losses.
        kernel_constraint: Function applied to the weights after each update.
        bias_constraint: Function applied to the bias after each update.
        fused: Accepted for compatibility and unused.
        groups: Number of groups in which the channels are divided; each group of filters sees its channels only.
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.

    >>> tf.keras.layers.Conv1D(32, 3, padding="causal")
    """

    def __init__(self, filters: int, kernel_size: Any, strides: Any = 1, padding: str = "valid",
                 data_format: Any = "channels_last", dilation_rate: Any = 1, activation: Any = None, use_bias: bool = True,
                 kernel_initializer: Any = "glorot_uniform", bias_initializer: Any = "zeros", kernel_regularizer: Any = None,
                 bias_regularizer: Any = None, activity_regularizer: Any = None, kernel_constraint: Any = None,
                 bias_constraint: Any = None, fused: bool = False, groups: int = 1, **kwargs: Any):
        super().__init__(rank=1, **passed(locals()))


@export("keras.layers.Conv2D", "keras.layers.Convolution2D")
class Conv2D(Conv):
    """A convolution over images.

    Args:
        filters: Number of channels of the result.
        kernel_size: Height and width of the filters; one integer for both.
        strides: Step of the window in each dimension; one integer for all.
        padding: `"valid"` uses only complete windows; `"same"` pads with zeros so that stride 1 keeps the size.
        data_format: `"channels_last"` or `"channels_first"`; by default that of the Keras configuration.
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
        fused: Accepted for compatibility and unused.
        groups: In how many groups the channels are divided; each group of filters sees its own channels.
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.

    >>> layer = tf.keras.layers.Conv2D(32, 3, activation="relu", padding="same")
    >>> layer(tf.zeros([1, 28, 28, 1])).shape
    TensorShape([1, 28, 28, 32])
    """

    def __init__(self, filters: Any, kernel_size: Any, strides: Any = (1, 1), padding: str = "valid", data_format: Any = None,
                 dilation_rate: Any = (1, 1), activation: Any = None, use_bias: bool = True,
                 kernel_initializer: Any = "glorot_uniform", bias_initializer: Any = "zeros", kernel_regularizer: Any = None,
                 bias_regularizer: Any = None, activity_regularizer: Any = None, kernel_constraint: Any = None,
                 bias_constraint: Any = None, fused: bool = False, groups: int = 1, **kwargs: Any):
        super().__init__(rank=2, **passed(locals()))


@export("keras.layers.Conv3D", "keras.layers.Convolution3D")
class Conv3D(Conv):
    """A convolution over volumes.

    Inputs are [batch, depth, height, width, channels], or channels first.

    Args:
        filters: Number of channels of the output.
        kernel_size: Depth, height and width of the filters; one integer for all.
        strides: Step of the window in each dimension; one integer for all.
        padding: `"valid"` uses only complete windows; `"same"` pads with zeros so that stride 1 keeps the size.
        data_format: `"channels_last"` or `"channels_first"`; by default that of the Keras configuration.
        dilation_rate: Distance between the elements of a filter; 1 for none. It cannot be combined with strides above 1.
        activation: Function applied to the result, or None for a linear layer.
        use_bias: Whether to add a bias vector.
        kernel_initializer: Initializer of the filters.
        bias_initializer: Initializer of the bias.
        kernel_regularizer: Function of the weights whose result is added to the losses.
        bias_regularizer: Function of the bias whose result is added to the losses.
        activity_regularizer: Function of the layer's output whose result is added to the losses.
        kernel_constraint: Function applied to the weights after each update.
        bias_constraint: Function applied to the bias after each update.
        groups: Number of groups in which the channels are divided; each group of filters sees its channels only.
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.
    """

    def __init__(self, filters: int, kernel_size: Any, strides: Any = (1, 1, 1), padding: str = "valid",
                 data_format: Any = None, dilation_rate: Any = (1, 1, 1), activation: Any = None, use_bias: bool = True,
                 kernel_initializer: Any = "glorot_uniform", bias_initializer: Any = "zeros", kernel_regularizer: Any = None,
                 bias_regularizer: Any = None, activity_regularizer: Any = None, kernel_constraint: Any = None,
                 bias_constraint: Any = None, groups: int = 1, **kwargs: Any):
        super().__init__(rank=3, **passed(locals()))


# -- transposes ---------------------------------------------------------------------------------------------------------
class _Transposed(Conv):
    """The base of transposed convolutions: the kernel is [..., filters, channels], and the outputs are larger."""

    _many_batch_axes = False

    def _read_output_padding(self, output_padding: Any) -> None:
        self.output_padding = None
        if output_padding is None:
            return
        self.output_padding = numbers(output_padding, self.rank, "output_padding")
        if any(p >= s for s, p in zip(self.strides, self.output_padding)):
            raise ValueError(f"Stride {self.strides} must exceed the output padding {self.output_padding}")

    def build(self, input_shape: Any) -> None:
        """Creates kernel and bias."""
        channels = self._channels(input_shape)
        self.kernel = self._weight("kernel", (*self.kernel_size, self.filters, channels), "kernel")
        self.bias = self._bias(self.filters)
        Layer.build(self, input_shape)

    def _lengths(self, space: list) -> list:
        padding = self.output_padding or (None,) * self.rank
        return [transposed_length(d, k, self.padding, s, p, r) for d, k, s, p, r in
                zip(space, self.kernel_size, self.strides, padding, self._dilation())]

    def _dilation(self) -> tuple:
        return self.dilation_rate

    def call(self, inputs: Any) -> Any:
        """The transposed convolution, the bias, the activation."""
        sizes = K.mixed_shape(inputs)
        shape = self._around(self._batch(sizes), self._lengths(self._space(sizes)), self.filters)
        outputs = self._transposed(inputs, tf.stack(shape) if any(not isinstance(d, int) for d in shape) else shape)
        if not context.executing_eagerly():
            outputs.set_shape(self.compute_output_shape(inputs.shape))
        return self._finished(outputs)

    def _transposed(self, inputs: Any, shape: Any) -> Any:
        raise NotImplementedError

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The shape of the outputs."""
        dims = dims_of(input_shape)
        return tf.TensorShape(self._around(self._batch(dims), self._lengths(self._space(dims)), self.filters))

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        return {**super().get_config(), "output_padding": self.output_padding}


@export("keras.layers.Conv2DTranspose", "keras.layers.Convolution2DTranspose")
class Conv2DTranspose(_Transposed, Conv2D):
    """The transpose of a convolution over images: from its outputs' shape to its inputs'.

    Args:
        filters: Number of channels of the result.
        kernel_size: Height and width of the filters; one integer for both.
        strides: Step of the window in each dimension; one integer for all.
        padding: `"valid"` or `"same"`, of the convolution that is transposed.
        output_padding: Rows and columns added at one side of the result, below `strides`; computed by default.
        data_format: `"channels_last"` or `"channels_first"`; by default that of the Keras configuration.
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
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.

    >>> layer = tf.keras.layers.Conv2DTranspose(8, 3, strides=2, padding="same")
    >>> layer(tf.ones([1, 4, 4, 3])).shape
    TensorShape([1, 8, 8, 8])
    """

    def __init__(self, filters: int, kernel_size: Any, strides: Any = (1, 1), padding: str = "valid",
                 output_padding: Any = None, data_format: Any = None, dilation_rate: Any = (1, 1), activation: Any = None,
                 use_bias: bool = True, kernel_initializer: Any = "glorot_uniform", bias_initializer: Any = "zeros",
                 kernel_regularizer: Any = None, bias_regularizer: Any = None, activity_regularizer: Any = None,
                 kernel_constraint: Any = None, bias_constraint: Any = None, **kwargs: Any):
        arguments = passed(locals())
        del arguments["output_padding"]
        super().__init__(**arguments)
        self._read_output_padding(output_padding)

    def _transposed(self, inputs: Any, shape: Any) -> Any:
        return K.conv2d_transpose(inputs, self.kernel, shape, strides=self.strides, padding=self.padding,
                                  data_format=self.data_format, dilation_rate=self.dilation_rate)


@export("keras.layers.Conv3DTranspose", "keras.layers.Convolution3DTranspose")
class Conv3DTranspose(_Transposed, Conv3D):
    """The transpose of a convolution over volumes: from its outputs' shape to its inputs'."""

    def __init__(self, filters: int, kernel_size: Any, strides: Any = (1, 1, 1), padding: str = "valid",
                 output_padding: Any = None, data_format: Any = None, activation: Any = None, use_bias: bool = True,
                 kernel_initializer: Any = "glorot_uniform", bias_initializer: Any = "zeros", kernel_regularizer: Any = None,
                 bias_regularizer: Any = None, activity_regularizer: Any = None, kernel_constraint: Any = None,
                 bias_constraint: Any = None, **kwargs: Any):
        arguments = passed(locals())
        del arguments["output_padding"]
        super().__init__(**arguments)
        self._read_output_padding(output_padding)

    def _dilation(self) -> tuple:
        """Volumes are transposed without dilation, whatever `dilation_rate` is."""
        return (1, 1, 1)

    def _transposed(self, inputs: Any, shape: Any) -> Any:
        return K.conv3d_transpose(inputs, self.kernel, shape, strides=self.strides, padding=self.padding,
                                  data_format=self.data_format)

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        config = super().get_config()
        del config["dilation_rate"]
        return config


@export(v2=["keras.layers.Conv1DTranspose", "keras.layers.Convolution1DTranspose"])
class Conv1DTranspose(_Transposed, Conv1D):
    """The transpose of a convolution over time."""

    def __init__(self, filters: int, kernel_size: Any, strides: Any = 1, padding: str = "valid", output_padding: Any = None,
                 data_format: Any = None, dilation_rate: Any = 1, activation: Any = None, use_bias: bool = True,
                 kernel_initializer: Any = "glorot_uniform", bias_initializer: Any = "zeros", kernel_regularizer: Any = None,
                 bias_regularizer: Any = None, activity_regularizer: Any = None, kernel_constraint: Any = None,
                 bias_constraint: Any = None, **kwargs: Any):
        arguments = passed(locals())
        del arguments["output_padding"]
        super().__init__(**arguments)
        self._read_output_padding(output_padding)

    def _transposed(self, inputs: Any, shape: Any) -> Any:
        """As one of two axes, the first of size one."""
        axis = 2 if self.data_format == "channels_first" else 1
        dims = shape if isinstance(shape, list) else tf.unstack(shape, num=3)
        wide = K.conv2d_transpose(tf.expand_dims(inputs, axis), tf.expand_dims(self.kernel, 0),
                                  [*dims[:axis], 1, *dims[axis:]], strides=(1, *self.strides), padding=self.padding,
                                  data_format=self.data_format, dilation_rate=(self.dilation_rate[0],) * 2)
        return tf.squeeze(wide, [axis])
