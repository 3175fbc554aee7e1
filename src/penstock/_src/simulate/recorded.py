"""A recorded step as a program: the CostGraphDef of a RunMetadata has each op's device, seconds, inputs and bytes.

The record has the devices of ops, so nothing is placed. Values between tasks are transferred as the partitioner does: once per
value and target. One of the tasks is the worker, of which a simulation may have many; the others are servers.
"""
from __future__ import annotations

import pathlib
from typing import Any

from penstock._src.base import errors
from penstock._src.graph.messages import RunMetadata
from penstock._src.kernels.devices.device_spec import parts_of
from penstock._src.simulate.plan import MASTER, PartCode, Run, Send, StepCode, Wait

_LARGEST = 1 << 30                  # bytes of a record


def load(path: str) -> Any:
    """The CostGraphDef of a file with a RunMetadata."""
    size = pathlib.Path(path).stat().st_size
    if size > _LARGEST:
        raise errors.invalid(f"{path} has {size} bytes, which is too much for a RunMetadata.")
    try:
        found = RunMetadata.FromString(pathlib.Path(path).read_bytes()).cost_graph
    except Exception as e:
        raise errors.DataLossError(None, None, f"{path} is not a RunMetadata message: {e}") from None
    if not found.node:
        raise errors.invalid(f"{path} has no cost_graph: set build_cost_model in the GraphOptions of the session.")
    return found


def tasks_of(cost_graph: Any) -> list[str]:
    """The tasks of a record."""
    return sorted({_task(n.device) for n in cost_graph.node})


def _task(device: str) -> str:
    return device.rsplit("/device:", 1)[0]


def step_code(cost_graph: Any, worker: str | None = None) -> StepCode:
    """The step of the recorded worker: by default the first task whose job is not "ps"."""
    tasks = tasks_of(cost_graph)
    own = worker or next((t for t in tasks if parts_of(t)[0] != "ps"), tasks[0])
    if own not in tasks:
        raise errors.invalid(f"The record has no task {own}; it has {', '.join(tasks)}.")
    code: dict[str, list] = {t: [] for t in tasks}
    task = {n.id: _task(n.device) for n in cost_graph.node}
    sizes = {n.id: [o.size for o in n.output_info] for n in cost_graph.node}
    there: set[tuple[int, int, str]] = set()
    for node in sorted(cost_graph.node, key=lambda n: n.id):
        here = task[node.id]
        needs = [(i.preceding_node, i.preceding_port) for i in node.input_info] + [(c, -1) for c in node.control_input]
        for source, port in needs:
            if source in task and task[source] != here and (source, port, here) not in there:
                there.add((source, port, here))
                size = sizes[source][port] if 0 <= port < len(sizes[source]) else 0
                key = f"{source}:{port}>{here}"
                code[task[source]].append(Send(MASTER if here == own else here, (key,), size, (None,)))
                code[here].append(Wait(key, None))
        code[here].append(Run(node.compute_time * 1e-6, node.name))
    return StepCode({MASTER if t == own else t: PartCode(c, None, False) for t, c in code.items()}, {}, 0)
