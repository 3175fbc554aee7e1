"""Concat, split and slice of sparse tensors against those of dense ones."""
import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as tf1
from tests.ops.sparse.test_sparse_layout import dense, random_sparse


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concat(axis):
    a, b = random_sparse([4, 3], 5), random_sparse([4, 3], 6, seed=1)
    out = tf.sparse.concat(axis, [a, b])
    np.testing.assert_array_equal(tf.sparse.to_dense(out).numpy(), np.concatenate([dense(a), dense(b)], axis))


def test_concat_may_widen_other_axes():
    out = tf.sparse.concat(1, [tf.sparse.eye(2), tf.sparse.eye(3)], expand_nonconcat_dims=True)
    assert out.dense_shape.numpy().tolist() == [3, 5]
    with pytest.raises(tf.errors.InvalidArgumentError, match="Input shapes must match"):
        tf.sparse.concat(1, [tf.sparse.eye(2), tf.sparse.eye(3)])


@pytest.mark.parametrize("axis, parts", [(0, 3), (1, 2), (1, 1), (0, 7), (-1, 2)])
def test_split(axis, parts):
    sp = tf.sparse.reorder(random_sparse([7, 4], 11))
    out = tf.sparse.split(sp, parts, axis)
    for found, want in zip(out, np.array_split(dense(sp), parts, axis), strict=True):
        np.testing.assert_array_equal(dense(found), want)


@pytest.mark.parametrize("axis, parts", [(2, 1), (-3, 2), (0, 8)])
def test_split_refuses(axis, parts):
    with pytest.raises(tf.errors.InvalidArgumentError, match="Input (axis|num_split)"):
        tf.sparse.split(random_sparse([7, 4], 11), parts, axis)


def test_split_v1_wants_keywords():
    for kwargs, text in (({"keyword_required": 1}, "Keyword arguments"), ({}, "sp_input is required"),
                         ({"sp_input": 1}, "num_split is required"), ({"sp_input": 1, "num_split": 2}, "axis is required")):
        with pytest.raises(ValueError, match=text):
            tf1.sparse_split(**kwargs)


@pytest.mark.parametrize("start, size", [([0, 0], [7, 4]), ([2, 1], [3, 2]), ([6, 3], [9, 9]), ([1, 4], [2, 0])])
def test_slice(start, size):
    sp = random_sparse([7, 4], 11)
    want = dense(sp)[start[0]:start[0] + size[0], start[1]:start[1] + size[1]]
    np.testing.assert_array_equal(dense(tf.sparse.slice(sp, start, size)), want)


def test_slice_refuses_negative_sizes():
    with pytest.raises(tf.errors.InvalidArgumentError, match="does not fit"):
        tf.sparse.slice(random_sparse([7, 4], 11), [0, 0], [-1, 1])


def test_gradient_of_slice():
    sp = tf.sparse.reorder(random_sparse([5, 5], 12))
    with tf.GradientTape() as tape:
        tape.watch(sp.values)
        loss = tf.reduce_sum(tf.sparse.slice(sp, [1, 1], [3, 2]).values * 2.0)
    inside = ((sp.indices.numpy() >= [1, 1]) & (sp.indices.numpy() < [4, 3])).all(1)
    np.testing.assert_array_equal(tape.gradient(loss, sp.values).numpy(), 2.0 * inside)


@pytest.mark.parametrize("start, size, shape", [([0, 9], [7, 2], [7, 0]), ([8, 0], [1, 1], [0, 1]),
                                                ([2**62, 0], [2**62, 2**62], [0, 4])])
def test_a_slice_from_beyond_the_end_is_empty(start, size, shape):
    sliced = tf.sparse.slice(random_sparse([7, 4], 11), start, size)
    assert sliced.dense_shape.numpy().tolist() == shape and sliced.values.shape == (0,)


@pytest.mark.parametrize("missing", ["sp_input", "num_split", "axis"])
def test_split_names_what_is_missing(missing):
    given = {"sp_input": tf.sparse.from_dense([[1, 0], [0, 2]]), "num_split": 2, "axis": 1}
    del given[missing]
    with pytest.raises(ValueError, match=f"{missing} is required"):
        tf.sparse.split(**given)
