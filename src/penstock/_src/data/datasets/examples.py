"""Datasets of tf.train.Example records: parse_example_dataset and make_batched_features_dataset."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import penstock.compat.v1 as tf
from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.data.datasets import structure
from penstock._src.data.datasets.arguments import AUTOTUNE
from penstock._src.data.datasets.csv import _shuffled
from penstock._src.data.datasets.dataset import DatasetV2
from penstock._src.data.datasets.dataset_v1 import DatasetV1, as_v1
from penstock._src.data.datasets.extras import parallel_interleave
from penstock._src.data.datasets.options import Options
from penstock._src.data.datasets.readers import TFRecordDatasetV1, TFRecordDatasetV2  # type: ignore[attr-defined]
from penstock._src.graph.type_spec import TensorSpec


@export("data.experimental.parse_example_dataset")
def parse_example_dataset(features: Any, num_parallel_calls: Any = 1, deterministic: bool | None = None) -> Callable:
    """A transformation: batches of serialized Examples become dicts of tensors, see `tf.io.parse_example`.

    >>> ds.batch(32).apply(tf.data.experimental.parse_example_dataset({"x": tf.io.FixedLenFeature([], tf.float32)}))
    """
    if features is None:
        raise ValueError("Argument `features` is required, but not specified.")

    def apply(dataset: Any) -> Any:
        if not structure.compatible(dataset.element_spec, TensorSpec([None], dtypes.string)):
            raise TypeError("Input dataset should be a dataset of vectors of strings")
        return dataset.map(lambda records: tf.io.parse_example(records, features),
                           num_parallel_calls=None if num_parallel_calls in (None, 1) else num_parallel_calls,
                           deterministic=deterministic)
    return apply


@export(v2=["data.experimental.make_batched_features_dataset"])
def make_batched_features_dataset(file_pattern: Any, batch_size: Any, features: Any, reader: Any = TFRecordDatasetV2,
                                  label_key: str | None = None, reader_args: Any = None, num_epochs: Any = None,
                                  shuffle: bool = True, shuffle_buffer_size: int = 10000, shuffle_seed: Any = None,
                                  prefetch_buffer_size: Any = None, reader_num_threads: Any = None,
                                  parser_num_threads: Any = None, sloppy_ordering: bool = False,
                                  drop_final_batch: bool = False) -> Any:
    """A dataset of batches of the features of Examples in files, as dicts; with `label_key`, as pairs of a dict and a label.

    >>> tf.data.experimental.make_batched_features_dataset("train*", 32, {"x": tf.io.FixedLenFeature([], tf.float32)})
    """
    if isinstance(reader, type) and issubclass(reader, tf.ReaderBase):
        raise TypeError("The `reader` argument must return a `Dataset` object. `tf.ReaderBase` subclasses are not supported. "
                        "For example, pass `tf.data.TFRecordDataset` instead of `tf.TFRecordReader`.")
    if label_key and label_key not in features:
        raise ValueError(f"The `label_key` provided ({label_key!r}) must be one of the `features` keys.")
    args = [] if reader_args is None else reader_args
    dataset = DatasetV2.list_files(file_pattern, shuffle=shuffle, seed=shuffle_seed)

    def read(filename: Any) -> Any:
        return reader(filename, *args)
    if reader_num_threads == AUTOTUNE:
        options = Options()
        options.deterministic = not sloppy_ordering
        dataset = dataset.interleave(read, num_parallel_calls=AUTOTUNE).with_options(options)
    elif reader_num_threads in (None, 1):
        dataset = dataset.flat_map(read)
    else:
        dataset = dataset.apply(parallel_interleave(read, reader_num_threads, sloppy=sloppy_ordering))
    if structure.legacy(dataset.element_spec, "types") == (dtypes.string, dtypes.string):
        dataset = dataset.map(lambda _, value: value)           # pairs of a key and a record
    dataset = _shuffled(dataset, num_epochs, shuffle, shuffle_buffer_size, shuffle_seed)
    dataset = dataset.batch(batch_size, drop_remainder=drop_final_batch or num_epochs is None)
    dataset = dataset.apply(parse_example_dataset(features, parser_num_threads or 1))
    if label_key:
        dataset = dataset.map(lambda x: (x, x.pop(label_key)))
    return dataset.prefetch(AUTOTUNE if prefetch_buffer_size is None else prefetch_buffer_size)


@export(v1=["data.experimental.make_batched_features_dataset"])
def make_batched_features_dataset_v1(file_pattern: Any, batch_size: Any, features: Any, reader: Any = TFRecordDatasetV1,
                                     label_key: str | None = None, reader_args: Any = None, num_epochs: Any = None,
                                     shuffle: bool = True, shuffle_buffer_size: int = 10000, shuffle_seed: Any = None,
                                     prefetch_buffer_size: Any = None, reader_num_threads: Any = None,
                                     parser_num_threads: Any = None, sloppy_ordering: bool = False,
                                     drop_final_batch: bool = False) -> DatasetV1:
    """A dataset of batches of the features of Examples in files, as dicts; with `label_key`, as pairs of a dict and a label."""
    return as_v1(make_batched_features_dataset(
        file_pattern, batch_size, features, reader, label_key, reader_args, num_epochs, shuffle, shuffle_buffer_size,
        shuffle_seed, prefetch_buffer_size, reader_num_threads, parser_num_threads, sloppy_ordering, drop_final_batch))
