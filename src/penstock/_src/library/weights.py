"""Weights of losses and metrics: a scalar, or of the values' rank with every dimension 1 or the values'."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.convert import convert
from penstock.compat import v1 as tf

PREFIX = "weights can not be broadcast to values."


@export("__internal__.ops.assert_broadcastable", v1=["assert_broadcastable"])
def assert_broadcastable(weights: Any, values: Any) -> Any:
    """An op that fails if `weights` cannot be broadcast to `values`; raises ValueError if the static shapes are known."""
    with tf.name_scope(None, "assert_broadcastable", (weights, values)) as scope:
        weights, values = convert(weights, name="weights"), convert(values, name="values")
        w, v = weights.static_dims, values.static_dims
        if w is not None and v is not None:
            if not w:
                return tf.no_op(name="static_scalar_check_success")
            if len(w) != len(v):
                raise ValueError(f"{PREFIX} values.rank={len(v)}. weights.rank={len(w)}. values.shape={values.shape}. "
                                 f"weights.shape={weights.shape}.")
            if all(d is not None for d in (*w, *v)):
                for i, (a, b) in enumerate(zip(w, v, strict=True)):
                    if a not in (1, b):
                        raise ValueError(f"{PREFIX} Mismatch at dim {i}. values.shape={v} weights.shape={w}.")
                return tf.no_op(name="static_dims_check_success")
        w_shape, v_shape = tf.shape(weights), tf.shape(values)
        scalar = tf.equal(tf.rank(weights), 0)
        fits = tf.cond(scalar, lambda: scalar, lambda: _fits(w_shape, v_shape), name="is_valid_shape")
        names = [t.name if not context.executing_eagerly() else "" for t in (weights, values)]
        return tf.Assert(fits, [PREFIX, "weights.shape=", names[0], w_shape, "values.shape=", names[1], v_shape,
                                "is_scalar=", scalar], name=scope)


def _fits(w_shape: Any, v_shape: Any) -> Any:
    """Whether the ranks are equal and every dimension of the weights is 1 or the values'."""
    same_rank = tf.equal(tf.size(w_shape), tf.size(v_shape))

    def dims() -> Any:
        return tf.reduce_all(tf.logical_or(tf.equal(w_shape, 1), tf.equal(w_shape, v_shape)))
    return tf.cond(same_rank, dims, lambda: same_rank)


@export("__internal__.ops.broadcast_weights", v1=["broadcast_weights"])
def broadcast_weights(weights: Any, values: Any) -> Any:
    """`weights` in the shape of `values`."""
    with tf.name_scope(None, "broadcast_weights", (weights, values)) as scope:
        values = convert(values, name="values")
        weights = convert(weights, values.dtype.base_dtype, name="weights")
        if weights.shape.is_fully_defined() and values.shape.is_fully_defined() \
                and weights.shape.is_compatible_with(values.shape):
            return weights
        with tf.control_dependencies([assert_broadcastable(weights, values)]):
            return tf.multiply(weights, tf.ones_like(values), name=scope)


def squeeze_weights(weights: Any, like: Any) -> Any:
    """`weights` without its last dimension when it has one dimension more than `like`."""
    weights = convert(weights)
    w, rank = weights.static_dims, None if like.static_dims is None else len(like.static_dims)
    if w is not None and rank is not None:
        return tf.squeeze(weights, [-1]) if len(w) - rank == 1 else weights
    if w is not None and (not w or w[-1] not in (1, None)):
        return weights
    one_more = tf.equal(1, tf.rank(weights) - tf.rank(like))
    return tf.cond(one_more, lambda: tf.squeeze(weights, [-1]), lambda: weights)
