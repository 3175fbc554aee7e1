"""The same cluster on Ray: each task is an actor, which runs the script in its own process.

Ray decides where an actor runs, restarts it when it or its machine dies, and forwards the output of the tasks to the process
that launched them. A task keeps its address when it is started again on the same machine.
"""
from __future__ import annotations

import os
import sys
from typing import Any

from penstock._src.base import errors
from penstock._src.cluster import launch as local
from penstock._src.cluster import security
from penstock._src.cluster.ports import free_addresses


class _Runner:
    """The actor of a task."""

    def __init__(self, name: str):
        self._name = name

    def address(self) -> str:
        """An address of this machine whose port is free."""
        import ray
        return free_addresses(1, ray.util.get_node_ip_address())[0]

    def run(self, command: list[str], environment: dict[str, str], restarts: int) -> int:
        """Runs the script to its end, again if it dies; returns its exit status."""
        job, index = self._name.split()
        task = local.Task(job, int(index), command, environment)
        return local.Launcher([task], restarts, lambda line: print(line, flush=True)).run()


def launch(script: list[str], jobs: dict[str, int], plain_ps: bool, restarts: int, address: str | None) -> int:
    """Runs a script as tasks of a Ray cluster; returns the exit status."""
    try:
        import ray
    except ImportError:
        raise errors.FailedPreconditionError(None, None, "--on ray needs Ray: pip install 'penstock[ray]'") from None
    began = not ray.is_initialized()
    if began:
        ray.init(address=address, log_to_driver=True, runtime_env={"env_vars": _inherited()})
    try:
        return _launch(ray, script, jobs, plain_ps, restarts)
    finally:
        if began:
            ray.shutdown()


def _inherited() -> dict[str, str]:
    """What actors need of this environment to find the same modules."""
    return {"PYTHONPATH": os.pathsep.join([os.getcwd(), *filter(None, [os.environ.get("PYTHONPATH")])])}


def _launch(ray: Any, script: list[str], jobs: dict[str, int], plain_ps: bool, restarts: int) -> int:
    script = [os.path.abspath(script[0]), *script[1:]]
    secret = security.secret().decode()
    runner = ray.remote(_Runner).options(num_cpus=0.1, max_restarts=restarts, max_task_retries=restarts)
    names = [(job, i) for job, count in jobs.items() for i in range(count)]
    actors = {name: runner.remote(f"{name[0]} {name[1]}") for name in names}
    found = dict(zip(names, ray.get([actors[n].address.remote() for n in names]), strict=True))
    cluster = {job: [found[job, i] for i in range(count)] for job, count in jobs.items() if count and job != local.OUTSIDE}
    with open(script[0], encoding="utf-8", errors="replace") as file:
        source = file.read()
    runs = {}
    for job, i in names:
        command = local.command_of(sys.executable, script, source, cluster, job, i, plain_ps)
        runs[actors[job, i].run.remote(command, local.surroundings(cluster, job, i, secret), restarts)] = job
    return _wait(ray, runs, list(actors.values()))


def _wait(ray: Any, runs: dict[Any, str], actors: list[Any]) -> int:
    """Waits until all tasks except the parameter servers have ended, or one has failed."""
    left = {r for r, job in runs.items() if job != local.SERVES}
    code = 0
    try:
        while left and not code:
            done, _ = ray.wait(list(runs), num_returns=1, timeout=1.0)
            for run in done:
                code = code or ray.get(run)
                left.discard(run)
                runs.pop(run)
        return code
    finally:
        for actor in actors:
            ray.kill(actor)
