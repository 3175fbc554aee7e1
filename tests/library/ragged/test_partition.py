"""stack_dynamic_partitions, against lists made in Python."""
import numpy as np
import pytest

import penstock as tf

stack = tf.ragged.stack_dynamic_partitions


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_rows_have_the_slices_of_their_number(rank):
    rng = np.random.default_rng(rank)
    data, partitions = rng.random((4, 3, 2)).astype(np.float32), rng.integers(0, 5, (4, 3, 2)[:rank])
    found = stack(data, partitions, 6)
    assert found.to_list() == [data[partitions == i].tolist() for i in range(6)]


def test_ragged_data_and_partitions():
    data = tf.ragged.constant([[[1, 2], [3]], [[4, 5, 6]]])
    assert stack(data, [1, 0], 3).to_list() == [[[[4, 5, 6]]], [[[1, 2], [3]]], []]
    assert stack(data, tf.ragged.constant([[1, 0], [0]]), 2).to_list() == [[[3], [4, 5, 6]], [[1, 2]]]


def test_scalars():
    assert stack("a", 1, 3).to_list() == [[], [b"a"], []]


@pytest.mark.parametrize("partitions, words", [([2, -1, 0], "must be non-negative"), ([2, 10, 0], "less than num_partitions")])
def test_numbers_out_of_range(partitions, words):
    with pytest.raises(tf.errors.InvalidArgumentError, match=words):
        stack([1, 2, 3], partitions, 10)


def test_shapes_that_do_not_fit():
    with pytest.raises(ValueError, match=r"\(2,\) and \(3,\)"):
        stack([1, 2, 3], [1, 2], 10)
    with pytest.raises(tf.errors.InvalidArgumentError, match="incompatible ragged shapes"):
        stack(tf.ragged.constant([[1, 2], [3]]), tf.ragged.constant([[2], [3, 0]]), 10)
