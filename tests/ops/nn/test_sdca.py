"""SDCA: single steps as TensorFlow 2.21 computed them, and the optimum of the regularized loss."""
import numpy as np
import pytest

import penstock.compat.v1 as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default():
        yield


STEPS = [                       # loss, l1, partitions: state [2, 4], changes of a sparse and a dense group
    ("logistic_loss", 0.0, 1, [0.328826, 0.656232, -0.916296, 1.5, 0.298586, 0.201593, -0.250201, 0.5, 0.043239,
     0.03697, 0.01081, 0.021619, -0.049293]),
    ("logistic_loss", 0.1, 2, [0.33379, 0.754586, -0.916296, 1.5, 0.282411, 0.205775, -0.250201, 0.5, 0.050685,
     0.030904, 0.012671, 0.025342, -0.041205]),
    ("logistic_loss", 0.2, 1, [0.370801, 0.863909, -0.916296, 1.5, 0.30652, 0.210028, -0.250201, 0.5, 0.106202,
     0.039945, 0.026551, 0.053101, -0.05326]),
    ("squared_loss", 0.0, 1, [0.320253, 0.12, -0.3825, 1.5, 0.239024, 0.0225, -0.09, 0.5, 0.03038, 0.014634, 0.007595,
     0.01519, -0.019512]),
    ("squared_loss", 0.1, 2, [0.330986, 0.247969, -0.3825, 1.5, 0.230303, 0.026406, -0.09, 0.5, 0.046479, 0.011364,
     0.01162, 0.023239, -0.015152]),
    ("squared_loss", 0.2, 1, [0.391139, 0.421875, -0.3825, 1.5, 0.258537, 0.030625, -0.09, 0.5, 0.136709, 0.021951,
     0.034177, 0.068354, -0.029268]),
    ("hinge_loss", 0.0, 1, [0.401587, 0.6, -0.45, 1.5, 0.392, 0.15, -0.1, 0.5, 0.152381, 0.072, 0.038095, 0.07619,
     -0.096]),
    ("hinge_loss", 0.1, 2, [0.373016, 0.8625, -0.45, 1.5, 0.304, 0.1625, -0.1, 0.5, 0.109524, 0.039, 0.027381, 0.054762,
     -0.052]),
    ("hinge_loss", 0.2, 1, [0.490476, 1.125, -0.45, 1.5, 0.424, 0.175, -0.1, 0.5, 0.285714, 0.084, 0.071429, 0.142857,
     -0.112]),
    ("smooth_hinge_loss", 0.0, 1, [0.320253, 0.12, -0.3825, 1.5, 0.239024, 0.0225, -0.09, 0.5, 0.03038, 0.014634,
     0.007595, 0.01519, -0.019512]),
    ("smooth_hinge_loss", 0.1, 2, [0.330986, 0.247969, -0.3825, 1.5, 0.230303, 0.026406, -0.09, 0.5, 0.046479, 0.011364,
     0.01162, 0.023239, -0.015152]),
    ("smooth_hinge_loss", 0.2, 1, [0.391139, 0.421875, -0.3825, 1.5, 0.258537, 0.030625, -0.09, 0.5, 0.136709, 0.021951,
     0.034177, 0.068354, -0.029268]),
    ("poisson_loss", 0.0, 1, [0.116237, 1.833178, -1.424509, 1.5, -0.155499, 0.656876, -0.489257, 0.5, -0.275644,
     -0.133312, -0.068911, -0.137822, 0.17775]),
    ("poisson_loss", 0.1, 2, [0.215252, 1.656886, -1.424509, 1.5, -0.012139, 0.644516, -0.489257, 0.5, -0.127122,
     -0.079552, -0.031781, -0.063561, 0.106069]),
    ("poisson_loss", 0.2, 1, [0.18466, 1.551038, -1.424509, 1.5, -0.134971, 0.63277, -0.489257, 0.5, -0.17301,
     -0.125614, -0.043252, -0.086505, 0.167486]),
]


@pytest.mark.parametrize("loss, l1, partitions, expected", STEPS)
def test_steps_of_examples_without_common_features(loss, l1, partitions, expected):
    state, sparse, dense = tf.raw_ops.SdcaOptimizerV2(
        sparse_example_indices=[tf.constant([0, 0, 1], tf.int64)], sparse_feature_indices=[tf.constant([7, 3, 5], tf.int64)],
        sparse_feature_values=[tf.constant([0.5, 2.0, 1.5])], dense_features=[tf.constant([[1.0, 0.0], [0.0, -2.0]])],
        example_weights=tf.constant([1.5, 0.5]), example_labels=tf.constant([1.0, 1.0]),
        sparse_indices=[tf.constant([3, 5, 7], tf.int64)], sparse_weights=[tf.constant([0.1, -0.2, 0.3])],
        dense_weights=[tf.constant([0.25, -0.5])], example_state_data=tf.constant([[0.3, 0, 0, 0], [0.2, 0, 0, 0]]),
        loss_type=loss, l1=l1, l2=2.0, num_loss_partitions=partitions, num_inner_iterations=1, adaptive=False)
    assert (state.shape, sparse[0].shape, dense[0].shape) == ((2, 4), (3,), (2,))
    with tf.Session() as sess:
        found = sess.run([state, sparse[0], dense[0]])
    np.testing.assert_allclose(np.concatenate([f.ravel() for f in found]), expected, rtol=1e-5, atol=2e-6)


def descend(loss, labels, steps=60, l2=1.0):
    """The weights after passes over a batch, and the rows."""
    rows = np.random.RandomState(0).randn(20, 3).astype(np.float32)
    weights, state = np.zeros(3, np.float32), np.zeros((20, 4), np.float32)
    given, before, w = tf.constant(rows), tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.float32, [3])
    step = tf.train.sdca_optimizer([], [], [], [given], tf.ones([20]), tf.constant(labels(rows), tf.float32), [], [], [w],
                                   before, loss, 0.0, l2, 1, 1)
    with tf.Session() as sess:
        for _ in range(steps):
            state, _, (change,) = sess.run(step, {before: state, w: weights})
            weights = weights + change
    return weights, rows, state


def test_squared_loss_reaches_ridge_regression():
    weights, rows, _ = descend("squared_loss", lambda rows: rows @ [1.0, -2.0, 0.5] + 1.0)
    labels = rows @ np.float32([1.0, -2.0, 0.5]) + 1.0
    np.testing.assert_allclose(weights, np.linalg.solve(rows.T @ rows + np.eye(3), rows.T @ labels), rtol=1e-4)


def test_gradient_of_the_logistic_loss_vanishes():
    weights, rows, _ = descend("logistic_loss", lambda rows: rows[:, 0] > rows[:, 1])
    y = np.where(rows[:, 0] > rows[:, 1], 1.0, -1.0)
    gradient = weights - rows.T @ (y / (1 + np.exp(y * (rows @ weights))))
    np.testing.assert_allclose(gradient, 0, atol=1e-4)


@pytest.mark.parametrize("loss", ["hinge_loss", "smooth_hinge_loss", "logistic_loss", "squared_loss"])
def test_both_objectives_meet(loss):
    _, _, state = descend(loss, lambda rows: rows[:, 0] > 0, steps=400)
    weights, _, _ = descend(loss, lambda rows: rows[:, 0] > 0, steps=399)
    gap = state[:, 1].sum() + state[:, 2].sum() + (weights ** 2).sum()
    assert abs(gap) < 1e-3


@pytest.mark.parametrize("loss, label", [("logistic_loss", 2.0), ("hinge_loss", -1.0), ("poisson_loss", 0.5)])
def test_labels_are_checked(loss, label):
    step = tf.train.sdca_optimizer([], [], [], [tf.ones([1, 2])], tf.ones([1]), tf.constant([label]), [], [], [tf.zeros([2])],
                                   tf.zeros([1, 4]), loss, 0.0, 1.0, 1, 1)
    with tf.Session() as sess, pytest.raises(tf.errors.InvalidArgumentError, match="label"):
        sess.run(step)


def test_unknown_feature_is_an_error():
    example, feature, known = (tf.constant([n], tf.int64) for n in (0, 4, 3))
    step = tf.train.sdca_optimizer([example], [feature], [], [], tf.ones([1]), tf.ones([1]), [known], [tf.zeros([1])], [],
                                   tf.zeros([1, 4]), "squared_loss", 0.0, 1.0, 1, 1)
    with tf.Session() as sess, pytest.raises(tf.errors.InvalidArgumentError, match="sparse_indices"):
        sess.run(step)


def test_weights_shrink_towards_zero():
    w = tf.Variable([1.0, -0.1, -2.0])
    shrink = tf.train.sdca_shrink_l1([w], l1=1.0, l2=2.0)
    with tf.Session() as sess:
        sess.run(w.initializer)
        sess.run(shrink)
        np.testing.assert_allclose(sess.run(w), [0.5, 0.0, -1.5], rtol=1e-6)
