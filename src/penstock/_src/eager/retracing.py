"""A warning for functions that are traced again and again, which is slow and mostly a mistake in the program."""
from __future__ import annotations

import collections
import inspect
import logging
import os
import weakref
from collections.abc import Callable
from typing import Any

_CALLS, _TRACES, _WARNINGS = 10, 5, 2       # so many traces in so many calls; so many warnings for a function at most
_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_histories: weakref.WeakKeyDictionary[Any, History] = weakref.WeakKeyDictionary()


class History:
    """The number of calls of a function, and which of the last ones traced it."""

    __slots__ = ("calls", "_traces", "_warnings", "__weakref__")

    def __init__(self, warnings: int = _WARNINGS):
        self.calls = 0
        self._traces: collections.deque[int] = collections.deque()
        self._warnings = warnings

    def traced(self, name: str) -> None:
        """Notes that the present call traced the function, and warns if many did."""
        self._traces.append(self.calls)
        while self.calls - self._traces[0] >= _CALLS:
            self._traces.popleft()
        if len(self._traces) < _TRACES or not self._warnings:
            return
        self._warnings -= 1
        logging.getLogger("penstock").warning(
            "%d out of the last %d calls to %s triggered tf.function retracing. Tracing is expensive. It happens for every new "
            "combination of shapes, dtypes and Python values, and for every new tf.function: create functions outside of "
            "loops, pass tensors in place of Python numbers, and use reduce_retracing=True or an input_signature where shapes "
            "vary.",
            len(self._traces), self.calls - self._traces[0] + 1, name)


def history_of(function: Callable) -> History:
    """The history of a Python function. Functions of the same code share it: they may have been created in a loop."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None or code.co_filename.startswith(_OWN):
        return History(0)
    found = _histories.get(code)
    if found is None:
        found = _histories[code] = History()
    return found
