"""The tasks that a session uses, as its master sees them: links, devices, incarnations."""
from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from penstock._src.base import errors
from penstock._src.cluster.link import Link
from penstock._src.cluster.step_state import restarted
from penstock._src.cluster.worker import Worker
from penstock._src.kernels.devices.device import Device
from penstock._src.kernels.devices.device_spec import parts_of
from penstock._src.kernels.devices.devices import KINDS, DeviceSet

_JOIN_SECONDS = 60.0                # seconds that tasks have to start, unless operation_timeout_in_ms is set
_AGAIN_SECONDS = 0.1                # between two attempts to reach a task


class Tasks:
    """The tasks that a session uses: their links, devices and incarnations."""

    def __init__(self, worker: Worker, config: Any):
        self.worker, self.own = worker, worker.peers.task
        self.steps = f"{worker.peers.incarnation:x}:"        # prefix of the names of steps whose master is this task
        self.timeout = config.operation_timeout_in_ms / 1000 or _JOIN_SECONDS
        self.links: dict[str, Link] = {}
        others = [t for t in worker.peers.addresses if t != self.own and _passes(t, config.device_filters)]
        found = self._devices_of(others)
        self.devices = DeviceSet([*worker.devices.all, *(d for t in others for d in found[t])])
        self.hosts = {t: next(d for d in self.devices.all if d.task == t and d.host) for t in (self.own, *others)}

    def _devices_of(self, tasks: list[str]) -> dict[str, list[Device]]:
        """Calls all tasks at once; UnavailableError names those that do not answer."""
        if not tasks:
            return {}
        found, missing = {}, []
        deadline = time.monotonic() + self.timeout
        with ThreadPoolExecutor(len(tasks), "penstock reach") as pool:
            for task, answer in [(t, pool.submit(self._ask, t, deadline)) for t in tasks]:
                try:
                    found[task] = answer.result()
                except errors.UnavailableError as e:
                    missing.append(f"{task} ({e.message})")
        if missing:
            raise errors.UnavailableError(
                None, None, f"Tasks that a session needs did not come up in {self.timeout:g} seconds: {'; '.join(missing)}. "
                "Start them, or leave them out with device_filters in the session's ConfigProto.")
        return found

    def _ask(self, task: str, deadline: float) -> list[Device]:
        """The devices of a task; a lost connection is retried until the deadline."""
        while True:
            try:
                link = self.links[task] = self.worker.peers.reach(task, deadline - time.monotonic())
                answer, _ = link.ask({"do": "devices"}, timeout=max(1.0, deadline - time.monotonic()))
                break
            except errors.UnavailableError:
                if deadline - time.monotonic() < _AGAIN_SECONDS or self.worker.peers.closed:
                    raise
                time.sleep(_AGAIN_SECONDS)
        out = []
        for name, kind, memory, incarnation in answer["devices"]:
            prefix, _, index = name.rpartition(f"/device:{kind}:")
            out.append(KINDS[kind](int(index), 0, memory, prefix, incarnation))
        return out

    def borrow(self, task: str) -> Link:
        """A link to a task for one step."""
        return self.worker.peers.borrow(task, self.link(task).incarnation)

    def link(self, task: str) -> Link:
        """The link to a task; AbortedError or UnavailableError if the task was restarted or is lost."""
        link = self.links[task]
        if link.error is None:
            return link
        now = self.worker.peers.reach(task, min(1.0, self.timeout))
        if now.incarnation != link.incarnation:
            raise restarted(task)
        raise errors.AbortedError(None, None, f"The connection to {task} was lost, and its session: "
                                  f"{link.error.message.rstrip('.')}. Create a new session.")


def _passes(task: str, filters: Any) -> bool:
    """Whether a task is among those that device filters name; without any, all are."""
    have = parts_of(task)
    return not filters or any(all(w is None or w == h for w, h in zip(parts_of(f)[:3], have, strict=False)) for f in filters)
