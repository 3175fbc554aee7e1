"""Datasets of workers: created on each worker by the same function, and recreated on a restarted one."""
from __future__ import annotations

import threading
import weakref
from typing import Any

from penstock._src.base import dtypes
from penstock._src.data.datasets import structure
from penstock._src.data.datasets.dataset import DatasetV2
from penstock._src.data.datasets.iterators import OwnedIterator
from penstock._src.data.pipelines.mapping import stage_of
from penstock._src.graph import context
from penstock._src.graph.func_graph import FuncGraph, trace
from penstock._src.graph.functions import GraphFunction, function_name
from penstock._src.graph.scopes import control_dependencies, device
from penstock._src.kernels.devices.device_spec import parts_of
from penstock._src.models.distribute import connect
from penstock._src.models.distribute.channel import Channel, task_of
from penstock._src.models.distribute.coordinator.values import PerWorkerTensor, PerWorkerValues
from penstock._src.models.distribute.inlined import Body, used_inputs
from penstock._src.ops.core import placeholder
from penstock._src.ops.data.dataset_recipe import rebuilt
from penstock._src.ops.registry import get


class WorkerIterator(OwnedIterator):
    """An iterator of a worker: its elements are made there."""

    def __init__(self, resource: Any, element_spec: Any):
        nothing = PerWorkerTensor(lambda channel, i: None, dtypes.variant)
        super().__init__(components=(resource, nothing), element_spec=element_spec)

    def _next_internal(self) -> Any:
        spec = self._spec
        return structure.from_tensors(spec, get("IteratorGetNext")(self._iterator_resource, **structure.outputs(spec)))


class _Recipe:
    """A function that makes a dataset, traced once, for all workers."""

    def __init__(self, make: Any):
        graph = FuncGraph("per_worker_dataset")

        def variant() -> Any:
            dataset = _made(make)
            self.element_spec = dataset.element_spec
            return dataset._variant_tensor
        trace(graph, variant)
        graph.inputs = graph.internal_captures
        self.captured = graph.external_captures
        self.function = GraphFunction(graph, function_name(graph.name))

    def start(self, channel: Channel, index: int, handle: Any) -> None:
        """Begins to read the dataset on a worker."""
        connection = connect.connected()
        values = [connection.on_worker(t._value, channel, index) for t in self.captured]
        channel.custom((self.function.name, handle.attrs["shared_name"]),
                       lambda channel: self._build(channel, handle, values), values)

    def _build(self, channel: Channel, handle: Any, values: list) -> tuple[list, list, list]:
        used = used_inputs(self.function)
        inputs: list[Any] = []
        feeds, fed = [], []
        with device(task_of(handle.device)):
            for i, (value, p) in enumerate(zip(values, self.function.inputs, strict=True)):
                if not used[i] or type(value) is connect.RemoteHandle:
                    inputs.append(channel.handle(value) if used[i] else None)
                    continue
                inputs.append(placeholder(p.dtype, p.shape))
                feeds.append(inputs[-1])
                fed.append(i)
            foreign = [t for t, v in zip(inputs, values, strict=True) if t is not None and
                       type(v) is connect.RemoteHandle and task_of(v.device) != task_of(handle.device)]
            (variant,), done = Body(foreign).write(self.function, inputs)
            with control_dependencies(done):
                return [get("MakeIterator")(variant, channel.handle(handle))], feeds, fed


def _made(make: Any) -> DatasetV2:
    """The dataset that is meant, in the function that is being traced."""
    if isinstance(make, DatasetV2):
        variant = make._variant_tensor
        return DatasetV2._made(rebuilt(stage_of(variant._value)), make.element_spec) if hasattr(variant, "_value") else make
    if not callable(make):
        raise ValueError("Unexpected dataset type: create_per_worker_dataset takes a tf.data.Dataset, or a function that "
                         f"returns one, got {make!r}.")
    found = context.traced_as(make)()
    if not isinstance(found, DatasetV2):
        raise TypeError(f"The function of create_per_worker_dataset must return a tf.data.Dataset, got {found!r}.")
    return found


class PerWorkerDataset(PerWorkerValues):
    """A dataset for each worker; `iter` returns what scheduled functions take as an argument, or capture.

    >>> iterator = iter(coordinator.create_per_worker_dataset(dataset_fn))
    """

    def __init__(self, make: Any):
        self._recipe = _Recipe(make)
        self._free: list[_Slot] = []                 # of iterators that are gone

    element_spec = property(lambda self: self._recipe.element_spec, doc="The type of the elements.")

    def __iter__(self) -> PerWorkerIterator:
        slot = self._free.pop() if self._free else _Slot(self._recipe)
        slot.begin()
        made = PerWorkerIterator(slot)
        weakref.finalize(made, self._free.append, slot).atexit = False
        return made

    def _argument(self) -> Any:
        raise ValueError("A per-worker dataset cannot be an argument of a scheduled function: pass iter(dataset).")

    _on_worker = property(lambda self: self._argument, doc="Not for functions.")

    def __repr__(self) -> str:
        return f"<PerWorkerDataset of {self.element_spec}>"


class _Slot:
    """The iterators of all workers that begin and end together; another round may use them again."""

    def __init__(self, recipe: _Recipe):
        self.recipe = recipe
        self._handles: dict[int, tuple[Channel, Any]] = {}
        self._begun: dict[Any, Any]
        self._round, self._begun = 0, {}
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Restarts the iterator on every worker, on its next use there."""
        with self._lock:
            self._round += 1

    def on(self, channel: Channel, index: int) -> Any:
        """The iterator of one worker, which is made if it does not exist."""
        with self._lock:
            known = self._handles.get(index)
            if known is None or known[0] is not channel:
                known = self._handles[index] = channel, self._new(channel)
                self._begun.pop(index, None)
            if self._begun.get(index) != self._round:
                self.recipe.start(channel, index, known[1]._value)
                self._begun[index] = self._round
            return known[1]._value

    def _new(self, channel: Channel) -> Any:
        connection = connect.connected()
        where = next(d for d in channel.devices if "/job:worker" in d.name and d.device_type == "CPU")
        attrs = {"container": "", "shared_name": "", **structure.outputs(self.recipe.element_spec)}
        return connection.made(get("IteratorV2"), attrs, where, channel)


class PerWorkerIterator(PerWorkerValues):
    """An iterator for each worker."""

    def __init__(self, slot: _Slot):
        self._slot = slot
        self._tensor = PerWorkerTensor(slot.on, dtypes.resource)
        self._iterator = WorkerIterator(self._tensor, slot.recipe.element_spec)

    element_spec = property(lambda self: self._slot.recipe.element_spec, doc="The type of the elements.")

    def _argument(self) -> Any:
        return self._iterator

    def _on_worker(self, index: int) -> Any:
        return self._iterator

    def __iter__(self) -> PerWorkerIterator:
        return self

    def __next__(self) -> Any:
        """The next element of the worker that runs the function in which it is called."""
        self._refuse_chief()
        return next(self._iterator)

    def get_next(self) -> Any:
        """The next element of the worker that runs the function in which it is called."""
        self._refuse_chief()
        return self._iterator.get_next()

    @staticmethod
    def _refuse_chief() -> None:
        if context.executing_eagerly() and parts_of(context.state.device or "")[0] != "worker":
            raise NotImplementedError("Iterating over a per-worker dataset is not supported in the chief, which has no element "
                                      "of it: pass the iterator to a function that ClusterCoordinator.schedule runs.")

    def __repr__(self) -> str:
        return f"<PerWorkerIterator of {self.element_spec}>"
