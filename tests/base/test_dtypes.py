"""Element types: one object per type, conversions, limits."""

import copy
import pickle

import ml_dtypes
import numpy as np
import pytest
import torch

from penstock._src.base import dtypes

ALL = [dtypes.DType(enum) for enum in dtypes._TYPE_TO_STRING]
PLAIN = [d for d in ALL if not d._is_ref_dtype]


@pytest.mark.parametrize("dtype", ALL, ids=lambda d: d.name)
def test_one_object_per_type(dtype):
    assert dtypes.as_dtype(dtype.name) is dtype
    assert dtypes.as_dtype(dtype.as_datatype_enum) is dtype
    assert pickle.loads(pickle.dumps(dtype)) is dtype
    assert copy.deepcopy(dtype) is dtype


def test_enum_is_the_wire_formats():
    from tensorboard.compat.proto import types_pb2

    wire = {v: n for n, v in types_pb2.DataType.items() if v}
    assert set(wire) == {d.enum for d in ALL}
    for dtype in ALL:
        name = wire[dtype.enum].removeprefix("DT_").lower()
        assert dtypes.as_dtype(name) is dtype


@pytest.mark.parametrize("dtype", PLAIN, ids=lambda d: d.name)
def test_reference_twin(dtype):
    ref = dtype._as_ref
    assert ref.enum == dtype.enum + 100 and ref.base_dtype is dtype and ref._as_ref is ref
    assert ref is getattr(dtypes, dtype.name + "_ref")
    assert dtype.is_compatible_with(ref) and not ref.is_compatible_with(dtype)
    assert (ref.torch, ref.np, ref.is_floating) == (dtype.torch, dtype.np, dtype.is_floating)
    assert ref != dtype


@pytest.mark.parametrize("dtype", PLAIN, ids=lambda d: d.name)
def test_numpy_round_trip(dtype):
    if not dtype.is_numpy_compatible:
        with pytest.raises(TypeError):
            _ = dtype.as_numpy_dtype
        return
    assert np.empty((1, 2), dtype.as_numpy_dtype).itemsize == dtype.size
    assert dtypes.as_dtype(dtype.as_numpy_dtype) is dtype
    assert dtypes.as_dtype(np.dtype(dtype.as_numpy_dtype)) is dtype


@pytest.mark.parametrize("dtype", [d for d in PLAIN if d.torch is not None], ids=lambda d: d.name)
def test_torch_holds_the_same_bytes(dtype):
    assert torch.empty(1, dtype=dtype.torch).element_size() == dtype.size
    if not dtype.is_quantized:
        assert dtypes.from_torch(dtype.torch) is dtype
        assert dtypes.as_dtype(dtype.torch) is dtype


def test_strings_have_no_torch_type():
    assert dtypes.string.torch is None and dtypes.resource.torch is None
    with pytest.raises(TypeError):
        dtypes.from_torch(torch.quint4x2)


def test_aliases():
    for name, dtype in dict(half=dtypes.float16, float=dtypes.float32, double=dtypes.float64).items():
        assert dtypes.as_dtype(name) is dtype
        assert dtypes.as_dtype(name + "_ref") is dtype._as_ref
    assert dtypes.half is dtypes.float16 and dtypes.double is dtypes.float64


def test_python_and_numpy_types():
    assert dtypes.as_dtype(float) is dtypes.float32
    assert dtypes.as_dtype(bool) is dtypes.bool
    assert dtypes.as_dtype(object) is dtypes.string
    assert dtypes.as_dtype(np.array(["a", "bc"]).dtype) is dtypes.string
    assert dtypes.as_dtype(np.array([b"a"]).dtype) is dtypes.string
    assert dtypes.as_dtype(np.longlong) is dtypes.int64
    assert dtypes.as_dtype(np.dtype("ulonglong")) is dtypes.uint64
    assert dtypes.as_dtype(ml_dtypes.bfloat16) is dtypes.bfloat16


NO_TYPES = [
    int, 0, 99, "not_a_type", None, (dtypes.int32, dtypes.float32), [1], 2.1,
    np.dtype([("a", np.int32), ("b", np.int32)]), np.dtype("M8[s]"),
]  # fmt: skip


@pytest.mark.parametrize("bad", NO_TYPES, ids=str)
def test_what_is_no_type(bad):
    with pytest.raises(TypeError, match="Cannot convert value"):
        dtypes.as_dtype(bad)
    assert dtypes.float32 != bad


def test_invalid_enum():
    with pytest.raises(TypeError, match="not a valid types_pb2.DataType"):
        dtypes.DType(0)


def test_equality_with_what_names_a_type():
    assert dtypes.float32 == np.float32 and dtypes.float32 == "float32" and dtypes.float32 == torch.float32
    assert dtypes.float32 != np.float64
    assert len({dtypes.float32, dtypes.as_dtype("float")}) == 1


def names(predicate):
    return {d.name for d in PLAIN if predicate(d) and d.enum < 24}


def test_families():
    assert names(lambda d: d.is_floating) == {"float16", "bfloat16", "float32", "float64"}
    assert names(lambda d: d.is_complex) == {"complex64", "complex128"}
    assert names(lambda d: d.is_unsigned) == {"uint8", "uint16", "uint32", "uint64"}
    assert names(lambda d: d.is_integer and not d.is_unsigned) == {"int8", "int16", "int32", "int64"}
    assert names(lambda d: d.is_quantized) == {"qint8", "quint8", "qint16", "quint16", "qint32"}
    assert names(lambda d: d.is_bool) == {"bool"}
    assert names(lambda d: not d.is_numpy_compatible) == {"resource", "variant"}
    assert {d.base_dtype for d in dtypes.QUANTIZED_DTYPES} == {d for d in PLAIN if d.is_quantized}


def test_real_dtype():
    assert dtypes.complex64.real_dtype is dtypes.float32
    assert dtypes.complex128.real_dtype is dtypes.float64
    assert dtypes.int8.real_dtype is dtypes.int8


def test_min_max():
    assert (dtypes.int16.min, dtypes.int16.max) == (-(2**15), 2**15 - 1)
    assert (dtypes.uint64.min, dtypes.uint64.max) == (0, 2**64 - 1)
    assert dtypes.float32.max == np.finfo(np.float32).max
    assert dtypes.float32.min == np.finfo(np.float32).min
    assert dtypes.bfloat16.max == float.fromhex("0x1.FEp127")
    assert (dtypes.int4.min, dtypes.int4.max) == (-8, 7)
    for dtype in (dtypes.bool, dtypes.string, dtypes.complex64, dtypes.qint8, dtypes.resource):
        with pytest.raises(TypeError, match="Cannot find minimum value"):
            _ = dtype.min
        with pytest.raises(TypeError, match="Cannot find maximum value"):
            _ = dtype.max


def test_image_limits():
    assert dtypes.uint8.limits == (0, 255)
    assert dtypes.int16.limits == (0, 32767)
    assert dtypes.float32.limits == (0, 1)
    with pytest.raises(ValueError, match="does not have defined limits"):
        _ = dtypes.string.limits


def test_text():
    assert repr(dtypes.float32) == "tf.float32"
    assert str(dtypes.float32) == "<dtype: 'float32'>"
    assert int(dtypes.float32) == 1
