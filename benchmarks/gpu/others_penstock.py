"""The models of others.py, as programs for TensorFlow write them: Keras models, tf.functions, and graphs of 1.x."""
from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from others import S, data

import penstock as tf

K, L = tf.keras, tf.keras.layers
DEVICE = "/gpu:0" if tf.config.list_physical_devices("GPU") else "/cpu:0"
BF16 = ("mobilenet", "diffusion", "wavenet", "gan", "llama")
SESSIONS = ("bert", "graph")


def measured(run: Callable) -> tuple[Callable, Callable, Callable, Callable]:
    """A step, what waits for it and checks its loss, whether the compiler is done, and remarks."""
    last: list = [None]

    def step() -> None:
        last[0] = run()

    def sync() -> None:
        loss = float(np.asarray(last[0]() if callable(last[0]) else last[0], np.float32))
        assert math.isfinite(loss), loss
    return step, sync, Settled(), remarks


def prepared(name: str) -> tuple[Callable, Callable, Callable, Callable]:
    """See others.prepared."""
    if name in BF16:
        K.mixed_precision.set_global_policy("mixed_bfloat16")
    if name in SESSIONS:
        run = STEPS[name](name)
    else:
        with tf.device(DEVICE):
            run = STEPS[name](name)
    return measured(run)


class Settled:
    """Whether the background compiler has done what it will do."""

    def __init__(self) -> None:
        self.looked = time.perf_counter()

    def __call__(self) -> bool:
        if time.perf_counter() - self.looked < 1.0:
            return False
        self.looked = time.perf_counter()
        if any(t.name == "penstock-compile" for t in threading.enumerate()):
            return False
        return any(slot.tier == 3 or any("tier 3" in r for r in slot.reasons) for slot in slots())


def slots() -> list:
    """The versions of all steps."""
    from penstock._src.step.tiers import tiers
    return [slot for step in list(tiers.every) for slot in list(step._slots.values())]


def remarks() -> list[str]:
    """Which versions run, and why nothing better does."""
    return sorted({f"{s.explain()} ({len(s.step.lines)} ops)" for s in slots()})


def trained(model: Any, loss: Callable, optimizer: Any, arrays: tuple, clip: float | None = None) -> Callable:
    """A step as a tf.function."""
    held = tuple(tf.constant(a) for a in arrays)

    @tf.function
    def step(*given: Any) -> Any:
        with tf.GradientTape() as tape:
            value = loss(model, *given)
        variables = model.trainable_variables
        gradients = tape.gradient(value, variables)
        if clip is not None:
            gradients, _ = tf.clip_by_global_norm(gradients, clip)
        optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return value
    return lambda: step(*held)


def cross_entropy(labels: Any, logits: Any) -> Any:
    """The mean over everything, in single precision."""
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=tf.cast(logits, tf.float32)))


# -- images ------------------------------------------------------------------------------------------------------------------
def mobilenet(name: str) -> Callable:
    """Inverted residuals with depthwise convolutions, trained by Keras."""
    s = S[name]

    def unit(x: Any, c: int, stride: int, expand: int) -> Any:
        i = x.shape[-1]
        h = L.ReLU(6.0)(L.BatchNormalization()(L.Conv2D(i * expand, 1, use_bias=False)(x))) if expand > 1 else x
        h = L.DepthwiseConv2D(3, stride, padding="same", use_bias=False)(h)
        h = L.BatchNormalization()(L.Conv2D(c, 1, use_bias=False)(L.ReLU(6.0)(L.BatchNormalization()(h))))
        return L.Add()([x, h]) if stride == 1 and i == c else h
    i = K.Input([s.side, s.side, 3])
    x = L.ReLU(6.0)(L.BatchNormalization()(L.Conv2D(32, 3, 2, padding="same", use_bias=False)(i)))
    for expand, c, n, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2)):
        for j in range(n):
            x = unit(x, c, stride if j == 0 else 1, expand)
    x = L.ReLU(6.0)(L.BatchNormalization()(L.Conv2D(1280, 1, use_bias=False)(x)))
    model = K.Model(i, L.Dense(100, dtype="float32")(L.Dropout(.2)(L.GlobalAveragePooling2D()(x))))
    model.compile(K.optimizers.RMSprop(1e-3, momentum=.9), K.losses.SparseCategoricalCrossentropy(from_logits=True))
    x, y = (tf.constant(a) for a in data(name))
    function, held = model.make_train_function(), iter(tf.data.Dataset.from_tensors((x, y)).repeat())
    return lambda: function(held)["loss"]


class ConvNextBlock(L.Layer):
    """Depthwise convolution, layer norm, two products, and a learned scale."""

    def __init__(self, c: int):
        super().__init__()
        self.conv, self.norm = L.DepthwiseConv2D(7, padding="same"), L.LayerNormalization(epsilon=1e-6)
        self.up, self.down, self.c = L.Dense(4 * c, activation="gelu"), L.Dense(c), c

    def build(self, shape: Any) -> None:
        """The scale of each channel."""
        self.gamma = self.add_weight(name="gamma", shape=[self.c], initializer=K.initializers.Constant(1e-2))

    def call(self, x: Any) -> Any:
        """One residual block."""
        return x + self.gamma * self.down(self.up(self.norm(self.conv(x))))


def convnext(name: str) -> Callable:
    """A network of such blocks."""
    s = S[name]
    i = K.Input([s.side, s.side, 3])
    x = L.LayerNormalization(epsilon=1e-6)(L.Conv2D(96, 4, 4)(i))
    for j, (c, n) in enumerate(((96, 2), (192, 2), (384, 4), (768, 2))):
        if j:
            x = L.Conv2D(c, 2, 2)(L.LayerNormalization(epsilon=1e-6)(x))
        for _ in range(n):
            x = ConvNextBlock(c)(x)
    model = K.Model(i, L.Dense(100)(L.LayerNormalization(epsilon=1e-6)(L.GlobalAveragePooling2D()(x))))
    return trained(model, lambda m, x, y: cross_entropy(y, m(x, training=True)), K.optimizers.Adam(1e-4), data(name))


class GroupNorm(L.Layer):
    """Group normalization over 32 groups, written out."""

    def build(self, shape: Any) -> None:
        """Scale and offset."""
        self.g = self.add_weight(name="g", shape=[shape[-1]], initializer="ones")
        self.b = self.add_weight(name="b", shape=[shape[-1]], initializer="zeros")

    def call(self, x: Any) -> Any:
        """Normalizes in single precision."""
        n, h, w, c = x.shape
        y = tf.reshape(tf.cast(x, tf.float32), [-1, h, w, 32, c // 32])
        mean, variance = tf.nn.moments(y, [1, 2, 4], keepdims=True)
        y = tf.reshape((y - mean) * tf.math.rsqrt(variance + 1e-5), [-1, h, w, c])
        return tf.cast(y * tf.cast(self.g, tf.float32) + tf.cast(self.b, tf.float32), x.dtype)


class Residual(L.Layer):
    """Two convolutions with the embedding of the time between them."""

    def __init__(self, c: int, same: bool):
        super().__init__()
        self.n1, self.n2 = GroupNorm(), GroupNorm()
        self.c1, self.c2 = (L.Conv2D(c, 3, padding="same") for _ in range(2))
        self.t, self.s = L.Dense(c), None if same else L.Conv2D(c, 1)

    def call(self, x: Any, t: Any) -> Any:
        """One block."""
        h = self.c1(tf.nn.silu(self.n1(x))) + self.t(tf.nn.silu(t))[:, None, None]
        return (x if self.s is None else self.s(x)) + self.c2(tf.nn.silu(self.n2(h)))


class Diffusion(K.Model):
    """A U-Net that predicts noise, with attention at its bottom."""

    def __init__(self, c: int):
        super().__init__()
        self.c, self.first, self.t1, self.t2 = c, L.Conv2D(c, 3, padding="same"), L.Dense(4 * c), L.Dense(4 * c)
        self.down = [Residual(c, True), Residual(2 * c, False), Residual(2 * c, True)]
        self.shrink = [L.Conv2D(c, 3, 2, padding="same"), L.Conv2D(2 * c, 3, 2, padding="same")]
        self.mid, self.norm, self.attend = Residual(2 * c, True), GroupNorm(), L.MultiHeadAttention(4, c // 2)
        self.grow = [L.Conv2DTranspose(2 * c, 4, 2, padding="same"), L.Conv2DTranspose(c, 4, 2, padding="same")]
        self.up = [Residual(2 * c, False), Residual(c, False)]
        self.out = L.Conv2D(3, 3, padding="same")

    def call(self, x: Any, t: Any) -> Any:
        """The noise in images, at given times."""
        half = self.c // 2
        angle = tf.cast(t, tf.float32)[:, None] * tf.exp(-math.log(1e4) * tf.range(half, dtype=tf.float32) / half)
        t = self.t2(tf.nn.silu(self.t1(tf.concat([tf.sin(angle), tf.cos(angle)], -1))))
        x = self.first(x)
        a = self.down[0](x, t)
        b = self.down[1](self.shrink[0](a), t)
        h = self.mid(self.down[2](self.shrink[1](b), t), t)
        n, height, width, c = h.shape
        flat = tf.reshape(self.norm(h), [-1, height * width, c])
        h = h + tf.reshape(self.attend(flat, flat), [-1, height, width, c])
        h = self.up[0](tf.concat([self.grow[0](h), b], -1), t)
        return self.out(tf.nn.silu(self.up[1](tf.concat([self.grow[1](h), a], -1), t)))


def diffusion(name: str) -> Callable:
    """Noise is added by a schedule, and predicted."""
    kept = tf.constant(np.cumprod(1 - np.linspace(1e-4, .02, 1000)).astype("f"))

    def loss(m: Any, x: Any, noise: Any, t: Any) -> Any:
        a = tf.gather(kept, t)[:, None, None, None]
        return tf.reduce_mean(tf.square(noise - tf.cast(m(tf.sqrt(a) * x + tf.sqrt(1 - a) * noise, t), tf.float32)))
    return trained(Diffusion(S[name].c), loss, K.optimizers.Adam(1e-4), data(name))


def gan(name: str) -> Callable:
    """Both players of a DCGAN in one function."""
    s = S[name]
    g = K.Sequential([L.Dense(16 * 8 * s.c, use_bias=False), L.Reshape([4, 4, 8 * s.c]), L.BatchNormalization(), L.ReLU()])
    for c in (4 * s.c, 2 * s.c, s.c):
        for layer in (L.Conv2DTranspose(c, 4, 2, padding="same", use_bias=False), L.BatchNormalization(), L.ReLU()):
            g.add(layer)
    g.add(L.Conv2DTranspose(3, 4, 2, padding="same", activation="tanh"))
    d = K.Sequential([L.Conv2D(s.c, 4, 2, padding="same"), L.LeakyReLU(.2)])
    for c in (2 * s.c, 4 * s.c, 8 * s.c):
        for layer in (L.Conv2D(c, 4, 2, padding="same", use_bias=False), L.BatchNormalization(), L.LeakyReLU(.2)):
            d.add(layer)
    for layer in (L.Flatten(), L.Dense(1, dtype="float32")):
        d.add(layer)
    of_g, of_d = (K.optimizers.Adam(2e-4, beta_1=.5) for _ in range(2))
    real, z = (tf.constant(a) for a in data(name))
    entropy = K.losses.BinaryCrossentropy(from_logits=True)

    @tf.function
    def step(real: Any, z: Any) -> Any:
        with tf.GradientTape() as tg, tf.GradientTape() as td:
            fake = g(z, training=True)
            r, f = d(real, training=True), d(fake, training=True)
            lg, ld = entropy(tf.ones_like(f), f), entropy(tf.ones_like(r), r) + entropy(tf.zeros_like(f), f)
        gg, gd = tg.gradient(lg, g.trainable_variables), td.gradient(ld, d.trainable_variables)
        of_g.apply_gradients(zip(gg, g.trainable_variables, strict=True))
        of_d.apply_gradients(zip(gd, d.trainable_variables, strict=True))
        return lg + ld
    return lambda: step(real, z)


# -- language ----------------------------------------------------------------------------------------------------------------
def bert(name: str) -> Callable:
    """An encoder as BERT's own code writes it, in a session."""
    import penstock.compat.v1 as tf
    tf.disable_v2_behavior()
    s = S[name]
    with tf.device(DEVICE):
        ids, mask, labels = (tf.get_variable(n, initializer=tf.constant(a), trainable=False)
                             for n, a in zip(("ids", "mask", "labels"), data(name), strict=True))

        def var(n: str, shape: list, init: Any = None) -> Any:
            return tf.get_variable(n, shape, tf.float32, init or tf.truncated_normal_initializer(stddev=.02))

        def dense(x: Any, n: int, scope: str) -> Any:
            with tf.variable_scope(scope):
                return tf.nn.bias_add(tf.matmul(x, var("w", [x.shape[-1].value, n])), var("b", [n], tf.zeros_initializer()))

        def norm(x: Any, scope: str) -> Any:
            with tf.variable_scope(scope):
                mean, variance = tf.nn.moments(x, [-1], keepdims=True)
                return tf.nn.batch_normalization(x, mean, variance, var("b", [s.d], tf.zeros_initializer()),
                                                 var("g", [s.d], tf.ones_initializer()), 1e-12)

        def split(x: Any) -> Any:
            return tf.transpose(tf.reshape(x, [s.n, s.t, s.heads, s.d // s.heads]), [0, 2, 1, 3])
        table = var("words", [s.words, s.d])
        x = tf.reshape(tf.nn.embedding_lookup(table, ids) + var("places", [s.t, s.d]), [s.n * s.t, s.d])
        x = tf.nn.dropout(norm(x, "n"), rate=.1)
        adder = (1.0 - tf.ones([s.n, s.t, 1]) * mask[:, None, :])[:, None] * -10000.0
        for i in range(s.layers):
            with tf.variable_scope(f"layer{i}"):
                q, k, v = (split(dense(x, s.d, n)) for n in "qkv")
                scores = tf.matmul(q, k, transpose_b=True) * (1 / math.sqrt(s.d // s.heads)) + adder
                p = tf.nn.dropout(tf.nn.softmax(scores), rate=.1)
                h = tf.reshape(tf.transpose(tf.matmul(p, v), [0, 2, 1, 3]), [s.n * s.t, s.d])
                x = norm(x + tf.nn.dropout(dense(h, s.d, "o"), rate=.1), "n1")
                h = dense(x, 4 * s.d, "f1")
                h = h * .5 * (1.0 + tf.tanh(math.sqrt(2 / math.pi) * (h + .044715 * tf.pow(h, 3))))
                x = norm(x + tf.nn.dropout(dense(h, s.d, "f2"), rate=.1), "n2")
        logits = tf.matmul(x, table, transpose_b=True) + var("out", [s.words], tf.zeros_initializer())
        entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.reshape(labels, [-1]), logits=logits)
        weights = tf.reshape(mask, [-1])
        loss = tf.reduce_sum(entropy * weights) / tf.reduce_sum(weights)
        variables = tf.trainable_variables()
        gradients, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), 1.0)
        train = tf.train.AdamOptimizer(1e-4).apply_gradients(zip(gradients, variables, strict=True))
    return in_session(tf, loss, train)


def in_session(tf: Any, loss: Any, train: Any, config: Any = None) -> Callable:
    """A step of a session that keeps the loss in a variable; it returns what reads it, so that steps need not wait."""
    with tf.device(DEVICE):
        kept = tf.get_variable("loss", [], trainable=False)
        both = tf.group(train, tf.assign(kept, loss))
    sess = tf.Session(config=config)
    sess.run(tf.global_variables_initializer())
    run, read = sess.make_callable(both), sess.make_callable(kept)

    def step() -> Callable:
        run()
        return read
    return step


class Llama(K.Model):
    """RMS norm, rotary positions, grouped queries and SwiGLU."""

    class Block(L.Layer):
        """Attention and a gated product."""

        def __init__(self, s: Any):
            super().__init__()
            self.s, self.dh = s, s.d // s.heads
            self.q, self.k, self.v, self.o = (L.Dense(n, use_bias=False) for n in (
                s.d, s.groups * self.dh, s.groups * self.dh, s.d))
            self.gate, self.up = (L.Dense(8 * s.d // 3 // 64 * 64, use_bias=False) for _ in range(2))
            self.down = L.Dense(s.d, use_bias=False)

        def build(self, shape: Any) -> None:
            """The scales of the norms."""
            self.g1, self.g2 = (self.add_weight(name=n, shape=[self.s.d], initializer="ones") for n in ("g1", "g2"))

        def call(self, x: Any, cos: Any, sin: Any) -> Any:
            """One layer."""
            s, h = self.s, rms(x, self.g1)
            q, k, v = (tf.transpose(tf.reshape(f(h), [s.n, s.t, -1, self.dh]), [0, 2, 1, 3]) for f in (self.q, self.k, self.v))
            q, k = rotated(q, cos, sin), rotated(k, cos, sin)
            k, v = (tf.repeat(a, s.heads // s.groups, axis=1) for a in (k, v))
            scores = tf.cast(tf.einsum("bhqd,bhkd->bhqk", q, k), tf.float32) / math.sqrt(self.dh)
            late = tf.range(s.t)[:, None] < tf.range(s.t)[None]
            p = tf.cast(tf.nn.softmax(tf.where(late, -1e9, scores)), x.dtype)
            y = tf.transpose(tf.einsum("bhqk,bhkd->bhqd", p, v), [0, 2, 1, 3])
            x = x + self.o(tf.reshape(y, [s.n, s.t, s.d]))
            h = rms(x, self.g2)
            return x + self.down(tf.nn.silu(self.gate(h)) * self.up(h))

    def __init__(self, s: Any):
        super().__init__()
        self.s, self.words, self.blocks = s, L.Embedding(s.words, s.d), [Llama.Block(s) for _ in range(s.layers)]
        self.out = L.Dense(s.words, use_bias=False)
        self.g = self.add_weight(name="g", shape=[s.d], initializer="ones")

    def call(self, ids: Any) -> Any:
        """The logits of the next word."""
        half = self.s.d // self.s.heads // 2
        angle = tf.range(self.s.t, dtype=tf.float32)[:, None] * 1e4 ** (-tf.range(half, dtype=tf.float32) / half)
        cos, sin = (tf.cast(f(angle), tf.bfloat16) for f in (tf.cos, tf.sin))
        x = tf.cast(self.words(ids), tf.bfloat16)
        for b in self.blocks:
            x = b(x, cos, sin)
        return self.out(rms(x, self.g))


def rms(x: Any, g: Any) -> Any:
    """RMS norm in single precision."""
    y = tf.cast(x, tf.float32)
    y = y * tf.math.rsqrt(tf.reduce_mean(tf.square(y), -1, keepdims=True) + 1e-6)
    return tf.cast(y * tf.cast(g, tf.float32), x.dtype)


def rotated(x: Any, cos: Any, sin: Any) -> Any:
    """Pairs of numbers, turned by angles."""
    a, b = tf.split(x, 2, -1)
    return tf.concat([a * cos - b * sin, b * cos + a * sin], -1)


def llama(name: str) -> Callable:
    """Clipped gradients and AdamW."""
    def loss(m: Any, ids: Any) -> Any:
        return cross_entropy(ids[:, 1:], m(ids[:, :-1]))
    return trained(Llama(S[name]), loss, K.optimizers.AdamW(3e-4, weight_decay=.1), data(name), clip=1.0)


def seq2seq(name: str) -> Callable:
    """Two recurrent networks with attention between them, trained by Keras."""
    s = S[name]
    source, target = K.Input([s.t], dtype="int64"), K.Input([s.t], dtype="int64")
    h, state = L.GRU(s.d, return_sequences=True, return_state=True)(L.Embedding(s.words, s.d)(source))
    y = L.GRU(s.d, return_sequences=True)(L.Embedding(s.words, s.d)(target), initial_state=state)
    context = L.Attention()([y, h])
    logits = L.Dense(s.words)(L.Dropout(.1)(L.Dense(s.d, activation="tanh")(L.Concatenate()([y, context]))))
    model = K.Model([source, target], logits)
    model.compile("adam", K.losses.SparseCategoricalCrossentropy(from_logits=True))
    a, b, c = (tf.constant(x) for x in data(name))
    function, held = model.make_train_function(), iter(tf.data.Dataset.from_tensors(((a, b), c)).repeat())
    return lambda: function(held)["loss"]


# -- others ------------------------------------------------------------------------------------------------------------------
class Recommender(K.Model):
    """Tables of categories, a tower for numbers, and the products of all pairs."""

    def __init__(self, s: Any):
        super().__init__()
        self.tables = [L.Embedding(s.rows, s.d) for _ in range(s.tables)]
        self.bottom = K.Sequential([L.Dense(n, activation="relu") for n in (512, 256, s.d)])
        self.top = K.Sequential([L.Dense(n, activation="relu") for n in (512, 256)] + [L.Dense(1)])
        n = s.tables + 1
        self.pairs = np.array([i * n + j for i in range(n) for j in range(i)])

    def call(self, x: Any, ids: Any) -> Any:
        """The logit of each row."""
        h = self.bottom(x)
        z = tf.stack([h] + [t(ids[:, i]) for i, t in enumerate(self.tables)], 1)
        products = tf.reshape(tf.matmul(z, z, transpose_b=True), [-1, z.shape[1] ** 2])
        return self.top(tf.concat([h, tf.gather(products, self.pairs, axis=1)], 1))[:, 0]


def recommender(name: str) -> Callable:
    """Gradients of tables stay sparse."""
    def loss(m: Any, x: Any, ids: Any, y: Any) -> Any:
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=m(x, ids)))
    return trained(Recommender(S[name]), loss, K.optimizers.Adagrad(.01), data(name))


class WaveNet(K.Model):
    """Dilated causal convolutions with gates, and skip connections."""

    def __init__(self, s: Any):
        super().__init__()
        self.words, c = L.Embedding(256, s.c), s.c
        self.convs = [L.Conv1D(2 * c, 2, padding="causal", dilation_rate=2 ** (i % 10)) for i in range(s.layers)]
        self.mixes, self.skips = ([L.Conv1D(c, 1) for _ in range(s.layers)] for _ in range(2))
        self.o1, self.o2 = L.Conv1D(c, 1, activation="relu"), L.Conv1D(256, 1)

    def call(self, ids: Any) -> Any:
        """The logits of the next sample."""
        x, total = self.words(ids), 0.0
        for conv, mix, skip in zip(self.convs, self.mixes, self.skips, strict=True):
            a, b = tf.split(conv(x), 2, -1)
            h = tf.tanh(a) * tf.sigmoid(b)
            total, x = total + skip(h), x + mix(h)
        return self.o2(self.o1(tf.nn.relu(total)))


def wavenet(name: str) -> Callable:
    """Samples of sound, quantized."""
    return trained(WaveNet(S[name]), lambda m, ids: cross_entropy(ids[:, 1:], m(ids[:, :-1])), K.optimizers.Adam(1e-3),
                   data(name))


def graph(name: str) -> Callable:
    """Means over neighbors and edges that are weighted by attention, in a session."""
    import penstock.compat.v1 as tf
    tf.disable_v2_behavior()
    s = S[name]
    with tf.device(DEVICE):
        x, source, target, y = (tf.get_variable(n, initializer=tf.constant(a), trainable=False)
                                for n, a in zip(("x", "from", "to", "y"), data(name), strict=True))
        h = x
        for i in range(s.layers):
            z = tf.layers.dense(h, s.d, use_bias=False, name=f"z{i}")
            a, b = tf.layers.dense(z, 1, name=f"a{i}"), tf.layers.dense(z, 1, name=f"b{i}")
            e = tf.exp(tf.tanh(tf.gather(a, source) + tf.gather(b, target)))
            total = tf.unsorted_segment_sum(e, target, s.nodes)
            messages = tf.gather(z, source) * (e / tf.gather(total, target))
            h = tf.nn.dropout(h + tf.nn.elu(tf.unsorted_segment_sum(messages, target, s.nodes)), rate=.2)
        logits = tf.layers.dense(h, 40, name="out")
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
        train = tf.train.AdamOptimizer(1e-3).minimize(loss)
    return in_session(tf, loss, train)


STEPS = {f.__name__: f for f in (mobilenet, convnext, diffusion, gan, bert, llama, seq2seq, recommender, wavenet, graph)}
