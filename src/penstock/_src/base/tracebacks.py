"""Tracebacks that end at the user's line: frames of this library below it do not help users, and are omitted.

An error leaves the library at few places: a call of an op, a session's run, a call of a function. There
its traceback loses the frames after the last one that is the user's (inside of a Python function that an op calls, there may
be such frames). `tf.debugging.disable_traceback_filtering()` shows everything, for work on the library itself.
"""
from __future__ import annotations

import types

from penstock._src.base.api import export

_OURS = {"penstock", "torch", "numpy"}


class _State:
    filtering = True


@export("debugging.enable_traceback_filtering")
def enable_traceback_filtering() -> None:
    """Leaves frames of the library out of tracebacks from now on. That is the default."""
    _State.filtering = True


@export("debugging.disable_traceback_filtering")
def disable_traceback_filtering() -> None:
    """Shows the frames of the library in tracebacks from now on."""
    _State.filtering = False


@export("debugging.is_traceback_filtering_enabled")
def is_traceback_filtering_enabled() -> bool:
    """Whether frames of the library are left out of tracebacks."""
    return _State.filtering


def shorten(error: BaseException) -> None:
    """Removes the frames of the library from the end of a traceback, and a cause within the library."""
    if _State.filtering:
        error.__traceback__ = _until_user(error.__traceback__)
        cause = error.__cause__
        if cause is not None and cause is not error and _until_user(cause.__traceback__) is None:
            error.__cause__, error.__suppress_context__ = None, True


def _until_user(traceback: types.TracebackType | None) -> types.TracebackType | None:
    """The traceback up to its last frame of a user; None if it has none."""
    entries: list[types.TracebackType] = []
    count = 0
    while traceback is not None:
        entries.append(traceback)
        if _is_user(traceback.tb_frame):
            count = len(entries)
        traceback = traceback.tb_next
    made = None
    for entry in reversed(entries[:count]):
        made = types.TracebackType(made, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return made


def _is_user(frame: types.FrameType) -> bool:
    names = frame.f_globals
    return "PROGRAM" not in names and str(names.get("__name__")).partition(".")[0] not in _OURS
