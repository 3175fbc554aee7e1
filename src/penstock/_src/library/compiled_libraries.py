"""tf.load_op_library and related functions: libraries compiled against TensorFlow cannot be loaded, and the error names the
alternatives.

A few libraries that tutorials compile have ops that penstock implements: these are returned in place of the library, whether it
was compiled or not.
"""
from __future__ import annotations

import os
import types
from typing import Any, NoReturn

from penstock._src.base import errors
from penstock._src.base.api import export
from penstock._src.ops.registry import get

KNOWN = {"word2vec_ops.so": {"skipgram_word2vec": "Skipgram", "neg_train_word2vec": "NegTrain"}}      # the ops by function


def _refuse(what: str, path: Any) -> NoReturn:
    raise errors.UnimplementedError(
        None, None, f"{path} holds {what} compiled against TensorFlow's C++ library, which penstock does not have. "
        f"Declare the op in Python (docs/limitations.md), or compute it with tf.py_func.")


@export(v1=["load_op_library"], v2=["load_op_library"])
def load_op_library(library_filename: str) -> types.ModuleType:
    """The ops of a known library; raises UnimplementedError for others, or NotFoundError if the file does not exist.

    Args:
        library_filename: File name of the library.

    Returns:
        A module with the library's ops.

    Raises:
        NotFoundError: if there is no such file.
        UnimplementedError: if its ops are not implemented.

    >>> try:
    ...     tf.load_op_library("./absent.so")
    ... except tf.errors.NotFoundError:
    ...     print("no such file")
    no such file
    """
    known = KNOWN.get(os.path.basename(library_filename))
    if known is not None:
        made = types.ModuleType(os.path.splitext(os.path.basename(library_filename))[0], "Ops that penstock has.")
        made.__dict__.update({name: get(full) for name, full in known.items()})
        return made
    _check(library_filename)
    _refuse("ops", library_filename)


@export("load_library")
def load_library(library_location: str) -> NoReturn:
    """Raises UnimplementedError; NotFoundError if there is no such file."""
    _check(library_location)
    _refuse("ops", library_location)


@export(v1=["load_file_system_library"])
def load_file_system_library(library_filename: str) -> NoReturn:
    """Raises UnimplementedError: penstock uses the file systems of fsspec."""
    _check(library_filename)
    raise errors.UnimplementedError(None, None, f"{library_filename} cannot be loaded: penstock uses the file systems of "
                                    f"fsspec; install the package for yours (s3fs, gcsfs, ...)")


def _check(path: Any) -> None:
    if not os.path.exists(path):
        raise errors.NotFoundError(None, None, f"{path}: cannot open shared object file: No such file or directory")
