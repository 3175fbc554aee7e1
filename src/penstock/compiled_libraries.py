"""tf.load_op_library and its kin: libraries compiled against TensorFlow cannot be loaded, and the error says what to do."""
from __future__ import annotations

from typing import Any, NoReturn

from penstock import errors
from penstock.api import export


def _refuse(what: str, path: Any) -> NoReturn:
    raise errors.UnimplementedError(
        None, None, f"{path} holds {what} compiled against TensorFlow's C++ library, which penstock does not have. "
        f"Declare the op in Python (docs/limitations.md), or compute it with tf.py_func.")


@export(v1=["load_op_library"], v2=["load_op_library"])
def load_op_library(library_filename: str) -> NoReturn:
    """Raises UnimplementedError; NotFoundError if there is no such file."""
    _check(library_filename)
    _refuse("ops", library_filename)


@export("load_library")
def load_library(library_location: str) -> NoReturn:
    """Raises UnimplementedError; NotFoundError if there is no such file."""
    _check(library_location)
    _refuse("ops", library_location)


@export(v1=["load_file_system_library"])
def load_file_system_library(library_filename: str) -> NoReturn:
    """Raises UnimplementedError: file systems are fsspec's."""
    _check(library_filename)
    raise errors.UnimplementedError(None, None, f"{library_filename} cannot be loaded: file systems are fsspec's; install "
                                    f"the package that has yours (s3fs, gcsfs, ...)")


def _check(path: Any) -> None:
    import os
    if not os.path.exists(path):
        raise errors.NotFoundError(None, None, f"{path}: cannot open shared object file: No such file or directory")
