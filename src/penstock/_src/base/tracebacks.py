"""Tracebacks that end at the user's line: frames of this library below it do not help users, and are omitted.

Where most errors leave the library (a call of an op, a session's run, a call of a function), the traceback loses the frames
after the last one that is the user's. Those between the user's frames are lost where the library calls a function of the user's
once (a trace), and in what is shown in the end (by Python, in a thread, in a notebook): of `fit`, of a dataset whose function
failed, of a strategy. `tf.debugging.disable_traceback_filtering()` shows
everything, for work on the library itself.
"""
from __future__ import annotations

import sys
import threading
import traceback as printing
import types
from typing import Any

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


def shorten(error: BaseException, between: bool = False) -> None:
    """Removes the frames of the library from the end of a traceback, with `between` all of them, and a cause within the
    library."""
    if _State.filtering:
        error.__traceback__ = (_of_user if between else _until_user)(error.__traceback__)
        cause = error.__cause__
        if cause is not None and cause is not error and _until_user(cause.__traceback__) is None:
            error.__cause__, error.__suppress_context__ = None, True


def _entries(traceback: types.TracebackType | None) -> list[types.TracebackType]:
    found: list[types.TracebackType] = []
    while traceback is not None:
        found.append(traceback)
        traceback = traceback.tb_next
    return found


def _joined(entries: list[types.TracebackType]) -> types.TracebackType | None:
    made = None
    for entry in reversed(entries):
        made = types.TracebackType(made, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return made


def _until_user(traceback: types.TracebackType | None) -> types.TracebackType | None:
    """The traceback up to its last frame of a user; None if it has none."""
    entries = _entries(traceback)
    while entries and not _is_user(entries[-1].tb_frame):
        entries.pop()
    return _joined(entries)


def _of_user(traceback: types.TracebackType | None) -> types.TracebackType | None:
    """The user's frames of a traceback; None if it has none."""
    return _joined([entry for entry in _entries(traceback) if _is_user(entry.tb_frame)])


def shown(error: BaseException, seen: frozenset[int] = frozenset()) -> None:
    """Leaves the user's frames in the traceback of an error that is about to be printed, and in those of its causes.

    An error without a frame of the user is left as it is, and so is one of the library's own: it must be reported whole.
    """
    if not _State.filtering or id(error) in seen:
        return
    entries = _entries(error.__traceback__)
    own = isinstance(error, AssertionError | RecursionError) and entries and not _is_user(entries[-1].tb_frame)
    if any(_is_user(e.tb_frame) for e in entries) and not own:
        error.__traceback__ = _of_user(error.__traceback__)
    for other in (error.__cause__, error.__context__):
        if other is not None:
            shown(other, seen | {id(error)})


def install() -> None:
    """Shortens what Python, threads and IPython print of errors that nobody catches."""
    before, of_threads = sys.excepthook, threading.excepthook

    def hook(kind: type[BaseException], error: BaseException, traceback: types.TracebackType | None) -> None:
        shown(error)
        if before is sys.__excepthook__:            # which does not know the lines of notebooks that `penstock run` runs
            printing.print_exception(kind, error, error.__traceback__)
        else:
            before(kind, error, error.__traceback__)

    def thread_hook(args: Any) -> None:
        if args.exc_value is not None:
            shown(args.exc_value)
            args = threading.ExceptHookArgs((args.exc_type, args.exc_value, args.exc_value.__traceback__, args.thread))
        of_threads(args)

    sys.excepthook, threading.excepthook = hook, thread_hook
    shell = _shell()
    if shell is not None:
        original = shell._get_exc_info

        def exc_info(given: Any = None) -> Any:
            kind, error, traceback = original(given)
            if isinstance(error, BaseException) and traceback is error.__traceback__:
                shown(error)
                traceback = error.__traceback__
            return kind, error, traceback

        shell._get_exc_info = exc_info


def _shell() -> Any:
    """The shell of IPython that this process runs, if any."""
    get = getattr(sys.modules.get("IPython"), "get_ipython", None)
    shell = get() if get is not None else None
    return shell if hasattr(shell, "_get_exc_info") else None


def _is_user(frame: types.FrameType) -> bool:
    names = frame.f_globals
    return "PROGRAM" not in names and str(names.get("__name__")).partition(".")[0] not in _OURS
