"""A traced step: op by op, with times, for RunMetadata.

Used when RunOptions request a trace or the configuration requests a cost model: the user's ops run unoptimized on the dataflow
executor, slower than a program, with the same kernels and the same results.
"""
from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import torch

from penstock._src.execute.dataflow import CONSTANT, NORMAL, Executor
from penstock._src.graph.failure import typed
from penstock._src.step.ir import Node, StepGraph
from penstock._src.step.runnable import Runnable


class TracedRun:
    """Runs a step on the dataflow executor, and records for each op when it ran, how long, and the sizes of its outputs."""

    def __init__(self, step: StepGraph, ctx: Any):
        self._placed = step.placed or dict.fromkeys(step.ops, ctx.devices.host)
        self._executor = Executor(step.ops, step.fetches, step.feeds, ctx, self._placed if ctx.devices.mixed else None)
        self.times: list[tuple[Node, int, int, list[int]]] = []       # op, start and duration in ns, bytes
        for op, node in self._executor.nodes.items():
            if node.kind == CONSTANT:
                node.kind, node.call = NORMAL, self._timed(op, lambda value=node.value: value)
            elif node.call is not None:
                node.call = self._timed(op, node.call)

    def _timed(self, op: Node, call: Callable) -> Callable:
        device = self._placed[op]

        def run(*args: Any, **kwargs: Any) -> Any:
            start = time.time_ns()
            t = time.perf_counter_ns()
            out = call(*args, **kwargs)
            if not device.host:
                device.synchronize()                # its kernels were only launched
            self.times.append((op, start, time.perf_counter_ns() - t, _sizes(out)))
            return out
        return run

    def run(self, ctx: Any, values: list) -> tuple:
        """The fetched values."""
        try:
            return self._executor.run(ctx, *values)
        except Exception as e:
            raise typed(e, self._executor.failing_op(e.__traceback__)) from e

    def step_stats(self, message: Any) -> None:
        """Fills a StepStats message."""
        devices: dict[str, Any] = {}
        for op, start, took, sizes in self.times:
            name = self._placed[op].name
            if name not in devices:
                devices[name] = message.dev_stats.add(device=name)
            node = devices[name].node_stats.add(
                node_name=op.name, all_start_micros=start // 1000, op_start_rel_micros=0, op_end_rel_micros=took // 1000,
                all_end_rel_micros=max(1, took // 1000), timeline_label=f"{op.name} = {op.type}("
                f"{', '.join(t.op.name for t in op.inputs)})", scheduled_micros=start // 1000)
            for i, _ in enumerate(op.outputs):
                node.output.add(slot=i)
            node.memory.add(allocator_name="cpu", total_bytes=sum(sizes), peak_bytes=sum(sizes))

    def cost_graph(self, message: Any) -> None:
        """Fills a CostGraphDef message; the times of an op in a loop are added up."""
        total: dict[Node, int] = {}
        sizes: dict[Node, list[int]] = {}
        for op, _, took, size in self.times:
            total[op] = total.get(op, 0) + took
            sizes[op] = size
        number = {op: i for i, op in enumerate(total)}
        for op, i in number.items():
            node = message.node.add(name=op.name, id=i, device=self._placed[op].name, compute_cost=total[op] // 1000,
                                    compute_time=total[op] // 1000)
            for t in op.inputs:
                if t.op in number:
                    node.input_info.add(preceding_node=number[t.op], preceding_port=t.value_index)
            node.control_input.extend(number[c] for c in op.control_inputs if c in number)
            for n in sizes[op]:
                node.output_info.add(size=n, alias_input_port=-1)


def _sizes(out: Any) -> list[int]:
    """Bytes of each output of a kernel."""
    if isinstance(out, (tuple, list)):
        return [n for o in out for n in _sizes(o)]
    return [] if out is None else [out.nbytes if isinstance(out, torch.Tensor) else 0]


class Measured(Runnable):
    """A runnable that is measured once, after some runs; the step is then placed again, and this runnable is discarded."""

    def __init__(self, runnable: Runnable, period: int, measure: Callable[[Any, list], tuple]):
        self.runnable, self._measure = runnable, measure
        self._left = itertools.count(period, -1)

    def run(self, ctx: Any, *values: Any) -> tuple:
        """One step, or the step that is measured."""
        return self._measure(ctx, list(values)) if next(self._left) == 0 else self.runnable.run(ctx, *values)

    def failing_op(self, traceback: Any) -> Node | None:
        """The op that raised."""
        return self.runnable.failing_op(traceback)

    def text(self) -> str:
        """The step that is measured."""
        return self.runnable.text()
