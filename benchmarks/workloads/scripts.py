"""Scripts without Keras models: eager tapes, loops and arrays in functions, jacobians, sessions with queues, numerical code,
input pipelines, checkpoints, samplers."""
from __future__ import annotations

import os
import tempfile
import threading

import numpy as np

from workloads import work_table

WORK, workload = work_table()


def normal(*dims, seed=0):
    return np.random.RandomState(seed).randn(*dims).astype("f")


def ids(high, *dims, seed=0, low=0):
    return np.random.RandomState(seed).randint(low, high, dims)


@workload
def epidemic_arrays(tf):
    """A stochastic simulation in a `tf.while_loop` that writes to three TensorArrays."""
    @tf.function
    def simulate(beta):
        def body(t, s, i, r, kept):
            new = tf.minimum(s, s * i * beta / 1000.0 + 0.01 * tf.sin(tf.cast(t, tf.float32)))
            healed = 0.1 * i
            s, i, r = s - new, i + new - healed, r + healed
            return t + 1, s, i, r, [a.write(t, v) for a, v in zip(kept, (s, i, r), strict=True)]
        kept = [tf.TensorArray(tf.float32, 120) for _ in range(3)]
        start = [tf.fill([16], v) for v in (990.0, 10.0, 0.0)]
        kept = tf.while_loop(lambda t, *_: t < 120, body, [0, *start, kept])[4]
        return [a.stack() for a in kept]
    beta = tf.linspace(0.2, 0.5, 16)
    return lambda: float(tf.reduce_sum(simulate(beta)[1]))


@workload
def map_fn_matrices(tf):
    """`map_fn` over small matrices with two results: an inverse and a normalized product."""
    x = tf.constant(normal(64, 6, 6) + 6 * np.eye(6, dtype="f"))

    @tf.function
    def run(x):
        def one(m):
            i = tf.linalg.inv(m)
            return i, tf.linalg.trace(i @ tf.transpose(m)) / tf.norm(m)
        return tf.map_fn(one, x, fn_output_signature=(tf.float32, tf.float32))
    return lambda: float(tf.reduce_sum(run(x)[1]))


@workload
def volatility_scan_gradient(tf):
    """The gradient of a likelihood whose variances are a `tf.scan` over 150 returns."""
    returns = tf.constant(0.01 * normal(150))
    w = [tf.Variable(v) for v in (1e-5, 0.1, 0.8)]
    opt = tf.keras.optimizers.Adam(1e-4)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            variances = tf.scan(lambda v, r: w[0] + w[1] * r * r + w[2] * v, returns, initializer=tf.constant(1e-4))
            loss = tf.reduce_mean(tf.math.log(variances) + returns ** 2 / variances)
        opt.apply_gradients(zip(tape.gradient(loss, w), w, strict=True))
        return loss
    return lambda: float(step())


@workload
def private_gradients(tf):
    """Gradients per example by `vectorized_map`, clipped and with noise, as in private training."""
    w, b = tf.Variable(0.1 * normal(40, 16)), tf.Variable(np.zeros(16, "f"))
    v = tf.Variable(0.1 * normal(16, 4))
    x, y = tf.constant(normal(64, 40)), tf.constant(ids(4, 64))

    @tf.function
    def step(x, y):
        def one(pair):
            with tf.GradientTape() as tape:
                scores = tf.nn.relu(tf.linalg.matvec(w, pair[0], transpose_a=True) + b)[None] @ v
                loss = tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=pair[1][None], logits=scores))
            grads = tape.gradient(loss, [w, b, v])
            scale = 1.0 / tf.maximum(1.0, tf.linalg.global_norm(grads))
            return [g * scale for g in grads]
        grads = [tf.reduce_mean(g, 0) + 1e-3 * tf.random.normal(tf.shape(g)[1:]) for g in tf.vectorized_map(one, (x, y))]
        for variable, g in zip((w, b, v), grads, strict=True):
            variable.assign_sub(0.1 * g)
        return tf.linalg.global_norm(grads)
    return lambda: float(step(x, y))


@workload
def arm_batch_jacobian(tf):
    """Damped least squares of an arm of six joints: `batch_jacobian` and a solve per iteration."""
    lengths = tf.constant([1.0, 0.8, 0.6, 0.5, 0.3, 0.2])
    goal = tf.constant(normal(32, 2))

    @tf.function
    def solve(angles):
        for _ in tf.range(10):
            with tf.GradientTape() as tape:
                tape.watch(angles)
                total = tf.cumsum(angles, 1)
                ends = tf.stack([tf.reduce_sum(lengths * tf.cos(total), 1), tf.reduce_sum(lengths * tf.sin(total), 1)], 1)
            jac = tape.batch_jacobian(ends, angles)
            left = tf.matmul(jac, jac, transpose_b=True) + 0.01 * tf.eye(2)
            angles += tf.squeeze(tf.matmul(jac, tf.linalg.solve(left, (goal - ends)[:, :, None]), transpose_a=True), -1)
        return angles
    start = tf.constant(0.3 * normal(32, 6, seed=1))
    return lambda: float(tf.reduce_sum(tf.abs(solve(start))))


@workload
def eager_factorization(tf):
    """An eager script: factors of a matrix by gradient descent with momentum, written by hand."""
    target = tf.constant(normal(60, 40))
    u, v = tf.Variable(0.1 * normal(60, 5)), tf.Variable(0.1 * normal(40, 5, seed=1))
    mu, mv = tf.Variable(tf.zeros_like(u)), tf.Variable(tf.zeros_like(v))

    def call():
        for _ in range(5):
            with tf.GradientTape() as tape:
                error = target - tf.matmul(u, v, transpose_b=True)
                loss = tf.reduce_mean(error ** 2) + 0.01 * (tf.nn.l2_loss(u) + tf.nn.l2_loss(v))
            for variable, slot, g in zip((u, v), (mu, mv), tape.gradient(loss, [u, v]), strict=True):
                slot.assign(0.9 * slot + g)
                variable.assign_sub(0.01 * slot)
        return float(loss)
    return call


@workload
def eager_proximal_policy(tf):
    """An eager actor: sampled actions for single observations, then four epochs of a clipped loss on what was seen."""
    K = tf.keras.layers
    net = tf.keras.Sequential([tf.keras.Input([8]), K.Dense(32, activation="tanh"), K.Dense(4)])
    opt = tf.keras.optimizers.Adam(1e-3)
    seen = [tf.constant(normal(1, 8, seed=n)) for n in range(16)]
    gains = tf.constant(normal(16, seed=3))

    def call():
        actions, old = [], []
        for x in seen:
            scores = tf.nn.log_softmax(net(x))
            action = int(tf.random.categorical(scores, 1)[0, 0])
            actions.append(action)
            old.append(scores[0, action])
        x, a, old = tf.concat(seen, 0), tf.constant(actions), tf.stack(old)
        for _ in range(4):
            with tf.GradientTape() as tape:
                new = tf.reduce_sum(tf.nn.log_softmax(net(x)) * tf.one_hot(a, 4), 1)
                ratio = tf.exp(new - old)
                loss = -tf.reduce_mean(tf.minimum(ratio * gains, tf.clip_by_value(ratio, 0.8, 1.2) * gains))
            grads, _ = tf.clip_by_global_norm(tape.gradient(loss, net.trainable_variables), 0.5)
            opt.apply_gradients(zip(grads, net.trainable_variables, strict=True))
        return float(loss)
    return call


@workload
def session_queue_training(tf):
    """A 1.x session that trains from a queue filled by a thread of Python, as examples of the time did."""
    v1, g = tf.compat.v1, tf.Graph()
    with g.as_default():
        queue = v1.FIFOQueue(200, [tf.float32, tf.int32], shapes=[[20], []])
        x_in, y_in = v1.placeholder(tf.float32, [None, 20]), v1.placeholder(tf.int32, [None])
        put = queue.enqueue_many([x_in, y_in])
        x, y = queue.dequeue_many(32)
        w = v1.get_variable("w", initializer=0.1 * normal(20, 30))
        v = v1.get_variable("v", initializer=0.1 * normal(30, 5))
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=tf.tanh(x @ w) @ v))
        train = v1.train.MomentumOptimizer(0.01, 0.9).minimize(loss)
        session = v1.Session(graph=g)
        session.run(v1.global_variables_initializer())
    xs, ys = normal(64, 20), ids(5, 64)

    def fill():
        for _ in range(10):
            session.run(put, {x_in: xs, y_in: ys})

    def call():
        thread = threading.Thread(target=fill)
        thread.start()
        for _ in range(20):
            found = session.run([loss, train])[0]
        thread.join()
        return float(found)
    return call


@workload
def session_feed_rnn(tf):
    """A 1.x session: an unrolled recurrent language model with clipped gradients and a decaying rate, fed by arrays."""
    v1, g = tf.compat.v1, tf.Graph()
    with g.as_default():
        words, follow = v1.placeholder(tf.int32, [16, 12]), v1.placeholder(tf.int32, [16, 12])
        table = v1.get_variable("table", initializer=0.1 * normal(500, 32))
        w = v1.get_variable("w", initializer=0.1 * normal(64, 128))
        out = v1.get_variable("out", initializer=0.1 * normal(32, 500))
        c = h = tf.zeros([16, 32])
        losses = []
        for t in range(12):
            i, j, f, o = tf.split(tf.concat([tf.gather(table, words[:, t]), h], 1) @ w, 4, 1)
            c = tf.sigmoid(f + 1.0) * c + tf.sigmoid(i) * tf.tanh(j)
            h = tf.sigmoid(o) * tf.tanh(c)
            losses.append(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=follow[:, t], logits=h @ out))
        loss = tf.reduce_mean(tf.stack(losses))
        count = v1.train.get_or_create_global_step()
        rate = v1.train.exponential_decay(1.0, count, 100, 0.9)
        grads, _ = tf.clip_by_global_norm(v1.gradients(loss, [table, w, out]), 5.0)
        train = v1.train.GradientDescentOptimizer(rate).apply_gradients(zip(grads, [table, w, out], strict=True), count)
        session = v1.Session(graph=g)
        session.run(v1.global_variables_initializer())
    a, b = ids(500, 16, 12), ids(500, 16, 12, seed=1)
    return lambda: float(session.run([loss, train], {words: a, follow: b})[0])


@workload
def factor_decompositions(tf):
    """Batches of QR, SVD, symmetric eigenvalues, a least-squares solve, a determinant and an exponential of matrices."""
    x = tf.constant(normal(16, 12, 12))

    @tf.function
    def run(x):
        q, r = tf.linalg.qr(x)
        s = tf.linalg.svd(x, compute_uv=False)
        e, v = tf.linalg.eigh(x @ tf.linalg.matrix_transpose(x))
        log = tf.linalg.logdet(x @ tf.linalg.matrix_transpose(x) + tf.eye(12))
        return (tf.reduce_sum(tf.abs(q @ r)) + tf.reduce_sum(s) + tf.reduce_sum(e) + tf.reduce_sum(v ** 2) + tf.reduce_sum(log)
                + tf.reduce_sum(tf.linalg.lstsq(x, x[:, :, :1], l2_regularizer=0.1)) + tf.reduce_sum(tf.linalg.expm(0.1 * x)))
    return lambda: float(run(x))


@workload
def griffin_lim(tf):
    """Phases of a spectrogram by repeated transforms, then mel coefficients of the sound."""
    sound = tf.constant(normal(2, 8000))
    mel = tf.signal.linear_to_mel_weight_matrix(40, 257, 16000, 20.0, 4000.0)

    @tf.function
    def run(sound):
        size = tf.abs(tf.signal.stft(sound, 512, 128))
        angles = tf.zeros_like(size)
        for _ in range(5):
            found = tf.signal.inverse_stft(tf.complex(size * tf.cos(angles), size * tf.sin(angles)), 512, 128,
                                           window_fn=tf.signal.inverse_stft_window_fn(128))
            angles = tf.math.angle(tf.signal.stft(found, 512, 128))[:, :size.shape[1]]
        power = tf.math.log(tf.abs(tf.signal.stft(found, 512, 128)) ** 2 @ mel + 1e-6)
        return tf.signal.mfccs_from_log_mel_spectrograms(power)[..., :13]
    return lambda: float(tf.reduce_mean(run(sound)))


@workload
def page_rank_sparse(tf):
    """Ranks by repeated products of a sparse matrix and a vector, then sums and a softmax of its rows."""
    r = np.random.RandomState(0)
    places = np.unique(r.randint(0, 300, (3000, 2)), axis=0)
    links = tf.sparse.SparseTensor(places, r.rand(len(places)).astype("f"), [300, 300])

    @tf.function
    def rank(links):
        sums = tf.sparse.reduce_sum(links, 1, keepdims=True) + 1e-6
        flow = tf.sparse.transpose(links / sums)
        x = tf.fill([300, 1], 1 / 300)
        for _ in tf.range(20):
            x = tf.ensure_shape(0.85 * tf.sparse.sparse_dense_matmul(flow, x) + 0.15 / 300, [300, 1])
        return tf.reduce_sum(x * x) + tf.reduce_sum(tf.sparse.softmax(links).values)
    return lambda: float(rank(links))


@workload
def ragged_sessions(tf):
    """Ragged histories: lookups, means per row, joined rows, lengths, and a gradient through all of it."""
    rows = [ids(1000, n, seed=n).tolist() for n in ids(12, 64, low=1)]
    first, second = tf.ragged.constant(rows, dtype=tf.int64), tf.ragged.constant(rows[::-1], dtype=tf.int64)
    table = tf.Variable(0.1 * normal(1000, 16))

    @tf.function
    def step(a, b):
        with tf.GradientTape() as tape:
            both = tf.concat([a, b], 1)
            found = tf.ragged.map_flat_values(lambda i: tf.gather(table, i), both)
            mean = tf.reduce_mean(found, 1)
            dense = found.to_tensor()[:, :6]
            loss = tf.reduce_mean(mean ** 2) + tf.reduce_mean(tf.reduce_max(dense, 1)) \
                + 0.01 * tf.reduce_mean(tf.cast(both.row_lengths(), tf.float32))
        g = tape.gradient(loss, table)
        table.scatter_sub(tf.IndexedSlices(0.1 * g.values, g.indices))
        return loss
    return lambda: float(step(first, second))


@workload
def log_lines_text(tf):
    """Lines of a log: regular expressions, splits, numbers, n-grams, joined words, and characters of unicode."""
    r = np.random.RandomState(0)
    lines = tf.constant([f"2024-0{a}-1{b} GET /item/{c}?q=ä{d} {e} ms" for a, b, c, d, e in r.randint(1, 9, (400, 5))])

    @tf.function
    def run(lines):
        clean = tf.strings.lower(tf.strings.regex_replace(lines, r"[0-9]{4}-[0-9]{2}-[0-9]{2} ", ""))
        took = tf.strings.to_number(tf.strings.split(clean, " ").to_tensor()[:, 2])
        pairs = tf.strings.ngrams(tf.strings.split(clean, "/"), 2)
        letters = tf.strings.unicode_decode(clean, "UTF-8")
        codes = tf.strings.to_hash_bucket_fast(tf.strings.join([clean, lines], "|"), 1000)
        counts = (letters.values % 7, codes, tf.strings.length(pairs.values))
        return tf.reduce_sum(took) + tf.add_n([tf.reduce_sum(tf.cast(n, tf.float32)) for n in counts])
    return lambda: float(run(lines))


@workload
def picture_measures(tf):
    """Colours, edges, similarity, patches, boxes cut out of images, and non-maximum suppression."""
    r = np.random.RandomState(0)
    x, corners = tf.constant(r.rand(4, 64, 64, 3).astype("f")), r.rand(60, 2).astype("f") * 0.7
    boxes, scores = tf.constant(np.concatenate([corners, corners + 0.2], 1)), tf.constant(r.rand(60).astype("f"))

    @tf.function
    def run(x):
        y = tf.image.adjust_saturation(tf.image.adjust_hue(tf.image.adjust_contrast(x, 1.2), 0.1), 0.8)
        edges = tf.image.sobel_edges(y)
        close = tf.image.ssim(x, y, 1.0)
        noise = tf.image.psnr(x, y, 1.0)
        patches = tf.image.extract_patches(x, [1, 8, 8, 1], [1, 4, 4, 1], [1, 1, 1, 1], "VALID")
        kept = tf.image.non_max_suppression(boxes, scores, 20, 0.4)
        cut = tf.image.crop_and_resize(x, tf.gather(boxes, kept), tf.zeros_like(kept), [16, 16])
        return (tf.reduce_mean(edges) + tf.reduce_mean(close) + tf.reduce_mean(noise) + tf.reduce_mean(patches)
                + tf.reduce_mean(cut) + tf.reduce_mean(tf.image.rgb_to_grayscale(tf.image.rot90(y))))
    return lambda: float(run(x))


@workload
def detector_losses(tf):
    """Training losses of a detector: overlaps of anchors and boxes, assignment, focal and box losses, gradients."""
    r = np.random.RandomState(0)
    low = r.rand(400, 2).astype("f")
    anchors = tf.constant(np.concatenate([low, low + 0.2], 1))
    true_low = r.rand(4, 8, 2).astype("f")
    boxes = tf.constant(np.concatenate([true_low, true_low + 0.25], 2))
    kinds = tf.constant(r.randint(0, 5, (4, 8)))
    features, w, b = tf.constant(normal(4, 400, 32)), tf.Variable(0.1 * normal(32, 5)), tf.Variable(0.1 * normal(32, 4, seed=1))
    opt = tf.keras.optimizers.SGD(0.01)

    @tf.function
    def step(features, boxes, kinds):
        low = tf.maximum(anchors[None, :, None, :2], boxes[:, None, :, :2])
        high = tf.minimum(anchors[None, :, None, 2:], boxes[:, None, :, 2:])
        shared = tf.reduce_prod(tf.maximum(high - low, 0.0), -1)
        overlap = shared / (0.04 + 0.0625 - shared)
        best, score = tf.argmax(overlap, 2), tf.reduce_max(overlap, 2)
        near = tf.cast(score > 0.3, tf.float32)
        wanted = tf.one_hot(tf.gather(kinds, best, batch_dims=1), 5) * near[..., None]
        target = tf.gather(boxes, best, batch_dims=1) - anchors
        with tf.GradientTape() as tape:
            p = tf.sigmoid(features @ w)
            hit = wanted * p + (1 - wanted) * (1 - p)
            focal = -tf.reduce_sum((1 - hit) ** 2 * tf.math.log(hit + 1e-7)) / (1.0 + tf.reduce_sum(near))
            off = tf.abs(features @ b - target)
            smooth = tf.where(off < 0.1, 5.0 * off ** 2, off - 0.05)
            loss = focal + tf.reduce_sum(smooth * near[..., None]) / (1.0 + tf.reduce_sum(near))
        opt.apply_gradients(zip(tape.gradient(loss, [w, b]), [w, b], strict=True))
        return loss
    return lambda: float(step(features, boxes, kinds))


@workload
def metropolis_chains(tf):
    """Random-walk Metropolis over 32 chains in a loop, with stateless draws and a kept history."""
    precision = tf.constant(np.eye(5, dtype="f") + 0.3)

    @tf.function
    def sample(seed):
        def target(x):
            return -0.5 * tf.einsum("ci,ij,cj->c", x, precision, x)

        def body(t, x, value, kept):
            now = tf.random.experimental.stateless_fold_in(seed, t)
            move = x + 0.4 * tf.random.stateless_normal([32, 5], now)
            new = target(move)
            take = tf.math.log(tf.random.stateless_uniform([32], now + 1)) < new - value
            x, value = tf.where(take[:, None], move, x), tf.where(take, new, value)
            return t + 1, x, value, kept.write(t, x)
        x = tf.zeros([32, 5])
        kept = tf.while_loop(lambda t, *_: t < 60, body, [0, x, target(x), tf.TensorArray(tf.float32, 60)])[3]
        return tf.math.reduce_variance(kept.stack(), [0, 1])
    seed = tf.constant([1, 2])
    return lambda: float(tf.reduce_sum(sample(seed)))


@workload
def conjugate_gradients(tf):
    """A linear system by conjugate gradients in a `tf.while_loop` that ends when the residual is small."""
    a = normal(80, 80)
    a, b = tf.constant(a @ a.T / 80 + np.eye(80, dtype="f")), tf.constant(normal(80, seed=1))

    @tf.function
    def solve(b):
        x, r, p = tf.zeros_like(b), b, b
        norm, n = tf.tensordot(b, b, 1), 0
        while norm > 1e-8 and n < 60:
            ap = tf.linalg.matvec(a, p)
            alpha = norm / tf.tensordot(p, ap, 1)
            x, r = x + alpha * p, r - alpha * ap
            new = tf.tensordot(r, r, 1)
            p, norm, n = r + new / norm * p, new, n + 1
        return x
    return lambda: float(tf.reduce_sum(solve(b)))


@workload
def cached_key_decoding(tf):
    """A decoder that keeps its keys and values: a compiled step per word, called from Python."""
    D, H, T = 64, 4, 24
    layers = [[tf.Variable(0.1 * normal(*d, seed=i + j)) for j, d in enumerate(((D, 3 * D), (D, D), (D, 4 * D), (4 * D, D)))]
              for i in range(2)]
    table = tf.Variable(0.1 * normal(300, D))

    @tf.function
    def step(word, place, keys, values):
        x = tf.gather(table, word)
        kept_k, kept_v = [], []
        for n, (qkv, out, up, down) in enumerate(layers):
            q, k, v = tf.split(tf.reshape(x @ qkv, [-1, 3 * H, D // H]), 3, 1)
            spot = tf.one_hot(place, T)[None, None, :, None]
            ks, vs = keys[n] + spot * k[:, :, None], values[n] + spot * v[:, :, None]
            scores = tf.einsum("bhd,bhtd->bht", q, ks) * (D // H) ** -0.5
            scores = tf.where(tf.range(T) <= place, scores, -1e9)
            x += tf.reshape(tf.einsum("bht,bhtd->bhd", tf.nn.softmax(scores), vs), [-1, D]) @ out
            x += tf.nn.gelu(x @ up) @ down
            kept_k.append(ks)
            kept_v.append(vs)
        return tf.argmax(tf.matmul(x, table, transpose_b=True), -1), tf.stack(kept_k), tf.stack(kept_v)

    def call():
        word, keys = tf.zeros([2], tf.int64), tf.zeros([2, 2, H, T, D // H])
        values = keys
        for t in range(T):
            word, keys, values = step(word, tf.constant(t), keys, values)
        return float(word[0])
    return call


@workload
def mixed_pipeline(tf):
    """Elements of two sources in random turns, filtered, enumerated, cached, repeated, windowed and batched."""
    one = tf.data.Dataset.range(1500).map(lambda i: (tf.cast(i, tf.float32) / 10.0, i % 3))
    two = tf.data.Dataset.from_tensor_slices((normal(800), ids(3, 800).astype("int64")))
    data = tf.data.Dataset.sample_from_datasets([one, two], [0.6, 0.4], seed=1).filter(lambda x, y: y != 1).cache()
    data = data.repeat(2).enumerate().map(lambda n, pair: (pair[0] + tf.cast(n % 2, tf.float32), pair[1]))
    data = data.shuffle(100, seed=2).batch(32, drop_remainder=True).prefetch(tf.data.AUTOTUNE)

    def call():
        total = 0.0
        for x, _ in data:
            total = float(x[0])
        return total
    return call


@workload
def records_examples_fit(tf):
    """`fit` from files of records: parallel interleave, parsing in batches, images from bytes, a small CNN."""
    K, folder, r = tf.keras.layers, tempfile.mkdtemp(), np.random.RandomState(0)
    files = [os.path.join(folder, f"{n}.tfrecord") for n in range(4)]
    for name in files:
        with tf.io.TFRecordWriter(name) as out:
            for _ in range(64):
                feature = {"image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[r.bytes(16 * 16 * 3)])),
                           "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[int(r.randint(10))]))}
                out.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    spec = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}

    def parse(batch):
        found = tf.io.parse_example(batch, spec)
        pixels = tf.reshape(tf.io.decode_raw(found["image"], tf.uint8), [-1, 16, 16, 3])
        return tf.image.convert_image_dtype(pixels, tf.float32), found["label"]
    data = tf.data.Dataset.from_tensor_slices(files).interleave(tf.data.TFRecordDataset, cycle_length=4, num_parallel_calls=2)
    data = data.shuffle(128).batch(32).map(parse, num_parallel_calls=2).prefetch(2)
    net = tf.keras.Sequential([tf.keras.Input([16, 16, 3]), K.Conv2D(16, 3, activation="relu"), K.MaxPooling2D(),
                               K.Flatten(), K.Dense(10)])
    net.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return lambda: net.fit(data, epochs=1, verbose=0).history["loss"][-1]


@workload
def python_in_pipeline(tf):
    """A pipeline that calls Python by `numpy_function`, sets shapes, pads to the longest and unbatches."""
    def make(n):
        return np.arange(n % 9 + 1, dtype=np.float32)
    data = tf.data.Dataset.range(300).map(lambda n: tf.ensure_shape(tf.numpy_function(make, [n], tf.float32), [None]))
    data = data.padded_batch(16, padded_shapes=[None]).map(lambda x: x / 9.0).unbatch().batch(10)

    def call():
        total = 0.0
        for x in data:
            total = float(tf.reduce_sum(x))
        return total
    return call


@workload
def checkpoint_rounds(tf):
    """Saving and restoring a model of twenty variables and its optimizer with a CheckpointManager, and weights alone."""
    K, folder = tf.keras.layers, tempfile.mkdtemp()
    net = tf.keras.Sequential([tf.keras.Input([32])] + [K.Dense(64) for _ in range(10)])
    opt = tf.keras.optimizers.Adam(1e-3)
    opt.build(net.trainable_variables)
    step = tf.Variable(0, dtype=tf.int64)
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(net=net, step=step), folder, 2)

    def call():
        step.assign_add(1)
        path = manager.save()
        manager.checkpoint.restore(path)
        net.save_weights(os.path.join(folder, "only.weights.h5"))
        net.load_weights(os.path.join(folder, "only.weights.h5"))
        return float(step) * 0.0
    return call


@workload
def tensor_network(tf):
    """Equations over many small axes: a chain of tensors contracted by einsum, with its gradient."""
    cores = [tf.Variable(0.5 * normal(4, 3, 4, seed=n)) for n in range(8)]
    x = tf.constant(np.random.RandomState(1).randint(0, 3, (64, 8)))
    opt = tf.keras.optimizers.Adagrad(0.01)

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            left = tf.ones([64, 4])
            norm = tf.eye(4)
            for n, core in enumerate(cores):
                left = tf.einsum("ba,abc->bc", left, tf.gather(core, x[:, n], axis=1))
                norm = tf.einsum("ac,aib,cid->bd", norm, core, core)
            loss = tf.math.log(tf.reduce_sum(norm) + 1e-6) - tf.reduce_mean(tf.math.log(tf.reduce_sum(left, 1) ** 2 + 1e-6))
        opt.apply_gradients(zip(tape.gradient(loss, cores), cores, strict=True))
        return loss
    return lambda: float(step(x))


@workload
def spatial_transformer(tf):
    """Bilinear sampling at computed places with `gather_nd`, and the gradient into the transformation."""
    images, w = tf.constant(normal(8, 28, 28, 3)), tf.Variable(np.array([[1.0, 0.1, 0.0], [-0.1, 0.9, 0.05]], "f"))

    @tf.function
    def step(images):
        with tf.GradientTape() as tape:
            ys, xs = tf.meshgrid(tf.linspace(-1.0, 1.0, 28), tf.linspace(-1.0, 1.0, 28), indexing="ij")
            places = tf.stack([tf.reshape(xs, [-1]), tf.reshape(ys, [-1]), tf.ones([28 * 28])])
            x, y = tf.unstack((w @ places + 1.0) * 13.5)
            x0, y0 = tf.floor(x), tf.floor(y)
            total = 0.0
            for dx in (0, 1):
                for dy in (0, 1):
                    cx, cy = tf.clip_by_value(x0 + dx, 0.0, 27.0), tf.clip_by_value(y0 + dy, 0.0, 27.0)
                    at = tf.cast(tf.stack([cy, cx], 1), tf.int32)
                    at = tf.tile(at[None], [8, 1, 1])
                    weight = (1.0 - tf.abs(x - x0 - dx)) * (1.0 - tf.abs(y - y0 - dy))
                    total += tf.gather_nd(images, at, batch_dims=1) * weight[None, :, None]
            loss = tf.reduce_mean((total - tf.reshape(images, [8, -1, 3])) ** 2)
        w.assign_sub(0.01 * tape.gradient(loss, w))
        return loss
    return lambda: float(step(images))


@workload
def triplet_mining(tf):
    """Metric learning: distances of all pairs, the hardest triplets of a batch, and a training step."""
    w1, w2 = tf.Variable(0.1 * normal(64, 64)), tf.Variable(0.1 * normal(64, 32, seed=1))
    x, y = tf.constant(normal(96, 64)), tf.constant(ids(8, 96))
    opt = tf.keras.optimizers.Adam(1e-3)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            e = tf.math.l2_normalize(tf.nn.relu(x @ w1) @ w2, 1)
            apart = tf.sqrt(tf.maximum(2.0 - 2.0 * tf.matmul(e, e, transpose_b=True), 1e-6))
            same = tf.equal(y[:, None], y[None, :])
            far = tf.reduce_max(tf.where(same, apart, 0.0), 1)
            near = tf.reduce_min(tf.where(same, 10.0, apart), 1)
            loss = tf.reduce_mean(tf.nn.softplus(far - near))
        opt.apply_gradients(zip(tape.gradient(loss, [w1, w2]), [w1, w2], strict=True))
        return loss
    return lambda: float(step(x, y))
