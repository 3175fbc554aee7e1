"""tf.resource_loader: files in the folder of a program."""
from __future__ import annotations

import inspect
import os
import sys

from penstock._src.base.api import export


def _caller_folder() -> str:
    """The folder of the first file up the stack that is not this one."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return os.path.dirname(frame.f_code.co_filename) if frame is not None else "."


@export(v1=["resource_loader.load_resource"])
def load_resource(path: str) -> bytes:
    """The content of a file beside the calling program."""
    with open(os.path.join(_caller_folder(), path), "rb") as file:
        return file.read()


@export(v1=["resource_loader.get_data_files_path"])
def get_data_files_path() -> str:
    """The folder of the calling program.

    Returns:
        A path.

    >>> isinstance(tf.resource_loader.get_data_files_path(), str)
    True
    """
    return _caller_folder()


@export(v1=["resource_loader.get_path_to_datafile"])
def get_path_to_datafile(path: str) -> str:
    """The path of a file beside the calling program."""
    return os.path.join(_caller_folder(), path)


@export(v1=["resource_loader.get_root_dir_with_all_resources"])
def get_root_dir_with_all_resources() -> str:
    """The root folder of the data files of a program: that of the main program."""
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    return os.path.dirname(os.path.abspath(main)) if main else _caller_folder()


@export(v1=["resource_loader.readahead_file_path"])
def readahead_file_path(path: str, readahead: str = "128M") -> str:
    """The path unchanged: the operating system reads ahead."""
    return path
