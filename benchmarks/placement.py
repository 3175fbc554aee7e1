"""The cost-model placer against the simple one: towers of different weight on several logical CPUs, one thread per op.

    python benchmarks/placement.py [towers]

The simple placer puts everything on the first CPU; the cost-model placer (ConfigProto.placement_period) measures the ops
and spreads the towers over as many CPUs as pay. Both run in turns in one process; the least time of each counts.
"""
import collections
import sys
import time

import numpy as np

import penstock.compat.v1 as tf

SIZES = [768, 640, 512, 384, 256, 256, 128, 128]
ROUNDS = 30


def model(count):
    x = tf.placeholder(tf.float32, [128, 256], name="x")
    ends = []
    for i, n in enumerate(SIZES[:count]):
        h = tf.matmul(x, tf.get_variable(f"in{i}", [256, n]))
        for k in range(4):
            h = tf.nn.relu(tf.matmul(h, tf.get_variable(f"w{i}_{k}", [n, n])))
        ends.append(tf.reduce_mean(h))
    return x, tf.add_n(ends)


def main(count=4):
    tf.disable_v2_behavior()
    x, total = model(count)
    feed = {x: np.random.RandomState(0).normal(size=[128, 256]).astype(np.float32)}
    common = dict(device_count={"CPU": count, "GPU": 0}, intra_op_parallelism_threads=1)
    sessions = {"simple": tf.Session(config=tf.ConfigProto(**common)),
                "cost model": tf.Session(config=tf.ConfigProto(placement_period=2, **common))}
    best = {}
    for sess in sessions.values():
        sess.run(tf.global_variables_initializer())
        for _ in range(10):                        # measured, and placed again
            sess.run(total, feed)
    for _ in range(ROUNDS):
        for name, sess in sessions.items():
            start = time.perf_counter()
            sess.run(total, feed)
            best[name] = min(best.get(name, 1e9), time.perf_counter() - start)
    for name, seconds in best.items():
        print(f"{name:11} {seconds * 1e3:7.2f} ms")
    print(f"{'ratio':11} {best['simple'] / best['cost model']:7.2f}")
    where = [line.split()[2][-5:] for line in sessions["cost model"].explain_placement().splitlines() if "(MatMul)" in line]
    print("matrix products per device:", dict(collections.Counter(where)))
    for sess in sessions.values():
        sess.close()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
