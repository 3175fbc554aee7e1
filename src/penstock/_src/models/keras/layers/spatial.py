"""Making images, volumes and sequences larger or smaller: repeating, padding with zeros, cropping."""
from __future__ import annotations

from typing import Any

import penstock
from penstock._src.base.api import export
from penstock._src.models.keras import backend as K
from penstock._src.models.keras.engine.base_layer import Layer
from penstock._src.models.keras.engine.input_spec import InputSpec
from penstock._src.models.keras.layers.parts import data_format_of, described, dims_of, numbers
from penstock.compat import v1 as tf


class _Spatial(Layer):
    """A layer that changes the sizes of the axes of images."""

    rank = 0
    _words: tuple = ()

    def __init__(self, data_format: Any, **kwargs: Any):
        super().__init__(**kwargs)
        self.data_format = data_format_of(data_format)
        self.input_spec = InputSpec(ndim=self.rank + 2)

    def _axes(self) -> range:
        first = 2 if self.data_format == "channels_first" else 1
        return range(first, first + self.rank)

    def _length(self, i: int, length: int) -> int:
        """The size of the i-th axis after the layer."""
        raise NotImplementedError

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The shape of the outputs."""
        dims = dims_of(input_shape)
        for i, axis in enumerate(self._axes()):
            if dims[axis] is not None:
                dims[axis] = self._length(i, dims[axis])
        return tf.TensorShape(dims)

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        first, *rest = self._words
        return described(self, super().get_config(), (first, *(("data_format",) if self.rank > 1 else ()), *rest))


# -- repeating ----------------------------------------------------------------------------------------------------------
class _UpSampling(_Spatial):
    size: Any

    _words: tuple[str, ...] = ("size",)

    def _length(self, i: int, length: int) -> int:
        return length * self.size[i]


@export("keras.layers.UpSampling1D")
class UpSampling1D(_UpSampling):
    """Each time step repeated `size` times.

    Args:
        size: How often each time step is repeated.
        **kwargs: Passed to the base class: `name`, `dtype`, `trainable`, `input_shape`.

    >>> tf.keras.layers.UpSampling1D(2)(tf.constant([[[1.], [2.]]])).numpy().ravel().tolist()
    [1.0, 1.0, 2.0, 2.0]
    """

    rank = 1

    def __init__(self, size: int = 2, **kwargs: Any):
        super().__init__("channels_last", **kwargs)
        self.size = int(size)

    def _length(self, i: int, length: int) -> int:
        return length * self.size

    def call(self, inputs: Any) -> Any:
        """The inputs, repeated."""
        return K.repeat_elements(inputs, self.size, axis=1)


@export("keras.layers.UpSampling2D")
class UpSampling2D(_UpSampling):
    """Rows and columns repeated, or interpolated ('bilinear' and the other methods of tf.image.resize).

    Inputs are [batch, height, width, channels], or channels first.

    Args:
        size: Factors for rows and columns; one integer for both.
        data_format: `"channels_last"` or `"channels_first"`; by default that of the Keras configuration.
        interpolation: `"nearest"` repeats, `"bilinear"` and others interpolate.
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.
    """

    rank = 2
    _words = ("size", "interpolation")

    def __init__(self, size: Any = (2, 2), data_format: Any = None, interpolation: str = "nearest", **kwargs: Any):
        super().__init__(data_format, **kwargs)
        self.size = numbers(size, 2, "size")
        known = ("nearest", "bilinear", "bicubic", "area", "gaussian", "lanczos3", "lanczos5", "mitchellcubic")
        if interpolation not in known:
            raise ValueError(f'`interpolation` argument should be one of `"nearest"` or `"bilinear"`; known are {known}.')
        self.interpolation = interpolation

    def call(self, inputs: Any) -> Any:
        """The larger images."""
        if self.interpolation in ("nearest", "bilinear"):
            rows, columns = self.size
            return K.resize_images(inputs, rows, columns, self.data_format, interpolation=self.interpolation)
        first = self.data_format == "channels_first"
        images = tf.transpose(inputs, [0, 2, 3, 1]) if first else inputs
        larger = penstock.image.resize(images, tf.shape(images)[1:3] * list(self.size), method=self.interpolation)
        return tf.transpose(larger, [0, 3, 1, 2]) if first else larger


@export("keras.layers.UpSampling3D")
class UpSampling3D(_UpSampling):
    """Elements of volumes repeated along each axis.

    Args:
        size: How often elements are repeated along each of the three axes.
        data_format: `"channels_last"` or `"channels_first"`, by default as in the Keras configuration.
        **kwargs: Passed to the base class: `name`, `dtype`, `trainable`, `input_shape`.

    >>> tf.keras.layers.UpSampling3D(2)(tf.ones([1, 1, 2, 3, 5])).shape
    TensorShape([1, 2, 4, 6, 5])
    """

    rank = 3

    def __init__(self, size: Any = (2, 2, 2), data_format: Any = None, **kwargs: Any):
        super().__init__(data_format, **kwargs)
        self.size = numbers(size, 3, "size")

    def call(self, inputs: Any) -> Any:
        """The larger volumes."""
        depth, rows, columns = self.size
        return K.resize_volumes(inputs, depth, rows, columns, self.data_format)


# -- pairs of numbers, before and after each axis -------------------------------------------------------------------------
def _pairs(value: Any, rank: int, name: str) -> tuple:
    """A pair for each axis, from a number, a number per axis, or the pairs."""
    if isinstance(value, int):
        return ((value, value),) * rank
    if not hasattr(value, "__len__"):
        raise ValueError(f"`{name}` should be either an int, a tuple of {rank} ints, or a tuple of {rank} tuples of 2 ints. "
                         f"Found: {value}")
    if len(value) != rank:
        raise ValueError(f"`{name}` should have {rank} elements. Found: {value}")
    return tuple(numbers(v, 2, f"{n} entry of {name}") for v, n in zip(value, ("1st", "2nd", "3rd")))


class _ZeroPadding(_Spatial):
    padding: Any

    _words = ("padding",)

    def _length(self, i: int, length: int) -> int:
        return length + sum(self.padding[i])


@export("keras.layers.ZeroPadding1D")
class ZeroPadding1D(_ZeroPadding):
    """Zeros before and after the time steps.

    Args:
        padding: A number, or (before, after).
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.
    """

    rank = 1

    def __init__(self, padding: Any = 1, **kwargs: Any):
        super().__init__("channels_last", **kwargs)
        self.padding = numbers(padding, 2, "padding")

    def _length(self, i: int, length: int) -> int:
        return length + sum(self.padding)

    def call(self, inputs: Any) -> Any:
        """The inputs between zeros."""
        return K.temporal_padding(inputs, padding=self.padding)


@export("keras.layers.ZeroPadding2D")
class ZeroPadding2D(_ZeroPadding):
    """Zeros around images: a number, (rows, columns), or ((top, bottom), (left, right)).

    Args:
        padding: A number, (rows, columns), or ((top, bottom), (left, right)).
        data_format: `"channels_last"` or `"channels_first"`; by default that of the Keras configuration.
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.
    """

    rank = 2

    def __init__(self, padding: Any = (1, 1), data_format: Any = None, **kwargs: Any):
        super().__init__(data_format, **kwargs)
        self.padding = _pairs(padding, 2, "padding")

    def call(self, inputs: Any) -> Any:
        """The images between zeros."""
        return K.spatial_2d_padding(inputs, padding=self.padding, data_format=self.data_format)


@export("keras.layers.ZeroPadding3D")
class ZeroPadding3D(_ZeroPadding):
    """Zeros around volumes: a number, one per axis, or a pair per axis.

    Args:
        padding: A number, one per axis, or a pair per axis for its two ends.
        data_format: `"channels_last"` or `"channels_first"`, by default as in the Keras configuration.
        **kwargs: Passed to the base class: `name`, `dtype`, `trainable`, `input_shape`.

    >>> tf.keras.layers.ZeroPadding3D(1)(tf.ones([1, 2, 2, 2, 1])).shape
    TensorShape([1, 4, 4, 4, 1])
    """

    rank = 3

    def __init__(self, padding: Any = (1, 1, 1), data_format: Any = None, **kwargs: Any):
        super().__init__(data_format, **kwargs)
        self.padding = _pairs(padding, 3, "padding")

    def call(self, inputs: Any) -> Any:
        """The volumes between zeros."""
        return K.spatial_3d_padding(inputs, padding=self.padding, data_format=self.data_format)


class _Cropping(_Spatial):
    cropping: Any

    _words = ("cropping",)

    def _each(self) -> tuple:
        """The pair of each axis."""
        return self.cropping

    def _length(self, i: int, length: int) -> int:
        return length - sum(self._each()[i])

    def call(self, inputs: Any) -> Any:
        """The inputs without their ends."""
        dims = dims_of(inputs.shape)
        cuts: list = [slice(None)] * len(dims)
        for axis, (before, after) in zip(self._axes(), self._each()):
            if dims[axis] is not None and before + after >= dims[axis]:
                raise ValueError(f"cropping parameter of {type(self).__name__} layer is too high: the result of crop would be "
                                 f"an empty tensor. Inputs: {dims}, cropping: {self.cropping}")
            cuts[axis] = slice(before, -after if after else None)
        return inputs[tuple(cuts)]


@export("keras.layers.Cropping1D")
class Cropping1D(_Cropping):
    """Without some time steps at the beginning and at the end.

    Args:
        cropping: How many steps to leave out: one number for both ends, or a pair.
        **kwargs: Passed to the base class: `name`, `dtype`, `trainable`, `input_shape`.

    Raises:
        ValueError: if nothing would be left.

    >>> tf.keras.layers.Cropping1D(1)(tf.ones([1, 5, 2])).shape
    TensorShape([1, 3, 2])
    """

    rank = 1

    def __init__(self, cropping: Any = (1, 1), **kwargs: Any):
        super().__init__("channels_last", **kwargs)
        self.cropping = numbers(cropping, 2, "cropping")

    def _each(self) -> tuple:
        return (self.cropping,)


@export("keras.layers.Cropping2D")
class Cropping2D(_Cropping):
    """Images without some rows and columns: a number, (rows, columns), or ((top, bottom), (left, right)).

    Args:
        cropping: A number, (rows, columns), or ((top, bottom), (left, right)).
        data_format: `"channels_last"` or `"channels_first"`; by default that of the Keras configuration.
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.
    """

    rank = 2

    def __init__(self, cropping: Any = ((0, 0), (0, 0)), data_format: Any = None, **kwargs: Any):
        super().__init__(data_format, **kwargs)
        self.cropping = _pairs(cropping, 2, "cropping")


@export("keras.layers.Cropping3D")
class Cropping3D(_Cropping):
    """Volumes without some of their outer elements: a number, one per axis, or a pair per axis.

    Args:
        cropping: A number, one per axis, or a pair per axis for its two ends.
        data_format: `"channels_last"` or `"channels_first"`, by default as in the Keras configuration.
        **kwargs: Passed to the base class: `name`, `dtype`, `trainable`, `input_shape`.

    >>> tf.keras.layers.Cropping3D(1)(tf.ones([1, 4, 4, 4, 2])).shape
    TensorShape([1, 2, 2, 2, 2])
    """

    rank = 3

    def __init__(self, cropping: Any = ((1, 1), (1, 1), (1, 1)), data_format: Any = None, **kwargs: Any):
        super().__init__(data_format, **kwargs)
        self.cropping = _pairs(cropping, 3, "cropping")
