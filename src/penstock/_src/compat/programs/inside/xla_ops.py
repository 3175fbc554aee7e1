"""Of `tensorflow.compiler.tf2xla.python.xla`: slices at positions that are tensors, moved into range if they reach beyond."""
from __future__ import annotations

from typing import Any

import penstock as tf


def _begin(starts: Any, whole: Any, part: Any) -> Any:
    """The nearest positions at which a part is inside of the whole."""
    starts, whole, part = (tf.cast(x, tf.int32) for x in (starts, whole, part))
    return tf.clip_by_value(starts, 0, whole - part)


def dynamic_slice(x: Any, starts: Any, sizes: Any) -> Any:
    """The part of `x` of `sizes` that begins at `starts`."""
    x = tf.convert_to_tensor(x)
    return tf.slice(x, _begin(starts, tf.shape(x), sizes), tf.cast(sizes, tf.int32))


def dynamic_update_slice(x: Any, updates: Any, starts: Any) -> Any:
    """`x` with `updates` in place of the part that begins at `starts`."""
    x = tf.convert_to_tensor(x)
    updates = tf.convert_to_tensor(updates, x.dtype)
    begin = _begin(starts, tf.shape(x), tf.shape(updates))
    ones = tf.ones_like(begin)
    return tf.raw_ops.TensorStridedSliceUpdate(input=x, begin=begin, end=begin + tf.shape(updates), strides=ones, value=updates)
