"""Vocabularies: tables from keys to ids, with buckets by hash for unknown keys, from tensors, files and datasets."""
from __future__ import annotations

import collections
from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.graph.constant import constant_value
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.graph.trackable import Trackable
from penstock._src.graph.type_spec import TensorSpec
from penstock._src.ops.core import no_op_def
from penstock._src.ops.registry import get
from penstock._src.state.lookup_tables import LookupInterface, StaticHashTable, StaticHashTableV1
from penstock._src.state.table_initializers import (
    DatasetInitializer,
    KeyValueTensorInitializer,
    TextFileIdTableInitializer,
    TextFileIndex,
    TextFileStringTableInitializer,
)

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
        dataset = dataset.take(vocab_size)._then("AssertCardinalityDataset", convert(vocab_size, dtypes.int64))
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
