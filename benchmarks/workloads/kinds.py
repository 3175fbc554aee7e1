"""Twelve programs, one of each kind: fed shapes that change, `fit` with callbacks, captioned images, graphs of many sizes,
sound, a simulated environment, forecasts, single rows, quantization, float64, bfloat16 and complex numbers."""
from __future__ import annotations

import os
import tempfile

import numpy as np

from workloads import work_table

WORK, workload = work_table()


def normal(*dims, seed=0):
    return np.random.RandomState(seed).randn(*dims).astype("f")


def ids(high, *dims, seed=0, low=0):
    return np.random.RandomState(seed).randint(low, high, dims)


@workload
def fed_sentences(tf):
    """A 1.x session: a classifier of sentences, fed with twelve pairs of batch size and length, and their lengths."""
    v1, g = tf.compat.v1, tf.Graph()
    with g.as_default():
        words, sizes = v1.placeholder(tf.int32, [None, None]), v1.placeholder(tf.int32, [None])
        labels = v1.placeholder(tf.int32, [None])
        table = v1.get_variable("table", initializer=0.1 * normal(3000, 32))
        kernel = v1.get_variable("kernel", initializer=0.1 * normal(3, 32, 48))
        out = v1.get_variable("out", initializer=0.1 * normal(48, 6))
        mask = tf.sequence_mask(sizes, tf.shape(words)[1], tf.float32)[:, :, None]
        h = tf.nn.relu(tf.nn.conv1d(tf.nn.embedding_lookup(table, words) * mask, kernel, 1, "SAME")) * mask
        pooled = tf.reduce_sum(h, 1) / tf.cast(sizes, tf.float32)[:, None] + tf.reduce_max(h, 1)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=pooled @ out))
        optimizer = v1.train.AdamOptimizer(1e-3)
        grads, variables = zip(*optimizer.compute_gradients(loss), strict=True)
        train = optimizer.apply_gradients(zip(v1.clip_by_global_norm(grads, 1.0)[0], variables, strict=True))
        session = v1.Session(graph=g)
        session.run(v1.global_variables_initializer())
    feeds = []
    for n, length in zip(ids(40, 12, low=8), ids(30, 12, seed=1, low=6), strict=True):
        feeds.append({words: ids(3000, n, length), sizes: ids(length, n, low=1), labels: ids(6, n)})
    return lambda: float(sum(session.run([loss, train], feed)[0] for feed in feeds))


@workload
def modulated_fit_callbacks(tf):
    """`fit` of a functional model with a layer of its own (features scaled and shifted by a condition), and five callbacks."""
    keras = tf.keras

    class Modulate(keras.layers.Layer):
        def build(self, shapes):
            width = shapes[0][-1]
            self.scale, self.shift = keras.layers.Dense(width), keras.layers.Dense(width)
            self.scale.build(shapes[1])
            self.shift.build(shapes[1])
            super().build(shapes)

        def call(self, inputs):
            x, condition = inputs
            return x * (1.0 + self.scale(condition)) + self.shift(condition)

    class Slopes(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            self.last = logs["loss"]
    x, c = keras.Input((24,)), keras.Input((5,))
    h = keras.layers.Dense(48, activation="relu")(x)
    for _ in range(3):
        h = keras.layers.add([h, keras.layers.Dense(48)(keras.layers.Activation("gelu")(Modulate()([h, c])))])
    net = keras.Model([x, c], keras.layers.Dense(1)(keras.layers.LayerNormalization()(h)))
    net.compile("adam", "huber", metrics=["mae"])
    data, y = [normal(1000, 24), normal(1000, 5, seed=1)], normal(1000, 1, seed=2)
    folder = tempfile.mkdtemp()

    def call():
        callbacks = [keras.callbacks.LearningRateScheduler(lambda epoch, rate: 1e-3 * 0.9 ** epoch),
                     keras.callbacks.ReduceLROnPlateau(patience=1), keras.callbacks.TerminateOnNaN(), Slopes(),
                     keras.callbacks.CSVLogger(os.path.join(folder, "log.csv"))]
        history = net.fit(data, y, batch_size=50, epochs=2, validation_split=0.2, callbacks=callbacks, verbose=0)
        return history.history["val_loss"][-1]
    return call


@workload
def captioned_images(tf):
    """A pipeline of images with captions: PNG decoded and resized, words looked up, padded batches by length, zipped."""
    r = np.random.RandomState(0)
    pictures = [tf.io.encode_png(tf.constant(r.randint(0, 255, (48, 64, 3)), tf.uint8)).numpy() for _ in range(16)]
    captions = [" ".join(f"Word{i}," for i in r.randint(0, 60, r.randint(3, 12))) for _ in range(64)]
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(
        tf.constant([f"word{i}" for i in range(50)]), tf.range(2, 52, dtype=tf.int64)), 1)

    def picture(png):
        image = tf.image.resize(tf.image.decode_png(png, 3), [32, 32], "area")
        return (tf.image.central_crop(image, 0.75) - 127.0) / 64.0

    def caption(text):
        words = tf.strings.split(tf.strings.regex_replace(tf.strings.lower(text), "[^a-z0-9 ]", ""))
        return tf.concat([[0], table.lookup(words)], 0)
    data = tf.data.Dataset.from_tensor_slices(pictures).map(picture, num_parallel_calls=2).cache().repeat(4)
    texts = tf.data.Dataset.from_tensor_slices(captions).map(caption)
    data = tf.data.Dataset.zip((data, texts))
    data = data.bucket_by_sequence_length(lambda image, words: tf.shape(words)[0], [6, 9], [8, 8, 8])

    def call():
        return float(sum(float(tf.reduce_mean(images)) + float(tf.reduce_sum(words)) for images, words in data.prefetch(2)))
    return call


@workload
def graph_isomorphism(tf):
    """Training of a graph isomorphism network on batches of graphs of changing sizes: segment sums, batch norm, a readout."""
    keras, r = tf.keras, np.random.RandomState(0)
    batches = []
    for _ in range(5):
        sizes = r.randint(6, 20, 32)
        starts, graph = np.cumsum(sizes) - sizes, np.repeat(np.arange(32), sizes)
        edges = [(starts[i] + r.randint(0, sizes[i], (3 * sizes[i], 2))) for i in range(32)]
        made = (r.randn(len(graph), 16).astype("f"), np.concatenate(edges), graph, r.randint(0, 3, 32))
        batches.append([tf.constant(v) for v in made])
    dense = keras.layers.Dense
    mlps = [keras.Sequential([dense(32, activation="relu"), dense(32), keras.layers.BatchNormalization()]) for _ in range(3)]
    eps, head, optimizer = tf.Variable(tf.zeros([3])), keras.layers.Dense(3), keras.optimizers.Adam(1e-3)

    @tf.function(reduce_retracing=True)
    def step(x, edges, graph, y):
        with tf.GradientTape() as tape:
            logits = 0.0
            for i, mlp in enumerate(mlps):
                near = tf.math.unsorted_segment_sum(tf.gather(x, edges[:, 0]), edges[:, 1], tf.shape(x)[0])
                x = tf.nn.relu(mlp((1.0 + eps[i]) * x + near, training=True))
                logits += head(tf.math.segment_sum(x, graph))
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits))
        weights = [eps, *head.trainable_variables, *(w for mlp in mlps for w in mlp.trainable_variables)]
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss
    mlps[0](batches[0][0])
    for mlp in mlps[1:]:
        mlp(tf.zeros([2, 32]))
    head(tf.zeros([2, 32]))
    optimizer.build([eps, *head.trainable_variables, *(w for mlp in mlps for w in mlp.trainable_variables)])
    return lambda: float(sum(float(step(*batch)) for batch in batches))


@workload
def sound_events(tf):
    """Training on raw sound: spectrograms and mel bands inside of the step, random masks, convolutions, binary losses."""
    keras = tf.keras
    mel = tf.signal.linear_to_mel_weight_matrix(40, 129, 8000)
    net = keras.Sequential([keras.layers.Conv1D(64, 5, 2, "same", activation="relu"), keras.layers.LayerNormalization(),
                            keras.layers.Conv1D(64, 5, 2, "same", activation="relu"), keras.layers.GlobalAveragePooling1D(),
                            keras.layers.Dense(10)])
    x, y = tf.constant(normal(8, 8000)), tf.constant(ids(2, 8, 10).astype("f"))
    net(tf.zeros([1, 60, 40]))
    optimizer = keras.optimizers.AdamW(1e-3)
    optimizer.build(net.trainable_variables)

    @tf.function
    def step(x, y):
        bands = tf.math.log(tf.abs(tf.signal.stft(x, 256, 128)) @ mel + 1e-4)
        bands -= tf.reduce_mean(bands, [1, 2], keepdims=True)
        start = tf.random.uniform([8, 1], 0, 50, tf.int32)
        at = tf.range(tf.shape(bands)[1])[None]
        bands *= 1.0 - tf.cast((at >= start) & (at < start + 8), tf.float32)[:, :, None]
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(y, net(bands, training=True)))
        optimizer.apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables, strict=True))
        return loss
    return lambda: float(step(x, y))


@workload
def pole_environment(tf):
    """An actor and critic, with 32 poles on carts simulated inside of the function: 40 steps by a loop, returns, one update."""
    keras = tf.keras
    net = keras.Sequential([keras.layers.Dense(64, activation="tanh"), keras.layers.Dense(3)])
    net(tf.zeros([1, 4]))
    optimizer = keras.optimizers.RMSprop(1e-3)
    optimizer.build(net.trainable_variables)

    def move(s, push):
        x, v, angle, w = tf.unstack(s, axis=1)
        sin, cos = tf.sin(angle), tf.cos(angle)
        pull = (push + 0.05 * w ** 2 * sin) / 1.1
        turn = (9.8 * sin - cos * pull) / (0.5 * (4.0 / 3.0 - 0.1 * cos ** 2 / 1.1))
        along = pull - 0.05 * turn * cos / 1.1
        s = tf.stack([x + 0.02 * v, v + 0.02 * along, angle + 0.02 * w, w + 0.02 * turn], 1)
        fallen = (tf.abs(s[:, 0]) > 2.4) | (tf.abs(s[:, 2]) > 0.2)
        return tf.where(fallen[:, None], tf.random.uniform([32, 4], -0.05, 0.05), s), 1.0 - tf.cast(fallen, tf.float32)

    @tf.function
    def episode(s):
        states, actions, rewards = (tf.TensorArray(t, 40) for t in (tf.float32, tf.int64, tf.float32))
        for t in tf.range(40):
            action = tf.random.categorical(net(s)[:, :2], 1)[:, 0]
            states, actions = states.write(t, s), actions.write(t, action)
            s, reward = move(s, tf.where(action == 1, 10.0, -10.0))
            rewards = rewards.write(t, reward)
        got, total = rewards.stack(), tf.zeros([32])
        returns = tf.TensorArray(tf.float32, 40)
        for t in tf.range(39, -1, -1):
            total = got[t] + 0.97 * total * got[t]
            returns = returns.write(t, total)
        target = tf.reshape(returns.stack(), [-1])
        with tf.GradientTape() as tape:
            out = net(tf.reshape(states.stack(), [-1, 4]))
            gain = target - out[:, 2]
            chosen = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.reshape(actions.stack(), [-1]), out[:, :2])
            loss = tf.reduce_mean(chosen * tf.stop_gradient(gain)) + 0.5 * tf.reduce_mean(gain ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables, strict=True))
        return loss, s
    state = [tf.zeros([32, 4])]

    def call():
        loss, state[0] = episode(state[0])
        return float(loss)
    return call


@workload
def demand_forecast(tf):
    """`fit` on windows of many series: an LSTM gives mean and spread of each next value, a quantile is the metric."""
    keras = tf.keras
    series = np.cumsum(normal(20, 200), 1) + 5 * np.sin(np.arange(200) / 7)
    windows = tf.data.Dataset.from_tensor_slices(series.astype("f")).flat_map(
        lambda row: tf.data.Dataset.from_tensor_slices(row).window(29, 12, drop_remainder=True).flat_map(lambda w: w.batch(29)))
    data = windows.map(lambda w: (w[:-1, None] / 10.0, w[1:, None] / 10.0)).cache().shuffle(300, seed=1).batch(32).prefetch(1)

    def likelihood(y, out):
        mean, spread = out[..., :1], tf.nn.softplus(out[..., 1:]) + 1e-3
        return tf.reduce_mean(0.5 * ((y - mean) / spread) ** 2 + tf.math.log(spread), -1)

    def pinball(y, out):
        error = y - (out[..., :1] + 1.28 * tf.nn.softplus(out[..., 1:]))
        return tf.maximum(0.9 * error, -0.1 * error)
    net = keras.Sequential([keras.layers.LSTM(40, return_sequences=True), keras.layers.Dropout(0.1), keras.layers.Dense(2)])
    net.compile(keras.optimizers.Adam(1e-3, clipnorm=1.0), likelihood, metrics=[pinball])
    return lambda: net.fit(data, epochs=1, verbose=0).history["loss"][-1]


@workload
def click_of_one_user(tf):
    """Inference for one row at a time, by a signature of strings and numbers: tables, hashes, embeddings, crosses."""
    keras = tf.keras
    cities = tf.lookup.StaticVocabularyTable(tf.lookup.KeyValueTensorInitializer(
        tf.constant([f"city{i}" for i in range(300)]), tf.range(300, dtype=tf.int64)), 4)
    tables = [tf.Variable(0.1 * normal(n, 8)) for n in (304, 1000, 5000)]
    dense = keras.layers.Dense
    net = keras.Sequential([dense(64, activation="relu"), dense(32, activation="relu"), dense(1)])
    net(tf.zeros([1, 32]))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string), tf.TensorSpec([None], tf.string),
                                  tf.TensorSpec([None, 8], tf.float32)])
    def serve(city, device, numbers):
        crossed = tf.strings.to_hash_bucket_fast(tf.strings.join([city, device], "_x_"), 5000)
        rows = [tf.gather(tables[0], cities.lookup(city)), tf.gather(tables[1], tf.strings.to_hash_bucket_fast(device, 1000)),
                tf.gather(tables[2], crossed)]
        scaled = tf.math.log1p(tf.abs(numbers)) * tf.sign(numbers)
        return {"click": tf.sigmoid(net(tf.concat([*rows, scaled], 1)))[:, 0], "bucket": crossed}
    rows = [(tf.constant([f"city{i}"]), tf.constant([f"phone-{i % 7}"]), tf.constant(normal(1, 8, seed=i))) for i in range(20)]
    return lambda: float(sum(float(serve(*row)["click"][0]) for row in rows))


@workload
def quantized_classifier(tf):
    """A step of training under simulated quantization, then the same layers on 8-bit integers with 32-bit sums."""
    ws = [tf.Variable(0.1 * normal(*dims)) for dims in ((3, 3, 1, 16), (3136, 32), (32, 10))]
    ranges = [tf.Variable([-1.0, 1.0]) for _ in range(3)]
    x, y = tf.constant(normal(16, 28, 28, 1)), tf.constant(ids(10, 16))
    optimizer = tf.keras.optimizers.SGD(0.01, 0.9)
    optimizer.build(ws + ranges)

    def fake(v, at):
        return tf.quantization.fake_quant_with_min_max_vars(v, at[0], at[1], 8, True)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            h = tf.nn.relu6(tf.nn.conv2d(x, fake(ws[0], ranges[0]), 2, "SAME"))
            h = tf.nn.relu6(tf.reshape(h, [16, -1]) @ fake(ws[1], ranges[1]))
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, h @ fake(ws[2], ranges[2])))
        grads = tape.gradient(loss, ws + ranges)
        optimizer.apply_gradients(zip(grads, ws + ranges, strict=True))
        h, low, high = tf.quantization.quantize(h, -6.0, 6.0, tf.qint8, "SCALED")
        w, below, above = tf.quantization.quantize(ws[2], -1.0, 1.0, tf.qint8, "SCALED")
        sums = tf.matmul(tf.bitcast(h, tf.int8), tf.bitcast(w, tf.int8), output_type=tf.int32)
        logits = tf.cast(sums, tf.float32) * (high / 127.0) * (above / 127.0)
        return loss + 1e-3 * tf.reduce_mean(tf.cast(tf.argmax(logits, 1), tf.float32))
    return lambda: float(step(x, y))


@workload
def molecular_dynamics(tf):
    """Atoms in a periodic box in float64: velocity Verlet for 20 steps in a loop, forces as gradients of pair energies."""
    r = np.random.RandomState(0)
    start = tf.constant(r.rand(48, 3) * 6.0)

    def energy(x):
        gap = x[:, None] - x[None]
        gap -= 6.0 * tf.round(gap / 6.0)
        near = tf.maximum(tf.reduce_sum(gap ** 2, -1), 0.6) + 100.0 * tf.eye(48, dtype=tf.float64)
        sixth = near ** -3
        return 2.0 * tf.reduce_sum(tf.where(near < 6.25, sixth * (sixth - 1.0), 0.0))

    def force(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            total = energy(x)
        return -tape.gradient(total, x)

    @tf.function
    def run(x):
        def body(t, x, v, f):
            v += 0.001 * f
            x = tf.math.floormod(x + 0.002 * v, 6.0)
            f = force(x)
            return t + 1, x, v + 0.001 * f, f
        _, x, v, _ = tf.while_loop(lambda t, *_: t < 20, body, [0, x, tf.zeros_like(x), force(x)])
        return energy(x) + 0.5 * tf.reduce_sum(v ** 2)
    return lambda: float(run(start))


@workload
def bfloat16_by_hand(tf):
    """A gated network in bfloat16 with weights in float32 and a scaled loss, by casts of the user, and averages of weights."""
    dims = (128, 256, 256, 10)
    ws = [tf.Variable(0.05 * normal(a, 2 * b if b != 10 else b)) for a, b in zip(dims, dims[1:], strict=False)]
    slow = [tf.Variable(w) for w in ws]
    optimizer = tf.keras.optimizers.Adam(1e-3)
    optimizer.build(ws)
    x, y = tf.constant(normal(64, 128)), tf.constant(ids(10, 64))

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            h = tf.cast(x, tf.bfloat16)
            for w in ws[:-1]:
                a, b = tf.split(h @ tf.cast(w, tf.bfloat16), 2, 1)
                h = a * tf.sigmoid(b)
            logits = tf.cast(h @ tf.cast(ws[-1], tf.bfloat16), tf.float32)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits))
            scaled = 1024.0 * loss
        grads = [g / 1024.0 for g in tape.gradient(scaled, ws)]
        optimizer.apply_gradients(zip(grads, ws, strict=True))
        for s, w in zip(slow, ws, strict=True):
            s.assign_sub(0.01 * (s - w))
        return loss
    return lambda: float(step(x, y))


@workload
def quantum_circuit(tf):
    """Eight qubits in complex64: layers of rotations and controlled signs by einsum, an expectation, a gradient step."""
    angles = tf.Variable(0.1 * normal(4, 8, 2))
    signs = tf.constant(np.where([[bin(i & (i >> 1)).count("1") % 2] for i in range(256)], -1.0, 1.0)[:, 0].astype("c8"))
    ones = tf.constant([[8.0 - 2.0 * bin(i).count("1")] for i in range(256)])[:, 0]

    def rotation(a, b):
        c, s = tf.complex(tf.cos(a / 2), 0.0), tf.complex(tf.sin(a / 2), 0.0)
        turn = tf.exp(tf.complex(0.0, b / 2))
        return tf.stack([tf.stack([c * tf.math.conj(turn), -s * tf.math.conj(turn)]), tf.stack([s * turn, c * turn])])

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            state = tf.one_hot(0, 256, dtype=tf.complex64)
            for layer in range(4):
                for q in range(8):
                    state = tf.reshape(state, [2 ** q, 2, -1])
                    state = tf.einsum("ij,ajb->aib", rotation(angles[layer, q, 0], angles[layer, q, 1]), state)
                state = tf.reshape(state, [256]) * signs
            energy = tf.reduce_sum(ones * tf.abs(state) ** 2)
        angles.assign_sub(0.05 * tape.gradient(energy, angles))
        return energy
    return lambda: float(step())
