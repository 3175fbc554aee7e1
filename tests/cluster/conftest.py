"""Clusters for tests: servers in this process, or in their own processes."""
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import threading

import pytest

import penstock.compat.v1 as tf
from penstock._src.base import progress
from penstock._src.cluster.ports import free_addresses
from tests.checks import eventually

SOURCE = str(pathlib.Path(__file__).parents[2] / "src")
SERVE = """
import sys, json
import penstock.compat.v1 as tf
server = tf.train.Server(json.loads(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
print("up", flush=True)
server.join()
"""


def addresses(**jobs):
    """A cluster as a dict: `addresses(ps=1, worker=2)`."""
    free = iter(free_addresses(sum(jobs.values()), "127.0.0.1"))
    return {job: [next(free) for _ in range(n)] for job, n in jobs.items()}


@pytest.fixture
def cluster():
    """`cluster(ps=1, worker=1)` starts servers in this process, and returns them by (job, task)."""
    made = []
    before = threading.active_count()

    def start(**jobs):
        spec = addresses(**jobs)
        servers = {(job, i): tf.train.Server(spec, job, i) for job, tasks in spec.items() for i in range(len(tasks))}
        made.extend(servers.values())
        return servers
    yield start
    for server in made:
        server.stop()
    assert eventually(lambda: threading.active_count() <= before), f"threads are left over: {threading.enumerate()}"


@pytest.fixture
def nothing_noted(monkeypatch):
    """No scalars and checkpoints of earlier tests. The object stays: servers count themselves in it until they stop."""
    for noted in ("scalars", "saves"):
        monkeypatch.setattr(progress.process, noted, getattr(progress.Progress(), noted))


class Processes:
    """Tasks as processes; they end with the test."""

    def __init__(self, spec, env=None):
        self.spec, self.env = spec, {**os.environ, "PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1", **(env or {})}
        self.running = {}

    def start(self, *tasks, wait=True):
        for job, i in tasks:
            self.running[job, i] = subprocess.Popen(
                [sys.executable, "-c", SERVE, __import__("json").dumps(self.spec), job, str(i)], env=self.env,
                stdout=subprocess.PIPE, text=True)
        for task in tasks if wait else ():
            assert self.running[task].stdout.readline() == "up\n"

    def target(self, job, i=0):
        return f"grpc://{self.spec[job][i]}"

    def signal(self, task, number):
        self.running[task].send_signal(number)

    def kill(self, task):
        process = self.running.pop(task)
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait(60)
        process.stdout.close()

    def end(self):
        for task in list(self.running):
            self.kill(task)


@pytest.fixture
def processes():
    """`processes(ps=1, worker=1)` starts tasks as processes."""
    made = []

    def start(env=None, only=None, **jobs):
        tasks = Processes(addresses(**jobs), env)
        made.append(tasks)
        tasks.start(*(only if only is not None else [(job, i) for job, n in jobs.items() for i in range(n)]))
        return tasks
    yield start
    for tasks in made:
        tasks.end()
