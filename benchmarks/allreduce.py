"""All-reduce between processes of this machine: every algorithm, AUTO, and torch.distributed's gloo, in turns in one run.

    python benchmarks/allreduce.py --processes 2 3 4 8 --sizes 256 65536 1048576 --seconds 10 [--table docs/FILE.md]

Prints, for each number of processes and elements (float32), the time of each way in milliseconds, what AUTO chose, its time
over that of the same way when it is requested by name, which shows how far two measurements of one thing differ, and over that
of the best. A round calls every way, small arrays a few times in a row, in an order that changes, after a barrier and, unless
arrays are too large for caches, a call that does not count: gloo is 10% slower at 4 MB after another way than after itself, and
three columns may be gloo's. The slowest process counts. A time is the mean of the quickest quarter of the rounds: with more
processes than cores, single rounds differ by a lot, and what others do on the machine only ever adds. Who is far behind is
called in fewer rounds; all others, AUTO among them, are called in the same ones, so that what disturbs one disturbs all. Each
size has its rounds in four parts, at different moments. Before each, AUTO is called, until it has tried often or for half as
long. All ways write into their input, as torch.distributed does; "torch gloo" is `torch.distributed.all_reduce` itself.
"""
from __future__ import annotations

import argparse
import json
import mmap
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

SOURCE = str(pathlib.Path(__file__).parents[1] / "src")
sys.path[:0] = [SOURCE, str(pathlib.Path(__file__).parent)]

import generated  # noqa: E402

from penstock._src.cluster.launch import free_addresses  # noqa: E402

LARGE = 1 << 20                     # bytes: smaller ones are timed some calls at a time
LONG = 16 << 20                     # bytes: from here on, no call goes before
MANY = 5
FIRST, BEHIND = 3, 1.5              # rounds for all; then for those who are not slower than so many times the best
SOME = 12                           # …, of what is not large
TRIALS = 5                          # of AUTO: from then on, they are rare
PASSES = 4                          # times that each size is measured, at different moments


class Meeting:
    """Lets processes begin together, by numbers in memory that they share: a barrier of gloo's would favour gloo, whose threads
    are awake then."""

    def __init__(self, path: str, rank: int, size: int):
        with open(path, "r+b") as f:
            self._counts = memoryview(mmap.mmap(f.fileno(), 8 * size)).cast("q")
        self._rank = rank

    def wait(self) -> None:
        """Returns when all have called it as often."""
        self._counts[self._rank] = mine = self._counts[self._rank] + 1
        while min(self._counts) < mine:
            time.sleep(1e-4)


class Member:
    """One process of the group."""

    def __init__(self, rank: int, spec: dict, store: int, meeting: str):
        import torch
        import torch.distributed as dist

        import penstock.compat.v1 as tf
        from penstock._src.collective.group import Limit
        torch.set_num_threads(1)
        self.rank, self.size, self.dist = rank, len(spec["worker"]), dist
        self.meeting = Meeting(meeting, rank, self.size)
        self.server = tf.train.Server({"worker": spec["worker"]}, "worker", rank)
        hub = self.server._resources.hub
        self.group = hub.join(1, self.size, f"{hub.task}/device:CPU:0", Limit(seconds=60))
        dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{store}", rank=rank, world_size=self.size)

    def call(self, name: str, x) -> None:
        """One reduction in one way."""
        if name == "torch gloo":
            self.dist.all_reduce(x)
        else:
            self.group.all_reduce(self.rank, f"{name} {x.numel()}", x, how=name, in_place=True)

    def slowest(self, seconds: list[float]) -> list[float]:
        """The greatest of what all processes have measured."""
        import torch
        times = torch.tensor(seconds, dtype=torch.float64)
        self.dist.all_reduce(times, op=self.dist.ReduceOp.MAX)
        return times.tolist()

    def chosen(self, x):
        """What AUTO has chosen for arrays like this, and whether it has tried often: another choice is not likely soon."""
        from penstock._src.collective import tuner
        choice = self.group.tuner.choices[self.rank, min((x.nbytes - 1).bit_length(), tuner._LARGEST), ""]
        return choice.chosen, choice.trials >= TRIALS

    def close(self) -> None:
        """Leaves the group."""
        self.dist.destroy_process_group()
        self.server.stop()


class Size:
    """The measurement of one size, made in several parts."""

    def __init__(self, member: Member, elements: int):
        import torch

        from penstock._src.collective.algorithms import ALGORITHMS
        self._member, self._x, self._rounds = member, torch.zeros(elements), 0
        self._large = self._x.nbytes >= LARGE
        self._many, self._first = (1, FIRST) if self._large else (MANY, SOME)
        self._times: dict[str, list[float]] = {name: [] for name in [*ALGORITHMS, "gloo", "auto", "torch gloo"]}
        for name in self._times:
            member.call(name, self._x)              # for the first time: connections, trials

    def settle(self, seconds: float) -> None:
        """Calls AUTO until it has made up its mind."""
        start, member = time.perf_counter(), self._member
        while not member.chosen(self._x)[1] and member.slowest([time.perf_counter() - start])[0] < seconds:
            for _ in range(1 if self._large else 16):
                member.call("auto", self._x)

    def measure(self, seconds: float) -> None:
        """Some rounds."""
        start, spent = time.perf_counter(), 0.0
        while spent < seconds or self._rounds < FIRST:
            self._rounds += 1
            turn = self._turn()
            *worst, spent = self._member.slowest([*map(self._timed, turn), time.perf_counter() - start])
            for name, took in zip(turn, worst, strict=True):
                self._times[name].append(took)

    def _turn(self) -> list[str]:
        """Who is called in a round, in its order: the same for all processes."""
        from penstock._src.collective.tuner import typical
        names = list(self._times)
        if self._rounds > self._first:
            known = {name: typical(found) for name, found in self._times.items()}
            names = [name for name in names if name == "auto" or known[name] <= BEHIND * min(known.values())]
        return random.Random(self._rounds).sample(names, len(names))

    def _timed(self, name: str) -> float:
        self._member.meeting.wait()
        if self._x.nbytes < LONG:
            self._member.call(name, self._x)        # its threads are awake, and its memory is in caches, as they are in a row
        began = time.perf_counter()
        for _ in range(self._many):
            self._member.call(name, self._x)
        return (time.perf_counter() - began) / self._many

    def report(self) -> dict:
        """What was found."""
        from penstock._src.collective.tuner import typical
        return {"processes": self._member.size, "elements": self._x.numel(), "chosen": self._member.chosen(self._x)[0],
                "rounds": self._rounds, "ms": {name: typical(found) * 1e3 for name, found in self._times.items()}}


def member(rank: int, spec: dict, store: int, meeting: str, sizes: list[int], seconds: float) -> None:
    """One process: times all ways; process 0 prints a line of JSON per size."""
    made = Member(rank, spec, store, meeting)
    measured = [Size(made, n) for n in sizes]
    for _ in range(PASSES):
        for size in measured:
            size.settle(seconds / PASSES / 2)
            size.measure(seconds / PASSES)
    for size in measured if rank == 0 else []:
        print(json.dumps(size.report()), flush=True)
    made.close()


def run(processes: int, sizes: list[int], seconds: float) -> list[dict]:
    """The lines of one number of processes."""
    *workers, meeting = free_addresses(processes + 1, "127.0.0.1")
    spec, store = {"worker": workers}, int(meeting.rpartition(":")[2])
    env = {"PENSTOCK_HEARTBEAT_SECONDS": "15", **os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--seconds", str(seconds), "--sizes", *map(str, sizes), "--member"]
    with tempfile.NamedTemporaryFile() as meeting:
        meeting.write(bytes(8 * processes))
        meeting.flush()
        made = [subprocess.Popen([*command, json.dumps([rank, spec, store, meeting.name])], env=env, stdout=subprocess.PIPE,
                                 text=True) for rank in range(processes)]
        try:
            out = made[0].communicate(timeout=1800)[0]
            for p in made[1:]:
                p.wait(60)
        finally:
            for p in made:
                p.kill()
                p.wait()
    return [json.loads(line) for line in out.splitlines()]


def main() -> None:
    """Reads the arguments and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, nargs="+", default=[2, 3, 4, 8])
    parser.add_argument("--sizes", type=int, nargs="+", default=[256, 4096, 65536, 1 << 20, 1 << 22, 1 << 24])
    parser.add_argument("--seconds", type=float, default=10.0, help="for each size")
    parser.add_argument("--table", type=pathlib.Path, help="a page of docs/ whose table is replaced")
    parser.add_argument("--member", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.member:
        member(*json.loads(args.member), args.sizes, args.seconds)
        return
    head, farthest, kept = None, 0.0, []
    for processes in args.processes:
        for line in run(processes, args.sizes, args.seconds):
            times = line["ms"]
            if head is None:
                head = list(times)
                kept = ["| processes | KB | " + " | ".join(head) + " | AUTO chose | rounds | AUTO / that | AUTO / best |",
                        "|---" * (len(head) + 6) + "|"]
                print("\n".join(kept))
            same = times["auto"] / times[line["chosen"]]
            ratio = times["auto"] / min(t for name, t in times.items() if name != "auto")
            farthest = max(farthest, ratio)
            kept.append(f"| {line['processes']} | {line['elements'] * 4 // 1024} | "
                        + " | ".join(f"{times[h]:.3g}" for h in head)
                        + f" | {line['chosen']} | {line['rounds']} | {same:.2f} | {ratio:.2f} |")
            print(kept[-1], flush=True)
    kept.append(f"\nAUTO took at most {farthest:.2f} times as long as the best.")
    print(kept[-1])
    if args.table:
        generated.write(args.table, "allreduce", kept)


if __name__ == "__main__":
    main()
