"""Sets, permutations, one-hot rows, partitions."""
import numpy as np
import pytest

import penstock as tf2
import penstock.compat.v1 as tf


def test_unique_keeps_the_order_of_appearance():
    y, index, count = tf2.unique_with_counts([7, 2, 7, 1, 2, 7])
    assert (y.numpy().tolist(), index.numpy().tolist(), count.numpy().tolist()) == ([7, 2, 1], [0, 1, 0, 2, 1, 0],
                                                                                    [3, 2, 1])
    y, _ = tf2.unique(np.array([], np.float32))
    assert y.shape == (0,)
    with pytest.raises(tf.errors.InvalidArgumentError, match="1D"):
        tf2.unique([[1]])


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32, np.uint64])
def test_unique_of_unsigned(dtype):
    top = np.iinfo(dtype).max
    y, _ = tf2.unique(np.array([top, 0, top], dtype))
    assert y.numpy().tolist() == [top, 0]


def test_setdiff1d():
    out, index = tf.setdiff1d(["a", "b", "c"], ["b"])
    assert (out.numpy().tolist(), index.numpy().tolist()) == ([b"a", b"c"], [0, 2])


@pytest.mark.parametrize("x, text", [([0, 3], "3 is not between 0 and 2"), ([1, 1], "1 is duplicated")])
def test_invert_permutation_checks(x, text):
    with pytest.raises(tf.errors.InvalidArgumentError, match=text):
        tf2.math.invert_permutation(x)


def test_one_hot_types():
    assert tf2.one_hot([1], 2).dtype == tf.float32
    assert tf2.one_hot([1], 2, on_value=5).dtype == tf.int32
    assert tf2.one_hot([1], 2, True, False).numpy().tolist() == [[False, True]]
    with pytest.raises(TypeError, match="does not match"):
        tf2.one_hot([1], 2, on_value=1.0, off_value=0)
    with pytest.raises(TypeError, match="dtype parameter"):
        tf2.one_hot([1], 2, on_value=1.5, dtype=tf.int32)
    with pytest.raises(tf.errors.InvalidArgumentError, match="non-negative"):
        tf2.one_hot([1], -2)


def test_partition_and_stitch_are_inverse():
    x, labels = np.random.RandomState(0).rand(6, 2), np.array([2, 0, 1, 0, 2, 2])
    parts = tf2.dynamic_partition(x, labels, 3)
    places = tf2.dynamic_partition(np.arange(6), labels, 3)
    np.testing.assert_array_equal(tf2.dynamic_stitch([tf2.cast(p, tf.int32) for p in places], parts), x)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"partitions\[1\] = 3 is not in \[0, 3\)"):
        tf2.dynamic_partition([1, 2], [0, 3], 3)


def test_stitch_takes_the_last_of_equals():
    assert tf2.dynamic_stitch([[0, 1], [1]], [[1, 2], [3]]).numpy().tolist() == [1, 3]
    with pytest.raises(tf.errors.InvalidArgumentError, match="does not start with"):
        tf2.dynamic_stitch([[0, 1]], [[1]])


def test_sparse_mask():
    a = tf.IndexedSlices(tf.constant([[1], [2], [3]]), tf.constant([4, 5, 6]))
    b = tf.sparse_mask(a, [5])
    assert (b.values.numpy().tolist(), b.indices.numpy().tolist()) == ([[1], [3]], [4, 6])


def test_the_axis_of_unique_is_checked():
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match="axis expects a 1D vector"):
        with tf.Graph().as_default():
            tf.raw_ops.UniqueV2(x=tf.zeros([3, 2]), axis=[[0]])
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match="x expects a 1D vector"):
        with tf.Graph().as_default():
            tf.raw_ops.UniqueV2(x=tf.zeros([3, 2]), axis=tf.constant([], tf.int64))
