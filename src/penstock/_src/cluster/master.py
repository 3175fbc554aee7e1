"""The master's side of a session: the graph that a client has sent, placed on the devices of all tasks, and its steps.

A step that needs several tasks is cut (step/partition/tasks.py), and each task gets its part once; `task_step.py` runs it. State
outlives sessions: all sessions of a task share its resources, unless they ask for state of their own.
"""
from __future__ import annotations

import itertools
import queue
import threading
from typing import Any

from penstock._src.base import errors
from penstock._src.cluster.link import Link
from penstock._src.cluster.partial import TaskPartialRun
from penstock._src.cluster.task_session import TaskSession, refuse_client_code
from penstock._src.cluster.task_step import OwnPart, RemotePart, TaskStep
from penstock._src.cluster.tasks import Tasks
from penstock._src.cluster.worker import Worker
from penstock._src.graph import verify
from penstock._src.graph.function_messages import keep_called
from penstock._src.graph.graph import Graph
from penstock._src.graph.importer import import_graph_def
from penstock._src.graph.messages import ConfigProto, GraphDef, RunMetadata, RunOptions
from penstock._src.graph.node import Operation, Tensor
from penstock._src.graph.prune import needed
from penstock._src.session.session import _Step
from penstock._src.step.compile.program import wait_for_each_other
from penstock._src.step.partition.split import Partition
from penstock._src.step.partition.tasks import by_task

_LOOK_SECONDS = 0.5                 # between two checks of links while a task takes its time to answer
_names = itertools.count(1)


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
        own, others = self._give_out(parts, {op.name for op in targets}, several_block, branches)
        return TaskStep(self.tasks, self._here, own, others, len(fetches))

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
                  branches: bool) -> tuple[OwnPart | None, list[RemotePart]]:
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
            remote = RemotePart(self.name, task, next(self._parts), part)
            others.append(remote)
            self._register(remote, message, {"fetches": fetches, "targets": mine, "by_tokens": by_tokens,
                                             "peers": sorted({t.target.task for t in part.sends} - {task})}, answers)
        made = None
        if own is not None:
            message, fetches, mine, part, by_tokens = own
            compiled = self._here.session.receive_part(message, fetches, mine, by_tokens, self._trusted)
            made = OwnPart(compiled, sorted(i for i, _ in part.feeds), sorted(i for i, _ in part.fetches))
        for _ in others:
            error = self._answer(answers, others)
            if error is not None:
                raise error
        return made, others

    def _answer(self, answers: queue.SimpleQueue, parts: list[RemotePart]) -> BaseException | None:
        """The next answer. If one of the tasks is lost, that is the answer: the others may be trying to reach it."""
        while True:
            try:
                return answers.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                for part in parts:
                    error = self.tasks.links[part.task].error
                    if error is not None:
                        return error

    def _register(self, part: RemotePart, message: Any, header: dict[str, Any], answers: queue.SimpleQueue) -> None:
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
