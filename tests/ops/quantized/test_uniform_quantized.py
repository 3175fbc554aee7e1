"""Uniform quantization: TensorFlow's numbers, and scales along an axis."""
import numpy as np
import pytest

import penstock as tf

R = tf.raw_ops
F = (np.random.RandomState(0).randn(3, 4) * 5).astype(np.float32)
S, Z = np.float32(0.13), np.int32(3)
EIGHT = {"quantization_min_val": -128, "quantization_max_val": 127}


def bounds(*prefixes, low=-2 ** 31, high=2 ** 31 - 1):
    return {f"{p}quantization_{end}_val": v for p in prefixes for end, v in (("min", low), ("max", high))}


def numbers(q):
    return tf.bitcast(q, tf.int8 if q.dtype == tf.qint8 else tf.int32).numpy()


def quantized(x, kind):
    limits = EIGHT if kind == tf.qint8 else bounds("")
    return R.UniformQuantize(input=x, scales=S, zero_points=Z, Tout=kind, **limits)


def test_there_and_back():
    q = quantized(F, tf.qint8)
    assert numbers(q).tolist() == [[71, 18, 41, 89], [75, -35, 40, -3], [-1, 19, 9, 59]]
    back = R.UniformDequantize(input=q, scales=S, zero_points=Z, Tout=tf.float32, **EIGHT)
    np.testing.assert_allclose(back, F, atol=S / 2 + 1e-5)


def test_an_axis():
    q = R.UniformQuantize(input=F, scales=np.array([.1, .2, .3, .4], np.float32), zero_points=np.array([1, 2, 3, 4], np.int32),
                          Tout=tf.qint8, quantization_axis=1, **EIGHT)
    assert numbers(q).tolist() == [[89, 12, 19, 32], [94, -22, 19, 2], [-4, 12, 5, 22]]
    with pytest.raises(tf.errors.InvalidArgumentError, match="do not match"):
        R.UniformQuantize(input=F, scales=np.ones(3, np.float32), zero_points=np.zeros(3, np.int32), Tout=tf.qint8,
                          quantization_axis=1, **EIGHT)


def test_arithmetic():
    q32, out = quantized(F, tf.qint32), {"output_scales": np.float32(0.2), "output_zero_points": np.int32(-1)}
    again = R.UniformRequantize(input=q32, input_scales=S, input_zero_points=Z, Tout=tf.qint8, **out, **bounds("input_"),
                                **bounds("output_", low=-128, high=127))
    assert numbers(again).tolist() == [[43, 9, 24, 55], [46, -26, 23, -5], [-4, 9, 3, 35]]
    both = {"lhs_scales": S, "lhs_zero_points": Z, "rhs_scales": S, "rhs_zero_points": Z, **out}
    total = R.UniformQuantizedAdd(lhs=q32, rhs=q32, **both, **bounds("lhs_", "rhs_", "output_"))
    assert numbers(total).tolist() == [[87, 19, 49, 111], [93, -51, 47, -9], [-7, 19, 7, 71]]
    product = R.UniformQuantizedDot(lhs=quantized(F, tf.qint8), rhs=quantized(F.T.copy(), tf.qint8), Tout=tf.qint32, **both,
                                    **bounds("lhs_", "rhs_", low=-128, high=127), **bounds("output_"))
    assert numbers(product).tolist() == [[1156, 440, 423], [440, 678, -86], [423, -86, 290]]
    low, high = (tf.bitcast(np.int32(v), tf.qint32) for v in (-5, 9))
    clipped = R.UniformQuantizedClipByValue(operand=q32, min=low, max=high, scales=S, zero_points=Z, **bounds(""))
    assert numbers(clipped).tolist() == [[9, 9, 9, 9], [9, -5, 9, -3], [-1, 9, 9, 9]]


def test_floats_times_integers():
    out = R.UniformQuantizedDotHybrid(lhs=F, rhs=quantized(F.T.copy(), tf.qint8), rhs_scales=S, rhs_zero_points=Z,
                                      Tout=tf.float32, **bounds("rhs_", low=-128, high=127))
    np.testing.assert_allclose(out, [[231.37352, 87.40054, 84.98433], [87.46809, 134.85692, -17.04112],
                                     [84.2808, -17.11104, 58.01078]], rtol=1e-5)
