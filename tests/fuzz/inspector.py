"""Inspects many HDF5 files without starting Python for each: a small process with h5py, which forks for each file.

The guard (`io/hdf5_guard.py`) starts a process for a file, which takes a quarter of a second. For a campaign,
`inspect_in_forks` replaces that start alone: the script is the same, and a crash or a hang still ends a process for one file.
A file of a campaign is small, and about one in a hundred makes the HDF5 library loop, so a fork has a quarter of a second.
"""
from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from penstock._src.io import hdf5_child, hdf5_guard

SECONDS = 0.25                                  # of computing for one file


class Inspector:
    """Stands in for the module `subprocess` of the guard."""

    DEVNULL, PIPE, TimeoutExpired = subprocess.DEVNULL, subprocess.PIPE, subprocess.TimeoutExpired

    def __init__(self) -> None:
        self._process = subprocess.Popen([sys.executable, "-m", "tests.fuzz.inspector"], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.seconds = 0.0                      # processor time of the process and its forks

    def run(self, command: list[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        """The result of the script for a file."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(command[4:]) + "\n")
        self._process.stdin.flush()
        code, words, self.seconds = json.loads(self._process.stdout.readline())
        return subprocess.CompletedProcess(command, code, words.encode())

    def close(self) -> None:
        """Ends the process."""
        self._process.communicate()


def inspect_in_forks() -> None:
    """Makes the guard of this process use an Inspector."""
    if not isinstance(hdf5_guard.subprocess, Inspector):
        hdf5_guard.subprocess = Inspector()          # type: ignore[assignment]


def seconds() -> float:
    """Processor time of the Inspector of this process, if it has one."""
    used = hdf5_guard.subprocess
    return used.seconds if isinstance(used, Inspector) else 0.0


def _inspected(arguments: list[str], look: Callable[..., int] = hdf5_child.main) -> tuple[int, str, float]:
    """Exit status (negative: the signal) and words of a fork that looks at a file, and the processor time of all so far."""
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        code = 1
        try:
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            os.dup2(writes, 1)
            sys.stdout = os.fdopen(1, "w", closefd=False)
            code = look(*arguments)
            sys.stdout.flush()
        finally:
            os._exit(code)
    os.close(writes)
    with os.fdopen(reads, "rb") as file:
        words = file.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return code, words.decode("utf-8", "replace"), sum(u.ru_utime + u.ru_stime for u in used)


def main() -> None:
    """Inspects the files that the lines of the standard input name."""
    import h5py  # loaded before the forks
    assert h5py
    for line in sys.stdin:
        print(json.dumps(_inspected(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
