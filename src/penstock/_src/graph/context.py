"""The mode of a thread: building a graph (and which), or executing eagerly.

The stack of default graphs is per thread. With an empty stack, a thread executes eagerly when eager
execution is on (the default), and otherwise builds the process-wide default graph.
"""
from __future__ import annotations

import contextlib
import inspect
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from penstock._src.base.api import export
from penstock._src.base.modes import process as process
from penstock._src.base.static_shape import disable_v2_tensorshape, enable_v2_tensorshape

if TYPE_CHECKING:
    from penstock._src.graph.graph import Graph

G = TypeVar("G", bound="Graph | None")


class _ThreadState(threading.local):
    def __init__(self) -> None:
        self.graphs: list[Any] = []     # the stack; None represents "eager here"
        self.sessions: list[Any] = []   # the default sessions, innermost last
        self.left: list[Any] = []       # graphs whose inner entry was removed with the block around it
        self.tapes: tuple = ()          # active gradient tapes, outermost first
        self.device: Any = None         # eager device scope
        self.scope_name: str = ""       # eager name scope
        self.watching = False           # inside process.watch
        self.autograph: Any = None      # rewrites functions before they are traced; None: no rewriting
        self.exporting = False          # while a SavedModel is written, a distributed variable is exported as one copy
        self.exports_copies = False     # whether one with several copies is part of it
        self.strategies: tuple = ()     # tf.distribute: the strategies and replicas entered, outermost first
        self.learning_phase: int | None = None      # Keras: the one of the innermost scope


state = _ThreadState()

# What to do with an input of an eager op on another device: raise, warn and copy, or copy.
EXPLICIT, WARN, SILENT, SILENT_FOR_INT32 = range(4)


def executing_eagerly() -> bool:
    """Whether an op called now executes eagerly."""
    stack = state.graphs
    return stack[-1] is None if stack else process.eager


@export(v1=["executing_eagerly_outside_functions"])
def eager_outside_functions() -> bool:
    """Whether ops execute eagerly, disregarding the functions that are being traced."""
    for graph in reversed(state.graphs):
        if graph is None or not graph.building_function:
            return graph is None
    return process.eager


@export("inside_function")
def inside_function() -> bool:
    """Whether a tf.function is being traced.

    >>> tf.function(tf.inside_function)()
    True
    """
    graph = state.graphs[-1] if state.graphs else None
    return graph is not None and bool(graph.building_function)


@export("executing_eagerly")
def public_executing_eagerly() -> bool:
    """Whether the current thread executes operations eagerly.

    Returns:
        A boolean.

    >>> tf.executing_eagerly()
    True
    """
    return executing_eagerly()


@export(v1=["get_default_session"])
def get_default_session() -> Any:
    """The innermost session of this thread that is the default one, or None.

    Returns:
        A session, or None.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     print(tf.get_default_session() is sess)
    True
    """
    return state.sessions[-1] if state.sessions else None


def current_graph() -> Graph:
    """The graph that ops are added to: the innermost, else the process-wide default."""
    for g in reversed(state.graphs):
        if g is not None:
            return g
    return default_graph()


def creating_graph() -> Graph:
    """The graph whose creators make variables: the current one, or that around Keras' own, which outlives their scopes."""
    for g in reversed(state.graphs):
        if g is not None and not g.symbolic:
            return g
    return default_graph()


def default_graph() -> Graph:
    """The process-wide default graph."""
    if process.default_graph is None:
        from penstock._src.graph.graph import Graph
        process.default_graph = Graph()
    return process.default_graph


@contextlib.contextmanager
def device(name: str | None) -> Iterator[None]:
    """Makes `name` the device of eager ops for a block."""
    old = state.device
    state.device = name
    try:
        yield
    finally:
        if state.device is not name:
            raise RuntimeError("Exiting device scope without proper scope nesting.")
        state.device = old


@contextlib.contextmanager
def enter(graph: G) -> Iterator[G]:
    """Makes `graph` (None: eager execution) the default of this thread for a block.

    If the same graph was entered again inside and is left later, a block that was entered from eager execution returns to it.
    """
    stack, from_eager = state.graphs, executing_eagerly()
    depth = len(stack)
    stack.append(graph)
    try:
        yield graph
    finally:
        if state.left and not from_eager and any(g is graph for g in state.left):
            state.left.remove(graph)
        elif not stack or stack[-1] is not graph:
            raise AssertionError(
                "Nesting violated for default stack of <class 'penstock.Graph'> objects")
        else:
            stack.pop()
            if from_eager and len(stack) > depth:
                state.left += stack[depth:]
                del stack[depth:]


@contextlib.contextmanager
def exporting(copies: bool) -> Iterator[None]:
    """A block in which a SavedModel is written; `copies`: of variables of which some have several copies."""
    old = state.exporting, state.exports_copies
    state.exporting, state.exports_copies = True, copies
    try:
        yield
    finally:
        state.exporting, state.exports_copies = old


@contextlib.contextmanager
def autograph(rewrite: Callable[[Any], Any] | None) -> Iterator[None]:
    """Sets the rewriter of functions traced in a block (eager/autograph/convert.py); None for no rewriting."""
    old, state.autograph = state.autograph, rewrite
    try:
        yield
    finally:
        state.autograph = old


def traced_as(f: Any) -> Any:
    """The function to trace in place of the given one: rewritten where AutoGraph is on."""
    return f if state.autograph is None else state.autograph(f)


@export(v1=["enable_eager_execution"])
def enable_eager_execution(config: Any = None, device_policy: Any = None, execution_mode: Any = None) -> None:
    """Turns on eager execution outside graphs. Call it at program start.

    Args:
        config: ConfigProto of the session that is not needed anymore; its devices and threads are used.
        device_policy: Whether inputs on other devices are copied silently, with a warning, or refused.
        execution_mode: `tf.SYNC` or `tf.ASYNC`.

    Returns:
        None.

    Raises:
        ValueError: if a graph has been started already.

    >>> tf.compat.v1.enable_eager_execution()
    >>> tf.executing_eagerly()
    True
    """
    if config is not None and not hasattr(config, "device_count"):
        raise TypeError(f"config must be a tf.ConfigProto, but got {type(config)}")
    g = process.default_graph
    if not process.eager and g is not None and g.get_operations():
        raise ValueError("tf.enable_eager_execution must be called at program startup.")
    if device_policy not in (None, EXPLICIT, WARN, SILENT, SILENT_FOR_INT32):
        raise ValueError("device_policy must be one of None, tf.contrib.eager.DEVICE_PLACEMENT_*")
    process.device_policy = SILENT if device_policy is None else device_policy
    process.eager = True


@export(v1=["disable_eager_execution"])
def disable_eager_execution() -> None:
    """Builds graphs by default, as TensorFlow 1 does."""
    process.eager = False


@export(v1=["disable_v2_behavior"])
def disable_v2_behavior() -> None:
    """Switches the process to TensorFlow 1 behaviour: graphs, reference variables, Dimension objects.

    >>> tf.disable_v2_behavior()
    >>> tf.executing_eagerly()
    False
    """
    process.eager = False
    process.v2_control_flow = process.resource_variables = process.tensor_equality = False
    disable_v2_tensorshape()


@export(v1=["enable_v2_behavior"])
def enable_v2_behavior() -> None:
    """Switches the process to TensorFlow 2 behaviour."""
    process.eager = process.v2_control_flow = process.resource_variables = process.tensor_equality = True
    enable_v2_tensorshape()


def _switch(field: str, value: bool, doc: str) -> Any:
    def switch() -> None:
        setattr(process, field, value)
    switch.__doc__ = inspect.cleandoc(doc)
    return switch


export.value(_switch("v2_control_flow", True, "Builds cond and while_loop as functional ops."),
             v1=["enable_control_flow_v2"])
export.value(_switch("v2_control_flow", False, "Builds cond and while_loop as Switch and Merge."),
             v1=["disable_control_flow_v2"])
export.value(_switch("resource_variables", True, """Makes tf.Variable a resource variable by default.

    >>> tf.enable_resource_variables()
    >>> tf.resource_variables_enabled()
    True
    """),
             v1=["enable_resource_variables"])
export.value(_switch("resource_variables", False, """Makes tf.Variable a reference variable by default.

    >>> tf.disable_resource_variables()
    >>> tf.resource_variables_enabled()
    False
    """),
             v1=["disable_resource_variables"])
export.value(_switch("tensor_equality", True, "Makes == on tensors compare elementwise."),
             v1=["enable_tensor_equality"])
export.value(_switch("tensor_equality", False, "Makes == on tensors compare identity."),
             v1=["disable_tensor_equality"])


@export(v1=["experimental.output_all_intermediates"])
def output_all_intermediates(state: bool | None) -> None:
    """Says whether conditions and loops output what their gradients need: always, never, or as TensorFlow chooses (None).

    Nothing depends on it here: they are extended by those outputs when a gradient is first requested.
    """
    if state not in (None, True, False):
        raise ValueError(f"state must be True, False or None, not {state!r}")


@export(v1=["control_flow_v2_enabled"])
def control_flow_v2_enabled() -> bool:
    """Whether cond and while_loop are built as functional ops."""
    return process.v2_control_flow


@export(v1=["resource_variables_enabled"])
def resource_variables_enabled() -> bool:
    """Whether tf.Variable makes resource variables by default."""
    return process.resource_variables
