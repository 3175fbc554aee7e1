"""Fractional pooling: regions are of two lengths, cover everything, and repeat with a seed."""
import numpy as np
import pytest

import penstock as tf
from tests.registry.samples.pool import distinct

X = distinct(2, 23, 10, 3)


@pytest.mark.parametrize("pseudo", [False, True])
@pytest.mark.parametrize("overlapping", [False, True])
def test_regions(pseudo, overlapping):
    y, rows, cols = tf.nn.fractional_max_pool(X, 1.44, pseudo, overlapping)
    rows, cols = rows.numpy(), cols.numpy()
    assert y.shape == (2, 15, 6, 3) and rows[0] == cols[0] == 0 and rows[-1] == 23 and cols[-1] == 10
    assert set(np.diff(rows)) <= {1, 2} and set(np.diff(cols)) <= {1, 2}
    extra = int(overlapping)
    for i in range(15):
        for j in range(6):
            view = X[:, rows[i]:rows[i + 1] + extra, cols[j]:cols[j + 1] + extra]
            np.testing.assert_array_equal(y.numpy()[:, i, j], view.max((1, 2)))


def test_seeds():
    a, b = (tf.nn.fractional_avg_pool(X, [1, 1.5, 1.5, 1], seed=5) for _ in range(2))
    np.testing.assert_array_equal(a[1].numpy(), b[1].numpy())
    drawn = {tuple(tf.nn.fractional_avg_pool(X, [1, 1.5, 1.5, 1])[1].numpy()) for _ in range(5)}
    assert len(drawn) > 1


@pytest.mark.parametrize("f", [tf.nn.fractional_max_pool, tf.nn.fractional_avg_pool])
@pytest.mark.parametrize("overlapping", [False, True])
def test_gradient(f, overlapping):
    x = tf.constant(X.astype(np.float64))
    with tf.GradientTape() as tape:
        tape.watch(x)
        y, _, _ = f(x, [1, 1.5, 1.3, 1], overlapping=overlapping, seed=3)
    g = tape.gradient(y, x).numpy()
    v = np.random.RandomState(0).randn(*X.shape) * 1e-3
    hi, lo = (f(X + e * v, [1, 1.5, 1.3, 1], overlapping=overlapping, seed=3)[0].numpy() for e in (1, -1))
    np.testing.assert_allclose((g * v).sum(), (hi - lo).sum() / 2, rtol=1e-6)


def test_errors():
    with pytest.raises(tf.errors.InvalidArgumentError, match="higher than input dimension"):
        tf.nn.fractional_max_pool(X, [1, 24.0, 1, 1])
    with pytest.raises(tf.errors.InvalidArgumentError, match="smaller than 1"):
        tf.nn.fractional_max_pool(X, [1, 0.5, 1, 1])
    with pytest.raises(tf.errors.UnimplementedError, match="batch nor channel"):
        tf.nn.fractional_max_pool(X, [1, 1.5, 1.5, 2])
    grad = tf.raw_ops.FractionalMaxPoolGrad
    with pytest.raises(tf.errors.InvalidArgumentError, match="must rise"):
        grad(orig_input=X, orig_output=X[:, :1, :1], out_backprop=X[:, :1, :1], row_pooling_sequence=[0, 99],
             col_pooling_sequence=[10, 12])
