"""Morphology: erosion is the dual of dilation; errors."""
import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as tf1
from penstock._src.ops.registry import get
from tests.registry.samples.morphology import dilate

rng = np.random.RandomState(6)
X, W = rng.randn(2, 6, 5, 3), rng.randn(2, 3, 3)
ONES = [1, 1, 1, 1]


def test_erosion_is_dual():
    found = tf.nn.erosion2d(X, W, ONES, "SAME", "NHWC", ONES).numpy()
    np.testing.assert_allclose(found, -dilate(-X, W[::-1, ::-1], (1, 1), (1, 1), "SAME"), rtol=1e-6)
    np.testing.assert_array_equal(tf1.nn.erosion2d(X, W, ONES, ONES, "SAME").numpy(), found)


def test_wide_rates_need_no_memory():
    """A window that reaches far outside of the image takes its maximum of what is inside."""
    y = tf.nn.dilation2d(X, np.zeros([3, 3, 3]), ONES, "SAME", "NHWC", [1, 10**6, 10**6, 1])
    np.testing.assert_array_equal(y.numpy(), X)


def test_errors():
    with pytest.raises(ValueError, match="NHWC"):
        tf.nn.dilation2d(X, W, ONES, "SAME", "NCHW", ONES)
    with tf1.Graph().as_default():
        with pytest.raises(ValueError, match="Negative dimension size"):
            tf1.nn.dilation2d(X, np.zeros([7, 1, 3]), ONES, ONES, "VALID")
        with pytest.raises(ValueError, match="must be equal"):
            tf1.nn.dilation2d(X, np.zeros([2, 2, 4]), ONES, ONES, "VALID")
    with pytest.raises(tf.errors.InvalidArgumentError, match="one depth"):
        get("Dilation2D")(X, np.zeros([2, 2, 4]), strides=ONES, rates=ONES, padding="SAME")
    with pytest.raises(tf.errors.InvalidArgumentError, match="incompatible size"):
        get("Dilation2DBackpropInput")(X, W, X[:1], strides=ONES, rates=ONES, padding="SAME")
    with pytest.raises(tf.errors.UnimplementedError, match="batch and depth"):
        get("Dilation2D")(X, W, strides=[1, 1, 1, 2], rates=ONES, padding="SAME")
