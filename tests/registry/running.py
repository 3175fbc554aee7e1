"""Runs a sample in the ways an op can run: eagerly, in a graph, from a GraphDef, with partly unknown shapes.

Where an op takes a variable (a reference or a resource), the sample's array is the variable's value before; the values
of the variables after the op come behind the op's own outputs.
"""
from __future__ import annotations

from typing import Any

import numpy as np

import penstock.compat.v1 as tf
from penstock._src.graph import context
from penstock._src.ops.registry import get
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


def is_variable(arg: Any) -> bool:
    """Whether an input of an op is a variable."""
    return arg.is_ref or arg.type == tf.resource


def eager(sample: Sample) -> list[np.ndarray]:
    """The values by eager execution; of ops that only graphs have, by a session."""
    opdef = get(sample.op)
    if opdef.has_refs:
        return [np.asarray(v) for v in Built(sample).run()]
    with context.enter(None):
        variables = [tf.Variable(v) for a, v in zip(opdef.inputs, sample.inputs, strict=True) if is_variable(a)]
        handles = iter(variables)
        inputs = [next(handles).handle if is_variable(a) else v
                  for a, v in zip(opdef.inputs, tensors(sample, tf.convert_to_tensor), strict=True)]
        out = opdef(*inputs, **sample.attrs)
        return [t.numpy() for t in [*flat(out), *variables]]


class Built:
    """A sample as a graph: placeholders, outputs and feeds."""

    def __init__(self, sample: Sample, unknown: str = "none"):
        self.graph, self.feeds = tf.Graph(), {}
        self._ready: list = []                  # assignments of the variables' values before
        self._after: list = []                  # functions that read the variables
        opdef = get(sample.op)
        with self.graph.as_default():
            inputs = [self._variable(a, np.asarray(v), unknown) if is_variable(a) else
                      [self._placeholder(np.asarray(x), unknown) for x in v] if isinstance(v, list) else
                      self._placeholder(np.asarray(v), unknown) for a, v in zip(opdef.inputs, sample.inputs, strict=True)]
            self.inputs = [t for v in inputs for t in (v if isinstance(v, list) else [v])]
            with tf.control_dependencies(self._ready):
                out = opdef(*inputs, **sample.attrs)
            self.outputs = flat(out)
            if self._after:
                with tf.control_dependencies([out if hasattr(out, "outputs") else self.outputs[0]]):
                    self.outputs = [tf.identity(t) for t in self.outputs] + [read() for read in self._after]

    def _variable(self, arg: Any, array: np.ndarray, unknown: str) -> Any:
        """A variable of which the sample sets the value."""
        given = self._placeholder(array, unknown)
        dims = given.shape if unknown != "none" else array.shape
        if arg.is_ref:
            made = get("VariableV2")(shape=dims, dtype=given.dtype)
            self._ready.append(get("Assign")(made, given, validate_shape=False).op)
            self._after.append(lambda: tf.identity(made))
        else:
            made = get("VarHandleOp")(shape=dims, dtype=given.dtype, shared_name=f"v{len(self._ready)}")
            self._ready.append(get("AssignVariableOp")(made, given))
            self._after.append(lambda: get("ReadVariableOp")(made, dtype=given.dtype))
        return made

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
