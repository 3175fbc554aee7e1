"""Checkpoints (io/bundle.py, state/checkpoint/state.py) when the process is killed, or the power fails, between any two
operations of the disk.

A process saves checkpoints, removes old ones, and is killed at a chosen operation; after a power failure, files that were not
flushed are truncated. Invariants: the newest checkpoint is always complete and has the values that were saved; it is not older
than the last acknowledged save; the next process continues from it.
"""
from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any

import torch

from penstock._src.base import dtypes
from penstock._src.io import bundle
from penstock._src.simulate.chaos.choices import Choices, check
from penstock._src.state.checkpoint import state

_SAVES, _KEPT, _OPERATIONS = 4, 2, 24
_CALLS = ("replace", "rename", "unlink", "remove", "fsync")


class Killed(BaseException):
    """The process is killed here."""


class Disk:
    """Counts the operations that change a disk, and kills the process at one of them."""

    def __init__(self, fatal: int, flushed: set[int]):
        self._left, self.flushed = fatal, flushed    # the inodes of files that would survive a power failure
        self._real = {name: getattr(os, name) for name in _CALLS}

    def _call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        self._left -= 1
        if self._left <= 0:
            raise Killed(name)
        if name == "fsync":
            self.flushed.add(os.fstat(args[0]).st_ino)
            return None                              # real flushing takes time and tests nothing
        return self._real[name](*args, **kwargs)

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """All changes go through this disk."""
        for name in _CALLS:
            setattr(os, name, lambda *args, _name=name, **kwargs: self._call(_name, *args, **kwargs))
        try:
            yield
        finally:
            for name, real in self._real.items():
                setattr(os, name, real)

    def fail(self, folder: pathlib.Path, share: int) -> None:
        """A power failure: files that were not flushed keep a share of their bytes, in quarters."""
        for path in folder.iterdir():
            if path.is_file() and path.stat().st_ino not in self.flushed:
                os.truncate(path, path.stat().st_size * share // 4)


def _save(folder: pathlib.Path, number: int, kept: list[str]) -> None:
    prefix = str(folder / f"model-{number}")
    writer = bundle.BundleWriter(prefix)
    try:
        writer.add("step", torch.tensor(number), dtypes.int64)
        writer.add("weights", torch.full((50,), float(number)), dtypes.float32)
        writer.finish()
    except BaseException:
        writer.abandon()
        raise
    kept.append(prefix)
    state.update_checkpoint_state(str(folder), prefix, kept[-_KEPT:])
    while len(kept) > _KEPT:
        bundle.remove(kept.pop(0))


def _newest(folder: pathlib.Path) -> int:
    """The number of the newest checkpoint, which must be complete; 0 if there is none."""
    prefix = state.latest_checkpoint(str(folder))
    if prefix is None:
        check(not (folder / "checkpoint").exists(), "the state file names a checkpoint that is not there")
        return 0
    number = int(prefix.rpartition("-")[2])
    with bundle.BundleReader(prefix) as reader:
        check(int(reader.read("step")) == number, "a checkpoint has the values of another")
        check(bool((reader.read("weights") == number).all()), "a checkpoint is torn")
    return number


def world(choices: Choices) -> None:
    """One schedule."""
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = pathlib.Path(tempfile.mkdtemp(dir=place))
    try:
        acknowledged, flushed = 0, set()             # type: ignore[var-annotated]
        for _ in range(1 + choices.choose(3)):
            acknowledged = _life(choices, folder, acknowledged, flushed)
        _life(Choices(given=()), folder, acknowledged, flushed)
    finally:
        shutil.rmtree(folder)


def _life(choices: Choices, folder: pathlib.Path, acknowledged: int, flushed: set[int]) -> int:
    """A process continues from the newest checkpoint until it has saved enough or is killed; returns the last acknowledged
    one."""
    first = _newest(folder)
    check(first >= acknowledged, f"checkpoint {acknowledged} was acknowledged, and {first} is the newest")
    fatal = choices.choose(_OPERATIONS * _SAVES)
    disk = Disk(fatal if fatal else 10**9, flushed)
    kept = [str(folder / f"model-{n}") for n in range(max(1, first - _KEPT + 1), first + 1)]
    try:
        with disk.in_use():
            for number in range(first + 1, first + 1 + _SAVES):
                _save(folder, number, kept)
                acknowledged = number
    except Killed:
        if choices.happens(2):
            disk.fail(folder, choices.choose(5))
    newest = _newest(folder)
    check(newest >= acknowledged, f"checkpoint {acknowledged} was acknowledged, and {newest} is the newest")
    return acknowledged
