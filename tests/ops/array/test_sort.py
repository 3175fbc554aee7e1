"""Sorting, the largest elements, running sums, counting, clipping, confusion matrices."""
import numpy as np
import pytest

import penstock as tf2
import penstock.compat.v1 as tf

R = np.random.RandomState(0)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.int64, np.uint8, np.uint32])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_sort(dtype, axis):
    x = R.randint(0, 100, (4, 5)).astype(dtype)
    x.flat[0] = np.iinfo(dtype).min if np.issubdtype(dtype, np.integer) else -1
    np.testing.assert_array_equal(tf2.sort(x, axis).numpy(), np.sort(x, axis))
    np.testing.assert_array_equal(tf2.sort(x, axis, "DESCENDING").numpy(), np.flip(np.sort(x, axis), axis))
    np.testing.assert_array_equal(tf2.argsort(x, axis).numpy(), np.argsort(x, axis, kind="stable"))


def test_sort_errors():
    with pytest.raises(ValueError, match="direction"):
        tf2.sort([1, 2], direction="UP")
    with pytest.raises(ValueError, match="out of range"):
        tf2.sort([1, 2], axis=2)
    with tf.Graph().as_default(), pytest.raises(ValueError, match="constant scalar"):
        tf.sort([1, 2], axis=tf.placeholder(tf.int32, []))


def test_ties_go_to_the_lower_index():
    x = np.zeros(1000, np.float32)
    x[[17, 400, 900]] = 5
    assert tf2.math.top_k(x, 2).indices.numpy().tolist() == [17, 400]
    assert tf2.math.top_k(x, 5).indices.numpy().tolist() == [17, 400, 900, 0, 1]


def test_top_k_errors():
    with pytest.raises(tf.errors.InvalidArgumentError, match="at least k columns"):
        tf2.math.top_k([1., 2.], 3)
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="last dimension >= k"):
            tf.nn.top_k(tf.zeros([2, 3]), 4)
        assert tf.nn.top_k(tf.zeros([2, 3]), tf.placeholder(tf.int32, [])).values.shape.as_list() == [2, None]


def test_in_top_k():
    scores = np.array([[0.1, 0.5, 0.4]], np.float32)
    assert tf.nn.in_top_k(scores, [2], 2).numpy().tolist() == [True]
    assert tf2.math.in_top_k([0], scores, 2).numpy().tolist() == [False]
    with pytest.raises(tf.errors.InvalidArgumentError, match="must match length"):
        tf.nn.in_top_k(scores, [1, 2], 2)


def test_running_sums_check_their_axis():
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"axis in the range \[-1, 1\)"):
        tf2.cumsum([1, 2], axis=1)
    assert tf2.cumsum(np.zeros((0, 3))).shape == (0, 3)


def test_bincount():
    assert tf2.math.bincount([1, 1, 3]).numpy().tolist() == [0, 2, 0, 1]
    assert tf2.math.bincount([], minlength=2).numpy().tolist() == [0, 0]
    assert tf2.math.bincount([1, 5], maxlength=3).numpy().tolist() == [0, 1, 0]
    assert tf.bincount([1, 1], weights=[0.5, 1.5]).numpy().tolist() == [0, 2]
    assert tf2.math.bincount([[1, 1], [0, 2]], axis=-1).numpy().tolist() == [[0, 2, 0], [1, 0, 1]]
    assert tf2.math.bincount([1, 1], binary_output=True).numpy().tolist() == [0, 1]
    with pytest.raises(tf.errors.InvalidArgumentError, match="non-negative"):
        tf2.math.bincount([-1, 1])


def test_histogram():
    values = [-1.0, 0.0, 1.5, 2.0, 5.0, 15]
    assert tf2.histogram_fixed_width(values, [0.0, 5.0], nbins=5).numpy().tolist() == [2, 1, 1, 0, 2]
    assert tf2.histogram_fixed_width_bins(values, [0.0, 5.0], nbins=5).numpy().tolist() == [0, 0, 1, 2, 4, 4]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"value_range\[0\] < value_range\[1\]"):
        tf2.histogram_fixed_width(values, [5.0, 0.0])
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError), match="maximum value of int32_t|nbins < 2147483647"):
        tf2.histogram_fixed_width(values, [0.0, 5.0], nbins=2**31 - 1)


def test_clipping():
    assert tf2.clip_by_value([-5., 0.5, 9.], 0., 1.).numpy().tolist() == [0, 0.5, 1]
    np.testing.assert_allclose(tf2.clip_by_norm([3., 4.], 2.5).numpy(), [1.5, 2], rtol=1e-6)
    rows = tf2.IndexedSlices(tf2.constant([[3., 4.]]), tf2.constant([1]), tf2.constant([2, 2]))
    clipped, norm = tf2.clip_by_global_norm([rows, None, tf2.constant([0.])], 1.)
    assert norm.numpy() == 5 and clipped[1] is None
    np.testing.assert_allclose(clipped[0].values.numpy(), [[0.6, 0.8]], rtol=1e-6)
    assert np.isnan(tf2.clip_by_global_norm([tf2.constant([np.inf])], 1.)[0][0].numpy()).all()
    with pytest.raises(TypeError, match="sequence"):
        tf2.clip_by_global_norm(tf2.constant([1.]), 1.)
    np.testing.assert_allclose(tf.clip_by_average_norm([3., 4.], 1.).numpy(), [1.2, 1.6], rtol=1e-6)


def test_gradient_of_clipping():
    with tf.Graph().as_default(), tf.Session() as sess:
        x, low, high = tf.constant([-1., 0.5, 2.]), tf.constant(0.), tf.constant(1.)
        out = tf.raw_ops.ClipByValue(t=x, clip_value_min=low, clip_value_max=high)
        gx, gl, gh = sess.run(tf.gradients(out, [x, low, high]))
        assert gx.tolist() == [0, 1, 0] and gl == 1 and gh == 1


def test_confusion_matrix():
    found = tf2.math.confusion_matrix([1, 2, 1], [[1], [0], [1]], weights=[1, 2, 3])
    assert found.numpy().tolist() == [[0, 0, 0], [0, 4, 0], [2, 0, 0]]
    with pytest.raises(tf.errors.InvalidArgumentError, match="out of bound"):
        tf2.math.confusion_matrix([1, 5], [0, 1], num_classes=3)
    with pytest.raises(tf.errors.InvalidArgumentError, match="negative"):
        tf2.math.confusion_matrix([1, -1], [0, 1])


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_shifts_by_too_much_do_not_wrap(bits):
    for t in (np.dtype(f"int{bits}").type, np.dtype(f"uint{bits}").type):
        x = np.array([1, np.iinfo(t).max], t)
        far = np.array([bits + 5] * 2, t)
        by = t(bits - 1)
        np.testing.assert_array_equal(tf2.bitwise.right_shift(x, far).numpy(), x >> by)
        np.testing.assert_array_equal(tf2.bitwise.left_shift(x, far).numpy(), x << by)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
def test_any_axis_of_an_unknown_rank_is_sorted(axis):
    array = np.random.RandomState(3).permutation(24).reshape(2, 3, 4)
    signature = [tf2.TensorSpec(None, tf2.int64)]
    np.testing.assert_array_equal(
        tf2.function(lambda x: tf2.sort(x, axis), input_signature=signature)(array), np.sort(array, axis))
    np.testing.assert_array_equal(
        tf2.function(lambda x: tf2.argsort(x, axis), input_signature=signature)(array), np.argsort(array, axis))
