"""Assertions and waits that several test files share."""
import contextlib
import os
import re
import resource
import threading
import time

import numpy as np
import pytest

_allclose = np.testing.assert_allclose


def assert_allclose(actual, desired, rtol=1e-7, atol=None, **options):
    """numpy's assertion, which `tests/conftest.py` replaces. Without `atol`, `rtol` also counts from the largest number.

    Sums of large numbers leave small ones of any size, which differ between machines: `rtol` of each number alone would ask for
    more digits than the computation has.
    """
    if atol is None:
        largest = np.abs(np.asarray(desired, np.float64 if np.isrealobj(desired) else np.complex128))
        atol = rtol * np.max(largest, where=np.isfinite(largest), initial=0.0)
    _allclose(actual, desired, rtol, atol, **options)


@contextlib.contextmanager
def raises_op(kind, pattern):
    """Expects a run-time error of a kind whose message holds `pattern` and names the op that failed."""
    with pytest.raises(kind) as info:
        yield
    assert re.search(pattern, info.value.message, re.S), info.value.message
    assert "[[node " in info.value.message or "[Op:" in info.value.message


@contextlib.contextmanager
def no_new_threads(seconds=60.0):
    """Expects that the threads which the block starts end with it, at most `seconds` later; others may come and go."""
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        thread.join(seconds)
        assert not thread.is_alive(), f"{thread.name} is left over"


def eventually(true, seconds=60.0):
    """Whether something becomes true in time. The limit is for a machine on which everything else runs at once."""
    deadline = time.monotonic() + seconds
    while not true() and time.monotonic() < deadline:
        time.sleep(0.02)
    return bool(true())


def gone(pid):
    """Whether a process has ended; its parent may not have waited for it."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    with open(f"/proc/{pid}/stat") as file:
        return file.read().split(")")[1].split()[0] == "Z"


@contextlib.contextmanager
def within_memory(spare):
    """Lets the process take no more than so many bytes beyond what it has."""
    with open("/proc/self/statm") as f:
        used = int(f.read().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + spare, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
