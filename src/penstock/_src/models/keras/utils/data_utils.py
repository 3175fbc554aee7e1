"""Sequences of batches, and enqueuers that read them ahead. An enqueuer starts threads that fill a queue; `stop` ends them."""
from __future__ import annotations

import abc
import contextlib
import queue
import random
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from penstock._src.base.api import export
from penstock._src.base.service import started
from penstock._src.base.waits import result_of


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
    """The batches of a sequence, repeated infinitely."""
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
        self.run_thread = started(threading.Thread(target=self._run, name="keras-enqueuer", daemon=True))

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
                batch = result_of(made, lambda: f"a batch of {type(self.sequence).__name__}, which a worker makes")
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
                batch = result_of(made, lambda: f"a batch of {type(self.sequence).__name__}, which a worker makes")
            except StopIteration:
                self.stop()
                return
            except Exception:
                self.stop()
                raise
            if batch is not None:
                yield batch
