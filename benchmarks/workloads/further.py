"""Sixteen programs of models that other sets do not have, by the 2.x API: capsules, translated images, shuffled groups of
channels, float16 with a scaled loss, routed experts, Fourier transforms instead of attention, relations as rotations, points
that keep their symmetries, a model of a world, an actor with two critics, forecasts by selected columns, one network per
column, recurrent autoencoders, attributions, learning to learn, movement between frames."""
from __future__ import annotations

import numpy as np

from workloads import work_table

WORK, workload = work_table()


def normal(*dims, seed=0):
    return np.random.RandomState(seed).randn(*dims).astype("f")


def ids(high, *dims, seed=0, low=0):
    return np.random.RandomState(seed).randint(low, high, dims)


def last(history):
    """The last loss of a `fit`."""
    return float(history.history["loss"][-1])


# vision

@workload
def capsule_routing(tf):
    """`fit` of capsules: a layer of the user that routes by agreement three times, lengths as classes, margin loss."""
    K = tf.keras.layers

    def squash(x):
        square = tf.reduce_sum(tf.square(x), -1, keepdims=True)
        return square / (1.0 + square) * x / tf.sqrt(square + 1e-7)

    class Routed(K.Layer):
        def build(self, shape):
            self.w = self.add_weight(shape=[1, shape[1], 10, 16, shape[2]], initializer="glorot_uniform", name="w")

        def call(self, x):
            votes = tf.squeeze(tf.matmul(tf.tile(self.w, [tf.shape(x)[0], 1, 1, 1, 1]),
                                         tf.tile(x[:, :, None, :, None], [1, 1, 10, 1, 1])), -1)
            logits = tf.zeros(tf.shape(votes)[:3])
            for _ in range(3):
                out = squash(tf.reduce_sum(tf.nn.softmax(logits, 2)[..., None] * votes, 1))
                logits += tf.reduce_sum(votes * out[:, None], -1)
            return tf.norm(out, axis=-1)

    def margin(y, p):
        y = tf.one_hot(tf.cast(tf.reshape(y, [-1]), tf.int32), 10)
        return tf.reduce_sum(y * tf.square(tf.maximum(0.0, 0.9 - p))
                             + 0.5 * (1.0 - y) * tf.square(tf.maximum(0.0, p - 0.1)), 1)
    model = tf.keras.Sequential([tf.keras.Input([28, 28, 1]), K.Conv2D(32, 9, activation="relu"), K.Conv2D(64, 9, 2),
                                 K.Reshape([-1, 8]), K.Lambda(squash), Routed()])
    model.compile("adam", margin)
    x, y = normal(32, 28, 28, 1), ids(10, 32)
    return lambda: last(model.fit(x, y, batch_size=16, verbose=0))


@workload
def translated_images(tf):
    """Two generators and two critics of single images: reflected borders, instance norms, cycles; four optimizers."""
    K = tf.keras.layers

    class InstanceNorm(K.Layer):
        def build(self, shape):
            self.scale = self.add_weight(shape=[shape[-1]], initializer="ones", name="scale")
            self.shift = self.add_weight(shape=[shape[-1]], initializer="zeros", name="shift")

        def call(self, x):
            mean, variance = tf.nn.moments(x, [1, 2], keepdims=True)
            return self.scale * (x - mean) * tf.math.rsqrt(variance + 1e-5) + self.shift

    def pad(x):
        return tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]], "REFLECT")

    class Residual(K.Layer):
        def __init__(self):
            super().__init__()
            self.one, self.two, self.n1, self.n2 = K.Conv2D(32, 3), K.Conv2D(32, 3), InstanceNorm(), InstanceNorm()

        def call(self, x):
            return x + self.n2(self.two(pad(tf.nn.relu(self.n1(self.one(pad(x)))))))

    def generator():
        return tf.keras.Sequential([K.Conv2D(16, 3, padding="same"), InstanceNorm(), K.ReLU(), K.Conv2D(32, 3, 2, "same"),
                                    InstanceNorm(), K.ReLU(), Residual(), Residual(), K.UpSampling2D(),
                                    K.Conv2D(16, 3, padding="same"), InstanceNorm(), K.ReLU(),
                                    K.Conv2D(3, 3, padding="same", activation="tanh")])

    def critic():
        return tf.keras.Sequential([K.Conv2D(16, 4, 2, "same"), K.LeakyReLU(), K.Conv2D(32, 4, 2, "same"), InstanceNorm(),
                                    K.LeakyReLU(), K.Conv2D(1, 4, padding="same")])
    nets = g, f, c, d = generator(), generator(), critic(), critic()
    a, b = tf.constant(normal(1, 48, 48, 3)), tf.constant(normal(1, 48, 48, 3, seed=1))
    for net in nets:
        net(a)
    optimizers = [tf.keras.optimizers.Adam(2e-4, beta_1=0.5) for _ in nets]

    def real(x):
        return tf.reduce_mean(tf.square(x - 1.0))

    @tf.function
    def step(a, b):
        with tf.GradientTape(persistent=True) as tape:
            to_b, to_a = g(a, training=True), f(b, training=True)
            cycle = tf.reduce_mean(tf.abs(f(to_b) - a)) + tf.reduce_mean(tf.abs(g(to_a) - b))
            same = tf.reduce_mean(tf.abs(g(b) - b)) + tf.reduce_mean(tf.abs(f(a) - a))
            losses = [real(c(to_b)) + 10.0 * cycle + 5.0 * same, real(d(to_a)) + 10.0 * cycle + 5.0 * same,
                      0.5 * (real(c(b)) + tf.reduce_mean(tf.square(c(tf.stop_gradient(to_b))))),
                      0.5 * (real(d(a)) + tf.reduce_mean(tf.square(d(tf.stop_gradient(to_a)))))]
        for loss, net, optimizer in zip(losses, nets, optimizers, strict=True):
            weights = net.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return losses[0]
    return lambda: float(step(a, b))


@workload
def shuffled_groups_predict(tf):
    """`predict` of an image network of any size: grouped 1x1 convolutions, shuffled channels, depthwise convolutions."""
    K = tf.keras.layers

    def shuffle(x):
        size = tf.shape(x)
        return tf.reshape(tf.transpose(tf.reshape(x, [size[0], size[1], size[2], 4, x.shape[-1] // 4]), [0, 1, 2, 4, 3]), size)

    def unit(x, width, stride):
        keep = x.shape[-1] if stride == 2 else 0
        h = K.ReLU()(K.BatchNormalization()(K.Conv2D(width // 4, 1, groups=4, use_bias=False)(x)))
        h = K.Lambda(shuffle)(h)
        h = K.BatchNormalization()(K.DepthwiseConv2D(3, stride, "same", use_bias=False)(h))
        h = K.BatchNormalization()(K.Conv2D(width - keep, 1, groups=4, use_bias=False)(h))
        if stride == 2:
            return K.ReLU()(K.Concatenate()([h, K.AveragePooling2D(3, 2, "same")(x)]))
        return K.ReLU()(K.Add()([h, x]))
    x = inputs = tf.keras.Input([None, None, 3])
    x = K.MaxPooling2D(3, 2, "same")(K.ReLU()(K.BatchNormalization()(K.Conv2D(24, 3, 2, "same", use_bias=False)(x))))
    for width, stride in [(96, 2), (96, 1), (96, 1), (192, 2), (192, 1), (192, 1)]:
        x = unit(x, width, stride)
    model = tf.keras.Model(inputs, K.Dense(20, "softmax")(K.GlobalAveragePooling2D()(x)))
    images = normal(20, 96, 96, 3)
    return lambda: float(model.predict(images, batch_size=8, verbose=0).max())


@workload
def flow_of_frames(tf):
    """Movement between two frames: features, their correlation within a window, warping by `gather_nd`, refined twice."""
    K = tf.keras.layers
    features = tf.keras.Sequential([K.Conv2D(16, 3, 2, "same", activation="relu"),
                                    K.Conv2D(32, 3, 2, "same", activation="relu"), K.Conv2D(32, 3, padding="same")])
    estimate = tf.keras.Sequential([K.Conv2D(32, 3, padding="same", activation="relu"), K.Conv2D(2, 3, padding="same")])
    optimizer = tf.keras.optimizers.Adam(1e-3)
    one, two = tf.constant(normal(2, 64, 64, 3)), tf.constant(normal(2, 64, 64, 3, seed=1))
    target = tf.constant(normal(2, 16, 16, 2, seed=2))
    grid = tf.cast(tf.stack(tf.meshgrid(tf.range(16), tf.range(16), indexing="ij"), -1), tf.float32)[None]

    def warp(x, flow):
        at = tf.clip_by_value(grid + flow, 0.0, 14.999)
        low = tf.floor(at)
        (wy, wx), low = tf.unstack((at - low)[..., None], axis=3), tf.cast(low, tf.int32)
        y, x0 = low[..., 0], low[..., 1]
        corner = [tf.gather_nd(x, tf.stack([y + i, x0 + j], -1), batch_dims=1) for i in (0, 1) for j in (0, 1)]
        top = corner[0] * (1 - wx) + corner[1] * wx
        return top * (1 - wy) + (corner[2] * (1 - wx) + corner[3] * wx) * wy

    def forward(one, two):
        a, b = features(one), features(two)
        flow = tf.zeros([2, 16, 16, 2])
        for _ in range(2):
            moved = tf.pad(warp(b, flow), [[0, 0], [2, 2], [2, 2], [0, 0]])
            volume = tf.concat([tf.reduce_mean(a * moved[:, i:i + 16, j:j + 16], -1, keepdims=True)
                                for i in range(5) for j in range(5)], -1)
            flow += estimate(tf.concat([a, volume, flow], -1))
        return flow
    forward(one, two)
    weights = features.trainable_variables + estimate.trainable_variables

    @tf.function
    def step(one, two, target):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.sqrt(tf.reduce_sum(tf.square(forward(one, two) - target), -1) + 1e-6))
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss
    return lambda: float(step(one, two, target))


@workload
def pixel_attributions(tf):
    """Integrated gradients without a function of the user's: eager interpolations, a tape, a mean; then smoothed maps."""
    K = tf.keras.layers
    model = tf.keras.Sequential([tf.keras.Input([32, 32, 3]), K.Conv2D(16, 3, activation="relu"), K.MaxPooling2D(),
                                 K.Conv2D(32, 3, activation="relu"), K.GlobalAveragePooling2D(), K.Dense(10, "softmax")])
    image, base = tf.constant(normal(32, 32, 3)), tf.zeros([32, 32, 3])
    alphas = tf.linspace(0.0, 1.0, 21)

    def call():
        path = base[None] + alphas[:, None, None, None] * (image - base)[None]
        with tf.GradientTape() as tape:
            tape.watch(path)
            score = model(path)[:, 3]
        gradient = tape.gradient(score, path)
        mean = tf.reduce_mean((gradient[:-1] + gradient[1:]) / 2.0, 0)
        change = tf.reduce_sum(tf.abs((image - base) * mean), -1)
        return float(tf.reduce_max(tf.nn.avg_pool2d(change[None, :, :, None], 3, 1, "SAME")))
    return call


@workload
def learning_to_learn(tf):
    """Second-order gradients through two inner steps of a small CNN on each of four tasks, written with tf.nn."""
    w = [tf.Variable(0.1 * normal(*d, seed=i)) for i, d in enumerate([(3, 3, 1, 16), (16,), (3, 3, 16, 16), (16,), (16 * 16, 5),
                                                                      (5,)])]
    optimizer = tf.keras.optimizers.Adam(1e-3)

    def net(x, w):
        for k in (0, 2):
            x = tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(x, w[k], 1, "SAME") + w[k + 1]), 2, 2, "VALID")
        return tf.reshape(x, [-1, 16 * 16]) @ w[4] + w[5]

    def cost(x, y, w):
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, net(x, w)))

    @tf.function
    def step(x, y):
        with tf.GradientTape() as outer:
            total = 0.0
            for task in range(4):
                fast = list(w)
                for _ in range(2):
                    with tf.GradientTape() as inner:
                        inner.watch(fast)
                        loss = cost(x[task, :5], y[task, :5], fast)
                    fast = [v - 0.1 * g for v, g in zip(fast, inner.gradient(loss, fast), strict=True)]
                total += cost(x[task, 5:], y[task, 5:], fast) / 4.0
        optimizer.apply_gradients(zip(outer.gradient(total, w), w, strict=True))
        return total
    x, y = tf.constant(normal(4, 15, 16, 16, 1)), tf.constant(ids(5, 4, 15))
    return lambda: float(step(x, y))


# language

@workload
def masked_words_float16(tf):
    """`fit` of an encoder under the policy mixed_float16 with its scaled loss: masked words, Keras's attention, weights."""
    K = tf.keras.layers
    tf.keras.mixed_precision.set_global_policy("mixed_float16")
    words = tf.keras.Input([32], dtype="int32")
    h = K.Embedding(1000, 64)(words) + K.Embedding(32, 64)(np.arange(32)[None])
    for _ in range(2):
        h = K.LayerNormalization()(h + K.MultiHeadAttention(4, 16, dropout=0.1)(h, h))
        h = K.LayerNormalization()(h + K.Dense(64)(K.Dense(128, "gelu")(h)))
    model = tf.keras.Model(words, K.Dense(1000, "softmax", dtype="float32")(h))
    model.compile(tf.keras.optimizers.Adam(1e-3), "sparse_categorical_crossentropy")
    x, mask = ids(1000, 32, 32, low=1), np.random.RandomState(1).rand(32, 32) < 0.15
    return lambda: last(model.fit(np.where(mask, 0, x), x, sample_weight=mask.astype("f"), batch_size=16, verbose=0))


@workload
def routed_experts(tf):
    """A transformer block whose words go to the best two of eight experts with limited places, by scatters; losses of load."""
    K, width, experts, places = tf.keras.layers, 64, 8, 40
    table = tf.Variable(0.1 * normal(800, width))
    router, up = tf.Variable(0.1 * normal(width, experts, seed=1)), tf.Variable(0.1 * normal(experts, width, 96, seed=2))
    down, attend = tf.Variable(0.1 * normal(experts, 96, width, seed=3)), K.MultiHeadAttention(4, 16)
    norms, optimizer = [K.LayerNormalization() for _ in range(2)], tf.keras.optimizers.AdamW(1e-3)

    def loss_of(words, y):
        h = tf.gather(table, words)
        h = norms[0](h + attend(h, h, use_causal_mask=True))
        flat = tf.reshape(h, [-1, width])
        chance = tf.nn.softmax(flat @ router)
        weight, chosen = tf.math.top_k(chance, 2)
        out, used = tf.zeros_like(flat), tf.zeros([experts], tf.int32)
        for k in range(2):
            hot = tf.one_hot(chosen[:, k], experts, dtype=tf.int32)
            place = tf.reduce_sum((tf.cumsum(hot, exclusive=True) + used) * hot, 1)
            used += tf.reduce_sum(hot, 0)
            fits = tf.cast(place < places, tf.float32)[:, None]
            at = tf.stack([chosen[:, k], tf.minimum(place, places - 1)], 1)
            given = tf.scatter_nd(at, flat * fits, [experts, places, width])
            out += tf.gather_nd(tf.nn.gelu(given @ up) @ down, at) * fits * weight[:, k, None]
        h = norms[1](h + tf.reshape(out, tf.shape(h)))
        load = tf.reduce_mean(tf.one_hot(chosen[:, 0], experts), 0) * tf.reduce_mean(chance, 0)
        logits = tf.matmul(h, table, transpose_b=True)
        return (tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits))
                + 0.01 * experts * tf.reduce_sum(load))
    words, y = tf.constant(ids(800, 4, 32)), tf.constant(ids(800, 4, 32, seed=1))
    loss_of(words, y)
    weights = [table, router, up, down, *(v for layer in (attend, *norms) for v in layer.trainable_variables)]

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int64)] * 2)
    def step(words, y):
        with tf.GradientTape() as tape:
            loss = loss_of(words, y)
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss
    return lambda: float(step(words, y))


@workload
def fourier_mixing(tf):
    """Training of a classifier whose words are mixed by a two-dimensional Fourier transform; batches of three lengths."""
    K = tf.keras.layers

    class Mixed(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.table, self.out = K.Embedding(1000, 64), K.Dense(4)
            self.blocks = [(K.LayerNormalization(), K.Dense(128, "gelu"), K.Dense(64), K.LayerNormalization())
                           for _ in range(3)]

        def call(self, words, training=False):
            h = self.table(words)
            for first, up, down, second in self.blocks:
                h = first(h + tf.math.real(tf.signal.fft2d(tf.cast(h, tf.complex64))))
                h = second(h + down(up(h)))
            return self.out(tf.reduce_mean(h, 1))
    model = Mixed()
    model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    batches = [(ids(1000, 8, length), ids(4, 8)) for length in (24, 32, 48)]
    return lambda: sum(float(model.train_on_batch(x, y)) for x, y in batches)


# recommendation and graphs

@workload
def relations_as_rotations(tf):
    """Knowledge graphs: entities are complex vectors and relations rotations; 16 wrong tails each, self-adversarial weights."""
    entities, relations = tf.Variable(0.1 * normal(3000, 2, 32)), tf.Variable(normal(40, 32, seed=1))
    optimizer = tf.keras.optimizers.Adam(1e-3)

    def score(h, r, t):
        h, t = (tf.complex(*tf.unstack(tf.gather(entities, i), axis=-2)) for i in (h, t))
        turn = tf.gather(relations, r)
        return 6.0 - tf.reduce_sum(tf.abs(h * tf.complex(tf.cos(turn), tf.sin(turn)) - t), -1)

    @tf.function
    def step(h, r, t):
        wrong = tf.random.uniform([tf.shape(h)[0], 16], 0, 3000, tf.int64)
        with tf.GradientTape() as tape:
            right, other = score(h, r, t), score(h[:, None], r[:, None], wrong)
            weight = tf.stop_gradient(tf.nn.softmax(other))
            loss = -tf.reduce_mean(tf.math.log_sigmoid(right) + tf.reduce_sum(weight * tf.math.log_sigmoid(-other), 1))
        optimizer.apply_gradients(zip(tape.gradient(loss, [entities, relations]), [entities, relations], strict=True))
        return loss
    h, r, t = (tf.constant(ids(high, 128, seed=i)) for i, high in enumerate([3000, 40, 3000]))
    return lambda: float(step(h, r, t))


@workload
def equivariant_points(tf):
    """A graph network that moves its points: distances of edges, messages, sums by segments, batches of changing sizes."""
    K, width, rounds = tf.keras.layers, 32, 3
    message = [tf.keras.Sequential([K.Dense(width, "swish"), K.Dense(width, "swish")]) for _ in range(rounds)]
    move, update = [K.Dense(1) for _ in range(rounds)], [tf.keras.Sequential([K.Dense(width, "swish"), K.Dense(width)])
                                                        for _ in range(rounds)]
    embed, optimizer = K.Embedding(10, width), tf.keras.optimizers.Adam(1e-3)

    def forward(kind, x, a, b):
        h, count = embed(kind), tf.shape(kind)[0]
        for m, v, u in zip(message, move, update, strict=True):
            apart = tf.gather(x, a) - tf.gather(x, b)
            edge = m(tf.concat([tf.gather(h, a), tf.gather(h, b), tf.reduce_sum(apart ** 2, 1, keepdims=True)], 1))
            x += tf.math.unsorted_segment_mean(apart * v(edge), a, count)
            h += u(tf.concat([h, tf.math.unsorted_segment_sum(edge, a, count)], 1))
        return h, x

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32), tf.TensorSpec([None, 3]), tf.TensorSpec([None], tf.int32),
                                  tf.TensorSpec([None], tf.int32), tf.TensorSpec([None, 3])])
    def step(kind, x, a, b, target):
        with tf.GradientTape() as tape:
            h, moved = forward(kind, x, a, b)
            loss = tf.reduce_mean((moved - target) ** 2) + 1e-4 * tf.reduce_mean(h ** 2)
        weights = [w for each in (embed, *message, *move, *update) for w in each.trainable_variables]
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss
    batches = []
    for i, n in enumerate((60, 75, 90)):
        batches.append([tf.constant(v) for v in (ids(10, n).astype("i"), normal(n, 3), ids(n, 8 * n, seed=i).astype("i"),
                                                 ids(n, 8 * n, seed=9 + i).astype("i"), normal(n, 3, seed=5))])
    forward(*batches[0][:4])
    return lambda: sum(float(step(*batch)) for batch in batches)


# control

@workload
def model_of_a_world(tf):
    """A recurrent state with sampled categories, unrolled over 12 steps by Python: prior, posterior, divergence, rewards."""
    K = tf.keras.layers
    cell, prior, posterior = K.GRUCell(64), K.Dense(64), K.Dense(64)
    encode, decode = K.Dense(48, "elu"), tf.keras.Sequential([K.Dense(48, "elu"), K.Dense(20)])
    reward, optimizer = K.Dense(1), tf.keras.optimizers.Adam(1e-3, clipnorm=100.0)

    def sample(logits):
        chance = tf.nn.softmax(logits)
        hot = tf.one_hot(tf.argmax(logits + tf.random.uniform(tf.shape(logits)), -1), 8)
        return tf.reshape(hot + chance - tf.stop_gradient(chance), [-1, 64])

    def loss_of(seen, action, gained):
        h, z = tf.zeros([16, 64]), tf.zeros([16, 64])
        total = 0.0
        for t in range(12):
            h, _ = cell(tf.concat([z, action[:, t]], 1), [h])
            p = tf.reshape(prior(h), [-1, 8, 8])
            q = tf.reshape(posterior(tf.concat([h, encode(seen[:, t])], 1)), [-1, 8, 8])
            z = sample(q)
            both = tf.concat([h, z], 1)
            apart = tf.reduce_sum(tf.nn.softmax(q) * (tf.nn.log_softmax(q) - tf.nn.log_softmax(p)), [1, 2])
            wrong = tf.reduce_sum((decode(both) - seen[:, t]) ** 2, 1) + (reward(both)[:, 0] - gained[:, t]) ** 2
            total += tf.reduce_mean(wrong + tf.maximum(apart, 1.0))
        return total / 12.0
    args = tf.constant(normal(16, 12, 20)), tf.constant(normal(16, 12, 4, seed=1)), tf.constant(normal(16, 12, seed=2))
    loss_of(*args)
    weights = [w for each in (cell, prior, posterior, encode, decode, reward) for w in each.trainable_variables]

    @tf.function
    def step(*args):
        with tf.GradientTape() as tape:
            loss = loss_of(*args)
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss
    return lambda: float(step(*args))


@workload
def actor_and_two_critics(tf):
    """Soft actor-critic: squashed normals, the smaller of two targets, a learned temperature, targets that follow slowly."""
    K = tf.keras.layers

    def net(out, given):
        return tf.keras.Sequential([tf.keras.Input([given]), K.Dense(64, "relu"), K.Dense(64, "relu"), K.Dense(out)])
    actor, critics, targets = net(8, 12), [net(1, 16) for _ in range(2)], [net(1, 16) for _ in range(2)]
    heat, optimizers = tf.Variable(0.0), [tf.keras.optimizers.Adam(3e-4) for _ in range(4)]

    def act(s):
        mean, spread = tf.split(actor(s), 2, 1)
        spread = tf.exp(tf.clip_by_value(spread, -5.0, 2.0))
        noise = tf.random.normal(tf.shape(mean))
        a = tf.tanh(mean + spread * noise)
        chance = -0.5 * noise ** 2 - tf.math.log(spread) - 0.919 - tf.math.log(1.0 - a ** 2 + 1e-6)
        return a, tf.reduce_sum(chance, 1)

    def update(optimizer, tape, loss, weights):
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))

    @tf.function
    def step(s, a, r, after, end):
        a2, chance = act(after)
        future = tf.minimum(*[t(tf.concat([after, a2], 1))[:, 0] for t in targets]) - tf.exp(heat) * chance
        goal = tf.stop_gradient(r + 0.99 * (1.0 - end) * future)
        for critic, optimizer in zip(critics, optimizers, strict=False):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((critic(tf.concat([s, a], 1))[:, 0] - goal) ** 2)
            update(optimizer, tape, loss, critic.trainable_variables)
        with tf.GradientTape() as tape:
            new, chance = act(s)
            value = tf.minimum(*[c(tf.concat([s, new], 1))[:, 0] for c in critics])
            cost = tf.reduce_mean(tf.exp(heat) * chance - value)
        update(optimizers[2], tape, cost, actor.trainable_variables)
        with tf.GradientTape() as tape:
            warmth = -tf.reduce_mean(heat * tf.stop_gradient(chance - 4.0))
        update(optimizers[3], tape, warmth, [heat])
        for critic, target in zip(critics, targets, strict=True):
            for now, slow in zip(critic.variables, target.variables, strict=True):
                slow.assign(0.995 * slow + 0.005 * now)
        return cost
    r = np.random.RandomState(3)
    batches = [[v.astype("f") for v in (r.randn(64, 12), r.uniform(-1, 1, [64, 4]), r.randn(64), r.randn(64, 12),
                                        r.randint(0, 2, 64))] for _ in range(4)]
    return lambda: sum(float(step(*map(tf.constant, batch))) for batch in batches)


# columns and series

@workload
def selected_columns_forecast(tf):
    """`fit` of a forecaster: gated residual networks choose columns, an LSTM encodes and decodes, attention, quantiles."""
    K, width = tf.keras.layers, 24

    def gated(x, context=None):
        h = K.Dense(width)(x)
        if context is not None:
            h = h + K.Dense(width, use_bias=False)(context)
        h = K.Dense(width)(K.Activation("elu")(h))
        h = K.Dense(width)(h) * K.Dense(width, "sigmoid")(h)
        return K.LayerNormalization()(h + (x if x.shape[-1] == width else K.Dense(width)(x)))

    def select(columns):
        each = [gated(K.Dense(width)(c)) for c in columns]
        weight = K.Dense(len(each), "softmax")(gated(K.Concatenate()(each)))
        return sum(e * weight[..., i:i + 1] for i, e in enumerate(each))
    past, known = tf.keras.Input([24, 5], name="past"), tf.keras.Input([8, 3], name="known")
    shop = tf.keras.Input([], dtype="int32", name="shop")
    static = gated(K.Embedding(50, width)(shop))
    encoded, *state = K.LSTM(width, return_sequences=True, return_state=True)(
        select([past[..., i:i + 1] for i in range(5)]), initial_state=[gated(static), gated(static)])
    decoded = K.LSTM(width, return_sequences=True)(select([known[..., i:i + 1] for i in range(3)]), initial_state=state)
    h = gated(K.Concatenate(axis=1)([encoded, decoded]), K.RepeatVector(32)(static))
    h = K.LayerNormalization()(h + K.MultiHeadAttention(2, 12)(h, h, use_causal_mask=True))
    model = tf.keras.Model({"past": past, "known": known, "shop": shop}, K.Dense(3)(gated(h[:, 24:])))

    def quantiles(y, p):
        apart, q = y[..., None] - p, tf.constant([0.1, 0.5, 0.9])
        return tf.reduce_mean(tf.maximum(q * apart, (q - 1.0) * apart))
    model.compile("adam", quantiles)
    x = {"past": normal(96, 24, 5), "known": normal(96, 8, 3, seed=1), "shop": ids(50, 96)}
    y = normal(96, 8, seed=2)
    return lambda: last(model.fit(x, y, batch_size=32, verbose=0))


@workload
def network_per_column(tf):
    """`fit` with small batches of an additive model: 16 little networks, one for each column, whose answers are added."""
    K = tf.keras.layers
    inputs = [tf.keras.Input([1]) for _ in range(16)]
    each = [K.Dense(1)(K.Dropout(0.1)(K.Dense(16, "relu")(K.Dense(32, "relu")(x)))) for x in inputs]
    model = tf.keras.Model(inputs, K.Activation("sigmoid")(K.Add()(each)))
    model.compile(tf.keras.optimizers.Adam(1e-3), "binary_crossentropy", metrics=["accuracy"])
    x, y = [normal(128, 1, seed=i) for i in range(16)], ids(2, 128, 1)
    return lambda: last(model.fit(x, y, batch_size=16, verbose=0))


@workload
def recurrent_autoencoder_fit(tf):
    """`fit` and `predict` for anomalies in series: LSTM, RepeatVector, LSTM, TimeDistributed; a threshold of the errors."""
    K = tf.keras.layers
    model = tf.keras.Sequential([tf.keras.Input([30, 1]), K.LSTM(32), K.Dropout(0.2), K.RepeatVector(30),
                                 K.LSTM(32, return_sequences=True), K.Dropout(0.2), K.TimeDistributed(K.Dense(1))])
    model.compile("adam", "mae")
    x = normal(96, 30, 1)

    def call():
        model.fit(x, x, batch_size=32, validation_split=0.1, verbose=0)
        return float(np.abs(model.predict(x, verbose=0) - x).mean(1).max())
    return call
