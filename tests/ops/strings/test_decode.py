"""Decoding: errors, limits, public functions."""
import zlib

import numpy as np
import pytest

import penstock as tf
from penstock._src.kernels import strings

v1 = tf.compat.v1
Invalid = tf.errors.InvalidArgumentError


def test_raw_lengths():
    assert tf.io.decode_raw(["", ""], tf.int32).shape == (2, 0)
    with pytest.raises(Invalid, match="same size"):
        tf.io.decode_raw(["a", "bc"], tf.uint8)
    with pytest.raises(Invalid, match="not a multiple of 4"):
        tf.io.decode_raw(["abc"], tf.float32)
    assert tf.io.decode_raw(["abc"], tf.uint8, fixed_length=2).numpy().tolist() == [[97, 98]]
    for length, words in ((3, "multiple"), (0, "greater than zero"), (-2, "greater than zero")):
        with pytest.raises(Invalid, match=words):
            tf.io.decode_raw(["abc"], tf.int16, fixed_length=length)
    with pytest.raises(tf.errors.ResourceExhaustedError):
        tf.io.decode_raw(["a", "b"], tf.uint8, fixed_length=2 ** 31 - 1)
    with pytest.raises(ValueError, match="out_type"):
        v1.decode_raw(["a"])


@pytest.mark.parametrize("record, words", [
    ('a"b', "Unquoted fields"), ("a\nb", "Unquoted fields"), ('"a', "Quoted field has to end"),
    ('"a"b"', "has to be escaped"), ("a,b", "Expect 1 fields but have 2"), ("", "Expect 1 fields but have 0"),
    (",", "Expect 1 fields but have 2")])
def test_csv_records_that_are_wrong(record, words):
    with pytest.raises(Invalid, match=words):
        tf.io.decode_csv([record], [[""]])


def test_csv_values():
    with pytest.raises(Invalid, match="Field 0 in record 1 is not a valid int32: x"):
        tf.io.decode_csv(["1", "x"], [[0]])
    with pytest.raises(Invalid, match="Field 0 is required but missing in record 0"):
        tf.io.decode_csv([",1"], [tf.constant([], tf.int32), [0]])
    with pytest.raises(Invalid, match="not in the list of allowed"):
        tf.io.decode_csv(["1"], [tf.constant([1], tf.int8)])
    a, b = tf.io.decode_csv(['1,"x ""y"", z"', "2,-"], [[0.], ["q"]], na_value="-")
    assert a.numpy().tolist() == [1., 2.] and b.numpy().tolist() == [b'x "y", z', b"q"]
    assert tf.io.decode_csv(["1,2,3"], [[0], [0]], select_cols=[0, 2])[1].numpy().tolist() == [3]
    for columns, words in (([2, 0], "strictly increasing"), ([-1, 0], "negative"), ([0], "do not match")):
        with pytest.raises(ValueError, match=words):
            tf.io.decode_csv(["1,2,3"], [[0], [0]], select_cols=columns)
    with tf.Graph().as_default(), pytest.raises(ValueError, match="length-0 or length-1"):
        tf.io.decode_csv(["1"], [[1, 2]])


@pytest.mark.parametrize("value", [np.float32(1.5), np.arange(6).reshape(2, 3), np.array([True, False]), ["a", "bc"],
                                   np.zeros([0, 3], np.float64), np.array([1 + 2j]), tf.constant([1.5], tf.bfloat16)])
def test_tensors_come_back(value):
    value = tf.constant(value)
    back = tf.io.parse_tensor(tf.io.serialize_tensor(value), value.dtype)
    assert back.dtype == value.dtype and back.shape == value.shape
    assert np.asarray(back.numpy()).tolist() == np.asarray(value.numpy()).tolist()


def test_parse_tensor_errors():
    with pytest.raises(Invalid, match="Could not parse"):
        tf.io.parse_tensor("nonsense", tf.int32)
    with pytest.raises(Invalid, match="Type mismatch"):
        tf.io.parse_tensor(tf.io.serialize_tensor([1]), tf.float32)
    huge = v1.make_tensor_proto(1)
    huge.tensor_shape.dim.add().size = 2 ** 50
    with pytest.raises(Invalid, match="Could not convert the parsed TensorProto"):
        tf.io.parse_tensor(huge.SerializeToString(), tf.int32)


def test_compressed(monkeypatch):
    data = zlib.compress(b"a" * 1000)
    assert tf.io.decode_compressed(data, "ZLIB").numpy() == b"a" * 1000
    with pytest.raises(tf.errors.DataLossError):
        tf.io.decode_compressed(data[:-4], "ZLIB")
    with pytest.raises(tf.errors.DataLossError):
        tf.io.decode_compressed("nonsense", "GZIP")
    with pytest.raises(Invalid, match="supported compressions"):
        tf.io.decode_compressed(data, "LZ4")
    monkeypatch.setattr(strings, "MAX_BYTES", 100)
    with pytest.raises(tf.errors.ResourceExhaustedError):
        tf.io.decode_compressed(data, "ZLIB")


def test_json_example():
    message = tf.io.decode_json_example('{"features": {"feature": {"a": {"int64List": {"value": [1, 2]}}}}}').numpy()
    assert list(v1.train.Example.FromString(message).features.feature["a"].int64_list.value) == [1, 2]
    with pytest.raises(Invalid, match="parsing JSON"):
        tf.io.decode_json_example("{")
