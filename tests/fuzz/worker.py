"""Runs cases of one target in a separate process, under limits. Started by `campaign.py`.

Before a case starts, its number and bytes are in a file that both processes map: the campaign knows from it which case a crash
or a hang belongs to, and how many cases ended how. Only what is new or wrong is printed, one line each.
"""
from __future__ import annotations

import hashlib
import json
import mmap
import pathlib
import random
import resource
import signal
import struct
import sys
import tempfile
import time
import traceback
from types import FrameType
from typing import Any

MEMORY, SECONDS = 8 << 30, 30           # for the process; processor time of one case
KEPT, TRACED = 300, 25                  # new cases that are kept; one case of so many has its lines recorded
HOWS = ("read", "refused", "untyped", "slow")


class Progress:
    """Where a worker is, in a file that outlives it: the current case and the counts of those that ended."""

    _HEAD = struct.Struct(f"<q{len(HOWS)}qq")
    SIZE = 1 << 22

    def __init__(self, path: pathlib.Path, first: int | None = None):
        if first is not None:
            path.write_bytes(self._HEAD.pack(first, *[0] * len(HOWS), 0).ljust(self.SIZE, b"\0"))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), self.SIZE)
        self._counts = [0] * len(HOWS)

    def begin(self, number: int, data: bytes) -> None:
        """Notes the case that runs next."""
        data = data[:self.SIZE - self._HEAD.size]
        self._map[self._HEAD.size:self._HEAD.size + len(data)] = data
        self._HEAD.pack_into(self._map, 0, number, *self._counts, len(data))

    def end(self, number: int, how: str) -> None:
        """Counts the case."""
        self._counts[HOWS.index(how)] += 1
        self._HEAD.pack_into(self._map, 0, number + 1, *self._counts, 0)

    def read(self) -> tuple[int, dict[str, int], bytes]:
        """The case that runs or would be next, the counts, and the bytes of the case (none between two cases)."""
        number, *counts, size = self._HEAD.unpack_from(self._map)
        return number, dict(zip(HOWS, counts, strict=True)), self._map[self._HEAD.size:self._HEAD.size + size]

    def close(self) -> None:
        """Releases the file."""
        self._map.close()


class TookTooLong(BaseException):
    """A case did not end; no handler of ordinary errors keeps it."""


def _stop(*_: Any) -> None:
    raise TookTooLong


class Lines:
    """The lines of penstock that some cases reach: a case that reaches a new one is worth keeping."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, int]] = set()
        self.new = 0

    def __enter__(self) -> Lines:
        self.new = 0
        sys.settrace(self._call)
        return self

    def __exit__(self, *_: Any) -> None:
        sys.settrace(None)

    def _call(self, frame: FrameType, event: str, arg: Any) -> Any:
        return self._line if "_src" in frame.f_code.co_filename else None

    def _line(self, frame: FrameType, event: str, arg: Any) -> Any:
        key = (frame.f_code.co_filename, frame.f_lineno)
        if key not in self._seen:
            self._seen.add(key)
            self.new += 1
        return self._line


def signature(error: BaseException | None) -> str:
    """What a case did, coarsely: the error and the lines of penstock that it came through. A new one is worth keeping."""
    if error is None:
        return "read"
    lines = [f"{pathlib.Path(f.filename).name}:{f.lineno}" for f in traceback.extract_tb(error.__traceback__, limit=-12)
             if "_src" in f.filename]
    return f"{type(error).__name__} {' '.join(lines[-6:])}"


def run_cases(target: str, first: int, count: int, seconds: float, corpus: pathlib.Path, known: str) -> None:
    """Runs cases, for some seconds at most, and prints what is new; `known` has the signatures of earlier ones."""
    import penstock as tf
    from tests.fuzz.targets import TARGETS, outcome
    tf.debugging.disable_traceback_filtering()         # signatures need the lines of penstock
    made, lines = TARGETS[target], Lines()
    kept = sorted(corpus.glob("new-*"))
    seen, room, until = set(json.loads(known)), KEPT - len(kept), time.monotonic() + seconds
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    signal.signal(signal.SIGPROF, _stop)
    progress = Progress(corpus / "progress")

    def attempt(number: int) -> tuple[bytes, str, BaseException | None, bool]:
        data, run = made.case(random.Random(f"{target} {number}"))
        progress.begin(number, data)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            if number % TRACED:
                return data, *outcome(run), False
            with lines:
                ended = outcome(run)
            return data, *ended, lines.new > 0 and number > first + 10 * TRACED
        except TookTooLong as e:
            return data, "slow", e, False
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)

    with tempfile.TemporaryDirectory() as folder:
        made.begin(pathlib.Path(folder), [p.read_bytes() for p in kept])
        for number in range(first, first + count):
            if time.monotonic() > until:
                break
            data, how, error, reached = attempt(number)
            what, name = signature(error), hashlib.sha256(data).hexdigest()[:16]
            if how not in ("read", "refused"):
                (corpus / f"bad-{name}").write_bytes(data)
                text = f"{type(error).__name__}: {error}"[:300]
                print(json.dumps({"case": number, "how": how, "what": what, "error": text}), flush=True)
            elif what not in seen:
                print(json.dumps({"case": number, "how": how, "what": what}), flush=True)
            if (what not in seen or reached) and room > 0:
                room -= 1
                (corpus / f"new-{name}").write_bytes(data)
            seen.add(what)
            progress.end(number, how)


if __name__ == "__main__":
    run_cases(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), pathlib.Path(sys.argv[5]), sys.stdin.read())
