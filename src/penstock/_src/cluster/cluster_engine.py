"""The engine of a master: places the ops of a step on the devices of all tasks, and runs the step across them.

A step that needs several tasks is cut (step/partition/tasks.py), and each task gets its part once; `task_step.py` runs it.
"""
from __future__ import annotations

import itertools
import queue
import threading
from typing import Any

from penstock._src.base import errors
from penstock._src.cluster.link import Link
from penstock._src.cluster.task_engine import refuse_client_code
from penstock._src.cluster.task_step import OwnPart, RemotePart, TaskStep
from penstock._src.cluster.tasks import Tasks
from penstock._src.execute.partial import PartialRun
from penstock._src.execute.pieces import PiecewiseRun
from penstock._src.graph import verify
from penstock._src.graph.function_messages import keep_called
from penstock._src.graph.graph import Graph
from penstock._src.graph.messages import RunMetadata
from penstock._src.graph.node import Operation, Tensor
from penstock._src.graph.prune import needed
from penstock._src.session.local import LocalEngine, Step
from penstock._src.step.compile.program import wait_for_each_other
from penstock._src.step.ir import StepGraph
from penstock._src.step.partition.split import Partition
from penstock._src.step.partition.tasks import by_task
from penstock._src.step.runnable import Runnable

_LOOK_SECONDS = 0.5                 # seconds between two checks of links while a task is slow to answer


class ClusterEngine(LocalEngine):
    """The engine behind a client's session: it places ops on the devices of all tasks, and runs steps across them."""

    def __init__(self, graph: Graph, config: Any, tasks: Tasks, name: str, trusted: bool):
        self.tasks, self.name, self._trusted = tasks, name, trusted
        self._opened: set[str] = set()
        self._opening = threading.Lock()
        self._parts = itertools.count(1)
        self._here = tasks.worker.open(name, config)
        super().__init__(graph, config, tasks.devices, self._here.resources)

    def _compiled(self, elements: list, feeds: list[Tensor]) -> Step:
        ids = {id(t) for t in feeds}
        fetched = list({id(e): e for e in elements if isinstance(e, Tensor)}.values())
        targets = [e for e in elements if isinstance(e, Operation)]
        ops = needed(fetched, targets, ids)
        if not self._trusted:
            refuse_client_code(op.node_def for op in ops if op.opdef.client_code)
        step = StepGraph(ops, fetched, targets, feeds)
        self.place(step)
        if {op.place.task for op in step.ops} <= {self.tasks.own}:
            return super()._compiled(elements, feeds)
        slots = [next(i for i, t in enumerate(fetched) if t is e) if isinstance(e, Tensor) else -1 for e in elements]
        return Step(self.task_step(step), elements, feeds, slots, ops)

    def task_step(self, step: StepGraph) -> TaskStep:
        """What runs a placed step on the tasks that its nodes are placed on."""
        verify.placed(step.ops)
        parts = by_task(step, self.tasks.hosts)
        several_block, branches = wait_for_each_other(step.ops), step.has_control_flow
        own, others = self._give_out(parts, {op.name for op in step.targets}, several_block, branches)
        return TaskStep(self.tasks, self._here, own, others, len(step.fetches))

    def _watch_growth(self) -> None:
        """Warns of a growing graph, except in sessions of eager ops (models/distribute/channel.py), which grow with each kind
        of call."""
        if not self._config.experimental.share_session_state_in_clusterspec_propagation:
            super()._watch_growth()

    def _new_partial(self, elements: list, feeds: list[Tensor]) -> PartialRun:
        fetched, targets = [e for e in elements if isinstance(e, Tensor)], [e for e in elements if isinstance(e, Operation)]
        step = StepGraph(needed(fetched, targets, {id(t) for t in feeds}), fetched, targets, feeds)
        self.place(step)
        if {op.place.task for op in step.ops} <= {self.tasks.own}:
            return super()._new_partial(elements, feeds)
        return PiecewiseRun(elements, feeds, self)

    def _new_piece(self, ops: list[Operation], fetches: list[Tensor], targets: list[Operation],
                   feeds: list[Tensor]) -> Runnable:
        step = StepGraph(ops, fetches, targets, feeds)
        self.place(step)
        return self.task_step(step)

    def _give_out(self, parts: list[Partition], targets: set[str], several_block: bool,
                  branches: bool) -> tuple[OwnPart | None, list[RemotePart]]:
        """Registers each part with its task; returns this task's own, compiled, and the others. A part that may receive dead
        tensors, or whose ops may wait for each other, runs on the dataflow executor."""
        own, others = None, []
        answers: queue.SimpleQueue = queue.SimpleQueue()
        for part in parts:
            task = part.device.task
            message = part.as_graph_def(add_shapes=True)
            keep_called(message)
            for node in message.node:
                node.attr.pop("_class", None)               # assigned by now
            by_tokens = several_block or branches and bool(part.recvs)
            fetches = [[i, t.name] for i, t in sorted(part.fetches, key=lambda f: f[0])]
            mine = [op.name for op in part.positions if op.name in targets and op.origin is not None and not op.opdef.transfer]
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
            compiled = self._here.engine.receive_part(message, fetches, mine, by_tokens, self._trusted)
            made = OwnPart(compiled, sorted(i for i, _ in part.feeds), sorted(i for i, _ in part.fetches))
        for _ in others:
            error = self._answer(answers, others)
            if error is not None:
                raise error
        return made, others

    def _answer(self, answers: queue.SimpleQueue, parts: list[RemotePart]) -> BaseException | None:
        """The next answer; the error if one of the tasks is lost, because the others may be trying to reach it."""
        while True:
            try:
                return answers.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                for part in parts:
                    error = self.tasks.links[part.task].error
                    if error is not None:
                        return error

    def _register(self, part: RemotePart, message: Any, header: dict[str, Any], answers: queue.SimpleQueue) -> None:
        """Sends a task its part, and queues its error, or None, as the answer."""
        link = self.tasks.link(part.task)
        self._open_at(part.task, link)
        link.call({"do": "register", "session": self.name, "part": part.number, **header}, [message.SerializeToString()],
                  lambda header, values, error: answers.put(error))

    def _open_at(self, task: str, link: Link) -> None:
        with self._opening:
            if task not in self._opened:
                link.ask({"do": "open", "session": self.name}, [self._config.SerializeToString()], timeout=self.tasks.timeout)
                self._opened.add(task)

    def _run_described(self, step: Step, ctx: Any, values: list, options: Any, metadata: Any) -> tuple:
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

    def close(self) -> None:
        """Ends the session here and at all tasks that took part."""
        super().close()
        for task in self._opened:
            link = self.tasks.links[task]
            try:
                link.post({"do": "close", "session": self.name})
            except errors.OpError:
                pass                                        # lost, and its session with it
        self.tasks.worker.close_session(self.name)
