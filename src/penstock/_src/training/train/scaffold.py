"""Scaffold: the parts that a model needs besides its training op, with defaults; and session creators."""
from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

from penstock._src.base import tf_logging
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.collections import GraphKeys
from penstock._src.graph.node import Operation
from penstock._src.graph.prune import needed
from penstock._src.ops.array.concat import concat
from penstock._src.ops.core import group
from penstock._src.state.checkpoint.saver import Saver
from penstock._src.state.table_initializers import tables_initializer
from penstock._src.state.variables.collections import (
    global_variables,
    global_variables_initializer,
    local_variables_initializer,
    report_uninitialized_variables,
)
from penstock._src.state.variables.resources import (
    initialize_resources,
    local_resources,
    report_uninitialized_resources,
    shared_resources,
)
from penstock._src.training.summary.graph_summaries import merge_all
from penstock._src.training.train.session_manager import SessionManager


def _default_init_op() -> Any:
    return group(global_variables_initializer(), initialize_resources(shared_resources()))


def _missing(variables: Any = None, resources: Any = None) -> Any:
    return concat([report_uninitialized_variables(variables), report_uninitialized_resources(resources)], 0)


def _default_ready_for_local_init_op() -> Any:
    return _missing(global_variables(), shared_resources())


@export(v1=["train.Scaffold"])
class Scaffold:
    """How a model is initialized, saved and summarized. Missing parts are taken from the graph's collections, or made.

    Args:
        init_op: Op that initializes the variables.
        init_feed_dict: Feeds of `init_op`.
        init_fn: Function of scaffold and session, called after `init_op`.
        ready_op: Op whose result is empty when all variables have values.
        ready_for_local_init_op: The same before `local_init_op` may run.
        local_init_op: Op that initializes what belongs to the process: local variables and tables.
        summary_op: Op that writes the summaries.
        saver: Saver of the checkpoints.
        copy_from_scaffold: Scaffold whose arguments are the defaults of these.
        local_init_feed_dict: Feeds of `local_init_op`.

    >>> with tf.Graph().as_default():
    ...     w = tf.get_variable("w", initializer=1.)
    ...     scaffold = tf.train.Scaffold(init_op=w.assign(7.))
    ...     with tf.train.MonitoredTrainingSession(scaffold=scaffold) as sess:
    ...         print(sess.run(w))
    7.0
    """

    def __init__(self, init_op: Any = None, init_feed_dict: Any = None, init_fn: Any = None, ready_op: Any = None,
                 ready_for_local_init_op: Any = None, local_init_op: Any = None, summary_op: Any = None, saver: Any = None,
                 copy_from_scaffold: Any = None, local_init_feed_dict: Any = None):
        given = {"init_op": init_op, "init_feed_dict": init_feed_dict, "ready_op": ready_op,
                 "ready_for_local_init_op": ready_for_local_init_op, "local_init_op": local_init_op,
                 "summary_op": summary_op, "saver": saver}
        if copy_from_scaffold is not None:
            if not isinstance(copy_from_scaffold, Scaffold):
                raise TypeError("copy_from_scaffold is not a Scaffold instance.")
            given = {n: getattr(copy_from_scaffold, n) if v is None else v for n, v in given.items()}
            init_fn = copy_from_scaffold._user_init_fn if init_fn is None else init_fn
        self._given, self._local_init_feed_dict = given, local_init_feed_dict
        self._user_init_fn: Callable | None = init_fn
        self._init_fn = (lambda sess: init_fn(self, sess)) if init_fn else None

    def finalize(self) -> Scaffold:
        """Makes the missing parts, and finalizes the graph."""
        keys = GraphKeys
        self._find("init_op", keys.INIT_OP, _default_init_op)
        self._find("ready_op", keys.READY_OP, _missing)
        self._find("ready_for_local_init_op", keys.READY_FOR_LOCAL_INIT_OP, _default_ready_for_local_init_op)
        self._find("local_init_op", keys.LOCAL_INIT_OP, Scaffold.default_local_init_op)
        self._find("summary_op", keys.SUMMARY_OP, _merge_all)
        self._given["saver"] = _built(self._given["saver"])
        context.current_graph().finalize()
        tf_logging.info("Graph was finalized.")
        return self

    def _find(self, part: str, collection: str, make: Callable[[], Any]) -> None:
        if self._given[part] is None:
            self._given[part] = Scaffold.get_or_default(part, collection, make)

    @property
    def init_fn(self) -> Any:
        """The function that is called with a session after init_op."""
        return self._init_fn

    @property
    def init_op(self) -> Any:
        """The op that initializes the model."""
        return self._given["init_op"]

    @property
    def init_feed_dict(self) -> Any:
        """The feeds of init_op."""
        return self._given["init_feed_dict"]

    @property
    def local_init_feed_dict(self) -> Any:
        """The feeds of local_init_op."""
        return self._local_init_feed_dict

    @property
    def ready_op(self) -> Any:
        """The op that lists what is not initialized."""
        return self._given["ready_op"]

    @property
    def ready_for_local_init_op(self) -> Any:
        """The op that lists what local_init_op waits for."""
        return self._given["ready_for_local_init_op"]

    @property
    def local_init_op(self) -> Any:
        """The op that initializes the local state of every worker."""
        return self._given["local_init_op"]

    @property
    def summary_op(self) -> Any:
        """The op that makes the summaries."""
        return self._given["summary_op"]

    @property
    def saver(self) -> Any:
        """The Saver."""
        return self._given["saver"]

    @staticmethod
    def get_or_default(arg_name: str, collection_key: str, default_constructor: Callable[[], Any]) -> Any:
        """The only element of a collection, or a new one, which is added to it."""
        graph = context.current_graph()
        found = graph.get_collection(collection_key)
        if len(found) > 1:
            raise RuntimeError(f'More than one item in the collection "{collection_key}". Please indicate which one to use by '
                               f"passing it to the tf.Scaffold constructor as:  tf.Scaffold({arg_name}=item to use)")
        if found:
            return found[0]
        made = default_constructor()
        if made is not None:
            graph.add_to_collection(collection_key, made)
        return made

    def use_saver(self, around: Callable[[Any], Any]) -> Any:
        """Replaces the saver, before the scaffold is finalized, by a wrapper around it."""
        self._given["saver"] = around(_built(self._given["saver"]))
        return self._given["saver"]

    @staticmethod
    def default_local_init_op() -> Any:
        """Initializes local variables, tables and local resources."""
        return group(local_variables_initializer(), tables_initializer(), initialize_resources(local_resources()))


def _merge_all() -> Any:
    return merge_all()


def _built(saver: Any) -> Any:
    """The Saver to use, ready to run: the given one, the graph's, or a new one."""
    if saver is None:
        saver = Scaffold.get_or_default("saver", GraphKeys.SAVERS, lambda: Saver(sharded=True, allow_empty=True))
    if not hasattr(saver, "build"):              # an object-based checkpoint: its variables, as they are now
        return Saver(var_list=saver._saver.frozen_saveables(), sharded=True)
    saver.build()
    return saver


# -- session creators -------------------------------------------------------------------------------------------------
@export(v1=["train.SessionCreator"])
class SessionCreator(abc.ABC):
    """Makes sessions for a monitored session, the first one and those after failures.

    >>> class Creator(tf.train.SessionCreator):
    ...     def create_session(self):
    ...         return tf.Session()
    >>> with tf.Graph().as_default():
    ...     x = tf.constant(1) + 2
    ...     with tf.train.MonitoredSession(session_creator=Creator()) as sess:
    ...         print(sess.run(x))
    3
    """

    @abc.abstractmethod
    def create_session(self) -> Any:
        """A session, ready to run."""


@export(v1=["train.ChiefSessionCreator"])
class ChiefSessionCreator(SessionCreator):
    """Restores or initializes the model."""

    def __init__(self, scaffold: Any = None, master: str = "", config: Any = None, checkpoint_dir: str | None = None,
                 checkpoint_filename_with_path: str | None = None):
        self._scaffold, self._master, self._config = scaffold or Scaffold(), master, config
        self._checkpoint_dir, self._checkpoint_filename_with_path = checkpoint_dir, checkpoint_filename_with_path
        self._session_manager: SessionManager | None = None

    def create_session(self) -> Any:
        """A session of the chief."""
        scaffold = self._scaffold.finalize()
        self._session_manager = self._session_manager or _manager(scaffold)
        made = self._session_manager.prepare_session(
            self._master, saver=scaffold.saver, checkpoint_dir=self._checkpoint_dir,
            checkpoint_filename_with_path=self._checkpoint_filename_with_path, config=self._config,
            init_op=scaffold.init_op, init_feed_dict=scaffold.init_feed_dict, init_fn=scaffold.init_fn)
        return _with_tables(made, scaffold)


@export(v1=["train.WorkerSessionCreator"])
class WorkerSessionCreator(SessionCreator):
    """Waits until the chief has made the model ready."""

    def __init__(self, scaffold: Any = None, master: str = "", config: Any = None, max_wait_secs: float = 30 * 60):
        self._scaffold, self._master, self._config = scaffold or Scaffold(), master, config
        self._max_wait_secs = max_wait_secs
        self._session_manager: SessionManager | None = None

    def create_session(self) -> Any:
        """A session of a worker."""
        scaffold = self._scaffold.finalize()
        self._session_manager = self._session_manager or _manager(scaffold)
        made = self._session_manager.wait_for_session(self._master, config=self._config, max_wait_secs=self._max_wait_secs)
        return _with_tables(made, scaffold)


def _with_tables(session: Any, scaffold: Scaffold) -> Any:
    """Initializes the lookup tables that a user's `local_init_op` omits. TensorFlow then fails in the first step;
    programs that were written for its forks rely on it."""
    graph, given = context.current_graph(), scaffold.local_init_op
    tables = [op for op in graph.get_collection(GraphKeys.TABLE_INITIALIZERS) if op.type.startswith("InitializeTable")]
    if tables and isinstance(given, Operation):
        run = set(needed([], [given], set()))
        missing = [op for op in tables if op not in run]
        if missing:
            session.run(missing)
    return session


def _manager(scaffold: Scaffold) -> SessionManager:
    return SessionManager(local_init_op=scaffold.local_init_op, local_init_feed_dict=scaffold.local_init_feed_dict,
                          ready_op=scaffold.ready_op, ready_for_local_init_op=scaffold.ready_for_local_init_op,
                          graph=context.current_graph())
