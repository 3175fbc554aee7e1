"""Python values, numpy arrays and TensorProto messages.

`array_of` is the one place that decides what a Python value means as a tensor: which element type it gets,
and which conversions are too surprising to do silently. `make_tensor_proto` and `make_ndarray` continue from
there to the wire format and back. Sizes in a message are checked before memory is allocated for them.
"""
from __future__ import annotations

import numbers
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock._src.base import dtypes, nest
from penstock._src.base.api import export
from penstock._src.base.dtypes import DType
from penstock._src.base.static_shape import Dimension, TensorShape, as_shape

if TYPE_CHECKING:
    from tensorboard.compat.proto.tensor_pb2 import TensorProto

_MAX_CONTENT = 1 << 31          # a message cannot hold more
_MAX_FILLED = 1 << 32           # the most bytes that one repeated value may expand to

# Element types whose values are written as raw bytes when there are several.
_RAW = frozenset((
    dtypes.float32, dtypes.float64, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.uint8,
    dtypes.uint32, dtypes.uint64, dtypes.qint8, dtypes.quint8, dtypes.qint16, dtypes.quint16, dtypes.qint32,
    dtypes.float16, dtypes.bfloat16, dtypes.float8_e5m2, dtypes.float8_e4m3fn, dtypes.float8_e4m3fnuz,
    dtypes.float8_e4m3b11fnuz, dtypes.float8_e5m2fnuz, dtypes.float4_e2m1fn))


# -- Python values to arrays ---------------------------------------------------------------------------------
def array_of(value: Any, dtype: DType | None = None, eager: bool = False) -> tuple[np.ndarray, DType]:
    """A numpy array and its DType from a Python value.

    Python floats become float32 and ints int32 (int64 if they need it); arrays keep their type, and so do sequences of
    arrays and of numpy's scalars, except in eager mode (`_eager_width`). With `dtype`, arrays are cast, and Python numbers
    converted if the kind allows it: an int may become a float, not the reverse. Quantized types are held as plain integers,
    strings as object arrays of bytes.

    Raises:
      TypeError: if the elements are not of a kind that `dtype` can hold.
      ValueError: if `value` is None or its nesting is not rectangular.
    """
    if value is None:
        raise ValueError("None values not supported.")
    dtype = None if dtype is None else dtype.base_dtype
    if type(value).__name__ == "TensorProto" and hasattr(value, "tensor_shape"):
        array, found = decode(value)
        return (array, found) if dtype in (None, found) else _from_array(array, dtype)
    if dtype is not None and dtype.np is None:
        if isinstance(value, np.ndarray) and value.dtype == object:
            return value, dtype
        raise TypeError(f"A Python value cannot be converted to {dtype.name}: {value!r}")
    if isinstance(value, TensorShape):
        value = value.as_list()
    if _is_array_like(value):
        return _from_array(np.asarray(value), dtype)
    leaf = _first_leaf(value)
    if isinstance(leaf, (str, bytes)) or dtype is dtypes.string:
        _check_leaves(value, dtypes.string if dtype is None else dtype)
        return _strings(value), dtypes.string
    if dtype is not None and dtype.is_quantized:
        return _quantized(value, dtype), dtype
    return _from_python(value, leaf, dtype, eager)


def _is_array_like(value: Any) -> bool:
    if isinstance(value, (np.ndarray, np.generic, bytearray, memoryview)):
        return True
    if isinstance(value, type):
        return False
    return callable(getattr(value, "__array__", None)) or hasattr(value, "__array_interface__")


def _from_array(array: np.ndarray, dtype: DType | None) -> tuple[np.ndarray, DType]:
    """Arrays: cast between numbers; strings and objects become object arrays of bytes."""
    if array.dtype.kind in "USO":
        if dtype is not None and dtype is not dtypes.string:
            return _parsed(array, dtype), dtype
        return _bytes_array(array.ravel().tolist(), array.shape), dtypes.string
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    found = dtypes.as_dtype(array.dtype)
    if found.is_quantized:
        array = array.view(_plain(found))
    if dtype is None or dtype is found:
        return array, found
    if dtype is dtypes.string:
        raise TypeError(f"Expected binary or unicode string, got {array.ravel()[:1].tolist()!r}")
    return dtypes.exact_cast(array, _plain(dtype)), dtype


def _parsed(array: np.ndarray, dtype: DType) -> np.ndarray:
    """An array of texts or objects as numbers: as in numpy, a text is parsed."""
    if array.dtype.kind == "O" and not any(isinstance(v, (str, bytes)) for v in array.flat):
        return _from_python(array.tolist(), None, dtype)[0]
    plain = np.dtype(_plain(dtype))
    return array.astype(plain) if plain.isbuiltin == 1 else array.astype(np.float64).astype(plain)


def _from_python(value: Any, leaf: Any, dtype: DType | None, eager: bool = False) -> tuple[np.ndarray, DType]:
    """Numbers in (nested) lists."""
    try:
        array = np.array(value)
    except ValueError:
        raise _ragged(value) from None
    if isinstance(leaf, int) and array.dtype.kind == "f":          # numpy makes floats of integers that no type can hold
        _check_range(value, dtype)
    if array.dtype.kind in "OUS":
        if isinstance(leaf, np.ndarray) and leaf.dtype.kind in "OUS":
            return _from_array(array, dtype)
        return _from_objects(value, dtype), dtype or dtypes.int32
    if dtype is None:
        if eager:
            array = _eager_width(array, leaf)
        elif not isinstance(leaf, np.ndarray) or not leaf.ndim:
            array = _narrowed(array)
        return array, dtypes.as_dtype(array.dtype)
    if array.size and array.dtype.kind not in _kinds(dtype):
        _check_leaves(value, dtype)
        if dtype is dtypes.uint64 and isinstance(leaf, int):       # some beyond int64, some not: they are not exact as floats
            return np.array(value, np.uint64), dtype
    if dtype is dtypes.int64 and array.dtype == np.uint64 and isinstance(leaf, int):
        raise dtypes.out_of_range(int(array.max()), "int64")       # only numpy's unsigned integers may be the bits of int64
    return dtypes.exact_cast(array, dtype.np), dtype


def _ragged(value: Any) -> ValueError:
    kind = "Python sequence with mixed types" if _mixed(value) else "non-rectangular Python sequence"
    return ValueError(f"Argument must be a dense tensor: Can't convert {kind} to Tensor "
                      f"(setting an array element with a sequence): {value!r}")


def _mixed(value: Any) -> bool:
    """Whether nested sequences mix sequences and other values at some level."""
    if not isinstance(value, (list, tuple)):
        return False
    nested = [isinstance(v, (list, tuple)) for v in value]
    return any(nested) and not all(nested) or any(map(_mixed, value))


def mixes_kinds(value: list | tuple) -> bool:
    """Whether a nested sequence has leaves of several kinds (texts, numbers, other objects), or sequences beside leaves."""
    def kind(leaf: Any) -> str:
        if isinstance(leaf, (str, bytes)):
            return "text"
        return "number" if isinstance(leaf, (int, float, complex, np.generic)) else type(leaf).__name__
    return _mixed(value) or len({kind(leaf) for leaf in nest.flatten(list(value))}) > 1


def _unsupported(value: Any) -> TypeError:
    return TypeError(f"Failed to convert object of type {type(value)} to Tensor. Contents: {value!r}. "
                     "Consider casting elements to a supported type.")


def unsupported_leaf(value: Any) -> tuple[Any] | None:
    """The first leaf of nested sequences that is no number, text or array, in a tuple."""
    plain = (bool, int, float, complex, str, bytes, np.ndarray, np.generic, Dimension)
    return next(((x,) for x in _leaves(value) if not isinstance(x, plain) and not _is_array_like(x)), None)


def _narrowed(array: np.ndarray) -> np.ndarray:
    """Python's default widths, cut to TensorFlow's."""
    if array.dtype == np.float64:
        with np.errstate(over="ignore"):
            return array.astype(np.float32)
    if array.dtype == np.int64:
        small = array.astype(np.int32)
        return small if np.array_equal(small, array) else array
    return array


def _eager_width(array: np.ndarray, leaf: Any) -> np.ndarray:
    """The width of a sequence in eager mode: integers have 32 bits if they fit, whatever numpy type they had; floats have the
    width of the first element if that is a numpy float, and 32 bits otherwise; complex numbers have 128."""
    kind = array.dtype.kind
    if not array.size:
        return array.astype(np.float32)
    if kind in "iu":
        if array.dtype == np.uint64 and int(array.max()) >= 1 << 63:
            raise dtypes.out_of_range(int(array.max()), "int64")
        wide = array.astype(np.int64, copy=False)
        small = wide.astype(np.int32)
        return small if np.array_equal(small, wide) else wide
    if kind == "f":
        first = leaf.dtype if isinstance(leaf, (np.ndarray, np.generic)) else np.dtype(np.float32)
        with np.errstate(over="ignore"):
            return array.astype(first if first.kind == "f" else np.float32, copy=False)
    return array.astype(np.complex128) if kind == "c" else array


def _from_objects(value: Any, dtype: DType | None) -> np.ndarray:
    """Lists that numpy has no number type for: Dimension objects, exotic numbers, or a mistake."""
    for x in _leaves(value):
        if isinstance(x, int) and (dtype is None or not dtype.is_bool):
            if (dtype is None or dtype.is_integer) and not _limits(dtype)[0] <= x <= _limits(dtype)[1]:
                raise dtypes.out_of_range(x, (dtype or dtypes.int64).name)
            continue
        if dtype is None and not isinstance(x, (Dimension, numbers.Integral)) or isinstance(x, (str, bytes)):
            raise _unsupported(value)
        if isinstance(x, Dimension) and x.value is None:
            raise TypeError(f"An unknown Dimension cannot be converted to a Tensor: {value!r}")
    if dtype is not None:
        _check_leaves(value, dtype)
    try:
        return np.array(value, dtype=np.int32 if dtype is None else dtype.np)
    except OverflowError:                                          # an integer above the largest float
        raise dtypes.out_of_range(f"an integer of {max(x.bit_length() for x in _leaves(value) if isinstance(x, int))} bits",
                                  (dtype or dtypes.int32).name) from None
    except (TypeError, ValueError):
        raise _unsupported(value) from None


def _limits(dtype: DType | None) -> tuple[int, int]:
    found = np.iinfo(np.int64 if dtype is None else _plain(dtype))
    return int(found.min), int(found.max)


def _check_range(value: Any, dtype: DType | None) -> None:
    """ValueError for an integer among Python values that the type, or without one int64, cannot hold."""
    if dtype is None or dtype.is_integer:
        low, high = _limits(dtype)
        for x in _leaves(value):
            if isinstance(x, int) and not low <= x <= high:
                raise dtypes.out_of_range(x, (dtype or dtypes.int64).name)


def _quantized(value: Any, dtype: DType) -> np.ndarray:
    """Quantized values are ints or, as in TensorFlow 1, one-element tuples."""
    field = dtype.np.names[0]
    if isinstance(_innermost(value), tuple):
        return np.array(value, dtype=dtype.np)[field]
    _check_leaves(value, dtype)
    return dtypes.exact_cast(np.array(value), dtype.np[field])


def _innermost(value: Any) -> Any:
    """The innermost sequence at the beginning of nested ones."""
    while isinstance(value, (list, tuple)) and len(value) and isinstance(value[0], (list, tuple)):
        value = value[0]
    return value


def _strings(value: Any) -> np.ndarray:
    """Nested lists of text as an array of bytes; numpy would drop trailing NULs."""
    dims, inner = [], value
    while isinstance(inner, (list, tuple)):
        dims.append(len(inner))
        if not inner:
            break
        inner = inner[0]
    flat = list(_leaves(value))
    if _dense_size(value, dims) != len(flat):
        raise _ragged(value)
    return _bytes_array(flat, tuple(dims))


def _dense_size(value: Any, dims: list[int]) -> int:
    """The number of leaves of nested lists with exactly the lengths `dims`; -1 for other lengths."""
    if not dims:
        return -1 if isinstance(value, (list, tuple)) else 1
    if not isinstance(value, (list, tuple)) or len(value) != dims[0]:
        return -1
    sizes = [_dense_size(v, dims[1:]) for v in value]
    return -1 if -1 in sizes else sum(sizes)


def _bytes_array(flat: list, shape: tuple) -> np.ndarray:
    out = np.empty(len(flat), dtype=object)
    for i, s in enumerate(flat):
        if isinstance(s, str):
            s = s.encode("utf-8", "surrogateescape")
        elif isinstance(s, np.bytes_):
            s = bytes(s)
        elif type(s) is not bytes:
            raise TypeError(f"Expected binary or unicode string, got {s!r}")
        out[i] = s
    return out.reshape(shape)


# -- which Python values an element type takes ---------------------------------------------------------------
def _kinds(dtype: DType) -> str:
    """The numpy kinds that convert to `dtype` without a further check."""
    if dtype.is_bool:
        return "b"
    if dtype.is_integer:
        return "biu"
    return "biuf" if dtype.is_floating else "biufc"


def _leaf_types(dtype: DType) -> tuple:
    if dtype is dtypes.string:
        return (str, bytes)
    if dtype.is_bool:
        return (bool, np.bool_)
    if dtype.is_integer or dtype.is_quantized:
        return (numbers.Integral, np.integer, np.bool_, Dimension)
    if dtype.is_floating:
        return (numbers.Real, np.integer, np.floating, np.bool_, Dimension)
    return (numbers.Complex, np.number, np.bool_, Dimension)


def _check_leaves(value: Any, dtype: DType) -> None:
    allowed = _leaf_types(dtype)
    for x in _leaves(value):
        if isinstance(x, np.ndarray) and x.dtype.kind in _kinds(dtype):
            continue
        if not isinstance(x, allowed):
            raise TypeError(f"Expected {dtype.name}, got {x!r} of type '{type(x).__name__}' instead.")


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple, range, TensorShape)):
        for v in value:
            yield from _leaves(v)
    else:
        yield value


def _first_leaf(value: Any) -> Any:
    while isinstance(value, (list, tuple)) and len(value):
        value = value[0]
    return value


def _plain(dtype: DType) -> Any:
    """The numpy type in which values are held: for quantized types, the integer inside."""
    return np.dtype(dtype.np)[0] if dtype.is_quantized else np.dtype(dtype.np)


# -- arrays to messages --------------------------------------------------------------------------------------
@export("make_tensor_proto", v1=["contrib.util.make_tensor_proto"])
def make_tensor_proto(values: Any, dtype: Any = None, shape: Any = None, verify_shape: bool = False,
                      allow_broadcast: bool = False) -> TensorProto:
    """A TensorProto from a Python or numpy value.

    A `shape` with more elements than there are values represents the last value repeated.

    >>> tf.make_ndarray(tf.make_tensor_proto(1.5, shape=[2]))
    array([1.5, 1.5], dtype=float32)
    """
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    if allow_broadcast and verify_shape:
        raise ValueError("allow_broadcast and verify_shape are not both allowed.")
    if isinstance(values, TensorProto):
        return values
    dtype = dtypes.as_dtype(dtype) if dtype is not None else None
    dims = None if shape is None else tuple(int(d) for d in shape)
    if dims is not None and 0 in dims and not _is_array_like(values) and values is not None:
        found = dtype or array_of(values)[1]
        array = np.empty(dims, dtype=_plain(found))
        dtype = found
    else:
        array, dtype = array_of(values, dtype)
    if dims is None:
        dims = array.shape
    else:
        _check_shape(array, dims, verify_shape, allow_broadcast)
    proto = TensorProto(dtype=dtype.base_dtype.enum, tensor_shape=as_shape(dims).as_proto())
    _write(proto, array, dtype.base_dtype, array.size == int(np.prod(dims, dtype=object)))
    return proto


def _check_shape(array: np.ndarray, dims: tuple[int, ...], verify: bool, broadcast: bool) -> None:
    size = int(np.prod(dims, dtype=object))
    if broadcast:
        wrong = array.shape not in ((1,), ()) and array.size != size
    else:
        wrong = verify and array.shape != dims
    if wrong:
        raise TypeError(f"Expected Tensor's shape: {dims}, got {array.shape}.")
    if not broadcast and array.size > size:
        raise ValueError(f"Too many elements provided. Needed at most {size}, but received {array.size}")


def _write(proto: TensorProto, array: np.ndarray, dtype: DType, complete: bool) -> None:
    """Stores the elements in the field that TensorFlow uses."""
    if complete and array.size > 1 and dtype in _RAW:
        if array.nbytes >= _MAX_CONTENT:
            raise ValueError("Cannot create a tensor proto whose content is larger than 2GB.")
        proto.tensor_content = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
        return
    flat = array.ravel()
    field, view = _field(dtype)
    if field == "float8_val":
        proto.float8_val = flat.tobytes()
    else:
        getattr(proto, field).extend(_as_field(flat, view).tolist())


def listed_proto(array: np.ndarray) -> TensorProto:
    """A TensorProto with every element in the field of its type, which clients in other languages read directly."""
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    array, dtype = array_of(array)
    proto = TensorProto(dtype=dtype.enum, tensor_shape=as_shape(array.shape).as_proto())
    tag = {dtypes.float32: b"\x2a", dtypes.float64: b"\x32"}.get(dtype)          # fields 5 and 6, packed
    if tag is None:
        _write(proto, array, dtype, False)
    elif array.size:
        if array.nbytes >= _MAX_CONTENT:
            raise ValueError("Cannot create a tensor proto whose content is larger than 2GB.")
        content = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
        proto.MergeFromString(tag + _varint(len(content)) + content)             # the wire format is the array's
    return proto


_FIELDS = {
    dtypes.float16: "half_val", dtypes.bfloat16: "half_val", dtypes.float32: "float_val",
    dtypes.float64: "double_val", dtypes.int64: "int64_val", dtypes.uint32: "uint32_val",
    dtypes.uint64: "uint64_val", dtypes.bool: "bool_val", dtypes.string: "string_val",
    dtypes.complex64: "scomplex_val", dtypes.complex128: "dcomplex_val", dtypes.variant: "variant_val"}
_VIEWS = {"half_val": np.uint16, "scomplex_val": np.float32, "dcomplex_val": np.float64}


def _field(dtype: DType) -> tuple[str, Any]:
    """The field that holds the elements of a type, and the type as which its elements are seen there."""
    field = _FIELDS.get(dtype)
    if field is None:
        if dtype.is_integer or dtype.is_quantized:
            return "int_val", np.int32
        if dtype.is_floating and dtype.size == 1:
            return "float8_val", np.uint8
        raise TypeError(f"Element type not supported in TensorProto: {dtype.name}")
    return field, _VIEWS.get(field)


def _as_field(flat: np.ndarray, view: Any) -> np.ndarray:
    if view is None:
        return flat
    return flat.astype(np.int32) if view is np.int32 else np.ascontiguousarray(flat).view(view)


# -- messages to arrays --------------------------------------------------------------------------------------
@export("make_ndarray", v1=["contrib.util.make_ndarray"])
def make_ndarray(tensor: TensorProto) -> np.ndarray:
    """A numpy array with the shape and contents of a TensorProto.

    >>> tf.make_ndarray(tf.make_tensor_proto([[1, 2]]))
    array([[1, 2]], dtype=int32)
    """
    array, dtype = decode(tensor)
    return array.astype(dtype.np) if dtype.is_quantized else array


def decode(proto: TensorProto, most: int = _MAX_FILLED) -> tuple[np.ndarray, DType]:
    """The contents of a TensorProto as values are held at run time (quantized types as plain integers).

    Variants are held as the messages that they came in. A repeated value may fill up to `most` bytes.

    Raises:
      ValueError: if shape and contents do not fit.
      TypeError: if the element type has no values (resources).
    """
    dtype = dtypes.as_dtype(proto.dtype).base_dtype
    if dtype is dtypes.resource:
        raise TypeError(f"Unsupported tensor type: {dtype.name}")
    dims = [d.size for d in proto.tensor_shape.dim]
    if proto.tensor_shape.unknown_rank or any(d < 0 for d in dims):
        raise ValueError(f"A tensor has a fully known shape; this TensorProto has {_shown(proto)}.")
    size = 1
    for d in dims:
        size *= d
    if proto.tensor_content and dtype.np is not None:
        flat = _raw(proto, dtype, size)
    else:
        flat = _filled(proto, _values(proto, dtype), dtype, size, most)
    return flat.reshape(dims), dtype


def _shown(proto: TensorProto) -> str:
    shape = proto.tensor_shape
    return "an unknown rank" if shape.unknown_rank else str([d.size for d in shape.dim])


def _raw(proto: TensorProto, dtype: DType, size: int) -> np.ndarray:
    if dtype is dtypes.string:
        return _strings_of_content(proto.tensor_content, size)
    content, plain = proto.tensor_content, _plain(dtype)
    if len(content) != size * plain.itemsize:
        raise ValueError(f"A TensorProto of shape {_shown(proto)} and type {dtype.name} needs "
                         f"{size * plain.itemsize} bytes of content, but has {len(content)}.")
    return np.frombuffer(content, dtype=plain).copy()


def strings_content(items: list[bytes]) -> bytes:
    """Strings as raw content: their lengths (as varints), then their bytes."""
    return b"".join([*(_varint(len(item)) for item in items), *items])


def _varint(n: int) -> bytes:
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def _strings_of_content(content: bytes, size: int) -> np.ndarray:
    if size > len(content):
        raise ValueError(f"A TensorProto of {size} strings has only {len(content)} bytes of content.")
    lengths, at = [], 0
    for _ in range(size):
        n = shift = 0
        while True:
            if at >= len(content) or shift > 63:
                raise ValueError("A TensorProto of strings has truncated content.")
            byte, at = content[at], at + 1
            n |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        lengths.append(n)
    if sum(lengths) != len(content) - at:
        raise ValueError(f"A TensorProto of strings has {len(content) - at} bytes of text, expected {sum(lengths)}.")
    ends = np.cumsum([at, *lengths]).tolist()
    return _bytes_array([content[a:b] for a, b in zip(ends[:-1], ends[1:], strict=True)], (size,))


def _values(proto: TensorProto, dtype: DType) -> np.ndarray:
    """The elements that are listed one by one."""
    field, view = _field(dtype)
    if field == "float8_val":
        return np.frombuffer(proto.float8_val, dtype=dtype.np)
    listed = getattr(proto, field)
    if dtype is dtypes.variant:
        values = np.empty(len(listed), dtype=object)
        values[:] = listed
        return values
    if dtype is dtypes.string:
        return _bytes_array(list(listed), (len(listed),))
    if view is None:
        return np.array(listed, dtype=_plain(dtype))
    values = np.array(listed, dtype=view)
    if view is np.int32:
        return values.astype(_plain(dtype))
    if dtype.is_complex and values.size % 2:
        raise ValueError(f"A TensorProto of {dtype.name} has a real part without an imaginary one.")
    return values.view(dtype.np)


def _filled(proto: TensorProto, values: np.ndarray, dtype: DType, size: int, most: int) -> np.ndarray:
    """`values`, with the last one (or zero) repeated up to `size`."""
    if values.size == size:
        return values
    if values.size > size or dtype is dtypes.variant:
        raise ValueError(f"A TensorProto of shape {_shown(proto)} has {values.size} values for "
                         f"{size} elements.")
    if size * values.itemsize > most:
        raise ValueError(f"A TensorProto of shape {_shown(proto)} has {values.size} values; filling it up "
                         f"would take {size * values.itemsize} bytes.")
    last = values[-1] if values.size else b"" if dtype is dtypes.string else values.dtype.type(0)
    out = np.full(size, last, dtype=values.dtype)
    out[:values.size] = values
    return out
