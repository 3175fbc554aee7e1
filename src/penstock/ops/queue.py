"""FIFO queues: blocking, back-pressure, closing and cancellation.

A queue is a resource of the session. Enqueues wait while it is full, dequeues while it is empty; both end with the step's
deadline or cancellation, and with the queue's closing: pending dequeues that can no longer be met raise OutOfRangeError,
enqueues raise CancelledError.
"""
from __future__ import annotations

import collections
import threading
from typing import Any

import numpy as np
import torch

from penstock import dtypes, errors
from penstock.api import export
from penstock.compat import v1 as tf
from penstock.graph import context
from penstock.graph.convert import convert
from penstock.ops.registry import op
from penstock.static_shape import TensorShape

_QUEUE = "container: string = '', shared_name: string = ''"


class Queue:
    """The state of a FIFO queue: rows of components."""

    def __init__(self, name: str, types: list, shapes: list, capacity: int):
        self.name, self.types, self.shapes = name, types, [s._dims for s in shapes]
        self.capacity = capacity if capacity >= 0 else float("inf")
        self.rows: collections.deque = collections.deque()
        self.changed = threading.Condition()
        self.closed = self.cancelled = False

    def check(self, row: tuple) -> None:
        """InvalidArgumentError unless a row has the queue's shapes."""
        for i, (value, dims) in enumerate(zip(row, self.shapes, strict=False)):
            if dims is not None and not TensorShape.of(dims).is_compatible_with(tuple(value.shape)):
                raise errors.invalid(f"Shape mismatch in tuple component {i}. Expected {list(dims)}, got {list(value.shape)}")

    def put(self, rows: list[tuple], ctx: Any) -> None:
        """Adds rows one by one, waiting for space."""
        for row in rows:
            self.check(row)
        with self.changed:
            for row in rows:
                self._refuse_if_closed()
                ctx.wait(self.changed, lambda: len(self.rows) < self.capacity or self.cancelled)
                if self.cancelled:
                    raise errors.CancelledError(None, None, f"Enqueue operation was cancelled: queue '{self.name}' is closed.")
                self.rows.append(row)
                self.changed.notify_all()

    def _refuse_if_closed(self) -> None:
        if self.closed:
            raise errors.CancelledError(None, None, f"FIFOQueue '{self.name}' is closed.")

    def take(self, n: int, ctx: Any, fewer: bool = False) -> list[tuple]:
        """n rows, waiting for them; all or none, unless `fewer` is allowed after closing."""
        with self.changed:
            ctx.wait(self.changed, lambda: len(self.rows) >= n or self.closed)
            if len(self.rows) < n and not (fewer and self.rows):
                raise errors.OutOfRangeError(None, None, f"FIFOQueue '{self.name}' is closed and has insufficient elements "
                                             f"(requested {n}, current size {len(self.rows)})")
            rows = [self.rows.popleft() for _ in range(min(n, len(self.rows)))]
            self.changed.notify_all()
            return rows

    def close(self, cancel_pending: bool = True) -> None:
        """No more enqueues; pending ones are cancelled if asked for."""
        with self.changed:
            self.closed = True
            self.cancelled = self.cancelled or cancel_pending
            self.changed.notify_all()


fifo = op("FIFOQueueV2", "-> handle: resource",
          f"component_types: list(type) >= 1, shapes: list(shape) = [], capacity: int = -1, {_QUEUE}",
          stateful=True, per_session=True).no_gradient()
fifo.shape(lambda: ())


@fifo.kernel
def _(*, component_types, shapes, capacity, container, shared_name, ctx, node):
    name = shared_name or node.name
    return ctx.resources.get_or_create(container, name, Queue, lambda: Queue(name, component_types, shapes, capacity))


_COMPONENTS = "Tcomponents: list(type) >= 1, timeout_ms: int = -1"
_TYPES = "component_types: list(type) >= 1, timeout_ms: int = -1"
enqueue_op = op("QueueEnqueueV2", "handle: resource, components: Tcomponents ->", _COMPONENTS, stateful=True,
                blocking=True).no_gradient()
enqueue_many_op = op("QueueEnqueueManyV2", "handle: resource, components: Tcomponents ->", _COMPONENTS, stateful=True,
                     blocking=True).no_gradient()
dequeue_op = op("QueueDequeueV2", "handle: resource -> components: component_types", _TYPES, stateful=True,
                blocking=True).no_gradient()
dequeue_many_op = op("QueueDequeueManyV2", "handle: resource, n: int32 -> components: component_types", _TYPES, stateful=True,
                     blocking=True).no_gradient()
dequeue_up_to_op = op("QueueDequeueUpToV2", "handle: resource, n: int32 -> components: component_types", _TYPES, stateful=True,
                      blocking=True).no_gradient()
close_op = op("QueueCloseV2", "handle: resource ->", "cancel_pending_enqueues: bool = False", stateful=True).no_gradient()
size_op = op("QueueSizeV2", "handle: resource -> size: int32", stateful=True).no_gradient()
is_closed_op = op("QueueIsClosedV2", "handle: resource -> is_closed: bool", stateful=True).no_gradient()
size_op.shape(lambda handle: ())
is_closed_op.shape(lambda handle: ())


def _kept(value: Any) -> Any:
    """A copy that the queue may hold on to."""
    return value.clone() if isinstance(value, torch.Tensor) else np.array(value)


@enqueue_op.kernel
def _(handle, components, *, ctx):
    handle.put([tuple(_kept(c) for c in components)], ctx)


@enqueue_many_op.kernel
def _(handle, components, *, ctx):
    sizes = {len(c) if c.ndim else -1 for c in components}
    if len(sizes) != 1 or -1 in sizes:
        raise errors.invalid("All components of enqueue_many must have the same first dimension")
    rows = [tuple(_kept(c[i]) if isinstance(c, torch.Tensor) else np.array(c[i], dtype=object) for c in components)
            for i in range(sizes.pop())]
    handle.put(rows, ctx)


@dequeue_op.kernel
def _(handle, *, ctx):
    return list(handle.take(1, ctx)[0])


def _batch(queue: Queue, rows: list[tuple]) -> list:
    """Rows stacked component by component."""
    out = []
    for i, t in enumerate(queue.types):
        values = [r[i] for r in rows]
        if t.torch is None:
            stacked = np.stack(values) if values else np.empty((0, *(queue.shapes[i] or ())), dtype=object)
        else:
            stacked = torch.stack(values) if values else torch.empty((0, *(queue.shapes[i] or ())), dtype=t.torch)
        out.append(stacked)
    return out


def _count(queue: Queue, n: torch.Tensor) -> int:
    if n.numel() != 1 or int(n) < 0:
        raise errors.invalid(f"the number of elements to dequeue must be a non-negative scalar, got {n.tolist()}")
    if int(n) > queue.capacity:
        raise errors.invalid(f"requested {int(n)} elements of a queue of capacity {queue.capacity}")
    return int(n)


@dequeue_many_op.kernel
def _(handle, n, *, ctx):
    return _batch(handle, handle.take(_count(handle, n), ctx))


@dequeue_up_to_op.kernel
def _(handle, n, *, ctx):
    return _batch(handle, handle.take(_count(handle, n), ctx, fewer=True))


close_op.kernel(lambda handle, *, cancel_pending_enqueues: handle.close(cancel_pending_enqueues))
size_op.kernel(lambda handle: torch.tensor(len(handle.rows), dtype=torch.int32))
is_closed_op.kernel(lambda handle: torch.tensor(handle.closed))


@export("queue.QueueBase", v1=["QueueBase"])
class QueueBase:
    """What queues share. A queue's elements are tuples of tensors of fixed types."""

    def __init__(self, dtypes_: Any, shapes: Any, names: Any, queue_ref: Any):
        self._dtypes = [dtypes.as_dtype(d) for d in (dtypes_ if isinstance(dtypes_, (list, tuple)) else [dtypes_])]
        self._shapes = [TensorShape(None)] * len(self._dtypes) if shapes is None else _shapes(shapes, len(self._dtypes))
        self._names = [names] if isinstance(names, str) else names
        self._queue_ref = queue_ref
        self._name = None if context.executing_eagerly() else queue_ref.op.name.rsplit("/", 1)[-1]

    queue_ref = property(lambda self: self._queue_ref, doc="The handle.")
    name = property(lambda self: self._name, doc="The name.")
    dtypes = property(lambda self: self._dtypes, doc="The types of the components.")
    shapes = property(lambda self: self._shapes, doc="The shapes of the components.")
    names = property(lambda self: self._names, doc="The names of the components, or None.")

    def _components(self, vals: Any, many: bool) -> list:
        if isinstance(vals, dict):
            if not self._names:
                raise ValueError("Queue must have names to enqueue a dictionary")
            if sorted(self._names, key=str) != sorted(vals, key=str):
                raise ValueError(f"Keys in dictionary to enqueue do not match names of Queue.  Dictionary: "
                                 f"{sorted(vals, key=str)}, Queue: {sorted(self._names, key=str)}")
            vals = [vals[n] for n in self._names]
        elif self._names:
            raise ValueError("You must enqueue a dictionary in a Queue with names")
        elif not isinstance(vals, (list, tuple)) or len(self._dtypes) == 1 and not (
                isinstance(vals, (list, tuple)) and len(vals) == 1 and hasattr(vals[0], "dtype")):
            vals = [vals]
        if len(vals) != len(self._dtypes):
            raise ValueError(f"Unexpected number of inputs {len(vals)}: the queue has {len(self._dtypes)} components")
        out = [convert(v, d, f"component_{i}") for i, (v, d) in enumerate(zip(vals, self._dtypes, strict=True))]
        for v, shape in zip(out, self._shapes, strict=True):
            (v.shape[1:] if many else v.shape).assert_is_compatible_with(shape)
        return out

    def enqueue(self, vals: Any, name: str | None = None) -> Any:
        """An op that adds one element, waiting while the queue is full."""
        with tf.name_scope(name, f"{self._name}_enqueue") as scope:
            return enqueue_op(self._queue_ref, self._components(vals, False), name=scope or None)

    def enqueue_many(self, vals: Any, name: str | None = None) -> Any:
        """An op that adds the rows of its components as elements."""
        with tf.name_scope(name, f"{self._name}_EnqueueMany") as scope:
            return enqueue_many_op(self._queue_ref, self._components(vals, True), name=scope or None)

    def _result(self, tensors: list, batch: Any) -> Any:
        for t, shape in zip(tensors, self._shapes, strict=True):
            if not hasattr(t, "_value"):
                t.set_shape(shape if batch is None else TensorShape([batch[0]]).concatenate(shape))
        if self._names:
            return dict(zip(self._names, tensors, strict=True))
        return tensors[0] if len(tensors) == 1 else tensors

    def dequeue(self, name: str | None = None) -> Any:
        """One element, waiting for it; OutOfRangeError when the queue is closed and empty."""
        return self._result(dequeue_op(self._queue_ref, component_types=self._dtypes,
                                       name=name or f"{self._name}_Dequeue"), None)

    def dequeue_many(self, n: Any, name: str | None = None) -> Any:
        """n elements, stacked."""
        from penstock.graph.constant import constant_value
        n = convert(n, dtypes.int32)
        known = constant_value(n)
        return self._result(dequeue_many_op(self._queue_ref, n, component_types=self._dtypes,
                                            name=name or f"{self._name}_DequeueMany"), (None if known is None else int(known),))

    def dequeue_up_to(self, n: Any, name: str | None = None) -> Any:
        """n elements, or what is left when the queue is closed."""
        return self._result(dequeue_up_to_op(self._queue_ref, n, component_types=self._dtypes,
                                             name=name or f"{self._name}_DequeueUpTo"), (None,))

    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> Any:
        """An op after which nothing can be enqueued."""
        return close_op(self._queue_ref, cancel_pending_enqueues=cancel_pending_enqueues, name=name or f"{self._name}_Close")

    def is_closed(self, name: str | None = None) -> Any:
        """Whether the queue is closed."""
        return is_closed_op(self._queue_ref, name=name or f"{self._name}_is_closed")

    def size(self, name: str | None = None) -> Any:
        """The number of elements."""
        return size_op(self._queue_ref, name=name or f"{self._name}_Size")


def _shapes(shapes: Any, n: int) -> list[TensorShape]:
    if n == 1 and not (isinstance(shapes, (list, tuple)) and len(shapes) == 1 and isinstance(shapes[0], (
            list, tuple, TensorShape))):
        shapes = [shapes]
    out = [TensorShape(s) for s in shapes]
    if len(out) != n:
        raise ValueError("Queue shapes must have the same length as dtypes")
    return out


@export("queue.FIFOQueue", v1=["FIFOQueue"])
class FIFOQueue(QueueBase):
    """A queue that gives its elements in the order in which they came.

    >>> q = tf.FIFOQueue(10, tf.float32)
    >>> sess.run(q.enqueue(1.0)); sess.run(q.dequeue())
    """

    def __init__(self, capacity: int, dtypes: Any, shapes: Any = None, names: Any = None, shared_name: str | None = None,  # noqa: A002
                 name: str = "fifo_queue"):
        types = dtypes if isinstance(dtypes, (list, tuple)) else [dtypes]
        known = [] if shapes is None else _shapes(shapes, len(types))
        ref = fifo(component_types=types, shapes=known, capacity=capacity, shared_name=shared_name or "", name=name)
        super().__init__(types, known or None, names, ref)
