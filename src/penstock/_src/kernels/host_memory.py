"""Memory of the host: an allocator that keeps what is freed, and large pages under large variables.

Every step allocates the same large temporaries. By default the allocator returns their pages to the system when they are freed,
and each step gets them again, zeroed, page by page: a tenth of the time of a convolutional network, or more. Blocks above 32
MB, the most that glibc allows, are mapped one by one as before.

A table of embeddings is read and written at random rows: with pages of 4 KB, each row costs a walk through the page tables
first, as long as the access itself. `own_pages` requests pages of 2 MB where a value that stays is first written.
"""
from __future__ import annotations

import ctypes
import functools
import os
import sys
from collections.abc import Callable

import torch

_TRIM, _PAD, _MAP = -1, -2, -3                      # M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD of malloc.h
_KEPT, _STEP, _LARGEST = 512 << 20, 64 << 20, 32 << 20


@functools.cache
def keep_freed() -> bool:
    """Lets the allocator keep up to half a gigabyte of freed memory. Not where the user has set MALLOC_ variables."""
    if not sys.platform.startswith("linux") or any(name.startswith("MALLOC_") for name in os.environ):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and all([mallopt(*a) == 1 for a in ((_MAP, _LARGEST), (_TRIM, _KEPT), (_PAD, _STEP))])


_HUGEPAGE, _PAGE, _LARGE = 14, 2 << 20, 8 << 20      # MADV_HUGEPAGE of mman.h, the size of such a page, the least size for it


@functools.cache
def _madvise() -> Callable | None:
    found = getattr(ctypes.CDLL(None), "madvise", None) if sys.platform.startswith("linux") else None
    if found is not None:
        found.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return found


def own_pages(like: torch.Tensor) -> torch.Tensor:
    """An uninitialized tensor as `like`, contiguous; a large one on the host in large pages, where the system has them."""
    made = torch.empty_like(like, memory_format=torch.contiguous_format)
    advise = _madvise() if made.is_cpu and made.nbytes >= _LARGE else None
    if advise is not None:
        begin = -(-made.data_ptr() // _PAGE) * _PAGE
        end = (made.data_ptr() + made.nbytes) // _PAGE * _PAGE
        advise(begin, end - begin, _HUGEPAGE)     # only advice: the system may ignore it
    return made
