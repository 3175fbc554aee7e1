"""Feature crosses: order, hashes (values that models depend on), and what is refused."""
import pytest

import penstock as tf


def sparse(rows):
    indices = [[i, j] for i, r in enumerate(rows) for j in range(len(r))]
    return tf.SparseTensor(indices, [w for r in rows for w in r], [len(rows), max(map(len, rows))])


def test_combinations_in_order():
    out = tf.sparse.cross([sparse([["a", "b"], [], ["c"]]), tf.constant([[1, 2], [3, 4], [5, 6]])])
    assert out.values.numpy().tolist() == [b"a_X_1", b"a_X_2", b"b_X_1", b"b_X_2", b"c_X_5", b"c_X_6"]
    assert out.indices.numpy().tolist() == [[0, 0], [0, 1], [0, 2], [0, 3], [2, 0], [2, 1]]
    assert out.dense_shape.numpy().tolist() == [3, 4]


def test_hashes_are_those_of_tensorflow():
    out = tf.sparse.cross_hashed([tf.constant([["a", "b"]]), tf.constant([[3, 4]])])
    assert out.values.numpy().tolist() == [9216350530976061679, 7369309576958622909, 9204035953345268157,
                                           5665986376437707883]
    small = tf.sparse.cross_hashed([tf.constant([["a", "b"]]), tf.constant([[3, 4]])], num_buckets=7)
    assert set(small.values.numpy().tolist()) <= set(range(7))


def test_batches_must_agree():
    with pytest.raises(tf.errors.InvalidArgumentError, match="Expected batch size 2 got 1"):
        tf.sparse.cross([sparse([["a"], ["b"]]), tf.constant([[1]])])
    with pytest.raises(tf.errors.InvalidArgumentError, match="not in"):
        tf.sparse.cross([tf.SparseTensor([[5, 0]], ["a"], [2, 2])])
    with pytest.raises(TypeError, match="must be a list"):
        tf.sparse.cross(sparse([["a"]]))


def test_absurd_numbers_of_combinations_are_refused():
    column = tf.constant([list(range(60000))])
    with pytest.raises(tf.errors.ResourceExhaustedError):
        tf.sparse.cross_hashed([column, column, column])


@pytest.mark.parametrize("strong, want", [(False, [972, 960, 404, 786, 507]), (True, [231, 350, 912, 425, 539])])
def test_salted_hashes_are_those_of_tensorflow(strong, want):
    words, counts = sparse([["x", "yy"], ["zzz"]]), sparse([[1, 2], [-3]])
    out = tf.raw_ops.SparseCrossHashed(
        indices=[words.indices, counts.indices], values=[words.values, tf.cast(counts.values, tf.int64)],
        shapes=[words.dense_shape, counts.dense_shape], dense_inputs=[tf.constant([["q"], ["w"]])], num_buckets=1000,
        strong_hash=strong, salt=[137, 173])
    assert out.output_values.numpy().tolist() == want
