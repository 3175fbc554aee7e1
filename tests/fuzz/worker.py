"""Runs cases of one target in a separate process, under limits. Started by `campaign.py`.

Before a case starts, its number and bytes are in a file that both processes map: the campaign knows from it which case a crash
or a hang belongs to, and how many cases ended how. Only what is new or wrong is printed, one line each.

The loop adds little to a case: files are in memory, one timer watches all cases, and lines are traced in as many cases as fit
into a twentieth of the time. A case that ran before, in this or an earlier process, is not run or counted again.
"""
from __future__ import annotations

import functools
import gc
import hashlib
import json
import logging
import mmap
import os
import pathlib
import random
import resource
import signal
import struct
import sys
import tempfile
import time
import warnings
import zlib
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

MEMORY, SECONDS = 6 << 30, 30           # for the process; processor time of one case
KEPT, TRACED = 300, 0.05                # new cases that are kept; part of the time in which lines are traced
WARM = 50                               # traced cases whose lines count as known
HOWS = ("read", "refused", "untyped", "slow")


class Progress:
    """Where a worker is, in a file that outlives it: the current case and the counts of those that ended."""

    _HEAD = struct.Struct(f"<q{len(HOWS)}qqq")
    SIZE = 1 << 22

    def __init__(self, path: pathlib.Path, first: int | None = None, clock: Callable[[], float] = time.process_time):
        self._clock = clock
        if first is not None:
            path.write_bytes(self._HEAD.pack(first, *[0] * len(HOWS), 0, 0).ljust(self.SIZE, b"\0"))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), self.SIZE)
        self._counts = [0] * len(HOWS)

    def begin(self, number: int, data: bytes) -> None:
        """Notes the case that runs next."""
        data = data[:self.SIZE - self._HEAD.size]
        self._map[self._HEAD.size:self._HEAD.size + len(data)] = data
        self._HEAD.pack_into(self._map, 0, number, *self._counts, int(self._clock() * 1e9), len(data))

    def end(self, number: int, how: str) -> None:
        """Counts the case."""
        self._counts[HOWS.index(how)] += 1
        self.skip(number)

    def skip(self, number: int) -> None:
        """Leaves out a case that ran before."""
        self._HEAD.pack_into(self._map, 0, number + 1, *self._counts, int(self._clock() * 1e9), 0)

    def read(self) -> tuple[int, dict[str, int], bytes]:
        """The case that runs or would be next, the counts, and the bytes of the case (none between two cases)."""
        number, *counts, _, size = self._HEAD.unpack_from(self._map)
        return number, dict(zip(HOWS, counts, strict=True)), self._map[self._HEAD.size:self._HEAD.size + size]

    def seconds(self) -> float:
        """Processor time of the worker until its current or last case."""
        return self._HEAD.unpack_from(self._map)[-2] / 1e9

    def close(self) -> None:
        """Releases the file."""
        self._map.close()


class Cases:
    """The cases that ran, of all processes: a Bloom filter in a file. One in some thousands is taken for one that ran."""

    BITS = 26

    def __init__(self, path: pathlib.Path):
        with path.open("a+b") as file:
            file.truncate(1 << self.BITS - 3)
            self._map = mmap.mmap(file.fileno(), 1 << self.BITS - 3)

    def add(self, data: bytes) -> bool:
        """Whether a case is new; it no longer is after that."""
        found = int.from_bytes(hashlib.blake2b(data, digest_size=12).digest(), "little")
        new = False
        for _ in range(3):
            at, bit = (found & (1 << self.BITS) - 1) >> 3, 1 << (found & 7)
            new |= not self._map[at] & bit
            self._map[at] |= bit
            found >>= 32
        return new

    def close(self) -> None:
        """Releases the file."""
        self._map.close()


class TookTooLong(BaseException):
    """A case did not end; no handler of ordinary errors keeps it."""


class Watch:
    """Ends a case that takes more than SECONDS of processor time, by a timer that runs all the time."""

    def __init__(self, seconds: float = SECONDS):
        self.case: int | None = None
        self._last: int | None = None
        self._ticks = 0
        signal.signal(signal.SIGPROF, self._tick)
        signal.setitimer(signal.ITIMER_PROF, seconds / 10, seconds / 10)

    def _tick(self, *_: Any) -> None:
        self._ticks = self._ticks + 1 if self.case == self._last and self.case is not None else 0
        self._last = self.case
        if self._ticks >= 10:
            self._ticks = 0
            raise TookTooLong

    @staticmethod
    def end() -> None:
        """Stops the timer, whose signal would kill a process that has given up its handlers."""
        signal.setitimer(signal.ITIMER_PROF, 0)


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


_names: dict[CodeType, str] = {}


def signature(error: BaseException | None) -> str:
    """What a case did, coarsely: the error and the lines of penstock that it came through. A new one is worth keeping."""
    if error is None:
        return "read"
    lines, trace = [], error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        name = _names.get(code)
        if name is None:
            path = pathlib.Path(code.co_filename)
            name = _names[code] = path.name if "_src" in path.parts else ""
        if name:
            lines.append(f"{name}:{trace.tb_lineno}")
        trace = trace.tb_next
    return f"{type(error).__name__} {' '.join(lines[-6:])}"


class Worker:
    """The cases of one target in this process."""

    def __init__(self, target: str, corpus: pathlib.Path, known: str):
        import penstock as tf
        from tests.fuzz import inspector
        from tests.fuzz.targets import TARGETS, outcome
        tf.debugging.disable_traceback_filtering()         # signatures need the lines of penstock
        warnings.simplefilter("ignore")
        logging.disable()
        self._made, self._outcome, self._corpus, self._lines = TARGETS[target], outcome, corpus, Lines()
        self._kept, self._seen = sorted(corpus.glob("new-*")), set(json.loads(known))
        self._room, self._salt, self._rng = KEPT - len(self._kept), zlib.crc32(target.encode()) << 64, random.Random(0)
        self._traced, self._traced_seconds = 0, 0.0
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
        self._clock = lambda: time.process_time() + inspector.seconds()
        self._watch, self._cases = Watch(), Cases(corpus / "cases")
        self._progress = Progress(corpus / "progress", clock=self._clock)

    def run(self, first: int, count: int, seconds: float) -> None:
        """Runs cases, for some seconds of processor time at most: how many there are does not depend on other processes."""
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        with tempfile.TemporaryDirectory(dir=memory) as folder:
            tempfile.tempdir = folder
            self._made.begin(pathlib.Path(folder), [p.read_bytes() for p in self._kept])
            gc.freeze()
            start = self._clock()
            for number in range(first, first + count):
                passed = self._clock() - start
                if passed > seconds:
                    break
                self._rng.seed(self._salt | number)
                data, run = self._made.case(self._rng)
                if self._cases.add(data):
                    self._case(number, data, run, self._traced_seconds < TRACED * passed)
                else:
                    self._progress.skip(number)
            tempfile.tempdir = None
        self._cases.close()
        self._watch.end()

    def again(self) -> None:
        """Runs the files that went wrong before, and prints how each ends now."""
        with tempfile.TemporaryDirectory() as folder:
            self._made.begin(pathlib.Path(folder), [])
            for path in sorted(self._corpus.glob("bad-*")):
                run = self._bad(path)
                if run is not None:
                    print(json.dumps({"again": path.name, "how": self._outcome(run)[0]}), flush=True)
        self._watch.end()

    def _bad(self, path: pathlib.Path) -> Any:
        """How to run a case that went wrong: its file is read; a call, which has none, is made from its number. None if that
        makes another call since."""
        data = path.read_bytes()
        if hasattr(self._made, "read"):
            return functools.partial(self._made.read, data)
        known = json.loads((self._corpus / "state.json").read_text())["wrong"]
        self._rng.seed(self._salt | next((w["case"] for w in known if w.get("file") == path.name), 0))
        made, run = self._made.case(self._rng)
        return run if made == data else None

    def _case(self, number: int, data: bytes, run: Any, traced: bool) -> None:
        self._progress.begin(number, data)
        self._watch.case, reached = number, False
        try:
            if traced:
                (how, error), reached = self._trace(run)
            else:
                how, error = self._outcome(run)
        except TookTooLong as e:
            how, error = "slow", e
        self._watch.case = None
        what = signature(error)
        if what not in self._seen or reached or how not in ("read", "refused"):
            self._keep(number, data, how, what, error)
        self._progress.end(number, how)

    def _trace(self, run: Any) -> tuple[Any, bool]:
        """How a case ended, and whether it reached a new line."""
        start = self._clock()
        with self._lines:
            ended = self._outcome(run)
        self._traced += 1
        self._traced_seconds += self._clock() - start
        return ended, self._lines.new > 0 and self._traced > WARM

    def _keep(self, number: int, data: bytes, how: str, what: str, error: BaseException | None) -> None:
        """Keeps a case that did something new, and prints it if its outcome is new or wrong."""
        name = hashlib.sha256(data).hexdigest()[:16]
        if how not in ("read", "refused"):
            (self._corpus / f"bad-{name}").write_bytes(data)
            text = f"{type(error).__name__}: {error}"[:300]
            line = {"case": number, "how": how, "what": what, "error": text, "file": f"bad-{name}"}
            print(json.dumps(line), flush=True)
        elif what not in self._seen:
            print(json.dumps({"case": number, "how": how, "what": what}), flush=True)
        if self._room > 0:
            self._room -= 1
            (self._corpus / f"new-{name}").write_bytes(data)
        self._seen.add(what)


if __name__ == "__main__":
    worker = Worker(sys.argv[1], pathlib.Path(sys.argv[5]), sys.stdin.read())
    if int(sys.argv[3]):
        worker.run(int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
    else:
        worker.again()
