"""tf.lookup: tables from keys to values, over the ops in `lookup`."""
from __future__ import annotations

import uuid
from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph import context
from penstock._src.graph.collections import GraphKeys, add_to_collection
from penstock._src.graph.convert import convert
from penstock._src.graph.eager_tensor import EagerTensor
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import init_scope, name_scope
from penstock._src.graph.sparse_tensor import SparseTensor
from penstock._src.ops.state import lookup as ops
from penstock._src.state.checkpoint.saveable import SaveableObject, SaveSpec
from penstock._src.state.table_initializers import TableInitializerBase, lifted
from penstock._src.state.trackable_resource import TrackableResource


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
        with lifted():
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
