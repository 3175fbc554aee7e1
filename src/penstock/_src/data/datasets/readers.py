"""Datasets over files: TextLineDataset, TFRecordDataset, FixedLengthRecordDataset, list_files."""
from __future__ import annotations

import os
from typing import Any

import numpy as np

import penstock.compat.v1 as tf
from penstock._src.base import dtypes, errors, nest
from penstock._src.base.api import export
from penstock._src.data.datasets.arguments import AUTOTUNE, int64
from penstock._src.data.datasets.dataset import DatasetV2, VariantDataset
from penstock._src.data.datasets.dataset_v1 import DatasetV1, VariantDatasetV1
from penstock._src.graph import context
from penstock._src.graph.convert import convert
from penstock._src.graph.type_spec import TensorSpec
from penstock._src.io.record import TFRecordOptions
from penstock._src.ops.registry import get

_BUFFER = 256 * 1024
_STRING = TensorSpec([], dtypes.string)


def _compression(kind: Any) -> Any:
    return convert("" if kind is None else kind, dtypes.string, "compression_type")


def _names_dataset(api: Any, filenames: Any) -> Any:
    """The names of files as a dataset of strings."""
    if isinstance(filenames, DatasetV2):
        spec = filenames.element_spec
        if not isinstance(spec, TensorSpec) or spec.dtype != dtypes.string:
            raise TypeError("`filenames` must be a `tf.data.Dataset` of `tf.string` elements.")
        if not spec.shape.is_compatible_with([]):
            raise ValueError("`filenames` must be a `tf.data.Dataset` of scalar `tf.string` elements.")
        return filenames
    names = file_names(filenames)
    return api.from_tensor_slices(tf.reshape(names, [-1]))


def file_names(filenames: Any) -> Any:
    """The names of files, given as strings, as paths (`os.PathLike`) or as lists of them, as a tensor."""
    plain = nest.map_structure(lambda n: os.fspath(n) if isinstance(n, os.PathLike) else n, filenames)
    names = convert(plain, None, "filenames")
    if names.dtype == dtypes.string:
        return names
    if not hasattr(filenames, "dtype") and names.shape.num_elements() == 0:
        return convert(filenames, dtypes.string, "filenames")
    raise TypeError("The `filenames` argument must contain `tf.string` elements: a tensor, a list or a dataset of the names "
                    f"of files. Got `{names.dtype!r}` elements.")


def _reading(names: Any, parallel: Any, one: Any) -> Any:
    """The datasets of all files in sequence, or of some at a time."""
    if parallel is None:
        return names.flat_map(one)
    if parallel == AUTOTUNE:
        return names.interleave(one, cycle_length=10, num_parallel_calls=AUTOTUNE)
    return names.interleave(one, cycle_length=parallel, block_length=1, num_parallel_calls=parallel)


class _Reader:
    """The base of the classes in both APIs."""

    _api: Any = None

    def _become(self, made: Any, inputs: Any = ()) -> None:
        super().__init__(made._variant_tensor, _STRING, inputs)              # type: ignore[call-arg]


class _TFRecords(_Reader):
    def __init__(self, filenames: Any, compression_type: Any = None, buffer_size: Any = None, num_parallel_reads: Any = None,
                 name: str | None = None):
        kind = _compression(TFRecordOptions.get_compression_type_string(compression_type)
                            if not hasattr(compression_type, "dtype") else compression_type)
        size = int64(_BUFFER if buffer_size is None else buffer_size, "buffer_size")
        names = _names_dataset(self._api, filenames)

        def one(filename: Any) -> Any:
            return self._api._made(get("TFRecordDataset")(filename, kind, size), _STRING)
        self._become(_reading(names, num_parallel_reads, one), (names,))


class _Lines(_Reader):
    def __init__(self, filenames: Any, compression_type: Any = None, buffer_size: Any = None, num_parallel_reads: Any = None,
                 name: str | None = None):
        kind = _compression(compression_type)
        size = int64(_BUFFER if buffer_size is None else buffer_size, "buffer_size")
        if num_parallel_reads is None and not isinstance(filenames, DatasetV2):
            names = file_names(filenames)
            return self._become(self._api._made(get("TextLineDataset")(names, kind, size), _STRING))
        names = _names_dataset(self._api, filenames)

        def one(filename: Any) -> Any:
            return self._api._made(get("TextLineDataset")(filename, kind, size), _STRING)
        return self._become(_reading(names, num_parallel_reads, one), (names,))


class _FixedLength(_Reader):
    def __init__(self, filenames: Any, record_bytes: Any, header_bytes: Any = None, footer_bytes: Any = None,
                 buffer_size: Any = None, compression_type: Any = None, num_parallel_reads: Any = None,
                 name: str | None = None):
        size = _BUFFER if buffer_size is None else buffer_size
        parts = [int64(header_bytes or 0, "header_bytes"), int64(record_bytes, "record_bytes"),
                 int64(footer_bytes or 0, "footer_bytes"), int64(size, "buffer_size")]
        kind = _compression(compression_type)
        if num_parallel_reads is None and not isinstance(filenames, DatasetV2):
            names = file_names(filenames)
            return self._become(self._api._made(get("FixedLengthRecordDatasetV2")(names, *parts, kind), _STRING))
        names = _names_dataset(self._api, filenames)

        def one(filename: Any) -> Any:
            return self._api._made(get("FixedLengthRecordDatasetV2")(filename, *parts, kind), _STRING)
        return self._become(_reading(names, num_parallel_reads, one), (names,))


def _class(name: str, kind: type, doc: str) -> None:
    """Creates the classes of both APIs."""
    for suffix, base, api, where in (("V2", VariantDataset, DatasetV2, "v2"), ("V1", VariantDatasetV1, DatasetV1, "v1")):
        made = type(name + suffix, (kind, base), {"__doc__": doc, "_api": api, "__module__": __name__})
        export.value(made, **{where: [f"data.{name}"]})
        globals()[name + suffix] = made


_class("TFRecordDataset", _TFRecords, """The records of TFRecord files, as strings.

    Args:
        filenames: One or several files, or a dataset of file names.
        compression_type: `"GZIP"`, `"ZLIB"` or None.
        buffer_size: The bytes that are read at once.
        num_parallel_reads: How many files are read at the same time; their records are interleaved.
        name: A name for the op.

    >>> with tf.io.TFRecordWriter("a.tfrecord") as file:
    ...     file.write(b"first")
    ...     file.write(b"second")
    >>> list(tf.data.TFRecordDataset("a.tfrecord").as_numpy_iterator())
    [b'first', b'second']
    """)
_class("TextLineDataset", _Lines, r"""The lines of text files, without their ends.

    Args:
        filenames: One or several files, or a dataset of file names.
        compression_type: `"GZIP"`, `"ZLIB"` or None.
        buffer_size: The bytes that are read at once.
        num_parallel_reads: How many files are read at the same time; their lines are interleaved.
        name: A name for the op.

    >>> tf.io.write_file("a.csv", "x,y\n1,2\n")
    >>> list(tf.data.TextLineDataset("a.csv").skip(1).as_numpy_iterator())
    [b'1,2']
    """)
_class("FixedLengthRecordDataset", _FixedLength, """The records of files in which all records are equally long.

    Args:
        filenames: One or several files, or a dataset of file names.
        record_bytes: The bytes of a record.
        header_bytes: The bytes at the beginning that are skipped.
        footer_bytes: The bytes at the end that are skipped.
        buffer_size: The bytes that are read at once.
        compression_type: `"GZIP"`, `"ZLIB"` or None.
        num_parallel_reads: How many files are read at the same time; their records are interleaved.
        name: A name for the op.

    >>> tf.io.write_file("a.bin", "##aabbcc")
    >>> list(tf.data.FixedLengthRecordDataset("a.bin", record_bytes=2, header_bytes=2).as_numpy_iterator())
    [b'aa', b'bb', b'cc']
    """)


def list_files(cls: Any, file_pattern: Any, shuffle: Any, seed: Any) -> Any:
    """See `Dataset.list_files`."""
    patterns = convert(file_pattern, dtypes.string, "file_pattern")
    files = get("MatchingFiles")(patterns)
    count = tf.shape(files, out_type=dtypes.int64)[0]
    if context.executing_eagerly() and not int(count):
        named = ", ".join(p.decode(errors="replace") for p in np.atleast_1d(patterns.numpy()))
        raise errors.invalid(f"No files matched pattern: {named} (relative to {os.getcwd()})")
    check = tf.debugging.Assert(count > 0, ["No files matched pattern: ", patterns])
    with tf.control_dependencies([check] if check is not None else []):
        files = tf.identity(files)
    made = cls.from_tensor_slices(files)
    if shuffle is None or shuffle:
        made = made.shuffle(tf.maximum(count, convert(1, dtypes.int64)), seed=seed)
    return made
