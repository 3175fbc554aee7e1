"""Barriers: elements whose components come one by one, by key. The state is in `data.queues.barrier`."""
from __future__ import annotations

from typing import Any

import torch

from penstock._src.base import errors
from penstock._src.base import static_shape as shapes
from penstock._src.base.static_shape import TensorShape
from penstock._src.data.queues.barrier import Barrier as State
from penstock._src.graph.constant import constant_value
from penstock._src.ops.registry import op
from penstock._src.ops.state.queue import shared
from penstock._src.ops.state.queue_classes import shape_list, type_list

barrier_op = op("Barrier", "-> handle: Ref(string)",
                "component_types: list(type) >= 1, shapes: list(shape) >= 0 = [], capacity: int = -1, container: string = '', "
                "shared_name: string = ''", stateful=True, per_session=True).no_gradient()
insert_many = op("BarrierInsertMany", "handle: Ref(string), keys: string, values: T ->", "T: type, component_index: int",
                 foldable=False).no_gradient()
take_many = op("BarrierTakeMany", "handle: Ref(string), num_elements: int32 -> indices: int64, keys: string, "
               "values: component_types", "component_types: list(type) >= 1, allow_small_batch: bool = False, "
               "wait_for_incomplete: bool = False, timeout_ms: int = -1", foldable=False, blocking=True).no_gradient()
close = op("BarrierClose", "handle: Ref(string) ->", "cancel_pending_enqueues: bool = False", foldable=False).no_gradient()
ready_size = op("BarrierReadySize", "handle: Ref(string) -> size: int32", foldable=False).no_gradient()
incomplete_size = op("BarrierIncompleteSize", "handle: Ref(string) -> size: int32", foldable=False).no_gradient()
barrier_op.shape(lambda: (2,))
ready_size.shape(lambda handle: ())
incomplete_size.shape(lambda handle: ())


@insert_many.shape
def _insert_many_shape(handle, keys, values):
    keys = shapes.rank_is(keys, 1)
    values = shapes.rank_at_least(values, 1)
    if keys is not None and values is not None:
        shapes.merge(keys, values[:1])
    return []


@barrier_op.kernel
def _barrier_kernel(*, component_types, shapes, capacity, container, shared_name, ctx, node):
    if len(shapes) != len(component_types):
        raise errors.invalid("All of the component shapes must be specified")
    if capacity != -1:
        raise errors.invalid("Barrier only accepts capacity=-1.  Feed the inputs to your Barrier through a queue to enforce a "
                             "limited capacity.")
    dims = [s.static_dims or () for s in shapes]
    found = shared(ctx, node, container, shared_name, State, lambda name: State(name, component_types, dims, container))
    found.check_same(component_types, dims)
    return found


@insert_many.kernel
def _insert_many_kernel(handle, keys, values, *, component_index):
    handle.insert_many(component_index, keys, values)


@take_many.kernel
def _take_many_kernel(handle, num_elements, *, component_types, allow_small_batch, timeout_ms, ctx):
    if timeout_ms != -1:
        raise errors.invalid("Timeout not supported yet: use RunOptions.timeout_in_ms.")
    if num_elements.dim():
        raise errors.invalid("num_elements must be a scalar.")
    if component_types != handle.types:
        raise errors.invalid(f"Barrier '{handle.name}' has component types {[t.name for t in handle.types]}, expected "
                             f"{[t.name for t in component_types]}")
    return handle.take_many(int(num_elements), allow_small_batch, ctx)


close.kernel(lambda handle, *, cancel_pending_enqueues: handle.end_inserts(cancel_pending_enqueues))
ready_size.kernel(lambda handle: torch.tensor(handle.ready_size(), dtype=torch.int32))
incomplete_size.kernel(lambda handle: torch.tensor(len(handle.incomplete), dtype=torch.int32))


class Barrier:
    """A map from keys to tuples of tensors, whose components are inserted one by one and taken when they are complete.

    >>> b = Barrier((tf.string, tf.int32), shapes=((), ()))
    >>> b.insert_many(0, keys=["k1", "k2"], values=["a", "b"])
    """

    def __init__(self, types: Any, shapes: Any = None, shared_name: str | None = None, name: str = "barrier"):
        self._types = type_list(types)
        known = None if shapes is None else shape_list(shapes)
        if known is not None:
            for i, s in enumerate(known):
                if s.num_elements() == 0:
                    raise ValueError(f"Empty tensors are not supported, but received shape '{s}' at index {i}")
        self._shapes = known or [TensorShape(None)] * len(self._types)
        self._barrier_ref = barrier_op(component_types=self._types, shapes=self._shapes, shared_name=shared_name or "",
                                       name=name)
        self._name = self._barrier_ref.op.name.rsplit("/", 1)[-1]

    barrier_ref = property(lambda self: self._barrier_ref, doc="The handle.")

    @property
    def name(self) -> str:
        """The name of the op that created the barrier."""
        return self._barrier_ref.op.name

    def insert_many(self, component_index: int, keys: Any, values: Any, name: str | None = None) -> Any:
        """An op that inserts the component at `component_index` for each key: one value per key."""
        return insert_many(self._barrier_ref, keys, values, component_index=component_index,
                           name=name or f"{self._name}_BarrierInsertMany")

    def take_many(self, num_elements: Any, allow_small_batch: bool = False, timeout: int | None = None,
                  name: str | None = None) -> Any:
        """Takes complete elements, waiting for them: (indices of their insertion, keys, list of components)."""
        taken = take_many(self._barrier_ref, num_elements, component_types=self._types, allow_small_batch=allow_small_batch,
                          name=name or f"{self._name}_BarrierTakeMany")
        made = taken[0].op
        known = None if allow_small_batch else constant_value(made.inputs[1])
        batch = TensorShape([None if known is None else int(known)])
        for t, s in zip(made.outputs, [TensorShape([]), TensorShape([]), *self._shapes], strict=True):
            t.set_shape(batch.concatenate(s))
        return taken

    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> Any:
        """An op that closes the barrier for new keys; with `cancel_pending_enqueues`, also for components of existing ones."""
        return close(self._barrier_ref, cancel_pending_enqueues=cancel_pending_enqueues,
                     name=name or f"{self._name}_BarrierClose")

    def ready_size(self, name: str | None = None) -> Any:
        """The number of complete elements."""
        return ready_size(self._barrier_ref, name=name or f"{self._name}_BarrierReadySize")

    def incomplete_size(self, name: str | None = None) -> Any:
        """The number of elements that wait for components."""
        return incomplete_size(self._barrier_ref, name=name or f"{self._name}_BarrierIncompleteSize")
