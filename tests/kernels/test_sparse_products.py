"""Short products of sparse matrices and dense ones."""
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as tf
from penstock._src.kernels import sparse
from penstock._src.kernels.host_threads import compiled

sizes = st.integers(0, 6)


def drawn(seed, rows, columns, elements, dtype):
    r = np.random.RandomState(seed)
    elements = elements if rows and columns else 0
    indices = np.stack([r.randint(0, max(n, 1), elements) for n in (rows, columns)], 1).astype(np.int64)
    values = r.randn(elements).astype(dtype)
    dense = np.zeros((rows, columns), dtype)
    np.add.at(dense, (indices[:, 0], indices[:, 1]), values)         # some places are repeated
    return indices, values, dense


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.integers(0, 99), sizes, sizes, sizes, st.integers(0, 20), st.booleans(), st.booleans(),
       st.sampled_from([np.float32, np.float64]))
def test_as_the_dense_product(seed, rows, columns, width, elements, turned, other, dtype):
    indices, values, dense = drawn(seed, rows, columns, elements, dtype)
    dense = dense.T if turned else dense
    b = np.random.RandomState(seed + 1).randn(dense.shape[1], width).astype(dtype)
    made = tf.raw_ops.SparseTensorDenseMatMul(a_indices=indices, a_values=values, a_shape=np.array([rows, columns], np.int64),
                                              b=b.T.copy() if other else b, adjoint_a=turned, adjoint_b=other)
    assert made.shape == (dense.shape[0], width)
    np.testing.assert_allclose(made, dense @ b, rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(compiled("_sparse") is None, reason="penstock was installed without a compiler")
def test_what_the_compiled_product_takes():
    indices, values, dense = drawn(1, 4, 5, 9, np.float32)
    b = np.random.RandomState(2).randn(3, 5).astype(np.float32).T                  # not in order
    found = sparse.short_product(torch.tensor(indices), torch.tensor(values), 0, 4, torch.from_numpy(b))
    np.testing.assert_allclose(found, dense @ b, rtol=1e-5)
    assert sparse.short_product(torch.tensor(indices), torch.tensor(values), 0, 3, torch.from_numpy(b)) is None \
        or indices[:, 0].max() < 3
    assert sparse.short_product(torch.tensor(indices).int(), torch.tensor(values), 0, 4, torch.from_numpy(b)) is None
    assert sparse.short_product(torch.tensor(indices), torch.tensor(values), 0, 4, torch.from_numpy(b).half()) is None


def test_special_numbers_stay_in_their_rows():
    made = tf.sparse.sparse_dense_matmul(tf.SparseTensor([[0, 1], [2, 0]], [1., np.inf], [3, 2]), [[1., 2.], [np.nan, 3.]])
    np.testing.assert_array_equal(made, [[np.nan, 3.], [0., 0.], [np.inf, np.inf]])


@pytest.mark.parametrize("place", [[3, 0], [0, 2], [-1, 0], [0, -1]])
def test_places_outside(place):
    with pytest.raises(tf.errors.InvalidArgumentError, match="out of bounds"):
        tf.raw_ops.SparseTensorDenseMatMul(a_indices=[[0, 0], place], a_values=[1., 2.], a_shape=[3, 2], b=np.ones((2, 4), "f"))


def test_gradients():
    with tf.GradientTape() as tape:
        values, b = tf.Variable([1., 2., 3.]), tf.Variable(np.arange(6, dtype="f").reshape(2, 3))
        y = tf.sparse.sparse_dense_matmul(tf.SparseTensor([[0, 1], [0, 1], [2, 0]], values, [3, 2]), b)
        total = tf.reduce_sum(y * y)
    of_values, of_b = tape.gradient(total, [values, b])
    dense = np.array([[0, 3], [0, 0], [3, 0]], "f")
    by = 2 * dense @ b.numpy()
    np.testing.assert_allclose(of_b, dense.T @ by, rtol=1e-6)
    np.testing.assert_allclose(of_values, [by[0] @ b.numpy()[1], by[0] @ b.numpy()[1], by[2] @ b.numpy()[0]], rtol=1e-6)
