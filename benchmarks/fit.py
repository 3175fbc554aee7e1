"""Side by side with tf.keras: a batch of `fit`, and the bare step under it.

    python benchmarks/fit.py --tf PYTHON_OF_AN_ENVIRONMENT_WITH_TENSORFLOW

Two models: a convolution network for digits of 28x28 pixels, and a small dense one. One process per framework; rounds take
turns. A round of `fit` is one epoch, and its figure the time of a batch. The bare step is a `tf.function` with a GradientTape
and `apply_gradients` on existing tensors; it keeps no metrics. Printed are the best times, the ratio of the
medians (below 1: penstock is faster), and for penstock how much `fit` lies over the bare step of the same round.
"""
from __future__ import annotations

import statistics
import time

import turns


class Model:
    """A model with data for one epoch."""

    def __init__(self, tf, kind):
        import numpy as np
        keras = tf.keras
        draw = np.random.RandomState(0)
        if kind == "dense":
            self.batch, batches, shape = 64, 200, (784,)
            layers = [keras.layers.Dense(128, activation="relu"), keras.layers.Dense(10)]
        else:
            self.batch, batches, shape = 64, 20, (28, 28, 1)
            layers = [keras.layers.Conv2D(32, 3, activation="relu"), keras.layers.MaxPooling2D(),
                      keras.layers.Conv2D(64, 3, activation="relu"), keras.layers.MaxPooling2D(),
                      keras.layers.Flatten(), keras.layers.Dense(128, activation="relu"), keras.layers.Dense(10)]
        self.batches = batches
        self.x = draw.rand(self.batch * batches, *shape).astype(np.float32)
        self.y = draw.randint(0, 10, self.batch * batches).astype(np.int64)
        self.model = keras.Sequential([keras.layers.InputLayer(shape), *layers])
        self.loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        self.model.compile(keras.optimizers.SGD(0.01), self.loss)

    def fit(self, tf):
        """Seconds of a batch."""
        t = time.perf_counter()
        self.model.fit(self.x, self.y, batch_size=self.batch, epochs=1, shuffle=False, verbose=0)
        return (time.perf_counter() - t) / self.batches


class Bare(Model):
    """The step alone."""

    def __init__(self, tf, kind):
        super().__init__(tf, kind)
        optimizer, weights = tf.keras.optimizers.SGD(0.01), self.model.trainable_variables

        @tf.function
        def step(x, y):
            with tf.GradientTape() as tape:
                loss = self.loss(y, self.model(x, training=True))
            optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
            return loss
        self.step = step
        self.parts = [(tf.constant(self.x[i:i + self.batch]), tf.constant(self.y[i:i + self.batch]))
                      for i in range(0, len(self.x), self.batch)]

    def fit(self, tf):
        """Seconds of a batch."""
        t = time.perf_counter()
        for x, y in self.parts:
            loss = self.step(x, y)
        float(loss)
        return (time.perf_counter() - t) / self.batches


def timed(kind):
    """A round of a model: the seconds of a bare step, and of a batch of `fit`. The first one makes the models."""
    made = []

    def work(tf):
        if not made:
            made.extend(make(tf, kind) for make in (Bare, Model))
            for model in made:
                model.fit(tf)
        return [model.fit(tf) for model in made]
    return work


def report(kind, seen):
    """Two lines: the bare step, and `fit`."""
    lines = []
    for i, what in enumerate(("bare", "fit")):
        times = {name: [r[i] for r in rounds] for name, rounds in seen.items()}
        mid = {name: statistics.median(t) for name, t in times.items()}
        over = statistics.median(r[i] / r[0] for r in seen["penstock"]) - 1
        lines.append(f"{kind + ' ' + what:12}{min(times['penstock']) * 1e6:9.0f} µs{min(times['tensorflow']) * 1e6:9.0f} µs"
                     f"{mid['penstock'] / mid['tensorflow']:8.3f}{100 * over:9.1f}%")
    return "\n".join(lines)


if __name__ == "__main__":
    turns.main(__doc__, ("penstock", "tensorflow"), {kind: timed(kind) for kind in ("dense", "cnn")}, report,
               f"{'':12}{'penstock':>12}{'tensorflow':>12}{'ratio':>8}{'over bare':>10}", rounds=15)
