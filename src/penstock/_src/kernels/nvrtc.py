"""CUDA kernels that are compiled in this process, by NVRTC."""
from __future__ import annotations

import ctypes
import functools
import logging
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

from penstock._src.kernels import exiting

_log = logging.getLogger("penstock")
_several = threading.BoundedSemaphore(max(1, min(16, os.cpu_count() or 1)))        # kernels that are compiled at once


class Kernel:
    """Kernels of one source that are compiled on another thread, and loaded per device when they first run."""

    def __init__(self, source: str, names: tuple[str, ...]):
        self._source, self._names = source, names
        self._binary: bytes | None = None
        self._loaded: dict[torch.device, Any] = {}
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._compile, daemon=True, name="penstock-nvrtc")
        exiting.start(self._thread)

    def _compile(self) -> None:
        with _several:
            try:
                self._binary = _compiled(self._source, self._names[0])
            except Exception as e:                                       # ATen runs the steps one by one
                _log.info("A kernel is not compiled: %s", str(e).strip().split("\n")[0])

    def loaded(self, device: torch.device) -> Callable | None:
        """What launches one of them, by its name, the blocks, their threads, and arguments: tensors, and values of ctypes. None
        if they could not be compiled."""
        if device not in self._loaded:
            with self._lock:
                self._thread.join()
                if device not in self._loaded:
                    self._loaded[device] = None if self._binary is None else _load(self._binary, self._names, device)
        return self._loaded[device]


def _compiled(source: str, name: str) -> bytes:
    from torch.cuda import _utils
    return _utils._nvrtc_compile(source, name, nvcc_options=["--fmad=true"])[0]


def _load(binary: bytes, names: tuple[str, ...], device: torch.device) -> Callable:
    from torch.cuda import _utils
    load: Any = _utils._cuda_load_module
    with torch.cuda.device(device):
        kernels = load(binary, list(names))

    def launch(name: str, grid: tuple, block: tuple, arguments: Sequence[Any]) -> None:
        values = [ctypes.c_void_p(a.data_ptr()) if isinstance(a, torch.Tensor) else a for a in arguments]
        places = (ctypes.c_void_p * len(values))(*[ctypes.addressof(v) for v in values])
        with torch.cuda.device(device):
            stream = torch.cuda.current_stream(device).cuda_stream
            failed = _driver().cuLaunchKernel(kernels[name].func, *grid, *block, 0, ctypes.c_void_p(stream), places, None)
        if failed:
            raise RuntimeError(f"CUDA did not launch {name}: error {failed}")
    return launch


@functools.cache
def _driver() -> Any:
    return ctypes.CDLL("libcuda.so.1")


@functools.cache
def kernel(source: str, names: tuple[str, ...]) -> Kernel:
    """The kernels of a source."""
    return Kernel(source, names)
