"""tf.CriticalSection: parts of graphs that run one at a time, and the mutex ops below it.

A mutex is a resource of the session. MutexLock waits for it, first come first served, and returns a token; dropping or
consuming the token unlocks the mutex. A step that fails returns its tokens when it ends.
"""
from __future__ import annotations

import collections
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from penstock._src.base import dtypes, errors, nest
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.node import Operation, Tensor
from penstock._src.graph.scopes import colocate_with, control_dependencies, init_scope, name_scope
from penstock._src.ops.core import group
from penstock._src.ops.registry import get, op

CRITICAL_SECTIONS = "critical_sections"
CRITICAL_SECTION_EXECUTIONS = "critical_section_executions"

mutex = op("MutexV2", "-> resource: resource", "container: string = '', shared_name: string = ''", stateful=True,
           per_session=True).no_gradient()
mutex.shape(lambda: ())
mutex_lock = op("MutexLock", "mutex: resource -> mutex_lock: variant", stateful=True, blocking=True).no_gradient()
mutex_lock.shape(lambda mutex: ())
consume_mutex_lock = op("ConsumeMutexLock", "mutex_lock: variant ->", stateful=True).no_gradient()
consume_mutex_lock.shape(lambda mutex_lock: [])


class Mutex:
    """A lock with a queue of waiters."""

    def __init__(self, name: str):
        self.name = name
        self._changed = threading.Condition()
        self._waiting: collections.deque[object] = collections.deque()
        self._held = False

    def acquire(self, ctx: Any) -> Lock:
        """Waits for its turn; ends with the step's cancellation or deadline."""
        ticket = object()
        with self._changed:
            self._waiting.append(ticket)
            try:
                ctx.wait(self._changed, lambda: not self._held and self._waiting[0] is ticket,
                         lambda: f"critical section {self.name!r}, which another call is in")
                self._held = True
            finally:
                self._waiting.remove(ticket)
                self._changed.notify_all()
        return Lock(self)

    def release(self) -> None:
        """Admits the next waiter."""
        with self._changed:
            self._held = False
            self._changed.notify_all()


class Lock:
    """Holds a mutex until it is released or dropped."""

    __slots__ = ("_mutex",)

    def __init__(self, mutex: Mutex):
        self._mutex: Mutex | None = mutex

    def release(self) -> None:
        """Unlocks the mutex; does nothing if it is unlocked."""
        held, self._mutex = self._mutex, None
        if held is not None:
            held.release()

    __del__ = release


@mutex.kernel
def _mutex_kernel(*, container, shared_name, ctx, node):
    name = shared_name or node.name
    if node.graph is None and not shared_name:               # eager, and private
        return Mutex(name)
    return ctx.resources.get_or_create(container, name, Mutex, lambda: Mutex(name))


@mutex_lock.kernel
def _mutex_lock_kernel(mutex, *, ctx):
    if not isinstance(mutex, Mutex):
        raise errors.invalid(f"a mutex was expected, got {type(mutex).__name__}")
    lock = mutex.acquire(ctx)
    if ctx.session is not None:
        ctx.at_end[id(lock)] = lock.release
    return lock


@consume_mutex_lock.kernel
def _consume_mutex_lock_kernel(mutex_lock, *, ctx):
    if not isinstance(mutex_lock, Lock):
        raise errors.invalid(f"the lock of a mutex was expected, got {type(mutex_lock).__name__}")
    ctx.at_end.pop(id(mutex_lock), None)
    mutex_lock.release()


class _Execution(NamedTuple):
    """The record of an execution: its lock and its resources."""

    op: Operation
    handle: Tensor
    resources: list[Tensor]
    exclusive_resource_access: bool


def _same(x: Any) -> Any:
    """The value again, as a new element of the graph."""
    if isinstance(x, Operation):
        return group(x)
    if x is None:
        return None
    return x.identity() if getattr(x, "_is_tensor_array", False) else get("Identity")(x)


@export("CriticalSection")
class CriticalSection:
    """Runs functions one at a time, in all steps of all threads of a session.

    >>> section = tf.CriticalSection()
    >>> def count():
    ...     before = v.read_value()
    ...     with tf.control_dependencies([before]), tf.control_dependencies([v.assign_add(1)]):
    ...         return tf.identity(before)
    >>> first, second = section.execute(count), section.execute(count)
    """

    def __init__(self, name: str | None = None, shared_name: str | None = None, critical_section_def: Any = None,
                 import_scope: str | None = None):
        if critical_section_def is not None:
            raise NotImplementedError("A CriticalSection cannot be created from a message: create it by name.")
        with name_scope(name, "CriticalSection", []) as scope, init_scope():
            container = "" if context.executing_eagerly() else context.current_graph()._stacks.container or ""
            self._handle = mutex(shared_name=scope if shared_name is None else shared_name, container=container, name=scope)
        if not context.executing_eagerly():
            context.current_graph().add_to_collection(CRITICAL_SECTIONS, self)

    @property
    def name(self) -> str:
        """The name of the mutex."""
        return self._handle.op.name

    def execute(self, fn: Callable, exclusive_resource_access: bool = True, name: str | None = None) -> Any:
        """Runs `fn()` exclusively, and returns its result.

        With `exclusive_resource_access`, ValueError if another section uses the same resources.
        """
        with name_scope(name, "critical_section_execute", []):
            lock = mutex_lock(self._handle)
            if context.executing_eagerly():
                try:
                    return nest.map_structure(_same, fn(), expand_composites=True)
                finally:
                    consume_mutex_lock(lock)
            graph = context.current_graph()
            first = len(graph._ops)
            with control_dependencies([lock]):
                result = fn()
            made = graph._ops[first:]
            _lock_after_arguments(made, lock.op)
            self._note(made, lock.op, exclusive_resource_access)
            return self._unlocked(lock, result)

    def _unlocked(self, lock: Tensor, result: Any) -> Any:
        """The results, with a control dependency on the release of the lock."""
        with control_dependencies([_same(x) for x in nest.flatten(result)]):
            with colocate_with(self._in_graph(lock.op)):
                consumed = consume_mutex_lock(lock)
        with control_dependencies([consumed]):
            return nest.map_structure(_same, result)

    def _in_graph(self, lock: Operation) -> Tensor:
        """The handle; in functions that are traced eagerly, its capture."""
        return lock.inputs[0] if hasattr(self._handle, "_value") else self._handle

    def _note(self, made: list[Operation], lock: Operation, exclusive: bool) -> None:
        """Refuses executions that would deadlock, and resources of other sections; records the execution."""
        resources = list({id(t): t for o in made for t in o.inputs if t.dtype == dtypes.resource}.values())
        mine = self._in_graph(lock)
        if any(_same_mutex(t, mine) for t in resources):
            raise ValueError(f"Attempting to lock a CriticalSection {self.name!r} in which we are already running. "
                             "This would deadlock.")
        graph = context.current_graph()
        for other in graph.get_collection(CRITICAL_SECTION_EXECUTIONS):
            if _same_mutex(other.handle, mine) or not (exclusive or other.exclusive_resource_access):
                continue
            shared = [t for t in resources if any(t is u for u in other.resources)]
            if shared:
                raise ValueError(f"This execution would access resources: {shared}.  Either this lock (CriticalSection: "
                                 f"{mine}) or lock '{other}' (CriticalSection: {other.handle}) requested exclusive "
                                 "resource access of this resource.  Did you mean to call execute with keyword argument "
                                 "exclusive_resource_access=False?")
        graph.add_to_collection(CRITICAL_SECTION_EXECUTIONS, _Execution(lock, mine, resources, exclusive))


def _same_mutex(a: Tensor, b: Tensor) -> bool:
    """Whether two handles are of one mutex."""
    if a is b or a.op.opdef is not mutex or b.op.opdef is not mutex:
        return a is b
    name = a.op.attrs["shared_name"]
    return bool(name) and name == b.op.attrs["shared_name"] and a.op.device == b.op.device


def _lock_after_arguments(made: list[Operation], lock: Operation) -> None:
    """Computes the section's captures before it is locked: they may need the same lock."""
    inside = {*made, lock, *lock.control_inputs, *(t.op for t in lock.inputs)}
    outside = {s: None for o in made for s in (*(t.op for t in o.inputs), *o.control_inputs) if s not in inside}
    if outside:
        ready = group(*outside)
        assert ready is not None                  # in a graph
        lock._add_control_input(ready)
