"""tf.linspace of tensors of unknown rank, and the types of tf.sparse.bincount. Values and types as in TensorFlow 2.21."""
import numpy as np
import pytest

import penstock as tf


@pytest.mark.parametrize("shape,axis", [((), 0), ((), -1), ((2,), 0), ((2,), -1), ((2, 3), 1), ((2, 3), -2), ((2, 3), 2)])
def test_numbers_between_tensors_of_unknown_rank(shape, axis):
    @tf.function(input_signature=[tf.TensorSpec(None, tf.float64), tf.TensorSpec(None, tf.float64)])
    def spread(a, b):
        return tf.linspace(a, b, 4, axis=axis)
    first = np.arange(np.prod(shape, dtype=int), dtype=np.float64).reshape(shape)
    np.testing.assert_allclose(spread(first, first + 5), np.linspace(first, first + 5, 4, axis=axis), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
@pytest.mark.parametrize("make", [tf.constant, tf.ragged.constant, tf.sparse.from_dense], ids=["dense", "ragged", "sparse"])
def test_counts_have_the_type_of_the_values(make, dtype):
    values = make(tf.constant([[1, 2, 2]], dtype)) if make is tf.sparse.from_dense else make([[1, 2, 2]], dtype)
    for binary, expected in ((False, [1, 2]), (True, [1, 1])):
        counts = tf.sparse.bincount(values, axis=-1, binary_output=binary)
        assert counts.dtype == dtype and counts.values.numpy().tolist() == expected


def test_both_functions_of_a_condition_that_is_known():
    cond = tf.__internal__.smart_cond.smart_cond
    assert cond(True, lambda: 1, lambda: 2) == 1
    with pytest.raises(TypeError, match="Argument `false_fn` must be callable. Received None"):
        cond(True, lambda: 1)


@pytest.mark.parametrize("value", [-3, -3.5, -3 - 4j, [-1, 2], [1 - 2j]])
def test_the_norm_of_single_numbers(value):
    axis = [] if isinstance(value, list) else None

    def norm(x):
        return tf.math.reduce_euclidean_norm(x, axis=axis)
    for run in (norm, tf.function(norm)):
        got = run(tf.constant(value))
        assert got.dtype == tf.constant(value).dtype
        np.testing.assert_allclose(got, np.abs(value), rtol=1e-6, atol=1e-6)


def test_the_gradient_of_the_norm_of_a_number():
    x = tf.constant(-3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.math.reduce_euclidean_norm(x)
    assert float(tape.gradient(y, x)) == -1.0
