"""Queues as Python objects: `tf.queue.FIFOQueue`, `RandomShuffleQueue`, `PaddingFIFOQueue`, `PriorityQueue`."""
from __future__ import annotations

import functools
import hashlib
from typing import Any

from penstock._src.base import dtypes as types_of
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph import context
from penstock._src.graph.constant import constant_value
from penstock._src.graph.convert import convert
from penstock._src.graph.random_seed import get_seed
from penstock._src.graph.scopes import device, name_scope
from penstock._src.ops.registry import get
from penstock._src.ops.state import queue as ops


def type_list(dtypes: Any) -> list:
    """One type or several, as a list."""
    return [types_of.as_dtype(d) for d in (dtypes if isinstance(dtypes, (list, tuple)) else [dtypes])]


def shape_list(shapes: Any, partial: bool = False) -> list[TensorShape] | None:
    """One shape or several, as a list; fully known, unless `partial`."""
    if partial and (not isinstance(shapes, (list, tuple)) or not shapes or any(
            s is None or isinstance(s, int) for s in shapes)):
        raise ValueError("When providing partial shapes, a list of shapes must be provided.")
    if shapes is None:
        return None
    if isinstance(shapes, TensorShape):
        shapes = [shapes]
    if not isinstance(shapes, (list, tuple)):
        raise TypeError("shapes must be a TensorShape or a list or tuple of TensorShapes.")
    if all(s is None or isinstance(s, int) for s in shapes):
        shapes = [shapes]
    out = [TensorShape(s) for s in shapes]
    if not partial and not all(s.is_fully_defined() for s in out):
        raise ValueError(f"All shapes must be fully defined: {out}")
    if any(s.rank is None for s in out):
        raise ValueError(f"All shapes must have a defined rank: {out}")
    return out


def name_list(names: Any, count: int) -> list[str] | None:
    """One name or several, as a list."""
    if names is None:
        return None
    names = list(names) if isinstance(names, (list, tuple)) else [names]
    if len(names) != count:
        raise ValueError("There must be as many names as dtypes")
    return names


def _shared(shared_name: str | None) -> str:
    """Eager queues belong to their Python object alone."""
    return "" if context.executing_eagerly() or shared_name is None else shared_name


def _common(a: TensorShape, b: TensorShape) -> TensorShape:
    """What two shapes agree on."""
    if a.rank is None or a.rank != b.rank:
        return TensorShape(None)
    return TensorShape([x if x == y else None for x, y in zip(a.as_list(), b.as_list(), strict=True)])


@export("queue.QueueBase", v1=["io.QueueBase", "QueueBase"])
class QueueBase:
    """The base of queues. A queue's elements are tuples of tensors of fixed types, and maybe fixed shapes.

    With `names` for the components, elements are dictionaries instead.
    """

    def __init__(self, dtypes: Any, shapes: Any, names: Any, queue_ref: Any):
        self._dtypes = dtypes
        if shapes is not None and len(shapes) != len(dtypes):
            raise ValueError("A queue needs as many shapes as dtypes")
        self._shapes = [TensorShape(s) for s in shapes] if shapes is not None else [TensorShape(None)] * len(dtypes)
        if names is not None and len(names) != len(dtypes):
            raise ValueError("A queue needs as many names as dtypes")
        self._names, self._queue_ref = names, queue_ref
        self._eager = context.executing_eagerly()
        self._name = (context.state.scope_name or "Empty") if self._eager else queue_ref.op.name.rsplit("/", 1)[-1]

    @property
    def name(self) -> str:
        """The name of the op that created the queue."""
        return self._name if self._eager else self._queue_ref.op.name

    queue_ref = property(lambda self: self._queue_ref, doc="The handle.")
    dtypes = property(lambda self: self._dtypes, doc="The types of the components.")
    shapes = property(lambda self: self._shapes, doc="The shapes of the components.")
    names = property(lambda self: self._names, doc="The names of the components, or None.")

    @staticmethod
    def from_list(index: Any, queues: Any) -> QueueBase:
        """The queue `queues[index]`, for an index that is known only at run time.

        >>> q = tf.queue.QueueBase.from_list(which, [q1, q2])
        """
        if not queues or not isinstance(queues, list) or not all(isinstance(q, QueueBase) for q in queues):
            raise TypeError("A list of queues expected")
        first = queues[0]
        if not all(q.dtypes == first.dtypes for q in queues):
            raise TypeError("The queues have components of different dtypes.")
        if not all(q.names == first.names for q in queues):
            raise TypeError("The queues have components of different names.")
        shapes = [functools.reduce(_common, s) for s in zip(*(q.shapes for q in queues), strict=True)]
        handles = get("Pack")([q.queue_ref for q in queues], name="stack")
        return QueueBase(first.dtypes, shapes, first.names, get("GatherV2")(handles, index, 0))

    def _op(self, pair: tuple) -> Any:
        """The op for this kind of handle."""
        return pair[1] if self._queue_ref.dtype == types_of.resource else pair[0]

    # -- in ---------------------------------------------------------------------------------------------------------
    def _components(self, vals: Any) -> list:
        if isinstance(vals, dict):
            if not self._names:
                raise ValueError("Queue must have names to enqueue a dictionary")
            if sorted(self._names, key=str) != sorted(vals, key=str):
                raise ValueError("Keys in dictionary to enqueue do not match names of Queue.  Dictionary: "
                                 f"({sorted(vals, key=str)}), Queue: ({sorted(self._names, key=str)})")
            vals = [vals[n] for n in self._names]
        elif self._names:
            raise ValueError("You must enqueue a dictionary in a Queue with names")
        elif not isinstance(vals, (list, tuple)):
            vals = [vals]
        if len(vals) != len(self._dtypes):
            raise ValueError(f"Unexpected number of components: {len(vals)}; the queue has {len(self._dtypes)}")
        return [convert(v, d, f"component_{i}") for i, (v, d) in enumerate(zip(vals, self._dtypes, strict=True))]

    def enqueue(self, vals: Any, name: str | None = None) -> Any:
        """An op that adds one element, waiting while the queue is full; CancelledError when it is closed."""
        with name_scope(name, f"{self._name}_enqueue") as scope:
            made = self._components(vals)
            for v, shape in zip(made, self._shapes, strict=True):
                v.shape.assert_is_compatible_with(shape)
            return self._op(ops.enqueue)(self._queue_ref, made, name=scope or None)

    def enqueue_many(self, vals: Any, name: str | None = None) -> Any:
        """An op that adds the slices of its components along their first dimension as elements."""
        with name_scope(name, f"{self._name}_EnqueueMany") as scope:
            made = self._components(vals)
            batch = TensorShape([None])
            for v, shape in zip(made, self._shapes, strict=True):
                known = v.shape.with_rank_at_least(1)
                batch = batch.merge_with(known[:1])
                known[1:].assert_is_compatible_with(shape)
            return self._op(ops.enqueue_many)(self._queue_ref, made, name=scope or None)

    # -- out --------------------------------------------------------------------------------------------------------
    def _result(self, tensors: list, shapes: list) -> Any:
        if not context.executing_eagerly():
            for t, shape in zip(tensors, shapes, strict=True):
                t.set_shape(shape)
        if self._names:
            return dict(zip(self._names, tensors, strict=True))
        return tensors[0] if len(tensors) == 1 else tensors

    def dequeue(self, name: str | None = None) -> Any:
        """One element, waiting for it; OutOfRangeError when the queue is closed and empty."""
        made = self._op(ops.dequeue)(self._queue_ref, component_types=self._dtypes, name=name or f"{self._name}_Dequeue")
        return self._result(made, self._shapes)

    def dequeue_many(self, n: Any, name: str | None = None) -> Any:
        """n elements, stacked; OutOfRangeError when the queue is closed and has fewer."""
        made = self._op(ops.dequeue_many)(self._queue_ref, n, component_types=self._dtypes,
                                          name=name or f"{self._name}_DequeueMany")
        known = None if context.executing_eagerly() else constant_value(made[0].op.inputs[1])
        batch = TensorShape([None if known is None else int(known)])
        return self._result(made, [batch.concatenate(s) for s in self._shapes])

    def dequeue_up_to(self, n: Any, name: str | None = None) -> Any:
        """n elements, stacked; fewer if the queue is closed."""
        made = self._op(ops.dequeue_up_to)(self._queue_ref, n, component_types=self._dtypes,
                                           name=name or f"{self._name}_DequeueUpTo")
        return self._result(made, [TensorShape([None]).concatenate(s) for s in self._shapes])

    # -- the rest ---------------------------------------------------------------------------------------------------
    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> Any:
        """An op that closes the queue: after the pending enqueues, or cancelling them."""
        return self._op(ops.close)(self._queue_ref, cancel_pending_enqueues=cancel_pending_enqueues,
                                   name=name or f"{self._name}_Close")

    def is_closed(self, name: str | None = None) -> Any:
        """Whether the queue is closed."""
        return self._op(ops.is_closed)(self._queue_ref, name=name or f"{self._name}_Is_Closed")

    def size(self, name: str | None = None) -> Any:
        """The number of elements."""
        return self._op(ops.size)(self._queue_ref, name=name or f"{self._name}_Size")


@export("queue.FIFOQueue", v1=["FIFOQueue"])
class FIFOQueue(QueueBase):
    """A queue that returns its elements in the order of insertion.

    Args:
        capacity: The largest number of elements in the queue.
        dtypes: Type of each component.
        shapes: Static shapes of the components, if they are known.
        names: Names of the components; elements are then dictionaries.
        shared_name: Name under which other sessions of the same cluster find the resource.
        name: Name of the queue.

    >>> with tf.Graph().as_default(), tf.compat.v1.Session() as sess:
    ...     queue = tf.queue.FIFOQueue(10, tf.float32)
    ...     x = queue.dequeue()
    ...     sess.run(queue.enqueue_many([[1., 2.]]))
    ...     print(sess.run(x), sess.run(x))
    1.0 2.0
    """

    def __init__(self, capacity: int, dtypes: Any, shapes: Any = None, names: Any = None, shared_name: str | None = None,
                 name: str = "fifo_queue"):
        types, known = type_list(dtypes), shape_list(shapes)
        named = name_list(names, len(types))
        with device("CPU"):
            ref = ops.fifo(component_types=types, shapes=known or [], capacity=capacity, shared_name=_shared(shared_name),
                           name=name)
        super().__init__(types, known, named, ref)


@export("queue.PaddingFIFOQueue", v1=["io.PaddingFIFOQueue", "PaddingFIFOQueue"])
class PaddingFIFOQueue(QueueBase):
    """A FIFO queue with components of variable size; dequeue_many pads them with zeros.

    >>> q = tf.queue.PaddingFIFOQueue(10, tf.int32, shapes=[[None]])
    """

    def __init__(self, capacity: int, dtypes: Any, shapes: Any, names: Any = None, shared_name: str | None = None,
                 name: str = "padding_fifo_queue"):
        types, known = type_list(dtypes), shape_list(shapes, partial=True)
        named = name_list(names, len(types))
        if len(types) != len(known or ()):
            raise ValueError("Shapes must be provided for all components, but received "
                             f"{len(types)} dtypes and {len(known or ())} shapes.")
        ref = ops.padding_fifo(component_types=types, shapes=known, capacity=capacity, shared_name=_shared(shared_name),
                               name=name)
        super().__init__(types, known, named, ref)


@export("queue.RandomShuffleQueue", v1=["io.RandomShuffleQueue", "RandomShuffleQueue"])
class RandomShuffleQueue(QueueBase):
    """A queue that returns its elements in random order; while it is open, `min_after_dequeue` elements stay in it.

    >>> q = tf.queue.RandomShuffleQueue(1000, min_after_dequeue=500, dtypes=tf.string)
    """

    def __init__(self, capacity: int, min_after_dequeue: int, dtypes: Any, shapes: Any = None, names: Any = None,
                 seed: int | None = None, shared_name: str | None = None, name: str = "random_shuffle_queue"):
        types, known = type_list(dtypes), shape_list(shapes)
        named = name_list(names, len(types))
        seed1, seed2 = get_seed(seed)
        if seed1 is None and seed2 is None:
            seed1 = seed2 = 0
        elif seed is None and shared_name is not None:    # all users of the queue must pass the same seeds
            seed2 = int(hashlib.md5(f"{seed1}{shared_name}".encode()).hexdigest()[:8], 16) & 0x7FFFFFFF
        ref = ops.random_shuffle(component_types=types, shapes=known or [], capacity=capacity,
                                 min_after_dequeue=min_after_dequeue, seed=seed1, seed2=seed2,
                                 shared_name=_shared(shared_name), name=name)
        super().__init__(types, known, named, ref)


@export("queue.PriorityQueue", v1=["io.PriorityQueue", "PriorityQueue"])
class PriorityQueue(QueueBase):
    """A queue that returns the element of least priority first. Elements begin with their priority, an int64 scalar.

    >>> q = tf.queue.PriorityQueue(10, tf.string, shapes=[()])
    >>> q.enqueue([np.int64(2), "later"]); q.enqueue([np.int64(1), "sooner"])
    """

    def __init__(self, capacity: int, types: Any, shapes: Any = None, names: Any = None, shared_name: str | None = None,
                 name: str = "priority_queue"):
        types, known = type_list(types), shape_list(shapes)
        ref = ops.priority(component_types=types, shapes=known or [], capacity=capacity, shared_name=_shared(shared_name),
                           name=name)
        types = [types_of.int64, *types]
        super().__init__(types, [TensorShape([]), *known] if known else None, name_list(names, len(types)), ref)
