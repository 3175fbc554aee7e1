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
