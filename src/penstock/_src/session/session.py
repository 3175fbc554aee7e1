"""Session: the table of contents of a step.

`Session.run` reads top to bottom: the fetches are mapped to graph elements, the feeds converted, and the program for
this (fetches, feeds) pair is looked up or made (prune, place, optimize, partition, compile), then run, and its values
handed back as numpy arrays in the structure that was requested.
"""
from __future__ import annotations

import itertools
import logging
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from penstock._src.base import errors
from penstock._src.base.api import export
from penstock._src.base.tracebacks import shorten
from penstock._src.execute import sharing
from penstock._src.execute.context import ResourceManager, StepContext
from penstock._src.execute.failure import typed
from penstock._src.execute.lanes import Threads
from penstock._src.execute.trace import Measured, TracedRun
from penstock._src.graph import context, verify
from penstock._src.graph.node import Operation, Tensor
from penstock._src.graph.prune import needed
from penstock._src.kernels import bridge
from penstock._src.kernels.devices.device_config import use_threads
from penstock._src.kernels.devices.devices import DeviceSet, local_devices
from penstock._src.ops import rules
from penstock._src.session.config import session_config
from penstock._src.session.feeds import fed_value
from penstock._src.session.fetches import Plan, expand_feed, plan_fetches
from penstock._src.step.compiler import compile_step
from penstock._src.step.ir import StepGraph
from penstock._src.step.optimize.options import options_of
from penstock._src.step.optimize.pipeline import paused_collector
from penstock._src.step.partition.split import partition
from penstock._src.step.place.cost_placer import CostPlacer
from penstock._src.step.place.placer import Placement, Placer, to_stderr
from penstock._src.step.runnable import Runnable
from penstock._src.step.spec import StepEnv, StepSpec

_stack = threading.local()
_GROWTHS = 50                       # steps that found the graph grown before it is reported
_steps = itertools.count(1)


def _sessions() -> list:
    try:
        return _stack.sessions
    except AttributeError:
        _stack.sessions = []
        return _stack.sessions


@export(v1=["get_default_session"])
def get_default_session() -> Any:
    """The innermost session of this thread that is the default one, or None."""
    return _sessions()[-1] if _sessions() else None


class _Default:
    """`with session.as_default()`."""

    def __init__(self, session: Any):
        self._session = session

    def __enter__(self) -> Any:
        _sessions().append(self._session)
        return self._session

    def __exit__(self, *exc: Any) -> None:
        stack = _sessions()
        if not stack or stack[-1] is not self._session:
            raise AssertionError("Nesting violated for default stack of <class 'penstock.Session'> objects")
        stack.pop()


class _Step:
    """A compiled (fetches, feeds) pair; keeps what its key names alive."""

    __slots__ = ("runnable", "elements", "feeds", "slots", "placed", "wraps", "waits")

    def __init__(self, runnable: Runnable, elements: list, feeds: list[Tensor], slots: list[int], placed: Placement):
        self.runnable, self.elements, self.feeds, self.slots, self.placed = runnable, elements, feeds, slots, placed
        self.waits = any(op.opdef.blocking for op in placed)
        self.wraps = [(i, rules.fetches.fetched_as[e._op.opdef]) for i, e in enumerate(elements)
                      if isinstance(e, Tensor) and e._op.opdef in rules.fetches.fetched_as]


_SCHEME = b"grpc://"


def _connected(target: bytes, graph: Any, config: Any) -> Any:
    """The session on the server that a target names."""
    if not target.startswith(_SCHEME):
        raise _no_such_target(target.decode(errors="replace"))
    from penstock._src.cluster.remote import RemoteSession
    return RemoteSession(target.decode(), graph, config)


def _no_such_target(target: str) -> errors.OpError:
    return errors.NotFoundError(None, None, "No session factory registered for the given session options: "
                                f'{{target: "{target}"}}. Local sessions have the empty target, those of servers begin with '
                                "grpc://.")


class BaseSession:
    """What Session and InteractiveSession share."""

    def __init__(self, target: Any = "", graph: Any = None, config: Any = None):
        if graph is not None and not hasattr(graph, "get_operations"):
            raise TypeError(f"graph must be a tf.Graph, but got {type(graph)}")
        if target is not None and not isinstance(target, (str, bytes)):
            raise TypeError(f"target must be a string, but got {type(target)}")
        if config is not None and not hasattr(config, "device_count"):
            raise TypeError(f"config must be a tf.ConfigProto, but got {type(config)}")
        self._graph = graph if graph is not None else context.current_graph()
        self._target = target.encode() if isinstance(target, str) else target or b""
        self._config = config = session_config(config)
        self._passes = options_of(config)
        self._closed = False
        self._resources = ResourceManager()
        self._programs: dict[tuple, _Step] = {}
        self._plans: dict[Any, Plan] = {}
        self._running: dict[int, StepContext] = {}
        self._version = self._graph._version
        self._lock = threading.Lock()
        self._partial: dict[str, Any] = {}
        self._devices = DeviceSet(local_devices(config))
        soft, log = (config.allow_soft_placement, config.log_device_placement) if config is not None else (False, False)
        self._period = config.placement_period if config is not None and len(self._devices) > 1 else 0
        self._placer = (CostPlacer if self._period > 0 else Placer)(self._devices, soft, to_stderr if log else None)
        self._threads = Threads()
        self._inter_op = config.inter_op_parallelism_threads if config is not None else 0
        use_threads(config.intra_op_parallelism_threads if config is not None else 0)
        self._known = 0                      # how many ops of the graph the placer knows
        self._steps_run = 0
        self._newest: Operation | None = None       # the last op of the graph when a step was compiled
        self._growths = 0
        self._remote: Any = None             # the session of a server, which does the work of this one
        if self._target not in (b"", b"local"):
            self._remote = _connected(self._target, self._graph, config)
        self._timeout = (config.operation_timeout_in_ms or 0) / 1000 if config is not None else 0

    @property
    def graph(self) -> Any:
        """The graph that this session runs."""
        return self._graph

    @property
    def graph_def(self) -> Any:
        """The graph as a GraphDef message."""
        return self._graph.as_graph_def(add_shapes=self._option("infer_shapes"))

    def _option(self, name: str) -> Any:
        """A field of the configuration's graph_options, or its default."""
        return getattr(self._config.graph_options, name) if self._config is not None else False

    @property
    def sess_str(self) -> bytes:
        """The target."""
        return self._target

    def list_devices(self) -> list:
        """The devices of this session."""
        return list(self._devices.all) if self._remote is None else self._remote.list_devices()

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
            return plan.build(self._run(plan.elements, feeds, values, options, run_metadata))
        except Exception as e:
            shorten(e)
            raise

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("Attempted to use a closed Session. Make a new one; `with tf.Session() as sess:` "
                               "closes its own at the end.")
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
            if type(key) is Tensor and key._op.graph is self._graph:
                tensors.append(key)
                values.append(fed_value(self, key, value))
                continue
            for sub, subvalue in expand_feed(self._graph, key, value):
                tensors.append(sub)
                values.append(fed_value(self, sub, subvalue))
        return tensors, values

    def _run(self, elements: list, feeds: list[Tensor], values: list, options: Any = None, metadata: Any = None) -> list:
        if self._remote is not None:
            return self._remote.run(elements, feeds, values, options, metadata)
        return self._results(*self._step(elements, feeds, values, options, metadata))

    def _step(self, elements: list, feeds: list[Tensor], values: list, options: Any, metadata: Any) -> tuple[_Step, Any]:
        """Runs a step; returns it with its values as they are inside of it."""
        key = (*map(id, elements), None, *map(id, feeds))
        step = self._programs.get(key)
        if step is None or self._version != self._graph._version:
            step = self._compile(key, elements, feeds)
        runnable = step.runnable.pick(values)
        ctx = self._context(options)
        token = id(ctx)
        self._running[token] = ctx
        if not step.waits:
            sharing.begin(token, not runnable.unlocked)
        try:
            if metadata is not None:
                raw = self._run_described(step, ctx, values, options, metadata)
            else:
                raw = runnable.run(ctx, *values)
            if ctx.deadline is not None:
                ctx.remaining()                      # a step that took longer than it was given has failed
        except BaseException as e:
            raise self._failure(e, step, runnable) from (e if not isinstance(e, errors.OpError) else e.__cause__)
        finally:
            del self._running[token]
            if not step.waits:
                sharing.end(token)
            for call in tuple(ctx.at_end.values()):
                call()
        return step, raw

    def running_steps(self) -> list[int]:
        """The numbers of the steps that run now."""
        return [ctx.step_id for ctx in list(self._running.values())]

    def _context(self, options: Any) -> StepContext:
        timeout = options.timeout_in_ms / 1000 if options is not None and options.timeout_in_ms else self._timeout
        return StepContext(self._resources, self, timeout or None, next(_steps), self._devices)

    def _results(self, step: _Step, raw: tuple) -> list:
        out: list = []
        raw_list = list(raw)
        del raw
        for slot in step.slots:
            if slot < 0:
                out.append(None)
                continue
            value, raw_list[slot] = raw_list[slot], None
            if value is None and slot in step.slots[:len(out)]:
                out.append(np.copy(out[step.slots.index(slot)]) if isinstance(out[step.slots.index(slot)], np.ndarray)
                           else out[step.slots.index(slot)])
                continue
            out.append(bridge.fetched(value))
        for i, wrap in step.wraps:
            out[i] = wrap(out[i], step.elements[i], self)
        return out

    def _compile(self, key: tuple, elements: list, feeds: list[Tensor]) -> _Step:
        """Prune, place, optimize, partition and compile; the result is kept for the next run of the same fetches and feeds."""
        with self._lock:
            if self._version != self._graph._version:
                self._programs.clear()
                self._version = self._graph._version
        self._watch_growth()
        with paused_collector():
            step = self._programs[key] = self._compiled(elements, feeds)
        return step

    def _watch_growth(self) -> None:
        """Says once, with the line, that a loop adds operations between its steps: each makes the next step slower."""
        newest = self._graph._ops[-1] if self._graph._ops else None
        if newest is self._newest or self._growths >= _GROWTHS:
            return
        self._newest = newest
        self._growths += 1
        if self._growths == _GROWTHS and newest is not None:
            logging.getLogger("penstock").warning(
                "The graph has grown between steps %d times: %r was added at %s. Build the graph before the loop, and call "
                "tf.get_default_graph().finalize() there to find such places.", _GROWTHS, newest.name,
                newest.made_at or "an unknown place")

    def _compiled(self, elements: list, feeds: list[Tensor]) -> _Step:
        ids = {id(t) for t in feeds}
        fetched = list({id(e): e for e in elements if isinstance(e, Tensor)}.values())
        slots = [next(i for i, t in enumerate(fetched) if t is e) if isinstance(e, Tensor) else -1 for e in elements]
        targets = [e for e in elements if isinstance(e, Operation)]
        ops = needed(fetched, targets, ids)
        placed = self._place(ops)
        verify.placed(ops, placed)
        ctx = StepContext(self._resources, self, devices=self._devices)
        runnable = compile_step(StepSpec(ops, fetched, targets, feeds, placed if len(self._devices) > 1 else None),
                                StepEnv(ctx, self._passes, self._threads, self._inter_op, whole=True))
        step = _Step(runnable, elements, feeds, slots, placed)
        if isinstance(self._placer, CostPlacer) and self._placer.is_cold(ops):
            step.runnable = Measured(runnable, self._period, lambda ctx, values: self._measure(step, ctx, values))
        return step

    def _measure(self, step: _Step, ctx: StepContext, values: list) -> tuple:
        """Runs a step op by op, and lets the placer learn what each op takes; the next run is placed again."""
        from tensorboard.compat.proto.cost_graph_pb2 import CostGraphDef
        run, raw = self._traced(step, ctx, values)
        message = CostGraphDef()
        run.cost_graph(message)
        with self._lock:
            self._placer.learn(message)
            self._programs.clear()
        return raw

    def _place(self, ops: list[Operation]) -> Placement:
        """Devices for the ops of a step. Constraints come from the whole graph, or with place_pruned_graph from the step."""
        whole = not self._option("place_pruned_graph") and not isinstance(self, InteractiveSession)
        new = self._graph._ops[self._known:] if whole else ops
        with self._lock:
            self._placer.extend(new)
            self._known += len(new) if whole else 0
            return self._placer.place(ops)

    def explain_placement(self) -> str:
        """Where each op of the graph goes, why, and which op forced it.

        >>> print(sess.explain_placement())
        v: (VariableV2): /job:localhost/replica:0/task:0/device:CPU:0  # has no GPU kernel of int32
        """
        self._check_open()
        with self._lock:
            return self._placer.anew().explain(self._graph.get_operations())

    def _failure(self, error: BaseException, step: _Step, runnable: Any) -> BaseException:
        op = runnable.failing_op(error.__traceback__) or self._unread(error, step)
        return typed(error, op, self._device_of(op) if op is not None else "")

    @staticmethod
    def _unread(error: BaseException, step: _Step) -> Operation | None:
        """The fetched variable whose value was not there when the program handed it out."""
        refs = [e.op for e in step.elements if isinstance(e, Tensor) and e.dtype._is_ref_dtype]
        words = error.message.split() if isinstance(error, errors.FailedPreconditionError) else ()
        return next((op for op in refs if op.name in words), None)

    def _device_of(self, op: Operation) -> str:
        """Where an op of a step is, for reports."""
        op = op._origin or op
        if op.graph is not self._graph:
            return op.device
        with self._lock:
            return self._placer.place([op])[op].name

    def _run_described(self, step: _Step, ctx: StepContext, values: list, options: Any, metadata: Any) -> tuple:
        """Runs a step and fills RunMetadata with what was requested: partitions, times, costs."""
        metadata.Clear()
        self._steps_run += 1
        if options is not None and options.output_partition_graphs:
            self._describe_partitions(step, metadata)
        every = self._option("build_cost_model")
        costs = bool(every) and self._steps_run % every == 0
        traced = options is not None and options.trace_level
        if not (costs or traced):
            return step.runnable.run(ctx, *values)
        run, raw = self._traced(step, ctx, values)
        if traced:
            run.step_stats(metadata.step_stats)
        if costs:
            run.cost_graph(metadata.cost_graph)
        return raw

    def _traced(self, step: _Step, ctx: StepContext, values: list) -> tuple[TracedRun, tuple]:
        fetched = list({id(e): e for e in step.elements if isinstance(e, Tensor)}.values())
        run = TracedRun(list(step.placed), fetched, step.feeds, ctx, step.placed)
        return run, run.run(ctx, values)

    def _describe_partitions(self, step: _Step, metadata: Any) -> None:
        fetched = list({id(e): e for e in step.elements if isinstance(e, Tensor)}.values())
        made = StepGraph(list(step.placed), fetched, [], step.feeds, step.placed)
        for part in partition(made.ops, made.placed or {}, made.fetches, made.feeds):
            metadata.partition_graphs.add().CopyFrom(part.graph.as_graph_def())

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
        step = self._compile((*map(id, plan.elements), None, *map(id, feeds)), plan.elements, feeds)
        return step.runnable.explained(feeds, self._device_of if len(self._devices) > 1 else lambda op: "")

    # -- other ways to run --------------------------------------------------------------------------------------
    def make_callable(self, fetches: Any, feed_list: Any = None, accept_options: bool = False) -> Callable:
        """A function of the feeds that runs `fetches`: quicker than run() in a loop.

        >>> step = sess.make_callable(train_op, feed_list=[x, y])
        """
        self._check_open()
        if feed_list is not None and not isinstance(feed_list, (list, tuple)):
            raise TypeError("`feed_list` must be a list or tuple.")
        plan = plan_fetches(self._graph, fetches)
        feeds = [self._graph.as_graph_element(f, allow_operation=False) for f in feed_list or ()]

        def call(*args: Any, **kwargs: Any) -> Any:
            if len(args) != len(feeds):
                raise TypeError(f"this callable takes {len(feeds)} feed values, got {len(args)}")
            values = [fed_value(self, t, v) for t, v in zip(feeds, args, strict=True)]
            self._check_open()
            return plan.build(self._run(plan.elements, feeds, values, kwargs.get("options"), kwargs.get("run_metadata")))
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
        if self._remote is not None:
            return self._remote.partial_run_setup(plan.elements, feed_tensors)
        handle = f"partial_run_{next(_steps)}"
        self._partial[handle] = self._new_partial(plan.elements, feed_tensors)
        return handle

    def _new_partial(self, elements: list, feeds: list[Tensor]) -> Any:
        from penstock._src.execute.partial import PartialRun
        return PartialRun(elements, feeds, self._context(None), self._place if self._devices.mixed else None)

    def partial_run(self, handle: str, fetches: Any, feed_dict: Any = None) -> Any:
        """Continues with a step that partial_run_setup prepared."""
        self._check_open()
        plan = plan_fetches(self._graph, fetches)
        feeds, values = self._feeds(feed_dict) if feed_dict else ([], [])
        if self._remote is not None:
            return plan.build(self._remote.partial_run(handle, plan.elements, feeds, values))
        state = self._partial.get(handle)
        if state is None:
            raise errors.InvalidArgumentError(
                None, None, "Must run 'setup' before performing partial runs!")
        raw = state.run(plan.elements, feeds, values)
        return plan.build([None if isinstance(e, Operation) else bridge.fetched(v)
                           for e, v in zip(plan.elements, raw, strict=True)])

    # -- the end ----------------------------------------------------------------------------------------------------
    def close(self) -> None:
        """Cancels running steps and frees the session's resources."""
        if self._closed:
            return
        self._closed = True
        if self._remote is not None:
            self._remote.close()
        for ctx in list(self._running.values()):
            ctx.cancellation.cancel(errors.CancelledError(None, None, "Session was closed."))
        for state in self._partial.values():
            state.ctx.cancellation.cancel()
        self._threads.close()
        self._programs.clear()
        self._plans.clear()
        self._partial.clear()
        self._resources.clear()


@export(v1=["Session"])
class Session(BaseSession):
    """Runs a graph.

    >>> with tf.Session() as sess:
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
        """Clears resource containers of a server; a local session keeps its resources to itself."""
        if not target:
            raise errors.UnimplementedError(None, None, "Session.reset needs the target of a server.")
        if not target.startswith(_SCHEME.decode()):
            raise _no_such_target(target)
        from penstock._src.cluster.remote import reset
        reset(target, containers, config)


@export(v1=["InteractiveSession"])
class InteractiveSession(BaseSession):
    """A session that makes itself (and its graph) the default until it is closed, for shells and notebooks."""

    _active_session_count = 0

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
        stack = _sessions()
        if self in stack:
            stack.remove(self)
