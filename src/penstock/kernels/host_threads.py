"""The library whose threads run torch's kernels on the CPU."""
from __future__ import annotations

import ctypes
import functools


@functools.cache
def libgomp() -> ctypes.CDLL | None:
    """GNU's OpenMP library, where torch uses that one."""
    try:
        with open("/proc/self/maps") as f:
            paths = {line.split(None, 5)[5].strip() for line in f if "libgomp" in line}
    except OSError:
        return None
    return ctypes.CDLL(paths.pop()) if len(paths) == 1 else None
