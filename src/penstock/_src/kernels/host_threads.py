"""The library whose threads run torch's kernels on the CPU, and custom kernels that use them, too."""
from __future__ import annotations

import ctypes
import functools
import importlib
import os
from collections.abc import Callable
from typing import Any, ClassVar

import torch

from penstock._src.base import tracing

_LAYOUTS = {"_fused": 5, "_rows": 1}         # of the code that modules of kernels read, and of their functions


class _Place(ctypes.Structure):
    """Where a symbol lies, as `dladdr` reports it."""

    _fields_: ClassVar = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p),
                          ("name", ctypes.c_char_p), ("address", ctypes.c_void_p)]


@functools.cache
def libgomp() -> ctypes.CDLL | None:
    """GNU's OpenMP library, where torch uses that one.

    Other packages bring copies of their own, with other threads. Torch's symbols are found as the linker has found them: among
    the global ones, where torch loads its dependencies.
    """
    try:
        symbols, place = ctypes.CDLL(None), _Place()
        found = symbols.dladdr(ctypes.cast(symbols.GOMP_parallel, ctypes.c_void_p), ctypes.byref(place))
    except (AttributeError, OSError, TypeError):             # no such symbol; no such system
        return None
    path = os.fsdecode(place.file) if found and place.file else ""
    return ctypes.CDLL(path) if "libgomp" in os.path.basename(os.path.realpath(path)) else None


def use_at_most(most: int) -> int:
    """Limits the threads of kernels that are called from this thread; returns how many they had before, 0 if no more than that.

    OpenMP is told directly: `torch.set_num_threads` would set the number for threads that begin later, too.
    """
    gomp = libgomp()
    before = 1 if gomp is None else torch.get_num_threads()      # the query makes torch set its number first
    if before <= most:
        return 0
    gomp.omp_set_num_threads(most)                               # type: ignore[union-attr]
    return before


def use_cores(count: int) -> None:
    """Undoes `use_at_most`, which has returned the count."""
    gomp = libgomp()
    if gomp is not None and count:
        gomp.omp_set_num_threads(count)


def on_cores(most: int, run: Callable, *args: Any) -> Any:
    """Calls a function whose kernels have a limited number of threads: with one, they run on this thread only."""
    before = use_at_most(most)
    try:
        return run(*args)
    finally:
        use_cores(before)


def compiled(name: str) -> Any:
    """A module of compiled kernels of this folder; None if it does not exist, or if tensors have no memory now."""
    return None if tracing.lowering() else _loaded(name)


@functools.cache
def _loaded(name: str) -> Any:
    """The module, on the threads that torch's own kernels use."""
    try:
        kernels = importlib.import_module(f"penstock._src.kernels.{name}")
    except ImportError:
        return None
    if getattr(kernels, "LAYOUT", None) != _LAYOUTS.get(name):         # it was built from other sources
        return None
    gomp = libgomp()
    if gomp is not None and hasattr(kernels, "use_threads"):
        kernels.use_threads(ctypes.cast(gomp.GOMP_parallel, ctypes.c_void_p).value or 0)
    return kernels
