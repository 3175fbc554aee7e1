"""tf.contrib.image: images turned, moved and transformed by projective maps, which are given as eight numbers each.

A map [a0, a1, a2, b0, b1, b2, c0, c1] takes a point (x, y) of the output to (x', y') = ((a0 x + a1 y + a2) / k,
(b0 x + b1 y + b2) / k) of the input, where k = c0 x + c1 y + 1.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base.api import export
from penstock._src.graph.node import Tensor
from penstock.compat import v1 as tf


def _export(function: Callable) -> Callable:
    return export(v1=[f"contrib.image.{function.__name__}"])(function)


def _rows(x: Any, columns: int) -> Tensor:
    x = tf.convert_to_tensor(x, tf.float32)
    return tf.reshape(x, [-1, columns]) if columns > 1 else tf.reshape(x, [-1])


@_export
def angles_to_projective_transforms(angles: Any, image_height: Any, image_width: Any, name: str | None = None) -> Tensor:
    """The maps that turn images around their centre, counterclockwise, by angles in radians."""
    with tf.name_scope(name, "angles_to_projective_transforms"):
        angle = _rows(angles, 1)
        height, width = tf.cast(image_height, tf.float32) - 1, tf.cast(image_width, tf.float32) - 1
        cos, sin, zero = tf.cos(angle), tf.sin(angle), tf.zeros_like(angle)
        x = (width - (cos * width - sin * height)) / 2.0
        y = (height - (sin * width + cos * height)) / 2.0
        return tf.stack([cos, -sin, x, sin, cos, y, zero, zero], 1)


@_export
def translations_to_projective_transforms(translations: Any, name: str | None = None) -> Tensor:
    """The maps that move images by (dx, dy)."""
    with tf.name_scope(name, "translations_to_projective_transforms"):
        move = _rows(translations, 2)
        one, zero = tf.ones_like(move[:, 0]), tf.zeros_like(move[:, 0])
        return tf.stack([one, zero, -move[:, 0], zero, one, -move[:, 1], zero, zero], 1)


@_export
def transform(images: Any, transforms: Any, interpolation: str = "NEAREST", output_shape: Any = None,
              name: str | None = None) -> Tensor:
    """Images, [n, height, width, channels] (or without n or channels), under projective maps; zero outside.

    >>> tf.contrib.image.transform(images, [1., 0., -3., 0., 1., 0., 0., 0.])
    """
    if interpolation.upper() not in ("NEAREST", "BILINEAR"):
        raise ValueError("Only interpolation NEAREST and BILINEAR are supported.")
    with tf.name_scope(name, "transform"):
        images = tf.convert_to_tensor(images, name="images")
        rank = images.shape.ndims
        if rank not in (2, 3, 4):
            raise TypeError("Images should have rank between 2 and 4.")
        whole = {2: lambda x: x[tf.newaxis, :, :, tf.newaxis], 3: lambda x: x[tf.newaxis], 4: lambda x: x}[rank](images)
        maps = _rows(transforms, 8)
        count, size = tf.shape(whole)[0], tf.shape(whole)[1:3]
        height, width = tf.unstack(size if output_shape is None else tf.convert_to_tensor(output_shape, tf.int32))
        found = _sampled(whole, tf.broadcast_to(maps, [count, 8]), height, width, interpolation.upper() == "BILINEAR")
        if output_shape is None:
            found.set_shape(whole.shape)
        return {2: lambda x: x[0, :, :, 0], 3: lambda x: x[0], 4: lambda x: x}[rank](found)


def _sampled(images: Tensor, maps: Tensor, height: Tensor, width: Tensor, bilinear: bool) -> Tensor:
    """The images at the points that the maps return, between pixels or at the nearest one."""
    ys, xs = tf.meshgrid(tf.cast(tf.range(height), tf.float32), tf.cast(tf.range(width), tf.float32), indexing="ij")
    a0, a1, a2, b0, b1, b2, c0, c1 = (m[:, tf.newaxis, tf.newaxis] for m in tf.unstack(maps, axis=1))
    k = c0 * xs + c1 * ys + 1.0
    x, y = (a0 * xs + a1 * ys + a2) / k, (b0 * xs + b1 * ys + b2) / k
    rows, columns = tf.shape(images)[1], tf.shape(images)[2]
    which = tf.broadcast_to(tf.range(tf.shape(images)[0])[:, tf.newaxis, tf.newaxis], tf.shape(x))

    def at(px: Tensor, py: Tensor) -> Tensor:
        ix, iy = tf.cast(px, tf.int32), tf.cast(py, tf.int32)
        inside = (ix >= 0) & (ix < columns) & (iy >= 0) & (iy < rows)
        where = tf.stack([which, tf.clip_by_value(iy, 0, rows - 1), tf.clip_by_value(ix, 0, columns - 1)], -1)
        return tf.where_v2(inside[..., tf.newaxis], tf.gather_nd(images, where), tf.zeros([], images.dtype))

    if not bilinear:
        return at(tf.round(x), tf.round(y))
    x0, y0 = tf.floor(x), tf.floor(y)
    total = 0.0
    for dx in (0.0, 1.0):
        for dy in (0.0, 1.0):
            weight = (1.0 - tf.abs(x - x0 - dx)) * (1.0 - tf.abs(y - y0 - dy))
            total = total + tf.cast(at(x0 + dx, y0 + dy), tf.float32) * weight[..., tf.newaxis]
    return tf.cast(total, images.dtype)


@_export
def rotate(images: Any, angles: Any, interpolation: str = "NEAREST", name: str | None = None) -> Tensor:
    """Turns images counterclockwise by angles in radians.

    >>> tf.contrib.image.rotate(images, 3.14159 / 2)
    """
    with tf.name_scope(name, "rotate"):
        images = tf.convert_to_tensor(images, name="images")
        shape = tf.shape(images)
        height, width = {2: (0, 1), 3: (0, 1), 4: (1, 2)}[images.shape.ndims]
        return transform(images, angles_to_projective_transforms(angles, shape[height], shape[width]), interpolation)


@_export
def translate(images: Any, translations: Any, interpolation: str = "NEAREST", name: str | None = None) -> Tensor:
    """Moves images by (dx, dy)."""
    with tf.name_scope(name, "translate"):
        return transform(images, translations_to_projective_transforms(translations), interpolation)


@_export
def flat_transforms_to_matrices(transforms: Any) -> Tensor:
    """Maps of eight numbers as 3 x 3 matrices."""
    maps = _rows(transforms, 8)
    return tf.reshape(tf.concat([maps, tf.ones([tf.shape(maps)[0], 1])], 1), [-1, 3, 3])


@_export
def matrices_to_flat_transforms(transform_matrices: Any) -> Tensor:
    """3 x 3 matrices as maps of eight numbers."""
    flat = tf.reshape(tf.convert_to_tensor(transform_matrices, tf.float32), [-1, 9])
    return flat[:, :8] / flat[:, 8:]


@_export
def compose_transforms(*transforms: Any) -> Tensor:
    """One map for several, in sequence."""
    if not transforms:
        raise ValueError("transforms cannot be empty")
    total = flat_transforms_to_matrices(transforms[0])
    for each in transforms[1:]:
        total = tf.matmul(total, flat_transforms_to_matrices(each))
    return matrices_to_flat_transforms(total)


@_export
def dense_image_warp(image: Any, flow: Any, name: str = "dense_image_warp") -> Tensor:
    """Images whose pixel (y, x) is that of the given ones at (y, x) minus the flow there, between pixels interpolated linearly.

    Points outside of an image take the nearest pixels of its border. Both arguments can be differentiated.
    """
    with tf.name_scope(name):
        image, flow = tf.convert_to_tensor(image), tf.convert_to_tensor(flow)
        batch, height, width = tf.unstack(tf.shape(image))[:3]
        with tf.control_dependencies([tf.debugging.assert_greater_equal(tf.minimum(height, width), 2,
                                                                        message="Images must be of at least 2 by 2 pixels.")]):
            rows, columns = tf.meshgrid(tf.range(height), tf.range(width), indexing="ij")
        at = tf.cast(tf.stack([rows, columns], axis=2), flow.dtype)[tf.newaxis] - flow
        floor = tf.clip_by_value(tf.floor(at), 0.0, tf.cast(tf.stack([height - 2, width - 2]), flow.dtype))
        weight = tf.cast(tf.clip_by_value(at - floor, 0.0, 1.0), image.dtype)
        corner = tf.cast(floor, tf.int32)
        which = tf.broadcast_to(tf.range(batch)[:, tf.newaxis, tf.newaxis, tf.newaxis], tf.shape(corner[..., :1]))

        def pixels(down: int, right: int) -> Tensor:
            return tf.gather_nd(image, tf.concat([which, corner + [down, right]], axis=3))
        y, x = weight[..., :1], weight[..., 1:]
        top, bottom = (pixels(d, 0) + x * (pixels(d, 1) - pixels(d, 0)) for d in (0, 1))
        return top + y * (bottom - top)
