"""A cluster in a storm: tasks are killed, stopped and cut off at random while they train, and are started again.

    python -m tests.chaos.storm --faults 100

Two parameter servers and three workers run examples/digits_cluster.py, with a checkpoint every 50 steps. Whoever dies is
started again, as a launcher would. Nothing else helps: the training has to find its way back, and to end at its last step
by itself.
"""
import argparse
import contextlib
import os
import pathlib
import random
import re
import signal
import tempfile
import threading
import time

from penstock._src.cluster.ports import free_addresses
from tests.cluster.nursery import ROOT, Nursery
from tests.cluster.proxy import Network

PROGRAM = ROOT / "examples" / "digits_cluster.py"


class Cluster:
    """Tasks with a network between them; `look` starts again who has died."""

    def __init__(self, nursery, folder, jobs, *args, cuttable=True, heartbeat=1.0):
        self._env = {"PENSTOCK_HEARTBEAT_SECONDS": str(heartbeat)}
        self.nursery, self.folder, self.args = nursery, pathlib.Path(folder), args
        self.tasks = [(job, i) for job, n in jobs.items() for i in range(n)]
        self.real = dict(zip(self.tasks, (a.replace("localhost", "127.0.0.1") for a in free_addresses(len(self.tasks))),
                             strict=True))
        self.network = Network() if cuttable else None
        self.seen = {src: {dst: self.real[dst] if src == dst or not self.network else
                           self.network.way(src, dst, self.real[dst]) for dst in self.tasks} for src in self.tasks}
        self.running, self.done, self.restarts = {}, set(), 0

    def start(self, task, *more):
        job, index = task
        hosts = {j: ",".join(self.seen[task][t] for t in self.tasks if t[0] == j) for j in ("ps", "worker")}
        self.running[task] = self.nursery.start(
            self.folder / f"{job}{index}.log", PROGRAM, f"--job_name={job}", f"--task_index={index}",
            f"--ps_hosts={hosts['ps']}", f"--worker_hosts={hosts['worker']}", *self.args, *more, env=self._env)

    def start_all(self):
        for task in self.tasks:
            self.start(task)

    def look(self):
        """Starts dead tasks again; whether all workers have ended well."""
        for task, child in list(self.running.items()):
            if child.status == 0 and task[0] == "worker":
                self.done.add(task)
            elif not child.alive() and task not in self.done:
                self.restarts += 1
                self.start(task)
        return all(t in self.done for t in self.tasks if t[0] == "worker")

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
            return int(re.search(r"model\.ckpt-(\d+)", text)[1])
        return 0

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

    def __init__(self, cluster, seed, pause=(0.3, 1.5)):
        self.cluster, self.draw, self.pause = cluster, random.Random(seed), pause
        self.counts = {"kill": 0, "stop": 0, "cut": 0}

    def strike(self):
        """One fault: something happens to a task for a while."""
        task, kind = self.draw.choice(self.cluster.tasks), self.draw.choice(list(self.counts))
        if task in self.cluster.done:
            return False
        child, seconds = self.cluster.running[task], self.draw.uniform(*self.pause)
        self.counts[kind] += 1
        if kind == "kill":
            child.signal(signal.SIGKILL)
            child.wait(10)
        elif kind == "stop":
            child.signal(signal.SIGSTOP)
            time.sleep(seconds * self.draw.choice([0.5, 3.0]))
            child.signal(signal.SIGCONT)
        else:
            self.cluster.network.cut(task)
            time.sleep(seconds * self.draw.choice([0.5, 3.0]))
            self.cluster.network.mend(task)
        self.cluster.look()
        time.sleep(seconds)
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
        deadline = time.monotonic() + limit
        while not cluster.step() and time.monotonic() < deadline:
            cluster.look()
            time.sleep(0.05)
        count = 0
        while count < faults and not cluster.done:
            count += storm.strike()
            say(f"{count} faults {storm.counts}, step {cluster.step()}, {cluster.restarts} restarts")
        ended = cluster.wait(limit)
        return cluster.results() if ended else None, storm.counts, cluster.restarts
    finally:
        cluster.close()


def open_files():
    """The files and sockets that this process has open."""
    return len(os.listdir("/proc/self/fd"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--steps", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--delay", type=float, default=0.02)
    parser.add_argument("--folder")
    parser.add_argument("--sync", type=int, default=0, metavar="N", help="train synchronously, with N gradients in a step")
    args = parser.parse_args()
    folder = pathlib.Path(args.folder or tempfile.mkdtemp(prefix="storm"))
    how = ["--sync", f"--aggregate={args.sync}"] if args.sync else []
    free_addresses(0)                               # opens the table of reserved ports, which stays open
    before = threading.active_count(), open_files()
    with Nursery() as nursery:
        calm, _, _ = run(nursery, folder / "calm", 0, args.steps, *how, limit=900)
        print(f"undisturbed: {calm}", flush=True)
        began = time.monotonic()
        wild, counts, restarts = run(nursery, folder / "storm", args.faults, args.steps, f"--delay={args.delay}", *how,
                                     seed=args.seed, limit=900, say=lambda text: print(text, flush=True))
        print(f"{sum(counts.values())} faults {counts}, {restarts} restarts, {time.monotonic() - began:.0f} s: {wild}")
    if not calm or not wild or len(wild) != 3:
        raise SystemExit(f"the training did not end by itself; logs are in {folder}")
    left = threading.active_count() - before[0], open_files() - before[1], sum(c.alive() for c in nursery.children.values())
    print(f"left over: {left[0]} threads, {left[1]} files, {left[2]} processes")
    worst = max(abs(w[1] - c[1]) for w in wild.values() for c in calm.values())
    print(f"largest difference of losses: {worst:.4f}; of accuracies: "
          f"{max(abs(w[2] - c[2]) for w in wild.values() for c in calm.values()):.4f}")
    if worst > 0.03 or any(n > 0 for n in left):
        raise SystemExit("the storm has left its marks")


if __name__ == "__main__":
    main()
