"""Binomial random numbers: their distribution, what fixes them, wrong arguments."""
import numpy as np
import pytest

import penstock as tf


def test_mean_and_variance():
    drawn = tf.random.stateless_binomial([20000, 3], [1, 2], [4.0, 10.0, 1000.0], [0.5, 0.1, 0.7]).numpy()
    assert drawn.dtype == np.int32
    np.testing.assert_allclose(drawn.mean(0), [2, 1, 700], rtol=0.02)
    np.testing.assert_allclose(drawn.var(0), [1, 0.9, 210], rtol=0.06)


def test_a_state_fixes_them():
    a, b = (tf.random.Generator.from_seed(3) for _ in range(2))
    first = a.binomial([50], 10.0, 0.3)
    np.testing.assert_array_equal(first, b.binomial([50], 10.0, 0.3))
    assert (first.numpy() != a.binomial([50], 10.0, 0.3).numpy()).any()
    assert a.state.numpy().tolist() == [3 + 100 * 256, 0, 0]


def test_impossible_parameters():
    """Recorded of TensorFlow, but for NaN, for which it does not return."""
    counts, probs = [-1.0, 3.0, 2.5, 3.0, np.nan, 3.0, 0.5], [0.5, 1.5, 1.5, -1.0, 0.5, np.nan, 2.0]
    drawn = tf.random.stateless_binomial([7], [1, 2], counts, probs, tf.float32)
    np.testing.assert_array_equal(drawn, [0, 3, 2.5, 0, np.nan, np.nan, 0.5])


def test_shape_must_end_with_that_of_the_parameters():
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[5, 2\].*\[3\]"):
        tf.random.stateless_binomial([5, 2], [1, 2], [1.0, 2.0, 3.0], 0.5)
