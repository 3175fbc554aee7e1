"""Results of scheduled functions, and per-worker values."""
from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock._src.base import dtypes, errors, nest
from penstock._src.base.api import export
from penstock._src.base.waits import waited_for
from penstock._src.graph import context
from penstock._src.graph.convert import convert
from penstock._src.graph.eager_tensor import EagerTensor
from penstock._src.graph.node import Tensor
from penstock._src.kernels.devices.device_spec import parts_of
from penstock._src.models.distribute.connect import PerWorker
from penstock._src.ops.core import identity

_NAMES = ["distribute.coordinator.", "distribute.experimental.coordinator."]


@export(v2=[n + "RemoteValue" for n in _NAMES])
class RemoteValue:
    """The result of a scheduled function, which may not have run yet.

    >>> result = coordinator.schedule(step, args=(iterator,))
    >>> result.fetch()                       # waits, and returns numpy values
    """

    def __init__(self) -> None:
        self._there = threading.Event()
        self._values: Any = None
        self._error: BaseException | None = None

    def _set_values(self, values: Any) -> None:
        self._values, self._error = values, None
        self._there.set()

    def _set_error(self, error: BaseException) -> None:
        self._error = error
        self._there.set()

    def get(self, timeout: float | None = None) -> Any:
        """The tensors that the function returned, when it has; its error, if it failed or was cancelled.

        DeadlineExceededError after `timeout` seconds.
        """
        if not waited_for(self._there, lambda: "the result of a function that was scheduled on the workers", timeout):
            raise errors.DeadlineExceededError(None, None, f"The scheduled function has not ended in {timeout:g} seconds.")
        if self._error is not None:
            raise self._error
        return self._values

    def fetch(self, timeout: float | None = None) -> Any:
        """The result of the function, as numpy values."""
        return nest.map_structure(lambda v: v.numpy() if hasattr(v, "numpy") else v, self.get(timeout))

    def __repr__(self) -> str:
        state = "not there yet" if not self._there.is_set() else repr(self._values if self._error is None else self._error)
        return f"<RemoteValue: {state}>"


@export(v2=[*(n + "PerWorkerValues" for n in _NAMES), "distribute.coordinator.PerWorkerValue"])
class PerWorkerValues:
    """A value for each worker; a scheduled function gets the one of the worker that it runs on.

    >>> coordinator.schedule(step, args=(PerWorkerValues([a, b]),))
    """

    def __init__(self, values: Sequence):
        self._values = tuple(values)
        for v in self._values:
            if isinstance(v, RemoteValue):
                raise AssertionError("PerWorkerValues should only take RemoteValue-free values: fetch them first.")

    values = property(lambda self: self._values, doc="The values, in the order of the workers.")

    def _on_worker(self, index: int) -> Any:
        return self._values[index]

    def _argument(self) -> Any:
        """What represents it where a function is traced: tensors that have another value on each worker."""
        def one(*leaves: Any) -> Any:
            tensors = [v if isinstance(v, Tensor) else convert(v) for v in leaves]
            if len({(t.dtype, tuple(t.shape.as_list())) for t in tensors}) > 1:
                raise ValueError("The values of a PerWorkerValues must have the same type and shape on all workers, got "
                                 f"{[(t.dtype.name, t.shape.as_list()) for t in tensors]}.")
            return PerWorkerTensor(lambda channel, i: tensors[i]._value, tensors[0].dtype, tensors[0].static_dims)
        return nest.map_structure(one, *self._values)

    def __repr__(self) -> str:
        return f"PerWorkerValues({list(self._values)!r})"


class PerWorkerTensor(EagerTensor):
    """An eager tensor that has another value on each worker: what functions capture of such a value."""

    _by_reference = True                    # it is never written into a graph as a constant

    def __init__(self, on: Any, dtype: Any, dims: tuple = ()):
        super().__init__(PerWorker(on, dims), dtype)

    def numpy(self) -> Any:
        """Raises: the value exists only on workers."""
        raise ValueError("Each worker has a different value here: use it in functions that ClusterCoordinator.schedule runs.")


_index = PerWorkerTensor(lambda channel, i: _scalar(i), dtypes.int64)


def _scalar(i: int) -> Any:
    return convert(np.int64(i))._value


@export(v2=["distribute.experimental.coordinator.get_current_worker_index",
            "distribute.coordinator.experimental_get_current_worker_index"])
def get_current_worker_index() -> Any:
    """The number of the worker that a scheduled function runs on, as a tensor (int64).

    >>> coordinator.schedule(tf.function(lambda: tf.distribute.coordinator.experimental_get_current_worker_index()))
    """
    if context.executing_eagerly():
        job, _, index, *_ = parts_of(context.state.device or "")
        if job != "worker" or index is None:
            raise RuntimeError("Cannot retrieve the worker index: there is one only inside of a function "
                               "that ClusterCoordinator.schedule runs on a worker.")
        return convert(np.int64(index))
    return identity(_index)


def on_worker(structured: Any, index: int) -> Any:
    """A worker's values in a structure of arguments."""
    return nest.map_structure(lambda v: v._on_worker(index) if hasattr(v, "_on_worker") else v, structured)


def as_arguments(structured: Any) -> Any:
    """A structure of arguments as functions are traced with it."""
    return nest.map_structure(lambda v: v._argument() if hasattr(v, "_argument") else v, structured)


def refuse_remote_values(structured: Any) -> None:
    """Raises ValueError for results of other functions among the arguments."""
    for v in nest.flatten(structured):
        if isinstance(v, RemoteValue):
            raise ValueError("`tf.distribute.experimental.coordinator.RemoteValue` used as an input to scheduled function is "
                             "not yet supported: fetch it first.")
