"""A traced step: op by op, with times, for RunMetadata.

Used when RunOptions ask for a trace or the configuration for a cost model; slower than the compiled program, with the
same kernels and the same results.
"""
from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable
from typing import Any

import torch

from penstock.execute.partial import PartialRun
from penstock.graph.node import Operation, Tensor


class TracedRun(PartialRun):
    """Runs the ops of one step in order and remembers when each ran and what it gave."""

    def __init__(self, fetches: list[Tensor], feeds: list[Tensor], ctx: Any, placed: dict[Operation, Any]):
        super().__init__(fetches, feeds, ctx, (lambda ops: placed) if ctx.devices.mixed else None)
        self._placed = placed
        self.times: list[tuple[Operation, int, int]] = []          # op, start and duration in ns

    def _execute(self, op: Operation) -> None:
        start = time.time_ns()
        t = time.perf_counter_ns()
        super()._execute(op)
        if op in self._placed and not self._placed[op].host:
            self._placed[op].synchronize()         # its kernels were only launched
        self.times.append((op, start, time.perf_counter_ns() - t))

    def trace(self, fetches: list[Tensor], targets: list[Operation], feeds: list[Tensor], values: list) -> tuple:
        """The fetched values, in order."""
        for op in targets:
            self._fetchable[id(op)] = op
        return tuple(self.run([*fetches, *targets], feeds, values)[:len(fetches)])

    def bytes_of(self, op: Operation) -> int:
        """The size of the outputs of an op."""
        return sum(map(self._size, op.outputs))

    def _size(self, t: Tensor) -> int:
        value = self._values.get(id(t))
        return value.nbytes if isinstance(value, torch.Tensor) else 0

    def step_stats(self, message: Any) -> None:
        """Fills a StepStats message."""
        devices: dict[str, Any] = {}
        for op, start, took in self.times:
            name = self._placed[op].name
            if name not in devices:
                devices[name] = message.dev_stats.add(device=name)
            node = devices[name].node_stats.add(
                node_name=op.name, all_start_micros=start // 1000, op_start_rel_micros=0, op_end_rel_micros=took // 1000,
                all_end_rel_micros=max(1, took // 1000), timeline_label=f"{op.name} = {op.type}("
                f"{', '.join(t.op.name for t in op._inputs)})", scheduled_micros=start // 1000)
            for i, _ in enumerate(op.outputs):
                node.output.add(slot=i)
            node.memory.add(allocator_name="cpu", total_bytes=self.bytes_of(op), peak_bytes=self.bytes_of(op))

    def cost_graph(self, message: Any) -> None:
        """Fills a CostGraphDef message."""
        number = {op: i for i, (op, _, _) in enumerate(self.times)}
        for i, (op, _, took) in enumerate(self.times):
            node = message.node.add(name=op.name, id=i, device=self._placed[op].name, compute_cost=took // 1000,
                                    compute_time=took // 1000)
            for t in op._inputs:
                if t.op in number:
                    node.input_info.add(preceding_node=number[t.op], preceding_port=t.value_index)
            node.control_input.extend(number[c] for c in op._control_inputs if c in number)
            for t in op.outputs:
                node.output_info.add(size=self._size(t), alias_input_port=-1)


def can_trace(ops: Iterable[Operation]) -> bool:
    """Whether a step can be run op by op: not if it has control flow, or ops that wait."""
    return not any(op.opdef.control_flow or op.opdef.blocking for op in ops)


class Measured:
    """A runnable that is measured once, after some runs: then it is to be placed anew, and this one is not used again."""

    def __init__(self, runnable: Any, period: int, measure: Callable[[Any, list], tuple]):
        self.runnable, self._measure = runnable, measure
        self._left = itertools.count(period, -1)
        self.failing_op = runnable.failing_op

    def run(self, ctx: Any, *values: Any) -> tuple:
        """One step, or the step that is measured."""
        return self._measure(ctx, list(values)) if next(self._left) == 0 else self.runnable.run(ctx, *values)

    def __str__(self) -> str:
        return getattr(self.runnable, "source", None) or str(self.runnable)
