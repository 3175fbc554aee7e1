"""A worker of a MultiWorkerMirroredStrategy that trains through faults (ElasticJob); TF_CONFIG has its index.

Every step uses numbers that only depend on the step, so that the weights at the end are known: `expected`.
"""
import argparse
import json
import os
import pathlib
import time

import numpy as np

RATE, MOMENTUM, ROWS, DELAY = 0.05, 0.5, 8, 0.02


def rows(step):
    """The inputs of a step; the outputs are their sums."""
    return np.random.default_rng(step).standard_normal((ROWS, 4)).astype("float32")


def expected(steps):
    """The weights after so many steps in one process."""
    w, momentum = np.zeros((4, 1)), np.zeros((4, 1))
    for step in range(steps):
        x = rows(step).astype(float)
        momentum = MOMENTUM * momentum - RATE * 2 * x.T @ (x @ w - x.sum(1, keepdims=True)) / ROWS
        w += momentum
    return w


def main():
    import penstock as tf
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--steps", type=int, required=True)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    job = tf.distribute.experimental.ElasticJob(strategy, wait_seconds=100)
    with job.scope():
        w = tf.Variable(tf.zeros([4, 1]), name="w")
        optimizer = tf.keras.optimizers.SGD(RATE, momentum=MOMENTUM)
        optimizer.build([w])
    index, count = json.loads(os.environ["TF_CONFIG"])["task"]["index"], strategy.num_replicas_in_sync

    @tf.function
    def update(x, y):
        def replica(x, y):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum((x @ w - y) ** 2) / ROWS
            optimizer.apply_gradients([(tape.gradient(loss, w), w)])
        strategy.run(replica, args=(x, y))

    def step(number):
        time.sleep(DELAY)
        x = rows(number)[index::count]
        update(tf.constant(x), tf.constant(x.sum(1, keepdims=True)))
        (options.folder / f"worker_{index}.positions").touch()
    done = job.run(step, options.steps, lambda: [w, *optimizer.variables()])
    difference = float(np.abs(w.numpy() - expected(options.steps)).max())
    print(f"worker {index}: step {done} loss {difference:.6f} accuracy {float(difference < 1e-3)}", flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
