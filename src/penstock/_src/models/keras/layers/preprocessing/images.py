"""Images made to fit: Resizing, CenterCrop."""
from __future__ import annotations

from typing import Any

import penstock
from penstock._src.base.api import export
from penstock._src.models.keras import backend as K
from penstock._src.models.keras.layers.parts import described, dims_of
from penstock._src.models.keras.layers.preprocessing.base import PreprocessingLayer, names
from penstock.compat import v1 as tf

_METHODS = ("bilinear", "nearest", "bicubic", "area", "lanczos3", "lanczos5", "gaussian", "mitchellcubic")


def checked_method(interpolation: str) -> str:
    """A method of tf.image.resize."""
    found = interpolation.lower()
    if found not in _METHODS:
        raise NotImplementedError(f"Value not recognized for `interpolation`: {interpolation}. Supported values are: "
                                  f"{_METHODS}")
    return found


class ImageLayer(PreprocessingLayer):
    """A layer on [..., height, width, channels]."""

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)

    def _images(self, inputs: Any) -> Any:
        rank = getattr(inputs, "shape", tf.TensorShape(None)).rank
        if rank is not None and rank < 3:
            raise tf.errors.InvalidArgumentError(None, None, "Images must be [..., height, width, channels], but the input of "
                                                 f"{type(self).__name__} has shape {inputs.shape}.")
        return tf.cast(inputs, self._compute_dtype or K.floatx())


def resized(images: Any, size: Any, method: str) -> Any:
    """Images in another size, as floats."""
    return tf.cast(penstock.image.resize(images, size, method=method), images.dtype)


@export(*names("Resizing"))
class Resizing(ImageLayer):
    """Images in a given size.

    Inputs are [..., height, width, channels]; the output has a floating-point type.

    Args:
        height: New height.
        width: New width.
        interpolation: Method of `tf.image.resize`, such as `"bilinear"`.
        crop_to_aspect_ratio: Whether to crop instead of distorting images.
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.

    >>> tf.keras.layers.Resizing(32, 32)
    """

    def __init__(self, height: int, width: int, interpolation: str = "bilinear", crop_to_aspect_ratio: bool = False,
                 **kwargs: Any):
        super().__init__(**kwargs)
        self.height, self.width, self.interpolation = height, width, checked_method(interpolation)
        self.crop_to_aspect_ratio = crop_to_aspect_ratio

    def call(self, inputs: Any) -> Any:
        """The resized images."""
        images = self._images(inputs)
        if self.crop_to_aspect_ratio:
            sizes = tf.shape(images)
            high, wide = sizes[-3], sizes[-2]
            cut_high = tf.minimum(high, tf.cast(tf.cast(wide * self.height, tf.float32) / self.width, tf.int32))
            cut_wide = tf.minimum(wide, tf.cast(tf.cast(high * self.width, tf.float32) / self.height, tf.int32))
            top, left = (high - cut_high) // 2, (wide - cut_wide) // 2
            images = images[..., top:top + cut_high, left:left + cut_wide, :]
        return resized(images, [self.height, self.width], self.interpolation)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The inputs' shape with the new size."""
        dims = dims_of(input_shape)
        return tf.TensorShape([*dims[:-3], self.height, self.width, dims[-1]])

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        return described(self, super().get_config(), ("height", "width", "interpolation", "crop_to_aspect_ratio"))


@export(*names("CenterCrop"))
class CenterCrop(ImageLayer):
    """The middle of images; smaller ones are first made larger.

    Args:
        height: New height.
        width: New width.
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.
    """

    def __init__(self, height: int, width: int, **kwargs: Any):
        super().__init__(**kwargs)
        self.height, self.width = height, width

    def call(self, inputs: Any) -> Any:
        """The cropped images."""
        images = self._images(inputs)
        high, wide = K.mixed_shape(images)[-3:-1]
        if isinstance(high, int) and isinstance(wide, int):
            if high >= self.height and wide >= self.width:
                return self._cut(images, high, wide)
            return self._covering(images)
        fits = tf.logical_and(tf.greater_equal(high, self.height), tf.greater_equal(wide, self.width))
        out = tf.cond(fits, lambda: self._cut(images, high, wide), lambda: self._covering(images))
        out.set_shape(self.compute_output_shape(images.shape))
        return out

    def _cut(self, images: Any, high: Any, wide: Any) -> Any:
        top, left = (high - self.height) // 2, (wide - self.width) // 2
        return images[..., top:top + self.height, left:left + self.width, :]

    def _covering(self, images: Any) -> Any:
        return Resizing(self.height, self.width, crop_to_aspect_ratio=True, dtype=self.dtype).call(images)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The inputs' shape with the new size."""
        dims = dims_of(input_shape)
        return tf.TensorShape([*dims[:-3], self.height, self.width, dims[-1]])

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        return described(self, super().get_config(), ("height", "width"))
