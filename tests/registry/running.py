"""Runs a sample in the ways an op can run: eagerly, in a graph, from a GraphDef, with partly unknown shapes."""
from __future__ import annotations

from typing import Any

import numpy as np

import penstock.compat.v1 as tf
from penstock.graph import context
from penstock.ops.registry import get
from tests.registry.sample import Sample


def flat(value: Any) -> list:
    """The outputs of an op as a flat list."""
    if value is None or hasattr(value, "outputs"):
        return []
    if isinstance(value, (list, tuple)):
        return [x for v in value for x in flat(v)]
    return [value]


def tensors(sample: Sample, make: Any) -> list:
    """The inputs as tensors made by `make(array)`; list inputs stay lists."""
    return [[make(a) for a in v] if isinstance(v, list) else make(v) for v in sample.inputs]


def flat_arrays(sample: Sample) -> list[np.ndarray]:
    """The input arrays, flattened."""
    return [np.asarray(a) for v in sample.inputs for a in (v if isinstance(v, list) else [v])]


def eager(sample: Sample) -> list[np.ndarray]:
    """The values by eager execution."""
    with context.enter(None):
        out = get(sample.op)(*tensors(sample, tf.convert_to_tensor), **sample.attrs)
        return [t.numpy() for t in flat(out)]


class Built:
    """A sample as a graph: placeholders, outputs and feeds."""

    def __init__(self, sample: Sample, unknown: str = "none"):
        self.graph, self.feeds = tf.Graph(), {}
        with self.graph.as_default():
            inputs = tensors(sample, lambda a: self._placeholder(np.asarray(a), unknown))
            self.inputs = [t for v in inputs for t in (v if isinstance(v, list) else [v])]
            self.outputs = flat(get(sample.op)(*inputs, **sample.attrs))

    def _placeholder(self, array: np.ndarray, unknown: str) -> Any:
        if unknown == "none" and array.ndim <= 1 and array.dtype.kind in "iu" and array.size <= 64:
            return tf.constant(array)           # arguments such as axes: known at build time
        dims = {"none": list(array.shape), "dims": [None] * array.ndim, "rank": None}[unknown]
        p = tf.placeholder(tf.as_dtype(array.dtype) if array.dtype != object else tf.string, dims)
        self.feeds[p] = array
        return p

    def run(self) -> list[np.ndarray]:
        """The values by a session."""
        with tf.Session(graph=self.graph) as sess:
            return sess.run(self.outputs, self.feeds)
