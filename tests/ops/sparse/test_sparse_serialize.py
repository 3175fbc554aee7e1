"""Serialized sparse tensors: round trips, batches, variants, and what is refused."""
import numpy as np
import pytest

import penstock as tf
from penstock._src.graph.tensor_proto import decode
from penstock._src.ops.registry import get


def two_rows(values=(1.5, 2.5)):
    return tf.SparseTensor([[0, 1], [2, 0]], tf.constant(list(values)), [3, 2])


@pytest.mark.parametrize("out_type", [tf.string, tf.variant])
@pytest.mark.parametrize("values", [[1.5, 2.5], [7, 8], ["a", "b" * 300], [True, False]])
def test_round_trip(values, out_type):
    sp = two_rows(values)
    indices, back, shape = get("DeserializeSparse")(tf.io.serialize_sparse(sp, out_type), dtype=sp.dtype)
    assert indices.numpy().tolist() == [[0, 1], [2, 0]] and shape.numpy().tolist() == [3, 2]
    assert back.numpy().tolist() == sp.values.numpy().tolist()


@pytest.mark.parametrize("out_type", [tf.string, tf.variant])
def test_rows_come_back_as_one(out_type):
    rows = tf.io.serialize_many_sparse(two_rows(), out_type)
    assert rows.shape == (3, 3)
    indices, values, shape = get("DeserializeSparse")(rows, dtype=tf.float32)
    assert indices.numpy().tolist() == [[0, 1], [2, 0]] and values.numpy().tolist() == [1.5, 2.5]
    assert shape.numpy().tolist() == [3, 2]


def test_a_batch_takes_the_largest_sizes():
    small = tf.io.serialize_sparse(tf.SparseTensor([[0, 0]], [1.0], [1, 7]))
    both = tf.io.deserialize_many_sparse(tf.stack([tf.io.serialize_sparse(two_rows()), small]), tf.float32, rank=3)
    assert both.dense_shape.numpy().tolist() == [2, 3, 7]
    assert both.indices.numpy().tolist() == [[0, 0, 1], [0, 2, 0], [1, 0, 0]]


@pytest.mark.parametrize("change, text", [
    (lambda row: [b"\xff\xff", *row[1:]], "Could not parse serialized proto"),
    (lambda row: [row[2], *row[1:]], "index matrix"),
    (lambda row: [row[0], row[0], row[2]], "values vector"),
    (lambda row: [row[0], row[2], row[2]], "Requested SparseTensor of type float but SparseTensor.0..values.dtype"),
    (lambda row: [*row[:2], row[1]], "shape vector"),
])
def test_bad_messages_are_refused(change, text):
    row = tf.io.serialize_sparse(two_rows()).numpy().tolist()
    with pytest.raises(tf.errors.InvalidArgumentError, match=text):
        get("DeserializeSparse")(np.array(change(row), object), dtype=tf.float32)


@pytest.mark.parametrize("content", [b"\x05ab", b"\x80", b"\x01", b"\xff" * 12])
def test_content_of_strings_is_measured(content):
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    message = TensorProto(dtype=7, tensor_content=content)
    message.tensor_shape.dim.add(size=1)
    with pytest.raises(ValueError, match="TensorProto of"):
        decode(message)


def test_ranks_must_agree():
    flat = tf.io.serialize_sparse(tf.SparseTensor([[0]], [1.0], [2]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="rank of SparseTensor.1. is: 1"):
        tf.io.deserialize_many_sparse(tf.stack([tf.io.serialize_sparse(two_rows()), flat]), tf.float32)
