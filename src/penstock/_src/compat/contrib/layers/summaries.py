"""Summaries of activations and of collections."""
from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

from penstock._src.base.api import export
from penstock.compat import v1 as tf


def _export(name: str) -> Callable:
    return export(v1=[f"contrib.layers.{name}"])


@_export("summarize_activation")
def summarize_activation(op: Any) -> Any:
    """A histogram of an activation; of rectifiers also how much is cut off."""
    if op.op.type in ("Relu", "Softplus", "Relu6"):
        below = tf.cast(tf.less(op.op.inputs[0], tf.cast(0.0, op.op.inputs[0].dtype)), tf.float32)
        tf.summary.scalar(f"{op.op.name}/zeros", tf.reduce_mean(below))
    if op.op.type == "Relu6":
        above = tf.cast(tf.greater(op.op.inputs[0], tf.cast(6.0, op.op.inputs[0].dtype)), tf.float32)
        tf.summary.scalar(f"{op.op.name}/sixes", tf.reduce_mean(above))
    return tf.summary.histogram(f"{op.op.name}/activation", op)


@_export("summarize_tensor")
def summarize_tensor(tensor: Any, tag: str | None = None) -> Any:
    """A scalar or a histogram; None for strings and booleans."""
    if tensor.dtype.is_compatible_with(tf.string) or tensor.dtype.base_dtype == tf.bool:
        return None
    summarize = tf.summary.scalar if tensor.shape.ndims == 0 else tf.summary.histogram
    return summarize(tag or f"{tensor.op.name}_summary", tensor)


@_export("summarize_tensors")
def summarize_tensors(tensors: Any, summarizer: Callable = summarize_tensor) -> list:
    """One for each."""
    return [summarizer(tensor) for tensor in tensors]


@_export("summarize_collection")
def summarize_collection(collection: str, name_filter: str | None = None, summarizer: Callable = summarize_tensor) -> list:
    """One for each member of a collection whose name matches."""
    return summarize_tensors([t for t in tf.get_collection(collection) if name_filter is None or
                              re.match(name_filter, t.op.name)], summarizer)


_export("summarize_variables")(functools.partial(summarize_collection, tf.GraphKeys.GLOBAL_VARIABLES))
_export("summarize_weights")(functools.partial(summarize_collection, tf.GraphKeys.WEIGHTS))
_export("summarize_biases")(functools.partial(summarize_collection, tf.GraphKeys.BIASES))


@_export("summarize_activations")
def summarize_activations(name_filter: str | None = None, summarizer: Callable = summarize_activation) -> list:
    """One for each activation."""
    return summarize_collection(tf.GraphKeys.ACTIVATIONS, name_filter, summarizer)
