"""RowPartition, and the ragged ops that need more than the flat values; expected values are TensorFlow 2.21's."""
import numpy as np
import pytest

import penstock as tf

RowPartition = tf.experimental.RowPartition


@pytest.mark.parametrize("make", [
    lambda: RowPartition.from_row_splits([0, 4, 4, 7, 8]),
    lambda: RowPartition.from_row_lengths([4, 0, 3, 1]),
    lambda: RowPartition.from_row_starts([0, 4, 4, 7], nvals=8),
    lambda: RowPartition.from_row_limits([4, 4, 7, 8]),
    lambda: RowPartition.from_value_rowids([0, 0, 0, 0, 2, 2, 2, 3], nrows=4),
])
def test_every_encoding_gives_the_others(make):
    p = make()
    assert p.row_splits().numpy().tolist() == [0, 4, 4, 7, 8]
    assert p.row_lengths().numpy().tolist() == [4, 0, 3, 1]
    assert p.row_starts().numpy().tolist() == [0, 4, 4, 7]
    assert p.row_limits().numpy().tolist() == [4, 4, 7, 8]
    assert p.value_rowids().numpy().tolist() == [0, 0, 0, 0, 2, 2, 2, 3]
    assert p.offsets_in_rows().numpy().tolist() == [0, 1, 2, 3, 0, 1, 2, 0]
    assert (int(p.nrows()), int(p.nvals()), p.is_uniform()) == (4, 8, False)


def test_uniform_rows():
    p = RowPartition.from_uniform_row_length(3, nvals=6)
    assert p.is_uniform() and p.static_nrows == 2 and p.static_nvals == 6 and p.static_uniform_row_length == 3
    assert p.row_splits().numpy().tolist() == [0, 3, 6]
    rt = tf.RaggedTensor.from_uniform_row_length(tf.ragged.constant([[1], [2, 3], [], [4]]), 2)
    assert rt.shape.as_list() == [2, 2, None]
    assert (rt + rt).shape.as_list() == [2, 2, None]
    assert RowPartition.from_uniform_row_length(0, nvals=0).static_nrows == 0
    for counts in ({}, {"nvals": 3}):
        with pytest.raises(ValueError, match="nrows"):
            RowPartition.from_uniform_row_length(0, **counts)


def test_partitions_that_do_not_hold_are_errors():
    with pytest.raises(tf.errors.InvalidArgumentError, match="do not form a valid RowPartition"):
        RowPartition.from_row_splits([0, 3, 2])
    with pytest.raises(tf.errors.InvalidArgumentError, match="do not form a valid RowPartition"):
        RowPartition.from_row_lengths([1, -1])
    with pytest.raises(ValueError, match="private"):
        RowPartition(tf.constant([0, 1]))


def test_a_partition_goes_through_a_function():
    @tf.function
    def doubled(p):
        return RowPartition.from_row_lengths(p.row_lengths() * 2)
    assert doubled(RowPartition.from_row_lengths([1, 2])).row_splits().numpy().tolist() == [0, 2, 6]


def test_split_reverse_softmax_and_one_hot():
    rt = tf.ragged.constant([[1, 2], [3], [4, 5, 6], []])
    first, second = tf.split(rt, [1, 3])
    assert first.to_list() == [[1, 2]] and second.to_list() == [[3], [4, 5, 6], []]
    assert tf.reverse(rt, [1]).to_list() == [[2, 1], [3], [6, 5, 4], []]
    assert tf.one_hot(rt[:2], 4).to_list() == [[[0, 1, 0, 0], [0, 0, 1, 0]], [[0, 0, 0, 1]]]
    rows = tf.nn.softmax(tf.cast(rt, tf.float32)).to_list()
    np.testing.assert_allclose(rows[2], np.exp([4., 5, 6]) / np.exp([4., 5, 6]).sum(), rtol=1e-6)
    with pytest.raises(ValueError, match="ragged dimension"):
        tf.split(rt, 2, axis=1)


def test_matmul_of_ragged_batches():
    a = [np.arange(6.).reshape(2, 3), np.arange(3.).reshape(1, 3)]
    b = np.arange(24.).reshape(2, 3, 4)
    out = tf.matmul(tf.ragged.constant([x.tolist() for x in a], ragged_rank=1, inner_shape=(3,)), tf.constant(b, tf.float32))
    for i, row in enumerate(out):
        np.testing.assert_allclose(row.numpy(), a[i] @ b[i], rtol=1e-6, atol=1e-6)


def test_map_fn_over_ragged_rows_with_a_signature():
    rt = tf.ragged.constant([[1, 2, 3], [], [4, 5]])
    out = tf.map_fn(lambda row: tf.reverse(row, [0]) * 2, rt, fn_output_signature=tf.RaggedTensorSpec([None], tf.int32))
    assert out.to_list() == [[6, 4, 2], [], [10, 8]]
    assert tf.map_fn(tf.reduce_sum, rt).numpy().tolist() == [6, 0, 9]


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function])
def test_map_fn_over_ragged_rows_without_a_signature(wrap):
    rt = tf.ragged.constant([[1, 2, 3], [], [4, 5]])
    assert wrap(lambda x: tf.map_fn(lambda row: row + 1, x))(rt).to_list() == [[2, 3, 4], [], [5, 6]]
    sums = wrap(lambda x: tf.map_fn(tf.reduce_sum, x))(rt)
    assert sums.numpy().tolist() == [6, 0, 9] and sums.shape == [3]
    with pytest.raises(tf.errors.InvalidArgumentError, match="All flat_values must have compatible shapes"):
        wrap(lambda x: tf.map_fn(lambda r: tf.map_fn(lambda y: r, r), x))(tf.ragged.constant([[1, 2], [1]]))


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function])
def test_indices_into_rows_of_one_length(wrap):
    rows = [[[1, 2], [3], []], [[4, 5], [6], [7, 8]]]
    rt = tf.RaggedTensor.from_uniform_row_length(tf.ragged.constant(rows[0] + rows[1]), 3)
    one = tf.constant(1)
    for key, expected, shape in (((slice(None), 1), [r[1] for r in rows], [2, None]),
                                 ((slice(None), -1), [r[-1] for r in rows], [2, None]),
                                 ((slice(1, None), one), [rows[1][1]], [1, None]),
                                 ((slice(None), 1, slice(1, None)), [r[1][1:] for r in rows], [2, None]),
                                 ((slice(None), slice(1, None)), [r[1:] for r in rows], [2, 2, None]),
                                 ((slice(None), slice(5, None)), [[], []], [2, 0, None]),
                                 ((slice(None), slice(None, None, -1)), [r[::-1] for r in rows], [2, 3, None]),
                                 (slice(1, None), rows[1:], [1, 3, None]),
                                 (slice(None, None, 2), rows[::2], [1, 3, None]),
                                 ((slice(None), None), [[r] for r in rows], [2, 1, 3, None])):
        found = wrap((lambda k: lambda x: x[k])(key))(rt)
        assert found.to_list() == expected and found.shape.as_list() == shape, key
    assert wrap(lambda x: x[:, one:])(rt).to_list() == [r[1:] for r in rows]
    dense = tf.RaggedTensor.from_uniform_row_length(tf.range(6), 3)
    assert wrap(lambda x: x[:, 2])(dense).numpy().tolist() == [2, 5]
    for at in (3, -4):
        with pytest.raises(tf.errors.InvalidArgumentError, match="out of bounds"):
            wrap(lambda x, at=at: x[:, at])(rt)


def test_print_shows_rows(capfd):
    import sys
    tf.print(tf.ragged.constant([[1, 2, 3, 4, 5, 6, 7, 8, 9], [10]]), "and", tf.ragged.constant([["a'b"]]),
             output_stream=sys.stdout)
    assert capfd.readouterr().out == "[[1, 2, 3, ..., 7, 8, 9], [10]] and [['a\\'b']]\n"


def test_ranges_wider_than_int32_count_in_int64():
    start, end, step = 1136033460, -2110457150, -1849827689
    assert tf.ragged.range(start, end, step).to_list() == [np.arange(start, end, step).tolist()]


def test_crosses_of_ragged_sparse_and_dense_features():
    a, b = tf.ragged.constant([["a"], ["b", "c"]]), tf.ragged.constant([["d"], ["e", "f"]])
    out = tf.ragged.cross([a, tf.constant([["1"], ["2"]]), b])
    assert out.to_list() == [[b"a_X_1_X_d"], [b"b_X_2_X_e", b"b_X_2_X_f", b"c_X_2_X_e", b"c_X_2_X_f"]]
    sparse = tf.sparse.from_dense([["x"], ["y"]])
    assert tf.ragged.cross([sparse, a]).to_list() == [[b"x_X_a"], [b"y_X_b", b"y_X_c"]]
    hashed = tf.ragged.cross_hashed([a, b], num_buckets=100)
    assert hashed.to_list() == tf.RaggedTensor.from_sparse(tf.sparse.cross_hashed(
        [a.to_sparse(), b.to_sparse()], num_buckets=100)).to_list()
    with pytest.raises(ValueError, match="rank=2"):
        tf.ragged.cross([tf.constant(["a"])])
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match="same batch dimension"):
        tf.ragged.cross([a, tf.constant([["1"]])])


def test_empty_splits_are_looked_at_only_on_request():
    splits = tf.zeros([0], tf.int64)
    with pytest.raises(ValueError, match="may not be empty"):
        tf.RaggedTensor.from_row_splits(tf.zeros([0]), splits)
    unchecked = tf.RaggedTensor.from_row_splits(tf.zeros([0]), splits, validate=False)
    with pytest.raises(tf.errors.InvalidArgumentError, match="ragged splits may not be empty"):
        unchecked.to_sparse()
