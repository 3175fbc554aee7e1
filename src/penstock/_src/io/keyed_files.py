"""The rows of embedding variables in files of their own, beside a checkpoint, as TFRA's `FileSystemSaver` has them.

A table of a process has the files `<name>_mht_<table>of<tables>_rank<process>_size<processes>-keys`, `-values` and so on:
arrays as they are in memory, string keys after their lengths. Each file is replaced atomically.
"""
from __future__ import annotations

import os
import re
from typing import Any, NamedTuple

import numpy as np
import torch

from penstock._src.base import errors
from penstock._src.io import paths
from penstock._src.kernels import strings

FOLDER = "TFRADynamicEmbedding"
_TEMPORARY = re.compile(r"_temp(_[0-9a-f]+)?/part.*$", re.DOTALL)     # of a sharded checkpoint's parts, at first
_STEP = re.compile(r"-\d+$")


class Part(NamedTuple):
    """A table among those of a variable: of this process, and of all processes."""
    table: int
    tables: int
    process: int = 0
    processes: int = 1

    @property
    def whole(self) -> int:
        """The number of tables of all processes."""
        return self.tables * self.processes

    @property
    def number(self) -> int:
        """This one among all."""
        return self.process * self.tables + self.table

    def stem(self, name: str) -> str:
        """What the names of its files begin with."""
        return f"{name}_mht_{self.table + 1}of{self.tables}_rank{self.process}_size{self.processes}"


def folder_of(prefix: str) -> str:
    """The folder for the rows of a checkpoint: beside it, with the number at the end of its name, if it has one."""
    prefix = _TEMPORARY.sub("", prefix)
    step = _STEP.search(os.path.basename(prefix))
    return paths.join(os.path.dirname(prefix), FOLDER + (step[0] if step else ""))


def remove(prefix: str) -> None:
    """Removes the rows of a checkpoint that has a number."""
    folder = folder_of(prefix)
    if not folder.endswith(FOLDER) and paths.isdir(folder):
        paths.rmtree(folder)


def write(folder: str, name: str, part: Part, columns: dict[str, Any], block: int) -> None:
    """Writes the columns of a table, some rows at a time, and removes those of another number of tables."""
    stem = paths.join(folder, part.stem(name))
    paths.makedirs(os.path.dirname(stem))
    for column, values in columns.items():
        with paths.atomic(f"{stem}-{column}", stored=True) as file:
            for at in range(0, len(values), block):
                file.write(_bytes(values[at:at + block]))
    for other, path in _found(folder, name):
        if (other.tables, other.processes) != (part.tables, part.processes):
            for column in columns:
                if paths.exists(f"{path}-{column}"):
                    paths.remove(f"{path}-{column}")


def parts(folder: str, name: str, part: Part) -> list[tuple[Part, str]]:
    """The tables with rows for a part, and what their files begin with: the same part, or all, if their number was another."""
    found = _found(folder, name)
    if not found:
        raise errors.NotFoundError(None, None, f"No rows of {name} are found in {folder}")
    same = [f for f in found if f[0] == part]
    if same:
        return same
    kinds = {(p.tables, p.processes) for p, _ in found}
    if len(kinds) > 1 or len(found) != found[0][0].whole:
        raise errors.DataLossError(None, None, f"{folder} has {len(found)} of {found[0][0].whole} parts of the rows of {name}; "
                                               "rows for another number of tables or processes need all of them")
    return found


def _found(folder: str, name: str) -> list[tuple[Part, str]]:
    whole = paths.join(folder, name)
    where, base = os.path.dirname(whole), os.path.basename(whole)
    pattern = re.compile(re.escape(base) + r"_mht_(\d+)of(\d+)_rank(\d+)_size(\d+)-keys")
    listed = paths.listdir(where) if paths.isdir(where) else []
    found = [(Part(int(m[1]) - 1, int(m[2]), int(m[3]), int(m[4])), paths.join(where, m[0][:-len("-keys")]))
             for m in map(pattern.fullmatch, sorted(listed)) if m]
    return sorted(found)


def read(stem: str, column: str, dtype: torch.dtype | None, columns: int = 0) -> Any:
    """A column of a table: rows of so many numbers, single ones, or strings (`dtype` None). It may be absent: then it is
    empty."""
    path = f"{stem}-{column}"
    data = paths.read_stored(path) if paths.exists(path) else b""
    if dtype is None:
        return _strings(data, path)
    size = dtype.itemsize * max(columns, 1)
    if len(data) % size:
        raise errors.DataLossError(None, None, f"{path} has {len(data)} bytes, not rows of {size}")
    made = torch.frombuffer(bytearray(data), dtype=dtype) if data else torch.empty(0, dtype=dtype)
    return made.reshape(-1, columns) if columns else made


def _bytes(values: Any) -> bytes:
    if isinstance(values, np.ndarray):
        return b"".join(len(v).to_bytes(4, "little") + v for v in values.tolist())
    return values.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def _strings(data: bytes, path: str) -> np.ndarray:
    made, at = [], 0
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at:at + 4], "little")
        if end > len(data):
            raise errors.DataLossError(None, None, f"{path} ends within a string")
        made.append(data[at + 4:end])
        at = end
    return strings.pack(made)
