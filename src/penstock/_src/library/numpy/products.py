"""Products of vectors and matrices."""
from __future__ import annotations

from typing import Any

import penstock as tf
from penstock._src.library.numpy.shaping import moveaxis
from penstock._src.library.numpy.types import name, promoted, tensor


@name("matmul")
def matmul(x1: Any, x2: Any) -> Any:
    """The matrix product; vectors are rows on the left and columns on the right."""
    a, b = promoted(x1, x2)
    if a.shape.rank == 0 or b.shape.rank == 0:
        raise ValueError("matmul: operands must have at least one dimension")
    if b.shape.rank == 1:
        return tf.tensordot(a, b, axes=[[a.shape.rank - 1], [0]])
    if a.shape.rank == 1:
        return tf.tensordot(a, b, axes=[[0], [b.shape.rank - 2]])
    return tf.matmul(a, b)


@name("dot")
def dot(a: Any, b: Any) -> Any:
    """The sum of products over the last axis of `a` and the second to last of `b`."""
    a, b = promoted(a, b)
    if a.shape.rank == 0 or b.shape.rank == 0:
        return a * b
    if a.shape.rank is not None and b.shape.rank is not None:
        return tf.tensordot(a, b, axes=[[a.shape.rank - 1], [max(b.shape.rank - 2, 0)]])
    numbers = tf.logical_or(tf.equal(tf.rank(a), 0), tf.equal(tf.rank(b), 0))
    return tf.cond(numbers, lambda: a * b, lambda: tf.tensordot(
        a, b, axes=tf.stack([[tf.rank(a) - 1], [tf.maximum(tf.rank(b) - 2, 0)]])))


@name("inner")
def inner(a: Any, b: Any) -> Any:
    """The sum of products over the last axes."""
    a, b = promoted(a, b)
    return a * b if 0 in (a.shape.rank, b.shape.rank) else tf.tensordot(a, b, axes=[[-1], [-1]])


@name("outer")
def outer(a: Any, b: Any) -> Any:
    """All products of an element of each."""
    a, b = promoted(a, b)
    return tf.reshape(a, [-1, 1]) * tf.reshape(b, [1, -1])


@name("vdot")
def vdot(a: Any, b: Any) -> Any:
    """The dot product of the flat arrays, the first one conjugated."""
    a, b = promoted(a, b)
    return tf.tensordot(tf.math.conj(tf.reshape(a, [-1])), tf.reshape(b, [-1]), 1)


@name("kron")
def kron(a: Any, b: Any) -> Any:
    """The Kronecker product."""
    a, b = promoted(a, b)
    rank = max(a.shape.rank, b.shape.rank)
    a, b = (tf.reshape(v, tf.concat([tf.ones([rank - v.shape.rank], tf.int32), tf.shape(v)], 0)) for v in (a, b))
    shapes = tf.shape(a), tf.shape(b)
    one = tf.ones_like(shapes[0])
    a = tf.reshape(a, tf.reshape(tf.stack([shapes[0], one], 1), [-1]))
    b = tf.reshape(b, tf.reshape(tf.stack([one, shapes[1]], 1), [-1]))
    return tf.reshape(a * b, shapes[0] * shapes[1])


@name("tensordot")
def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """The sum of products over several axes."""
    return tf.tensordot(*promoted(a, b), axes=axes)


@name("einsum")
def einsum(subscripts: str, *operands: Any, **kwargs: Any) -> Any:
    """Einstein's sum convention."""
    kwargs.pop("casting", None)
    optimize = kwargs.pop("optimize", "greedy")
    return tf.einsum(subscripts, *promoted(*operands), optimize="greedy" if optimize is True else optimize or "greedy")


@name("cross")
def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Any:
    """The cross product of vectors of two or three numbers."""
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = promoted(a, b)
    a, b = moveaxis(a, axisa, -1), moveaxis(b, axisb, -1)
    sizes = a.shape[-1], b.shape[-1]
    if any(s not in (2, 3) for s in sizes):
        raise ValueError(f"incompatible dimensions for cross product (dimension must be 2 or 3): {sizes}")
    if sizes == (2, 2):
        return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
    a, b = (tf.concat([v, tf.zeros_like(v[..., :1])], -1) if v.shape[-1] == 2 else v for v in (a, b))
    shape = tf.broadcast_dynamic_shape(tf.shape(a), tf.shape(b))
    out = tf.linalg.cross(tf.broadcast_to(a, shape), tf.broadcast_to(b, shape))
    return moveaxis(out, -1, axisc)


@name("polyval")
def polyval(p: Any, x: Any) -> Any:
    """A polynomial, coefficients from the highest power on."""
    p, x = promoted(p, x)
    p = tf.reshape(p, [1]) if p.shape.rank == 0 else p
    return tf.math.polyval(tf.unstack(p), x) if p.shape[0] else tf.zeros_like(tensor(x))
