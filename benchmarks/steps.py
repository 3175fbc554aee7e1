"""The same training step as a `tf.function`, by Keras' `fit`, and through a session.

    python benchmarks/steps.py [--rounds 15]

Two models, each with Adam: two layers on 128 rows of 784 (a step computes for a millisecond or two), and a small one on 32 rows
of 32 (a step is mostly overhead). Every way trains on the same batches, and keeps the means of loss and accuracy. The ways take
turns in one process; a round of one way is an epoch. Printed are the best processor time of a step, and the median ratio to the
session's step in the same round.
"""
from __future__ import annotations

import argparse
import statistics
import time

import numpy as np

import penstock as tf
import penstock.compat.v1 as tf1

LAYERS = {"mlp": [(256, "relu"), (10, None)], "small": [(64, "relu"), (1, "sigmoid")]}
ROWS = {"mlp": (128, 784, 10), "small": (32, 32, 2)}
STEPS = 64


def model(kind):
    """The model of a kind, without variables yet."""
    return tf.keras.Sequential([tf.keras.layers.Dense(n, activation=f) for n, f in LAYERS[kind]])


def loss_of(kind):
    """Its loss."""
    return tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True) if kind == "mlp" \
        else tf.keras.losses.BinaryCrossentropy()


def hits_of(kind, y, out):
    """How many predictions are right. (`==` would compare objects in a graph of 1.x.)"""
    found = tf.argmax(out, -1) if kind == "mlp" else tf.cast(out[:, 0] > 0.5, tf.int64)
    return tf.reduce_sum(tf.cast(tf.equal(found, tf.reshape(y, [-1])), tf.float32))


def counted(kind, totals, y, out, value):
    """The updates of the means that `fit` keeps: loss and accuracy, a sum and a count each."""
    rows = float(out.shape[0])
    return [v.assign_add(n) for v, n in zip(totals, (value * rows, rows, hits_of(kind, y, out), rows), strict=True)]


def cut(x, y):
    """The batches of an epoch, as views."""
    return zip(np.split(x, STEPS), np.split(y, STEPS), strict=True)


def by_function(kind, x, y):
    """A tf.function with a tape and apply_gradients."""
    net, loss, adam = model(kind), loss_of(kind), tf.keras.optimizers.Adam(1e-3)
    net(x[:1])
    totals = [tf.Variable(0.0) for _ in range(4)]

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            out = net(x, training=True)
            value = loss(y, out)
        weights = net.trainable_variables
        adam.apply_gradients(zip(tape.gradient(value, weights), weights))
        counted(kind, totals, y, out, value)
        return value
    batches = [(tf.constant(a), tf.constant(b)) for a, b in cut(x, y)]

    def run():
        for a, b in batches:
            value = step(a, b)
        return float(value)
    return run


def by_fit(kind, x, y):
    """Keras' fit, with its metric."""
    net = model(kind)
    net.compile(tf.keras.optimizers.Adam(1e-3), loss_of(kind), metrics=["accuracy"])
    return lambda: net.fit(x, y, batch_size=len(x) // STEPS, epochs=1, verbose=0, shuffle=False).history["loss"][0]


def by_session(kind, x, y):
    """A graph of 1.x with the same layers, run by a callable of a session."""
    with tf.Graph().as_default():
        rows = len(x) // STEPS
        a, b = tf1.placeholder(tf.float32, [rows, *x.shape[1:]]), tf1.placeholder(tf.int64, [rows, *y.shape[1:]])
        net = model(kind)
        out = net(a)
        value = tf.reduce_mean(loss_of(kind)(b, out))
        totals = [tf1.get_variable(f"total{i}", initializer=0.0, use_resource=True) for i in range(4)]
        train = tf1.train.AdamOptimizer(1e-3).minimize(value, var_list=net.trainable_variables)
        count = tf.group(*counted(kind, totals, b, out, value))
        sess = tf1.Session()
        sess.run(tf1.global_variables_initializer())
        call = sess.make_callable([value, train, count], [a, b])

    def run():
        for rows in cut(x, y):
            found = call(*rows)
        return float(found[0])
    return run


WAYS = {"session": by_session, "function": by_function, "fit": by_fit}


def main():
    """Prints a line for each model and way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    for kind, (rows, width, classes) in ROWS.items():
        draw = np.random.RandomState(0)
        rows *= STEPS
        x, y = draw.randn(rows, width).astype(np.float32), draw.randint(0, classes, (rows,) if kind == "mlp" else (rows, 1))
        ways = {name: make(kind, x, y) for name, make in WAYS.items()}
        for run in ways.values():
            run()
            run()
        times: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(args.rounds):
            for name, run in ways.items():
                began = time.process_time()
                run()
                times[name].append((time.process_time() - began) / STEPS)
        for name, t in times.items():
            ratio = statistics.median(a / b for a, b in zip(t, times["session"], strict=True))
            print(f"{kind:8}{name:10}{min(t) * 1e6:9.0f} µs{ratio:8.3f}", flush=True)


if __name__ == "__main__":
    main()
