"""Checks of the arguments of image functions."""
from __future__ import annotations

from typing import Any

from penstock._src.graph.constant import constant_value
from penstock._src.graph.convert import convert
from penstock.compat import v1 as tf


def image_of(image: Any, what: str = "image") -> Any:
    """An image [h, w, c] or batch [n, h, w, c] as a tensor; ValueError for a known other rank or an empty size."""
    image = convert(image, name=what)
    rank = image.shape.ndims
    if rank is not None and rank not in (3, 4):
        raise ValueError(f"'{what}' (shape {image.shape}) must have either 3 or 4 dimensions.")
    return image


def at_least_3d(image: Any) -> list:
    """Assertions that an image has at least three dimensions, none of them empty."""
    dims = image.static_dims
    if dims is not None and len(dims) < 3:
        raise ValueError(f"'image' (shape {image.shape}) must be at least three-dimensional.")
    if dims is not None and any(d == 0 for d in dims[-3:]):
        raise ValueError(f"inner 3 dims of 'image.shape' must be > 0: {image.shape}")
    if dims is not None and all(d is not None for d in dims[-3:]):
        return []
    checks = [tf.debugging.assert_positive(tf.shape(image)[-3:], ["inner 3 dims of 'image.shape' must be > 0."])]
    if dims is None:
        checks.append(tf.debugging.assert_greater_equal(tf.rank(image), 3,
                                                        message="'image' must be at least three-dimensional."))
    return [c for c in checks if c is not None]


def after(checks: list, value: Any) -> Any:
    """`value` after some assertions."""
    if not checks:
        return value
    with tf.control_dependencies(checks):
        return tf.identity(value)


def is_tensor(value: Any) -> bool:
    """Whether a size or offset is a tensor rather than a number."""
    return isinstance(value, (tf.Tensor, tf.Variable))


def check(condition: Any, error: type, message: str) -> list:
    """Raises when a plain condition fails; returns an assertion for a tensor one."""
    if is_tensor(condition):
        known = constant_value(condition)
        if known is None or not bool(known):
            op = tf.Assert(condition, [message])
            return [op] if op is not None else []
        return []
    if not condition:
        raise error(message)
    return []


def dimensions(image: Any, rank: int) -> list:
    """The dimensions of an image: ints where known, tensors elsewhere."""
    if image.shape.is_fully_defined():
        return image.shape.as_list()
    static = image.shape.with_rank(rank).as_list()
    dynamic = tf.unstack(tf.shape(image), rank)
    return [s if s is not None else d for s, d in zip(static, dynamic, strict=True)]
