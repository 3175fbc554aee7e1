"""Requested features of tf.Example messages, and their values: shared by all parsers."""
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from penstock._src.kernels import strings

BYTES, FLOAT, INT64 = 0x0A, 0x12, 0x1A             # the tags of the three kinds of values in a Feature
NAMES = {BYTES: "bytes", FLOAT: "float", INT64: "int64"}
KINDS = {"bytes_list": BYTES, "float_list": FLOAT, "int64_list": INT64}
MISSING = -1                                       # the count of a row that has no such feature


class Column(NamedTuple):
    """A requested feature: its key, its kind, and the number of values in every row (None: any number)."""
    key: bytes
    kind: int
    size: int | None


class Values(NamedTuple):
    """The values of a feature in all rows, concatenated; counts is None if all rows have the column's size."""
    counts: Any
    flat: np.ndarray


def packed(kind: int, values: list) -> np.ndarray:
    """Values of a kind as an array."""
    return strings.pack(values) if kind == BYTES else np.array(values, np.float32 if kind == FLOAT else np.int64)
