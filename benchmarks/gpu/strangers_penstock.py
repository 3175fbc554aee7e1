"""The models of strangers.py, written as programs for TensorFlow."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from others_penstock import DEVICE, cross_entropy, measured, trained
from strangers import S, data

import penstock as tf

K, L = tf.keras, tf.keras.layers
POLICIES = {"shuffle": "mixed_float16", "albert": "mixed_bfloat16", "dit": "mixed_bfloat16", "sets": "mixed_bfloat16"}


def prepared(name: str) -> tuple[Callable, Callable, Callable, Callable]:
    """See others.prepared."""
    K.mixed_precision.set_global_policy(POLICIES.get(name, "float32"))
    with tf.device(DEVICE):
        run = STEPS[name](S[name], data(name))
    return measured(run)


def fitted(model: Any, optimizer: Any, losses: Any, x: Any, y: Any) -> Callable:
    """The step of fit."""
    model.compile(optimizer, losses)
    function, held = model.make_train_function(), iter(tf.data.Dataset.from_tensors((x, y)).repeat())
    return lambda: function(held)["loss"]


# -- images ------------------------------------------------------------------------------------------------------------------
def shuffled(x: Any) -> Any:
    """The channels of two groups in turns."""
    _, h, w, c = x.shape
    return tf.reshape(tf.transpose(tf.reshape(x, [-1, h, w, 2, c // 2]), [0, 1, 2, 4, 3]), [-1, h, w, c])


def shuffle(s: Any, arrays: tuple) -> Callable:
    """Halves of the channels, mixed after each unit."""

    def branch(x: Any, c: int, stride: int) -> Any:
        x = L.ReLU()(L.BatchNormalization()(L.Conv2D(c, 1, use_bias=False)(x)))
        x = L.BatchNormalization()(L.DepthwiseConv2D(3, stride, padding="same", use_bias=False)(x))
        return L.ReLU()(L.BatchNormalization()(L.Conv2D(c, 1, use_bias=False)(x)))

    def unit(x: Any, c: int, first: bool) -> Any:
        if first:
            a = L.BatchNormalization()(L.DepthwiseConv2D(3, 2, padding="same", use_bias=False)(x))
            a, b = L.ReLU()(L.BatchNormalization()(L.Conv2D(c // 2, 1, use_bias=False)(a))), branch(x, c // 2, 2)
        else:
            a, b = L.Lambda(lambda t: tf.split(t, 2, -1))(x)
            b = branch(b, c // 2, 1)
        return L.Lambda(shuffled)(L.Concatenate()([a, b]))

    i = K.Input([s.side, s.side, 3])
    x = L.ReLU()(L.BatchNormalization()(L.Conv2D(24, 3, 2, padding="same", use_bias=False)(i)))
    for j, count in enumerate((4, 8, 4)):
        for k in range(count):
            x = unit(x, s.c << j, not k)
    x = L.ReLU()(L.BatchNormalization()(L.Conv2D(1024, 1, use_bias=False)(x)))
    model = K.Model(i, L.Dense(100, dtype="float32")(L.GlobalAveragePooling2D()(x)))
    return fitted(
        model,
        K.optimizers.SGD(0.05, momentum=0.9),
        K.losses.SparseCategoricalCrossentropy(from_logits=True),
        *map(tf.constant, arrays),
    )


def sharpen(s: Any, arrays: tuple) -> Callable:
    """Residual blocks without norms, and pixels out of channels."""
    i = K.Input([s.side, s.side, 3])
    x = first = L.Conv2D(s.c, 3, padding="same")(i)
    for _ in range(s.blocks):
        h = L.Conv2D(s.c, 3, padding="same")(L.Conv2D(s.c, 3, padding="same", activation="relu")(x))
        x = L.Add()([x, L.Rescaling(0.1)(h)])
    x = L.Add()([first, L.Conv2D(s.c, 3, padding="same")(x)])
    x = L.Lambda(lambda t: tf.nn.depth_to_space(t, 2))(L.Conv2D(4 * s.c, 3, padding="same")(x))
    model = K.Model(i, L.Conv2D(3, 3, padding="same")(x))
    return trained(model, lambda m, x, y: tf.reduce_mean(tf.abs(m(x) - y)), K.optimizers.Adam(1e-4), arrays)


def glow(s: Any, arrays: tuple) -> Callable:
    """Actnorm, a product over channels, and an affine coupling, per step; half of the channels leave after a level."""

    class Step(L.Layer):
        """One step of the flow."""

        def build(self, shape: Any) -> None:
            """The parameters, with a rotation as the first product."""
            c = shape[-1]
            self.scale = self.add_weight(name="scale", shape=[c], initializer="zeros")
            self.shift = self.add_weight(name="shift", shape=[c], initializer="zeros")
            start = np.linalg.qr(np.random.RandomState(c).randn(c, c))[0].astype("f")
            self.mix = self.add_weight(name="mix", shape=[c, c], initializer=K.initializers.Constant(start))
            self.net = K.Sequential(
                [
                    L.Conv2D(s.wide, 3, padding="same", activation="relu"),
                    L.Conv2D(s.wide, 1, activation="relu"),
                    L.Conv2D(c, 3, padding="same", kernel_initializer="zeros"),
                ]
            )

        def call(self, x: Any) -> Any:
            """The result, and the logarithm of the determinant."""
            places = float(x.shape[1] * x.shape[2])
            x = (x + self.shift) * tf.exp(self.scale)
            x = tf.einsum("nhwc,cd->nhwd", x, self.mix)
            gain = places * (tf.reduce_sum(self.scale) + tf.linalg.slogdet(self.mix)[1])
            a, b = tf.split(x, 2, -1)
            log, shift = tf.split(self.net(a), 2, -1)
            log = tf.math.log_sigmoid(log + 2.0)
            return tf.concat([a, (b + shift) * tf.exp(log)], -1), gain + tf.reduce_sum(log, [1, 2, 3])

    class Flow(K.Model):
        """Two levels."""

        def __init__(self) -> None:
            super().__init__()
            self.levels = [[Step() for _ in range(s.steps)] for _ in range(2)]

        def call(self, x: Any) -> Any:
            """Bits per dimension."""
            size, total, prior = float(np.prod(x.shape[1:])), 0.0, 0.0
            for level in self.levels:
                x = tf.nn.space_to_depth(x, 2)
                for step in level:
                    x, gain = step(x)
                    total += gain
                x, out = tf.split(x, 2, -1)
                prior += tf.reduce_sum(-0.5 * (tf.square(out) + np.log(2 * np.pi)), [1, 2, 3])
            prior += tf.reduce_sum(-0.5 * (tf.square(x) + np.log(2 * np.pi)), [1, 2, 3])
            return -tf.reduce_mean(total + prior) / (size * np.log(2.0))

    return trained(Flow(), lambda m, x: m(x), K.optimizers.Adam(1e-4), arrays)


# -- language ----------------------------------------------------------------------------------------------------------------
def heads_of(x: Any, heads: int) -> Any:
    """[batch, heads, places, depth]."""
    return tf.transpose(tf.reshape(x, [*x.shape[:2], heads, x.shape[2] // heads]), [0, 2, 1, 3])


class Shared(L.Layer):
    """A layer of a transformer with its norms behind."""

    def __init__(self, s: Any):
        super().__init__()
        self.heads, self.qkv, self.out = s.heads, L.Dense(3 * s.d), L.Dense(s.d)
        self.up, self.down, self.norms = L.Dense(4 * s.d), L.Dense(s.d), [L.LayerNormalization(epsilon=1e-12) for _ in range(2)]

    def call(self, x: Any, hidden: Any) -> Any:
        """With what is added to the scores of hidden places."""
        q, k, v = (heads_of(t, self.heads) for t in tf.split(self.qkv(x), 3, -1))
        scores = tf.einsum("bhqd,bhkd->bhqk", q, k) / tf.cast(tf.sqrt(float(q.shape[-1])), q.dtype) + hidden
        y = tf.einsum("bhqk,bhkd->bhqd", tf.nn.dropout(tf.nn.softmax(scores), 0.1), v)
        y = tf.reshape(tf.transpose(y, [0, 2, 1, 3]), x.shape)
        x = self.norms[0](x + tf.nn.dropout(self.out(y), 0.1))
        return self.norms[1](x + tf.nn.dropout(self.down(tf.nn.gelu(self.up(x), approximate=True)), 0.1))


class Albert(K.Model):
    """Small vectors of words, and one layer that is used again and again."""

    def __init__(self, s: Any):
        super().__init__()
        self.s, self.layer, self.widen, self.narrow = s, Shared(s), L.Dense(s.d), L.Dense(s.small, "gelu")
        self.norms = [L.LayerNormalization(epsilon=1e-12) for _ in range(2)]
        start = K.initializers.TruncatedNormal(stddev=0.02)
        self.words = self.add_weight(name="words", shape=[s.words, s.small], initializer=start)
        self.places = self.add_weight(name="places", shape=[s.t, s.small], initializer=start)

    def call(self, ids: Any, seen: Any, where: Any) -> Any:
        """The scores of the hidden words."""
        x = tf.cast(self.norms[0](tf.nn.embedding_lookup(self.words, ids) + self.places), tf.bfloat16)
        x, hidden = self.widen(x), tf.cast((1.0 - seen[:, None, None, :]) * -1e4, tf.bfloat16)
        for _ in range(self.s.layers):
            x = self.layer(x, hidden)
        x = self.norms[1](self.narrow(tf.gather(x, where, batch_dims=1)))
        return tf.matmul(x, tf.cast(self.words, x.dtype), transpose_b=True)


def albert(s: Any, arrays: tuple) -> Callable:
    """Masked words, with AdamW and clipping."""
    return trained(
        Albert(s),
        lambda m, ids, seen, where, y: cross_entropy(y, m(ids, seen, where)),
        K.optimizers.AdamW(1e-4, weight_decay=0.01),
        arrays,
        clip=1.0,
    )


def hierarchy(s: Any, arrays: tuple) -> Callable:
    """Words to lines and lines to documents, as a graph of 1.x."""
    import penstock.compat.v1 as tf

    tf.disable_v2_behavior()

    def level(x: Any, lengths: Any, scope: str) -> Any:
        with tf.variable_scope(scope):
            cells = [tf.nn.rnn_cell.GRUCell(s.d) for _ in range(2)]
            both, _ = tf.nn.bidirectional_dynamic_rnn(*cells, x, sequence_length=lengths, dtype=tf.float32)
            h = tf.concat(both, 2)
            u = tf.layers.dense(h, s.d, tf.tanh)
            scores = tf.reduce_sum(u * tf.get_variable("context", [s.d]), -1)
            if lengths is not None:
                scores += tf.log(tf.sequence_mask(lengths, x.shape[1].value, tf.float32) + 1e-9)
            return tf.reduce_sum(h * tf.nn.softmax(scores)[:, :, None], 1)

    with tf.device(DEVICE):
        ids, lengths, y = (
            tf.get_variable(n, initializer=tf.constant(a), trainable=False) for n, a in zip("iny", arrays, strict=True)
        )
        words = tf.nn.embedding_lookup(tf.get_variable("words", [s.words, s.d]), ids)
        lines = tf.reshape(level(words, lengths, "words_of_lines"), [s.n, s.lines, 2 * s.d])
        logits = tf.layers.dense(level(lines, None, "lines"), 5)
        loss = tf.losses.sparse_softmax_cross_entropy(y, logits)
        train = tf.train.RMSPropOptimizer(1e-3).minimize(loss)
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    run = session.make_callable([loss, train])
    return lambda: run()[0]


# -- tables, atoms, sound, sets ----------------------------------------------------------------------------------------------
def tasks(s: Any, arrays: tuple) -> Callable:
    """Experts that three tasks mix by their own gates."""
    i = K.Input([s.tables], dtype="int64")
    rows = [L.Embedding(s.rows, s.d)(i[:, j]) for j in range(s.tables)]
    x = L.Concatenate()(rows)
    experts = [L.Dense(128, "relu")(L.Dense(256, "relu")(x)) for _ in range(s.experts)]
    every = L.Lambda(lambda t: tf.stack(t, 1))(experts)
    outs = []
    for _ in range(3):
        gate = L.Dense(s.experts, "softmax")(x)
        mixed = L.Dot(1)([gate, every])
        outs.append(L.Dense(1)(L.Dense(64, "relu")(mixed)))
    losses = [K.losses.BinaryCrossentropy(from_logits=True) for _ in range(3)]
    ids, *labels = map(tf.constant, arrays)
    return fitted(K.Model(i, outs), K.optimizers.Adagrad(0.01), losses, ids, tuple(labels))


class Equivariant(L.Layer):
    """Messages over pairs that move the atoms, too."""

    def __init__(self, d: int):
        super().__init__()
        self.message = K.Sequential([L.Dense(d, "swish"), L.Dense(d, "swish")])
        self.pull = K.Sequential([L.Dense(d, "swish"), L.Dense(1, use_bias=False)])
        self.change = K.Sequential([L.Dense(d, "swish"), L.Dense(d)])

    def call(self, h: Any, x: Any, a: Any, b: Any) -> Any:
        """Of features and places, over pairs (a, b)."""
        count = h.shape[0]
        gap = tf.gather(x, a) - tf.gather(x, b)
        far = tf.reduce_sum(tf.square(gap), -1, keepdims=True)
        m = self.message(tf.concat([tf.gather(h, a), tf.gather(h, b), far], -1))
        move = tf.clip_by_value(gap / (tf.sqrt(far + 1e-8) + 1.0) * self.pull(m), -10.0, 10.0)
        x = x + tf.math.unsorted_segment_mean(move, a, count)
        return h + self.change(tf.concat([h, tf.math.unsorted_segment_sum(m, a, count)], -1)), x


def equivariant(s: Any, arrays: tuple) -> Callable:
    """Where the atoms go."""

    class Network(K.Model):
        """Some layers."""

        def __init__(self) -> None:
            super().__init__()
            self.parts = [Equivariant(s.d) for _ in range(s.layers)]

        def call(self, h: Any, x: Any, a: Any, b: Any) -> Any:
            """The new places."""
            for part in self.parts:
                h, x = part(h, x, a, b)
            return x + 0.0 * tf.reduce_sum(h)

    def loss(m: Any, h: Any, x: Any, a: Any, b: Any, y: Any) -> Any:
        return tf.reduce_mean(tf.square(m(h, x, a, b) - y))

    return trained(Network(), loss, K.optimizers.Adam(1e-3), arrays, clip=10.0)


def keywords(s: Any, arrays: tuple) -> Callable:
    """Sound to a spectrogram on a mel scale, then convolutions over time and over frequency apart."""
    mel = tf.signal.linear_to_mel_weight_matrix(40, 257, 16000)

    class Broadcast(L.Layer):
        """A two-dimensional part, and a one-dimensional one that is added to every frequency."""

        def __init__(self, c: int, stride: int):
            super().__init__()
            self.wide = L.Conv2D(c, 1, use_bias=False) if stride > 1 else None
            self.deep, self.norm = L.DepthwiseConv2D((1, 3), padding="same", use_bias=False), L.BatchNormalization()
            self.along = L.DepthwiseConv2D((3, 1), padding="same", use_bias=False)
            self.mix, self.second, self.drop = L.Conv2D(c, 1, use_bias=False), L.BatchNormalization(), L.Dropout(0.1)
            self.stride = stride

        def call(self, x: Any, training: bool = True) -> Any:
            """Of [batch, time, frequency, channels]."""
            if self.wide is not None:
                x = tf.nn.avg_pool2d(self.wide(x), [1, self.stride], [1, self.stride], "VALID")
            h = self.norm(self.deep(x), training=training)
            mean = tf.reduce_mean(h, 2, keepdims=True)
            mean = tf.nn.silu(self.second(self.along(mean), training=training))
            return tf.nn.relu(x + h + self.drop(self.mix(mean), training=training))

    class Network(K.Model):
        """Everything, from samples to words."""

        def __init__(self) -> None:
            super().__init__()
            self.first, self.out = L.Conv2D(s.c, 5, (2, 1), padding="same"), L.Dense(12)
            self.parts = [Broadcast(s.c * c, stride) for c, stride in ((1, 1), (1, 1), (2, 2), (2, 1), (4, 2), (4, 1))]

        def call(self, x: Any, training: bool = True) -> Any:
            """Scores of words."""
            power = tf.square(tf.abs(tf.signal.stft(x, 400, 160, 512)))
            h = tf.math.log(tf.tensordot(power, mel, 1) + 1e-6)[..., None]
            h = self.first(h)
            for part in self.parts:
                h = part(h, training=training)
            return self.out(tf.reduce_mean(h, [1, 2]))

    return trained(Network(), lambda m, x, y: cross_entropy(y, m(x)), K.optimizers.Adam(1e-3), arrays)


def dit(s: Any, arrays: tuple) -> Callable:
    """Patches of noise to velocity; time and class scale and shift every norm. Slow copies follow the weights."""

    class Block(L.Layer):
        """Attention and a feed-forward part, both adapted."""

        def __init__(self) -> None:
            super().__init__()
            self.norms = [L.LayerNormalization(center=False, scale=False, epsilon=1e-6) for _ in range(2)]
            self.adapt = L.Dense(6 * s.d, kernel_initializer="zeros")
            self.attention = L.MultiHeadAttention(s.heads, s.d // s.heads)
            self.up, self.down = L.Dense(4 * s.d), L.Dense(s.d)

        def call(self, x: Any, c: Any) -> Any:
            """With a condition."""
            a, b, g, d, e, f = (t[:, None] for t in tf.split(self.adapt(tf.nn.silu(c)), 6, -1))
            h = self.norms[0](x) * (1 + b) + a
            x = x + g * self.attention(h, h)
            h = self.norms[1](x) * (1 + e) + d
            return x + f * self.down(tf.nn.gelu(self.up(h), approximate=True))

    class Dit(K.Model):
        """All of it."""

        def __init__(self) -> None:
            super().__init__()
            self.enter, self.classes = L.Dense(s.d), L.Embedding(1000, s.d)
            self.time = K.Sequential([L.Dense(s.d, "swish"), L.Dense(s.d)])
            self.blocks, self.out = [Block() for _ in range(s.layers)], L.Dense(16, dtype="float32")
            self.places = self.add_weight(name="places", shape=[s.t, s.d], initializer=K.initializers.RandomNormal(stddev=0.02))

        def call(self, x: Any, t: Any, label: Any) -> Any:
            """The velocity."""
            waves = t[:, None] * 1000.0 * tf.exp(tf.linspace(0.0, -9.2, 128))
            c = self.time(tf.concat([tf.sin(waves), tf.cos(waves)], -1)) + self.classes(label)
            x = self.enter(x) + tf.cast(self.places, tf.bfloat16)
            for block in self.blocks:
                x = block(x, c)
            return self.out(x)

    model, opt = Dit(), K.optimizers.AdamW(1e-4, weight_decay=0.0)
    held = tuple(map(tf.constant, arrays))
    model(held[0], held[2], held[3])
    slow = [tf.Variable(v, trainable=False) for v in model.trainable_variables]

    @tf.function
    def step(x: Any, noise: Any, t: Any, label: Any) -> Any:
        part = t[:, None, None]
        with tf.GradientTape() as tape:
            found = model((1.0 - part) * x + part * noise, t, label)
            loss = tf.reduce_mean(tf.square(found - (noise - x)))
        opt.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True))
        for a, v in zip(slow, model.trainable_variables, strict=True):
            a.assign(0.999 * a + 0.001 * v)
        return loss

    return lambda: step(*held)


def sets(s: Any, arrays: tuple) -> Callable:
    """Attention through a few learned points; the size of the sets changes from step to step."""

    class Attends(L.Layer):
        """Attention with residual and feed-forward part."""

        def __init__(self) -> None:
            super().__init__()
            self.attention, self.feed = L.MultiHeadAttention(s.heads, s.d // s.heads), L.Dense(s.d, "relu")
            self.norms = [L.LayerNormalization() for _ in range(2)]

        def call(self, x: Any, y: Any) -> Any:
            """Of x over y."""
            h = self.norms[0](x + self.attention(x, y))
            return self.norms[1](h + self.feed(h))

    class Induced(L.Layer):
        """Through points, and back."""

        def __init__(self) -> None:
            super().__init__()
            self.there, self.back = Attends(), Attends()

        def build(self, shape: Any) -> None:
            """The points."""
            self.points = self.add_weight(name="points", shape=[1, s.points, s.d])

        def call(self, x: Any) -> Any:
            """Of a set."""
            points = tf.repeat(tf.cast(self.points, x.dtype), tf.shape(x)[0], 0)
            return self.back(x, self.there(points, x))

    class Network(K.Model):
        """Two of them, and a mean."""

        def __init__(self) -> None:
            super().__init__()
            self.enter, self.parts = L.Dense(s.d), [Induced() for _ in range(3)]
            self.out = K.Sequential([L.Dense(s.d, "relu"), L.Dense(10)])

        def call(self, x: Any) -> Any:
            """Scores of classes."""
            x = self.enter(x)
            for part in self.parts:
                x = part(x)
            return self.out(tf.reduce_mean(x, 1))

    model, opt, (x, y) = Network(), K.optimizers.Adam(1e-3), arrays
    held, labels = itertools.cycle([tf.constant(x[:, :n]) for n in s.lengths]), tf.constant(y)

    @tf.function(input_signature=[tf.TensorSpec([None, None, 4]), tf.TensorSpec([None], tf.int64)])
    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = cross_entropy(y, model(x))
        opt.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True))
        return loss

    return lambda: step(next(held), labels)


STEPS = {f.__name__: f for f in (shuffle, sharpen, albert, hierarchy, tasks, equivariant, keywords, glow, dit, sets)}
