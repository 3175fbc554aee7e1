"""A traced step: op by op, with times, for RunMetadata.

Used when RunOptions ask for a trace or the configuration for a cost model; slower than the compiled program, with the
same kernels and the same results.
"""
from __future__ import annotations

import time
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
        return sum(v.numel() * v.element_size() for v in (self._values.get(id(t)) for t in op.outputs)
                   if isinstance(v, torch.Tensor))

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
            for _ in op.outputs:
                node.output_info.add(size=self.bytes_of(op), alias_input_port=-1)
