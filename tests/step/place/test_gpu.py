"""What a GPU is used well for: steps that launch and do not wait, feeds through pinned memory, precision as one chooses."""
import logging
import warnings

import numpy as np
import pytest
import torch

import penstock as tf2
import penstock.compat.v1 as tf
from penstock._src.graph import context
from penstock._src.step.tiers import inductor

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")]

BATCH = 32


@pytest.fixture
def launched(monkeypatch):
    """Steps whose kernels are launched one by one, each time."""
    monkeypatch.setenv("PENSTOCK_TIER", "1")


class waits:
    """Counts, or refuses, what makes the host wait for the GPU."""

    def __init__(self, mode="error"):
        self.mode, self.found = mode, []

    def __enter__(self):
        torch.cuda.synchronize()
        self.caught = warnings.catch_warnings(record=True)
        self.found = self.caught.__enter__()
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode(self.mode)
        return self

    def __exit__(self, *exc):
        torch.cuda.set_sync_debug_mode("default")
        self.caught.__exit__(*exc)
        torch.cuda.synchronize()


# -- steps that do not wait ------------------------------------------------------------------------------------------------
def images():
    return tf.placeholder(tf.float32, [None, 8, 8, 3]), np.random.RandomState(0).rand(BATCH, 8, 8, 3).astype(np.float32)


def labels(classes=10):
    return tf.placeholder(tf.int32, [None]), np.random.RandomState(1).randint(0, classes, BATCH).astype(np.int32)


def dense(x, units, name):
    w = tf.get_variable(f"{name}w", [int(x.shape[-1]), units], initializer=tf.glorot_uniform_initializer())
    return tf.nn.bias_add(tf.matmul(x, w), tf.get_variable(f"{name}b", [units], initializer=tf.zeros_initializer()))


def classified(h, y):
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=dense(h, 10, "last")))


def convolution(optimizer):
    (x, xs), (y, ys) = images(), labels()
    h = tf.layers.conv2d(x, 8, 3, activation=tf.nn.relu)
    h = tf.layers.max_pooling2d(h, 2, 2)
    h = tf.layers.batch_normalization(h, training=True)
    h = tf.reshape(h, [-1, 3 * 3 * 8])
    train = optimizer().minimize(classified(h, y), global_step=tf.train.get_or_create_global_step())
    return tf.group(train, *tf.get_collection(tf.GraphKeys.UPDATE_OPS)), {x: xs, y: ys}


def dropped_and_clipped():
    (x, xs), (y, ys) = images(), labels()
    h = tf.nn.dropout(tf.nn.relu(dense(tf.reshape(x, [-1, 192]), 64, "first")), rate=0.3)
    loss = classified(h, y) + tf.add_n([tf.nn.l2_loss(v) for v in tf.trainable_variables()]) * 1e-3
    step = tf.train.get_or_create_global_step()
    rate = tf.train.exponential_decay(0.1, step, 10, 0.9, staircase=True)
    opt = tf.train.AdamOptimizer(rate)
    pairs = opt.compute_gradients(loss)
    clipped, _ = tf.clip_by_global_norm([g for g, _ in pairs], 1.0)
    train = opt.apply_gradients(list(zip(clipped, [v for _, v in pairs], strict=True)), step)
    average = tf.train.ExponentialMovingAverage(0.99, step)
    with tf.control_dependencies([train]):
        return average.apply(tf.trainable_variables()), {x: xs, y: ys}


def embedded(optimizer):
    y, ys = labels()
    words = tf.placeholder(tf.int32, [None, 12])
    table = tf.get_variable("table", [100, 16])
    h = tf.reduce_mean(tf.nn.embedding_lookup(table, words), 1)
    return optimizer().minimize(classified(h, y)), {
        y: ys, words: np.random.RandomState(2).randint(0, 100, [BATCH, 12]).astype(np.int32)}


def measured():
    (x, xs), (y, ys) = images(), labels()
    logits = dense(tf.reshape(x, [-1, 192]), 10, "all")
    predicted = tf.argmax(logits, 1, output_type=tf.int32)
    _, accuracy = tf.metrics.accuracy(y, predicted)
    _, mean = tf.metrics.mean(tf.reduce_max(tf.nn.softmax(logits), 1))
    best = tf.assign(tf.get_variable("best", [BATCH, 3], trainable=False), tf.nn.top_k(logits, 3)[0])
    chosen = tf.where(tf.equal(predicted, y), tf.ones([BATCH]), tf.zeros([BATCH])) * tf.one_hot(y, 10)[:, 0]
    return tf.group(accuracy, mean, best, tf.assign_add(tf.get_variable("sum", [], trainable=False), tf.reduce_sum(chosen))), {
        x: xs, y: ys}


def recurrent():
    y, ys = labels()
    x = tf.placeholder(tf.float32, [BATCH, 7, 5])
    outputs, _ = tf.nn.dynamic_rnn(tf.nn.rnn_cell.LSTMCell(16), x, dtype=tf.float32)
    return tf.train.GradientDescentOptimizer(0.1).minimize(classified(outputs[:, -1], y)), {
        y: ys, x: np.random.RandomState(3).randn(BATCH, 7, 5).astype(np.float32)}


def two_gpus():
    (x, xs), (y, ys) = images(), labels()
    losses = []
    for i in range(2):
        with tf.device(f"/gpu:{i}"), tf.variable_scope(f"tower{i}"):
            losses.append(classified(tf.nn.relu(dense(tf.reshape(x, [-1, 192]), 64, "first")), y))
    return tf.train.MomentumOptimizer(0.1, 0.9).minimize(tf.add_n(losses), colocate_gradients_with_ops=True), {x: xs, y: ys}


STEPS = {
    "convolution, momentum": lambda: convolution(lambda: tf.train.MomentumOptimizer(0.1, 0.9)),
    "convolution, adam": lambda: convolution(lambda: tf.train.AdamOptimizer(0.01)),
    "convolution, rmsprop": lambda: convolution(lambda: tf.train.RMSPropOptimizer(0.01)),
    "dropout, clipping, decay, averages": dropped_and_clipped,
    "embedding, descent": lambda: embedded(lambda: tf.train.GradientDescentOptimizer(0.1)),
    "embedding, adagrad": lambda: embedded(lambda: tf.train.AdagradOptimizer(0.1)),
    "embedding, adam": lambda: embedded(lambda: tf.train.AdamOptimizer(0.1)),
    "metrics": measured,
    "recurrent": recurrent,
    "two logical GPUs": two_gpus,
}


@pytest.mark.parametrize("name", STEPS)
def test_a_step_does_not_wait(name, launched):
    config = tf.ConfigProto(allow_soft_placement=True)
    config.gpu_options.experimental.virtual_devices.add(memory_limit_mb=[4096, 4096])
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        step, feeds = STEPS[name]()
        with tf.Session(config=config) as sess:
            sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            for _ in range(2):
                sess.run(step, feeds)
            with waits():
                for _ in range(2):
                    sess.run(step, feeds)


@pytest.mark.parametrize("kind", ["convolution", "recurrent"])
def test_fit_waits_once_an_epoch(launched, kind):
    context.process.eager = True
    L = tf2.keras.layers
    layers = {"convolution": [L.Conv2D(8, 3, activation="relu", input_shape=(8, 8, 3)), L.BatchNormalization(), L.Flatten(),
                              L.Dropout(0.2), L.Dense(10)],
              "recurrent": [L.Reshape([8, 24], input_shape=(8, 8, 3)), L.LSTM(16), L.Dense(10)]}[kind]
    model = tf2.keras.Sequential(layers)
    model.compile("adam", tf2.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    draw = np.random.RandomState(0)
    x, y = draw.rand(640, 8, 8, 3).astype(np.float32), draw.randint(0, 10, 640)
    model.fit(x, y, batch_size=32, epochs=1, verbose=0)
    with waits("warn") as seen:
        model.fit(x, y, batch_size=32, epochs=1, verbose=0)
    about = [f"{w.filename.rsplit('penstock/', 1)[-1]}:{w.lineno}" for w in seen.found]
    assert len(about) <= 6, about                             # 20 batches; the epoch's loss and accuracy are read at its end


# -- feeds -------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("size", [1000, 1 << 20])
def test_feeds_are_copied_while_the_host_goes_on(captured, size, monkeypatch):
    """While the GPU stands still, a step is fed, returns, and the array is written over; the GPU gets what was fed."""
    if not captured:
        monkeypatch.setenv("PENSTOCK_TIER", "1")
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [size])
        v = tf.get_variable("v", [size], initializer=tf.zeros_initializer())
        keep = tf.assign(v, tf.sqrt(tf.exp(x * 2.0) + 1.0) * 3.0).op
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            data = np.linspace(0, 1, size).astype(np.float32)
            for _ in range(6):
                sess.run(keep, {x: data})
            given = data[::-1].copy()
            torch.cuda.synchronize()
            torch.cuda._sleep(1_500_000_000)
            sess.run(keep, {x: given})
            given[:] = 7.0
            busy = not torch.cuda.current_stream().query()
            found = sess.run(v)
    assert busy
    np.testing.assert_allclose(found, np.sqrt(np.exp(data[::-1] * 2) + 1) * 3, rtol=1e-4)


# -- precision ---------------------------------------------------------------------------------------------------------------
def test_tensor_float_32_is_a_choice():
    draw = np.random.RandomState(0)
    a, b = draw.randn(256, 256).astype(np.float32), draw.randn(256, 256).astype(np.float32)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    image, kernel = draw.randn(4, 16, 16, 64).astype(np.float32), draw.randn(3, 3, 64, 64).astype(np.float32)
    wrong = {}
    assert tf2.config.experimental.tensor_float_32_execution_enabled()
    try:
        for allowed in (True, False):
            tf2.config.experimental.enable_tensor_float_32_execution(allowed)
            with tf.Graph().as_default(), tf.device("/gpu:0"):
                product, convolved = tf.matmul(a, b), tf.nn.conv2d(image, kernel, 1, "SAME")
                with tf.device("/cpu:0"):
                    on_host = tf.nn.conv2d(tf.cast(image, tf.float64), tf.cast(kernel, tf.float64), 1, "SAME")
                with tf.Session() as sess:
                    p, c, h = sess.run([product, convolved, on_host])
            wrong[allowed] = np.abs(p - exact).max(), np.abs(c - h).max()
    finally:
        tf2.config.experimental.enable_tensor_float_32_execution(True)
    assert wrong[False][0] < 1e-4 < wrong[True][0] < 0.3
    assert wrong[False][1] < 1e-3 < wrong[True][1] < 1.0


def test_bfloat16_is_a_choice():
    context.process.eager = True
    draw = np.random.RandomState(0)
    x, y = draw.rand(256, 8, 8, 3).astype(np.float32), draw.randint(0, 4, 256)
    losses = {}
    for policy in ("float32", "mixed_bfloat16"):
        tf2.random.set_seed(1)
        tf2.keras.mixed_precision.set_global_policy(policy)
        try:
            L = tf2.keras.layers
            model = tf2.keras.Sequential([L.Conv2D(16, 3, activation="relu", input_shape=(8, 8, 3)), L.BatchNormalization(),
                                          L.Flatten(), L.Dense(4), L.Activation("softmax", dtype="float32")])
            model.compile(tf2.keras.optimizers.SGD(0.05), "sparse_categorical_crossentropy")
            losses[policy] = model.fit(x, y, batch_size=32, epochs=3, shuffle=False, verbose=0).history["loss"]
            assert model.layers[0].kernel.dtype == tf2.float32
            found = model.layers[0](x[:1])
            assert found.dtype == (tf2.bfloat16 if policy == "mixed_bfloat16" else tf2.float32)
            assert found._value.is_cuda
        finally:
            tf2.keras.mixed_precision.set_global_policy("float32")
    assert losses["float32"] != losses["mixed_bfloat16"]
    np.testing.assert_allclose(losses["mixed_bfloat16"], losses["float32"], rtol=0.05)


# -- torch.compile ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("two", [False, True])
def test_what_torch_does_not_compile_runs_without_noise(two, monkeypatch, caplog, capfd):
    def refuse(graph, example):
        raise RuntimeError("no compiler here")
    monkeypatch.setattr(inductor, "compiled", refuse)
    config = tf.ConfigProto()
    config.graph_options.optimizer_options.global_jit_level = tf.OptimizerOptions.ON_1
    config.gpu_options.experimental.virtual_devices.add(memory_limit_mb=[4096, 4096])
    x = np.linspace(-1, 1, 1000).astype(np.float32)
    with tf.Graph().as_default(), caplog.at_level(logging.INFO):
        fed = tf.placeholder(tf.float32, [1000])
        with tf.device("/gpu:0"):
            a = tf.tanh(fed) * tf.exp(fed) + tf.square(fed)
        with tf.device("/gpu:1" if two else "/gpu:0"):
            b = tf.sigmoid(a) * tf.cos(a) - tf.sqrt(tf.abs(a))
        with warnings.catch_warnings(), tf.Session(config=config) as sess:
            warnings.simplefilter("error")
            for _ in range(6):
                found = sess.run(b, {fed: x})
    h = np.tanh(x) * np.exp(x) + x * x
    np.testing.assert_allclose(found, 1 / (1 + np.exp(-h)) * np.cos(h) - np.sqrt(np.abs(h)), rtol=1e-4, atol=1e-5)
    assert {r.message for r in caplog.records} <= {"A step is not compiled for tier 3: no compiler here"}
    assert capfd.readouterr() == ("", "")
