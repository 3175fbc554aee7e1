"""`make soak`: training, queues, checkpoints and sessions for hours; memory, descriptors and threads stay flat.

    make soak                          # two hours
    make soak ARGS='--minutes 1'

A round opens a session, trains through a queue with its threads, saves and restores checkpoints, iterates a dataset, calls a
function eagerly, and closes everything. After each of twelve equal parts of the time, a row of the table has the memory of the
process and how many descriptors and threads it has. The first quarter is for caches to fill. It fails if memory grows by more
than 2% from the second quarter to the last, or if descriptors or threads grow at all.
"""
from __future__ import annotations

import argparse
import gc
import os
import pathlib
import statistics
import sys
import tempfile
import threading
import time
from typing import NamedTuple

import numpy as np

import penstock as tf
import penstock.compat.v1 as v1

ROWS, GROWTH = 12, 0.02


class Sample(NamedTuple):
    """What the process holds at a time."""
    rounds: int
    megabytes: float
    descriptors: int
    threads: int


def sample(rounds: int) -> Sample:
    """Measures this process, after a collection."""
    gc.collect()
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return Sample(rounds, pages * os.sysconf("SC_PAGE_SIZE") / 1e6, len(os.listdir("/proc/self/fd")), threading.active_count())


def one_round(folder: str) -> float:
    """Opens, trains, saves, restores and closes; returns the last loss."""
    with v1.Graph().as_default():
        queue = v1.FIFOQueue(8, [tf.float32], [[16]])
        v1.train.add_queue_runner(v1.train.QueueRunner(queue, [queue.enqueue(v1.random_normal([16]))] * 2))
        x = queue.dequeue_many(4)
        loss = v1.reduce_mean(v1.square(v1.layers.dense(x, 8)))
        train = v1.train.AdamOptimizer(0.01).minimize(loss)
        saver = v1.train.Saver(max_to_keep=2)
        with v1.Session() as sess:
            sess.run(v1.global_variables_initializer())
            coordinator = v1.train.Coordinator()
            threads = v1.train.start_queue_runners(sess, coordinator)
            for step in range(20):
                last, _ = sess.run([loss, train])
                if step % 10 == 9:
                    saver.restore(sess, saver.save(sess, os.path.join(folder, "model"), step))
            coordinator.request_stop()
            sess.run(queue.close(cancel_pending_enqueues=True))
            coordinator.join(threads, stop_grace_period_secs=30)
    weights = tf.Variable(np.ones((16, 4), np.float32))
    call = tf.function(lambda a: tf.reduce_sum(a @ weights))
    for batch in tf.data.Dataset.range(64).batch(16).map(lambda r: tf.cast(r, tf.float32)).prefetch(1):
        call(tf.reshape(batch, [1, 16]))
    return float(last)


def soak(minutes: float) -> list[Sample]:
    """Rounds for some minutes; one sample after each part of the time."""
    found, rounds, began = [], 0, time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        for part in range(ROWS):
            while time.monotonic() - began < (part + 1) * minutes * 60 / ROWS or rounds <= part:
                assert np.isfinite(one_round(folder))
                rounds += 1
            found.append(sample(rounds))
    return found


def growth(found: list[Sample]) -> list[str]:
    """What has grown, in words."""
    early, late = found[ROWS // 4:ROWS // 2], found[-(ROWS // 4):]
    wrong = []
    for name in Sample._fields[1:]:
        before, after = (statistics.median(getattr(s, name) for s in part) for part in (early, late))
        if after > before * (1 + GROWTH if name == "megabytes" else 1):
            wrong.append(f"{name}: {before:g} to {after:g}")
    return wrong


def main() -> int:
    """Runs, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=120)
    found = soak(parser.parse_args().minutes)
    print("| Rounds | Memory, MB | Descriptors | Threads |\n|---|---|---|---|")
    for s in found:
        print(f"| {s.rounds:,} | {s.megabytes:.0f} | {s.descriptors} | {s.threads} |")
    wrong = growth(found)
    print("grown: " + "; ".join(wrong) if wrong else "nothing has grown")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
