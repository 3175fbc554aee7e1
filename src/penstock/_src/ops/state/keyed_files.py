"""Ops that write the rows of an embedding variable to files of their own, and read them (`io/keyed_files.py`)."""
from __future__ import annotations

import os

import torch

from penstock._src.base import errors
from penstock._src.base.text import shown_text
from penstock._src.io import keyed_files
from penstock._src.kernels import strings
from penstock._src.kernels.keyed import KeyedTable, key_parts
from penstock._src.ops.io import save_restore
from penstock._src.ops.state.keyed import SNAPSHOT_PARTS, exported, import_rows, keyed_op, table_of

_ATTRS = "folder: string = '', file: string, table: int = 0, tables: int = 1, process: int = 0, processes: int = 1"

kv_write_files = keyed_op("KvResourceWriteFiles", ", prefix: string", "", f"{_ATTRS}, block: int = 4096").no_gradient()
kv_write_files.shape(lambda resource, prefix: [])


def _folder(prefix, folder) -> str:
    return shown_text(folder) or keyed_files.folder_of(os.fsdecode(strings.scalar(prefix, "prefix")))


@kv_write_files.kernel
def _kv_write_files_kernel(resource, prefix, *, folder, file, table, tables, process, processes, block):
    held = table_of(resource)
    columns = dict(zip(SNAPSHOT_PARTS[:-1], exported(held, False), strict=False))        # all rows: none are gone
    keyed_files.write(_folder(prefix, folder), shown_text(file), keyed_files.Part(table, tables, process, processes), columns,
                      block)


kv_read_files = keyed_op("KvResourceReadFiles", ", prefix: string", "",
                         f"{_ATTRS}, tensor_name: string = ''").no_gradient()
kv_read_files.shape(lambda resource, prefix: [])


@kv_read_files.kernel
def _kv_read_files_kernel(resource, prefix, *, folder, file, table, tables, process, processes, tensor_name):
    held, part = table_of(resource), keyed_files.Part(table, tables, process, processes)
    found = keyed_files.parts(_folder(prefix, folder), _saved_name(prefix, shown_text(tensor_name)) or shown_text(file), part)
    read = [_read(held, stem, part if other != part else None) for other, stem in found]     # before anything changes
    if held.core is None:
        held.initialize(None)
    held.clear()
    for rows in read:
        import_rows(held, *rows)
    held.mark_saved()


def _saved_name(prefix, tensor_name: str) -> str:
    """The name in the files, which the checkpoint has; empty without one."""
    if not tensor_name:
        return ""
    with save_restore.open_reader(os.fsdecode(strings.scalar(prefix, "prefix"))) as reader:
        return shown_text(reader.read(tensor_name).item()) if reader.has(tensor_name) else ""


def _read(held: KeyedTable, stem: str, part: keyed_files.Part | None) -> tuple:
    """The rows of a table; with `part`, only those that belong to it."""
    dim, dtype = held.config.dim, held.dtype.torch
    keys = keyed_files.read(stem, "keys", None if held.is_text else torch.int64)
    values = keyed_files.read(stem, "values", dtype, dim)
    versions, freqs = (keyed_files.read(stem, c, torch.int64) for c in ("versions", "freqs"))
    names = keyed_files.read(stem, "slot_names", None)
    slots = keyed_files.read(stem, "slots", dtype, dim * len(names)) if len(names) else values[:, :0]
    for column in (values, slots) if len(names) else (values,):
        if len(column) != len(keys):
            raise errors.DataLossError(None, None, f"{stem}: {len(keys)} keys have {len(column)} rows")
    if part is not None:
        keep = torch.from_numpy(key_parts(keys, part.whole) == part.number)
        n = len(keys)
        keys = keys[keep.numpy()] if held.is_text else keys[keep]
        values, slots = values[keep], slots[keep]
        versions, freqs = (t[keep] if t.numel() == n else t for t in (versions, freqs))
    return keys, values, versions, freqs, slots, names, keys[:0]
