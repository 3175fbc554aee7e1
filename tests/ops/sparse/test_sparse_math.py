"""Arithmetic of sparse tensors against that of dense ones."""
import numpy as np
import pytest

import penstock as tf
from penstock._src.ops.registry import get
from tests.ops.sparse.test_sparse_layout import dense, random_sparse


def pair():
    return tf.sparse.reorder(random_sparse([6, 4], 9)), tf.sparse.reorder(random_sparse([6, 4], 10, seed=3))


def test_add():
    a, b = pair()
    np.testing.assert_allclose(dense(tf.sparse.add(a, b)), dense(a) + dense(b), rtol=1e-6)
    np.testing.assert_allclose(tf.sparse.add(a, dense(b)).numpy(), dense(a) + dense(b), rtol=1e-6)
    np.testing.assert_allclose(tf.sparse.add(dense(b), a).numpy(), dense(a) + dense(b), rtol=1e-6)


def test_add_leaves_out_small_sums_only_where_both_are():
    a = tf.SparseTensor([[0], [1]], [1.0, 0.01], [3])
    b = tf.SparseTensor([[0], [2]], [-0.99, 0.01], [3])
    assert tf.sparse.add(a, b, threshold=0.1).indices.numpy().tolist() == [[1], [2]]


@pytest.mark.parametrize("other, text", [
    (lambda: tf.SparseTensor([[0]], [1.0], [4]), "do not match|not compatible"),
    (lambda: tf.SparseTensor([[0, 0]], [1.0], [3, 1]), "ranks|not compatible")])
def test_add_refuses_other_shapes(other, text):
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match=text):
        tf.sparse.add(tf.SparseTensor([[0]], [1.0], [3]), other())
    with pytest.raises(TypeError, match="At least one input"):
        tf.sparse.add([1.0], [2.0])


def test_adding_outside_of_the_dense_tensor_is_refused():
    with pytest.raises(tf.errors.InvalidArgumentError, match="invalid index on dimension 1"):
        tf.sparse.add(tf.SparseTensor([[0, 5]], [1.0], [2, 2]), tf.zeros([2, 2]))


@pytest.mark.parametrize("shape", [(6, 4), (6, 1), (4,), ()])
def test_operators_broadcast_the_dense_side(shape):
    a, _ = pair()
    other = np.random.RandomState(1).uniform(1, 2, shape)
    np.testing.assert_allclose(dense(a * other), dense(a) * other, rtol=1e-6)
    np.testing.assert_allclose(dense(tf.constant(other) * a), dense(a) * other, rtol=1e-6)
    np.testing.assert_allclose(dense(a / other), dense(a) / other, rtol=1e-6)


def test_integers_divide_truly():
    out = tf.SparseTensor([[1]], [3], [2]) / 2
    assert out.dtype == tf.float64 and out.values.numpy().tolist() == [1.5]


def test_dense_side_may_not_be_larger():
    with pytest.raises(tf.errors.InvalidArgumentError, match="broadcasts dense to sparse only"):
        tf.SparseTensor([[0]], [1.0], [1]) * tf.ones([3, 1])


def test_maximum_and_minimum():
    a, b = pair()
    np.testing.assert_allclose(dense(tf.sparse.maximum(a, b)), np.maximum(dense(a), dense(b)), rtol=1e-6)
    np.testing.assert_allclose(dense(tf.sparse.minimum(a, b)), np.minimum(dense(a), dense(b)), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "complex64", "int32"])
def test_matmul(dtype):
    a = tf.cast(random_sparse([6, 4], 9), dtype)
    b = tf.cast(tf.reshape(tf.range(12), [4, 3]), dtype)
    want = dense(tf.cast(a, tf.complex128)) @ tf.cast(b, tf.complex128).numpy()
    found = tf.cast(tf.sparse.sparse_dense_matmul(a, b), tf.complex128).numpy()
    np.testing.assert_allclose(found, want, rtol=1e-2 if "16" in dtype else 1e-5)


@pytest.mark.parametrize("index, text", [([[0, 9]], r"k \(9\) from index\[0,1\] out of bounds \(>=4\)"),
                                         ([[-1, 0]], r"m \(-1\) from index\[0,0\] out of bounds")])
def test_matmul_checks_indices(index, text):
    with pytest.raises(tf.errors.InvalidArgumentError, match=text):
        tf.sparse.sparse_dense_matmul(tf.SparseTensor(index, [1.0], [6, 4]), tf.ones([4, 3]))


def test_matmul_refuses_other_sizes():
    with pytest.raises(tf.errors.InvalidArgumentError, match="inner dimension does not match|must be equal"):
        tf.sparse.sparse_dense_matmul(tf.sparse.eye(3), tf.ones([4, 3]))


def test_softmax_of_unsorted_rows():
    sp = tf.SparseTensor([[1, 0], [0, 0], [1, 2]], [1.0, 5.0, 2.0], [2, 3])
    e = np.exp([1.0, 2.0]) / np.exp([1.0, 2.0]).sum()
    np.testing.assert_allclose(tf.sparse.softmax(sp).values.numpy(), [e[0], 1.0, e[1]], rtol=1e-6)


@pytest.mark.parametrize("name", ["SparseAdd", "SparseSparseMaximum"])
def test_kernels_check_their_parts(name):
    extra = (0.0,) if name == "SparseAdd" else ()
    good = (np.zeros([1, 2], np.int64), [1.0], np.array([2, 2], np.int64))
    for bad in ((np.zeros([1, 3], np.int64), *good[1:]), (good[0], [1.0, 2.0], good[2]),
                (*good[:2], np.array([-2, 2], np.int64))):
        with pytest.raises((ValueError, tf.errors.InvalidArgumentError)):
            get(name)(*good, *bad, *extra)


def test_sampled_products():
    a, b = np.arange(6.0, dtype=np.float32).reshape(2, 3), np.arange(6.0, dtype=np.float32).reshape(3, 2)
    places = np.array([[0, 0], [1, 1], [1, 0]])
    indices, values, shape = tf.sparse.sampled_addmm(places, [1.0, 2.0, 3.0], [2, 2], a, b, beta=2.0, alpha=0.5)
    assert indices.numpy().tolist() == places.tolist() and shape.numpy().tolist() == [2, 2]
    np.testing.assert_allclose(values, [7, 24, 20], rtol=1e-6)
    batch = tf.sparse.sampled_addmm([[[0, 1]], [[1, 0]]], [[1.0], [2.0]], [2, 2], np.stack([a, a + 1]), np.stack([b, b]))[1]
    np.testing.assert_allclose(batch, [[1 + (a @ b)[0, 1]], [2 + ((a + 1) @ b)[1, 0]]], rtol=1e-6)
    with pytest.raises(ValueError, match="does not match output shape"):
        tf.sparse.sampled_addmm(places, [1.0, 2.0, 3.0], [1, 2], a, b)


@pytest.mark.parametrize("adjoint_a", [False, True])
@pytest.mark.parametrize("adjoint_b", [False, True])
def test_a_dense_matrix_times_a_sparse_one(adjoint_a, adjoint_b):
    sparse = tf.SparseTensor([[0, 0], [1, 2]], [4.0 + 1j, 8.0], [3, 3])
    dense = np.random.RandomState(1).rand(3, 3) + 2j
    found = tf.sparse.sparse_dense_matmul(dense, sparse, adjoint_a=adjoint_a, adjoint_b=adjoint_b)
    other = tf.sparse.to_dense(sparse).numpy()
    np.testing.assert_allclose(found, (dense.conj().T if adjoint_a else dense) @ (other.conj().T if adjoint_b else other),
                               rtol=1e-6)


@pytest.mark.parametrize("name", ["abs", "asin", "asinh", "atan", "atanh", "negative", "sign", "sin", "square", "tan", "tanh"])
def test_functions_of_one_tensor_act_on_the_values(name):
    x = tf.sparse.from_dense([[0.0, 0.5], [-0.25, 0.0]])
    function = getattr(tf.math, name)
    np.testing.assert_allclose(dense(function(x)), function(dense(x)).numpy(), rtol=1e-6)


def test_bincount():
    x, w = tf.sparse.from_dense([[1, 2, 0], [2, 2, 3]]), tf.sparse.from_dense([[0.5, 1.0, 0.0], [1.0, 1.0, 2.0]])
    assert tf.math.bincount(x).numpy().tolist() == [0, 1, 3, 1]
    assert tf.math.bincount(x, w).numpy().tolist() == [0, 0.5, 3, 2]
    assert tf.math.bincount(x, axis=-1).numpy().tolist() == [[0, 1, 1, 0], [0, 0, 2, 1]]
    assert tf.math.bincount(x, axis=-1, binary_output=True, maxlength=3).numpy().tolist() == [[0, 1, 1], [0, 0, 1]]
    with pytest.raises(ValueError, match="are sparse"):
        tf.math.bincount(x, [1.0])
