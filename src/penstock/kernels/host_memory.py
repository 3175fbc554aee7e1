"""The C library's allocator, told to keep what is freed.

Every step allocates the same large temporaries anew. Left alone, the allocator gives their pages back to the system when
they are freed, and each step pays for getting them again, zeroed, page by page: a tenth of the time of a convolutional
network, and more. Blocks above 32 MB, the most that glibc allows, are mapped one by one as before.
"""
from __future__ import annotations

import functools
import os
import sys

_TRIM, _PAD, _MAP = -1, -2, -3                      # M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD of malloc.h
_KEPT, _STEP, _LARGEST = 512 << 20, 64 << 20, 32 << 20


@functools.cache
def keep_freed() -> bool:
    """Lets the allocator keep up to half a gigabyte of freed memory. Not where the user has set MALLOC_ variables."""
    if not sys.platform.startswith("linux") or any(name.startswith("MALLOC_") for name in os.environ):
        return False
    import ctypes
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and all([mallopt(*a) == 1 for a in ((_MAP, _LARGEST), (_TRIM, _KEPT), (_PAD, _STEP))])
