"""Nine everyday programs beside TensorFlow on the CPU, written before anyone profiled them: fit, loops of the user, graphs of
1.x, pipelines and inference, small and large, with known and unknown batches.
"""
from __future__ import annotations

import numpy as np

from workloads import work_table

WORK, workload = work_table()


def _rand(*dims, seed=0):
    return np.random.RandomState(seed).rand(*dims).astype("f")


def _session(v1, graph, fetches, feed):
    """One step of a graph, whose first fetch is its loss."""
    session = v1.Session(graph=graph)
    with graph.as_default():
        session.run(v1.global_variables_initializer())
    return lambda: session.run(fetches, feed)[0]


@workload
def house_prices_fit(tf):
    """Regression on normalized columns with dropout and a metric, by fit with validation."""
    K, x = tf.keras.layers, _rand(2000, 13)
    model = tf.keras.Sequential([tf.keras.Input([13]), K.BatchNormalization(), K.Dense(64, "relu"), K.Dropout(0.2),
                                 K.Dense(64, "relu"), K.Dense(1)])
    model.compile("rmsprop", "mse", metrics=["mae"])
    y = x.sum(1)
    return lambda: model.fit(x, y, batch_size=32, epochs=1, validation_split=0.2, verbose=0).history["loss"][0]


@workload
def denoising_decoder_fit(tf):
    """A convolutional autoencoder of small colour images with transposed convolutions, by fit."""
    K, x = tf.keras.layers, _rand(96, 32, 32, 3)
    model = tf.keras.Sequential([tf.keras.Input([32, 32, 3]), K.Conv2D(32, 3, 2, "same", activation="relu"),
                                 K.Conv2D(64, 3, 2, "same", activation="relu"),
                                 K.Conv2DTranspose(32, 3, 2, "same", activation="relu"),
                                 K.Conv2DTranspose(3, 3, 2, "same", activation="sigmoid")])
    model.compile("adam", "mse")
    return lambda: model.fit(x, x, batch_size=32, epochs=1, shuffle=False, verbose=0).history["loss"][0]


@workload
def style_image_steps(tf):
    """Steps on an image itself: Gram matrices of two layers, total variation, clipping."""
    K = tf.keras.layers
    first, second = K.Conv2D(32, 3, padding="same", activation="relu"), K.Conv2D(64, 3, 2, padding="same", activation="relu")
    image, goal = tf.Variable(_rand(1, 64, 64, 3)), tf.constant(_rand(1, 64, 64, 3, seed=1))
    opt = tf.keras.optimizers.Adam(0.01)

    def grams(x):
        found = []
        for layer in (first, second):
            x = layer(x)
            found.append(tf.einsum("bijc,bijd->bcd", x, x) / tf.cast(tf.size(x), tf.float32))
        return found
    wanted = grams(goal)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.add_n([tf.reduce_mean(tf.square(a - b)) for a, b in zip(grams(image), wanted, strict=True)])
            loss += 1e-4 * tf.reduce_sum(tf.image.total_variation(image))
        opt.apply_gradients([(tape.gradient(loss, image), image)])
        image.assign(tf.clip_by_value(image, 0.0, 1.0))
        return loss
    return lambda: float(step())


@workload
def ensemble_eager_loop(tf):
    """Three small networks trained in an eager loop, each with its own tape and optimizer."""
    K, x, y = tf.keras.layers, tf.constant(_rand(64, 20)), tf.constant(_rand(64, 1, seed=1))
    nets = [tf.keras.Sequential([tf.keras.Input([20]), K.Dense(32, "tanh"), K.Dense(1)]) for _ in range(3)]
    opts = [tf.keras.optimizers.SGD(0.01, momentum=0.9) for _ in nets]

    def call():
        total = 0.0
        for net, opt in zip(nets, opts, strict=True):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(net(x, training=True) - y))
            weights = net.trainable_variables
            opt.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
            total += float(loss)
        return total
    return call


@workload
def accumulated_gradients(tf):
    """A function with an unknown batch that adds up gradients of four parts before one clipped update."""
    K, opt = tf.keras.layers, tf.keras.optimizers.Adam(1e-3)
    net = tf.keras.Sequential([tf.keras.Input([64]), K.Dense(128, "gelu"), K.LayerNormalization(), K.Dense(10)])
    sums = [tf.Variable(tf.zeros_like(v)) for v in net.trainable_variables]
    cost = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    x, y = tf.constant(_rand(48, 64)), tf.constant(np.arange(48) % 10)

    @tf.function(input_signature=[tf.TensorSpec([None, 64]), tf.TensorSpec([None], tf.int64)])
    def add(x, y):
        with tf.GradientTape() as tape:
            loss = cost(y, net(x, training=True))
        for s, g in zip(sums, tape.gradient(loss, net.trainable_variables), strict=True):
            s.assign_add(g)
        return loss

    @tf.function
    def apply():
        grads, _ = tf.clip_by_global_norm([s / 4.0 for s in sums], 1.0)
        opt.apply_gradients(zip(grads, net.trainable_variables, strict=True))
        for s in sums:
            s.assign(tf.zeros_like(s))

    def call():
        loss = sum(float(add(x[:n], y[:n])) for n in (48, 32, 48, 16))
        apply()
        return loss
    return call


@workload
def v1_softmax_regression(tf):
    """1.x: placeholders of unknown batch, accuracy, momentum and a decaying rate, by feed_dict."""
    v1, graph = tf.compat.v1, tf.Graph()
    with graph.as_default():
        x, y = v1.placeholder(tf.float32, [None, 784]), v1.placeholder(tf.int64, [None])
        logits = tf.matmul(x, v1.get_variable("w", [784, 10])) + v1.get_variable("b", [10], initializer=v1.zeros_initializer())
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
        right = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), y), tf.float32))
        step = v1.train.get_or_create_global_step()
        rate = v1.train.exponential_decay(0.1, step, 100, 0.96)
        train = v1.train.MomentumOptimizer(rate, 0.9).minimize(loss, global_step=step)
    return _session(v1, graph, [loss, right, train], {x: _rand(128, 784), y: np.arange(128) % 10})


@workload
def sliding_windows_pipeline(tf):
    """Windows of a series as examples: window, flat_map, map, shuffle, padded last batch."""
    series = np.arange(2000, dtype="f")

    def call():
        ds = tf.data.Dataset.from_tensor_slices(series).window(20, shift=4, drop_remainder=True)
        ds = ds.flat_map(lambda w: w.batch(20)).map(lambda w: (w[:-1], w[-1])).shuffle(100, seed=1).batch(32).prefetch(1)
        return sum(float(y.numpy()[0]) for _, y in ds)
    return call


@workload
def csv_lines_pipeline(tf):
    """Lines of text parsed, filtered, normalized and batched."""
    r = np.random.RandomState(0)
    lines = [",".join("%.3f" % v for v in row) for row in r.rand(1500, 6)]

    def parse(line):
        columns = tf.io.decode_csv(line, [0.0] * 6)
        return tf.stack(columns[:5]), columns[5]

    def call():
        ds = tf.data.Dataset.from_tensor_slices(lines).map(parse).filter(lambda x, y: y > 0.2)
        ds = ds.map(lambda x, y: ((x - 0.5) / 0.29, tf.cast(y > 0.6, tf.int32))).batch(50)
        return sum(int(tf.reduce_sum(y)) for _, y in ds)
    return call


@workload
def predict_many_sizes(tf):
    """Inference of a small image network on batches of changing sizes, as a service calls it."""
    K = tf.keras.layers
    net = tf.keras.Sequential([tf.keras.Input([28, 28, 1]), K.Conv2D(16, 3, activation="relu"), K.MaxPooling2D(),
                               K.Conv2D(32, 3, activation="relu"), K.GlobalAveragePooling2D(), K.Dense(10, "softmax")])
    call_net, x = tf.function(net, input_signature=[tf.TensorSpec([None, 28, 28, 1])]), tf.constant(_rand(17, 28, 28, 1))
    return lambda: sum(float(tf.reduce_max(call_net(x[:n]))) for n in (1, 3, 8, 1, 17, 2))
