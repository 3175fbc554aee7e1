"""Reductions of sparse tensors against those of dense ones."""
import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as tf1
from tests.ops.sparse.test_sparse_layout import dense, random_sparse

AXES = [None, 0, 1, -1, [0, 2], [0, 1, 2]]


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("axis", AXES)
def test_sum_and_max(axis, keep):
    sp = random_sparse([4, 3, 5], 23)
    numpy_axis = tuple(axis) if isinstance(axis, list) else axis
    for name, reduce in (("reduce_sum", np.sum), ("reduce_max", np.max)):
        want = reduce(dense(sp), axis=numpy_axis, keepdims=keep)
        np.testing.assert_allclose(getattr(tf.sparse, name)(sp, axis, keep).numpy(), want, rtol=1e-6)
        thin = getattr(tf.sparse, name)(sp, axis, keep, output_is_sparse=True)
        np.testing.assert_allclose(dense(thin), want, rtol=1e-6)


def test_max_of_negative_elements_is_negative():
    sp = tf.SparseTensor([[0, 0]], [-3.0], [2, 2])
    assert tf.sparse.reduce_max(sp, 1).numpy().tolist() == [-3, 0]


@pytest.mark.parametrize("axis", [2, -3])
def test_axes_are_checked(axis):
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"Invalid reduction dimension {axis}"):
        tf.sparse.reduce_sum(tf.sparse.eye(2), axis)


def test_old_names_of_arguments():
    sp = tf.sparse.eye(3)
    assert tf1.sparse_reduce_sum(sp, reduction_axes=1, keep_dims=True).shape == (3, 1)
    with pytest.raises(ValueError, match="Cannot specify both"):
        tf1.sparse_reduce_sum(sp, axis=0, reduction_axes=1)


def test_gradient_of_sum():
    sp = random_sparse([4, 3], 5)
    weights = np.arange(4.0)
    with tf.GradientTape() as tape:
        tape.watch(sp.values)
        loss = tf.reduce_sum(tf.sparse.reduce_sum(sp, 1) * weights)
    np.testing.assert_allclose(tape.gradient(loss, sp.values).numpy(), weights[sp.indices.numpy()[:, 0]], rtol=1e-6)
