"""Running a function for several replicas: each on its own thread, one at a time, meeting at merge calls.

The replicas take turns in their order: the first runs until it waits in a `merge_call` or is done, then the second, and so
on. When all wait, the calling thread runs the merge function once, and returns every replica its part of the result. No two of
these threads ever run at the same time, so that graphs are built, and tapes written, in one order, as if there were no threads.

A replica's thread begins with the state of the calling thread (`Surroundings`): graphs, scopes, tapes, sessions.
"""
from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from penstock._src.base.service import started
from penstock._src.base.waits import joined, waited_for
from penstock._src.graph import context
from penstock._src.graph.context import get_default_session
from penstock._src.graph.scopes import control_dependencies, device, name_scope
from penstock._src.models.distribute.replica import ReplicaContext
from penstock._src.models.distribute.values import regroup, select_replica
from penstock._src.state.variables.scope import get_variable_scope, variable_scope
from penstock._src.training.summary.writers import state as summaries


class _Stopped(BaseException):
    """Ends the thread of a replica whose call was cancelled."""


class Surroundings:
    """The open contexts of a thread, to be opened on another one."""

    def __init__(self) -> None:
        state = context.state
        self._graphs = list(state.graphs)
        self._fields = {k: getattr(state, k) for k in ("tapes", "device", "scope_name", "watching", "autograph", "strategies",
                                                       "learning_phase")}
        everywhere = {id(g): g for g in (*self._graphs, context.current_graph()) if g is not None}
        self._stacks = [(g, g._stacks.copied()) for g in everywhere.values()]
        self._variables = get_variable_scope()
        self._session = get_default_session()
        self._summaries = dict(vars(summaries))

    @contextlib.contextmanager
    def opened(self, reuse: bool) -> Iterator[None]:
        """Opens it on this thread, which must be a new one. With `reuse`, get_variable finds what was created before."""
        state = context.state
        state.graphs[:] = self._graphs
        for name, value in self._fields.items():
            setattr(state, name, value)
        for graph, stacks in self._stacks:
            graph._local.stacks = stacks.copied()
        vars(summaries).update(self._summaries)
        with contextlib.ExitStack() as stack:
            if self._session is not None:
                stack.enter_context(self._session.as_default())
            stack.enter_context(variable_scope(self._variables, reuse=reuse or None, auxiliary_name_scope=False))
            yield


class _SharedVariables:
    """The variables that the first replica made, for the others to find: by name, in the order of making."""

    def __init__(self) -> None:
        self.made: dict[str, list] = {}

    def creator(self, replica: int) -> Any:
        """The variable creator of one replica."""
        seen: dict[str, int] = {}

        def create(next_creator: Any, **kwargs: Any) -> Any:
            name = kwargs.get("name") or "Variable"
            known = self.made.setdefault(name, [])
            i = seen[name] = seen.get(name, -1) + 1
            if replica == 0 and i >= len(known):
                known.append(next_creator(**kwargs))
            if i >= len(known):
                raise RuntimeError(f"Tried to create variable {name} with mismatching name on device {replica}: the first "
                                   f"replica created {len(known)} of that name. All replicas must create the same variables.")
            return known[i]
        return create


class MergingContext(ReplicaContext):
    """A replica whose merge calls synchronize through the calling thread."""

    def __init__(self, strategy: Any, replica_id: int, turn: _Replica):
        super().__init__(strategy, replica_id)
        self._turn, self._creator = turn, turn.shared.creator(turn.index)

    def _merge_call(self, merge_fn: Any, args: tuple, kwargs: dict) -> Any:
        self._turn.check_graph()
        return self._turn.wait_for_merge(merge_fn, args, kwargs)


class _Replica:
    """The thread of one replica."""

    def __init__(self, strategy: Any, index: int, where: str, call: tuple, around: Surroundings, shared: _SharedVariables):
        self._strategy, self.index, self._where, self._call = strategy, index, where, call
        self._around, self.shared = around, shared
        self._graph = None if context.executing_eagerly() else context.current_graph()
        self._go, self._paused = threading.Event(), threading.Event()
        self._stop = False
        self.done = False
        self.error: BaseException | None = None
        self.result: Any = None
        self.merge: tuple | None = None
        self.scope_name = ""
        self.control: list = []
        self._thread = threading.Thread(target=self._main, name=f"replica_{index}", daemon=True)

    # -- on the calling thread ----------------------------------------------------------------------------------------
    def turn(self) -> None:
        """Lets the replica run until it waits for the others, or is done."""
        self._paused.clear()
        if not self._thread.is_alive():
            started(self._thread)
        else:
            self._go.set()
        waited_for(self._paused, lambda: f"the function of replica thread {self._thread.name}, to end or to merge", None)

    def end(self) -> None:
        """Ends the thread, wherever it waits."""
        if self._thread.is_alive():
            self._stop = True
            self._go.set()
            joined(self._thread, lambda: f"replica thread {self._thread.name}, to end")

    # -- on its own ---------------------------------------------------------------------------------------------------
    def _main(self) -> None:
        try:
            fn, args, kwargs = self._call
            with self._around.opened(reuse=self.index > 0), _replica_scope(self.index), device(self._where or None), \
                    MergingContext(self._strategy, self._strategy.extended._replica_id(self.index), self):
                self.result = fn(*args, **kwargs)
        except _Stopped:
            pass
        except BaseException as e:
            self.error = e
        finally:
            self.done = True
            self._call = ()
            context.state.graphs.clear()
            self._paused.set()

    def check_graph(self) -> None:
        """RuntimeError where a merge is requested inside of a function that is being traced in one replica alone."""
        now = None if context.executing_eagerly() else context.current_graph()
        if now is not self._graph:
            raise RuntimeError(
                "`merge_call` called while defining a new graph or a tf.function. This can often happen if the function `fn` "
                "passed to `strategy.run()` contains a nested `@tf.function`, and the nested `@tf.function` contains a "
                "synchronization point, such as aggregating gradients (e.g, optimizer.apply_gradients), or if the function "
                "`fn` uses a control flow statement which contains a synchronization point in the body. Such behaviors are not "
                "yet supported. Instead, please avoid nested `tf.function`s or control flow statements that may potentially "
                "cross a synchronization boundary, for example, wrap the `fn` passed to `strategy.run` or the entire "
                "`strategy.run` inside a `tf.function` or move the control flow out of `fn`.")

    def wait_for_merge(self, merge_fn: Any, args: tuple, kwargs: dict) -> Any:
        """Switches to the calling thread until the merge function was called; returns this replica's part of its result."""
        if self._graph is None:
            self.scope_name, self.control = context.state.scope_name, []
        else:
            scope = self._graph.get_name_scope()
            self.scope_name, self.control = f"{scope}/" if scope else "", [
                op for opened in self._graph._stacks.control for op in opened.ops]
        self.merge = merge_fn, args, kwargs
        self._go.clear()
        self._paused.set()
        self._go.wait()
        if self._stop:
            raise _Stopped
        result, self.result, self.merge = self.result, None, None
        return result


@contextlib.contextmanager
def _replica_scope(index: int) -> Iterator[None]:
    """Adds the replica to the names of ops, except for the first."""
    if index == 0:
        yield
        return
    outer = context.state.scope_name if context.executing_eagerly() else context.current_graph().get_name_scope()
    lead = outer if not outer or outer.endswith("/") else outer + "/"
    with name_scope(f"{lead}replica_{index}/"):
        yield


def call_for_each(strategy: Any, devices: tuple, fn: Any, args: Any, kwargs: Any) -> Any:
    """Runs `fn` for the replica of each device, and regroups the results."""
    around, shared = Surroundings(), _SharedVariables()
    replicas = [_Replica(strategy, i, d, (fn, select_replica(i, tuple(args)), select_replica(i, dict(kwargs))), around, shared)
                for i, d in enumerate(devices)]
    try:
        while True:
            for r in replicas:
                r.turn()
                if r.error is not None:
                    raise r.error
            if all(r.done for r in replicas):
                return regroup([r.result for r in replicas])
            _merge(strategy, replicas)
    finally:
        for r in replicas:
            r.end()


def _merge(strategy: Any, replicas: list[_Replica]) -> None:
    """Calls the merge function that all replicas wait for, and passes each of them its part of the result."""
    ended = [r.index for r in replicas if r.done]
    if ended:
        waiting = [r.index for r in replicas if not r.done]
        raise RuntimeError("Some replicas called a different number of replica_context().merge_call()s: replicas "
                           f"{waiting} wait in one (all_reduce, apply_gradients, a variable's assign), replicas {ended} have "
                           "ended without it.")
    calls = [r.merge for r in replicas]
    names = {getattr(c[0], "__qualname__", type(c[0]).__name__) for c in calls if c is not None}
    if len(names) > 1:
        raise RuntimeError(f"The replicas meet in different merge calls: {sorted(names)}. All must make the same ones, in one "
                           "order.")
    first = replicas[0]
    with name_scope(first.scope_name or None), control_dependencies([c for r in replicas for c in r.control]):
        args = regroup([c[1] for c in calls if c is not None])
        kwargs = regroup([c[2] for c in calls if c is not None])
        result = calls[0][0](strategy, *args, **kwargs)  # type: ignore[index]
    for r in replicas:
        r.result = select_replica(r.index, result)
