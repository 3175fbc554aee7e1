"""Cheap mutations that keep a format's structure, so that cases get past the first check of a reader.

Each function takes a random generator and good bytes, and returns other bytes. `messages` changes one field of a serialized
protocol buffer, at any depth, and corrects the lengths around it; `document` changes one value of a JSON document; `text`
changes tokens. Offsets of a seed are found once.
"""
from __future__ import annotations

import functools
import gzip
import io
import json
import random
import re
import struct
import zipfile
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

from penstock._src.base import errors
from penstock._src.io import crc
from penstock._src.io.table import Table, TableWriter, put_varint
from tests.io.test_fuzz import mutated as plain

Mutation = Callable[[random.Random, bytes], bytes]
NUMBERS = (0, 1, 2, 7, 127, 128, 255, 256, 1 << 15, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 40, (1 << 63) - 1,
           1 << 63, (1 << 64) - 1, (1 << 64) - 2, (1 << 64) - (1 << 31))
_FLOATS = (0.0, -1.0, 1e38, float("nan"), float("inf"))
_FIXED = {4: [*(struct.pack("<f", x) for x in _FLOATS), b"\xff" * 4, b"\0\0\0\x80"],
          8: [*(struct.pack("<d", x) for x in _FLOATS), b"\xff" * 8, b"\0" * 7 + b"\x80"]}
_VALUES: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 2, 1 << 31, -(1 << 63), 1 << 70, 1e308, -0.0, 0.5, "", "a", "\0", "é" * 20, "float32", "..",
    "/etc/passwd", [], {}, [[]], [None], {"": None}, [1, [2]], {"class_name": "Dense", "config": {}})
_TOKENS = re.compile(rb'[A-Za-z_]+|-?[0-9.]+|"[^"\n]*"|\s+|.', re.DOTALL)
_WORDS = (b"-1", b"0", b"1e999", b"nan", b"99999999999999999999", b"{", b"}", b"[", b'"', b":", b",", b"\n", b"\0", b"\xff",
          b"true", b"../")


class Field(NamedTuple):
    """A field of a serialized message: where it starts, where its value does, where it ends, and the fields around it."""
    start: int
    tag: int
    at: int
    end: int
    kind: int
    around: tuple[Field, ...]


@functools.lru_cache(2048)
def fields(data: bytes) -> list[Field]:
    """All fields of a message and of the messages in it, as far as they can be told apart from strings without a schema."""
    out: list[Field] = []
    _scan(data, 0, len(data), (), out)
    return out


def _scan(data: bytes, at: int, end: int, around: tuple[Field, ...], out: list[Field]) -> bool:
    """Appends the fields between two offsets; False, and nothing appended, if those bytes are no message."""
    found: list[Field] = []
    while at < end:
        start = at
        key, at = _number(data, at, end)
        kind, tag = key & 7, at
        if key < 8 or kind not in (0, 1, 2, 5):
            return False
        size, value = _number(data, at, end) if kind in (0, 2) else (0, at)
        at = {0: value, 1: at + 8, 2: value + size, 5: at + 4}[kind]
        if value < 0 or at > end:
            return False
        field = Field(start, tag, value if kind == 2 else tag, at, kind, around)
        found.append(field)
        if kind == 2 and size > 1 and len(around) < 12:
            _scan(data, value, at, (*around, field), found)
    out += found
    return True


def _number(data: bytes, at: int, end: int) -> tuple[int, int]:
    """A varint, and the offset after it; that is negative if the varint does not end."""
    value = shift = 0
    while at < end and shift < 64:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    return 0, -1


def messages(rng: random.Random, data: bytes) -> bytes:
    """A serialized message with some fields changed, dropped, repeated, nested or exchanged."""
    if rng.random() < 0.2:
        return plain(rng, data)
    known = fields(data)
    if not known:
        return plain(rng, data)
    field = known[int(rng.random() * len(known))]
    new, start, end = _changed(rng, data, field, known), field.start, field.end
    for parent in reversed(field.around):
        held = data[parent.at:start] + new + data[end:parent.end]
        new, start, end = data[parent.start:parent.tag] + put_varint(len(held)) + held, parent.start, parent.end
    made = data[:start] + new + data[end:]
    return messages(rng, made) if len(made) < 4096 and rng.random() < 0.35 else made


def _changed(rng: random.Random, data: bytes, field: Field, known: list[Field]) -> bytes:
    """The bytes of a field after a change."""
    whole, tag, held = data[field.start:field.end], data[field.start:field.tag], data[field.at:field.end]
    choice = int(rng.random() * 8)
    if choice == 0:
        return b""
    if choice == 1:
        return whole * rng.choice((2, 2, 3, 9))
    if choice == 2:
        other = rng.choice(known)
        return whole + data[other.start:other.end]
    if choice == 3:
        return put_varint(rng.randrange(8, 400)) + data[field.tag:field.end]
    if field.kind == 0:
        return tag + put_varint(rng.choice(NUMBERS) if rng.random() < 0.7 else rng.getrandbits(rng.randrange(1, 65)))
    if field.kind != 2:
        return tag + (rng.choice(_FIXED[len(held)]) if rng.random() < 0.7 else rng.randbytes(len(held)))
    if choice == 4:
        held = plain(rng, held)
    elif choice == 5:
        other = rng.choice(known)
        held = data[other.at:other.end]
    elif choice == 6:
        held = b"" if rng.random() < 0.3 else whole
    else:
        tail = rng.choice((b"", b"\0", b"\xff\xfe", b"/../", b":0", b"^", b"a" * 300))
        held = held[:int(rng.random() * (len(held) + 1))] + tail
    return tag + put_varint(len(held)) + held


def document(rng: random.Random, data: bytes) -> bytes:
    """A JSON document with a few values replaced, dropped, repeated or moved."""
    if rng.random() < 0.1:
        return plain(rng, data)
    try:
        held = [json.loads(data)]
    except ValueError:
        return plain(rng, data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        _change_value(rng, held)
    return json.dumps(held[0] if held else None).encode()


def _change_value(rng: random.Random, held: list[Any]) -> None:
    places: list[tuple[Any, Any]] = []
    todo: list[Any] = [held]
    while todo:
        parent = todo.pop()
        for key in (parent if isinstance(parent, dict) else range(len(parent))):
            places.append((parent, key))
            if isinstance(parent[key], (dict, list)):
                todo.append(parent[key])
    if not places:
        return
    parent, key = rng.choice(places)
    choice = int(rng.random() * 6)
    if choice == 0 and parent is not held:
        del parent[key]
    elif choice == 1 and isinstance(parent, dict):
        parent[rng.choice(("", "name", "config", "x", key + "0"))] = parent.pop(key)
    elif choice == 2:
        other, place = rng.choice(places)
        if key in parent if isinstance(parent, dict) else key < len(parent):
            parent[key] = json.loads(json.dumps(other[place]))
    elif choice == 3:
        parent[key] = [parent[key]]
    else:
        parent[key] = json.loads(json.dumps(rng.choice(_VALUES)))


def text(rng: random.Random, data: bytes) -> bytes:
    """Text with tokens dropped, repeated, exchanged or replaced."""
    if rng.random() < 0.25:
        return plain(rng, data)
    tokens = _TOKENS.findall(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        if not tokens:
            break
        at, choice = int(rng.random() * len(tokens)), int(rng.random() * 4)
        if choice == 0:
            del tokens[at:at + rng.choice((1, 1, 5))]
        elif choice == 1:
            tokens[at] = rng.choice(_WORDS)
        elif choice == 2:
            tokens[at] = rng.choice(tokens)
        else:
            tokens[at:at] = tokens[at:at + rng.choice((1, 4, 12))]
    return b"".join(tokens)


# -- containers -------------------------------------------------------------------------------------------------------------
def repaired(inner: Mutation, repair: Callable[[bytes], bytes], most: float = 0.8) -> Mutation:
    """A mutation after which most of the files have their checksums corrected."""
    def mutate(rng: random.Random, data: bytes) -> bytes:
        made = inner(rng, data)
        return repair(made) if rng.random() < most else made
    return mutate


def png(data: bytes) -> bytes:
    """A PNG file whose chunks have the right checksums, as far as their lengths make sense."""
    out, at = bytearray(data), 8
    while at + 12 <= len(out):
        end = at + 8 + int.from_bytes(out[at:at + 4], "big")
        if end + 4 > len(out):
            break
        out[end:end + 4] = zlib.crc32(out[at + 4:end]).to_bytes(4, "big")
        at = end + 4
    return bytes(out)


def pixels(rng: random.Random, data: bytes) -> bytes:
    """A PNG file of which the unpacked rows are changed, or the packed bytes."""
    at = data.find(b"IDAT")
    if at < 4 or rng.random() < 0.7:
        return plain(rng, data)
    end = at + 4 + int.from_bytes(data[at - 4:at], "big")
    try:
        rows = zlib.compress(plain(rng, zlib.decompress(data[at + 4:end])), 1)
    except zlib.error:
        return plain(rng, data)
    return data[:at - 4] + len(rows).to_bytes(4, "big") + b"IDAT" + rows + data[end:]


def records(data: bytes) -> bytes:
    """A file of records with the right checksums, as far as the lengths make sense."""
    out, at = bytearray(data), 0
    while at + 16 <= len(out):
        out[at + 8:at + 12] = crc.masked(bytes(out[at:at + 8])).to_bytes(4, "little")
        end = at + 12 + int.from_bytes(out[at:at + 8], "little")
        if end + 4 > len(out):
            break
        out[end:end + 4] = crc.masked(bytes(out[at + 12:end])).to_bytes(4, "little")
        at = end + 4
    return bytes(out)


def one_record(inner: Mutation) -> Mutation:
    """Changes the content of a record, and its length with it; or any bytes."""
    def mutate(rng: random.Random, data: bytes) -> bytes:
        starts, at = [], 0
        while at + 16 <= len(data):
            size = int.from_bytes(data[at:at + 8], "little")
            if at + 16 + size > len(data):
                break
            starts.append((at, at + 16 + size))
            at += 16 + size
        if not starts or rng.random() < 0.3:
            return plain(rng, data)
        start, end = rng.choice(starts)
        held = inner(rng, data[start + 12:end - 4])
        return data[:start] + len(held).to_bytes(8, "little") + bytes(4) + held + bytes(4) + data[end:]
    return mutate


def packed(inner: Mutation) -> Mutation:
    """A gzip file of which the content is changed, or the bytes."""
    def mutate(rng: random.Random, data: bytes) -> bytes:
        if rng.random() < 0.4:
            return plain(rng, data)
        try:
            return gzip.compress(inner(rng, gzip.decompress(data)), 1, mtime=0)
        except (OSError, EOFError, zlib.error):
            return plain(rng, data)
    return mutate


def archive(members: dict[str, Mutation]) -> Mutation:
    """A zip file of which one member is changed, or is under another name; or the bytes."""
    def mutate(rng: random.Random, data: bytes) -> bytes:
        if rng.random() < 0.2:
            return plain(rng, data)
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as file:
                held = {name: file.read(name) for name in file.namelist()}
        except Exception:                                # a seed that no longer is a zip file
            return plain(rng, data)
        name = rng.choice(list(held))
        changed = members.get(name, plain)(rng, held[name])
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as file:
            for other, content in held.items():
                if other != name or rng.random() < 0.95:
                    moved = rng.choice(("../", "/tmp/", "x", "")) + other if rng.random() < 0.02 else other
                    file.writestr(moved, changed if other == name else content)
        return out.getvalue()
    return mutate


def table(inner: Mutation) -> Mutation:
    """A table of keys and values (the index of a checkpoint) of which one is changed; or the bytes."""
    def mutate(rng: random.Random, data: bytes) -> bytes:
        pairs = _pairs(data) if rng.random() < 0.8 else None
        if not pairs:
            return plain(rng, data)
        at, pairs = int(rng.random() * len(pairs)), list(pairs)
        key, value = pairs[at]
        if rng.random() < 0.2:
            pairs[at] = plain(rng, key), value
            pairs = sorted(dict(pairs).items())
        else:
            pairs[at] = key, inner(rng, value)
        out = io.BytesIO()
        writer = TableWriter(out)
        for key, value in pairs:
            writer.add(key, value)
        writer.finish()
        return out.getvalue()
    return mutate


@functools.lru_cache(512)
def _pairs(data: bytes) -> list[tuple[bytes, bytes]] | None:
    try:
        return list(Table(io.BytesIO(data), len(data), "seed").items())
    except errors.OpError:
        return None


def framed(rng: random.Random, data: bytes) -> bytes:
    """Messages of the cluster: a header of JSON, changed, with the right length before it; or the bytes."""
    if len(data) < 24 or rng.random() < 0.3:
        return plain(rng, data)
    magic, length, size, number = struct.unpack_from("<4sIQQ", data)
    header = document(rng, data[24:24 + length])
    rest = data[24 + length:]
    if rng.random() < 0.2:
        size = rng.choice((len(rest), *NUMBERS))
    if rng.random() < 0.1:
        number = rng.choice(NUMBERS)
    return struct.pack("<4sIQQ", magic, len(header), size, number) + header + (plain(rng, rest) if rng.random() < 0.2 else rest)
