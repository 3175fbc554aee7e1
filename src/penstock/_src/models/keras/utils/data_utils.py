"""Sequences of batches and what reads them ahead, and files from the cache.

An enqueuer starts threads that fill a queue; `stop` ends them. Nothing is downloaded: `get_file` finds files at the usual
cache place and says where to put one that is missing.
"""
from __future__ import annotations

import abc
import contextlib
import hashlib
import os
import queue
import random
import shutil
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from penstock._src.base.api import export
from penstock._src.models.keras.backend.config import keras_home


@export("keras.utils.Sequence", v2=["keras.utils.PyDataset"])
class Sequence:
    """Batches by number: a subclass has `__getitem__` and `__len__`.

    >>> class Squares(tf.keras.utils.Sequence):
    ...     def __len__(self): return 10
    ...     def __getitem__(self, i): return np.full((4, 1), i), np.full((4, 1), i * i)
    """

    def __init__(self, workers: int = 1, use_multiprocessing: bool = False, max_queue_size: int = 10):
        self.workers, self.use_multiprocessing, self.max_queue_size = workers, use_multiprocessing, max_queue_size

    @abc.abstractmethod
    def __getitem__(self, index: int) -> Any:
        raise NotImplementedError

    @abc.abstractmethod
    def __len__(self) -> int:
        raise NotImplementedError

    def on_epoch_end(self) -> None:
        """Called after every epoch."""

    def __iter__(self) -> Iterator:
        yield from (self[i] for i in range(len(self)))


def iter_sequence_infinite(sequence: Any) -> Iterator:
    """The batches of a sequence, again and again."""
    while True:
        yield from sequence


@export("keras.utils.SequenceEnqueuer")
class SequenceEnqueuer:
    """Reads batches ahead, on threads.

    >>> enqueuer = tf.keras.utils.OrderedEnqueuer(sequence)
    >>> enqueuer.start(workers=2)
    >>> batches = enqueuer.get()
    >>> ...
    >>> enqueuer.stop()

    Threads, also with `use_multiprocessing`: what takes time in numpy and in files lets other threads run.
    """

    def __init__(self, sequence: Any, use_multiprocessing: bool = False):
        self.sequence, self.use_multiprocessing = sequence, use_multiprocessing
        self.workers = 0
        self.queue: queue.Queue | None = None
        self.stop_signal: threading.Event | None = None
        self.run_thread: threading.Thread | None = None

    def is_running(self) -> bool:
        """Whether batches are being read."""
        return self.stop_signal is not None and not self.stop_signal.is_set()

    def start(self, workers: int = 1, max_queue_size: int = 10) -> None:
        """Starts the threads."""
        self.workers = max(workers, 1)
        self.queue, self.stop_signal = queue.Queue(max_queue_size), threading.Event()
        self.run_thread = threading.Thread(target=self._run, name="keras-enqueuer", daemon=True)
        self.run_thread.start()

    def stop(self, timeout: float | None = None) -> None:
        """Ends the threads."""
        if self.stop_signal is None or self.queue is None or self.run_thread is None:
            return
        self.stop_signal.set()
        with contextlib.suppress(queue.Empty):
            while True:
                self.queue.get_nowait()
        self.run_thread.join(timeout)

    def _run(self) -> None:
        raise NotImplementedError

    def _put(self, item: Any) -> bool:
        """Puts an item into the queue; False when the threads have to end."""
        assert self.queue is not None and self.stop_signal is not None
        while not self.stop_signal.is_set():
            with contextlib.suppress(queue.Full):
                self.queue.put(item, timeout=0.1)
                return True
        return False

    def get(self) -> Iterator:
        """The batches; an error in a thread is raised here."""
        raise NotImplementedError

    def _taken(self) -> Iterator[Future]:
        while self.is_running() and self.queue is not None:
            with contextlib.suppress(queue.Empty):
                yield self.queue.get(timeout=0.1)


@export("keras.utils.OrderedEnqueuer")
class OrderedEnqueuer(SequenceEnqueuer):
    """Reads the batches of a Sequence ahead, epoch after epoch, in their order or shuffled."""

    def __init__(self, sequence: Any, use_multiprocessing: bool = False, shuffle: bool = False):
        super().__init__(sequence, use_multiprocessing)
        self.shuffle = shuffle

    def _run(self) -> None:
        with ThreadPoolExecutor(self.workers) as pool:
            while self.is_running():
                order = list(range(len(self.sequence)))
                if self.shuffle:
                    random.shuffle(order)
                waiting = []
                for i in order:
                    made = pool.submit(self.sequence.__getitem__, i)
                    waiting.append(made)
                    if not self._put(made):
                        made.cancel()
                        return
                for made in waiting:                   # on_epoch_end may change what batches are made of
                    with contextlib.suppress(Exception):
                        made.exception()
                self.sequence.on_epoch_end()

    def get(self) -> Iterator:
        """The batches in their order."""
        for made in self._taken():
            try:
                batch = made.result()
            except Exception:
                self.stop()
                raise
            if batch is not None:
                yield batch


@export("keras.utils.GeneratorEnqueuer")
class GeneratorEnqueuer(SequenceEnqueuer):
    """Reads the batches of a generator ahead, in their order; it ends when the generator does."""

    def __init__(self, sequence: Any, use_multiprocessing: bool = False, random_seed: int | None = None):
        super().__init__(sequence, use_multiprocessing)
        self.random_seed = random_seed

    def _run(self) -> None:
        if self.random_seed is not None:
            np.random.seed(self.random_seed)
        iterator = iter(self.sequence)
        while self.is_running():
            made: Future = Future()
            try:
                made.set_result(next(iterator))
            except Exception as e:
                made.set_exception(e)
                self._put(made)
                return
            if not self._put(made):
                return

    def get(self) -> Iterator:
        """The batches in their order."""
        for made in self._taken():
            try:
                batch = made.result()
            except StopIteration:
                self.stop()
                return
            except Exception:
                self.stop()
                raise
            if batch is not None:
                yield batch


@export("keras.utils.get_file")
def get_file(fname: str | None = None, origin: str | None = None, untar: bool = False, md5_hash: str | None = None,
             file_hash: str | None = None, cache_subdir: str = "datasets", hash_algorithm: str = "auto", extract: bool = False,
             archive_format: Any = "auto", cache_dir: Any = None, force_download: bool = False) -> str:
    """The path of a file in the cache (`~/.keras/datasets/<fname>`), unpacked if asked for.

    Files are not downloaded, but from `file://`. One that is missing is a FileNotFoundError that says where to put it.
    """
    if fname is None:
        if not origin:
            raise ValueError("Please specify the \"fname\" or the \"origin\" argument.")
        fname = os.path.basename(origin.rstrip("/"))
    file_hash = file_hash if file_hash is not None or md5_hash is None else md5_hash
    folder = os.path.join(os.fspath(cache_dir) if cache_dir else str(keras_home()), cache_subdir)
    path = os.path.join(folder, fname + ".tar.gz" if untar and not fname.endswith((".tar.gz", ".tgz", ".tar")) else fname)
    if origin and origin.startswith("file://") and (force_download or not os.path.exists(path)):
        os.makedirs(folder, exist_ok=True)
        shutil.copy(origin[len("file://"):], path)
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path} is not there, and penstock downloads nothing. Get the file"
                                + (f" from {origin}" if origin else "") + f" and put it there, as {path}.")
    if file_hash is not None and not validate_file(path, file_hash, hash_algorithm):
        raise ValueError(f"{path} is incomplete or outdated: its {hash_algorithm} hash is not {file_hash}. Get it again"
                         + (f" from {origin}." if origin else "."))
    if untar or extract:
        _extract(path, folder, "tar" if untar else archive_format)
    return os.path.join(folder, fname) if untar else path


def _extract(path: str, folder: str, archive_format: Any) -> bool:
    """Unpacks an archive, without paths that lead out of the folder; False if it is none."""
    kinds = [] if archive_format is None else ["tar", "zip"] if archive_format == "auto" else np.atleast_1d(archive_format)
    for kind in kinds:
        if kind == "tar" and tarfile.is_tarfile(path):
            with tarfile.open(path) as archive:
                archive.extractall(folder, filter="data")
            return True
        if kind == "zip" and zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                archive.extractall(folder)
            return True
    return False


def _hash_file(path: Any, algorithm: str = "sha256", chunk_size: int = 65535) -> str:
    """The hash of a file; `auto` is sha256."""
    made = hashlib.md5(usedforsecurity=False) if algorithm == "md5" else hashlib.sha256()
    with open(path, "rb") as f:
        while chunk := f.read(chunk_size):
            made.update(chunk)
    return made.hexdigest()


def validate_file(path: Any, file_hash: str, algorithm: str = "auto", chunk_size: int = 65535) -> bool:
    """Whether a file has a hash; `auto` goes by the length of it."""
    kind = "sha256" if algorithm == "sha256" or (algorithm == "auto" and len(file_hash) == 64) else "md5"
    return _hash_file(path, kind, chunk_size) == str(file_hash)
