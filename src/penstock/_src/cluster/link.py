"""A link: one connection between two tasks, kept as long as both run, over which both may send at any time.

Sending never blocks: bytes that the system does not accept at once are sent by the link's thread, in order. Reading waits only
for the next message. So two tasks cannot deadlock on each other's readers. A small message does not wait for a large one: it is
sent between two of its chunks, and may overtake it. A message with a number `id` is a call, and is
answered by one that has the number as `re`; all others need no answer.
"""
from __future__ import annotations

import collections
import contextlib
import itertools
import socket
import threading
from collections.abc import Callable
from typing import Any

from penstock._src.base import errors, service, tf_logging
from penstock._src.base.waits import waited_for
from penstock._src.cluster import wire
from penstock._src.cluster.shared import Incoming, Outgoing

Answer = Callable[[dict[str, Any] | None, list[Any], BaseException | None], None]


class Link:
    """One end of a link. `peer` is the name of the task at the other end, `incarnation` identifies its process, and `dial` is
    the number of the heartbeats that the link depends on."""

    def __init__(self, sock: Any, peer: str, incarnation: int, dial: int = 0, reader: wire.Reader | None = None,
                 same_host: bool = False):
        self.peer, self.incarnation, self.dial = peer, incarnation, dial
        self._shared = Outgoing() if same_host else None
        self.error: errors.OpError | None = None
        self.sent = 0                                # bytes
        self._sock, self._reader = sock, reader or wire.Reader(sock)
        self._reader.shared = Incoming() if same_host else None
        self._lock = threading.Lock()
        self._more = threading.Condition(self._lock)
        self._queue: collections.deque[list[Any]] = collections.deque()          # what could not be sent at once
        self._large: collections.deque[wire.Pieces] = collections.deque()        # what is sent in pieces, by turns
        self._streams = itertools.count(1)
        self._writer: threading.Thread | None = None
        self._writing = False                        # whether the thread has something to send
        self._calls: dict[int, Answer] = {}
        self._numbers = itertools.count(1)
        self._on_end: list[Callable[[Link], None]] = []

    @property
    def received(self) -> int:
        """The number of bytes received."""
        return self._reader.received

    # -- sending ------------------------------------------------------------------------------------------------------
    def post(self, header: dict[str, Any] | wire.Head, values: Any = None, number: int = 0) -> None:
        """Sends a message; UnavailableError if the link has ended."""
        unused = self._reader.shared.unused if self._reader.shared is not None else None
        free = [unused.popleft() for _ in range(len(unused))] if unused else None
        parts, size, rest = wire.pack_pieces(header, values, number, next(self._streams), self._shared, free)
        try:
            self._send(parts, size, rest)
        except (OSError, errors.ResourceExhaustedError) as e:        # the peer has closed it, or there is no thread to send
            self.end(self._gone(str(e)))
            raise self.error or self._gone(str(e)) from None

    def _send(self, parts: list[Any], size: int, rest: wire.Pieces | None) -> None:
        """Sends what the system takes at once, and leaves the rest to the link's thread."""
        with self._lock:
            if self.error is not None:
                raise self.error
            self.sent += size
            if not self._writing and size < _AT_ONCE:
                try:
                    sent = self._sock.sendmsg(parts if len(parts) <= wire.MOST_PARTS else parts[:wire.MOST_PARTS], (),
                                              socket.MSG_DONTWAIT)
                    if len(parts) == 1 and sent == len(parts[0]):
                        return
                    parts = wire.unsent(parts, sent)
                except BlockingIOError:
                    pass
                if not parts:
                    return
            self._queue.append(parts)
            if rest is not None:
                self._large.append(rest)
            self._writing = True
            if self._writer is None:
                writer = threading.Thread(target=self._write, name=f"penstock link to {self.peer}", daemon=True)
                self._writer = service.started(writer)
            self._more.notify()

    def _write(self) -> None:
        """The thread that sends what could not be sent at once: whole messages first, then a piece of a large one."""
        try:
            while True:
                with self._lock:
                    while not self._queue and not self._large and self.error is None:
                        self._writing = False
                        self._more.wait()
                    if self.error is not None:
                        return
                    parts = self._queue.popleft() if self._queue else self._next_piece()
                while parts:
                    parts = wire.unsent(parts, self._sock.sendmsg(parts[:wire.MOST_PARTS]))
        except Exception as e:                               # without its thread, the link could not send
            self.end(self._gone(str(e)))

    def _next_piece(self) -> list[Any]:
        """A piece of the large message whose turn it is. The lock is held."""
        turn = self._large.popleft()
        parts = turn.next()
        if parts:
            self._large.append(turn)
        return parts

    def call(self, header: dict[str, Any], values: Any, answer: Answer) -> None:
        """Sends a call. `answer(header, values, error)` is called with the answer, or with the error if there is none."""
        number = header["id"] = next(self._numbers)
        self._calls[number] = answer
        try:
            self.post(header, values)
        except errors.OpError as e:
            if self._calls.pop(number, None) is not None:
                answer(None, [], e)

    def ask(self, header: dict[str, Any], values: Any = None, timeout: float | None = None) -> tuple[dict[str, Any], list[Any]]:
        """Sends a call and returns its answer."""
        slot: list = []
        there = threading.Event()

        def answered(*answer: Any) -> None:
            slot.append(answer)
            there.set()
        self.call(header, values, answered)
        if not waited_for(there, lambda: f"the answer of {self.peer} to {header.get('do')!r}", timeout):
            raise errors.UnavailableError(None, None, f"{self.peer} did not answer within {timeout:g} seconds.")
        answer, back, error = slot[0]
        if error is not None:
            raise error
        return answer, back

    # -- receiving ----------------------------------------------------------------------------------------------------
    def fileno(self) -> int:
        """The file descriptor of the connection."""
        return self._sock.fileno()

    @property
    def buffered(self) -> bool:
        """Whether a message, or its beginning, has been read from the connection already."""
        return self._reader.buffered

    def next(self) -> tuple[dict[str, Any], list[Any]]:
        """The next message; UnavailableError if there is none, and the link has ended."""
        why = "the connection was closed"
        try:
            message = self._reader.message()
            if message is not None:
                free = message[0].pop("free", None)
                if free and self._shared is not None:
                    self._shared.free(free)
                return message
        except (OSError, errors.OpError) as e:
            why = str(e)
        self.end(self._gone(why))
        raise self.error or self._gone(why)

    def serve(self, handle: Callable[[Link, dict[str, Any], list[Any]], None]) -> None:
        """Reads until the link ends; passes answers to the callers, and everything else to `handle`."""
        try:
            while True:
                header, values = self.next()
                number = header.get("re")
                if number is None:
                    handle(self, header, values)
                else:
                    answer = self._calls.pop(number, None)
                    if answer is not None:
                        said = header.get("error")
                        answer(header, values, None if said is None else made_error(said))
                del header, values
        except Exception as e:
            if self.error is not None:
                return
            tf_logging.error("A message of %s could not be handled: %r", self.peer, e)
            self.end(self._gone(f"{type(e).__name__}: {e}"))
        finally:
            self.end()
            self._sock.close()

    # -- the end ------------------------------------------------------------------------------------------------------
    def _gone(self, why: str) -> errors.OpError:
        return errors.UnavailableError(None, None, f"The connection to {self.peer} has ended: {why}")

    def on_end(self, call: Callable[[Link], None]) -> None:
        """Registers a function to call when the link ends; calls it at once if the link has ended."""
        with self._lock:
            if self.error is None:
                self._on_end.append(call)
                return
        call(self)

    def close(self) -> None:
        """Ends a link that no other thread reads."""
        self.end()
        self._sock.close()

    def end(self, error: errors.OpError | None = None) -> None:
        """Ends the link: pending calls fail with the error."""
        with self._lock:
            if self.error is not None:
                return
            self.error = error or self._gone("this task has ended it")
            self._queue.clear()
            self._large.clear()
            self._more.notify_all()
            calls, self._on_end = self._on_end, []
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)             # the reading thread notices, and closes it
        if self._shared is not None:
            self._shared.close()
        for number in list(self._calls):
            answer = self._calls.pop(number, None)
            if answer is not None:
                answer(None, [], self.error)
        for call in calls:
            call(self)


_AT_ONCE = 256 << 10                # larger messages are sent by the link's thread, so that the sender can continue


def made_error(said: Any) -> errors.OpError:
    """The error in a message of another task."""
    said = said if isinstance(said, dict) else {}
    kind: Any = errors.exception_type_from_error_code(said["code"]) if said.get("code") in range(1, 17) else errors.UnknownError
    made = kind(None, None, str(said.get("message", "")))
    made.remote_op = said.get("op")
    return made


def described(error: BaseException) -> dict[str, Any]:
    """An error as a message for another task."""
    if isinstance(error, errors.OpError):
        op = error.op
        return {"code": error.error_code, "message": error.message,
                "op": op.name if op is not None else getattr(error, "remote_op", None)}
    kind = errors.INVALID_ARGUMENT if isinstance(error, (ValueError, TypeError, KeyError)) else errors.INTERNAL
    return {"code": kind, "message": f"{type(error).__name__}: {error}"}
