"""The largest or the mean element of windows, or of everything."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.models.keras import backend as K
from penstock._src.models.keras.engine.base_layer import Layer
from penstock._src.models.keras.engine.input_spec import InputSpec
from penstock._src.models.keras.layers.parts import data_format_of, described, dims_of, numbers, output_length, padding_of
from penstock.compat import v1 as tf


class Pooling(Layer):
    """The base of pools; `rank` axes, and `mode` is "max" or "avg"."""

    rank = 0
    mode = ""

    def __init__(self, pool_size: Any, strides: Any = None, padding: str = "valid", data_format: Any = None,
                 name: str | None = None, **kwargs: Any):
        super().__init__(name=name, **kwargs)
        strides = pool_size if strides is None else strides
        self.pool_size = numbers(pool_size, self.rank, "pool_size")
        if min(map(int, self.pool_size)) <= 0:
            wrong = {v for v in self.pool_size if v <= 0}
            raise ValueError(f"The `pool_size` argument must be a tuple of {self.rank} integers. Received: {pool_size} "
                             f"including {wrong} that does not satisfy the requirement `> 0`.")
        self.strides = numbers(strides, self.rank, "strides")
        if any(int(s) < 0 for s in self.strides):
            raise ValueError(f"The `strides` of a pool must not be negative, got {strides}")
        self.padding = padding_of(padding)
        self.data_format = data_format_of(data_format)
        self.input_spec = InputSpec(ndim=self.rank + 2)

    def call(self, inputs: Any) -> Any:
        """The windows' elements."""
        if self.rank == 1:
            axis = 2 if self.data_format == "channels_last" else 3
            wide = K.pool2d(tf.expand_dims(inputs, axis), (*self.pool_size, 1), (*self.strides, 1), self.padding,
                            self.data_format, self.mode)
            return tf.squeeze(wide, [axis])
        pool = K.pool2d if self.rank == 2 else K.pool3d
        return pool(inputs, self.pool_size, self.strides, self.padding, self.data_format, self.mode)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The shape of the outputs."""
        dims = dims_of(input_shape)
        first = 2 if self.data_format == "channels_first" else 1
        for i in range(self.rank):
            dims[first + i] = output_length(dims[first + i], self.pool_size[i], self.padding, self.strides[i])
        return tf.TensorShape(dims)

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        words = ("strides", "pool_size", "padding") if self.rank == 1 else ("pool_size", "padding", "strides")
        return described(self, super().get_config(), (*words, "data_format"))


@export("keras.layers.MaxPool1D", "keras.layers.MaxPooling1D")
class MaxPooling1D(Pooling):
    """The largest element of each window of time steps.

    Inputs are [batch, time, features], the output is [batch, new time, features].

    Args:
        pool_size: Length of the windows.
        strides: Distance between windows, by default `pool_size`.
        padding: `"valid"` uses only complete windows; `"same"` pads with zeros so that stride 1 keeps the size.
        data_format: `"channels_last"` or `"channels_first"`; by default that of the Keras configuration.
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.
    """

    rank, mode = 1, "max"

    def __init__(self, pool_size: Any = 2, strides: Any = None, padding: str = "valid", data_format: Any = "channels_last",
                 **kwargs: Any):
        super().__init__(pool_size, strides, padding, data_format, **kwargs)


@export("keras.layers.AveragePooling1D", "keras.layers.AvgPool1D")
class AveragePooling1D(Pooling):
    """The mean of each window of time steps.

    Inputs are [batch, time, features], the output is [batch, new time, features].

    Args:
        pool_size: Length of the windows.
        strides: Distance between windows, by default `pool_size`.
        padding: `"valid"` uses only complete windows; `"same"` pads with zeros so that stride 1 keeps the size.
        data_format: `"channels_last"` or `"channels_first"`; by default that of the Keras configuration.
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.
    """

    rank, mode = 1, "avg"

    def __init__(self, pool_size: Any = 2, strides: Any = None, padding: str = "valid", data_format: Any = "channels_last",
                 **kwargs: Any):
        super().__init__(pool_size, strides, padding, data_format, **kwargs)


@export("keras.layers.MaxPool2D", "keras.layers.MaxPooling2D")
class MaxPooling2D(Pooling):
    """The largest element of each window of images.

    Args:
        pool_size: Height and width of the window.
        strides: Steps of the window, by default `pool_size`.
        padding: `"valid"` or `"same"`.
        data_format: `"channels_last"` or `"channels_first"`, by default as in the Keras configuration.
        **kwargs: Passed to the base class: `name`, `dtype`, `trainable`, `input_shape`.

    >>> tf.keras.layers.MaxPooling2D(2)(tf.zeros([1, 8, 8, 3])).shape
    TensorShape([1, 4, 4, 3])
    """

    rank, mode = 2, "max"

    def __init__(self, pool_size: Any = (2, 2), strides: Any = None, padding: str = "valid", data_format: Any = None,
                 **kwargs: Any):
        super().__init__(pool_size, strides, padding, data_format, **kwargs)


@export("keras.layers.AveragePooling2D", "keras.layers.AvgPool2D")
class AveragePooling2D(Pooling):
    """The mean of each window of images.

    Args:
        pool_size: Height and width of the windows; one integer for both.
        strides: Step of the windows; by default `pool_size`.
        padding: `"valid"` uses only complete windows; `"same"` windows may overlap the border.
        data_format: `"channels_last"` or `"channels_first"`; by default that of the Keras configuration.
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.

    >>> tf.keras.layers.AveragePooling2D(2)(tf.ones([1, 8, 8, 3])).shape
    TensorShape([1, 4, 4, 3])
    """

    rank, mode = 2, "avg"

    def __init__(self, pool_size: Any = (2, 2), strides: Any = None, padding: str = "valid", data_format: Any = None,
                 **kwargs: Any):
        super().__init__(pool_size, strides, padding, data_format, **kwargs)


@export("keras.layers.MaxPool3D", "keras.layers.MaxPooling3D")
class MaxPooling3D(Pooling):
    """The largest element of each window of volumes.

    Args:
        pool_size: The window: depth, height and width, or one number for all.
        strides: Steps of the window, by default `pool_size`.
        padding: `"valid"` or `"same"`.
        data_format: `"channels_last"` or `"channels_first"`, by default as in the Keras configuration.
        **kwargs: Passed to the base class: `name`, `dtype`, `trainable`, `input_shape`.

    >>> tf.keras.layers.MaxPooling3D(2)(tf.ones([1, 4, 4, 4, 5])).shape
    TensorShape([1, 2, 2, 2, 5])
    """

    rank, mode = 3, "max"

    def __init__(self, pool_size: Any = (2, 2, 2), strides: Any = None, padding: str = "valid", data_format: Any = None,
                 **kwargs: Any):
        super().__init__(pool_size, strides, padding, data_format, **kwargs)


@export("keras.layers.AveragePooling3D", "keras.layers.AvgPool3D")
class AveragePooling3D(Pooling):
    """The mean of each window of volumes.

    Args:
        pool_size: The window: depth, height and width, or one number for all.
        strides: Steps of the window, by default `pool_size`.
        padding: `"valid"` or `"same"`.
        data_format: `"channels_last"` or `"channels_first"`, by default as in the Keras configuration.
        **kwargs: Passed to the base class: `name`, `dtype`, `trainable`, `input_shape`.

    >>> tf.keras.layers.AveragePooling3D(2)(tf.ones([1, 4, 4, 4, 5])).shape
    TensorShape([1, 2, 2, 2, 5])
    """

    rank, mode = 3, "avg"

    def __init__(self, pool_size: Any = (2, 2, 2), strides: Any = None, padding: str = "valid", data_format: Any = None,
                 **kwargs: Any):
        super().__init__(pool_size, strides, padding, data_format, **kwargs)


# -- of everything --------------------------------------------------------------------------------------------------------
class GlobalPooling(Layer):
    """The base of global pools."""

    rank = 0

    def __init__(self, data_format: Any = None, keepdims: bool = False, **kwargs: Any):
        super().__init__(**kwargs)
        self.data_format = data_format_of(data_format)
        self.keepdims = keepdims
        self.input_spec = InputSpec(ndim=self.rank + 2)

    def build(self, input_shape: Any) -> None:
        """Checks that there is something to reduce."""
        dims = dims_of(input_shape)
        for axis in self._axes() if context.process.eager else ():
            if dims[axis] == 0:
                raise ValueError(f"Incorrect input shape {dims} with dimension 0 at reduction axis {axis}.")
        super().build(input_shape)

    def _axes(self) -> list:
        first = 2 if self.data_format == "channels_first" else 1
        return list(range(first, first + self.rank))

    def compute_output_shape(self, input_shape: Any) -> Any:
        """[batch, channels]."""
        dims = dims_of(input_shape)
        axes = self._axes()
        kept = [1 if i in axes else d for i, d in enumerate(dims) if self.keepdims or i not in axes]
        return tf.TensorShape(kept)

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        config = described(self, super().get_config(), ("data_format",))
        return {**config, "keepdims": self.keepdims} if self.keepdims or context.eager_outside_functions() else config


class _GlobalAverage(GlobalPooling):
    def call(self, inputs: Any) -> Any:
        """The means."""
        return tf.reduce_mean(inputs, axis=self._axes(), keepdims=self.keepdims)


class _GlobalMax(GlobalPooling):
    def call(self, inputs: Any) -> Any:
        """The largest elements."""
        return tf.reduce_max(inputs, axis=self._axes(), keepdims=self.keepdims)


@export("keras.layers.GlobalAveragePooling1D", "keras.layers.GlobalAvgPool1D")
class GlobalAveragePooling1D(_GlobalAverage):
    """The mean over time; of the steps that are not masked.

    Inputs are [batch, time, features], the output is [batch, features].

    Args:
        data_format: `"channels_last"` or `"channels_first"`; by default that of the Keras configuration.
        keepdims: Whether reduced axes stay, with size 1.
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.
    """

    rank = 1

    def __init__(self, data_format: Any = "channels_last", keepdims: bool = False, **kwargs: Any):
        super().__init__(data_format, keepdims, **kwargs)
        self.supports_masking = True

    def call(self, inputs: Any, mask: Any = None) -> Any:
        """The means."""
        if mask is None:
            return super().call(inputs)
        axis = self._axes()[0]
        weight = tf.expand_dims(tf.cast(mask, inputs.dtype), 2 if axis == 1 else 1)
        return (tf.reduce_sum(inputs * weight, axis=axis, keepdims=self.keepdims)
                / tf.reduce_sum(weight, axis=axis, keepdims=self.keepdims))

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """There are no time steps left to mask."""
        return None


@export("keras.layers.GlobalAveragePooling2D", "keras.layers.GlobalAvgPool2D")
class GlobalAveragePooling2D(_GlobalAverage):
    """The mean of each channel of images.

    Args:
        data_format: `"channels_last"` or `"channels_first"`; by default that of the Keras configuration.
        keepdims: Whether the result keeps height and width, of size 1.
        **kwargs: `name`, `dtype` and other arguments of `Layer`.

    >>> tf.keras.layers.GlobalAveragePooling2D()(tf.ones([2, 4, 4, 3])).shape
    TensorShape([2, 3])
    """

    rank = 2


@export("keras.layers.GlobalAveragePooling3D", "keras.layers.GlobalAvgPool3D")
class GlobalAveragePooling3D(_GlobalAverage):
    """The mean of each channel of volumes.

    Args:
        data_format: `"channels_last"` or `"channels_first"`, by default as in the Keras configuration.
        keepdims: Whether to keep the reduced axes, with size 1.
        **kwargs: Passed to the base class: `name`, `dtype`, `trainable`, `input_shape`.

    >>> tf.keras.layers.GlobalAveragePooling3D()(tf.ones([1, 2, 2, 2, 5])).shape
    TensorShape([1, 5])
    """

    rank = 3


@export("keras.layers.GlobalMaxPooling1D", "keras.layers.GlobalMaxPool1D")
class GlobalMaxPooling1D(_GlobalMax):
    """The largest element over time.

    Inputs are [batch, time, features], the output is [batch, features].

    Args:
        data_format: `"channels_last"` or `"channels_first"`; by default that of the Keras configuration.
        keepdims: Whether reduced axes stay, with size 1.
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.
    """

    rank = 1

    def __init__(self, data_format: Any = "channels_last", keepdims: bool = False, **kwargs: Any):
        super().__init__(data_format, keepdims, **kwargs)


@export("keras.layers.GlobalMaxPooling2D", "keras.layers.GlobalMaxPool2D")
class GlobalMaxPooling2D(_GlobalMax):
    """The largest element of each channel of images.

    Args:
        data_format: `"channels_last"` or `"channels_first"`, by default as in the Keras configuration.
        keepdims: Whether to keep the reduced axes, with size 1.
        **kwargs: Passed to the base class: `name`, `dtype`, `trainable`, `input_shape`.

    >>> tf.keras.layers.GlobalMaxPooling2D()(tf.ones([1, 2, 2, 5])).shape
    TensorShape([1, 5])
    """

    rank = 2


@export("keras.layers.GlobalMaxPooling3D", "keras.layers.GlobalMaxPool3D")
class GlobalMaxPooling3D(_GlobalMax):
    """The largest element of each channel of volumes.

    Args:
        data_format: `"channels_last"` or `"channels_first"`, by default as in the Keras configuration.
        keepdims: Whether to keep the reduced axes, with size 1.
        **kwargs: Passed to the base class: `name`, `dtype`, `trainable`, `input_shape`.

    >>> tf.keras.layers.GlobalMaxPooling3D()(tf.ones([1, 2, 2, 2, 5])).shape
    TensorShape([1, 5])
    """

    rank = 3
