"""Running a schedule in eager execution: a thread for each stage, which pass results to the next.

A stage is a function, on a device, whose forward pass a tape records and whose backward pass plays that tape. The first error
ends all stages. What was done when is kept in `spans`, from which come the bubble and a timeline.
"""
from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from typing import Any

from penstock._src.base.waits import joined
from penstock._src.eager.tape import GradientTape
from penstock._src.graph import context
from penstock._src.graph.scopes import device
from penstock._src.models.pipelining import schedule as schedules
from penstock._src.ops.registry import get
from penstock._src.training.train.gradient_sums import added

PATIENCE = 600.0                # seconds that a stage waits for another before it logs that


class StageOf:
    """One stage: a function from a list of tensors to another, its device, and a function that returns its variables."""

    def __init__(self, function: Callable[[list], list], where: str, variables: Callable[[], list]):
        self.function, self.where, self.variables = function, where, variables


class Step:
    """One batch through a pipeline. `losses(outputs, micro-batch)` returns the part of the loss of one micro-batch."""

    def __init__(self, stages: Sequence[StageOf], plan: schedules.Schedule, inputs: list[list],
                 losses: Callable[[list, int], Any]):
        self._stages, self._plan, self._inputs, self._losses = stages, plan, inputs, losses
        self._results = {(s, t): Future() for s, tasks in enumerate(plan) for t in tasks}      # type: ignore[var-annotated]
        self._tapes: dict[tuple[int, int], tuple] = {}
        self.outputs: list[Any] = [None] * len(inputs)
        self.losses: list[Any] = [None] * len(inputs)
        self.gradients: list[dict[int, tuple]] = [{} for _ in stages]        # by variable: gradient, variable
        self.spans: list[list[tuple[schedules.Task, float, float]]] = [[] for _ in stages]

    # -- how it runs ---------------------------------------------------------------------------------------------------
    def run(self, threads: bool = True) -> None:
        """Runs all tasks, each stage on a thread; or on this one, for what must not be traced by several at once."""
        if not threads or len(self._stages) == 1:
            for stage, task in schedules.in_order(self._plan):
                self._do(stage, task)
            return
        workers = [threading.Thread(target=self._work, args=(s,), name=f"pipeline stage {s}")
                   for s in range(1, len(self._stages))]
        for w in workers:
            w.start()
        self._work(0)
        for w in workers:
            joined(w, lambda: "the other stages of a pipeline, to end")
        for future in self._results.values():
            error = future.exception()
            if error is not None and not isinstance(error, CancelledError):
                raise error

    def _work(self, stage: int) -> None:
        with context.enter(None):
            for task in self._plan[stage]:
                try:
                    self._do(stage, task)
                except BaseException as error:
                    self._end(stage, task, error)
                    return

    def _end(self, stage: int, task: schedules.Task, error: BaseException) -> None:
        """Ends all waits."""
        for key, future in self._results.items():
            if not future.done():
                future.set_exception(error if key == (stage, task) else CancelledError(f"stage {stage} failed"))

    def _do(self, stage: int, task: schedules.Task) -> None:
        given = [self._results[n].result(PATIENCE) for n in schedules.needs(len(self._stages), stage, task)]
        began = time.perf_counter()
        with device(self._stages[stage].where):
            made = self._forward(stage, task.micro, *given) if task.kind == "forward" else \
                self._backward(stage, task.micro, *given[1:])
        self.spans[stage].append((task, began, time.perf_counter()))
        future = self._results[stage, task]
        if not future.done():
            future.set_result(made)

    # -- what a task does ----------------------------------------------------------------------------------------------
    def _forward(self, stage: int, micro: int, given: list | None = None) -> list:
        taken = [get("Identity")(t) for t in (self._inputs[micro] if given is None else given)]
        watched = [t for t in taken if t.dtype.is_floating]
        last = stage == len(self._stages) - 1
        with GradientTape() as tape:
            tape.watch(watched)
            made = self._stages[stage].function(taken)
            if last:
                self.outputs[micro] = made
                self.losses[micro] = self._losses(made, micro)
        self._tapes[stage, micro] = tape, watched, [self.losses[micro]] if last else [t for t in made if t.dtype.is_floating]
        return made

    def _backward(self, stage: int, micro: int, above: list | None = None) -> list:
        tape, watched, made = self._tapes.pop((stage, micro))
        pairs = [(t, g) for t, g in zip(made, above or [None] * len(made), strict=True) if above is None or g is not None]
        variables = self._stages[stage].variables()
        found = tape.gradient([t for t, _ in pairs], watched + variables,
                              output_gradients=None if above is None else [g for _, g in pairs])
        total = self.gradients[stage]
        for variable, gradient in zip(variables, found[len(watched):], strict=True):
            before = total.get(id(variable), (None, variable))[0]
            total[id(variable)] = added(before, gradient), variable
        return found[:len(watched)]

    # -- the results ---------------------------------------------------------------------------------------------------
    def bubble(self) -> float:
        """The fraction of the time that stages waited."""
        return schedules.idle([[(b, e) for _, b, e in stage] for stage in self.spans])

    def timeline(self) -> str:
        """The timeline, as a Chrome trace (JSON)."""
        begin = min(b for stage in self.spans for _, b, _ in stage)
        events: list[dict] = [{"ph": "M", "pid": 0, "tid": s, "name": "thread_name",
                               "args": {"name": f"stage {s}: {stage.where}"}} for s, stage in enumerate(self._stages)]
        events += [{"ph": "X", "pid": 0, "tid": s, "name": f"{task.kind} {task.micro}", "cat": task.kind,
                    "ts": (b - begin) * 1e6, "dur": (e - b) * 1e6}
                   for s, spans in enumerate(self.spans) for task, b, e in spans]
        return json.dumps({"traceEvents": events})
