"""The models of unseen.py, written as programs for TensorFlow."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from later_penstock import fitted
from others_penstock import DEVICE, cross_entropy, in_session, measured, trained
from unseen import S, data

import penstock as tf

K, L = tf.keras, tf.keras.layers
BF16 = ("perceiver", "switch", "densenet")
SESSIONS = ("detector", "sampled")


def prepared(name: str) -> tuple[Callable, Callable, Callable, Callable]:
    """See others.prepared."""
    K.mixed_precision.set_global_policy("mixed_bfloat16" if name in BF16 else "float32")
    if name in SESSIONS:
        return measured(STEPS[name](S[name], data(name)))
    with tf.device(DEVICE):
        return measured(STEPS[name](S[name], data(name)))


# -- attention ---------------------------------------------------------------------------------------------------------------
class Reader(L.Layer):
    """Attention of latents to something, and a feed-forward part."""

    def __init__(self, d: int, heads: int):
        super().__init__()
        self.attend = L.MultiHeadAttention(heads, d // heads, dropout=0.1)
        self.norms = [L.LayerNormalization(epsilon=1e-5) for _ in range(3)]
        self.up, self.down = L.Dense(4 * d, "gelu"), L.Dense(d)

    def call(self, x: Any, other: Any = None, training: bool = True) -> Any:
        """Of the latents themselves, or of the inputs."""
        h = self.norms[0](x)
        memory = h if other is None else self.norms[1](other)
        x = x + self.attend(h, memory, training=training)
        return x + self.down(self.up(self.norms[2](x)))


class Perceiver(K.Model):
    """Latents that read the inputs twice."""

    def __init__(self, s: Any):
        super().__init__()
        start = K.initializers.RandomNormal(stddev=0.02)
        self.latents = self.add_weight(name="latents", shape=[s.latents, s.d], initializer=start)
        self.readers = [Reader(s.d, s.heads) for _ in range(2)]
        self.thinkers = [Reader(s.d, s.heads) for _ in range(s.layers)]
        self.out = L.Dense(100)

    def call(self, inputs: Any, training: bool = True) -> Any:
        """The classes of sets of inputs."""
        h = tf.cast(tf.tile(self.latents[None], [tf.shape(inputs)[0], 1, 1]), tf.bfloat16)
        inputs = tf.cast(inputs, tf.bfloat16)
        for i, thinker in enumerate(self.thinkers):
            if i % (len(self.thinkers) // 2) == 0:
                h = self.readers[i // (len(self.thinkers) // 2)](h, inputs, training=training)
            h = thinker(h, training=training)
        return self.out(tf.reduce_mean(h, 1))


def perceiver(s: Any, arrays: tuple) -> Callable:
    """Weights decay."""
    return trained(
        Perceiver(s), lambda m, x, y: cross_entropy(y, m(x)), K.optimizers.AdamW(1e-4, weight_decay=0.01), arrays
    )


class Experts(L.Layer):
    """Each word goes to one of several feed-forward parts, as long as there is room."""

    def __init__(self, d: int, count: int):
        super().__init__()
        self.d, self.count, self.route = d, count, L.Dense(count, use_bias=False, dtype="float32")

    def build(self, shape: Any) -> None:
        """One pair of matrices per expert."""
        self.up = self.add_weight(name="up", shape=[self.count, self.d, 4 * self.d])
        self.down = self.add_weight(name="down", shape=[self.count, 4 * self.d, self.d])

    def call(self, x: Any) -> Any:
        """The words, and how uneven the shares are."""
        shape = x.shape
        x = tf.reshape(x, [-1, self.d])
        room = x.shape[0] * 5 // (4 * self.count)
        p = tf.nn.softmax(self.route(tf.cast(x, tf.float32)))
        best = tf.argmax(p, -1)
        chosen = tf.one_hot(best, self.count)
        even = self.count * tf.reduce_sum(tf.reduce_mean(chosen, 0) * tf.reduce_mean(p, 0))
        place = tf.cumsum(chosen, 0, exclusive=True) * chosen
        fits = tf.cast(tf.less(place, room), tf.float32) * chosen
        slot = tf.one_hot(tf.cast(tf.reduce_sum(place * fits, -1), tf.int32), room)
        send = fits[..., None] * slot[:, None]
        weight = send * tf.reduce_max(p, -1)[:, None, None]
        h = tf.einsum("tec,td->ecd", tf.cast(send, x.dtype), x)
        h = tf.nn.relu(tf.einsum("ecd,edf->ecf", h, tf.cast(self.up, x.dtype)))
        h = tf.einsum("ecf,efd->ecd", h, tf.cast(self.down, x.dtype))
        return tf.reshape(tf.einsum("tec,ecd->td", tf.cast(weight, x.dtype), h), shape), even


class Switch(K.Model):
    """A language model of experts."""

    def __init__(self, s: Any):
        super().__init__()
        self.s, self.words, self.places = s, L.Embedding(s.words, s.d), L.Embedding(s.t, s.d)
        self.norms = [[L.LayerNormalization(epsilon=1e-5) for _ in range(2)] for _ in range(s.layers)]
        self.qkv, self.o = ([L.Dense(n * s.d) for _ in range(s.layers)] for n in (3, 1))
        self.experts = [Experts(s.d, s.experts) for _ in range(s.layers)]
        self.last, self.out = L.LayerNormalization(epsilon=1e-5), L.Dense(s.words)

    def call(self, ids: Any) -> Any:
        """Logits, and how uneven the experts' shares are."""
        s, total = self.s, 0.0
        x = self.words(ids) + self.places(tf.range(s.t))
        hidden = tf.constant(np.triu(np.full([s.t, s.t], -1e9, "f"), 1), x.dtype)
        for norms, qkv, o, experts in zip(self.norms, self.qkv, self.o, self.experts, strict=True):
            q, k, v = (tf.reshape(y, [-1, s.t, s.heads, s.d // s.heads]) for y in tf.split(qkv(norms[0](x)), 3, -1))
            a = tf.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(s.d // s.heads) + hidden
            x = x + o(tf.reshape(tf.einsum("bhqk,bkhd->bqhd", tf.nn.softmax(a), v), x.shape))
            h, even = experts(norms[1](x))
            x, total = x + h, total + even
        return self.out(self.last(x)), total


def switch(s: Any, arrays: tuple) -> Callable:
    """The next word, and even shares."""

    def loss(model: Any, ids: Any) -> Any:
        logits, total = model(ids[:, :-1])
        return cross_entropy(ids[:, 1:], logits) + 0.01 * total

    return trained(Switch(s), loss, K.optimizers.Adam(1e-4), arrays, clip=1.0)


# -- images ------------------------------------------------------------------------------------------------------------------
def densenet(s: Any, arrays: tuple) -> Callable:
    """Every layer sees all before it."""

    def plain(x: Any, c: int, size: int) -> Any:
        return L.Conv2D(c, size, padding="same", use_bias=False)(L.ReLU()(L.BatchNormalization()(x)))

    i = K.Input([s.side, s.side, 3])
    x = L.Conv2D(2 * s.grow, 7, 2, "same", use_bias=False)(i)
    x = L.MaxPool2D(3, 2, "same")(L.ReLU()(L.BatchNormalization()(x)))
    for j, count in enumerate(s.blocks):
        if j:
            x = L.AveragePooling2D(2)(plain(x, x.shape[-1] // 2, 1))
        for _ in range(count):
            x = L.Concatenate()([x, plain(plain(x, 4 * s.grow, 1), s.grow, 3)])
    x = L.GlobalAveragePooling2D()(L.ReLU()(L.BatchNormalization()(x)))
    return fitted(K.Model(i, L.Dense(100, dtype="float32")(x)), K.optimizers.SGD(0.05, momentum=0.9), arrays)


class Spectral(L.Layer):
    """Mixes channels per frequency, of the low ones."""

    def __init__(self, c: int, modes: int):
        super().__init__()
        self.c, self.modes = c, modes

    def build(self, shape: Any) -> None:
        """Complex matrices for both ends of the first axis."""
        size, start = [2, self.c, self.c, self.modes, self.modes], K.initializers.RandomUniform(0, 1 / self.c**2)
        self.parts = [self.add_weight(name=n, shape=size, initializer=start) for n in ("real", "imaginary")]

    def call(self, x: Any) -> Any:
        """Of channels first."""
        m, (_, _, h, w) = self.modes, x.shape
        found, by = tf.signal.rfft2d(x), tf.complex(*self.parts)
        low = tf.einsum("bihw,iohw->bohw", found[:, :, :m, :m], by[0])
        high = tf.einsum("bihw,iohw->bohw", found[:, :, -m:, :m], by[1])
        low = tf.pad(low, [[0, 0], [0, 0], [0, h - 2 * m], [0, 0]])
        return tf.signal.irfft2d(tf.pad(tf.concat([low, high], 2), [[0, 0], [0, 0], [0, 0], [0, w // 2 + 1 - m]]), [h, w])


class Operator(K.Model):
    """Four layers in frequencies and in space."""

    def __init__(self, s: Any):
        super().__init__()
        self.lift, self.one, self.two = L.Dense(s.c), L.Dense(128, "gelu"), L.Dense(1)
        self.spectral, self.local = [Spectral(s.c, s.modes) for _ in range(4)], [L.Dense(s.c) for _ in range(4)]

    def call(self, x: Any) -> Any:
        """From fields to fields."""
        x = self.lift(x)
        for spectral, local in zip(self.spectral, self.local, strict=True):
            x = tf.nn.gelu(tf.transpose(spectral(tf.transpose(x, [0, 3, 1, 2])), [0, 2, 3, 1]) + local(x))
        return self.two(self.one(x))


def operator(s: Any, arrays: tuple) -> Callable:
    """The relative error of fields."""

    def loss(model: Any, x: Any, y: Any) -> Any:
        return tf.reduce_mean(tf.norm(model(x) - y, axis=[1, 2]) / tf.norm(y, axis=[1, 2]))

    return trained(Operator(s), loss, K.optimizers.Adam(1e-3), arrays)


def detector(s: Any, arrays: tuple) -> Callable:
    """Boxes and classes at three scales, as a graph of 1.x."""
    import penstock.compat.v1 as tf

    tf.disable_v2_behavior()
    with tf.device(DEVICE):
        x, labels, boxes = (
            tf.get_variable(n, initializer=tf.constant(a), trainable=False) for n, a in zip("xlb", arrays, strict=True)
        )

        def unit(x: Any, c: int, stride: int) -> Any:
            h = tf.layers.conv2d(x, c, 3, stride, padding="same", use_bias=False)
            h = tf.nn.relu(tf.layers.batch_normalization(h, training=True))
            h = tf.layers.batch_normalization(tf.layers.conv2d(h, c, 3, padding="same", use_bias=False), training=True)
            if stride > 1 or x.shape[-1] != c:
                x = tf.layers.conv2d(x, c, 1, stride, padding="same")
            return tf.nn.relu(h + x)

        h, levels = tf.layers.conv2d(x, s.c, 7, 2, padding="same", activation=tf.nn.relu), []
        for c in (s.c, 2 * s.c, 4 * s.c, 8 * s.c):
            h = unit(unit(h, c, 2), c, 1)
            levels.append(h)
        top, found = None, []
        for level in levels[:0:-1]:
            side = tf.layers.conv2d(level, 4 * s.c, 1)
            top = side if top is None else side + tf.image.resize_nearest_neighbor(top, [side.shape[1], side.shape[2]])
            found.insert(0, tf.layers.conv2d(top, 4 * s.c, 3, padding="same"))

        def head(x: Any, name: str, out: int) -> Any:
            again = tf.AUTO_REUSE
            for i in range(4):
                x = tf.layers.conv2d(x, 4 * s.c, 3, padding="same", activation=tf.nn.relu, name=f"{name}{i}", reuse=again)
            x = tf.layers.conv2d(x, 9 * out, 3, padding="same", name=name, reuse=again)
            return tf.reshape(x, [s.n, -1, 9, out])

        classes, moves = (tf.concat([head(f, *k) for f in found], 1) for k in (("class", 20), ("box", 4)))
        target = tf.one_hot(labels - 1, 20)
        p = tf.sigmoid(classes)
        focus = target * 0.25 * (1 - p) ** 2 + (1 - target) * 0.75 * p**2
        own = tf.cast(labels > 0, tf.float32)
        count = tf.maximum(tf.reduce_sum(own), 1.0)
        loss = tf.reduce_sum(focus * tf.nn.sigmoid_cross_entropy_with_logits(labels=target, logits=classes)) / count
        loss += tf.losses.huber_loss(boxes, moves, own[..., None], reduction=tf.losses.Reduction.SUM) / count
        variables = tf.trainable_variables()
        gradients, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), 10.0)
        with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
            train = tf.train.MomentumOptimizer(1e-4, 0.9).apply_gradients(zip(gradients, variables, strict=True))
    return in_session(tf, loss, train)


class Nerf(K.Model):
    """Colours of rays."""

    def __init__(self, s: Any):
        super().__init__()
        self.s, self.dense = s, [L.Dense(s.d, "relu") for _ in range(8)]
        self.density, self.feature = L.Dense(1), L.Dense(s.d)
        self.view, self.colour = L.Dense(s.d // 2, "relu"), L.Dense(3, "sigmoid")

    @staticmethod
    def waves(x: Any, count: int) -> Any:
        """Sines and cosines of powers of two."""
        angles = x[..., None] * tf.constant(2.0 ** np.arange(count), tf.float32)
        both = tf.concat([tf.sin(angles), tf.cos(angles)], -1)
        return tf.concat([x, tf.reshape(both, [*x.shape[:-1], -1])], -1)

    def call(self, start: Any, way: Any) -> Any:
        """Points along rays, and what is seen of them."""
        s = self.s
        way = tf.math.l2_normalize(way, -1)
        edges = tf.linspace(2.0, 6.0, s.points + 1)
        depth = edges[:-1] + (edges[1:] - edges[:-1]) * tf.random.uniform([s.n, s.points])
        points = self.waves(start[:, None] + way[:, None] * depth[..., None], 10)
        h = points
        for i, dense in enumerate(self.dense):
            h = dense(tf.concat([h, points], -1) if i == 5 else h)
        sigma = tf.nn.relu(self.density(h)[..., 0])
        seen = tf.tile(self.waves(way, 4)[:, None], [1, s.points, 1])
        colour = self.colour(self.view(tf.concat([self.feature(h), seen], -1)))
        gaps = tf.concat([depth[:, 1:] - depth[:, :-1], tf.fill([s.n, 1], 1e10)], -1)
        alpha = 1 - tf.exp(-sigma * gaps)
        weight = alpha * tf.math.cumprod(1 - alpha + 1e-10, -1, exclusive=True)
        return tf.reduce_sum(weight[..., None] * colour, 1)


def nerf(s: Any, arrays: tuple) -> Callable:
    """The rate of learning falls."""
    rate = K.optimizers.schedules.ExponentialDecay(5e-4, 1000, 0.1)
    return trained(Nerf(s), lambda m, a, b, y: tf.reduce_mean(tf.square(m(a, b) - y)), K.optimizers.Adam(rate), arrays)


# -- sound, control, retrieval -----------------------------------------------------------------------------------------------
def speech(s: Any, arrays: tuple) -> Callable:
    """Labels without their times."""
    model = K.Sequential([L.SeparableConv1D(s.c, 11, 2, "same", use_bias=False), L.BatchNormalization(), L.ReLU()])
    for size in (11, 13, 17, 21):
        for _ in range(2):
            model.add(L.SeparableConv1D(s.c, size, padding="same", use_bias=False))
            model.add(L.BatchNormalization())
            model.add(L.Activation("swish"))
            model.add(L.Dropout(0.1))
    model.add(L.Dense(29))
    frames = tf.fill([s.n], s.t // 2)

    def loss(model: Any, x: Any, y: Any, lengths: Any) -> Any:
        logits = model(x, training=True)
        return tf.reduce_mean(tf.nn.ctc_loss(y, logits, lengths, frames, logits_time_major=False, blank_index=0))

    x, y, lengths = arrays
    return trained(model, loss, K.optimizers.Adam(1e-3), (x, y.astype("i"), lengths.astype("i")), clip=1.0)


def actor(s: Any, arrays: tuple) -> Callable:
    """A policy, two critics with slow copies, and a temperature."""

    def network(inputs: int, out: int) -> Any:
        model = K.Sequential([L.Dense(s.d, "relu"), L.Dense(s.d, "relu"), L.Dense(out)])
        model.build([None, inputs])
        return model

    policy = network(s.seen, 2 * s.acts)
    critics, slow = ([network(s.seen + s.acts, 1) for _ in range(2)] for _ in range(2))
    heat = tf.Variable(0.0)
    for a, b in zip(slow, critics, strict=True):
        a.set_weights(b.get_weights())
    optimizers = [K.optimizers.Adam(3e-4) for _ in range(3)]

    def act(seen: Any) -> Any:
        mean, spread = tf.split(policy(seen), 2, -1)
        spread = tf.clip_by_value(spread, -20.0, 2.0)
        noise = tf.random.normal(tf.shape(mean))
        raw = mean + tf.exp(spread) * noise
        likely = -0.5 * tf.square(noise) - spread - 0.919
        likely -= 2.0 * (math.log(2.0) - raw - tf.math.softplus(-2.0 * raw))
        return tf.tanh(raw), tf.reduce_sum(likely, -1)

    def rated(pair: list, seen: Any, act: Any) -> list:
        return [c(tf.concat([seen, act], -1))[:, 0] for c in pair]

    @tf.function
    def step(seen: Any, done: Any, reward: Any, then: Any) -> Any:
        following, likely = act(then)
        goal = reward + 0.99 * (tf.minimum(*rated(slow, then, following)) - tf.exp(heat) * likely)
        ours = [v for c in critics for v in c.trainable_variables]
        with tf.GradientTape() as tape:
            loss = tf.add_n([tf.reduce_mean(tf.square(q - tf.stop_gradient(goal))) for q in rated(critics, seen, done)])
        optimizers[0].apply_gradients(zip(tape.gradient(loss, ours), ours, strict=True))
        with tf.GradientTape() as tape:
            chosen, likely = act(seen)
            cost = tf.reduce_mean(tf.exp(heat) * likely - tf.minimum(*rated(critics, seen, chosen)))
        own = policy.trainable_variables
        optimizers[1].apply_gradients(zip(tape.gradient(cost, own), own, strict=True))
        with tf.GradientTape() as tape:
            third = -tf.reduce_mean(heat * tf.stop_gradient(likely - s.acts))
        optimizers[2].apply_gradients([(tape.gradient(third, heat), heat)])
        for a, b in zip(slow, critics, strict=True):
            for v, w in zip(a.variables, b.variables, strict=True):
                v.assign(0.995 * v + 0.005 * w)
        return loss

    held = tuple(map(tf.constant, arrays))
    return lambda: step(*held)


def sampled(s: Any, arrays: tuple) -> Callable:
    """The mean of past items predicts the next, as a graph of 1.x."""
    import penstock.compat.v1 as tf

    tf.disable_v2_behavior()
    with tf.device(DEVICE):
        past, item = (
            tf.get_variable(n, initializer=tf.constant(a, tf.int64), trainable=False) for n, a in zip("pi", arrays, strict=True)
        )
        start = tf.random_uniform_initializer(-0.05, 0.05)
        table, weights = (tf.get_variable(n, [s.items, s.d], initializer=start) for n in ("table", "weights"))
        biases = tf.get_variable("biases", [s.items], initializer=tf.zeros_initializer())
        h = tf.reduce_mean(tf.nn.embedding_lookup(table, past), 1)
        for width in (256, s.d):
            h = tf.layers.dense(h, width, tf.nn.relu)
        loss = tf.reduce_mean(tf.nn.sampled_softmax_loss(weights, biases, item, h, s.some, s.items))
        train = tf.train.AdagradOptimizer(0.1).minimize(loss)
    return in_session(tf, loss, train, tf.ConfigProto(allow_soft_placement=True))      # candidates are drawn on the host


STEPS = {f.__name__: f for f in (perceiver, switch, densenet, operator, detector, nerf, speech, actor, sampled)}
