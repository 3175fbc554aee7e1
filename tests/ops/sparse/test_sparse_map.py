"""The map that keeps sparse tensors between steps."""
import pytest

import penstock.compat.v1 as tf
from penstock._src.ops.sparse import sparse_map


@pytest.fixture
def sess():
    with tf.Graph().as_default(), tf.Session() as s:
        yield s


def test_round_trip_of_rows(sess):
    sp = tf.SparseTensor([[0, 1], [2, 0]], ["a", "b"], [3, 2])
    handles = sparse_map.add_many_sparse_to_tensors_map(sp)
    p = tf.placeholder(tf.int64, [None])
    back = sparse_map.take_many_sparse_from_tensors_map(handles.op, p, rank=2)
    kept = sess.run(handles)
    found = sess.run(back, {p: kept[[2, 0]]})
    assert found.indices.tolist() == [[0, 0], [1, 1]] and found.values.tolist() == [b"b", b"a"]
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"Unable to find SparseTensor: {kept[0]}"):
        sess.run(back, {p: kept[:1]})
    assert sess.run(back, {p: kept[1:2]}).values.size == 0


def test_ranks_and_types_are_checked(sess):
    flat = sparse_map.add_sparse_to_tensors_map(tf.SparseTensor([[0]], [1.0], [2]), shared_name="m")
    deep = sparse_map.add_sparse_to_tensors_map(tf.SparseTensor([[0, 0]], [1.0], [2, 2]), shared_name="m")
    both = sparse_map.take_many_sparse_from_tensors_map(flat.op, tf.stack([flat, deep]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="Inconsistent rank across SparseTensors"):
        sess.run(both)
    wrong = tf.raw_ops.TakeManySparseFromTensorsMap(sparse_handles=[flat], dtype=tf.int32, shared_name="m")
    with pytest.raises(tf.errors.InvalidArgumentError, match="Requested SparseTensor of type int32"):
        sess.run(wrong)
    with pytest.raises(TypeError, match="sparse_map_op must be one of"):
        sparse_map.take_many_sparse_from_tensors_map(tf.constant(1).op, [0])
