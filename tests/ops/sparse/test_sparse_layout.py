"""Sparse tensors in another order or shape: against dense ones, and what is refused."""
import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as tf1
from penstock._src.kernels import sparse
from penstock._src.ops.registry import get


def random_sparse(shape, count, seed=0):
    rng = np.random.RandomState(seed)
    flat = rng.choice(int(np.prod(shape)), count, replace=False)
    indices = np.stack(np.unravel_index(flat, shape), 1).astype(np.int64)
    return tf.SparseTensor(indices, rng.uniform(1, 2, count), shape)


def dense(sp):
    return tf.sparse.to_dense(sp, validate_indices=False).numpy()


def test_reorder_sorts_and_keeps_the_tensor():
    sp = random_sparse([4, 5, 3], 20)
    out = tf.sparse.reorder(sp)
    key = np.ravel_multi_index(out.indices.numpy().T, (4, 5, 3))
    assert (np.diff(key) > 0).all()
    np.testing.assert_array_equal(dense(out), dense(sp))


def test_rows_too_wide_for_a_flat_position_are_sorted():
    import torch
    rows = torch.tensor([[2**62, 0, 5], [0, 2**62, 1], [0, 2**62, 0]])
    assert sparse.order(rows).tolist() == [2, 1, 0]


@pytest.mark.parametrize("perm", [None, [2, 0, 1], [0, 2, 1]])
def test_transpose(perm):
    sp = random_sparse([4, 5, 3], 20)
    np.testing.assert_array_equal(dense(tf.sparse.transpose(sp, perm)), dense(sp).transpose(perm))


@pytest.mark.parametrize("axis", [None, 0, 1, 2, -1, -2, -3])
def test_expand_dims(axis):
    sp = random_sparse([4, 5], 7)
    want = np.expand_dims(dense(sp), -1 if axis is None else axis)
    np.testing.assert_array_equal(dense(tf.sparse.expand_dims(sp, axis)), want)


@pytest.mark.parametrize("shape", [[20], [2, -1], [5, 2, 2], [-1, 4, 1]])
def test_reshape(shape):
    sp = random_sparse([4, 5], 7)
    out = tf.sparse.reshape(sp, shape)
    np.testing.assert_array_equal(dense(out), dense(sp).reshape(shape))


@pytest.mark.parametrize("shape, text", [([3, -1], "Cannot reshape"), ([-1, -1], "At most one dimension"),
                                         ([7], "Cannot reshape")])
def test_reshape_refuses_what_does_not_fit(shape, text):
    with pytest.raises(ValueError, match=text):
        tf.sparse.reshape(random_sparse([4, 5], 7), shape)


@pytest.mark.parametrize("args, text", [
    (([[4, 0]], [4, 5], [20]), "out of bounds"), (([[0, 0]], [4, 5], [-2, 10]), "must be non-negative"),
    (([[0, 0]], [-4, 5], [20]), "must be >= 0"), (([[0, 0]], [2**40, 2**40], [20]), "2\\*\\*63 - 1"),
    (([[0, 0]], [4, 5], [-1, -1]), "only one output dimension"), (([[0]], [4, 5], [20]), "columns")])
def test_reshape_kernel_checks_everything(args, text):
    with pytest.raises(tf.errors.InvalidArgumentError, match=text):
        get("SparseReshape")(*[np.array(a, np.int64) for a in args])


def test_fill_empty_rows():
    sp = tf.SparseTensor([[3, 1], [0, 2], [0, 0]], ["x", "y", "z"], [5, 3])
    out, empty = tf.sparse.fill_empty_rows(sp, "-")
    assert out.indices.numpy().tolist() == [[0, 2], [0, 0], [1, 0], [2, 0], [3, 1], [4, 0]]
    assert out.values.numpy().tolist() == [b"y", b"z", b"-", b"-", b"x", b"-"]
    assert empty.numpy().tolist() == [False, True, True, False, True]


def test_fill_empty_rows_refuses_rows_outside():
    with pytest.raises(tf.errors.InvalidArgumentError, match="is invalid: 5 >= 2"):
        tf.sparse.fill_empty_rows(tf.SparseTensor([[5, 0]], [1.0], [2, 3]), 0.0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="dense_shape"):
        tf.sparse.fill_empty_rows(tf.SparseTensor([[0, 0]], [1.0], [0, 3]), 0.0)


def test_retain_and_reset_shape():
    sp = tf.SparseTensor([[0, 1], [2, 3]], [1, 2], [9, 9])
    assert tf.sparse.retain(sp, [False, True]).values.numpy().tolist() == [2]
    assert tf.sparse.reset_shape(sp).dense_shape.numpy().tolist() == [3, 4]
    assert tf.sparse.reset_shape(sp, [9, 10]).dense_shape.numpy().tolist() == [9, 10]
    with pytest.raises(ValueError, match="should have dimension sizes"):
        tf.sparse.reset_shape(sp, [8, 10])
    with pytest.raises(ValueError):
        tf.sparse.retain(sp, [True])


def test_gradients_follow_the_elements():
    values = tf.constant([1.0, 2.0, 3.0])
    with tf.GradientTape() as tape:
        tape.watch(values)
        out = tf.sparse.reorder(tf.SparseTensor([[2], [0], [1]], values, [3])).values
        loss = tf.reduce_sum(out * [1.0, 10.0, 100.0])
    assert tape.gradient(loss, values).numpy().tolist() == [100.0, 1.0, 10.0]


def test_unknown_shapes_are_worked_out_at_run_time():
    with tf1.Graph().as_default(), tf1.Session() as sess:
        x = tf1.sparse.placeholder(tf.float32)
        y = tf1.sparse.transpose(tf1.sparse_reshape(x, [-1, 2]))
        value = tf1.SparseTensorValue([[0, 0], [2, 1]], [1.0, 2.0], [3, 2])
        found = sess.run(y, {x: value})
    assert found.indices.tolist() == [[0, 0], [1, 2]] and found.dense_shape.tolist() == [2, 3]
