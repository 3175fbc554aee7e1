"""Protocol buffers in tensors: the fields of serialized messages as arrays, and messages made from arrays.

Message types are looked up among those of this process (`local://`), in a FileDescriptorSet that is part of the graph
(`bytes://…`), or in a file that holds one. TensorFlow's messages have the same names.
"""
from __future__ import annotations

import functools
import importlib
from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors
from penstock._src.base.static_shape import concat, merge, rank_at_least
from penstock._src.io import paths
from penstock._src.kernels import bridge, strings
from penstock._src.ops.registry import op

_DECODE_DOC = """Decodes the fields of serialized messages: (sizes, values).

    `sizes` has the number of values of each field in each message, in its last axis; `values` has a tensor for each field,
    as long as its longest one, filled up with the field's default.

        sizes, (names,) = tf.io.decode_proto(data, "pkg.Message", field_names=["name"], output_types=[tf.string])
    """
_ENCODE_DOC = """Serializes messages from the values of their fields: the reverse of `tf.io.decode_proto`.

        data = tf.io.encode_proto([[1]], [[[b"a"]]], field_names=["name"], message_type="pkg.Message")
    """
decode_op = op("DecodeProtoV2", "bytes: string -> sizes: int32, values: output_types",
               "message_type: string, field_names: list(string), output_types: list(type) >= 0, descriptor_source: string = "
               "'local://', message_format: string = 'binary', sanitize: bool = False",
               export_as="io.decode_proto", doc=_DECODE_DOC).no_gradient()
encode_op = op("EncodeProto", "sizes: int32, values: Tinput_types -> bytes: string",
               "field_names: list(string), message_type: string, descriptor_source: string = 'local://', "
               "Tinput_types: list(type) >= 1", export_as="io.encode_proto", doc=_ENCODE_DOC).no_gradient()


@decode_op.shape
def _decode_shape(bytes, *, output_types):
    return [concat(bytes, (len(output_types),)), *[concat(bytes, (None,))] * len(output_types)]


@encode_op.shape
def _encode_shape(sizes, values):
    rank_at_least(sizes, 2)
    batch = None if sizes is None else sizes[:-1]
    for v in values:
        rank_at_least(v, 2)
        batch = merge(batch, None if v is None else v[:-1])
    return batch


# -- message types ----------------------------------------------------------------------------------------------------
@functools.lru_cache(maxsize=64)
def _pool(source: Any) -> Any:
    from google.protobuf import descriptor_pb2, descriptor_pool
    raw = strings.raw(source)
    if raw in (b"", b"local://"):
        return descriptor_pool.Default()
    invalid = errors.invalid("The descriptor source is not a serialized FileDescriptorSet.")
    data = raw.removeprefix(b"bytes://") if raw.startswith(b"bytes://") else paths.read_bytes(raw)
    pool = descriptor_pool.DescriptorPool()
    try:
        for file in descriptor_pb2.FileDescriptorSet.FromString(data).file:
            pool.Add(file)
    except Exception:
        raise invalid from None
    return pool


@functools.lru_cache(maxsize=256)
def _message(source: Any, name: str) -> Any:
    """The class of a message type."""
    from google.protobuf import message_factory
    pool = _pool(source)
    names = [name]
    if name.startswith("tensorflow."):                 # the package that ships TensorFlow's messages has named them again
        importlib.import_module("penstock._src.graph.messages")
        names.append("tensorboard." + name.removeprefix("tensorflow."))
    for n in names:
        try:
            return message_factory.GetMessageClass(pool.FindMessageTypeByName(n))
        except KeyError:
            continue
    raise errors.invalid(f"No descriptor found for message type {name}")


_TYPES: dict[str, tuple] = {
    "double": (dtypes.float64,), "float": (dtypes.float32, dtypes.float64), "bool": (dtypes.bool,),
    "int64": (dtypes.int64,), "sint64": (dtypes.int64,), "sfixed64": (dtypes.int64,),
    "uint64": (dtypes.uint64,), "fixed64": (dtypes.uint64,), "enum": (dtypes.int32,),
    **dict.fromkeys(("int32", "sint32", "sfixed32"), (dtypes.int32, dtypes.int64)),
    **dict.fromkeys(("uint32", "fixed32"), (dtypes.uint32, dtypes.uint64)),
    **dict.fromkeys(("string", "bytes", "message", "group"), (dtypes.string,)),
}
_KINDS = ("", "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "group", "message",
          "bytes", "uint32", "enum", "sfixed32", "sfixed64", "sint32", "sint64")          # by the numbers of descriptor.proto


class _Field:
    """A field of a message, or an extension by its full name."""

    def __init__(self, message: Any, name: str, source: Any, message_type: str):
        found = message.DESCRIPTOR.fields_by_name.get(name)
        if found is None:
            found = next((e for e in _pool(source).FindAllExtensions(message.DESCRIPTOR) if e.full_name == name), None)
        if found is None:
            raise errors.invalid(f"Unknown field: {name} in message type {message_type}")
        self.descriptor, self.name, self.kind = found, name, _KINDS[found.type]
        self.repeated = found.is_repeated if hasattr(found, "is_repeated") else found.label == found.LABEL_REPEATED

    def accepts(self, dtype: Any) -> bool:
        return dtype in _TYPES[self.kind]

    def values(self, message: Any) -> list:
        """The value of the field in a message."""
        d = self.descriptor
        holder = message.Extensions[d] if d.is_extension else getattr(message, d.name)
        if self.repeated:
            return [self._plain(v) for v in holder]
        present = message.HasExtension(d) if d.is_extension else \
            message.HasField(d.name) if d.has_presence else holder != d.default_value
        return [self._plain(holder)] if present else []

    def _plain(self, value: Any) -> Any:
        if self.kind in ("message", "group"):
            return value.SerializeToString(deterministic=True)
        return value.encode() if isinstance(value, str) else value

    def default(self) -> Any:
        if self.kind in ("message", "group"):
            return b""
        value = self.descriptor.default_value if not self.repeated else b"" if self.kind in ("string", "bytes") else 0
        return value.encode() if isinstance(value, str) else value

    def set(self, message: Any, values: list) -> None:
        d = self.descriptor
        if not self.repeated:
            values = values[-1:]
        for v in values:
            if self.kind in ("message", "group"):
                holder = getattr(message, d.name)
                (holder.add() if self.repeated else holder).MergeFromString(v)
                if not self.repeated:
                    holder.SetInParent()
            elif self.repeated:
                getattr(message, d.name).append(self._typed(v))
            else:
                setattr(message, d.name, self._typed(v))

    def _typed(self, value: Any) -> Any:
        return value.decode() if self.kind == "string" else value


# -- kernels ----------------------------------------------------------------------------------------------------------
@decode_op.kernel(device="cpu")
def _decode_kernel(bytes, *, message_type, field_names, output_types, descriptor_source, message_format, sanitize):
    message = _message(descriptor_source, message_type)
    if len(field_names) != len(output_types):
        raise errors.invalid("field_names and output_types attributes must have the same length")
    if message_format not in ("binary", "text"):
        raise errors.invalid("format must be one of binary or text")
    if bytes.size < 1:
        raise errors.invalid("Bufs argument must contain at least one value")
    fields = [_Field(message, n, descriptor_source, message_type) for n in field_names]
    for f, t in zip(fields, output_types, strict=True):
        if not f.accepts(t):
            raise errors.invalid(f"Unexpected output type for {f.descriptor.full_name}: {f.kind} to {t.name}")
    parsed = [_parsed(message, data, message_format) for data in bytes.ravel().tolist()]
    found = [[f.values(m) for m in parsed] for f in fields]
    sizes = np.array([[len(v) for v in column] for column in found], np.int32).reshape(len(fields), len(parsed)).T
    out = [_table(column, f.default(), t, bytes.shape) for column, f, t in zip(found, fields, output_types, strict=True)]
    return torch.from_numpy(sizes.copy()).reshape(*bytes.shape, len(fields)), out


def _parsed(message: Any, data: bytes, format: str) -> Any:
    from google.protobuf import text_format
    made = message()
    try:
        if format == "binary":
            made.MergeFromString(data)
        else:
            text_format.Parse(data, made)
    except Exception:
        raise errors.DataLossError(None, None, f"Unable to parse {format} protobuf") from None
    return made


def _table(column: list[list], default: Any, dtype: Any, batch: tuple) -> Any:
    """The values of a field in all messages, as long as the longest of them, at least 1."""
    width = max(1, max(map(len, column)))
    strings.check_bytes(8 * width * len(column), "DecodeProtoV2")
    rows = [v + [default] * (width - len(v)) for v in column]
    if dtype == dtypes.string:
        return strings.pack([v for row in rows for v in row], (*batch, width))
    return bridge.to_torch(np.array(rows, dtype.as_numpy_dtype).reshape(*batch, width), dtype)


@encode_op.kernel(device="cpu")
def _encode_kernel(sizes, values, *, field_names, message_type, descriptor_source, Tinput_types):
    message = _message(descriptor_source, message_type)
    if len(field_names) != len(values):
        raise errors.invalid("There must be as many inputs as field names")
    fields = [_Field(message, n, descriptor_source, message_type) for n in field_names]
    batch = _batch(fields, values, Tinput_types)
    if tuple(sizes.shape) != (*batch, len(fields)):
        raise errors.invalid(f"sizes should be batch_size + [len(field_names)].  Saw: {list(sizes.shape)} but expected: "
                             f"{[*batch, len(fields)]}")
    counts = sizes.reshape(-1, len(fields)).tolist()
    columns = [v.reshape(-1, v.shape[-1]).tolist() if v.shape[-1] else [[]] * len(counts) for v in values]
    out = []
    for i, row in enumerate(counts):
        made = message()
        for k, (f, size) in enumerate(zip(fields, row, strict=True)):
            if not 0 <= size <= values[k].shape[-1]:
                raise errors.invalid(f"Size to write must not be larger than value tensor; but saw: {size} > "
                                     f"{values[k].shape[-1]} at message {i} field {k}")
            _set(f, made, columns[k][i][:size])
        out.append(made.SerializeToString(deterministic=True))
    return strings.pack(out, batch)


def _set(field: _Field, message: Any, values: list) -> None:
    try:
        field.set(message, values)
    except (ValueError, UnicodeDecodeError) as e:
        raise errors.invalid(f"Field {field.name} cannot hold a value: {e}") from None
    except Exception as e:
        raise errors.DataLossError(None, None, f"Field {field.name} cannot hold a message: {e}") from None


def _batch(fields: list[_Field], values: list, types: list) -> tuple:
    """The shape that all values have but for the last axis."""
    for f, v, t in zip(fields, values, types, strict=True):
        if not f.accepts(t):
            raise errors.invalid(f"Incompatible type for field {f.name}.  Saw dtype: {t.name} but field type is: {f.kind}")
        if len(v.shape) < 2:
            raise errors.invalid(f"Invalid shape for field {f.name}.  Saw shape {list(v.shape)} but it should be at least a "
                                 "matrix.")
    prefixes = {tuple(v.shape[:-1]) for v in values}
    if len(prefixes) != 1:
        raise errors.invalid("Values must match up to the last dimension")
    return prefixes.pop()
