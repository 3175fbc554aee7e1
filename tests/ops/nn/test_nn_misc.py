"""Dense layers in one call, the share of zeros, data formats."""
import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as tf1
from penstock._src.ops.registry import get


def test_dense_layers():
    x, w, b = np.array([[1.0, -2.0]]), np.array([[1.0, 0.5], [1.0, -1.0]]), np.array([0.25, 0.5])
    np.testing.assert_allclose(tf1.nn.xw_plus_b(x, w, b).numpy(), [[-0.75, 3.0]], rtol=1e-6)
    np.testing.assert_allclose(tf1.nn.relu_layer(x, w, b).numpy(), [[0.0, 3.0]], rtol=1e-6)


def test_zero_fraction():
    assert tf.nn.zero_fraction([0, 1, 0, 0]).numpy() == np.float32(0.75)
    assert np.isnan(tf.nn.zero_fraction(np.zeros([0], np.float32)).numpy())
    with tf1.Graph().as_default():
        p = tf1.placeholder(tf.float32)
        y = tf1.nn.zero_fraction(p)
        with tf1.Session() as sess:
            assert sess.run(y, {p: [[0.0, 2.0]]}) == np.float32(0.5)


@pytest.mark.parametrize("op, x, attrs, message", [
    ("DataFormatDimMap", [4], {}, "must be in"), ("DataFormatDimMap", [0], {"dst_format": "NCHX"}, "permutation"),
    ("DataFormatDimMap", [0], {"src_format": "NHC"}, "length 4 or 5"),
    ("DataFormatVecPermute", [1, 2, 3], {}, "of size"),
    ("DataFormatVecPermute", [[1], [2], [3], [4]], {}, "2 columns|must be equal"),
    ("DataFormatVecPermute", 3, {}, "vector|rank")])
def test_data_format_errors(op, x, attrs, message):
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        get(op)(np.array(x, np.int32), **attrs)


def test_spatial_sizes_alone():
    np.testing.assert_array_equal(get("DataFormatVecPermute")(np.array([5, 7], np.int32)).numpy(), [5, 7])
    np.testing.assert_array_equal(get("DataFormatVecPermute")(np.array([5, 7], np.int32), src_format="NHWC",
                                                              dst_format="NWHC").numpy(), [7, 5])
