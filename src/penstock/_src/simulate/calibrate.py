"""Measures the constants of this machine, and compares predictions with real processes on it.

`measure` returns a machine file: the time of small ops and messages, the speed of arithmetic, of memory and of copies between
two processes. `compare` runs null steps on clusters of real processes of this machine (`penstock server`), and simulates the
same. Both exclude other load as far as possible: constants are processor times of all processes, the least of several rounds,
and a measured time is the median of the round in which it was least.
"""
from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

import penstock.compat.v1 as tf
from penstock._src.cluster.ports import free_addresses
from penstock._src.simulate import programs
from penstock._src.simulate.job import FREE, Job
from penstock._src.simulate.machines import Machine, Machines, Network

_MEMORY = 64 << 20                  # bytes, to measure the memory
_LARGE = 4 << 20                    # bytes of a large message
_ROUNDS = 5


class Compared(NamedTuple):
    """Milliseconds of a step, predicted and measured."""
    what: str
    workers: int
    servers: int
    predicted: float
    measured: float

    @property
    def error(self) -> float:
        """The relative difference."""
        return self.predicted / self.measured - 1


def _best(call: Any, times: int = 7) -> float:
    """The minimum of several times, to exclude other load."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        call()
        found.append(time.perf_counter() - began)
    return min(found)


def measure() -> Machines:
    """The constants of this machine, in about ten seconds."""
    a, b = torch.ones(512, 512), torch.ones(_MEMORY // 4)
    flops = 2 * 512 ** 3 / _best(lambda: a @ a)
    memory = 3 * _MEMORY / _best(lambda: torch.add(b, 1.0))
    machine = Machine(cores=os.cpu_count() or 1, flops=flops, memory_bandwidth=memory, op_seconds=_op_seconds())
    scalar, two, large = (processor_seconds(*case) for case in ((1, 4), (2, 4), (1, _LARGE)))
    own = 3 * machine.op_seconds                     # of the ops that one more server adds
    message = max(two - scalar - own, 8e-6) / 8      # four messages, each sent and received
    made = dataclasses.replace(machine, send_seconds=message, receive_seconds=message, nic=1e12,
                               step_seconds=max(scalar - 8 * message - own, 0.0),
                               copy_bandwidth=4 * _LARGE / max(large - scalar, 1e-6))      # sent and received, twice
    return Machines({"default": made}, Network(latency=0.0, one_machine=True),
                    "measured by penstock simulate --calibrate on this machine; all tasks share its cores")


def _op_seconds() -> float:
    """The time that one more small op adds to a step."""
    def run(count: int) -> float:
        with tf.Graph().as_default(), tf.Session() as sess:
            x = tf.Variable([1.0], use_resource=False)
            y = x
            for _ in range(count):
                y = tf.sqrt(tf.matmul([[1.0]], [y])[0])
            sess.run(x.initializer)
            step = sess.make_callable(y)
            for _ in range(64):
                step()
            return _best(step, 200)
    return max((run(40) - run(8)) / 32 / 2, 1e-7)


# -- real processes ----------------------------------------------------------------------------------------------------
@contextlib.contextmanager
def processes(workers: int, servers: int) -> Iterator[tuple[list[str], list[int]]]:
    """A cluster of real processes; yields the targets of the workers, and the ids of all processes."""
    addresses = free_addresses(workers + servers)
    cluster = {"ps": addresses[:servers], "worker": addresses[servers:]}
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    started = []
    try:
        for job, found in cluster.items():
            for i in range(len(found)):
                env["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": job, "index": i}})
                started.append(subprocess.Popen([sys.executable, "-m", "penstock", "server"], env=env,
                                                stdout=subprocess.PIPE, text=True))
        for process in started:
            assert process.stdout is not None
            process.stdout.readline()                # it listens
        yield [f"grpc://{a}" for a in cluster["worker"]], [process.pid for process in started]
    finally:
        for process in started:                      # there is no state to keep
            process.kill()
        for process in started:
            process.wait()


_CLIENT = """
import sys, time, json
import penstock.compat.v1 as tf
from penstock._src.simulate import calibrate, programs
target, index, servers, size, seconds = sys.argv[1], *map(float, sys.argv[2:])
print(json.dumps(calibrate.client(target, int(index), programs.dense_null_step(int(size)), int(servers), seconds)))
"""


def client(target: str, index: int, build: programs.Build, servers: int, seconds: float) -> list[float]:
    """Runs a program as one worker for some seconds; returns the median time of a step in each of several rounds."""
    with _step(target, index, build, servers) as step:
        found = []
        for _ in range(_ROUNDS):
            times: list[float] = []
            until = time.perf_counter() + seconds / _ROUNDS
            while not times or time.perf_counter() < until:
                began = time.perf_counter()
                step()
                times.append(time.perf_counter() - began)
            found.append(statistics.median(times))
    return found


@contextlib.contextmanager
def _step(target: str, index: int, build: programs.Build, servers: int) -> Iterator[Any]:
    """A function that runs a step of a program, as one worker."""
    program = build(servers)
    filters = ["/job:ps", f"/job:worker/task:{index}"]
    for op in program.graph.get_operations():
        if "/job:worker" in op.device:
            op._set_device(op.device.replace("/task:0", f"/task:{index}"))
    with program.graph.as_default(), tf.Session(target, config=tf.ConfigProto(device_filters=filters)) as sess:
        if index == 0:
            sess.run(tf.global_variables_initializer())
        else:
            while sess.run(tf.report_uninitialized_variables()).size:
                time.sleep(0.05)
        step = sess.make_callable(tf.group(*program.step))
        for _ in range(20):
            step()
        yield step


def step_seconds(workers: int, servers: int, build: programs.Build, size: int | None = None, seconds: float = 2.5) -> float:
    """The time of a step of real processes; `size` names the program to further workers."""
    with processes(workers, servers) as (targets, _):
        others = [subprocess.Popen([sys.executable, "-c", _CLIENT, t, str(i), str(servers), str(size), str(seconds)],
                                   stdout=subprocess.PIPE, text=True) for i, t in enumerate(targets) if i]
        times = client(targets[0], 0, build, servers, seconds)
        for other in others:
            times += json.loads(other.communicate()[0])
    return min(times)


def processor_seconds(servers: int, size: int, steps: int = 60) -> float:
    """The processor time that a null step of one worker takes in all processes together."""
    with processes(1, servers) as (targets, ids), _step(targets[0], 0, programs.dense_null_step(size), servers) as step:
        found = []
        for _ in range(_ROUNDS):
            began = time.process_time() + sum(map(_used, ids))
            for _ in range(steps):
                step()
            found.append((time.process_time() + sum(map(_used, ids)) - began) / steps)
    return min(found)


def _used(process: int) -> float:
    """The processor time of a process and its threads, in seconds. It has nanoseconds where the system has."""
    folder = pathlib.Path(f"/proc/{process}/task")
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in folder.iterdir()) / 1e9


def compare(machines: Machines, sizes: tuple[int, ...] = (4, _LARGE),
            shapes: tuple[tuple[int, int], ...] = ((1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (4, 2))) -> Iterator[Compared]:
    """Predicted against measured, for null steps on up to six processes."""
    for size in sizes:
        for workers, servers in shapes:
            build = programs.dense_null_step(size)
            predicted = Job(build(servers), machines, workers, servers, FREE).run(20).median
            measured = step_seconds(workers, servers, build, size)
            yield Compared(f"null step, {size} bytes", workers, servers, predicted * 1e3, measured * 1e3)
