"""Session: the user's side of a step.

`Session.run` reads top to bottom: the fetches are mapped to graph elements, the feeds converted, an engine (`engine.py`) runs
the step, and its values are returned in the structure that was requested.
"""
from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from typing import Any

from penstock._src.base import errors, html
from penstock._src.base.api import export
from penstock._src.base.tracebacks import shorten
from penstock._src.execute.context import ResourceManager
from penstock._src.graph import context
from penstock._src.graph.node import Operation, Tensor
from penstock._src.session.config import session_config
from penstock._src.session.engine import Engine, closed
from penstock._src.session.feeds import fed_value
from penstock._src.session.fetches import Plan, expand_feed, plan_fetches
from penstock._src.session.local import LocalEngine


class _Default:
    """`with session.as_default()`."""

    def __init__(self, session: Any):
        self._session = session

    def __enter__(self) -> Any:
        context.state.sessions.append(self._session)
        return self._session

    def __exit__(self, *exc: Any) -> None:
        stack = context.state.sessions
        if not stack or stack[-1] is not self._session:
            raise AssertionError("Nesting violated for default stack of <class 'penstock.Session'> objects")
        stack.pop()


_SCHEME = b"grpc://"


def _remote() -> Any:
    """The engine of clusters, loaded by the first session that has a target."""
    from penstock._src.cluster import remote
    return remote


def _connected(target: bytes, graph: Any, config: Any) -> Engine:
    """An engine for the server that a target names."""
    if not target.startswith(_SCHEME):
        raise _no_such_target(target.decode(errors="replace"))
    return _remote().RemoteEngine(target.decode(), graph, config)


def _no_such_target(target: str) -> errors.OpError:
    return errors.NotFoundError(None, None, "No session factory registered for the given session options: "
                                f'{{target: "{target}"}}. Local sessions have the empty target, those of servers begin with '
                                "grpc://.")


class BaseSession:
    """The common part of Session and InteractiveSession."""

    _places_whole_graph = True           # whether placement respects constraints of ops that a step does not need

    def __init__(self, target: Any = "", graph: Any = None, config: Any = None):
        if graph is not None and not hasattr(graph, "get_operations"):
            raise TypeError(f"graph must be a tf.Graph, but got {type(graph)}")
        if target is not None and not isinstance(target, (str, bytes)):
            hint = ": pass it by name, Session(config=config)" if hasattr(target, "device_count") else ""
            raise TypeError(f"target must be a string, but got {type(target)}{hint}")
        if config is not None and not hasattr(config, "device_count"):
            raise TypeError(f"config must be a tf.ConfigProto, but got {type(config)}")
        self._graph = graph if graph is not None else context.current_graph()
        self._target = target.encode() if isinstance(target, str) else target or b""
        self._config = config = session_config(config)
        self._closed = False
        self._plans: dict[Any, Plan] = {}
        self._engine: Engine = _connected(self._target, self._graph, config) if self._target not in (b"", b"local") else \
            LocalEngine(self._graph, config, whole=self._places_whole_graph)

    @property
    def graph(self) -> Any:
        """The graph that this session runs."""
        return self._graph

    @property
    def graph_def(self) -> Any:
        """The graph as a GraphDef message."""
        return self._graph.as_graph_def(add_shapes=self._config is not None and self._config.graph_options.infer_shapes)

    @property
    def sess_str(self) -> bytes:
        """The target."""
        return self._target

    def list_devices(self) -> list:
        """The devices of this session."""
        return self._engine.list_devices()

    @property
    def _resources(self) -> ResourceManager:
        """The session's resources in this process."""
        return self._engine.resources

    def running_steps(self) -> list[int]:
        """The numbers of the steps that run now in this process."""
        return self._engine.running_steps()

    def as_default(self) -> Any:
        """A context manager that makes this session the default one of the thread (not its graph)."""
        return _Default(self)

    # -- running -------------------------------------------------------------------------------------------
    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """Runs the part of the graph that `fetches` need, and returns their values in the same structure.

        >>> sess.run({"loss": loss, "step": train_op}, feed_dict={x: batch})
        """
        self._check_open()
        plan = self._plan(fetches)
        feeds, values = self._feeds(feed_dict) if feed_dict else ([], [])
        try:
            return plan.build(self._engine.run(plan.elements, feeds, values, options, run_metadata))
        except Exception as e:
            shorten(e)
            raise

    def _check_open(self) -> None:
        if self._closed:
            raise closed()
        if self._graph.version == 0:
            raise RuntimeError("The Session graph is empty.  Add operations to the graph before calling run().")

    def _plan(self, fetches: Any) -> Plan:
        key = id(fetches) if isinstance(fetches, (Tensor, Operation)) else \
            (type(fetches), *map(id, fetches)) if type(fetches) in (list, tuple) else None
        plan = self._plans.get(key) if key is not None else None
        if plan is None:
            plan = plan_fetches(self._graph, fetches)
            if key is not None and plan.simple:
                self._plans[key] = plan
        return plan

    def _feeds(self, feed_dict: Any) -> tuple[list[Tensor], list]:
        if not hasattr(feed_dict, "items"):
            raise TypeError(f"feed_dict must be a dictionary from tensors to values, got {type(feed_dict).__name__}")
        tensors: list[Tensor] = []
        values: list = []
        for key, value in feed_dict.items():
            if type(key) is Tensor and key.op.graph is self._graph:
                tensors.append(key)
                values.append(fed_value(self._engine, key, value))
                continue
            for sub, subvalue in expand_feed(self._graph, key, value):
                tensors.append(sub)
                values.append(fed_value(self._engine, sub, subvalue))
        return tensors, values

    def explain_placement(self) -> str:
        """The device of each op of the graph, the reason, and the op that forced it.

        >>> print(sess.explain_placement())
        v: (VariableV2): /job:localhost/replica:0/task:0/device:CPU:0  # has no GPU kernel of int32
        """
        self._check_open()
        return self._engine.explain_placement()

    def _repr_html_(self) -> str:
        if self._closed:
            return html.table("Session, closed", [], [])
        devices = html.table(f"Session {self._target.decode()}: devices", ["device", "kind"],
                             [[d.name, d.device_type] for d in self.list_devices()])
        placed = self.explain_placement() if self._graph.version else ""
        lines = [line.split(": ", 2) for line in placed.splitlines()]
        return devices + html.table("Placement", ["operation", "device"], [[p[0], p[-1]] for p in lines if len(p) == 3])

    def explain(self, fetches: Any, feed_dict: Any = None) -> str:
        """The program that runs `fetches` with the keys of `feed_dict` fed, as text; nothing is run.

        >>> print(sess.explain(loss, {x: None}))
        # 2 ops
        # f0: x:0 float32[?,3]
        def step(ctx, f0):
            t1 = MatMul(f0, f0)               # MatMul: MatMul -> float32[?,3]
        ...
        """
        plan = plan_fetches(self._graph, fetches)
        feeds = [self._graph.as_graph_element(k, allow_operation=False) for k in feed_dict or ()]
        return self._engine.explain(plan.elements, feeds)

    # -- other ways to run --------------------------------------------------------------------------------------
    def make_callable(self, fetches: Any, feed_list: Any = None, accept_options: bool = False) -> Callable:
        """A function of the feeds that runs `fetches`, faster than run() in a loop.

        >>> step = sess.make_callable(train_op, feed_list=[x, y])
        """
        self._check_open()
        if feed_list is not None and not isinstance(feed_list, (list, tuple)):
            raise TypeError("`feed_list` must be a list or tuple.")
        plan = plan_fetches(self._graph, fetches)
        feeds = [self._graph.as_graph_element(f, allow_operation=False) for f in feed_list or ()]

        def call(*args: Any, **kwargs: Any) -> Any:
            if len(args) != len(feeds):
                raise errors.InvalidArgumentError(None, None, f"this callable takes {len(feeds)} feed values, got {len(args)}")
            values = [fed_value(self._engine, t, v) for t, v in zip(feeds, args, strict=True)]
            self._check_open()
            return plan.build(self._engine.run(plan.elements, feeds, values, kwargs.get("options"), kwargs.get("run_metadata")))
        return call

    def _make_callable_from_options(self, options: Any) -> Callable:
        run = self.make_callable(list(options.fetch), list(options.feed))
        return lambda *args, **kwargs: run(*args, **{"options": options.run_options, **kwargs})

    def partial_run_setup(self, fetches: Any, feeds: Any = None) -> str:
        """Prepares a step that is run piece by piece: returns a handle for partial_run."""
        self._check_open()
        plan = plan_fetches(self._graph, fetches)
        if not plan.elements:
            raise errors.InvalidArgumentError(None, None, "Must specify at least one target to fetch or execute.")
        feed_tensors = []
        for f in feeds or ():
            for t, _ in expand_feed(self._graph, f, None, names_only=True):
                if not self._graph.is_feedable(t):
                    raise ValueError(f"Tensor {t} may not be fed.")
                feed_tensors.append(t)
        return self._engine.partial_run_setup(plan.elements, feed_tensors)

    def partial_run(self, handle: str, fetches: Any, feed_dict: Any = None) -> Any:
        """Continues with a step that partial_run_setup prepared."""
        self._check_open()
        plan = plan_fetches(self._graph, fetches)
        feeds, values = self._feeds(feed_dict) if feed_dict else ([], [])
        return plan.build(self._engine.partial_run(handle, plan.elements, feeds, values))

    # -- the end ----------------------------------------------------------------------------------------------------
    def close(self) -> None:
        """Cancels running steps and frees the session's resources."""
        if self._closed:
            return
        self._closed = True
        self._engine.close()
        self._plans.clear()


@export(v1=["Session"])
class Session(BaseSession):
    """Runs a graph.

    Args:
        target: Address of a server (`"grpc://host:port"`) that runs the graph. By default it runs in this process.
        graph: Graph to run, by default the one that is the default when the session is made.
        config: `tf.ConfigProto` with options of the session.

    Raises:
        RuntimeError: from `run`, if the session is closed.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     print(sess.run(tf.constant(1) + 2))
    3
    """

    def __init__(self, target: Any = "", graph: Any = None, config: Any = None):
        super().__init__(target, graph, config)
        self._open: list[tuple] = []

    def __enter__(self) -> Session:
        if self._open:
            raise RuntimeError("Session context managers are not re-entrant. Use `Session.as_default()` if you want to "
                               "enter a session multiple times.")
        graph_scope, default = self._graph.as_default(), self.as_default()
        graph_scope.__enter__()
        default.__enter__()
        self._open.append((graph_scope, default))
        return self

    def __exit__(self, exc_type: Any, exc: Any, tb: Any) -> None:
        graph_scope, default = self._open.pop()
        if exc_type is errors.OpError:
            logging.getLogger("penstock").error("Session closing due to error %s", exc)
        try:
            default.__exit__(exc_type, exc, tb)
            graph_scope.__exit__(exc_type, exc, tb)
        except RuntimeError as e:
            if e is not exc:
                raise
        self.close()

    @staticmethod
    def reset(target: str, containers: Any = None, config: Any = None) -> None:
        """Clears resource containers of a server; the resources of a local session are private."""
        if not target:
            raise errors.UnimplementedError(None, None, "Session.reset needs the target of a server.")
        if not target.startswith(_SCHEME.decode()):
            raise _no_such_target(target)
        _remote().reset(target, containers, config)


@export(v1=["InteractiveSession"])
class InteractiveSession(BaseSession):
    """A session that makes itself (and its graph) the default until it is closed, for shells and notebooks.

    Args:
        target: Address of a server (`"grpc://host:port"`) that runs the graph. By default it runs in this process.
        graph: Graph to run, by default the one that is the default when the session is made.
        config: `tf.ConfigProto` with options of the session.

    >>> with tf.Graph().as_default():
    ...     session = tf.InteractiveSession()
    ...     print(tf.constant(3).eval())
    ...     session.close()
    3
    """

    _active_session_count = 0
    _places_whole_graph = False

    def __init__(self, target: Any = "", graph: Any = None, config: Any = None):
        super().__init__(target, graph, config)
        if InteractiveSession._active_session_count > 0:
            warnings.warn("An interactive session is already active. This can cause out-of-memory errors in some cases. "
                          "You must explicitly call `InteractiveSession.close()` to release resources held by the other "
                          "session(s).", stacklevel=2)
        InteractiveSession._active_session_count += 1
        self._default = self.as_default()
        self._default.__enter__()
        self._scope = self._graph.as_default() if graph is not None else None
        if self._scope is not None:
            self._scope.__enter__()

    def close(self) -> None:
        """Closes the session and stops being the default."""
        if self._closed:
            return
        super().close()
        InteractiveSession._active_session_count -= 1
        if self._scope is not None:
            self._scope.__exit__(None, None, None)
        stack = context.state.sessions
        if self in stack:
            stack.remove(self)
