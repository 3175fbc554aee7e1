"""A cluster in a storm: faults strike tasks at random while they train, and tasks that have died are started again.

A `Mode` is a way to train: asynchronously, synchronously, with a backup worker, under MultiWorkerMirroredStrategy or under
ParameterServerStrategy. Nothing but the restarts helps: the training has to recover, and to end at its last step by itself.
`tests/chaos/campaign.py` runs many storms and keeps their results.
"""
import contextlib
import dataclasses
import json
import os
import pathlib
import random
import re
import resource
import signal
import socket
import time

from penstock._src.cluster.ports import free_addresses
from tests.cluster.nursery import ROOT
from tests.cluster.proxy import Network

PROGRAM = ROOT / "examples" / "digits_cluster.py"
HERE = pathlib.Path(__file__).parent


@dataclasses.dataclass(frozen=True)
class Mode:
    """A way to train: a program, its tasks, and the job whose tasks end by themselves when the training has ended."""
    program: pathlib.Path
    jobs: dict
    args: tuple = ()
    ends: str = "worker"


MODES = {
    "asynchronous": Mode(PROGRAM, {"ps": 2, "worker": 3}, ("--delay=0.02", "--save_steps=20")),
    "synchronous": Mode(PROGRAM, {"ps": 2, "worker": 3}, ("--delay=0.02", "--save_steps=20", "--sync")),
    "backup worker": Mode(PROGRAM, {"ps": 2, "worker": 3}, ("--delay=0.02", "--save_steps=20", "--sync", "--aggregate=2")),
    "MultiWorkerMirroredStrategy": Mode(HERE / "mirrored.py", {"worker": 2}),
    "ParameterServerStrategy": Mode(HERE / "coordinated.py", {"chief": 1, "ps": 2, "worker": 2}, (), "chief"),
}


class Cluster:
    """Tasks with a network between them; `look` starts again who has died."""

    def __init__(self, nursery, folder, jobs, *args, cuttable=True, heartbeat=1.0, program=PROGRAM, ends="worker"):
        self.program, self.ends = program, ends
        self._env = {"PENSTOCK_HEARTBEAT_SECONDS": str(heartbeat), "PENSTOCK_STALL_SECONDS": str(4 * heartbeat)}
        self.nursery, self.folder, self.jobs, self.args = nursery, pathlib.Path(folder), jobs, args
        self.tasks = [(job, i) for job, n in jobs.items() for i in range(n)]
        self.real = dict(zip(self.tasks, (a.replace("localhost", "127.0.0.1") for a in free_addresses(len(self.tasks))),
                             strict=True))
        self.network = Network() if cuttable else None
        self.seen = {src: {dst: self.real[dst] if src == dst or not self.network else
                           self.network.way(src, dst, self.real[dst]) for dst in self.tasks} for src in self.tasks}
        self.running, self.done, self.restarts = {}, set(), 0

    def start(self, task, *more):
        job, index = task
        hosts = {j: [self.seen[task][t] for t in self.tasks if t[0] == j] for j in dict(self.tasks)}
        args, env = self.args, self._env
        if self.program == PROGRAM:
            args = (f"--job_name={job}", f"--task_index={index}", *(f"--{j}_hosts={','.join(hosts[j])}" for j in hosts), *args)
        else:
            env = {**env, "TF_CONFIG": json.dumps({"cluster": hosts, "task": {"type": job, "index": index}})}
        self.running[task] = self.nursery.start(self.folder / f"{job}{index}.log", self.program, *args, *more, env=env)

    def start_all(self):
        for task in self.tasks:
            self.start(task)

    def look(self):
        """Starts dead tasks again; whether all that should end have ended well."""
        for task, child in list(self.running.items()):
            if child.status == 0 and task[0] == self.ends:
                self.done.add(task)
            elif not child.alive() and task not in self.done:
                self.restarts += 1
                self.start(task)
        return all(t in self.done for t in self.tasks if t[0] == self.ends)

    def wait(self, seconds):
        """Waits until all workers have ended well; whether they did."""
        deadline = time.monotonic() + seconds
        while not self.look():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True

    def step(self):
        """The step of the newest checkpoint."""
        with contextlib.suppress(OSError, AttributeError):
            text = (self.folder / "model" / "checkpoint").read_text()
            return int(re.search(r"ckpt-(\d+)", text)[1])
        return 0

    def steps_of(self):
        """A mark for each task that trains and has not ended, which changes with every step that it does."""
        found = {}
        for job, index in self.tasks:
            if job == self.ends and (job, index) not in self.done:
                with contextlib.suppress(OSError):
                    found[job, index] = os.stat(self.folder / "model" / f"{job}_{index}.positions").st_mtime_ns
        return found

    def results(self):
        """(step, loss, accuracy) that each worker has printed at its end."""
        found = {}
        for task in self.tasks:
            log = self.folder / f"{task[0]}{task[1]}.log"
            text = log.read_text() if log.exists() else ""
            said = re.findall(r"worker \d+: step (\d+) loss ([\d.]+) accuracy ([\d.]+)", text)
            if said:
                found[task] = (int(said[-1][0]), float(said[-1][1]), float(said[-1][2]))
        return found

    def close(self):
        for child in self.running.values():
            child.signal(signal.SIGCONT)
            child.signal(signal.SIGKILL)
        for child in self.running.values():
            child.wait(10)
        if self.network:
            self.network.close()


class Storm:
    """Faults at random, in sequence or two at once."""

    def __init__(self, cluster, seed, pause=(0.3, 1.5), kinds=("kill", "stop", "cut")):
        self.cluster, self.draw, self.pause = cluster, random.Random(seed), pause
        self.counts = dict.fromkeys(kinds, 0)

    def strike(self):
        """One fault: something happens to a task for a while. Returns its kind and its task, or None if the task has ended."""
        task, kind = self.draw.choice(self.cluster.tasks), self.draw.choice(list(self.counts))
        seconds = self.draw.uniform(*self.pause) * self.draw.choice([0.5, 3.0])
        if task in self.cluster.done:
            return None
        self.counts[kind] += 1
        getattr(self, "_" + kind)(task, self.cluster.running[task], seconds)
        self.cluster.look()
        return kind, task

    def rest(self):
        """The time between two faults."""
        time.sleep(self.draw.uniform(*self.pause))

    def _kill(self, task, child, seconds):
        child.signal(signal.SIGKILL)
        child.wait(10)

    def _stop(self, task, child, seconds):
        child.signal(signal.SIGSTOP)
        time.sleep(seconds)
        child.signal(signal.SIGCONT)

    def _cut(self, task, child, seconds):
        self.cluster.network.cut(task)
        time.sleep(seconds)
        self.cluster.network.mend(task)

    def _slow(self, task, child, seconds):
        """What the task sends and receives is late."""
        self.cluster.network.delay(task, 0.1)
        time.sleep(seconds)
        self.cluster.network.delay(task, 0.0)

    def _full(self, task, child, seconds):
        """Files cannot grow, as on a full disk."""
        with contextlib.suppress(ProcessLookupError):
            before = resource.prlimit(child.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
            time.sleep(seconds)
            resource.prlimit(child.pid, resource.RLIMIT_FSIZE, before)

    def _clock(self, task, child, seconds):
        """The clock jumps by an hour; the next jump goes back (tests/cluster/nursery.py)."""
        child.signal(signal.SIGUSR1)

    def _open(self, task, child, seconds):
        """Connections that are opened, and say nothing."""
        host, port = self.cluster.real[task].split(":")
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(OSError):
                for _ in range(100):
                    stack.enter_context(socket.create_connection((host, int(port)), timeout=5))
            time.sleep(seconds)


KINDS = ("kill", "stop", "cut", "slow", "full", "clock", "open")


def begun(cluster, limit):
    """Waits for the first checkpoint or, where there is none, for the first steps; whether they came."""
    deadline = time.monotonic() + limit
    while not cluster.step() and not len(cluster.steps_of()) == cluster.jobs[cluster.ends]:
        if time.monotonic() > deadline:
            return False
        cluster.look()
        time.sleep(0.05)
    return True


def run(nursery, folder, faults, steps, *args, seed=0, pause=(0.3, 1.5), limit=120.0, heartbeat=0.5, say=lambda text: None):
    """Trains through a number of faults; returns the cluster's results, the faults and the restarts."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    cluster = Cluster(nursery, folder, {"ps": 2, "worker": 3}, f"--folder={folder / 'model'}", f"--steps={steps}",
                      "--save_steps=50", *args, cuttable=bool(faults), heartbeat=heartbeat)
    storm = Storm(cluster, seed, pause)
    try:
        cluster.start_all()
        begun(cluster, limit)
        count = 0
        while count < faults and not cluster.done:
            count += storm.strike() is not None
            storm.rest()
            say(f"{count} faults {storm.counts}, step {cluster.step()}, {cluster.restarts} restarts")
        ended = cluster.wait(limit)
        return cluster.results() if ended else None, storm.counts, cluster.restarts
    finally:
        cluster.close()


def open_files():
    """The files and sockets that this process has open."""
    return len(os.listdir("/proc/self/fd"))
