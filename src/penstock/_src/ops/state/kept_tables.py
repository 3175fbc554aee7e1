"""The tables of a fault-tolerant dispatcher: a file has what a table holds, from which a restarted dispatcher restores it."""
from __future__ import annotations

from typing import Any

from penstock._src.base import dtypes
from penstock._src.io import paths
from penstock._src.io.record import RecordReader, TFRecordWriter
from penstock._src.kernels.tables import Table


def keep(resources: Any, name: str, path: str) -> None:
    """Makes the table that steps find under a name one whose entries are in a file."""
    resources.get_or_create("", name, Table, lambda: KeptTable(name, path))


class KeptTable(Table):
    """A table of strings whose entries are in a file, keys and values in turn. A change ends when the file is written."""

    def __init__(self, name: str, path: str):
        self._path = ""                                     # nothing is written while the file is read
        super().__init__("", name, dtypes.string, dtypes.string)
        if paths.exists(path):
            records = list(RecordReader(path))
            super()._insert(records[::2], self._rows_of(records[1::2]))
        self._path = path

    def _rows_of(self, values: list[bytes]) -> Any:
        rows = self._room(len(values))
        rows[:] = values
        return rows

    def insert(self, keys: Any, values: Any) -> None:
        """Adds or replaces entries."""
        with self.lock:
            super().insert(keys, values)
            self._write()

    def remove(self, keys: Any) -> None:
        """Removes entries."""
        with self.lock:
            super().remove(keys)
            self._write()

    def clear(self) -> None:
        """Removes all entries."""
        with self.lock:
            super().clear()
            self._write()

    def _write(self) -> None:
        if not self._path:
            return
        with paths.atomic_name(self._path) as temporary, TFRecordWriter(temporary) as writer:
            for key, row in self._rows.items():
                writer.write(key)
                writer.write(self._values[row])
