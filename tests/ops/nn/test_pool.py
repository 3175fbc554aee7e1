"""Pooling: public functions, uneven padding, where the gradient goes, errors."""
import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as tf1
from penstock._src.ops.registry import get
from tests.registry.samples.pool import distinct, pool

X = distinct(2, 7, 6, 3)


@pytest.mark.parametrize("k", [1, 2, 3, (2, 4), (5, 5)])
@pytest.mark.parametrize("s", [1, 2, 3, (1, 2)])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_against_definition(k, s, padding):
    window, step = (np.broadcast_to(v, 2).tolist() for v in (k, s))
    double = X.astype(np.float64)
    x = tf.constant(double)
    largest, mean = tf.nn.max_pool2d(x, window, step, padding), tf.nn.avg_pool2d(x, window, step, padding)
    np.testing.assert_array_equal(largest.numpy(), pool(double, window, step, padding, np.max))
    np.testing.assert_allclose(mean.numpy(), pool(double, window, step, padding, np.mean), atol=1e-12)
    d = np.random.RandomState(0).randn(*mean.shape)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        a = tf.reduce_sum(tf.nn.avg_pool2d(x, window, step, padding) * d)
        m = tf.reduce_sum(tf.nn.max_pool2d(x, window, step, padding) * d)
    v = np.random.RandomState(1).randn(*X.shape) * 1e-4
    for y, reduce in ((a, np.mean), (m, np.max)):
        change = (pool(double + v, window, step, padding, reduce) - pool(double - v, window, step, padding, reduce)) * d
        change = change.sum() / 2
        np.testing.assert_allclose((tape.gradient(y, x).numpy() * v).sum(), change, rtol=1e-6, atol=1e-12)


def test_dimensions_and_formats():
    x1, x3 = X[:, :, 0], distinct(1, 3, 4, 5, 2)
    np.testing.assert_array_equal(tf.nn.max_pool1d(x1, 2, 2, "SAME").numpy(), tf.nn.max_pool(x1, 2, 2, "SAME").numpy())
    np.testing.assert_array_equal(tf.nn.max_pool1d(x1, 2, 2, "SAME").numpy(),
                                  pool(X[:, :, :1], (2, 1), (2, 1), "SAME", np.max)[:, :, 0])
    np.testing.assert_allclose(tf.nn.avg_pool3d(x3, 2, 2, "SAME").numpy(), pool(x3, (2,) * 3, (2,) * 3, "SAME", np.mean),
                               rtol=1e-5)
    first = tf.nn.max_pool2d(np.moveaxis(X, 3, 1), 2, 2, "SAME", data_format="NCHW")
    np.testing.assert_array_equal(np.moveaxis(first.numpy(), 1, 3), pool(X, (2, 2), (2, 2), "SAME", np.max))
    v1 = tf1.nn.max_pool(X, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    np.testing.assert_array_equal(v1.numpy(), pool(X, (2, 2), (2, 2), "SAME", np.max))
    np.testing.assert_array_equal(tf.nn.pool(X, [2, 2], "MAX", strides=[2, 2], padding="SAME").numpy(), v1.numpy())


def test_dilated_pool():
    found = tf.nn.pool(X, [2, 2], "MAX", padding="VALID", dilations=[2, 2]).numpy()
    expect = np.maximum.reduce([X[:, a:a + 5, b:b + 4] for a in (0, 2) for b in (0, 2)])
    np.testing.assert_array_equal(found, expect)
    for bad in ({"strides": [2, 2], "dilations": [2, 2]}, {"padding": "SAME", "dilations": [2, 2]},
                {"strides": [3, 3]}, {"strides": [1]}):
        with pytest.raises(ValueError):
            tf.nn.pool(X, [2, 2], "MAX", **bad)
    with pytest.raises(ValueError, match="not supported"):
        tf.nn.pool(X, [2, 2], "MIN")


@pytest.mark.parametrize("batch", [False, True])
def test_argmax(batch):
    y, at = tf.nn.max_pool_with_argmax(X, 3, 1, "SAME", include_batch_in_index=batch)
    flat = X.reshape(-1) if batch else X.reshape(2, -1)
    found = flat[at.numpy()] if batch else np.stack([flat[b][at.numpy()[b]] for b in range(2)])
    np.testing.assert_array_equal(found, y.numpy())
    x = tf.constant(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y, _ = tf.nn.max_pool_with_argmax(x, 3, 1, "SAME", include_batch_in_index=batch)
    with tf.GradientTape() as plain:
        plain.watch(x)
        z = tf.nn.max_pool2d(x, 3, 1, "SAME")
    np.testing.assert_array_equal(tape.gradient(y, x).numpy(), plain.gradient(z, x).numpy())


def test_gradient_of_ties_goes_to_the_first():
    g = get("MaxPoolGrad")(np.zeros([1, 2, 2, 1], np.float32), np.zeros([1, 1, 1, 1], np.float32),
                           np.ones([1, 1, 1, 1], np.float32), ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID")
    np.testing.assert_array_equal(g.numpy().ravel(), [1, 0, 0, 0])


@pytest.mark.parametrize("values, expect", [([np.nan, 1, 2, 3], [1, 0, 0, 0]), ([1, np.nan, 3, 2], [0, 0, 1, 0]),
                                            ([np.nan] * 4, [1, 0, 0, 0])])
def test_gradient_with_nan(values, expect):
    """A NaN takes the gradient only if it is the first element of its window."""
    x = np.array(values, np.float32).reshape(1, 2, 2, 1)
    g = get("MaxPoolGrad")(x, np.ones([1, 1, 1, 1], np.float32), np.ones([1, 1, 1, 1], np.float32),
                           ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID")
    np.testing.assert_array_equal(g.numpy().ravel(), expect)


def test_errors():
    kw = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
    with tf1.Graph().as_default():
        p = tf1.placeholder(tf.float32, [1, 4, 4, 3])
        with pytest.raises(ValueError, match="Negative dimension size caused by subtracting 5 from 4"):
            tf1.nn.max_pool(p, 5, 1, "VALID")
        with pytest.raises(ValueError, match="ksize cannot be zero"):
            tf1.nn.max_pool(p, 0, 1, "VALID")
        with pytest.raises(tf.errors.UnimplementedError, match="batch dimension"):
            tf1.nn.avg_pool(p, [2, 1, 1, 1], 1, "VALID")
        with pytest.raises(ValueError, match="rank"):
            tf1.nn.max_pool(tf1.placeholder(tf.float32, [4, 3]), 2, 2, "SAME")
    x, y = np.ones([1, 4, 4, 3], np.float32), np.ones([1, 2, 2, 3], np.float32)
    for depth in ([1, 1, 2, 2], [1, 1, 1, 2]):
        with pytest.raises(tf.errors.UnimplementedError):
            get("MaxPool")(x, ksize=depth, strides=[1, 1, 1, 2], padding="SAME")
    for op, args in (("MaxPoolGrad", (x, y, y[:, :1])), ("MaxPoolGrad", (x, y[:, :1], y)),
                     ("AvgPoolGrad", ([1, 4, 4, 2], y)), ("AvgPoolGrad", ([1, 4, 4], y)),
                     ("MaxPoolGradGrad", (x, y, y)), ("MaxPool", (x[0],))):
        with pytest.raises(tf.errors.InvalidArgumentError):
            get(op)(*args, **kw)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Invalid input index 48"):
        get("MaxPoolGradWithArgmax")(x, y, np.full([1, 2, 2, 3], 48), **kw)


def test_empty():
    for f in (tf.nn.max_pool2d, tf.nn.avg_pool2d):
        x = tf.zeros([0, 4, 4, 2])
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f(x, 2, 2, "SAME")
        assert y.shape == (0, 2, 2, 2) and tape.gradient(y, x).shape == x.shape


def test_explicit_padding():
    x = np.arange(1.0, 37.0, dtype=np.float32).reshape(1, 6, 6, 1)
    pads = [[0, 0], [1, 2], [2, 1], [0, 0]]
    want = [7, 9, 11, 12, 19, 21, 23, 24, 31, 33, 35, 36, 31, 33, 35, 36]
    for function in (tf.nn.max_pool, tf.nn.max_pool2d):
        assert function(x, 3, 2, pads).numpy().ravel().tolist() == want
    assert tf.nn.max_pool2d(-x, 3, 2, pads).numpy().max() == -1                  # padding is never the maximum
    with pytest.raises(ValueError, match="batch or depth"):
        tf.nn.max_pool2d(x, 3, 2, [[1, 0], [1, 2], [2, 1], [0, 0]])
