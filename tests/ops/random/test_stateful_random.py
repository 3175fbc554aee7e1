"""tf.random.Generator: numbers and states of TensorFlow, resets, splits, functions, wrong arguments."""
import numpy as np
import pytest

import penstock as tf
from tests.checks import raises_op

Generator = tf.random.Generator


def test_state_moves_by_256_per_number():
    g = Generator.from_seed(1234)
    assert g.state.numpy().tolist() == [1234, 0, 0] and g.algorithm == 1
    g.uniform([2, 3])
    assert g.state.numpy().tolist() == [1234 + 6 * 256, 0, 0]
    assert g.skip(2).numpy().tolist() == [1234 + 6 * 256, 0, 0]
    assert g.state.numpy().tolist() == [1234 + 8 * 256, 0, 0]


def test_counter_carries():
    g = Generator.from_state([-1, 0, 5], alg="philox")
    g.uniform([1])
    assert g.state.numpy().tolist() == [255, 1, 5]


def test_seeds_of_any_length():
    assert Generator.from_seed([7]).state.numpy().tolist() == [0, 0, 7]
    assert Generator.from_seed([5, 6, 7]).state.numpy().tolist() == [5, 6, 7]
    assert Generator.from_seed(2**70 + 5).state.numpy().tolist() == [5, 64, 0]
    assert Generator.from_key_counter(2**64 - 1, [4, 5], "philox").state.numpy().tolist() == [4, 5, -1]


def test_same_state_same_numbers():
    a, b = Generator.from_seed(3), Generator.from_seed(3)
    np.testing.assert_array_equal(a.normal([4]), b.normal([4]))
    np.testing.assert_array_equal(a.truncated_normal([4], 1.0, 2.0), b.truncated_normal([4], 1.0, 2.0))
    copy = Generator(copy_from=a)
    np.testing.assert_array_equal(a.uniform([3], -5, 5, tf.int32), copy.uniform([3], -5, 5, tf.int32))
    a.reset_from_seed(3)
    b.reset([3, 0, 0])
    np.testing.assert_array_equal(a.normal([4]), b.normal([4]))


def test_split_and_seeds():
    g = Generator.from_seed(3)
    one, other = g.split(2)
    assert not np.allclose(one.normal([3]), other.normal([3]))
    assert g.make_seeds(4).shape == [2, 4]


def test_in_functions_and_graphs():
    g = Generator.from_seed(3)

    @tf.function
    def draw():
        return g.normal([2])
    first, second = draw().numpy(), draw().numpy()
    g.reset_from_seed(3)
    np.testing.assert_array_equal(g.normal([2]), first)
    np.testing.assert_array_equal(g.normal([2]), second)


def test_global_generator():
    mine = Generator.from_seed(3)
    tf.random.set_global_generator(mine)
    assert tf.random.get_global_generator() is mine
    tf.random.set_global_generator(None)
    assert tf.random.get_global_generator().normal([2]).shape == [2]


def test_wrong_arguments():
    g = Generator.from_seed(3)
    with pytest.raises(ValueError, match="both `None` or both"):
        g.uniform([2], 3, None, tf.int32)
    with pytest.raises(ValueError, match="unsupported"):
        Generator.from_seed(1, alg="threefry")
    with pytest.raises(ValueError, match="compatible|incompatible"):
        Generator(state=[1, 2], alg=1)
    with raises_op(tf.errors.InvalidArgumentError, "Need minval < maxval"):
        g.uniform([2], 3, 3, tf.int32)
    with raises_op(tf.errors.InvalidArgumentError, "Unsupported algorithm"):
        tf.raw_ops.StatefulUniform(resource=g.state.handle, algorithm=9, shape=[2])
    with raises_op(tf.errors.InvalidArgumentError, "int64 vector of 3"):
        tf.raw_ops.StatefulUniform(resource=tf.Variable([1, 2]).handle, algorithm=1, shape=[2])


def test_libraries_find_the_state_of_a_generator():
    g = tf.random.Generator.from_seed(5)
    assert g._state_var is g.state
