"""Incremental checkpoints: after a full checkpoint, the rows that changed since the last save, and all other variables.

Increments are beside the full checkpoint, `model-7.increment-00001` and so on. Each is a separate checkpoint, published by
renaming its index: after a crash, an incomplete one does not exist. Rows are marked as saved only when the file is complete, so
that the rows of a failed increment are in the next one. A restore reads the full checkpoint and its increments in order.
"""
from __future__ import annotations

import glob
import itertools
import os
import re
from typing import Any

from penstock._src.base.api import LazyModule, export
from penstock._src.graph.scopes import name_scope
from penstock._src.ops.core import group
from penstock._src.ops.registry import get
from penstock._src.ops.state import keyed as ops
from penstock._src.state.checkpoint.builder import BaseSaverBuilder
from penstock._src.state.checkpoint.saveable import validate_and_slice_inputs
from penstock._src.state.checkpoint.saver import Saver, all_saveable_objects
from penstock._src.state.embeddings.variable import KeyedSaveable

bundle = LazyModule("penstock._src.io.bundle")          # it needs protobuf


def increments(checkpoint: str) -> list[str]:
    """The increments of a checkpoint that are complete, in order, up to the first that is missing."""
    paths = (f"{checkpoint}.increment-{n:05d}" for n in itertools.count(1))
    return list(itertools.takewhile(bundle.exists, paths))


@export(v1=["train.IncrementalSaver"])
class IncrementalSaver:
    """Saves the rows of embedding variables that changed, between full checkpoints.

    >>> saver = tf.train.IncrementalSaver()
    >>> saver.save(sess, "/data/model", global_step)
    >>> saver.incremental_save(sess)
    >>> saver.restore(sess, tf.train.latest_checkpoint("/data"))
    """

    def __init__(self, var_list: Any = None, max_to_keep: int | None = 5, name: str | None = None, saver: Saver | None = None):
        var_list = saver._var_list if saver is not None else var_list
        var_list = all_saveable_objects() if var_list is None else var_list
        self._saver = saver or Saver(var_list, max_to_keep=max_to_keep, name=name)
        saveables = validate_and_slice_inputs(var_list)
        tables = [v for s in saveables if isinstance(s, KeyedSaveable) for v in s.variables]
        with name_scope(name or "save_incremental"):
            self._path = get("PlaceholderWithDefault")("model", shape=(), name="Const")
            changed = [KeyedSaveable(s.variables, s.name, incremental=True) if isinstance(s, KeyedSaveable) else s
                       for s in saveables]
            self._increment = BaseSaverBuilder()._save(self._path, changed)
            self._done = group(*[_saved(v) for v in tables])
        self._full, self._count = "", 0

    def __getattr__(self, name: str) -> Any:
        """Delegates other attributes to the saver of full checkpoints, so that this one can replace it."""
        if name.startswith("__") or name == "_saver":
            raise AttributeError(name)
        return getattr(self._saver, name)

    @property
    def has_full(self) -> bool:
        """Whether there is a full checkpoint, which an increment could belong to."""
        return bool(self._full)

    def save(self, sess: Any, save_path: str, global_step: Any = None, **kwargs: Any) -> str | None:
        """A full checkpoint, which the next increments belong to; returns its path."""
        path = self._saver.save(sess, save_path, global_step=global_step, **kwargs)
        self._full, self._count = path or "", 0
        sess.run(self._done)
        self._remove_orphans()
        return path

    def incremental_save(self, sess: Any) -> str:
        """Saves the changes since the last save; returns the path of the increment."""
        if not self._full:
            raise RuntimeError("The first checkpoint of an IncrementalSaver must be a full one: call save(), or restore()")
        path = f"{self._full}.increment-{self._count + 1:05d}"
        sess.run(self._increment, {self._path: path})
        sess.run(self._done)
        self._count += 1
        return path

    def restore(self, sess: Any, save_path: str) -> None:
        """Restores a full checkpoint and its increments. Later increments continue their numbers."""
        found = increments(save_path)
        for path in (save_path, *found):
            self._saver.restore(sess, path)
        self._full, self._count = save_path, len(found)

    def _remove_orphans(self) -> None:
        """Removes increments of full checkpoints that the saver has removed."""
        kept = {*self._saver.last_checkpoints, self._full}
        for index in glob.glob(os.path.join(glob.escape(os.path.dirname(self._full) or "."), "*.increment-*.index")):
            owner = re.sub(r"\.increment-\d+\.index$", "", index)
            if owner not in kept and not bundle.exists(owner):
                bundle.remove(index.removesuffix(".index"))


def _saved(variable: Any) -> Any:
    with variable._beside():
        return ops.kv_saved(variable.handle)
