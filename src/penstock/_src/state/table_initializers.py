"""Initializers of lookup tables: keys and values from tensors, text files and datasets; and the op that runs them all."""
from __future__ import annotations

import contextlib
from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.collections import GraphKeys, add_to_collection
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import init_scope, name_scope
from penstock._src.graph.trackable import Trackable
from penstock._src.ops.core import group, no_op_def
from penstock._src.ops.registry import get
from penstock._src.ops.state import lookup as ops
from penstock._src.state.asset import Asset


@export(v1=["tables_initializer", "initializers.tables_initializer"])
def tables_initializer(name: str = "init_all_tables") -> Any:
    """An op that fills all tables of the graph.

    Args:
        name: Name of the operation.

    Returns:
        An op.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     keys, values = tf.constant(["a", "b"]), tf.constant([1, 2])
    ...     table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), default_value=-1)
    ...     sess.run(tf.tables_initializer())
    ...     print(sess.run(table.lookup(tf.constant(["b", "z"]))))
    [ 2 -1]
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


def lifted() -> Any:
    """A scope outside of control flow under construction, in which tables are created and filled."""
    inside = not context.executing_eagerly() and context.current_graph()._stacks.control_flow is not None
    return init_scope() if inside else contextlib.nullcontext()


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
        with lifted():
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
        if not all(s.shape.is_compatible_with([]) for s in spec):
            raise ValueError(f"The keys and values of the dataset must be scalars, got {spec}.")
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
