"""Linear algebra: what samples cannot show. Singular and malformed matrices, vectors up to signs, derived functions."""
import numpy as np
import pytest

import penstock as tf
from tests.checks import raises_op

L = tf.linalg
RNG = np.random.RandomState(4)
SINGULAR = [[1.0, 2.0], [2.0, 4.0]]


def same(found, expected, tolerance=1e-9):
    np.testing.assert_allclose(np.asarray(found), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("call", "message"), [
    (lambda: L.inv(SINGULAR), "Input is not invertible."),
    (lambda: L.lu(SINGULAR), "Input is not invertible."),
    (lambda: L.solve(SINGULAR, [[1.0], [1.0]]), "Input matrix is not invertible."),
    (lambda: tf.raw_ops.MatrixSolveLs(matrix=SINGULAR, rhs=[[1.0], [1.0]], l2_regularizer=0.0), "rank deficient"),
    (lambda: tf.raw_ops.MatrixSolveLs(matrix=SINGULAR, rhs=[[1.0], [1.0]], l2_regularizer=-1.0), "must be >= 0"),
])
def test_matrices_that_have_no_answer(call, message):
    with raises_op(tf.errors.InvalidArgumentError, message):
        call()


@pytest.mark.parametrize("function", [L.inv, L.det, L.cholesky, L.lu, L.eigh, L.slogdet, L.sqrtm])
def test_shapes_are_checked_when_built_and_when_run(function):
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="Dimensions must be equal"):
            function(tf.zeros([2, 3]))
        with pytest.raises(ValueError, match="at least rank 2"):
            function(tf.zeros([2]))
        unknown = tf.compat.v1.placeholder(tf.float32)
        out = function(unknown)
        with tf.compat.v1.Session() as sess, raises_op(tf.errors.InvalidArgumentError, "must be square"):
            sess.run(out, {unknown: np.zeros((2, 3))})
    with raises_op(tf.errors.InvalidArgumentError, ""):
        function(tf.zeros([3]))


def test_solve_checks_rows_and_batches():
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="Dimensions must be equal"):
            L.solve(tf.eye(2), tf.zeros([3, 1]))
        with pytest.raises(ValueError, match="must be equal"):
            L.solve(tf.zeros([2, 2, 2]), tf.zeros([3, 2, 1]))
    with raises_op(tf.errors.InvalidArgumentError, "incompatible"):
        L.solve(tf.eye(2), tf.zeros([3, 1]))
    with raises_op(tf.errors.InvalidArgumentError, "same outer dimensions"):
        L.solve(tf.eye(2, batch_shape=[2]), tf.zeros([3, 2, 1]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (2, 3, 2)])
def test_svd_and_qr_give_back_the_matrix(shape, dtype):
    a = RNG.randn(*shape).astype(dtype)
    if a.dtype.kind == "c":
        a = a + (1j * RNG.randn(*shape)).astype(dtype)
    tolerance = 1e-4 if a.dtype.itemsize * (1 if a.dtype.kind == "f" else 0.5) == 4 else 1e-10
    for full in (False, True):
        s, u, v = (np.asarray(x) for x in L.svd(a, full_matrices=full))
        assert s.dtype == a.real.dtype
        p = s.shape[-1]
        same((u[..., :p] * s[..., None, :]) @ np.conj(np.swapaxes(v[..., :p], -1, -2)), a, tolerance)
        same(s, np.linalg.svd(a, compute_uv=False), tolerance)
        q, r = (np.asarray(x) for x in L.qr(a, full_matrices=full))
        same(q @ r, a, tolerance)
        same(np.conj(np.swapaxes(q, -1, -2)) @ q, np.broadcast_to(np.eye(q.shape[-1]), (*shape[:-2], q.shape[-1], q.shape[-1])),
             tolerance)


@pytest.mark.parametrize("complex_", [False, True])
def test_eigenvectors(complex_):
    a = RNG.randn(2, 4, 4) + (1j * RNG.randn(2, 4, 4) if complex_ else 0)
    h = a + np.conj(np.swapaxes(a, -1, -2))
    e, v = (np.asarray(x) for x in L.eigh(h))
    same(h @ v, v * e[..., None, :])
    same(L.eigvalsh(h), e)
    e, v = (np.asarray(x) for x in L.eig(a))
    same(a @ v, v * e[..., None, :])
    same(np.sort_complex(L.eigvals(a[0])), np.sort_complex(e[0]), 1e-8)


def test_lu():
    a = RNG.randn(3, 4, 4)
    lu, p = (np.asarray(x) for x in L.lu(a))
    for one, factors, order in zip(a, lu, p, strict=True):
        same((np.tril(factors, -1) + np.eye(4)) @ np.triu(factors), one[order])


def test_functions_of_lu_factors():
    a, b = RNG.randn(3, 4, 4), RNG.randn(3, 4, 2)
    factors = L.lu(a)
    same(L.lu_reconstruct(*factors), a)
    same(L.lu_solve(*factors, b), np.linalg.solve(a, b))
    same(L.lu_matrix_inverse(*factors), np.linalg.inv(a))
    same(L.lu_solve(*L.lu(a[0]), b), np.linalg.solve(a[0], b))
    with pytest.raises(ValueError, match="rank"):
        L.lu_reconstruct(a, [0, 1, 2, 3])
    with pytest.raises(ValueError, match="square"):
        L.lu_reconstruct(np.zeros((2, 3)), [0, 1])


def test_half_is_computed_in_single():
    a = (RNG.randn(3, 3) + 4 * np.eye(3)).astype(np.float16)
    assert L.inv(a).dtype == tf.float16
    same(np.asarray(L.inv(a), np.float32) @ a, np.eye(3), 1e-2)


def test_empty_matrices():
    assert L.inv(tf.zeros([2, 0, 0])).shape == [2, 0, 0]
    same(L.det(tf.zeros([0, 0])), 1.0)
    s, u, v = L.svd(tf.zeros([0, 3]))
    assert (s.shape, u.shape, v.shape) == ([0], [0, 0], [3, 0])


def test_least_squares():
    tall, wide = RNG.randn(5, 2), RNG.randn(2, 5)
    for a in (tall, wide):
        b = RNG.randn(a.shape[0], 3)
        expected = np.linalg.lstsq(a, b, rcond=None)[0]
        same(L.lstsq(a, b), expected, 1e-8)
        same(L.lstsq(a, b, fast=False), expected, 1e-8)
    low_rank = np.outer([1.0, 2, 3], [1, 1])
    same(L.lstsq(low_rank, np.ones((3, 1)), fast=False), np.linalg.lstsq(low_rank, np.ones((3, 1)), rcond=None)[0])
    with pytest.raises(NotImplementedError, match="l2_regularizer for complex128"):
        L.lstsq(tall.astype(complex), tall.astype(complex), l2_regularizer=0.1)


def test_least_squares_of_unknown_shape():
    a, b = RNG.randn(2, 5), RNG.randn(2, 1)
    with tf.Graph().as_default(), tf.compat.v1.Session() as sess:
        x = tf.compat.v1.placeholder(tf.float64)
        y = L.lstsq(x, tf.constant(b))
        same(sess.run(y, {x: a}), np.linalg.lstsq(a, b, rcond=None)[0], 1e-8)


@pytest.mark.parametrize("ord", ["euclidean", 1, 2, 3.5, np.inf])
def test_vector_norms(ord):
    x = RNG.randn(2, 3, 4)
    n = 2 if ord == "euclidean" else ord
    same(tf.norm(x, ord, axis=1), np.linalg.norm(x, n, axis=1))
    same(tf.norm(x, ord, axis=-1, keepdims=True), np.linalg.norm(x, n, axis=-1, keepdims=True))
    same(tf.norm(x, ord), np.linalg.norm(x.reshape(-1), n))


@pytest.mark.parametrize("ord", ["euclidean", "fro", 1, 2, np.inf])
@pytest.mark.parametrize("axis", [(0, 1), (-1, 0), [1, 2]])
@pytest.mark.parametrize("keepdims", [False, True])
def test_matrix_norms(ord, axis, keepdims):
    x = RNG.randn(2, 3, 4)
    n = "fro" if ord == "euclidean" else ord
    expected = np.linalg.norm(x, n, axis=tuple(axis), keepdims=keepdims)
    same(tf.norm(x, ord, axis=axis, keepdims=keepdims), expected)
    with tf.Graph().as_default(), tf.compat.v1.Session() as sess:
        p = tf.compat.v1.placeholder(tf.float64)
        same(sess.run(tf.norm(p, ord, axis=axis, keepdims=keepdims), {p: x}), expected)


@pytest.mark.parametrize(("ord", "axis", "message"), [
    ("fro", 0, "supported vector norm"), (-1, 0, "supported vector norm"), (3, [0, 1], "supported matrix norm"),
    (2, [0, 0], "axis"), (2, [0, 1, 2], "axis"), (2, "x", "axis")])
def test_undefined_norms(ord, axis, message):
    with pytest.raises(ValueError, match=message):
        tf.norm(tf.ones([2, 2, 2]), ord, axis=axis)


def test_old_name_of_keepdims():
    v1 = tf.compat.v1
    assert v1.norm(tf.ones([2, 3]), axis=1, keep_dims=True).shape == [2, 1]
    with pytest.raises(ValueError, match="both"):
        v1.norm(tf.ones([2]), keepdims=True, keep_dims=True)


def test_pinv_and_rank():
    a = np.array([[1.0, 2, 3], [2, 4, 6], [1, 0, 1]])
    same(L.pinv(a), np.linalg.pinv(a), 1e-8)
    assert int(L.matrix_rank(a)) == 2
    assert L.matrix_rank(np.stack([a, np.eye(3)])).numpy().tolist() == [2, 3]
    with pytest.raises(TypeError, match="float"):
        L.pinv([[1, 2]])
    with pytest.raises(ValueError, match="at least 2 dimensions"):
        L.pinv([1.0])


def test_adjoint_logdet_and_cholesky_solve():
    a = RNG.randn(3, 3)
    spd = a @ a.T + np.eye(3)
    same(L.logdet(spd), np.linalg.slogdet(spd)[1])
    b = RNG.randn(3, 2)
    same(L.cholesky_solve(L.cholesky(spd), b), np.linalg.solve(spd, b))
    same(L.adjoint(a + 1j * a), (a + 1j * a).conj().T)


def test_second_gradients():
    a = tf.constant(RNG.randn(3, 3) + 4 * np.eye(3))
    with tf.GradientTape() as outer:
        outer.watch(a)
        with tf.GradientTape() as inner:
            inner.watch(a)
            y = L.slogdet(a)[1]
        first = inner.gradient(y, a)
    second = outer.gradient(first, a)
    inverse = np.linalg.inv(np.asarray(a))
    same(first, inverse.T)
    same(second, -(inverse @ np.ones((3, 3)) @ inverse).T)      # of the sum of the elements of the inverse


def test_what_has_no_factor_is_nan():
    got = np.asarray(L.cholesky([[[1.0, 2.0], [2.0, 1.0]], [[4.0, 0.0], [0.0, 9.0]]]))
    assert np.isnan(got[0][np.tril_indices(2)]).all()
    np.testing.assert_array_equal(got[1], [[2, 0], [0, 3]])
    assert np.isinf(np.asarray(L.triangular_solve([[1.0, 0.0], [1.0, 0.0]], [[1.0], [2.0]]))).any()


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5)])
def test_gradients_of_qr(dtype, shape):
    rng = np.random.RandomState(1)
    x = rng.randn(*shape) + (1j * rng.randn(*shape) if dtype is np.complex128 else 0)
    for part in range(2):
        theory, numbers = tf.test.compute_gradient(lambda a, part=part: L.qr(a)[part], [tf.constant(x, dtype)])
        np.testing.assert_allclose(theory[0], numbers[0], atol=1e-5)


def test_gradients_of_eig():
    x = np.random.RandomState(2).randn(4, 4)

    def values(a):
        e, v = L.eig(a)
        order = tf.argsort(tf.math.real(e) + 10 * tf.math.imag(e))
        v = tf.gather(v, order, axis=1)
        return tf.math.abs(tf.gather(e, order)), tf.math.abs(v)
    for part in range(2):
        theory, numbers = tf.test.compute_gradient(lambda a, part=part: values(a)[part], [tf.constant(x)])
        np.testing.assert_allclose(theory[0], numbers[0], atol=1e-5)


def test_eigenvalues_of_tridiagonal_matrices():
    alpha, beta = np.array([1.0, -2.0, 3.0, 0.5]), np.array([0.3, 1.2, -0.7])
    dense = np.diag(alpha) + np.diag(beta, 1) + np.diag(beta, -1)
    expected = np.linalg.eigvalsh(dense)
    np.testing.assert_allclose(L.eigh_tridiagonal(alpha, beta), expected, rtol=1e-6)
    np.testing.assert_allclose(L.eigh_tridiagonal(alpha, beta, select="i", select_range=(1, 2)), expected[1:3], rtol=1e-6)
    np.testing.assert_allclose(L.eigh_tridiagonal(alpha, beta, select="v", select_range=(0.0, 2.0)),
                               expected[(expected > 0) & (expected <= 2)], rtol=1e-6)
    values, vectors = L.eigh_tridiagonal(alpha, beta, eigvals_only=False)
    np.testing.assert_allclose(dense @ np.asarray(vectors), np.asarray(vectors) * np.asarray(values), atol=1e-12)


@pytest.mark.parametrize("equation, shape", [("a->aaa", (3,)), ("ab->aba", (2, 3)),
                                             ("a...->a...aa", (2, 3, 4)), ("a->aa", (0,))])
def test_labels_repeated_in_the_output_are_diagonals(equation, shape):
    x = RNG.rand(*shape)
    got = np.asarray(tf.raw_ops.Einsum(inputs=[x], equation=equation))
    back = np.asarray(tf.raw_ops.Einsum(inputs=[got], equation="->".join(reversed(equation.split("->")))))
    np.testing.assert_allclose(back, x, rtol=1e-6)
    np.testing.assert_allclose(got.sum(), x.sum(), rtol=1e-6)


def test_eigenvalues_have_the_precision_of_the_matrix():
    with pytest.raises(tf.errors.InvalidArgumentError, match="Invalid output dtype complex128 for an input of float32"):
        tf.raw_ops.Eig(input=tf.eye(2), Tout=tf.complex128)
    assert tf.linalg.eigvals(tf.eye(2, dtype=tf.float64)).dtype == tf.complex128


def test_empty_arrays_of_large_sizes():
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"from tensor of shape \[0, 2147483648"):
        tf.ones((0, 2**31, 2**31)).numpy()
