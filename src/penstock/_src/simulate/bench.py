"""Steps of real processes on this machine, and the processor time that each process works for them.

One cluster (`penstock server`) and a client for each of its workers serve all cases, so that they are measured in turns: what
else happens to the machine meanwhile happens to all of them. Processes are pinned to cores, first the workers of a case with
their clients, then its servers, one core after the other: where the system would move them changes from second to second, and
with it the time of a step by a factor of two. Where the system permits it, they have real-time priority: other programs get the
time that they leave, and do not delay them.
"""
from __future__ import annotations

import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import penstock.compat.v1 as tf
from penstock._src.cluster.ports import free_addresses
from penstock._src.simulate import programs
from penstock._src.simulate.job import Program

WORKERS, SERVERS = 4, 2             # of the cluster
_LEAD = 0.02                        # seconds before the steps of a round: all clients begin at once. One that had begun
                                    # would, with real-time priority, keep this process from asking the others
FURTHER = 2                         # clients of the first worker
_REST = 0.1                         # of a round, before it: Linux stops processes of real-time priority that never rest
_CLIENT = "from penstock._src.simulate import bench; bench.client()"


class Case(NamedTuple):
    """Null steps of `size` bytes: of the first workers, with the first servers. `beside`: so many further workers run
    the same with the last server meanwhile, to keep the machine busy. `clients`: of the first worker, if it is the only one,
    each with its session. `cores`: that all of them share; 0: those of the machine."""
    size: int
    workers: int = 1
    servers: int = 1
    beside: int = 0
    clients: int = 1
    cores: int = 0


class Round(NamedTuple):
    """One round of a case: the mean time of a step of its workers, the seconds that a client, a worker and a server work for
    it; how much steps differ (`spread`); and the share of the processors that other programs used meanwhile."""
    step: float
    client: float
    worker: float
    server: float
    spread: float
    servers: int
    foreign: float = 0.0

    @property
    def work(self) -> float:
        """Of all processes."""
        return self.client + self.worker + self.server * self.servers


class Bench:
    """A cluster of real processes, and clients of its workers."""

    def __init__(self, stack: contextlib.ExitStack):
        addresses = free_addresses(WORKERS + SERVERS)
        cluster = {"ps": addresses[:SERVERS], "worker": addresses[SERVERS:]}
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        tasks = [(job, i) for job, found in cluster.items() for i in range(len(found))]
        self._started: dict[tuple[str, int], subprocess.Popen] = {}
        for job, i in tasks:
            env["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": job, "index": i}})
            self._start(stack, (job, i), env, "-m", "penstock", "server")
        for task in tasks:
            self._line(task)                         # it listens
        for i, worker in enumerate([*range(WORKERS), *[0] * FURTHER]):
            self._start(stack, ("client", i), env, "-c", _CLIENT, f"grpc://{cluster['worker'][worker]}", str(worker))
        self.cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []

    def _start(self, stack: contextlib.ExitStack, task: tuple[str, int], env: dict[str, str], *command: str) -> None:
        made = stack.enter_context(subprocess.Popen([sys.executable, *command], env=env, text=True,
                                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        stack.callback(made.kill)                    # there is no state to keep
        self._started[task] = made

    def _line(self, task: tuple[str, int]) -> str:
        found = self._started[task].stdout
        assert found is not None
        line = found.readline()
        if not line:
            raise RuntimeError(f"{task[0]} {task[1]} has ended")
        return line

    def _ask(self, client: int, *what: Any) -> None:
        """Sends a request to a client."""
        print(json.dumps(what), file=self._started["client", client].stdin, flush=True)

    # -- cases --------------------------------------------------------------------------------------------------------
    def prepare(self, case: Case) -> None:
        """Builds the steps of a case; the first worker initializes its variables."""
        for i, key in self._keys(case).items():
            self._ask(i, "build", *key, 0, 0)
            self._line(("client", i))

    def _keys(self, case: Case) -> dict[int, tuple[int, int, int]]:
        """By client, the size of its step, its first server, and how many it has."""
        measured = dict.fromkeys(_clients(case), (case.size, 0, case.servers))
        return measured | dict.fromkeys(range(case.workers, case.workers + case.beside), (case.size, SERVERS - 1, 1))

    def round(self, case: Case, seconds: float) -> Round:
        """Runs the steps of a case for some seconds."""
        self._pin(case)
        time.sleep(_REST * seconds)
        used, idle, began = self._used(), _idle(), time.monotonic()
        for i, key in self._keys(case).items():
            self._ask(i, "run", *key, began + _LEAD, seconds)
        answers = [json.loads(self._line(("client", i))) for i in self._keys(case)][:len(_clients(case))]
        took, idle = time.monotonic() - began, _idle() - idle
        spent = {t: after - used[t] for t, after in self._used().items()}
        cores = os.cpu_count() or 1
        foreign = max(0.0, 1.0 - (idle + sum(spent.values())) / (took * cores))
        steps = sum(count for count, _ in answers)

        def share(kind: str) -> float:
            of = {"ps": range(case.servers), "worker": range(case.workers), "client": _clients(case)}[kind]
            return sum(spent[kind, i] for i in of) / steps
        return Round(seconds * len(answers) / steps, share("client"), share("worker"), share("ps") / case.servers,
                     sum(spread for _, spread in answers) / len(answers), case.servers, foreign)

    def _used(self) -> dict[tuple[str, int], float]:
        """The processor time of each process so far."""
        return {task: _used(started.pid) for task, started in self._started.items()}

    def _pin(self, case: Case) -> None:
        """Moves the processes of a case to their cores."""
        if self.cores:
            for task, core in pins(case, case.cores or len(self.cores)).items():
                _pin(self._started[task].pid, self.cores[core])


def _clients(case: Case) -> list[int]:
    """The clients whose steps are measured: of each worker the one of its number, then further ones of the first worker."""
    return [*range(case.workers), *range(WORKERS, WORKERS + case.clients - 1)]


def pins(case: Case, cores: int) -> dict[tuple[str, int], int]:
    """The core of each process: one after the other. Workers beside a case, and the server that they have, use all of them."""
    found = {("client", i): i % cores if i < WORKERS else 0 for i in _clients(case)}
    found |= {("worker", i): i % cores for i in range(case.workers)}
    found |= {("ps", i): (case.workers + i) % cores for i in range(case.servers)}
    if case.beside:
        for i in range(case.beside):
            found["worker", case.workers + i] = found["client", case.workers + i] = (i + 1) % cores
        found["ps", SERVERS - 1] = (case.beside + 1) % cores
    return found


def numbers(case: Case) -> dict[tuple[str, int], int]:
    """The place of each worker, its client and each server in that order, whatever the number of cores of the machine."""
    return pins(case, case.cores or 1 << 30)


@contextlib.contextmanager
def cluster() -> Iterator[Bench]:
    """The processes."""
    with contextlib.ExitStack() as stack:
        yield Bench(stack)


def _pin(process: int, core: int) -> None:
    """Moves a process to a core, and gives it real-time priority: each turn of a thread lasts until it waits."""
    for thread in pathlib.Path(f"/proc/{process}/task").iterdir():
        with contextlib.suppress(OSError):               # it has ended, or it is not permitted
            os.sched_setaffinity(int(thread.name), {core})
            os.sched_setscheduler(int(thread.name), os.SCHED_FIFO, os.sched_param(1))


def _used(process: int) -> float:
    """The processor time of a process and its threads, in seconds. It has nanoseconds where the system has."""
    found = 0
    for thread in pathlib.Path(f"/proc/{process}/task").iterdir():
        with contextlib.suppress(OSError):               # it has ended
            found += int((thread / "schedstat").read_text().split()[0])
    return found / 1e9


def _idle() -> float:
    """The seconds that all processors have been idle."""
    fields = pathlib.Path("/proc/stat").read_text().split(None, 6)           # cpu, user, nice, system, idle, iowait
    return (int(fields[4]) + int(fields[5])) / os.sysconf("SC_CLK_TCK")


def null_step(size: int, first: int, servers: int, worker: int = 0) -> Program:
    """The null step of a worker, with some servers from the first on."""
    program = programs.dense_null_step(size)(servers)
    program.costs.clear()                            # ops take as long as their bytes need
    for op in program.graph.get_operations():
        if "container" in op.opdef.attrs:
            op._set_attr("container", f"{size} {first} {servers}")
        job, _, task = op.device.partition("/task:")
        if task:
            op._set_device(f"{job}/task:{int(task) + (first if job == '/job:ps' else worker)}")
    return program


# -- the process of a client ------------------------------------------------------------------------------------------
def client() -> None:
    """Builds and runs steps as a worker, as its input says, until that ends."""
    target, index = sys.argv[1], int(sys.argv[2])
    steps: dict[tuple, Any] = {}
    with contextlib.ExitStack() as stack:
        for line in sys.stdin:
            do, size, first, servers, begin, last = json.loads(line)
            key = size, first, servers
            if do == "build":
                if key not in steps:
                    steps[key] = stack.enter_context(_step(target, index, size, first, servers))
                print(0, flush=True)
            else:
                print(json.dumps(_steps_in(steps[key], begin, last)), flush=True)


def _steps_in(step: Any, begin: float, seconds: float) -> tuple[float, float]:
    """Steps in some seconds, of the last one the part in that time; and how much their times differ."""
    time.sleep(max(0.0, begin - time.monotonic()))
    times, began = [time.monotonic()], time.monotonic()
    while times[-1] - began < seconds:
        step()
        times.append(time.monotonic())
    took = [b - a for a, b in zip(times, times[1:], strict=False)]
    return len(took) - (times[-1] - began - seconds) / (times[-1] - times[-2]), spread(took)


def spread(times: Sequence[float]) -> float:
    """How much times differ: the standard deviation relative to the mean, without the longest hundredth."""
    most = sorted(times)[:max(2, len(times) * 99 // 100)]
    return statistics.pstdev(most) / statistics.mean(most) if len(most) > 1 else 0.0


@contextlib.contextmanager
def _step(target: str, index: int, size: int, first: int, servers: int) -> Iterator[Any]:
    """A function that runs a null step, as one worker."""
    program = null_step(size, first, servers, index)
    filters = ["/job:ps", f"/job:worker/task:{index}"]
    with program.graph.as_default(), tf.Session(target, config=tf.ConfigProto(device_filters=filters)) as sess:
        if sess.run(tf.report_uninitialized_variables()).size:
            sess.run(tf.global_variables_initializer())
        step = sess.make_callable(tf.group(*program.step))
        for _ in range(20):
            step()
        yield step
