"""tf.train.Checkpoint: saves and restores objects by their paths in the object graph; CheckpointManager keeps the newest
checkpoints."""
from __future__ import annotations

import os
import time
import weakref
from typing import Any

from penstock._src.base import clock, dtypes, errors, progress
from penstock._src.base import tf_logging as logging
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.eager.function import Function
from penstock._src.graph import context
from penstock._src.graph.convert import constant
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import colocate_with, control_dependencies, device
from penstock._src.graph.trackable import OBJECT_GRAPH_PROTO_KEY, Trackable
from penstock._src.io import bundle, paths
from penstock._src.ops.core import identity
from penstock._src.ops.registry import get
from penstock._src.state.auto_trackable import AutoTrackable
from penstock._src.state.checkpoint import state
from penstock._src.state.checkpoint.object_graph import NoRestoreSaveable, ObjectGraphView
from penstock._src.state.checkpoint.options import CheckpointOptions, called_back
from penstock._src.state.checkpoint.reader import CheckpointReader, object_graph_of
from penstock._src.state.checkpoint.restore import (
    CheckpointLoadStatus,
    CheckpointPosition,
    InitializationOnlyStatus,
    NameBasedRestore,
    NameBasedSaverStatus,
    Restore,
    _session,
    next_restore,
)
from penstock._src.state.checkpoint.saveable import saved_beside
from penstock._src.state.checkpoint.sharding import save_sharded
from penstock._src.state.containers import NoDependency
from penstock._src.state.variables.initializers import GlorotUniform, Zeros
from penstock._src.state.variables.variable import VariableV1


def default_getter(name: str, shape: Any, dtype: Any, initializer: Any = None, partition_info: Any = None,
                   **kwargs: Any) -> Any:
    """A new resource variable, from a value or an initializer."""
    dtype = dtypes.as_dtype(dtype)
    if initializer is None:
        initializer = GlorotUniform() if dtype.is_floating else Zeros()
    if not callable(initializer):
        if shape is not None:
            raise ValueError("If initializer is a constant, do not specify shape.")
        value = initializer
    else:
        if isinstance(initializer, type):
            initializer = initializer(dtype=dtype)
        dims = TensorShape(shape).as_list()

        def value() -> Any:
            return initializer(dims, dtype=dtype)
    return VariableV1(initial_value=value, name=name, dtype=dtype.base_dtype, use_resource=True, **kwargs)


def add_variable(trackable: Any, name: str, shape: Any = None, dtype: Any = dtypes.float32, initializer: Any = None,
                 trainable: bool = True) -> Any:
    """A new variable that is a dependency of `trackable`; restored at once if a restore is waiting for it."""
    return trackable._add_variable_with_custom_getter(name=name, shape=shape, dtype=dtype, initializer=initializer,
                                                      getter=default_getter, trainable=trainable)


class TrackableSaver:
    """Saves and restores the objects reachable from a root. In graphs, the ops are created once and reused."""

    def __init__(self, graph_view: ObjectGraphView):
        self._graph_view = graph_view
        self.sharding: Any = None                   # the policy that divides tensors over data files; None: one file
        self._feeds: Any = None                     # tensors for the object graph and the prefix
        self._last_graph: Any = None                # what the cached op saves: the object graph, and the policy
        self._cached_save: Any = None
        self._prefix_placeholder: Any = None
        self._restore_op_cache: dict[str, Any] = {}

    def save(self, file_prefix: str, checkpoint_number: int | None = None, session: Any = None) -> Any:
        """Writes a checkpoint; returns its prefix, as a tensor or text."""
        if checkpoint_number:
            file_prefix = f"{file_prefix}-{checkpoint_number}"
        if os.path.dirname(file_prefix):
            paths.makedirs(os.path.dirname(file_prefix))
        if context.executing_eagerly() or context.inside_function():
            saveables, graph, _ = self._graph_view.serialize_object_graph()
            return self._save_op(saveables, constant(graph.SerializeToString()), constant(file_prefix))
        if self._feeds is None:
            with device("/cpu:0"):
                self._feeds = constant("", dtype=dtypes.string), constant("", dtype=dtypes.string)
        graph_tensor, prefix_tensor = self._feeds
        saveables, graph, feeds = self._graph_view.serialize_object_graph()
        if self._last_graph != (graph, self.sharding):
            self._cached_save = self._save_op(saveables, graph_tensor, prefix_tensor)
            self._last_graph = graph, self.sharding
        return _session(session).run(self._cached_save, {graph_tensor: graph.SerializeToString(), prefix_tensor: file_prefix,
                                                         **(feeds or {})})

    def save_to(self, prefix: Tensor) -> Any:
        """The op that writes a checkpoint, for functions with the prefix as an argument; the folder must exist."""
        saveables, graph, _ = self._graph_view.serialize_object_graph()
        return self._save_op(saveables, constant(graph.SerializeToString()), prefix)

    def frozen_saveables(self) -> list:
        """The saveables of the current objects, for a Saver."""
        saveables, graph, _ = self._graph_view.serialize_object_graph()
        return [*saveables, NoRestoreSaveable(constant(graph.SerializeToString()), OBJECT_GRAPH_PROTO_KEY)]

    def _save_op(self, saveables: list, graph: Any, prefix: Any) -> Any:
        with device("/cpu:0"):
            specs = [spec for s in [*saveables, NoRestoreSaveable(graph, OBJECT_GRAPH_PROTO_KEY)] for spec in s.specs]
            beside = saved_beside(saveables, prefix)
            if self.sharding is not None:
                with control_dependencies(beside):
                    return save_sharded(prefix, specs, [s.op for s in saveables for _ in s.specs] + [None], self.sharding)
            with control_dependencies(beside):
                saved = get("SaveV2")(prefix, [s.name for s in specs], [s.slice_spec for s in specs],
                                      [s.tensor for s in specs])
            if saved is None:
                return prefix
            with control_dependencies([saved]):
                return identity(prefix)

    def restore(self, save_path: str | None) -> Any:
        """Restores from a checkpoint; returns a status."""
        if save_path is None:
            return InitializationOnlyStatus(self._graph_view, next_restore())
        graph_building = not context.executing_eagerly()
        try:
            graph = object_graph_of(save_path)
        except errors.NotFoundError:
            return self._restore_by_name(save_path, graph_building)
        feeds = None
        with device("/cpu:0"):
            if graph_building:
                if self._prefix_placeholder is None:
                    self._prefix_placeholder = constant("model")
                prefix, feeds = self._prefix_placeholder, {self._prefix_placeholder: save_path}
            else:
                prefix = constant(save_path)
        restore = Restore(graph, save_path, prefix, self._restore_op_cache, self._graph_view.saveables_cache)
        CheckpointPosition(restore, 0).restore(self._graph_view.root)
        return CheckpointLoadStatus(restore, feeds, self._graph_view)

    def _restore_by_name(self, save_path: str, graph_building: bool) -> Any:
        types = None if graph_building else CheckpointReader(save_path).get_variable_to_dtype_map()
        if not state.checkpoint_exists(save_path):
            raise errors.NotFoundError(None, None, f"There is no checkpoint {save_path}")
        restore = NameBasedRestore(save_path, types)
        if not graph_building:
            for obj in self._graph_view.list_objects():
                obj._maybe_initialize_trackable()
                obj._name_based_attribute_restore(restore)
        return NameBasedSaverStatus(restore, self._graph_view)


def _as_text(path: Any) -> str:
    return paths.as_text(path.numpy() if isinstance(path, Tensor) else path)


def _in_folder(folder: str) -> str | None:
    """The newest checkpoint of a folder, or that of the SavedModel which it is."""
    inside = os.path.join(folder, "variables", "variables")
    return inside if state.checkpoint_exists(inside) else state.latest_checkpoint(folder)


class _Checkpoint(AutoTrackable):
    """The base of tf.train.Checkpoint in both APIs."""

    def __init__(self, **kwargs: Any):
        for name, value in sorted(kwargs.items()):
            if isinstance(value, weakref.ref):
                value = value()
            if not isinstance(value, (Trackable, Function, list, dict, tuple)):
                raise ValueError("`Checkpoint` was expecting a trackable object (an object derived from `TrackableBase`), got "
                                 f"{value}. If you believe this object should be trackable (i.e. it is part of the TensorFlow "
                                 "Python API and manages state), please open an issue.")
            setattr(self, name, value)
        self._save_counter: Any = None
        self._save_assign_op: Any = None
        view = ObjectGraphView(weakref.ref(self), cached=not context.executing_eagerly())
        self._saver: Any = NoDependency(TrackableSaver(view))

    def _maybe_create_save_counter(self) -> None:
        if self._save_counter is None:
            with device("/cpu:0"):
                self._save_counter = NoDependency(add_variable(self, name="save_counter", initializer=0, dtype=dtypes.int64,
                                                               trainable=False))

    @property
    def save_counter(self) -> Any:
        """A variable that counts the saves, and numbers them."""
        self._maybe_create_save_counter()
        return self._save_counter

    def _write(self, file_prefix: Any, session: Any, options: Any = None) -> Any:
        if isinstance(options, CheckpointOptions):
            self._saver._graph_view.skip_slots = options.experimental_skip_slot_variables
            self._saver.sharding = options.experimental_sharding_callback
        if isinstance(file_prefix, Tensor) and not hasattr(file_prefix, "_value"):
            return self._saver.save_to(file_prefix)
        began = time.monotonic()
        done = self._saver.save(_as_text(file_prefix), session=session)
        if not isinstance(done, bytes) and context.executing_eagerly():
            done = done.numpy()
        path = os.fsdecode(done) if isinstance(done, bytes) else done
        if isinstance(path, str):
            progress.process.saved(path, time.monotonic() - began)
        called_back(options, path)
        return path

    def sync(self) -> None:
        """Waits for pending writes. Writes are synchronous, so there are none."""

    def _save(self, file_prefix: Any, session: Any, options: Any = None) -> str:
        file_prefix = state.nameable(_as_text(file_prefix))
        if context.inside_function():
            raise NotImplementedError("Calling tf.train.Checkpoint.save() from a function is not supported, as save() modifies "
                                      "saving metadata in ways not supported by TensorFlow Operations. Consider using "
                                      "tf.train.Checkpoint.write(), a lower-level API which does not update metadata. "
                                      "tf.train.latest_checkpoint and related APIs will not see this checkpoint.")
        graph_building = not context.executing_eagerly()
        if graph_building:
            session = _session(session)
            if self._save_counter is None:
                session.run(self.save_counter.initializer)
        if not graph_building:
            number = int(self.save_counter.assign_add(1).numpy())
        else:
            if self._save_assign_op is None:
                with colocate_with(self.save_counter):
                    self._save_assign_op = NoDependency(self.save_counter.assign_add(1, read_value=True))
            number = session.run(self._save_assign_op)
        path = self._write(f"{file_prefix}-{number}", session, options)
        state.write_state(os.path.dirname(file_prefix), path, [path], relative=True)
        return path

    def restore(self, save_path: Any, options: Any = None) -> Any:
        """Restores from a checkpoint; objects that are created later get their values on creation.

        >>> tf.train.Checkpoint(model=model).restore(path).assert_consumed()
        """
        status = self.read(save_path)
        self._maybe_create_save_counter()
        if isinstance(status, NameBasedSaverStatus) and context.executing_eagerly():
            status._checkpoint.unused_attributes.pop(id(self.save_counter), None)
        return status

    def read(self, save_path: Any, options: Any = None) -> Any:
        """Restores a checkpoint of `write`, which has no save counter."""
        if save_path is None:
            return self._saver.restore(None)
        save_path = paths.as_text(save_path)
        prefix = _in_folder(save_path) if paths.isdir(save_path) and not bundle.exists(save_path) else save_path
        try:
            return self._saver.restore(prefix)
        except errors.NotFoundError as e:
            raise errors.NotFoundError(None, None, f"Error when restoring from checkpoint or SavedModel at {save_path}: "
                                       f"{e.message}{_others(save_path)}") from None


def _others(path: str) -> str:
    """A hint at the checkpoints that are where one is missing; many forget the number at the end of the name."""
    folder = os.path.dirname(path)
    if not paths.isdir(folder):
        return f". There is no folder {folder!r}" if folder else ""
    found = sorted(name.removesuffix(".index") for name in paths.listdir(folder) if name.endswith(".index"))
    return f". The folder has the checkpoints {', '.join(found[-5:])}" if found else ". The folder has no checkpoint"


@export(v1=["train.Checkpoint"])
class CheckpointV1(_Checkpoint):
    """Saves and restores objects by their paths in the object graph.

    Args:
        **kwargs: Objects to save, by the names of their places in the file.

    >>> v = tf.Variable([1., 2.])
    >>> checkpoint = tf.train.Checkpoint(v=v)
    >>> path = checkpoint.save("model/ckpt")
    >>> _ = v.assign([0., 0.])
    >>> status = checkpoint.restore(path).assert_consumed()
    >>> v.numpy()
    array([1., 2.], dtype=float32)
    """

    def write(self, file_prefix: Any, session: Any = None, options: Any = None) -> Any:
        """Writes a checkpoint with exactly this prefix."""
        return self._write(file_prefix, session, options)

    def save(self, file_prefix: Any, session: Any = None, options: Any = None) -> str:
        """Writes a checkpoint with this prefix and a number, and names it in the state file."""
        return self._save(file_prefix, session, options)


@export(v2=["train.Checkpoint"])
class Checkpoint(_Checkpoint):
    """Saves and restores objects by their paths in the object graph.

    >>> checkpoint = tf.train.Checkpoint(optimizer=optimizer, model=model)
    >>> path = checkpoint.save("/tmp/model/ckpt")
    >>> checkpoint.restore(path).assert_consumed()

    With `root`, which may be a weak reference, that object is the root of the checkpoint, and the other objects are its
    children.
    """

    def __init__(self, root: Any = None, **kwargs: Any):
        super().__init__(**kwargs)
        if root is not None:
            held, root = root, root() if isinstance(root, weakref.ref) else root
            if not isinstance(root, Trackable):
                raise ValueError(f"Expected root to be a Trackable. Got {root} (type: {type(root)}).")
            for name, value in sorted(kwargs.items()):
                known = root._lookup_dependency(name)
                if known is None:
                    root._track_trackable(getattr(self, name), name)
                elif known is not value:
                    raise ValueError(f"Cannot create a Checkpoint with keyword argument {name} if root.{name} already exists.")
            self._root = NoDependency(held)
            self._saver = NoDependency(TrackableSaver(ObjectGraphView(held, cached=not context.executing_eagerly())))

    def _maybe_create_save_counter(self) -> None:
        root = getattr(self, "_root", None)
        root = root() if isinstance(root, weakref.ref) else root
        if root is None:
            super()._maybe_create_save_counter()
        elif self._save_counter is None:
            known = root._lookup_dependency("save_counter")
            self._save_counter = NoDependency(known if known is not None else add_variable(
                root, name="save_counter", initializer=0, dtype=dtypes.int64, trainable=False))

    def write(self, file_prefix: Any, options: Any = None) -> Any:
        """Writes a checkpoint with exactly this prefix."""
        return self._write(file_prefix, None, options)

    def save(self, file_prefix: Any, options: Any = None) -> str:
        """Writes a checkpoint with this prefix and a number, and names it in the state file."""
        return self._save(file_prefix, None, options)


# -- keeping some of them --------------------------------------------------------------------------------------------
@export("train.CheckpointManager")
class CheckpointManager:
    """Keeps the newest checkpoints of a directory, and removes the others.

    Args:
        checkpoint: The `tf.train.Checkpoint` to save.
        directory: The directory.
        max_to_keep: How many checkpoints stay; None for all.
        keep_checkpoint_every_n_hours: One checkpoint of so many hours is kept in addition.
        checkpoint_name: The beginning of the files' names.
        step_counter: A variable that counts steps, for `checkpoint_interval`.
        checkpoint_interval: `save` does nothing before so many steps have passed.
        init_fn: Called by `restore_or_initialize` if there is no checkpoint.
        last_checkpoint_step: The step of the last checkpoint, if this process did not write it.

    >>> step = tf.Variable(3)
    >>> manager = tf.train.CheckpointManager(tf.train.Checkpoint(step=step), "saved", max_to_keep=2)
    >>> for _ in range(3):
    ...     path = manager.save()
    >>> [p.rpartition("-")[2] for p in manager.checkpoints]
    ['2', '3']
    """

    def __init__(self, checkpoint: Any, directory: Any, max_to_keep: int | None,
                 keep_checkpoint_every_n_hours: float | None = None, checkpoint_name: str = "ckpt", step_counter: Any = None,
                 checkpoint_interval: int | None = None, init_fn: Any = None,
                 last_checkpoint_step: int | None = None):
        if max_to_keep is not None and max_to_keep <= 0:
            raise ValueError(f"Expected a positive integer or `None` for `max_to_keep`, got {max_to_keep}.")
        if checkpoint_interval is not None and step_counter is None:
            raise ValueError("`step_counter` should be passed if `checkpoint_interval` is not `None`.")
        self._checkpoint, self._max_to_keep, self._directory = checkpoint, max_to_keep, paths.as_text(directory)
        self._keep_checkpoint_every_n_hours = keep_checkpoint_every_n_hours
        self._checkpoint_prefix = paths.join(self._directory, checkpoint_name)
        self._step_counter, self._checkpoint_interval, self._init_fn = step_counter, checkpoint_interval, init_fn
        self._last_checkpoint_step = last_checkpoint_step
        self._save_counter_assign: Any = None
        self._maybe_delete: dict[str, float] = {}
        self._latest_checkpoint: str | None = None
        now = clock.steady()
        self._last_preserved_timestamp = now - 1.0
        known = state.get_checkpoint_state(self._directory)
        if known is not None:
            self._take_over(known, now)

    def _take_over(self, known: Any, now: float) -> None:
        """Continues with the checkpoints of an earlier manager."""
        self._latest_checkpoint = known.model_checkpoint_path
        self._last_preserved_timestamp = known.last_preserved_timestamp
        if now < self._last_preserved_timestamp:
            logging.warning("The clock is %f seconds behind the last preserved checkpoint timestamp.",
                            self._last_preserved_timestamp - now)
            self._last_preserved_timestamp = now
        found = list(known.all_model_checkpoint_paths)
        times = list(known.all_model_checkpoint_timestamps) or [self._last_preserved_timestamp] * len(found)
        for path, when in zip(found, times):
            if min(when, now) > self._last_preserved_timestamp:
                self._maybe_delete[path] = min(when, now)

    directory = property(lambda self: self._directory, doc="The directory of the checkpoints.")
    checkpoint = property(lambda self: self._checkpoint, doc="The tf.train.Checkpoint.")
    checkpoint_interval = property(lambda self: self._checkpoint_interval, doc="Steps between checkpoints, or None.")
    latest_checkpoint = property(lambda self: self._latest_checkpoint, doc="The newest checkpoint, or None.")
    checkpoints = property(lambda self: list(self._maybe_delete), doc="The managed checkpoints, the oldest first.")
    _prefix = property(lambda self: self._checkpoint_prefix)

    def _sweep(self) -> None:
        while self._max_to_keep and len(self._maybe_delete) > self._max_to_keep:
            path = next(iter(self._maybe_delete))
            when = self._maybe_delete.pop(path)
            hours = self._keep_checkpoint_every_n_hours
            if hours and when - hours * 3600.0 >= self._last_preserved_timestamp:
                self._last_preserved_timestamp = when
                continue
            bundle.remove(path)

    def _record_state(self) -> None:
        state.write_state(self._directory, self._latest_checkpoint, list(self._maybe_delete), relative=True,  # type: ignore[arg-type]
                          timestamps=list(self._maybe_delete.values()), last_preserved=self._last_preserved_timestamp)

    def save(self, checkpoint_number: Any = None, check_interval: bool = True, options: Any = None) -> str | None:
        """Saves, records the checkpoint in the state file, and removes old ones; returns None if the interval has not
        passed."""
        session = None
        if self._checkpoint_interval is not None and check_interval:
            step = _number(self._step_counter, None)
            if self._last_checkpoint_step is not None and step - self._last_checkpoint_step < self._checkpoint_interval:
                return None
            self._last_checkpoint_step = step
        if context.executing_eagerly():
            self._checkpoint.save_counter.assign_add(1)
        else:
            session = _session(None)
            if self._save_counter_assign is None:
                if self._checkpoint._save_counter is None:
                    session.run(self._checkpoint.save_counter.initializer)
                self._save_counter_assign = self._checkpoint.save_counter.assign_add(1, read_value=False)
            session.run(self._save_counter_assign)
        number = _number(self._checkpoint.save_counter if checkpoint_number is None else checkpoint_number, session)
        path = self._checkpoint.write(f"{self._prefix}-{number}", options=options)
        self._maybe_delete.pop(path, None)
        self._maybe_delete[path] = clock.steady()
        self._latest_checkpoint = path
        self._record_state()              # before anything is removed: a crash in between finds the new one
        self._sweep()
        self._record_state()
        return path

    def sync(self) -> None:
        """Waits for pending writes. `save` is synchronous, so there are none."""
        self._checkpoint.sync()

    def restore_or_initialize(self) -> str | None:
        """Restores the newest checkpoint; if there is none, calls `init_fn`."""
        if self._latest_checkpoint is not None:
            self._checkpoint.restore(self._latest_checkpoint)
            if self._checkpoint_interval is not None:
                self._last_checkpoint_step = _number(self._step_counter, None)
            return self._latest_checkpoint
        if self._init_fn is not None:
            self._init_fn()
        return None


def _number(value: Any, session: Any) -> int:
    if isinstance(value, Trackable) or hasattr(value, "dtype"):
        return int(value.numpy() if context.executing_eagerly() else _session(session).run(value))
    return int(value)
