"""tf.profiler.profile and Profiler: a graph, the times of steps that ran, and the views over them."""
from __future__ import annotations

import os
import sys
from typing import Any

from penstock._src.base import errors
from penstock._src.base.api import export
from penstock._src.execute.timeline import Timeline
from penstock._src.graph.context import default_graph
from penstock._src.graph.messages import OpLogProto
from penstock._src.training.profiler import views
from penstock._src.training.profiler.counts import RULES, float_operations
from penstock._src.training.profiler.messages import AdviceProto, GraphNodeProto, MultiGraphNodeProto
from penstock._src.training.profiler.options import ALL

_PROFILE_ALL = 0                 # the default of `options`: everything


@export(v1=["profiler.Profiler"])
class Profiler:
    """Profiles of a graph over several steps.

    >>> profiler = tf.profiler.Profiler(session.graph)
    >>> session.run(train, options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), run_metadata=metadata)
    >>> profiler.add_step(1, metadata)
    >>> profiler.profile_operations(tf.profiler.ProfileOptionBuilder.time_and_memory())
    """

    def __init__(self, graph: Any = None, op_log: Any = None):
        self._graph = graph if graph is not None else default_graph()
        self._steps: dict[int, Any] = {}

    def add_step(self, step: int, run_meta: Any) -> None:
        """Adds the times of a step."""
        self._steps[step] = run_meta

    def profile_name_scope(self, options: Any) -> Any:
        """Counts by name scope, as a GraphNodeProto."""
        return self._view("scope", options)

    def profile_graph(self, options: Any) -> Any:
        """Counts by inputs, as a GraphNodeProto."""
        return self._view("graph", options)

    def profile_operations(self, options: Any) -> Any:
        """Counts by kind of op, as a MultiGraphNodeProto."""
        return self._view("op", options)

    def profile_python(self, options: Any) -> Any:
        """Counts by line of the program, as a MultiGraphNodeProto."""
        return self._view("code", options)

    def advise(self, options: Any) -> Any:
        """The ops that took longest, and those with unknown counts, as an AdviceProto."""
        return _advice(self._graph, self._times(-1))

    def serialize_to_string(self) -> bytes:
        """The profile as bytes: the tree by name scope."""
        return self._view("scope", {**ALL, "output": "none"}).SerializeToString()

    def _view(self, kind: str, options: Any) -> Any:
        chosen = {**ALL, **(options or {})}
        times = self._times(chosen["step"])
        trainable = _trainable(self._graph)
        ops = [op for op in self._graph.get_operations() if views.accounted(op, trainable, chosen["account_type_regexes"])]
        counts = {op.name: views.count(op, times) for op in ops}
        if kind == "scope":
            root = views.by_scope(ops, counts)
        elif kind == "graph":
            root = views.by_inputs(ops, counts)
        else:
            root = views.by_group(ops, counts, views.line_of if kind == "code" else lambda op: op.type)
        root.add_up()
        root = views.start(root, chosen["start_name_regexes"])
        root.add_up()
        views.prune(root, chosen)
        if chosen["account_displayed_op_only"]:
            root.add_up()
        _write(root, chosen, self._steps)
        return _message(root, multi=kind in ("op", "code"))

    def _times(self, step: int) -> dict[str, dict[str, int]]:
        """Times and bytes by name of op: of one step, or the mean of all."""
        steps = list(self._steps.values()) if step < 0 else [self._steps[step]] if step in self._steps else []
        found: dict[str, dict[str, int]] = {}
        for metadata in steps:
            for device in metadata.step_stats.dev_stats:
                for node in device.node_stats:
                    _add(found.setdefault(node.node_name.partition(":")[0], {}), device.device, node)
        if len(steps) > 1:
            found = {name: {f: v // len(steps) for f, v in counts.items()} for name, counts in found.items()}
        return found


def _add(counts: dict[str, int], device: str, node: Any) -> None:
    micros = max(node.op_end_rel_micros - node.op_start_rel_micros, 0) or node.all_end_rel_micros
    kind = "accelerator_exec_micros" if "gpu" in device.lower() else "cpu_exec_micros"
    memory = list(node.memory)
    new = {"exec_micros": micros, kind: micros, "run_count": 1,
           "requested_bytes": sum(m.total_bytes for m in memory), "peak_bytes": sum(m.peak_bytes for m in memory),
           "residual_bytes": sum(m.live_bytes for m in memory),
           "output_bytes": sum(o.tensor_description.allocation_description.requested_bytes for o in node.output)}
    for field, value in new.items():
        counts[field] = counts.get(field, 0) + value


def _trainable(graph: Any) -> set[str]:
    return {v.op.name for v in graph.get_collection("trainable_variables")}


def _write(root: views.Node, options: dict[str, Any], steps: dict[int, Any]) -> None:
    """Writes a profile to the output of its options."""
    kind, _, rest = options["output"].partition(":")
    path = rest.partition("outfile=")[2]
    if kind == "stdout":
        sys.stdout.write(views.text(root, options))
    elif kind == "file":
        with open(path, "w") as file:
            file.write(views.text(root, options))
    elif kind == "timeline":
        if not steps:
            raise ValueError("a timeline needs a step: add_step(step, run_metadata)")
        chosen = steps[options["step"]] if options["step"] in steps else steps[max(steps)]
        with open(path, "w") as file:
            file.write(Timeline(chosen.step_stats).generate_chrome_trace_format())
    elif kind != "none":
        raise errors.UnimplementedError(None, None, f"profiles are written to stdout, files and timelines, not as {kind}")


def _message(node: views.Node, multi: bool) -> Any:
    made = MultiGraphNodeProto(name=node.name) if multi else GraphNodeProto(name=node.name)
    fields = {f.name for f in made.DESCRIPTOR.fields}
    for field in (*views.FIELDS, "definition_count"):
        for name, values in ((field, node.own), (f"total_{field}", node.total)):
            if name in fields:
                setattr(made, name, values[field])
    if multi:
        made.graph_nodes.extend(GraphNodeProto(name=op.name) for op in node.ops)
    elif node.device:
        made.devices.append(node.device)
    made.children.extend(_message(child, multi) for child in node.children)
    return made


def _advice(graph: Any, times: dict[str, dict[str, int]]) -> Any:
    made = AdviceProto()
    slowest = sorted(times, key=lambda n: -times[n].get("exec_micros", 0))[:3]
    total = sum(t.get("exec_micros", 0) for t in times.values())
    for name in slowest:
        micros = times[name].get("exec_micros", 0)
        made.checkers["ExpensiveOperationChecker"].reports.append(f"{name}: {views.shown(micros, 'micros')} of "
                                                                  f"{views.shown(total, 'micros')}")
    unknown = [op.name for op in graph.get_operations() if op.type in RULES and not float_operations(op)]
    if unknown:
        made.checkers["OperationChecker"].reports.append(f"float operations of {len(unknown)} ops are not known, as their "
                                                         f"shapes are not: {', '.join(unknown[:5])}")
    return made


@export(v1=["profiler.profile"])
def profile(graph: Any = None, run_meta: Any = None, op_log: Any = None, cmd: str = "scope",
            options: Any = _PROFILE_ALL) -> Any:
    """A profile of a graph: by name scope (`scope`), inputs (`graph`), kind of op (`op`) or line of the program (`code`).

    >>> flops = tf.profiler.profile(graph, options=tf.profiler.ProfileOptionBuilder.float_operation())
    >>> flops.total_float_ops
    """
    if cmd not in ("scope", "graph", "op", "code"):
        raise errors.InvalidArgumentError(None, None, f"unknown cmd: {cmd!r}; it may be scope, graph, op or code")
    profiler = Profiler(graph)
    if run_meta is not None:
        profiler.add_step(1, run_meta)
    chosen = dict(ALL) if options is _PROFILE_ALL or options is None else options
    if chosen.get("step", -1) not in (-1, 1):
        chosen = {**chosen, "step": -1}
    return profiler._view(cmd, chosen)


@export(v1=["profiler.advise"])
def advise(graph: Any = None, run_meta: Any = None, options: Any = _PROFILE_ALL) -> Any:
    """Advice about a graph and the step that ran, as an AdviceProto."""
    profiler = Profiler(graph)
    if run_meta is not None:
        profiler.add_step(1, run_meta)
    return profiler.advise(options)


@export(v1=["profiler.write_op_log"])
def write_op_log(graph: Any, log_dir: str, op_log: Any = None, run_meta: Any = None, add_trace: bool = True) -> None:
    """Writes the known facts of each op (float operations, role, line of the program) to `tfprof_log` in a folder."""
    made = OpLogProto()
    if op_log is not None:
        made.CopyFrom(op_log)
    trainable = _trainable(graph)
    for op in graph.get_operations():
        flops = float_operations(op)
        if flops or op.name in trainable:
            entry = made.log_entries.add(name=op.name, float_ops=flops)
            if op.name in trainable:
                entry.types.append("_trainable_variables")
    os.makedirs(log_dir, exist_ok=True)
    with open(os.path.join(log_dir, "tfprof_log"), "wb") as file:
        file.write(made.SerializeToString())
