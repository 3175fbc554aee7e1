"""One-hot and arg-max kernels that a compiled function prepares return what the eager ops do."""
import numpy as np
import pytest

import penstock as tf


@pytest.mark.parametrize("indices", [3, [1, 0, 5, -1], [[1, 2], [0, 9]]])
@pytest.mark.parametrize("axis", [-1, 0])
@pytest.mark.parametrize("on, off, dtype", [(1.0, 0.0, tf.float32), (5.0, -1.0, tf.float32), (7, 2, tf.int64)])
def test_one_hot(indices, axis, on, off, dtype):
    f = tf.function(lambda i: tf.one_hot(i, 6, on, off, axis, dtype))
    found, right = f(tf.constant(indices)), tf.one_hot(indices, 6, on, off, axis, dtype)
    assert found.dtype == right.dtype
    np.testing.assert_array_equal(found, right)
    places = np.moveaxis(np.arange(6) == np.expand_dims(indices, -1), -1, axis)
    np.testing.assert_array_equal(found, np.where(places, on, off))


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
def test_arg_max_and_arg_min(axis, dtype):
    x = np.random.RandomState(0).randint(0, 4, [4, 5, 6]).astype("f")
    found = tf.function(lambda x: (tf.argmax(x, axis, dtype), tf.argmin(x, axis, dtype)))(x)
    assert all(t.dtype == dtype for t in found)
    np.testing.assert_array_equal(found[0], np.argmax(x, axis))
    np.testing.assert_array_equal(found[1], np.argmin(x, axis))
