"""Strings that hold something else: raw numbers, CSV, serialized tensors, compressed data."""
from __future__ import annotations

import base64
import builtins
import re
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors
from penstock._src.base import static_shape as shapes
from penstock._src.base.api import LazyModule, export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph.message_names import message_class
from penstock._src.graph.node import Tensor
from penstock._src.graph.tensor_proto import decode
from penstock._src.kernels import bridge, strings
from penstock._src.ops import rules
from penstock._src.ops.arguments import renamed
from penstock._src.ops.composite import dispatched
from penstock._src.ops.registry import op
from penstock._src.ops.strings.strings import parse_float, parse_int

examples = LazyModule("penstock._src.io.examples")

# -- raw numbers ------------------------------------------------------------------------------------------------------
_RAW = "half float32 float64 int32 uint16 uint8 int16 int8 int64 bfloat16"
decode_raw_op = op("DecodeRaw", "bytes: string -> output: out_type",
                   f"out_type: type in {{{_RAW} complex64 complex128 bool}}, little_endian: bool = True").no_gradient()
decode_padded_raw = op("DecodePaddedRaw", "input_bytes: string, fixed_length: int32 -> output: out_type",
                       f"out_type: type in {{{_RAW}}}, little_endian: bool = True").no_gradient()
decode_raw_op.shape(lambda bytes: shapes.concat(bytes, (None,)))


@decode_padded_raw.shape
def _decode_padded_raw_shape(input_bytes, fixed_length, *, out_type, c):
    shapes.rank_is(fixed_length, 0)
    length = c.const("fixed_length")
    return shapes.concat(input_bytes, (None if length is None else int(length) // out_type.size,))


def _numbers(data: bytes, dtype: Any, little_endian: bool, dims: tuple) -> torch.Tensor:
    """A tensor over bytes of exactly its size."""
    if dtype == dtypes.bool:
        return torch.from_numpy(np.frombuffer(data, np.uint8) != 0).reshape(dims)
    kind = np.dtype(np.int16) if dtype == dtypes.bfloat16 else np.dtype(dtype.as_numpy_dtype)
    array = np.frombuffer(data, kind.newbyteorder("<" if little_endian else ">")).astype(kind)
    out = torch.from_numpy(array)
    return (out.view(torch.bfloat16) if dtype == dtypes.bfloat16 else out).reshape(dims)


@decode_raw_op.kernel(device="cpu")
def _decode_raw_kernel(bytes, *, out_type, little_endian):
    items = bytes.ravel().tolist()
    size = len(items[0]) if items else 0
    for i, s in enumerate(items):
        if len(s) != size:
            raise errors.invalid(f"DecodeRaw requires input strings to all be the same size, but element {i} has size "
                                 f"{size} != {len(s)}")
    if size % out_type.size:
        raise errors.invalid(f"Input to DecodeRaw has length {size} that is not a multiple of {out_type.size}, the size "
                             f"of {out_type.name}")
    return _numbers(b"".join(items), out_type, little_endian, (*bytes.shape, size // out_type.size))


rules.columns.rows[decode_raw_op] = decode_raw_op.kernel_for("cpu")


@decode_padded_raw.kernel(device="cpu")
def _decode_padded_raw_kernel(input_bytes, fixed_length, *, out_type, little_endian):
    if fixed_length.ndim:
        raise errors.invalid(f"k must be scalar, got shape {list(fixed_length.shape)}")
    length = int(fixed_length)
    if length % out_type.size:
        raise errors.invalid(f"fixed_length ({length}) must be a multiple of the size of out_type ({out_type.size})")
    if length <= 0:
        raise errors.invalid(f"fixed_length ({length}) must be greater than zero.")
    strings.check_bytes(length * input_bytes.size, "DecodePaddedRaw")
    data = b"".join([s[:length].ljust(length, b"\0") for s in input_bytes.ravel().tolist()])
    return _numbers(data, out_type, little_endian, (*input_bytes.shape, length // out_type.size))


rules.columns.rows[decode_padded_raw] = decode_padded_raw.kernel_for("cpu")


@export(v1=["decode_raw", "io.decode_raw"])
@dispatched
def decode_raw(input_bytes: Any = None, out_type: Any = None, little_endian: bool = True, name: str | None = None,
               bytes: Any = None) -> Tensor:
    r"""The bytes of strings as numbers, with one dimension more.

    Args:
        input_bytes: Tensor of strings of one length.
        out_type: Type of the numbers.
        little_endian: Byte order of the strings.
        name: Name of the operation.
        bytes: Old name of `input_bytes`.

    Returns:
        A tensor with one axis more than `input_bytes`.

    >>> tf.decode_raw([b"\x01\x00\x02\x00"], tf.int16).numpy()
    array([[1, 2]], dtype=int16)
    """
    input_bytes = renamed("input_bytes", input_bytes, "bytes", bytes)
    if out_type is None:
        raise ValueError("decode_raw() missing 1 positional argument: 'out_type'")
    return decode_raw_op(input_bytes, out_type=out_type, little_endian=little_endian, name=name)


@export(v2=["io.decode_raw"])
@dispatched
def decode_raw_v2(input_bytes: Any, out_type: Any, little_endian: bool = True, fixed_length: Any = None,
                  name: str | None = None) -> Tensor:
    r"""The bytes of strings as numbers, with one dimension more.

    Args:
        input_bytes: Strings of any shape, all equally long unless `fixed_length` is given.
        out_type: The type of the numbers.
        little_endian: Whether the lowest byte of a number is first.
        fixed_length: The bytes that each string is cut or padded to.
        name: A name for the op.

    Returns:
        [..., numbers per string].

    >>> tf.io.decode_raw([b"\x01\x00\x02\x00"], tf.int16).numpy().tolist()
    [[1, 2]]
    """
    if fixed_length is None:
        return decode_raw_op(input_bytes, out_type=out_type, little_endian=little_endian, name=name)
    return decode_padded_raw(input_bytes, fixed_length, out_type=out_type, little_endian=little_endian, name=name)


# -- CSV --------------------------------------------------------------------------------------------------------------
decode_csv_op = op("DecodeCSV", "records: string, record_defaults: OUT_TYPE -> output: OUT_TYPE",
                   "OUT_TYPE: list(type) in {float32 float64 int32 int64 string} >= 1, field_delim: string = ',', "
                   "use_quote_delim: bool = True, na_value: string = '', select_cols: list(int) = []").no_gradient()
_TYPE_NAMES = {dtypes.float32: "float", dtypes.float64: "double"}


@decode_csv_op.shape
def _decode_csv_shape(records, record_defaults):
    for d in record_defaults:
        if shapes.rank_at_most(d, 1) and (d[0] or 0) > 1:
            raise ValueError("Shape of a default must be a length-0 or length-1 vector, or a scalar.")
    return [records] * len(record_defaults)


@decode_csv_op.kernel(device="cpu")
def _decode_csv_kernel(records, record_defaults, *, OUT_TYPE, field_delim, use_quote_delim, na_value, select_cols):
    delim, na = strings.raw(field_delim), strings.raw(na_value)
    if len(delim) != 1:
        raise errors.invalid("field_delim should be only 1 char")
    _check_selection(select_cols, len(OUT_TYPE))
    for i, d in enumerate(record_defaults):
        if d.ndim > 1:
            raise errors.invalid("Each record default should be at most rank 1")
        if len(d.reshape(-1)) > 1:
            raise errors.invalid(f"A field has at most one default, but field {i} has {len(d.reshape(-1))}")
    rows = records.ravel().tolist()
    scanned = _scanned_columns(rows, delim, use_quote_delim, na, OUT_TYPE, record_defaults, select_cols)
    if scanned is not None:
        return [c.reshape(records.shape) for c in scanned]
    plain = _plain_columns(rows, delim, use_quote_delim, select_cols, len(OUT_TYPE))
    if plain is not None:
        return [_plain_column(f, *each, na, records.shape)
                for f, each in enumerate(zip(plain, record_defaults, OUT_TYPE, strict=True))]
    columns: list[list] = [[] for _ in OUT_TYPE]
    for i, record in enumerate(rows):
        fields = _selected(_fields(record, delim, use_quote_delim), select_cols)
        if len(fields) != len(columns):
            raise errors.invalid(f"Expect {len(columns)} fields but have {len(fields)} in record {i}")
        for column, field in zip(columns, fields, strict=True):
            column.append(field)
    return [_column(f, *each, na, records.shape)
            for f, each in enumerate(zip(columns, record_defaults, OUT_TYPE, strict=True))]


rules.columns.rows[decode_csv_op] = decode_csv_op.kernel_for("cpu")
_NOT_PLAIN = re.compile(rb"[\r\n\x1c-\x1f_\x80-\xff]")           # lines, and what Python's numbers know beyond C's


_KINDS = {dtypes.string: 0, dtypes.float32: 1, dtypes.float64: 2, dtypes.int32: 3, dtypes.int64: 4}    # of the compiled scanner


def _scanned_columns(rows: list[bytes], delim: bytes, quotes: bool, na: bytes, types: list, defaults: list,
                     select: list[int]) -> list | None:
    """The columns as the compiled scanner reads them; None without it, and where fields are quoted, missing or odd."""
    if examples.scanner is None:
        return None
    instead = tuple(None if not len(d := default.reshape(-1)) else d[0] if isinstance(d, np.ndarray) else d[0].item()
                    for default in defaults)
    found = examples.scanner.csv(rows, delim[0], quotes, na, tuple(_KINDS[t] for t in types), instead, tuple(select),
                                 examples.object_array)
    return found and [c if t == dtypes.string else torch.frombuffer(c, dtype=t.torch) if rows else torch.empty(0, dtype=t.torch)
                      for c, t in zip(found, types, strict=True)]


def _plain_columns(rows: list[bytes], delim: bytes, quotes: bool, select: list[int], count: int) -> list | None:
    """The columns of records in which fields are the text between the delimiters; None if they may be more."""
    text = b"".join(rows)
    if quotes and b'"' in text or _NOT_PLAIN.search(text) or not all(rows):
        return None
    split = [r.split(delim) for r in rows]
    if select:
        last = select[-1]
        if any(len(r) <= last for r in split):
            return None
        return [[r[i] for r in split] for i in select]
    if any(len(r) != count for r in split):
        return None
    return list(zip(*split, strict=True)) if split else [()] * count


def _plain_column(index: int, fields: Sequence[bytes], default: Any, dtype: Any, na: bytes, dims: tuple) -> Any:
    """The values of a column of plain fields; falls back to `_column`."""
    listed = default.reshape(-1).tolist()
    if not listed and (b"" in fields or na in fields):
        return _column(index, list(fields), default, dtype, na, dims)
    instead = listed[0] if listed else None
    if dtype == dtypes.string:
        return strings.pack([f if f and f != na else instead for f in fields], dims)
    read = float if dtype.is_floating else int
    try:
        values = [read(f) if f and f != na else instead for f in fields]
        return torch.tensor(values, dtype=dtype.torch).reshape(dims)
    except (ValueError, OverflowError, RuntimeError):
        return _column(index, list(fields), default, dtype, na, dims)


def _check_selection(select: list[int], count: int) -> None:
    if select and len(select) != count:
        raise errors.invalid("select_cols should match output size")
    if any(a >= b for a, b in zip(select, select[1:], strict=False)):
        raise errors.invalid("select_cols should be strictly increasing indices")
    if select and select[0] < 0:
        raise errors.invalid("select_cols should be non-negative indices")


def _selected(fields: Iterator[bytes], select: list[int]) -> list[bytes]:
    """The fields in the selected columns; what comes after the last of them is not inspected."""
    if not select:
        return list(fields)
    wanted, last, out = set(select), select[-1], []
    for i, field in enumerate(fields):
        if i in wanted:
            out.append(field)
        if i == last:
            break
    return out


def _fields(record: bytes, delim: bytes, quotes: bool) -> Iterator[bytes]:
    """The fields of a record: separated by `delim`, optionally quoted; quotes inside are doubled."""
    at = 0
    while at < len(record):
        if record[at] in b"\r\n":
            at += 1
        elif quotes and record[at] == 0x22:
            field, at = _quoted(record, at + 1, delim)
            yield field
        else:
            end = record.find(delim, at)
            field = record[at:] if end < 0 else record[at:end]
            if b"\n" in field or b"\r" in field or quotes and b'"' in field:
                raise errors.invalid("Unquoted fields cannot have quotes/CRLFs inside")
            yield field
            at += len(field) + 1
    if record.endswith(delim):
        yield b""


def _quoted(record: bytes, at: int, delim: bytes) -> tuple[bytes, int]:
    """A field whose opening quote is before `at`, and where the next one starts."""
    parts: list[Any] = []
    while True:
        quote = record.find(b'"', at)
        following = record[quote + 1:quote + 2]
        if quote < 0:
            raise errors.invalid("Quoted field has to end with quote followed by delim or end")
        if not following or following == delim:
            return b"".join(parts) + record[at:quote], quote + 2
        if following != b'"':
            raise errors.invalid("Quote inside a string has to be escaped by another quote")
        parts.append(record[at:quote + 1])
        at = quote + 2


def _column(index: int, fields: list[bytes], default: Any, dtype: Any, na: bytes, dims: tuple) -> Any:
    """The values of one column; the default for fields that are empty or not available."""
    listed = default.reshape(-1).tolist()
    values: list = []
    for i, field in enumerate(fields):
        if not field or field == na:
            if not listed:
                raise errors.invalid(f"Field {index} is required but missing in record {i}!")
            values.append(listed[0])
            continue
        value: Any = field if dtype == dtypes.string else parse_float(field) if dtype.is_floating \
            else parse_int(field, dtype.size * 8)
        if value is None:
            raise errors.invalid(f"Field {index} in record {i} is not a valid {_TYPE_NAMES.get(dtype, dtype.name)}: "
                                 f"{strings.show(field)}")
        values.append(value)
    return strings.pack(values, dims) if dtype == dtypes.string else torch.tensor(
        values, dtype=dtype.torch).reshape(dims)


@export(v1=["decode_csv", "io.decode_csv"])
@dispatched
def decode_csv(records: Any, record_defaults: Any, field_delim: str = ",", use_quote_delim: bool = True,
               name: str | None = None, na_value: str = "", select_cols: Any = None) -> list:
    """The columns of CSV records, one tensor per column; `record_defaults` determine the types and the values of empty fields.

    Args:
        records: Tensor of strings: one line each.
        record_defaults: Per column a list with the default, or a type or an empty list if the column is required.
        field_delim: Separator.
        use_quote_delim: Whether quotes protect separators.
        name: Name of the operation.
        na_value: Text to treat as missing.
        select_cols: Columns to return, in ascending order.

    Returns:
        A list of tensors of the shape of `records`, one per column.

    >>> numbers, words = tf.decode_csv(["1,a", ",b"], [[0], [""]])
    >>> numbers.numpy(), words.numpy()
    (array([1, 0], dtype=int32), array([b'a', b'b'], dtype=object))
    """
    return decode_csv_v2(records, record_defaults, field_delim, use_quote_delim, na_value, select_cols, name)


@export(v2=["io.decode_csv"])
@dispatched
def decode_csv_v2(records: Any, record_defaults: Any, field_delim: str = ",", use_quote_delim: bool = True,
                  na_value: str = "", select_cols: Any = None, name: str | None = None) -> list:
    """The columns of CSV records, one tensor per column; `record_defaults` determine the types and the values of empty
    fields."""
    if select_cols is not None:
        if any(a >= b for a, b in zip(select_cols, select_cols[1:], strict=False)):
            raise ValueError("select_cols is not strictly increasing.")
        if select_cols and select_cols[0] < 0:
            raise ValueError("select_cols contains negative values.")
        if len(select_cols) != len(record_defaults):
            raise ValueError("Length of select_cols and record_defaults do not match.")
    return decode_csv_op(records, record_defaults, field_delim=field_delim, use_quote_delim=use_quote_delim,
                         na_value=na_value, select_cols=select_cols, name=name)


# -- tensors as strings -------------------------------------------------------------------------------------------------
serialize_tensor_op = op("SerializeTensor", "tensor: T -> serialized: string", "T: type").no_gradient()
parse_tensor_op = op("ParseTensor", "serialized: string -> output: out_type", "out_type: type").no_gradient()
serialize_tensor_op.shape(lambda tensor: ())


@parse_tensor_op.shape
def _parse_tensor_shape(serialized):
    shapes.rank_is(serialized, 0)
    return None


@serialize_tensor_op.kernel(device="cpu")
def _serialize_tensor_kernel(tensor, *, T):
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    if T == dtypes.resource or T == dtypes.variant and not _are_bytes(tensor):
        raise errors.UnimplementedError(None, None, f"A tensor of type {T.name} cannot be serialized")
    proto = TensorProto(dtype=T.as_datatype_enum, tensor_shape=TensorShape(tuple(tensor.shape)).as_proto())
    if T == dtypes.variant:
        for data in tensor.ravel().tolist():
            proto.variant_val.add(type_name="penstock::bytes", metadata=data)
    elif T == dtypes.string:
        proto.string_val.extend(tensor.ravel().tolist())
    else:
        array = bridge.to_numpy(tensor)
        proto.tensor_content = np.ascontiguousarray(array).tobytes()
    return strings.pack([proto.SerializeToString()], ())


def _are_bytes(value: Any) -> bool:
    """Whether variants are plain bytes, such as the position of an iterator."""
    return isinstance(value, np.ndarray) and all(isinstance(v, bytes) for v in value.ravel().tolist())


def _bytes_of(proto: Any) -> np.ndarray:
    """The bytes that the variants of a message hold."""
    if any(v.type_name != "penstock::bytes" for v in proto.variant_val):
        raise errors.invalid("The variants of the parsed TensorProto are of a type that is not known")
    dims = [d.size for d in proto.tensor_shape.dim]
    if min(dims, default=0) < 0 or np.prod(dims, dtype=float) != len(proto.variant_val):
        raise errors.invalid(f"The parsed TensorProto has {len(proto.variant_val)} variants for a shape of {dims}")
    return strings.pack([v.metadata for v in proto.variant_val], tuple(dims))


@parse_tensor_op.kernel(device="cpu")
def _parse_tensor_kernel(serialized, *, out_type):
    from google.protobuf.message import DecodeError
    from tensorboard.compat.proto.tensor_pb2 import TensorProto

    if serialized.ndim:
        raise errors.invalid(f"Expected `serialized` to be a scalar, got shape: {list(serialized.shape)}")
    data = serialized.item()
    try:
        proto = TensorProto.FromString(data)
    except DecodeError:
        text = base64.b64encode(data[:100]).decode()
        raise errors.invalid(f"Could not parse `serialized` as TensorProto, base64: {text}") from None
    if out_type == dtypes.variant and proto.dtype == dtypes.variant.as_datatype_enum:
        return _bytes_of(proto)
    try:
        array, found = decode(proto)
    except (TypeError, ValueError) as e:
        raise errors.invalid(f"Could not convert the parsed TensorProto to a tensor: {e}") from None
    if found != out_type:
        raise errors.invalid(f"Type mismatch between parsed tensor ({found.name}) and dtype ({out_type.name})")
    return bridge.to_torch(array, out_type)


@export("io.serialize_tensor", v1=["serialize_tensor"])
@dispatched
def serialize_tensor(tensor: Any, name: str | None = None) -> Tensor:
    """A tensor as a serialized TensorProto.

    Args:
        tensor: The tensor.
        name: A name for the op.

    Returns:
        A scalar string.

    >>> tf.io.parse_tensor(tf.io.serialize_tensor([1, 2]), tf.int32).numpy().tolist()
    [1, 2]
    """
    return serialize_tensor_op(tensor, name=name)


@export("io.parse_tensor", v1=["parse_tensor"])
@dispatched
def parse_tensor(serialized: Any, out_type: Any, name: str | None = None) -> Tensor:
    """A tensor from a serialized TensorProto.

    Args:
        serialized: A scalar string.
        out_type: The type of the tensor, which must be that of the message.
        name: A name for the op.

    Returns:
        The tensor.

    Raises:
        InvalidArgumentError: if the string is not a TensorProto of that type.

    >>> tf.io.parse_tensor(tf.io.serialize_tensor([1, 2]), tf.int32).numpy().tolist()
    [1, 2]
    """
    return parse_tensor_op(serialized, out_type=out_type, name=name)


# -- compressed data, JSON ----------------------------------------------------------------------------------------------
decode_compressed_op = op("DecodeCompressed", "bytes: string -> output: string",
                          "compression_type: string = ''").no_gradient()
decode_compressed_op.shape(lambda bytes: bytes)
_WINDOW = {"ZLIB": zlib.MAX_WBITS, "GZIP": zlib.MAX_WBITS | 16}


@decode_compressed_op.kernel(device="cpu")
def _decode_compressed_kernel(bytes, *, compression_type):
    if not compression_type:
        return bytes
    if compression_type not in _WINDOW:
        raise errors.invalid(f"Only ZLIB, GZIP or NONE are supported compressions, got {compression_type}")
    left = strings.MAX_BYTES

    def decompressed(data: builtins.bytes) -> builtins.bytes:
        nonlocal left
        out = _decompressed(data, _WINDOW[compression_type], left)
        left -= len(out)
        return out
    return strings.each(decompressed, bytes)


def _decompressed(data: bytes, window: int, most: int) -> bytes:
    stream = zlib.decompressobj(window)
    try:
        out = stream.decompress(data, max(most, 1))
    except zlib.error as e:
        raise errors.DataLossError(None, None, f"inflate() failed: {e}") from None
    if stream.unconsumed_tail or len(out) > most:
        strings.check_bytes(strings.MAX_BYTES + 1, "DecodeCompressed")
    if not stream.eof:
        raise errors.DataLossError(None, None, "inflate() failed: the compressed data is truncated")
    return out


@export("io.decode_compressed", v1=["decode_compressed"])
@dispatched
def decode_compressed(bytes: Any, compression_type: str = "", name: str | None = None) -> Tensor:
    """Strings decompressed: compression_type is "", "ZLIB" or "GZIP"."""
    return decode_compressed_op(bytes, compression_type=compression_type, name=name)


decode_json_example_op = op("DecodeJSONExample", "json_examples: string -> binary_examples: string").no_gradient()
decode_json_example_op.shape(lambda json_examples: json_examples)


@decode_json_example_op.kernel(device="cpu")
def _decode_json_example_kernel(json_examples):
    from google.protobuf import json_format
    example = message_class("Example")

    def convert(text: bytes) -> bytes:
        try:
            return json_format.Parse(text, example()).SerializeToString(deterministic=True)
        except (json_format.ParseError, UnicodeDecodeError) as e:
            raise errors.invalid(f"Error while parsing JSON: {e}") from None
    return strings.each(convert, json_examples)


@export("io.decode_json_example", v1=["decode_json_example"])
@dispatched
def decode_json_example(json_examples: Any, name: str | None = None) -> Tensor:
    """tf.Example messages in JSON as serialized messages."""
    return decode_json_example_op(json_examples, name=name)
