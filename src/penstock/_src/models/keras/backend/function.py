"""`K.function`: a piece of a graph as a Python function of arrays."""
from __future__ import annotations

from typing import Any

import numpy as np

from penstock._src.base import dtypes, nest
from penstock._src.base.api import export
from penstock._src.eager.wrap_function import pruned
from penstock._src.graph import context
from penstock._src.graph.node import Operation, Tensor
from penstock._src.models.keras.backend.state import get_session
from penstock._src.models.keras.backend.variables import is_symbolic, is_variable
from penstock.compat import v1 as tf

_RUN_ARGUMENTS = ("feed_dict", "fetches", "options", "run_metadata")


def _read(x: Any) -> Any:
    return tf.identity(x) if is_variable(x) else x


class GraphFunction:
    """Runs in Keras' session, each step compiled once by the session."""

    def __init__(self, inputs: Any, outputs: Any, updates: Any = None, name: str | None = None, feed_dict: Any = None,
                 fetches: Any = None, options: Any = None, run_metadata: Any = None):
        if not isinstance(updates or [], (list, tuple)):
            raise TypeError("`updates` in a Keras backend function should be a list or tuple.")
        self.inputs = nest.flatten(inputs, expand_composites=True)
        self._structure = outputs
        self.outputs = [_read(x) for x in nest.flatten(outputs, expand_composites=True)]
        with tf.control_dependencies(self.outputs[:1]):
            self.updates_op = tf.group(*[tf.assign(*u) if isinstance(u, tuple) else u for u in updates or []])
        self.name = name
        self.feed_dict = feed_dict
        fetches = [] if fetches is None else fetches if isinstance(fetches, list) else [fetches]
        self.fetches = [tf.identity(x) for x in fetches]
        self.fetch_callbacks: dict[Any, Any] = {}
        self.run_options, self.run_metadata = options, run_metadata

    def __call__(self, inputs: Any) -> Any:
        values = nest.flatten(inputs, expand_composites=True)
        feeds = dict(self.feed_dict or {})
        session = get_session(self.inputs or self.outputs)
        for hole, value in zip(self.inputs, values):
            if value is None:
                continue
            if is_symbolic(value) or is_variable(value):
                value = session.run(value)
            elif hasattr(value, "_value"):
                value = value.numpy()
            feeds[hole] = dtypes.exact_cast(np.asarray(value), hole.dtype.base_dtype.as_numpy_dtype)
        got = session.run([*self.outputs, *self.fetches, self.updates_op], feed_dict=feeds, options=self.run_options,
                          run_metadata=self.run_metadata)
        n = len(self.outputs)
        for fetch, value in zip(self.fetches, got[n:-1]):
            if fetch in self.fetch_callbacks:
                self.fetch_callbacks[fetch](value)
        return nest.pack_sequence_as(self._structure, got[:n], expand_composites=True)


class EagerFunction:
    """The piece of Keras' own graph between inputs and outputs, cut out and compiled as a function."""

    def __init__(self, inputs: Any, outputs: Any, updates: Any = None, name: str | None = None):
        self.name = name
        self._structure = outputs
        self.inputs = nest.flatten(inputs, expand_composites=True)
        flat = nest.flatten(outputs, expand_composites=True)
        graph = next((t.graph for t in (*flat, *self.inputs) if isinstance(t, Tensor) and not hasattr(t, "_value")), None)
        if graph is None:
            raise ValueError("K.function takes symbolic tensors; none of the inputs and outputs is one.")
        with graph.as_default():
            self.outputs = [graph.capture(_read(x)) if hasattr(_read(x), "_value") else _read(x) for x in flat]
            targets = []
            for u in updates or []:
                u = tf.assign(*u) if isinstance(u, tuple) else u
                targets.append(u if isinstance(u, Operation) else u.op)
        self._function = pruned(graph, self.inputs, self.outputs, targets, name or "keras_function")

    def __call__(self, inputs: Any) -> Any:
        values = nest.flatten(inputs, expand_composites=True)
        args = []
        for hole, value in zip(self.inputs, values):
            if value is None:
                if hole.op.type != "PlaceholderWithDefault":
                    raise ValueError(f"You must feed a value for placeholder {hole}")
                value = tf.get_static_value(hole.op.inputs[0])
            args.append(tf.cast(value, hole.dtype) if isinstance(value, Tensor) else tf.convert_to_tensor(value, hole.dtype))
        got = self._function(*args)
        return nest.pack_sequence_as(self._structure, [x.numpy() for x in got], expand_composites=True)


@export("keras.backend.function")
def function(inputs: Any, outputs: Any, updates: Any = None, name: str | None = None, **kwargs: Any) -> Any:
    """A Python function of arrays that computes `outputs` from `inputs`, and makes the updates.

    >>> f = tf.keras.backend.function([x], [x * 2]); f([np.ones(3)])
    """
    if context.eager_outside_functions():
        if kwargs:
            raise ValueError(f"Session keyword arguments are not supported during eager execution. You passed: {kwargs}")
        return EagerFunction(inputs, outputs, updates=updates, name=name)
    for key in kwargs:
        if key not in _RUN_ARGUMENTS:
            raise ValueError(f'Invalid argument "{key}" passed to K.function with TensorFlow backend')
    return GraphFunction(inputs, outputs, updates=updates, name=name, **kwargs)
