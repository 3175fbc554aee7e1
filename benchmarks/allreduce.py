"""All-reduce between processes of this machine: every algorithm, AUTO, and torch.distributed's gloo, in turns in one run.

    python benchmarks/allreduce.py --processes 2 4 --sizes 1024 65536 1048576

Prints, for each number of processes and elements (float32), the time of each way in milliseconds, what AUTO chose, and its time
over that of the best. A round calls every way a few times in a row, in an order that rotates, after a barrier; the slowest
process counts. What others do on the machine only ever adds to a time, so the least of many short rounds is printed. All ways
write into their input, as torch.distributed does; "torch gloo" is `torch.distributed.all_reduce` itself.
"""
from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

SOURCE = str(pathlib.Path(__file__).parents[1] / "src")
sys.path.insert(0, SOURCE)

from penstock.distributed.launch import free_addresses  # noqa: E402

LARGE = 1 << 20                     # bytes: smaller ones are timed some calls at a time
MANY = 5


def member(rank: int, spec: dict, store: int, sizes: list[int], seconds: float) -> None:
    """One process: times all ways; process 0 prints a line of JSON per size."""
    import torch
    import torch.distributed as dist

    import penstock.compat.v1 as tf
    from penstock.collective.algorithms import ALGORITHMS
    from penstock.collective.group import Limit
    torch.set_num_threads(1)
    server = tf.train.Server({"worker": spec["worker"]}, "worker", rank)
    size = len(spec["worker"])
    hub = server._resources.hub
    group = hub.join(1, size, f"{hub.task}/device:CPU:0", Limit(seconds=60))
    raw = None
    if size > 1:
        dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{store}", rank=rank, world_size=size)
        raw = dist.group.WORLD

    def way(name: str, x: torch.Tensor) -> None:
        if name == "torch gloo":
            dist.all_reduce(x, group=raw)
        else:
            group.all_reduce(rank, f"{name} {x.numel()}", x, how=name, in_place=True)
    for n in sizes:
        x = torch.zeros(n)
        names = [*ALGORITHMS, "gloo", "auto", "torch gloo"]
        many = MANY if x.nbytes < LARGE else 1
        for name in names:
            way(name, x)                            # for the first time: connections, trials
        times: dict[str, list[float]] = {name: [] for name in names}
        start, spent, rounds = time.perf_counter(), 0.0, 0
        while spent < seconds or rounds < len(names):
            turn = names[rounds % len(names):] + names[:rounds % len(names)]
            mine = []
            for name in turn:
                dist.barrier()
                began = time.perf_counter()
                for _ in range(many):
                    way(name, x)
                mine.append((time.perf_counter() - began) / many)
            mine.append(time.perf_counter() - start)
            worst = group.all_reduce(rank, "times", torch.tensor(mine, dtype=torch.float64), "Max", how="all_to_all").tolist()
            spent, rounds = worst.pop(), rounds + 1
            for name, took in zip(turn, worst, strict=True):
                times[name].append(took)
        if rank == 0:
            choice = group.tuner.choices[0, min((x.nbytes - 1).bit_length(), 24), ""]
            print(json.dumps({"processes": size, "elements": n, "chosen": choice.chosen, "rounds": rounds,
                              "ms": {k: min(v) * 1e3 for k, v in times.items()}}), flush=True)
    dist.destroy_process_group()
    server.stop()


def run(processes: int, sizes: list[int], seconds: float) -> list[dict]:
    """The lines of one number of processes."""
    *workers, meeting = free_addresses(processes + 1, "127.0.0.1")
    spec, store = {"worker": workers}, int(meeting.rpartition(":")[2])
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--seconds", str(seconds), "--sizes", *map(str, sizes), "--member"]
    made = [subprocess.Popen([*command, json.dumps([r, spec, store])], env=env, stdout=subprocess.PIPE, text=True)
            for r in range(processes)]
    try:
        out = made[0].communicate(timeout=900)[0]
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
    parser.add_argument("--processes", type=int, nargs="+", default=[2, 3, 4])
    parser.add_argument("--sizes", type=int, nargs="+", default=[256, 4096, 65536, 1048576, 4194304])
    parser.add_argument("--seconds", type=float, default=10.0, help="for each size")
    parser.add_argument("--member", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.member:
        member(*json.loads(args.member), args.sizes, args.seconds)
        return
    head, farthest = None, 0.0
    for processes in args.processes:
        for line in run(processes, args.sizes, args.seconds):
            times = line["ms"]
            if head is None:
                head = list(times)
                print("| processes | elements | " + " | ".join(head) + " | AUTO chose | AUTO / best |")
                print("|---" * (len(head) + 4) + "|")
            ratio = times["auto"] / min(t for name, t in times.items() if name != "auto")
            farthest = max(farthest, ratio)
            print(f"| {line['processes']} | {line['elements']} | " + " | ".join(f"{times[h]:.2f}" for h in head)
                  + f" | {line['chosen']} | {ratio:.2f} |", flush=True)
    print(f"\nAUTO at most {farthest:.2f} times the best")


if __name__ == "__main__":
    main()
