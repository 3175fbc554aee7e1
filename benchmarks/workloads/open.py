"""Ten ordinary programs beside TensorFlow on the CPU, most of them with open batch sizes and lengths: signatures,
layers that look rows up, pipelines of text and images, sessions fed with changing sizes, factorizations.
"""
from __future__ import annotations

import numpy as np

from workloads import work_table

WORK, workload = work_table()


def _normal(*dims, seed=0):
    return np.random.RandomState(seed).randn(*dims).astype("f")


def _ids(high, *dims, seed=0):
    return np.random.RandomState(seed).randint(0, high, dims)


@workload
def text_encoder_signature(tf):
    """Inference of two layers of attention behind an embedding, called with a signature of open batch size and length."""
    width, heads = 128, 4
    words, places = tf.Variable(0.1 * _normal(2000, width)), tf.Variable(0.1 * _normal(64, width, seed=1))
    layers = [[tf.Variable(0.05 * _normal(*d, seed=i)) for d in ((width, 3 * width), (width, width), (width, 4 * width),
                                                                 (4 * width, width))] for i in range(2)]

    def normal(x):
        mean, variance = tf.nn.moments(x, [-1], keepdims=True)
        return (x - mean) * tf.math.rsqrt(variance + 1e-6)

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)])
    def encode(ids):
        batch, length = tf.unstack(tf.shape(ids))
        x = tf.gather(words, ids) + places[:length]
        for qkv, out, up, down in layers:
            q, k, v = tf.unstack(tf.transpose(tf.reshape(normal(x) @ qkv, [batch, length, 3, heads, width // heads]),
                                              [2, 0, 3, 1, 4]))
            p = tf.nn.softmax(tf.matmul(q, k, transpose_b=True) * (width // heads) ** -0.5)
            x += tf.reshape(tf.transpose(p @ v, [0, 2, 1, 3]), [batch, length, width]) @ out
            x += tf.nn.gelu(normal(x) @ up) @ down
        return tf.reduce_mean(x, 1)
    ids = tf.constant(_ids(2000, 4, 48), tf.int32)
    return lambda: float(tf.reduce_sum(encode(ids)))


@workload
def keras_reviews_fit(tf):
    """`fit` of an embedding, a convolution over words and pooling, from a dataset whose last batch is smaller."""
    K = tf.keras.layers
    x, y = _ids(5000, 330, 60), _ids(2, 330, seed=1)
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(32)
    net = tf.keras.Sequential([tf.keras.Input([60], dtype="int32"), K.Embedding(5000, 48), K.Conv1D(64, 5, activation="relu"),
                               K.GlobalMaxPooling1D(), K.Dense(32, activation="relu"), K.Dropout(0.2),
                               K.Dense(1, activation="sigmoid")])
    net.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    return lambda: net.fit(data, epochs=1, verbose=0).history["loss"][-1]


@workload
def session_tagger_open(tf):
    """A 1.x session: a tagger of windows around words, fed with batches of changing sizes."""
    v1, g = tf.compat.v1, tf.Graph()
    with g.as_default():
        words, tags = v1.placeholder(tf.int32, [None, 7]), v1.placeholder(tf.int32, [None])
        table = v1.get_variable("table", initializer=0.1 * _normal(3000, 32))
        w1 = v1.get_variable("w1", initializer=0.1 * _normal(7 * 32, 128))
        b1 = v1.get_variable("b1", initializer=np.zeros(128, "f"))
        w2 = v1.get_variable("w2", initializer=0.1 * _normal(128, 24))
        hidden = tf.tanh(tf.matmul(tf.reshape(tf.nn.embedding_lookup(table, words), [-1, 7 * 32]), w1) + b1)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tags, logits=tf.matmul(hidden, w2)))
        train = v1.train.AdagradOptimizer(0.1).minimize(loss)
        session = v1.Session(graph=g)
        session.run(v1.global_variables_initializer())
    batches = [(_ids(3000, n, 7, seed=n), _ids(24, n, seed=n)) for n in (64, 80, 64, 72, 80, 64)]

    def call():
        for a, b in batches:
            found = session.run([loss, train], {words: a, tags: b})[0]
        return float(found)
    return call


@workload
def two_towers(tf):
    """Retrieval: two towers over identifiers, products of all pairs in the batch, a softmax over them, sparse Adam."""
    users, items = tf.Variable(0.1 * _normal(4000, 32)), tf.Variable(0.1 * _normal(6000, 32, seed=1))
    towers = [[tf.Variable(0.1 * _normal(32, 64, seed=i)), tf.Variable(0.1 * _normal(64, 32, seed=i + 2))] for i in (3, 4)]
    weights = [users, items, *towers[0], *towers[1]]
    opt = tf.keras.optimizers.Adam(1e-3)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64)] * 2)
    def step(u, i):
        with tf.GradientTape() as tape:
            a, b = (tf.math.l2_normalize(tf.nn.relu(tf.nn.embedding_lookup(t, n) @ w[0]) @ w[1], -1)
                    for t, n, w in ((users, u, towers[0]), (items, i, towers[1])))
            scores = tf.matmul(a, b, transpose_b=True) * 10.0
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(tf.range(tf.shape(u)[0]), scores))
        opt.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss
    u, i = tf.constant(_ids(4000, 128)), tf.constant(_ids(6000, 128, seed=1))
    return lambda: float(step(u, i))


@workload
def csv_text_pipeline(tf):
    """Lines of numbers and words through a pipeline: parse, hash, normalize, shuffle, batch."""
    r = np.random.RandomState(0)
    lines = [f"{a:.3f},{b:.3f},city{c},{d}" for a, b, c, d in zip(r.rand(600), r.rand(600), r.randint(0, 50, 600),
                                                                  r.randint(0, 2, 600), strict=True)]

    def parse(line):
        a, b, city, label = tf.io.decode_csv(line, [[0.0], [0.0], [""], [0]])
        return (tf.stack([a, b]) * 2.0 - 1.0, tf.strings.to_hash_bucket_fast(tf.strings.upper(city), 100)), label
    data = tf.data.Dataset.from_tensor_slices(lines).map(parse).shuffle(200, seed=1).batch(32).prefetch(1)

    def call():
        total = 0
        for (numbers, city), label in data:
            total += int(label.shape[0]) + int(numbers.shape[1]) + int(city.shape[0])
        return total
    return call


@workload
def gaussian_process(tf):
    """Marginal likelihood of a Gaussian process: kernel matrix, Cholesky, solve, gradients of three numbers, Adam."""
    x, y = tf.constant(np.sort(np.random.RandomState(0).rand(120, 1), 0)), tf.constant(np.random.RandomState(1).randn(120, 1))
    numbers = [tf.Variable(np.float64(v)) for v in (-1.0, 0.0, -1.0)]
    opt = tf.keras.optimizers.Adam(0.01)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            scale, height, noise = (tf.exp(v) for v in numbers)
            k = height * tf.exp(-0.5 * tf.square((x - tf.transpose(x)) / scale))
            k += (noise + 1e-6) * tf.eye(120, dtype=tf.float64)
            low = tf.linalg.cholesky(k)
            fit = 0.5 * tf.reduce_sum(y * tf.linalg.cholesky_solve(low, y))
            loss = fit + tf.reduce_sum(tf.math.log(tf.linalg.diag_part(low)))
        opt.apply_gradients(zip(tape.gradient(loss, numbers), numbers, strict=True))
        return loss
    return lambda: float(step())


@workload
def augmented_images_fit(tf):
    """`fit` of a small network on images that a pipeline flips, crops and changes in brightness."""
    K = tf.keras.layers
    x, y = np.random.RandomState(0).randint(0, 256, (128, 36, 36, 3)).astype("u1"), _ids(5, 128)

    def change(image, label):
        image = tf.image.random_crop(tf.cast(image, tf.float32) / 255.0, [32, 32, 3], seed=1)
        image = tf.image.random_brightness(tf.image.random_flip_left_right(image, seed=2), 0.1, seed=3)
        return tf.clip_by_value(image, 0.0, 1.0), label
    data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(128, seed=0).map(change).batch(32).prefetch(1)
    net = tf.keras.Sequential([tf.keras.Input([32, 32, 3]), K.Conv2D(16, 3, strides=2, activation="relu"),
                               K.SeparableConv2D(32, 3, activation="relu"), K.GlobalAveragePooling2D(), K.Dense(5)])
    net.compile("sgd", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return lambda: net.fit(data, epochs=1, verbose=0).history["loss"][-1]


@workload
def ragged_scores(tf):
    """Ragged rows of identifiers: lookups, means of rows, a dense layer, with a signature of ragged inputs."""
    table, w = tf.Variable(0.1 * _normal(1000, 32)), tf.Variable(0.1 * _normal(32, 8))
    r = np.random.RandomState(0)
    rows = tf.ragged.constant([r.randint(0, 1000, r.randint(1, 12)).tolist() for _ in range(64)], dtype=tf.int64)

    @tf.function(input_signature=[tf.RaggedTensorSpec([None, None], tf.int64)])
    def scores(rows):
        found = tf.gather(table, rows.flat_values)
        mean = tf.math.segment_mean(found, rows.value_rowids())
        return tf.reduce_max(tf.nn.softmax(tf.nn.relu(mean) @ w), -1)
    return lambda: float(tf.reduce_sum(scores(rows)))


@workload
def predict_changing(tf):
    """`predict_on_batch` of a functional model with two inputs, for batches of four sizes in turn."""
    K = tf.keras.layers
    a, b = tf.keras.Input([20]), tf.keras.Input([5], dtype="int32")
    x = K.Concatenate()([K.Dense(64, activation="relu")(a), K.Flatten()(K.Embedding(300, 16)(b))])
    for _ in range(3):
        x = K.LayerNormalization()(x + K.Dense(144, activation="gelu")(x))
    net = tf.keras.Model([a, b], K.Dense(3, activation="softmax")(x))
    batches = [(_normal(n, 20, seed=n), _ids(300, n, 5, seed=n)) for n in (8, 16, 24, 32)]

    def call():
        return float(sum(net.predict_on_batch([p, q])[0, 0] for p, q in batches))
    return call


@workload
def kalman_filter(tf):
    """A filter over 40 measurements of four systems: `tf.scan` of products and small solves, with gradients."""
    a = tf.Variable(np.eye(4, dtype="f") + 0.05 * _normal(4, 4))
    h, y = tf.constant(_normal(2, 4, seed=1)), tf.constant(_normal(40, 4, 2, 1, seed=2))

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            def move(state, seen):
                mean, spread = state
                mean, spread = a @ mean, a @ spread @ tf.transpose(a) + 0.1 * tf.eye(4)
                inner = h @ spread @ tf.transpose(h) + 0.2 * tf.eye(2)
                gain = tf.transpose(tf.linalg.solve(inner, h @ spread), [0, 2, 1])
                return mean + gain @ (seen - h @ mean), spread - gain @ h @ spread
            means, _ = tf.scan(move, y, (tf.zeros([4, 4, 1]), tf.eye(4, batch_shape=[4])))
            loss = tf.reduce_mean(tf.square(h @ means - y))
        a.assign_sub(1e-3 * tape.gradient(loss, a))
        return loss
    return lambda: float(step())
