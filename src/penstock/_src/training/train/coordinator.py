"""Coordinates threads: when one requests a stop, all of them stop, and `join` raises the first error."""
from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from penstock._src.base import errors, tf_logging
from penstock._src.base.api import export

_PAUSE = 0.05            # seconds between checks for threads that end without a request to stop


@export("train.Coordinator")
class Coordinator:
    """Ends a set of threads together.

    Args:
        clean_stop_exception_types: Exceptions that end the threads without an error, by default OutOfRangeError.

    >>> import threading
    >>> coord = tf.train.Coordinator()
    >>> def work():
    ...     while not coord.should_stop():
    ...         coord.request_stop()
    >>> threads = [threading.Thread(target=work) for _ in range(4)]
    >>> for thread in threads:
    ...     thread.start()
    >>> coord.join(threads)
    >>> coord.should_stop()
    True

    The first exception given to `request_stop` is raised by `join`; those of `clean_stop_exception_types`
    (OutOfRangeError: the end of the input) are not failures, and only end the threads.
    """

    def __init__(self, clean_stop_exception_types: Any = None):
        self._clean = tuple(clean_stop_exception_types) if clean_stop_exception_types is not None else \
            (errors.OutOfRangeError,)
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._error: BaseException | None = None
        self._joined = False
        self._registered_threads: set[threading.Thread] = set()

    def request_stop(self, ex: Any = None) -> None:
        """Asks all threads to stop. `ex`, an exception or what sys.exc_info() returns, is raised by join()."""
        error = ex[1] if isinstance(ex, tuple) else ex
        if isinstance(ex, tuple) and isinstance(error, BaseException) and ex[2] is not None:
            error = error.with_traceback(ex[2])
        elif error is not None and not isinstance(error, BaseException):
            error = ValueError(f"ex must be an exception or a result of sys.exc_info(), got {ex!r}")
        with self._lock:
            if isinstance(error, self._clean):
                error = None
            if self._joined and error is not None:
                raise error
            if not self._stopped.is_set():
                if error is not None:
                    tf_logging.info("Error reported to Coordinator: %s, %s", type(error), error)
                    self._error = error
                self._stopped.set()

    def clear_stop(self) -> None:
        """Resets the coordinator: should_stop() is False again."""
        with self._lock:
            self._joined, self._error = False, None
            self._stopped.clear()

    def should_stop(self) -> bool:
        """Whether a stop was requested."""
        return self._stopped.is_set()

    @contextlib.contextmanager
    def stop_on_exception(self) -> Iterator[None]:
        """`with coord.stop_on_exception():` requests a stop when an exception comes out of the block, and continues."""
        try:
            yield
        except BaseException as e:
            self.request_stop(e)

    def wait_for_stop(self, timeout: float | None = None) -> bool:
        """Waits until a stop is requested, or for `timeout` seconds; whether it was."""
        return self._stopped.wait(timeout)

    def register_thread(self, thread: threading.Thread) -> None:
        """Adds a thread that join() waits for."""
        with self._lock:
            self._registered_threads.add(thread)

    def join(self, threads: Any = None, stop_grace_period_secs: float = 120, ignore_live_threads: bool = False) -> None:
        """Waits for the threads to end, with a time limit after the request to stop.

        Raises the exception that a thread reported, or RuntimeError if threads are still alive after the grace period.
        """
        with self._lock:
            everyone = list(self._registered_threads.union(threads or ()))
        while any(t.is_alive() for t in everyone) and not self._stopped.wait(_PAUSE):
            pass
        end = time.monotonic() + stop_grace_period_secs
        for t in everyone:
            if t.is_alive():
                t.join(max(end - time.monotonic(), 0))
        left = [t.name for t in everyone if t.is_alive()]
        with self._lock:
            self._joined = True
            self._registered_threads = set()
            if self._error is not None:
                raise self._error
        if left:
            message = "Coordinator stopped with threads still running: " + " ".join(left)
            if not ignore_live_threads:
                raise RuntimeError(message)
            tf_logging.info(message)

    joined = property(lambda self: self._joined, doc="Whether join() has ended.")

    def raise_requested_exception(self) -> None:
        """Raises the exception that was given to request_stop(), if any."""
        with self._lock:
            if self._error is not None:
                raise self._error


@export(v1=["train.LooperThread"])
class LooperThread(threading.Thread):
    """A thread that calls `target`, or run_loop() of a subclass, again and again until the coordinator stops.

    >>> tf.train.LooperThread.loop(coord, 60, target=report, args=(sess,))     # every 60 seconds
    """

    def __init__(self, coord: Coordinator, timer_interval_secs: float | None, target: Callable | None = None, args: Any = None,
                 kwargs: Any = None):
        if not isinstance(coord, Coordinator):
            raise ValueError(f"'coord' argument must be a Coordinator: {coord}")
        if target is None and (args or kwargs):
            raise ValueError("'args' and 'kwargs' argument require that you also pass 'target'")
        super().__init__(daemon=True)
        self._coord, self._timer_interval_secs = coord, timer_interval_secs
        self._call, self._call_args, self._call_kwargs = target, args or (), kwargs or {}
        coord.register_thread(self)

    @staticmethod
    def loop(coord: Coordinator, timer_interval_secs: float | None, target: Callable, args: Any = None,
             kwargs: Any = None) -> LooperThread:
        """Makes and starts a thread that calls `target`, without a pause if the interval is None."""
        made = LooperThread(coord, timer_interval_secs, target, args, kwargs)
        made.start()
        return made

    def run(self) -> None:
        """The thread's work."""
        with self._coord.stop_on_exception():
            self.start_loop()
            if self._timer_interval_secs is None:
                while not self._coord.should_stop():
                    self.run_loop()
            else:
                due = time.monotonic()
                while not self._coord.wait_for_stop(max(due - time.monotonic(), 0)):
                    due += self._timer_interval_secs
                    self.run_loop()
            self.stop_loop()

    def start_loop(self) -> None:
        """Called once, first."""

    def stop_loop(self) -> None:
        """Called once, last."""

    def run_loop(self) -> None:
        """Called at each turn."""
        if self._call is not None:
            self._call(*self._call_args, **self._call_kwargs)
