"""Shapes of ragged tensors as values, and broadcasting by them."""
import numpy as np
import pytest

import penstock as tf

Shape = tf.experimental.DynamicRaggedShape
ragged = tf.ragged.constant


def test_lengths():
    shape = Shape.from_lengths([2, (3, 1), 4])
    assert shape.static_lengths() == [2, (3, 1), 4] and shape.rank == 3 and shape.num_row_partitions == 1
    assert shape.inner_shape.numpy().tolist() == [4, 4] and not shape.is_uniform(1) and shape.is_uniform(2)
    assert int(shape[0]) == 2 and int(shape[-1]) == 4 and shape[:2].static_lengths() == [2, (3, 1)]
    with pytest.raises(ValueError, match="not uniform"):
        shape[1]
    with pytest.raises(ValueError, match="2 rows have 3 lengths"):
        Shape.from_lengths([2, (1, 1, 1)])


def test_shapes_of_tensors():
    assert tf.shape(ragged([[1, 2], [3]])).static_lengths() == [2, (2, 1)]
    assert Shape.from_tensor(tf.zeros([2, 3])).static_lengths() == [2, 3]
    assert bool(tf.shape(ragged([[1, 2], [3]]), out_type=tf.int64) == Shape.from_lengths([2, (2, 1)]))


@pytest.mark.parametrize("x, y, want", [
    (ragged([[[1, 2], [3, 4]], [[5]]], ragged_rank=2), ragged([[[10], [20]], [[30]]], ragged_rank=1),
     [[[11, 12], [23, 24]], [[35]]]),
    (ragged([[[1]]]), ragged([[1]]), [[[2]]]),
    (ragged([[1, 2], [3]]), tf.constant([[[10]], [[20]]]), [[[11, 12], [13]], [[21, 22], [23]]])])
def test_sums_broadcast(x, y, want):
    assert (x + y).to_list() == want
    assert (y + x).to_list() == want
    traced = tf.function(lambda a, b: a + b)
    assert traced(x, y).to_list() == want


def test_rows_that_do_not_fit():
    with pytest.raises(tf.errors.InvalidArgumentError, match="Unable to broadcast"):
        ragged([[[1, 2], [3, 4]], [[5]]]) + ragged([[1, 2, 3], [4]])


def test_where_broadcasts():
    condition = ragged([[[True, False], [False, True]], [[True, True]]], ragged_rank=1)
    x, y = ragged([[[10], [20]], [[30]]], ragged_rank=1), np.array([[[40, 50]]], np.int32)
    assert tf.where(condition, x, y).to_list() == [[[10, 50], [40, 20]], [[30, 30]]]
    assert tf.where(ragged([[True, False], [True]]), 1, 2).to_list() == [[1, 2], [1]]


def test_functions_take_ragged_shapes():
    assert tf.reshape(ragged([[1, 2], [3]]), Shape.from_lengths([3, (1, 0, 2)])).to_list() == [[1], [], [2, 3]]
    assert tf.reshape(ragged([[1, 2], [3]]), [3]).numpy().tolist() == [1, 2, 3]
    assert tf.broadcast_to(3, Shape.from_lengths([3, (1, 0, 2)])).to_list() == [[3], [], [3, 3]]
    assert tf.ones(Shape.from_lengths([2, (2, 3)])).to_list() == [[1, 1], [1, 1, 1]]
    assert tf.fill(Shape.from_lengths([2, (2, 3)]), 5).to_list() == [[5, 5], [5, 5, 5]]
    for other in (Shape.from_lengths([5]), [5]):
        both = tf.broadcast_dynamic_shape(Shape.from_lengths([2, (2, 3), 1]), other)
        assert both.static_lengths() == [2, (2, 3), 5]


def test_specs():
    shape = Shape.from_lengths([2, (3, 1), 4])
    assert tf.nest.flatten(shape, expand_composites=True)
    again = tf.function(lambda s: s)(shape)
    assert again.static_lengths() == [2, (3, 1), 4]


def test_a_constant_of_mixed_types_is_refused():
    with pytest.raises(ValueError, match="mixed types"):
        tf.ragged.constant([["one", "two"], [3, 4]])
