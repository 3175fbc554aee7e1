"""The models of later.py, written as programs for TensorFlow."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from later import S, data
from others_penstock import DEVICE, cross_entropy, measured, trained

import penstock as tf

K, L = tf.keras, tf.keras.layers
BF16 = ("translate", "resnext", "conformer", "pairs")


def prepared(name: str) -> tuple[Callable, Callable, Callable, Callable]:
    """See others.prepared."""
    K.mixed_precision.set_global_policy("mixed_bfloat16" if name in BF16 else "float32")
    with tf.device(DEVICE):
        run = STEPS[name](S[name], data(name))
    return measured(run)


# -- language ----------------------------------------------------------------------------------------------------------------
class Rms(L.Layer):
    """Root-mean-square norm."""

    def build(self, shape: Any) -> None:
        """The scale."""
        self.scale = self.add_weight(name="scale", shape=shape[-1:], initializer="ones")

    def call(self, x: Any) -> Any:
        """In single precision."""
        wide = tf.cast(x, tf.float32)
        wide *= tf.math.rsqrt(tf.reduce_mean(tf.square(wide), -1, keepdims=True) + 1e-6)
        return tf.cast(wide * tf.cast(self.scale, tf.float32), x.dtype)


class T5Attention(L.Layer):
    """Attention without a scale, with a bias of relative positions and dropout of the probabilities."""

    def __init__(self, d: int, heads: int, causal: bool):
        super().__init__()
        self.d, self.heads, self.causal = d, heads, causal
        self.q, self.k, self.v, self.o = (L.Dense(d, use_bias=False) for _ in range(4))

    def build(self, shape: Any) -> None:
        """The bias of each distance."""
        self.table = self.add_weight(name="table", shape=[32, self.heads], initializer=K.initializers.RandomNormal(stddev=0.05))

    def split(self, x: Any) -> Any:
        """[batch, heads, places, depth]."""
        return tf.transpose(tf.reshape(x, [x.shape[0], x.shape[1], self.heads, self.d // self.heads]), [0, 2, 1, 3])

    def call(self, x: Any, memory: Any = None) -> Any:
        """Of itself, or of a memory."""
        other = x if memory is None else memory
        q, k, v = self.split(self.q(x)), self.split(self.k(other)), self.split(self.v(other))
        a = tf.matmul(q, k, transpose_b=True)
        if memory is None:
            places = np.arange(x.shape[1])
            bucket = np.clip(places[None] - places[:, None] + 16, 0, 31)
            a += tf.cast(tf.transpose(tf.gather(self.table, bucket), [2, 0, 1])[None], a.dtype)
        if self.causal:
            a = tf.where(tf.linalg.band_part(tf.ones(a.shape[-2:], tf.bool), -1, 0), a, tf.constant(-1e9, a.dtype))
        y = tf.matmul(tf.nn.dropout(tf.nn.softmax(a), 0.1), v)
        return self.o(tf.reshape(tf.transpose(y, [0, 2, 1, 3]), x.shape))


class T5Block(L.Layer):
    """A layer of the encoder, or of the decoder."""

    def __init__(self, s: Any, decodes: bool):
        super().__init__()
        self.norms = [Rms() for _ in range(3)]
        self.own, self.up, self.down = (
            T5Attention(s.d, s.heads, decodes),
            L.Dense(4 * s.d, use_bias=False),
            L.Dense(s.d, use_bias=False),
        )
        self.gate = L.Dense(4 * s.d, use_bias=False)
        self.cross = T5Attention(s.d, s.heads, False) if decodes else None

    def call(self, x: Any, memory: Any = None) -> Any:
        """Attention, and a gated product."""
        x = x + tf.nn.dropout(self.own(self.norms[0](x)), 0.1)
        if self.cross is not None:
            x = x + tf.nn.dropout(self.cross(self.norms[1](x), memory), 0.1)
        h = self.norms[2](x)
        return x + tf.nn.dropout(self.down(tf.nn.gelu(self.gate(h), approximate=True) * self.up(h)), 0.1)


class T5(K.Model):
    """Encoder and decoder that share their table of words."""

    def __init__(self, s: Any):
        super().__init__()
        self.words = L.Embedding(s.words, s.d)
        self.encoder, self.decoder = ([T5Block(s, decodes) for _ in range(s.layers)] for decodes in (False, True))
        self.norms = [Rms(), Rms()]

    def call(self, ids: Any, target: Any) -> Any:
        """The scores of the next words."""
        x, y = self.words(ids), self.words(target)
        for block in self.encoder:
            x = block(x)
        x = self.norms[0](x)
        for block in self.decoder:
            y = block(y, x)
        return tf.matmul(self.norms[1](y), tf.cast(self.words.embeddings, y.dtype), transpose_b=True)


def translate(s: Any, arrays: tuple) -> Callable:
    """Training with Adafactor's rate, by Adam."""
    return trained(T5(s), lambda m, ids, target, labels: cross_entropy(labels, m(ids, target)), K.optimizers.Adam(1e-4), arrays)


def tagger(s: Any, arrays: tuple) -> Callable:
    """Keras's masks through both directions."""
    model = K.Sequential(
        [
            L.Embedding(s.words, s.d, mask_zero=True),
            L.Bidirectional(L.GRU(s.d, return_sequences=True)),
            L.Bidirectional(L.GRU(s.d, return_sequences=True)),
            L.Dense(20),
        ]
    )
    return fitted(model, K.optimizers.Adam(1e-3), arrays)


def fitted(model: Any, optimizer: Any, arrays: tuple) -> Callable:
    """The step of fit."""
    model.compile(optimizer, K.losses.SparseCategoricalCrossentropy(from_logits=True))
    function, held = model.make_train_function(), iter(tf.data.Dataset.from_tensors(tuple(map(tf.constant, arrays))).repeat())
    return lambda: function(held)["loss"]


# -- images, sound, series ---------------------------------------------------------------------------------------------------
def resnext(s: Any, arrays: tuple) -> Callable:
    """Grouped convolutions, and channels weighted by their means."""

    def unit(x: Any, c: int, stride: int) -> Any:
        h = L.ReLU()(L.BatchNormalization()(L.Conv2D(c, 1, use_bias=False)(x)))
        h = L.Conv2D(c, 3, stride, padding="same", groups=s.groups, use_bias=False)(h)
        h = L.BatchNormalization()(L.Conv2D(2 * c, 1, use_bias=False)(L.ReLU()(L.BatchNormalization()(h))))
        weight = L.Dense(2 * c, "sigmoid")(L.Dense(c // 8, "relu")(L.GlobalAveragePooling2D(keepdims=True)(h)))
        if x.shape[-1] != 2 * c or stride > 1:
            x = L.BatchNormalization()(L.Conv2D(2 * c, 1, stride, use_bias=False)(x))
        return L.ReLU()(L.Add()([x, L.Multiply()([h, weight])]))

    i = K.Input([s.side, s.side, 3])
    x = L.MaxPool2D(3, 2, "same")(L.ReLU()(L.BatchNormalization()(L.Conv2D(64, 7, 2, padding="same", use_bias=False)(i))))
    for j, count in enumerate((2, 2, 3, 2)):
        for k in range(count):
            x = unit(x, s.c << j, 2 if j and not k else 1)
    model = K.Model(i, L.Dense(100, dtype="float32")(L.GlobalAveragePooling2D()(x)))
    return fitted(model, K.optimizers.SGD(0.01, momentum=0.9, nesterov=True), arrays)


class Conformer(L.Layer):
    """Half a feed-forward part, attention, a convolution over time, and the other half."""

    def __init__(self, s: Any):
        super().__init__()
        self.feeds = [
            K.Sequential([L.LayerNormalization(), L.Dense(4 * s.d, "swish"), L.Dropout(0.1), L.Dense(s.d)]) for _ in range(2)
        ]
        self.norms = [L.LayerNormalization() for _ in range(3)]
        self.attention = L.MultiHeadAttention(s.heads, s.d // s.heads, dropout=0.1)
        self.wide, self.depth, self.batch = L.Conv1D(2 * s.d, 1), L.DepthwiseConv1D(31, padding="same"), L.BatchNormalization()
        self.out = L.Conv1D(s.d, 1)

    def call(self, x: Any, training: bool = True) -> Any:
        """Of [batch, frames, channels]."""
        x = x + 0.5 * self.feeds[0](x, training=training)
        h = self.norms[0](x)
        x = x + self.attention(h, h, training=training)
        a, b = tf.split(self.wide(self.norms[1](x)), 2, -1)
        h = self.batch(self.depth(a * tf.sigmoid(b)), training=training)
        x = x + self.out(tf.nn.silu(h))
        return self.norms[2](x + 0.5 * self.feeds[1](x, training=training))


def conformer(s: Any, arrays: tuple) -> Callable:
    """Frames of sound to letters."""
    i = K.Input([s.t, 80], batch_size=s.n)
    x = L.Dense(s.d)(i)
    for _ in range(s.layers):
        x = Conformer(s)(x)
    return trained(
        K.Model(i, L.Dense(40)(x)),
        lambda m, x, y: cross_entropy(y, m(x, training=True)),
        K.optimizers.Adam(1e-4),
        arrays,
        clip=1.0,
    )


def series(s: Any, arrays: tuple) -> Callable:
    """Dilated causal convolutions with residuals; the length changes from step to step."""
    i = K.Input([None, 1])
    x = L.Conv1D(s.c, 1)(i)
    for level in range(s.levels):
        h = x
        for _ in range(2):
            h = L.Dropout(0.1)(
                L.LayerNormalization()(L.Conv1D(s.c, 3, padding="causal", dilation_rate=1 << level, activation="relu")(h))
            )
        x = L.Add()([x, h])
    model, opt = K.Model(i, L.Dense(1)(x)), K.optimizers.Adam(1e-3)
    held = itertools.cycle([tf.constant(arrays[0][:, : n + 1]) for n in s.lengths])

    @tf.function
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x[:, :-1], training=True) - x[:, 1:]))
        opt.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True))
        return loss

    return lambda: step(next(held))


def points(s: Any, arrays: tuple) -> Callable:
    """A network per point, and the largest of each feature."""

    def dense(c: int) -> list:
        return [L.Dense(c, use_bias=False), L.BatchNormalization(), L.ReLU()]

    model = K.Sequential(
        [
            *dense(64),
            *dense(64),
            *dense(128),
            *dense(1024),
            L.GlobalMaxPooling1D(),
            *dense(512),
            L.Dropout(0.3),
            *dense(256),
            L.Dense(40),
        ]
    )
    return trained(model, lambda m, x, y: cross_entropy(y, m(x, training=True)), K.optimizers.Adam(1e-3), arrays)


# -- tables and graphs -------------------------------------------------------------------------------------------------------
def crosses(s: Any, arrays: tuple) -> Callable:
    """Products of features with themselves, as a graph of 1.x."""
    import penstock.compat.v1 as tf

    tf.disable_v2_behavior()
    with tf.device(DEVICE):
        numbers, ids, y = (
            tf.get_variable(n, initializer=tf.constant(a), trainable=False) for n, a in zip("xiy", arrays, strict=True)
        )
        rows = [tf.nn.embedding_lookup(tf.get_variable(f"table{i}", [s.rows, s.d]), ids[:, i]) for i in range(s.tables)]
        first = tf.concat([numbers, *rows], 1)
        x = first
        for i in range(3):
            x = first * tf.layers.dense(x, first.shape[1], name=f"cross{i}") + x
        deep = first
        for i, width in enumerate((512, 256)):
            deep = tf.nn.relu(tf.layers.dense(deep, width, name=f"deep{i}"))
        logits = tf.layers.dense(tf.concat([x, deep], 1), 1)[:, 0]
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=logits))
        train = tf.train.AdamOptimizer(1e-3).minimize(loss)
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    run = session.make_callable([loss, train])
    return lambda: run()[0]


class GraphAttention(L.Layer):
    """Each node takes the mean of its neighbours, weighted by a softmax over its edges."""

    def __init__(self, d: int, heads: int):
        super().__init__()
        self.d, self.heads, self.dense = d, heads, L.Dense(d * heads, use_bias=False)

    def build(self, shape: Any) -> None:
        """What rates sources and targets."""
        self.a, self.b = (self.add_weight(name=n, shape=[self.heads, self.d]) for n in "ab")

    def call(self, x: Any, source: Any, target: Any) -> Any:
        """Of nodes, and the ends of edges."""
        count = x.shape[0]
        h = tf.reshape(self.dense(x), [count, self.heads, self.d])
        e = tf.nn.leaky_relu(
            tf.gather(tf.reduce_sum(h * self.a, -1), source) + tf.gather(tf.reduce_sum(h * self.b, -1), target), 0.2
        )
        e = tf.exp(e - tf.gather(tf.math.unsorted_segment_max(e, target, count), target))
        p = e / (tf.gather(tf.math.unsorted_segment_sum(e, target, count), target) + 1e-9)
        y = tf.math.unsorted_segment_sum(tf.gather(h, source) * p[..., None], target, count)
        return tf.reshape(y, [count, self.heads * self.d])


class Gat(K.Model):
    """Two layers of graph attention."""

    def __init__(self, s: Any):
        super().__init__()
        self.one, self.two, self.out = GraphAttention(s.d, s.heads), GraphAttention(s.d, s.heads), L.Dense(7)

    def call(self, x: Any, source: Any, target: Any) -> Any:
        """The scores of nodes."""
        return self.out(tf.nn.elu(self.two(tf.nn.elu(self.one(x, source, target)), source, target)))


def gat(s: Any, arrays: tuple) -> Callable:
    """The classes of nodes."""
    return trained(Gat(s), lambda m, x, a, b, y: cross_entropy(y, m(x, a, b)), K.optimizers.Adam(1e-3), arrays)


# -- two networks ------------------------------------------------------------------------------------------------------------
class Tower(L.Layer):
    """A transformer of Keras's layers, and the mean of what it returns."""

    def __init__(self, s: Any):
        super().__init__()
        self.parts = [
            (
                L.LayerNormalization(),
                L.MultiHeadAttention(s.heads, s.d // s.heads),
                L.LayerNormalization(),
                L.Dense(4 * s.d, "gelu"),
                L.Dense(s.d),
            )
            for _ in range(s.layers)
        ]
        self.norm = L.LayerNormalization()

    def call(self, x: Any) -> Any:
        """Of [batch, places, channels]."""
        for one, attention, two, up, down in self.parts:
            h = one(x)
            x = x + attention(h, h)
            x = x + down(up(two(x)))
        return tf.math.l2_normalize(tf.cast(tf.reduce_mean(self.norm(x), 1), tf.float32), -1)


class Clip(K.Model):
    """Images and texts that belong together are close."""

    def __init__(self, s: Any):
        super().__init__()
        self.patches, self.words, self.s = L.Conv2D(s.d, 16, 16), L.Embedding(s.words, s.d), s
        self.see, self.read = Tower(s), Tower(s)

    def call(self, images: Any, ids: Any) -> Any:
        """The cosines of all pairs."""
        x = self.patches(images)
        return (
            tf.matmul(self.see(tf.reshape(x, [x.shape[0], -1, self.s.d])), self.read(self.words(ids)), transpose_b=True) * 14.0
        )


def pairs(s: Any, arrays: tuple) -> Callable:
    """The loss of both directions."""
    labels = tf.range(s.n)

    def loss(m: Any, images: Any, ids: Any) -> Any:
        a = m(images, ids)
        return cross_entropy(labels, a) + cross_entropy(labels, tf.transpose(a))

    return trained(Clip(s), loss, K.optimizers.AdamW(1e-4, weight_decay=0.1), arrays)


def critic(s: Any, arrays: tuple) -> Callable:
    """A gradient of the critic is part of its loss."""
    make = K.Sequential(
        [
            L.Dense(16 * 4 * s.c, "relu"),
            L.Reshape([4, 4, 4 * s.c]),
            *[L.Conv2DTranspose(c, 4, 2, "same", activation="relu") for c in (2 * s.c, s.c)],
            L.Conv2DTranspose(3, 4, 2, "same", activation="tanh"),
        ]
    )
    judge = K.Sequential(
        [*[L.Conv2D(c, 4, 2, "same", activation=tf.nn.leaky_relu) for c in (s.c, 2 * s.c, 4 * s.c)], L.Flatten(), L.Dense(1)]
    )
    ours, theirs = K.optimizers.Adam(1e-4, 0.5), K.optimizers.Adam(1e-4, 0.5)
    images, z, mix = map(tf.constant, arrays)
    judge(make(z))

    @tf.function
    def step(images: Any, z: Any, mix: Any) -> Any:
        with tf.GradientTape() as tape:
            made = make(z)
            between = mix * images + (1 - mix) * made
            with tf.GradientTape() as inner:
                inner.watch(between)
                value = judge(between)
            size = tf.sqrt(tf.reduce_sum(tf.square(inner.gradient(value, between)), [1, 2, 3]) + 1e-12)
            loss = tf.reduce_mean(judge(made)) - tf.reduce_mean(judge(images)) + 10 * tf.reduce_mean(tf.square(size - 1))
        theirs.apply_gradients(zip(tape.gradient(loss, judge.trainable_variables), judge.trainable_variables, strict=True))
        with tf.GradientTape() as tape:
            cost = -tf.reduce_mean(judge(make(z)))
        ours.apply_gradients(zip(tape.gradient(cost, make.trainable_variables), make.trainable_variables, strict=True))
        return loss

    return lambda: step(images, z, mix)


STEPS = {f.__name__: f for f in (translate, resnext, points, tagger, crosses, gat, conformer, pairs, critic, series)}
