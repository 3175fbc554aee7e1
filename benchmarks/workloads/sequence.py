"""Ordinary recurrent, sparse, text, graph and control-flow workloads beside TensorFlow on the CPU.
"""
from __future__ import annotations

import numpy as np

from workloads import work_table

WORK, workload = work_table()


def train(tf, model, x, y, loss, opt):
    """One training step of a Keras model as a tf.function."""
    model(x)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            value = loss(y, model(x, training=True))
        variables = model.trainable_variables
        opt.apply_gradients(zip(tape.gradient(value, variables), variables, strict=True))
        return value
    return lambda: float(step(x, y))


def xent(tf):
    return tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def _sequence(tf, batch, steps, width, classes=10):
    r = np.random.RandomState(0)
    return tf.constant(r.randn(batch, steps, width).astype("f")), tf.constant(r.randint(0, classes, batch))


def _tokens(tf, batch, steps, words, classes=2, padded=False):
    r = np.random.RandomState(0)
    x = r.randint(1, words, [batch, steps])
    if padded:
        for row, length in enumerate(r.randint(steps // 4, steps + 1, batch)):
            x[row, length:] = 0
    return tf.constant(x), tf.constant(r.randint(0, classes, batch))


@workload
def gru(tf):
    K = tf.keras.layers
    x, y = _sequence(tf, 32, 50, 32)
    return train(tf, tf.keras.Sequential([K.GRU(64), K.Dense(10)]), x, y, xent(tf), tf.keras.optimizers.Adam(1e-3))


@workload
def gru_masked_bidirectional(tf):
    K = tf.keras.layers
    x, y = _tokens(tf, 32, 60, 5000, padded=True)
    model = tf.keras.Sequential([K.Embedding(5000, 48, mask_zero=True), K.Bidirectional(K.GRU(48, return_sequences=True)),
                                 K.Bidirectional(K.GRU(32)), K.Dense(2)])
    return train(tf, model, x, y, xent(tf), tf.keras.optimizers.RMSprop(1e-3))


@workload
def bilstm_stacked_masked(tf):
    K = tf.keras.layers
    x, y = _tokens(tf, 32, 60, 5000, padded=True)
    model = tf.keras.Sequential([K.Embedding(5000, 64, mask_zero=True), K.Bidirectional(K.LSTM(64, return_sequences=True)),
                                 K.LSTM(64), K.Dropout(0.2), K.Dense(2)])
    return train(tf, model, x, y, xent(tf), tf.keras.optimizers.Adam(1e-3))


@workload
def simple_rnn_stateful(tf):
    K = tf.keras.layers
    x, y = _sequence(tf, 16, 40, 24)
    model = tf.keras.Sequential([tf.keras.Input(batch_shape=(16, 40, 24)), K.SimpleRNN(48, stateful=True), K.Dense(10)])
    return train(tf, model, x, y, xent(tf), tf.keras.optimizers.SGD(0.01))


@workload
def seq2seq_lstm(tf):
    K = tf.keras.layers
    source, target = tf.keras.Input((30,), dtype="int32"), tf.keras.Input((30,), dtype="int32")
    _, h, c = K.LSTM(96, return_state=True)(K.Embedding(3000, 64)(source))
    out = K.LSTM(96, return_sequences=True)(K.Embedding(3000, 64)(target), initial_state=[h, c])
    model = tf.keras.Model([source, target], K.Dense(3000)(out))
    x = tf.constant(np.random.RandomState(0).randint(0, 3000, [32, 30]).astype("int32"))
    return train(tf, model, [x, x], x, xent(tf), tf.keras.optimizers.Adam(1e-3))


@workload
def custom_cell_rnn(tf):
    K = tf.keras.layers

    class Minimal(K.Layer):
        """A minimal gated unit."""

        def __init__(self, units):
            super().__init__()
            self.units = self.state_size = self.output_size = units
            self.gate, self.candidate = K.Dense(units, activation="sigmoid"), K.Dense(units, activation="tanh")

        def build(self, shape):
            self.gate.build((None, shape[-1] + self.units))
            self.candidate.build((None, shape[-1] + self.units))
            self.built = True

        def call(self, inputs, states):
            h = states[0]
            f = self.gate(tf.concat([inputs, h], -1))
            h = (1.0 - f) * h + f * self.candidate(tf.concat([inputs, f * h], -1))
            return h, [h]
    x, y = _sequence(tf, 32, 40, 32)
    return train(tf, tf.keras.Sequential([K.RNN(Minimal(48)), K.Dense(10)]), x, y, xent(tf), tf.keras.optimizers.Adam(1e-3))


def _v1_step(tf, build):
    """A training step of a 1.x graph, run in a session."""
    v1 = tf.compat.v1
    graph = tf.Graph()
    with graph.as_default():
        v1.set_random_seed(0)
        loss, feed = build(v1)
        params = v1.trainable_variables()
        grads, _ = tf.clip_by_global_norm(tf.gradients(loss, params), 5.0)
        step = v1.train.AdagradOptimizer(0.05).apply_gradients(zip(grads, params, strict=True))
        init = v1.global_variables_initializer()
    session = v1.Session(graph=graph)
    session.run(init)
    return lambda: session.run([loss, step], feed)[0]


@workload
def v1_while_loop_gru(tf):
    """A GRU cell written out in tf.while_loop with tensor arrays, as programs for 1.x do."""
    def build(v1):
        x = v1.placeholder(tf.float32, [32, None, 40])
        steps = tf.shape(x)[1]
        wg, wc = v1.get_variable("wg", [40 + 64, 128]), v1.get_variable("wc", [40 + 64, 64])
        inputs = tf.TensorArray(tf.float32, steps).unstack(tf.transpose(x, [1, 0, 2]))

        def body(t, h, outputs):
            now = inputs.read(t)
            r, u = tf.split(tf.sigmoid(tf.concat([now, h], 1) @ wg), 2, axis=1)
            h = u * h + (1.0 - u) * tf.tanh(tf.concat([now, r * h], 1) @ wc)
            return t + 1, h, outputs.write(t, h)
        _, h, outputs = tf.while_loop(lambda t, *_: t < steps, body,
                                      [0, tf.zeros([32, 64]), tf.TensorArray(tf.float32, steps)])
        loss = tf.reduce_mean(tf.square(h)) + 0.1 * tf.reduce_mean(tf.square(outputs.stack()))
        return loss, {x: np.random.RandomState(0).randn(32, 40, 40).astype("f")}
    return _v1_step(tf, build)


@workload
def wide_deep(tf):
    K = tf.keras.layers
    r = np.random.RandomState(0)
    numbers = tf.keras.Input((13,))
    columns = [tf.keras.Input((1,), dtype="int32") for _ in range(8)]
    deep = K.Concatenate()([numbers] + [K.Flatten()(K.Embedding(1000, 16)(c)) for c in columns])
    for width in (128, 64):
        deep = K.Dense(width, activation="relu")(deep)
    wide = K.Add()([K.Flatten()(K.Embedding(1000, 1)(c)) for c in columns])
    model = tf.keras.Model([numbers, *columns], K.Add()([K.Dense(1)(deep), wide]))
    x = [tf.constant(r.randn(256, 13).astype("f"))]
    x += [tf.constant(r.randint(0, 1000, [256, 1]).astype("int32")) for _ in columns]
    y = tf.constant(r.randint(0, 2, [256, 1]).astype("f"))
    loss = tf.keras.losses.BinaryCrossentropy(from_logits=True)
    return train(tf, model, x, y, loss, tf.keras.optimizers.Ftrl(0.05))


@workload
def matrix_factorization(tf):
    r = np.random.RandomState(0)
    users, items = tf.Variable(r.randn(20000, 32).astype("f") * 0.1), tf.Variable(r.randn(5000, 32).astype("f") * 0.1)
    bias = tf.Variable(tf.zeros([5000]))
    opt = tf.keras.optimizers.Adagrad(0.05)
    u, i = tf.constant(r.randint(0, 20000, 512)), tf.constant(r.randint(0, 5000, 512))
    stars = tf.constant(r.rand(512).astype("f") * 5)
    params = [users, items, bias]

    @tf.function
    def step(u, i, stars):
        with tf.GradientTape() as tape:
            p, q = tf.nn.embedding_lookup(users, u), tf.gather(items, i)
            loss = tf.reduce_mean(tf.square(tf.reduce_sum(p * q, 1) + tf.gather(bias, i) - stars))
            loss += 1e-4 * (tf.nn.l2_loss(p) + tf.nn.l2_loss(q))
        opt.apply_gradients(zip(tape.gradient(loss, params), params, strict=True))
        return loss
    return lambda: float(step(u, i, stars))


@workload
def word2vec_sampled(tf):
    """Skip-gram with sampled softmax and 1.x Adam, whose sparse update reads every row of its slots."""
    def build(v1):
        r = np.random.RandomState(0)
        centre, context = v1.placeholder(tf.int32, [256]), v1.placeholder(tf.int32, [256, 1])
        table = v1.get_variable("table", [10000, 64])
        out, bias = v1.get_variable("out", [10000, 64]), v1.get_variable("bias", [10000])
        loss = tf.reduce_mean(tf.nn.sampled_softmax_loss(out, bias, context, tf.nn.embedding_lookup(table, centre), 32, 10000,
                                                         seed=1))
        return loss, {centre: r.randint(0, 10000, 256), context: r.randint(0, 10000, [256, 1])}
    return _v1_step(tf, build)


SENTENCES = [" ".join(f"Word{(i * 7 + j * j) % 997}" + ("," if j % 5 == 0 else "") for j in range(12 + i % 20)) + "!"
             for i in range(512)]


@workload
def text_vectorization(tf):
    layer = tf.keras.layers.TextVectorization(max_tokens=2000, output_sequence_length=32)
    layer.adapt(tf.data.Dataset.from_tensor_slices(SENTENCES).batch(128))
    ds = tf.data.Dataset.from_tensor_slices(SENTENCES).batch(64).map(layer)
    return lambda: sum(int(tf.reduce_sum(batch)) for batch in ds)


@workload
def string_features(tf):
    """Lookup, hashing, splitting and regular expressions on a batch, as one function."""
    lookup = tf.keras.layers.StringLookup(vocabulary=[f"word{i}" for i in range(0, 997, 2)])
    hashing = tf.keras.layers.Hashing(num_bins=1000)
    lines = tf.constant(SENTENCES)

    @tf.function
    def features(lines):
        clean = tf.strings.regex_replace(tf.strings.lower(lines), r"[^a-z0-9 ]", "")
        words = tf.strings.split(clean)
        first = tf.strings.substr(clean, 0, 6)
        return (tf.reduce_sum(lookup(words.flat_values)) + tf.reduce_sum(hashing(first))
                + tf.reduce_sum(tf.cast(tf.strings.length(lines), tf.int64))
                + tf.reduce_sum(tf.strings.to_number(tf.strings.regex_replace(words.flat_values, "[a-z]", ""), tf.int64)))
    return lambda: int(features(lines))


def _records(tf, count=512):
    import tempfile
    r = np.random.RandomState(0)
    path = tempfile.mktemp(".tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        for i in range(count):
            ids = r.randint(1, 5000, r.randint(5, 40))
            writer.write(tf.train.Example(features=tf.train.Features(feature={
                "ids": tf.train.Feature(int64_list=tf.train.Int64List(value=ids)),
                "x": tf.train.Feature(float_list=tf.train.FloatList(value=r.rand(16))),
                "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[i % 3])),
            })).SerializeToString())
    return path


@workload
def records_padded(tf):
    """TFRecord, shuffle, parse_single_example in map, padded_batch."""
    path = _records(tf)
    spec = {"ids": tf.io.VarLenFeature(tf.int64), "x": tf.io.FixedLenFeature([16], tf.float32),
            "label": tf.io.FixedLenFeature([], tf.int64)}

    def parse(record):
        example = tf.io.parse_single_example(record, spec)
        return tf.sparse.to_dense(example["ids"]), example["x"] * 2.0, example["label"]
    ds = tf.data.TFRecordDataset(path).shuffle(128, seed=1).map(parse, num_parallel_calls=2)
    ds = ds.padded_batch(32, padded_shapes=([None], [16], [])).prefetch(2)
    return lambda: float(sum(int(tf.reduce_sum(ids)) for ids, _, _ in ds))


@workload
def interleave_text(tf):
    """Generated lines of four files, interleaved, split to words, windowed into batches."""
    import tempfile
    paths = [tempfile.mktemp(".txt") for _ in range(4)]
    for k, path in enumerate(paths):
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(SENTENCES[k::4]))
    ds = tf.data.Dataset.from_tensor_slices(paths).interleave(tf.data.TextLineDataset, cycle_length=4, block_length=2)
    ds = ds.map(lambda line: tf.strings.length(tf.strings.split(line))).filter(lambda n: tf.shape(n)[0] > 14)
    ds = ds.map(lambda n: tf.concat([n, tf.zeros([40 - tf.shape(n)[0]], tf.int32)], 0)).batch(32)
    return lambda: sum(int(tf.reduce_sum(batch)) for batch in ds)


@workload
def generator_pipeline(tf):
    """A Python generator, py_function, cache-less repeat, shuffle and batch."""
    def rows():
        for i in range(512):
            yield np.full([8], i, "f"), i % 3
    ds = tf.data.Dataset.from_generator(rows, output_signature=(tf.TensorSpec([8], tf.float32), tf.TensorSpec([], tf.int32)))
    ds = ds.map(lambda a, b: (tf.numpy_function(lambda v: v + 1, [a], tf.float32), b)).shuffle(64, seed=0).batch(16)
    return lambda: float(sum(float(b[0, 0]) for b, _ in ds) * 0)


@workload
def gaussian_process(tf):
    """Batched Cholesky, triangular solves, and their gradients."""
    r = np.random.RandomState(0)
    x, y = tf.constant(r.randn(16, 48, 3).astype("f")), tf.constant(r.randn(16, 48, 1).astype("f"))
    scale, noise = tf.Variable(0.0), tf.Variable(-2.0)
    opt = tf.keras.optimizers.Adam(0.01)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            d = tf.reduce_sum(tf.square(x[:, :, None] - x[:, None]), -1)
            k = tf.exp(-0.5 * d * tf.exp(scale)) + tf.exp(noise) * tf.eye(48)
            factor = tf.linalg.cholesky(k)
            a = tf.linalg.cholesky_solve(factor, y)
            determinant = tf.reduce_sum(tf.math.log(tf.linalg.diag_part(factor)), 1)
            loss = tf.reduce_mean(0.5 * tf.reduce_sum(y * a, [1, 2]) + determinant)
        opt.apply_gradients(zip(tape.gradient(loss, [scale, noise]), [scale, noise], strict=True))
        return loss
    return lambda: float(step())


@workload
def spectrogram(tf):
    """STFT, mel filter bank, einsum and a solve."""
    r = np.random.RandomState(0)
    sound = tf.constant(r.randn(8, 8000).astype("f"))
    mel = tf.signal.linear_to_mel_weight_matrix(40, 129, 8000)
    w = tf.constant(r.randn(8, 40, 40).astype("f"))

    @tf.function
    def features(sound):
        power = tf.abs(tf.signal.stft(sound, 256, 128)) ** 2
        logs = tf.math.log(tf.einsum("btf,fm->btm", power, mel) + 1e-6)
        turned = 0.01 * tf.einsum("btm,bmn->btn", logs, w)
        cov = tf.einsum("btm,btn->bmn", turned, turned) + tf.eye(40)
        return tf.reduce_sum(tf.linalg.solve(cov, w)) + tf.reduce_mean(tf.signal.mfccs_from_log_mel_spectrograms(logs))
    return lambda: float(features(sound))


@workload
def graph_network(tf):
    """Message passing over edges: gather, dense, unsorted segment sum and mean."""
    r = np.random.RandomState(0)
    nodes, edges = 1000, 6000
    x, y = tf.constant(r.randn(nodes, 32).astype("f")), tf.constant(r.randint(0, 7, nodes))
    senders, receivers = (tf.constant(r.randint(0, nodes, edges)) for _ in range(2))
    K = tf.keras.layers
    message, update, out = [K.Dense(32, "relu") for _ in range(2)], [K.Dense(32, "relu") for _ in range(2)], K.Dense(7)
    opt, loss = tf.keras.optimizers.Adam(1e-3), xent(tf)

    def network(h):
        for m, u in zip(message, update, strict=True):
            sent = m(tf.concat([tf.gather(h, senders), tf.gather(h, receivers)], 1))
            total = tf.math.unsorted_segment_sum(sent, receivers, nodes)
            mean = tf.math.unsorted_segment_mean(sent, receivers, nodes)
            h = u(tf.concat([h, total, mean], 1))
        return out(h)
    network(x)
    params = [v for layer in (*message, *update, out) for v in layer.trainable_variables]

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            value = loss(y, network(x))
        opt.apply_gradients(zip(tape.gradient(value, params), params, strict=True))
        return value
    return lambda: float(step())


@workload
def many_variables_lamb(tf):
    """120 small variables, clipped by the global norm, updated by a rule written out with tf ops."""
    r = np.random.RandomState(0)
    params = [tf.Variable(r.randn(24, 24).astype("f") * 0.2) for _ in range(60)]
    slots = [[tf.Variable(tf.zeros([24, 24])) for _ in params] for _ in range(2)]
    x = tf.constant(r.randn(16, 24).astype("f"))

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            h = x
            for p in params:
                h = tf.tanh(h @ p) + h
            loss = tf.reduce_mean(tf.square(h))
        grads, _ = tf.clip_by_global_norm(tape.gradient(loss, params), 1.0)
        for p, g, m, v in zip(params, grads, *slots, strict=True):
            m.assign(0.9 * m + 0.1 * g)
            v.assign(0.999 * v + 0.001 * tf.square(g))
            change = m / (tf.sqrt(v) + 1e-6) + 0.01 * p
            p.assign_sub(1e-3 * tf.norm(p) / (tf.norm(change) + 1e-6) * change)
        return loss
    return lambda: float(step(x))


@workload
def adam_many_small_clipped(tf):
    K = tf.keras.layers
    r = np.random.RandomState(0)
    model = tf.keras.Sequential([K.Dense(32, activation="relu") for _ in range(40)] + [K.Dense(10)])
    x, y = tf.constant(r.randn(32, 32).astype("f")), tf.constant(r.randint(0, 10, 32))
    return train(tf, model, x, y, xent(tf), tf.keras.optimizers.RMSprop(1e-3, momentum=0.9, global_clipnorm=1.0))


@workload
def loop_in_function(tf):
    """tf.range loops with conditions and tensor arrays: a Newton iteration and a cumulative recurrence."""
    x = tf.constant(np.random.RandomState(0).rand(64).astype("f") + 0.5)

    @tf.function
    def run(x):
        total = tf.zeros_like(x)
        out = tf.TensorArray(tf.float32, 100)
        for i in tf.range(100):
            root = x
            root = 0.5 * (root + x / root)
            if tf.reduce_mean(total) > 10.0:
                total = total * 0.5
            else:
                total = total + root * tf.cast(i, tf.float32) * 0.01
            out = out.write(i, total)
        return tf.reduce_sum(out.stack())
    return lambda: float(run(x))


@workload
def scan_and_map(tf):
    """tf.scan of a recurrence and tf.map_fn over rows, with their gradients."""
    r = np.random.RandomState(0)
    w = tf.Variable(r.randn(16, 16).astype("f") * 0.1)
    x = tf.constant(r.randn(40, 8, 16).astype("f"))

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            states = tf.scan(lambda h, now: tf.tanh(h @ w + now), x, tf.zeros([8, 16]))
            rows = tf.map_fn(lambda s: tf.reduce_sum(tf.square(s)) + s[0, 0], states)
            loss = tf.reduce_mean(rows)
        w.assign_sub(0.01 * tape.gradient(loss, w))
        return loss
    return lambda: float(step(x))


@workload
def policy_gradient(tf):
    """An agent: single observations through a model, sampled actions, then one update per episode."""
    K = tf.keras.layers
    r = np.random.RandomState(0)
    model = tf.keras.Sequential([K.Dense(32, activation="tanh"), K.Dense(4)])
    opt = tf.keras.optimizers.Adam(1e-3)
    model(tf.zeros([1, 8]))
    seen = r.randn(20, 8).astype("f")

    @tf.function
    def act(observation):
        logits = model(observation[None])
        return tf.random.categorical(logits, 1)[0, 0], tf.nn.log_softmax(logits)[0]

    def episode():
        rewards = []
        with tf.GradientTape() as tape:
            logs = []
            for row in seen:
                action, log = act(tf.constant(row))
                logs.append(tf.gather(log, action))
                rewards.append(float(int(action) % 2))
            loss = -tf.reduce_mean(tf.stack(logs) * tf.constant(np.cumsum(rewards[::-1])[::-1].astype("f")))
        opt.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True))
        return 0.0
    return episode


@workload
def q_learning_eager(tf):
    """Eager code without functions: replay of small tensors, a target network, gradient tape."""
    r = np.random.RandomState(0)
    shapes = ([8, 32], [32], [32, 4], [4])
    online = [tf.Variable(r.randn(*s).astype("f") * 0.1) for s in shapes]
    target = [tf.Variable(v) for v in online]
    opt = tf.keras.optimizers.SGD(0.01)
    s, n = tf.constant(r.randn(32, 8).astype("f")), tf.constant(r.randn(32, 8).astype("f"))
    a, reward = tf.constant(r.randint(0, 4, 32)), tf.constant(r.rand(32).astype("f"))

    def q(x, w):
        return tf.nn.relu(x @ w[0] + w[1]) @ w[2] + w[3]

    def step():
        best = reward + 0.99 * tf.reduce_max(q(n, target), axis=1)
        with tf.GradientTape() as tape:
            chosen = tf.reduce_sum(q(s, online) * tf.one_hot(a, 4), axis=1)
            loss = tf.reduce_mean(tf.square(tf.stop_gradient(best) - chosen))
        opt.apply_gradients(zip(tape.gradient(loss, online), online, strict=True))
        for t, o in zip(target, online, strict=True):
            t.assign(0.99 * t + 0.01 * o)
        return float(loss)
    return step


@workload
def fit_text_classifier(tf):
    """fit over a dataset of padded token batches: embedding, convolution, pooling, metrics."""
    K = tf.keras.layers
    r = np.random.RandomState(0)
    x, y = r.randint(0, 3000, [512, 40]), r.randint(0, 2, 512)
    ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(512, seed=0).batch(32).prefetch(1)
    model = tf.keras.Sequential([K.Embedding(3000, 32), K.Conv1D(32, 3, activation="relu"), K.GlobalMaxPooling1D(),
                                 K.Dense(1, activation="sigmoid")])
    model.compile("adam", "binary_crossentropy", metrics=["accuracy", tf.keras.metrics.AUC()])
    return lambda: model.fit(ds, epochs=1, verbose=0).history["loss"][-1]


@workload
def dlrm(tf):
    """Embedding bags, pairwise interactions, towers of dense layers, sparse Adam."""
    r = np.random.RandomState(0)
    K = tf.keras.layers
    tables = [tf.Variable(r.randn(2000, 16).astype("f") * 0.05) for _ in range(6)]
    bottom = tf.keras.Sequential([K.Dense(64, activation="relu"), K.Dense(16, activation="relu")])
    top = tf.keras.Sequential([K.Dense(64, activation="relu"), K.Dense(1)])
    dense, ids = tf.constant(r.randn(128, 13).astype("f")), tf.constant(r.randint(0, 2000, [6, 128, 4]))
    y = tf.constant(r.randint(0, 2, [128, 1]).astype("f"))
    opt = tf.keras.optimizers.Adam(1e-3)

    def network(dense, ids):
        vectors = [bottom(dense)] + [tf.reduce_sum(tf.nn.embedding_lookup(t, ids[k]), 1) for k, t in enumerate(tables)]
        stack = tf.stack(vectors, 1)
        pairs = tf.matmul(stack, stack, transpose_b=True)
        upper = tf.boolean_mask(tf.reshape(pairs, [128, -1]), np.triu(np.ones([7, 7], bool), 1).reshape(-1), axis=1)
        return top(tf.concat([vectors[0], upper], 1))
    network(dense, ids)
    params = [*tables, *bottom.trainable_variables, *top.trainable_variables]

    @tf.function
    def step(dense, ids, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=network(dense, ids)))
        opt.apply_gradients(zip(tape.gradient(loss, params), params, strict=True))
        return loss
    return lambda: float(step(dense, ids, y))
