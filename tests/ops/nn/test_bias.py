"""Adding biases: data formats and errors."""
import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as tf1
from penstock._src.ops.registry import get


@pytest.mark.parametrize("rank", [3, 4, 5])
def test_formats(rank):
    x, b = np.random.RandomState(0).randn(*range(2, 2 + rank)), np.arange(3.0)
    spread = b.reshape(-1, *[1] * (rank - 2))
    np.testing.assert_allclose(tf.nn.bias_add(x, b, data_format="NC" + "DHW"[5 - rank:]).numpy(), x + spread, rtol=1e-6)
    last = np.moveaxis(x, 1, -1)
    np.testing.assert_allclose(tf.nn.bias_add(last, b, data_format="N" + "DHW"[5 - rank:] + "C").numpy(), last + b, rtol=1e-6)


def test_errors():
    with pytest.raises(ValueError, match="data_format"):
        tf.nn.bias_add([[1.0]], [1.0], data_format="CHWN")
    with tf1.Graph().as_default(), pytest.raises(ValueError, match=r"must be equal.*\(2, 3\)"):
        tf1.nn.bias_add(np.ones([2, 3]), np.ones(2))
    with pytest.raises(tf.errors.InvalidArgumentError, match="as many biases"):
        get("BiasAdd")(np.ones([2, 3]), np.ones(2))
    with pytest.raises(tf.errors.InvalidArgumentError):
        get("BiasAdd")(np.ones(3), np.ones(3))


def test_second_derivative():
    """The gradient of the bias gradient goes back to every position."""
    with tf1.Graph().as_default():
        g = tf1.placeholder(tf.float32, [2, 3])
        db = get("BiasAddGrad")(g)
        back = tf1.gradients(db, [g], grad_ys=[tf.constant([1.0, 2.0, 3.0])])[0]
        with tf1.Session() as sess:
            np.testing.assert_array_equal(sess.run(back, {g: np.zeros([2, 3])}), [[1, 2, 3], [1, 2, 3]])
