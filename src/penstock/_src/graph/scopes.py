"""Scopes that apply to the ops made inside them: names, devices, control dependencies, colocation.

The functions here act on the default graph (and on the thread's state when executing eagerly); the stacks
themselves belong to the graph.
"""
from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any

from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.node import Operation, Tensor
from penstock._src.kernels.devices.device_spec import device_text as device_text
from penstock._src.kernels.devices.device_spec import merge_names

VALID_OP_NAME = re.compile(r"^[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*$")
VALID_SCOPE_NAME = re.compile(r"^[A-Za-z0-9_.\\/>-]*$")


@export(v1=["name_scope"])
class name_scope:
    """A context manager that prefixes the names of ops; returns the scope's name, ending in "/".

    Args:
        name: Name of the scope; a "/" at its end enters a scope again.
        default_name: Name if `name` is None.
        values: Tensors that must belong to the same graph.

    >>> with tf.Graph().as_default():
    ...     with tf.name_scope("layer1") as scope:
    ...         x = tf.constant(1., name="x")
    >>> x.name, scope
    ('layer1/x:0', 'layer1/')
    """

    def __init__(self, name: Any, default_name: Any = None, values: Any = None):
        if not (default_name is None or isinstance(default_name, str)):
            raise TypeError(f"`default_name` type ({type(default_name)}) is not a string. Pass tensors as `values`.")
        self._name = default_name if name is None else name
        self._has_name, self._values = name is not None, values
        self._stack: contextlib.ExitStack | None = None

    @property
    def name(self) -> Any:
        """The requested name of the scope."""
        return self._name

    def __enter__(self) -> str:
        if context.executing_eagerly():
            return self._enter_eager()
        if self._name is None and self._values is not None:
            raise ValueError(f"At least one of name (None) and default_name ({self._name}) must be provided.")
        self._stack = contextlib.ExitStack()
        graph = graph_from(self._values) if self._values else context.current_graph()
        if graph is not context.current_graph():
            self._stack.enter_context(graph.as_default())
        try:
            return self._stack.enter_context(graph.name_scope(self._name))
        except BaseException:
            self._stack.close()
            raise

    def _enter_eager(self) -> str:
        self._stack = None
        self._old = old = context.state.scope_name
        name = self._name
        if not name:
            new = ""
        elif not isinstance(name, str):                     # an argument in the place of the name: eager ops have none
            new = old
        elif name.endswith("/"):
            new = name
        else:
            new = f"{old}{name}/"
        context.state.scope_name = new
        return new

    def __exit__(self, *exc: Any) -> None:
        if self._stack is None:
            context.state.scope_name = self._old
        else:
            self._stack.__exit__(*exc)


@export(v2=["name_scope"])
class name_scope_v2(name_scope):
    """A context manager that prefixes the names of ops (TF2 form: the name is required).

    Args:
        name: What the names of ops begin with.

    Raises:
        ValueError: if the name is not a string.

    >>> with tf.name_scope("model") as scope:
    ...     scope
    'model/'
    """

    def __init__(self, name: str):
        if not isinstance(name, str):
            raise ValueError("name for name_scope must be a string.")
        super().__init__(name)
        self._entered: list = []

    def __enter__(self) -> str:
        inner = name_scope(self._name)
        self._entered.append(inner)
        return inner.__enter__()

    def __exit__(self, *exc: Any) -> None:
        self._entered.pop().__exit__(*exc)


def graph_from(values: Any) -> Any:
    """The graph that the graph tensors among `values` belong to, or the default one."""
    current = context.current_graph()
    if getattr(current, "building_function", False):
        return current
    found: Any = None
    first: Any = None
    for v in _flatten(values):
        if not isinstance(v, (Tensor, Operation)) and not hasattr(v, "_as_graph_element"):
            continue
        g = None if hasattr(v, "_value") else getattr(v, "graph", None)
        if g is None:
            continue
        if found is not None and g is not found:
            notes = [getattr(getattr(x, "op", x), "made_note", "") for x in (v, first)]
            raise ValueError(f"{v}{notes[0]} must be from the same graph as {first}{notes[1]}.")
        if found is None:
            found, first = g, v
    return found if found is not None else current


def _flatten(values: Any) -> Iterator[Any]:
    for v in values:
        if isinstance(v, (list, tuple)):
            yield from _flatten(v)
        else:
            yield v


@export("get_current_name_scope", "__internal__.get_name_scope")
def get_current_name_scope() -> str:
    """The name of the open scope, without a "/" at its end.

    >>> with tf.name_scope("a"), tf.name_scope("b"):
    ...     print(tf.get_current_name_scope())
    a/b
    """
    name = context.state.scope_name if context.executing_eagerly() else context.current_graph().get_name_scope()
    return name.rstrip("/")


def strip_name_scope(name: str, export_scope: str | None) -> str:
    """`name` without the scope that is being exported, also in "^name" and "loc:@name"."""
    if not export_scope:
        return name
    if export_scope[-1] == "/":
        export_scope = export_scope[:-1]
    return re.sub(rf"^([\^]|loc:@|)({re.escape(export_scope)}[\/]+)?(.*)", r"\1\3", name, count=1)


def prepend_name_scope(name: str, import_scope: str | None) -> str:
    """`name` under the scope that something is imported into, also in "^name" and "loc:@name"."""
    if not import_scope:
        return name
    if import_scope[-1] == "/":
        import_scope = import_scope[:-1]
    return re.sub(r"^([\^]|loc:@|)(.*)", lambda m: f"{m[1]}{import_scope}/{m[2]}", name, count=1)


@export(v1=["op_scope"])
@contextlib.contextmanager
def op_scope(values: Any, name: Any, default_name: Any = None) -> Iterator[str]:
    """Deprecated form of name_scope: name_scope(name, default_name, values)."""
    with name_scope(name, default_name, values) as scope:
        yield scope


class _EagerDevice:
    """The device of eager ops for a block; may be entered repeatedly, and inside itself."""

    def __init__(self, name: str):
        self._name = name
        self._entered: list = []

    def __enter__(self) -> None:
        inner = context.device(merge_names(context.state.device or "", self._name) if self._name else None)
        self._entered.append(inner)
        return inner.__enter__()

    def __exit__(self, *exc: Any) -> None:
        self._entered.pop().__exit__(*exc)


@export(v1=["device"])
def device(device_name_or_function: Any) -> Any:
    """A context manager: ops made inside go to the device (text, DeviceSpec, function of the op, or None).

    Args:
        device_name_or_function: Device (`"/job:ps/task:0/GPU:1"`, parts may be left out), a `DeviceSpec`, a function from
            operation to device, or None, which clears the devices around.

    Returns:
        A context manager.

    >>> with tf.device("/cpu:0"):
    ...     v = tf.constant(3.0)
    >>> v.device
    '/job:localhost/replica:0/task:0/device:CPU:0'
    """
    if context.executing_eagerly():
        if callable(device_name_or_function):
            raise RuntimeError("tf.device does not support functions when eager execution is enabled.")
        return _EagerDevice(device_text(device_name_or_function))
    return context.current_graph().device(device_name_or_function)


@export(v2=["device"])
def device_v2(device_name: Any) -> Any:
    """A context manager: ops made inside go to the named device.

    Args:
        device_name: A name such as `"/cpu:0"` or `"/job:ps/task:1"`, or None for no constraint.

    Returns:
        A context manager.

    Raises:
        RuntimeError: for a function as name, which the 1.x API takes.

    >>> with tf.device("/cpu:0"):
    ...     x = tf.constant(1.0)
    """
    if callable(device_name):
        raise RuntimeError("tf.device does not support functions.")
    return device(device_name)


@export("control_dependencies")
def control_dependencies(control_inputs: Any) -> Any:
    """A context manager: ops made inside run after all of `control_inputs`. None clears.

    Args:
        control_inputs: Operations and tensors that must run first; None removes the dependencies of the scopes around.

    Returns:
        A context manager. In eager execution it has no effect, because ops run in program order.

    >>> with tf.Graph().as_default(), tf.compat.v1.Session() as sess:
    ...     v = tf.Variable(0)
    ...     with tf.control_dependencies([v.assign_add(1)]):
    ...         y = tf.identity(5)
    ...     sess.run(v.initializer)
    ...     print(sess.run(y), sess.run(v))
    5 1
    """
    if context.executing_eagerly():
        if callable(control_inputs):
            control_inputs()
        elif control_inputs is not None:
            for c in control_inputs:
                if callable(c) and not isinstance(c, Tensor):
                    c()
        return contextlib.nullcontext()
    return context.current_graph().control_dependencies(control_inputs)


@export(v1=["colocate_with"])
def colocate_with(op: Any, ignore_existing: bool = False) -> Any:
    """A context manager: ops made inside share the device of `op`.

    Args:
        op: Operation or tensor.
        ignore_existing: Whether to ignore the enclosing colocations.

    Returns:
        A context manager.

    >>> with tf.Graph().as_default():
    ...     with tf.device("/cpu:0"):
    ...         x = tf.constant(1.)
    ...     with tf.colocate_with(x):
    ...         y = tf.constant(2.)
    >>> y.op.colocation_groups()
    [b'loc:@Const']
    """
    if context.executing_eagerly() or hasattr(getattr(op, "handle", None), "_value"):      # an eager variable
        return contextlib.nullcontext()
    return context.current_graph().colocate_with(op, ignore_existing)


@export(v1=["container"])
def container(container_name: str) -> Any:
    """A context manager: stateful ops made inside use the named resource container."""
    return context.current_graph().container(container_name)


@export("init_scope")
@contextlib.contextmanager
def init_scope() -> Iterator[None]:
    """Lifts ops out of control flow and functions that are being built, into the outermost graph or eager mode."""
    if context.executing_eagerly():
        with tapes_paused():
            yield
        return
    graph = context.current_graph()
    scope = graph.get_name_scope()
    if scope and scope[-1] != "/":
        scope += "/"
    outer: Any = graph
    if graph.building_function:
        around = [g for g in context.state.graphs if g is None or not g.building_function]
        outer = around[-1] if around else None if context.process.eager else context.default_graph()
    with contextlib.ExitStack() as stack:
        stack.enter_context(tapes_paused())
        if outer is not graph:
            stack.enter_context(context.enter(outer))
        if outer is None:
            stack.enter_context(name_scope(scope or None))
            yield
            return
        stack.enter_context(outer.control_dependencies(None))
        stack.enter_context(outer.name_scope(scope or None))
        yield


@contextlib.contextmanager
def tapes_paused() -> Iterator[None]:
    """A block in which no tape records."""
    old, context.state.tapes = context.state.tapes, ()
    try:
        yield
    finally:
        context.state.tapes = old


@export(v1=["get_default_graph"])
def get_default_graph() -> Any:
    """The graph that ops are added to on this thread.

    Returns:
        The `tf.Graph` of the innermost `as_default` block of this thread, or the graph of the process.

    >>> with tf.Graph().as_default() as graph:
    ...     print(tf.get_default_graph() is graph)
    True
    """
    return context.current_graph()


@export(v1=["reset_default_graph"])
def reset_default_graph() -> None:
    """Starts with a new, empty default graph.

    >>> tf.reset_default_graph()
    >>> len(tf.get_default_graph().get_operations())
    0
    """
    if any(g is not None for g in context.state.graphs):
        raise AssertionError("Do not use tf.reset_default_graph() to clear nested graphs. If you need a cleared graph, "
                             "exit the nesting and create a new graph.")
    context.process.default_graph = None


@export(v1=["variable_creator_scope"], v2=["variable_creator_scope"])
@contextlib.contextmanager
def variable_creator_scope(variable_creator: Callable) -> Iterator[None]:
    """Lets `variable_creator(next_creator, **kwargs)` make (or change) the variables created inside.

    >>> def untrained(next_creator, **kwargs): return next_creator(**{**kwargs, "trainable": False})
    >>> with tf.variable_creator_scope(untrained): v = tf.Variable(1.0)
    """
    stacks = context.creating_graph()._stacks
    old = stacks.variable_creators
    mine = stacks.variable_creators = (*old, variable_creator)
    try:
        yield
    finally:
        if stacks.variable_creators is not mine:
            raise RuntimeError("Exiting variable_creator_scope without proper nesting.")
        stacks.variable_creators = old
