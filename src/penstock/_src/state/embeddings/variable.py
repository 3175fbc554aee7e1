"""EmbeddingVariable: a variable with rows by key, which are created when a key is first looked up.

It is a resource variable without a value as a tensor: `sparse_read` looks keys up, and optimizers get gradients whose indices
are keys. `KeyedRows` presents the rows of one gradient to them as a variable.
"""
from __future__ import annotations

import contextlib
import functools
import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from penstock._src.base import dtypes, errors, nest
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph import context
from penstock._src.graph.convert import convert
from penstock._src.graph.eager_tensor import EagerTensor
from penstock._src.graph.indexed_slices import IndexedSlices
from penstock._src.graph.recording import variable_accessed
from penstock._src.graph.scopes import colocate_with, control_dependencies, device, init_scope, name_scope
from penstock._src.graph.trackable import Trackable
from penstock._src.kernels.keyed import POOL, KeyedConfig
from penstock._src.ops.control.control_flow import cond
from penstock._src.ops.core import group, identity
from penstock._src.ops.registry import get
from penstock._src.ops.state import keyed as ops
from penstock._src.ops.state import keyed_files as file_ops
from penstock._src.state.checkpoint.saveable import SaveableObject, SaveSpec
from penstock._src.state.variables.reference import checked_collections
from penstock._src.state.variables.resource import BaseResourceVariable

_uid = itertools.count()


class _Lookups:
    """Whether lookups make rows, if nothing is said: a mode of the process."""

    make_rows = True


LOOKUPS = _Lookups()


class EmbeddingVariable(BaseResourceVariable):
    """A table of embeddings by key, created by `tf.get_embedding_variable` and `dynamic_embedding.get_variable`."""

    _keyed = True
    files: KeyedFiles | None = None                # where rows are saved, if not in the checkpoint

    def __init__(self, name: str, config: KeyedConfig, key_dtype: Any = dtypes.int64, dtype: Any = dtypes.float32,
                 initializer: Any = None, pool_rows: int = 4096, trainable: bool = True, collections: Any = None):
        self._dtype, self._key_dtype = dtypes.as_dtype(dtype).base_dtype, dtypes.as_dtype(key_dtype)
        if self._key_dtype not in (dtypes.int32, dtypes.int64, dtypes.string):
            raise ValueError(f"Keys must be int32, int64 or string, got {self._key_dtype.name}")
        self._config, self._trainable = config, trainable
        self.static_dims: tuple | None = (None, config.dim)
        self.slots: dict[str, float] = {}          # the slots that optimizers requested, and their initial values
        with init_scope():
            self._in_graph_mode = not context.executing_eagerly()
            self._graph_key = context.current_graph()
            self._build(name, initializer, pool_rows)
            if self._in_graph_mode:
                context.current_graph().add_to_collections(checked_collections(collections, trainable), self)

    def _build(self, name: str, initializer: Any, pool_rows: int) -> None:
        attrs = {"dtype": self._dtype, "Tkeys": self._key_dtype, "shape": TensorShape.of(self.static_dims),
                 "config": self._config.to_json()}
        with name_scope(name) as scope:
            own = scope[:-1]
            self._name = own + ":0"
            if self._in_graph_mode:
                self._unique_id = own
                self._handle = ops.kv_var_handle(shared_name=own, name=scope, **attrs)
            else:
                self._unique_id = f"{own}_{next(_uid)}"
                self._handle = EagerTensor(ops.make_table(own, self._dtype, self._key_dtype, attrs["config"]), dtypes.resource)
            self._handle._handle_dtype, self._handle._handle_dims = self._dtype, self.static_dims
            with name_scope("Initializer"):
                self._initial_value = convert(self._pool(initializer, pool_rows), self._dtype)
            with colocate_with(self._handle) if self._in_graph_mode else contextlib.nullcontext():
                self._initializer_op = ops.initialize_kv_variable(self._handle, self._initial_value)
                if self._in_graph_mode:
                    self._is_initialized_op = ops.kv_var_is_initialized(self._handle)
                    self._graph_element = ops.kv_size(self._handle)

    def _pool(self, initializer: Any, rows: int) -> Any:
        """The rows that new ones are copied from; none if they are computed from the key."""
        dim = self._config.dim
        if self._config.start != POOL:
            return get("Fill")([0, dim], convert(0, self._dtype))
        return initializer([rows, dim], dtype=self._dtype) if callable(initializer) else \
            get("Reshape")(convert(initializer, self._dtype), [-1, dim])

    def before_restore(self) -> list:
        """What a restore in a graph waits for: a table without rows, with those that new ones are copied from, if there is none
        yet. Other tables are made by the restore."""
        if not self._in_graph_mode or self._config.start != POOL:
            return []

        def begin() -> Any:
            with control_dependencies([ops.initialize_kv_variable(self._handle, self._initial_value)]):
                return identity(convert(True))
        return [cond(ops.kv_var_is_initialized(self._handle), lambda: identity(convert(True)), begin)]

    # -- parts --------------------------------------------------------------------------------------------------------
    config = property(lambda self: self._config, doc="How the table behaves.")
    key_dtype = property(lambda self: self._key_dtype, doc="The type of the keys.")
    dim = property(lambda self: self._config.dim, doc="The number of columns.")
    embedding_dim = dim

    @property
    def file_name(self) -> str:
        """The name of the variable that this is a table of: its files have it."""
        own = self._name.removesuffix(":0")
        return own.removesuffix(f"/part_{self._config.part}") if self._config.parts > 1 else own

    def add_slot(self, slot: str, initial: float) -> str:
        """Adds a slot of an optimizer to all rows."""
        self.slots.setdefault(slot, float(initial))
        return slot

    def _keys(self, keys: Any) -> Any:
        t = convert(keys, self._key_dtype if not hasattr(keys, "dtype") else None, "keys")
        if t.dtype.base_dtype == self._key_dtype:
            return t
        if dtypes.string in (t.dtype.base_dtype, self._key_dtype):
            raise TypeError(f"Keys of embedding variable {self.name} are {self._key_dtype.name}, got {t.dtype.name}")
        return get("Cast")(t, DstT=self._key_dtype)

    def _beside(self) -> Any:
        """Ops on the table are placed on its device."""
        if not self._in_graph_mode:
            return contextlib.nullcontext()
        stack = contextlib.ExitStack()
        stack.enter_context(colocate_with(None, ignore_existing=True))
        stack.enter_context(device(self._handle_device()))
        return stack

    # -- keys ---------------------------------------------------------------------------------------------------------
    @staticmethod
    def makes_rows() -> bool:
        """Whether lookups make rows for new keys."""
        return LOOKUPS.make_rows

    def sparse_read(self, indices: Any, name: str | None = None, insert: bool | None = None) -> Any:
        """The embeddings of keys. New keys get a row, unless `insert` is False."""
        keys, insert = self._keys(indices), self.makes_rows() if insert is None else insert
        with name_scope(name or "Gather") as scope, self._beside():
            if context.state.tapes:
                variable_accessed(self)
            return identity(ops.kv_gather(self._handle, keys, dtype=self._dtype, insert=insert, name=scope))

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        """The embeddings of keys; keys without a row get none."""
        return self.sparse_read(keys, name or "lookup", insert=False)

    def exists(self, keys: Any, name: str | None = None) -> Any:
        """Which keys have a row."""
        with self._beside():
            return ops.kv_exists(self._handle, self._keys(keys), name=name)

    def upsert(self, keys: Any, values: Any, name: str | None = None) -> Any:
        """Sets the embeddings of keys."""
        with self._beside():
            return ops.kv_insert(self._handle, self._keys(keys), convert(values, self._dtype), name=name)

    def remove(self, keys: Any, name: str | None = None) -> Any:
        """Forgets keys."""
        with self._beside():
            return ops.kv_remove(self._handle, self._keys(keys), name=name)

    def prefetch(self, keys: Any, name: str | None = None) -> Any:
        """Brings the rows of keys from disk to memory."""
        with self._beside():
            return ops.kv_prefetch(self._handle, self._keys(keys), name=name)

    def prefetched(self, dataset: Any, keys: Any = None, ahead: int = 1) -> Any:
        """A dataset whose batches find their rows in memory: while a batch is used, the rows of the next ones come from disk.

        Args:
            dataset: A `tf.data.Dataset` of batches.
            keys: Function of a batch that returns its keys; by default the batch is the keys.
            ahead: The number of batches whose rows are brought early.

        >>> dataset = table.prefetched(dataset, lambda features, labels: features["user"])
        """
        def brought(*batch: Any) -> Any:
            with control_dependencies([self.prefetch(keys(*batch) if keys is not None else batch[0])]):
                found = nest.map_structure(identity, batch, expand_composites=True)
            return found if len(batch) > 1 else found[0]
        return dataset.map(brought).prefetch(ahead)

    def versions_and_frequencies(self, keys: Any) -> tuple:
        """For each key the step of its last update, and how often it was looked up."""
        with self._beside():
            return tuple(ops.kv_statistics(self._handle, self._keys(keys)))

    # -- all rows -----------------------------------------------------------------------------------------------------
    def size(self, index: int | None = None, name: str | None = None) -> Any:
        """The number of keys."""
        with self._beside():
            return ops.kv_size(self._handle, name=name)

    def total_count(self) -> Any:
        """The shape of the table: keys and columns."""
        return get("Pack")([self.size(), convert(self.dim, dtypes.int64)])

    def export(self, name: str | None = None) -> tuple:
        """All keys and their embeddings."""
        return self._exported(False)[:2]

    def _exported(self, incremental: bool) -> tuple:
        with self._beside():
            return tuple(ops.kv_export(self._handle, dtype=self._dtype, Tkeys=self._key_dtype, incremental=incremental))

    def evict(self, global_step: Any = -1) -> Any:
        """Evicts keys according to the options; returns how many."""
        with self._beside():
            return ops.kv_evict(self._handle, get("Cast")(convert(global_step), DstT=dtypes.int64))

    def clear(self, name: str | None = None) -> Any:
        """Removes all keys."""
        with self._beside():
            return ops.kv_clear(self._handle, name=name)

    def is_initialized(self, name: str | None = None) -> Any:
        """Whether the variable was initialized, as a tensor."""
        with self._beside():
            return ops.kv_var_is_initialized(self._handle, name=name)

    # -- as a variable ------------------------------------------------------------------------------------------------
    def _read_variable_op(self) -> Any:
        raise TypeError(f"Embedding variable {self.name} has no value as a tensor: look keys up, or call "
                        "export(). Checkpoints and SavedModels have its rows; files of HDF5 and .keras do not")

    def value(self) -> Any:
        """Raises TypeError: rows are looked up by key."""
        return self._read_variable_op()

    read_value = value

    def __repr__(self) -> str:
        return f"<tf.EmbeddingVariable '{self.name}' dim={self.dim} keys={self._key_dtype.name} dtype={self._dtype.name}>"

    def _fill_proto(self, made: Any, strip: Any) -> None:
        made.variable_name, made.initializer_name = strip(self.handle.name), strip(self.initializer.name)
        made.is_resource = True

    # -- checkpoints --------------------------------------------------------------------------------------------------
    def _gather_saveables_for_checkpoint(self) -> dict[str, Any]:
        return saveable_of([self], self._shared_name)

    # -- SavedModels --------------------------------------------------------------------------------------------------
    SAVED_AS = "penstock_embedding_variable"       # as a node of an object graph

    def description(self) -> str:
        """What a table like this one is made from, as text."""
        return json.dumps({"name": self._name.removesuffix(":0"), "config": self._config.to_json(), "dtype": self._dtype.name,
                           "key_dtype": self._key_dtype.name, "trainable": self._trainable,
                           "files": None if self.files is None else list(self.files)})

    def empty_copy(self, name: str) -> EmbeddingVariable:
        """A table like this one, without rows."""
        return described_table(self.description(), name)


def empty_table(handle: Any, name: str, trainable: bool) -> EmbeddingVariable | None:
    """A new table, without rows, like the one whose handle an op of an imported graph makes; None if that is another op."""
    if handle.op.type != ops.kv_var_handle.name:
        return None
    config = KeyedConfig.from_json(handle.op.get_attr("config").decode())
    return _empty(name, config, handle.op.get_attr("Tkeys"), handle.op.get_attr("dtype"), trainable)


def described_table(description: str, name: str | None = None) -> EmbeddingVariable:
    """A new table, without rows, like the one with a description; DataLossError if that is none."""
    config, files, given = _described(description)
    made = _empty(name or given["name"], config, given["key_dtype"], given["dtype"], given["trainable"])
    made.files = files
    return made


def _described(description: str) -> tuple[KeyedConfig, KeyedFiles | None, dict[str, Any]]:
    try:
        given = json.loads(description)
        config, files = KeyedConfig.from_json(given["config"]), given["files"]
        kept = None if files is None else KeyedFiles(str(files[0]), *map(int, files[1:]))
        types = {n: dtypes.as_dtype(given[n]) for n in ("dtype", "key_dtype")}
        return config, kept, {**types, "name": str(given["name"]), "trainable": bool(given["trainable"])}
    except (KeyError, TypeError, ValueError, IndexError) as e:
        raise errors.DataLossError(None, None, f"Not the description of an embedding variable: {e}") from None


def described_files(description: str) -> bool:
    """Whether the table of a description has rows in files: beside its checkpoint, or out of memory."""
    config, files = _described(description)[:2]
    return files is not None or bool(config.storage)


def _empty(name: str, config: KeyedConfig, key_dtype: Any, dtype: Any, trainable: bool) -> EmbeddingVariable:
    """A table without rows. New rows that are copies of given ones begin with zeros: exported lookups make none."""
    made = EmbeddingVariable(name, config, key_dtype, dtype, lambda shape, dtype: get("Fill")(shape, convert(0, dtype)), 1,
                             trainable=False)
    made._trainable = trainable
    return made


class KeyedSaveable(SaveableObject):
    """The rows of an embedding variable in a checkpoint: `<name>-keys`, `-values`, `-versions`, `-freqs`, and the slots.

    An incremental one has `-delta` before that, and only the rows that changed. A restore reads all parts that a variable was
    saved in, and keeps the keys that belong to its own part: their number may be another one than it was.
    """

    def __init__(self, variables: list[EmbeddingVariable], name: str, incremental: bool = False):
        self.variables = variables
        names = [name] if len(variables) == 1 else [f"{name}/part_{i}" for i in range(len(variables))]
        specs = [s for v, n in zip(variables, names, strict=True) for s in _specs(v, n, incremental)]
        super().__init__(variables[0], specs, name)

    @property
    def _whole(self) -> str:
        """The name of the variable that one of several parts belongs to."""
        alone = len(self.variables) == 1 and self.variables[0].config.parts > 1
        return self.name.removesuffix(f"/part_{self.variables[0].config.part}") if alone else self.name

    def is_in(self, names: Iterable[str]) -> bool:
        """Whether a checkpoint with such tensors has the rows."""
        return bool(ops.saved_parts(self._whole, names))

    def restore_from(self, prefix: Any) -> Any:
        """Replaces the rows by those of a checkpoint, or adds those of an incremental one."""
        done = []
        for v in self.variables:
            with v._beside(), control_dependencies(v.before_restore()):
                done.append(ops.kv_restore(v.handle, prefix, tensor_name=self._whole))
        return None if context.executing_eagerly() else group(*done)


def _specs(variable: EmbeddingVariable, name: str, incremental: bool) -> list[SaveSpec]:
    """The tensors of one table. In eager mode they are created when they are saved, all by one op."""
    stem, types = f"{name}-delta-" if incremental else f"{name}-", (None, variable.dtype, dtypes.int64, dtypes.int64,
                                                                   variable.dtype, dtypes.string, None)
    if variable._in_graph_mode:
        return [SaveSpec(t, "", stem + part)
                for t, part in zip(variable._exported(incremental), ops.SNAPSHOT_PARTS, strict=True)]
    exported = functools.cache(lambda: variable._exported(incremental))
    return [SaveSpec(functools.partial(lambda i: exported()[i], i), "", stem + part, dtype or variable.key_dtype, "cpu:0")
            for i, (part, dtype) in enumerate(zip(ops.SNAPSHOT_PARTS, types, strict=True))]


class KeyedFiles(NamedTuple):
    """Saves rows in files of their own: in a folder, or beside each checkpoint. With several processes, each has a part of the
    rows."""
    folder: str = ""
    processes: int = 1
    process: int = 0
    block: int = 4096                          # rows that are written at a time


class FilesSaveable(SaveableObject):
    """The rows of embedding variables in files of their own. The checkpoint has the number of tables and their name."""

    def __init__(self, variables: list[EmbeddingVariable], name: str, files: KeyedFiles):
        self.variables, self.files = variables, files
        with init_scope(), device("/cpu:0"):
            specs = [SaveSpec(convert(value), "", f"{name}-{what}", device="cpu:0") for what, value in (
                ("prev_global_shard_num", len(variables) * files.processes), ("file_name", variables[0].file_name))]
        super().__init__(variables[0], specs, name)
        self.beside = files.folder, variables[0].file_name, variables[0].config.part

    def save_beside(self, prefix: Any) -> Any:
        """Writes the rows."""
        return self._each(functools.partial(write_files, self.files, prefix))

    def is_in(self, names: Iterable[str]) -> bool:
        """Whether a checkpoint with such tensors has rows in files."""
        return f"{self.name}-file_name" in names

    def restore_from(self, prefix: Any) -> Any:
        """Replaces the rows by those of the files."""
        return self._each(functools.partial(read_files, self.files, prefix, tensor_name=f"{self.name}-file_name"))

    def _each(self, call: Callable[[EmbeddingVariable], Any]) -> Any:
        done = [call(v) for v in self.variables]
        return None if context.executing_eagerly() else group(*done)


def write_files(files: KeyedFiles, prefix: Any, v: EmbeddingVariable) -> Any:
    """Writes the rows of a table to files."""
    with v._beside():
        return file_ops.kv_write_files(v.handle, prefix, block=files.block, **_where(files, v))


def read_files(files: KeyedFiles, prefix: Any, v: EmbeddingVariable, tensor_name: str = "") -> Any:
    """Replaces the rows of a table by those in files. The checkpoint may have the name in the files, as a tensor."""
    with v._beside(), control_dependencies(v.before_restore()):
        return file_ops.kv_read_files(v.handle, prefix, tensor_name=tensor_name, **_where(files, v))


def _where(files: KeyedFiles, v: EmbeddingVariable) -> dict[str, Any]:
    return {"folder": files.folder, "file": v.file_name, "table": v.config.part, "tables": v.config.parts,
            "process": files.process, "processes": files.processes}


def saveable_of(variables: list[EmbeddingVariable], name: str) -> dict[str, Callable]:
    """What a checkpoint has of the tables of a variable."""
    files = variables[0].files

    own = name

    def made(name: str | None = None) -> SaveableObject:
        name = name or own
        return KeyedSaveable(variables, name) if files is None else FilesSaveable(variables, name, files)
    return {"table": made}


class PartitionedEmbeddingVariable(Trackable):
    """Embedding variables that share one space of keys, on parameter servers: a key belongs to the part of its remainder."""

    _keyed = True

    def __init__(self, name: str, parts: list[EmbeddingVariable]):
        self._name, self._parts = name, parts

    name = property(lambda self: self._name, doc="The name of the whole.")
    dtype = property(lambda self: self._parts[0].dtype, doc="The DType of the values.")
    shape = property(lambda self: self._parts[0].shape, doc="The static shape.")
    dim = property(lambda self: self._parts[0].dim, doc="The number of columns.")

    def get_shape(self) -> TensorShape:
        """Alias of `shape`."""
        return self.shape

    def __iter__(self) -> Iterator[EmbeddingVariable]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def _get_variable_list(self) -> list[EmbeddingVariable]:
        return self._parts

    def _get_partitions(self) -> list[int]:
        return [len(self._parts)]

    def size(self) -> Any:
        """The number of keys in all parts."""
        return get("AddN")([p.size() for p in self._parts])

    def export(self) -> tuple:
        """All keys and their embeddings."""
        return tuple(get("ConcatV2")(list(t), 0) for t in zip(*(p.export() for p in self._parts), strict=True))

    def _gather_saveables_for_checkpoint(self) -> dict[str, Any]:
        return saveable_of(self._parts, self._name)

    def _list_extra_dependencies_for_serialization(self, serialization_cache: Any) -> dict[str, Any]:
        return {f"part_{i}": p for i, p in enumerate(self._parts)}

    def _lookup_dependency(self, name: str, cached_dependencies: dict | None = None) -> Any:
        found = super()._lookup_dependency(name, cached_dependencies)
        return self._list_extra_dependencies_for_serialization(None).get(name) if found is None else found


class KeyedRows(BaseResourceVariable):
    """The rows of a gradient, as an optimizer sees them: a variable with a row per distinct key.

    Update rules that the table implements get the gradient directly. Everything else opens the rows: a copy of them and of
    their slots, which `close` writes back.
    """

    _keyed = False

    def __init__(self, variable: EmbeddingVariable, grad: Any, prefix: str, global_step: Any):
        if not isinstance(grad, IndexedSlices):
            raise TypeError(f"The gradient of embedding variable {variable.name} must be IndexedSlices, got {grad}")
        self.variable, self.prefix, self._global_step = variable, prefix, global_step
        self._raw = grad
        self._summed: tuple[Any, Any] | None = None
        self._opened: list | None = None
        self._dtype, self.static_dims, self._name = variable.dtype, variable.static_dims, variable._name
        self._trainable, self._unique_id, self._in_graph_mode = True, variable._unique_id, not context.executing_eagerly()
        self._slot_names = [s for s in variable.slots if s.startswith(prefix + "/")]

    device = property(lambda self: self.variable.device, doc="The device of the variable.")
    op = property(lambda self: self.variable.op, doc="The operation that makes the handle.")
    _handle = property(lambda self: self._open()[0])

    def _handle_device(self) -> str | None:
        return self.variable._handle_device()

    @property
    def gradient(self) -> Any:
        """The gradient of each distinct key."""
        return self._distinct()[0]

    def _distinct(self) -> tuple[Any, Any]:
        """The gradient of each distinct key, and the keys."""
        if self._summed is None:
            keys, where = get("Unique")(self._raw.indices)
            self._summed = get("UnsortedSegmentSum")(self._raw.values, where, get("Shape")(keys)[0]), keys
        return self._summed

    def _open(self) -> list:
        if self._opened is None:
            keys = self._distinct()[1]
            with self.variable._beside():
                handles = ops.kv_rows(self.variable.handle, keys, N=len(self._slot_names) + 1,
                                      slots=self._slot_names, initial=[self.variable.slots[s] for s in self._slot_names])
            for h in handles:
                h._handle_dtype, h._handle_dims = self._dtype, self.static_dims
            self._opened = handles
        return self._opened

    def row_slot(self, slot: str) -> _SlotRows | None:
        """A slot of the rows."""
        name = f"{self.prefix}/{slot}"
        return _SlotRows(self, name) if name in self._slot_names else None

    def apply(self, rule: str, slots: list[str], numbers: list, option: bool) -> Any:
        """Runs the rule of a training op in the table; NotImplemented if the rows are open, on which it must run then."""
        if self._opened is not None:
            return NotImplemented
        names = [f"{self.prefix}/{s}" for s in slots]
        with self.variable._beside():
            return ops.kv_apply(self.variable.handle, self._raw.values, self._raw.indices, self._global_step, numbers,
                                T=self._dtype, rule=rule, slots=names, option=option,
                                initial=[self.variable.slots[n] for n in names])

    def close(self, update: Any) -> Any:
        """Writes opened rows back, after an update."""
        if self._opened is None:
            return update
        after = [u for u in nest.flatten(update) if u is not None]
        with control_dependencies(after), self.variable._beside():
            return ops.kv_put_rows(self.variable.handle, self._distinct()[1], self._opened, self._global_step,
                                   slots=self._slot_names)


class _SlotRows(BaseResourceVariable):
    """A slot of opened rows."""

    def __init__(self, rows: KeyedRows, name: str):
        self._rows, self._name = rows, f"{rows.variable._shared_name}/{name}:0"
        self._dtype, self.static_dims, self._trainable = rows.dtype, rows.static_dims, False
        self._unique_id, self._in_graph_mode = f"{rows._unique_id}/{name}", rows._in_graph_mode
        self._at = rows._slot_names.index(name) + 1

    device = property(lambda self: self._rows.device, doc="The device of the variable.")
    _handle = property(lambda self: self._rows._open()[self._at])

    def _handle_device(self) -> str | None:
        return self._rows._handle_device()


def is_keyed(variable: Any) -> bool:
    """Whether a variable's rows are looked up by key."""
    return getattr(variable, "_keyed", False)
