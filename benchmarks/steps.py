"""The same training step as a `tf.function`, by Keras' `fit`, and through a session.

    python benchmarks/steps.py [--rounds 15]

Two models, each with Adam: two layers on 128 rows of 784 (a step computes for a millisecond or two), and a small one on 32 rows
of 32, with a metric (a step is mostly overhead). The ways take turns in one process; a round of one way is some steps. Printed
are the best processor time of a step, and the median ratio to the session's step in the same round.
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
    """How many predictions are right."""
    found = tf.argmax(out, -1) if kind == "mlp" else tf.cast(out[:, 0] > 0.5, tf.int64)
    return tf.reduce_sum(tf.cast(found == tf.reshape(y, [-1]), tf.float32))


def by_function(kind, x, y):
    """A tf.function with a tape and apply_gradients."""
    net, loss, adam = model(kind), loss_of(kind), tf.keras.optimizers.Adam(1e-3)
    net(x[:1])
    hits = tf.Variable(0.0)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            out = net(x, training=True)
            value = loss(y, out)
        weights = net.trainable_variables
        adam.apply_gradients(zip(tape.gradient(value, weights), weights))
        hits.assign_add(hits_of(kind, y, out))
        return value
    a, b = tf.constant(x), tf.constant(y)

    def run():
        for _ in range(STEPS):
            value = step(a, b)
        return float(value)
    return run


def by_fit(kind, x, y):
    """Keras' fit, with its metric."""
    net = model(kind)
    net.compile(tf.keras.optimizers.Adam(1e-3), loss_of(kind), metrics=["accuracy"])
    many = np.concatenate([x] * STEPS), np.concatenate([y] * STEPS)
    return lambda: net.fit(*many, batch_size=len(x), epochs=1, verbose=0, shuffle=False).history["loss"][0]


def by_session(kind, x, y):
    """A graph of 1.x with the same layers, run by a callable of a session."""
    with tf.Graph().as_default():
        a, b = tf1.placeholder(tf.float32, x.shape), tf1.placeholder(tf.int64, y.shape)
        net = model(kind)
        out = net(a)
        value = tf.reduce_mean(loss_of(kind)(b, out))
        hits = tf1.get_variable("hits", initializer=0.0, use_resource=True)
        train = tf1.train.AdamOptimizer(1e-3).minimize(value, var_list=net.trainable_variables)
        count = hits.assign_add(hits_of(kind, b, out))
        sess = tf1.Session()
        sess.run(tf1.global_variables_initializer())
        call = sess.make_callable([value, train, count.op], [a, b])

    def run():
        for _ in range(STEPS):
            found = call(x, y)
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
