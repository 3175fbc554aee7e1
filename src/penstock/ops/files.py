"""Whole files as strings: ReadFile, WriteFile, MatchingFiles."""
from __future__ import annotations

import glob
import os
import tempfile
from typing import Any

import numpy as np

from penstock import errors
from penstock.ops.registry import op

read_file = op("ReadFile", "filename: string -> contents: string", stateful=True,
               export_as="read_file io.read_file").no_gradient()
write_file = op("WriteFile", "filename: string, contents: string ->", stateful=True,
                export_as="write_file io.write_file").no_gradient()
matching_files = op("MatchingFiles", "pattern: string -> filenames: string", stateful=True,
                    export_as="matching_files io.matching_files").no_gradient()
read_file.shape(lambda filename: ())
write_file.shape(lambda filename, contents: [])
matching_files.shape(lambda pattern: (None,))


def _one(value: np.ndarray, what: str) -> bytes:
    if value.ndim != 0:
        raise errors.invalid(f"{what} must be scalar, got shape {list(value.shape)}")
    return value[()]


def _scalar(value: bytes) -> np.ndarray:
    out = np.empty((), dtype=object)
    out[()] = value
    return out


def typed_os_error(e: OSError, path: Any) -> errors.OpError:
    """The tf.errors exception for a failed file operation."""
    kind = {FileNotFoundError: errors.NotFoundError, PermissionError: errors.PermissionDeniedError,
            IsADirectoryError: errors.FailedPreconditionError, FileExistsError: errors.AlreadyExistsError}.get(
                type(e), errors.UnknownError)
    return kind(None, None, f"{os.fsdecode(path)}; {e.strerror}")


@read_file.kernel
def _(filename):
    path = _one(filename, "filename")
    try:
        with open(path, "rb") as f:
            return _scalar(f.read())
    except OSError as e:
        raise typed_os_error(e, path) from None


@write_file.kernel
def _(filename, contents):
    """Written beside, flushed to disk, then renamed: readers see the old file or the whole new one."""
    path, data = _one(filename, "filename"), _one(contents, "contents")
    folder = os.path.dirname(path) or b"."
    try:
        os.makedirs(folder, exist_ok=True)
        fd, temporary = tempfile.mkstemp(dir=folder)
        try:
            with os.fdopen(fd, "wb") as f:
                f.write(data)
                f.flush()
                os.fsync(f.fileno())
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as e:
        raise typed_os_error(e, path) from None


@matching_files.kernel
def _(pattern):
    if pattern.ndim > 1:
        raise errors.invalid(f"pattern must be a scalar or vector, got shape {list(pattern.shape)}")
    found = sorted({p for one in pattern.reshape(-1).tolist() for p in glob.glob(one)})
    out = np.empty(len(found), dtype=object)
    out[:] = found
    return out
