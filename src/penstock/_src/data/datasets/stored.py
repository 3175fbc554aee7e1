"""Datasets in folders: `save`, `load` and `snapshot`.

A folder has record files, one per shard, and `dataset_spec.pb`, the type of the elements: a folder without it is not a saved
dataset. A second `save` replaces all files together (io/replaced.py). A record is one element, a serialized vector of its
serialized tensors.
"""
from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from google.protobuf.message import DecodeError
from tensorboard.compat.proto.struct_pb2 import StructuredValue

import penstock as tf
from penstock._src.base import errors, nest
from penstock._src.base.api import export
from penstock._src.data.datasets.dataset import DatasetV2
from penstock._src.io import paths, replaced
from penstock._src.ops.data.dataset_saving import COUNT, SHARD, SPEC
from penstock._src.ops.registry import get
from penstock._src.state.saved_model.structures import decode, encode


def _record(*element: Any) -> Any:
    """An element as one string."""
    return tf.io.serialize_tensor(tf.stack([tf.io.serialize_tensor(t) for t in nest.flatten(element, expand_composites=True)]))


def _element(record: Any, spec: Any) -> Any:
    """The element that a string has."""
    parts = tf.io.parse_tensor(record, tf.string)
    tensors = []
    for i, s in enumerate(nest.flatten(spec, expand_composites=True)):
        tensors.append(tf.io.parse_tensor(parts[i], s.dtype))
        tensors[-1].set_shape(s.shape)
    return nest.pack_sequence_as(spec, tensors, expand_composites=True)


@export("data.experimental.save")
def save(dataset: Any, path: str, compression: str | None = None, shard_func: Callable | None = None,
         checkpoint_args: Any = None) -> Any:
    """Writes the elements of a dataset into a folder, from which `tf.data.Dataset.load` reads them; in graphs, an op that
    does so.

    Args:
      dataset: whose elements are made of tensors.
      path: of the folder.
      compression: "GZIP", "ZLIB" or None.
      shard_func: a function from an element to the number of its shard; by default there is one shard.
      checkpoint_args: accepted for compatibility; the position within a save is not kept.
    """
    shard = shard_func or (lambda *element: tf.constant(0, tf.int64))
    records = dataset.map(lambda *element: (tf.cast(shard(*element), tf.int64), _record(*element)))
    return get("WriteDatasetShards")(records._variant_tensor, paths.as_text(path), compression or "",
                                     spec=encode(dataset.element_spec).SerializeToString())


@export("data.experimental.load")
def load(path: str, element_spec: Any = None, compression: str | None = None, reader_func: Callable | None = None) -> Any:
    """The dataset that `save` has written into a folder.

    Args:
      path: of the folder.
      element_spec: the type of the elements; by default the one that was saved.
      compression: as in `save`.
      reader_func: a function from a dataset of shards (datasets) to the dataset; by default, one
        element of each shard in turn.
    """
    path = paths.as_text(path)
    replaced.recover(path)
    if not paths.exists(os.path.join(path, SPEC)):
        raise errors.NotFoundError(None, None, f"{path} has no saved dataset: {SPEC} is missing.")
    if element_spec is None:
        element_spec = _saved_spec(os.path.join(path, SPEC))
    files = sorted(os.path.join(path, name) for name in paths.listdir(path) if name.endswith(SHARD))

    def shard(file: Any) -> Any:
        return tf.data.TFRecordDataset(file, compression_type=compression).map(lambda record: _element(record, element_spec))
    names = tf.data.Dataset.from_tensor_slices(tf.constant(files, tf.string, shape=[len(files)]))
    if reader_func is not None:
        return reader_func(names.map(shard))
    loaded = names.interleave(shard, cycle_length=len(files) or 1)
    counted = os.path.join(path, COUNT)
    return loaded.apply(tf.data.experimental.assert_cardinality(_number(counted))) if paths.exists(counted) else loaded


def _number(path: str) -> int:
    try:
        return int(paths.read_stored(path))
    except ValueError as e:
        raise errors.DataLossError(None, None, f"{path} does not have the number of a dataset's elements: {e}") from None


def _saved_spec(path: str) -> Any:
    try:
        return decode(StructuredValue.FromString(paths.read_stored(path)))
    except (DecodeError, ValueError) as e:
        raise errors.DataLossError(None, None, f"{path} does not have the type of a dataset's elements: {e}") from None


@export("data.experimental.snapshot")
def snapshot(path: str, compression: str | None = "AUTO", reader_func: Callable | None = None,
             shard_func: Callable | None = None, name: str | None = None) -> Callable:
    """A transformation that keeps the elements in a folder: the first whole pass writes them, later ones, also in other
    processes, read them. Passes that begin while another one writes leave the folder as it is.

    Args:
      path: of the folder.
      compression: accepted; elements are kept as they are.
      reader_func: a function from a dataset of one dataset, the stored one, to the result.
      shard_func: accepted; there is one shard.
      name: of the operation.
    """
    def apply(dataset: DatasetV2) -> DatasetV2:
        stored = dataset._then("SnapshotDataset", tf.convert_to_tensor(paths.as_text(path)))
        if reader_func is None:
            return stored
        return reader_func(tf.data.Dataset.from_tensors(0).map(lambda _: stored))
    return apply
