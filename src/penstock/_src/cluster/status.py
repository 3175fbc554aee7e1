"""The status of a task, and of the whole cluster as one task sees it: for `penstock status`, and as a page.

A server has a StatusBoard. It samples counters twice a second, so that rates are available on request; the rest is collected on
request. `cluster` queries the other tasks over the links that exist, or opens them, for a short time only.
"""
from __future__ import annotations

import collections
import os
import pathlib
import resource
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from penstock._src.base import errors
from penstock._src.cluster.connection import Connections
from penstock._src.execute import watchdog

_SAMPLES = 21                       # counters of the last ten seconds
_PATIENCE = 2.0                     # seconds that another task has to answer
_MOST = 200                         # queues, sessions and waits that are listed
_LARGEST = 3                        # variables of a task that are named
SLOW = 0.5                          # a straggler runs at less than this fraction of the usual rate of its job


class StatusBoard:
    """The counters of one server."""

    def __init__(self, server: Any):
        self._server, self._began = server, time.monotonic()
        self._samples: collections.deque[tuple[float, int, int, int]] = collections.deque(maxlen=_SAMPLES)
        self.tick()

    def tick(self) -> None:
        """Samples the counters; called periodically."""
        self._samples.append(self._sample())

    def _sample(self) -> tuple[float, int, int, int]:
        views = self._server._views                  # a coordinator brings its own cluster
        links = [link for view in views.all() for link in view.peers.links()]
        return time.monotonic(), views.steps_run, sum(lk.sent for lk in links), sum(lk.received for lk in links)

    def own(self) -> dict[str, Any]:
        """This task, as plain data."""
        server, now, then = self._server, self._sample(), self._samples[0]
        seconds = max(now[0] - then[0], 1e-3)
        return {"task": server._peers.task, "address": f"{server._host}:{server._port}", "pid": os.getpid(),
                "incarnation": f"{server.incarnation:x}", "up": time.monotonic() - self._began, "memory": resident_bytes(),
                "devices": [[d.name, d.device_type, d.memory_limit_bytes] for d in server._worker.devices.all],
                "steps": now[1], "steps_per_second": (now[1] - then[1]) / seconds,
                "sent_per_second": max(0, now[2] - then[2]) / seconds,
                "received_per_second": max(0, now[3] - then[3]) / seconds,
                "sessions": self._sessions(), "queues": self._queues(), "waits": self._waits(),
                "variables": self._variables()}

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
        mine = [w for w in list(watchdog._waits.values()) if w.ctx.resources is self._server._resources]
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
    for mine in by_job.values():
        usual = statistics.median(t["steps_per_second"] for t in mine)
        found += [f"{t['task']}: {t['steps_per_second']:.1f} steps/s, where {usual:.1f} are usual" for t in mine
                  if len(mine) > 1 and t["steps_per_second"] < SLOW * usual]
    tallies: dict[str, tuple[int, int]] = {}
    for task in tasks:
        for queue in task.get("queues", ()):
            for worker, (applied, stale) in queue.get("tallies", {}).items():
                if stale > tallies.get(worker, (0, 0))[1]:
                    tallies[worker] = applied, stale
    found += [f"{worker}: {stale} of {applied + stale} gradients came too late" for worker, (applied, stale) in
              sorted(tallies.items()) if stale > SLOW * (applied + stale)]
    return found


# -- for people -----------------------------------------------------------------------------------------------------------
def tables(tasks: list[dict[str, Any]]) -> list[tuple[str, list[str], list[list[str]]]]:
    """The status as tables: title, headers, rows."""
    made = [("Tasks", ["task", "address", "up", "steps", "steps/s", "sent/s", "received/s", "sessions", "memory"],
             [[t["task"], t["address"], t["error"], "", "", "", "", "", ""] if "error" in t else
              [t["task"], t["address"], f"{t['up']:.0f} s", str(t["steps"]), f"{t['steps_per_second']:.1f}",
               _bytes(t["sent_per_second"]), _bytes(t["received_per_second"]), str(len(t["sessions"])), _bytes(t["memory"])]
              for t in tasks]),
            ("Variables", ["task", "variables", "size", "largest"],
             [[t["task"], str(v["count"]), _bytes(v["bytes"]), ", ".join(f"{n} ({_bytes(s)})" for n, s in v["largest"])]
              for t in tasks if (v := t.get("variables")) and v["count"]]),
            ("Devices", ["device", "memory"],
             [[name, _bytes(memory)] for t in tasks for name, _, memory in t.get("devices", ())]),
            ("Sessions", ["task", "session", "steps", "running now"],
             [[t["task"], str(s["number"]), str(s["steps"]), str(s["running"])] for t in tasks for s in t.get("sessions", ())]),
            ("Queues", ["task", "name", "kind", "size", "waiting", ""],
             [[t["task"], q["name"], q["kind"], str(q["size"]), str(q["waiting"]),
               "closed" if q.get("closed") else f"step {q['step']}" if "step" in q else ""]
              for t in tasks for q in t.get("queues", ())]),
            ("Oldest waits", ["task", "since", "what"],
             [[t["task"], f"{w['seconds']:.1f} s", w["what"]] for t in tasks for w in t.get("waits", ())[:3]]),
            ("Stragglers", ["task"], [[line] for line in stragglers(tasks)])]
    return [table for table in made if table[2] or table[0] == "Tasks"]


def _bytes(count: float) -> str:
    for unit in ("B", "KB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def ask(target: str, do: str = "status", timeout: float = 10.0) -> dict[str, Any]:
    """What the server at a target answers."""
    connections = Connections(target.removeprefix("grpc://"), timeout)
    try:
        return connections.call({"do": do})[0]
    finally:
        connections.close()
