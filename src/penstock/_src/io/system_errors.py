"""Errors of the operating system as errors of `penstock.errors`."""
from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from typing import Any

from penstock._src.base import errors, tf_logging

# Which error a number of the system is. As in TensorFlow, but for EFBIG: an OutOfRangeError would say that the data have ended.
_NUMBERS = {
    errors.NotFoundError: "ENOENT ENODEV ENXIO ESRCH ENOMEDIUM",
    errors.AlreadyExistsError: "EEXIST EALREADY EADDRNOTAVAIL ENOTUNIQ",
    errors.PermissionDeniedError: "EPERM EACCES EROFS ENOKEY",
    errors.FailedPreconditionError: "ENOTEMPTY EISDIR ENOTDIR EBADF EBUSY EPIPE ETXTBSY ENOTCONN EISCONN ESHUTDOWN EADDRINUSE",
    errors.InvalidArgumentError: "EINVAL ENAMETOOLONG E2BIG EDOM EFAULT EILSEQ ESPIPE ENOTTY",
    errors.ResourceExhaustedError: "ENOSPC EDQUOT EFBIG EMFILE ENFILE EMLINK ENOMEM ENOBUFS",
    errors.OutOfRangeError: "EOVERFLOW ERANGE",
    errors.UnimplementedError: "EOPNOTSUPP ENOTSUP EXDEV",
    errors.UnavailableError: "EAGAIN EINTR ECONNREFUSED ECONNABORTED ECONNRESET EHOSTDOWN EHOSTUNREACH ENETDOWN ENETUNREACH "
                             "ENOLCK",
    errors.AbortedError: "EDEADLK ESTALE",
    errors.DeadlineExceededError: "ETIMEDOUT ETIME",
    errors.CancelledError: "ECANCELED"}
_KINDS = {getattr(errno, name): kind for kind, names in _NUMBERS.items() for name in names.split() if hasattr(errno, name)}
_WITHOUT_NUMBER = {FileNotFoundError: errno.ENOENT, FileExistsError: errno.EEXIST, PermissionError: errno.EACCES,
                   IsADirectoryError: errno.EISDIR, NotADirectoryError: errno.ENOTDIR}       # as fsspec raises them


def typed_error(e: OSError, path: Any) -> errors.OpError:
    """The tf.errors exception for a failed file operation."""
    number = e.errno or next((n for t, n in _WITHOUT_NUMBER.items() if isinstance(e, t)), 0)
    return _KINDS.get(number, errors.UnknownError)(None, None, f"{os.fsdecode(path)}; {e.strerror or e}")


@contextlib.contextmanager
def typed(path: Any) -> Iterator[None]:
    """Turns an OSError inside into one of tf.errors; into the interrupt, if the error is a consequence of one."""
    before = sys.exception()
    try:
        yield
    except OSError as e:
        raise _interrupt(e, before) or typed_error(e, path) from None


@contextlib.contextmanager
def reported() -> Iterator[None]:
    """Logs the error of a file where there is no caller to raise it to: in destructors, and when the process ends."""
    try:
        yield
    except (OSError, errors.OpError) as e:
        tf_logging.error("A file that was not closed is incomplete: %s", e)


def _interrupt(error: BaseException, before: BaseException | None) -> BaseException | None:
    """The interrupt (KeyboardInterrupt, SystemExit) during whose handling an error was raised, if it was not there `before`."""
    cause = error.__context__
    while cause is not None and cause is not before:
        if not isinstance(cause, (Exception, GeneratorExit)):
            return cause
        cause = cause.__context__
    return None
