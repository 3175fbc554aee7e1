"""CRC32C as records, tables and tensor bundles store it: masked, so that a checksum over data with embedded checksums is
meaningful."""
from __future__ import annotations

from typing import Any

try:
    from google_crc32c import extend as extend
    from google_crc32c import value as value
except ImportError:                 # no wheel for this machine: tensorboard's is correct, but in Python and slow
    def extend(crc: int, data: Any) -> int:
        """The checksum of data with the checksum `crc`, followed by `data`."""
        from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import crc_update
        return crc_update(crc, bytes(data))

    def value(data: Any) -> int:
        """The checksum of some bytes."""
        return extend(0, data)

_DELTA = 0xA282EAD8


def mask(crc: int) -> int:
    """The stored form of a checksum."""
    return (((crc >> 15) | (crc << 17)) + _DELTA) & 0xFFFFFFFF


def unmask(stored: int) -> int:
    """The checksum that was stored."""
    rotated = (stored - _DELTA) & 0xFFFFFFFF
    return ((rotated >> 17) | (rotated << 15)) & 0xFFFFFFFF


def masked(data: Any) -> int:
    """The stored form of the checksum of some bytes."""
    crc = value(data)
    return (((crc >> 15) | (crc << 17)) + _DELTA) & 0xFFFFFFFF
