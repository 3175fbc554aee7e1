"""`lib.io.file_io`: files, under the names that this module has."""
from __future__ import annotations

from typing import Any

import penstock
import penstock.compat.v1 as tf

FileIO = penstock.io.gfile.GFile
file_exists, file_exists_v2 = tf.gfile.Exists, penstock.io.gfile.exists
delete_file, delete_recursively = tf.gfile.Remove, tf.gfile.DeleteRecursively
get_matching_files, create_dir = tf.gfile.Glob, tf.gfile.MkDir
recursive_create_dir, is_directory = tf.gfile.MakeDirs, tf.gfile.IsDirectory
list_directory, stat, copy, rename = tf.gfile.ListDirectory, tf.gfile.Stat, tf.gfile.Copy, tf.gfile.Rename
walk = tf.gfile.Walk


def read_file_to_string(filename: Any, binary_mode: bool = False) -> Any:
    """The content of a file, as text or bytes."""
    with FileIO(filename, "rb" if binary_mode else "r") as file:
        return file.read()


def write_string_to_file(filename: Any, file_content: Any) -> None:
    """Overwrites a file."""
    with FileIO(filename, "w") as file:
        file.write(file_content)


def atomic_write_string_to_file(filename: Any, contents: Any, overwrite: bool = True) -> None:
    """Writes a file under another name first, so that readers never see half of it."""
    written = f"{filename}.tmp"
    write_string_to_file(written, contents)
    tf.gfile.Rename(written, filename, overwrite)
