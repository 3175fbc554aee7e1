"""The ops of lookup tables: create, initialize, find, export. The classes over them are in `lookup_tables`."""
from __future__ import annotations

import os
from typing import Any

import torch

from penstock._src.base import dtypes, errors
from penstock._src.base import static_shape as shapes
from penstock._src.io import confine
from penstock._src.kernels import strings
from penstock._src.kernels.tables import DenseTable, StaticTable, Table
from penstock._src.ops.registry import op
from penstock._src.ops.strings.strings import parse_float, parse_int

_NAMING = "container: string = '', shared_name: string = '', use_node_name_sharing: bool = False"
_TYPES = "key_dtype: type, value_dtype: type"
LINE_NUMBER, WHOLE_LINE = -1, -2


# -- making -----------------------------------------------------------------------------------------------------------
def _table(ctx: Any, node: Any, container: str, shared_name: str, key_dtype: Any, value_dtype: Any, make: Any) -> Any:
    """The table of a node: kept by the session under its name, or a new one when executing eagerly without a name."""
    if getattr(node, "graph", None) is None and not shared_name:
        return make(node.name)
    name = shared_name or node.name
    found = ctx.resources.get_or_create(container, name, Table, lambda: make(name))
    found.check_types(key_dtype, value_dtype)
    return found


def _declare(name: str, inputs: str, attrs: str, **flags: Any) -> tuple:
    """The two forms of an op that creates a table: with a reference (a vector of two strings) and with a handle."""
    old = op(name, f"{inputs.split(',')[0]} -> table_handle: Ref(string)", attrs, stateful=True, **flags).no_gradient()
    new = op(f"{name}V2", f"{inputs} -> table_handle: resource", attrs, stateful=True, **flags).no_gradient()
    old.shape(lambda *_: (2,))
    new.shape(lambda *_: ())
    return old, new


def _kernel(*ops: Any) -> Any:
    """Registers one kernel for several ops."""
    def register(fn: Any) -> Any:
        for o in ops:
            o.kernel(fn, device="cpu")
        return fn
    return register


hash_table, hash_table_v2 = _declare("HashTable", "", f"{_NAMING}, {_TYPES}", per_session=True)
mutable_hash_table, mutable_hash_table_v2 = _declare("MutableHashTable", "", f"{_NAMING}, {_TYPES}", per_session=True)
mutable_hash_table_of_tensors, mutable_hash_table_of_tensors_v2 = _declare(
    "MutableHashTableOfTensors", "", f"{_NAMING}, {_TYPES}, value_shape: shape = []", per_session=True)
mutable_dense_hash_table, mutable_dense_hash_table_v2 = _declare(
    "MutableDenseHashTable", "empty_key: key_dtype, deleted_key: key_dtype",
    f"{_NAMING}, {_TYPES}, value_shape: shape = [], initial_num_buckets: int = 131072, max_load_factor: float = 0.8")


@_kernel(hash_table, hash_table_v2)
def _hash_table_kernel(*, container, shared_name, key_dtype, value_dtype, ctx, node):
    return _table(ctx, node, container, shared_name, key_dtype, value_dtype,
                  lambda name: StaticTable(container, name, key_dtype, value_dtype))


@_kernel(mutable_hash_table, mutable_hash_table_v2)
def _mutable_hash_table_kernel(*, container, shared_name, key_dtype, value_dtype, ctx, node):
    return _table(ctx, node, container, shared_name, key_dtype, value_dtype,
                  lambda name: Table(container, name, key_dtype, value_dtype))


@_kernel(mutable_hash_table_of_tensors, mutable_hash_table_of_tensors_v2)
def _mutable_hash_table_of_tensors_kernel(*, container, shared_name, key_dtype, value_dtype,
                                          value_shape, ctx, node):
    dims = _known(value_shape)
    if len(dims) != 1:
        raise errors.invalid(f"Default value must be a vector, got shape {shapes.show(dims)}")
    return _table(ctx, node, container, shared_name, key_dtype, value_dtype,
                  lambda name: Table(container, name, key_dtype, value_dtype, dims))


@_kernel(mutable_dense_hash_table, mutable_dense_hash_table_v2)
def _mutable_dense_hash_table_kernel(empty_key, deleted_key=None, *, container, shared_name,
                                     key_dtype, value_dtype, value_shape, initial_num_buckets,
                                     max_load_factor, ctx, node):
    dims = _known(value_shape)
    return _table(ctx, node, container, shared_name, key_dtype, value_dtype,
                  lambda name: DenseTable(container, name, key_dtype, value_dtype, dims, empty_key, deleted_key,
                                          initial_num_buckets, max_load_factor))


def _anonymous(name: str, inputs: str, attrs: str, make: Any) -> None:
    """An op with an anonymous table, which is freed with the last reference to its handle."""
    made = op(f"Anonymous{name}", f"{inputs} -> table_handle: resource", f"{_TYPES}{attrs}", stateful=True).no_gradient()
    made.shape(lambda *_: ())
    made.kernel(make, device="cpu")


_anonymous("HashTable", "", "", lambda *, key_dtype, value_dtype, node: StaticTable("", node.name, key_dtype, value_dtype))
_anonymous("MutableHashTable", "", "", lambda *, key_dtype, value_dtype, node: Table("", node.name, key_dtype, value_dtype))
_anonymous("MutableHashTableOfTensors", "", ", value_shape: shape = []",
           lambda *, key_dtype, value_dtype, value_shape, node: Table("", node.name, key_dtype, value_dtype,
                                                                      _known(value_shape)))
_anonymous("MutableDenseHashTable", "empty_key: key_dtype, deleted_key: key_dtype",
           ", value_shape: shape = [], initial_num_buckets: int = 131072, max_load_factor: float = 0.8",
           lambda empty_key, deleted_key, *, key_dtype, value_dtype, value_shape, initial_num_buckets, max_load_factor, node:
           DenseTable("", node.name, key_dtype, value_dtype, _known(value_shape), empty_key, deleted_key, initial_num_buckets,
                      max_load_factor))


def _known(shape: Any) -> tuple:
    if not shape.is_fully_defined():
        raise errors.invalid(f"value_shape must be fully defined, got {shape}")
    return shape.static_dims


# -- using ------------------------------------------------------------------------------------------------------------
def _held(handle: Any) -> Table:
    return errors.expect(handle, Table, "a lookup table")


def _both(name: str, inputs: str, outputs: str, attrs: str = "") -> tuple:
    """The two forms of an op that uses a table."""
    old = op(name, f"table_handle: Ref(string){inputs} -> {outputs}", attrs, foldable=False).no_gradient()
    new = op(f"{name}V2", f"table_handle: resource{inputs} -> {outputs}", attrs, stateful=True).no_gradient()
    return old, new


def _made_by(c: Any) -> Any:
    """The op that creates the table of a handle, if it can be found."""
    handle = c.input("table_handle")
    maker = None if hasattr(handle, "_value") else handle.op
    return maker if maker is not None and "key_dtype" in maker.attrs else None


def _check_types(maker: Any, key_dtype: Any, value_dtype: Any) -> None:
    for wanted, found in ((maker.attrs["key_dtype"], key_dtype), (maker.attrs["value_dtype"], value_dtype)):
        if wanted != found:
            raise ValueError(f"Trying to read value with wrong dtype. Expected {wanted.name} got {found.name}")


find, find_v2 = _both("LookupTableFind", ", keys: Tin, default_value: Tout", "values: Tout", "Tin: type, Tout: type")
find.shape(lambda table_handle, keys, default_value: None)


@find_v2.shape
def _find_v2_shape(table_handle, keys, default_value, *, Tin, Tout, c):
    shapes.rank_is(table_handle, 0)
    maker = _made_by(c)
    if maker is None or maker.opdef is hash_table_v2:
        return None
    _check_types(maker, Tin, Tout)
    value = maker.attrs["value_shape"].static_dims if "value_shape" in maker.attrs else ()
    key = maker.inputs[0].static_dims if maker.inputs else ()
    if keys is None or key is None:
        return None
    if len(keys) < len(key):
        raise ValueError(f"Expected keys to have suffix {shapes.show(key)} but saw shape: {shapes.show(keys)}")
    return shapes.concat(keys[:len(keys) - len(key)], value)


@_kernel(find, find_v2)
def _find_kernel(table_handle, keys, default_value, *, Tin, Tout):
    _held(table_handle).check_types(Tin, Tout)
    return table_handle.find(keys, default_value)


insert, insert_v2 = _both("LookupTableInsert", ", keys: Tin, values: Tout", "", "Tin: type, Tout: type")


@_kernel(insert, insert_v2)
def _insert_kernel(table_handle, keys, values, *, Tin, Tout):
    _held(table_handle).check_types(Tin, Tout)
    table_handle.insert(keys, values)


remove_v2 = op("LookupTableRemoveV2", "table_handle: resource, keys: Tin ->", "Tin: type", stateful=True).no_gradient()


@remove_v2.shape
def _remove_v2_shape(table_handle, keys):
    shapes.rank_at_least(keys, 1)
    return []


@remove_v2.kernel(device="cpu")
def _remove_v2_kernel(table_handle, keys, *, Tin):
    _held(table_handle).check_types(Tin)
    table_handle.remove(keys)


size, size_v2 = _both("LookupTableSize", "", "size: int64")
size.shape(lambda table_handle: ())
size_v2.shape(lambda table_handle: ())
_kernel(size, size_v2)(lambda table_handle: torch.tensor(_held(table_handle).size(), dtype=torch.int64))

export_table, export_table_v2 = _both("LookupTableExport", "", "keys: Tkeys, values: Tvalues",
                                      "Tkeys: type, Tvalues: type")
export_table.shape(lambda table_handle: [None, None])


@export_table_v2.shape
def _export_table_v2_shape(table_handle, *, Tkeys, Tvalues, c):
    shapes.rank_is(table_handle, 0)
    maker = _made_by(c)
    if maker is None or maker.opdef is hash_table_v2:
        return [None, None]
    _check_types(maker, Tkeys, Tvalues)
    value = maker.attrs["value_shape"].static_dims if "value_shape" in maker.attrs else ()
    key = maker.inputs[0].static_dims if maker.inputs else ()
    return [shapes.concat((None,), key), shapes.concat((None,), value)]


@_kernel(export_table, export_table_v2)
def _export_table_kernel(table_handle, *, Tkeys, Tvalues):
    _held(table_handle).check_types(Tkeys, Tvalues)
    return table_handle.export()


import_table, import_table_v2 = _both("LookupTableImport", ", keys: Tin, values: Tout", "", "Tin: type, Tout: type")


@import_table_v2.shape
def _import_table_v2_shape(table_handle, keys, values):
    if keys and values and keys[0] is not None and values[0] not in (None, keys[0]):
        raise ValueError(f"Shapes {shapes.show(keys)} of keys and {shapes.show(values)} of values are not compatible")
    return []


@_kernel(import_table, import_table_v2)
def _import_table_kernel(table_handle, keys, values, *, Tin, Tout):
    _held(table_handle).check_types(Tin, Tout)
    table_handle.import_entries(keys, values)


# -- filling ----------------------------------------------------------------------------------------------------------
initialize_table, initialize_table_v2 = _both("InitializeTable", ", keys: Tkey, values: Tval", "",
                                              "Tkey: type, Tval: type")


def _vectors(table_handle, keys, values):
    shapes.merge(shapes.rank_is(keys, 1), values)
    return []


initialize_table.shape(_vectors)
initialize_table_v2.shape(_vectors)


@_kernel(initialize_table, initialize_table_v2)
def _initialize_table_kernel(table_handle, keys, values, *, Tkey, Tval):
    initializable(table_handle).check_types(Tkey, Tval)
    table_handle.initialize(keys, values)


def initializable(table: Any) -> Any:
    """The table, which must be one that is filled once."""
    if not isinstance(_held(table), StaticTable):
        raise errors.invalid(f"Table {table.container} {table.name} is not initializable")
    return table


initialize_from_text, initialize_from_text_v2 = _both(
    "InitializeTableFromTextFile", ", filename: string", "",
    "key_index: int >= -2, value_index: int >= -2, vocab_size: int >= -1 = -1, delimiter: string = '\t', offset: int = 0")


def _file_shape(table_handle, filename):
    shapes.rank_is(filename, 0)
    return []


initialize_from_text.shape(_file_shape)
initialize_from_text_v2.shape(_file_shape)


@_kernel(initialize_from_text, initialize_from_text_v2)
def _initialize_from_text_kernel(table_handle, filename, *, key_index, value_index, vocab_size, delimiter, offset):
    table, path = initializable(table_handle), os.fsdecode(strings.scalar(filename, "filename"))
    if not path:
        raise errors.invalid("filename cannot be empty.")
    if len(delimiter) != 1:
        raise errors.invalid("delimiter should be only 1 char")
    _check_columns(table, key_index, value_index)
    lines = _lines(path, vocab_size)
    if not table.initialized:          # a shared table may have been filled from the same file before
        keys = _column(lines, key_index, table.key_dtype, delimiter, path, offset)
        table.initialize(keys, _column(lines, value_index, table.value_dtype, delimiter, path, offset))


def _check_columns(table: StaticTable, key_index: int, value_index: int) -> None:
    for what, index, dtype in (("Key", key_index, table.key_dtype), ("Value", value_index, table.value_dtype)):
        if index == LINE_NUMBER and dtype != dtypes.int64:
            raise errors.invalid(f"{what} index for line number requires table {what.lower()} dtype of int64, got "
                                 f"{dtype.name}")
        if index == WHOLE_LINE and dtype != dtypes.string and not dtype.is_integer:
            raise errors.invalid(f"{what} index for whole line requires a table {what.lower()} of strings or integers, got "
                                 f"{dtype.name}")


def _lines(path: str, limit: int) -> list[bytes]:
    """The lines of a file, at most `limit` of them (exactly that many, unless it is -1)."""
    confine.check(path)
    try:
        with open(path, "rb") as file:
            lines = file.read().replace(b"\r", b"").split(b"\n")
    except OSError as e:
        raise errors.NotFoundError(None, None, f"{path}; {e.strerror}") from None
    if not lines[-1]:
        lines.pop()
    if limit != -1 and len(lines) < limit:
        raise errors.invalid(f"Invalid vocab_size in {path}: expected {limit} but got {len(lines)}")
    lines = lines if limit == -1 else lines[:limit]
    if b"" in lines:
        raise errors.invalid(f"Invalid content in {path}: empty line found at line {lines.index(b'') + 1}.")
    return lines


def _column(lines: list[bytes], index: int, dtype: Any, delimiter: str, path: str, offset: int) -> Any:
    if index == LINE_NUMBER:
        return torch.arange(offset, offset + len(lines))
    if index == WHOLE_LINE:
        return _parsed(lines, dtype)
    rows = [line.split(delimiter.encode()) for line in lines]
    for i, row in enumerate(rows):
        if index >= len(row):
            raise errors.invalid(f"Invalid number of columns in {path} line {i} ({strings.show(lines[i])}) : expected "
                                 f"{index} got {len(row)}")
    return _parsed([row[index] for row in rows], dtype)


def _parsed(tokens: list[bytes], dtype: Any) -> Any:
    if dtype == dtypes.string:
        return strings.pack(tokens)
    if dtype not in (dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64):
        raise errors.invalid(f"Data type {dtype.name} not supported.")
    values = [parse_float(t) if dtype.is_floating else parse_int(t, dtype.size * 8) for t in tokens]
    if None in values:
        i = values.index(None)
        raise errors.invalid(f"Field {strings.show(tokens[i])} in line {i} is not a valid {dtype.name}.")
    return torch.tensor(values, dtype=dtype.torch)
