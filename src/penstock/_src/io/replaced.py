"""Replacing the files of a folder together: readers find all of the old ones or all of the new ones, also after a crash.

New files are written to a folder inside, named `.<random>.writing`, which its writer locks (io/locks.py). When they are
complete it gets the name `.written`: from then on the new files count. They are moved to their places, and the old ones that
have no successor are removed; `recover` continues that after a crash, by the `list` in the folder. A writer may read what it
replaces.
"""
from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
from collections.abc import Callable, Iterator

from penstock._src.base import errors
from penstock._src.io import locks, paths

_WRITTEN, _LIST = ".written", "list"
_WRITING = re.compile(r"\.[0-9a-f]{16}\.writing")


@contextlib.contextmanager
def files(folder: str, owned: Callable[[str], bool]) -> Iterator[str]:
    """A new folder, whose files replace those of `folder` whose paths in it are `owned`, unless an exception is raised."""
    paths.makedirs(folder)
    writing = paths.join(folder, f".{secrets.token_hex(8)}.writing")
    with contextlib.ExitStack() as held:
        with locks.folder_lock(folder):              # no other writer sees the new folder without its lock
            paths.mkdir(writing)
            held.enter_context(locks.folder_lock(writing))
        try:
            yield writing
            with locks.folder_lock(folder):
                recover(folder)
                _publish(writing, folder, owned)
                recover(folder)
                _remove_abandoned(folder)
        except BaseException:
            with contextlib.suppress(errors.OpError):
                paths.rmtree(writing)
            raise


def _publish(writing: str, folder: str, owned: Callable[[str], bool]) -> None:
    """Lists the new files and the old ones that go, and renames the folder; nothing is moved yet."""
    new = _names(writing)
    old = [name for name in _names(folder) if owned(name) and name not in new]
    paths.write_atomically(paths.join(writing, _LIST), json.dumps({"new": new, "old": old}).encode(), stored=True)
    paths.rename(writing, paths.join(folder, _WRITTEN))
    paths.sync_folder(folder)


def recover(folder: str) -> None:
    """Completes a replacement whose writer was ended in the middle, if there is one."""
    written = paths.join(folder, _WRITTEN)
    if not paths.isdir(written):
        return
    with locks.folder_lock(folder):
        if not paths.isdir(written):                 # another process was faster
            return
        if paths.exists(listed := paths.join(written, _LIST)):       # else all was moved, and the folder is being removed
            names = json.loads(paths.read_stored(listed))
            for name in filter(paths.exists, (paths.join(folder, name) for name in names["old"])):
                paths.remove(name)
            for name in names["new"]:
                if paths.exists(moved := paths.join(written, name)):
                    paths.makedirs(os.path.dirname(paths.join(folder, name)))
                    paths.rename(moved, paths.join(folder, name))
            for place in {os.path.dirname(paths.join(folder, name)) for name in names["new"]}:
                paths.sync_folder(place)
        paths.rmtree(written)


def _names(folder: str, inside: str = "") -> list[str]:
    """The paths of all files below a folder, without those of replacements."""
    found = []
    for name in paths.listdir(paths.join(folder, inside) if inside else folder):
        if _WRITING.fullmatch(name) or name == _WRITTEN:
            continue
        path = paths.join(inside, name) if inside else name
        found += _names(folder, path) if paths.isdir(paths.join(folder, path)) else [path]
    return found


def _remove_abandoned(folder: str) -> None:
    """Removes what killed writers have left."""
    for name in paths.listdir(folder):
        if _WRITING.fullmatch(name) and locks.is_abandoned(paths.join(folder, name)):
            paths.rmtree(paths.join(folder, name))
