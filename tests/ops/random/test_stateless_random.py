"""Stateless random ops: TensorFlow's numbers, seeds of both integer types, wrong arguments."""
import numpy as np
import pytest

import penstock as tf
from tests.checks import raises_op

random = tf.random


def close(found, expected):
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-5, atol=1e-6)


def test_numbers_of_tensorflow():
    close(random.stateless_uniform([4], [1, 2]), [0.84406042, 0.19204533, 0.99622321, 0.1603874])
    close(random.stateless_normal([4], [1, 2]), [0.54411012, 0.20738031, 0.073564321, 0.046434551])
    close(random.stateless_truncated_normal([4], [1, 2]), [0.54411012, 0.20738031, 0.073564321, 0.046434551])
    whole = random.stateless_uniform([4], [1, 2], minval=None, maxval=None, dtype=tf.int32)
    assert whole.numpy().tolist() == [1105988140, 1738052849, -335576002, 370444179]
    wide = random.stateless_uniform([2], [1, 2], minval=None, maxval=None, dtype=tf.uint64)
    assert wide.numpy().tolist() == [7464880146280614444, 1591045637757961278]


def test_seed_fixes_numbers():
    a = random.stateless_normal([3], np.int32([5, 6]))
    b = random.stateless_normal([3], np.int64([5, 6]))
    close(a, b)
    assert not np.allclose(a, random.stateless_normal([3], [6, 5]))


def test_prefix_of_a_longer_draw():
    long = random.stateless_uniform([70000], [3, 4]).numpy()
    close(random.stateless_uniform([10], [3, 4]), long[:10])
    assert abs(long.mean() - 0.5) < 0.01


def test_split_and_fold_in():
    seeds = random.split([1, 2], 3)
    assert seeds.shape == [3, 2]
    assert len({tuple(s) for s in seeds.numpy().tolist()}) == 3
    assert random.fold_in([1, 2], 7).numpy()[1] == 7


def test_parameters_and_shapes():
    drawn = random.stateless_gamma([500, 2], [1, 2], [1.0, 8.0]).numpy()
    np.testing.assert_allclose(drawn.mean(0), [1, 8], rtol=0.2)
    counts = random.stateless_poisson([500, 2], [1, 2], [1.0, 20.0]).numpy()
    np.testing.assert_allclose(counts.mean(0), [1, 20], rtol=0.2)
    classes = random.stateless_categorical([[0.0, -np.inf]], 20, [1, 2]).numpy()
    assert (classes == 0).all()


def test_gamma_gradient():
    alpha = tf.constant([2.0, 5.0])
    with tf.GradientTape() as tape:
        tape.watch(alpha)
        mean = tf.reduce_sum(tf.reduce_mean(random.stateless_gamma([5000, 2], [1, 2], alpha), 0))
    np.testing.assert_allclose(tape.gradient(mean, alpha), [1, 1], atol=0.05)


def test_wrong_arguments():
    with raises_op(tf.errors.InvalidArgumentError, r"seed must have shape \[2\]"):
        random.stateless_uniform([2], [1, 2, 3])
    with raises_op(tf.errors.InvalidArgumentError, "must end with"):
        random.stateless_gamma([3], [1, 2], [1.0, 2.0])
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="seed must have shape"):
            random.stateless_uniform([2], [1, 2, 3])
        with pytest.raises(ValueError, match="minval must be a scalar; got a tensor of shape"):
            random.stateless_uniform([2], [1, 2], minval=tf.zeros([2], tf.int32), maxval=3, dtype=tf.int32)
