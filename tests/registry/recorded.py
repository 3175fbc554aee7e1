"""TensorFlow's values for samples without a numpy reference: recorded by `make oracle`, compared by the walker.

One compressed file of length-prefixed records: the sample's name and a checksum of its inputs and attributes, then its
outputs as TensorProtos. A record of a sample that has changed since is not used.
"""
from __future__ import annotations

import functools
import gzip
import io
import os
import zlib
from typing import Any

import numpy as np

import penstock.compat.v1 as tf
from tests.oracle import records
from tests.registry.running import flat_arrays
from tests.registry.sample import Sample

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "recorded.gz")
_LARGEST = 1 << 16          # bytes of one sample's outputs that are worth keeping


def wanted(sample: Sample) -> bool:
    """Whether a sample has no other reference for its value."""
    return sample.expect is None and not sample.random


def key(sample: Sample) -> int:
    """A checksum of the inputs and attributes."""
    sum_ = zlib.crc32(repr(sorted(sample.attrs.items(), key=str)).encode())
    for a in flat_arrays(sample):
        sum_ = zlib.crc32(repr((a.shape, str(a.dtype), a.tolist() if a.dtype == object else a.tobytes())).encode(), sum_)
    return sum_


def write(kept: dict[str, tuple[int, list[bytes]]]) -> None:
    """Writes the record: {name: (key, outputs)}."""
    out = io.BytesIO()
    for name, (sum_, parts) in sorted(kept.items()):
        if sum(map(len, parts)) <= _LARGEST:
            records.write(out, {"id": name, "key": sum_}, parts)
    with open(PATH, "wb") as f:
        f.write(gzip.compress(out.getvalue(), mtime=0))


@functools.cache
def _all() -> dict[str, tuple[int, list[bytes]]]:
    if not os.path.exists(PATH):
        return {}
    with gzip.open(PATH, "rb") as f:
        return {header["id"]: (header["key"], parts) for header, parts in records.read(f)}


def values(name: str, sample: Sample) -> list[np.ndarray] | None:
    """TensorFlow's values for a sample, if they were recorded for it as it is."""
    sum_, parts = _all().get(name, (None, None))
    if sum_ != key(sample):
        return None
    make: Any = tf.make_tensor_proto(0)
    return [tf.make_ndarray(make.FromString(p)) for p in parts or []]
