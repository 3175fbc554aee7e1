"""The ops of queues, with resource handles (V2) and with references; the classes over them are in `queue_classes`.

A queue is a resource of the session: the ops that create one return the same object in every step. The state and all waiting
are in `data.queues`.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from penstock._src.base import errors
from penstock._src.data.queues.base import Queue
from penstock._src.data.queues.fifo import FIFOQueue
from penstock._src.data.queues.padding import PaddingFIFOQueue
from penstock._src.data.queues.priority import PriorityQueue
from penstock._src.data.queues.shuffle import RandomShuffleQueue
from penstock._src.ops import rules
from penstock._src.ops.registry import OpDef, op

_SHARED = "container: string = '', shared_name: string = ''"
_TYPES = "component_types: list(type) >= 1, shapes: list(shape) >= 0 = [], capacity: int = -1"


def shared(ctx: Any, node: Any, container: str, shared_name: str, kind: type, make: Callable[[str], Any]) -> Any:
    """The resource of a node, by its shared_name or its name; `make` creates it if it does not exist."""
    name = shared_name or node.name
    if node.graph is None and not shared_name:            # eager, and private
        return make(name)
    return ctx.resources.get_or_create(container, name, kind, lambda: make(name))


# -- making queues ----------------------------------------------------------------------------------------------------
def _maker(name: str, attrs: str, kernel: Any) -> OpDef:
    """Declares the two ops that create a kind of queue, and returns the one with a resource handle."""
    for n, handle in ((name, "Ref(string)"), (name + "V2", "resource")):
        made = op(n, f"-> handle: {handle}", f"{attrs}, {_SHARED}", stateful=True, per_session=True, gpu=False).no_gradient()
        made.shape((lambda: (2,)) if n == name else (lambda: ()))
        made.kernel(kernel)
    return made


def _find(kind: type[Queue], ctx: Any, node: Any, container: str, shared_name: str, types: list, shapes: list,
          capacity: int, **options: Any) -> Queue:
    """The queue of that name, which must be the one that is described; or a new one."""
    dims = [s.static_dims for s in shapes]
    if any(d is None for d in dims):
        raise errors.invalid("The shapes of a queue's components must have a known rank")

    found = shared(ctx, node, container, shared_name, Queue,
                   lambda name: kind(name, types, dims, capacity, container, **options))
    if type(found) is not kind:
        raise errors.invalid(f"Shared queue '{found.name}' has type '{found.kind}' that does not match type of Node "
                             f"'{node.name}': {node.type}")
    found.check_same(capacity, types, dims, **options)
    return found


def _plain(kind: type[Queue]) -> Any:
    def kernel(*, component_types, shapes, capacity, container, shared_name, ctx, node):
        return _find(kind, ctx, node, container, shared_name, component_types, shapes, capacity)
    return kernel


def _shuffled(*, component_types, shapes, capacity, min_after_dequeue, seed, seed2, container, shared_name, ctx, node):
    return _find(RandomShuffleQueue, ctx, node, container, shared_name, component_types, shapes, capacity,
                 min_after_dequeue=min_after_dequeue, seed=seed, seed2=seed2)


fifo = _maker("FIFOQueue", _TYPES, _plain(FIFOQueue))
padding_fifo = _maker("PaddingFIFOQueue", _TYPES, _plain(PaddingFIFOQueue))
priority = _maker("PriorityQueue", "component_types: list(type) >= 0 = [], shapes: list(shape) >= 0, capacity: int = -1",
                  _plain(PriorityQueue))
random_shuffle = _maker("RandomShuffleQueue",
                        f"{_TYPES}, min_after_dequeue: int = 0, seed: int = 0, seed2: int = 0", _shuffled)

fake = op("FakeQueue", "resource: resource -> handle: Ref(string)", stateful=True).no_gradient()
fake.shape(lambda resource: (2,))
fake.kernel(lambda resource: queue_of(resource))


def queue_of(handle: Any) -> Queue:
    """The queue of a handle, which may have been stacked and selected."""
    if isinstance(handle, np.ndarray) and handle.ndim == 0:
        handle = handle[()]
    if not isinstance(handle, Queue):
        raise errors.invalid(f"a queue was expected, got {type(handle).__name__}")
    return handle


# -- using queues -----------------------------------------------------------------------------------------------------
def _user(name: str, args: str, attrs: str = "", blocking: bool = False) -> tuple[OpDef, OpDef]:
    """Declares an op on queues: with a reference, and with a resource handle."""
    old = op(name, args.replace("resource", "Ref(string)"), attrs, foldable=False, blocking=blocking, gpu=False).no_gradient()
    new = op(name + "V2", args, attrs, stateful=True, blocking=blocking, gpu=False).no_gradient()
    return old, new


_IN = "Tcomponents: list(type) >= 1, timeout_ms: int = -1"
_OUT = "component_types: list(type) >= 1, timeout_ms: int = -1"
enqueue = _user("QueueEnqueue", "handle: resource, components: Tcomponents ->", _IN, blocking=True)
enqueue_many = _user("QueueEnqueueMany", "handle: resource, components: Tcomponents ->", _IN, blocking=True)
dequeue = _user("QueueDequeue", "handle: resource -> components: component_types", _OUT, blocking=True)
dequeue_many = _user("QueueDequeueMany", "handle: resource, n: int32 -> components: component_types", _OUT, blocking=True)
dequeue_up_to = _user("QueueDequeueUpTo", "handle: resource, n: int32 -> components: component_types", _OUT, blocking=True)
rules.arriving.takes |= {*dequeue, *dequeue_many, *dequeue_up_to}
close = _user("QueueClose", "handle: resource ->", "cancel_pending_enqueues: bool = False", blocking=True)
size = _user("QueueSize", "handle: resource -> size: int32")
is_closed = _user("QueueIsClosed", "handle: resource -> is_closed: bool")


def _no_timeout(timeout_ms: int) -> None:
    if timeout_ms != -1:
        raise errors.invalid("Timeout not supported yet: use RunOptions.timeout_in_ms.")


def _dequeued(handle: Any, component_types: list) -> Queue:
    queue = queue_of(handle)
    if component_types != queue.types:
        raise errors.invalid(f"Signature mismatch: queue '{queue.name}' has component types "
                             f"{[t.name for t in queue.types]}, expected {[t.name for t in component_types]}")
    return queue


def _count(n: torch.Tensor) -> int:
    if n.numel() != 1:
        raise errors.invalid(f"the number of elements to dequeue must be a scalar, got shape {list(n.shape)}")
    if int(n) < 0:
        raise errors.invalid(f"DequeueManyOp requested {int(n)} < 0 elements")
    return int(n)


def _enqueue(handle, components, *, timeout_ms, ctx):
    _no_timeout(timeout_ms)
    queue_of(handle).enqueue(tuple(components), ctx)


def _enqueue_many(handle, components, *, timeout_ms, ctx):
    _no_timeout(timeout_ms)
    queue_of(handle).enqueue_many(components, ctx)


def _dequeue(handle, *, component_types, timeout_ms, ctx):
    _no_timeout(timeout_ms)
    return list(_dequeued(handle, component_types).dequeue(ctx))


def _dequeue_many(handle, n, *, component_types, timeout_ms, ctx):
    _no_timeout(timeout_ms)
    return _dequeued(handle, component_types).dequeue_many(_count(n), ctx)


def _dequeue_up_to(handle, n, *, component_types, timeout_ms, ctx):
    _no_timeout(timeout_ms)
    return _dequeued(handle, component_types).dequeue_many(_count(n), ctx, fewer=True)


def _close(handle, *, cancel_pending_enqueues, ctx):
    queue_of(handle).close(cancel_pending_enqueues, ctx)


for _ops, _kernel in ((enqueue, _enqueue), (enqueue_many, _enqueue_many), (dequeue, _dequeue),
                      (dequeue_many, _dequeue_many), (dequeue_up_to, _dequeue_up_to), (close, _close),
                      (size, lambda handle: torch.tensor(queue_of(handle).size(), dtype=torch.int32)),
                      (is_closed, lambda handle: torch.tensor(queue_of(handle).closed))):
    for _op in _ops:
        _op.kernel(_kernel)
for _op in (*size, *is_closed):
    _op.shape(lambda handle: ())
