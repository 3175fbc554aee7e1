"""The status of a cluster as Prometheus reads it: `/metrics` of the page, with its key as the bearer token."""
from __future__ import annotations

from typing import Any

from penstock._src.cluster.status import stragglers

# Name, type and meaning; the values are computed below, in this order.
METRICS = (
    ("penstock_task_up", "gauge", "Whether a task answers."),
    ("penstock_task_seconds", "gauge", "How long a task has been running."),
    ("penstock_steps_total", "counter", "Parts of steps that a task has run."),
    ("penstock_steps_per_second", "gauge", "The same, per second of the last ten."),
    ("penstock_sent_bytes_per_second", "gauge", "Bytes that a task sends to others."),
    ("penstock_received_bytes_per_second", "gauge", "Bytes that a task receives from others."),
    ("penstock_step_seconds_total", "counter", "What a task has spent its steps on: compute, wait or transfer."),
    ("penstock_link_sent_bytes", "gauge", "Bytes that a task has sent over its open links to another one."),
    ("penstock_link_received_bytes", "gauge", "Bytes that a task has received over them."),
    ("penstock_restarts", "gauge", "How often a task was started again, as far as its launcher says."),
    ("penstock_scalar", "gauge", "The newest scalar of a summary, such as the loss or the learning rate."),
    ("penstock_scalar_step", "gauge", "The step that it belongs to."),
    ("penstock_checkpoint_timestamp_seconds", "gauge", "When a task wrote its newest checkpoint."),
    ("penstock_checkpoint_seconds", "gauge", "How long that took."),
    ("penstock_op_time_ratio", "gauge", "The part of the last two minutes in which a task ran an op: the slowest ones."),
    ("penstock_device_used_bytes", "gauge", "Memory of a GPU that tensors use."),
    ("penstock_task_memory_bytes", "gauge", "Memory of the process of a task."),
    ("penstock_variables", "gauge", "Variables that a task holds."),
    ("penstock_variable_bytes", "gauge", "Bytes of these variables."),
    ("penstock_sessions", "gauge", "Sessions of which a task is the master."),
    ("penstock_running_steps", "gauge", "Steps of these sessions that are running."),
    ("penstock_oldest_wait_seconds", "gauge", "For how long the oldest blocked operation of a task has waited."),
    ("penstock_queue_size", "gauge", "Elements in a queue or accumulator."),
    ("penstock_queue_waiting", "gauge", "Operations that wait for a queue or accumulator."),
    ("penstock_stragglers", "gauge", "Tasks that are much slower than others, or whose gradients arrive too late."),
)


def prometheus(tasks: list[dict[str, Any]]) -> str:
    """All metrics, in Prometheus' text format."""
    values: dict[str, list[tuple[dict[str, str], float]]] = {name: [] for name, *_ in METRICS}
    for task in tasks:
        for name, labels, value in _of(task):
            values[name].append((labels, value))
    values["penstock_stragglers"].append(({}, len(stragglers(tasks))))
    lines = []
    for name, kind, meaning in METRICS:
        lines += [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"]
        for labels, value in values[name]:
            shown = ",".join(f'{k}="{_escaped(v)}"' for k, v in labels.items())
            lines.append(f"{name}{{{shown}}} {value:.10g}" if shown else f"{name} {value:.10g}")
    return "\n".join(lines) + "\n"


def _of(task: dict[str, Any]) -> list[tuple[str, dict[str, str], float]]:
    who = {"task": task["task"]}
    if "error" in task:
        return [("penstock_task_up", who, 0)]
    sessions, waits = task["sessions"], task["waits"]
    found = [("penstock_task_up", who, 1.0), ("penstock_task_seconds", who, task["up"]),
             ("penstock_steps_total", who, task["steps"]), ("penstock_steps_per_second", who, task["steps_per_second"]),
             ("penstock_sent_bytes_per_second", who, task["sent_per_second"]),
             ("penstock_received_bytes_per_second", who, task["received_per_second"]),
             ("penstock_task_memory_bytes", who, task["memory"]), ("penstock_variables", who, task["variables"]["count"]),
             ("penstock_variable_bytes", who, task["variables"]["bytes"]), ("penstock_sessions", who, len(sessions)),
             ("penstock_running_steps", who, sum(s["running"] for s in sessions)),
             ("penstock_oldest_wait_seconds", who, max((w["seconds"] for w in waits), default=0.0))]
    found += [("penstock_step_seconds_total", {**who, "part": part}, seconds)
              for part, seconds in zip(("compute", "wait", "transfer"), task["spent"], strict=True)]
    for peer, sent, received, *_ in task["links"]:
        found += [("penstock_link_sent_bytes", {**who, "peer": peer}, sent),
                  ("penstock_link_received_bytes", {**who, "peer": peer}, received)]
    found.append(("penstock_restarts", who, task["restarts"]))
    for tag, (step, value) in task["scalars"].items():
        found += [("penstock_scalar", {**who, "tag": tag}, float(value)), ("penstock_scalar_step", {**who, "tag": tag}, step)]
    for when, _, seconds in task["checkpoints"][-1:]:
        found += [("penstock_checkpoint_timestamp_seconds", who, when), ("penstock_checkpoint_seconds", who, seconds)]
    found += [("penstock_op_time_ratio", {**who, "op": name, "type": kind}, part) for name, kind, part in task["slow_ops"]]
    found += [("penstock_device_used_bytes", {**who, "device": name}, used)
              for name, kind, _, used in task["devices"] if kind == "GPU"]
    for queue in task["queues"]:
        which = {**who, "queue": queue["name"], "container": queue["container"]}
        found += [("penstock_queue_size", which, queue["size"]), ("penstock_queue_waiting", which, queue["waiting"])]
    return found


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
