"""Exponentials, logarithms and square roots against each other and against power series."""
import numpy as np
import pytest

import penstock as tf

L = tf.linalg
RNG = np.random.RandomState(5)


def series(a, terms=80):
    """exp(a) by its power series."""
    out = term = np.eye(len(a), dtype=a.dtype)
    for k in range(1, terms):
        term = term @ a / k
        out = out + term
    return out


@pytest.mark.parametrize("scale", [0.0, 1e-3, 0.5, 3.0])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 2e-5), (np.float64, 1e-12), (np.complex128, 1e-12)])
def test_exponential(scale, dtype, tolerance):
    a = (scale * RNG.randn(4, 4)).astype(dtype)
    expected = series(a.astype(np.result_type(dtype, np.float64)))
    np.testing.assert_allclose(L.expm(a), expected, rtol=tolerance * 50, atol=tolerance * np.abs(expected).max())


def test_exponential_scales_each_matrix_of_a_batch():
    a = np.stack([0.1 * RNG.randn(3, 3), 30 * np.diag(RNG.rand(3)), np.zeros((3, 3))])
    with tf.Graph().as_default(), tf.compat.v1.Session() as sess:
        found = sess.run(L.expm(tf.constant(a)))
    for one, expected in zip(found, a, strict=True):
        np.testing.assert_allclose(one, series(expected, 300), rtol=1e-9)


def test_exponential_of_infinity_ends():
    assert np.isnan(L.expm([[np.inf, 0.0], [0.0, 1.0]]).numpy()).any()


def test_exponential_of_nothing_and_of_integers():
    assert L.expm(tf.zeros([0, 0])).shape == [0, 0]
    with pytest.raises(ValueError, match="does not support"):
        L.expm([[1]])


def test_gradient_of_the_exponential():
    a = RNG.randn(3, 3)
    v, w = RNG.randn(3, 3), RNG.randn(3, 3)
    x = tf.constant(a)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(L.expm(x) * w)
    numeric = np.sum((series(a + 1e-6 * v) - series(a - 1e-6 * v)) * w) / 2e-6
    np.testing.assert_allclose(np.sum(np.asarray(tape.gradient(y, x)) * v), numeric, rtol=1e-6)


def test_logarithm_undoes_the_exponential():
    for a in (RNG.randn(2, 4, 4) * 0.5 + 1j * RNG.randn(2, 4, 4) * 0.3, np.array([[1.0, 5], [0, 1]], complex)):
        np.testing.assert_allclose(L.expm(L.logm(L.expm(a))), L.expm(a), rtol=1e-8, atol=1e-8)
    same = np.array([[1.0, 5], [0, 1]], complex)                 # no basis of eigenvectors
    np.testing.assert_allclose(L.logm(same), [[0, 5], [0, 0]], atol=1e-9)


def test_square_root():
    b = RNG.randn(3, 4, 4)
    a = b @ np.swapaxes(b, -1, -2)
    root = L.sqrtm(a).numpy()
    np.testing.assert_allclose(root @ root, a, rtol=1e-7, atol=1e-9)
    jordan = np.array([[4.0, 1], [0, 4]])                        # no basis of eigenvectors
    np.testing.assert_allclose(L.sqrtm(jordan), [[2, 0.25], [0, 2]], rtol=1e-7)
    assert np.isnan(L.sqrtm([[-1.0, 0.0], [0.0, 4.0]]).numpy()).all()
    np.testing.assert_allclose(L.sqrtm(np.diag([-1.0 + 0j, 4.0])), np.diag([1j, 2]), atol=1e-12)
