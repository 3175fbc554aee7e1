"""tf.train.CheckpointOptions, and views of checkpoints and object graphs."""
from __future__ import annotations

import inspect
from typing import Any

from penstock._src.base import tf_logging as logging
from penstock._src.base.api import export
from penstock._src.graph.trackable import Trackable
from penstock._src.state.checkpoint.object_graph import children
from penstock._src.state.checkpoint.reader import object_graph_of


@export("train.CheckpointOptions")
class CheckpointOptions:
    """How tf.train.Checkpoint writes and reads.

    `experimental_write_callbacks` are called after a write, without arguments or with the path. `enable_async` is accepted, but
    writes are synchronous. `experimental_skip_slot_variables` leaves the slots
    of optimizers out. `experimental_sharding_callback`, such as `tf.train.experimental.MaxShardSizePolicy`, divides the tensors
    over data files. `experimental_io_device` is accepted; the host accesses the file system.
    """

    __slots__ = ("experimental_io_device", "experimental_enable_async_checkpoint", "experimental_write_callbacks",
                 "enable_async", "experimental_skip_slot_variables", "experimental_sharding_callback")

    def __init__(self, experimental_io_device: Any = None, experimental_enable_async_checkpoint: bool = False,
                 experimental_write_callbacks: Any = None, enable_async: bool = False,
                 experimental_skip_slot_variables: bool = False, experimental_sharding_callback: Any = None):
        for callback in experimental_write_callbacks or ():
            if not callable(callback):
                raise AssertionError(f"Callbacks must be callable, got {callback!r}")
            count = len(inspect.signature(callback).parameters)
            if count > 1:
                raise AssertionError(f"Callbacks take no argument, or the path; {callback!r} takes {count}")
        self.experimental_io_device = experimental_io_device
        self.enable_async = experimental_enable_async_checkpoint or enable_async
        self.experimental_enable_async_checkpoint = self.enable_async
        self.experimental_write_callbacks = experimental_write_callbacks
        self.experimental_skip_slot_variables = experimental_skip_slot_variables
        self.experimental_sharding_callback = experimental_sharding_callback

    def __copy__(self) -> CheckpointOptions:
        made = CheckpointOptions.__new__(CheckpointOptions)
        for name in self.__slots__:
            value = getattr(self, name)
            setattr(made, name, list(value) if isinstance(value, list) else value)
        return made


def called_back(options: Any, path: Any) -> None:
    """Runs the callbacks of a write that has ended."""
    for callback in getattr(options, "experimental_write_callbacks", None) or ():
        callback(path) if inspect.signature(callback).parameters else callback()


@export("train.TrackableView")
class TrackableView:
    """The objects reachable from a root, and how they depend on each other.

    >>> tf.train.TrackableView(root).descendants()
    """

    def __init__(self, root: Any):
        self._root = root

    @property
    def root(self) -> Any:
        """The object where the view begins."""
        return self._root() if callable(self._root) and not isinstance(self._root, Trackable) else self._root

    @classmethod
    def children(cls, obj: Any, save_type: Any = "checkpoint", **kwargs: Any) -> dict:
        """The direct dependencies of an object, by name."""
        return children(obj, save_type, **kwargs) if hasattr(obj, "_trackable_children") else {}

    def descendants(self) -> list:
        """All objects, breadth first, the root first."""
        found, seen, at = [self.root], {id(self.root)}, 0
        while at < len(found):
            for child in self.children(found[at]).values():
                if id(child) not in seen:
                    seen.add(id(child))
                    found.append(child)
            at += 1
        return found


@export("train.CheckpointView")
class CheckpointView:
    """The objects of a checkpoint on disk, and how they match a program's.

    >>> tf.train.CheckpointView(path).descendants()
    """

    def __init__(self, save_path: Any):
        self._graph = object_graph_of(save_path)

    def children(self, node_id: int) -> dict:
        """The numbers of the objects that one depends on, by name."""
        return {c.local_name: c.node_id for c in self._graph.nodes[node_id].children}

    def descendants(self) -> list:
        """The numbers of all objects, breadth first."""
        found, seen, at = [0], {0}, 0
        while at < len(found):
            for child in self.children(found[at]).values():
                if child not in seen:
                    seen.add(child)
                    found.append(child)
            at += 1
        return found

    def _descendants_with_paths(self) -> dict[int, str]:
        """The path from the root to each object, by number."""
        ways = {0: "root"}
        for number in self.descendants():
            for name, child in self.children(number).items():
                ways.setdefault(child, f"{ways[number]}.{name}")
        return ways

    def match(self, obj: Any) -> dict:
        """Matches objects of the checkpoint with objects of the user program at the same path.

        If several objects of the user program match one of the checkpoint, the first is used, with a warning.
        """
        matched = {0: obj}
        todo = [(0, obj)]
        while todo:
            number, value = todo.pop(0)
            ours = TrackableView.children(value)
            for name, child in self.children(number).items():
                if name not in ours:
                    continue
                known = matched.get(child)
                if known is None:
                    matched[child] = ours[name]
                    todo.append((child, ours[name]))
                elif known is not ours[name]:
                    logging.warning("Inconsistent references when matching the checkpoint into this object graph. Object %d of "
                                    "the checkpoint is %s and %s.", child, known, ours[name])
        return matched

    def diff(self, obj: Any) -> tuple[dict, list, list]:
        """The matched objects, those only in the checkpoint, and those only in the user program."""
        matched = self.match(obj)
        only_there = [n for n in self.descendants() if n not in matched]
        mine = {id(v) for v in matched.values()}
        return matched, only_there, [v for v in TrackableView(obj).descendants() if id(v) not in mine]
