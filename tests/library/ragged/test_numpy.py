"""Ragged and sparse tensors as numpy arrays and as text, as TensorFlow 2.21 has them."""
import numpy as np
import pytest

import penstock as tf


@pytest.mark.parametrize("rows, dtype, shape", [
    ([[1, 2], [3, 4]], np.int32, (2, 2)), ([[], []], np.float32, (2, 0)),
    ([[["a"], ["b"]], [["c"], ["d"]]], object, (2, 2, 1))])
def test_rows_of_one_length_are_a_dense_array(rows, dtype, shape):
    found = tf.ragged.constant(rows).numpy()
    assert found.dtype == dtype and found.shape == shape


def test_rows_keep_their_type():
    found = tf.ragged.constant([[1, 2], [3]]).numpy()
    assert found.dtype == object and [(r.dtype, r.tolist()) for r in found] == [(np.int32, [1, 2]), (np.int32, [3])]
    words = tf.strings.split(["a b", "c"]).numpy()
    assert [(r.dtype, r.tolist()) for r in words] == [(np.dtype(object), [b"a", b"b"]), (np.dtype(object), [b"c"])]
    deep = tf.ragged.constant([[[1, 2], [3]], [[4, 5], [6]]]).numpy()
    assert deep.shape == (2, 2) and deep[1, 0].tolist() == [4, 5]
    empty = tf.RaggedTensor.from_row_splits(tf.ones([0, 2]), [0]).numpy()
    assert empty.shape == (0, 0, 2) and empty.dtype == np.float32


def test_text_of_composite_tensors():
    assert str(tf.sparse.from_dense([[7]])) == (
        "SparseTensor(indices=tf.Tensor([[0 0]], shape=(1, 2), dtype=int64), values=tf.Tensor([7], shape=(1,), dtype=int32), "
        "dense_shape=tf.Tensor([1 1], shape=(2,), dtype=int64))")
    assert str(tf.IndexedSlices(tf.constant([1.5]), tf.constant([0]))) == (
        "IndexedSlices(indices=tf.Tensor([0], shape=(1,), dtype=int32), values=tf.Tensor([1.5], shape=(1,), dtype=float32))")


def test_quotients_of_python_numbers_are_tensors():
    found = tf.divide(3, 2)
    assert found.dtype == tf.float64 and float(found) == 1.5
    assert tf.divide(np.array([3]), 2).dtype == tf.float64 and tf.divide(tf.constant([3.0]), 2).dtype == tf.float32
