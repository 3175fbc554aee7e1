"""What it brings that parameter-server workers take turns: steps a second of workers that pull and push at their own times.

    .venv/bin/python benchmarks/stagger.py [--workers 4] [--megabytes 2] [--megabytes-per-second 40] [--compute 0.4]

One parameter server and some workers, a process each, each with a monitored session. A step pulls a variable, computes (a
kernel that sleeps, so that the number of cores does not matter), and pushes as much. All share the network of the server:
a line in each direction, whose speed is divided among the messages that are under way. In turns with `StaggerHook` and without;
all workers begin a run together, which is when they burst.

With n workers, c seconds of computing and s seconds that a message takes alone, workers that keep in step need c + 2·n·s for a
step, and those that have the network to themselves c + 2·s. Prints the time of a step in either case, what is saved, and for
which part of the time of a push another one was under way, over the second half of each run. `--table` writes it into a page.
"""
from __future__ import annotations

import argparse
import multiprocessing
import os
import pathlib
import statistics
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).parents[1] / "src"), str(pathlib.Path(__file__).parent)]
import generated  # noqa: E402

os.environ["PENSTOCK_SHARED_MEMORY"] = "0"                        # all tensors go over the links
os.environ.setdefault("PENSTOCK_HEARTBEAT_SECONDS", "15")
TICK = 0.002                                                      # seconds
SMALL = 1 << 14                                                   # messages that count for nothing


class Line:
    """One direction of the server's network, whose speed is divided among the messages that are under way."""

    def __init__(self, made, megabytes_per_second: float):
        self._speed, self._under_way = megabytes_per_second * 1e6, made.Value("i", 0)

    def send(self, size: int) -> tuple[float, float]:
        """Takes the time that a message takes; returns it, and that for which others were under way."""
        began = at = time.perf_counter()
        shared, left = 0.0, float(size)
        with self._under_way.get_lock():
            self._under_way.value += 1
        try:
            while left > 0:
                time.sleep(TICK)
                now, others = time.perf_counter(), self._under_way.value
                left -= self._speed * (now - at) / others
                shared += (now - at) * (others > 1)
                at = now
        finally:
            with self._under_way.get_lock():
                self._under_way.value -= 1
        return at - began, shared


def over(line: Line) -> list[tuple[float, float]]:
    """Has what this process sends go over a line; returns the list to which the times of messages are added."""
    from penstock._src.cluster.link import Link
    post, times = Link.post, []

    def slowly(self, header, values=None, number=0):
        size = sum(getattr(v, "nbytes", 0) for v in values or ())
        if size > SMALL:
            times.append(line.send(size))
        return post(self, header, values, number)
    Link.post = slowly
    return times


def serve(spec: dict, line: Line) -> None:
    """The parameter server."""
    import penstock.compat.v1 as tf
    over(line)
    tf.train.Server(spec, "ps", 0).join()


def work(spec: dict, index: int, line: Line, together, args, results) -> None:
    """A worker: runs of some steps, with and without staggering, all of which begin together."""
    import penstock.compat.v1 as tf
    sent = over(line)
    server, workers = tf.train.Server(spec, "worker", index), len(spec["worker"])
    elements = int(args.megabytes * 1e6 / 4)

    def nap(x):
        time.sleep(args.compute)
        return x

    def run(staggered: bool) -> tuple:
        with tf.Graph().as_default():
            with tf.device("/job:ps/task:0"):
                tf.train.create_global_step()
                v = tf.get_variable("v", [elements], initializer=tf.zeros_initializer(), use_resource=True)
            with tf.device(f"/job:worker/task:{index}"):
                made = tf.numpy_function(nap, [v.read_value()], tf.float32)
                made.set_shape([elements])
            with tf.device("/job:ps/task:0"):
                step = v.assign_add(made).op
            creator = (tf.train.WorkerSessionCreator if index else tf.train.ChiefSessionCreator)(master=server.target)
            hooks = [tf.distribute.experimental.StaggerHook(index, workers)] if staggered else []
            with tf.train.MonitoredSession(creator, hooks=hooks) as sess:
                sess.run(step)                                       # for the first time: compiles, connects
                together.wait(300)
                times = []
                for number in range(args.steps):
                    if number == args.steps // 2:
                        sent.clear()
                    began = time.perf_counter()
                    sess.run(step)
                    times.append(time.perf_counter() - began)
                found = statistics.mean(times[args.steps // 2:]), *map(sum, zip(*sent, strict=True))
                together.wait(300)
        return found
    for _ in range(args.runs):
        for staggered in (False, True):
            results.put((staggered, *run(staggered)))
    together.wait(300)
    os._exit(0)


def main() -> None:
    """Runs the processes, and prints what came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--megabytes", type=float, default=2.0, help="of the variable")
    parser.add_argument("--megabytes-per-second", type=float, default=40.0, help="of the server's network, in each direction")
    parser.add_argument("--compute", type=float, default=0.4, help="seconds")
    parser.add_argument("--steps", type=int, default=30, help="of a run; the second half is measured")
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--table", type=pathlib.Path)
    args = parser.parse_args()
    from penstock._src.cluster.launch import free_addresses
    ps, *workers = free_addresses(args.workers + 1, "127.0.0.1")
    spec, made = {"ps": [ps], "worker": workers}, multiprocessing.get_context("spawn")
    pulls, pushes = (Line(made, args.megabytes_per_second) for _ in range(2))
    together, results = made.Barrier(args.workers), made.Queue()
    processes = [made.Process(target=serve, args=(spec, pulls), daemon=True)]
    processes += [made.Process(target=work, args=(spec, i, pushes, together, args, results), daemon=True)
                  for i in range(args.workers)]
    for p in processes:
        p.start()
    try:
        found = [results.get(timeout=600) for _ in range(2 * args.runs * args.workers)]
    finally:
        for p in processes:
            p.kill()
            p.join(10)
    report(args, found)


def report(args, found: list[tuple]) -> None:
    """Prints the table."""
    alone = args.megabytes / args.megabytes_per_second
    lines = ["| | ms a step | steps/s of all | part of a push beside others |", "|---|---|---|---|"]
    means = {}
    for staggered in (False, True):
        some = [f for f in found if f[0] is staggered]
        means[staggered] = took = statistics.mean(f[1] for f in some)
        beside = sum(f[3] for f in some) / sum(f[2] for f in some)
        name = "staggered" if staggered else "as they come"
        lines.append(f"| {name} | {took * 1e3:.0f} | {args.workers / took:.2f} | {beside:.0%} |")
    lines.append(f"\n{args.workers} workers, {args.compute * 1e3:g} ms of computing, {alone * 1e3:g} ms for a message alone: "
                 f"{(args.compute + 2 * args.workers * alone) * 1e3:.0f} ms a step if all send together, "
                 f"{(args.compute + 2 * alone) * 1e3:.0f} without contention. Staggering saves "
                 f"{1 - means[True] / means[False]:.0%} of a step.")
    print("\n".join(lines))
    if args.table:
        generated.write(args.table, "stagger", lines)


if __name__ == "__main__":
    main()
