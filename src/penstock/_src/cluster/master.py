"""The master's side of a session: the graph that a client has sent, placed on the devices of all tasks, and its steps.

A step that needs several tasks is cut (step/partition/tasks.py), and each task gets its part once; running the step is one
message to each of them. What this task does of it runs on the thread that requested the step. The first error of any part
ends the step everywhere. State outlives sessions: all sessions of a task share its resources, unless they ask for state of
their own.
"""
from __future__ import annotations

import functools
import itertools
import queue
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from penstock._src.base import errors
from penstock._src.cluster.exchange import Exchange, Sent, keys_of, values_of
from penstock._src.cluster.link import Link, made_error
from penstock._src.cluster.partial import TaskPartialRun
from penstock._src.cluster.pump import Pump
from penstock._src.cluster.task_session import Part, TaskSession, refuse_client_code
from penstock._src.cluster.wire import Head
from penstock._src.cluster.worker import Worker
from penstock._src.graph import verify
from penstock._src.graph.function_messages import keep_called
from penstock._src.graph.graph import Graph
from penstock._src.graph.importer import import_graph_def
from penstock._src.graph.messages import ConfigProto, GraphDef, RunMetadata, RunOptions
from penstock._src.graph.node import Operation, Tensor
from penstock._src.graph.prune import needed
from penstock._src.kernels.devices.device import Device
from penstock._src.kernels.devices.device_spec import parts_of
from penstock._src.kernels.devices.devices import KINDS, DeviceSet
from penstock._src.session.session import _Step
from penstock._src.step.compile.program import wait_for_each_other
from penstock._src.step.partition.split import Partition
from penstock._src.step.partition.tasks import by_task
from penstock._src.step.runnable import Runnable

_JOIN_SECONDS = 60.0                # that tasks have to come up, unless operation_timeout_in_ms says otherwise
_AGAIN_SECONDS = 0.1                # between two attempts to reach a task
_END_SECONDS = 10.0                 # that the parts of a failed step have to end
_LOOK_SECONDS = 0.5                 # between two checks of links while a task takes its time to answer
_MOST_HEADS = 64                    # of requests for one part, that are kept
_names = itertools.count(1)


class Tasks:
    """The tasks that a session uses: their links, devices and incarnations."""

    def __init__(self, worker: Worker, config: Any):
        self.worker, self.own = worker, worker.peers.task
        self.steps = f"{worker.peers.incarnation:x}:"        # how the names of steps begin that this task is the master of
        self.timeout = config.operation_timeout_in_ms / 1000 or _JOIN_SECONDS
        self.links: dict[str, Link] = {}
        others = [t for t in worker.peers.addresses if t != self.own and _passes(t, config.device_filters)]
        found = self._devices_of(others)
        self.devices = DeviceSet([*worker.devices.all, *(d for t in others for d in found[t])])
        self.hosts = {t: next(d for d in self.devices.all if d.task == t and d.host) for t in (self.own, *others)}

    def _devices_of(self, tasks: list[str]) -> dict[str, list[Device]]:
        """Asks all tasks at once; UnavailableError names those that do not answer."""
        if not tasks:
            return {}
        found, missing = {}, []
        deadline = time.monotonic() + self.timeout
        with ThreadPoolExecutor(len(tasks), "penstock reach") as pool:
            for task, answer in [(t, pool.submit(self._ask, t, deadline)) for t in tasks]:
                try:
                    found[task] = answer.result()
                except errors.UnavailableError as e:
                    missing.append(f"{task} ({e.message})")
        if missing:
            raise errors.UnavailableError(
                None, None, f"Tasks that a session needs did not come up in {self.timeout:g} seconds: {'; '.join(missing)}. "
                "Start them, or leave them out with device_filters in the session's ConfigProto.")
        return found

    def _ask(self, task: str, deadline: float) -> list[Device]:
        """The devices of a task; while there is time, a task that is lost on the way is asked again."""
        while True:
            try:
                link = self.links[task] = self.worker.peers.reach(task, deadline - time.monotonic())
                answer, _ = link.ask({"do": "devices"}, timeout=max(1.0, deadline - time.monotonic()))
                break
            except errors.UnavailableError:
                if deadline - time.monotonic() < _AGAIN_SECONDS or self.worker.peers.closed:
                    raise
                time.sleep(_AGAIN_SECONDS)
        out = []
        for name, kind, memory, incarnation in answer["devices"]:
            prefix, _, index = name.rpartition(f"/device:{kind}:")
            out.append(KINDS[kind](int(index), 0, memory, prefix, incarnation))
        return out

    def borrow(self, tasks: list[str]) -> list[Link]:
        """A link to each task for one step."""
        found: list[Link] = []
        try:
            for task in tasks:
                found.append(self.worker.peers.borrow(task, self.link(task).incarnation))
        except BaseException:
            for link in found:
                self.worker.peers.give_back(link)
            raise
        return found

    def link(self, task: str) -> Link:
        """The link to a task that is still the one the session began with; else AbortedError or UnavailableError."""
        link = self.links[task]
        if link.error is None:
            return link
        now = self.worker.peers.reach(task, min(1.0, self.timeout))
        if now.incarnation != link.incarnation:
            raise errors.AbortedError(None, None, f"The task {task} was restarted: its state is lost. Make a new session.")
        raise errors.AbortedError(None, None, f"The connection to {task} was lost, and the session there. Make a new session.")


def _passes(task: str, filters: Any) -> bool:
    """Whether a task is among those that device filters name; without any, all are."""
    have = parts_of(task)
    return not filters or any(all(w is None or w == h for w, h in zip(parts_of(f)[:3], have, strict=False)) for f in filters)


class _RemotePart:
    """The part of one other task: its number there, the feeds it takes, and the fetches it returns."""

    __slots__ = ("task", "number", "feeds", "fetches", "request", "heads")

    def __init__(self, session: str, task: str, number: int, part: Partition):
        self.task, self.number = task, number
        self.request = {"do": "run", "session": session, "part": number}
        self.heads: dict[tuple, Head] = {}                   # by what goes along
        self.feeds, self.fetches = sorted(i for i, _ in part.feeds), sorted(i for i, _ in part.fetches)


class TaskStep(Runnable):
    """A step that several tasks run together."""

    def __init__(self, session: ClusterSession, own: tuple[Part, list[int], list[int]] | None, others: list[_RemotePart],
                 fetches: int):
        self._session, self._own, self._others, self._fetches = session, own, others, fetches

    def run(self, ctx: Any, *values: Any, metadata: Any = None) -> tuple:
        """One step."""
        return _Run(self._session, self._own, self._others, self._fetches, ctx, metadata).go(values)

    def failing_op(self, traceback: Any) -> Operation | None:
        """Parts have named the op already."""
        return None

    def __str__(self) -> str:
        own = [f"# {self._session.tasks.own}\n{self._own[0].runnable.text()}"] if self._own is not None else []
        return "\n".join([*own, *(f"# {p.task}: part {p.number}" for p in self._others)])


class _Run:
    """One run of a step. The thread that requested it sends each task its part, runs this task's own, and reads what comes."""

    def __init__(self, session: ClusterSession, own: Any, others: list[_RemotePart], fetches: int, ctx: Any, metadata: Any):
        self.tasks, self.name, self.own, self.others, self.ctx = session.tasks, session.name, own, others, ctx
        self.results: list = [None] * fetches
        self.metadata = metadata
        self.error: BaseException | None = None
        self.number = next(_names)
        self.step = f"{self.tasks.steps}{self.number}"
        self.left: dict[Link, _RemotePart] = {}              # parts without an answer
        self.format = session._here.format
        self.own_ctx = session._here.session.step_context(None)
        self.own_ctx.deadline, self.own_ctx.step_id = ctx.deadline, ctx.step_id

    def go(self, values: tuple) -> tuple:
        """Runs the step; returns what it fetches."""
        worker, peers = self.tasks.worker, self.tasks.worker.peers
        links = self.tasks.borrow([p.task for p in self.others])
        exchange = worker.begin(self.step, self.own_ctx, None)
        exchange.format = self.format
        for link, part in zip(links, self.others, strict=True):
            exchange.links[link.peer] = link
            self.left[link] = part
        pump = exchange.pump = Pump.again(links, self._handle, self._link_ended)
        release = self.ctx.cancellation.on_cancel(lambda: (self.fail(self.ctx.cancellation.error), pump.wake()))
        try:
            self._start(exchange, values)
            self._run_own(exchange, pump, values)
            self._wait(pump)
        except BaseException as e:
            self.fail(e)
        if self.error is not None:
            self._end_everywhere(exchange, pump)
        release()
        exchange.pump = None
        pump.rest()
        if self.own is None:
            worker.end(self.step, self.error is not None)
        for link in links:
            if link in self.left:
                link.close()                                 # it may still carry messages of the failed step
            else:
                peers.give_back(link)
        if self.error is not None:
            raise self.error
        return tuple(self.results)

    def _start(self, exchange: Exchange, values: tuple) -> None:
        """Has all tasks begin: now, or with what this one sends before it first waits."""
        left, trace = self.ctx.remaining(), self.metadata is not None
        for link, part in self.left.items():
            exchange.openings[link] = functools.partial(self._begin, link, part, [values[i] for i in part.feeds], left, trace)
        if self.own is None or not self.own[0].begins_lightly:
            exchange.flush_all()

    def _begin(self, link: Link, part: _RemotePart, values: list, left: float | None, trace: bool, sent: list[Sent]) -> None:
        keys = keys_of(sent)
        head = part.heads.get(keys) if left is None and not trace else None
        if head is None:
            head = Head({**part.request, **({"keys": keys} if keys else {}), **({"timeout": left} if left is not None else {}),
                         **({"trace": True} if trace else {})})
            if left is None and not trace and len(part.heads) < _MOST_HEADS:
                part.heads[keys] = head
        link.post(head, values + values_of(sent) if sent else values, self.number)

    def _run_own(self, exchange: Exchange, pump: Pump, values: tuple) -> None:
        if self.own is None or self.error is not None:
            return
        part, feeds, fetches = self.own
        values = tuple([values[i] for i in feeds])
        if part.on_one_thread and not part.blocks and self.metadata is None:
            exchange.joins = part.joins
            got = self.tasks.worker.run(exchange, part, self.own_ctx, values)
            exchange.flush_all()
        else:
            exchange.pump = None                             # others run it, while this thread reads
            exchange.flush_all()
            got = self.tasks.worker.run_beside(exchange, part, self.own_ctx, values, self.metadata, pump)
        for i, value in zip(fetches, got, strict=True):
            self.results[i] = value

    def _wait(self, pump: Pump) -> None:
        while self.left and self.error is None:
            with self.ctx.waiting(lambda: f"the parts of a step on {', '.join(sorted(p.task for p in self.left.values()))}",
                                  remote=True) as waited:
                while self.left and self.error is None:
                    pump.once(waited.patience(self.ctx.remaining()))

    def _handle(self, link: Link, header: dict[str, Any], values: list[Any]) -> None:
        do = header.get("do")
        if header.get("number") != self.number:
            return                                           # of a step that has failed
        if do == "tensor":
            self.own_ctx.rendezvous.take(header["keys"], values)
        elif do == "done":
            part = self.left.pop(link)
            said = header.get("error")
            if said is not None:
                self.fail(made_error(said))
                return
            for i, value in zip(part.fetches, values, strict=False):
                self.results[i] = value
            rest = values[len(part.fetches):]
            if self.metadata is not None:
                self.metadata.MergeFromString(rest.pop(0))
            if rest:
                self.own_ctx.rendezvous.take(header["keys"], rest)

    def _link_ended(self, link: Link, error: errors.OpError) -> None:
        self.left.pop(link, None)
        self.fail(error)

    def fail(self, error: BaseException | None) -> None:
        """The step has failed: the first error counts, and ends what this task does of it."""
        if self.error is None and error is not None:
            self.error = error
            self.own_ctx.cancellation.cancel(_aborted(error))

    def _end_everywhere(self, exchange: Exchange, pump: Pump) -> None:
        """Ends a failed step at all tasks, and waits until it has ended there."""
        for link in exchange.openings:
            self.left.pop(link, None)                        # it has not begun there
        master, why = self.tasks.steps[:-1], f"The step has failed on another task: {self.error}"
        for part in self.left.values():
            try:
                self.tasks.links[part.task].post({"do": "abort", "master": master, "why": why}, None, self.number)
            except errors.OpError:
                pass                                         # lost: the pump will find out
        self.tasks.worker.abort(self.step, _aborted(self.error))
        deadline = time.monotonic() + _END_SECONDS
        while self.left and time.monotonic() < deadline:
            pump.once(deadline - time.monotonic())


def _aborted(error: BaseException | None) -> errors.OpError:
    return error if isinstance(error, errors.OpError) else errors.AbortedError(None, None, f"The step has failed: {error!r}")


class ClusterSession(TaskSession):
    """The session behind a client's: it places ops on the devices of all tasks, and runs steps across them."""

    def __init__(self, graph: Graph, config: Any, tasks: Tasks, name: str, trusted: bool):
        self.tasks, self.name, self._trusted = tasks, name, trusted
        self._opened: set[str] = set()
        self._opening = threading.Lock()
        self._parts = itertools.count(1)
        self._here = tasks.worker.open(name, config)
        super().__init__(config, self._here.resources, tasks.devices, graph)

    def _compiled(self, elements: list, feeds: list[Tensor]) -> _Step:
        ids = {id(t) for t in feeds}
        fetched = list({id(e): e for e in elements if isinstance(e, Tensor)}.values())
        targets = [e for e in elements if isinstance(e, Operation)]
        ops = needed(fetched, targets, ids)
        if not self._trusted:
            refuse_client_code(op.node_def for op in ops if op.opdef.client_code)
        placed = self._place(ops)
        if {d.task for d in placed.values()} <= {self.tasks.own}:
            return super()._compiled(elements, feeds)
        slots = [next(i for i, t in enumerate(fetched) if t is e) if isinstance(e, Tensor) else -1 for e in elements]
        return _Step(self.task_step(ops, fetched, targets, feeds), elements, feeds, slots, placed)

    def task_step(self, ops: list[Operation], fetches: list[Tensor], targets: list[Operation], feeds: list[Tensor]) -> TaskStep:
        """What runs ops on the tasks that they are placed on."""
        placed = self._place(ops)
        verify.placed(ops, placed)
        parts = by_task(ops, placed, self.tasks.hosts, fetches, feeds)
        several_block, branches = wait_for_each_other(ops), any(op.opdef.control_flow for op in ops)
        return TaskStep(self, *self._give_out(parts, {op.name for op in targets}, several_block, branches), len(fetches))

    def _watch_growth(self) -> None:
        """A session of eager ops (models/distribute/channel.py) grows with each new kind of call; others are told of."""
        if not self._config.experimental.share_session_state_in_clusterspec_propagation:
            super()._watch_growth()

    def _new_partial(self, elements: list, feeds: list[Tensor]) -> Any:
        ops = needed([e for e in elements if isinstance(e, Tensor)], [e for e in elements if isinstance(e, Operation)],
                     {id(t) for t in feeds})
        if {d.task for d in self._place(ops).values()} <= {self.tasks.own}:
            return super()._new_partial(elements, feeds)
        return TaskPartialRun(elements, feeds, self)

    def _give_out(self, parts: list[Partition], targets: set[str], several_block: bool,
                  branches: bool) -> tuple[Any, list[_RemotePart]]:
        """Registers each part with its task; returns this task's own, compiled, and the others. What may receive a dead tensor
        runs by tokens, as do ops that may wait for each other."""
        own, others = None, []
        answers: queue.SimpleQueue = queue.SimpleQueue()
        for part in parts:
            task = part.device.task
            message = part.graph.as_graph_def(add_shapes=True)
            keep_called(message)
            for node in message.node:
                node.attr.pop("_class", None)               # it has a device by now
            by_tokens = several_block or branches and bool(part.recvs)
            fetches = [[i, t.name] for i, t in sorted(part.fetches, key=lambda f: f[0])]
            mine = [op.name for op in part.positions if op.name in targets and op._origin is not None and not op.opdef.transfer]
            if task == self.tasks.own:
                for other in {t.target.task for t in part.sends}:
                    self.tasks.link(other)
                own = message, fetches, mine, part, by_tokens
                continue
            remote = _RemotePart(self.name, task, next(self._parts), part)
            others.append(remote)
            self._register(remote, message, {"fetches": fetches, "targets": mine, "by_tokens": by_tokens,
                                             "peers": sorted({t.target.task for t in part.sends} - {task})}, answers)
        made = None
        if own is not None:
            message, fetches, mine, part, by_tokens = own
            compiled = self._here.session.receive_part(message, fetches, mine, by_tokens, self._trusted)
            made = compiled, sorted(i for i, _ in part.feeds), sorted(i for i, _ in part.fetches)
        for _ in others:
            error = self._answer(answers, others)
            if error is not None:
                raise error
        return made, others

    def _answer(self, answers: queue.SimpleQueue, parts: list[_RemotePart]) -> BaseException | None:
        """The next answer. If one of the tasks is lost, that is the answer: the others may be trying to reach it."""
        while True:
            try:
                return answers.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                for part in parts:
                    error = self.tasks.links[part.task].error
                    if error is not None:
                        return error

    def _register(self, part: _RemotePart, message: Any, header: dict[str, Any], answers: queue.SimpleQueue) -> None:
        """Gives a task its part; its error, or None, is put among the answers."""
        link = self.tasks.link(part.task)
        self._open_at(part.task, link)
        link.call({"do": "register", "session": self.name, "part": part.number, **header}, [message.SerializeToString()],
                  lambda header, values, error: answers.put(error))

    def _open_at(self, task: str, link: Link) -> None:
        with self._opening:
            if task not in self._opened:
                link.ask({"do": "open", "session": self.name}, [self._config.SerializeToString()], timeout=self.tasks.timeout)
                self._opened.add(task)

    def _run_described(self, step: _Step, ctx: Any, values: list, options: Any, metadata: Any) -> tuple:
        if not isinstance(step.runnable, TaskStep):
            return super()._run_described(step, ctx, values, options, metadata)
        metadata.Clear()
        self._steps_run += 1
        if options is not None and options.output_partition_graphs:
            self._describe_partitions(step, metadata)
        every = self._option("build_cost_model")
        costs, traced = bool(every) and self._steps_run % every == 0, options is not None and options.trace_level
        if not (costs or traced):
            return step.runnable.run(ctx, *values)
        found = RunMetadata()
        raw = step.runnable.run(ctx, *values, metadata=found)
        if traced:
            metadata.step_stats.CopyFrom(found.step_stats)
        if costs:
            metadata.cost_graph.CopyFrom(found.cost_graph)
        return raw

    def leave(self) -> None:
        """Ends the session here and at all tasks that took part."""
        super().leave()
        for task in self._opened:
            link = self.tasks.links[task]
            try:
                link.post({"do": "close", "session": self.name})
            except errors.OpError:
                pass                                        # lost, and its session with it
        self.tasks.worker.close_session(self.name)


class MasterSession:
    """One session of one client; `trusted` if that is a part of this program."""

    def __init__(self, config: Any, worker: Worker, trusted: bool = False):
        self._config, self._trusted = config, trusted
        self._tasks = Tasks(worker, config)
        self._lock = threading.Lock()
        self._known: dict[str, Any] = {}
        self._base = f"{worker.peers.incarnation:x}/{next(_names)}"
        self._closed = False
        self.steps = 0                      # that were requested
        self._replace()

    def _replace(self) -> None:
        self._graph = Graph()
        self._session = ClusterSession(self._graph, self._config, self._tasks, f"{self._base}/{next(_names)}", self._trusted)
        self._known = {}

    def extend(self, header: dict, values: list) -> tuple[dict, list]:
        """Adds what the client has added to its graph, or starts over with the whole of it."""
        message = GraphDef.FromString(values[0])
        if not self._trusted:
            refuse_client_code(node for f in message.library.function for node in f.node_def)
        with self._lock:
            if header["fresh"] and self._graph._ops:
                old = self._session
                self._replace()
                old.leave()
            with self._graph.as_default():
                import_graph_def(message, input_map=self._outside(message), name="", validate_colocation_constraints=False)
        return {}, []

    def _outside(self, message: Any) -> dict[str, Any]:
        """What the new nodes take from old ones."""
        new = {n.name for n in message.node}
        found: dict[str, Any] = {}
        for node in message.node:
            for text in node.input:
                name = text.lstrip("^").partition(":")[0]
                if name not in new and text not in found:
                    found[text] = self._graph.get_operation_by_name(name) if text[0] == "^" else \
                        self._graph.get_tensor_by_name(text if ":" in text else f"{text}:0")
        return found

    def _elements(self, names: list[str]) -> list[Any]:
        found = []
        for name in names:
            element = self._known.get(name)
            if element is None:
                element = self._known[name] = self._graph.as_graph_element(name)
            found.append(element)
        return found

    def run(self, header: dict, values: list) -> tuple[dict, list]:
        """A step."""
        options = RunOptions.FromString(values.pop(0)) if header["options"] else None
        metadata = RunMetadata() if header["metadata"] else None
        elements = self._elements(header["fetches"])
        self.steps += 1
        step, raw = self._session._step(elements, self._elements(header["feeds"]), values, options, metadata)
        results = [raw[slot] if slot >= 0 else None for slot in step.slots]
        return {}, [*results, *([metadata.SerializeToString()] if metadata is not None else [])]

    def running_steps(self) -> list:
        """The steps that run now."""
        return list(self._session.running_steps())

    def cancel(self, header: dict, values: list) -> tuple[dict, list]:
        """Ends the steps that run now; the session continues."""
        for ctx in list(self._session._running.values()):
            ctx.cancellation.cancel(errors.CancelledError(None, None, str(header["why"])))
        return {}, []

    def lost(self, header: dict, values: list) -> tuple[dict, list]:
        """The tasks of the session that are lost, or whose connection is."""
        return {"lost": [task for task, link in self._tasks.links.items() if link.error is not None]}, []

    def partial_setup(self, header: dict, values: list) -> tuple[dict, list]:
        """Prepares a step in pieces."""
        handle = self._session.partial_run_setup(self._elements(header["fetches"]), self._elements(header["feeds"]))
        return {"handle": handle}, []

    def partial_run(self, header: dict, values: list) -> tuple[dict, list]:
        """Continues with a step in pieces."""
        state = self._session._partial.get(header["handle"])
        if state is None:
            raise errors.invalid("Must run 'setup' before performing partial runs!")
        return {}, state.run(self._elements(header["fetches"]), self._elements(header["feeds"]), values)

    def devices(self, header: dict, values: list) -> tuple[dict, list]:
        """The devices of all tasks that the session uses."""
        rows = [[d.name, d.device_type, d.memory_limit_bytes, d.incarnation] for d in self._session.list_devices()]
        return {"devices": rows}, []

    def close(self) -> None:
        """Ends the session, and drops its private state."""
        if not self._closed:
            self._closed = True
            self._session.leave()


def config_of(data: bytes) -> Any:
    """The ConfigProto of a client."""
    return ConfigProto.FromString(data)
