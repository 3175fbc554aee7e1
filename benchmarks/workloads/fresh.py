"""Thirteen programs of models and habits that other sets do not have: shifted windows, cells of sequences in both directions,
crossed features, relations of graphs, variable lengths of sound, flows, masked pixels, sampling by gradients, accumulated
gradients in nested functions, shared layers, bfloat16, frames, a growing cache of keys."""
from __future__ import annotations

import numpy as np

from workloads import work_table

WORK, workload = work_table()


def normal(*dims, seed=0):
    return np.random.RandomState(seed).randn(*dims).astype("f")


def ids(high, *dims, seed=0, low=0):
    return np.random.RandomState(seed).randint(low, high, dims)


def trained(tf, net, x, y, loss, optimizer):
    """A training step of a model."""
    net(x)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            value = tf.reduce_mean(loss(y, net(x, training=True)))
        optimizer.apply_gradients(zip(tape.gradient(value, net.trainable_variables), net.trainable_variables, strict=True))
        return value
    return lambda: float(step(x, y))


@workload
def shifted_windows(tf):
    """Attention in windows that are shifted by tf.roll, with learned relative biases, merged patches; AdamW."""
    layers = tf.keras.layers
    at = np.stack(np.meshgrid(range(4), range(4), indexing="ij"), -1).reshape(-1, 2)
    relative = (at[:, None] - at[None] + 3) @ [7, 1]

    class Block(layers.Layer):
        def __init__(self, width, heads, shift):
            super().__init__()
            self.heads, self.shift = heads, shift
            self.norms = [layers.LayerNormalization() for _ in range(2)]
            self.qkv, self.out = layers.Dense(3 * width), layers.Dense(width)
            self.up, self.down = layers.Dense(2 * width, activation="gelu"), layers.Dense(width)
            self.bias = self.add_weight(name="bias", shape=(49, heads), initializer="random_normal")

        def call(self, x):
            _, rows, columns, width = x.shape
            h = tf.roll(self.norms[0](x), [-self.shift, -self.shift], [1, 2])
            h = tf.reshape(h, [-1, rows // 4, 4, columns // 4, 4, width])
            h = tf.reshape(tf.transpose(h, [0, 1, 3, 2, 4, 5]), [-1, 16, width])
            q, k, v = tf.unstack(tf.transpose(tf.reshape(self.qkv(h), [-1, 16, 3, self.heads, width // self.heads]),
                                              [2, 0, 3, 1, 4]))
            bias = tf.transpose(tf.reshape(tf.gather(self.bias, relative.reshape(-1)), [16, 16, self.heads]), [2, 0, 1])
            weights = tf.nn.softmax(tf.matmul(q * (width // self.heads) ** -0.5, k, transpose_b=True) + bias)
            h = self.out(tf.reshape(tf.transpose(weights @ v, [0, 2, 1, 3]), [-1, 16, width]))
            h = tf.reshape(h, [-1, rows // 4, columns // 4, 4, 4, width])
            h = tf.reshape(tf.transpose(h, [0, 1, 3, 2, 4, 5]), [-1, rows, columns, width])
            x += tf.roll(h, [self.shift, self.shift], [1, 2])
            return x + self.down(self.up(self.norms[1](x)))
    image = tf.keras.Input((32, 32, 3))
    h = layers.Conv2D(48, 2, 2)(image)
    for width in (48, 96):
        h = Block(width, 3, 2)(Block(width, 3, 0)(h))
        if width == 48:
            h = layers.Dense(96)(layers.LayerNormalization()(tf.keras.layers.Lambda(lambda x: tf.nn.space_to_depth(x, 2))(h)))
    net = tf.keras.Model(image, layers.Dense(10)(layers.GlobalAveragePooling2D()(layers.LayerNormalization()(h))))
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return trained(tf, net, tf.constant(normal(8, 32, 32, 3)), tf.constant(ids(10, 8)), loss, tf.keras.optimizers.AdamW(1e-3))


@workload
def reading_comprehension(tf):
    """Questions and paragraphs: highway layers, shared bidirectional GRUs with masks, attention in both directions, spans."""
    layers = tf.keras.layers
    table, gate, change = layers.Embedding(5000, 48, mask_zero=True), layers.Dense(48, "sigmoid"), layers.Dense(48, "relu")
    encoder, modeling = (layers.Bidirectional(layers.GRU(32, return_sequences=True)) for _ in range(2))
    similar, begin, end = layers.Dense(1), layers.Dense(1), layers.Dense(1)
    optimizer = tf.keras.optimizers.Adadelta(0.5)
    paragraph, question = ids(5000, 16, 60, low=1), ids(5000, 16, 12, low=1, seed=1)
    paragraph[8:, 40:], question[4:, 8:] = 0, 0
    spans = tf.constant(ids(40, 2, 16))

    def encoded(words):
        e = table(words)
        for _ in range(2):
            t = gate(e)
            e = t * change(e) + (1.0 - t) * e
        return encoder(e, mask=tf.not_equal(words, 0))

    @tf.function
    def step(paragraph, question):
        with tf.GradientTape() as tape:
            h, u = encoded(paragraph), encoded(question)
            pairs = tf.concat([tf.tile(h[:, :, None], [1, 1, u.shape[1], 1]), tf.tile(u[:, None], [1, h.shape[1], 1, 1]),
                               h[:, :, None] * u[:, None]], -1)
            scores = similar(pairs)[..., 0] - 1e9 * tf.cast(tf.equal(question, 0), tf.float32)[:, None]
            context = tf.nn.softmax(scores) @ u
            back = tf.matmul(tf.nn.softmax(tf.reduce_max(scores, -1))[:, None], h)
            g = modeling(tf.concat([h, context, h * context, h * back], -1))
            logits = tf.stack([begin(g)[..., 0], end(g)[..., 0]])
            logits -= 1e9 * tf.cast(tf.equal(paragraph, 0), tf.float32)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=spans, logits=logits))
        variables = tape.watched_variables()
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss
    paragraph, question = tf.constant(paragraph), tf.constant(question)
    return lambda: float(step(paragraph, question))


@workload
def crossed_features_fit(tf):
    """`fit` over a large batch: 16 tables, layers of crosses with low rank, a deep part, AUC and log loss, two callbacks."""
    keras = tf.keras
    layers = keras.layers

    class Cross(layers.Layer):
        def build(self, shapes):
            self.down, self.up = layers.Dense(32, use_bias=False), layers.Dense(shapes[0][-1])
            super().build(shapes)

        def call(self, inputs):
            start, x = inputs
            return start * self.up(self.down(x)) + x
    features, dense = keras.Input((16,), dtype="int32"), keras.Input((13,))
    columns = [layers.Embedding(1000 * (i + 1), 16)(features[:, i]) for i in range(16)]
    start = x = layers.Concatenate()([*columns, layers.BatchNormalization()(dense)])
    for _ in range(3):
        x = Cross()([start, x])
    deep = start
    for width in (256, 128):
        deep = layers.Dropout(0.2)(layers.Dense(width, activation="relu")(deep))
    net = keras.Model([features, dense], layers.Dense(1, activation="sigmoid")(layers.Concatenate()([x, deep])))
    net.compile(keras.optimizers.Adagrad(0.01), "binary_crossentropy", metrics=[keras.metrics.AUC(num_thresholds=50)])
    data, y = [ids(1000, 4096, 16), normal(4096, 13)], ids(2, 4096)
    callbacks = [keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.99),
                 keras.callbacks.LambdaCallback(on_batch_end=lambda batch, logs: None)]
    return lambda: net.fit(data, y, batch_size=1024, callbacks=callbacks, verbose=0).history["loss"][-1]


@workload
def relational_graph(tf):
    """Relational graph convolutions: bases of the relations' matrices, messages summed by node and divided by degree."""
    nodes, edges, relations, bases = 600, 4000, 8, 4
    begin, end, kind = (tf.constant(ids(n, edges, seed=i)) for i, n in enumerate((nodes, nodes, relations)))
    table = tf.Variable(0.1 * normal(nodes, 32))
    weights = [[tf.Variable(0.1 * normal(*dims, seed=i)) for i, dims in enumerate(((bases, a, b), (relations, bases), (a, b)))]
               for a, b in ((32, 32), (32, 16))]
    decoder = tf.Variable(0.1 * normal(relations, 16))
    every = [table, decoder, *(w for layer in weights for w in layer)]
    optimizer = tf.keras.optimizers.Adam(1e-3)
    optimizer.build(every)
    wrong = tf.constant(ids(nodes, edges, seed=9))

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            h = tf.convert_to_tensor(table)
            for basis, mix, own in weights:
                each = tf.einsum("rb,bio->rio", mix, basis)
                sent = tf.einsum("ni,rio->rno", h, each)
                messages = tf.gather_nd(sent, tf.stack([kind, begin], 1))
                degree = tf.math.unsorted_segment_sum(tf.ones([edges]), end, nodes)[:, None]
                h = tf.nn.relu(tf.math.unsorted_segment_sum(messages, end, nodes) / tf.maximum(degree, 1.0) + h @ own)
            bond = tf.gather(decoder, kind)
            right = tf.reduce_sum(tf.gather(h, begin) * bond * tf.gather(h, end), 1)
            fake = tf.reduce_sum(tf.gather(h, begin) * bond * tf.gather(h, wrong), 1)
            loss = tf.reduce_mean(tf.nn.softplus(-right) + tf.nn.softplus(fake))
        optimizer.apply_gradients(zip(tape.gradient(loss, every), every, strict=True))
        return loss
    return lambda: float(step())


@workload
def sound_of_any_length(tf):
    """Convolution and attention over sound of any length (gated linear units, depthwise convolutions of time): 3 lengths."""
    layers = tf.keras.layers

    class Block(layers.Layer):
        def __init__(self):
            super().__init__()
            self.norms = [layers.LayerNormalization() for _ in range(4)]
            self.half = [tf.keras.Sequential([layers.Dense(192, "swish"), layers.Dropout(0.1), layers.Dense(64)]) for _ in "ab"]
            self.attention = layers.MultiHeadAttention(4, 16)
            self.wide, self.narrow = layers.Dense(128), layers.Dense(64)
            self.time, self.batch = layers.DepthwiseConv1D(15, padding="same"), layers.BatchNormalization()

        def call(self, x, training=None):
            x += 0.5 * self.half[0](self.norms[0](x), training=training)
            h = self.norms[1](x)
            x += self.attention(h, h)
            a, b = tf.split(self.wide(self.norms[2](x)), 2, -1)
            x += self.narrow(tf.nn.silu(self.batch(self.time(a * tf.sigmoid(b)), training=training)))
            return self.norms[3](x + 0.5 * self.half[1](x, training=training))
    sound = tf.keras.Input((None, 40))
    h = layers.Dense(64)(layers.Conv1D(64, 3, 2, padding="same", activation="relu")(sound))
    for _ in range(2):
        h = Block()(h)
    net = tf.keras.Model(sound, layers.Dense(30)(h))
    optimizer = tf.keras.optimizers.Adam(1e-3)
    optimizer.build(net.trainable_variables)

    @tf.function(input_signature=[tf.TensorSpec([None, None, 40]), tf.TensorSpec([None, None], tf.int32)])
    def step(x, y):
        with tf.GradientTape() as tape:
            logits = tf.nn.log_softmax(net(x, training=True))
            loss = -tf.reduce_mean(tf.gather(logits, y, batch_dims=2))
        grads, _ = tf.clip_by_global_norm(tape.gradient(loss, net.trainable_variables), 5.0)
        optimizer.apply_gradients(zip(grads, net.trainable_variables, strict=True))
        return loss
    batches = [(tf.constant(normal(4, t, 40)), tf.constant(ids(30, 4, t // 2), tf.int32)) for t in (120, 96, 160)]
    return lambda: float(sum(step(*batch) for batch in batches))


@workload
def coupled_flow(tf):
    """A normalizing flow: twelve affine couplings of two small networks each, the log density, and samples back."""
    size = 16
    nets = [[tf.Variable(0.1 * normal(*dims, seed=i)) for dims in ((size // 2, 64), (64,), (64, size), (size,))]
            for i in range(12)]
    every = [v for net in nets for v in net]
    optimizer = tf.keras.optimizers.Adam(1e-3)
    optimizer.build(every)
    data = tf.constant(normal(256, size))

    def moved(half, net):
        h = tf.nn.leaky_relu(half @ net[0] + net[1], 0.1)
        s, t = tf.split(h @ net[2] + net[3], 2, 1)
        return tf.tanh(s), t

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            total = tf.zeros([256])
            z = x
            for i, net in enumerate(nets):
                a, b = tf.split(z, 2, 1)
                s, t = moved(a, net)
                z = tf.concat([b * tf.exp(s) + t, a], 1) if i % 2 else tf.concat([a, b * tf.exp(s) + t][::-1], 1)
                total += tf.reduce_sum(s, 1)
            loss = tf.reduce_mean(0.5 * tf.reduce_sum(z ** 2, 1) - total)
        optimizer.apply_gradients(zip(tape.gradient(loss, every), every, strict=True))
        z = tf.random.normal([64, size])
        for net in reversed(nets):
            b, a = tf.split(z, 2, 1)
            s, t = moved(a, net)
            z = tf.concat([a, (b - t) * tf.exp(-s)], 1)
        return loss + 1e-3 * tf.reduce_mean(z)
    return lambda: float(step(data))


@workload
def masked_pixels(tf):
    """Masked convolutions of pixels with gates and conditions, 4-bit colours as classes; a custom `train_step` and `fit`."""
    keras = tf.keras
    layers = keras.layers

    class Masked(layers.Conv2D):
        def build(self, shape):
            super().build(shape)
            k = self.kernel_size[0]
            mask = np.ones((k, k, 1, 1), "f")
            mask[k // 2, k // 2 + 1:], mask[k // 2 + 1:] = 0.0, 0.0
            self.mask = mask

        def call(self, x):
            return tf.nn.conv2d(x, self.kernel * self.mask, 1, "SAME") + self.bias

    class Pixels(keras.Model):
        def __init__(self):
            super().__init__()
            self.start, self.convs = Masked(64, 5, padding="same"), [Masked(64, 3, padding="same") for _ in range(3)]
            self.mean = keras.metrics.Mean("nats")
            self.condition, self.outs = [layers.Dense(64) for _ in range(3)], [layers.Conv2D(64, 1), layers.Conv2D(16, 1)]

        def call(self, inputs):
            x, label = inputs
            h = self.start(tf.cast(x, tf.float32) / 8.0 - 1.0)
            for conv, condition in zip(self.convs, self.condition, strict=True):
                a, b = tf.split(conv(h) + condition(tf.one_hot(label, 10))[:, None, None], 2, -1)
                h = h + tf.concat([tf.tanh(a) * tf.sigmoid(b)] * 2, -1)
            return self.outs[1](tf.nn.elu(self.outs[0](tf.nn.elu(h))))

        def train_step(self, data):
            (x, label), = data
            with tf.GradientTape() as tape:
                logits = self((x, label), training=True)
                loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=x[..., 0], logits=logits))
            self.optimizer.apply_gradients(zip(tape.gradient(loss, self.trainable_variables), self.trainable_variables,
                                               strict=True))
            self.mean.update_state(loss)
            return {"nats": self.mean.result()}
    net = Pixels()
    net.compile(keras.optimizers.RMSprop(1e-3))
    data = tf.data.Dataset.from_tensor_slices(((ids(16, 64, 16, 16, 1), ids(10, 64)),)).batch(16)
    return lambda: net.fit(data, verbose=0).history["nats"][-1]


@workload
def energy_by_langevin(tf):
    """An energy of images: samples by 10 steps along its gradient in a loop, then a contrast of them with the data."""
    layers = tf.keras.layers
    net = tf.keras.Sequential([layers.Conv2D(16, 3, 2, "same", activation="swish"), layers.Conv2D(32, 3, 2, "same",
                               activation="swish"), layers.Flatten(), layers.Dense(1)])
    data = tf.constant(normal(16, 16, 16, 1))
    net(data)
    optimizer = tf.keras.optimizers.Adam(1e-4, beta_1=0.0)
    optimizer.build(net.trainable_variables)

    @tf.function
    def step(x):
        sample = tf.random.uniform(tf.shape(x), -1.0, 1.0)
        for _ in tf.range(10):
            with tf.GradientTape() as tape:
                tape.watch(sample)
                energy = tf.reduce_sum(net(sample))
            push = tf.clip_by_value(tape.gradient(energy, sample), -0.03, 0.03)
            sample = tf.clip_by_value(sample - 10.0 * push + 0.005 * tf.random.normal(tf.shape(sample)), -1.0, 1.0)
        with tf.GradientTape() as tape:
            real, fake = net(x, training=True), net(tf.stop_gradient(sample), training=True)
            loss = tf.reduce_mean(real - fake) + 0.1 * tf.reduce_mean(real ** 2 + fake ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables, strict=True))
        return loss
    return lambda: float(step(data))


@workload
def accumulated_gradients(tf):
    """Nested functions: gradients of four small batches added to variables, clipped and applied, averaged weights."""
    layers = tf.keras.layers
    net = tf.keras.Sequential([layers.Conv2D(24, 3, 2, "same"), layers.LayerNormalization(), layers.Activation("gelu"),
                               layers.Conv2D(48, 3, 2, "same"), layers.LayerNormalization(), layers.Activation("gelu"),
                               layers.Flatten(), layers.Dense(64, "gelu"), layers.Dense(10)])
    x, y = tf.constant(normal(32, 24, 24, 3)), tf.constant(ids(10, 32))
    net(x)
    variables = net.trainable_variables
    sums = [tf.Variable(tf.zeros_like(v), trainable=False) for v in variables]
    means = [tf.Variable(v, trainable=False) for v in variables]
    optimizer = tf.keras.optimizers.Nadam(1e-3)
    optimizer.build(variables)
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def gradients(x, y):
        with tf.GradientTape() as tape:
            value = loss(y, net(x, training=True))
        for total, g in zip(sums, tape.gradient(value, variables), strict=True):
            total.assign_add(g)
        return value

    @tf.function
    def apply():
        grads, norm = tf.clip_by_global_norm([total / 4.0 for total in sums], 1.0)
        optimizer.apply_gradients(zip(grads, variables, strict=True))
        for mean, v, total in zip(means, variables, sums, strict=True):
            mean.assign(0.99 * mean + 0.01 * v)
            total.assign(tf.zeros_like(total))
        return norm

    @tf.function
    def step(x, y):
        values = [gradients(a, b) for a, b in zip(tf.split(x, 4), tf.split(y, 4), strict=True)]
        return tf.add_n(values) / 4.0 + 0.0 * apply()
    return lambda: float(step(x, y))


@workload
def shared_towers_fit(tf):
    """`fit` of a functional model that calls layers twice: two texts, one table, one LSTM; class weights, three callbacks."""
    keras = tf.keras
    layers = keras.layers
    one, other = (keras.Input((24,), dtype="int32") for _ in range(2))
    table, reads, projects = layers.Embedding(3000, 32, mask_zero=True), layers.LSTM(48), layers.Dense(32, activation="tanh")
    a, b = (layers.UnitNormalization()(projects(reads(table(x)))) for x in (one, other))
    both = layers.Concatenate()([layers.Dot(1)([a, b]), layers.Multiply()([a, b]), layers.Subtract()([a, b])])
    net = keras.Model([one, other], layers.Dense(1, activation="sigmoid", kernel_regularizer="l2")(both))
    net.compile(keras.optimizers.Adam(1e-3, clipnorm=1.0), "binary_crossentropy", metrics=["accuracy"])
    texts = [ids(3000, 256, 24, seed=i) for i in range(2)]
    for text in texts:
        text[::2, 16:] = 0
    y = ids(2, 256)

    def call():
        callbacks = [keras.callbacks.EarlyStopping("loss", patience=3), keras.callbacks.ReduceLROnPlateau("loss"),
                     keras.callbacks.TerminateOnNaN()]
        history = net.fit(texts, y, batch_size=32, class_weight={0: 1.0, 1: 2.0}, callbacks=callbacks, verbose=0)
        return history.history["loss"][-1]
    return call


@workload
def bfloat16_bottlenecks(tf):
    """Residual bottlenecks with squeezed channels under the policy mixed_bfloat16, one training step."""
    layers, policy = tf.keras.layers, "mixed_bfloat16"
    image = tf.keras.Input((32, 32, 3))
    h = layers.Conv2D(32, 3, 1, "same", dtype=policy)(image)
    for width, stride in ((32, 1), (64, 2), (64, 1), (128, 2)):
        z = layers.ReLU(dtype=policy)(layers.BatchNormalization(dtype=policy)(layers.Conv2D(width // 2, 1, dtype=policy)(h)))
        z = layers.Conv2D(width // 2, 3, stride, "same", dtype=policy)(z)
        z = layers.Conv2D(width, 1, dtype=policy)(layers.ReLU(dtype=policy)(layers.BatchNormalization(dtype=policy)(z)))
        squeezed = layers.GlobalAveragePooling2D(keepdims=True, dtype=policy)(z)
        squeezed = layers.Dense(width, "sigmoid", dtype=policy)(layers.Dense(width // 4, "relu", dtype=policy)(squeezed))
        z = layers.Multiply(dtype=policy)([z, squeezed])
        short = h if stride == 1 and h.shape[-1] == width else layers.Conv2D(width, 1, stride, dtype=policy)(h)
        h = layers.Add(dtype=policy)([z, short])
    net = tf.keras.Model(image, layers.Dense(10)(layers.GlobalAveragePooling2D()(h)))
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return trained(tf, net, tf.constant(normal(16, 32, 32, 3)), tf.constant(ids(10, 16)), loss,
                   tf.keras.optimizers.SGD(0.01, 0.9, nesterov=True))


@workload
def growing_cache(tf):
    """One sentence at a time: a decoder whose keys and values grow by tf.concat in a loop, and sampling."""
    width, heads, layers = 96, 4, 2
    table, out = tf.constant(0.1 * normal(800, width)), tf.constant(0.1 * normal(width, 800))
    weights = [[tf.constant(0.1 * normal(*dims, seed=i)) for dims in ((width, 3 * width), (width, width), (width, 2 * width),
                                                                       (2 * width, width))] for i in range(layers)]

    def normed(x):
        mean, variance = tf.nn.moments(x, [-1], keepdims=True)
        return (x - mean) * tf.math.rsqrt(variance + 1e-5)

    @tf.function
    def generate(word):
        keys = [tf.zeros([heads, 0, width // heads]) for _ in range(layers)]
        values = [tf.zeros([heads, 0, width // heads]) for _ in range(layers)]
        words = word[None]
        for _ in tf.range(30):
            tf.autograph.experimental.set_loop_options(shape_invariants=[
                (words, tf.TensorShape([None])), *((t, tf.TensorShape([heads, None, width // heads])) for t in keys + values)])
            x = tf.gather(table, word)[None]
            for i, (qkv, project, up, down) in enumerate(weights):
                q, k, v = tf.unstack(tf.reshape(normed(x) @ qkv, [3, heads, 1, width // heads]))
                keys[i], values[i] = tf.concat([keys[i], k], 1), tf.concat([values[i], v], 1)
                mixed = tf.nn.softmax(tf.matmul(q, keys[i], transpose_b=True) * heads ** -0.5) @ values[i]
                x += tf.reshape(mixed, [1, width]) @ project
                x += tf.nn.gelu(normed(x) @ up) @ down
            best, at = tf.math.top_k((normed(x) @ out)[0], 20)
            word = tf.gather(at, tf.random.categorical(best[None], 1, dtype=tf.int32)[0, 0])
            words = tf.concat([words, word[None]], 0)
        return tf.reduce_mean(tf.cast(words, tf.float32))
    start = tf.constant(7)
    return lambda: float(generate(start))


@workload
def frames_and_recurrence(tf):
    """Short videos: 3-D and TimeDistributed convolutions, a GRU over frames, two heads and a weighted loss."""
    layers = tf.keras.layers
    frames = tf.keras.Input((8, 24, 24, 3))
    h = layers.MaxPooling3D((1, 2, 2))(layers.Conv3D(16, 3, padding="same", activation="relu")(frames))
    h = layers.TimeDistributed(layers.SeparableConv2D(32, 3, 2, "same", activation="relu"))(h)
    h = layers.TimeDistributed(layers.GlobalMaxPooling2D())(h)
    h = layers.GRU(32, return_sequences=True)(h)
    net = tf.keras.Model(frames, [layers.Dense(5)(h), layers.Dense(3)(h[:, -1])])
    x, each, whole = tf.constant(normal(4, 8, 24, 24, 3)), tf.constant(ids(5, 4, 8)), tf.constant(ids(3, 4))
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = tf.keras.optimizers.Adamax(1e-3)
    optimizer.build(net.trainable_variables)

    @tf.function(reduce_retracing=True)
    def step(x, each, whole):
        with tf.GradientTape() as tape:
            a, b = net(x, training=True)
            value = loss(each, a, sample_weight=tf.linspace(0.5, 1.5, 8)[None]) + 0.3 * loss(whole, b)
        optimizer.apply_gradients(zip(tape.gradient(value, net.trainable_variables), net.trainable_variables, strict=True))
        return value
    return lambda: float(step(x, each, whole))
