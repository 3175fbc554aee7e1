"""Whole files as strings: ReadFile, WriteFile, MatchingFiles."""
from __future__ import annotations

import os

from penstock._src.base import errors
from penstock._src.io import paths
from penstock._src.kernels import strings
from penstock._src.ops.registry import op

read_file = op("ReadFile", "filename: string -> contents: string", stateful=True,
               export_as="read_file io.read_file", doc="""\
The contents of a file.

Args:
    filename: Path or URL that fsspec can open: a scalar string.
    name: Name of the operation.

Returns:
    A scalar string.

Raises:
    NotFoundError: if the file does not exist.

>>> with open("notes.txt", "w") as f:
...     print("one", file=f)
>>> tf.io.read_file("notes.txt").numpy()
b'one\\n'
""").no_gradient()
write_file = op("WriteFile", "filename: string, contents: string ->", stateful=True,
                export_as="write_file io.write_file").no_gradient()
matching_files = op("MatchingFiles", "pattern: string -> filenames: string", foldable=False,
                    export_as="matching_files io.matching_files").no_gradient()
read_file.shape(lambda filename: ())
write_file.shape(lambda filename, contents: [])
matching_files.shape(lambda pattern: (None,))


@read_file.kernel
def _read_file_kernel(filename):
    return strings.pack([paths.read_bytes(strings.scalar(filename, "filename"))], ())


@write_file.kernel
def _write_file_kernel(filename, contents):
    paths.write_atomically(strings.scalar(filename, "filename"), strings.scalar(contents, "contents"))


@matching_files.kernel
def _matching_files_kernel(pattern):
    if pattern.ndim > 1:
        raise errors.invalid(f"pattern must be a scalar or vector, got shape {list(pattern.shape)}")
    found = sorted({p for one in pattern.reshape(-1).tolist() for p in paths.glob(one)})
    return strings.pack([os.fsencode(p) for p in found])
