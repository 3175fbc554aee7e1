"""Python values to arrays, arrays to TensorProto and back."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tensorboard.compat.proto.tensor_pb2 import TensorProto

import penstock
from penstock._src.base import dtypes
from penstock._src.base.static_shape import Dimension, TensorShape
from penstock._src.graph.tensor_proto import array_of, decode, make_ndarray, make_tensor_proto

NUMERIC = [d for d in (
    dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64, dtypes.int8, dtypes.int16, dtypes.int32,
    dtypes.int64, dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64, dtypes.bool, dtypes.complex64,
    dtypes.complex128, dtypes.qint8, dtypes.quint8, dtypes.qint16, dtypes.quint16, dtypes.qint32,
    dtypes.float8_e5m2, dtypes.float8_e4m3fn, dtypes.int4, dtypes.uint4)]


@pytest.mark.parametrize("value, dtype, shape", [
    (1, dtypes.int32, ()),
    (2**40, dtypes.int64, ()),
    (2**63, dtypes.uint64, ()),
    (1.5, dtypes.float32, ()),
    (True, dtypes.bool, ()),
    (1j, dtypes.complex128, ()),
    ("a", dtypes.string, ()),
    ([], dtypes.float32, (0,)),
    ([[1], [2]], dtypes.int32, (2, 1)),
    ([1, 2.5], dtypes.float32, (2,)),
    ([True, False], dtypes.bool, (2,)),
    (range(3), dtypes.int32, (3,)),
    (np.float64(1), dtypes.float64, ()),
    (np.array([1, 2]), dtypes.int64, (2,)),
    (np.array(["a", "b"]), dtypes.string, (2,)),
    ([np.array([1.0, 2.0])], dtypes.float64, (1, 2)),
    ([Dimension(3), 2], dtypes.int32, (2,)),
    (TensorShape([3, 2]), dtypes.int32, (2,)),
    (bytearray(b"ab"), dtypes.uint8, (2,)),
    (np.array(1, ml_dtypes.bfloat16), dtypes.bfloat16, ()),
])
def test_a_value_has_the_type_that_tensorflow_gives_it(value, dtype, shape):
    array, found = array_of(value)
    assert found is dtype
    assert array.shape == shape
    assert array.dtype == (object if dtype is dtypes.string else np.dtype(dtype.np))


@pytest.mark.parametrize("value, dtype, expected", [
    (1, dtypes.float32, np.float32(1)),
    ([1, 2], dtypes.complex64, np.array([1, 2], np.complex64)),
    (True, dtypes.int32, np.int32(1)),
    ([], dtypes.string, np.empty(0, object)),
    (np.array([1.5]), dtypes.int32, np.array([1], np.int32)),
    (np.array([1, 2], object), dtypes.int64, np.array([1, 2])),
    (1.5, dtypes.bfloat16, ml_dtypes.bfloat16(1.5)),
    ([(21,), (22,)], dtypes.qint32, np.array([21, 22], np.int32)),
    ([21, 22], dtypes.quint8, np.array([21, 22], np.uint8)),
])
def test_a_value_becomes_the_type_that_is_asked_for(value, dtype, expected):
    array, found = array_of(value, dtype)
    assert found is dtype
    assert array.dtype == expected.dtype
    np.testing.assert_array_equal(array, expected)


@pytest.mark.parametrize("value, dtype, text", [
    (1.5, dtypes.int32, "Expected int32, got 1.5 of type 'float' instead."),
    ([1, 2.5], dtypes.int64, "Expected int64, got 2.5 of type 'float' instead."),
    ("a", dtypes.float32, "Expected float32, got 'a' of type 'str' instead."),
    (1, dtypes.string, "Expected string, got 1 of type 'int' instead."),
    (1, dtypes.bool, "Expected bool, got 1 of type 'int' instead."),
    (1j, dtypes.float32, "Expected float32, got 1j of type 'complex' instead."),
    ([1, "a"], None, "Failed to convert object of type <class 'list'> to Tensor"),
    ({}, None, "Failed to convert object of type <class 'dict'> to Tensor"),
    ([None], None, "Failed to convert object"),
    (np.array([1]), dtypes.string, "Expected binary or unicode string"),
])
def test_a_surprising_conversion_is_a_type_error(value, dtype, text):
    with pytest.raises(TypeError) as e:
        array_of(value, dtype)
    assert text in str(e.value)


@pytest.mark.parametrize("value", [[[1, 2], [3]], [["a"], ["b", "c"]], [1, [2]], ["a", ["b"]]])
def test_ragged_nesting_is_refused(value):
    with pytest.raises(ValueError, match="must be a dense tensor"):
        array_of(value)


def test_none_is_refused():
    with pytest.raises(ValueError, match="None values not supported."):
        array_of(None)


def test_an_integer_beyond_64_bits_is_refused():
    with pytest.raises(ValueError, match="out-of-range integer"):
        array_of([2**72])


@pytest.mark.parametrize("value", [10**310, [1, 10**310]])
def test_an_integer_above_all_floats_is_refused(value):
    with pytest.raises(ValueError, match="out-of-range integer"):
        penstock.constant(value, penstock.float64)


def test_sequence_with_a_false_length_beside_numbers():
    class Bad(list):
        def __len__(self):
            return -1
    with pytest.raises(ValueError, match="mixed types"):
        penstock.constant([1, 2, Bad([1, 2, 3])])


def test_strings_keep_their_trailing_nuls():
    array, _ = array_of([["a\0", b"\xff\0\0"]])
    assert array.tolist() == [[b"a\0", b"\xff\0\0"]]


# Bytes that TensorFlow 2.21 writes for the same values.
@pytest.mark.parametrize("value, dtype, expected", [
    ([[1, 2], [3, 4]], None, "080312081202080212020802221001000000020000000300000004000000"),
    (1.5, None, "080112002a040000c03f"),
    (True, None, "080a12005a0101"),
    (["a", "b"], None, "0807120412020802420161420162"),
    (1 + 2j, dtypes.complex64, "080812004a080000803f00000040"),
])
def test_a_message_is_tensorflows_byte_for_byte(value, dtype, expected):
    assert make_tensor_proto(value, dtype).SerializeToString(deterministic=True).hex() == expected


def test_both_forms_of_half_precision_are_read():
    raw = make_tensor_proto(np.array([1, 2], np.float16))
    assert raw == TensorProto.FromString(bytes.fromhex("08131204120208022204003c0040"))      # TensorFlow 2.21's
    listed = TensorProto(dtype=19, half_val=[0x3C00, 0x4000], tensor_shape=raw.tensor_shape)
    np.testing.assert_array_equal(make_ndarray(raw), np.array([1, 2], np.float16))
    np.testing.assert_array_equal(make_ndarray(listed), np.array([1, 2], np.float16))


@pytest.mark.parametrize("dtype", NUMERIC, ids=lambda d: d.name)
@pytest.mark.parametrize("shape", [(), (1,), (2, 3), (0, 2)], ids=str)
def test_every_type_comes_back(dtype, shape):
    values = np.arange(int(np.prod(shape))).reshape(shape) % 2
    array, _ = array_of(values, dtype)
    back, found = decode(make_tensor_proto(array, dtype))
    assert found is dtype
    assert back.dtype == array.dtype and back.shape == shape
    np.testing.assert_array_equal(back, array)


def test_make_ndarray_gives_quantized_types_their_numpy_type():
    array = make_ndarray(make_tensor_proto([(1,), (2,)], dtypes.qint8))
    assert array.dtype == dtypes.qint8.as_numpy_dtype
    assert array["qint8"].tolist() == [1, 2]


@given(hnp.arrays(hnp.scalar_dtypes().filter(lambda d: d.kind in "fiubc" and d.itemsize <= 16 and d.name in (
    "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool",
    "complex64", "complex128")), hnp.array_shapes(min_dims=0, min_side=0, max_side=4)))
def test_any_numeric_array_comes_back(array):
    back = make_ndarray(make_tensor_proto(array))
    assert back.shape == array.shape and back.dtype == array.dtype.newbyteorder("=")
    np.testing.assert_array_equal(back, array)


@given(st.lists(st.binary(max_size=5), max_size=5))
def test_any_list_of_bytes_comes_back(strings):
    assert make_ndarray(make_tensor_proto(strings, dtypes.string)).tolist() == strings


def test_the_last_value_fills_the_shape():
    assert make_ndarray(make_tensor_proto([1, 2], shape=[2, 2])).tolist() == [[1, 2], [2, 2]]
    assert make_ndarray(make_tensor_proto("a", shape=[2])).tolist() == [b"a", b"a"]
    empty = TensorProto(dtype=dtypes.float32.enum, tensor_shape=TensorShape([2]).as_proto())
    assert make_ndarray(empty).tolist() == [0.0, 0.0]


def test_a_shape_is_held_against_the_values():
    with pytest.raises(ValueError, match="Too many elements provided. Needed at most 2, but received 3"):
        make_tensor_proto([1, 2, 3], shape=[2])
    with pytest.raises(TypeError, match=r"Expected Tensor's shape: \(3, 1\), got \(3,\)"):
        make_tensor_proto([1, 2, 3], shape=[3, 1], verify_shape=True)
    with pytest.raises(TypeError, match="Expected Tensor's shape"):
        make_tensor_proto([1, 2, 3], shape=[6], allow_broadcast=True)


def test_a_message_with_the_wrong_amount_of_content_is_refused():
    proto = make_tensor_proto([1, 2, 3])
    proto.tensor_shape.dim[0].size = 1 << 40
    with pytest.raises(ValueError, match="needs 4398046511104 bytes of content, but has 12"):
        make_ndarray(proto)
    proto.tensor_shape.dim[0].size = -1
    with pytest.raises(ValueError, match="fully known shape"):
        make_ndarray(proto)


def test_a_huge_fill_is_refused_before_memory_is_taken():
    proto = make_tensor_proto(1.0)
    for _ in range(3):
        proto.tensor_shape.dim.add(size=1 << 20)
    with pytest.raises(ValueError, match="filling it up would take"):
        make_ndarray(proto)


def test_more_values_than_the_shape_has_room_for_are_refused():
    proto = TensorProto(dtype=dtypes.int32.enum, int_val=[1, 2])
    with pytest.raises(ValueError, match="2 values for 1 elements"):
        make_ndarray(proto)
    with pytest.raises(ValueError, match="real part without"):
        make_ndarray(TensorProto(dtype=dtypes.complex64.enum, scomplex_val=[1.0]))


def test_resources_have_no_arrays():
    with pytest.raises(TypeError, match="Unsupported tensor type: resource"):
        make_ndarray(TensorProto(dtype=dtypes.resource.enum))


def test_a_variant_stays_the_message_it_came_in():
    proto = TensorProto(dtype=dtypes.variant.enum, tensor_shape=TensorShape([]).as_proto())
    proto.variant_val.add(type_name="int", metadata=b"\1\0\0\0")
    array, found = array_of(proto)
    assert found is dtypes.variant and array.shape == ()
    assert make_tensor_proto(array, dtypes.variant) == proto


def test_what_is_no_rectangle():
    for value in ([1, [2]], [[1, 2], [3, [4]]]):
        with pytest.raises(ValueError, match="mixed types"):
            array_of(value)
    with pytest.raises(ValueError, match="non-rectangular"):
        array_of([[1], [2, 3]])


@pytest.mark.parametrize("array, dtype, want", [
    (np.array(["1", "2"]), dtypes.int32, [1, 2]), (np.array([b"1", b"2.5"]), dtypes.float32, [1, 2.5]),
    (np.array(["1", 2], object), dtypes.int64, [1, 2]), (np.array(["1.5"]), dtypes.bfloat16, [1.5])])
def test_arrays_of_text_are_parsed(array, dtype, want):
    got, found = array_of(array, dtype)
    assert found is dtype and got.dtype == np.dtype(dtype.np) and got.tolist() == want
    with pytest.raises(ValueError, match="x"):
        array_of(np.array(["x"]), dtype)


@pytest.mark.parametrize("value, eager, graph", [
    ([np.uint8(1)], "int32", "uint8"), ([np.int16(1), 2], "int32", "int32"), ([np.int64(1)], "int32", "int32"),
    ([np.uint64(1)], "int32", "uint64"), ([np.int64(2**40)], "int64", "int64"), ([np.float64(1), 2.0], "float64", "float32"),
    ([2.0, np.float64(1)], "float32", "float32"), ([1, np.float64(2)], "float32", "float32"),
    ([np.float16(1), 2.0], "float16", "float32"), ([np.complex64(1)], "complex128", "complex64"),
    ([np.array(1.0)], "float64", "float32"), ([np.array([1, 2])], "int32", "int64"),
    ([np.array([1]), np.array([2.0])], "float32", "float64"), ([np.array(["a"])], "string", "string"),
    ([np.array([], np.int64)], "float32", "int64"), ([np.bool_(1)], "bool", "bool")])
def test_types_of_sequences_of_numpy_values(value, eager, graph):
    """Recorded from TensorFlow 2.21, which in graphs refuses sequences of arrays."""
    assert array_of(value, eager=True)[1].name == eager
    assert array_of(value)[1].name == graph


def test_known_parts_of_a_stack():
    import penstock.compat.v1 as tf1
    with tf1.Graph().as_default():
        known, unknown = np.arange(6.).reshape(2, 3), tf1.placeholder(tf1.float64, [2, 3])
        stack = tf1.stack([known, unknown])
        assert tf1.get_static_value(stack) is None
        first, second = tf1.get_static_value(stack, partial=True)
        np.testing.assert_array_equal(first, known)
        assert second is None
        parts = [tf1.get_static_value(x, partial=True) for x in tf1.unstack(stack)]
        np.testing.assert_array_equal(parts[0], known)
        assert parts[1] is None
        halves = [tf1.get_static_value(x, partial=True) for x in tf1.split(stack, 2)]
        np.testing.assert_array_equal(halves[0][0], known)
        assert halves[1][0] is None and tf1.get_static_value(tf1.stack([known, unknown], axis=1), partial=True) is None


@pytest.mark.parametrize("value", [[1, "a"], ["a", 1], (1, 7, "a"), [1.5, None], [[1, 2], ["a", "b"]]])
def test_eager_sequence_of_several_kinds(value):
    with pytest.raises(ValueError, match="Can't convert Python sequence with mixed types to Tensor"):
        penstock.constant(value)
    with penstock.Graph().as_default(), pytest.raises(TypeError):
        penstock.constant(value)
