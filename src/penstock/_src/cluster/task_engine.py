"""The devices and resources of one task, for a session of a master: compiles the parts of steps that the master assigns."""
from __future__ import annotations

from typing import Any

from penstock._src.base import errors
from penstock._src.base.modes import paused_collector
from penstock._src.execute.context import ResourceManager, StepContext
from penstock._src.execute.lanes import Threads
from penstock._src.execute.trace import TracedRun
from penstock._src.graph.failure import typed
from penstock._src.graph.graph import Graph
from penstock._src.graph.importer import import_graph_def
from penstock._src.graph.node import AnyOp, Operation, Tensor
from penstock._src.kernels import waiting
from penstock._src.kernels.devices.device_config import use_threads
from penstock._src.kernels.devices.devices import DeviceSet
from penstock._src.kernels.host_threads import on_cores
from penstock._src.ops import rules
from penstock._src.ops.registry import OPS
from penstock._src.step.compiler import compile_step
from penstock._src.step.ir import StepGraph
from penstock._src.step.optimize.options import options_of
from penstock._src.step.runnable import Runnable
from penstock._src.step.spec import StepEnv, StepSpec


def refuse_client_code(nodes: Any) -> None:
    """FailedPreconditionError if nodes call Python functions, which exist only in the client's process."""
    for node in nodes:
        opdef = OPS.get(node.op)
        if opdef is not None and opdef.client_code:
            raise errors.FailedPreconditionError(
                None, None, f"{node.name} ({node.op}) calls a Python function of the client's program, which a server does "
                "not have, and would not run. Run it in a local session, or express it with ops.")


class Part:
    """The part of a distributed step that a task runs."""

    def __init__(self, runnable: Runnable, ops: list[Operation], fetches: list[Tensor], feeds: list[Tensor],
                 engine: TaskEngine):
        self.runnable, self._ops, self._fetches, self._feeds, self._engine = runnable, ops, fetches, feeds, engine
        self.feeds = len(feeds)
        self.on_one_thread = runnable.on_one_thread and not any(op.opdef.calls for op in ops)
        self.blocks = any(op.opdef.blocking for op in ops)
        self.joins, self.begins_lightly = joined(runnable.sequence) if self.on_one_thread else (frozenset(), False)
        self.waits_for_nothing = not any(op.opdef.blocking or op.opdef.transfer == "recv" for op in ops)
        self.seconds = 1.0                           # of a typical run; the first one is not representative
        self.runs = 0

    def run(self, ctx: StepContext, values: Any) -> tuple:
        """Runs one step; returns the fetched values."""
        waiting.machine.look()
        threads = waiting.machine.threads
        try:
            results = on_cores(threads, self.runnable.run, ctx, *values) if threads else self.runnable.run(ctx, *values)
            if ctx.deadline is not None:
                ctx.remaining()
            return results
        except BaseException as e:
            op = self.runnable.failing_op(e.__traceback__)
            raise typed(e, op, op.device if op is not None else "") from None

    def run_traced(self, ctx: StepContext, values: Any, metadata: Any) -> tuple:
        """One step op by op, with times and costs for RunMetadata."""
        step = StepGraph(self._ops, self._fetches, [], self._feeds)
        self._engine.place(step)
        run = TracedRun(step, ctx)
        results = run.run(ctx, list(values))
        run.step_stats(metadata.step_stats)
        run.cost_graph(metadata.cost_graph)
        return results


def joined(ops: list[AnyOp]) -> tuple[frozenset[str], bool]:
    """The edges whose values may be sent together with later ones, because nothing slow happens in between; and whether the ops
    wait for a value before they do anything slow."""
    edges, soon, first = set(), True, False
    for op in reversed(ops):
        transfer, opdef = op.opdef.transfer, op.opdef
        if transfer == "send":
            if soon:
                edges.add(op.attrs["tensor_name"])
            soon = True
        elif transfer == "recv":
            soon = first = True
        elif not (opdef in rules.costs.light or opdef.per_session or opdef.constant or rules.forwards(op)):
            soon = first = False
    return frozenset(edges), first


class TaskEngine:
    """A master's session at one task: its devices and resources, and the parts that run there."""

    def __init__(self, config: Any, resources: ResourceManager, devices: DeviceSet):
        self.resources, self.devices = resources, devices
        self._passes = options_of(config)
        self._threads = Threads()
        self._inter_op = config.inter_op_parallelism_threads
        use_threads(config.intra_op_parallelism_threads)

    def step_context(self, timeout: float | None) -> StepContext:
        """The context of a step."""
        return StepContext(self.resources, self, timeout, devices=self.devices)

    @staticmethod
    def running_steps() -> list[int]:
        """Steps are counted by their master."""
        return []

    # -- parts of steps across tasks ----------------------------------------------------------------------------------
    def receive_part(self, message: Any, fetches: list, targets: list[str], by_tokens: bool, trusted: bool = False) -> Part:
        """Registers a part. It may call Python functions if it was created in this process."""
        if not trusted:
            for nodes in (message.node, *(f.node_def for f in message.library.function)):
                refuse_client_code(nodes)
        with paused_collector():
            graph = Graph()
            with graph.as_default():
                import_graph_def(message, name="", validate_colocation_constraints=False)
            fetched = [graph.get_tensor_by_name(str(name)) for _, name in sorted(fetches, key=lambda f: int(f[0]))]
            return self._compile_part(graph, fetched, [graph.get_operation_by_name(n) for n in targets], by_tokens)

    def _compile_part(self, graph: Graph, fetches: list[Tensor], targets: list[Operation], by_tokens: bool) -> Part:
        """A runnable for a part: optimized and, if this task has several devices, cut again. Sends to other tasks stay before
        the receives of this one."""
        feeds = [op.outputs[0] for op in sorted((op for op in graph._ops if op.opdef.transfer == "arg"),
                                                key=lambda op: op.attrs["index"])]
        ops = [op for op in graph._ops if op.opdef.transfer != "arg"]
        keep = [*targets, *(op for op in ops if op.opdef.transfer == "send")]
        env = StepEnv(self.step_context(None), self._passes, self._threads, self._inter_op, in_order=True, by_tokens=by_tokens)
        run = compile_step(StepSpec(ops, fetches, keep, feeds, self.place if len(self.devices) > 1 else None), env)
        return Part(run, ops, fetches, feeds, self)

    def place(self, step: StepGraph) -> None:
        """The pass that places a part: its master has chosen the devices, and names them."""
        for op in step.ops:
            op.place = self.devices.by_name.get(op.device)
            if op.place is None:
                raise errors.invalid(f"{op.name} was placed on {op.device}, which this task does not have. It "
                                     f"has: {self.devices.names}.")

    def close(self) -> None:
        """Ends the threads of the parts; the resources belong to the task."""
        self._threads.close()
