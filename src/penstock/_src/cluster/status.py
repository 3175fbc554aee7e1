"""The status of a task, and of the whole cluster as one task sees it: for `penstock status`, and as a page.

A server has a StatusBoard. It samples counters twice a second, so that rates are available on request; the rest is collected on
request. `cluster` queries the other tasks over the links that exist, or opens them, for a short time only.
"""
from __future__ import annotations

import collections
import dataclasses
import math
import os
import pathlib
import resource
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from penstock._src.base import errors, progress, switches
from penstock._src.cluster.connection import Connections
from penstock._src.cluster.slow_ops import Sampler
from penstock._src.execute import watchdog
from penstock._src.execute.context import eager_context

_SAMPLES = 21                       # counters of the last ten seconds
_PATIENCE = 2.0                     # seconds that another task has to answer
_SHORT = 0.3                        # the same, where another one was asked before
_MOST = 200                         # queues, sessions and waits that are listed
_SERVES = "/job:ps/"
_ASKED = 4                          # tasks that are asked, one after the other
_LARGEST = 10                       # variables of a task that are named
_PLACED = 20                        # variables of the cluster that are listed
ROWS = 100                          # of a table of the page
STEP_TIME = "Time of a step, in milliseconds"
SLOW = 0.5                          # a straggler runs at less than this fraction of the usual rate of its job


@dataclasses.dataclass(frozen=True, slots=True)
class Counters:
    """What a server counts, at one time: parts of steps that it has run, and steps that its process has run itself; the seconds
    these took (computing, waiting, moving bytes), and the bytes sent and received by the task at the other end."""
    time: float
    steps: int
    spent: list[float]
    links: dict[str, list[int]]

    @property
    def sent(self) -> int:
        """Bytes sent to all tasks."""
        return sum(sent for sent, _ in self.links.values())

    @property
    def received(self) -> int:
        """Bytes received from all tasks."""
        return sum(received for _, received in self.links.values())


class StatusBoard:
    """The counters of one server."""

    def __init__(self, server: Any):
        self._server, self._began = server, time.monotonic()
        own = progress.process.account
        self._earlier = own.steps, list(own.seconds)         # what the process has counted for servers before this one
        self._samples: collections.deque[Counters] = collections.deque(maxlen=_SAMPLES)
        self._ops = Sampler()
        self.sample_ops = self._ops.look
        self.tick()

    def tick(self) -> None:
        """Samples the counters; called periodically."""
        self._samples.append(self._sample())

    def _sample(self) -> Counters:
        views = self._server._views                  # a coordinator brings its own cluster
        links: dict[str, list[int]] = {}
        for link in [link for view in views.all() for link in view.peers.links()]:
            both = links.setdefault(link.peer, [0, 0])
            both[0] += link.sent
            both[1] += link.received
        own, (steps, seconds) = progress.process.account, self._earlier
        return Counters(time.monotonic(), views.steps_run + own.steps - steps,
                        [a + b - c for a, b, c in zip(views.spent, own.seconds, seconds, strict=True)], links)

    def own(self) -> dict[str, Any]:
        """This task, as plain data."""
        server, now, then = self._server, self._sample(), self._samples[0]
        seconds, steps = max(now.time - then.time, 1e-3), now.steps - then.steps
        return {"task": server._peers.task, "address": f"{server._host}:{server._port}", "pid": os.getpid(),
                "incarnation": f"{server.incarnation:x}", "up": time.monotonic() - self._began, "memory": resident_bytes(),
                "restarts": switches.RESTARTS.value(),
                "devices": [[d.name, d.device_type, d.memory_limit_bytes, _used(d)] for d in server._worker.devices.all],
                "steps": now.steps, "steps_per_second": steps / seconds, "spent": now.spent,
                "step_seconds": [(b - a) / steps for a, b in zip(then.spent, now.spent, strict=True)] if steps > 0 else [],
                "sent_per_second": max(0, now.sent - then.sent) / seconds,
                "received_per_second": max(0, now.received - then.received) / seconds,
                "links": [[peer, *both, *(max(0, b - a) / seconds for a, b in zip(then.links.get(peer, (0, 0)), both,
                                                                                 strict=True))]
                          for peer, both in sorted(now.links.items())],
                "sessions": self._sessions(), "queues": self._queues(), "waits": self._waits(),
                "variables": self._variables(), "slow_ops": self._ops.slowest(),
                "scalars": {tag: [step, value if math.isfinite(value) else str(value)]
                            for tag, (step, value) in list(progress.process.scalars.items())},
                "checkpoints": [list(save) for save in list(progress.process.saves)]}

    def _sessions(self) -> list[dict[str, Any]]:
        with self._server._lock:
            masters = list(self._server._sessions.items())
        return [{"number": n, "steps": s.steps, "running": len(s.running_steps())} for n, (s, *_) in masters[:_MOST]]

    def _queues(self) -> list[dict[str, Any]]:
        found = []
        for (container, name, _), item in self._server._resources.items():
            if hasattr(item, "capacity") and hasattr(item, "size"):
                found.append({"kind": item.kind, "name": name, "container": container, "size": item.size(),
                              "capacity": item.capacity, "closed": item.closed,
                              "waiting": sum(map(len, item.waiting.lines))})
            elif hasattr(item, "tallies"):
                found.append({"kind": item.kind, "name": name, "container": container, "size": item.count, "step": item.step,
                              "waiting": sum(map(len, item.waiting.lines)), "tallies": dict(item.tallies)})
        return found[:_MOST]

    def _variables(self) -> dict[str, Any]:
        """How many variables this task holds, their bytes, and the largest."""
        found = [(name, item.value.nbytes) for (_, name, _), item in self._server._resources.items()
                 if hasattr(item, "dims") and hasattr(getattr(item, "value", None), "nbytes")]
        largest = sorted(found, key=lambda pair: -pair[1])[:_LARGEST]
        return {"count": len(found), "bytes": sum(size for _, size in found), "largest": [list(pair) for pair in largest]}

    def _waits(self) -> list[dict[str, Any]]:
        """The blocked operations of this task, the oldest first."""
        own = self._server._resources, eager_context().resources
        mine = [w for w in list(watchdog._waits.values()) if w.ctx.resources in own]
        mine.sort(key=lambda w: w.since)
        return [{"seconds": time.monotonic() - w.since, "what": _line(w)} for w in mine[:20]]

    def cluster(self) -> list[dict[str, Any]]:
        """All tasks of the cluster; one that does not answer is listed with its error."""
        peers = self._server._peers
        others = [t for t in peers.addresses if t != peers.task]
        answers = [self.own()]
        if others:
            with ThreadPoolExecutor(len(others), "penstock status") as pool:
                answers += pool.map(self._ask, others)
        return sorted(answers, key=lambda a: _order(a["task"]))

    def _ask(self, task: str) -> dict[str, Any]:
        peers = self._server._peers
        try:
            return peers.reach(task, _PATIENCE).ask({"do": "status"}, timeout=_PATIENCE)[0]["status"]
        except errors.OpError as e:
            return {"task": task, "address": peers.addresses[task], "error": e.message}


def resident_bytes() -> int:
    """The memory of this process, as far as the system tells."""
    try:
        return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024         # the peak


def _used(device: Any) -> int:
    """The memory of a GPU that tensors use; 0 for other devices, whose memory is that of the process."""
    return torch.cuda.memory_allocated(device.index) if device.device_type == "GPU" else 0


def _line(wait: Any) -> str:
    op = wait.operation()
    name = (op.origin or op).name if op is not None else "a step"
    return f"{name} waits for {wait.about()}"


def _order(task: str) -> tuple[str, int]:
    job, _, index = task.rpartition("/task:")
    return job, int(index) if index.isdigit() else 0


def stragglers(tasks: list[dict[str, Any]]) -> list[str]:
    """Tasks that are much slower than the others of their job, and workers whose gradients arrive too late."""
    found = []
    by_job: dict[str, list[dict[str, Any]]] = {}
    for task in tasks:
        if "error" not in task:
            by_job.setdefault(_order(task["task"])[0], []).append(task)
    for job, mine in by_job.items():
        if job.startswith(_SERVES):                  # the rate of a parameter server follows from the variables that it holds
            continue
        usual = statistics.median(t["steps_per_second"] for t in mine)
        found += [f"{t['task']}: {t['steps_per_second']:.1f} steps/s, where {usual:.1f} are usual" for t in mine
                  if len(mine) > 1 and t["steps_per_second"] < SLOW * usual]
        found += _slow_in_step(mine, usual)
    tallies: dict[str, tuple[int, int]] = {}
    for task in tasks:
        for queue in task.get("queues", ()):
            for worker, (applied, stale) in queue.get("tallies", {}).items():
                if stale > tallies.get(worker, (0, 0))[1]:
                    tallies[worker] = applied, stale
    found += [f"{worker}: {stale} of {applied + stale} gradients came too late" for worker, (applied, stale) in
              sorted(tallies.items()) if stale > SLOW * (applied + stale)]
    return found


def _slow_in_step(tasks: list[dict[str, Any]], usual: float) -> list[str]:
    """Tasks for which the others of their job wait: all have the same rate, and this one takes most of a step itself."""
    own = {t["task"]: 1 / t["steps_per_second"] - t["step_seconds"][1] for t in tasks
           if t.get("sessions") and t.get("step_seconds") and t["steps_per_second"] >= SLOW * usual > 0}
    if len(own) < 2:
        return []
    others = statistics.median_low(own.values())
    return [f"{task}: {1000 * mine:.1f} ms of its own in each step, where {1000 * others:.1f} are usual"
            for task, mine in own.items() if mine > others / SLOW]


def problems(tasks: list[dict[str, Any]]) -> list[str]:
    """What needs attention: tasks that do not answer, stragglers, and losses that are no numbers."""
    return [*(f"{t['task']} does not answer: {t['error']}" for t in tasks if "error" in t), *stragglers(tasks),
            *(f"{t['task']}: {tag} is {value} at step {step}" for t in tasks
              for tag, (step, value) in t.get("scalars", {}).items() if isinstance(value, str))]


# -- for people -----------------------------------------------------------------------------------------------------------
def tables(tasks: list[dict[str, Any]]) -> list[tuple[str, list[str], list[list[str]]]]:
    """The status as tables: title, headers, rows."""
    answering = [t for t in tasks if "error" not in t]
    made = [("Tasks", ["task", "address", "up", "restarts", "steps", "steps/s", "sent/s", "received/s", "sessions", "memory"],
             [[t["task"], t["address"], t["error"], *[""] * 7] if "error" in t else
              [t["task"], t["address"], f"{t['up']:.0f} s", str(t["restarts"]), str(t["steps"]), f"{t['steps_per_second']:.1f}",
               _bytes(t["sent_per_second"]), _bytes(t["received_per_second"]), str(len(t["sessions"])), _bytes(t["memory"])]
              for t in tasks]),
            (STEP_TIME, ["task", "compute", "wait", "transfer", "between steps"],
             [[t["task"], *(f"{1000 * s:.2f}" for s in step_time(t))] for t in answering if step_time(t)]),
            ("Slowest ops, of the last two minutes", ["task", "op", "type", "of the time"],
             [[task, name, kind, f"{part:.1%}"] for task, name, kind, part in _first(
                 [(t["task"], *op) for t in answering for op in t["slow_ops"][:5]], lambda row: row[3])]),
            ("Checkpoints", ["task", "written", "took", "path"],
             [[t["task"], time.strftime("%H:%M:%S", time.localtime(when)), f"{seconds:.2f} s", path]
              for t in answering for when, path, seconds in reversed(t["checkpoints"])]),
            ("Scalars of summaries", ["task", "name", "step", "value"],
             [[t["task"], tag, str(step), value if isinstance(value, str) else f"{value:.6g}"]
              for t in answering for tag, (step, value) in t["scalars"].items()]),
            ("Variables", ["task", "variables", "size"],
             [[t["task"], str(v["count"]), _bytes(v["bytes"])] for t in answering if (v := t["variables"])["count"]]),
            ("Largest variables", ["variable", "task", "size"],
             [[name, task, _bytes(size)] for size, name, task in sorted(
                 ((size, name, t["task"]) for t in answering for name, size in t["variables"]["largest"]),
                 key=lambda row: -row[0])[:_PLACED]]),
            ("Links", ["task", "to and from", "sent", "sent/s", "received", "received/s"],
             [[task, peer, _bytes(sent), _bytes(sending), _bytes(received), _bytes(receiving)]
              for task, peer, sent, received, sending, receiving in _first(
                  [(t["task"], *link) for t in answering for link in t["links"]], lambda row: row[4] + row[5])]),
            ("Devices", ["device", "memory", "in use"],
             [[name, _bytes(memory), _bytes(used) if used else ""]
              for t in answering for name, _, memory, used in t["devices"]]),
            ("Sessions", ["task", "session", "steps", "running now"],
             [[t["task"], str(s["number"]), str(s["steps"]), str(s["running"])] for t in answering for s in t["sessions"]]),
            ("Queues", ["task", "name", "kind", "size", "waiting", ""],
             [[t["task"], q["name"], q["kind"], str(q["size"]), str(q["waiting"]),
               "closed" if q.get("closed") else f"step {q['step']}" if "step" in q else ""]
              for t in answering for q in t["queues"]]),
            ("Oldest waits", ["task", "since", "what"],
             [[t["task"], f"{w['seconds']:.1f} s", w["what"]] for t in answering for w in t["waits"][:3]]),
            ("Stragglers", ["task"], [[line] for line in stragglers(tasks)])]
    return [table for table in made if table[2] or table[0] == "Tasks"]


def _first(rows: list[tuple[Any, ...]], weight: Callable[[tuple[Any, ...]], float]) -> list[tuple[Any, ...]]:
    """All rows of a small cluster; the heaviest of a large one, as pages are cut after `ROWS`."""
    return rows if len(rows) <= ROWS else sorted(rows, key=weight, reverse=True)


def step_time(task: dict[str, Any]) -> list[float]:
    """The seconds of a step of a task: computing, waiting for others, moving bytes, and the time until the next step; empty if
    there was none lately."""
    parts = task["step_seconds"]
    return [*parts, max(0.0, 1 / task["steps_per_second"] - sum(parts))] if parts else []


def _bytes(count: float) -> str:
    for unit in ("B", "KB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


class Watched:
    """The status of a cluster from outside, from whichever of its tasks answers: `cluster` has the addresses of each job."""

    def __init__(self, cluster: dict[str, list[str]], first: str):
        self._cluster, self._last = cluster, first

    def __call__(self) -> list[dict[str, Any]]:
        """The status of all tasks; one that cannot be reached is listed with its error."""
        tasks = {address: f"/job:{job}/replica:0/task:{i}" for job, of in list(self._cluster.items()) for i, address in
                 enumerate(of)}
        wrong = {}
        for address in sorted(tasks, key=lambda a: a != self._last)[:_ASKED]:
            try:
                found = ask(address, timeout=_PATIENCE if address == self._last else _SHORT)["tasks"]
                self._last = address
                return found
            except errors.OpError as e:
                wrong[address] = e.message
        return [{"task": task, "address": address, "error": wrong.get(address, "no task of the cluster answers")}
                for address, task in tasks.items()]


def ask(target: str, do: str = "status", timeout: float = 10.0) -> dict[str, Any]:
    """What the server at a target answers."""
    connections = Connections(target.removeprefix("grpc://"), timeout)
    try:
        return connections.call({"do": do})[0]
    finally:
        connections.close()
