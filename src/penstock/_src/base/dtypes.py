"""The element types of tensors.

A `DType` is one row of the table below: its number in the `DataType` enum of the wire formats, its name,
and the numpy and torch types that hold its elements. Everything else (is it floating, what are its limits)
follows from the row. There is exactly one object per type, so equality is identity and hot paths read plain
attributes (`.torch`, `.np`, `.enum`) without a call. Each type has a reference twin, whose number is 100
higher: the type of an edge that carries a variable instead of a value.

This is the lowest module: it depends on torch, numpy and `ml_dtypes` only.
"""

import builtins
from typing import Any

import ml_dtypes
import numpy as np
import torch as _torch

from penstock._src.base.api import export

_REF = 100

_BY_ENUM: dict[int, "DType"] = {}
_BY_NAME: dict[str, "DType"] = {}
_BY_NUMPY: dict[Any, "DType"] = {}
_BY_TORCH: dict[_torch.dtype, "DType"] = {}
_ANY: dict[Any, "DType"] = {}

# The values of `DType.limits`: images have floats in [0, 1], integers in their whole non-negative range.
_FLOAT_WITH_LIMITS = (np.float32, np.float64)


@export("DType", "dtypes.DType")
class DType:
    """The type of the elements of a tensor, such as `tf.float32`.

    `DType(enum)` and `tf.as_dtype(x)` both return the one object that represents the type:

        tf.as_dtype("float32") is tf.float32
    """

    __slots__ = (
        "enum", "name", "np", "torch", "base_dtype", "is_floating", "is_integer", "is_complex", "is_bool",
        "is_quantized", "is_unsigned", "is_numpy_compatible", "_is_ref_dtype", "size", "_twin", "__weakref__",
    )  # fmt: skip

    enum: int  # the number in `DataType`
    name: str
    np: Any  # the numpy type that holds elements, None for handles
    torch: _torch.dtype | None  # the torch type that holds elements, None if torch has none
    base_dtype: "DType"  # the type of the value that a reference refers to; itself, if it is no reference
    is_floating: builtins.bool
    is_integer: builtins.bool  # quantized types are not integers
    is_complex: builtins.bool
    is_bool: builtins.bool
    is_quantized: builtins.bool
    is_unsigned: builtins.bool
    is_numpy_compatible: builtins.bool  # False for handles
    _is_ref_dtype: builtins.bool
    size: int  # bytes of one element
    _twin: "DType"

    @property
    def is_numeric(self) -> builtins.bool:
        """Whether it is a number: real, complex or quantized; not a boolean, a string or a handle."""
        return self.is_floating or self.is_integer or self.is_complex or self.is_quantized

    def __new__(cls, type_enum: builtins.int) -> "DType":
        found = _BY_ENUM.get(int(type_enum))
        if found is None:
            raise TypeError(f"type_enum is not a valid types_pb2.DataType: {type_enum}")
        return found

    @classmethod
    def _make(cls, enum: int, name: str, np_type: Any, torch_type: _torch.dtype | None, kind: str,
              base: "DType | None") -> "DType":
        """Build and intern the row; `kind` is one letter, as the table at the end of the class explains."""
        self = object.__new__(cls)
        self.enum = enum
        self.name = name
        self.np = np_type
        self.torch = torch_type
        self.base_dtype = self if base is None else base
        self.is_floating = kind == "f"
        self.is_integer = kind in "iu"
        self.is_complex = kind == "c"
        self.is_bool = kind == "b"
        self.is_quantized = kind == "q"
        self.is_unsigned = kind == "u"
        self.is_numpy_compatible = kind != "o"
        self._is_ref_dtype = base is not None
        self.size = 1 if kind == "o" else np.dtype(np_type).itemsize
        self._twin = self
        _BY_ENUM[enum] = self
        _BY_NAME[name] = self
        return self

    @property
    def _as_ref(self) -> "DType":
        """The reference type of this type (itself, if it is one)."""
        return self._twin

    @property
    def as_datatype_enum(self) -> int:
        """The number of this type in `DataType`."""
        return self.enum

    @property
    def as_numpy_dtype(self) -> Any:
        """The numpy type that holds elements of this type.

        Raises:
          TypeError: for handles (`resource`, `variant`), which numpy cannot hold.
        """
        if self.np is None:
            raise TypeError(f"There is no numpy type for {self}.")
        return self.np

    @property
    def real_dtype(self) -> "DType":
        """The type of the real part: `float32` for `complex64`, the type itself for all real types."""
        if not self.is_complex:
            return self
        return float32 if self.base_dtype is complex64 else float64

    @property
    def min(self) -> Any:
        """The smallest finite value.

        Raises:
          TypeError: if the type has no order or no fixed scale.
        """
        return self._info("minimum").min

    @property
    def max(self) -> Any:
        """The largest finite value.

        Raises:
          TypeError: if the type has no order or no fixed scale.
        """
        return self._info("maximum").max

    def _info(self, which: str) -> Any:
        if self.is_floating:
            return ml_dtypes.finfo(self.np)
        if self.is_integer:
            return ml_dtypes.iinfo(self.np)
        raise TypeError(f"Cannot find {which} value of {self}.")

    @property
    def limits(self) -> tuple[builtins.int, builtins.int]:
        """The range `(0, top)` of pixel values in an image of this type.

        Raises:
          ValueError: if images cannot have this type.
        """
        if self.np in _FLOAT_WITH_LIMITS:
            return 0, 1
        if self.is_bool:
            return 0, True
        if self.is_integer:
            return 0, builtins.int(self.max)
        raise ValueError(f"{self} does not have defined limits.")

    def is_compatible_with(self, other: Any) -> builtins.bool:
        """Whether a tensor of type `other` may be used where this type is requested.

        A reference may be read as a value, so `tf.float32` is compatible with `float32_ref`, not the reverse.
        """
        other = as_dtype(other)
        return self is other or self is other.base_dtype

    def is_subtype_of(self, other: Any) -> builtins.bool:
        """Whether it is the same type: types of elements are not subtypes of each other."""
        return self == other

    def most_specific_common_supertype(self, types: Any) -> Any:
        """This type if all others equal it, else None."""
        return self if all(self == t for t in types) else None

    def __eq__(self, other: object) -> builtins.bool:
        if self is other:
            return True
        if other is None or isinstance(other, DType):
            return False
        try:
            return self is as_dtype(other)
        except TypeError:
            return False

    def __ne__(self, other: object) -> builtins.bool:
        return not self == other

    def __hash__(self) -> int:
        return self.enum

    def __int__(self) -> int:
        return self.enum

    def __str__(self) -> str:
        return f"<dtype: {self.name!r}>"

    def __repr__(self) -> str:
        return "tf." + self.name

    def __reduce__(self) -> tuple:
        return as_dtype, (self.name,)

    def __copy__(self) -> "DType":
        return self

    def __deepcopy__(self, memo: dict[builtins.int, Any]) -> "DType":
        return self


def _define(enum: int, name: str, np_type: Any, torch_type: _torch.dtype | None, kind: str, *, alias: str | None = None,
            public: builtins.bool = True) -> DType:  # fmt: skip
    """Add one row, and its reference twin, to the table.

    `kind`: f floating, i signed, u unsigned, c complex, b bool, q quantized, s string, o opaque handle.
    """
    dtype = DType._make(enum, name, np_type, torch_type, kind, None)
    twin = DType._make(enum + _REF, name + "_ref", np_type, torch_type, kind, dtype)
    dtype._twin = twin
    globals()[name + "_ref"] = twin
    if alias is not None:
        _BY_NAME[alias] = dtype
        _BY_NAME[alias + "_ref"] = twin
    if np_type is not None:
        _BY_NUMPY[np_type] = dtype
    if torch_type is not None:
        _BY_TORCH.setdefault(torch_type, dtype)
    if public:
        export.value(dtype, name, "dtypes." + name)
    else:
        export.value(dtype, "experimental." + name, "dtypes.experimental." + name)
    return dtype


def _struct(name: str, np_type: Any) -> np.dtype:
    """The numpy type of a quantized type: one named field, which distinguishes it from the plain integer."""
    return np.dtype([(name, np_type)])


float32 = _define(1, "float32", np.float32, _torch.float32, "f", alias="float")
float64 = _define(2, "float64", np.float64, _torch.float64, "f", alias="double")
int32 = _define(3, "int32", np.int32, _torch.int32, "i")
uint8 = _define(4, "uint8", np.uint8, _torch.uint8, "u")
int16 = _define(5, "int16", np.int16, _torch.int16, "i")
int8 = _define(6, "int8", np.int8, _torch.int8, "i")
string = _define(7, "string", np.object_, None, "s")
complex64 = _define(8, "complex64", np.complex64, _torch.complex64, "c")
int64 = _define(9, "int64", np.int64, _torch.int64, "i")
bool = _define(10, "bool", np.bool_, _torch.bool, "b")
qint8 = _define(11, "qint8", _struct("qint8", np.int8), _torch.int8, "q")
quint8 = _define(12, "quint8", _struct("quint8", np.uint8), _torch.uint8, "q")
qint32 = _define(13, "qint32", _struct("qint32", np.int32), _torch.int32, "q")
bfloat16 = _define(14, "bfloat16", ml_dtypes.bfloat16, _torch.bfloat16, "f")
qint16 = _define(15, "qint16", _struct("qint16", np.int16), _torch.int16, "q")
uint16 = _define(17, "uint16", np.uint16, _torch.uint16, "u")
quint16 = _define(16, "quint16", _struct("quint16", np.uint16), _torch.uint16, "q")
complex128 = _define(18, "complex128", np.complex128, _torch.complex128, "c")
float16 = _define(19, "float16", np.float16, _torch.float16, "f", alias="half")
resource = _define(20, "resource", None, None, "o")
variant = _define(21, "variant", None, None, "o")
uint32 = _define(22, "uint32", np.uint32, _torch.uint32, "u")
uint64 = _define(23, "uint64", np.uint64, _torch.uint64, "u")
float8_e5m2 = _define(24, "float8_e5m2", ml_dtypes.float8_e5m2, _torch.float8_e5m2, "f", public=False)
float8_e4m3fn = _define(25, "float8_e4m3fn", ml_dtypes.float8_e4m3fn, _torch.float8_e4m3fn, "f", public=False)
float8_e4m3fnuz = _define(
    26, "float8_e4m3fnuz", ml_dtypes.float8_e4m3fnuz, _torch.float8_e4m3fnuz, "f", public=False
)
float8_e4m3b11fnuz = _define(
    27, "float8_e4m3b11fnuz", ml_dtypes.float8_e4m3b11fnuz, None, "f", public=False
)
float8_e5m2fnuz = _define(
    28, "float8_e5m2fnuz", ml_dtypes.float8_e5m2fnuz, _torch.float8_e5m2fnuz, "f", public=False
)
int4 = _define(29, "int4", ml_dtypes.int4, None, "i", public=False)
uint4 = _define(30, "uint4", ml_dtypes.uint4, None, "u", public=False)
int2 = _define(31, "int2", ml_dtypes.int2, None, "i", public=False)
uint2 = _define(32, "uint2", ml_dtypes.uint2, None, "u", public=False)
float4_e2m1fn = _define(33, "float4_e2m1fn", ml_dtypes.float4_e2m1fn, None, "f", public=False)

half = float16
double = float64
half_ref = float16._as_ref
double_ref = float64._as_ref
export.value(half, "half", "dtypes.half")
export.value(double, "double", "dtypes.double")

# The structured numpy type under which resource handles are fed.
np_resource = np.dtype([("resource", np.ubyte)])

QUANTIZED_DTYPES = frozenset(d for d in _BY_ENUM.values() if d.is_quantized)
export.value(QUANTIZED_DTYPES, "dtypes.QUANTIZED_DTYPES", v1=["QUANTIZED_DTYPES"])

_TYPE_TO_STRING = {enum: dtype.name for enum, dtype in _BY_ENUM.items()}

_BY_NUMPY[np.str_] = _BY_NUMPY[np.bytes_] = string
for _platform in map(np.dtype, (np.intc, np.uintc, np.int_, np.uint, np.longlong, np.ulonglong)):
    _BY_NUMPY.setdefault(_platform.type, _BY_NUMPY[np.dtype(f"{_platform.kind}{_platform.itemsize}").type])

_ANY.update(_BY_ENUM)
_ANY.update(_BY_NAME)
_ANY.update(_BY_NUMPY)
_ANY.update(_BY_TORCH)
_ANY.update({builtins.float: float32, builtins.bool: bool, builtins.object: string})


@export("as_dtype", "dtypes.as_dtype")
def as_dtype(type_value: Any) -> DType:
    """The `DType` that `type_value` names.

    Accepts a `DType`, a number of the `DataType` enum, a name (`"float32"`, `"half"`, `"int32_ref"`), a numpy
    type or dtype, a torch dtype, and Python's `float`, `bool` and `object`. Python's `int` has no one width:
    it is rejected.

        tf.as_dtype(np.int32) is tf.int32

    Raises:
      TypeError: if nothing of that name is known.
    """
    if isinstance(type_value, DType):
        return type_value
    if isinstance(type_value, np.dtype):
        found = _BY_NUMPY.get(type_value.type)
        if found is not None:
            return found
    try:
        return _ANY[type_value]
    except (KeyError, TypeError):
        raise TypeError(f"Cannot convert value {type_value!r} to a TensorFlow DType.") from None


_RUNTIME_NAMES = {"float32": "float", "float64": "double", "float16": "half"}


def runtime_name(dtype: DType) -> str:
    """The name of a type as TensorFlow's run-time messages have it: `float` for `float32`."""
    base = dtype.base_dtype.name
    return _RUNTIME_NAMES.get(base, base) + ("_ref" if dtype._is_ref_dtype else "")


def from_torch(torch_dtype: _torch.dtype) -> DType:
    """The `DType` whose elements torch holds as `torch_dtype` (never a quantized one: torch holds integers).

    Raises:
      TypeError: if no type corresponds.
    """
    try:
        return _BY_TORCH[torch_dtype]
    except KeyError:
        raise TypeError(f"Cannot convert torch type {torch_dtype} to a TensorFlow DType.") from None


def exact_cast(array: np.ndarray, wanted: Any) -> np.ndarray:
    """An array in another numpy type. Integers that have more bits than the type are a ValueError.

    The bits of a type may be given as signed or as unsigned integers, as programs for TensorFlow do: 0xFFFFFFFF is -1 as
    int32, and -1 is 255 as uint8.
    """
    wanted = np.dtype(wanted)
    both = array.dtype.kind in "iu" and wanted.kind in "iu"
    if both and array.size and not np.can_cast(array.dtype, wanted):
        low, high, bits = int(array.min()), int(array.max()), 8 * wanted.itemsize
        if low < -2 ** (bits - 1) or high >= 2 ** bits:
            raise out_of_range(low if low < -2 ** (bits - 1) else high, wanted)
    return array.astype(wanted)


def integers(values: Any) -> np.ndarray:
    """Python integers as int32, or as int64 where one needs it."""
    limits = np.iinfo(np.int64)
    for v in values:
        if not limits.min <= v <= limits.max:
            raise out_of_range(v, "int64")
    return np.array(values, np.int32 if all(-2**31 <= v < 2**31 for v in values) else np.int64)


def out_of_range(value: Any, wanted: Any) -> ValueError:
    """The error for an integer that a type cannot hold."""
    return ValueError(f"Can't convert Python sequence with out-of-range integer to Tensor: {value} does not fit in {wanted}. "
                      "Use a wider type, or tf.cast a tensor of one if it should wrap around.")
