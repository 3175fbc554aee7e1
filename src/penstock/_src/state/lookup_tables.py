"""tf.lookup: tables from keys to values, over the ops in `lookup`."""
from __future__ import annotations

import collections
import contextlib
import uuid
from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph import context
from penstock._src.graph.collections import GraphKeys, add_to_collection
from penstock._src.graph.constant import constant_value
from penstock._src.graph.convert import convert
from penstock._src.graph.eager_tensor import EagerTensor
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import init_scope, name_scope
from penstock._src.graph.sparse_tensor import SparseTensor
from penstock._src.graph.trackable import Trackable
from penstock._src.graph.type_spec import TensorSpec
from penstock._src.ops.core import group, no_op_def
from penstock._src.ops.registry import get
from penstock._src.ops.state import lookup as ops
from penstock._src.state.asset import Asset
from penstock._src.state.checkpoint.saveable import SaveableObject, SaveSpec
from penstock._src.state.trackable_resource import TrackableResource


@export(v1=["tables_initializer", "initializers.tables_initializer"])
def tables_initializer(name: str = "init_all_tables") -> Any:
    """An op that fills all tables of the graph.

    Args:
        name: Name of the operation.

    Returns:
        An op.

    >>> sess.run(tf.tables_initializer())
    """
    initializers = context.current_graph().get_collection(GraphKeys.TABLE_INITIALIZERS)
    return group(*initializers, name=name) if initializers else no_op_def(name=name)


@export(v1=["initialize_all_tables"])
def initialize_all_tables(name: str = "init_all_tables") -> Any:
    """The older name of tables_initializer."""
    return tables_initializer(name)


def _add_initializer(op: Any) -> None:
    if not context.executing_eagerly():
        add_to_collection(GraphKeys.TABLE_INITIALIZERS, op)


def _lifted() -> Any:
    """A scope outside of control flow under construction, in which tables are created and filled."""
    inside = not context.executing_eagerly() and context.current_graph()._stacks.control_flow is not None
    return init_scope() if inside else contextlib.nullcontext()


# -- initializers -----------------------------------------------------------------------------------------------------
class TableInitializerBase(Trackable):
    """The base of initializers of static tables."""

    def __init__(self, key_dtype: Any, value_dtype: Any):
        self._key_dtype, self._value_dtype = dtypes.as_dtype(key_dtype), dtypes.as_dtype(value_dtype)

    key_dtype = property(lambda self: self._key_dtype, doc="The type of the keys.")
    value_dtype = property(lambda self: self._value_dtype, doc="The type of the values.")

    @property
    def _shared_name(self) -> str:
        return ""

    def initialize(self, table: Any) -> Any:
        """An op that fills `table`."""
        raise NotImplementedError(f"{type(self).__name__} must define initialize(table)")

    def _check(self, table: Any) -> None:
        if self.key_dtype.base_dtype != table.key_dtype:
            raise TypeError(f"Invalid key dtype, expected {table.key_dtype} but got {self.key_dtype}.")
        if self.value_dtype.base_dtype != table.value_dtype:
            raise TypeError(f"Invalid value dtype, expected {table.value_dtype} but got {self.value_dtype}.")


@export("lookup.KeyValueTensorInitializer", v1=["contrib.lookup.KeyValueTensorInitializer"])
class KeyValueTensorInitializer(TableInitializerBase):
    """Fills a table from a tensor of keys and one of values.

    >>> tf.lookup.KeyValueTensorInitializer(["a", "b"], [1, 2])
    """

    def __init__(self, keys: Any, values: Any, key_dtype: Any = None, value_dtype: Any = None, name: str | None = None):
        with _lifted():
            self._keys = convert(keys, key_dtype, "keys")
            self._values = convert(values, value_dtype, "values")
        self._name = "key_value_init" if name is None else name
        super().__init__(self._keys.dtype, self._values.dtype)

    def initialize(self, table: Any) -> Any:
        """An op that fills `table`."""
        self._check(table)
        with name_scope(self._name, values=(table.resource_handle, self._keys, self._values)):
            op = ops.import_table_v2(table.resource_handle, self._keys, self._values)
        _add_initializer(op)
        return op


@export("data.experimental.DatasetInitializer")
class DatasetInitializer(TableInitializerBase):
    """Fills a table from a dataset of pairs of a key and a value.

    >>> tf.lookup.StaticHashTable(tf.data.experimental.DatasetInitializer(dataset), -1)
    """

    def __init__(self, dataset: Any):
        spec = dataset.element_spec
        if not isinstance(spec, tuple) or len(spec) != 2:
            raise ValueError(f"The elements of the dataset must be pairs of a key and a value, got {spec}.")
        self.dataset = dataset
        super().__init__(spec[0].dtype, spec[1].dtype)

    def initialize(self, table: Any) -> Any:
        """An op that fills `table`."""
        self._check(table)
        op = get("InitializeTableFromDataset")(table.resource_handle, self.dataset._variant_tensor)
        _add_initializer(op)
        return op


@export("lookup.TextFileIndex", v1=["contrib.lookup.TextFileIndex"])
class TextFileIndex:
    """Pseudo-columns of a text file: the whole line, and its number."""

    WHOLE_LINE = ops.WHOLE_LINE
    LINE_NUMBER = ops.LINE_NUMBER


@export("lookup.TextFileInitializer", v1=["contrib.lookup.TextFileInitializer"])
class TextFileInitializer(TableInitializerBase):
    """Fills a table from the lines of a text file; columns are numbered from 0, see also TextFileIndex.

    `value_index_offset` is added to the numbers of lines.

    >>> init = tf.lookup.TextFileInitializer("words.txt", tf.string, tf.lookup.TextFileIndex.WHOLE_LINE,
    ...                                      tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER)
    """

    def __init__(self, filename: Any, key_dtype: Any, key_index: int, value_dtype: Any, value_index: int,
                 vocab_size: int | None = None, delimiter: str = "\t", name: str | None = None,
                 value_index_offset: int = 0):
        if not isinstance(filename, Tensor) and not filename:
            raise ValueError(f"Filename required for {name}.")
        key_dtype, value_dtype = dtypes.as_dtype(key_dtype), dtypes.as_dtype(value_dtype)
        _check_column("Keys", "key", key_dtype, key_index)
        _check_column("Values", "value", value_dtype, value_index)
        if vocab_size is not None and vocab_size <= 0:
            raise ValueError(f"Invalid vocab_size {vocab_size}.")
        self._filename, self._key_index, self._value_index = filename, key_index, value_index
        self._vocab_size, self._delimiter, self._name, self._offset = vocab_size, delimiter, name, value_index_offset
        super().__init__(key_dtype, value_dtype)

    def _list_extra_dependencies_for_serialization(self, serialization_cache: Any) -> dict[str, Any]:
        """Makes the file an asset of SavedModels."""
        if not isinstance(self._filename, Asset):
            self._filename = Asset(self._filename)
        return {"_filename": self._filename}

    def initialize(self, table: Any) -> Any:
        """An op that fills `table`."""
        self._check(table)
        with name_scope(self._name, "text_file_init", (table.resource_handle,)):
            filename = convert(getattr(self._filename, "asset_path", self._filename), dtypes.string, "asset_filepath")
            op = ops.initialize_from_text_v2(
                table.resource_handle, filename, key_index=self._key_index, value_index=self._value_index,
                vocab_size=-1 if self._vocab_size is None else self._vocab_size, delimiter=self._delimiter,
                offset=self._offset)
        _add_initializer(op)
        if not context.executing_eagerly() and filename.op.type == "Const":
            add_to_collection(GraphKeys.ASSET_FILEPATHS, filename)
        return op

    @property
    def _shared_name(self) -> str:
        if context.executing_eagerly():
            return ""
        size = f"_{self._vocab_size}" if self._vocab_size else ""
        offset = f"_{self._offset}" if self._offset else ""
        return f"hash_table_{self._filename}{size}_{self._key_index}_{self._value_index}{offset}"


def _check_column(what: str, word: str, dtype: Any, index: int) -> None:
    if index < -2:
        raise ValueError(f"Invalid {word} index {index}.")
    if index == TextFileIndex.LINE_NUMBER and dtype != dtypes.int64:
        raise ValueError(f"Signature mismatch. {what} must be dtype {dtypes.int64}, got {dtype}.")
    if index == TextFileIndex.WHOLE_LINE and dtype != dtypes.string and not dtype.is_integer:
        raise ValueError(f"Signature mismatch. {what} must be integer or string, got {dtype}.")


@export(v1=["contrib.lookup.TextFileStringTableInitializer"])
class TextFileStringTableInitializer(TextFileInitializer):
    """Fills a table from line numbers to lines."""

    def __init__(self, filename: Any, key_column_index: int = TextFileIndex.LINE_NUMBER,
                 value_column_index: int = TextFileIndex.WHOLE_LINE, vocab_size: int | None = None,
                 delimiter: str = "\t", name: str = "text_file_string_table_init"):
        super().__init__(filename, dtypes.int64, key_column_index, dtypes.string, value_column_index, vocab_size,
                         delimiter, name)


@export(v1=["contrib.lookup.TextFileIdTableInitializer"])
class TextFileIdTableInitializer(TextFileInitializer):
    """Fills a table from lines to line numbers."""

    def __init__(self, filename: Any, key_column_index: int = TextFileIndex.WHOLE_LINE,
                 value_column_index: int = TextFileIndex.LINE_NUMBER, vocab_size: int | None = None,
                 delimiter: str = "\t", name: str = "text_file_id_table_init", key_dtype: Any = dtypes.string):
        super().__init__(filename, key_dtype, key_column_index, dtypes.int64, value_column_index, vocab_size, delimiter,
                         name)


# -- tables -----------------------------------------------------------------------------------------------------------
class LookupInterface(TrackableResource):
    """The base of all tables: types, a name, size and lookup."""

    def __init__(self, key_dtype: Any, value_dtype: Any):
        super().__init__()
        self._key_dtype, self._value_dtype = dtypes.as_dtype(key_dtype), dtypes.as_dtype(value_dtype)
        self._resource_handle: Any = None
        self._table_name: str | None = None

    key_dtype = property(lambda self: self._key_dtype, doc="The type of the keys.")
    value_dtype = property(lambda self: self._value_dtype, doc="The type of the values.")
    name = property(lambda self: self._table_name, doc="The name of the table; None when executing eagerly.")

    @property
    def resource_handle(self) -> Any:
        """The handle of the table."""
        return self._resource_handle

    def _set_handle(self, handle: Tensor) -> None:
        self._resource_handle = handle
        self._table_name = None if hasattr(handle, "_value") else handle.op.name.split("/")[-1]

    def size(self, name: str | None = None) -> Tensor:
        """The number of entries."""
        with name_scope(name, f"{self.name}_Size"):
            return ops.size_v2(self.resource_handle)

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        """The values of `keys`, dense, sparse or ragged like the keys."""
        flat = _flat_keys(keys, self._key_dtype)
        if flat.dtype.base_dtype != self._key_dtype:
            raise TypeError(f"Signature mismatch. Keys must be dtype {self._key_dtype}, got {flat.dtype}.")
        return _like_keys(keys, self._find(flat, name))

    def _find(self, keys: Tensor, name: str | None) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} must define lookup(keys)")

    def __getitem__(self, keys: Any) -> Any:
        return self.lookup(keys)


def _flat_keys(keys: Any, dtype: Any) -> Tensor:
    if isinstance(keys, SparseTensor):
        return keys.values
    if hasattr(keys, "ragged_rank"):
        return keys.flat_values
    return keys if isinstance(keys, Tensor) else convert(keys, None if hasattr(keys, "dtype") else dtype)


def _like_keys(keys: Any, values: Tensor) -> Any:
    if isinstance(keys, SparseTensor):
        return SparseTensor(keys.indices, values, keys.dense_shape)
    return keys.with_flat_values(values) if hasattr(keys, "ragged_rank") else values


class InitializableLookupTableBase(LookupInterface):
    """A table that an initializer fills once."""

    def __init__(self, default_value: Any, initializer: TableInitializerBase):
        super().__init__(initializer.key_dtype, initializer.value_dtype)
        self._default_value = convert(default_value, self._value_dtype)
        self._default_value.shape.merge_with(TensorShape([]))
        self._initializer = initializer
        with init_scope():
            self._set_handle(self._create_resource())
        with _lifted():
            self._init_op = self._initialize()

    def _initialize(self) -> Any:
        return self._initializer.initialize(self)

    def _list_extra_dependencies_for_serialization(self, serialization_cache: Any) -> dict[str, Any]:
        return {"_initializer": self._initializer}

    default_value = property(lambda self: self._default_value, doc="The value of keys that are not in the table.")

    def _find(self, keys: Tensor, name: str | None) -> Tensor:
        with name_scope(name, f"{self.name}_Lookup", (self.resource_handle, keys, self._default_value)):
            values = ops.find_v2(self.resource_handle, keys, self._default_value)
        values.set_shape(keys.shape)
        return values


@export(v2=["lookup.StaticHashTable"])
class StaticHashTable(InitializableLookupTableBase):
    """A hash table that is filled once.

    >>> table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a", "b"], [1, 2]), default_value=-1)
    >>> table.lookup(tf.constant(["b", "c"]))     # [2, -1]
    """

    def __init__(self, initializer: TableInitializerBase, default_value: Any, name: str | None = None,
                 experimental_is_anonymous: bool = False):
        self._name = name or "hash_table"
        self._shared_name = f"anonymous_{uuid.uuid4()}" if experimental_is_anonymous else initializer._shared_name
        if not self._shared_name and not context.executing_eagerly():
            self._shared_name = f"hash_table_{uuid.uuid4()}"
        super().__init__(default_value, initializer)

    def _create_resource(self) -> Tensor:
        # A function that creates the table on every call must always get the same one.
        shared = self._shared_name or ("" if context.executing_eagerly() else f"hash_table_{uuid.uuid4()}")
        return ops.hash_table_v2(shared_name=shared, key_dtype=self._key_dtype, value_dtype=self._value_dtype, name=self._name)

    def export(self, name: str | None = None) -> tuple:
        """All keys and all values."""
        with name_scope(name, f"{self.name}_Export", [self.resource_handle]):
            keys, values = ops.export_table_v2(self.resource_handle, Tkeys=self._key_dtype, Tvalues=self._value_dtype)
        values.set_shape(keys.shape)
        return keys, values


@export(v1=["lookup.StaticHashTable"])
class StaticHashTableV1(StaticHashTable):
    """A hash table that is filled once, by its `initializer` op.

    >>> table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a", "b"], [1, 2]), default_value=-1)
    >>> sess.run(table.initializer)
    """

    initializer = property(lambda self: self._init_op, doc="The op that fills the table.")


@export(v1=["contrib.lookup.HashTable"])
class HashTable(StaticHashTableV1):
    """A hash table that is filled once, by its `init` op."""

    init = property(lambda self: self._init_op, doc="The op that fills the table.")


def _saveable(table: Any, name: str) -> Any:
    """A mutable table in a checkpoint: its keys and its values."""

    class TableSaveable(SaveableObject):
        """The entries of a table."""

        def __init__(self) -> None:
            specs = [SaveSpec(t, "", f"{name}-{part}") for t, part in zip(table.export(), ("keys", "values"), strict=True)]
            super().__init__(table, specs, name)

        def restore(self, restored_tensors: list, restored_shapes: Any) -> Any:
            """Replaces the entries by those that were saved."""
            return ops.import_table_v2(table.resource_handle, *restored_tensors)
    return TableSaveable()


class _MutableTable(LookupInterface):
    """The base of the two mutable tables."""

    def __init__(self, key_dtype: Any, value_dtype: Any, default_value: Any, name: str, checkpoint: bool):
        super().__init__(key_dtype, value_dtype)
        self._default_value = convert(default_value, self._value_dtype, "default_value")
        self._name, self._checkpoint = name, checkpoint
        self._set_handle(self._create_resource())
        if checkpoint and not context.executing_eagerly():
            add_to_collection(GraphKeys.SAVEABLE_OBJECTS, _saveable(self, self._saved_name()))

    def _saved_name(self) -> str:
        """The name of the entries in checkpoints that are not object-based."""
        handle = self.resource_handle
        return f"{self._name if isinstance(handle, EagerTensor) else handle.op.name}_table"

    def _gather_saveables_for_checkpoint(self) -> dict[str, Any]:
        return {"table": lambda name=None: _saveable(self, name or self._saved_name())}

    def _find(self, keys: Tensor, name: str | None, default: Any = None) -> Tensor:
        default = self._default_value if default is None else convert(default, self._value_dtype)
        with name_scope(name, f"{self.name}_lookup_table_find", (self.resource_handle, keys)):
            return ops.find_v2(self.resource_handle, keys, default)

    def lookup(self, keys: Any, dynamic_default_values: Any = None,       # type: ignore[override]
               name: str | None = None) -> Any:
        """The values of `keys`; the default, or a default per key, for those that are not in the table."""
        if isinstance(dynamic_default_values, str):          # older callers pass the name here
            dynamic_default_values, name = None, dynamic_default_values
        flat = convert(_flat_keys(keys, self._key_dtype), self._key_dtype, "keys")
        return _like_keys(keys, self._find(flat, name, dynamic_default_values))

    def insert(self, keys: Any, values: Any, name: str | None = None) -> Any:
        """Adds or replaces entries."""
        with name_scope(name, f"{self.name}_lookup_table_insert", [self.resource_handle, keys, values]):
            return ops.insert_v2(self.resource_handle, convert(keys, self._key_dtype, "keys"),
                                 convert(values, self._value_dtype, "values"))

    def remove(self, keys: Any, name: str | None = None) -> Any:
        """Removes the entries of `keys`; those that are not in the table are ignored."""
        keys = keys if isinstance(keys, Tensor) else convert(keys, self._key_dtype)
        if keys.dtype != self._key_dtype:
            raise TypeError(f"Signature mismatch. Keys must be dtype {self._key_dtype}, got {keys.dtype}.")
        with name_scope(name, f"{self.name}_lookup_table_remove", (self.resource_handle, keys)):
            return ops.remove_v2(self.resource_handle, keys)

    def export(self, name: str | None = None) -> tuple:
        """All keys and all values."""
        with name_scope(name, f"{self.name}_lookup_table_export_values", [self.resource_handle]):
            return tuple(ops.export_table_v2(self.resource_handle, Tkeys=self._key_dtype, Tvalues=self._value_dtype))


@export("lookup.experimental.MutableHashTable", v1=["contrib.lookup.MutableHashTable"])
class MutableHashTable(_MutableTable):
    """A mutable hash table.

    >>> table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, default_value=-1)
    >>> table.insert(["a"], [1])
    """

    def __init__(self, key_dtype: Any, value_dtype: Any, default_value: Any, name: str = "MutableHashTable",
                 checkpoint: bool = True, experimental_is_anonymous: bool = False):
        super().__init__(key_dtype, value_dtype, default_value, name, checkpoint)

    def _create_resource(self) -> Tensor:
        attrs = {"use_node_name_sharing": self._checkpoint and not context.executing_eagerly(), "key_dtype": self._key_dtype,
                 "value_dtype": self._value_dtype, "name": self._name}
        if self._default_value.shape.rank == 0:
            return ops.mutable_hash_table_v2(**attrs)
        return ops.mutable_hash_table_of_tensors_v2(value_shape=self._default_value.shape, **attrs)


@export("lookup.experimental.DenseHashTable", v1=["contrib.lookup.MutableDenseHashTable"])
class DenseHashTable(_MutableTable):
    """A mutable hash table with keys and values of fixed shapes.

    Two keys are reserved: one marks an empty bucket, one a deleted entry.
    """

    def __init__(self, key_dtype: Any, value_dtype: Any, default_value: Any, empty_key: Any, deleted_key: Any,
                 initial_num_buckets: int | None = None, name: str = "MutableDenseHashTable", checkpoint: bool = True,
                 experimental_is_anonymous: bool = False):
        self._empty_key, self._deleted_key = (convert(k, dtypes.as_dtype(key_dtype), n) for k, n in
                                              ((empty_key, "empty_key"), (deleted_key, "deleted_key")))
        self._initial_num_buckets = initial_num_buckets
        super().__init__(key_dtype, value_dtype, default_value, name, checkpoint)

    def _create_resource(self) -> Tensor:
        return ops.mutable_dense_hash_table_v2(
            self._empty_key, self._deleted_key, use_node_name_sharing=self._checkpoint and not context.executing_eagerly(),
            value_dtype=self._value_dtype, value_shape=self._default_value.shape,
            initial_num_buckets=self._initial_num_buckets, name=self._name)

    def insert_or_assign(self, keys: Any, values: Any, name: str | None = None) -> Any:
        """Adds or replaces entries."""
        return self.insert(keys, values, name)

    def erase(self, keys: Any, name: str | None = None) -> Any:
        """Removes the entries of `keys`."""
        return self.remove(keys, name)


# -- vocabularies -------------------------------------------------------------------------------------------------------
HasherSpec = collections.namedtuple("HasherSpec", ["hasher", "key"])
FastHashSpec = HasherSpec("fasthash", None)
LegacyHashSpec = HasherSpec("legacy", None)
export.value(HasherSpec, v1=["contrib.lookup.HasherSpec"])
export.value(FastHashSpec, v1=["contrib.lookup.FastHashSpec"])


@export(v1=["contrib.lookup.StrongHashSpec"])
class StrongHashSpec(HasherSpec):
    """A keyed hash for the buckets of unknown keys."""

    __slots__ = ()

    def __new__(cls, key: Any) -> StrongHashSpec:
        if len(key) != 2:
            raise ValueError(f"key must have size 2, got {len(key)}.")
        if not all(hasattr(k, "__index__") for k in key):
            raise TypeError(f"Invalid key {key}. Must be unsigned integer values.")
        return super().__new__(cls, "stronghash", key)


def _checked_key_dtype(table_dtype: Any, dtype: Any) -> Any:
    """The type of the keys to look up, which may be another integer type than the table's int64."""
    if table_dtype not in (dtypes.int64, dtypes.string):
        raise TypeError(f"Invalid key dtype, expected one of {(dtypes.int64, dtypes.string)}, but got {table_dtype}.")
    dtype = table_dtype if dtype is None else dtypes.as_dtype(dtype)
    if table_dtype.is_integer != dtype.is_integer:
        raise TypeError(f"Invalid key dtype, expected {'integer' if dtype.is_integer else 'non-integer'} but got "
                        f"{table_dtype}.")
    return dtype


class _Vocabulary(LookupInterface):
    """Keys to ids: those of a table, and buckets by hash for keys that are not in it."""

    def __init__(self, table: Any, num_oov_buckets: int, hasher_spec: HasherSpec, name: str | None, key_dtype: Any):
        if not key_dtype.is_integer and key_dtype != dtypes.string:
            raise TypeError(f"Invalid key_dtype, expected integer or string, got {key_dtype}.")
        if not isinstance(hasher_spec, HasherSpec):
            raise TypeError(f"hasher_spec must be of type HasherSpec, got {hasher_spec}")
        if hasher_spec.hasher not in ("fasthash", "legacy", "stronghash"):
            raise ValueError(f"Unknown hasher {hasher_spec.hasher}")
        if table is not None and table.value_dtype != dtypes.int64:
            raise TypeError(f"Invalid value dtype, expected {dtypes.int64} but got {table.value_dtype}.")
        super().__init__(key_dtype, dtypes.int64)
        self._table, self._num_oov_buckets, self._hasher_spec = table, num_oov_buckets, hasher_spec
        if isinstance(table, Trackable):
            self._track_trackable(table, "_table")               # SavedModels make it again
        name = (name or "").rstrip("/") or (table.name if table is not None else "hash_bucket")
        self._table_name = name.split("/")[-1] if name else None

    resource_handle = property(lambda self: None if self._table is None else self._table.resource_handle,
                               doc="The handle of the table underneath, if there is one.")

    def _list_functions_for_serialization(self, serialization_cache: Any) -> dict[str, Any]:
        """None: the table underneath is the resource."""
        return {}

    @property
    def _init_op(self) -> Any:
        if self._table is not None:
            return self._table._init_op
        with name_scope(None, "init"):
            return no_op_def()

    def size(self, name: str | None = None) -> Tensor:
        """The number of entries and of buckets for other keys."""
        with name_scope(name, f"{self.name}_Size"):
            known = convert(0, dtypes.int64) if self._table is None else self._table.size()
            return known + self._num_oov_buckets

    def _find(self, keys: Tensor, name: str | None) -> Tensor:
        if self._table is not None and self._table.key_dtype.base_dtype == dtypes.int64 and keys.dtype != dtypes.int64:
            keys = get("Cast")(keys, DstT=dtypes.int64)
        if self._num_oov_buckets == 0:
            return self._table.lookup(keys, name=name)
        with name_scope(name, f"{self.name}_Lookup"):
            buckets = self._hashed(keys if keys.dtype.base_dtype == dtypes.string else get("AsString")(keys))
            if self._table is None:
                return buckets
            ids = self._table.lookup(keys)
            known = get("NotEqual")(ids, self._table.default_value)
            return get("SelectV2")(known, ids, buckets + self._table.size())

    def _hashed(self, text: Tensor) -> Tensor:
        spec, count = self._hasher_spec, self._num_oov_buckets
        if spec.hasher == "fasthash":
            return get("StringToHashBucketFast")(text, num_buckets=count, name="hash_bucket")
        if spec.hasher == "legacy":
            return get("StringToHashBucket")(text, num_buckets=count, name="hash_bucket")
        return get("StringToHashBucketStrong")(text, num_buckets=count, key=spec.key, name="hash_bucket")


@export(v1=["contrib.lookup.IdTableWithHashBuckets"])
class IdTableWithHashBuckets(_Vocabulary):
    """Ids from a table, and `num_oov_buckets` more, chosen by hash, for keys that are not in it."""

    def __init__(self, table: Any, num_oov_buckets: int, hasher_spec: HasherSpec = FastHashSpec, name: str | None = None,
                 key_dtype: Any = None):
        if table is None:
            if num_oov_buckets <= 0:
                raise ValueError("oov_buckets must be > 0 if no table is supplied.")
            key_dtype = dtypes.string if key_dtype is None else dtypes.as_dtype(key_dtype)
        else:
            key_dtype = _checked_key_dtype(table.key_dtype, key_dtype)
        super().__init__(table, num_oov_buckets, hasher_spec, name, key_dtype)

    initializer = property(lambda self: self._init_op, doc="The op that fills the table.")
    init = initializer


@export(v2=["lookup.StaticVocabularyTable"])
class StaticVocabularyTable(_Vocabulary):
    """Ids from an initializer, and `num_oov_buckets` more, chosen by hash, for other keys.

    >>> init = tf.lookup.KeyValueTensorInitializer(["emerson", "lake"], tf.constant([0, 1], tf.int64))
    >>> tf.lookup.StaticVocabularyTable(init, num_oov_buckets=2).lookup(tf.constant(["lake", "palmer"]))
    """

    def __init__(self, initializer: Any, num_oov_buckets: int, lookup_key_dtype: Any = None, name: str | None = None,
                 experimental_is_anonymous: bool = False):
        if num_oov_buckets <= 0:
            raise ValueError("oov_buckets must be > 0.")
        table = None
        if initializer is None:
            dtype = dtypes.string
        else:
            dtype = _checked_key_dtype(initializer.key_dtype, lookup_key_dtype)
            if initializer.value_dtype != dtypes.int64:
                raise TypeError(f"Invalid value dtype, expected {dtypes.int64} but got {initializer.value_dtype}.")
            table = StaticHashTableV1(initializer, -1, experimental_is_anonymous=experimental_is_anonymous)
        super().__init__(table, num_oov_buckets, FastHashSpec, name, dtype)


@export(v1=["lookup.StaticVocabularyTable"])
class StaticVocabularyTableV1(StaticVocabularyTable):
    """Ids from an initializer, and more, chosen by hash, for other keys; filled by the `initializer` op."""

    initializer = property(lambda self: self._init_op, doc="The op that fills the table.")


def _check_file(vocabulary_file: Any, vocab_size: int | None) -> None:
    if vocabulary_file is None or isinstance(vocabulary_file, str) and not vocabulary_file:
        raise ValueError("vocabulary_file must be specified and must not be empty.")
    if vocab_size is not None and vocab_size < 1:
        shown = constant_value(vocabulary_file) if isinstance(vocabulary_file, Tensor) else vocabulary_file
        raise ValueError(f"vocab_size must be greater than 0, got {vocab_size}. vocabulary_file: "
                         f"{'?' if shown is None else shown}")


def _check_vocabulary(num_oov_buckets: int, dtype: Any) -> Any:
    if num_oov_buckets < 0:
        raise ValueError(f"num_oov_buckets must be greater or equal than 0, got {num_oov_buckets}.")
    dtype = dtypes.as_dtype(dtype)
    if not dtype.is_integer and dtype.base_dtype != dtypes.string:
        raise TypeError("Only integer and string keys are supported.")
    return dtype


@export(v1=["contrib.lookup.index_table_from_file"])
def index_table_from_file(vocabulary_file: Any = None, num_oov_buckets: int = 0, vocab_size: int | None = None,
                          default_value: int = -1, hasher_spec: HasherSpec = FastHashSpec,
                          key_dtype: Any = dtypes.string, name: str | None = None,
                          key_column_index: int = TextFileIndex.WHOLE_LINE,
                          value_column_index: int = TextFileIndex.LINE_NUMBER, delimiter: str = "\t") -> Any:
    """A table from the lines of a file to their numbers."""
    _check_file(vocabulary_file, vocab_size)
    key_dtype = _check_vocabulary(num_oov_buckets, key_dtype)
    with name_scope(name, "string_to_index"):
        with name_scope(None, "hash_table"):
            init = TextFileIdTableInitializer(
                vocabulary_file, key_column_index, value_column_index, vocab_size, delimiter, "table_init",
                dtypes.int64 if key_dtype.is_integer else key_dtype)
            table = StaticHashTableV1(init, default_value)
        return IdTableWithHashBuckets(table, num_oov_buckets, hasher_spec, key_dtype=key_dtype) if num_oov_buckets \
            else table


@export(v1=["contrib.lookup.index_table_from_tensor"])
def index_table_from_tensor(vocabulary_list: Any, num_oov_buckets: int = 0, default_value: int = -1,
                            hasher_spec: HasherSpec = FastHashSpec, dtype: Any = dtypes.string,
                            name: str | None = None) -> Any:
    """A table from the elements of a vector to their positions."""
    if vocabulary_list is None:
        raise ValueError("vocabulary_list must be specified.")
    dtype = _check_vocabulary(num_oov_buckets, dtype)
    with name_scope(name, "string_to_index"):
        keys = convert(vocabulary_list)
        if keys.dtype.is_integer != dtype.is_integer:
            raise ValueError(f"Expected {'integer' if dtype.is_integer else 'non-integer'}, got {keys.dtype}.")
        if not dtype.is_integer and keys.dtype.base_dtype != dtype:
            raise ValueError(f"Expected {dtype}, got {keys.dtype}.")
        with name_scope(None, "hash_table"):
            keys = get("Cast")(keys, DstT=dtypes.int64) if keys.dtype.is_integer else keys
            init = KeyValueTensorInitializer(keys, _positions(keys), name="table_init")
            table = StaticHashTableV1(init, default_value)
        return IdTableWithHashBuckets(table, num_oov_buckets, hasher_spec, key_dtype=dtype) if num_oov_buckets else table


def _positions(keys: Tensor) -> Tensor:
    return get("Range")(convert(0, dtypes.int64), get("Size")(keys, out_type=dtypes.int64), convert(1, dtypes.int64))


@export(v1=["contrib.lookup.index_to_string_table_from_file"])
def index_to_string_table_from_file(vocabulary_file: Any, vocab_size: int | None = None, default_value: Any = "UNK",
                                    name: str | None = None, key_column_index: int = TextFileIndex.LINE_NUMBER,
                                    value_column_index: int = TextFileIndex.WHOLE_LINE, delimiter: str = "\t") -> Any:
    """A table from line numbers of a file to the lines."""
    _check_file(vocabulary_file, vocab_size)
    with name_scope(name, "index_to_string"):
        init = TextFileStringTableInitializer(vocabulary_file, key_column_index, value_column_index, vocab_size,
                                              delimiter, "table_init")
        return StaticHashTableV1(init, default_value)


@export(v1=["contrib.lookup.index_to_string_table_from_tensor"])
def index_to_string_table_from_tensor(vocabulary_list: Any, default_value: Any = "UNK",
                                      name: str | None = None) -> Any:
    """A table from positions in a vector of strings to the strings."""
    if vocabulary_list is None:
        raise ValueError("vocabulary_list must be specified.")
    with name_scope(name, "index_to_string"):
        words = convert(vocabulary_list, dtypes.string)
        return StaticHashTableV1(KeyValueTensorInitializer(_positions(words), words, name="table_init"), default_value)


# -- tables of the elements of datasets --------------------------------------------------------------------------------
@export("data.experimental.table_from_dataset")
def table_from_dataset(dataset: Any = None, num_oov_buckets: int = 0, vocab_size: Any = None, default_value: Any = None,
                       hasher_spec: Any = None, key_dtype: Any = dtypes.string, name: str | None = None) -> Any:
    """A table of the pairs of a dataset.

    Args:
      dataset: whose elements are pairs of a key and a value.
      num_oov_buckets: how many numbers there are for keys that are not in the dataset.
      vocab_size: how many pairs are taken; all by default.
      default_value: for keys that are not in the dataset, without buckets.
      hasher_spec: how buckets are chosen.
      key_dtype: the type of the keys.
      name: of the table.
    """
    spec = dataset.element_spec
    if not isinstance(spec, tuple) or len(spec) != 2 or not all(isinstance(s, TensorSpec) for s in spec):
        raise ValueError(f"Dataset element spec must be of size 2, of tensors; got {spec}.")
    if default_value is None:
        default_value = -1 if spec[1].dtype.is_integer or spec[1].dtype.is_floating else ""
    if num_oov_buckets < 0:
        raise ValueError(f"`num_oov_buckets` must be greater than or equal to 0, got {num_oov_buckets}.")
    if not spec[0].dtype.is_integer and spec[0].dtype != dtypes.string:
        raise TypeError(f"Only integer and string keys are supported, got {spec[0].dtype.name}.")
    if vocab_size is not None:
        if isinstance(vocab_size, int) and vocab_size < 1:
            raise ValueError(f"`vocab_size` must be greater than 0, got {vocab_size}.")
        dataset = dataset.take(vocab_size)
    table = StaticHashTable(DatasetInitializer(dataset), default_value, name=name)
    if not num_oov_buckets:
        return table
    return IdTableWithHashBuckets(table, num_oov_buckets, FastHashSpec if hasher_spec is None else hasher_spec, name, key_dtype)


@export("data.experimental.index_table_from_dataset")
def index_table_from_dataset(dataset: Any = None, num_oov_buckets: int = 0, vocab_size: Any = None, default_value: Any = -1,
                             hasher_spec: Any = None, key_dtype: Any = dtypes.string, name: str | None = None) -> Any:
    """A table from the elements of a dataset to their positions; see `table_from_dataset`."""
    pairs = dataset.enumerate().map(lambda i, key: (key, i))
    return table_from_dataset(pairs, num_oov_buckets, vocab_size, default_value, hasher_spec, key_dtype, name)
