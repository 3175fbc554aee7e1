"""Nineteen programs that no other file mentions, beside TensorFlow on the CPU: they were written before anyone profiled them.
"""
from __future__ import annotations

import os
import tempfile

import numpy as np

from workloads import work_table
from workloads.programs import stepping

WORK, workload = work_table()


def _floats(tf, *dims, seed=0, scale=1.0):
    return tf.constant((np.random.RandomState(seed).randn(*dims) * scale).astype("f"))


def _fitting(model, x, y, batch):
    """One short epoch of fit, as a user calls it."""
    def call():
        return model.fit(x, y, batch_size=batch, epochs=1, shuffle=False, verbose=0).history["loss"][0]
    return call


@workload
def efficientnet_fit(tf):
    """Inverted bottlenecks with squeeze and excitation, swish and batch normalization, by fit."""
    K, r = tf.keras.layers, np.random.RandomState(0)

    def block(h, width, stride, expand=4):
        inputs, wide = h, h.shape[-1] * expand
        h = K.Activation("swish")(K.BatchNormalization()(K.Conv2D(wide, 1, use_bias=False)(h)))
        h = K.DepthwiseConv2D(3, stride, padding="same", use_bias=False)(h)
        h = K.Activation("swish")(K.BatchNormalization()(h))
        gate = K.Dense(wide, "sigmoid")(K.Dense(wide // 8, "swish")(K.GlobalAveragePooling2D()(h)))
        h = K.Multiply()([h, K.Reshape([1, 1, wide])(gate)])
        h = K.BatchNormalization()(K.Conv2D(width, 1, use_bias=False)(h))
        return K.Add()([K.Dropout(0.1)(h), inputs]) if stride == 1 and inputs.shape[-1] == width else h
    image = tf.keras.Input([48, 48, 3])
    h = K.Activation("swish")(K.BatchNormalization()(K.Conv2D(16, 3, 2, padding="same", use_bias=False)(image)))
    for width, stride in ((16, 1), (24, 2), (24, 1), (40, 2), (40, 1)):
        h = block(h, width, stride)
    model = tf.keras.Model(image, K.Dense(10)(K.GlobalAveragePooling2D()(h)))
    model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    return _fitting(model, r.rand(32, 48, 48, 3).astype("f"), r.randint(0, 10, 32), 8)


@workload
def convnext_fit(tf):
    """Depthwise 7x7, layer norm, wide pointwise pair with GELU and a learned scale, by fit."""
    K, r = tf.keras.layers, np.random.RandomState(0)

    class Scale(K.Layer):
        def build(self, shape):
            self.gamma = self.add_weight(shape=(shape[-1],), initializer="ones")

        def call(self, x):
            return x * self.gamma
    image = tf.keras.Input([32, 32, 3])
    h = K.LayerNormalization(epsilon=1e-6)(K.Conv2D(32, 4, 4)(image))
    for width in (32, 64):
        if width != 32:
            h = K.Conv2D(width, 2, 2)(K.LayerNormalization(epsilon=1e-6)(h))
        for _ in range(2):
            part = K.LayerNormalization(epsilon=1e-6)(K.DepthwiseConv2D(7, padding="same")(h))
            h = K.Add()([h, Scale()(K.Dense(width)(K.Dense(4 * width, "gelu")(part)))])
    model = tf.keras.Model(image, K.Dense(10)(K.LayerNormalization()(K.GlobalAveragePooling2D()(h))))
    model.compile(tf.keras.optimizers.AdamW(1e-3), tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return _fitting(model, r.rand(64, 32, 32, 3).astype("f"), r.randint(0, 10, 64), 16)


@workload
def unet_fit(tf):
    """Segmentation with skips: convolutions, pooling, transposed convolutions, concatenations, by fit."""
    K, r = tf.keras.layers, np.random.RandomState(0)

    def pair(h, width):
        for _ in range(2):
            h = K.ReLU()(K.BatchNormalization()(K.Conv2D(width, 3, padding="same")(h)))
        return h
    image, skips = tf.keras.Input([48, 48, 1]), []
    h = image
    for width in (8, 16):
        skips.append(h := pair(h, width))
        h = K.MaxPooling2D()(h)
    h = pair(h, 32)
    for width, skip in zip((16, 8), reversed(skips), strict=True):
        h = pair(K.Concatenate()([K.Conv2DTranspose(width, 2, 2)(h), skip]), width)
    model = tf.keras.Model(image, K.Conv2D(1, 1, activation="sigmoid")(h))
    model.compile("rmsprop", "binary_crossentropy", metrics=[tf.keras.metrics.MeanIoU(2)])
    return _fitting(model, r.rand(16, 48, 48, 1).astype("f"), (r.rand(16, 48, 48, 1) > 0.5).astype("f"), 4)


@workload
def tcn_fit(tf):
    """A temporal convolutional network: dilated causal pairs with spatial dropout and residuals, by fit."""
    K, r = tf.keras.layers, np.random.RandomState(0)
    series = tf.keras.Input([128, 6])
    h = K.Conv1D(24, 1)(series)
    for rate in (1, 2, 4, 8):
        part = h
        for _ in range(2):
            part = K.LayerNormalization()(K.Conv1D(24, 3, padding="causal", dilation_rate=rate, activation="relu")(part))
            part = K.SpatialDropout1D(0.1)(part)
        h = K.ReLU()(K.Add()([h, part]))
    model = tf.keras.Model(series, K.Dense(1)(h[:, -1]))
    model.compile("adam", "mse", metrics=["mae"])
    return _fitting(model, r.randn(64, 128, 6).astype("f"), r.randn(64, 1).astype("f"), 16)


@workload
def gated_mlp_fit(tf):
    """Blocks of gated perceptrons that mix places of a sequence (gMLP) over words, by fit."""
    K, r = tf.keras.layers, np.random.RandomState(0)
    words = tf.keras.Input([32], dtype="int32")
    h = K.Embedding(1000, 48)(words)
    for _ in range(3):
        part = K.Dense(192, "gelu")(K.LayerNormalization()(h))
        u, v = part[..., :96], K.LayerNormalization()(part[..., 96:])
        v = K.Permute([2, 1])(K.Dense(32, bias_initializer="ones")(K.Permute([2, 1])(v)))
        h = K.Add()([h, K.Dense(48)(K.Multiply()([u, v]))])
    model = tf.keras.Model(words, K.Dense(4, "softmax")(K.GlobalAveragePooling1D()(h)))
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return _fitting(model, r.randint(0, 1000, [128, 32]), r.randint(0, 4, 128), 32)


@workload
def two_tower(tf):
    """Retrieval: two towers over embeddings of users, items and bags of tags, softmax within the batch, top-k metric."""
    K, r = tf.keras.layers, np.random.RandomState(0)

    class Towers(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.users, self.items, self.tags = K.Embedding(5000, 32), K.Embedding(3000, 32), K.Embedding(400, 16)
            self.left, self.right = (tf.keras.Sequential([K.Dense(64, "relu"), K.Dense(32)]) for _ in range(2))

        def call(self, inputs):
            user, item, tags = inputs["user"], inputs["item"], self.tags(inputs["tags"])
            mask = tf.cast(inputs["tags"] > 0, tf.float32)[..., None]
            bag = tf.reduce_sum(tags * mask, 1) / tf.maximum(tf.reduce_sum(mask, 1), 1.0)
            a = tf.math.l2_normalize(self.left(self.users(user)), 1)
            b = tf.math.l2_normalize(self.right(tf.concat([self.items(item), bag], 1)), 1)
            return tf.matmul(a, b, transpose_b=True) / 0.1
    model = Towers()
    model.compile("adagrad", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                  metrics=[tf.keras.metrics.SparseTopKCategoricalAccuracy(5)])
    x = {"user": r.randint(0, 5000, 512), "item": r.randint(0, 3000, 512), "tags": r.randint(0, 400, [512, 6])}
    return _fitting(model, x, np.tile(np.arange(64), 8), 64)


@workload
def tabnet_step(tf):
    """Sequential attention over columns: ghost batch norms, gated units, sparsemax masks, an entropy of the masks."""
    K, r = tf.keras.layers, np.random.RandomState(0)
    x, y = _floats(tf, 256, 24), tf.constant(r.randint(0, 3, 256))
    shared, own = K.Dense(32, use_bias=False), [K.Dense(32, use_bias=False) for _ in range(3)]
    attend, last = [K.Dense(24, use_bias=False) for _ in range(3)], K.Dense(3)
    norms = [K.BatchNormalization(momentum=0.9) for _ in range(10)]

    def sparsemax(z):
        ordered = tf.sort(z, direction="DESCENDING", axis=-1)
        sums, places = tf.cumsum(ordered, -1), tf.range(1.0, z.shape[-1] + 1.0)
        support = 1.0 + places * ordered > sums
        count = tf.reduce_sum(tf.cast(support, tf.int32), -1, keepdims=True)
        tau = (tf.gather(sums, count - 1, batch_dims=1) - 1.0) / tf.cast(count, tf.float32)
        return tf.maximum(z - tau, 0.0)

    def glu(h):
        return h[:, :16] * tf.sigmoid(h[:, 16:])

    def network(x):
        x = norms[0](x, training=True)
        prior, out, entropy, hidden = tf.ones_like(x), 0.0, 0.0, glu(norms[1](shared(x), training=True))
        for i in range(3):
            mask = sparsemax(prior * norms[2 + i](attend[i](hidden), training=True))
            prior *= 1.5 - mask
            entropy -= tf.reduce_mean(tf.reduce_sum(mask * tf.math.log(mask + 1e-5), 1))
            hidden = glu(norms[5 + i](shared(mask * x), training=True))
            hidden = 0.707 * (hidden + glu(own[i](tf.concat([hidden, mask[:, :0]], 1))))
            out += tf.nn.relu(hidden)
        return last(out), entropy
    network(x)

    def loss(x, y):
        logits, entropy = network(x)
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)) + 1e-3 * entropy
    params = [v for layer in (shared, *own, *attend, last, *norms[:8]) for v in layer.trainable_variables]
    step = stepping(tf, params, tf.keras.optimizers.Adam(1e-2), loss)
    return lambda: float(step(x, y))


@workload
def attention_unrolled(tf):
    """A GRU decoder with dot attention whose steps a Python loop unrolls, with scheduled samples of its own words."""
    K, r = tf.keras.layers, np.random.RandomState(0)
    embed, cell, project = K.Embedding(300, 32), K.GRUCell(32), K.Dense(300)
    encoder = K.GRU(32, return_sequences=True, return_state=True)
    x, y = tf.constant(r.randint(0, 300, [16, 12])), tf.constant(r.randint(0, 300, [16, 11]))

    def loss(x, y):
        memory, h = encoder(embed(x))
        total, word = 0.0, y[:, 0]
        for t in range(10):
            h = cell(tf.concat([embed(word), h], 1), [h])[0]
            weights = tf.nn.softmax(tf.einsum("bd,btd->bt", h, memory))
            logits = project(tf.concat([h, tf.einsum("bt,btd->bd", weights, memory)], 1))
            total += tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y[:, t + 1], logits=logits))
            word = tf.where(y[:, t + 1] % 4 == 0, tf.argmax(logits, 1), y[:, t + 1])
        return total / 10.0
    loss(x, y)
    params = [v for layer in (embed, cell, project, encoder) for v in layer.trainable_variables]
    step = stepping(tf, params, tf.keras.optimizers.Adam(1e-3), loss)
    return lambda: float(step(x, y))


def _v1(tf, build):
    """A call of a session over the graph that `build` makes: fetches and feeds."""
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph:
        v1.set_random_seed(0)
        fetches, feed = build(v1)
        init = v1.global_variables_initializer()
    session = v1.Session(graph=graph)
    session.run(init)
    return lambda: session.run(fetches, feed)[0]


@workload
def v1_dynamic_rnn_attention(tf):
    """1.x: dynamic_rnn over an encoder, then over a cell of one's own that attends to its memory; clipped Adam."""
    def build(v1):
        x, y = v1.placeholder(tf.int32, [None, None]), v1.placeholder(tf.int32, [None, 10])
        lengths = v1.placeholder(tf.int32, [None])
        table = v1.get_variable("table", [400, 32])
        gates, new = v1.get_variable("gates", [64, 64]), v1.get_variable("new", [64, 32])

        class Cell:
            state_size = output_size = 32

            def __init__(self, memory=None):
                self.memory = memory

            def zero_state(self, batch, dtype):
                return tf.zeros([batch, 32], dtype)

            def __call__(self, now, h, scope=None):
                if self.memory is not None:
                    weights = tf.nn.softmax(tf.reduce_sum(self.memory * h[:, None], 2))
                    now = now + tf.reduce_sum(weights[..., None] * self.memory, 1)
                r, u = tf.split(tf.sigmoid(tf.matmul(tf.concat([now, h], 1), gates)), 2, 1)
                h = u * h + (1.0 - u) * tf.tanh(tf.matmul(tf.concat([now, r * h], 1), new))
                return h, h
        with v1.variable_scope("encoder"):
            memory, h = v1.nn.dynamic_rnn(Cell(), tf.nn.embedding_lookup(table, x), lengths, dtype=tf.float32)
        with v1.variable_scope("decoder"):
            out, _ = v1.nn.dynamic_rnn(Cell(memory), tf.nn.embedding_lookup(table, y[:, :-1]), initial_state=h)
        logits = tf.tensordot(out, v1.get_variable("project", [32, 400]), 1)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y[:, 1:], logits=logits))
        params = v1.trainable_variables()
        grads, _ = tf.clip_by_global_norm(v1.gradients(loss, params), 1.0)
        train = v1.train.AdamOptimizer(1e-3).apply_gradients(zip(grads, params, strict=True))
        r = np.random.RandomState(0)
        return [loss, train], {x: r.randint(0, 400, [16, 14]), y: r.randint(0, 400, [16, 10]), lengths: r.randint(5, 15, 16)}
    return _v1(tf, build)


@workload
def v1_actor_critic(tf):
    """1.x A2C: actions sampled for five states at a time through feeds, then an update of the two heads."""
    v1, r = tf.compat.v1, np.random.RandomState(0)
    with tf.Graph().as_default() as graph:
        v1.set_random_seed(0)
        seen, acts = v1.placeholder(tf.float32, [None, 8]), v1.placeholder(tf.int32, [None])
        gains = v1.placeholder(tf.float32, [None])
        h = tf.nn.relu(tf.matmul(seen, v1.get_variable("a", [8, 64])) + v1.get_variable("b", [64]))
        logits = tf.matmul(h, v1.get_variable("policy", [64, 4]))
        value = tf.squeeze(tf.matmul(h, v1.get_variable("value", [64, 1])), 1)
        sample = tf.squeeze(v1.multinomial(logits, 1), 1)
        logs = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=acts, logits=logits)
        p = tf.nn.softmax(logits)
        entropy = -tf.reduce_mean(tf.reduce_sum(p * tf.nn.log_softmax(logits), 1))
        loss = tf.reduce_mean(logs * tf.stop_gradient(gains - value)) - 0.01 * entropy
        loss += 0.5 * tf.reduce_mean(tf.square(gains - value))
        opt = v1.train.RMSPropOptimizer(7e-4, decay=0.99, epsilon=1e-5)
        grads, params = zip(*opt.compute_gradients(loss), strict=True)
        train = opt.apply_gradients(zip(tf.clip_by_global_norm(grads, 0.5)[0], params, strict=True))
        init = v1.global_variables_initializer()
    session = v1.Session(graph=graph)
    session.run(init)
    states, rewards = r.randn(5, 4, 8).astype("f"), r.randn(5, 4).astype("f")

    def call():
        taken, values = [], []
        for state in states:
            actions, v = session.run([sample, value], {seen: state})
            taken.append(actions)
            values.append(v)
        returns, after = [], session.run(value, {seen: states[-1]})
        for reward in rewards[::-1]:
            returns.append(after := reward + 0.99 * after)
        feed = {seen: states.reshape(-1, 8), acts: np.concatenate(taken), gains: np.concatenate(returns[::-1])}
        return session.run([loss, train], feed)[0] * 0
    return call


@workload
def ragged_text(tf):
    """Lines lowered, cleaned and split into ragged words and characters, hashed, averaged, batched."""
    r = np.random.RandomState(0)
    lines = [" ".join(f"Wo{r.randint(0, 700)}rd{'!?.,'[r.randint(0, 4)]}" for _ in range(r.randint(4, 30))) for _ in range(400)]
    table = _floats(tf, 512, 16)

    def features(batch):
        clean = tf.strings.regex_replace(tf.strings.lower(batch), r"[!?.,]", "")
        words = tf.strings.split(clean)
        ids = tf.ragged.map_flat_values(tf.strings.to_hash_bucket_fast, words, num_buckets=512)
        mean = tf.reduce_mean(tf.ragged.map_flat_values(tf.nn.embedding_lookup, table, ids), 1)
        long = tf.reduce_sum(tf.cast(tf.strings.length(words) > 5, tf.int32), 1)
        pairs = tf.strings.ngrams(words, 2, separator="_")
        return mean, long, ids.to_tensor(0, shape=[None, 20]), pairs.row_lengths()
    ds = tf.data.Dataset.from_tensor_slices(lines).batch(50).map(features, num_parallel_calls=1).prefetch(1)

    def call():
        total = 0.0
        for mean, long, ids, pairs in ds:
            total += float(tf.reduce_sum(mean)) + int(tf.reduce_sum(long)) + int(tf.reduce_sum(ids)) + int(tf.reduce_sum(pairs))
        return total
    return call


@workload
def jpeg_files(tf):
    """Files of JPEG images: read, decode, resize, random crops, flips, brightness and contrast, normalized batches."""
    r, folder = np.random.RandomState(0), tempfile.mkdtemp()
    for i in range(48):
        image = np.kron(r.randint(0, 255, [12, 12, 3]), np.ones([8, 8, 1])).astype("uint8")
        tf.io.write_file(os.path.join(folder, f"{i % 3}_{i}.jpg"), tf.io.encode_jpeg(image))

    def load(path):
        image = tf.image.decode_jpeg(tf.io.read_file(path), channels=3)
        image = tf.image.resize(tf.image.convert_image_dtype(image, tf.float32), [72, 72])
        image = tf.image.random_flip_left_right(tf.image.random_crop(image, [64, 64, 3]))
        image = tf.image.random_contrast(tf.image.random_brightness(image, 0.1), 0.8, 1.2)
        label = tf.strings.to_number(tf.strings.split(tf.strings.split(path, os.sep)[-1], "_")[0], tf.int32)
        return tf.image.per_image_standardization(image), label
    ds = tf.data.Dataset.list_files(os.path.join(folder, "*.jpg"), shuffle=False)
    ds = ds.map(load, num_parallel_calls=1).batch(16).prefetch(1)
    return lambda: float(sum(int(tf.reduce_sum(labels)) for _, labels in ds))


@workload
def saved_model_one_row(tf):
    """A model saved and loaded, its signature called with one row at a time."""
    K = tf.keras.layers
    model = tf.keras.Sequential([tf.keras.Input([32, 4]), K.Conv1D(16, 5, activation="relu"), K.MaxPooling1D(), K.GRU(16),
                                 K.Dense(32, "relu"), K.Dense(3, "softmax")])
    for i, v in enumerate(model.weights):
        v.assign(np.random.RandomState(i).randn(*v.shape).astype("f") * 0.2)
    folder = tempfile.mkdtemp()
    signature = tf.function(lambda x: {"scores": model(x, training=False)}, input_signature=[tf.TensorSpec([None, 32, 4])])
    module = tf.Module()
    module.model = model
    tf.saved_model.save(module, folder, signatures=signature.get_concrete_function())
    serve, row = tf.saved_model.load(folder).signatures["serving_default"], np.random.RandomState(9).randn(1, 32, 4).astype("f")
    return lambda: float(serve(tf.constant(row))["scores"][0, 0])


@workload
def message_passing(tf):
    """Edges with features in a batch of molecules: gathers, messages, sorted segment sums, a GRU update, pooled."""
    K, r = tf.keras.layers, np.random.RandomState(0)
    nodes, edges = 480, 1920
    x, e = _floats(tf, nodes, 24), _floats(tf, edges, 8, seed=1)
    source, target = tf.constant(r.randint(0, nodes, edges)), tf.constant(np.sort(r.randint(0, nodes, edges)))
    molecule, y = tf.constant(np.repeat(np.arange(32), 15)), _floats(tf, 32, 1, seed=2)
    message, update = tf.keras.Sequential([K.Dense(48, "relu"), K.Dense(24)]), K.GRUCell(24)
    head = tf.keras.Sequential([K.Dense(32, "relu"), K.Dense(1)])

    def network(h):
        for _ in range(3):
            sent = message(tf.concat([tf.gather(h, source), tf.gather(h, target), e], 1))
            got = tf.math.segment_sum(sent, target)
            got = tf.pad(got, [[0, nodes - tf.shape(got)[0]], [0, 0]])
            h = update(tf.ensure_shape(got, [nodes, 24]), [h])[0]
        pooled = tf.concat([tf.math.segment_mean(h, molecule), tf.math.segment_max(h, molecule)], 1)
        return head(tf.ensure_shape(pooled, [32, 48]))
    network(x)
    params = [v for part in (message, update, head) for v in part.trainable_variables]
    step = stepping(tf, params, tf.keras.optimizers.Adam(1e-3), lambda x, y: tf.reduce_mean(tf.square(network(x) - y)))
    return lambda: float(step(x, y))


@workload
def physics_informed(tf):
    """Burgers' equation by a network: first and second derivatives by nested tapes, inside of the training tape."""
    w = [tf.Variable(_floats(tf, *d, seed=i, scale=0.5)) for i, d in enumerate([(2, 24), (24, 24), (24, 24), (24, 1)])]
    b = [tf.Variable(tf.zeros([d])) for d in (24, 24, 24, 1)]
    at, when = _floats(tf, 128, 1), _floats(tf, 128, 1, seed=1)

    def network(x, t):
        h = tf.concat([x, t], 1)
        for k in range(3):
            h = tf.tanh(h @ w[k] + b[k])
        return h @ w[3] + b[3]

    def loss(x, t):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape(persistent=True) as inner:
                inner.watch([x, t])
                u = network(x, t)
            ux, ut = inner.gradient(u, x), inner.gradient(u, t)
        residual = ut + u * ux - 0.01 * outer.gradient(ux, x)
        return tf.reduce_mean(tf.square(residual)) + tf.reduce_mean(tf.square(network(x, 0.0 * t) + tf.sin(3.14 * x)))
    step = stepping(tf, [*w, *b], tf.keras.optimizers.Adam(1e-3), loss)
    return lambda: float(step(at, when))


@workload
def penalized_gan(tf):
    """WGAN-GP: two critic steps with the penalty of the norm of a gradient, then a step of the generator."""
    K = tf.keras.layers
    critic = tf.keras.Sequential([tf.keras.Input([16, 16, 1]), K.Conv2D(16, 4, 2, padding="same"), K.LeakyReLU(),
                                  K.Conv2D(32, 4, 2, padding="same"), K.LeakyReLU(), K.Flatten(), K.Dense(1)])
    maker = tf.keras.Sequential([tf.keras.Input([16]), K.Dense(4 * 4 * 32), K.Reshape([4, 4, 32]), K.ReLU(),
                                 K.Conv2DTranspose(16, 4, 2, padding="same", activation="relu"),
                                 K.Conv2DTranspose(1, 4, 2, padding="same", activation="tanh")])
    opts, real = [tf.keras.optimizers.Adam(1e-4, beta_1=0.5) for _ in range(2)], _floats(tf, 16, 16, 16, 1)

    @tf.function
    def step(real):
        for _ in range(2):
            with tf.GradientTape() as tape:
                made = maker(tf.random.normal([16, 16]))
                mix = tf.random.uniform([16, 1, 1, 1])
                between = mix * real + (1.0 - mix) * made
                with tf.GradientTape() as inner:
                    inner.watch(between)
                    score = critic(between)
                slope = tf.sqrt(tf.reduce_sum(tf.square(inner.gradient(score, between)), [1, 2, 3]) + 1e-12)
                cost = tf.reduce_mean(critic(made)) - tf.reduce_mean(critic(real))
                cost += 10.0 * tf.reduce_mean(tf.square(slope - 1.0))
            grads = tape.gradient(cost, critic.trainable_variables)
            opts[0].apply_gradients(zip(grads, critic.trainable_variables, strict=True))
        with tf.GradientTape() as tape:
            fooled = -tf.reduce_mean(critic(maker(tf.random.normal([16, 16]))))
        opts[1].apply_gradients(zip(tape.gradient(fooled, maker.trainable_variables), maker.trainable_variables, strict=True))
        return cost + fooled
    return lambda: float(step(real)) * 0


@workload
def gaussian_mixture(tf):
    """Expectation and maximization of a mixture until the likelihood stays, started by k-means in another loop."""
    x = _floats(tf, 600, 4) + 3.0 * tf.constant(np.eye(4, dtype="f")[np.arange(600) % 4])

    @tf.function
    def cluster(x):
        centres = x[:5]
        for _ in tf.range(10):
            nearest = tf.argmin(tf.reduce_sum(tf.square(x[:, None] - centres[None]), 2), 1)
            sums = tf.math.unsorted_segment_sum(x, nearest, 5)
            counts = tf.math.unsorted_segment_sum(tf.ones([600]), nearest, 5)
            centres = sums / tf.maximum(counts, 1.0)[:, None]
        spread, share, before, change = tf.ones([5, 4]), tf.fill([5], 0.2), tf.constant(-1e9), tf.constant(1.0)
        steps = 0
        while change > 1e-5 and steps < 25:
            far = tf.reduce_sum(tf.square(x[:, None] - centres) / spread + tf.math.log(6.2832 * spread), 2)
            logs = tf.math.log(share) - 0.5 * far
            total = tf.reduce_logsumexp(logs, 1, keepdims=True)
            parts = tf.exp(logs - total)
            mass = tf.reduce_sum(parts, 0)
            centres = tf.matmul(parts, x, transpose_a=True) / mass[:, None]
            spread = tf.matmul(parts, tf.square(x), transpose_a=True) / mass[:, None] - tf.square(centres) + 1e-3
            share = mass / 600.0
            now = tf.reduce_mean(total)
            change, before, steps = tf.abs(now - before), now, steps + 1
        return before
    return lambda: float(cluster(x))


@workload
def v1_equation_loop(tf):
    """1.x: Runge-Kutta steps of a learned field in tf.while_loop, and the gradient through them."""
    def build(v1):
        y0, goal = v1.placeholder(tf.float32, [None, 4]), v1.placeholder(tf.float32, [None, 4])
        a, b = v1.get_variable("a", [4, 32]), v1.get_variable("b", [32, 4])

        def field(y):
            return tf.matmul(tf.tanh(tf.matmul(y, a)), b)

        def body(i, y, energy):
            k1 = field(y)
            k2 = field(y + 0.05 * k1)
            k3 = field(y + 0.05 * k2)
            k4 = field(y + 0.1 * k3)
            y = y + (0.1 / 6.0) * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
            return i + 1, y, energy + tf.reduce_mean(tf.square(k1))
        _, y, energy = tf.while_loop(lambda i, *_: i < 15, body, [0, y0, 0.0])
        loss = tf.reduce_mean(tf.square(y - goal)) + 1e-3 * energy
        r = np.random.RandomState(0)
        return ([loss, v1.train.AdamOptimizer(1e-3).minimize(loss)],
                {y0: r.randn(32, 4).astype("f"), goal: r.randn(32, 4).astype("f")})
    return _v1(tf, build)


@workload
def v1_bandit_loop(tf):
    """1.x: a bandit that plays two hundred rounds in one tf.while_loop with a true dataflow body."""
    def build(v1):
        arms = v1.placeholder(tf.float32, [8])

        def body(t, values, counts, total):
            explore = v1.random_uniform([]) < 0.1
            arm = tf.where(explore, v1.random_uniform([], 0, 8, tf.int64), tf.argmax(values))
            reward = tf.gather(arms, arm) + v1.random_normal([], stddev=0.1)
            chosen = tf.one_hot(arm, 8)
            counts = counts + chosen
            values = values + chosen * (reward - values) / tf.maximum(counts, 1.0)
            return t + 1, values, counts, total + reward
        v1.disable_control_flow_v2()
        _, values, _, total = v1.while_loop(lambda t, *_: t < 200, body, [0, tf.zeros([8]), tf.zeros([8]), 0.0])
        return [total * 0.0, values], {arms: np.linspace(0, 1, 8)}
    return _v1(tf, build)
