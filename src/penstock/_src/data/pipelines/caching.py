"""Stages that cache elements: in memory, or in a record file."""
from __future__ import annotations

import glob
import itertools
import os
import threading
from typing import Any

from penstock._src.base import errors
from penstock._src.data.pipelines import codec, values
from penstock._src.data.pipelines.base import Cursor, Stage
from penstock._src.data.pipelines.batching import _ElementsCursor
from penstock._src.data.pipelines.sources import _SliceCursor
from penstock._src.io import confine, locks, paths
from penstock._src.io.record import RecordReader, TFRecordWriter

_numbers = itertools.count()


class Store:
    """The elements of a complete iteration. Several caches may share it."""

    def __init__(self) -> None:
        self.kept: Any = None                      # a list of elements, or columns
        self.lock = threading.Lock()


class MemoryCache(Stage):
    """The elements of a dataset, cached after a complete iteration."""

    def __init__(self, source: Stage, store: Store | None = None):
        self.inputs, self.store = (source,), store or Store()

    @property
    def kept(self) -> Any:
        """The cached elements; None before the end of an iteration."""
        return self.store.kept

    def keep(self, parts: list, as_blocks: bool) -> None:
        """Stores the elements of the first complete iteration."""
        with self.store.lock:
            if self.store.kept is None:
                self.store.kept = values.join(parts) if as_blocks and parts else list(parts)

    def iterate(self, ctx: Any) -> Cursor:
        return _KeepingCursor(self, ctx)

    def replay(self) -> Cursor:
        """A cursor over the cached elements."""
        kept = self.kept
        return _SliceCursor(kept, len(kept[0])) if isinstance(kept, tuple) else _ElementsCursor(kept)

    def cardinality(self) -> int:
        return self.cardinality_of_input()


class _KeepingCursor(Cursor):
    """Returns elements and records them: as blocks while all of them come in blocks of one shape."""

    def __init__(self, stage: MemoryCache, ctx: Any):
        self._stage, self._ended = stage, False
        self._parts: list = []
        self._replay = stage.replay() if stage.kept is not None else None
        self._source: Any = stage.inputs[0].iterate(ctx) if self._replay is None else self._replay
        self.inputs = (self._source,)
        self._as_blocks = self._source.blocks

    @property
    def blocks(self) -> bool:                      # type: ignore[override]
        return self._replay.blocks if self._replay is not None else self._as_blocks and self._source.blocks

    def next(self, ctx: Any) -> tuple | None:
        if self._replay is not None:
            return self._replay.next(ctx)
        element = None if self._ended else self._source.next(ctx)
        if element is None:
            self._complete()
        else:
            self._parts.append(tuple(map(values.single, element)) if self._as_blocks else element)
        return element

    def block(self, ctx: Any, limit: int) -> tuple | None:
        if self._replay is not None:
            return self._replay.block(ctx, limit)
        if not self._as_blocks or not self._source.blocks:
            if self._as_blocks:
                self._parts = [e for p in self._parts for e in values.elements(p)]
                self._as_blocks = False
            return super().block(ctx, limit)
        columns = None if self._ended else self._source.block(ctx, limit)
        if columns is None:
            self._complete()
        else:
            self._parts.append(columns)
        return columns

    def _complete(self) -> None:
        if self._ended:
            return
        self._ended = True
        shapes = {tuple(values.shape_of(c)[1:] for c in p) for p in self._parts} if self._as_blocks else {()}
        if len(shapes) > 1:
            self._parts = [e for p in self._parts for e in values.elements(p)]
            self._as_blocks = False
        self._stage.keep(self._parts, self._as_blocks)
        self._parts = []

    def save(self) -> Any:
        return {"blocks": self._as_blocks, "parts": self._parts, "ended": self._ended, "kept": self._stage.kept,
                "input": self._source.save(), "replaying": self._replay is not None}

    def restore(self, state: Any, ctx: Any) -> None:
        self._as_blocks, self._ended = state["blocks"], state["ended"]
        self._parts = [tuple(p) for p in state["parts"]]
        kept = state["kept"]
        if kept is not None:
            self._stage.store.kept = kept if isinstance(kept, tuple) else [tuple(e) for e in kept]
        if state["replaying"]:
            self._source = self._replay = self._stage.replay()
            self.inputs = (self._source,)
        elif self._replay is not None:
            self._replay = None
            self._source = self._stage.inputs[0].iterate(ctx)
            self.inputs = (self._source,)
        self._source.restore(state["input"], ctx)


class FileCache(Stage):
    """The elements of a dataset, cached in a file that a complete iteration writes and later ones read. A second iteration
    that begins before the file is complete is an error, or, if only `one_writes`, returns the elements of its input."""

    def __init__(self, source: Stage, prefix: str, one_writes: bool = False):
        self.inputs, self.prefix, self.one_writes = (source,), prefix, one_writes

    @property
    def path(self) -> str:
        """The file of a complete cache."""
        return self.prefix + ".index"

    def iterate(self, ctx: Any) -> Cursor:
        return _FileCursor(self)

    def cardinality(self) -> int:
        return self.cardinality_of_input()


class _FileCursor(Cursor):
    """Reads the file if it exists, and writes it otherwise; which of the two is decided by the first element."""

    def __init__(self, stage: FileCache):
        self._stage = stage
        self._reader: RecordReader | None = None
        self._writer: _Writer | None = None
        self._ended = self._taking_over = False
        self._count = 0

    def _start(self, ctx: Any) -> None:
        if paths.exists(self._stage.path):
            self._reader = RecordReader(self._stage.path)
            return
        try:
            self._writer = _Writer(self._stage.prefix, self._stage.path, self._taking_over)
        except errors.AlreadyExistsError:
            if not self._stage.one_writes:
                raise
        self._source = self._stage.inputs[0].iterate(ctx)
        self.inputs = (self._source,)

    def next(self, ctx: Any) -> tuple | None:
        if self._ended:
            return None
        if self._reader is None and not self.inputs:
            self._start(ctx)
        self._count += 1
        if self._reader is not None:
            record = self._reader.read()
            self._ended = record is None
            return None if record is None else tuple(codec.decode(record))
        element = self._source.next(ctx)
        self._ended = element is None
        if self._writer is not None:
            if element is None:
                self._writer.finish()
            else:
                self._writer.write(element)
        return element

    def save(self) -> Any:
        return self._count, self._ended

    def restore(self, state: Any, ctx: Any) -> None:
        count, ended = state
        self._taking_over = True                     # the iterator whose position this is may still hold the lock
        for _ in range(0 if ended else count):       # what is not complete in the file is made and written again
            self.next(ctx)
        self._ended = ended

    def close(self) -> None:
        if self._writer is not None:
            self._writer.abandon()
        if self._reader is not None:
            self._reader.close()
        super().close()

    def __del__(self) -> None:
        if self._writer is not None:
            self._writer.abandon()


class _Writer:
    """A cache file being written: it has one writer, and becomes visible when it is complete."""

    def __init__(self, prefix: str, path: str, taking_over: bool = False):
        self._path = path
        self._lock = _LockFile(prefix + ".lockfile", taking_over)
        self._temporary = f"{prefix}.tmp-{os.getpid()}-{next(_numbers)}"
        self._open = False
        if not taking_over:
            for left in paths.glob(glob.escape(prefix) + ".tmp-*"):        # of a writer that was killed
                paths.remove(left)
        self._writer = TFRecordWriter(self._temporary)
        self._open = True

    def write(self, element: tuple) -> None:
        """Adds an element."""
        if self._open:
            self._writer.write(codec.encode(list(element)))

    def finish(self) -> None:
        """Publishes the file."""
        if self._open:
            self._open = False
            self._writer.close()
            paths.sync_file(self._temporary)
            paths.rename(self._temporary, self._path)
            self._lock.release()
            paths.sync_folder(os.path.dirname(self._path) or ".")

    def abandon(self) -> None:
        """Removes an incomplete file."""
        if self._open:
            self._open = False
            self._writer.close()
            if paths.exists(self._temporary):
                paths.remove(self._temporary)
            self._lock.release()


class _LockFile:
    """The file that a writer of a cache has beside it. A local one is locked as long as its writer lives: that of a process
    that was killed is removed by the next writer."""

    def __init__(self, path: str, taking_over: bool):
        self._path, own = path, b"%d" % os.getpid()
        self._file: Any = None
        local = paths.remote(path) is None
        if local:
            locks.remove_if_abandoned(path)
        taken = paths.exists(path)
        if taken and not (taking_over and paths.read_bytes(path) == own):
            raise self._refused()
        if not local:
            paths.write_atomically(path, own)
            return
        confine.check(path)
        with paths.typed(path):
            self._file, temporary = locks.create_temporary(path)
            self._file.write(own)
            self._file.flush()
            self._place(temporary, taken)

    def _place(self, temporary: str, replace: bool) -> None:
        """Gives the locked file its name, unless another writer was faster."""
        try:
            if not replace:
                os.link(temporary, self._path)
                os.unlink(temporary)
                return
        except FileExistsError:
            self._file.close()
            os.unlink(temporary)
            raise self._refused() from None
        except OSError:                              # a file system without hard links
            pass
        os.replace(temporary, self._path)

    def _refused(self) -> errors.OpError:
        return errors.AlreadyExistsError(
            None, None, f"There appears to be a concurrent caching iterator running - cache lockfile already exists "
                        f"('{self._path}'). If you are sure no other running computations are using this cache prefix, "
                        "delete the lockfile and re-initialize the iterator.")

    def release(self) -> None:
        """Removes the file."""
        if paths.exists(self._path):
            paths.remove(self._path)
        if self._file is not None:
            self._file.close()
