"""Products of quantized matrices with a bias, and ranges per channel. The values are those of TensorFlow 2.21 (oneDNN)."""
from __future__ import annotations

import numpy as np
import pytest

import penstock as tf

R = tf.raw_ops
PLAIN = {tf.qint32: tf.int32, tf.quint8: tf.uint8, tf.qint8: tf.int8}
RANDOM = np.random.RandomState(0)
A, B = RANDOM.randint(0, 256, (2, 5)), RANDOM.randint(-127, 128, (5, 3))
BIAS = np.array([1.5, -40.0, 0.25], np.float32)
LIMIT = 795732.8


def quantized(values, dtype):
    return tf.bitcast(tf.constant(np.array(values, PLAIN[dtype].as_numpy_dtype)), dtype)


def plain(t):
    return (tf.bitcast(t, PLAIN[t.dtype]) if t.dtype in PLAIN else t).numpy().ravel().tolist()


def arguments(**more):
    return {"a": quantized(A, tf.quint8), "b": quantized(B, tf.qint8), "bias": BIAS, "min_a": 0.0, "max_a": 6.0, "min_b": -2.0,
            "max_b": 2.0, **more}


FROZEN = {"min_freezed_output": 0.0, "max_freezed_output": 30.0}
SUMS = [-10635, -66403, -38376, -42221, -78017, -20939]


def test_sums_of_32_bits():
    sums, low, high = R.QuantizedMatMulWithBias(**arguments())
    assert plain(sums) == SUMS
    np.testing.assert_allclose([low, high], [-LIMIT, LIMIT], rtol=1e-6)
    whole = arguments(bias=quantized([10, -20, 3000], tf.qint32))
    assert plain(R.QuantizedMatMulWithBias(**whole)[0]) == [-14673, 41527, -36051, -46259, 29913, -18614]
    assert plain(R.QuantizedMatMulWithBiasAndRelu(**arguments())[0]) == [0] * 6
    turned = arguments(a=quantized(A.T, tf.quint8), b=quantized(B.T, tf.qint8))
    assert plain(R.QuantizedMatMulWithBias(transpose_a=True, transpose_b=True, **turned)[0]) == SUMS


def test_results_of_8_bits():
    whole = arguments(bias=quantized([10, -20, 3000], tf.qint32), **FROZEN)
    found = [plain(t) for t in R.QuantizedMatMulWithBiasAndReluAndRequantize(**whole)]
    assert found == [[0, 131, 0, 0, 94, 0], [0.0], [30.0]]
    assert plain(R.QuantizedMatMulWithBiasAndRequantize(**arguments(**FROZEN))[0]) == [0] * 6


def test_real_results():
    found = R.QuantizedMatMulWithBiasAndDequantize(Toutput=tf.float32, **arguments(**FROZEN))
    np.testing.assert_allclose(found, [[-3.94067, -24.6051, -14.22003], [-15.64461, -28.90857, -7.75889]], rtol=1e-6)


def test_what_does_not_fit():
    for bad in ({"bias": BIAS[:2]}, {"max_a": 0.0}, {"b": quantized(B[:4], tf.qint8)}):
        with pytest.raises((tf.errors.InvalidArgumentError, ValueError)):
            R.QuantizedMatMulWithBias(**arguments(**bad))


def test_ranges_per_channel():
    RANDOM = np.random.RandomState(0)
    RANDOM.randint(0, 256, (2, 5)), RANDOM.randint(-127, 128, (5, 3))
    x = quantized(RANDOM.randint(-2 ** 30, 2 ** 30, (1, 2, 2, 2)), tf.qint32)
    ends = {"input": x, "input_min": [-10.0, -20.0], "input_max": [10.0, 20.0]}
    found = R.RequantizePerChannel(requested_output_min=0.0, requested_output_max=8.0, **ends)
    assert [plain(t) for t in found] == [[91, 224, 55, 0, 56, 0, 0, 0], [0.0], [8.0]]
    found = R.RequantizePerChannel(requested_output_min=-8.0, requested_output_max=8.0, out_type=tf.qint8, **ends)
    assert plain(found[0]) == [45, 112, 27, -114, 28, -103, -32, -128]
    assert [plain(t) for t in R.RequantizationRangePerChannel(clip_value_max=6.0, **ends)] == [[-6.0], [6.0]]
    np.testing.assert_allclose([plain(t)[0] for t in R.RequantizationRangePerChannel(clip_value_max=100.0, **ends)],
                               [-9.19126, 9.19126], rtol=1e-6)
    with pytest.raises(tf.errors.InvalidArgumentError, match="NHWC"):
        R.RequantizationRangePerChannel(input=x[0], input_min=[0.0, 0.0], input_max=[1.0, 1.0], clip_value_max=1.0)
