"""Batch norm in training and inference with first and second derivatives; moments; local response norm."""
import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as tf1
from penstock._src.ops.registry import get

rng = np.random.RandomState(4)
X, SCALE, OFFSET = (rng.randn(*s).astype(np.float32) for s in ((3, 4, 2, 5), (5,), (5,)))
MEAN, VAR = rng.randn(5).astype(np.float32), rng.rand(5).astype(np.float32) + 0.5


def composed(x, scale, offset, training):
    """Batch norm from ops whose gradients are tested elsewhere."""
    if training:
        mean = tf.reduce_mean(x, [0, 1, 2])
        variance = tf.reduce_mean(tf.square(x - mean), [0, 1, 2])
    else:
        mean, variance = tf.constant(MEAN, x.dtype), tf.constant(VAR, x.dtype)
    return (x - mean) * tf.math.rsqrt(variance + 1e-3) * scale + offset


def fused(x, scale, offset, training, data_format="NHWC"):
    known = {} if training else {"mean": MEAN, "variance": VAR}
    return tf1.nn.fused_batch_norm(x, scale, offset, **known, epsilon=1e-3, data_format=data_format,
                                   is_training=training)[0]


def gradients(f, training):
    """First derivatives of a loss, and the derivatives of a function of those."""
    args = [tf.constant(v) for v in (X, SCALE, OFFSET)]
    with tf.GradientTape(persistent=True) as outer:
        outer.watch(args)
        with tf.GradientTape() as inner:
            inner.watch(args)
            y = f(*args, training)
            loss = tf.reduce_sum(y * y * y)
        first = inner.gradient(loss, args)
        target = tf.add_n([tf.reduce_sum(g * tf.sin(g)) for g in first])
    return [g.numpy() for g in first], [g.numpy() for g in outer.gradient(target, args)]


@pytest.mark.parametrize("training", [True, False])
def test_derivatives(training):
    (first, second), (first_c, second_c) = gradients(fused, training), gradients(composed, training)
    for found, expect in (*zip(first, first_c, strict=True), *zip(second, second_c, strict=True)):
        np.testing.assert_allclose(found, expect, rtol=2e-3, atol=2e-3 * np.abs(expect).max())


@pytest.mark.parametrize("training", [True, False])
def test_channels_first(training):
    args = [tf.constant(v) for v in (np.moveaxis(X, 3, 1), SCALE, OFFSET)]
    with tf.GradientTape() as tape:
        tape.watch(args)
        y = fused(*args, training, "NCHW")
    np.testing.assert_allclose(np.moveaxis(y.numpy(), 1, 3), fused(X, SCALE, OFFSET, training).numpy(), atol=1e-5)
    assert [g.shape for g in tape.gradient(y, args)] == [a.shape for a in args]


def test_statistics_of_the_batch():
    _, mean, variance = tf1.nn.fused_batch_norm(X, SCALE, OFFSET)
    np.testing.assert_allclose(mean.numpy(), X.mean((0, 1, 2)), atol=1e-6)
    np.testing.assert_allclose(variance.numpy(), X.var((0, 1, 2), ddof=1), rtol=1e-5)
    with pytest.raises(ValueError, match="must be None"):
        tf1.nn.fused_batch_norm(X, SCALE, OFFSET, MEAN, VAR)


def test_empty_batch_and_wrong_sizes():
    y, mean, _ = tf1.nn.fused_batch_norm(X[:0], SCALE, OFFSET)
    assert y.shape == (0, 4, 2, 5) and np.isnan(mean.numpy()).all()
    with pytest.raises(tf.errors.InvalidArgumentError, match="channels"):
        get("FusedBatchNormV3")(X, SCALE[:2], OFFSET, [], [])
    with tf1.Graph().as_default(), pytest.raises(ValueError, match="must be equal"):
        tf1.nn.fused_batch_norm(X, SCALE[:2], OFFSET)


def test_short_types_keep_float_statistics():
    y, mean, _ = tf1.nn.fused_batch_norm(X.astype(np.float16), SCALE, OFFSET)
    assert (y.dtype, mean.dtype) == (tf.float16, tf.float32)
    np.testing.assert_allclose(y.numpy(), tf1.nn.fused_batch_norm(X, SCALE, OFFSET)[0].numpy(), atol=2e-2)


def test_batch_normalization():
    np.testing.assert_allclose(tf.nn.batch_normalization(X, tf.constant(MEAN), tf.constant(VAR), OFFSET, SCALE, 1e-3).numpy(),
                               (X - MEAN) / np.sqrt(VAR + 1e-3) * SCALE + OFFSET, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(tf.nn.batch_normalization(X, tf.constant(MEAN), tf.constant(VAR), None, None, 0.0).numpy(),
                               (X - MEAN) / np.sqrt(VAR), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("axes, keep", [([0, 1, 2], False), ([0], True), ([1, 3], False)])
def test_moments(axes, keep):
    x = X.astype(np.float64)
    mean, variance = tf.nn.moments(x, axes, keepdims=keep)
    np.testing.assert_allclose(mean.numpy(), x.mean(tuple(axes), keepdims=keep), rtol=1e-6)
    np.testing.assert_allclose(variance.numpy(), x.var(tuple(axes), keepdims=keep), rtol=1e-6)
    counts, total, squares, shift = tf.nn.sufficient_statistics(x, axes, shift=0.5, keepdims=keep)
    again = tf.nn.normalize_moments(counts, total, squares, shift)
    np.testing.assert_allclose(again[0].numpy(), mean.numpy(), rtol=1e-6)
    np.testing.assert_allclose(again[1].numpy(), variance.numpy(), rtol=1e-6)


def test_moments_of_unknown_shape():
    with tf1.Graph().as_default():
        p = tf1.placeholder(tf.float32, [None, None])
        stats = tf1.nn.sufficient_statistics(p, [0])
        both = tf1.nn.moments(p, [0]), tf1.nn.normalize_moments(*stats)
        with tf1.Session() as sess:
            for mean, variance in sess.run(both, {p: X[0, 0]}):
                np.testing.assert_allclose(mean, X[0, 0].mean(0), rtol=1e-5, atol=1e-6)
                np.testing.assert_allclose(variance, X[0, 0].var(0), rtol=1e-3)


def test_weighted_moments():
    x, w = rng.randn(4, 3), np.array([[1.0], [2.0], [0.0], [1.0]])
    mean, variance = tf.nn.weighted_moments(x, [0], w)
    repeated = np.concatenate([x[:1], x[1:2], x[1:2], x[3:]])
    np.testing.assert_allclose(mean.numpy(), repeated.mean(0), rtol=1e-6)
    np.testing.assert_allclose(variance.numpy(), repeated.var(0), rtol=1e-6)


def test_l2_normalize():
    x = np.array([[3.0, 4.0], [0.0, 0.0]])
    np.testing.assert_allclose(tf.math.l2_normalize(x, 1).numpy(), [[0.6, 0.8], [0, 0]], rtol=1e-6)
    np.testing.assert_allclose(tf1.nn.l2_normalize(x, dim=1).numpy(), [[0.6, 0.8], [0, 0]], rtol=1e-6)
    np.testing.assert_allclose(tf.math.l2_normalize(np.array([3.0, 4.0j])).numpy(), [0.6, 0.8j], rtol=1e-6)


def test_lrn_reaches_past_the_channels():
    x = rng.rand(1, 2, 2, 3).astype(np.float32)
    found = tf.nn.lrn(x, depth_radius=1000000, bias=2.0, alpha=0.1, beta=0.5)
    np.testing.assert_allclose(found.numpy(), x / np.sqrt(2 + 0.1 * (x ** 2).sum(-1, keepdims=True)), rtol=1e-5)
    with pytest.raises(tf.errors.InvalidArgumentError, match="nonnegative"):
        tf.nn.lrn(x, depth_radius=-1)


def test_normalize():
    unit, size = tf.linalg.normalize(np.array([[3.0, 4.0], [0.0, 2.0]]), axis=1)
    np.testing.assert_allclose(unit.numpy(), [[0.6, 0.8], [0, 1]], rtol=1e-6)
    np.testing.assert_allclose(size.numpy(), [[5.0], [2.0]], rtol=1e-6)


def test_fused_batch_norm_without_a_factor_ignores_given_moments():
    x = rng.rand(2, 3, 3, 2).astype(np.float32)
    ones, zeros = np.ones(2, np.float32), np.zeros(2, np.float32)
    found = tf1.nn.fused_batch_norm(x, ones, zeros, mean=zeros, variance=ones, exponential_avg_factor=None)
    for value, want in zip(found, tf1.nn.fused_batch_norm(x, ones, zeros), strict=True):
        np.testing.assert_array_equal(value, want)


def test_moments_without_weights_are_zero():
    x, none = np.arange(12., dtype=np.float32).reshape(4, 3), np.zeros([4, 1], np.float32)
    for part in tf.nn.weighted_moments(x, tf.constant([0]), none):
        np.testing.assert_array_equal(part, np.zeros(3))


def test_statistics_along_negative_axes_of_unknown_shapes():
    x = np.arange(24., dtype=np.float32).reshape(2, 3, 4)
    count = tf.function(lambda t: tf.nn.sufficient_statistics(t, [-1, 0])[0],
                        input_signature=[tf.TensorSpec(None, tf.float32)])
    assert count(x) == 8
