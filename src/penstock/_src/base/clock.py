"""Monotonic time.

Intervals are measured with `time.monotonic`. Where times are also compared with those of files, of an earlier run or of
another process, `steady` returns seconds since the epoch that are not affected by changes of the system clock. `time.time` is
for dates that people and other programs read; `tests/base/test_clock.py` lists the modules that write dates.
"""
from __future__ import annotations

import time

_EPOCH = time.time() - time.monotonic()


def steady() -> float:
    """Seconds since the epoch, by the clock as it was when the process began."""
    return _EPOCH + time.monotonic()
