"""Tables whose entries a dataset has."""
from __future__ import annotations

from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.graph.type_spec import TensorSpec
from penstock._src.state.lookup_tables import DatasetInitializer, FastHashSpec, IdTableWithHashBuckets, StaticHashTable


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
