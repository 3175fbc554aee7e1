"""The models of guests.py, written as programs for TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from guests import S, data
from others_penstock import DEVICE, cross_entropy, measured, trained
from strangers_penstock import fitted

import penstock as tf

K, L = tf.keras, tf.keras.layers
POLICIES = {"gates": "mixed_bfloat16", "speech": "mixed_bfloat16"}


def prepared(name: str) -> tuple[Callable, Callable, Callable, Callable]:
    """See others.prepared."""
    K.mixed_precision.set_global_policy(POLICIES.get(name, "float32"))
    with tf.device(DEVICE):
        run = STEPS[name](S[name], data(name))
    return measured(run)


# -- images ------------------------------------------------------------------------------------------------------------------
def gates(s: Any, arrays: tuple) -> Callable:
    """What goes down the U is let through to the other side by a gate that sees both."""

    def double(x: Any, c: int) -> Any:
        for _ in range(2):
            x = L.Activation("relu")(L.BatchNormalization()(L.Conv2D(c, 3, padding="same", use_bias=False)(x)))
        return x

    def gated(skip: Any, x: Any, c: int) -> Any:
        both = L.Activation("relu")(L.Add()([L.Conv2D(c, 1)(skip), L.Conv2D(c, 1)(x)]))
        return L.Multiply()([skip, L.Conv2D(1, 1, activation="sigmoid")(both)])

    x = i = K.Input([s.side, s.side, 3])
    kept = []
    for j in range(s.levels):
        x = double(x, s.c << j)
        kept.append(x)
        x = L.MaxPooling2D()(x)
    x = double(x, s.c << s.levels)
    for j in reversed(range(s.levels)):
        x = L.Conv2DTranspose(s.c << j, 2, 2)(x)
        x = double(L.Concatenate()([gated(kept[j], x, max(s.c << j >> 1, 1)), x]), s.c << j)
    model = K.Model(i, L.Conv2D(8, 1, dtype="float32")(x))
    losses = K.losses.SparseCategoricalCrossentropy(from_logits=True)
    return fitted(model, K.optimizers.Adam(1e-3), losses, *map(tf.constant, arrays))


def codes(s: Any, arrays: tuple) -> Callable:
    """The nearest codes of an encoder's vectors; the codes follow the vectors by moving averages."""

    def residual(x: Any) -> Any:
        return L.Add()([x, L.Conv2D(s.c, 1)(L.ReLU()(L.Conv2D(s.c // 2, 3, padding="same")(L.ReLU()(x))))])

    i = K.Input([s.side, s.side, 3])
    x = L.Conv2D(s.c, 4, 2, padding="same", activation="relu")(i)
    x = L.Conv2D(s.c, 4, 2, padding="same")(x)
    encoder = K.Model(i, L.Conv2D(64, 1)(residual(residual(x))))
    i = K.Input([s.side // 4, s.side // 4, 64])
    x = residual(residual(L.Conv2D(s.c, 3, padding="same")(i)))
    x = L.Conv2DTranspose(s.c, 4, 2, padding="same", activation="relu")(x)
    decoder = K.Model(i, L.Conv2DTranspose(3, 4, 2, padding="same")(x))
    table = tf.Variable(tf.random.stateless_normal([s.codes, 64], [1, 2]), trainable=False)
    counts, sums = tf.Variable(tf.ones([s.codes]), trainable=False), tf.Variable(table, trainable=False)
    optimizer, variables = K.optimizers.Adam(3e-4), encoder.trainable_variables + decoder.trainable_variables
    held = tf.constant(arrays[0])

    @tf.function
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            z = encoder(x)
            flat = tf.reshape(z, [-1, 64])
            far = tf.reduce_sum(flat**2, 1, keepdims=True) - 2 * tf.matmul(flat, table, transpose_b=True)
            chosen = tf.argmin(far + tf.reduce_sum(table**2, 1), 1)
            q = tf.reshape(tf.gather(table, chosen), tf.shape(z))
            out = decoder(z + tf.stop_gradient(q - z))
            loss = tf.reduce_mean((out - x) ** 2) + 0.25 * tf.reduce_mean((tf.stop_gradient(q) - z) ** 2)
        tf.debugging.assert_all_finite(loss, "the loss")
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        hot = tf.one_hot(chosen, s.codes)
        counts.assign(0.99 * counts + 0.01 * tf.reduce_sum(hot, 0))
        sums.assign(0.99 * sums + 0.01 * tf.matmul(hot, flat, transpose_a=True))
        table.assign(sums / (counts[:, None] + 1e-5))
        return loss

    return lambda: step(held)


# -- sound -------------------------------------------------------------------------------------------------------------------
def speech(s: Any, arrays: tuple) -> Callable:
    """Samples to frames by convolutions, places by a grouped convolution, and a transformer."""
    x = i = K.Input([s.t])
    x = L.Reshape([s.t, 1])(x)
    for j, (k, stride) in enumerate(((10, 5), (3, 2), (3, 2), (3, 2), (3, 2), (2, 2), (2, 2))):
        x = L.Conv1D(s.c, k, stride, use_bias=False)(x)
        if not j:
            x = L.GroupNormalization(s.c)(x)
        x = L.Activation("gelu")(x)
    x = L.Dense(s.d)(L.LayerNormalization()(x))
    x = L.Add()([x, L.Conv1D(s.d, 31, padding="same", groups=4, activation="gelu")(x)])
    for _ in range(s.layers):
        h = L.LayerNormalization()(x)
        x = L.Add()([x, L.MultiHeadAttention(s.heads, s.d // s.heads, dropout=0.1)(h, h)])
        h = L.Dense(s.d)(L.Dense(4 * s.d, "gelu")(L.LayerNormalization()(x)))
        x = L.Add()([x, L.Dropout(0.1)(h)])
    model = K.Model(i, L.Dense(64)(L.GlobalAveragePooling1D()(x)))
    optimizer = K.optimizers.AdamW(1e-4, weight_decay=0.01)
    return trained(model, lambda m, x, y: cross_entropy(y, m(x, training=True)), optimizer, arrays)


# -- graphs of 1.x -----------------------------------------------------------------------------------------------------------
def translator(s: Any, arrays: tuple) -> Callable:
    """An encoder over lengths, and a decoder that looks at its states, in a second loop."""
    import penstock.compat.v1 as tf

    tf.disable_v2_behavior()
    with tf.device(DEVICE):
        ids, lengths = tf.placeholder(tf.int32, [s.n, s.t]), tf.placeholder(tf.int32, [s.n])
        target = tf.placeholder(tf.int32, [s.n, s.t + 1])
        words = tf.get_variable("words", [s.words, s.d])
        x = tf.nn.embedding_lookup(words, ids)
        states, last = tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(s.d), x, lengths, dtype=tf.float32, scope="encoder")
        keys = tf.layers.dense(states, s.d, use_bias=False)
        seen = tf.sequence_mask(lengths, s.t)
        cell, ask = tf.nn.rnn_cell.GRUCell(s.d), tf.layers.Dense(s.d)
        weigh = tf.get_variable("weigh", [s.d])
        given = tf.TensorArray(tf.float32, s.t).unstack(tf.transpose(tf.nn.embedding_lookup(words, target[:, :-1]), [1, 0, 2]))

        def body(i: Any, h: Any, out: Any) -> tuple:
            scores = tf.reduce_sum(tf.tanh(keys + ask(h)[:, None]) * weigh, -1)
            shares = tf.nn.softmax(tf.where(seen, scores, tf.fill([s.n, s.t], -1e9)))
            seen_now = tf.reduce_sum(shares[:, :, None] * states, 1)
            _, h = cell(tf.concat([given.read(i), seen_now], 1), h)
            return i + 1, h, out.write(i, tf.concat([h, seen_now], 1))

        start = (tf.constant(0), last, tf.TensorArray(tf.float32, s.t))
        _, _, out = tf.while_loop(lambda i, h, out: i < s.t, body, start)
        logits = tf.layers.dense(tf.transpose(out.stack(), [1, 0, 2]), s.words)
        each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=target[:, 1:], logits=logits)
        loss = tf.reduce_sum(each * tf.cast(seen, tf.float32)) / tf.reduce_sum(tf.cast(lengths, tf.float32))
        optimizer = tf.train.AdamOptimizer(1e-3)
        gradients, variables = zip(*optimizer.compute_gradients(loss), strict=True)
        train = optimizer.apply_gradients(zip(tf.clip_by_global_norm(gradients, 5.0)[0], variables, strict=True))
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    run = session.make_callable([loss, train], [ids, lengths, target])
    return lambda: run(*arrays)[0]


def factors(s: Any, arrays: tuple) -> Callable:
    """Products of pairs of fields, and layers over all; Adam changes the rows that were used."""
    import penstock.compat.v1 as tf

    tf.disable_v2_behavior()
    with tf.device(DEVICE):
        ids, y = tf.placeholder(tf.int32, [s.n, s.fields]), tf.placeholder(tf.float32, [s.n])
        places = ids + tf.range(s.fields) * s.rows
        table = tf.get_variable("table", [s.fields * s.rows, s.d], initializer=tf.random_normal_initializer(stddev=0.01))
        single = tf.get_variable("single", [s.fields * s.rows, 1], initializer=tf.zeros_initializer())
        rows = tf.nn.embedding_lookup(table, places)
        pairs = 0.5 * tf.reduce_sum(tf.square(tf.reduce_sum(rows, 1)) - tf.reduce_sum(tf.square(rows), 1), 1)
        h = tf.reshape(rows, [s.n, s.fields * s.d])
        for width in (400, 400, 400):
            h = tf.layers.dropout(tf.layers.dense(h, width, tf.nn.relu), 0.1, training=True)
        logits = tf.reduce_sum(tf.nn.embedding_lookup(single, places), [1, 2]) + pairs + tf.layers.dense(h, 1)[:, 0]
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=logits))
        train = tf.train.AdamOptimizer(1e-3).minimize(loss, tf.train.get_or_create_global_step())
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    run = session.make_callable([loss, train], [ids, y])
    return lambda: run(*arrays)[0]


STEPS = {f.__name__: f for f in (gates, speech, translator, factors, codes)}
