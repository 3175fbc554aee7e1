"""Ops of debuggers, and small ops beside them: TensorFlow's numbers."""
import numpy as np
import pytest

import penstock as tf

R = tf.raw_ops
X = np.array([1.0, -2.0, 0.0, np.nan, np.inf, -np.inf, 3.0], np.float32)


def test_values_pass():
    for name in ("Copy", "CopyHost", "DebugIdentity", "DebugIdentityV2", "DebugGradientIdentity"):
        np.testing.assert_array_equal(getattr(R, name)(input=X), X)
    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = R.DebugIdentity(input=x * x)
    assert float(tape.gradient(y, x)) == 6.0


def test_counts():
    assert R.DebugNanCount(input=X).numpy().tolist() == [1]
    out = R.DebugNumericSummary(input=X.reshape(7, 1)).numpy().tolist()
    assert out == [1, 7, 1, 1, 1, 1, 2, 1, -2, 3, 0.5, 3.25, 1, 2, 7, 1]
    assert R.DebugNumericSummary(input=np.ones(3, np.float32), mute_if_healthy=True).shape == (0,)


@pytest.mark.parametrize("mode, want, of_integers", [
    (2, [7, 1], [7, 0]), (3, [7, 7, 1, 1, 1], [7, 4, 0, 0, 0]),
    (4, [7, -1, 1, 2, 7, 1, 1, 1, 1, 1, 2], [7, -1, 9, 2, 4, 0, 0, 0, 0, 1, 3]),
    (5, [7, 1, 2, 7, 7, 1, 0, 0, 0, 0], [7, 9, 2, 4, 2, 2, 0, 0, 0, 0]), (8, [-np.inf, np.inf, np.nan], [0, 0, 0])])
def test_summaries(mode, want, of_integers):
    np.testing.assert_array_equal(R.DebugNumericSummaryV2(input=X.reshape(7, 1), tensor_debug_mode=mode, tensor_id=7), want)
    np.testing.assert_array_equal(R.DebugNumericSummaryV2(input=np.arange(4).reshape(2, 2), tensor_debug_mode=mode, tensor_id=7,
                                                          output_dtype=tf.float64), of_integers)


def test_devices():
    with tf.device("CPU"):
        assert int(R.DeviceIndex(device_names=["GPU", "CPU"])) == 1
        assert int(R.DeviceIndex(device_names=["TPU"])) == 1


@pytest.mark.parametrize("value, want", [(0, False), (3.0, True), ("", False), ("a", True), ([], False), ([0], True)])
def test_truth(value, want):
    assert bool(R.ToBool(input=value)) is want


def test_memory_that_is_not_pinned():
    with pytest.raises(tf.errors.InvalidArgumentError, match="not in pinned memory"):
        R.CheckPinned(tensor=X)


@pytest.mark.parametrize("kind, arguments, keys, values, default", [
    ("MutableHashTable", {"key_dtype": tf.string}, ["a", "b"], [1, 2], -1),
    ("MutableDenseHashTable", {"empty_key": -1, "deleted_key": -2}, [4, 5], [1, 2], 9),
    ("MutableHashTableOfTensors", {"key_dtype": tf.int32, "value_shape": [2]}, [4, 5], [[1, 2], [3, 4]], [0, 0])])
def test_anonymous_tables(kind, arguments, keys, values, default):
    make = getattr(R, f"Anonymous{kind}")
    first, second = make(value_dtype=tf.int32, **arguments), make(value_dtype=tf.int32, **arguments)
    R.LookupTableInsertV2(table_handle=first, keys=keys, values=values)
    assert R.LookupTableFindV2(table_handle=first, keys=keys[1:], default_value=default).numpy().tolist() == values[1:]
    assert R.LookupTableFindV2(table_handle=second, keys=keys[1:], default_value=default).numpy().tolist() == [default]


def test_empty_rows_of_ragged_values():
    out = R.RaggedFillEmptyRows(value_rowids=np.array([0, 0, 3]), values=[5, 6, 7], nrows=np.int64(5), default_value=-1)
    assert [o.numpy().tolist() for o in out] == [[0, 0, 1, 2, 3, 4], [5, 6, -1, -1, 7, -1], [False, True, True, False, True],
                                                 [0, 1, 4]]
    values, default = tf.constant([5.0, 7.0]), tf.constant(-1.0)
    with tf.GradientTape() as tape:
        tape.watch([values, default])
        filled = R.RaggedFillEmptyRows(value_rowids=np.array([0, 2]), values=values, nrows=np.int64(4),
                                       default_value=default)[1]
        y = tf.reduce_sum(filled * tf.constant([1.0, 2.0, 3.0, 4.0]))
    assert [g.numpy().tolist() for g in tape.gradient(y, [values, default])] == [[1.0, 3.0], 6.0]


def test_sobol_points():
    np.testing.assert_array_equal(tf.math.sobol_sample(3, 4, dtype=tf.float64),
                                  [[0.5, 0.5, 0.5], [0.75, 0.25, 0.25], [0.25, 0.75, 0.75], [0.375, 0.375, 0.625]])
    whole = tf.math.sobol_sample(5, 10)
    np.testing.assert_array_equal(tf.math.sobol_sample(5, 7, 3), whole[3:])
    with pytest.raises(tf.errors.InvalidArgumentError, match="dim"):
        tf.math.sobol_sample(0, 3)


def test_isotonic_regression():
    x = tf.constant([[3.0, 1.0, 2.0, 2.0, 0.0, 5.0]])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y, segments = tf.nn.isotonic_regression(x)
        z = tf.reduce_sum(y * tf.range(6.0))
    np.testing.assert_allclose(y, [[3, 2, 2, 2, 2, 2]], rtol=1e-6)
    assert segments.numpy().tolist() == [[0, 1, 1, 1, 1, 1]]
    np.testing.assert_allclose(tape.gradient(z, x), [[0, 3, 3, 3, 3, 3]], rtol=1e-6)
    rising, _ = tf.nn.isotonic_regression(tf.transpose(x), decreasing=False, axis=0)
    np.testing.assert_allclose(rising[:, 0], [1.6, 1.6, 1.6, 1.6, 1.6, 5], rtol=1e-6)
