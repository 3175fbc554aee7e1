"""Image similarity and gradients: total variation, PSNR, SSIM, Sobel edges."""
from __future__ import annotations

from typing import Any

import numpy as np

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.graph.convert import convert
from penstock._src.library.image.checks import after
from penstock._src.library.image.color import convert_image_dtype
from penstock.compat import v1 as tf


@export("image.total_variation")
def total_variation(images: Any, name: str | None = None) -> Any:
    """The sum of absolute differences between neighbouring pixels.

    Args:
        images: Images [height, width, channels] or [batch, height, width, channels].
        name: Name of the operation.

    Returns:
        A number for each image.

    >>> tf.image.total_variation([[[0.], [1.]], [[0.], [1.]]]).numpy().item()
    2.0
    """
    with tf.name_scope(name, "total_variation"):
        images = convert(images)
        rank = images.shape.ndims
        if rank not in (3, 4):
            raise ValueError("'images' must be either 3 or 4-dimensional.")
        axes = None if rank == 3 else [1, 2, 3]
        lead = (slice(None),) * (rank - 3)
        down = images[(*lead, slice(1, None))] - images[(*lead, slice(None, -1))]
        right = images[(*lead, slice(None), slice(1, None))] - images[(*lead, slice(None), slice(None, -1))]
        return tf.reduce_sum(tf.abs(down), axis=axes) + tf.reduce_sum(tf.abs(right), axis=axes)


def _same_shapes(a: Any, b: Any) -> list:
    """Assertions that two batches of images have compatible shapes; ValueError if it is known statically that they do not."""
    a.shape.with_rank_at_least(3)
    b.shape.with_rank_at_least(3)
    a.shape[-3:].assert_is_compatible_with(b.shape[-3:])
    if a.shape.ndims is not None and b.shape.ndims is not None:
        for x, y in zip(reversed(a.shape.as_list()[:-3]), reversed(b.shape.as_list()[:-3]), strict=False):
            if x is not None and y is not None and 1 not in (x, y) and x != y:
                raise ValueError(f"Two images are not compatible: {a.shape} and {b.shape}")
    if a.shape.is_fully_defined() and b.shape.is_fully_defined():
        return []
    return [c for c in [tf.Assert(tf.reduce_all(tf.equal(tf.shape(a)[-3:], tf.shape(b)[-3:])), [tf.shape(a), tf.shape(b)])]
            if c is not None]


@export("image.psnr")
def psnr(a: Any, b: Any, max_val: Any, name: str | None = None) -> Any:
    """Peak signal to noise ratio, in dB.

    Args:
        a: Images [..., height, width, channels].
        b: Images of the same shape.
        max_val: Difference between the largest and the smallest possible value.
        name: Name of the operation.

    Returns:
        Decibels for each image.

    >>> tf.image.psnr(tf.zeros([2, 2, 1]), 0.1 * tf.ones([2, 2, 1]), max_val=1.0).numpy().round(3).item()
    20.0
    """
    with tf.name_scope(name, "PSNR", [a, b]):
        a, b = convert(a), convert(b)
        top = convert_image_dtype(tf.cast(max_val, a.dtype), dtypes.float32)
        a, b = convert_image_dtype(a, dtypes.float32), convert_image_dtype(b, dtypes.float32)
        squares = tf.squared_difference(a, b)
        checks = _same_shapes(a, b)
        error = tf.reduce_mean(squares, [-3, -2, -1])
        value = 20 * tf.log(top) / np.log(10.0) - np.float32(10 / np.log(10)) * tf.log(error)
        return after(checks, value)


def _window(size: int, sigma: float) -> Any:
    """A normalised Gaussian window [size, size, 1, 1]."""
    x = np.arange(size, dtype=np.float32) - (size - 1) / 2
    g = np.exp(-(x * x)[:, None] / (2 * sigma * sigma) - (x * x)[None] / (2 * sigma * sigma))
    return tf.constant((g / g.sum()).reshape(size, size, 1, 1).astype(np.float32))


def _ssim_parts(a: Any, b: Any, top: Any, size: int, sigma: float, k1: float, k2: float,
                local: bool = False) -> tuple[Any, Any]:
    """SSIM and contrast-structure, per channel, averaged over positions unless `local`."""
    shape_a, shape_b = tf.shape(a), tf.shape(b)
    checks = [c for x in (shape_a, shape_b) for c in [tf.Assert(tf.reduce_all(tf.greater_equal(x[-3:-1], size)),
                                                                [x, size], summarize=8)] if c is not None]
    a = after(checks, a)
    window = tf.tile(_window(size, sigma), [1, 1, shape_a[-1], 1])

    def smooth(x: Any) -> Any:
        shape = tf.shape(x)
        flat = tf.reshape(x, tf.concat([[-1], shape[-3:]], 0))
        y = tf.nn.depthwise_conv2d(flat, window, strides=[1, 1, 1, 1], padding="VALID")
        return tf.reshape(y, tf.concat([shape[:-3], tf.shape(y)[1:]], 0))
    c1, c2 = (k1 * top) ** 2, (k2 * top) ** 2
    mean_a, mean_b = smooth(a), smooth(b)
    product, squares = mean_a * mean_b * 2.0, tf.square(mean_a) + tf.square(mean_b)
    luminance = (product + c1) / (squares + c1)
    cross, power = smooth(a * b) * 2.0, smooth(tf.square(a) + tf.square(b))
    structure = (cross - product + c2) / (power - squares + c2)
    if local:
        return luminance * structure, structure
    axes = [-3, -2]
    return tf.reduce_mean(luminance * structure, axes), tf.reduce_mean(structure, axes)


def _prepared(img1: Any, img2: Any, max_val: Any) -> tuple:
    img1, img2 = convert(img1, name="img1"), convert(img2, name="img2")
    checks = _same_shapes(img1, img2)
    img1 = after(checks, img1)
    top = convert_image_dtype(tf.cast(max_val, img1.dtype), dtypes.float32)
    return convert_image_dtype(img1, dtypes.float32), convert_image_dtype(img2, dtypes.float32), top


@export("image.ssim")
def ssim(img1: Any, img2: Any, max_val: Any, filter_size: int = 11, filter_sigma: float = 1.5, k1: float = 0.01,
         k2: float = 0.03, return_index_map: bool = False) -> Any:
    """Structural similarity of two images, 1 for equal ones.

    Args:
        img1: Batch of images.
        img2: Batch of images of the same shape.
        max_val: The difference between the largest and the smallest value that a pixel can have.
        filter_size: Size of the Gaussian window.
        filter_sigma: Standard deviation of the window.
        k1: Stabilizes the comparison of brightness.
        k2: Stabilizes the comparison of contrasts.
        return_index_map: Whether to return the similarity at each position of the window, not its mean.

    Returns:
        One number per image; with `return_index_map` an array of the positions per image.
    """
    with tf.name_scope(None, "SSIM", [img1, img2]):
        a, b, top = _prepared(img1, img2, max_val)
        return tf.reduce_mean(_ssim_parts(a, b, top, filter_size, filter_sigma, k1, k2, return_index_map)[0], [-1])


_SCALES = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)


@export("image.ssim_multiscale")
def ssim_multiscale(img1: Any, img2: Any, max_val: Any, power_factors: Any = _SCALES, filter_size: int = 11,
                    filter_sigma: float = 1.5, k1: float = 0.01, k2: float = 0.03) -> Any:
    """Structural similarity over several scales, each half as large as the one before."""
    with tf.name_scope(None, "MS-SSIM", [img1, img2]):
        a, b, top = _prepared(img1, img2, max_val)
        parts = []
        for k in range(len(power_factors)):
            if k > 0:
                a, b = _halved(a), _halved(b)
            both, structure = _ssim_parts(a, b, top, filter_size, filter_sigma, k1, k2)
            parts.append(tf.nn.relu(structure))
        parts[-1] = tf.nn.relu(both)
        powers = tf.constant([float(p) for p in power_factors])
        return tf.reduce_mean(tf.reduce_prod(tf.pow(tf.stack(parts, axis=-1), powers), [-1]), [-1])


def _halved(x: Any) -> Any:
    """Means of 2x2 blocks; an odd edge is mirrored first."""
    shape = tf.shape(x)
    flat = tf.reshape(x, tf.concat([[-1], shape[-3:]], 0))
    odd = shape[-3:-1] % 2
    pads = tf.concat([[[0, 0]], tf.stack([tf.zeros_like(odd), odd], 1), [[0, 0]]], 0)
    flat = tf.pad(flat, pads, mode="SYMMETRIC")
    small = tf.nn.avg_pool(flat, [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
    return tf.reshape(small, tf.concat([shape[:-3], tf.shape(small)[1:]], 0))


@export("image.image_gradients")
def image_gradients(image: Any) -> tuple[Any, Any]:
    """The differences to the next row and to the next column, zero at the end.

    Args:
        image: Images [batch, height, width, channels].

    Returns:
        A pair of tensors of the shape of `image`.

    Raises:
        ValueError: if `image` does not have four dimensions.

    >>> dy, dx = tf.image.image_gradients(tf.reshape(tf.range(4.0), [1, 2, 2, 1]))
    >>> dy[0, :, :, 0].numpy().tolist(), dx[0, :, :, 0].numpy().tolist()
    ([[2.0, 2.0], [0.0, 0.0]], [[1.0, 0.0], [1.0, 0.0]])
    """
    image = convert(image)
    if image.shape.ndims != 4:
        raise ValueError(f"image_gradients expects a 4D tensor [batch_size, h, w, d], not {image.shape}.")
    n, h, w, d = tf.unstack(tf.shape(image))
    dy = tf.concat([image[:, 1:] - image[:, :-1], tf.zeros(tf.stack([n, 1, w, d]), image.dtype)], 1)
    dx = tf.concat([image[:, :, 1:] - image[:, :, :-1], tf.zeros(tf.stack([n, h, 1, d]), image.dtype)], 2)
    return tf.reshape(dy, tf.shape(image)), tf.reshape(dx, tf.shape(image))


@export("image.sobel_edges")
def sobel_edges(image: Any) -> Any:
    """The vertical and horizontal differences of images, by Sobel's filters.

    Args:
        image: Images [batch, height, width, channels].

    Returns:
        [batch, height, width, channels, 2]: differences along the height, then along the width.

    >>> tf.image.sobel_edges(tf.ones([1, 4, 4, 3])).shape
    TensorShape([1, 4, 4, 3, 2])
    """
    image = convert(image)
    static = image.shape
    kernels = np.array([[[-1, -2, -1], [0, 0, 0], [1, 2, 1]], [[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]]], np.float32)
    filters = tf.constant(np.transpose(kernels, (1, 2, 0))[:, :, None], image.dtype)
    filters = tf.tile(filters, [1, 1, tf.shape(image)[-1], 1])
    padded = tf.pad(image, [[0, 0], [1, 1], [1, 1], [0, 0]], mode="REFLECT")
    out = tf.nn.depthwise_conv2d(padded, filters, [1, 1, 1, 1], "VALID")
    out = tf.reshape(out, tf.concat([tf.shape(image), [2]], 0))
    out.set_shape(static.concatenate([2]))
    return out
