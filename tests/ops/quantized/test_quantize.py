"""Quantization: round trips, ranges, gradients."""
import numpy as np
import pytest
import torch

import penstock as tf2
import penstock.compat.v1 as tf
from penstock._src.ops.quantized import quantize

X = np.linspace(-2, 3, 41).astype(np.float32)


@pytest.mark.parametrize("kind", [tf.quint8, tf.qint8, tf.quint16, tf.qint16])
@pytest.mark.parametrize("mode", ["MIN_COMBINED", "MIN_FIRST", "SCALED"])
def test_round_trip(kind, mode):
    if kind in (tf.quint8, tf.quint16) and mode == "SCALED":
        values = np.abs(X)                                  # an unsigned scale starts at zero
    else:
        values = X
    q, low, high = tf2.quantization.quantize(values, -2.0, 3.0, kind, mode)
    back = tf2.quantization.dequantize(q, low, high, mode)
    step = (float(high) - float(low)) / (2 ** (8 * kind.size) - 1)
    np.testing.assert_allclose(back, values, atol=step)


@pytest.mark.parametrize("kind", [tf.quint8, tf.qint8, tf.quint16, tf.qint16, tf.qint32])
def test_values_come_out_as_integers_and_go_in_again(kind):
    plain = kind.name.removeprefix("q")
    out = tf2.cast([1, 40], kind).numpy()
    assert out.dtype == plain and out.tolist() == [1, 40]
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(kind, [2])
        back = sess.run(tf.identity(x), {x: out})
        assert back.dtype == plain and back.tolist() == [1, 40]


def test_range_must_be_one():
    with pytest.raises(tf.errors.InvalidArgumentError, match="larger than"):
        tf2.quantization.quantize(X, 1.0, -1.0, tf.quint8)


def test_the_gradient_passes_through():
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.constant(X)
        y = tf.quantization.quantize_and_dequantize(x, -1.0, 1.0, range_given=True, num_bits=4)
        np.testing.assert_array_equal(sess.run(tf.gradients(y, x)[0]), np.ones_like(X))
        low, high = tf.constant(-1.06), tf.constant(1.06)
        z = tf.quantization.fake_quant_with_min_max_vars(x, low, high)
        to_x, to_low, to_high = sess.run(tf.gradients(z, [x, low, high]))
    inside = np.abs(X) < 1.06
    np.testing.assert_array_equal(to_x, inside.astype(np.float32))
    assert (to_low, to_high) == ((X < -1.06).sum(), (X > 1.06).sum())


def test_fake_quantization_keeps_zero():
    y = tf2.quantization.fake_quant_with_min_max_args(np.array([0, 7, -7], np.float32), -5.9, 6.1, 4)
    assert y.numpy()[0] == 0 and len(set(np.round(y.numpy() / 0.8, 4) % 1)) == 1
    with pytest.raises(tf.errors.InvalidArgumentError, match="smaller than max"):
        tf2.quantization.fake_quant_with_min_max_args(X, 1.0, 0.0)


def test_a_quantized_product_approximates_the_product():
    rng = np.random.RandomState(2)
    a, b = rng.uniform(-1, 1, (3, 5)).astype(np.float32), rng.uniform(0, 2, (5, 2)).astype(np.float32)
    qa, qb = (tf2.quantization.quantize(v, float(v.min()), float(v.max()), tf.quint8, "MIN_FIRST") for v in (a, b))
    out = tf2.raw_ops.QuantizedMatMul(a=qa[0], b=qb[0], min_a=qa[1], max_a=qa[2], min_b=qb[1], max_b=qb[2])
    np.testing.assert_allclose(tf2.quantization.dequantize(*out, mode="MIN_FIRST"), a @ b, atol=0.05)


@pytest.mark.parametrize("axis", [1, -1])
def test_ranges_along_an_axis(axis):
    x = np.array([[-1.5, 0.2, 3.0], [0.1, 2.0, -0.3]], np.float32)
    low, high = np.array([-1.0, -0.5, -4.0], np.float32), np.array([2.0, 1.0, 3.5], np.float32)
    for call in (tf2.quantization.quantize_and_dequantize, tf2.quantization.quantize_and_dequantize_v2):
        found = call(x, low, high, axis=axis)                                   # the values are TensorFlow's
        np.testing.assert_allclose(found, [[-1.5, 0.2047244, 3.0], [0.10546875, 2.0, -0.3070866]], rtol=1e-6)
        given = call(x, low, high, axis=axis, range_given=True)
        for i in range(3):
            alone = call(x[:, i], low[i], high[i], range_given=True)
            np.testing.assert_array_equal(given[:, i], alone)
    with tf2.GradientTape() as tape:
        moved = tf2.constant(x)
        tape.watch(moved)
        y = tf2.quantization.quantize_and_dequantize_v2(moved, low, high, axis=axis, range_given=True)
    np.testing.assert_array_equal(tape.gradient(y, moved), (x >= low) & (x <= high))
    with pytest.raises(tf.errors.InvalidArgumentError, match="does not fit axis"):
        tf2.quantization.quantize_and_dequantize(x, low[:2], high[:2], axis=axis, range_given=True)


def test_each_index_along_an_axis_may_have_a_range():
    values = np.array([[-128, 0, 64], [32, 127, -64]], np.int8)
    low, high = np.float32([-1., -4.]), np.float32([2., 3.])
    x = tf.constant(values, tf.qint8)
    scale = np.maximum(low / -127, high / 127)[:, None]
    got = tf2.quantization.dequantize(x, low, high, mode="SCALED", axis=-2, narrow_range=True)
    np.testing.assert_allclose(got, values * scale, rtol=1e-6)
    back, least, most = tf2.quantization.quantize(got, low, high, tf.qint8, mode="SCALED", axis=0, narrow_range=True,
                                                  round_mode="HALF_TO_EVEN")
    np.testing.assert_array_equal(tf2.cast(back, tf.int32), np.clip(values, -127, 127))
    np.testing.assert_allclose(np.stack([least, most]), np.stack([-127 * scale[:, 0], 127 * scale[:, 0]]), rtol=1e-6)
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match="Axis|axis"):
        tf2.quantization.dequantize(x, low, high, mode="SCALED", axis=5)


@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("axis", [-2 ** 31, -2, 2, 2 ** 31 - 1])
def test_an_axis_that_is_none(axis, given):
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError)):
        tf2.raw_ops.QuantizeAndDequantizeV2(input=np.ones((2, 2), np.float32), input_min=[0.0, 0.0], input_max=[1.0, 1.0],
                                            range_given=given, axis=axis)


def test_ranges_are_scalars():
    with tf.Graph().as_default():
        image = tf.cast(tf.ones([1, 2, 3, 3]), tf.quint8)
        with pytest.raises(ValueError, match="must be rank 0"):
            tf.nn.quantized_conv2d(image, image, [0.], 1., 0., 1., strides=[1, 1, 1, 1], padding="SAME")
        with pytest.raises(ValueError, match="must be rank 0"):
            tf.nn.quantized_max_pool(image, 0., [1.], ksize=[1, 1, 1, 1], strides=[1, 1, 1, 1], padding="SAME")


def test_numbers_of_bits_are_scalars():
    with pytest.raises(tf.errors.InvalidArgumentError, match="`num_bits` tensor should be a scalar"):
        tf2.raw_ops.QuantizeAndDequantizeV3(input=[1.], input_min=-1., input_max=1., num_bits=np.zeros(0, np.int32))
    with tf.Graph().as_default(), pytest.raises(ValueError, match="must be rank 0"):
        tf.raw_ops.QuantizeAndDequantizeV3(input=[1.], input_min=-1., input_max=1., num_bits=[8])
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be rank 0"):
        tf2.raw_ops.QuantizedRelu(features=tf2.cast([1.], tf.quint8), min_features=[1., 2.], max_features=3.)


@pytest.mark.parametrize("seed", range(6))
def test_ranges_that_are_read_as_numbers_give_what_tensors_give(seed, monkeypatch):
    """A range of one number is read; in a step that is traced, and per channel, ranges are tensors."""
    r = np.random.RandomState(seed)
    for i in range(60):
        low, high = (np.sort(r.randn(2)) * 10 ** r.uniform(-3, 3) * (i % 10 > 0)).astype("f")
        x = torch.tensor([*(r.randn(20) * 10 ** r.uniform(-3, 3)), np.nan, np.inf, -np.inf], dtype=torch.float32)
        grad, bits, narrow = torch.randn(x.shape), int(r.randint(2, 17)), bool(r.randint(2))

        def results(low=torch.tensor(low), high=torch.tensor(high), x=x, grad=grad, bits=bits, narrow=narrow):
            rest = low, high, bits, narrow
            return quantize._fake_quantized(x, *rest), *quantize._fake_backward(grad, x, *rest)
        numbers = results()
        with monkeypatch.context() as patch:
            patch.setattr(quantize, "_numbers", lambda low, high: (low, high))
            tensors = results()
        for a, b in zip(numbers, tensors, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("low, high, message", [([0.0], 1.0, "`min` must be rank 0 but is rank 1"),
                                                (0.0, [1.0], "`max` must be rank 0 but is rank 1")])
def test_ranges_that_are_no_scalars(low, high, message):
    with pytest.raises(tf2.errors.InvalidArgumentError, match=message):
        tf2.quantization.fake_quant_with_min_max_vars([1.0, 2.0], low, high)
    with pytest.raises(tf2.errors.InvalidArgumentError, match="`min` must be rank 1 but is rank 0"):
        tf2.quantization.fake_quant_with_min_max_vars_per_channel([1.0, 2.0], 0.0, [1.0, 2.0])
