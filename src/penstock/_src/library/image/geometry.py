"""Flips, rotations, crops, pads and resizes."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.base.dispatch import dispatched
from penstock._src.graph.constant import constant_value
from penstock._src.graph.convert import convert
from penstock._src.library.image.checks import after, at_least_3d, check, dimensions, image_of, is_tensor
from penstock._src.library.image.draws import Draw, seeded, stateless
from penstock._src.ops.random.random import crop_at_random
from penstock.compat import v1 as tf


def _each(image: Any, one: Callable, many: Callable) -> Any:
    """`one` for an image, `many` for a batch; both when the rank is not known."""
    rank = image.shape.ndims
    if rank is None:
        return tf.cond(tf.equal(tf.rank(image), 3), lambda: one(image), lambda: many(image))
    return one(image) if rank == 3 else many(image)


def _flip(image: Any, axis: int, scope: str) -> Any:
    with tf.name_scope(None, scope, [image]):
        image = image_of(image)
        checks = at_least_3d(image)
        image = after(checks, image)
        shape = image.shape
        out = _each(image, lambda x: tf.reverse(x, [axis]), lambda x: tf.reverse(x, [axis + 1]))
        out.set_shape(shape)
        return out


@export("image.flip_left_right")
def flip_left_right(image: Any) -> Any:
    """Mirrors images left to right.

    Args:
        image: Images [height, width, channels] or [batch, height, width, channels].

    Returns:
        Images of the same shape.

    >>> tf.image.flip_left_right([[[1], [2]]]).numpy().tolist()
    [[[2], [1]]]
    """
    return _flip(image, 1, "flip_left_right")


@export("image.flip_up_down")
def flip_up_down(image: Any) -> Any:
    """Mirrors images top to bottom.

    Args:
        image: Images [height, width, channels] or [batch, height, width, channels].

    Returns:
        Images of the same shape.

    >>> tf.image.flip_up_down([[[1]], [[2]]]).numpy().tolist()
    [[[2]], [[1]]]
    """
    return _flip(image, 0, "flip_up_down")


def _random_flip(image: Any, axis: int, draw: Draw, scope: str) -> Any:
    with tf.name_scope(None, scope, [image]) as scope:
        image = image_of(image)
        image = after(at_least_3d(image), image)
        shape = image.shape

        def one(x: Any) -> Any:
            flip = tf.less(draw([]), 0.5)
            return tf.cond(flip, lambda: tf.reverse(x, [axis]), lambda: x, name=scope)

        def many(x: Any) -> Any:
            n = tf.shape(x)[0]
            flip = tf.round(tf.reshape(draw([n]), [n, 1, 1, 1]))
            flip = tf.cast(flip, x.dtype)
            return flip * tf.reverse(x, [axis + 1]) + (1 - flip) * x
        out = _each(image, one, many)
        out.set_shape(shape)
        return out


@export("image.random_flip_left_right")
def random_flip_left_right(image: Any, seed: Any = None) -> Any:
    """Mirrors each image left to right with probability 1/2.

    Args:
        image: Image [height, width, channels], or a batch of images.
        seed: Seed of the operation. With the graph's seed it fixes the numbers drawn; by default they differ in every run.

    Returns:
        A tensor of the type and shape of `image`.

    >>> image = tf.reshape(tf.range(12), [2, 2, 3])
    >>> tf.image.random_flip_left_right(image).shape
    TensorShape([2, 2, 3])
    """
    return _random_flip(image, 1, seeded(seed), "random_flip_left_right")


@export("image.random_flip_up_down")
def random_flip_up_down(image: Any, seed: Any = None) -> Any:
    """Mirrors each image top to bottom with probability 1/2.

    Args:
        image: An image [height, width, channels], or a batch of them.
        seed: An integer that makes the choices repeatable, together with `tf.random.set_seed`.

    Returns:
        The images.

    >>> tf.image.random_flip_up_down(tf.ones([2, 3, 1])).shape
    TensorShape([2, 3, 1])
    """
    return _random_flip(image, 0, seeded(seed), "random_flip_up_down")


@export("image.stateless_random_flip_left_right")
def stateless_random_flip_left_right(image: Any, seed: Any) -> Any:
    """Mirrors each image left to right with probability 1/2, as `seed` determines.

    Args:
        image: An image [height, width, channels], or a batch of them.
        seed: Two integers.

    Returns:
        The images.

    >>> tf.image.stateless_random_flip_left_right(tf.ones([2, 3, 1]), seed=(1, 2)).shape
    TensorShape([2, 3, 1])
    """
    return _random_flip(image, 1, stateless(seed), "stateless_random_flip_left_right")


@export("image.stateless_random_flip_up_down")
def stateless_random_flip_up_down(image: Any, seed: Any) -> Any:
    """Mirrors each image top to bottom with probability 1/2, determined by `seed`."""
    return _random_flip(image, 0, stateless(seed), "stateless_random_flip_up_down")


@export("image.rot90")
def rot90(image: Any, k: Any = 1, name: str | None = None) -> Any:
    """Rotates images counter-clockwise by k quarter turns.

    Args:
        image: An image [height, width, channels], or a batch of them.
        k: The number of quarter turns.
        name: A name for the op.

    Returns:
        The rotated images.

    Raises:
        ValueError: if `image` has neither three nor four dimensions.

    >>> tf.image.rot90([[[1], [2]], [[3], [4]]])[:, :, 0].numpy().tolist()
    [[2, 4], [1, 3]]
    """
    with tf.name_scope(name, "rot90", [image, k]) as scope:
        image = image_of(image)
        image = after(at_least_3d(image), image)
        k = convert(k, dtypes.int32, "k")
        k.shape.assert_has_rank(0)
        k = tf.mod(k, 4)
        shape = image.shape
        out = _each(image, lambda x: _rotated(x, k, 0, scope), lambda x: _rotated(x, k, 1, scope))
        if shape.ndims is not None:
            dims = shape.as_list()
            a, b = dims[-3], dims[-2]
            out.set_shape([*dims[:-3], a if a == b else None, a if a == b else None, dims[-1]])
        return out


def _rotated(x: Any, k: Any, first: int, scope: str) -> Any:
    """Quarter turns of the two axes from `first` on."""
    swap = [1, 0, 2] if first == 0 else [0, 2, 1, 3]
    turns = [lambda: x, lambda: tf.transpose(tf.reverse(x, [first + 1]), swap),
             lambda: tf.reverse(x, [first, first + 1]), lambda: tf.reverse(tf.transpose(x, swap), [first + 1])]
    known = constant_value(k)
    if known is not None:
        return turns[int(known)]()
    return tf.case([(tf.equal(k, i), turns[i]) for i in (1, 2, 3)], default=turns[0], exclusive=True, name=scope)


@export("image.transpose", v1=["image.transpose_image"])
def transpose(image: Any, name: str | None = None) -> Any:
    """Swaps rows and columns.

    Args:
        image: Images [height, width, channels] or [batch, height, width, channels].
        name: Name of the operation.

    Returns:
        Images with height and width exchanged.

    >>> tf.image.transpose(tf.ones([2, 5, 3])).shape
    TensorShape([5, 2, 3])
    """
    with tf.name_scope(name, "transpose", [image]):
        image = image_of(image)
        image = after(at_least_3d(image), image)
        return _each(image, lambda x: tf.transpose(x, [1, 0, 2], name=name),
                     lambda x: tf.transpose(x, [0, 2, 1, 3], name=name))


@export("image.central_crop")
def central_crop(image: Any, central_fraction: Any) -> Any:
    """The middle part of an image: `central_fraction` of each side.

    Args:
        image: An image [height, width, channels], or a batch of them.
        central_fraction: Share of each side, above 0 and at most 1.

    Returns:
        The cropped image.

    Raises:
        ValueError: if the fraction is out of range.

    >>> tf.image.central_crop(tf.ones([8, 8, 3]), 0.5).shape
    TensorShape([4, 4, 3])
    """
    with tf.name_scope(None, "central_crop", [image]):
        image = convert(image)
        fraction = constant_value(central_fraction) if is_tensor(central_fraction) else central_fraction
        if fraction is not None and not 0.0 < float(fraction) <= 1.0:
            raise ValueError("central_fraction must be within (0, 1]")
        if fraction is not None and float(fraction) == 1.0:
            return image
        image = after(at_least_3d(image), image)
        rank = image.shape.ndims
        if rank not in (3, 4):
            raise ValueError(f"`image` must have rank 3 or 4, but has rank {rank}.")
        dims = dimensions(image, rank)
        starts, sizes = [], []
        for d in dims[-3:-1]:
            if isinstance(d, int) and fraction is not None:
                start = int((d - d * float(fraction)) / 2)
                starts.append(start)
                sizes.append(d - start * 2)
            else:
                wide = tf.cast(d, dtypes.float64)
                start = tf.cast((wide - wide * tf.cast(central_fraction, dtypes.float64)) / 2, dtypes.int32)
                starts.append(start)
                sizes.append(d - start * 2)
        begin = [0] * (rank - 3) + starts + [0]
        size = [-1] * (rank - 3) + sizes + [-1]
        out = tf.slice(image, tf.stack(begin), tf.stack(size))
        known = [s if isinstance(s, int) else None for s in sizes]
        out.set_shape([*image.shape.as_list()[:rank - 3], *known, image.shape.as_list()[-1]])
        return out


def _batched(image: Any) -> tuple[Any, bool]:
    """The image as a batch, and whether it was a single image."""
    rank = image.shape.ndims
    if rank is None:
        image = tf.expand_dims(image, 0)
        image.set_shape([None] * 4)
        return image, True
    if rank == 3:
        return tf.expand_dims(image, 0), True
    if rank != 4:
        raise ValueError(f"'image' (shape {image.shape}) must have either 3 or 4 dimensions.")
    return image, False


@export("image.pad_to_bounding_box")
def pad_to_bounding_box(image: Any, offset_height: Any, offset_width: Any, target_height: Any, target_width: Any) -> Any:
    """Puts an image on a larger canvas of zeros.

    Args:
        image: An image [height, width, channels], or a batch of them.
        offset_height, offset_width: Rows above and columns left of the image.
        target_height, target_width: The size of the canvas.

    Returns:
        The larger images.

    Raises:
        ValueError: if the image does not fit.

    >>> tf.image.pad_to_bounding_box([[[7]]], 0, 1, 2, 2)[:, :, 0].numpy().tolist()
    [[0, 7], [0, 0]]
    """
    with tf.name_scope(None, "pad_to_bounding_box", [image]):
        image, single = _batched(convert(image, name="image"))
        checks = at_least_3d(image)
        n, h, w, ch = dimensions(image, 4)
        after_w, after_h = target_width - offset_width - w, target_height - offset_height - h
        checks += check(offset_height >= 0, ValueError, "offset_height must be >= 0")
        checks += check(offset_width >= 0, ValueError, "offset_width must be >= 0")
        checks += check(after_w >= 0, ValueError, "width must be <= target - offset")
        checks += check(after_h >= 0, ValueError, "height must be <= target - offset")
        image = after(checks, image)
        pads = tf.reshape(tf.stack([tf.cast(p, dtypes.int32) if is_tensor(p) else p for p in (
            0, 0, offset_height, after_h, offset_width, after_w, 0, 0)]), [4, 2])
        out = tf.pad(image, pads)
        out.set_shape([None if is_tensor(d) else d for d in (n, target_height, target_width, ch)])
        return tf.squeeze(out, axis=[0]) if single else out


@export("image.crop_to_bounding_box")
def crop_to_bounding_box(image: Any, offset_height: Any, offset_width: Any, target_height: Any, target_width: Any) -> Any:
    """A rectangle of an image.

    Args:
        image: Image [height, width, channels], or a batch of images.
        offset_height: First row.
        offset_width: First column.
        target_height: Number of rows.
        target_width: Number of columns.

    Returns:
        The rectangle.

    Raises:
        ValueError: if it is not inside the image.

    >>> image = tf.reshape(tf.range(16), [4, 4, 1])
    >>> tf.image.crop_to_bounding_box(image, 1, 1, 2, 2)[:, :, 0].numpy()
    array([[ 5,  6],
           [ 9, 10]], dtype=int32)
    """
    with tf.name_scope(None, "crop_to_bounding_box", [image]):
        image, single = _batched(convert(image, name="image"))
        checks = at_least_3d(image)
        n, h, w, ch = dimensions(image, 4)
        checks += check(offset_width >= 0, ValueError, "offset_width must be >= 0.")
        checks += check(offset_height >= 0, ValueError, "offset_height must be >= 0.")
        checks += check(target_width > 0, ValueError, "target_width must be > 0.")
        checks += check(target_height > 0, ValueError, "target_height must be > 0.")
        checks += check(w >= target_width + offset_width, ValueError, "width must be >= target + offset.")
        checks += check(h >= target_height + offset_height, ValueError, "height must be >= target + offset.")
        image = after(checks, image)
        out = tf.slice(image, tf.stack([0, offset_height, offset_width, 0]),
                       tf.stack([-1, target_height, target_width, -1]))
        out.set_shape([None if is_tensor(d) else d for d in (n, target_height, target_width, ch)])
        return tf.squeeze(out, axis=[0]) if single else out


def _largest(a: Any, b: Any) -> Any:
    return tf.maximum(a, b) if is_tensor(a) or is_tensor(b) else max(a, b)


def _smallest(a: Any, b: Any) -> Any:
    return tf.minimum(a, b) if is_tensor(a) or is_tensor(b) else min(a, b)


@export("image.resize_with_crop_or_pad", v1=["image.resize_image_with_crop_or_pad"])
def resize_with_crop_or_pad(image: Any, target_height: Any, target_width: Any) -> Any:
    """Crops or pads evenly to a size, around the centre.

    Args:
        image: Image [height, width, channels], or a batch of images.
        target_height: New height.
        target_width: New width.

    Returns:
        Images of the new size.

    >>> tf.image.resize_with_crop_or_pad(tf.ones([10, 10, 3]), 8, 12).shape
    TensorShape([8, 12, 3])
    """
    with tf.name_scope(None, "resize_image_with_crop_or_pad", [image]):
        image, single = _batched(convert(image, name="image"))
        checks = at_least_3d(image)
        checks += check(target_width > 0, ValueError, "target_width must be > 0.")
        checks += check(target_height > 0, ValueError, "target_height must be > 0.")
        image = after(checks, image)
        if is_tensor(target_height):
            target_height = after(checks, target_height)
        if is_tensor(target_width):
            target_width = after(checks, target_width)
        _, h, w, _ = dimensions(image, 4)
        dw, dh = target_width - w, target_height - h
        cropped = crop_to_bounding_box(image, _largest(-dh // 2, 0), _largest(-dw // 2, 0), _smallest(target_height, h),
                                       _smallest(target_width, w))
        out = pad_to_bounding_box(cropped, _largest(dh // 2, 0), _largest(dw // 2, 0), target_height, target_width)
        if out.shape.ndims is None:
            raise ValueError("resized contains no shape.")
        _, rh, rw, _ = dimensions(out, 4)
        final = check(tf.equal(rh, target_height) if is_tensor(rh) or is_tensor(target_height) else rh == target_height,
                      ValueError, "resized height is not correct.")
        final += check(tf.equal(rw, target_width) if is_tensor(rw) or is_tensor(target_width) else rw == target_width,
                       ValueError, "resized width is not correct.")
        out = after(final, out)
        return tf.squeeze(out, axis=[0]) if single else out


@export(v1=["image.ResizeMethod"])
class ResizeMethodV1:
    """Methods of tf.image.resize (v1).

    >>> tf.image.resize_images(tf.ones([4, 4, 3]), [8, 8], method=tf.image.ResizeMethod.NEAREST_NEIGHBOR).shape
    TensorShape([8, 8, 3])
    """

    BILINEAR = 0
    NEAREST_NEIGHBOR = 1
    BICUBIC = 2
    AREA = 3


@export(v2=["image.ResizeMethod"])
class ResizeMethod:
    """Methods of tf.image.resize."""

    BILINEAR = "bilinear"
    NEAREST_NEIGHBOR = "nearest"
    BICUBIC = "bicubic"
    AREA = "area"
    LANCZOS3 = "lanczos3"
    LANCZOS5 = "lanczos5"
    GAUSSIAN = "gaussian"
    MITCHELLCUBIC = "mitchellcubic"


def _resize(images: Any, resizer: Callable, size: Any, keep_aspect: bool, name: str | None, keep_same: bool) -> Any:
    """The common part of resizing: batch of one, sizes, aspect ratio, static shapes."""
    with tf.name_scope(name, "resize", [images, size]):
        images = convert(images, name="images")
        if images.shape.ndims is None:
            raise ValueError("'images' contains no shape.")
        single = images.shape.ndims == 3
        if single:
            images = tf.expand_dims(images, 0)
        elif images.shape.ndims != 4:
            raise ValueError("'images' must have either 3 or 4 dimensions.")
        _, h, w, _ = images.shape.as_list()
        try:
            size = convert(size, dtypes.int32, "size")
        except (TypeError, ValueError):
            raise ValueError("'size' must be a 1-D int32 Tensor") from None
        if not size.shape.is_compatible_with([2]):
            raise ValueError("'size' must be a 1-D Tensor of 2 elements: new_height, new_width")
        if keep_aspect:
            size = _aspect(images, h, w, size)
        known = constant_value(size)
        new_h, new_w = (None, None) if known is None else (int(known[0]), int(known[1]))
        if keep_same and None not in (h, w) and (h, w) == (new_h, new_w):
            return tf.squeeze(images, axis=[0]) if single else images
        out = resizer(images, size)
        out.set_shape([None, new_h, new_w, None])
        return tf.squeeze(out, axis=[0]) if single else out


def _aspect(images: Any, h: Any, w: Any, size: Any) -> Any:
    """The largest size within `size` that has the image's aspect ratio."""
    shape = tf.shape(images)
    height = h if h is not None else shape[1]
    width = w if w is not None else shape[2]
    fy = tf.cast(size[0], dtypes.float32) / tf.cast(height, dtypes.float32)
    fx = tf.cast(size[1], dtypes.float32) / tf.cast(width, dtypes.float32)
    f = tf.minimum(fy, fx)
    new = [tf.cast(tf.round(f * tf.cast(d, dtypes.float32)), dtypes.int32) for d in (height, width)]
    return convert(tf.stack(new), dtypes.int32)


@export(v1=["image.resize_images", "image.resize"])
@dispatched
def resize_images(images: Any, size: Any, method: Any = 0, align_corners: bool = False, preserve_aspect_ratio: bool = False,
                  name: str | None = None) -> Any:
    """Resizes images [h, w, c] or [n, h, w, c] to `size` = [new_height, new_width].

    Args:
        images: One image or a batch of images.
        size: New height and width.
        method: One of `tf.image.ResizeMethod`; 0 is bilinear.
        align_corners: Whether the corners of both images have the same position.
        preserve_aspect_ratio: Whether the result is at most `size` and has the proportions of the image.
        name: Name of the operation.

    Returns:
        Images in float32; of the type of `images` for nearest neighbours or if the size stays.

    >>> tf.image.resize_images(tf.ones([1, 4, 4, 3]), [8, 6]).shape
    TensorShape([1, 8, 6, 3])
    """
    names = {"bilinear": 0, "nearest": 1, "bicubic": 2, "area": 3}
    ops = {0: tf.image.resize_bilinear, 1: tf.image.resize_nearest_neighbor, 2: tf.image.resize_bicubic,
           3: tf.image.resize_area}
    kind = names.get(method, method)
    if kind not in ops:
        raise ValueError("Resize method is not implemented.")
    return _resize(images, lambda x, s: ops[kind](x, s, align_corners=align_corners), size, preserve_aspect_ratio, name, True)


@export(v2=["image.resize"])
@dispatched
def resize_images_v2(images: Any, size: Any, method: str = "bilinear", preserve_aspect_ratio: bool = False,
                     antialias: bool = False, name: str | None = None) -> Any:
    """Resizes images with half-pixel centres; `antialias` when shrinking.

    Args:
        images: Images [height, width, channels] or [batch, height, width, channels].
        size: New height and width.
        method: `"bilinear"`, `"nearest"`, `"bicubic"`, `"area"`, `"lanczos3"`, `"lanczos5"`, `"gaussian"` or `"mitchellcubic"`.
        preserve_aspect_ratio: Whether the result fits into `size` with the same proportions.
        antialias: Whether to average pixels when shrinking.
        name: Name of the operation.

    Returns:
        Images of floats; of the type of `images`, if the nearest pixel is chosen.

    >>> tf.image.resize(tf.ones([1, 4, 4, 3]), [2, 6]).shape
    TensorShape([1, 2, 6, 3])
    """
    scaled = {"lanczos3": "lanczos3", "lanczos5": "lanczos5", "gaussian": "gaussian", "mitchellcubic": "mitchellcubic"}

    def with_kernel(x: Any, s: Any, kernel: str) -> Any:
        scale = tf.cast(s, dtypes.float32) / tf.cast(tf.shape(x)[1:3], dtypes.float32)
        return tf.raw_ops.ScaleAndTranslate(images=x, size=s, scale=scale, translation=tf.zeros([2]), kernel_type=kernel,
                                            antialias=antialias)

    def resizer(x: Any, s: Any) -> Any:
        if method == "bilinear":
            return with_kernel(x, s, "triangle") if antialias else tf.image.resize_bilinear(x, s, half_pixel_centers=True)
        if method == "bicubic":
            return with_kernel(x, s, "keyscubic") if antialias else tf.image.resize_bicubic(x, s, half_pixel_centers=True)
        if method == "nearest":
            return tf.image.resize_nearest_neighbor(x, s, half_pixel_centers=True)
        if method == "area":
            return tf.image.resize_area(x, s)
        if method in scaled:
            return with_kernel(x, s, scaled[method])
        raise ValueError(f"Resize method is not implemented: {method}")
    return _resize(images, resizer, size, preserve_aspect_ratio, name, False)


def _direct(op_name: str) -> Callable:
    def resize(images: Any, size: Any, align_corners: bool = False, name: str | None = None,
               half_pixel_centers: bool = False) -> Any:
        extra = {} if op_name == "ResizeArea" else {"half_pixel_centers": half_pixel_centers}
        return getattr(tf.raw_ops, op_name)(images=images, size=size, align_corners=align_corners, name=name, **extra)
    resize.__doc__ = f"Resizes a batch of images by {op_name}."
    return resize


for _name in ("ResizeBilinear", "ResizeBicubic", "ResizeArea", "ResizeNearestNeighbor"):
    _public = {"ResizeBilinear": "resize_bilinear", "ResizeBicubic": "resize_bicubic", "ResizeArea": "resize_area",
               "ResizeNearestNeighbor": "resize_nearest_neighbor"}[_name]
    export.value(_direct(_name), v1=[f"image.{_public}"])


def _with_pad(image: Any, target_height: Any, target_width: Any, resize: Callable) -> Any:
    """Resizes to fit, keeping the aspect ratio, and pads evenly to the target."""
    with tf.name_scope(None, "resize_image_with_pad", [image]):
        image, single = _batched(convert(image, name="image"))
        checks = at_least_3d(image)
        checks += check(target_width > 0, ValueError, "target_width must be > 0.")
        checks += check(target_height > 0, ValueError, "target_height must be > 0.")
        image = after(checks, image)
        _, h, w, _ = dimensions(image, 4)
        f32 = dtypes.float32
        ratio = tf.maximum(tf.cast(w, f32) / tf.cast(target_width, f32), tf.cast(h, f32) / tf.cast(target_height, f32))
        new_h, new_w = tf.cast(h, f32) / ratio, tf.cast(w, f32) / ratio
        pad_h = tf.maximum(0, tf.cast(tf.floor((tf.cast(target_height, f32) - new_h) / 2), dtypes.int32))
        pad_w = tf.maximum(0, tf.cast(tf.floor((tf.cast(target_width, f32) - new_w) / 2), dtypes.int32))
        size = tf.stack([tf.cast(tf.floor(new_h), dtypes.int32), tf.cast(tf.floor(new_w), dtypes.int32)])
        out = pad_to_bounding_box(resize(image, size), pad_h, pad_w, target_height, target_width)
        if out.shape.ndims is None:
            raise ValueError("padded contains no shape.")
        return tf.squeeze(out, axis=[0]) if single else out


@export(v1=["image.resize_image_with_pad"])
def resize_image_with_pad_v1(image: Any, target_height: Any, target_width: Any, method: Any = 0,
                             align_corners: bool = False) -> Any:
    """Resizes to fit a box, keeping the aspect ratio, and pads with zeros."""
    return _with_pad(image, target_height, target_width, lambda x, s: resize_images(x, s, method, align_corners))


@export(v2=["image.resize_with_pad"])
def resize_image_with_pad_v2(image: Any, target_height: Any, target_width: Any, method: str = "bilinear",
                             antialias: bool = False) -> Any:
    """Resizes to fit a box, keeping the aspect ratio, and pads with zeros.

    Args:
        image: Images [height, width, channels] or [batch, height, width, channels].
        target_height: New height.
        target_width: New width.
        method: As of `tf.image.resize`.
        antialias: Whether to average pixels when shrinking.

    Returns:
        Images of the new size.

    >>> tf.image.resize_with_pad(tf.ones([2, 4, 3]), 4, 4).shape
    TensorShape([4, 4, 3])
    """
    return _with_pad(image, target_height, target_width, lambda x, s: resize_images_v2(x, s, method, antialias=antialias))


@export(v1=["image.crop_and_resize"])
def crop_and_resize_v1(image: Any, boxes: Any, box_ind: Any = None, crop_size: Any = None, method: str = "bilinear",
                       extrapolation_value: float = 0, name: str | None = None, box_indices: Any = None) -> Any:
    """Crops boxes [y1, x1, y2, x2] (normalised) out of images and resizes them to one size."""
    return crop_and_resize(image, boxes, box_ind if box_indices is None else box_indices, crop_size, method,
                           extrapolation_value, name)


@export(v2=["image.crop_and_resize"])
def crop_and_resize(image: Any, boxes: Any, box_indices: Any, crop_size: Any, method: str = "bilinear",
                    extrapolation_value: float = 0.0, name: str | None = None) -> Any:
    """Crops boxes [y1, x1, y2, x2] (normalised) out of images and resizes them to one size.

    Args:
        image: Images [batch, height, width, channels].
        boxes: Boxes [n, 4] in shares of the image; they may be mirrored or outside.
        box_indices: The image of each box.
        crop_size: Height and width of the results.
        method: `"bilinear"` or `"nearest"`.
        extrapolation_value: Value outside of images.
        name: Name of the operation.

    Returns:
        Images [n, height, width, channels] of floats.

    >>> tf.image.crop_and_resize(tf.ones([1, 4, 4, 1]), [[0., 0., 0.5, 0.5]], [0], [2, 2]).shape
    TensorShape([1, 2, 2, 1])
    """
    return tf.raw_ops.CropAndResize(image=image, boxes=boxes, box_ind=box_indices, crop_size=crop_size, method=method,
                                    extrapolation_value=extrapolation_value, name=name)


@export(v1=["image.extract_glimpse"])
def extract_glimpse(input: Any, size: Any, offsets: Any, centered: bool = True, normalized: bool = True,
                    uniform_noise: bool = True, name: str | None = None) -> Any:
    """Windows of images around offsets, filled with noise outside of the image."""
    return tf.raw_ops.ExtractGlimpse(input=input, size=size, offsets=offsets, centered=centered, normalized=normalized,
                                     uniform_noise=uniform_noise, name=name)


@export(v2=["image.extract_glimpse"])
def extract_glimpse_v2(input: Any, size: Any, offsets: Any, centered: bool = True, normalized: bool = True,
                       noise: str = "uniform", name: str | None = None) -> Any:
    """Windows of images around offsets, filled with noise outside of the image."""
    return tf.raw_ops.ExtractGlimpseV2(input=input, size=size, offsets=offsets, centered=centered, normalized=normalized,
                                       noise=noise, uniform_noise=False, name=name)


@export("image.stateless_random_crop")
def stateless_random_crop(value: Any, size: Any, seed: Any, name: str | None = None) -> Any:
    """A part of `value` at a position that `seed` determines.

    Args:
        value: A tensor, usually an image.
        size: The size of the part in each dimension.
        seed: Two integers.
        name: A name for the op.

    Returns:
        The part.

    >>> tf.image.stateless_random_crop(tf.ones([8, 8, 3]), [4, 4, 3], seed=(1, 2)).shape
    TensorShape([4, 4, 3])
    """
    return crop_at_random(value, size, lambda shape, dtype: stateless(seed)(shape, 0, dtype.max, dtype),
                          "stateless_random_crop", name)
