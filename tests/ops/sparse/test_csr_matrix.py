"""Sparse matrices as variants, against dense matrices: values, gradients, static shapes, and what is refused."""
import itertools

import numpy as np
import pytest

import penstock as tf

R = tf.raw_ops
FLAGS = [f for f in itertools.product([False, True], repeat=4) if not (f[0] and f[1]) and not (f[2] and f[3])]


def numbers(rng, shape, dtype):
    x = rng.randn(*shape) + (1j * rng.randn(*shape) if dtype == np.complex128 else 0)
    return x.astype(dtype)


def sparse(rng, shape, dtype):
    return numbers(rng, shape, dtype) * (rng.rand(*shape) > 0.5)


def matrix(x):
    return R.DenseToCSRSparseMatrix(dense_input=x, indices=tf.where(tf.stop_gradient(x) != 0))


def dense(m, dtype):
    return R.CSRSparseMatrixToDense(sparse_input=m, type=dtype)


def gradients(f, a, b, grad):
    with tf.GradientTape() as tape:
        tape.watch([a, b])
        y = f(a, b)
    return y, *tape.gradient(y, [a, b], output_gradients=grad)


@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("transpose_a, adjoint_a, transpose_b, adjoint_b", FLAGS)
@pytest.mark.parametrize("out", [(False, False), (True, False), (True, True)])
def test_products(batch, transpose_a, adjoint_a, transpose_b, adjoint_b, out):
    rng, dtype = np.random.RandomState(0), np.complex128
    flags = {"transpose_a": transpose_a, "transpose_b": transpose_b, "adjoint_a": adjoint_a, "adjoint_b": adjoint_b}
    a = sparse(rng, (*batch, *((7, 4) if transpose_a or adjoint_a else (4, 7))), dtype)
    b = sparse(rng, (*batch, *((5, 7) if transpose_b or adjoint_b else (7, 5))), dtype)
    a, b, places = tf.constant(a), tf.constant(b), (a != 0, b != 0)
    grad = tf.constant(numbers(rng, (*batch, *((5, 4) if out[0] else (4, 5))), dtype))

    def reference(a, b):
        y = tf.linalg.matmul(a, b, **flags)
        y = tf.linalg.matrix_transpose(y) if out[0] else y
        return tf.math.conj(y) if out[1] else y

    want, want_a, want_b = gradients(reference, a, b, grad)
    y, of_a, of_b = gradients(lambda a, b: R.SparseMatrixMatMul(a=matrix(a), b=b, transpose_output=out[0],
                                                                conjugate_output=out[1], **flags), a, b, grad)
    np.testing.assert_allclose(y, want, atol=1e-12)
    np.testing.assert_allclose(of_a, want_a * places[0], atol=1e-12)
    np.testing.assert_allclose(of_b, want_b, atol=1e-12)
    if out == (False, False):
        y, of_a, of_b = gradients(lambda a, b: dense(R.SparseMatrixSparseMatMul(
            a=matrix(a), b=matrix(b), type=dtype, **flags), dtype), a, b, grad)
        np.testing.assert_allclose(y, want, atol=1e-12)
        np.testing.assert_allclose(of_a, want_a * places[0], atol=1e-12)
        np.testing.assert_allclose(of_b, want_b * places[1], atol=1e-12)


def test_conversions():
    x = np.zeros((2, 3, 4), np.float32)
    x[0, 0, 1], x[0, 2, 0], x[0, 2, 3], x[1, 1, 2] = 1, 2, 3, 4
    m = matrix(tf.constant(x))
    assert R.SparseMatrixNNZ(sparse_matrix=m).numpy().tolist() == [3, 1]
    indices, values, shape = R.CSRSparseMatrixToSparseTensor(sparse_matrix=m, type=tf.float32)
    assert indices.numpy().tolist() == np.argwhere(x).tolist() and shape.numpy().tolist() == [2, 3, 4]
    parts = R.CSRSparseMatrixComponents(csr_sparse_matrix=m, index=0, type=tf.float32)
    assert [p.numpy().tolist() for p in parts] == [[0, 1, 1, 3], [1, 0, 3], [1, 2, 3]]
    back = R.SparseTensorToCSRSparseMatrix(indices=indices[::-1], values=values[::-1], dense_shape=shape)
    np.testing.assert_array_equal(dense(back, tf.float32), x)
    turned = R.SparseMatrixTranspose(input=m, type=tf.float32)
    np.testing.assert_array_equal(dense(turned, tf.float32), x.swapaxes(1, 2))


def test_arithmetic():
    rng = np.random.RandomState(1)
    x, y = sparse(rng, (4, 5), np.float64), sparse(rng, (4, 5), np.float64)
    total = R.SparseMatrixAdd(a=matrix(tf.constant(x)), b=matrix(tf.constant(y)), alpha=tf.constant(2.0, tf.float64),
                              beta=tf.constant(-1.0, tf.float64))
    np.testing.assert_allclose(dense(total, tf.float64), 2 * x - y, rtol=1e-6)
    np.testing.assert_allclose(dense(R.SparseMatrixMul(a=total, b=tf.constant(3.0, tf.float64)), tf.float64), 6 * x - 3 * y,
                               rtol=1e-6)
    zeros = R.SparseMatrixZeros(dense_shape=[4, 5], type=tf.float64)
    np.testing.assert_array_equal(dense(zeros, tf.float64), np.zeros((4, 5)))
    weights = np.where(x, np.exp(x), 0)
    soft = R.SparseMatrixSoftmax(logits=matrix(tf.constant(x)), type=tf.float64)
    np.testing.assert_allclose(dense(soft, tf.float64), weights / np.maximum(weights.sum(1, keepdims=True), 1e-300), rtol=1e-6)


def test_cholesky_factors_of_permuted_matrices():
    size = 12
    arrow = np.eye(size) * size                 # the first row and column are full: eliminating them first fills everything
    arrow[0, 1:] = arrow[1:, 0] = 1
    m = matrix(tf.constant(arrow))
    order = R.SparseMatrixOrderingAMD(input=m)
    factors = {}
    for name, p in (("given", np.arange(size, dtype=np.int32)), ("ordered", order.numpy())):
        factor = R.SparseMatrixSparseCholesky(input=m, permutation=p, type=tf.float64)
        lower = dense(factor, tf.float64).numpy()
        np.testing.assert_allclose(lower @ lower.T, arrow[np.ix_(p, p)], atol=1e-12)
        factors[name] = int(R.SparseMatrixNNZ(sparse_matrix=factor))
    assert factors == {"given": size * (size + 1) // 2, "ordered": 2 * size - 1}


def test_static_shapes_follow_the_ops():
    @tf.function
    def f(x):
        turned = R.SparseMatrixTranspose(input=matrix(x), type=tf.float64)
        y = R.SparseMatrixMatMul(a=turned, b=x)
        assert y.shape.as_list() == [5, 5] and dense(turned, tf.float64).shape.as_list() == [5, 4]
        return y
    x = sparse(np.random.RandomState(2), (4, 5), np.float64)
    np.testing.assert_allclose(f(tf.constant(x)), x.T @ x, rtol=1e-6)


@pytest.mark.parametrize("arguments, message", [
    ({"indices": [[0, 0, 0]], "values": [1.0], "dense_shape": [3, 3]}, "Index rank 3 and shape rank 2 do not match"),
    ({"indices": [[0, 5]], "values": [1.0], "dense_shape": [3, 3]}, "out of bounds"),
    ({"indices": np.zeros((1, 3), np.int64), "values": [1.0], "dense_shape": [2 ** 31 - 1, 1, 1]}, "must be < Int32Max"),
    ({"indices": np.zeros((1, 3), np.int64), "values": [1.0], "dense_shape": [2 ** 30, 10, 1]}, "must be <= Int32Max")])
def test_refused(arguments, message):
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match=message):
        R.SparseTensorToCSRSparseMatrix(**arguments)


def test_other_variants_are_no_matrices():
    with pytest.raises(tf.errors.InvalidArgumentError, match="not a CSRSparseMatrix"):
        dense(R.EmptyTensorMap(), tf.float32)
