"""Service threads: loops that run as long as a process serves, and threads whose failure must be reported.

`supervise` restarts a loop that fails, after a pause that grows, until the service is stopped. `report` is for a thread that
cannot be restarted: its failure is logged, and its owner notified, so that whatever depends on the thread ends too.
"""
from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from penstock._src.base import errors, tf_logging

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 5.0           # seconds before a restart


def supervise(name: str, work: Callable[[], None], ended: threading.Event) -> threading.Thread:
    """Starts a daemon thread that runs `work` until it returns, and again whenever it raises before `ended` is set."""
    def run() -> None:
        pause = _FIRST_PAUSE
        while not ended.is_set():
            try:
                work()
                return
            except Exception as e:
                if ended.is_set():
                    return
                tf_logging.error("The service thread %s failed and is restarted in %.2g s: %r", name, pause, e, exc_info=True)
            ended.wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
    return started(threading.Thread(target=run, name=name, daemon=True))


def started(thread: threading.Thread) -> threading.Thread:
    """Starts a thread, and returns it; ResourceExhaustedError if the system refuses one more."""
    try:
        thread.start()
    except RuntimeError as e:                        # Python's words: "can't start new thread"
        raise errors.ResourceExhaustedError(
            None, None, f"The thread {thread.name!r} cannot be started: {e}. The limits of threads are those of the user "
            "(ulimit -u), of the container, and of memory.") from None
    return thread


def report(name: str, work: Callable[..., None], *args: Any, failed: Callable[[Exception], None] | None = None) -> None:
    """Runs `work` on this thread; an exception is logged and passed to `failed`."""
    try:
        work(*args)
    except Exception as e:
        tf_logging.error("The service thread %s failed: %r", name, e, exc_info=True)
        if failed is not None:
            failed(e)
