"""Of `eager.context` and `eager.backprop`."""
from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import penstock
import penstock.compat.v1 as tf
from penstock._src.base import nest
from penstock._src.graph import context as _context
from penstock._src.graph.recording import record
from penstock._src.kernels.devices.device_config import eager_devices
from penstock._src.kernels.devices.device_config import reset as _reset_context  # noqa: F401
from penstock._src.kernels.devices.device_lib import list_local_devices


def in_eager_mode() -> bool:
    """Whether operations run eagerly."""
    return tf.executing_eagerly()


def in_graph_mode() -> bool:
    """Whether operations build a graph."""
    return not tf.executing_eagerly()


@contextlib.contextmanager
def eager_mode() -> Iterator[None]:
    """A context in which operations run eagerly."""
    with _context.enter(None):
        yield


@contextlib.contextmanager
def graph_mode() -> Iterator[None]:
    """A context in which operations build a separate graph."""
    with tf.Graph().as_default():
        yield


class _Executed:
    """An executed op, for gradient functions."""

    def __init__(self, op_type: str, inputs: Any, attrs: Any, outputs: Any):
        self.type, self.inputs, self.outputs = op_type, list(inputs), list(outputs)
        self._attrs = dict(zip(attrs[::2], attrs[1::2], strict=True))
        self._extra: dict[str, Any] = {}

    def get_attr(self, name: str) -> Any:
        """An attribute."""
        return self._attrs[name]


def record_gradient(op_name: str, inputs: Any, attrs: Any, results: Any) -> None:
    """Records `results` as made of `inputs` by a type of op, whose gradient function is registered. Attributes alternate
    with their names."""
    record(_Executed(op_name, inputs, attrs or (), results), list(inputs), list(results))


_record_gradient = record_gradient


class _Context:
    """TensorFlow's eager context, as far as programs use it."""

    executing_eagerly = staticmethod(tf.executing_eagerly)

    @property
    def device_name(self) -> str | None:
        """The device of the innermost scope, or None."""
        return _context.state.device

    @property
    def device_spec(self) -> Any:
        """The device of the innermost scope; its fields are None outside of scopes."""
        return tf.DeviceSpec.from_string(_context.state.device or "")

    @staticmethod
    def num_gpus() -> int:
        """How many GPUs there are."""
        return num_gpus()

    @staticmethod
    def ensure_initialized() -> None:
        """Fixes the devices of eager execution, as the first operation does."""
        ensure_initialized()

    @staticmethod
    def clear_kernel_cache() -> None:
        """Does nothing: there are no caches of eager ops."""

    @staticmethod
    def devices() -> list[str]:
        """The names of the devices."""
        return list_devices()


def context() -> Any:
    """The eager context."""
    return _Context()


def ensure_initialized() -> None:
    """Fixes the devices of eager execution, as the first operation does."""
    eager_devices()


def function_from_graph_def(graph_def: Any, inputs: Any, outputs: Any, captures: Any = None) -> Any:
    """A function of a GraphDef, from the tensors named `inputs` to those named `outputs`. `captures` maps names of
    placeholders in it to tensors that take their place."""
    captures = captures or {}

    def build() -> None:
        here = tf.get_default_graph()
        known = {f"{n.partition(':')[0]}:0": here.capture(t) for n, t in captures.items()}
        tf.import_graph_def(graph_def, input_map=known, name="")
    built = tf.wrap_function(build, [])
    find = built.graph.as_graph_element
    return built.prune(*(nest.map_structure(find, names) for names in (inputs, outputs)))


def num_gpus() -> int:
    """How many GPUs there are."""
    return len(penstock.config.experimental.list_physical_devices("GPU"))


def list_devices() -> list[str]:
    """The names of the local devices."""
    return [f"/job:localhost/replica:0/task:0{d.name}" for d in list_local_devices()]
