"""Rows looked up in tables of a parameter server: does the rate fall when the table grows?

    python benchmarks/tables.py                         # tables of 16 MB to 4 GB: needs about 6 GB of memory
    python benchmarks/tables.py --most 1024             # to 1 GB

One parameter server and one worker, a process each. A step gathers 32 random rows of 1 KB at the server and adds them up on the
worker. All tables are there at the same time, and are used in turns, so that what else the machine does meets all of them. For
each size: the best and the median of the rounds in steps a second, the processor time of a step in both processes together, and
the rate over that of the smallest table. The module may be another framework's with the same API (--module).
"""
import argparse
import importlib
import os
import socket
import statistics
import subprocess
import sys
import time

import numpy as np

WIDTH, ROWS, STEPS, ROUNDS = 256, 32, 200, 15          # 256 floats are 1 KB
_TICKS = os.sysconf("SC_CLK_TCK")


def start(module, addresses, job):
    """A server of the cluster in this process."""
    tf = importlib.import_module(module)
    tf.disable_v2_behavior()
    return tf, tf.train.Server({"ps": addresses[:1], "worker": addresses[1:]}, job, 0)


def free_addresses(count):
    """Unused addresses of this machine."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    found = [f"127.0.0.1:{s.getsockname()[1]}" for s in sockets]
    for s in sockets:
        s.close()
    return found


class Table:
    """A table of `megabytes` on the server, and steps that look rows up in it."""

    def __init__(self, tf, target, megabytes):
        rows = megabytes << 10
        with tf.Graph().as_default() as graph:
            ids = tf.placeholder(tf.int64, [ROWS])
            with tf.device("/job:ps/task:0"):
                table = tf.get_variable(f"table_{megabytes}", initializer=tf.fill([rows, WIDTH], 0.5), use_resource=False)
                found = tf.gather(table, ids)
            with tf.device("/job:worker/task:0"):
                self._sum = tf.reduce_sum(found)
        self._session = tf.Session(target, graph=graph)
        self._session.run(table.initializer)
        draw = np.random.RandomState(megabytes)
        self._feeds = [{ids: draw.randint(0, rows, ROWS)} for _ in range(STEPS)]
        self.seconds, self.processor = [], []
        assert self._session.run(self._sum, self._feeds[0]) == 0.5 * ROWS * WIDTH

    def round(self, pids):
        """Times STEPS steps."""
        before, began = sum(map(processor_seconds, pids)), time.perf_counter()
        for feed in self._feeds:
            self._session.run(self._sum, feed)
        self.seconds.append((time.perf_counter() - began) / STEPS)
        self.processor.append((sum(map(processor_seconds, pids)) - before) / STEPS)


def processor_seconds(pid):
    """What a process has used so far."""
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--least", type=int, default=16, help="MB of the smallest table")
    parser.add_argument("--most", type=int, default=4096, help="MB of the largest table")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--module", default="penstock.compat.v1")
    parser.add_argument("--server", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.server:
        start(args.module, args.server, "ps")
        sys.stdin.read()
        os._exit(0)
    addresses = free_addresses(2)
    command = [sys.executable, __file__, "--module", args.module, "--server", *addresses]
    server = subprocess.Popen(command, stdin=subprocess.PIPE)
    try:
        tf, worker = start(args.module, addresses, "worker")
        sizes = [args.least]
        while sizes[-1] * 4 <= args.most:
            sizes.append(sizes[-1] * 4)
        tables = {size: Table(tf, worker.target, size) for size in sizes}
        for _ in range(args.rounds + 1):
            for table in tables.values():
                table.round([server.pid, os.getpid()])
        report(tables)
    finally:
        server.stdin.close()
        server.wait(30)
    os._exit(0)


def report(tables):
    """Prints a line for each table; the first round of each is for warming up."""
    print("table MB  best steps/s  median steps/s  processor us  best / smallest's  processor / smallest's")
    first = None
    for size, table in tables.items():
        best, median = min(table.seconds[1:]), statistics.median(table.seconds[1:])
        used = statistics.mean(table.processor[1:])
        first = first or (best, used)
        print(f"{size:8d}  {1 / best:12.0f}  {1 / median:14.0f}  {used * 1e6:12.0f}  {first[0] / best:17.2f}  "
              f"{used / first[1]:22.2f}", flush=True)


if __name__ == "__main__":
    main()
