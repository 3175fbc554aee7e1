"""Measures the constants of this machine, and compares predictions with real processes on it.

`measure` returns a machine file: the time of small ops and messages, the speed of arithmetic, of memory and of copies between
two processes. `compare` runs null steps on clusters of real processes of this machine (`penstock server`), and simulates the
same. The time of a step is that of all workers together: on shared cores some steps take much longer than others, and only
their mean tells how many steps are made. Both exclude other load as far as possible: constants are processor times of each
process, and of several short rounds the one with the least time counts.
"""
from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
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
_ROUNDS = 20


class Compared(NamedTuple):
    """Milliseconds of a step, predicted and measured: the mean of all workers."""
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
    """The constants of this machine, in about half a minute.

    They come from the processor time of the client, of the worker and of the servers in three cases: one server, two servers,
    and one server with large tensors. A step exchanges four messages with each server: its part, the value, the update and the
    end. What a second server adds to the worker is the cost of these messages; what a server takes besides is that of beginning
    a part; the rest is the client's request. What a step takes longer than all processes work, the wake-ups take. The first and
    the last case are measured again while independent clusters keep the other cores busy, for the cost of sharing caches and
    memory.
    """
    a, b = torch.ones(512, 512), torch.ones(_MEMORY // 4)
    flops = 2 * 512 ** 3 / _best(lambda: a @ a)
    memory = 3 * _MEMORY / _best(lambda: torch.add(b, 1.0))
    op = _op_seconds()
    one, two, large = (times_of(*case) for case in ((1, 4), (2, 4), (1, _LARGE)))
    crowded, crowded_large = (times_of(1, size, crowd=(os.cpu_count() or 1) - 1) for size in (4, _LARGE))
    message = max(two.worker - one.worker - op, 4e-6) / 4
    machine = Machine(cores=os.cpu_count() or 1, flops=flops, memory_bandwidth=memory, op_seconds=op, nic=1e12,
                      send_seconds=message, receive_seconds=message, crowding=max(crowded.work / one.work, 1.0),
                      copy_crowding=max((crowded_large.work - crowded.work) / max(large.work - one.work, 1e-6), 1.0))
    worker = dataclasses.replace(machine, step_seconds=max(one.client + one.worker - 4 * message - op, 0.0),
                                 copy_bandwidth=2 * _LARGE / max(large.worker - one.worker, 1e-6))
    server = dataclasses.replace(machine, begin_seconds=max(one.server - 4 * message - 2 * op, 0.0),
                                 copy_bandwidth=2 * _LARGE / max(large.server - one.server, 1e-6))
    wake = max(one.step - one.work, 0.0) / 4
    return Machines({"worker": worker, "ps": server}, Network(latency=wake, one_machine=True),
                    "measured by penstock simulate --calibrate on this machine; all tasks share its cores")


def _op_seconds() -> float:
    """The time that one more small op adds to a step: an update of a variable, which no other op is fused with."""
    def run(count: int) -> float:
        with tf.Graph().as_default(), tf.Session() as sess:
            updates = [tf.assign_add(tf.get_variable(f"v{i}", [1], use_resource=False), [1.0]).op for i in range(count)]
            sess.run(tf.global_variables_initializer())
            step = sess.make_callable(tf.group(*updates))
            for _ in range(64):
                step()
            return _best(step, 200)
    return max((run(40) - run(8)) / 32, 1e-7)


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
import sys
from penstock._src.simulate import calibrate, programs
target, index, servers, size = sys.argv[1], *map(int, sys.argv[2:])
calibrate.client(target, index, programs.dense_null_step(size), servers)
"""


def client(target: str, index: int, build: programs.Build, servers: int) -> None:
    """The process of one more worker: says when it is ready; then reads how many seconds to run steps, and answers with their
    number, until its input ends."""
    with _step(target, index, build, servers) as step:
        print("ready", flush=True)
        for line in sys.stdin:
            print(_steps_in(step, float(line)), flush=True)


def _steps_in(step: Any, seconds: float) -> float:
    """Steps in some seconds; of the last one, the part in that time."""
    count, began = 0, time.perf_counter()
    now = before = began
    while now - began < seconds:
        step()
        count, before, now = count + 1, now, time.perf_counter()
    return count - (now - began - seconds) / (now - before)


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


def step_seconds(workers: int, servers: int, build: programs.Build, size: int, seconds: float = 0.15) -> float:
    """The mean time of a step of real processes, in the round of `seconds` in which it was least."""
    with contextlib.ExitStack() as stack:
        targets, _ = stack.enter_context(processes(workers, servers))
        step = stack.enter_context(_step(targets[0], 0, build, servers))
        others = [_other(stack, t, i, servers, size) for i, t in enumerate(targets) if i]
        return min(_round(step, others, seconds) for _ in range(_ROUNDS))


def _other(stack: contextlib.ExitStack, target: str, index: int, servers: int, size: int) -> subprocess.Popen:
    """The process of one more worker, once it is ready."""
    made = stack.enter_context(subprocess.Popen([sys.executable, "-c", _CLIENT, target, str(index), str(servers), str(size)],
                                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
    stack.callback(made.kill)
    assert made.stdout is not None
    made.stdout.readline()
    return made


def _round(step: Any, others: list[subprocess.Popen], seconds: float) -> float:
    """The mean time of a step of all workers, which run for some seconds at the same time."""
    for other in others:
        print(seconds, file=other.stdin, flush=True)
    count = _steps_in(step, seconds)
    for other in others:
        assert other.stdout is not None
        count += float(other.stdout.readline())
    return seconds * (1 + len(others)) / count


class Times(NamedTuple):
    """Seconds of a step, and those that each process works for it: the client, the worker, each server."""
    step: float
    client: float
    worker: float
    server: float

    @property
    def work(self) -> float:
        """Of all processes, with one server."""
        return self.client + self.worker + self.server


def times_of(servers: int, size: int, steps: int = 60, crowd: int = 0) -> Times:
    """The times of a null step of one worker, in the round in which the processes worked least, beside a crowd of clusters of
    two processes that do the same."""
    with contextlib.ExitStack() as stack:
        targets, ids = stack.enter_context(processes(1, servers))
        step = stack.enter_context(_step(targets[0], 0, programs.dense_null_step(size), servers))
        for _ in range(crowd):
            beside, _ = stack.enter_context(processes(1, 1))
            print(600, file=_other(stack, beside[0], 0, 1, size).stdin, flush=True)
        found = []
        for _ in range(_ROUNDS):
            began, used, own = time.perf_counter(), [*map(_used, ids)], time.process_time()
            for _ in range(steps):
                step()
            own, took = time.process_time() - own, time.perf_counter() - began
            spent = [(now - before) / steps for now, before in zip(map(_used, ids), used, strict=True)]
            found.append(Times(took / steps, own / steps, spent[-1], sum(spent[:-1]) / servers))
    return min(found, key=lambda t: t.client + t.worker + t.server * servers)


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
            predicted = workers / Job(build(servers), machines, workers, servers, FREE).run(50).steps_per_second
            measured = step_seconds(workers, servers, build, size)
            yield Compared(f"null step, {size} bytes", workers, servers, predicted * 1e3, measured * 1e3)
