"""Work that depends on variables alone: done once, and again after every kind of change of a variable."""
import numpy as np
import pytest
import torch

import penstock as tf
from penstock._src.kernels import products
from penstock._src.step.compile import hoisted

K = tf.keras.layers


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(hoisted, "_LEAST", 1)


@pytest.fixture
def count(monkeypatch):
    """How often the results of variables alone have been computed."""
    calls = []
    fresh = hoisted.Hoisted._fresh
    monkeypatch.setattr(hoisted.Hoisted, "_fresh", lambda self, ctx: (calls.append(self), fresh(self, ctx))[1])
    return calls


def network(r):
    """Every convolution that a batch norm is folded into, with weights that are not those of the start."""
    m = tf.keras.Sequential([
        K.Conv2D(64, 3, padding="same"), K.BatchNormalization(), K.ReLU(),
        K.DepthwiseConv2D(3, 2, padding="same", depth_multiplier=2, use_bias=False), K.BatchNormalization(),
        K.Activation("relu6"),
        K.Conv2D(32, 1, use_bias=False), K.BatchNormalization(scale=False), K.Conv2D(32, 3, dilation_rate=2, groups=4),
        K.BatchNormalization(center=False), K.GlobalAveragePooling2D(), K.Dense(3)])
    m(tf.zeros([1, 17, 17, 16]))
    scramble(m, r)
    return m


def scramble(m, r):
    for v in m.variables:
        v.assign(r.rand(*v.shape).astype("f") - 0.3 * ("variance" not in v.name))


def test_inference_follows_its_variables(count):
    r = np.random.RandomState(0)
    m, x = network(r), tf.constant(r.randn(2, 17, 17, 16).astype("f"))
    f = tf.function(lambda x: m(x, training=False))
    for _ in range(3):
        expected = m(x, training=False).numpy()                     # op by op
        for _ in range(hoisted._SETTLED + 3):
            np.testing.assert_allclose(f(x), expected, rtol=2e-4, atol=2e-4)
        scramble(m, r)
    assert 3 <= len(count) < 3 * (hoisted._SETTLED + 3)


def test_filters_are_arranged_once_for_each_number_of_threads(monkeypatch):
    arranged, before = [], torch.get_num_threads()
    real = hoisted.Hoisted._arranged
    monkeypatch.setattr(hoisted.Hoisted, "_arranged",
                        lambda self, ctx, kept, threads: (arranged.append(threads), real(self, ctx, kept, threads))[1])
    r = np.random.RandomState(0)
    m, x = network(r), tf.constant(r.randn(2, 17, 17, 16).astype("f"))
    f = tf.function(lambda x: m(x, training=False))
    try:
        for threads in (2, 2, 2, 2, 2, 1, 2, 1, 1, 3, 4, 4):
            torch.set_num_threads(threads)
            np.testing.assert_allclose(f(x), m(x, training=False), rtol=2e-4, atol=2e-4)
        assert arranged == [2, 1, 3, 4]
        scramble(m, r)
        for _ in range(hoisted._MOST_RUNS):
            np.testing.assert_allclose(f(x), m(x, training=False), rtol=2e-4, atol=2e-4)
        assert arranged == [2, 1, 3, 4, 4]
    finally:
        torch.set_num_threads(before)


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="oneDNN packs matrices")
def test_matrices_are_packed_once_for_all_shapes_and_threads(monkeypatch):
    """Each form of a product by a matrix that stays; an update is seen, and a shape that does not fit is an error."""
    monkeypatch.setattr(products, "packs", lambda inner, columns, dtype: dtype is torch.float32)
    made, real = [], products.PackedMatrix
    monkeypatch.setattr(products, "packed", lambda b, transposed: made.append(real(b.t() if transposed else b)) or made[-1])
    r, before = np.random.RandomState(0), torch.get_num_threads()
    a, b, c = (tf.Variable(r.randn(*dims).astype("f")) for dims in ((64, 48), (40, 48), (40,)))
    x = r.randn(6, 2, 64).astype("f")

    @tf.function(input_signature=[tf.TensorSpec(None, tf.float32)])
    def f(x):
        y = tf.matmul(x, a)                                  # a batch by one matrix
        rows = tf.reshape(y, [-1, 48])
        return tf.nn.relu(tf.nn.bias_add(tf.matmul(rows, b, transpose_b=True), c)), tf.matmul(rows, b, transpose_b=True)

    def wanted(x):
        rows = (x @ a.numpy()).reshape(-1, 48) @ b.numpy().T
        return np.maximum(rows + c.numpy(), 0), rows
    try:
        for threads in (1, 2, 1):
            torch.set_num_threads(threads)
            for given in (x, x[:3], x[:, :1]):
                for _ in range(hoisted._SETTLED + 2):
                    for found, want in zip(f(given), wanted(given), strict=True):
                        np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-3)
            assert made
            a.assign(a + 1.0)
    finally:
        torch.set_num_threads(before)
    with pytest.raises(tf.errors.InvalidArgumentError):
        f(x[..., :50])


def test_results_are_kept(count):
    w = tf.Variable(tf.random.stateless_normal([40, 40], [1, 2]))
    f = tf.function(lambda x: x @ tf.transpose(tf.exp(w)))
    x = tf.ones([2, 40])
    for _ in range(10):
        f(x)
    assert 0 < len(count) <= hoisted._SETTLED + 2
    w.assign_add(tf.ones([40, 40]))
    np.testing.assert_allclose(f(x), x @ tf.transpose(tf.exp(w)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("change", ["assign", "assign_sub", "scatter", "optimizer", "numpy"])
def test_every_kind_of_update_is_seen(change):
    w = tf.Variable(np.arange(12, dtype="f").reshape(4, 3))
    f = tf.function(lambda x: x @ (2.0 * w))
    optimizer = tf.keras.optimizers.SGD(0.5)
    changes = {"assign": lambda: w.assign(w + 1), "assign_sub": lambda: w.assign_sub(tf.ones([4, 3])),
               "scatter": lambda: w.scatter_nd_update([[1, 1]], [7.0]), "numpy": lambda: w.assign(np.full([4, 3], 5, "f")),
               "optimizer": lambda: optimizer.apply_gradients([(tf.ones([4, 3]), w)])}
    x = tf.ones([1, 4])
    for _ in range(2):
        for _ in range(hoisted._MOST_RUNS // 8):
            np.testing.assert_allclose(f(x), x @ (2.0 * w.numpy()), rtol=1e-6)
        changes[change]()
        np.testing.assert_allclose(f(x), x @ (2.0 * w.numpy()), rtol=1e-6)


def test_training_in_between_updates_in_place(count):
    """Results are not kept while the variable changes between the runs: keeping them costs a copy of the variable."""
    w = tf.Variable(tf.ones([64, 64]))
    f = tf.function(lambda x: x @ tf.exp(w))
    x = tf.ones([1, 64])
    for _ in range(8):
        f(x)
        w.assign_sub(0.01 * tf.ones([64, 64]))
    assert len(count) == 8


def test_what_the_step_writes_is_not_kept():
    w = tf.Variable([1.0, 2.0])

    @tf.function
    def f(x):
        y = x * tf.exp(w)
        w.assign_add([1.0, 1.0])
        return y
    for i in range(8):
        np.testing.assert_allclose(f(tf.ones([2])), np.exp([1.0 + i, 2.0 + i]), rtol=1e-5)


def test_session_of_constants():
    """A frozen network has its filters as constants: they are arranged once."""
    r = np.random.RandomState(0)
    w, x = r.randn(3, 3, 16, 32).astype("f"), r.randn(2, 9, 9, 16).astype("f")
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as sess:
        at = v1.placeholder(tf.float32, [2, 9, 9, 16])
        y = tf.nn.conv2d(at, w, 2, "SAME")
        found = [sess.run(y, {at: x}) for _ in range(8)]
    for value in found:
        np.testing.assert_allclose(value, found[0], rtol=1e-4, atol=1e-4)


def test_reads_that_wait_for_something_else():
    """A variable that is only read depends on nothing, even where the program lets the read wait for another's update."""
    weights, total = tf.Variable(np.ones((64, 64), "f")), tf.Variable(0.0)

    @tf.function
    def f(x):
        with tf.control_dependencies([total.assign_add(tf.reduce_sum(x))]):
            w = tf.transpose(weights.read_value()) * 2.0
        return tf.matmul(x, w)
    x = np.ones((2, 64), "f")
    for n in range(1, 8):
        np.testing.assert_array_equal(f(x), np.full((2, 64), 128.0))
        assert float(total) == 128.0 * n
