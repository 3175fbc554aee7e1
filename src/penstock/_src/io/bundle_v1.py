"""V1 checkpoints: one table per file, with the tensors' elements as messages. They are written for old readers, and can be
read."""
from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from google.protobuf.message import DecodeError

from penstock._src.base import dtypes, errors
from penstock._src.io import paths, slices
from penstock._src.io.messages import SavedTensorSlices
from penstock._src.io.table import Table, TableWriter
from penstock._src.kernels import bridge, strings

_VERSION = 1
_LARGEST, _OVERHEAD = 1 << 31, 1024          # bytes: of a message, and of what it holds beside the elements
_FIELDS = {"float32": "float_val", "float64": "double_val", "int64": "int64_val", "bool": "bool_val", "string": "string_val",
           "complex64": "scomplex_val", "complex128": "dcomplex_val", "float16": "half_val", "bfloat16": "half_val",
           "uint32": "uint32_val", "uint64": "uint64_val"}
_INTS = ("int32", "uint8", "int16", "int8", "uint16", "qint8", "quint8", "qint32", "qint16", "quint16")


def _field(dtype: Any) -> str:
    name = dtype.base_dtype.name
    if name in _INTS:
        return "int_val"
    if name not in _FIELDS:
        raise errors.UnimplementedError(None, None, f"Saving data type {name} not yet supported")
    return _FIELDS[name]


class SliceWriter:
    """Writes a V1 checkpoint: `add`, then `finish`."""

    def __init__(self, filename: str):
        self._filename = filename
        self._meta = SavedTensorSlices()
        self._meta.meta.versions.producer = _VERSION
        self._tensors: dict[str, Any] = {}
        self._data: dict[bytes, bytes] = {}

    def add(self, name: str, shape: tuple[int, ...], part: slices.Slice, value: Any, dtype: Any) -> None:
        """Adds a tensor of the given full shape, or a part of it."""
        meta = self._tensors.get(name)
        if meta is None:
            meta = self._tensors[name] = self._meta.meta.tensor.add(name=name, type=dtype.base_dtype.enum)
            meta.shape.SetInParent()
            for d in shape:
                meta.shape.dim.add(size=d)
        elif meta.type != dtype.base_dtype.enum or tuple(d.size for d in meta.shape.dim) != shape:
            raise errors.InternalError(None, None, f"Mismatching shapes or types of {name}")
        _check_size(name, value, dtype)
        slices.to_proto(part, meta.slice.add())
        item = SavedTensorSlices()
        item.data.name = name
        slices.to_proto(part, item.data.slice)
        getattr(item.data.data, _field(dtype)).extend(_elements(value, dtype))
        self._data[slices.key(name, part)] = item.SerializeToString()

    def finish(self) -> None:
        """Publishes the file."""
        with paths.atomic(self._filename, stored=True) as f:
            table = TableWriter(f)
            table.add(b"", self._meta.SerializeToString())
            for key in sorted(self._data):
                table.add(key, self._data[key])
            table.finish()


def _check_size(name: str, value: Any, dtype: Any) -> None:
    """Refuses a part that a message cannot hold."""
    size = math.prod(value.shape) * dtype.base_dtype.size + len(name) + _OVERHEAD
    if size >= _LARGEST:
        raise errors.invalid(f"Tensor slice is too large to serialize (conservative estimate: {size} bytes)")


def _elements(value: Any, dtype: Any) -> list:
    if isinstance(value, np.ndarray):
        return value.ravel().tolist()
    if dtype.base_dtype.name in ("float16", "bfloat16"):
        return value.contiguous().view(torch.int16).numpy().astype(np.uint16).ravel().tolist()
    array = bridge.to_numpy(value.contiguous()).ravel()
    return array.view(array.real.dtype).tolist() if dtype.is_complex else array.tolist()


class SliceReader:
    """The tensors of the V1 files that match a pattern."""

    def __init__(self, pattern: str):
        self._tensors: dict[str, tuple[Any, tuple[int, ...], list[tuple[slices.Slice, Table]]]] = {}
        self._open: list[Any] = []
        found = paths.named(pattern)
        if not found:
            raise errors.NotFoundError(None, None, "Unsuccessful TensorSliceReader constructor: Failed to find any matching "
                                       f"files for {pattern}")
        for path in found:
            self._add_file(path)

    def _add_file(self, path: str) -> None:
        file = paths.open_stored(path)
        self._open.append(file)
        try:
            table = Table(file, paths.stat(path).length, path)
            meta = _parsed(table.get(b"") or b"\xff", path)
        except errors.DataLossError as e:
            self.close()
            raise errors.DataLossError(None, None, f"Unable to open table file {path}: {e.message}: perhaps your file is in a "
                                       "different file format and you need to use a different restore operator?") from None
        for t in meta.meta.tensor:
            shape = tuple(d.size for d in t.shape.dim)
            _, _, parts = self._tensors.setdefault(t.name, (dtypes.as_dtype(t.type), shape, []))
            for s in t.slice:
                part = slices.from_proto(s)
                slices.shape_of(part, shape)
                parts.append((part, table))

    def __enter__(self) -> SliceReader:
        return self

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        self.close()

    def close(self) -> None:
        """Closes the files."""
        for f in self._open:
            f.close()

    def tensors(self) -> dict[str, tuple[Any, tuple[int, ...]]]:
        """Type and shape of each tensor."""
        return {name: (dtype, shape) for name, (dtype, shape, _) in self._tensors.items()}

    def names(self) -> list[str]:
        """The names of the tensors, in order."""
        return sorted(self._tensors)

    def has(self, name: str) -> bool:
        """Whether a tensor of that name exists."""
        return name in self._tensors

    def describe(self, name: str) -> tuple[Any, tuple[int, ...]]:
        """Type and shape of a tensor."""
        if name not in self._tensors:
            raise errors.NotFoundError(None, None, f'Tensor name "{name}" not found in checkpoint files')
        return self._tensors[name][:2]

    def read(self, name: str) -> Any:
        """A whole tensor."""
        return self.read_slice(name, slices.full(len(self.describe(name)[1])))

    def read_slice(self, name: str, part: slices.Slice) -> Any:
        """A part of a tensor."""
        dtype, shape = self.describe(name)
        parts = self._tensors[name][2]
        wanted = slices.shape_of(part, shape)
        plan = slices.cover(part, [p for p, _ in parts], shape)
        if plan is None:
            raise errors.invalid(f"Error copying slice data: {name} does not contain all of {slices.show(part)}")
        out: Any = None
        for i, there, here in plan:
            value = self._stored(name, *parts[i], dtype, slices.shape_of(parts[i][0], shape))
            if len(plan) == 1 and value.shape == wanted:
                return value
            if out is None:
                out = np.empty(wanted, value.dtype) if isinstance(value, np.ndarray) else value.new_empty(wanted)
            out[here] = value[there]
        return out if out is not None else _empty(dtype, wanted)

    def _stored(self, name: str, part: slices.Slice, table: Table, dtype: Any, shape: tuple[int, ...]) -> Any:
        found = table.get(slices.key(name, part))
        if found is None:
            raise errors.DataLossError(None, None, f"Slice {slices.show(part)} of {name} is listed but missing")
        data = getattr(_parsed(found, name).data.data, _field(dtype))
        count = math.prod(shape)
        if len(data) != count * (2 if dtype.is_complex else 1):
            raise errors.DataLossError(None, None, f"{name} has {len(data)} stored elements, expected {count}")
        if dtype == dtypes.string:
            return strings.pack(list(data), shape)
        if dtype.name in ("float16", "bfloat16"):
            return torch.from_numpy(np.array(data, np.uint16).view(np.int16)).view(dtype.torch).reshape(shape)
        if dtype.is_complex:
            real = np.array(data, np.float32 if dtype == dtypes.complex64 else np.float64)
            return torch.view_as_complex(torch.from_numpy(real).reshape(*shape, 2))
        plain = np.dtype(dtype.np) if not dtype.is_quantized else np.dtype(dtype.np)[0]
        return torch.from_numpy(np.array(data).astype(plain)).reshape(shape)


def _empty(dtype: Any, shape: tuple[int, ...]) -> Any:
    return np.empty(shape, dtype=object) if dtype == dtypes.string else torch.empty(shape, dtype=dtype.torch)


def _parsed(data: bytes, what: str) -> Any:
    message = SavedTensorSlices()
    try:
        message.ParseFromString(data)
    except DecodeError:
        raise errors.DataLossError(None, None, f"{what}: an entry of the checkpoint cannot be read") from None
    return message
