"""Softmax along any axis; cross entropies: shapes, labels, errors, derivatives."""
import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as tf1


def np_softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
def test_axis(axis):
    x = np.random.RandomState(0).randn(2, 3, 4)
    np.testing.assert_allclose(tf.nn.softmax(x, axis).numpy(), np_softmax(x, axis), rtol=1e-6)
    np.testing.assert_allclose(tf.nn.log_softmax(x, axis).numpy(), np.log(np_softmax(x, axis)), rtol=1e-6)
    with tf1.Graph().as_default():
        at, p = tf1.placeholder(tf.int32, []), tf1.placeholder(tf.float64)
        y, z = tf1.nn.softmax(p, dim=at), tf1.nn.softmax(tf1.placeholder_with_default(x, [2, None, 4]), axis)
        assert z.shape.as_list() == [2, None, 4]
        with tf1.Session() as sess:
            np.testing.assert_allclose(sess.run(y, {at: axis, p: x}), np_softmax(x, axis), rtol=1e-6)
            np.testing.assert_allclose(sess.run(z), np_softmax(x, axis), rtol=1e-6)


def test_axis_out_of_range():
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[-2, 2\)"):
        tf.nn.softmax(np.ones([2, 3]), 2)
    with pytest.raises(ValueError, match="both"):
        tf1.nn.softmax(np.ones([2, 3]), axis=0, dim=1)


def test_large_logits():
    x = np.array([[1e4, 0.0, -1e4]], np.float32)
    np.testing.assert_array_equal(tf.nn.softmax(x).numpy(), [[1, 0, 0]])
    np.testing.assert_array_equal(tf.nn.log_softmax(x).numpy(), [[0, -1e4, -2e4]])
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[2], logits=x)
    np.testing.assert_array_equal(loss.numpy(), [2e4])


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_cross_entropy_of_any_rank(axis):
    rng = np.random.RandomState(1)
    x, labels = rng.randn(3, 4, 5), np_softmax(rng.randn(3, 4, 5), axis)
    expect = -(labels * np.log(np_softmax(x, axis))).sum(axis)
    found = tf.nn.softmax_cross_entropy_with_logits(labels, x, axis)
    np.testing.assert_allclose(found.numpy(), expect, rtol=1e-6)
    with tf1.Graph().as_default():
        p = tf1.placeholder(tf.float64)
        y = tf1.nn.softmax_cross_entropy_with_logits_v2(labels, p, axis)
        with tf1.Session() as sess:
            np.testing.assert_allclose(sess.run(y, {p: x}), expect, rtol=1e-6)


def test_gradient_stops_at_labels_in_v1():
    with tf1.Graph().as_default():
        labels, logits = tf.constant([[0.5, 0.5]]), tf.constant([[1.0, 2.0]])
        old = tf1.nn.softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        new = tf1.nn.softmax_cross_entropy_with_logits_v2(labels, logits)
        assert tf1.gradients(old, [labels])[0] is None
        assert tf1.gradients(new, [labels])[0] is not None


def test_gradient_needs_one_multiplication():
    """The backward pass of the fused loss uses `backprop`; nothing is recomputed."""
    with tf1.Graph().as_default() as g:
        logits = tf1.placeholder(tf.float32, [None, 3])
        loss = tf1.nn.sparse_softmax_cross_entropy_with_logits(labels=tf1.placeholder(tf.int32, [None]), logits=logits)
        before = len(g.get_operations())
        tf1.gradients(loss, [logits], grad_ys=[tf1.placeholder(tf.float32, [None])])
        made = {op.type for op in g.get_operations()[before:]} - {"Const", "ZerosLike", "Placeholder", "Identity"}
        assert made == {"ExpandDims", "Mul"}


def test_sparse_labels_of_any_rank():
    rng = np.random.RandomState(2)
    x, labels = rng.randn(2, 3, 4).astype(np.float32), rng.randint(0, 4, (2, 3))
    expect = -np.log(np.take_along_axis(np_softmax(x), labels[..., None], -1))[..., 0]
    np.testing.assert_allclose(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, x).numpy(), expect, rtol=1e-5)
    np.testing.assert_allclose(tf.nn.sparse_softmax_cross_entropy_with_logits(labels[0, 0], x[0, 0]).numpy(),
                               expect[0, 0], rtol=1e-5)
    half = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, x.astype(np.float16))
    assert half.dtype == tf.float16
    np.testing.assert_allclose(half.numpy(), expect, rtol=1e-2)


def test_sparse_label_errors():
    x = np.zeros([2, 3], np.float32)
    for bad in ([0, 3], [-1, 0]):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"outside the valid range of \[0, 3\)"):
            tf.nn.sparse_softmax_cross_entropy_with_logits(bad, x)
    with pytest.raises(ValueError, match="must equal `logits.shape.rank - 1`"):
        tf.nn.sparse_softmax_cross_entropy_with_logits([[0, 1]], x)
    with pytest.raises(ValueError, match="except for the last dimension"):
        tf.nn.sparse_softmax_cross_entropy_with_logits([0], x)
    with pytest.raises(ValueError, match="cannot be a scalar"):
        tf.nn.sparse_softmax_cross_entropy_with_logits(0, 1.0)
    with pytest.raises(ValueError, match="named arguments"):
        tf1.nn.sparse_softmax_cross_entropy_with_logits(x, labels=[0, 1], logits=x)


def test_hessian_of_sparse_cross_entropy():
    x = tf.constant([[0.3, -0.2, 0.5]], tf.float64)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            loss = tf.nn.sparse_softmax_cross_entropy_with_logits([1], x)
        g = inner.gradient(loss, x)
    p = np_softmax(x.numpy())[0]
    np.testing.assert_allclose(outer.jacobian(g, x).numpy().reshape(3, 3), np.diag(p) - np.outer(p, p), atol=1e-8)


def test_logistic_losses():
    rng = np.random.RandomState(3)
    x, z = rng.randn(2, 3) * 4, rng.rand(2, 3)
    s = 1 / (1 + np.exp(-x))
    np.testing.assert_allclose(tf.nn.sigmoid_cross_entropy_with_logits(z, x).numpy(),
                               -z * np.log(s) - (1 - z) * np.log(1 - s), rtol=1e-6)
    np.testing.assert_allclose(tf.nn.weighted_cross_entropy_with_logits(z, x, 3.0).numpy(),
                               -3 * z * np.log(s) - (1 - z) * np.log(1 - s), rtol=1e-6)
    np.testing.assert_allclose(tf1.nn.weighted_cross_entropy_with_logits(logits=x, pos_weight=1.0, targets=z).numpy(),
                               tf.nn.sigmoid_cross_entropy_with_logits(z, x).numpy(), rtol=1e-6)
    with pytest.raises(ValueError, match="same shape"):
        tf.nn.sigmoid_cross_entropy_with_logits(labels=[1.0], logits=[1.0, 2.0])
    with pytest.raises(ValueError, match="must be provided"):
        tf1.nn.sigmoid_cross_entropy_with_logits(labels=z)


def test_log_poisson_loss():
    targets, c = np.array([0.0, 0.5, 3.0]), np.array([0.1, -0.2, 0.7])
    short = np.exp(c) - c * targets
    np.testing.assert_allclose(tf.nn.log_poisson_loss(targets, c).numpy(), short, rtol=1e-6)
    stirling = 3 * np.log(3) - 3 + 0.5 * np.log(2 * np.pi * 3)
    np.testing.assert_allclose(tf.nn.log_poisson_loss(targets, c, compute_full_loss=True).numpy(),
                               short + [0, 0, stirling], rtol=1e-6)


def test_empty():
    none = np.zeros([0, 3], np.float32)
    assert tf.nn.softmax(none).shape == (0, 3)
    assert tf.nn.sparse_softmax_cross_entropy_with_logits(np.zeros([0], np.int32), none).shape == (0,)
    assert tf.nn.l2_loss(none).numpy() == 0


@pytest.mark.parametrize("classes", [2, 5, 8, 15, 16])
@pytest.mark.parametrize("rows", [1, 40, 300])
def test_many_rows_of_few_classes(rows, classes):
    r = np.random.RandomState(0)
    x = 30 * r.randn(rows, classes).astype("f")
    labels = r.randint(0, classes, rows)
    exact = np.log(np_softmax(x.astype("d")).clip(1e-300))
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, x)
    np.testing.assert_allclose(losses, -exact[np.arange(rows), labels], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(tf.nn.log_softmax(x), exact, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(tf.nn.log_softmax(x.T.copy(), 0), exact.T, rtol=1e-5, atol=1e-5)
    given = np_softmax(r.randn(rows, classes)).astype("f")
    np.testing.assert_allclose(tf.nn.softmax_cross_entropy_with_logits(given, x), -(given * exact).sum(1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("classes", [4, 16])
def test_odd_numbers_among_many_rows(classes):
    x = np.random.RandomState(0).randn(300, classes).astype("f")
    x[0, 0], x[1, 1], x[2, 2], x[3], x[4, :2] = np.nan, np.inf, -np.inf, -np.inf, 3e38
    with np.errstate(all="ignore"):
        shifted = x.astype("d") - x.max(1, keepdims=True)
        expected = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    np.testing.assert_allclose(tf.nn.log_softmax(x), expected, rtol=1e-5, atol=1e-5)
