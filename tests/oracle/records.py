"""The file that the two systems exchange: length-prefixed records of a JSON header and binary parts.

Used by both sides, so it imports nothing but the standard library.
"""
from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any


def write(file: Any, header: dict, parts: list[bytes]) -> None:
    """Appends one record."""
    text = json.dumps({**header, "sizes": [len(p) for p in parts]}).encode()
    file.write(struct.pack("<I", len(text)) + text)
    for p in parts:
        file.write(p)


def read(file: Any) -> Iterator[tuple[dict, list[bytes]]]:
    """All records of a file; a torn last record ends the reading."""
    while True:
        size = file.read(4)
        if len(size) < 4:
            return
        text = file.read(struct.unpack("<I", size)[0])
        header = json.loads(text)
        parts = [file.read(n) for n in header.pop("sizes")]
        yield header, parts
