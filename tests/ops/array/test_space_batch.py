"""Blocks of space, patches, reversals, bitcasts."""
import numpy as np
import pytest

import penstock as tf2
import penstock.compat.v1 as tf

X = np.arange(2 * 4 * 6 * 2, dtype=np.float32).reshape(2, 4, 6, 2)


def test_batch_and_space_are_inverse():
    paddings, crops = tf2.required_space_to_batch_paddings([4, 6], [3, 4])
    y = tf2.space_to_batch_nd(X, [3, 4], paddings)
    np.testing.assert_array_equal(tf2.batch_to_space(y, [3, 4], crops), X)
    z = tf.space_to_batch(X, [[0, 0], [0, 0]], 2)
    np.testing.assert_array_equal(tf.batch_to_space(z, [[0, 0], [0, 0]], 2), X)
    with pytest.raises(tf.errors.InvalidArgumentError, match="not divisible"):
        tf2.space_to_batch_nd(X, [3, 4], [[0, 0], [0, 0]])


@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
def test_depth_and_space_are_inverse(data_format):
    x = X if data_format == "NHWC" else X.transpose(0, 3, 1, 2)
    y = tf2.nn.space_to_depth(x, 2, data_format)
    assert y.shape.as_list() == ([2, 2, 3, 8] if data_format == "NHWC" else [2, 8, 2, 3])
    np.testing.assert_array_equal(tf2.nn.depth_to_space(y, 2, data_format), x)
    with pytest.raises(tf.errors.InvalidArgumentError, match="divisible"):
        tf2.nn.space_to_depth(x, 4, data_format)


def test_patches_of_a_partly_unknown_image():
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.float32, [None, None, 6, 2])
        y = tf.image.extract_image_patches(x, [1, 2, 3, 1], [1, 1, 2, 1], [1, 1, 1, 1], "SAME")
        patches, grad = sess.run([y, tf.gradients(y, x)[0]], {x: X})
    np.testing.assert_array_equal(patches[0, 0, 0, :6], X[0, 0, :3].ravel())
    assert grad.shape == X.shape and grad.sum() == (patches != 0).sum() + 1          # X holds one zero, in one patch


def test_reverse_sequence():
    x = np.arange(8).reshape(2, 4)
    np.testing.assert_array_equal(tf2.reverse_sequence(x, [2, 4], seq_axis=1), [[1, 0, 2, 3], [7, 6, 5, 4]])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"seq_lens\(1\) = 5"):
        tf2.reverse_sequence(x, [2, 5], seq_axis=1)
    with pytest.raises(tf.errors.InvalidArgumentError, match="more than once"):
        tf2.reverse(x, [0, -2])


def test_roll_of_strings():
    assert tf2.roll(["a", "b", "c"], 1, 0).numpy().tolist() == [b"c", b"a", b"b"]


def test_bitcast_shapes():
    assert tf2.bitcast(np.float32(1), tf.uint8).shape == (4,)
    assert tf2.bitcast(np.zeros([0, 2], np.int32), tf.int64).shape == (0,)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Cannot bitcast"):
        tf2.bitcast(np.zeros(3, np.int32), tf.int64)
