"""The state of Keras per graph: assigned names, the learning phase, variables to initialize, the session.

In graph mode everything belongs to the current default graph. When ops execute eagerly, symbolic tensors (`Input`) live in a
separate graph of Keras, a FuncGraph, which `get_graph` returns; models are traced from it or called again on real tensors.
"""
from __future__ import annotations

import collections
import contextlib
import threading
import weakref
from collections.abc import Iterator
from typing import Any

from penstock._src.base.api import LazyModule, export
from penstock._src.graph import context
from penstock._src.graph.func_graph import FuncGraph
from penstock._src.graph.scopes import init_scope
from penstock._src.state.checkpoint.restore import register_session_provider
from penstock.compat import v1 as tf

keras_tensor = LazyModule("penstock._src.models.keras.engine.keras_tensor")


class _State:
    """All of it; `clear_session` starts with a new one."""

    def __init__(self) -> None:
        self.graph: Any = None                                      # of symbolic tensors, when ops execute eagerly
        self.uids: Any = weakref.WeakKeyDictionary()                # graph -> prefix -> how many
        self.phases: Any = weakref.WeakKeyDictionary()              # graph -> placeholder or 0 or 1
        self.eager_phase: int | None = None
        self.variables: Any = weakref.WeakKeyDictionary()           # graph -> variables that were created in it, by id
        self.optimizers: Any = weakref.WeakKeyDictionary()          # graph -> optimizers of tf.train in use


_state = _State()
_session = threading.local()
_flags = {"manual_init": False}


@export("keras.backend.get_graph")
def get_graph() -> Any:
    """The graph of symbolic tensors: the default one, or Keras' own when ops execute eagerly."""
    return symbolic_graph() if context.executing_eagerly() else context.current_graph()


def symbolic_graph() -> Any:
    """Keras' own graph. No function is around it, also if the first symbolic tensor is made while one is traced."""
    if _state.graph is None:
        with init_scope():
            _state.graph = FuncGraph("keras_graph")
        _state.graph.symbolic, _state.graph.tensor_class = True, keras_tensor.LayerTensor
    return _state.graph


def in_keras_graph() -> bool:
    """Whether ops are being added to Keras' own graph."""
    return not context.executing_eagerly() and context.current_graph() is _state.graph


@export("keras.backend.clear_session")
def clear_session() -> None:
    """Discards the graph, the session and all assigned names, and starts with new ones.

    >>> tf.keras.backend.clear_session()
    >>> tf.keras.layers.Dense(1).name
    'dense'
    """
    global _state
    tf.reset_default_graph()
    _session.session = None
    _state = _State()


# -- names ------------------------------------------------------------------------------------------------------------
def _uids(graph: Any) -> Any:
    found = _state.uids.get(graph)
    if found is None:
        found = _state.uids[graph] = collections.defaultdict(int)
    return found


@export("keras.backend.get_uid")
def get_uid(prefix: str = "") -> int:
    """A number that counts how often a prefix was requested in this graph.

    >>> tf.keras.backend.get_uid("dense"), tf.keras.backend.get_uid("dense")
    (1, 2)
    """
    uids = _uids(get_graph())
    uids[prefix] += 1
    return uids[prefix]


@export("keras.backend.reset_uids")
def reset_uids() -> None:
    """Resets the counters of `get_uid`."""
    _state.uids.clear()


@export("keras.backend.get_default_graph_uid_map")
def get_default_graph_uid_map() -> Any:
    """The numbers that were given in the default graph, by (namespace, name)."""
    return _uids(context.current_graph())


@export("keras.backend.unique_object_name")
def unique_object_name(name: str, name_uid_map: Any = None, avoid_names: Any = None, namespace: str = "",
                       zero_based: bool = False) -> str:
    """A name for a layer that no other has in this graph: name, name_1, name_2 … (or from name_1 on)."""
    uids = get_default_graph_uid_map() if name_uid_map is None else name_uid_map
    taken = avoid_names or ()
    key = (namespace, name)
    while True:
        number = uids[key] + (0 if zero_based else 1)
        uids[key] += 1
        proposed = f"{name}_{number}" if number else name
        if proposed not in taken:
            return proposed


@contextlib.contextmanager
def separate_names() -> Iterator[None]:
    """Objects that are created inside are named as if they were the first of this graph."""
    graph, state = context.current_graph(), _state
    before = _uids(graph)
    state.uids[graph] = collections.defaultdict(int)
    try:
        yield
    finally:
        state.uids[graph] = before


# -- the learning phase -------------------------------------------------------------------------------------------------
@export("keras.backend.symbolic_learning_phase")
def symbolic_learning_phase() -> Any:
    """The learning phase as a tensor of the current graph (or the number it was set to)."""
    graph = get_graph()
    found = _state.phases.get(graph)
    if found is None:
        with graph.as_default(), tf.name_scope(""), graph.control_dependencies(None):
            found = tf.placeholder_with_default(False, shape=(), name="keras_learning_phase")
        _state.phases[graph] = found
    return found


@export("keras.backend.learning_phase")
def learning_phase() -> Any:
    """0 while predicting, 1 while training: a number when ops execute eagerly, else a tensor that training feeds."""
    if in_keras_graph():
        return symbolic_learning_phase()
    if context.eager_outside_functions():
        return (_state.eager_phase if context.state.learning_phase is None else context.state.learning_phase) or 0
    with init_scope():
        return symbolic_learning_phase()


@export("keras.backend.global_learning_phase_is_set")
def global_learning_phase_is_set() -> bool:
    """Whether the learning phase was set for eager execution."""
    return _state.eager_phase is not None or context.state.learning_phase is not None


def _checked_phase(value: Any) -> int:
    if value is None or value not in (0, 1):
        raise ValueError("The learning phase must be 0 or 1.")
    return int(value)


@export("keras.backend.set_learning_phase")
def set_learning_phase(value: int) -> None:
    """Fixes the learning phase: 0 for predicting, 1 for training.

    Args:
        value: 0 or 1.

    Raises:
        ValueError: for another value.

    >>> tf.keras.backend.set_learning_phase(1)
    >>> tf.keras.backend.learning_phase()
    1
    >>> tf.keras.backend.clear_session()
    """
    value = _checked_phase(value)
    with init_scope():
        if context.executing_eagerly() and context.state.learning_phase is None:
            _state.eager_phase = value
        elif context.executing_eagerly():                # until the end of the scope
            context.state.learning_phase = value
        _state.phases[get_graph()] = value


@export("keras.backend.learning_phase_scope")
@contextlib.contextmanager
def learning_phase_scope(value: int) -> Iterator[None]:
    """Fixes the learning phase for a block.

    >>> with tf.keras.backend.learning_phase_scope(1):
    ...     y = dropout(x)
    """
    value = _checked_phase(value)
    with init_scope():
        eager, graph = context.executing_eagerly(), get_graph()
    state, before = _state, _state.phases.get(graph)
    state.phases[graph] = value
    try:
        with eager_learning_phase_scope(value) if eager else contextlib.nullcontext():
            yield
    finally:
        if before is None:
            state.phases.pop(graph, None)
        else:
            state.phases[graph] = before


@contextlib.contextmanager
def eager_learning_phase_scope(value: int) -> Iterator[None]:
    """Fixes the learning phase of eager execution and of functions, for a block on this thread; graphs keep theirs.

    The threads of replicas enter such blocks in turns, and leave them in any order.
    """
    state = context.state
    before, state.learning_phase = state.learning_phase, _checked_phase(value)
    try:
        yield
    finally:
        state.learning_phase = before


# -- variables and the session ------------------------------------------------------------------------------------------
@export("keras.backend.manual_variable_initialization")
def manual_variable_initialization(value: bool) -> None:
    """Whether programs initialize variables themselves; else `get_session` does."""
    _flags["manual_init"] = bool(value)


@export("keras.backend.track_variable", v2=["keras.__internal__.backend.track_variable"])
def track_variable(variable: Any) -> None:
    """Registers a variable, for `get_session` to initialize."""
    if context.executing_eagerly():
        return
    graph = variable.graph if hasattr(variable, "graph") else get_graph()
    _state.variables.setdefault(graph, {})[id(variable)] = weakref.ref(variable)


@export("keras.backend.track_tf_optimizer")
def track_tf_optimizer(tf_optimizer: Any) -> None:
    """Registers an optimizer of tf.train, for `get_session` to initialize its variables."""
    if not context.executing_eagerly():
        _state.optimizers.setdefault(get_graph(), weakref.WeakSet()).add(tf_optimizer)


def _tracked(graph: Any) -> list:
    """The variables of a graph that are alive."""
    known = _state.variables.get(graph, {})
    found = [v for v in (ref() for ref in known.values()) if v is not None]
    seen = {id(v) for v in found}
    for optimizer in _state.optimizers.get(graph, ()):
        found += [v for v in optimizer.optimizer.variables() if id(v) not in seen]
    return found


@export(v2=["keras.__internal__.backend.initialize_variables"])
def initialize_variables(session: Any) -> None:
    """Initializes the variables of Keras in the graph of a session that have no value yet."""
    fresh = [v for v in _tracked(session.graph) if not getattr(v, "_keras_initialized", False)]
    if not fresh:
        return
    flags = session.run([tf.is_variable_initialized(v) for v in fresh])
    for v in fresh:
        v._keras_initialized = True
    missing = [v for v, ready in zip(fresh, flags, strict=True) if not ready]
    own = session.graph.caches.get("own variables")
    missing = missing if own is None else own(session, missing)       # other tasks initialize the rest: they are waited for
    if missing:
        session.run(tf.variables_initializer(missing))


def _graph_of(op_input_list: Any) -> Any:
    for x in op_input_list:
        graph = None if hasattr(x, "_value") else getattr(x, "graph", None)
        if graph is not None:
            return graph
    return context.current_graph()


def _get_session(op_input_list: Any = ()) -> Any:
    session = tf.get_default_session()
    if session is not None:
        return session
    graph = _graph_of(op_input_list)
    if graph.building_function:
        raise RuntimeError("There is no session while a function is traced.")
    session = getattr(_session, "session", None)
    if session is None or session.graph is not graph:
        session = _session.session = graph.caches.get("new session", tf.Session)(graph=graph, config=_default_config())
    return session


def _default_config() -> Any:
    return tf.ConfigProto(allow_soft_placement=True)


@export(v1=["keras.backend.get_session"])
def get_session(op_input_list: Any = ()) -> Any:
    """The session that Keras runs in: the default one if any, else its own; variables are initialized in it.

    Args:
        op_input_list: Tensors of the graph whose session is wanted.

    Returns:
        A session.

    >>> with tf.Graph().as_default():
    ...     x = tf.constant(1) + 2
    ...     print(tf.keras.backend.get_session().run(x))
    3
    >>> tf.keras.backend.clear_session()
    """
    session = _get_session(op_input_list)
    if not _flags["manual_init"]:
        with session.graph.as_default():
            initialize_variables(session)
    return session


register_session_provider(get_session)


@export(v1=["keras.backend.set_session"])
def set_session(session: Any) -> None:
    """Makes `session` the one that Keras runs in.

    Args:
        session: The session.

    Returns:
        None.

    >>> with tf.Graph().as_default():
    ...     session = tf.Session()
    ...     tf.keras.backend.set_session(session)
    ...     print(tf.keras.backend.get_session() is session)
    True
    >>> tf.keras.backend.clear_session()
    """
    _session.session = session
