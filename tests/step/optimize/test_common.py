"""Common-subexpression elimination."""
import numpy as np
import pytest

import penstock.compat.v1 as tf
from penstock._src.step.optimize.common import merge_common

from .steps import after, same


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default():
        yield


def test_twins_are_merged():
    x = tf.placeholder(tf.float32, [2])
    y = tf.exp(x) + tf.exp(x)
    assert after(merge_common, [y], feeds=[x]) == ["Exp", "AddV2"]


def test_ops_that_differ_are_not_merged():
    x = tf.placeholder(tf.float32, [2, 2])
    y = tf.matmul(x, x) + tf.matmul(x, x, transpose_a=True) + tf.constant(1.) + tf.constant(2.)
    left = after(merge_common, [y], feeds=[x])
    assert left.count("MatMul") == 2 and left.count("Const") == 2
    rates = tf.constant(1.) / tf.constant(0.) + tf.constant(1.) / tf.constant(-0.)
    assert np.isnan(same([rates])[0])


def test_random_ops_are_not_merged():
    y = tf.random_uniform([], seed=1) - tf.random_uniform([], seed=1)
    assert after(merge_common, [y]).count("RandomUniform") == 2


def test_large_constants_with_the_same_content_are_merged():
    """With them, what is computed from them: the gradients of two losses that share a mean, for instance."""
    x, many = tf.placeholder(tf.float32, [60, 60]), np.random.RandomState(0).randn(60, 60).astype("f")
    other = many.copy()
    other[7, 11] += 1.0                                          # none of the elements in its key
    y = tf.exp(x * tf.constant(many)) + tf.exp(x * tf.constant(many.copy())) + tf.exp(x * tf.constant(other))
    left = after(merge_common, [y], feeds=[x])
    assert left.count("Const") == left.count("Mul") == left.count("Exp") == 2


def test_constants_of_zeros_of_both_signs_and_of_nan():
    x = tf.placeholder(tf.float32, [2000])
    zeros, nan = np.zeros(2000, "f"), np.full(2000, np.nan, "f")
    y = [tf.maximum(x, tf.constant(v)) for v in (zeros, -zeros, nan, nan.copy())]
    assert after(merge_common, y, feeds=[x]).count("Const") == 3
