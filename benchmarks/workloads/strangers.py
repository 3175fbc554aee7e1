"""Eighteen programs of further kinds beside TensorFlow on the CPU, written before anyone profiled them: eager loops without a
function, derivatives of second order, samplers, trees, hidden states, parsing and augmentation in pipelines, sessions of many
small ops.
"""
from __future__ import annotations

import os
import tempfile

import numpy as np

from workloads import work_table

WORK, workload = work_table()


def _rand(*dims, seed=0):
    return np.random.RandomState(seed).rand(*dims).astype("f")


def _normal(*dims, seed=0):
    return np.random.RandomState(seed).randn(*dims).astype("f")


@workload
def eager_cnn_loop(tf):
    """A convolutional network with batch normalization and pooling, trained eagerly without a function."""
    K, x, y = tf.keras.layers, tf.constant(_rand(16, 28, 28, 1)), tf.constant(np.arange(16) % 10)
    net = tf.keras.Sequential([tf.keras.Input([28, 28, 1]), K.Conv2D(16, 3, padding="same"), K.BatchNormalization(), K.ReLU(),
                               K.MaxPooling2D(), K.Conv2D(32, 3, activation="relu"), K.AveragePooling2D(2), K.Flatten(),
                               K.Dropout(0.1), K.Dense(10)])
    opt, cost = tf.keras.optimizers.Adam(1e-3), tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def call():
        with tf.GradientTape() as tape:
            loss = cost(y, net(x, training=True))
        weights = net.trainable_variables
        opt.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return float(loss)
    return call


@workload
def eager_low_level(tf):
    """Variables and functions of the user, no Keras: softmax regression with momentum by hand, eagerly."""
    x, y = tf.constant(_rand(32, 50)), tf.one_hot(np.arange(32) % 5, 5)
    w, b = tf.Variable(tf.zeros([50, 5])), tf.Variable(tf.zeros([5]))
    slots = [tf.Variable(tf.zeros_like(v)) for v in (w, b)]

    def call():
        for _ in range(10):
            with tf.GradientTape() as tape:
                p = tf.nn.softmax(tf.matmul(x, w) + b)
                loss = -tf.reduce_mean(tf.reduce_sum(y * tf.math.log(p + 1e-8), axis=1)) + 1e-3 * tf.reduce_sum(w ** 2)
            for v, m, g in zip((w, b), slots, tape.gradient(loss, [w, b]), strict=True):
                m.assign(0.9 * m - 0.1 * g)
                v.assign_add(m)
        return float(loss)
    return call


@workload
def newton_hessian(tf):
    """Newton steps of a logistic regression: gradient, Hessian by a nested tape's jacobian, and a solve."""
    x, y = tf.constant(_normal(200, 12)), tf.constant((_rand(200) > 0.5).astype("f"))
    w = tf.Variable(tf.zeros([12]))

    @tf.function
    def step():
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                logits = tf.linalg.matvec(x, w)
                loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(y, logits)) + 0.01 * tf.reduce_sum(w * w)
            g = inner.gradient(loss, w)
        h = outer.jacobian(g, w)
        w.assign_sub(0.5 * tf.linalg.solve(h, g[:, None])[:, 0])
        return loss
    return lambda: float(step())


@workload
def fisher_jacobian(tf):
    """Jacobians of a network's outputs per example, as for natural gradients."""
    K, x = tf.keras.layers, tf.constant(_normal(8, 10))
    net = tf.keras.Sequential([tf.keras.Input([10]), K.Dense(24, "tanh"), K.Dense(4)])

    @tf.function
    def fisher(x):
        with tf.GradientTape() as tape:
            out = net(x)
        rows = [tf.reshape(j, [32, -1]) for j in tape.jacobian(out, net.trainable_variables)]
        j = tf.concat(rows, 1)
        return tf.linalg.trace(tf.matmul(j, j, transpose_b=True))
    return lambda: float(fisher(x))


@workload
def hamiltonian_sampler(tf):
    """Hamiltonian Monte Carlo on a correlated Gaussian: leapfrog steps inside of a loop of samples that may be refused."""
    precision = tf.constant(np.linalg.inv(np.cov(_normal(6, 50))).astype("f"))

    @tf.function
    def energy_gradient(q):
        with tf.GradientTape() as tape:
            tape.watch(q)
            u = 0.5 * tf.reduce_sum(q * tf.linalg.matvec(precision, q))
        return u, tape.gradient(u, q)

    @tf.function
    def chain(q):
        accepted = tf.constant(0)
        for _ in tf.range(20):
            p = tf.random.normal([6], seed=3)
            u0, g = energy_gradient(q)
            h0, new = u0 + 0.5 * tf.reduce_sum(p * p), q
            for _ in tf.range(5):
                p = p - 0.05 * g
                new = new + 0.1 * p
                u, g = energy_gradient(new)
                p = p - 0.05 * g
            if tf.random.uniform([], seed=5) < tf.exp(h0 - u - 0.5 * tf.reduce_sum(p * p)):
                q, accepted = new, accepted + 1
        return q, accepted
    return lambda: float(chain(tf.zeros([6]))[1])


@workload
def boosted_trees(tf):
    """Prediction of 60 trees of depth 6 by gathers: node numbers walk down all trees at once."""
    r = np.random.RandomState(0)
    feature, cut = tf.constant(r.randint(0, 20, [60, 63])), tf.constant(_rand(60, 63))
    leaf, x = tf.constant(_normal(60, 64)), tf.constant(_rand(256, 20))

    @tf.function(input_signature=[tf.TensorSpec([None, 20])])
    def predict(x):
        trees = tf.range(60)[None]
        node = tf.zeros([tf.shape(x)[0], 60], tf.int32)
        for _ in range(6):
            at = tf.stack([tf.broadcast_to(trees, tf.shape(node)), node], -1)
            value = tf.gather(x, tf.gather_nd(feature, at), batch_dims=1)
            node = 2 * node + 1 + tf.cast(value > tf.gather_nd(cut, at), tf.int32)
        at = tf.stack([tf.broadcast_to(trees, tf.shape(node)), node - 63], -1)
        return tf.reduce_sum(tf.gather_nd(leaf, at), 1)
    return lambda: float(tf.reduce_mean(predict(x)))


@workload
def character_generation(tf):
    """Text from a stateful LSTM, a character a call, drawn with a temperature."""
    K = tf.keras.layers
    embed, cell, out = K.Embedding(60, 32), K.LSTMCell(64), K.Dense(60)

    @tf.function
    def step(char, states):
        h, states = cell(embed(char), states)
        return tf.random.categorical(out(h) / 0.8, 1, seed=1)[:, 0], states

    def call():
        char, states = tf.constant([3], tf.int64), [tf.zeros([1, 64])] * 2
        text = []
        for _ in range(30):
            char, states = step(char, states)
            text.append(int(char[0]))
        return float(len(text))
    return call


@workload
def replay_q_learning(tf):
    """A small environment in numpy, actions by a network's call on one row, training on samples of a replay buffer."""
    K, r = tf.keras.layers, np.random.RandomState(0)

    def network():
        return tf.keras.Sequential([tf.keras.Input([4]), K.Dense(32, "relu"), K.Dense(2)])
    online, target, opt = network(), network(), tf.keras.optimizers.Adam(1e-3)
    target.set_weights(online.get_weights())

    @tf.function
    def train(s, a, reward, after, done):
        best = reward + 0.99 * (1.0 - done) * tf.reduce_max(target(after), 1)
        with tf.GradientTape() as tape:
            q = tf.reduce_sum(online(s) * tf.one_hot(a, 2), 1)
            loss = tf.keras.losses.Huber()(best[:, None], q[:, None])
        opt.apply_gradients(zip(tape.gradient(loss, online.trainable_variables), online.trainable_variables, strict=True))
        return loss
    state, buffer = r.randn(4).astype("f"), []

    def call():
        nonlocal state
        for _ in range(10):
            action = r.randint(2) if r.rand() < 0.1 else int(np.argmax(online(state[None]).numpy()[0]))
            after = (0.9 * state + 0.1 * r.randn(4) + 0.05 * action).astype("f")
            buffer.append((state, action, np.float32(-abs(after[0])), after, np.float32(r.rand() < 0.05)))
            state = after
        rows = [buffer[i] for i in r.randint(len(buffer), size=32)]
        del buffer[:-500]
        loss = train(*(tf.convert_to_tensor(np.array(c)) for c in zip(*rows, strict=True)))
        for a, b in zip(target.trainable_variables, online.trainable_variables, strict=True):
            a.assign(0.99 * a + 0.01 * b)
        return float(loss)
    return call


@workload
def v1_controller_many_small(tf):
    """1.x: a session fed a few numbers, a graph of many small ops with two variables updated, one observation a run."""
    v1, graph = tf.compat.v1, tf.Graph()
    with graph.as_default():
        seen = v1.placeholder(tf.float32, [3])
        state = v1.get_variable("s", initializer=tf.zeros([3]), trainable=False)
        cov = v1.get_variable("p", initializer=tf.eye(3), trainable=False)
        f = tf.constant([[1, 0.1, 0], [0, 1, 0.1], [0, 0, 1]], tf.float32)
        moved = tf.squeeze(tf.matmul(f, state[:, None]), 1)
        spread = tf.matmul(tf.matmul(f, cov), f, transpose_b=True) + 0.01 * tf.eye(3)
        gain = tf.matmul(spread, tf.linalg.inv(spread + 0.1 * tf.eye(3)))
        error = seen - moved
        new = moved + tf.squeeze(tf.matmul(gain, error[:, None]), 1)
        left = tf.matmul(tf.eye(3) - gain, spread)
        with tf.control_dependencies([new, left]):
            updates = tf.group(v1.assign(state, new), v1.assign(cov, 0.5 * (left + tf.transpose(left))))
        score = tf.reduce_sum(error * error) + 0.1 * tf.norm(new) + tf.linalg.trace(left)
        session = v1.Session(graph=graph)
        session.run(v1.global_variables_initializer())
    rows = _normal(20, 3)
    return lambda: sum(float(session.run([score, updates], {seen: row})[0]) for row in rows)


@workload
def v1_monitored_training(tf):
    """1.x: a monitored session with a global step, hooks and an iterator of a dataset."""
    v1 = tf.compat.v1
    x, y = _rand(1024, 20), _rand(1024, 1, seed=1)

    def call():
        with tf.Graph().as_default():
            v1.set_random_seed(0)
            ds = v1.data.Dataset.from_tensor_slices((x, y)).shuffle(100, seed=1).repeat().batch(32)
            a, b = v1.data.make_one_shot_iterator(ds).get_next()
            h = tf.nn.relu(tf.matmul(a, v1.get_variable("w", [20, 32])) + v1.get_variable("b", [32]))
            loss = v1.losses.mean_squared_error(b, tf.matmul(h, v1.get_variable("v", [32, 1])))
            step = v1.train.get_or_create_global_step()
            train = v1.train.AdamOptimizer(0.01).minimize(loss, global_step=step)
            with v1.train.MonitoredSession(hooks=[v1.train.StopAtStepHook(60), v1.train.NanTensorHook(loss)]) as session:
                while not session.should_stop():
                    value = session.run([loss, train])[0]
        return float(value)
    return call


@workload
def parsed_padded_batches(tf):
    """Records of sequences of different lengths: interleaved files, parse_single_example, padded batches."""
    r, folder = np.random.RandomState(0), tempfile.mkdtemp()
    paths = [os.path.join(folder, f"part{i}") for i in range(4)]

    def feature(**kinds):
        return tf.train.Feature(**kinds)
    for path in paths:
        with tf.io.TFRecordWriter(path) as writer:
            for _ in range(150):
                ids, score = r.randint(0, 99, r.randint(3, 20)).tolist(), r.rand(4).tolist()
                writer.write(tf.train.Example(features=tf.train.Features(feature={
                    "ids": feature(int64_list=tf.train.Int64List(value=ids)),
                    "score": feature(float_list=tf.train.FloatList(value=score)),
                    "name": feature(bytes_list=tf.train.BytesList(value=[b"row"]))})).SerializeToString())

    def parse(record):
        found = tf.io.parse_single_example(record, {
            "ids": tf.io.VarLenFeature(tf.int64), "score": tf.io.FixedLenFeature([4], tf.float32),
            "name": tf.io.FixedLenFeature([], tf.string)})
        ids = tf.sparse.to_dense(found["ids"])
        return {"ids": ids, "length": tf.size(ids), "name": found["name"]}, tf.reduce_sum(found["score"])

    def call():
        ds = tf.data.Dataset.from_tensor_slices(paths).interleave(tf.data.TFRecordDataset, cycle_length=4, block_length=2)
        ds = ds.map(parse).filter(lambda row, _: row["length"] > 4).padded_batch(32)
        return float(sum(int(tf.reduce_sum(row["ids"])) for row, _ in ds))
    return call


@workload
def augmented_images(tf):
    """Random crops, flips, colours and cut-outs of images in a parallel map, then batches."""
    images = (_rand(96, 40, 40, 3) * 255).astype("u1")

    def augment(image):
        image = tf.image.convert_image_dtype(image, tf.float32)
        image = tf.image.random_crop(tf.pad(image, [[2, 2], [2, 2], [0, 0]]), [32, 32, 3], seed=1)
        image = tf.image.random_flip_left_right(image, seed=2)
        image = tf.image.random_brightness(tf.image.random_contrast(image, 0.8, 1.2, seed=3), 0.1, seed=4)
        image = tf.image.random_saturation(image, 0.8, 1.2, seed=5)
        top, left = (tf.random.uniform([], 0, 24, tf.int32, seed=s) for s in (6, 7))
        rows, columns = tf.range(32)[:, None], tf.range(32)[None]
        inside = (rows >= top) & (rows < top + 8) & (columns >= left) & (columns < left + 8)
        return tf.where(inside[..., None], 0.5, tf.clip_by_value(image, 0.0, 1.0))

    def call():
        ds = tf.data.Dataset.from_tensor_slices(images).map(augment, num_parallel_calls=2).batch(32)
        return sum(float(tf.reduce_mean(b)) for b in ds)
    return call


@workload
def baum_welch(tf):
    """Expectation maximization of a hidden Markov model: forward and backward scans in a while loop."""
    seen = tf.constant(np.random.RandomState(0).randint(0, 6, 60))

    @tf.function
    def fit(a, b, start):
        n = tf.shape(seen)[0]
        for _ in tf.range(3):
            likely = tf.gather(tf.transpose(b), seen)
            forward, scale = tf.TensorArray(tf.float32, 60), tf.TensorArray(tf.float32, 60)
            alpha = start * likely[0]
            for t in tf.range(n):
                if t > 0:
                    alpha = tf.linalg.matvec(a, alpha, transpose_a=True) * likely[t]
                total = tf.reduce_sum(alpha)
                alpha = alpha / total
                forward, scale = forward.write(t, alpha), scale.write(t, total)
            alphas, scales = forward.stack(), scale.stack()
            beta, pairs, gammas = tf.ones([4]), tf.zeros([4, 4]), tf.TensorArray(tf.float32, 60)
            for t in tf.range(n - 1, -1, -1):
                gammas = gammas.write(t, alphas[t] * beta)
                after = likely[t] * beta / scales[t]
                if t > 0:
                    pairs += a * alphas[t - 1][:, None] * after[None]
                beta = tf.linalg.matvec(a, after)
            gamma = gammas.stack()
            start = gamma[0] / tf.reduce_sum(gamma[0])
            a = pairs / tf.reduce_sum(pairs, 1, keepdims=True)
            b = tf.transpose(tf.math.unsorted_segment_sum(gamma, seen, 6)) / tf.reduce_sum(gamma, 0)[:, None]
        return tf.reduce_sum(tf.math.log(scales)), a
    a, b = ((lambda m: m / m.sum(1, keepdims=True))(_rand(4, k, seed=k) + 0.2) for k in (4, 6))
    args = [tf.constant(v) for v in (a, b, np.full(4, 0.25, "f"))]
    return lambda: float(fit(*args)[0])


@workload
def straight_through(tf):
    """A network with quantized weights and activations: custom gradients around rounding, in a function."""
    x, y = tf.constant(_normal(64, 40)), tf.constant(_normal(64, 8, seed=1))
    weights = [tf.Variable(0.2 * _normal(a, b, seed=a + b)) for a, b in ((40, 64), (64, 64), (64, 8))]
    opt = tf.keras.optimizers.SGD(0.01)

    @tf.custom_gradient
    def quantize(v):
        scale = tf.reduce_max(tf.abs(v)) / 7.0
        def grad(upstream):
            return upstream * tf.cast(tf.abs(v) <= 7.0 * scale, tf.float32)
        return tf.round(v / scale) * scale, grad

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            h = x
            for w in weights[:-1]:
                h = quantize(tf.nn.relu(tf.matmul(h, quantize(w))))
            loss = tf.reduce_mean(tf.square(tf.matmul(h, weights[-1]) - y))
        opt.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss
    return lambda: float(step(x, y))


@workload
def k_means(tf):
    """Lloyd's iterations until the centres stop, by distances, argmin and segment means."""
    x, first = tf.constant(_rand(500, 8)), tf.constant(_rand(10, 8, seed=1))

    @tf.function
    def fit(x, centres):
        moved, steps = tf.constant(1.0), tf.constant(0)
        while moved > 1e-4 and steps < 30:
            distance = tf.reduce_sum(tf.square(x[:, None] - centres[None]), -1)
            near = tf.argmin(distance, 1, tf.int32)
            counts = tf.maximum(tf.math.unsorted_segment_sum(tf.ones([500]), near, 10), 1.0)
            new = tf.math.unsorted_segment_sum(x, near, 10) / counts[:, None]
            moved, centres, steps = tf.reduce_max(tf.abs(new - centres)), new, steps + 1
        return tf.reduce_sum(centres), steps
    return lambda: float(fit(x, first)[0])


@workload
def neural_ode(tf):
    """A network as the right side of a differential equation: Runge-Kutta steps unrolled by Python, and the gradient."""
    K, opt = tf.keras.layers, tf.keras.optimizers.Adam(1e-3)
    net = tf.keras.Sequential([tf.keras.Input([3]), K.Dense(32, "tanh"), K.Dense(2)])
    y0, wanted = tf.constant(_normal(16, 2)), tf.constant(_normal(16, 2, seed=1))

    def right(y, t):
        return net(tf.concat([y, tf.fill([16, 1], t)], 1))

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            y, h = y0, 0.1
            for i in range(8):
                t = h * i
                k1 = right(y, t)
                k2 = right(y + 0.5 * h * k1, t + 0.5 * h)
                k3 = right(y + 0.5 * h * k2, t + 0.5 * h)
                k4 = right(y + h * k3, t + h)
                y += h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
            loss = tf.reduce_mean(tf.square(y - wanted))
        opt.apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables, strict=True))
        return loss
    return lambda: float(step())


@workload
def spectrogram_augmented(tf):
    """Noise, spectrogram, mel scale and masked bands of waveforms in a pipeline."""
    waves = _normal(24, 4000)
    mel = tf.signal.linear_to_mel_weight_matrix(40, 129, 8000, 20.0, 4000.0)

    def features(wave):
        wave = wave + tf.random.normal([4000], 0.0, 0.01, seed=1)
        power = tf.square(tf.abs(tf.signal.stft(wave, 256, 128)))
        log = tf.math.log(tf.matmul(power, mel) + 1e-6)
        start = tf.random.uniform([], 0, 30, tf.int32, seed=2)
        band = tf.range(40)
        return tf.where((band >= start) & (band < start + 8), tf.reduce_mean(log), log)

    def call():
        ds = tf.data.Dataset.from_tensor_slices(waves).map(features).batch(8)
        return sum(float(tf.reduce_mean(b)) for b in ds)
    return call


@workload
def sparse_bags(tf):
    """Words of lines as sparse counts, a product of sparse and dense matrices, trained by a sparse-aware optimizer."""
    r = np.random.RandomState(0)
    lines = tf.constant([" ".join(f"w{i}" for i in r.randint(0, 400, r.randint(4, 16))) for _ in range(64)])
    table = tf.lookup.StaticVocabularyTable(tf.lookup.KeyValueTensorInitializer(
        tf.constant([f"w{i}" for i in range(380)]), tf.range(380, dtype=tf.int64)), 8)
    w, b, y = tf.Variable(0.1 * _normal(388, 16)), tf.Variable(tf.zeros([16])), tf.constant(np.arange(64) % 16)
    opt = tf.keras.optimizers.Adagrad(0.1)

    @tf.function
    def step(lines):
        words = tf.strings.split(lines).to_sparse()
        ids = tf.SparseTensor(words.indices, table.lookup(words.values), words.dense_shape)
        at = tf.stack([ids.indices[:, 0], ids.values], 1)
        bags = tf.sparse.reorder(tf.SparseTensor(at, tf.ones_like(ids.values, tf.float32), [64, 388]))
        with tf.GradientTape() as tape:
            logits = tf.sparse.sparse_dense_matmul(bags, w) + b
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits))
        opt.apply_gradients(zip(tape.gradient(loss, [w, b]), [w, b], strict=True))
        return loss
    return lambda: float(step(lines))
