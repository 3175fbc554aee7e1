"""dynamic_embedding.Variable: an embedding variable in one or several tables, each on its device."""
from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import penstock.compat.v1 as tf
from penstock._src.base.api import export
from penstock._src.graph.trackable import Trackable
from penstock._src.io import paths
from penstock._src.state.embeddings.create import new_variable
from penstock._src.state.embeddings.options import EmbeddingVariableOption, InitializerOption, StorageOption
from penstock._src.state.embeddings.variable import EmbeddingVariable, KeyedFiles, read_files, saveable_of, write_files


@export("dynamic_embedding.CuckooHashTableConfig")
class CuckooHashTableConfig:
    """The options of a table in host memory: none."""


@export("dynamic_embedding.CuckooHashTableCreator")
class CuckooHashTableCreator:
    """Makes tables in host memory. `saver` is a `FileSystemSaver`, or None: then rows are tensors of checkpoints."""

    def __init__(self, config: Any = None, saver: Any = None):
        if saver is not None and not isinstance(saver, FileSystemSaver):
            raise TypeError(f"saver must be a FileSystemSaver or None, got {saver!r}")
        self.config, self.saver = config, saver

    def option(self, initializer: Any) -> EmbeddingVariableOption:
        """The options of the tables that it makes."""
        return EmbeddingVariableOption(init_option=InitializerOption(initializer))


@export("dynamic_embedding.FileSystemSaver")
class FileSystemSaver:
    """Saves the rows of tables in files of their own, beside checkpoints and SavedModels: one file of keys and one of values
    per table, which are arrays as they are in memory. They are restored onto any number of tables and processes.

    Args:
        proc_size: Processes that train together, each with a part of the keys (by remainder). Each saves its own part.
        proc_rank: The number of this process.
        save_path: Folder of the files, of any file system. By default they are in `TFRADynamicEmbedding` beside each
            checkpoint, with the number of the checkpoint.
        buffer_size: Rows that are written at a time.

    >>> creator = tf.dynamic_embedding.CuckooHashTableCreator(saver=tf.dynamic_embedding.FileSystemSaver())
    >>> table = tf.dynamic_embedding.get_variable("users", dim=8, kv_creator=creator)
    """

    def __init__(self, proc_size: int | None = None, proc_rank: int | None = None, save_path: str | None = None,
                 buffer_size: int = 4096):
        if (proc_size is None) != (proc_rank is None):
            raise TypeError("proc_rank and proc_size must be given together")
        self.proc_size, self.proc_rank = proc_size or 1, proc_rank or 0
        if not 0 <= self.proc_rank < self.proc_size:
            raise ValueError(f"proc_rank must be between 0 and {self.proc_size - 1}, got {proc_rank}")
        if buffer_size < 1:
            raise ValueError(f"buffer_size must be positive, got {buffer_size}")
        self.save_path, self.buffer_size = save_path, int(buffer_size)

    @property
    def files(self) -> KeyedFiles:
        """Where tables save their rows."""
        return KeyedFiles(paths.as_text(self.save_path or ""), self.proc_size, self.proc_rank, self.buffer_size)


@export("dynamic_embedding.HkvHashTableConfig")
@dataclasses.dataclass
class HkvHashTableConfig:
    """The options of a table of bounded capacity. `max_hbm_for_values` are bytes of values in GPU memory."""

    init_capacity: int = 1024 * 1024
    max_capacity: int = 1024 * 1024
    max_hbm_for_values: int = 0


@export("dynamic_embedding.HkvHashTableCreator")
class HkvHashTableCreator(CuckooHashTableCreator):
    """Makes tables of bounded capacity, in host memory and that of a GPU; the rows used least recently leave first."""

    def option(self, initializer: Any) -> EmbeddingVariableOption:
        """The options of the tables that it makes."""
        config = self.config or HkvHashTableConfig()
        storage = StorageOption("HBM_DRAM" if config.max_hbm_for_values else None, storage_size=config.max_hbm_for_values,
                                capacity=config.max_capacity)
        return EmbeddingVariableOption(init_option=InitializerOption(initializer), storage_option=storage)


@export("dynamic_embedding.Variable")
class Variable(Trackable):
    """A table of embeddings by key, or several that share the keys.

    >>> table = tf.dynamic_embedding.get_variable("users", dim=8, initializer=tf.keras.initializers.RandomNormal(0.0, 0.1))
    >>> table.upsert([5], [[1.0] * 8])
    >>> table.lookup([5, 6])
    """

    _keyed = True

    def __init__(self, key_dtype: Any = tf.int64, value_dtype: Any = tf.float32, dim: int = 1, devices: Any = None,
                 partitioner: Callable | None = None, shared_name: str | None = None,
                 name: str = "DynamicEmbedding_Variable", initializer: Any = None, trainable: bool = True,
                 checkpoint: bool = True, init_size: int = 0, kv_creator: Any = None, restrict_policy: Any = None,
                 bp_v2: bool = False, short_file_name: bool = False):
        if partitioner is not None:
            raise ValueError("partitioner is not supported: keys are partitioned by remainder, strings by fingerprint")
        self.name, self.dim, self.trainable, self.initializer = name, dim, trainable, initializer
        self.key_dtype, self.value_dtype = tf.as_dtype(key_dtype), tf.as_dtype(value_dtype)
        self.devices = [devices] if isinstance(devices, str) else list(devices) if devices else [None]
        begins = 0.0 if initializer is None else initializer
        self.kv_creator = kv_creator or CuckooHashTableCreator()
        option, saver = self.kv_creator.option(begins), self.kv_creator.saver
        self._tables = [self._table(i, begins, option) for i in range(len(self.devices))]
        for table in self._tables:
            table.files = None if saver is None else saver.files
        self.restrict_policy = None if restrict_policy is None else restrict_policy(self)

    def _table(self, at: int, initializer: Any, option: Any) -> EmbeddingVariable:
        with tf.device(self.devices[at]):
            return new_variable(self.name, self.dim, self.key_dtype, self.value_dtype, initializer, self.trainable, None,
                                len(self.devices), option, at)

    tables = property(lambda self: list(self._tables), doc="The tables, one per device.")
    dtype = property(lambda self: self.value_dtype, doc="The type of the values.")
    shape = property(lambda self: self._tables[0].shape, doc="The static shape.")

    def get_shape(self) -> Any:
        """Alias of `shape`."""
        return self.shape

    def __iter__(self) -> Iterator[EmbeddingVariable]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    def _get_partitions(self) -> list[int]:
        return [len(self._tables)]

    # -- keys ---------------------------------------------------------------------------------------------------------
    def _parts(self, keys: Any) -> Any:
        count = len(self._tables)
        which = tf.strings.to_hash_bucket_fast(keys, count) if self.key_dtype == tf.string else keys % count
        return tf.cast(which, tf.int32)

    def _each(self, call: str, keys: Any, *rest: Any) -> Any:
        keys = tf.convert_to_tensor(keys, self.key_dtype)
        if len(self._tables) == 1:
            return getattr(self._tables[0], call)(keys, *rest)
        which = self._parts(keys)
        cut = [tf.dynamic_partition(t, which, len(self._tables)) for t in (keys, *rest)]
        return tf.group(*[getattr(t, call)(*part) for t, *part in zip(self._tables, *cut, strict=True)])

    def upsert(self, keys: Any, values: Any, name: str | None = None) -> Any:
        """Sets the embeddings of keys."""
        return self._each("upsert", keys, tf.convert_to_tensor(values, self.value_dtype))

    def remove(self, keys: Any, name: str | None = None) -> Any:
        """Removes keys."""
        return self._each("remove", keys)

    def lookup(self, keys: Any, return_exists: bool = False, name: str | None = None) -> Any:
        """The embeddings of keys, without making rows; with `return_exists`, also which keys have one."""
        keys = tf.convert_to_tensor(keys, self.key_dtype)
        flat = tf.reshape(keys, [-1])
        which = self._parts(flat)
        cut, places = (tf.dynamic_partition(t, which, len(self._tables)) for t in (flat, tf.range(tf.size(flat))))
        rows = tf.dynamic_stitch(places, [t.lookup(k) for t, k in zip(self._tables, cut, strict=True)])
        rows = tf.reshape(rows, tf.concat([tf.shape(keys), [self.dim]], 0))
        if not return_exists:
            return rows
        found = tf.dynamic_stitch(places, [t.exists(k) for t, k in zip(self._tables, cut, strict=True)])
        return rows, tf.reshape(found, tf.shape(keys))

    # -- all rows -----------------------------------------------------------------------------------------------------
    def size(self, index: int | None = None, name: str | None = None) -> Any:
        """The number of keys, in one table or in all."""
        sizes = [t.size() for t in self._tables] if index is None else [self._tables[index].size()]
        return tf.add_n(sizes)

    def export(self, name: str | None = None) -> tuple:
        """All keys and their embeddings."""
        return tuple(tf.concat(list(parts), 0) for parts in zip(*(t.export() for t in self._tables), strict=True))

    def clear(self, name: str | None = None) -> Any:
        """Removes all keys."""
        return tf.group(*[t.clear() for t in self._tables])

    def restrict(self, num_reserved: int, **kwargs: Any) -> Any:
        """Removes rows by the policy until `num_reserved` are left, if there are more than `trigger`; nothing without one."""
        return tf.no_op() if self.restrict_policy is None else self.restrict_policy.apply_restriction(num_reserved, **kwargs)

    def _gather_saveables_for_checkpoint(self) -> dict[str, Any]:
        return saveable_of(self._tables, self.name)

    def _list_extra_dependencies_for_serialization(self, serialization_cache: Any) -> dict[str, Any]:
        return {f"table_{i}": t for i, t in enumerate(self._tables)}

    def _lookup_dependency(self, name: str, cached_dependencies: dict | None = None) -> Any:
        found = super()._lookup_dependency(name, cached_dependencies)
        return self._list_extra_dependencies_for_serialization(None).get(name) if found is None else found

    # -- files --------------------------------------------------------------------------------------------------------
    def save_to_file_system(self, dirpath: str, proc_size: int = 1, proc_rank: int = 0, buffer_size: int = 4096,
                            name: str | None = None) -> Any:
        """Writes all rows to files in a folder, as `FileSystemSaver` does."""
        files = KeyedFiles(paths.as_text(dirpath), proc_size, proc_rank, buffer_size)
        return tf.group(*[write_files(files, "", t) for t in self._tables])

    def load_from_file_system(self, dirpath: str, proc_size: int = 1, proc_rank: int = 0, buffer_size: int = 4096,
                              name: str | None = None) -> Any:
        """Replaces all rows by those in files."""
        files = KeyedFiles(paths.as_text(dirpath), proc_size, proc_rank, buffer_size)
        return tf.group(*[read_files(files, "", t) for t in self._tables])


_KEPT = "dynamic_embedding_variables"         # the collection of a graph's variables, by name


@export("dynamic_embedding.get_variable")
def get_variable(name: str, key_dtype: Any = tf.int64, value_dtype: Any = tf.float32, dim: int = 1, devices: Any = None,
                 partitioner: Callable | None = None, shared_name: str = "get_variable", initializer: Any = None,
                 trainable: bool = True, checkpoint: bool = True, init_size: int = 0, kv_creator: Any = None,
                 restrict_policy: Any = None, bp_v2: bool = False, short_file_name: bool = False) -> Variable:
    """The variable of that name: an existing one in graphs, where reuse is enabled, else a new one.

    >>> table = tf.dynamic_embedding.get_variable("users", dim=8)
    """
    scope = tf.get_variable_scope()
    full = f"{scope.name}/{name}" if scope.name else name
    kept = [] if tf.executing_eagerly() else [v for v in tf.get_collection(_KEPT) if v.name == full]
    if kept and not scope.reuse:
        raise ValueError(f"Variable {full} already exists, disallowed. Did you mean to set reuse=True or reuse=tf.AUTO_REUSE?")
    if kept:
        return kept[0]
    made = Variable(key_dtype, value_dtype, dim, devices, partitioner, shared_name, full, initializer, trainable, checkpoint,
                    init_size, kv_creator, restrict_policy, bp_v2, short_file_name)
    if not tf.executing_eagerly():
        tf.add_to_collection(_KEPT, made)
    return made
