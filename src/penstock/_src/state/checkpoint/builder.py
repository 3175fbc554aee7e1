"""The ops of a saver: from SaveableObjects to a save and a restore op, and the SaverDef that names them.

The graph has TensorFlow's shape and names (`save/Const`, `save/SaveV2`, `save/RestoreV2`, `save/Assign`, `save/restore_all`),
so that a MetaGraphDef written here is restored there. A sharded saver has one save op per device and a merge.
"""
from __future__ import annotations

import uuid
from typing import Any

from penstock._src.graph import context
from penstock._src.graph.convert import constant
from penstock._src.graph.messages import SaverDef
from penstock._src.graph.scopes import control_dependencies, device, name_scope
from penstock._src.kernels.devices.device_spec import DeviceSpecV2
from penstock._src.ops.core import group, identity
from penstock._src.ops.registry import get
from penstock._src.state.checkpoint.saveable import (
    ReferenceVariableSaveable,
    ResourceVariableSaveable,
    SaveableObject,
    SaveSpec,
    saved_beside,
    set_cpu0,
    validate_and_slice_inputs,
)
from penstock._src.state.variables.partitioned import PartitionedVariable


class BaseSaverBuilder:
    """Builds the ops of a saver, one restore op per tensor; subclasses may build others."""

    SaveSpec = SaveSpec
    SaveableObject = SaveableObject
    VariableSaveable = ReferenceVariableSaveable
    ResourceVariableSaveable = ResourceVariableSaveable

    def __init__(self, write_version: int = SaverDef.V2):
        self._write_version = write_version

    # -- ops that subclasses may replace -----------------------------------------------------------------------------
    def save_op(self, filename_tensor: Any, saveables: list) -> Any:
        """The op that saves."""
        specs = [spec for s in saveables for spec in s.specs]
        names, tensors, parts = [s.name for s in specs], [s.tensor for s in specs], [s.slice_spec for s in specs]
        with control_dependencies(saved_beside(saveables, filename_tensor)):
            if self._write_version == SaverDef.V1:
                return get("SaveSlices")(filename_tensor, names, parts, tensors, name="save")
            if self._write_version == SaverDef.V2:
                return get("SaveV2")(filename_tensor, names, parts, tensors)
        raise RuntimeError(f"Unexpected write_version: {self._write_version}")

    def bulk_restore(self, filename_tensor: Any, saveables: list, preferred_shard: int, restore_sequentially: bool) -> list:
        """The tensors restored for all saveables."""
        restored: list = []
        for s in saveables:
            with device(set_cpu0(s.device) if s.device else None):
                restored.extend(self.restore_op(filename_tensor, s, preferred_shard))
        return restored

    def restore_op(self, filename_tensor: Any, saveable: Any, preferred_shard: int) -> list:
        """The tensors restored for one saveable."""
        return [get("RestoreV2")(filename_tensor, [spec.name], [spec.slice_spec], [spec.dtype.base_dtype])[0]
                for spec in saveable.specs]

    def sharded_filename(self, filename_tensor: Any, shard: int, num_shards: Any) -> Any:
        """The name of a shard's file."""
        return get("ShardedFilename")(filename_tensor, shard, num_shards)

    # -- saving ------------------------------------------------------------------------------------------------------
    def _save(self, filename_tensor: Any, saveables: list) -> Any:
        saved = self.save_op(filename_tensor, saveables)
        if saved is None:                                  # eager: it is done
            return filename_tensor
        with control_dependencies([saved]):
            return identity(filename_tensor, name="control_dependency")

    def _save_sharded(self, prefix: Any, per_device: list) -> Any:
        if self._write_version != SaverDef.V2:
            return self._save_sharded_v1(prefix, per_device)
        temporary = get("StringJoin")([prefix, f"_temp_{uuid.uuid4().hex}/part"])
        count = constant(len(per_device), name="num_shards")
        prefixes, saves = [], []
        for shard, (name, saveables) in enumerate(per_device):
            with device(set_cpu0(name)):
                prefixes.append(self.sharded_filename(temporary, shard, count))
                saves.append(self._save(prefixes[-1], saveables))
        with control_dependencies(_ops(saves)), device(set_cpu0(per_device[-1][0])):
            merged = get("MergeV2Checkpoints")(prefixes, prefix, delete_old_dirs=True)
            with control_dependencies([] if merged is None else [merged]):
                return identity(prefix)

    def _save_sharded_v1(self, filename_tensor: Any, per_device: list) -> Any:
        count = constant(len(per_device), name="num_shards")
        saves = []
        for shard, (name, saveables) in enumerate(per_device):
            with device(name):
                saves.append(self._save(self.sharded_filename(filename_tensor, shard, count), saveables))
        with control_dependencies(_ops(saves)):
            return get("ShardedFilespec")(filename_tensor, count)

    # -- restoring ---------------------------------------------------------------------------------------------------
    def _restore(self, filename_tensor: Any, saveables: list, restore_sequentially: bool, reshape: bool,
                 preferred_shard: int = -1, name: str = "restore_all") -> Any:
        done, at = [s.restore_from(filename_tensor) for s in saveables if hasattr(s, "restore_from")], 0
        saveables = [s for s in saveables if not hasattr(s, "restore_from")]
        tensors = self.bulk_restore(filename_tensor, saveables, preferred_shard, restore_sequentially) if saveables else []
        for s in saveables:
            shapes = [_shape_of(spec.tensor) for spec in s.specs] if reshape else None
            done.append(s.restore(tensors[at:at + len(s.specs)], shapes))
            at += len(s.specs)
        return None if context.executing_eagerly() else group(*done, name=name)

    def _restore_sharded(self, filename_tensor: Any, per_device: list, restore_sequentially: bool, reshape: bool) -> Any:
        done = []
        for shard, (name, saveables) in enumerate(per_device):
            with device(name):
                done.append(self._restore(filename_tensor, saveables, restore_sequentially, reshape, shard, "restore_shard"))
        return None if context.executing_eagerly() else group(*done, name="restore_all")

    def _group_by_device(self, saveables: list) -> list[tuple[str, list]]:
        found: dict[str, list] = {}
        for s in saveables:
            devices = {DeviceSpecV2.from_string(spec.device or "").to_string() for spec in s.specs}
            if len(devices) != 1:
                raise ValueError(f"All tensors of a saveable object must be on the same device: {s.name}")
            found.setdefault(devices.pop(), []).append(s)
        return sorted(found.items())

    # -- all of it ---------------------------------------------------------------------------------------------------
    def build(self, names_to_saveables: Any, reshape: bool = False, sharded: bool = False, max_to_keep: int | None = 5,
              keep_checkpoint_every_n_hours: float = 10000.0, name: str | None = None, restore_sequentially: bool = False,
              filename: str = "model") -> Any:
        """Adds the ops, and returns the SaverDef that names them."""
        return self._build_internal(names_to_saveables, reshape, sharded, max_to_keep, keep_checkpoint_every_n_hours, name,
                                    restore_sequentially, filename)

    def _build_internal(self, names_to_saveables: Any, reshape: bool = False, sharded: bool = False,
                        max_to_keep: int | None = 5, keep_checkpoint_every_n_hours: float = 10000.0, name: str | None = None,
                        restore_sequentially: bool = False, filename: str | None = "model", build_save: bool = True,
                        build_restore: bool = True) -> Any:
        eager = context.executing_eagerly()
        if not eager and not (build_save and build_restore):
            raise ValueError("save and restore operations need to be built together  when eager execution is not enabled.")
        saveables = validate_and_slice_inputs(names_to_saveables)
        saved = restored = None
        with name_scope(name, "save", [] if eager else [s.op for s in saveables if not isinstance(s.op, str)]):
            path = get("PlaceholderWithDefault")(filename or "model", shape=(), name="filename")
            path = get("PlaceholderWithDefault")(path, shape=(), name="Const")
            if sharded:
                per_device = self._group_by_device(saveables)
                if build_save:
                    saved = self._save_sharded(path, per_device)
                if build_restore:
                    restored = self._restore_sharded(path, per_device, restore_sequentially, reshape)
            else:
                if build_save:
                    saved = self._save(path, saveables)
                if build_restore:
                    restored = self._restore(path, saveables, restore_sequentially, reshape)
        made = SaverDef(max_to_keep=max_to_keep or 0, sharded=sharded, version=self._write_version,
                        keep_checkpoint_every_n_hours=keep_checkpoint_every_n_hours)
        if eager:
            made.filename_tensor_name = path.numpy().decode()
            made.save_tensor_name = saved.numpy().decode() if saved is not None else ""
        else:
            _make_concatenations()
            made.filename_tensor_name, made.save_tensor_name = path.name, saved.name        # type: ignore[union-attr]
            made.restore_op_name = restored.name                                            # type: ignore[union-attr]
        return made


class BulkSaverBuilder(BaseSaverBuilder):
    """Builds one restore op for all tensors, which is faster."""

    def bulk_restore(self, filename_tensor: Any, saveables: list, preferred_shard: int, restore_sequentially: bool) -> list:
        """The tensors restored for all saveables, by one op."""
        specs = [spec for s in saveables for spec in s.specs]
        with device("cpu:0"):
            return get("RestoreV2")(filename_tensor, [s.name for s in specs], [s.slice_spec for s in specs],
                                    [s.dtype.base_dtype for s in specs])


def _ops(tensors: list) -> list:
    return [] if context.executing_eagerly() else [t.op for t in tensors]


def _shape_of(tensor: Any) -> Any:
    shape = tensor.get_shape()
    return shape if shape.is_fully_defined() else get("Shape")(tensor)


def _make_concatenations() -> None:
    """Creates the tensors of partitioned variables in collections, because they are exported."""
    graph = context.current_graph()
    for key in graph.get_all_collection_keys():
        for item in graph.get_collection(key):
            if isinstance(item, PartitionedVariable):
                try:
                    graph.get_operation_by_name(item.name)
                except KeyError:
                    item.as_tensor()
