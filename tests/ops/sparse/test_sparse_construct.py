"""Making sparse tensors and dense ones of them."""
import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as tf1


@pytest.mark.parametrize("array", [np.array([[0, 3], [5, 0]]), np.zeros([2, 0]), np.array(2.5),
                                   np.array([[b"a", b""]], object)])
def test_from_dense_and_back(array):
    sp = tf.sparse.from_dense(array)
    assert len(sp.values.numpy()) == np.count_nonzero(array)
    np.testing.assert_array_equal(tf.sparse.to_dense(sp).numpy(), array)


@pytest.mark.parametrize("rows, columns", [(2, None), (2, 3), (3, 2), (0, 4)])
def test_eye(rows, columns):
    np.testing.assert_array_equal(tf.sparse.to_dense(tf.sparse.eye(rows, columns)).numpy(), np.eye(rows, columns))


def test_placeholder_shapes():
    with tf1.Graph().as_default():
        assert tf1.sparse_placeholder(tf.float32).shape.ndims is None
        p = tf1.sparse_placeholder(tf.float32, [None, 3], name="p")
        assert p.shape.ndims == 2 and p.values.op.name == "p/values"
        assert tf1.sparse_placeholder(tf.float32, [2, 3]).shape.as_list() == [2, 3]
    with pytest.raises(RuntimeError, match="eager"):
        tf1.sparse_placeholder(tf.float32)


@pytest.mark.parametrize("indices, validate, text", [
    ([[0], [9]], True, r"indices\[1\] = \[9\] is out of bounds: need 0 <= index < \[4\]"),
    ([[-1], [0]], False, "out of bounds"), ([[1], [1]], True, r"indices\[1\] = \[1\] is repeated"),
    ([[2], [1]], True, r"indices\[1\] = \[1\] is out of order")])
def test_to_dense_checks_indices(indices, validate, text):
    with pytest.raises(tf.errors.InvalidArgumentError, match=text):
        tf.sparse.to_dense(tf.SparseTensor(indices, [1, 2], [4]), validate_indices=validate)


def test_to_dense_takes_the_last_of_repeated_indices():
    count = 5000
    sp = tf.SparseTensor(np.zeros([count, 1], np.int64), np.arange(count), [2])
    assert tf.sparse.to_dense(sp, validate_indices=False).numpy().tolist() == [count - 1, 0]


def test_to_dense_does_not_allocate_nonsense():
    with pytest.raises(tf.errors.InvalidArgumentError, match="more than"):
        tf.sparse.to_dense(tf.SparseTensor([[0, 0]], [1], [2**40, 2**40]))


def test_indicator_and_merge():
    ids = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], [2, 0, 1], [2, 2])
    assert tf.sparse.to_indicator(ids, 3).numpy().tolist() == [[True, False, True], [False, True, False]]
    merged = tf1.sparse_merge(ids, ids.with_values(tf.constant([1.0, 2.0, 3.0])), 3)
    assert tf.sparse.to_dense(merged).numpy().tolist() == [[2, 0, 1], [0, 3, 0]]
    with pytest.raises(tf.errors.InvalidArgumentError, match="out of bounds"):
        tf.sparse.to_indicator(ids, 2)
    with pytest.raises(TypeError, match="vocab_size"):
        tf1.sparse_merge(ids, ids, [3.5])


def test_mask():
    slices = tf.IndexedSlices(tf.constant([[1.0], [2.0], [3.0]]), tf.constant([4, 7, 9]), tf.constant([10, 1]))
    out = tf.sparse.mask(slices, [7, 1])
    assert out.indices.numpy().tolist() == [4, 9] and out.values.numpy().tolist() == [[1], [3]]


def test_functions_of_one_tensor_act_on_values():
    sp = tf.SparseTensor([[0], [2]], [-4.0, 9.0], [3])
    assert tf.abs(sp).values.numpy().tolist() == [4, 9]
    assert tf.square(x=sp).dense_shape.numpy().tolist() == [3]
    assert tf.cast(sp, tf.int32).dtype == tf.int32


def test_map_values():
    sparse = tf.sparse.from_dense([[1, 2, 0], [0, 4, 0]])
    times = tf.sparse.map_values(tf.multiply, 10, sparse)
    np.testing.assert_array_equal(tf.sparse.to_dense(times).numpy(), [[10, 20, 0], [0, 40, 0]])
    twice = tf.sparse.map_values(lambda a, b: a + b["x"], sparse, {"x": sparse})
    assert twice.values.numpy().tolist() == [2, 4, 8]
    assert tf.sparse.map_values(tf.ones_like, sparse, dtype=tf.float32).values.dtype == tf.float32
    with pytest.raises(ValueError, match="needs a SparseTensor"):
        tf.sparse.map_values(tf.add, 1, 2)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Mismatched indices!"):
        tf.sparse.map_values(tf.add, sparse, tf.sparse.from_dense([[0, 2, 1], [0, 4, 0]]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="Mismatched shapes!"):
        tf.sparse.map_values(tf.add, sparse, tf.SparseTensor(sparse.indices, sparse.values, [2, 4]))


def test_map_values_in_a_graph_checks_when_it_runs():
    with tf1.Graph().as_default(), tf1.Session() as session:
        a, b = tf1.sparse_placeholder(tf1.float32), tf1.sparse_placeholder(tf1.float32)
        added = tf1.sparse.map_values(tf1.add, a, b)
        value = tf1.SparseTensorValue([[0, 1]], [2.0], [1, 3])
        assert session.run(added, {a: value, b: value}).values.tolist() == [4.0]
        with pytest.raises(tf.errors.InvalidArgumentError, match="Mismatched indices!"):
            session.run(added.values, {a: value, b: tf1.SparseTensorValue([[0, 2]], [2.0], [1, 3])})


def test_whole_vectors_and_vectors_with_gaps_or_other_orders():
    def dense(indices, size, values):
        return tf.raw_ops.SparseToDense(sparse_indices=np.array(indices, "int64").reshape(-1, 1), output_shape=np.array([size]),
                                        sparse_values=np.array(values, "float32"), default_value=np.float32(9),
                                        validate_indices=False).numpy().tolist()
    assert dense([0, 1, 2], 3, [4, 5, 6]) == [4, 5, 6]
    assert dense([0, 2, 1], 3, [4, 5, 6]) == [4, 6, 5]
    assert dense([0, 2], 3, [4, 6]) == [4, 9, 6]
    assert dense([0, 0, 1], 3, [4, 5, 6]) == [5, 6, 9]
    assert dense([], 0, []) == []


def test_booleans_as_a_sparse_tensor():
    sparse = tf.sparse.from_dense([[True, False], [False, True]])
    assert sparse.dtype == tf.bool
    assert sparse.indices.numpy().tolist() == [[0, 0], [1, 1]]


def test_no_number_is_counted_below_zero():
    counts = tf.sparse.bincount([1, 2, 2], maxlength=0)
    assert counts.indices.shape == (0, 1)
    assert counts.dense_shape.numpy().tolist() == [0]
