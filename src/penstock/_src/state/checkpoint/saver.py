"""tf.train.Saver: saves and restores variables by name, keeps the newest checkpoints, and exports the graph with them.

A save runs the save op, then writes the state file, then removes old checkpoints: a crash at any moment leaves the newest
complete one named. `asynchronous=True` writes in the background (values are immutable, so references suffice);
`consistent=True` saves a snapshot of all variables at one point in time.
"""
from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np

from penstock._src.base import clock, errors, progress
from penstock._src.base import tf_logging as logging
from penstock._src.base.api import export
from penstock._src.base.service import started
from penstock._src.base.waits import Locks, joined
from penstock._src.graph import context
from penstock._src.graph.collections import GraphKeys, register_proto_function
from penstock._src.graph.messages import SaverDef
from penstock._src.graph.meta_graph import (
    add_collection_def,
    export_scoped_meta_graph,
    import_scoped_meta_graph_with_return_elements,
    read_meta_graph_file,
)
from penstock._src.graph.scopes import prepend_name_scope, strip_name_scope
from penstock._src.io import bundle, paths
from penstock._src.kernels import bridge
from penstock._src.ops.io.save_restore import background
from penstock._src.ops.state.state import VariableResource
from penstock._src.state.checkpoint import state
from penstock._src.state.checkpoint.builder import BaseSaverBuilder, BulkSaverBuilder
from penstock._src.state.checkpoint.reader import object_graph_of
from penstock._src.state.checkpoint.saveable import validate_and_slice_inputs

_NAMED = ("filename_tensor_name", "save_tensor_name", "restore_op_name")


def all_saveable_objects(scope: str | None = None) -> list:
    """The variables and other objects of the default graph that a saver saves by default."""
    graph = context.current_graph()
    return graph.get_collection(GraphKeys.GLOBAL_VARIABLES, scope) + graph.get_collection(GraphKeys.SAVEABLE_OBJECTS, scope)


@export(v1=["train.Saver"])
class Saver:
    """Saves and restores variables.

    Args:
        var_list: Variables to save: a list, or a dictionary from names in the file. By default all that can be saved.
        reshape: Whether restored values may have another shape with as many elements.
        sharded: Whether each device writes a file.
        max_to_keep: How many checkpoints to keep; older ones are deleted. None or 0 keeps all.
        keep_checkpoint_every_n_hours: Checkpoints at this interval are kept in addition.
        name: Prefix of the operations' names.
        restore_sequentially: Accepted for compatibility and unused.
        saver_def: `SaverDef` of an existing saver whose ops are in the graph.
        builder: Builder of the save and restore ops, by default one for the format of version 2.
        defer_build: Whether to add the ops to the graph when `build` is called instead of now.
        allow_empty: Whether a graph without variables is allowed.
        write_version: Format of the files.
        pad_step_number: Whether step numbers in file names have 8 digits.
        save_relative_paths: Whether the `checkpoint` file holds relative paths, so that the directory can be moved.
        filename: Name of the file, if it is known when the graph is built.

    Raises:
        ValueError: if there is nothing to save and `allow_empty` is False.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     w = tf.get_variable("w", initializer=[1., 2.])
    ...     sess.run(w.initializer)
    ...     saver = tf.train.Saver(max_to_keep=3)
    ...     path = saver.save(sess, "./model.ckpt", global_step=10)
    ...     saver.restore(sess, path)
    ...     print(path, sess.run(w))
    ./model.ckpt-10 [1. 2.]

    `var_list` is a list of variables, or a dictionary from names in the checkpoint to variables; all saveable objects of the
    graph by default.
    """

    def __init__(self, var_list: Any = None, reshape: bool = False, sharded: bool = False, max_to_keep: int | None = 5,
                 keep_checkpoint_every_n_hours: float = 10000.0, name: str | None = None, restore_sequentially: bool = False,
                 saver_def: Any = None, builder: Any = None, defer_build: bool = False, allow_empty: bool = False,
                 write_version: int = SaverDef.V2, pad_step_number: bool = False, save_relative_paths: bool = False,
                 filename: str | None = None):
        if defer_build and var_list:
            raise ValueError("defer_build=True requires var_list=None.")
        if context.executing_eagerly() and var_list is None:
            raise RuntimeError("When eager execution is enabled, `var_list` must specify a list or dict of variables to save")
        self._var_list, self._reshape, self._sharded = var_list, reshape, sharded
        self._max_to_keep, self._keep_checkpoint_every_n_hours = max_to_keep, keep_checkpoint_every_n_hours
        self._name, self._restore_sequentially = name, restore_sequentially
        self.saver_def, self._builder = saver_def, builder
        self._is_built, self._allow_empty = False, allow_empty
        self._is_empty: bool | None = None
        self._write_version, self._pad_step_number, self._filename = write_version, pad_step_number, filename
        self._save_relative_paths = save_relative_paths
        self._last_checkpoints: list[tuple[str, float]] = []
        self._checkpoints_to_be_deleted: list[tuple[str, float]] = []
        self._object_restore_saver: Any = None
        self._writing: _Writing | None = None
        self._saving = threading.RLock()                 # threads that share a saver save in sequence
        if context.executing_eagerly():
            self._next_checkpoint_time = clock.steady() + keep_checkpoint_every_n_hours * 3600
        elif not defer_build:
            self.build()
        if self.saver_def:
            self._check_saver_def()
            self._write_version = self.saver_def.version

    # -- the ops -----------------------------------------------------------------------------------------------------
    def build(self) -> None:
        """Adds the ops to the graph (done by the constructor, unless it is deferred)."""
        if context.executing_eagerly():
            raise RuntimeError("Eager savers have no ops to build: call save or restore.")
        if not self._is_built:
            self._is_built = True
            self._build(self._filename, True, True)

    def _build(self, checkpoint_path: Any, build_save: bool, build_restore: bool) -> None:
        if not self.saver_def or context.executing_eagerly():
            if self._builder is None:
                self._builder = BulkSaverBuilder(self._write_version)
            if self._var_list is None:
                self._var_list = all_saveable_objects()
            if not self._var_list:
                if not self._allow_empty:
                    raise ValueError("No variables to save")
                self._is_empty = True
                return
            self._is_empty = False
            self.saver_def = self._builder._build_internal(
                self._var_list, reshape=self._reshape, sharded=self._sharded, max_to_keep=self._max_to_keep,
                keep_checkpoint_every_n_hours=self._keep_checkpoint_every_n_hours, name=self._name,
                restore_sequentially=self._restore_sequentially, filename=checkpoint_path, build_save=build_save,
                build_restore=build_restore)
        elif self._name:
            for field in _NAMED:
                setattr(self.saver_def, field, prepend_name_scope(getattr(self.saver_def, field), self._name))
        self._check_saver_def()
        if not context.executing_eagerly():
            self._next_checkpoint_time = clock.steady() + self.saver_def.keep_checkpoint_every_n_hours * 3600

    def _check_saver_def(self) -> None:
        if not isinstance(self.saver_def, SaverDef):
            raise ValueError(f"saver_def must be a saver_pb2.SaverDef: {self.saver_def}")
        if not context.executing_eagerly():
            for field in ("save_tensor_name", "restore_op_name"):
                if not getattr(self.saver_def, field):
                    raise ValueError(f"saver_def must specify the {field}: {self.saver_def}")

    def as_saver_def(self) -> Any:
        """The SaverDef message."""
        return self.saver_def

    def to_proto(self, export_scope: str | None = None) -> Any:
        """The SaverDef message; None if the saver is not in `export_scope`."""
        if export_scope is None:
            return self.saver_def
        if not all(getattr(self.saver_def, field).startswith(export_scope) for field in _NAMED):
            return None
        out = SaverDef()
        out.CopyFrom(self.saver_def)
        for field in _NAMED:
            setattr(out, field, strip_name_scope(getattr(out, field), export_scope))
        return out

    @staticmethod
    def from_proto(saver_def: Any, import_scope: str | None = None) -> Saver:
        """The saver that a SaverDef describes, over ops of the default graph."""
        return Saver(saver_def=saver_def, name=import_scope)

    # -- which checkpoints there are ---------------------------------------------------------------------------------
    @property
    def last_checkpoints(self) -> list[str]:
        """The checkpoints that are kept, the oldest first."""
        return [path for path, _ in self._last_checkpoints]

    def set_last_checkpoints(self, last_checkpoints: list[str]) -> None:
        """Sets the checkpoints that are kept."""
        if not isinstance(last_checkpoints, list):
            raise AssertionError("last_checkpoints must be a list")
        self._last_checkpoints = [(path, np.inf) for path in last_checkpoints]

    def set_last_checkpoints_with_time(self, last_checkpoints_with_time: list[tuple[str, float]]) -> None:
        """Sets the checkpoints that are kept, and when each was written."""
        if not isinstance(last_checkpoints_with_time, list):
            raise AssertionError("last_checkpoints_with_time must be a list")
        self._last_checkpoints = last_checkpoints_with_time

    def recover_last_checkpoints(self, checkpoint_paths: list[str]) -> None:
        """Takes over checkpoints of an earlier run that still exist."""
        found = [(path, state.get_checkpoint_mtimes([path])) for path in checkpoint_paths]
        self.set_last_checkpoints_with_time([(path, times[0]) for path, times in found if times])

    def _record(self, path: str) -> None:
        if not self.saver_def.max_to_keep:
            return
        self._last_checkpoints = [p for p in self._last_checkpoints if p[0] != path]
        self._last_checkpoints.append((path, clock.steady()))
        if len(self._last_checkpoints) > self.saver_def.max_to_keep:
            self._checkpoints_to_be_deleted.append(self._last_checkpoints.pop(0))

    def _remove_old(self, meta_graph_suffix: str) -> None:
        if not self._checkpoints_to_be_deleted:
            return
        path, written = self._checkpoints_to_be_deleted.pop(0)
        if written > self._next_checkpoint_time:
            self._next_checkpoint_time += self.saver_def.keep_checkpoint_every_n_hours * 3600
            return
        try:
            state.remove_checkpoint(path, self.saver_def.version, meta_graph_suffix)
        except Exception as e:
            logging.warning("Ignoring: %s", e)

    # -- saving ------------------------------------------------------------------------------------------------------
    def save(self, sess: Any, save_path: Any, global_step: Any = None, latest_filename: str | None = None,
             meta_graph_suffix: str = "meta", write_meta_graph: bool = True, write_state: bool = True,
             strip_default_attrs: bool = False, save_debug_info: bool = False, asynchronous: bool = False,
             consistent: bool = False) -> str | None:
        """Saves the variables, and returns the prefix of the checkpoint.

        With `asynchronous`, a thread writes the files after the return; `wait()` waits for it, and the next save
        does. With `consistent`, all variables are saved as they were at one point in time, also while other threads train.
        """
        with self._saving:
            self.wait()
            return self._save(sess, save_path, global_step, latest_filename, meta_graph_suffix, write_meta_graph, write_state,
                              strip_default_attrs, save_debug_info, asynchronous, consistent)

    def _save(self, sess: Any, save_path: Any, global_step: Any, latest_filename: str | None, meta_graph_suffix: str,
              write_meta_graph: bool, write_state: bool, strip_default_attrs: bool, save_debug_info: bool, asynchronous: bool,
              consistent: bool) -> str | None:
        if not self._is_built and not context.executing_eagerly():
            raise RuntimeError("`build()` should be called before save if defer_build==True")
        save_path = paths.as_text(save_path)
        if write_state:
            state.nameable(save_path)
        latest_filename = latest_filename or "checkpoint"
        if os.path.split(latest_filename)[0]:
            raise ValueError("'latest_filename' must not contain path components")
        prefix = self._prefix(sess, save_path, global_step, latest_filename)
        if not context.executing_eagerly() and not hasattr(sess, "run"):
            raise TypeError(f"'sess' must be a Session; {sess}")

        began = time.monotonic()

        def recorded(path: str) -> None:
            progress.process.saved(path, time.monotonic() - began)
            if write_state:
                self._record(path)
                state.write_state(os.path.dirname(save_path), path, self.last_checkpoints, latest_filename,
                                  self._save_relative_paths)
                self._remove_old(meta_graph_suffix)
        path = None
        if not self._is_empty:
            path = self._saved(sess, prefix, save_path, asynchronous, consistent, recorded)
        if write_meta_graph and not context.executing_eagerly():
            with sess.graph.as_default():
                self.export_meta_graph(state.meta_graph_filename(prefix, meta_graph_suffix),
                                       strip_default_attrs=strip_default_attrs, save_debug_info=save_debug_info)
        return path

    def _prefix(self, sess: Any, save_path: str, global_step: Any, latest_filename: str) -> str:
        if global_step is not None:
            if not isinstance(global_step, (int, np.integer)):
                global_step = int(global_step.numpy() if context.executing_eagerly() else sess.run(global_step))
            return f"{save_path}-{global_step:08d}" if self._pad_step_number else f"{save_path}-{global_step}"
        if os.path.basename(save_path) == latest_filename and not self._sharded:
            raise ValueError(f"'latest_filename' collides with 'save_path': '{latest_filename}' and '{save_path}'")
        return save_path

    def _saved(self, sess: Any, prefix: str, save_path: str, asynchronous: bool, consistent: bool, recorded: Any) -> str:
        """Runs the save op; the rest is done now, or by the writing thread."""
        try:
            parts = _new_parts()
            if not asynchronous:
                try:
                    path = self._run_save(sess, prefix, consistent, parts)
                except BaseException:
                    _drop_parts(prefix, parts)
                    raise
                recorded(path)
                return path
            with background() as jobs:
                path = self._run_save(sess, prefix, consistent, parts)
            self._writing = _Writing([*jobs, lambda: recorded(path)], lambda: _drop_parts(prefix, parts))
            return path
        except (errors.FailedPreconditionError, errors.NotFoundError):
            folder = os.path.dirname(save_path)
            if folder and not paths.isdir(folder):
                raise ValueError(f"Parent directory of {save_path} doesn't exist, can't save.") from None
            raise

    def _run_save(self, sess: Any, prefix: str, consistent: bool, parts: str) -> str:
        if context.executing_eagerly():
            self._build(prefix, True, False)
            return self.saver_def.save_tensor_name
        feeds: dict[Any, Any] = {self.saver_def.filename_tensor_name: prefix}
        folder = _parts_tensor(sess.graph, self.saver_def.save_tensor_name)
        if folder is not None:
            feeds[folder] = parts
        if consistent:
            feeds.update(_snapshot(sess, self.saver_def.save_tensor_name))
        return os.fsdecode(sess.run(self.saver_def.save_tensor_name, feeds))

    def wait(self) -> None:
        """Waits until an asynchronous save is on disk; raises its error, if any."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.wait()

    def export_meta_graph(self, filename: Any = None, collection_list: Any = None, as_text: bool = False,
                          export_scope: str | None = None, clear_devices: bool = False, clear_extraneous_savers: bool = False,
                          strip_default_attrs: bool = False, save_debug_info: bool = False) -> Any:
        """The MetaGraphDef of the default graph with this saver, written to `filename` if one is given."""
        return export_meta_graph(filename=filename, graph_def=context.current_graph().as_graph_def(add_shapes=True),
                                 saver_def=self.saver_def, collection_list=collection_list, as_text=as_text,
                                 export_scope=export_scope, clear_devices=clear_devices,
                                 clear_extraneous_savers=clear_extraneous_savers, strip_default_attrs=strip_default_attrs,
                                 save_debug_info=save_debug_info)

    @staticmethod
    def _add_collection_def(meta_graph_def: Any, key: Any, export_scope: str | None = None) -> None:
        add_collection_def(meta_graph_def, key, export_scope=export_scope)

    # -- restoring ---------------------------------------------------------------------------------------------------
    def restore(self, sess: Any, save_path: Any) -> None:
        """Restores the variables from a checkpoint; if it fails, no variable has changed."""
        if self._is_empty:
            return
        self.wait()
        if save_path is None:
            raise ValueError("save_path is None: there is no checkpoint to restore.")
        path = paths.as_text(save_path)
        if not state.checkpoint_exists(path):
            raise ValueError("The passed save_path is not a valid checkpoint: " + path)
        logging.info("Restoring parameters from %s", path)
        try:
            if context.executing_eagerly():
                self._build(path, False, True)
            else:
                sess.run(self.saver_def.restore_op_name, {self.saver_def.filename_tensor_name: path})
        except errors.NotFoundError as e:
            try:
                keys = names_to_keys(path)
            except errors.NotFoundError:
                raise _explained(e, "a Variable name or other graph key that is missing") from e
            logging.warning("The checkpoint was saved by objects, and this saver restores by names: it is rebuilt for the "
                            "checkpoint, which may fail. Use tf.train.Checkpoint() instead.")
            self._object_restore_saver = saver_from_object_based_checkpoint(path, self._var_list, self._builder, keys,
                                                                            self._object_restore_saver)
            self._object_restore_saver.restore(sess=sess, save_path=path)
        except errors.InvalidArgumentError as e:
            raise _explained(e, "a mismatch between the current graph and the graph") from e


def _explained(e: errors.OpError, why: str) -> errors.OpError:
    text = (f"Restoring from checkpoint failed. This is most likely due to {why} from the checkpoint. Please ensure that you "
            f"have not altered the graph expected based on the checkpoint. Original error:\n\n{e.message}")
    return type(e)(e.node_def, e.op, text)      # type: ignore[call-arg]


def _new_parts() -> str:
    """The folder of the parts of a save, relative to its prefix."""
    return f"_temp_{uuid.uuid4().hex}/part"


def _drop_parts(prefix: str, parts: str) -> None:
    bundle.drop_parts(os.path.dirname(prefix + parts))


def _parts_tensor(graph: Any, save_tensor_name: str) -> Any:
    """The constant of a sharded saver that names the folder of its parts; None if there is none.

    A graph has one such name, and processes that import the graph share it. Each save feeds another, so that several savers
    of one prefix do not write each other's parts.
    """
    saved = graph.get_tensor_by_name(save_tensor_name).op
    op = next((c for c in saved.control_inputs if c.type == "MergeV2Checkpoints"), None)
    while op is not None and op.type in ("MergeV2Checkpoints", "Pack", "ShardedFilename"):
        op = op.inputs[0].op
    if op is None or op.type != "StringJoin" or len(op.inputs) != 2 or op.inputs[1].op.type != "Const":
        return None
    return op.inputs[1]


class _Writing:
    """A save that is being written by a thread."""

    def __init__(self, jobs: list, failed: Callable[[], None]):
        self._error: BaseException | None = None
        self._failed = failed
        self._thread = started(threading.Thread(target=self._run, args=(jobs,), name="penstock-save"))

    def _run(self, jobs: list) -> None:
        try:
            while jobs:
                jobs.pop(0)()
        except BaseException as e:
            self._failed()
            self._error = e

    def wait(self) -> None:
        """Waits for the end."""
        joined(self._thread, lambda: f"the files of a checkpoint, which thread {self._thread.name} writes")
        if self._error is not None:
            raise self._error


def _snapshot(sess: Any, save_tensor_name: str) -> dict[Any, Any]:
    """Feeds for the reads of the save ops: the values of all variables, read while all of them are locked."""
    graph = sess.graph
    todo, seen, read = [graph.get_tensor_by_name(save_tensor_name).op], set(), {}
    while todo:
        op = todo.pop()
        if op in seen:
            continue
        seen.add(op)
        todo.extend(op.control_inputs)
        for t in op.inputs:
            holder = t.op.inputs[0].op if t.op.type == "ReadVariableOp" else t.op
            if "shared_name" in holder.attrs and "dtype" in holder.attrs:
                name = holder.attrs["shared_name"] or holder.name
                read[t] = sess._resources.lookup(holder.attrs["container"], name, VariableResource)
            else:
                todo.append(t.op)
    with Locks(r for r in read.values() if r is not None):
        return {t: bridge.to_numpy(r.value, r.dtype) for t, r in read.items() if r is not None and r.value is not None}


# -- object-based checkpoints by name --------------------------------------------------------------------------------
def names_to_keys(checkpoint_path: str) -> dict[str, str]:
    """For each variable of an object-based checkpoint, its name and its key there."""
    return {a.full_name: a.checkpoint_key for node in object_graph_of(checkpoint_path).nodes for a in node.attributes}


def saver_from_object_based_checkpoint(checkpoint_path: str, var_list: Any = None, builder: Any = None, keys: Any = None,
                                       cached_saver: Any = None) -> Saver:
    """A saver that restores variables, by their names, from an object-based checkpoint."""
    if keys is None:
        try:
            keys = names_to_keys(checkpoint_path)
        except errors.NotFoundError:
            raise ValueError(f"Checkpoint in {checkpoint_path} not an object-based checkpoint.") from None
    saveables = validate_and_slice_inputs(all_saveable_objects() if var_list is None else var_list)
    here, there = {spec.name for s in saveables for spec in s.specs}, set(keys)
    if here - there:
        raise errors.NotFoundError(None, None, (
            f"\n\nExisting variables not in the checkpoint: {', '.join(sorted(here - there))}\n\nVariables names when this "
            f"checkpoint was written which don't exist now: {', '.join(sorted(there - here))}\n\n({len(here & there)} variable "
            "name(s) did match)\n\nCould not find some variables in the checkpoint (see names above). It was saved by objects "
            "(tf.train.Checkpoint) and is being restored by variable names: give a Saver(var_list=...) with the variables "
            "that were there, as a dictionary from the old names if the names have changed."))
    for s in saveables:
        for spec in s.specs:
            spec.name = keys[spec.name]
    return cached_saver if cached_saver is not None else Saver(saveables)


# -- graphs with savers ----------------------------------------------------------------------------------------------
_NO_GRAPH = ("Exporting/importing meta graphs is not supported when eager execution is enabled. No graph exists when eager "
             "execution is enabled.")


@export(v1=["train.export_meta_graph"])
def export_meta_graph(filename: Any = None, meta_info_def: Any = None, graph_def: Any = None, saver_def: Any = None,
                      collection_list: Any = None, as_text: bool = False, graph: Any = None, export_scope: str | None = None,
                      clear_devices: bool = False, clear_extraneous_savers: bool = False, strip_default_attrs: bool = False,
                      save_debug_info: bool = False, **kwargs: Any) -> Any:
    """The MetaGraphDef of a graph or of a scope in it, written to `filename` if one is given.

    >>> tf.train.export_meta_graph("/tmp/model.meta", saver_def=saver.as_saver_def())
    """
    if context.executing_eagerly() and (graph_def is None or graph is None):
        raise RuntimeError(_NO_GRAPH)
    return export_scoped_meta_graph(
        filename=filename, meta_info_def=meta_info_def, graph_def=graph_def, saver_def=saver_def,
        collection_list=collection_list, as_text=as_text, graph=graph, export_scope=export_scope, clear_devices=clear_devices,
        clear_extraneous_savers=clear_extraneous_savers, strip_default_attrs=strip_default_attrs,
        save_debug_info=save_debug_info, **kwargs)[0]


def import_meta_graph(meta_graph_or_file: Any, clear_devices: bool = False, import_scope: str | None = None,
                      **kwargs: Any) -> Saver | None:
    """Adds a MetaGraphDef to the default graph, and returns its saver; None if there is nothing to save.

    Args:
        meta_graph_or_file: `MetaGraphDef`, or the path of a `.meta` file.
        clear_devices: Whether to remove the devices of the nodes.
        import_scope: Prefix of the names.
        **kwargs: Passed to `import_graph_def`.

    Returns:
        A Saver, or None if the MetaGraphDef has none and no variables.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     w = tf.get_variable("w", initializer=[1., 2.])
    ...     sess.run(w.initializer)
    ...     path = tf.train.Saver().save(sess, "./model.ckpt", global_step=10)
    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     saver = tf.train.import_meta_graph("model.ckpt-10.meta")
    ...     saver.restore(sess, "./model.ckpt-10")
    ...     print(sess.run(tf.global_variables()))
    [array([1., 2.], dtype=float32)]
    """
    return import_meta_graph_with_return_elements(meta_graph_or_file, clear_devices, import_scope, **kwargs)[0]


def import_meta_graph_with_return_elements(meta_graph_or_file: Any, clear_devices: bool = False,
                                           import_scope: str | None = None, return_elements: Any = None,
                                           **kwargs: Any) -> tuple[Saver | None, list | None]:
    """Like import_meta_graph; returns the saver, and the operations and tensors that are named."""
    if context.executing_eagerly():
        raise RuntimeError(_NO_GRAPH)
    meta_graph = meta_graph_or_file if hasattr(meta_graph_or_file, "graph_def") else read_meta_graph_file(meta_graph_or_file)
    variables, elements = import_scoped_meta_graph_with_return_elements(
        meta_graph, clear_devices=clear_devices, import_scope=import_scope, return_elements=return_elements, **kwargs)
    if meta_graph.HasField("saver_def"):
        scope = import_scope
        if variables:
            first, variable = next(iter(variables.items()))
            scope = variable.name[:-len(first)]
        return Saver(saver_def=meta_graph.saver_def, name=scope), elements
    if all_saveable_objects(scope=import_scope):
        return Saver(), elements
    logging.info("Saver not created because there are no variables in the graph to restore")
    return None, elements


register_proto_function(GraphKeys.SAVERS, SaverDef, lambda s, export_scope: s.to_proto(export_scope), Saver.from_proto)
__all__ = ["BaseSaverBuilder", "BulkSaverBuilder", "Saver"]
