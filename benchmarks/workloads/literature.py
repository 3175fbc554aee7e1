"""Ten models from the literature beside TensorFlow on the CPU: training steps, as their papers' repositories write them.

They were written after the compiler, and nothing in it was made for one of them.
"""
from __future__ import annotations

import math

import numpy as np

from workloads import work_table

WORK, workload = work_table()


def stepping(tf, models, loss, *args, optimizer=None):
    """A training step by a function of some tensors; the models exist once it has been called."""
    optimizer = optimizer or tf.keras.optimizers.Adam(1e-3)
    loss(*args)
    params = [v for m in models for v in (m.trainable_variables if hasattr(m, "trainable_variables") else [m])]

    @tf.function
    def step(*args):
        with tf.GradientTape() as tape:
            value = loss(*args)
        optimizer.apply_gradients(zip(tape.gradient(value, params), params, strict=True))
        return value
    return lambda: float(step(*args))


def normal(tf, *shape, seed=0):
    return tf.constant(np.random.RandomState(seed).randn(*shape).astype("f"))


def integers(tf, high, *shape, seed=0):
    return tf.constant(np.random.RandomState(seed).randint(0, high, shape))


@workload
def siamese(tf):
    """Koch et al. 2015: one convolutional tower for two images, the distance of their features."""
    K = tf.keras.layers
    tower = tf.keras.Sequential([K.Conv2D(32, 7, activation="relu"), K.MaxPooling2D(), K.Conv2D(64, 5, activation="relu"),
                                 K.MaxPooling2D(), K.Conv2D(64, 3, activation="relu"), K.Flatten(), K.Dense(128, "sigmoid")])
    same = K.Dense(1)
    y = tf.cast(integers(tf, 2, 16, 1), tf.float32)

    def loss(a, b, y):
        logits = same(tf.abs(tower(a) - tower(b)))
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=logits))
    return stepping(tf, [tower, same], loss, normal(tf, 16, 48, 48, 1), normal(tf, 16, 48, 48, 1, seed=1), y)


@workload
def vq_vae(tf):
    """van den Oord et al. 2017: a convolutional autoencoder through the nearest of 128 codes."""
    K = tf.keras.layers
    encoder = tf.keras.Sequential([K.Conv2D(32, 4, 2, "same", activation="relu"), K.Conv2D(64, 4, 2, "same", activation="relu"),
                                   K.Conv2D(64, 3, 1, "same", activation="relu"), K.Conv2D(32, 1)])
    decoder = tf.keras.Sequential([K.Conv2D(64, 3, 1, "same", activation="relu"),
                                   K.Conv2DTranspose(32, 4, 2, "same", activation="relu"), K.Conv2DTranspose(3, 4, 2, "same")])
    codes = tf.Variable(normal(tf, 128, 32) * 0.1)

    def loss(x):
        z = encoder(x)
        flat = tf.reshape(z, [-1, 32])
        distances = tf.reduce_sum(flat ** 2, 1, keepdims=True) - 2 * tf.matmul(flat, codes, transpose_b=True) + \
            tf.reduce_sum(codes ** 2, 1)
        q = tf.reshape(tf.gather(codes, tf.argmin(distances, 1)), tf.shape(z))
        commitment = tf.reduce_mean((tf.stop_gradient(q) - z) ** 2) * 0.25 + tf.reduce_mean((q - tf.stop_gradient(z)) ** 2)
        return tf.reduce_mean((decoder(z + tf.stop_gradient(q - z)) - x) ** 2) + commitment
    return stepping(tf, [encoder, decoder, codes], loss, normal(tf, 16, 32, 32, 3))


@workload
def attention_unet(tf):
    """Oktay et al. 2018: a U-Net whose skip connections are weighted by gates."""
    K = tf.keras.layers

    def twice(h, width):
        for _ in range(2):
            h = K.ReLU()(K.BatchNormalization()(K.Conv2D(width, 3, padding="same", use_bias=False)(h)))
        return h

    def gated(skip, h, width):
        both = K.ReLU()(K.add([K.Conv2D(width, 1)(skip), K.Conv2D(width, 1)(h)]))
        return K.multiply([skip, K.Conv2D(1, 1, activation="sigmoid")(both)])
    x = tf.keras.Input((64, 64, 1))
    skips, h = [], x
    for width in (8, 16, 32):
        h = twice(h, width)
        skips.append(h)
        h = K.MaxPooling2D()(h)
    h = twice(h, 64)
    for width, skip in zip((32, 16, 8), reversed(skips), strict=True):
        h = K.Conv2D(width, 3, padding="same", activation="relu")(K.UpSampling2D()(h))
        h = twice(K.concatenate([gated(skip, h, width // 2), h]), width)
    model = tf.keras.Model(x, K.Conv2D(1, 1)(h))
    y = tf.cast(integers(tf, 2, 4, 64, 64, 1), tf.float32)

    def loss(x, y):
        p = tf.sigmoid(model(x, training=True))
        return 1 - (2 * tf.reduce_sum(p * y) + 1) / (tf.reduce_sum(p) + tf.reduce_sum(y) + 1)
    return stepping(tf, [model], loss, normal(tf, 4, 64, 64, 1), y)


@workload
def point_cloud(tf):
    """PointNet, Qi et al. 2017: shared perceptrons over points, a learned rotation, a maximum over the set."""
    K = tf.keras.layers

    def shared(*widths):
        return [layer for w in widths for layer in (K.Conv1D(w, 1, use_bias=False), K.BatchNormalization(), K.ReLU())]
    rotation = tf.keras.Sequential([*shared(32, 64), K.GlobalMaxPooling1D(), K.Dense(32, "relu"), K.Dense(9)])
    features = tf.keras.Sequential(shared(32, 64, 256))
    top = tf.keras.Sequential([K.Dense(64, "relu"), K.Dropout(0.3), K.Dense(10)])

    def loss(points, y):
        turn = tf.reshape(rotation(points, training=True), [-1, 3, 3]) + tf.eye(3)
        pooled = tf.reduce_max(features(points @ turn, training=True), 1)
        unlike = tf.reduce_sum((turn @ tf.transpose(turn, [0, 2, 1]) - tf.eye(3)) ** 2)
        logits = top(pooled, training=True)
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)) + 1e-3 * unlike
    return stepping(tf, [rotation, features, top], loss, normal(tf, 8, 512, 3), integers(tf, 10, 8))


@workload
def perceiver(tf):
    """Jaegle et al. 2021: few latents attend over many bytes, then over themselves."""
    K = tf.keras.layers
    table, latents = K.Embedding(256, 64), tf.Variable(normal(tf, 1, 32, 64) * 0.1)
    place = tf.Variable(normal(tf, 1, 512, 64) * 0.1)
    cross, top = K.MultiHeadAttention(4, 16), K.Dense(20)
    blocks = [(K.LayerNormalization(), K.MultiHeadAttention(4, 16), K.LayerNormalization(), K.Dense(128, "gelu"), K.Dense(64))
              for _ in range(3)]
    norm = K.LayerNormalization()

    def loss(x, y):
        inputs = norm(table(x) + place)
        h = tf.tile(latents, [tf.shape(x)[0], 1, 1])
        h = h + cross(h, inputs)
        for first, attention, second, wide, narrow in blocks:
            a = first(h)
            h = h + attention(a, a)
            h = h + narrow(wide(second(h)))
        logits = top(tf.reduce_mean(h, 1))
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
    layers = [table, latents, place, norm, cross, *(layer for b in blocks for layer in b), top]
    return stepping(tf, layers, loss, integers(tf, 256, 8, 512), integers(tf, 20, 8))


@workload
def diffusion(tf):
    """Ho et al. 2020: predicts the noise of images at random times; group norms, embedded times, attention inside."""
    K = tf.keras.layers

    def residual(h, time, width):
        z = K.Conv2D(width, 3, padding="same")(K.Activation("swish")(K.GroupNormalization(4)(h)))
        z = K.add([z, K.Reshape((1, 1, width))(K.Dense(width)(time))])
        z = K.Conv2D(width, 3, padding="same")(K.Activation("swish")(K.GroupNormalization(4)(z)))
        return K.add([z, h if h.shape[-1] == width else K.Conv2D(width, 1)(h)])
    x, t = tf.keras.Input((32, 32, 3)), tf.keras.Input((32,))
    time = K.Dense(64, "swish")(t)
    first = residual(K.Conv2D(16, 3, padding="same")(x), time, 16)
    second = residual(K.Conv2D(32, 3, 2, "same")(first), time, 32)
    h = K.Reshape((256, 32))(second)
    h = K.Reshape((16, 16, 32))(K.add([h, K.MultiHeadAttention(2, 16)(h, h)]))
    h = K.UpSampling2D()(residual(h, time, 32))
    h = residual(K.concatenate([h, first]), time, 16)
    model = tf.keras.Model([x, t], K.Conv2D(3, 3, padding="same")(h))
    kept = tf.constant(np.cumprod(1 - np.linspace(1e-4, 0.02, 1000)).astype("f"))
    waves = tf.constant(np.exp(-math.log(1e4) * np.arange(16) / 16).astype("f"))

    def loss(x):
        t = tf.random.uniform([8], 0, 1000, tf.int32)
        noise = tf.random.normal(tf.shape(x))
        share = tf.gather(kept, t)[:, None, None, None]
        angles = tf.cast(t, tf.float32)[:, None] * waves
        guess = model([tf.sqrt(share) * x + tf.sqrt(1 - share) * noise, tf.concat([tf.sin(angles), tf.cos(angles)], 1)])
        return tf.reduce_mean((guess - noise) ** 2)
    return stepping(tf, [model], loss, normal(tf, 8, 32, 32, 3))


@workload
def graph_attention(tf):
    """Velickovic et al. 2018: edges weighted by a softmax over the neighbours of each node."""
    r, nodes, edges = np.random.RandomState(0), 600, 4000
    senders, receivers = tf.constant(r.randint(0, nodes, edges)), tf.constant(np.sort(r.randint(0, nodes, edges)))
    glorot = tf.keras.initializers.GlorotUniform(1)
    sizes = [(64, 8, 8), (64, 1, 7)]
    weights = [[tf.Variable(glorot(shape)) for shape in ([n, heads * width], [heads, width], [heads, width])]
               for n, heads, width in sizes]

    def layer(h, w, to, of, heads, width):
        z = tf.reshape(h @ w, [-1, heads, width])
        score = tf.gather(tf.reduce_sum(z * to, -1), receivers) + tf.gather(tf.reduce_sum(z * of, -1), senders)
        score = tf.nn.leaky_relu(score)
        score = tf.exp(score - tf.gather(tf.math.segment_max(score, receivers), receivers))
        total = tf.math.unsorted_segment_sum(score, receivers, nodes)
        share = score / (tf.gather(total, receivers) + 1e-9)
        return tf.math.unsorted_segment_sum(share[..., None] * tf.gather(z, senders), receivers, nodes)

    def loss(x, y):
        h = tf.reshape(tf.nn.elu(layer(x, *weights[0], 8, 8)), [-1, 64])
        logits = tf.reduce_mean(layer(tf.nn.dropout(h, 0.4), *weights[1], 1, 7), 1)
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
    flat = [v for w in weights for v in w]
    return stepping(tf, flat, loss, normal(tf, nodes, 64), integers(tf, 7, nodes))


@workload
def speech_separation(tf):
    """Conv-TasNet, Luo and Mesgarani 2019: masks over a learned basis by dilated separable convolutions."""
    K = tf.keras.layers
    encode, decode = K.Conv1D(64, 16, 8, activation="relu"), K.Dense(16)
    blocks = [(K.Conv1D(96, 1), K.PReLU(shared_axes=[1]), K.LayerNormalization(),
               K.DepthwiseConv1D(3, padding="same", dilation_rate=2 ** i), K.PReLU(shared_axes=[1]), K.LayerNormalization(),
               K.Conv1D(48, 1)) for i in range(4)]
    narrow, masks = K.Conv1D(48, 1), K.Conv1D(128, 1, activation="sigmoid")

    def loss(mixed, parts):
        basis = encode(mixed[..., None])
        h = narrow(basis)
        for block in blocks:
            z = h
            for layer in block:
                z = layer(z)
            h = h + z
        separate = tf.reshape(masks(h), [4, -1, 2, 64]) * basis[:, :, None]
        frames = decode(tf.transpose(separate, [0, 2, 1, 3]))
        found = tf.signal.overlap_and_add(frames, 8)
        scale = tf.reduce_sum(found * parts, -1, keepdims=True) / (tf.reduce_sum(parts ** 2, -1, keepdims=True) + 1e-8)
        target = scale * parts
        ratio = tf.reduce_sum(target ** 2, -1) / (tf.reduce_sum((found - target) ** 2, -1) + 1e-8)
        return -tf.reduce_mean(10 * tf.math.log(ratio + 1e-8) / math.log(10))
    layers = [encode, narrow, *(layer for b in blocks for layer in b), masks, decode]
    return stepping(tf, layers, loss, normal(tf, 4, 2048), normal(tf, 4, 2, 2048, seed=1))


@workload
def n_beats(tf):
    """Oreshkin et al. 2020: stacked perceptrons that subtract what they explain of a series and add up forecasts."""
    K, back, ahead = tf.keras.layers, 60, 12
    blocks = [[*(K.Dense(128, "relu") for _ in range(4)), K.Dense(8, use_bias=False)] for _ in range(6)]
    powers = (np.arange(back + ahead) / back)[None] ** np.arange(8)[:, None]
    basis = tf.constant(powers.astype("f"))

    def loss(x, y):
        left, forecast = x, tf.zeros_like(y)
        for block in blocks:
            h = left
            for layer in block:
                h = layer(h)
            whole = h @ basis
            left, forecast = left - whole[:, :back], forecast + whole[:, back:]
        return tf.reduce_mean(200 * tf.abs(y - forecast) / (tf.abs(y) + tf.abs(forecast) + 1e-6))
    return stepping(tf, [layer for b in blocks for layer in b], loss, normal(tf, 256, back), normal(tf, 256, ahead, seed=1))


@workload
def gated_experts(tf):
    """MMoE, Ma et al. 2018: two tasks share eight experts by gates of their own, over embedded categories."""
    K = tf.keras.layers
    tables = [K.Embedding(n, 16) for n in (1000, 200, 5000, 50, 300)]
    experts = [tf.keras.Sequential([K.Dense(64, "relu"), K.Dense(32, "relu")]) for _ in range(8)]
    gates = [K.Dense(8, "softmax", use_bias=False) for _ in range(2)]
    towers = [tf.keras.Sequential([K.Dense(16, "relu"), K.Dense(1)]) for _ in range(2)]
    r = np.random.RandomState(0)
    x = tf.constant(np.stack([r.randint(0, n, 256) for n in (1000, 200, 5000, 50, 300)], 1))
    y = tf.constant(r.randint(0, 2, [256, 2]).astype("f"))

    def loss(x, dense, y):
        h = tf.concat([*(table(x[:, i]) for i, table in enumerate(tables)), dense], 1)
        found = tf.stack([expert(h) for expert in experts], 1)
        mixed = [tf.einsum("be,bed->bd", gate(h), found) for gate in gates]
        logits = tf.concat([tower(m) for tower, m in zip(towers, mixed, strict=True)], 1)
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=logits))
    return stepping(tf, [*tables, *experts, *gates, *towers], loss, x, normal(tf, 256, 13), y)
