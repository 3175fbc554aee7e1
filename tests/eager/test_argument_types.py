"""The types of arguments of eager ops: arrays beside tensors, and values that are no tensors."""
import numpy as np
import pytest

import penstock as tf

HALVES = np.array([0.5, 1.5])


@pytest.mark.parametrize("call", [
    lambda a, t: tf.maximum(a, t), lambda a, t: tf.where([True, False], a, t), lambda a, t: tf.less(a, t),
    lambda a, t: tf.pow(a, t), lambda a, t: tf.math.atan2(a, t), lambda a, t: tf.multiply(np.float64(2), t),
    lambda a, t: tf.einsum("i,i->i", a, t), lambda a, t: tf.raw_ops.Mul(x=a, y=t)])
def test_an_array_before_a_tensor_takes_its_type(call):
    t = tf.constant([1., 2.])
    out, expected = call(HALVES, t), call(tf.constant(HALVES, tf.float32), t)
    assert out.dtype == expected.dtype
    np.testing.assert_array_equal(out, expected)


def test_images_as_arrays_take_the_type_of_filters():
    images = np.arange(9.).reshape(1, 3, 3, 1)
    out = tf.nn.conv2d(images, tf.fill([1, 1, 1, 1], 2.), 1, "SAME")
    assert out.dtype == tf.float32
    np.testing.assert_array_equal(out, 2 * images)


def test_an_array_that_does_not_fit_is_refused():
    with pytest.raises(TypeError):
        tf.maximum(np.array([300]), tf.constant([1], tf.uint8))


def test_graphs_take_arguments_in_their_order():
    with pytest.raises(TypeError, match="float64"):
        tf.function(lambda t: tf.maximum(HALVES, t))(tf.constant([1., 2.]))


class Thing:
    """No tensor."""


@pytest.mark.parametrize("call", [
    tf.constant, tf.convert_to_tensor, tf.sqrt, lambda x: tf.add(1, x), lambda x: tf.constant(1) + x,
    lambda x: tf.constant([x]), lambda x: tf.reshape([1, 2], [x]), lambda x: tf.concat([x], 0)])
@pytest.mark.parametrize("value", [Thing(), {}, {1}, lambda: 1], ids=["object", "dict", "set", "function"])
def test_a_value_that_is_no_tensor_is_a_value_error(call, value):
    with pytest.raises(ValueError, match="unsupported type"):
        call(value)


def test_arrays_of_objects_and_sparse_tensors_are_value_errors():
    with pytest.raises(ValueError, match="NumPy array"):
        tf.constant(np.array([1, Thing()], dtype=object))
    sparse = tf.sparse.from_dense([[1., 0.]])
    for call in (tf.reduce_sum, tf.transpose, tf.nn.relu, lambda x: tf.add(1., x)):
        with pytest.raises(ValueError, match="sparse"):
            call(sparse)


def test_in_graphs_they_are_type_errors():
    with pytest.raises(TypeError):
        tf.function(lambda: tf.constant(Thing()))()
    with pytest.raises(TypeError, match="sparse"):
        tf.function(lambda x: tf.reduce_sum(x))(tf.sparse.from_dense([1., 0.]))


def test_a_wrong_type_stays_a_type_error():
    with pytest.raises(TypeError, match="int32"):
        tf.constant(1.5, tf.int32)
