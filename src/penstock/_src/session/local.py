"""The engine of local sessions: compiles the step of a (fetches, feeds) pair once, and runs it in this process.

`run` reads top to bottom: the program for these fetches and feeds is looked up or made (prune, place, optimize, partition,
compile), then run, and its values are converted to numpy arrays.
"""
from __future__ import annotations

import itertools
import logging
import threading
from typing import Any

import numpy as np

from penstock._src.base import errors, progress
from penstock._src.base.modes import paused_collector
from penstock._src.execute.context import ResourceManager, StepContext
from penstock._src.execute.lanes import Threads
from penstock._src.execute.partial import PartialRun
from penstock._src.execute.pieces import Course, PiecewiseRun
from penstock._src.execute.trace import Measured, TracedRun
from penstock._src.graph.failure import typed
from penstock._src.graph.node import AnyOp, Operation, Tensor
from penstock._src.graph.prune import needed
from penstock._src.kernels import bridge, sharing
from penstock._src.kernels.devices.device import Device
from penstock._src.kernels.devices.device_config import use_threads
from penstock._src.kernels.devices.devices import DeviceSet, local_devices
from penstock._src.ops import rules
from penstock._src.session.engine import closed
from penstock._src.step.compiler import compile_step
from penstock._src.step.ir import Node, Place, StepGraph
from penstock._src.step.optimize.options import options_of
from penstock._src.step.partition.split import partition
from penstock._src.step.place.cost_placer import CostPlacer
from penstock._src.step.place.placer import Placer, to_stderr
from penstock._src.step.runnable import Runnable
from penstock._src.step.spec import StepEnv, StepSpec

_GROWTHS = 50                       # steps that found the graph grown before it is reported
_steps = itertools.count(1)


class Step:
    """A compiled (fetches, feeds) pair; keeps the objects in its key alive."""

    __slots__ = ("runnable", "elements", "feeds", "slots", "ops", "wraps", "waits")

    def __init__(self, runnable: Runnable, elements: list, feeds: list[Tensor], slots: list[int], ops: list[Operation]):
        self.runnable, self.elements, self.feeds, self.slots, self.ops = runnable, elements, feeds, slots, ops
        self.waits = any(op.opdef.blocking for op in ops)
        self.wraps = [(i, rules.fetches.fetched_as[e.op.opdef]) for i, e in enumerate(elements)
                      if isinstance(e, Tensor) and e.op.opdef in rules.fetches.fetched_as]


class LocalEngine:
    """Runs the steps of one graph over some devices. Without `devices`, those of this process; without `resources`, its own,
    which end with it. `whole` if the constraints of placement come from the whole graph, and not from each step."""

    def __init__(self, graph: Any, config: Any, devices: DeviceSet | None = None, resources: ResourceManager | None = None,
                 whole: bool = True):
        self._graph, self._config = graph, config
        self._passes = options_of(config)
        self._closed = False
        self._owns_resources = resources is None
        self.resources = ResourceManager() if resources is None else resources
        self.devices = DeviceSet(local_devices(config)) if devices is None else devices
        self._programs: dict[tuple, Step] = {}
        self._running: dict[int, StepContext] = {}
        self._version = graph._version
        self._lock = threading.Lock()
        self._partial: dict[str, PartialRun] = {}
        self._pieces: dict[tuple, Runnable] = {}
        self._courses: dict[tuple, Course] = {}
        soft, log = (config.allow_soft_placement, config.log_device_placement) if config is not None else (False, False)
        self._period = config.placement_period if config is not None and len(self.devices) > 1 else 0
        self._placer = (CostPlacer if self._period > 0 else Placer)(self.devices, soft, to_stderr if log else None)
        self._whole = whole and not self._option("place_pruned_graph")
        self._threads = Threads()
        self._inter_op = config.inter_op_parallelism_threads if config is not None else 0
        use_threads(config.intra_op_parallelism_threads if config is not None else 0)
        self._known = 0                      # how many ops of the graph were placed
        self._steps_run = 0
        self._newest: Operation | None = None       # the last op of the graph when a step was compiled
        self._growths = 0
        self._timeout = (config.operation_timeout_in_ms or 0) / 1000 if config is not None else 0

    def _option(self, name: str) -> Any:
        """A field of the configuration's graph_options, or its default."""
        return getattr(self._config.graph_options, name) if self._config is not None else False

    # -- running ------------------------------------------------------------------------------------------------------
    def run(self, elements: list, feeds: list[Tensor], values: list, options: Any = None, metadata: Any = None) -> list:
        """Runs a step; returns numpy values."""
        if progress.process.reporters:
            with progress.process.step():
                return self._results(*self.step(elements, feeds, values, options, metadata))
        return self._results(*self.step(elements, feeds, values, options, metadata))

    def step(self, elements: list, feeds: list[Tensor], values: list, options: Any, metadata: Any) -> tuple[Step, Any]:
        """Runs a step; returns it with its run-time values."""
        key = (*map(id, elements), None, *map(id, feeds))
        step = self._programs.get(key)
        if step is None or self._version != self._graph._version:
            step = self._compile(key, elements, feeds)
        runnable = step.runnable.pick(values)
        ctx = self.context(options)
        token = id(ctx)
        self._running[token] = ctx
        sharing.begin(token, not runnable.unlocked, step.waits)
        try:
            if metadata is not None:
                raw = self._run_described(step, ctx, values, options, metadata)
            else:
                raw = runnable.run(ctx, *values)
            if ctx.deadline is not None:
                ctx.remaining()                      # a step that exceeded its timeout has failed
        except BaseException as e:
            raise self._failure(e, step, runnable) from (e if not isinstance(e, errors.OpError) else e.__cause__)
        finally:
            del self._running[token]
            sharing.end(token)
            for call in tuple(ctx.at_end.values()):
                call()
        return step, raw

    def running_steps(self) -> list[int]:
        """The numbers of the steps that run now."""
        return [ctx.step_id for ctx in list(self._running.values())]

    def context(self, options: Any) -> StepContext:
        timeout = options.timeout_in_ms / 1000 if options is not None and options.timeout_in_ms else self._timeout
        return StepContext(self.resources, self, timeout or None, next(_steps), self.devices)

    def _results(self, step: Step, raw: tuple) -> list:
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

    def _compile(self, key: tuple, elements: list, feeds: list[Tensor]) -> Step:
        """Prunes, places, optimizes, partitions and compiles; the result is cached for the same fetches and feeds."""
        with self._lock:
            if self._version != self._graph._version:
                self._programs.clear()
                self._version = self._graph._version
        self._watch_growth()
        with paused_collector():
            step = self._programs[key] = self._compiled(elements, feeds)
        return step

    def _watch_growth(self) -> None:
        """Warns once, with the line, if a loop adds operations between its steps: each makes the next step slower."""
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

    def _compiled(self, elements: list, feeds: list[Tensor]) -> Step:
        ids = {id(t) for t in feeds}
        fetched = list({id(e): e for e in elements if isinstance(e, Tensor)}.values())
        slots = [next(i for i, t in enumerate(fetched) if t is e) if isinstance(e, Tensor) else -1 for e in elements]
        targets = [e for e in elements if isinstance(e, Operation)]
        ops = needed(fetched, targets, ids)
        ctx = StepContext(self.resources, self, devices=self.devices)
        runnable = compile_step(StepSpec(ops, fetched, targets, feeds, self._place_pass(ops, feeds)),
                                StepEnv(ctx, self._passes, self._threads, self._inter_op, whole=True))
        step = Step(runnable, elements, feeds, slots, ops)
        if isinstance(self._placer, CostPlacer) and self._placer.is_cold(ops):
            step.runnable = Measured(runnable, self._period, lambda ctx, values: self._measure(step, ctx, values))
        return step

    def _measure(self, step: Step, ctx: StepContext, values: list) -> tuple:
        """Runs a step op by op and passes the measured costs to the placer; the next run is placed again."""
        from tensorboard.compat.proto.cost_graph_pb2 import CostGraphDef
        run, raw = self._traced(step, ctx, values)
        message = CostGraphDef()
        run.cost_graph(message)
        with self._lock:
            self._placer.learn(message)
            self._programs.clear()
        return raw

    def _place_pass(self, ops: list[Operation], feeds: list[Tensor]) -> Place | None:
        """The pass that places a step of these ops; with one device, their requests are only checked and logged."""
        if len(self.devices) > 1:
            return self.place
        self._extend_placer(ops)
        with self._lock:
            if self._placer.logs:
                self._placer.chosen(StepGraph(ops, [], [], feeds))
        return None

    def _extend_placer(self, ops: list[Operation]) -> None:
        """Constraints come from the whole graph, or with place_pruned_graph from the ops of a step."""
        with self._lock:
            new = self._graph._ops[self._known:] if self._whole else ops
            self._placer.extend(new)
            self._known += len(new) if self._whole else 0

    def place(self, step: StepGraph) -> None:
        """The pass that assigns a device to each node of a step."""
        self._extend_placer([op.origin for op in step.ops])
        with self._lock:
            self._placer.place(step)

    def device_of(self, op: Operation) -> Device:
        """The device of a single op of the graph."""
        self._extend_placer([op])
        with self._lock:
            return self._placer.device_of(op)

    def _failure(self, error: BaseException, step: Step, runnable: Any) -> BaseException:
        op = runnable.failing_op(error.__traceback__) or self._unread(error, step)
        return typed(error, op, self._device_of(op) if op is not None else "")

    @staticmethod
    def _unread(error: BaseException, step: Step) -> Operation | None:
        """The fetched variable that had no value when the program returned it."""
        refs = [e.op for e in step.elements if isinstance(e, Tensor) and e.dtype._is_ref_dtype]
        words = error.message.split() if isinstance(error, errors.FailedPreconditionError) else ()
        return next((op for op in refs if op.name in words), None)

    def _device_of(self, op: AnyOp) -> str:
        """The device of an op of a step, for reports."""
        origin = op.origin or op
        if origin.graph is not self._graph:
            return origin.device
        return op.place.name if isinstance(op, Node) and op.place is not None else self.device_of(origin).name

    def _run_described(self, step: Step, ctx: StepContext, values: list, options: Any, metadata: Any) -> tuple:
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

    def _traced(self, step: Step, ctx: StepContext, values: list) -> tuple[TracedRun, tuple]:
        run = TracedRun(self._imported(step), ctx)
        return run, run.run(ctx, values)

    def _imported(self, step: Step) -> StepGraph:
        """The unoptimized ops of a step, placed."""
        fetched = list({id(e): e for e in step.elements if isinstance(e, Tensor)}.values())
        made = StepGraph(step.ops, fetched, [], step.feeds)
        self.place(made)
        return made

    def _describe_partitions(self, step: Step, metadata: Any) -> None:
        for part in partition(self._imported(step)):
            metadata.partition_graphs.add().CopyFrom(part.as_graph_def())

    # -- steps in pieces ----------------------------------------------------------------------------------------------
    def partial_run_setup(self, elements: list, feeds: list[Tensor]) -> str:
        """Prepares a step that runs in pieces."""
        handle = f"partial_run_{next(_steps)}"
        self._partial[handle] = self._new_partial(elements, feeds)
        return handle

    def _new_partial(self, elements: list, feeds: list[Tensor]) -> PartialRun:
        """The first time, and where references are passed on, ops run one by one: nothing is compiled, and references stay what
        they are between calls."""
        key = (self._graph._version, *map(id, elements), None, *map(id, feeds))
        course = self._courses.get(key)
        is_new = course is None
        if course is None:
            if self._courses and next(iter(self._courses))[0] != self._graph._version:
                self._courses.clear()
            course = self._courses[key] = Course(elements, feeds)
        if course.has_control_flow or not is_new and not course.has_references:
            return PiecewiseRun(elements, feeds, self, course)
        return PartialRun(elements, feeds, self.context(None), self.device_of if self.devices.mixed else None)

    def piece(self, ops: list[Operation], fetches: list[Tensor], targets: list[Operation], feeds: list[Tensor]) -> Runnable:
        """The compiled step of one call of partial_run; kept, because programs repeat their sequence of calls."""
        key = (self._graph._version, *map(id, ops), None, *map(id, fetches), None, *map(id, targets), None, *map(id, feeds))
        found = self._pieces.get(key)
        if found is None:
            if self._pieces and next(iter(self._pieces))[0] != self._graph._version:
                self._pieces.clear()
            found = self._pieces[key] = self._new_piece(ops, fetches, targets, feeds)
        return found

    def _new_piece(self, ops: list[Operation], fetches: list[Tensor], targets: list[Operation],
                   feeds: list[Tensor]) -> Runnable:
        ctx = StepContext(self.resources, self, devices=self.devices)
        return compile_step(StepSpec(ops, fetches, targets, feeds, self._place_pass(ops, feeds)),
                            StepEnv(ctx, self._passes, self._threads, self._inter_op, repeated=True))

    def continue_partial(self, handle: str, elements: list, feeds: list[Tensor], values: list) -> list:
        """Runs the next piece of a step; returns its run-time values."""
        state = self._partial.get(handle)
        if state is None:
            raise errors.InvalidArgumentError(None, None, "Must run 'setup' before performing partial runs!")
        results = state.run(elements, feeds, values)
        if state.is_finished:
            self._partial.pop(handle, None)
        return results

    def partial_run(self, handle: str, elements: list, feeds: list[Tensor], values: list) -> list:
        """Runs the next piece of a step; returns numpy values."""
        raw = self.continue_partial(handle, elements, feeds, values)
        return [None if isinstance(e, Operation) else bridge.fetched(v) for e, v in zip(elements, raw, strict=True)]

    # -- reports ------------------------------------------------------------------------------------------------------
    def list_devices(self) -> list:
        """The devices that ops may be placed on."""
        return list(self.devices.all)

    def explain(self, elements: list, feeds: list[Tensor]) -> str:
        """The program of a step as text."""
        step = self._compile((*map(id, elements), None, *map(id, feeds)), elements, feeds)
        return step.runnable.explained(feeds, self._device_of if len(self.devices) > 1 else lambda op: "")

    def explain_placement(self) -> str:
        """The device of each op of the graph, the reason, and the op that forced it."""
        with self._lock:
            return self._placer.fresh().explain(self._graph.get_operations())

    # -- the end ------------------------------------------------------------------------------------------------------
    def check_open(self) -> None:
        """RuntimeError after `close`."""
        if self._closed:
            raise closed()

    def cancel(self, error: errors.OpError) -> None:
        """Ends the steps that run now."""
        for ctx in list(self._running.values()):
            ctx.cancellation.cancel(error)

    def close(self) -> None:
        """Ends the running steps, and frees the resources that it owns."""
        self._closed = True
        self.cancel(errors.CancelledError(None, None, "Session was closed."))
        for state in self._partial.values():
            state.ctx.cancellation.cancel()
        self._threads.close()
        self._programs.clear()
        self._partial.clear()
        self._courses.clear()
        self._pieces.clear()
        if self._owns_resources:
            self.resources.clear()
