"""Functions of one operand, casts, complex numbers, ranges, special functions."""
import numpy as np
import pytest

import penstock as tf2
import penstock.compat.v1 as tf


def test_sparse_tensors_keep_their_zeros():
    x = tf2.SparseTensor([[0, 1]], [-4.], [2, 2])
    for f, want in ((tf2.abs, 4), (tf2.square, 16), (tf2.sign, -1), (tf2.negative, 4)):
        out = f(x)
        assert isinstance(out, tf2.SparseTensor) and out.values.numpy().tolist() == [want]
    assert tf2.cast(x, tf.int32).values.dtype == tf.int32


def test_abs_of_complex_is_real():
    assert tf2.abs(tf2.constant([3 + 4j])).numpy().tolist() == [5]


def test_round_leaves_integers():
    x = tf2.constant([1, 2])
    assert tf2.round(x) is x and tf2.round([0.5, 1.5, 2.5]).numpy().tolist() == [0, 2, 2]


def test_gradients_where_the_function_is_steep():
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.constant([0.])
        for f in (tf.sqrt, tf.rsqrt, tf.reciprocal):
            assert sess.run(tf.gradients(f(x), x, tf.constant([0.]))[0]).tolist() == [0]


@pytest.mark.parametrize("f", [tf2.exp, tf2.sin, tf2.tanh, tf2.sigmoid, tf2.math.log, tf2.math.reciprocal, tf2.sqrt,
                               tf2.square, tf2.math.rsqrt, tf2.sinh])
def test_complex_gradients(f):
    """d f(z) for a holomorphic f is f'(z), and TensorFlow's convention yields its conjugate."""
    z, h = np.array([0.7 + 0.4j]), 1e-6
    x = tf2.constant(z)
    with tf2.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    found = tape.gradient(y, x, tf2.ones_like(y)).numpy()
    slope = (f(z + h).numpy() - f(z - h).numpy()) / (2 * h)
    np.testing.assert_allclose(found, slope.conj(), rtol=1e-6)


def test_casts():
    assert tf2.cast([300., -5.], tf.uint8).numpy().tolist() == [44, 251]
    assert tf2.saturate_cast([300., -5.], tf.uint8).numpy().tolist() == [255, 0]
    assert tf2.saturate_cast([1e20, -1e20], tf.int32).numpy().tolist() == [2147483520, -2147483648]
    assert tf.to_int64([1.5]).dtype == tf.int64 and tf.to_float([1]).dtype == tf.float32
    x = tf2.constant(1.)
    assert tf2.cast(x, tf.float32) is x
    rows = tf2.IndexedSlices(tf2.constant([1.5]), tf2.constant([0]), tf2.constant([2]))
    assert tf2.cast(rows, tf.int32).values.dtype == tf.int32


def test_complex_parts():
    z = tf2.complex([1., 2.], [3., -4.])
    assert z.dtype == tf.complex64
    assert tf2.math.real(z).numpy().tolist() == [1, 2] and tf2.math.imag(z).numpy().tolist() == [3, -4]
    assert tf2.math.imag([1., 2.]).numpy().tolist() == [0, 0]
    np.testing.assert_allclose(tf2.math.angle([-1., 1.]).numpy(), [np.pi, 0], rtol=1e-6)
    with pytest.raises(TypeError, match="must both be float32 or float64"):
        tf2.complex([1.], np.array([1.]))
    with pytest.raises(TypeError, match="numeric or variant"):
        tf2.math.conj(["a"])


def test_ranges():
    assert tf2.range(5).numpy().tolist() == [0, 1, 2, 3, 4] and tf2.range(5).dtype == tf.int32
    assert tf2.range(1., 3).dtype == tf.float32 and tf2.range(3, dtype=tf.int64).dtype == tf.int64
    with pytest.raises(tf.errors.InvalidArgumentError, match="delta != 0"):
        tf2.range(0, 5, 0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Requires start <= limit"):
        tf2.range(5, 0)
    with tf.Graph().as_default():
        assert tf.range(2, 10, 3).shape.as_list() == [3]
        assert tf.range(tf.placeholder(tf.int32, [])).shape.as_list() == [None]
        with pytest.raises(ValueError, match="delta != 0"):
            tf.range(0, 5, 0)


def test_linspace():
    np.testing.assert_allclose(tf2.linspace(0., 1., 5).numpy(), np.linspace(0, 1, 5), rtol=1e-6)
    for axis in (0, 1, -1):
        found = tf2.linspace([0., 5.], [1., 9.], 4, axis=axis)
        np.testing.assert_allclose(found.numpy(), np.linspace([0, 5], [1, 9], 4, axis=axis), rtol=1e-6, atol=1e-6)
        assert tf2.linspace([0., 5.], [1., 9.], 0, axis=axis).shape == np.linspace([0, 5], [1, 9], 0, axis=axis).shape
    assert tf2.linspace(0., 1., 0).shape == [0]
    with pytest.raises(tf.errors.InvalidArgumentError, match="num > 0"):
        tf2.raw_ops.LinSpace(start=0., stop=1., num=0)


def test_special_functions():
    np.testing.assert_allclose(tf2.math.lbeta([1., 2.]).numpy(), np.log(0.5), rtol=1e-6)
    assert tf2.math.polyval([1, 2, 0], 3.).numpy() == 15 and tf2.math.polyval([], 3.).numpy() == 0
    with pytest.raises(ValueError, match="must be list"):
        tf2.math.polyval((1, 2), 3.)
    a, b, x = np.float64(2.5), np.float64(1.5), np.linspace(0, 1, 5)
    t = np.linspace(0, 1, 400001)[1:-1]
    density = t ** (a - 1) * (1 - t) ** (b - 1)
    want = [density[t <= v].sum() / density.sum() for v in x]
    np.testing.assert_allclose(tf2.math.betainc(a, b, x).numpy(), want, atol=1e-4)
    assert np.isnan(tf2.math.betainc(a, b, np.float64(1.5)).numpy())
    assert np.isnan(tf2.math.polygamma(1.5, 2.).numpy())
    np.testing.assert_allclose(tf2.math.erfcinv([0.5]).numpy(), [0.476936], rtol=1e-5)


def test_derivative_of_igamma_by_its_parameter():
    a, x = np.array([0.1, 0.5, 1, 5, 50, 3]), np.array([0.2, 0.1, 3, 5, 40, 0])
    step = 1e-6 * a
    slope = (tf2.math.igamma(a + step, x).numpy() - tf2.math.igamma(a - step, x).numpy()) / (2 * step)
    np.testing.assert_allclose(tf2.raw_ops.IgammaGradA(a=a, x=x).numpy(), slope, rtol=1e-5, atol=1e-9)
    assert np.isnan(tf2.raw_ops.IgammaGradA(a=np.float64(-1), x=np.float64(1)).numpy())


@pytest.mark.parametrize("name", ["exp", "log", "log1p", "tanh"])
@pytest.mark.parametrize("compiled", [False, True])
def test_long_arrays_as_short_ones(name, compiled):
    """Long arrays of float32 go through a kernel of our own: the same numbers, and the same NaNs and infinities."""
    x = np.concatenate([np.linspace(-20, 20, 5000), 10.0 ** np.linspace(-30, 30, 5000),
                        [np.nan, np.inf, -np.inf, 0, -0.0, -1]]).astype("f")
    f = getattr(tf.math, name)
    function = tf.function(lambda t: f(t + 0.0)) if compiled else f       # `t + 0` may be overwritten
    found = function(tf.constant(x)).numpy()
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x.astype("d")).astype("f")
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-37)
