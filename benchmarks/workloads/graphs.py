"""Ten programs of 1.x sessions, queues and loops, of input pipelines, and of text, ragged and sparse tensors.
"""
from __future__ import annotations

import os
import tempfile

import numpy as np

from workloads import work_table

WORK, workload = work_table()


def normal(*dims, seed=0):
    return 0.1 * np.random.RandomState(seed).randn(*dims).astype("f")


def words_of(count, seed=0, low=3, high=14, known=300):
    """Lines of words, some of them not in a vocabulary of w0 to w249."""
    r = np.random.RandomState(seed)
    return [" ".join(f"w{i}" for i in r.randint(0, known, r.randint(low, high))) for _ in range(count)]


def session_of(tf, graph):
    session = tf.compat.v1.Session(graph=graph)
    with graph.as_default():
        session.run([tf.compat.v1.global_variables_initializer(), tf.compat.v1.tables_initializer()])
    return session


@workload
def skip_gram_session(tf):
    """Words beside words with candidates that a sampler draws, and sparse updates of two tables; batches of pairs are fed."""
    v1, graph = tf.compat.v1, tf.Graph()
    with graph.as_default():
        v1.set_random_seed(0)
        middle, beside = v1.placeholder(tf.int64, [None]), v1.placeholder(tf.int64, [None, 1])
        table, out = (v1.get_variable(n, initializer=normal(5000, 48, seed=i)) for i, n in enumerate(["table", "out"]))
        bias = v1.get_variable("bias", initializer=np.zeros(5000, "f"))
        drawn, expected_true, expected = tf.random.log_uniform_candidate_sampler(beside, 1, 32, True, 5000, seed=1)
        x = tf.nn.embedding_lookup(table, middle)
        near = tf.squeeze(beside, 1)
        right = tf.reduce_sum(x * tf.gather(out, near), 1) + tf.gather(bias, near) - tf.math.log(tf.squeeze(expected_true, 1))
        wrong = tf.matmul(x, tf.gather(out, drawn), transpose_b=True) + tf.gather(bias, drawn) - tf.math.log(expected)
        loss = tf.reduce_mean(tf.nn.softplus(-right) + tf.reduce_sum(tf.nn.softplus(wrong), 1))
        rate = v1.train.exponential_decay(0.05, v1.train.get_or_create_global_step(), 100, 0.9)
        train = v1.train.GradientDescentOptimizer(rate).minimize(loss, v1.train.get_global_step())
        session = session_of(tf, graph)
    text = np.random.RandomState(0).zipf(1.3, 4000) % 5000

    def call():
        for start in range(2, 1282, 128):
            at = np.arange(start, start + 128)
            pairs = {middle: np.repeat(text[at], 2), beside: np.stack([text[at - 1], text[at + 2]], 1).reshape(-1, 1)}
            found = session.run([loss, train], pairs)[0]
        return float(found)
    return call


@workload
def shuffle_queue_runners(tf):
    """Batches that queue runners shuffle, in a monitored training session with a summary and a hook that counts."""
    v1 = tf.compat.v1
    x, y = normal(512, 30), np.random.RandomState(1).randint(0, 4, 512).astype(np.int32)

    class Count(v1.train.SessionRunHook):
        def begin(self):
            self.steps = 0

        def after_run(self, context, values):
            self.steps += 1

    def call():
        with tf.Graph().as_default():
            v1.set_random_seed(0)
            row, label = v1.train.slice_input_producer([tf.constant(x), tf.constant(y)], seed=1)
            rows, labels = v1.train.shuffle_batch([row, label], 16, 128, 48, seed=2)
            h = tf.nn.elu(tf.matmul(rows, v1.get_variable("w", initializer=normal(30, 40))))
            logits = tf.matmul(h, v1.get_variable("v", initializer=normal(40, 4, seed=1)))
            loss = v1.losses.sparse_softmax_cross_entropy(labels, logits)
            v1.summary.scalar("loss", loss)
            train = v1.train.RMSPropOptimizer(0.01).minimize(loss, v1.train.get_or_create_global_step())
            hook = Count()
            with v1.train.MonitoredTrainingSession(hooks=[v1.train.StopAtStepHook(40), hook]) as session:
                while not session.should_stop():
                    value = session.run([train, loss])[1]
        return float(np.isfinite(value)) + hook.steps
    return call


@workload
def ising_sampler(tf):
    """A while loop that flips the spins of two sublattices in turn, and keeps the magnetization of each sweep in an array."""
    v1, graph = tf.compat.v1, tf.Graph()
    board = (np.indices((24, 24)).sum(0) % 2).astype("f")[None, :, :, None]
    cross = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], "f")[:, :, None, None]
    with graph.as_default():
        v1.set_random_seed(0)
        heat, start = v1.placeholder(tf.float32, []), v1.placeholder(tf.float32, [4, 24, 24, 1])

        def sweep(t, spins, kept):
            for half in (board, 1 - board):
                around = tf.concat([spins[:, -1:], spins, spins[:, :1]], 1)
                field = tf.nn.conv2d(around, cross, 1, [[0, 0], [0, 0], [1, 1], [0, 0]])
                flips = v1.random_uniform(tf.shape(spins)) < tf.sigmoid(-2.0 * heat * spins * field)
                spins = tf.where(tf.logical_and(flips, half > 0), -spins, spins)
            return t + 1, spins, kept.write(t, tf.reduce_mean(spins, [1, 2, 3]))
        _, spins, kept = tf.while_loop(lambda t, *_: t < 30, sweep, [0, start, tf.TensorArray(tf.float32, 30)])
        fetched = [spins, tf.reduce_mean(tf.abs(kept.stack()))]
        session = session_of(tf, graph)
    state = [np.ones((4, 24, 24, 1), "f")]

    def call():
        state[0], size = session.run(fetched, {heat: 0.6, start: state[0]})
        return float(size > 0.5)
    return call


@workload
def language_model_stateful(tf):
    """Truncated backpropagation: dynamic_rnn over a cell of 1.x style, the state and the rate are fed."""
    v1, graph = tf.compat.v1, tf.Graph()

    class Cell:
        state_size, output_size = (64, 64), 64

        def __call__(self, x, state, scope=None):
            c, h = state
            with v1.variable_scope(scope or "cell", reuse=v1.AUTO_REUSE):
                gates = tf.matmul(tf.concat([x, h], 1), v1.get_variable("w", initializer=normal(64 + 48, 256)))
                gates += v1.get_variable("b", initializer=np.zeros(256, "f"))
            i, j, f, o = tf.split(gates, 4, 1)
            c = c * tf.sigmoid(f + 1.0) + tf.sigmoid(i) * tf.tanh(j)
            h = tf.tanh(c) * tf.sigmoid(o)
            return h, (c, h)

        def zero_state(self, batch, dtype):
            return tf.zeros([batch, 64], dtype), tf.zeros([batch, 64], dtype)
    with graph.as_default():
        v1.set_random_seed(0)
        x, y = v1.placeholder(tf.int32, [20, None]), v1.placeholder(tf.int32, [20, None])
        before, rate = [v1.placeholder(tf.float32, [20, 64]) for _ in range(2)], v1.placeholder(tf.float32, [])
        table = v1.get_variable("table", initializer=normal(800, 48))
        out, last = v1.nn.dynamic_rnn(Cell(), tf.nn.embedding_lookup(table, x), initial_state=tuple(before))
        logits = tf.tensordot(tf.nn.dropout(out, rate=0.2), v1.get_variable("project", initializer=normal(64, 800)), 1)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
        params = v1.trainable_variables()
        grads, _ = tf.clip_by_global_norm(v1.gradients(loss, params), 5.0)
        train = v1.train.MomentumOptimizer(rate, 0.9).apply_gradients(zip(grads, params, strict=True))
        session = session_of(tf, graph)
    text = np.random.RandomState(0).randint(0, 800, [20, 61])

    def call():
        state = [np.zeros((20, 64), "f")] * 2
        for at in range(0, 60, 15):
            feed = {x: text[:, at:at + 15], y: text[:, at + 1:at + 16], rate: 0.1, before[0]: state[0], before[1]: state[1]}
            value, state, _ = session.run([loss, list(last), train], feed)
        return float(value)
    return call


@workload
def bucketed_tagging(tf):
    """Files of text: words looked up in a vocabulary, tags by a regular expression, buckets by length, padded batches."""
    folder = tempfile.mkdtemp()
    for part in range(3):
        with open(os.path.join(folder, f"part{part}.txt"), "w", encoding="utf-8") as f:
            f.write("\n".join(words_of(200, seed=part, high=30)))
    vocabulary = tf.lookup.StaticVocabularyTable(tf.lookup.KeyValueTensorInitializer(
        tf.constant([f"w{i}" for i in range(250)]), tf.range(250, dtype=tf.int64)), 4)

    def tagged(line):
        words = tf.strings.split([line]).values
        return vocabulary.lookup(words), tf.cast(tf.strings.regex_full_match(words, "w.*[05]"), tf.int32)
    data = tf.data.TextLineDataset([os.path.join(folder, f"part{i}.txt") for i in range(3)]).map(tagged, tf.data.AUTOTUNE)
    data = data.filter(lambda w, t: tf.size(w) > 4).bucket_by_sequence_length(
        lambda w, t: tf.size(w), [8, 16, 24], [32, 24, 16, 8], padding_values=(np.int64(0), -1)).prefetch(2)

    def call():
        return float(sum(int(tf.reduce_sum(w)) + int(tf.reduce_max(t)) for w, t in data))
    return call


@workload
def grouped_sessions(tf):
    """Events from Python, grouped by user in windows, then sliding windows over time, each reduced to a few numbers."""
    r = np.random.RandomState(0)
    users, gains = r.randint(0, 12, 600), r.randn(600).astype("f")

    def events():
        yield from zip(users, gains, strict=True)
    signature = (tf.TensorSpec([], tf.int64), tf.TensorSpec([], tf.float32))
    data = tf.data.Dataset.from_generator(events, output_signature=signature).cache()
    by_user = data.group_by_window(lambda u, g: u, lambda u, group: group.batch(16), 16)
    by_user = by_user.map(lambda u, g: (u[0], tf.reduce_mean(g), tf.math.reduce_std(g)))
    sliding = data.window(20, shift=5, drop_remainder=True).flat_map(
        lambda u, g: tf.data.Dataset.zip((u.batch(20), g.batch(20))))
    sliding = sliding.map(lambda u, g: tf.reduce_max(tf.math.unsorted_segment_sum(g, u, 12)))

    def call():
        return sum(float(m) + float(s) for _, m, s in by_user) + float(sliding.reduce(0.0, tf.maximum))
    return call


@workload
def sparse_clicks(tf):
    """1.x: batches of serialized examples are parsed to sparse features, which are embedded with weights; FTRL and Adagrad."""
    v1, graph, r = tf.compat.v1, tf.Graph(), np.random.RandomState(0)

    def example():
        n = r.randint(0, 6)
        ids, weights = r.randint(0, 2000, n).tolist(), r.rand(n).tolist()
        kinds = {"ids": tf.train.Feature(int64_list=tf.train.Int64List(value=ids)),
                 "weights": tf.train.Feature(float_list=tf.train.FloatList(value=weights)),
                 "city": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"city%d" % r.randint(40)])),
                 "click": tf.train.Feature(float_list=tf.train.FloatList(value=[float(r.rand() < 0.3)]))}
        return tf.train.Example(features=tf.train.Features(feature=kinds)).SerializeToString()
    batches = [np.array([example() for _ in range(64)], object) for _ in range(8)]
    with graph.as_default():
        v1.set_random_seed(0)
        text = v1.placeholder(tf.string, [None])
        found = v1.io.parse_example(text, {
            "ids": tf.io.VarLenFeature(tf.int64), "weights": tf.io.VarLenFeature(tf.float32),
            "city": tf.io.FixedLenFeature([], tf.string), "click": tf.io.FixedLenFeature([1], tf.float32)})
        table = v1.get_variable("table", initializer=normal(2000, 16))
        cities = v1.get_variable("cities", initializer=normal(64, 16, seed=1))
        many = v1.nn.safe_embedding_lookup_sparse(table, found["ids"], found["weights"], combiner="mean")
        one = tf.nn.embedding_lookup(cities, tf.strings.to_hash_bucket_fast(found["city"], 64))
        wide = v1.nn.embedding_lookup_sparse(v1.get_variable("wide", initializer=np.zeros((2000, 1), "f")), found["ids"],
                                             found["weights"], combiner="sum")
        wide = tf.pad(wide, [[0, tf.shape(text)[0] - tf.shape(wide)[0]], [0, 0]])
        h = tf.nn.relu(tf.matmul(tf.concat([many, one], 1), v1.get_variable("w", initializer=normal(32, 16))))
        logits = wide + tf.matmul(h, v1.get_variable("v", initializer=normal(16, 1)))
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=found["click"], logits=logits))
        wides = [v for v in v1.trainable_variables() if v.op.name == "wide"]
        deep = [v for v in v1.trainable_variables() if v.op.name != "wide"]
        train = tf.group(v1.train.FtrlOptimizer(0.1, l1_regularization_strength=0.001).minimize(loss, var_list=wides),
                         v1.train.AdagradOptimizer(0.05).minimize(loss, var_list=deep))
        session = session_of(tf, graph)

    def call():
        return float(sum(session.run([loss, train], {text: b})[0] for b in batches))
    return call


@workload
def image_shards(tf):
    """Shards of records with pictures: interleaved, parsed, decoded, cropped at boxes, resized, standardized, in batches."""
    folder, r = tempfile.mkdtemp(), np.random.RandomState(0)
    for shard in range(4):
        with tf.io.TFRecordWriter(os.path.join(folder, f"shard{shard}")) as writer:
            for _ in range(24):
                pixels = r.randint(0, 255, (r.randint(40, 60), r.randint(40, 60), 3)).astype(np.uint8)
                picture = tf.io.encode_png(pixels).numpy()
                kinds = {"image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[picture])),
                         "box": tf.train.Feature(float_list=tf.train.FloatList(value=(r.rand(4) * 0.3).tolist())),
                         "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[r.randint(5)]))}
                writer.write(tf.train.Example(features=tf.train.Features(feature=kinds)).SerializeToString())

    def read(record):
        found = tf.io.parse_single_example(record, {
            "image": tf.io.FixedLenFeature([], tf.string), "box": tf.io.FixedLenFeature([4], tf.float32),
            "label": tf.io.FixedLenFeature([], tf.int64)})
        image = tf.io.decode_png(found["image"], 3)
        size, box = tf.cast(tf.shape(image)[:2], tf.float32), found["box"]
        low, high = tf.cast(box[:2] * size, tf.int32), tf.cast((1.0 - box[2:]) * size, tf.int32)
        image = tf.image.resize(image[low[0]:high[0], low[1]:high[1]], [32, 32])
        return tf.image.per_image_standardization(image), tf.one_hot(found["label"], 5)
    files = tf.data.Dataset.list_files(os.path.join(folder, "shard*"), shuffle=False)
    data = files.interleave(tf.data.TFRecordDataset, cycle_length=4, block_length=2).map(read, tf.data.AUTOTUNE).batch(16)

    def call():
        return float(sum(float(tf.reduce_mean(x[:, 8:24] * x[:, 8:24])) + float(tf.reduce_sum(y)) for x, y in data))
    return call


@workload
def ragged_documents(tf):
    """Documents of sentences of words as ragged tensors of two levels: hashed, embedded, pooled twice, and trained."""
    lines = tf.constant([". ".join(words_of(1 + i % 5, seed=i, high=9)) for i in range(48)])
    table, out = tf.Variable(normal(512, 24)), tf.Variable(normal(24, 3))
    labels = tf.constant(np.arange(48) % 3)

    @tf.function
    def step(lines):
        words = tf.strings.split(tf.strings.split(lines, ". "))
        ids = tf.ragged.map_flat_values(lambda t: tf.strings.to_hash_bucket_fast(t, 512), words)
        with tf.GradientTape() as tape:
            sentences = tf.reduce_sum(tf.ragged.map_flat_values(lambda i: tf.gather(table, i), ids), 2)
            documents = tf.reduce_max(tf.ragged.map_flat_values(tf.tanh, sentences), 1)
            logits = documents.to_tensor() @ out if hasattr(documents, "to_tensor") else documents @ out
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        g, h = tape.gradient(loss, [table, out])
        table.scatter_sub(tf.IndexedSlices(0.1 * g.values, g.indices))
        out.assign_sub(0.1 * h)
        lengths = tf.cast(ids.row_lengths(2).to_tensor(-1), tf.float32)
        return loss + 0.001 * tf.reduce_mean(lengths) + 0.001 * tf.reduce_mean(tf.cast(words.bounding_shape(), tf.float32))
    return lambda: float(step(lines))


@workload
def log_table_counts(tf):
    """Lines of a log in a session: addresses by a regular expression, counts in a mutable table, the most frequent ones."""
    v1, graph, r = tf.compat.v1, tf.Graph(), np.random.RandomState(0)
    with graph.as_default():
        lines = v1.placeholder(tf.string, [None])
        table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, 0)
        address = tf.strings.regex_replace(lines, r"^.*from ([0-9.]+) .*$", r"\1")
        parts = tf.io.decode_csv(tf.strings.regex_replace(address, r"\.", ","), [[0]] * 4)
        unique, _, counts = tf.unique_with_counts(address)
        totals = table.lookup(unique) + tf.cast(counts, tf.int64)
        inserted = table.insert(unique, totals)
        with tf.control_dependencies([inserted]):
            keys, values = table.export()
        best, at = tf.math.top_k(tf.cast(values, tf.int32), 5)
        shown = tf.strings.join([tf.gather(keys, at), tf.strings.as_string(best)], "=")
        fetched = [shown, tf.reduce_sum(parts[3]), tf.size(unique)]
        session = session_of(tf, graph)
    batches = [np.array([f"{t} denied from 10.0.{a}.{b} port {p}" for t, a, b, p in zip(
        r.randint(0, 1000, 200), r.randint(0, 3, 200), r.randint(0, 40, 200), r.randint(1, 9999, 200), strict=True)], object)
        for _ in range(3)]

    def call():
        return float(sum(session.run(fetched, {lines: b})[1] for b in batches))
    return call
