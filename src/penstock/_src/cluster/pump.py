"""A pump: the thread that waits for a step reads its links itself.

A message then wakes only the thread that needs it. Events that do not arrive over a link (a value of another thread, a
cancellation) wake the pump through its waker.
"""
from __future__ import annotations

import contextlib
import math
import os
import select
import threading
from collections.abc import Callable
from typing import Any

from penstock._src.base import errors
from penstock._src.cluster.link import Link

_threads = threading.local()


class Waker:
    """A flag that a thread can wait for together with connections."""

    def __init__(self) -> None:
        self.fd, self._in = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._in, False)
        self._is_set = False

    def set(self) -> None:
        """Sets the flag: wakes the thread, or keeps it from sleeping."""
        self._is_set = True
        with contextlib.suppress(OSError):
            os.write(self._in, b".")

    def clear(self) -> None:
        """Clears the flag."""
        if self._is_set:
            self.drain()

    def drain(self) -> None:
        """Clears the flag after a wake-up, when `set` may not have returned yet."""
        self._is_set = False
        with contextlib.suppress(OSError):
            os.read(self.fd, 4096)

    def __del__(self) -> None:
        os.close(self.fd)
        os.close(self._in)


def _waker() -> Waker:
    """This thread's."""
    try:
        return _threads.waker
    except AttributeError:
        _threads.waker = Waker()
        return _threads.waker


class Pump:
    """Reads some links on this thread. Calls `handle(link, header, values)` for each message, and `ended(link, error)` when a
    link ends."""

    def __init__(self, links: list[Link], handle: Callable[[Link, dict[str, Any], list[Any]], None],
                 ended: Callable[[Link, errors.OpError], None]):
        self._handle, self._ended, self._all = handle, ended, links
        self._waker = _waker()
        self._thread = threading.get_ident()
        self._waker.clear()
        self._poll = select.poll()
        self._poll.register(self._waker.fd, select.POLLIN)
        self._links: dict[int, Link] = {}
        for link in links:
            fd = link.fileno()
            if fd < 0 or link.error is not None:
                ended(link, link.error or errors.UnavailableError(None, None, f"The connection to {link.peer} has ended."))
            else:
                self._links[fd] = link
                self._poll.register(fd, select.POLLIN)

    @staticmethod
    def again(links: list[Link], handle: Callable[[Link, dict[str, Any], list[Any]], None],
              ended: Callable[[Link, errors.OpError], None]) -> Pump:
        """A pump for the next step of this thread; reuses the last one if it has the same links."""
        last = getattr(_threads, "pump", None)
        if last is None or last._all != links or len(last._links) != len(links) or any([link.error for link in links]):
            last = _threads.pump = Pump(links, handle, ended)
        else:
            last._handle, last._ended = handle, ended
            last._waker.clear()
        return last

    def rest(self) -> None:
        """Drops the references to its users, until the next step."""
        self._handle = self._ended = _nobody

    def wake(self) -> None:
        """Makes `once` return in the thread that runs it, if any."""
        if threading.get_ident() != self._thread:
            self._waker.set()

    def once(self, timeout: float | None) -> None:
        """Handles the messages that have arrived; waits for a message or a wake-up, at most `timeout` seconds."""
        for fd, link in self._links.items():
            if link.buffered:
                self._read(fd, link)
                return
        for fd, _ in self._poll.poll(None if timeout is None else math.ceil(timeout * 1000)):
            if fd == self._waker.fd:
                self._waker.drain()
            elif fd in self._links:
                self._read(fd, self._links[fd])

    def _read(self, fd: int, link: Link) -> None:
        try:
            message = link.next()
        except errors.OpError as e:
            del self._links[fd]
            self._poll.unregister(fd)
            self._ended(link, e)
            return
        self._handle(link, *message)


def _nobody(*_: Any) -> None:
    """Marks the pump as unused."""
