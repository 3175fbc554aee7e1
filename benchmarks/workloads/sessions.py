"""Ten programs of 1.x graphs: recurrent layers with attention, `tf.layers` behind queues, feature columns and estimators,
conditionals, many small runs, steps in parts, summaries, hooks, sparse lookups with FTRL, beam search. Written before anyone
profiled them.
"""
from __future__ import annotations

import os
import tempfile

import numpy as np

from workloads import work_table

WORK, workload = work_table()


def normal(*dims, seed=0):
    return 0.1 * np.random.RandomState(seed).randn(*dims).astype("f")


def old(tf):
    """The 1.x module of a framework, with the layers and cells of Keras 2."""
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    return tf.compat.v1


def session_of(tf, graph):
    session = tf.compat.v1.Session(graph=graph)
    with graph.as_default():
        session.run([tf.compat.v1.global_variables_initializer(), tf.compat.v1.tables_initializer()])
    return session


@workload
def attention_translation(tf):
    """A bidirectional encoder with lengths, and a decoder cell that looks at its results in each step; two lengths in turn."""
    v1, graph = old(tf), tf.Graph()

    class Looking(v1.nn.rnn_cell.RNNCell):
        def __init__(self, cell, memory, mask):
            super().__init__()
            self.cell, self.memory, self.mask = cell, memory, mask
            self.keys = v1.layers.dense(memory, 48, use_bias=False, name="keys")

        state_size = property(lambda self: (self.cell.state_size, 64))
        output_size = 64

        def call(self, x, state):
            state, seen = state
            out, state = self.cell(tf.concat([x, seen], 1), state)
            query = v1.layers.dense(out, 48, use_bias=False, name="query", reuse=v1.AUTO_REUSE)
            score = tf.reduce_sum(tf.tanh(self.keys + query[:, None]) * v1.get_variable("score", [48]), 2)
            weight = tf.nn.softmax(score + (1.0 - self.mask) * -1e9)
            seen = tf.reduce_sum(weight[:, :, None] * self.memory, 1)
            return v1.layers.dense(tf.concat([out, seen], 1), 64, tf.tanh, name="mix", reuse=v1.AUTO_REUSE), (state, seen)
    with graph.as_default():
        v1.set_random_seed(0)
        source, target = v1.placeholder(tf.int32, [None, None]), v1.placeholder(tf.int32, [None, None])
        lengths = v1.placeholder(tf.int32, [None])
        table = v1.get_variable("table", initializer=normal(900, 32))
        GRU = v1.nn.rnn_cell.GRUCell
        outs, _ = v1.nn.bidirectional_dynamic_rnn(GRU(32), GRU(32), tf.nn.embedding_lookup(table, source), lengths,
                                                  dtype=tf.float32)
        mask = tf.sequence_mask(lengths, tf.shape(source)[1], tf.float32)
        cell = Looking(v1.nn.rnn_cell.DropoutWrapper(GRU(64), output_keep_prob=0.9), tf.concat(outs, 2), mask)
        decoded, _ = v1.nn.dynamic_rnn(cell, tf.nn.embedding_lookup(table, target[:, :-1]), dtype=tf.float32, scope="decoder")
        logits = v1.layers.dense(decoded, 900)
        weights = tf.cast(target[:, 1:] > 0, tf.float32)
        loss = v1.losses.sparse_softmax_cross_entropy(target[:, 1:], logits, weights)
        optimizer = v1.train.AdamOptimizer(0.002)
        found = optimizer.compute_gradients(loss)
        train = optimizer.apply_gradients([(tf.clip_by_norm(g, 5.0), v) for g, v in found if g is not None])
        session = session_of(tf, graph)
    r = np.random.RandomState(0)
    feeds = [{source: r.randint(1, 900, (16, n)), target: r.randint(1, 900, (16, n - 2)), lengths: r.randint(n // 2, n + 1, 16)}
             for n in (14, 20)]
    return lambda: float(sum(session.run([loss, train], feed)[0] for feed in feeds))


@workload
def layers_behind_queue(tf):
    """`tf.layers`: convolutions, batch normalization, dropout, on images that a queue runner distorts and puts into batches."""
    v1, graph = old(tf), tf.Graph()
    with graph.as_default():
        v1.set_random_seed(0)
        images = tf.constant(np.random.RandomState(0).rand(256, 32, 32, 3).astype("f"))
        image, label = v1.train.slice_input_producer([images, tf.constant(np.arange(256) % 10)], seed=1)
        image = tf.image.random_flip_left_right(v1.random_crop(tf.pad(image, [[2, 2], [2, 2], [0, 0]]), [32, 32, 3], seed=2), 3)
        x, y = v1.train.batch([image, label], 32, capacity=128)
        training = v1.placeholder_with_default(True, [])
        for width in (24, 48, 64):
            x = v1.layers.conv2d(x, width, 3, padding="same", use_bias=False)
            x = tf.nn.relu(v1.layers.batch_normalization(x, training=training))
            x = v1.layers.max_pooling2d(v1.layers.conv2d(x, width, 3, padding="same", activation=tf.nn.relu), 2, 2)
        x = v1.layers.dropout(v1.layers.dense(v1.layers.flatten(x), 96, tf.nn.relu), 0.4, training=training)
        logits = v1.layers.dense(x, 10, kernel_regularizer=lambda w: 1e-4 * tf.nn.l2_loss(w))
        loss = v1.losses.sparse_softmax_cross_entropy(y, logits) + v1.losses.get_regularization_loss()
        step = v1.train.get_or_create_global_step()
        rate = v1.train.piecewise_constant(step, [200, 400], [0.05, 0.01, 0.001])
        with tf.control_dependencies(v1.get_collection(v1.GraphKeys.UPDATE_OPS)):
            train = v1.train.MomentumOptimizer(rate, 0.9, use_nesterov=True).minimize(loss, step)
        session = session_of(tf, graph)
        v1.train.start_queue_runners(session)

    def call():
        session.run(train)
        return float(np.isfinite(session.run([train, loss])[1]))
    return call


def _columns(tf):
    """Feature columns of five kinds, and batches of features."""
    C, r = tf.feature_column, np.random.RandomState(0)
    age, city = C.numeric_column("age"), C.categorical_column_with_hash_bucket("city", 100)
    job = C.categorical_column_with_vocabulary_list("job", [f"job{i}" for i in range(20)], num_oov_buckets=2)
    ages = C.bucketized_column(age, [20, 30, 40, 50, 60])
    deep = [C.numeric_column("income", [3]), C.embedding_column(city, 8), C.indicator_column(job), C.indicator_column(ages)]

    def batch():
        return {"age": r.randint(15, 80, (64, 1)).astype("f"), "income": r.rand(64, 3).astype("f"),
                "city": np.array([[b"city%d" % i] for i in r.randint(0, 300, 64)], object),
                "job": np.array([[b"job%d" % i] for i in r.randint(0, 25, 64)], object)}, (r.rand(64, 1) < 0.4).astype("f")
    return deep, [ages, city, job, C.crossed_column([ages, "job"], 500)], [batch() for _ in range(6)]


@workload
def column_layers(tf):
    """Feature columns: a linear model and a deep part over strings and numbers, by FTRL and Adagrad, in a monitored session."""
    v1, graph = old(tf), tf.Graph()
    deep, wide, batches = _columns(tf)
    with graph.as_default():
        v1.set_random_seed(0)
        kinds = {"age": (tf.float32, 1), "income": (tf.float32, 3), "city": (tf.string, 1), "job": (tf.string, 1)}
        fed = {name: v1.placeholder(kind, [None, n]) for name, (kind, n) in kinds.items()}
        y = v1.placeholder(tf.float32, [None, 1])
        with v1.variable_scope("wide"):
            logits = v1.feature_column.linear_model(fed, wide)
        x = v1.feature_column.input_layer(fed, deep)
        for i, width in enumerate((32, 16, 1)):
            w = v1.get_variable(f"w{i}", initializer=normal(int(x.shape[1]), width, seed=i))
            x = tf.matmul(tf.nn.relu(x) if i else x, w)
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=logits + x))
        wides = v1.get_collection(v1.GraphKeys.TRAINABLE_VARIABLES, "wide")
        rest = [v for v in v1.trainable_variables() if all(v is not w for w in wides)]
        train = tf.group(v1.train.FtrlOptimizer(0.05).minimize(loss, v1.train.get_or_create_global_step(), var_list=wides),
                         v1.train.AdagradOptimizer(0.05).minimize(loss, var_list=rest))
        session = v1.train.MonitoredTrainingSession()
    feeds = [{y: label, **{fed[name]: values[name] for name in fed}} for values, label in batches]
    return lambda: float(sum(session.run([loss, train], feed)[0] for feed in feeds))


@workload
def estimator_columns(tf):
    """An estimator of wide and deep parts: 30 steps of training from arrays, then an evaluation. (TensorFlow 2.15 or older.)"""
    v1 = old(tf)
    deep, wide, batches = _columns(tf)
    x = {name: np.concatenate([values[name] for values, _ in batches]) for name in batches[0][0]}
    y = np.concatenate([label for _, label in batches]).astype(np.int32)
    E = v1.estimator

    def call():
        model = E.DNNLinearCombinedClassifier(
            tempfile.mkdtemp(), linear_feature_columns=wide, dnn_feature_columns=deep, dnn_hidden_units=[32, 16],
            config=E.RunConfig(tf_random_seed=0))
        fed = E.inputs.numpy_input_fn(x, y, batch_size=64, num_epochs=None, shuffle=True)
        model.train(fed, steps=30)
        found = model.evaluate(E.inputs.numpy_input_fn(x, y, batch_size=128, num_epochs=1, shuffle=False))
        return float(found["loss"] < 2) + found["global_step"]
    return call


@workload
def conditional_network(tf):
    """A graph of conditionals: two in each of six layers, nested ones, and a case that chooses the update of the weights."""
    v1, graph = old(tf), tf.Graph()
    with graph.as_default():
        v1.set_random_seed(0)
        x, path = v1.placeholder(tf.float32, [32, 40]), v1.placeholder(tf.int32, [6])
        noisy, phase, h = v1.placeholder(tf.bool, []), v1.placeholder(tf.int32, []), x
        for i in range(6):
            a, b = (v1.get_variable(f"{n}{i}", initializer=normal(40, 40, seed=i + j)) for j, n in enumerate("ab"))
            h = v1.cond(noisy, lambda h=h: h + v1.random_normal([32, 40], stddev=0.01), lambda h=h: h)
            h = v1.cond(path[i] > 0, lambda h=h, a=a: tf.nn.relu(tf.matmul(h, a)) + h,
                        lambda h=h, b=b, i=i: v1.cond(path[i] < 0, lambda: tf.tanh(tf.matmul(h, b)), lambda: tf.identity(h)))
        loss = tf.reduce_mean(tf.square(h - tf.reverse(x, [1])))
        params = v1.trainable_variables()
        grads = [tf.convert_to_tensor(g) for g in v1.gradients(loss, params)]
        size = tf.linalg.global_norm(grads)
        norm = v1.cond(size > 0.5, lambda: 0.5 / size, lambda: tf.constant(1.0))

        def update(rate):
            return lambda: tf.group(*[v1.assign_sub(v, rate * norm * g) for v, g in zip(params, grads, strict=True)])
        train = v1.case([(tf.equal(phase, 0), update(0.1)), (tf.equal(phase, 1), update(0.01))], default=tf.no_op)
        session = session_of(tf, graph)
    r = np.random.RandomState(0)
    feeds = [{x: r.randn(32, 40), path: r.randint(-1, 2, 6), noisy: i % 3 == 0, phase: i % 3} for i in range(12)]
    return lambda: float(sum(session.run([loss, train], feed)[0] for feed in feeds))


@workload
def many_small_runs(tf):
    """A bandit of linear models: for each of 60 visitors one run chooses, one updates, with 1 to 9 offers; sums are read."""
    v1, graph = old(tf), tf.Graph()
    with graph.as_default():
        v1.set_random_seed(0)
        offers, arm, gain = v1.placeholder(tf.float32, [None, 12]), v1.placeholder(tf.int32, []), v1.placeholder(tf.float32, [])
        inverse = v1.get_variable("inverse", initializer=np.eye(12, dtype="f"))
        target, total = v1.get_variable("target", initializer=np.zeros(12, "f")), v1.get_variable("total", initializer=0.0)
        theta = tf.linalg.matvec(inverse, target)
        spread = tf.sqrt(tf.reduce_sum(tf.matmul(offers, inverse) * offers, 1))
        bound = tf.linalg.matvec(offers, theta) + 0.5 * spread
        choice = tf.argmax(bound, 0, output_type=tf.int32)
        taken = offers[arm]
        image = tf.linalg.matvec(inverse, taken)
        smaller = tf.tensordot(image, image, 0) / (1.0 + tf.reduce_sum(taken * image))
        learn = tf.group(v1.assign_sub(inverse, smaller), v1.assign_add(target, gain * taken), v1.assign_add(total, gain))
        reset = tf.group(inverse.initializer, target.initializer, total.initializer)
        session = session_of(tf, graph)
    r = np.random.RandomState(0)
    visitors = [r.rand(r.randint(1, 10), 12).astype("f") for _ in range(60)]

    def call():
        session.run(reset)
        for seen in visitors:
            chosen, _ = session.run([choice, bound], {offers: seen})
            session.run(learn, {offers: seen, arm: chosen, gain: float(seen[chosen].mean())})
        return float(session.run(total))
    return call


@workload
def steps_in_parts(tf):
    """`partial_run`: an encoder runs, Python quantizes its code, and the same step goes on with a decoder and its training."""
    v1, graph = old(tf), tf.Graph()
    with graph.as_default():
        v1.set_random_seed(0)
        x, code, noise = (v1.placeholder(tf.float32, [24, n]) for n in (60, 10, 10))
        down, up, out = (v1.get_variable(n, initializer=normal(a, b, seed=a)) for n, a, b in (
            ("down", 60, 10), ("up", 10, 50), ("out", 50, 60)))
        hidden = tf.tanh(tf.matmul(x, down))
        decoded = tf.matmul(tf.nn.relu(tf.matmul(code + 0.1 * noise, up)), out)
        loss = tf.reduce_mean(tf.square(decoded - x)) + 0.01 * tf.reduce_mean(tf.square(hidden - code))
        with tf.control_dependencies([v1.train.AdagradOptimizer(0.05).minimize(loss)]):
            trained = tf.identity(loss)
        session = session_of(tf, graph)
    data = np.random.RandomState(0).rand(10, 24, 60).astype("f")

    def call():
        total = 0.0
        for rows in data:
            run = session.partial_run_setup([hidden, trained], [x, code, noise])
            seen = session.partial_run(run, hidden, {x: rows})
            total += session.partial_run(run, trained, {code: np.round(4 * seen) / 4, noise: seen})
        return float(total)
    return call


@workload
def summaries_every_step(tf):
    """Training with scalars, histograms and images of every step in an event file, and values with it."""
    v1, graph, folder = old(tf), tf.Graph(), tempfile.mkdtemp()
    with graph.as_default():
        v1.set_random_seed(0)
        x, y = v1.placeholder(tf.float32, [None, 784]), v1.placeholder(tf.int64, [None])
        h = tf.reshape(x, [-1, 28, 28, 1])
        v1.summary.image("input", h, 3)
        h = tf.reshape(h, [-1, 784])
        for i, (a, b) in enumerate([(784, 64), (64, 32), (32, 10)]):
            with v1.name_scope(f"layer{i}"):
                w = v1.Variable(normal(a, b, seed=i), name="w")
                v1.summary.histogram("weights", w)
                v1.summary.scalar("spread", tf.math.reduce_std(w))
                z = tf.matmul(h, w)
                v1.summary.histogram("before", z)
                h = tf.nn.relu(z)
        loss = v1.losses.sparse_softmax_cross_entropy(y, z)
        right = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(z, 1), y), tf.float32))
        for name, value in (("loss", loss), ("accuracy", right)):
            v1.summary.scalar(name, value)
        train = v1.train.AdamOptimizer(0.001).minimize(loss, v1.train.get_or_create_global_step())
        merged = v1.summary.merge_all()
        session = session_of(tf, graph)
        writer = v1.summary.FileWriter(folder, graph)
    r = np.random.RandomState(0)
    feeds = [{x: r.rand(50, 784), y: r.randint(0, 10, 50)} for _ in range(5)]
    steps = [0]

    def call():
        for feed in feeds:
            text, value, _ = session.run([merged, loss, train], feed)
            steps[0] += 1
            writer.add_summary(text, steps[0])
        writer.flush()
        return float(value)
    return call


@workload
def hooked_training(tf):
    """A monitored session with hooks for checkpoints, logs, speed, NaN, summaries and its own; a scaffold; 60 steps."""
    v1 = old(tf)
    v1.logging.set_verbosity(v1.logging.ERROR)
    data = np.random.RandomState(0).rand(60, 32, 20).astype("f")

    class Average(v1.train.SessionRunHook):
        def __init__(self, fetched):
            self.fetched, self.seen = fetched, []

        def before_run(self, context):
            return v1.train.SessionRunArgs({"loss": self.fetched, "step": v1.train.get_global_step()})

        def after_run(self, context, values):
            self.seen.append(values.results["loss"])

    def call():
        folder = tempfile.mkdtemp()
        with tf.Graph().as_default():
            v1.set_random_seed(0)
            x = v1.placeholder(tf.float32, [None, 20])
            code = tf.nn.elu(tf.matmul(x, v1.get_variable("w", initializer=normal(20, 8))))
            back = tf.matmul(code, v1.get_variable("v", initializer=normal(8, 20)))
            loss = tf.reduce_mean(tf.square(back - x))
            step = v1.train.get_or_create_global_step()
            train = v1.train.AdamOptimizer(0.01).minimize(loss, step)
            v1.summary.scalar("loss", loss)
            average = Average(loss)
            hooks = [v1.train.StopAtStepHook(60), v1.train.NanTensorHook(loss), average,
                     v1.train.LoggingTensorHook({"loss": loss, "step": step}, every_n_iter=10)]
            with v1.train.MonitoredTrainingSession(
                    checkpoint_dir=folder, scaffold=v1.train.Scaffold(saver=v1.train.Saver(max_to_keep=2)), hooks=hooks,
                    save_checkpoint_steps=20, save_summaries_steps=5, log_step_count_steps=10) as session:
                count = 0
                while not session.should_stop():
                    session.run(train, {x: data[count]})
                    count += 1
        return float(np.mean(average.seen))
    return call


@workload
def sparse_ftrl(tf):
    """Sparse features of 12 fields with weights: embeddings in three partitions, pairs of fields, all by FTRL."""
    v1, graph, r = old(tf), tf.Graph(), np.random.RandomState(0)
    with graph.as_default():
        v1.set_random_seed(0)
        ids = [v1.sparse_placeholder(tf.int64, [None, None]) for _ in range(12)]
        weights = [v1.sparse_placeholder(tf.float32, [None, None]) for _ in range(12)]
        y = v1.placeholder(tf.float32, [None])
        cut = v1.fixed_size_partitioner(3)
        rows, linear = [], []
        for i, (at, by) in enumerate(zip(ids, weights, strict=True)):
            start = v1.random_normal_initializer(0, 0.1, seed=i)
            table = v1.get_variable(f"table{i}", [3000, 8], initializer=start, partitioner=cut)
            rows.append(v1.nn.embedding_lookup_sparse(table, at, by, combiner="sqrtn"))
            first = v1.get_variable(f"first{i}", [3000, 1], initializer=v1.zeros_initializer())
            linear.append(v1.nn.embedding_lookup_sparse(first, at, None, combiner="sum"))
        x = tf.stack(rows, 1)
        pairs = 0.5 * tf.reduce_sum(tf.square(tf.reduce_sum(x, 1)) - tf.reduce_sum(tf.square(x), 1), 1)
        logits = tf.squeeze(tf.add_n(linear), 1) + pairs
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=logits))
        train = v1.train.FtrlOptimizer(0.05, l1_regularization_strength=1e-4, l2_regularization_strength=1e-4).minimize(loss)
        session = session_of(tf, graph)

    def feed():
        found = {y: (r.rand(128) < 0.3).astype("f")}
        for at, by in zip(ids, weights, strict=True):
            counts = r.randint(1, 4, 128)
            index = np.array([(row, k) for row, n in enumerate(counts) for k in range(n)], np.int64)
            found[at] = v1.SparseTensorValue(index, r.zipf(1.3, len(index)) % 3000, (128, 3))
            found[by] = v1.SparseTensorValue(index, r.rand(len(index)).astype("f"), (128, 3))
        return found
    feeds = [feed() for _ in range(3)]
    return lambda: float(sum(session.run([loss, train], each)[0] for each in feeds))


@workload
def beam_search_loop(tf):
    """Decoding by a `while_loop` over a recurrent cell: beams, finished sequences, penalties of length; then a traceback."""
    v1, graph, beams, words, width = old(tf), tf.Graph(), 4, 200, 48
    with graph.as_default():
        start, limit = v1.placeholder(tf.float32, [None, width]), v1.placeholder(tf.int32, [])
        table, into, loop, out = (v1.get_variable(n, initializer=3 * normal(a, b, seed=a + b)) for n, a, b in (
            ("table", words, width), ("into", width, 2 * width), ("loop", width, 2 * width), ("out", width, words)))
        batch = tf.shape(start)[0]
        rows = tf.range(batch)[:, None] * beams

        def step(t, state, word, score, done, parents, symbols):
            gates = tf.matmul(tf.gather(table, tf.reshape(word, [-1])), into) + tf.matmul(state, loop)
            gate, new = tf.split(gates, 2, 1)
            state = tf.sigmoid(gate) * state + (1.0 - tf.sigmoid(gate)) * tf.tanh(new)
            each = tf.reshape(tf.nn.log_softmax(tf.matmul(state, out)), [batch, beams, words])
            ended = tf.one_hot(tf.zeros([batch, beams], tf.int32), words, 0.0, -1e9)
            each = tf.where(tf.tile(done[:, :, None], [1, 1, words]), ended, each)
            total = tf.reshape(score[:, :, None] + each, [batch, beams * words])
            score, at = tf.nn.top_k(total, beams)
            parent, word = at // words, at % words
            flat = tf.reshape(rows + parent, [-1])
            done = tf.logical_or(tf.reshape(tf.gather(tf.reshape(done, [-1]), flat), [batch, beams]), tf.equal(word, 0))
            return t + 1, tf.gather(state, flat), word, score, done, parents.write(t, parent), symbols.write(t, word)
        first = tf.tile(tf.constant([[0.0] + [-1e9] * (beams - 1)]), [batch, 1])
        arrays = [tf.TensorArray(tf.int32, limit, element_shape=[None, beams]) for _ in range(2)]
        t, _, _, score, done, parents, symbols = v1.while_loop(
            lambda t, state, word, score, done, *_: tf.logical_and(t < limit, tf.logical_not(tf.reduce_all(done))), step,
            [0, tf.repeat(start, beams, 0), tf.ones([batch, beams], tf.int32), first, tf.zeros([batch, beams], tf.bool),
             *arrays],
            shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, width]), *[tf.TensorShape([None, beams])] * 3,
                              tf.TensorShape(None), tf.TensorShape(None)])

        def back(i, beam, kept):
            word = tf.reduce_sum(symbols.read(i) * tf.one_hot(beam, beams, dtype=tf.int32), 1)
            return i - 1, tf.reduce_sum(parents.read(i) * tf.one_hot(beam, beams, dtype=tf.int32), 1), kept.write(i, word)
        _, _, kept = v1.while_loop(lambda i, *_: i >= 0, back, [
            t - 1, tf.argmax(score, 1, output_type=tf.int32), tf.TensorArray(tf.int32, t)],
            shape_invariants=[tf.TensorShape([]), tf.TensorShape([None]), tf.TensorShape(None)])
        best = tf.transpose(kept.stack())
        session = session_of(tf, graph)
    starts = [normal(n, width, seed=n) * 5 for n in (3, 8)]

    def call():
        return float(sum(session.run([best, score], {start: s, limit: 25})[1].max() for s in starts))
    return call
