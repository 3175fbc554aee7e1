"""Timeline: the StepStats of a traced step as a Chrome trace (chrome://tracing, or ui.perfetto.dev), and its use of memory.

    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    metadata = tf.RunMetadata()
    sess.run(train_op, options=options, run_metadata=metadata)
    open("step.json", "w").write(Timeline(metadata.step_stats).generate_chrome_trace_format())

Each device is a process of the trace; ops that overlap are on their own threads. Arrows go from the op that makes a
tensor to those that take it; a counter shows the bytes alive on each allocator.
"""
from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

_LABEL = re.compile(r"^(?:\[.*?\] )?(?P<name>.+?) = (?P<op>\w+)\((?P<inputs>.*)\)$")


class ChromeTrace:
    """The events of a trace, in Chrome's format."""

    def __init__(self) -> None:
        self.metadata: list[dict] = []
        self.events: list[dict] = []

    def name_process(self, pid: int, name: str) -> None:
        """Names a process of the trace."""
        self.metadata.append({"name": "process_name", "ph": "M", "pid": pid, "args": {"name": name}})

    def region(self, pid: int, tid: int, start: int, took: int, name: str, args: dict) -> None:
        """An event with a duration."""
        self.events.append({"name": name, "cat": "Op", "ph": "X", "pid": pid, "tid": tid, "ts": start, "dur": took,
                            "args": args})

    def flow(self, number: int, source: tuple, target: tuple) -> None:
        """An arrow between two places, each (pid, tid, time)."""
        for kind, (pid, tid, at) in (("s", source), ("t", target)):
            self.events.append({"name": "flow", "cat": "DataFlow", "ph": kind, "id": number, "pid": pid, "tid": tid, "ts": at})

    def counter(self, pid: int, at: int, name: str, value: int) -> None:
        """The value of a counter at a time."""
        self.events.append({"name": name, "cat": "Memory", "ph": "C", "pid": pid, "tid": 0, "ts": at, "args": {name: value}})

    def format_to_string(self, pretty: bool = False) -> str:
        """The trace as JSON."""
        return json.dumps({"traceEvents": [*self.metadata, *self.events]}, indent=4 if pretty else None)


class AllocationMaximum(NamedTuple):
    """The most bytes that were alive at once, when, and which tensors they were."""
    timestamp: int
    num_bytes: int
    tensors: set


class StepStatsAnalysis(NamedTuple):
    """A trace, and the peak of each allocator."""
    chrome_trace: ChromeTrace
    allocator_maximums: dict


class _Ran(NamedTuple):
    """One op of the trace."""
    name: str
    op: str
    inputs: list
    start: int
    end: int
    pid: int
    tid: int
    memory: list


class Timeline:
    """Reads StepStats."""

    def __init__(self, step_stats: Any, graph: Any = None):
        self._step_stats, self._graph = step_stats, graph
        self._ran: list[_Ran] = []

    def generate_chrome_trace_format(self, show_dataflow: bool = True, show_memory: bool = False,
                                     op_time: str = "schedule") -> str:
        """The trace as JSON; with arrows, and with memory, if requested."""
        return self.analyze_step_stats(show_dataflow, show_memory, op_time).chrome_trace.format_to_string(pretty=True)

    def analyze_step_stats(self, show_dataflow: bool = True, show_memory: bool = True,
                           op_time: str = "schedule") -> StepStatsAnalysis:
        """The trace, and the peaks of memory."""
        trace = ChromeTrace()
        self._ran = []
        for pid, device in enumerate(self._step_stats.dev_stats):
            trace.name_process(pid, f"{device.device} Compute")
            self._lay_out(device, pid)
        for ran in self._ran:
            args = {"name": ran.name, "op": ran.op, **{f"input{i}": n for i, n in enumerate(ran.inputs)}}
            trace.region(ran.pid, ran.tid, ran.start, ran.end - ran.start, ran.op, args)
        if show_dataflow:
            self._arrows(trace)
        return StepStatsAnalysis(trace, self._memory(trace if show_memory else None))

    def _lay_out(self, device: Any, pid: int) -> None:
        """Assigns each op of a device to the first thread that is free when it starts."""
        free_at: list[int] = []
        for node in sorted(device.node_stats, key=lambda n: n.all_start_micros):
            start = node.all_start_micros
            end = start + max(node.all_end_rel_micros, node.op_end_rel_micros, 1)
            tid = next((i for i, t in enumerate(free_at) if t <= start), len(free_at))
            free_at[tid:tid + 1] = [end]
            name, op, inputs = self._parse(node)
            self._ran.append(_Ran(name, op, inputs, start, end, pid, tid, list(node.memory)))

    def _parse(self, node: Any) -> tuple[str, str, list]:
        """The name, type and inputs of an op, from its label."""
        found = _LABEL.match(node.timeline_label)
        if found is None:
            return node.node_name, node.node_name.split("/")[-1].split(":")[0], []
        inputs = [i.strip().lstrip("^").split(":")[0] for i in found["inputs"].split(",") if i.strip()]
        return found["name"], found["op"], inputs

    def _arrows(self, trace: ChromeTrace) -> None:
        makers = {r.name: r for r in self._ran}
        number = 0
        for ran in self._ran:
            for name in ran.inputs:
                maker = makers.get(name)
                if maker is not None:
                    trace.flow(number, (maker.pid, maker.tid, maker.end - 1), (ran.pid, ran.tid, ran.start))
                    number += 1

    def _memory(self, trace: ChromeTrace | None) -> dict:
        """The peaks by allocator: a value is alive from when its op starts until its last user has ended."""
        last_use: dict[str, int] = {}
        for ran in self._ran:
            for name in (ran.name, *ran.inputs):
                last_use[name] = max(last_use.get(name, 0), ran.end)
        changes: dict[str, list] = {}
        for ran in self._ran:
            for m in ran.memory:
                rows = changes.setdefault(m.allocator_name, [])
                what = (ran.name, m.total_bytes, ran.pid)
                rows += [(ran.start, 1, *what), (last_use[ran.name], 0, *what)]
        return {name: self._peak(name, rows, trace) for name, rows in changes.items()}

    def _peak(self, allocator: str, rows: list, trace: ChromeTrace | None) -> AllocationMaximum:
        alive: set[str] = set()
        total, peak = 0, AllocationMaximum(0, 0, set())
        for at, begins, name, size, pid in sorted(rows):
            (alive.add if begins else alive.discard)(name)
            total += size if begins else -size
            if total > peak.num_bytes:
                peak = AllocationMaximum(at, total, set(alive))
            if trace is not None:
                trace.counter(pid, at, allocator, total)
        return peak
