"""Colours, brightness, contrast, and conversions between image types and colour spaces."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.base.dispatch import dispatched
from penstock._src.graph import context
from penstock._src.graph.constant import constant_value
from penstock._src.graph.convert import convert
from penstock._src.library.image.checks import after, at_least_3d, is_tensor
from penstock._src.library.image.draws import Draw, seeded, stateless
from penstock.compat import v1 as tf


@export("image.convert_image_dtype")
@dispatched
def convert_image_dtype(image: Any, dtype: Any, saturate: bool = False, name: str | None = None) -> Any:
    """Another dtype, scaled: floats are in [0, 1), integers use their whole positive range.

    Args:
        image: Image [height, width, channels], or a batch of images.
        dtype: New element type.
        saturate: Whether values out of range are clipped.
        name: Name of the operation.

    Returns:
        Images of type `dtype`.

    >>> tf.image.convert_image_dtype(tf.constant([[[0, 51, 255]]], tf.uint8), tf.float32).numpy()
    array([[[0.        , 0.20000002, 1.        ]]], dtype=float32)
    """
    image, dtype = convert(image, name="image"), dtypes.as_dtype(dtype)
    if not dtype.is_floating and not dtype.is_integer:
        raise AttributeError(f"dtype must be either floating point or integer, got {dtype}")
    if dtype == image.dtype:
        return tf.identity(image, name=name)
    with tf.name_scope(name, "convert_image", [image]) as name:
        if image.dtype.is_integer and dtype.is_integer:
            return _between_integers(image, dtype, saturate, name)
        if image.dtype.is_floating and dtype.is_floating:
            return tf.cast(image, dtype, name=name)
        if image.dtype.is_integer:
            return tf.multiply(tf.cast(image, dtype), 1.0 / image.dtype.max, name=name)
        scaled = tf.multiply(image, dtype.max + 0.5)
        return tf.saturate_cast(scaled, dtype, name=name) if saturate else tf.cast(scaled, dtype, name=name)


def _between_integers(image: Any, dtype: Any, saturate: bool, name: Any) -> Any:
    have, want = image.dtype.max, dtype.max
    if have > want:
        scaled = tf.floordiv(image, (have + 1) // (want + 1))
        return tf.saturate_cast(scaled, dtype, name=name) if saturate else tf.cast(scaled, dtype, name=name)
    wide = tf.saturate_cast(image, dtype) if saturate else tf.cast(image, dtype)
    return tf.multiply(wide, (want + 1) // (have + 1), name=name)


@export("image.rgb_to_grayscale")
def rgb_to_grayscale(images: Any, name: str | None = None) -> Any:
    """Luma of RGB images.

    Args:
        images: Images with three channels in the last dimension.
        name: Name of the operation.

    Returns:
        Images with one channel.

    >>> tf.image.rgb_to_grayscale(tf.ones([2, 2, 3])).shape
    TensorShape([2, 2, 1])
    """
    with tf.name_scope(name, "rgb_to_grayscale", [images]) as name:
        images = convert(images, name="images")
        dtype = images.dtype
        grey = tf.tensordot(convert_image_dtype(images, dtypes.float32), [0.2989, 0.5870, 0.1140], [-1, -1])
        return convert_image_dtype(tf.expand_dims(grey, -1), dtype, name=name)


@export("image.grayscale_to_rgb")
def grayscale_to_rgb(images: Any, name: str | None = None) -> Any:
    """Three equal channels.

    Args:
        images: Images with one channel.
        name: Name of the operation.

    Returns:
        Images with three channels.

    >>> tf.image.grayscale_to_rgb([[[7]]]).numpy().tolist()
    [[[7, 7, 7]]]
    """
    with tf.name_scope(name, "grayscale_to_rgb", [images]) as name:
        images = convert(images, name="images")
        if images.shape.ndims is not None and images.shape.ndims < 2:
            raise ValueError(f"A grayscale image (shape {images.shape}) must be at least two-dimensional.")
        last = images.shape.as_list()[-1] if images.shape.ndims is not None else None
        if last not in (1, None):
            raise ValueError(f"Last dimension of a grayscale image should be size 1, got {last}")
        checks = []
        if last is None:
            checks = [c for c in [tf.debugging.assert_equal(tf.shape(images)[-1], 1,
                                                            message="Last dimension of a grayscale image should be size 1.")]
                      if c is not None]
        images = after(checks, images)
        ones = tf.concat([tf.ones([tf.rank(images) - 1], dtypes.int32), [3]], 0)
        out = tf.tile(images, ones, name=name)
        if images.shape.ndims is not None:
            out.set_shape(images.shape[:-1].concatenate([3]))
        return out


def _in_floats(image: Any, f: Callable, saturate: bool, name: Any = None) -> Any:
    """Applies f to the image as floats in [0, 1), and converts the result back to the image's dtype."""
    image = convert(image, name="image")
    dtype = image.dtype
    wide = image if dtype in (dtypes.float16, dtypes.float32) else convert_image_dtype(image, dtypes.float32)
    return convert_image_dtype(f(wide), dtype, saturate=saturate, name=name)


def _random_factor(lower: float, upper: float, draw: Draw) -> Any:
    if upper <= lower:
        raise ValueError("upper must be > lower.")
    if lower < 0:
        raise ValueError("lower must be non-negative.")
    return draw([], lower, upper)


def _random_delta(max_delta: float, draw: Draw) -> Any:
    if max_delta < 0:
        raise ValueError("max_delta must be non-negative.")
    return draw([], -max_delta, max_delta)


@export("image.adjust_brightness")
@dispatched
def adjust_brightness(image: Any, delta: Any) -> Any:
    """Adds `delta` to every pixel, on the scale of floats.

    Args:
        image: An image [height, width, channels], or a batch of them.
        delta: Added to the pixels, on a scale of 0 to 1.

    Returns:
        An image of the same shape and type.

    >>> tf.image.adjust_brightness(tf.constant([[[0.1, 0.2, 0.3]]]), 0.1).numpy()
    array([[[0.2, 0.3, 0.4]]], dtype=float32)
    """
    with tf.name_scope(None, "adjust_brightness", [image, delta]) as name:
        return _in_floats(image, lambda x: tf.add(x, tf.cast(delta, x.dtype)), True, name)


@export("image.random_brightness")
@dispatched
def random_brightness(image: Any, max_delta: float, seed: Any = None) -> Any:
    """adjust_brightness by a random amount in [-max_delta, max_delta).

    Args:
        image: Image [height, width, channels], or a batch of images.
        max_delta: Largest amount; not negative.
        seed: Seed of the operation. With the graph's seed it fixes the numbers drawn; by default they differ in every run.

    Returns:
        A tensor of the type and shape of `image`.

    >>> brighter = tf.image.random_brightness(tf.zeros([2, 2, 3]), max_delta=0.2)
    >>> bool(tf.reduce_all(tf.abs(brighter) <= 0.2))
    True
    """
    return adjust_brightness(image, _random_delta(max_delta, seeded(seed)))


@export("image.stateless_random_brightness")
@dispatched
def stateless_random_brightness(image: Any, max_delta: float, seed: Any) -> Any:
    """Adds an amount in [-max_delta, max_delta), which `seed` determines, to all pixels.

    Args:
        image: Images of any shape.
        max_delta: The limit of the amount, not negative.
        seed: Two integers.

    Returns:
        The images.

    >>> a = tf.image.stateless_random_brightness(tf.zeros([2, 2, 3]), 0.2, seed=(1, 2))
    >>> print(bool(tf.reduce_all(a == tf.image.stateless_random_brightness(tf.zeros([2, 2, 3]), 0.2, seed=(1, 2)))))
    True
    """
    return adjust_brightness(image, _random_delta(max_delta, stateless(seed)))


@export("image.adjust_contrast")
def adjust_contrast(images: Any, contrast_factor: Any) -> Any:
    """Moves pixels away from (or to) the mean of their channel.

    Args:
        images: Images [..., height, width, channels].
        contrast_factor: Factor of the distances from the mean.

    Returns:
        An image of the same shape and type.

    >>> tf.image.adjust_contrast(tf.constant([[[0.], [1.]]]), 2.).numpy()
    array([[[-0.5],
            [ 1.5]]], dtype=float32)
    """
    with tf.name_scope(None, "adjust_contrast", [images, contrast_factor]) as name:
        return _in_floats(images, lambda x: tf.raw_ops.AdjustContrastv2(images=x, contrast_factor=contrast_factor, name=name),
                          True)


@export("image.random_contrast")
def random_contrast(image: Any, lower: float, upper: float, seed: Any = None) -> Any:
    """adjust_contrast by a random factor in [lower, upper).

    Args:
        image: Image [height, width, channels], or a batch of images.
        lower: Smallest factor.
        upper: Largest factor.
        seed: Seed of the operation. With the graph's seed it fixes the numbers drawn; by default they differ in every run.

    Returns:
        A tensor of the type and shape of `image`.

    >>> tf.image.random_contrast(tf.ones([2, 2, 3]), lower=0.5, upper=1.5).shape
    TensorShape([2, 2, 3])
    """
    return adjust_contrast(image, _random_factor(lower, upper, seeded(seed)))


@export("image.stateless_random_contrast")
def stateless_random_contrast(image: Any, lower: float, upper: float, seed: Any) -> Any:
    """Changes the contrast of images by a factor in [lower, upper), which `seed` determines.

    Args:
        image: Images [..., height, width, channels].
        lower, upper: The limits of the factor.
        seed: Two integers.

    Returns:
        The images.

    >>> tf.image.stateless_random_contrast(tf.ones([2, 2, 3]), 0.5, 1.5, seed=(1, 2)).shape
    TensorShape([2, 2, 3])
    """
    return adjust_contrast(image, _random_factor(lower, upper, stateless(seed)))


@export("image.adjust_gamma")
@dispatched
def adjust_gamma(image: Any, gamma: Any = 1, gain: Any = 1) -> Any:
    """gain * image ** gamma.

    Args:
        image: Image of floats in [0, 1], or of another type.
        gamma: Exponent, not negative.
        gain: Factor.

    Returns:
        Image of the type of `image`.

    >>> tf.image.adjust_gamma([[[0.5]]], gamma=2.0).numpy().tolist()
    [[[0.25]]]
    """
    with tf.name_scope(None, "adjust_gamma", [image, gamma, gain]) as name:
        known = constant_value(gamma) if is_tensor(gamma) else gamma
        message = "Gamma should be a non-negative real number."
        if known is not None and known < 0:
            raise ValueError(message)
        if known is None:
            gamma = after([tf.Assert(tf.greater_equal(gamma, 0), [message])], gamma)
        return _in_floats(image, lambda x: gain * x**gamma, True, name)


@export("image.adjust_hue")
def adjust_hue(image: Any, delta: Any, name: str | None = None) -> Any:
    """Turns the hue of RGB images by `delta` (1 is a full turn).

    Args:
        image: An image [height, width, channels], or a batch of them.
        delta: Turn of the hue, between -1 and 1.
        name: Name of the operation.

    Returns:
        An image of the same shape and type.

    >>> tf.image.adjust_hue(tf.constant([[[1., 0., 0.]]]), 0.5).numpy().round(4)
    array([[[0., 1., 1.]]], dtype=float32)
    """
    if isinstance(delta, (int, float)) and not -1 <= delta <= 1 and context.executing_eagerly():
        raise ValueError(f"delta must be in the interval [-1, 1]. Received: {delta}")
    with tf.name_scope(name, "adjust_hue", [image]):
        return _in_floats(image, lambda x: tf.raw_ops.AdjustHue(images=x, delta=delta), False)


@export("image.random_hue")
def random_hue(image: Any, max_delta: float, seed: Any = None) -> Any:
    """adjust_hue by a random amount in [-max_delta, max_delta).

    Args:
        image: Image [height, width, channels], or a batch of images.
        max_delta: Largest part of the colour circle, at most 0.5.
        seed: Seed of the operation. With the graph's seed it fixes the numbers drawn; by default they differ in every run.

    Returns:
        A tensor of the type and shape of `image`.

    >>> tf.image.random_hue(tf.ones([2, 2, 3]), max_delta=0.1).shape
    TensorShape([2, 2, 3])
    """
    return _random_hue(image, max_delta, seeded(seed))


@export("image.stateless_random_hue")
def stateless_random_hue(image: Any, max_delta: float, seed: Any) -> Any:
    """Turns the hue of RGB images by an amount in [-max_delta, max_delta), which `seed` determines.

    Args:
        image: RGB images [..., 3].
        max_delta: The limit of the amount, between 0 and 0.5.
        seed: Two integers.

    Returns:
        The images.

    >>> tf.image.stateless_random_hue(tf.ones([2, 2, 3]), 0.2, seed=(1, 2)).shape
    TensorShape([2, 2, 3])
    """
    return _random_hue(image, max_delta, stateless(seed))


def _random_hue(image: Any, max_delta: float, draw: Draw) -> Any:
    if max_delta > 0.5:
        raise ValueError("max_delta must be <= 0.5.")
    return adjust_hue(image, _random_delta(max_delta, draw))


@export("image.adjust_saturation")
def adjust_saturation(image: Any, saturation_factor: Any, name: str | None = None) -> Any:
    """Multiplies the saturation of RGB images.

    Args:
        image: An image [height, width, channels], or a batch of them.
        saturation_factor: Factor of the saturation.
        name: Name of the operation.

    Returns:
        An image of the same shape and type.

    >>> tf.image.adjust_saturation(tf.constant([[[1., 0.5, 0.5]]]), 0.).numpy()
    array([[[1., 1., 1.]]], dtype=float32)
    """
    with tf.name_scope(name, "adjust_saturation", [image]):
        return _in_floats(image, lambda x: tf.raw_ops.AdjustSaturation(images=x, scale=saturation_factor), False)


@export("image.random_saturation")
def random_saturation(image: Any, lower: float, upper: float, seed: Any = None) -> Any:
    """adjust_saturation by a random factor in [lower, upper).

    Args:
        image: Image [height, width, channels], or a batch of images.
        lower: Smallest factor.
        upper: Largest factor.
        seed: Seed of the operation. With the graph's seed it fixes the numbers drawn; by default they differ in every run.

    Returns:
        A tensor of the type and shape of `image`.

    >>> tf.image.random_saturation(tf.ones([2, 2, 3]), lower=0.5, upper=1.5).shape
    TensorShape([2, 2, 3])
    """
    return adjust_saturation(image, _random_factor(lower, upper, seeded(seed)))


@export("image.stateless_random_saturation")
def stateless_random_saturation(image: Any, lower: float, upper: float, seed: Any = None) -> Any:
    """Changes the saturation of RGB images by a factor in [lower, upper), which `seed` determines.

    Args:
        image: RGB images [..., 3].
        lower, upper: The limits of the factor.
        seed: Two integers.

    Returns:
        The images.

    >>> tf.image.stateless_random_saturation(tf.ones([2, 2, 3]), 0.5, 1.5, seed=(1, 2)).shape
    TensorShape([2, 2, 3])
    """
    return adjust_saturation(image, _random_factor(lower, upper, stateless(seed)))


@export("image.adjust_jpeg_quality")
def adjust_jpeg_quality(image: Any, jpeg_quality: Any, dct_method: str = "", name: str | None = None) -> Any:
    """The image after encoding and decoding as JPEG with a quality.

    Args:
        image: An image [height, width, channels].
        jpeg_quality: From 0 to 100.
        dct_method: `"INTEGER_FAST"` or `"INTEGER_ACCURATE"`; decoding is accurate in any case.
        name: Name of the operation.

    Returns:
        An image of the same type.
    """
    with tf.name_scope(name, "adjust_jpeg_quality", [image]):
        image = convert(image, name="image")
        dtype, channels = image.dtype, image.shape.as_list()[-1]
        data = tf.raw_ops.EncodeJpegVariableQuality(images=convert_image_dtype(image, dtypes.uint8),
                                                    quality=convert(jpeg_quality, dtypes.int32))
        return convert_image_dtype(tf.image.decode_jpeg(data, channels=channels, dct_method=dct_method), dtype, saturate=True)


@export("image.random_jpeg_quality")
def random_jpeg_quality(image: Any, min_jpeg_quality: int, max_jpeg_quality: int, seed: Any = None) -> Any:
    """adjust_jpeg_quality at a random quality."""
    return _random_quality(image, min_jpeg_quality, max_jpeg_quality, seeded(seed))


@export("image.stateless_random_jpeg_quality")
def stateless_random_jpeg_quality(image: Any, min_jpeg_quality: int, max_jpeg_quality: int, seed: Any) -> Any:
    """adjust_jpeg_quality at a quality determined by `seed`."""
    return _random_quality(image, min_jpeg_quality, max_jpeg_quality, stateless(seed))


def _random_quality(image: Any, min_jpeg_quality: int, max_jpeg_quality: int, draw: Draw) -> Any:
    if min_jpeg_quality < 0 or max_jpeg_quality < 0 or min_jpeg_quality > 100 or max_jpeg_quality > 100:
        raise ValueError("jpeg encoding range must be between 0 and 100.")
    if min_jpeg_quality >= max_jpeg_quality:
        raise ValueError("`max_jpeg_quality` must be greater than `min_jpeg_quality`.")
    return adjust_jpeg_quality(image, draw([], min_jpeg_quality, max_jpeg_quality, dtypes.int32))


@export("image.per_image_standardization")
def per_image_standardization(image: Any) -> Any:
    """Each image with mean 0 and variance 1 (at least 1/√n is divided by).

    Args:
        image: An image [height, width, channels], or a batch of them.

    Returns:
        A float32 tensor of the same shape.

    >>> standard = tf.image.per_image_standardization(tf.reshape(tf.range(12.), [2, 2, 3]))
    >>> tf.reduce_mean(standard).numpy().round(4)
    np.float32(0.0)
    """
    with tf.name_scope(None, "per_image_standardization", [image]) as scope:
        image = convert(image, name="image")
        image = after(at_least_3d(image), image)
        dtype = image.dtype
        image = tf.cast(image, dtypes.float32) if dtype not in (dtypes.float16, dtypes.float32) else image
        n = tf.reduce_prod(tf.shape(image)[-3:])
        mean = tf.reduce_mean(image, axis=[-1, -2, -3], keepdims=True)
        deviation = tf.math.reduce_std(image, axis=[-1, -2, -3], keepdims=True)
        least = tf.rsqrt(tf.cast(n, image.dtype))
        return tf.div(image - mean, tf.maximum(deviation, least), name=scope)


_YIQ = [[0.299, 0.59590059, 0.2115], [0.587, -0.27455667, -0.52273617], [0.114, -0.32134392, 0.31119955]]
_FROM_YIQ = [[1, 1, 1], [0.95598634, -0.27201283, -1.10674021], [0.6208248, -0.64720424, 1.70423049]]
_YUV = [[0.299, -0.14714119, 0.61497538], [0.587, -0.28886916, -0.51496512], [0.114, 0.43601035, -0.10001026]]
_FROM_YUV = [[1, 1, 1], [0, -0.394642334, 2.03206185], [1.13988303, -0.58062185, 0]]


def _linear(images: Any, matrix: list) -> Any:
    images = convert(images, name="images")
    kernel = convert(matrix, images.dtype, "kernel")
    rank = images.shape.ndims
    out = tf.tensordot(images, kernel, axes=[[rank - 1], [0]])
    out.set_shape(images.shape)
    return out


@export("image.rgb_to_yiq")
def rgb_to_yiq(images: Any) -> Any:
    """RGB to YIQ."""
    return _linear(images, _YIQ)


@export("image.yiq_to_rgb")
def yiq_to_rgb(images: Any) -> Any:
    """YIQ to RGB."""
    return _linear(images, _FROM_YIQ)


@export("image.rgb_to_yuv")
def rgb_to_yuv(images: Any) -> Any:
    """RGB to YUV."""
    return _linear(images, _YUV)


@export("image.yuv_to_rgb")
def yuv_to_rgb(images: Any) -> Any:
    """YUV to RGB."""
    return _linear(images, _FROM_YUV)
