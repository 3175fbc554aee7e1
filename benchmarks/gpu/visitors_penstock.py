"""The models of visitors.py, written as programs for TensorFlow."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from others_penstock import DEVICE, cross_entropy, measured
from strangers_penstock import fitted
from visitors import S, data

import penstock as tf

K, L = tf.keras, tf.keras.layers


def prepared(name: str) -> tuple[Callable, Callable, Callable, Callable]:
    """See others.prepared."""
    K.mixed_precision.set_global_policy("mixed_bfloat16" if name == "views" else "float32")
    with tf.device(DEVICE):
        run = STEPS[name](S[name], data(name))
    return measured(run)


def pointer(s: Any, arrays: tuple) -> Callable:
    """An LSTM reads points, another one points at them in turn; the size of the batch is fed."""
    import penstock.compat.v1 as tf

    tf.disable_v2_behavior()
    with tf.device(DEVICE):
        n = tf.placeholder(tf.int32, [])
        points, order = tf.placeholder(tf.float32, [None, s.t, 2]), tf.placeholder(tf.int32, [None, s.t])
        read, ask = tf.nn.rnn_cell.LSTMCell(s.d), tf.nn.rnn_cell.LSTMCell(s.d)
        states, last = tf.nn.dynamic_rnn(read, points, initial_state=read.zero_state(n, tf.float32), scope="read")
        keys = tf.layers.dense(states, s.d, use_bias=False)
        weigh = tf.get_variable("weigh", [s.d])
        question = tf.layers.Dense(s.d)
        first = tf.zeros(tf.stack([n, s.d]))

        def body(i: Any, x: Any, c: Any, h: Any, used: Any, loss: Any) -> tuple:
            _, state = ask(x, tf.nn.rnn_cell.LSTMStateTuple(c, h))
            scores = tf.reduce_sum(tf.tanh(keys + question(state.h)[:, None]) * weigh, -1) - 1e9 * used
            right = order[:, i]
            loss += tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=right, logits=scores))
            chosen = tf.one_hot(right, s.t)
            return i + 1, tf.reduce_sum(states * chosen[:, :, None], 1), state.c, state.h, used + chosen, loss

        start = (0, first, last.c, last.h, tf.zeros(tf.stack([n, s.t])), 0.0)
        loss = tf.while_loop(lambda i, *_: i < s.t, body, start)[-1] / s.t
        train = tf.train.AdamOptimizer(1e-3).minimize(loss)
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    run = session.make_callable([loss, train], [n, points, order])
    return lambda: run(s.n, *arrays)[0]


def views(s: Any, arrays: tuple) -> Callable:
    """Two views of an image are nearer to each other than to those of other images."""
    x = i = K.Input([s.side, s.side, 3])
    for j, width in enumerate((s.c, s.c, 2 * s.c, 4 * s.c)):
        x = L.Activation("relu")(L.BatchNormalization()(L.Conv2D(width, 3, 1 + (j > 1), padding="same", use_bias=False)(x)))
    x = L.Dense(128, dtype="float32")(L.Dense(512, "relu")(L.GlobalAveragePooling2D()(x)))
    model, optimizer = K.Model(i, x), K.optimizers.SGD(0.1, 0.9, nesterov=True)
    a, b = map(tf.constant, arrays)

    @tf.function
    def step(a: Any, b: Any) -> Any:
        def changed(x: Any) -> Any:
            x = tf.image.random_flip_left_right(x, seed=1)
            return x * tf.random.uniform([s.n, 1, 1, 3], 0.6, 1.4) + tf.random.normal([s.n, 1, 1, 3], stddev=0.1)

        with tf.GradientTape() as tape:
            z = tf.math.l2_normalize(model(tf.concat([changed(a), changed(b)], 0), training=True), 1)
            near = tf.matmul(z, z, transpose_b=True) / 0.2
            near = tf.linalg.set_diag(near, tf.fill([2 * s.n], -1e9))
            loss = cross_entropy(tf.concat([tf.range(s.n, 2 * s.n), tf.range(s.n)], 0), near)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    return lambda: step(a, b)


def forecast(s: Any, arrays: tuple) -> Callable:
    """Each block explains a part of the past, and adds what follows from it."""
    left = i = K.Input([s.back])
    total = None
    for _ in range(s.blocks):
        h = left
        for _ in range(4):
            h = L.Dense(s.d, "relu")(h)
        left = L.Subtract()([left, L.Dense(s.back)(h)])
        part = L.Dense(s.ahead)(h)
        total = part if total is None else L.Add()([total, part])
    return fitted(K.Model(i, total), K.optimizers.Adam(1e-3), K.losses.Huber(), *map(tf.constant, arrays))


def ode(s: Any, arrays: tuple) -> Callable:
    """A network is the slope of a curve through x and y."""
    slope = K.Sequential([L.Dense(s.h, "tanh"), L.Dense(s.h, "tanh"), L.Dense(s.d)])
    slope.build([s.n, s.d])
    optimizer = K.optimizers.Adam(1e-3)
    x, y = map(tf.constant, arrays)
    steps = tf.constant(s.steps)

    @tf.function
    def step(x: Any, y: Any, steps: Any) -> Any:
        with tf.GradientTape() as tape:
            width = 1.0 / tf.cast(steps, tf.float32)
            for _ in tf.range(steps):
                a = slope(x)
                b = slope(x + 0.5 * width * a)
                c = slope(x + 0.5 * width * b)
                x += width / 6.0 * (a + 2.0 * b + 2.0 * c + slope(x + width * c))
            loss = tf.reduce_mean(tf.square(x - y))
        variables = slope.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    return lambda: step(x, y, steps)


def items(s: Any, arrays: tuple) -> Callable:
    """What is bought next: attention over what was bought before, and one item that was not."""

    class Recommends(K.Model):
        """Histories to scores."""

        def __init__(self) -> None:
            super().__init__()
            self.table, self.places = L.Embedding(s.items, s.d), L.Embedding(s.t, s.d)
            self.attention = [L.MultiHeadAttention(s.heads, s.d // s.heads, dropout=0.2) for _ in range(2)]
            self.norms = [L.LayerNormalization() for _ in range(4)]
            self.feeds = [K.Sequential([L.Dense(s.d, "relu"), L.Dropout(0.2), L.Dense(s.d)]) for _ in range(2)]

        def call(self, ids: Any, right: Any, wrong: Any) -> Any:
            """Scores of the right and of the wrong next items."""
            h = self.table(ids) * s.d**0.5 + self.places(tf.range(tf.shape(ids)[1]))
            for j in range(2):
                q = self.norms[2 * j](h)
                h += self.attention[j](q, h, use_causal_mask=True, training=True)
                h += self.feeds[j](self.norms[2 * j + 1](h), training=True)
            return [tf.reduce_sum(h * self.table(x), -1) for x in (right, wrong)]

    model, optimizer = Recommends(), K.optimizers.Adam(1e-3)
    turns = itertools.cycle([tf.constant(a) for a in arrays])

    @tf.function(reduce_retracing=True)
    def step(ids: Any) -> Any:
        wrong = tf.random.uniform(tf.shape(ids[:, 1:]), 1, s.items, tf.int64)
        with tf.GradientTape() as tape:
            good, bad = model(ids[:, :-1], ids[:, 1:], wrong)
            loss = tf.reduce_mean(tf.nn.softplus(-good) + tf.nn.softplus(bad))
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    return lambda: step(next(turns))


STEPS = {f.__name__: f for f in (pointer, views, forecast, ode, items)}
