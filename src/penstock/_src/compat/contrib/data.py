"""tf.contrib.data: transformations of datasets that have since moved to tf.data, under their old names."""
from __future__ import annotations

import importlib
from typing import Any

from penstock._src.base import nest
from penstock._src.base.api import export, resolve
from penstock._src.compat.contrib.framework.tensors import with_shape
from penstock.compat import v1 as tf

for _name in ("Counter", "CsvDataset", "Optional", "RandomDataset", "Reducer", "SqlDataset", "bucket_by_sequence_length",
              "choose_from_datasets", "copy_to_device", "dense_to_sparse_batch", "enumerate_dataset", "get_next_as_optional",
              "get_single_element", "group_by_reducer", "group_by_window", "ignore_errors", "make_batched_features_dataset",
              "make_csv_dataset", "make_saveable_from_iterator", "map_and_batch", "parallel_interleave", "prefetch_to_device",
              "rejection_resample", "sample_from_datasets", "scan", "shuffle_and_repeat", "unbatch", "unique",
              "parse_example_dataset", "CheckpointInputPipelineHook", "TFRecordWriter", "AUTOTUNE"):
    export.later(lambda _name=_name: resolve("v1", f"data.experimental.{_name}"),
                 v1=[f"contrib.data.{_name}"])
for _name in ("Dataset", "Iterator", "FixedLengthRecordDataset", "TFRecordDataset", "TextLineDataset"):
    export.later(lambda _name=_name: resolve("v1", f"data.{_name}"), v1=[f"contrib.data.{_name}"])
export.later(lambda: importlib.import_module("penstock._src.data.datasets").extras.LMDBDataset,
             v1=["contrib.data.LMDBDataset"])
export.later(lambda: resolve("v1", "data.experimental.make_batched_features_dataset"),
             v1=["contrib.data.read_batch_features"])


@export(v1=["contrib.data.batch_and_drop_remainder"])
def batch_and_drop_remainder(batch_size: Any) -> Any:
    """`Dataset.batch` without the last batch, if it is smaller: for `Dataset.apply`."""
    return lambda dataset: dataset.batch(batch_size, drop_remainder=True)


@export(v1=["contrib.data.padded_batch_and_drop_remainder"])
def padded_batch_and_drop_remainder(batch_size: Any, padded_shapes: Any, padding_values: Any = None) -> Any:
    """`Dataset.padded_batch` without the last batch, if it is smaller: for `Dataset.apply`."""
    return lambda dataset: dataset.padded_batch(batch_size, padded_shapes, padding_values, drop_remainder=True)


@export(v1=["contrib.data.assert_element_shape"])
def assert_element_shape(expected_shapes: Any) -> Any:
    """Gives the elements of a dataset static shapes, which are checked: for `Dataset.apply`."""
    def apply(dataset: Any) -> Any:
        def check(*elements: Any) -> Any:
            elements = elements[0] if len(elements) == 1 else elements
            return nest.map_structure_up_to(elements, lambda e, s: with_shape(s, e), elements, expected_shapes)
        return dataset.map(check)

    return apply


@export(v1=["contrib.data.sliding_window_batch"])
def sliding_window_batch(window_size: int, stride: int | None = None, window_shift: int | None = None,
                         window_stride: int = 1) -> Any:
    """Batches of overlapping windows: for `Dataset.apply`."""
    shift = window_shift or stride or 1

    def apply(dataset: Any) -> Any:
        def whole(*parts: Any) -> Any:
            batched = tuple(p.batch(window_size, drop_remainder=True) for p in parts)
            return batched[0] if len(batched) == 1 else tf.data.Dataset.zip(batched)
        return dataset.window(window_size, shift, window_stride, drop_remainder=True).flat_map(whole)

    return apply


@export(v1=["contrib.data.reduce_dataset"])
def reduce_dataset(dataset: Any, reducer: Any) -> Any:
    """The result of a Reducer over all elements."""
    state = dataset.reduce(reducer.init_func(tf.constant(0, tf.int64)), reducer.reduce_func)
    return reducer.finalize_func(state)
