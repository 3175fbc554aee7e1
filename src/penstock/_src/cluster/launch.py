"""A cluster on this machine: one process per task, watched, restarted when it dies, ended together.

Every process gets TF_CONFIG, the secret (PENSTOCK_SECRET, or by default the user's, which `penstock status` finds), a share of
the cores, and log lines with level and time. The job is done when all tasks except the parameter servers have succeeded; then
those are stopped.
"""
from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from penstock._src.base import switches
from penstock._src.cluster import security
from penstock._src.cluster.ports import free_addresses
from penstock._src.cluster.status import Watched
from penstock._src.cluster.status_page import StatusPage
from penstock._src.cluster.tf_config import tf_config

SERVES = "ps"                       # the job whose tasks end when the others have
OUTSIDE = "evaluator"               # the job whose tasks inspect the cluster's checkpoints, and have no servers
_GRACE = 5.0                        # seconds between asking a process to end and ending it
# Linux ends a process with the one that started it, if it requests that: tasks do not outlive a launcher that is killed.
_TIED = [sys.executable, "-c", "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); os.execv(sys.argv[1], sys.argv[1:])"] \
    if sys.platform == "linux" else []
_PAUSES = (0.2, 1.0, 2.0, 5.0, 10.0, 30.0)    # seconds before the first restart of a task, the second, …
_FOR_TENSORFLOW = re.compile(r"^\s*(import|from)\s+tensorflow\b", re.MULTILINE)
FLAGS = ("job_name", "task_index", "ps_hosts", "worker_hosts")


def flags_for(source: str, cluster: dict[str, list[str]], job: str, index: int) -> list[str]:
    """The flags of common tutorials that occur in a script, with their values for a task."""
    values = {"job_name": job, "task_index": str(index), "ps_hosts": ",".join(cluster.get("ps", [])),
              "worker_hosts": ",".join(cluster.get("worker", []))}
    return [f"--{name}={values[name]}" for name in FLAGS if name in source]


def command_of(python: str, script: list[str], source: str, cluster: dict[str, list[str]], job: str, index: int,
               plain_ps: bool) -> list[str]:
    """The command line of a task."""
    if plain_ps and job == SERVES:
        return [python, "-m", "penstock", "server"]
    how = [python, "-m", "penstock", "run"] if _FOR_TENSORFLOW.search(source) else [python]
    return [*how, script[0], *flags_for(source, cluster, job, index), *script[1:]]


def surroundings(cluster: dict[str, list[str]], job: str, index: int, secret: str) -> dict[str, str]:
    """The environment variables of a task, beside those that it inherits."""
    tasks = sum(map(len, cluster.values()))
    share = str(max(1, (os.cpu_count() or 1) // tasks))
    return {"TF_CONFIG": tf_config(cluster, job, index), "PENSTOCK_SECRET": secret, "PYTHONUNBUFFERED": "1",
            "PENSTOCK_LOG_LINES": "1",
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", share)}


class Task:
    """The process of a task, and its restarts."""

    def __init__(self, job: str, index: int, command: list[str], environment: dict[str, str]):
        self.job, self.index, self.name = job, index, f"{job} {index}"
        self.command, self.environment = command, environment
        self.process: subprocess.Popen | None = None
        self.restarts = 0
        self.due: float | None = None               # when it is to be started again
        self.status: int | None = None              # how it ended, when it is not started again

    def start(self) -> None:
        """Starts the process, in its own group: a Ctrl-C is the launcher's."""
        self.due = None
        environment = {**os.environ, **self.environment, switches.RESTARTS.name: str(self.restarts)}
        self.process = subprocess.Popen(
            [*_TIED, *self.command], env=environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)

    def signal(self, sign: int) -> None:
        """Sends a signal to the process and to those that it has started."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, sign)

    def alive(self) -> bool:
        """Whether the process runs."""
        return self.process is not None and self.process.poll() is None


class Launcher:
    """Starts tasks and keeps them running. `say(line)` receives their output, `prefixed` with their names."""

    def __init__(self, tasks: Iterable[Task], restarts: int = 3, say: Callable[[str], None] = print,
                 status: Callable[[str], None] | None = None, serves: Iterable[str] = (SERVES,), prefixed: bool = True):
        self.tasks, self._limit, self._say, self._status = list(tasks), restarts, say, status
        self._ended, self._code = threading.Event(), 0
        self._readers: list[threading.Thread] = []
        self._began = time.monotonic()
        width = max(len(t.name) for t in self.tasks)
        self._serving = {t for t in self.tasks if t.job in set(serves)}      # end when the others have
        if len(self._serving) == len(self.tasks):
            self._serving = set()
        self._prefix = {t.name: f"[{t.name:<{width}}] " if prefixed else "" for t in self.tasks}

    def stop(self, code: int = 0) -> None:
        """Requests the end of all tasks; may be called by a signal handler."""
        if not self._ended.is_set():
            self._code = code
            self._ended.set()

    def run(self) -> int:
        """Starts all tasks, waits until the job is done, and returns the exit status."""
        try:
            for task in self.tasks:
                self._start(task)
            while not self._ended.wait(0.05):
                self._look()
        finally:
            self._end_all()
        return self._code

    def _start(self, task: Task) -> None:
        task.start()
        reader = threading.Thread(target=self._read, args=(task, task.process), name=f"log of {task.name}", daemon=True)
        self._readers = [r for r in self._readers if r.is_alive()] + [reader]
        reader.start()

    def _read(self, task: Task, process: Any) -> None:
        for line in process.stdout:
            self._say(self._prefix[task.name] + line.decode(errors="replace").rstrip("\n"))
        process.stdout.close()

    def _note(self, task: Task, text: str) -> None:
        self._say(f"{self._prefix[task.name]}-- {text}")

    # -- what has happened ----------------------------------------------------------------------------------------------
    def _look(self) -> None:
        for task in self.tasks:
            if task.due is not None and time.monotonic() >= task.due:
                self._start(task)
            elif task.status is None and task.due is None and not task.alive():
                self._gone(task)
        if all(t.status == 0 for t in self.tasks if t not in self._serving):
            self.stop(0)
        if self._status is not None:
            self._status(self.summary())

    def _gone(self, task: Task) -> None:
        code = task.process.returncode                       # type: ignore[union-attr]
        task.signal(signal.SIGKILL)                          # what it has left behind
        how = "has ended" if code == 0 else f"was killed by {signal.Signals(-code).name}" if code < 0 else f"failed with {code}"
        if code == 0 and task not in self._serving:
            task.status = 0
            self._note(task, how)
        elif task.restarts >= self._limit:
            task.status = code
            self._note(task, f"{how}, and was already restarted {task.restarts} times: ending the job")
            self.stop(128 - code if code < 0 else code or 1)
        else:
            pause = _PAUSES[min(task.restarts, len(_PAUSES) - 1)]
            task.restarts += 1
            task.due = time.monotonic() + pause
            self._note(task, f"{how}; restarting in {pause:g} s ({task.restarts} of {self._limit})")

    def summary(self) -> str:
        """One line: how many tasks run, have ended, wait for a restart."""
        parts = []
        for job in dict.fromkeys(t.job for t in self.tasks):
            mine = [t for t in self.tasks if t.job == job]
            states = {"up": sum(t.alive() for t in mine), "waiting": sum(t.due is not None for t in mine),
                      "done": sum(t.status == 0 for t in mine)}
            parts.append(f"{job}: " + (", ".join(f"{n} {word}" for word, n in states.items() if n) or "ended"))
        restarts = sum(t.restarts for t in self.tasks)
        return " | ".join([*parts, f"{restarts} restarts", f"{time.monotonic() - self._began:.0f} s"])

    # -- the end --------------------------------------------------------------------------------------------------------
    def _end_all(self) -> None:
        for sign in (signal.SIGTERM, signal.SIGKILL):
            for task in self.tasks:
                task.signal(signal.SIGCONT)
                task.signal(sign)
            deadline = time.monotonic() + _GRACE
            for task in self.tasks:
                if task.process is not None:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        task.process.wait(max(0.0, deadline - time.monotonic()))
        for reader in self._readers:
            reader.join(2.0)


def local_tasks(script: list[str], jobs: dict[str, int], plain_ps: bool = False, secret: str | None = None) -> list[Task]:
    """The tasks that run a script on this machine: `jobs` has the number of tasks of each job."""
    addresses = iter(free_addresses(sum(jobs.values())))
    cluster = {job: [next(addresses) for _ in range(count)] for job, count in jobs.items() if count and job != OUTSIDE}
    secret = secret or security.secret().decode()
    with open(script[0], encoding="utf-8", errors="replace") as file:
        source = file.read()
    made = []
    for job, count in jobs.items():
        for i in range(count):
            command = command_of(sys.executable, script, source, cluster, job, i, plain_ps)
            made.append(Task(job, i, command, surroundings(cluster, job, i, secret)))
    return made


def asked(cluster: dict[str, list[str]]) -> str:
    """The job whose first task reports the state of the cluster: one that has a server in most programs."""
    return next((job for job in (SERVES, "chief", "worker") if cluster.get(job)), "")


@contextlib.contextmanager
def watched(cluster: dict[str, list[str]], say: Callable[[str], None]) -> Iterator[None]:
    """Says what an operator needs: addresses, the command that shows the state of the cluster, and the address of the page,
    which this process serves meanwhile. So it has the history of tasks that die."""
    say("cluster  " + "  ".join(f"{job}: {', '.join(of)}" for job, of in cluster.items()))
    served = asked(cluster)
    if not served:
        yield
        return
    address = cluster[served][0]
    page = StatusPage("localhost", Watched(cluster, address))
    say(f"status   penstock status grpc://{address}")
    say(f"page     {page.url}")
    try:
        yield
    finally:
        page.close()


def cluster_of(tasks: Iterable[Task]) -> dict[str, list[str]]:
    """The addresses of the tasks of each job."""
    return json.loads(next(iter(tasks)).environment["TF_CONFIG"])["cluster"]
