"""Large tensors between tasks on one machine go through shared memory: copied once, by the sender, and used in place.

Memory comes in blocks. A block is a memfd: it has no name in any file system, belongs to its creator, and is freed with the
last process that has it open. The other side opens it through /proc, which only processes of the same user can, checks its
owner, its size, and that it is sealed against shrinking, and keeps it mapped. A received tensor is a view of its block; when
the last view is freed, the number of the block returns with the next message, and the sender reuses it. If there is no memory
left for blocks (a process allocates at most PENSTOCK_SHARED_MEMORY GB, by default 2), tensors are sent over the connection.
"""
from __future__ import annotations

import collections
import fcntl
import functools
import math
import mmap
import os
import threading
import weakref
from typing import Any

import torch

from penstock._src.base import errors, switches

LEAST = 128 << 10                   # bytes: smaller tensors are sent over the connection
_MOST = int(switches.SHARED_MEMORY.value() * (1 << 30))      # bytes of all blocks that this process makes
_PAGE = mmap.PAGESIZE
_SEALS = getattr(fcntl, "F_SEAL_SHRINK", 0) | getattr(fcntl, "F_SEAL_GROW", 0)
_made = [0]                         # bytes of all blocks now
_lock = threading.Lock()


@functools.cache
def host() -> str:
    """Identifies the processes that can open each other's blocks; empty if shared memory is unavailable."""
    if not hasattr(os, "memfd_create") or not _SEALS or _MOST <= 0:
        return ""
    try:
        with open("/proc/sys/kernel/random/boot_id") as f:
            return f"{f.read().strip()} {os.readlink('/proc/self/ns/pid')} {os.geteuid()}"
    except OSError:
        return ""


class _Block:
    __slots__ = ("fd", "size", "memory")

    def __init__(self, fd: int, size: int):
        self.fd, self.size = fd, size
        self.memory = mmap.mmap(fd, size)

    def view(self, dtype: torch.dtype, shape: Any) -> tuple[torch.Tensor, memoryview]:
        """A tensor in the block, and an object that exists as long as its memory is used."""
        buffer = memoryview(self.memory)
        return torch.frombuffer(buffer, dtype=dtype, count=math.prod(shape)).reshape(tuple(shape)), buffer


class Outgoing:
    """The blocks that one end of a link has made."""

    def __init__(self) -> None:
        self._blocks: dict[int, _Block] = {}
        self._free: dict[int, list[int]] = {}                # by size
        self._lock = threading.Lock()
        self._closed = False

    def put(self, value: torch.Tensor) -> list[Any] | None:
        """Copies a tensor into a block; returns the block as the other side needs it, or None if there is none available."""
        size = _rounded(value.nbytes)
        with self._lock:
            if self._closed:
                return None
            free = self._free.get(size)
            number = free.pop() if free else self._make(size)
            if number is None:
                return None
            block = self._blocks[number]
        block.view(value.dtype, value.shape)[0].copy_(value)
        return [number, size, os.getpid(), block.fd]

    def _make(self, size: int) -> int | None:
        with _lock:
            if _made[0] + size > _MOST:
                return None
            _made[0] += size
        fd = -1
        try:
            fd = os.memfd_create("penstock", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            os.posix_fallocate(fd, 0, size)                  # allocate now: running out of memory while writing would be fatal
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
            block = _Block(fd, size)
        except OSError:
            if fd >= 0:
                os.close(fd)
            with _lock:
                _made[0] -= size
            return None
        number = len(self._blocks)
        self._blocks[number] = block
        return number

    def free(self, numbers: Any) -> None:
        """Marks blocks as free that the peer no longer uses."""
        with self._lock:
            for number in numbers:
                block = self._blocks.get(number)
                if block is not None:
                    self._free.setdefault(block.size, []).append(number)

    def close(self) -> None:
        """Frees all blocks."""
        with self._lock:
            blocks, self._blocks, self._free, self._closed = self._blocks, {}, {}, True
        for block in blocks.values():
            os.close(block.fd)
            with _lock:
                _made[0] -= block.size


class Incoming:
    """The blocks of the other end of a link."""

    def __init__(self) -> None:
        self._blocks: dict[int, _Block] = {}
        self.unused: collections.deque[int] = collections.deque()      # blocks whose tensors have been freed

    def get(self, where: Any, dtype: torch.dtype, shape: Any) -> torch.Tensor:
        """The tensor in a block."""
        number, size, pid, fd = (int(n) for n in where)
        block = self._blocks.get(number)
        if block is None:
            block = self._blocks[number] = _open(pid, fd, size)
        if math.prod(shape) * dtype.itemsize > block.size:
            raise errors.invalid("A tensor does not fit into its shared memory block.")
        tensor, buffer = block.view(dtype, shape)
        weakref.finalize(buffer, self.unused.append, number).atexit = False
        return tensor


def _open(pid: int, fd: int, size: int) -> _Block:
    mine = -1
    try:
        mine = os.open(f"/proc/{pid}/fd/{fd}", os.O_RDWR | os.O_CLOEXEC)
        status = os.fstat(mine)
        if status.st_uid != os.geteuid() or status.st_size != size or fcntl.fcntl(mine, fcntl.F_GET_SEALS) & _SEALS != _SEALS:
            raise errors.invalid("Shared memory of another task does not match its description.")
        return _Block(mine, size)
    except OSError as e:
        raise errors.UnavailableError(None, None, f"Shared memory of another task cannot be opened: {e}. "
                                      "Set PENSTOCK_SHARED_MEMORY=0 to do without.") from None
    finally:
        if mine >= 0:
            os.close(mine)                                   # the map stays


def _rounded(size: int) -> int:
    """Rounds a size up to one of a few block sizes."""
    step = max(_PAGE, 1 << max(0, size.bit_length() - 3))
    return -(-size // step) * step
