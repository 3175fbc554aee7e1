"""The models of fresh.py, written as programs for TensorFlow."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fresh import S, data
from others_penstock import DEVICE, cross_entropy, measured, trained

import penstock as tf

K, L = tf.keras, tf.keras.layers
POLICIES = {"swin": "mixed_bfloat16", "vit": "mixed_float16", "volumes": "mixed_bfloat16"}


def prepared(name: str) -> tuple[Callable, Callable, Callable, Callable]:
    """See others.prepared."""
    K.mixed_precision.set_global_policy(POLICIES.get(name, "float32"))
    with tf.device(DEVICE):
        run = STEPS[name](S[name], data(name))
    return measured(run)


# -- vision ------------------------------------------------------------------------------------------------------------------
class WindowAttention(L.Layer):
    """Attention within windows, with a learned bias for each pair of places."""

    def __init__(self, d: int, heads: int, window: int):
        super().__init__()
        self.d, self.heads, self.n = d, heads, window * window
        self.qkv, self.out = L.Dense(3 * d), L.Dense(d)

    def build(self, shape: Any) -> None:
        """The bias."""
        self.bias = self.add_weight(name="bias", shape=[self.heads, self.n, self.n], initializer="zeros")

    def call(self, x: Any) -> Any:
        """Of [windows, places, channels]."""
        shape = [-1, self.n, 3, self.heads, self.d // self.heads]
        q, k, v = tf.unstack(tf.transpose(tf.reshape(self.qkv(x), shape), [2, 0, 3, 1, 4]))
        scores = tf.einsum("bhqd,bhkd->bhqk", q * (self.d // self.heads) ** -0.5, k) + tf.cast(self.bias, q.dtype)
        y = tf.einsum("bhqk,bhkd->bqhd", tf.nn.softmax(scores), v)
        return self.out(tf.reshape(y, [-1, self.n, self.d]))


def swin(s: Any, arrays: tuple) -> Callable:
    """Shifted windows."""
    i = K.Input([s.side, s.side, 3], batch_size=s.n)
    x, side, d, w = L.Conv2D(s.d, 4, 4)(i), s.side // 4, s.d, s.window
    for stage in range(2):
        for block in range(2):
            h = L.LayerNormalization(epsilon=1e-5)(x)
            if block:
                h = tf.roll(h, [-(w // 2), -(w // 2)], [1, 2])
            h = tf.reshape(h, [s.n, side // w, w, side // w, w, d])
            h = tf.reshape(tf.transpose(h, [0, 1, 3, 2, 4, 5]), [-1, w * w, d])
            h = tf.reshape(WindowAttention(d, d // 32, w)(h), [s.n, side // w, side // w, w, w, d])
            h = tf.reshape(tf.transpose(h, [0, 1, 3, 2, 4, 5]), [s.n, side, side, d])
            if block:
                h = tf.roll(h, [w // 2, w // 2], [1, 2])
            x = x + h
            x = x + L.Dense(d)(L.Dense(4 * d, "gelu")(L.LayerNormalization(epsilon=1e-5)(x)))
        if stage == 0:
            x, side, d = L.Conv2D(2 * d, 2, 2)(x), side // 2, 2 * d
    model = K.Model(i, L.Dense(100)(L.GlobalAveragePooling2D()(x)))
    return trained(model, lambda m, x, y: cross_entropy(y, m(x, training=True)), K.optimizers.Adam(1e-4), arrays)


def vit(s: Any, arrays: tuple) -> Callable:
    """Keras's own attention and optimizer with a scaled loss, trained by fit's step."""
    i = K.Input([s.side, s.side, 3])
    x = L.Reshape([-1, s.d])(L.Conv2D(s.d, 16, 16)(i))
    for _ in range(s.layers):
        h = L.LayerNormalization(epsilon=1e-6)(x)
        x = L.Add()([x, L.MultiHeadAttention(s.heads, s.d // s.heads)(h, h)])
        x = L.Add()([x, L.Dense(s.d)(L.Dense(4 * s.d, "gelu")(L.LayerNormalization(epsilon=1e-6)(x)))])
    model = K.Model(i, L.Dense(100, dtype="float32")(L.GlobalAveragePooling1D()(x)))
    model.compile(K.optimizers.Adam(1e-4), K.losses.SparseCategoricalCrossentropy(from_logits=True))
    function, held = model.make_train_function(), iter(tf.data.Dataset.from_tensors(tuple(map(tf.constant, arrays))).repeat())
    return lambda: function(held)["loss"]


def volumes(s: Any, arrays: tuple) -> Callable:
    """Segmentation of volumes: a U-Net in three dimensions."""
    def unit(x: Any, c: int) -> Any:
        for _ in range(2):
            x = L.ReLU()(L.BatchNormalization()(L.Conv3D(c, 3, padding="same", use_bias=False)(x)))
        return x
    i = K.Input([s.side, s.side, s.side, 1])
    kept, x = [], i
    for j in range(3):
        x = unit(x, s.c << j)
        kept.append(x)
        x = L.MaxPool3D()(x)
    x = unit(x, s.c << 3)
    for j in reversed(range(3)):
        x = unit(L.Concatenate()([L.Conv3DTranspose(s.c << j, 2, 2)(x), kept[j]]), s.c << j)
    return trained(K.Model(i, L.Conv3D(2, 1)(x)), lambda m, x, y: cross_entropy(y, m(x, training=True)),
                   K.optimizers.SGD(.01, momentum=.9), arrays)


def mixer(s: Any, arrays: tuple) -> Callable:
    """Products over places and over channels in turns."""
    i = K.Input([s.side, s.side, 3])
    x = L.Reshape([-1, s.d])(L.Conv2D(s.d, 16, 16)(i))
    for _ in range(s.layers):
        h = L.Permute([2, 1])(L.LayerNormalization(epsilon=1e-6)(x))
        x = L.Add()([x, L.Permute([2, 1])(L.Dense(x.shape[1])(L.Dense(s.d // 2, "gelu")(h)))])
        x = L.Add()([x, L.Dense(s.d)(L.Dense(4 * s.d, "gelu")(L.LayerNormalization(epsilon=1e-6)(x)))])
    return trained(K.Model(i, L.Dense(100)(L.GlobalAveragePooling1D()(x))), lambda m, x, y: cross_entropy(y, m(x)),
                   K.optimizers.Adam(1e-4), arrays)


# -- sequences ---------------------------------------------------------------------------------------------------------------
def speech(s: Any, arrays: tuple) -> Callable:
    """Convolutions over spectrograms, then LSTMs in both directions."""
    i = K.Input([s.t, s.bands, 1], batch_size=s.n)
    x = L.ReLU()(L.BatchNormalization()(L.Conv2D(32, 3, (2, 2), padding="same")(i)))
    x = L.ReLU()(L.BatchNormalization()(L.Conv2D(32, 3, (1, 2), padding="same")(x)))
    x = L.Reshape([s.t // 2, -1])(x)
    for _ in range(2):
        x = L.Bidirectional(L.LSTM(s.d, return_sequences=True))(x)
    return trained(K.Model(i, L.Dense(40)(x)), lambda m, x, y: cross_entropy(y, m(x, training=True)), K.optimizers.Adam(1e-3),
                   arrays)


def sentences(s: Any, arrays: tuple) -> Callable:
    """Convolutions over words, for batches of four lengths in turns."""
    class Net(K.Model):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.out = L.Embedding(s.words, s.d), L.Dense(4)
            self.convs = [L.Conv1D(s.d, k, padding="same", activation="relu") for k in (3, 4, 5)]

        def call(self, ids: Any) -> Any:
            x = self.table(ids)
            return self.out(tf.concat([tf.reduce_max(c(x), 1) for c in self.convs], -1))
    model, opt = Net(), K.optimizers.Adam(1e-3)
    batches, turn = [(tf.constant(arrays[0][:, :t]), tf.constant(arrays[1])) for t in s.lengths], [0]

    @tf.function(reduce_retracing=True)
    def step(ids: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = cross_entropy(y, model(ids))
        opt.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True))
        return loss

    def run() -> Any:
        turn[0] += 1
        return step(*batches[turn[0] % len(batches)])
    return run


# -- others ------------------------------------------------------------------------------------------------------------------
def clicks(s: Any, arrays: tuple) -> Callable:
    """Factorization machine and a deep network over the same embeddings."""
    table = tf.Variable(tf.random.normal([s.rows, s.d], stddev=.01))
    first = tf.Variable(tf.zeros([s.rows, 1]))
    deep = K.Sequential([L.Dense(400, "relu"), L.Dense(400, "relu"), L.Dense(1)])
    deep.build([None, s.fields * s.d])
    opt, held = K.optimizers.Adagrad(.01), tuple(tf.constant(a) for a in arrays)
    variables = [table, first, *deep.trainable_variables]

    @tf.function
    def step(ids: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            e = tf.nn.embedding_lookup(table, ids)
            pairs = .5 * tf.reduce_sum(tf.square(tf.reduce_sum(e, 1)) - tf.reduce_sum(tf.square(e), 1), 1)
            logits = pairs + tf.reduce_sum(tf.nn.embedding_lookup(first, ids), [1, 2]) + \
                deep(tf.reshape(e, [-1, s.fields * s.d]))[:, 0]
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=logits))
        opt.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss
    return lambda: step(*held)


def molecules(s: Any, arrays: tuple) -> Callable:
    """Sums over neighbors through small networks (GIN), and a sum over each graph."""
    x, source, target, of, y = (tf.constant(a) for a in arrays)
    layers = [K.Sequential([L.Dense(s.d), L.BatchNormalization(), L.ReLU(), L.Dense(s.d), L.ReLU()]) for _ in range(s.layers)]
    out, opt, eps = L.Dense(1), K.optimizers.Adam(1e-3), [tf.Variable(0.0) for _ in range(s.layers)]

    def loss_of(x: Any) -> Any:
        for layer, e in zip(layers, eps, strict=True):
            x = layer((1 + e) * x + tf.math.unsorted_segment_sum(tf.gather(x, source), target, s.nodes), training=True)
        return tf.reduce_mean(tf.square(out(tf.math.segment_sum(x, of))[:, 0] - y))
    loss_of(x)
    variables = [v for m in (*layers, out) for v in m.trainable_variables] + eps

    @tf.function
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = loss_of(x)
        opt.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss
    return lambda: step(x)


def digits(s: Any, arrays: tuple) -> Callable:
    """A variational autoencoder of images."""
    encoder = K.Sequential([L.Conv2D(s.c, 4, 2, padding="same", activation="relu"),
                            L.Conv2D(2 * s.c, 4, 2, padding="same", activation="relu"), L.Flatten(), L.Dense(2 * s.z)])
    side = s.side // 4
    decoder = K.Sequential([L.Dense(side * side * 2 * s.c, "relu"), L.Reshape([side, side, 2 * s.c]),
                            L.Conv2DTranspose(s.c, 4, 2, padding="same", activation="relu"),
                            L.Conv2DTranspose(1, 4, 2, padding="same")])
    x, opt = tf.constant(arrays[0]), K.optimizers.Adam(1e-3)
    decoder(encoder(x)[:, :s.z])
    variables = encoder.trainable_variables + decoder.trainable_variables

    @tf.function
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            mean, log = tf.split(encoder(x), 2, 1)
            logits = decoder(mean + tf.exp(.5 * log) * tf.random.normal(tf.shape(mean)))
            loss = tf.reduce_mean(tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(labels=x, logits=logits), [1, 2, 3]) -
                                  .5 * tf.reduce_sum(1 + log - tf.square(mean) - tf.exp(log), 1))
        opt.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss
    return lambda: step(x)


def flow(s: Any, arrays: tuple) -> Callable:
    """Affine couplings (RealNVP), as a graph of 1.x."""
    import penstock.compat.v1 as tf
    tf.disable_v2_behavior()
    with tf.device(DEVICE):
        x = tf.get_variable("x", initializer=tf.constant(arrays[0]), trainable=False)
        h, total, half = x, 0.0, s.d // 2
        for i in range(s.layers):
            a, b = h[:, :half], h[:, half:]
            z = tf.layers.dense(tf.layers.dense(a, s.wide, tf.nn.relu, name=f"a{i}"), s.wide, tf.nn.relu, name=f"b{i}")
            scale, shift = tf.split(tf.layers.dense(z, s.d, name=f"c{i}"), 2, 1)
            scale = tf.tanh(scale)
            h, total = tf.concat([b * tf.exp(scale) + shift, a], 1), total + tf.reduce_sum(scale, 1)
        loss = tf.reduce_mean(.5 * tf.reduce_sum(tf.square(h), 1) - total)
        train = tf.train.AdamOptimizer(1e-4).minimize(loss)
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    run = session.make_callable([loss, train])
    return lambda: run()[0]


STEPS = {f.__name__: f for f in (swin, vit, volumes, mixer, speech, sentences, clicks, molecules, digits, flow)}
