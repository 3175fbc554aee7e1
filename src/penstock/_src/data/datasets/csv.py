"""CSV files as datasets: CsvDataset, and make_csv_dataset, which infers names and types of columns."""
from __future__ import annotations

import collections
import csv
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

import penstock.compat.v1 as tf
from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.data.datasets import structure
from penstock._src.data.datasets.arguments import AUTOTUNE, int64
from penstock._src.data.datasets.dataset import DatasetV2, VariantDataset
from penstock._src.data.datasets.dataset_v1 import VariantDatasetV1, as_v1
from penstock._src.data.pipelines.readers import open_stream
from penstock._src.graph.convert import convert
from penstock._src.graph.type_spec import TensorSpec
from penstock._src.io import paths
from penstock._src.ops.registry import get

_BUFFER = 4 * 1024 * 1024
_TYPES = (dtypes.float32, dtypes.float64, dtypes.int32, dtypes.int64, dtypes.string)


class _Csv:
    """The base of CsvDataset in both APIs."""

    def __init__(self, filenames: Any, record_defaults: Any, compression_type: Any = None, buffer_size: Any = None,
                 header: Any = False, field_delim: Any = ",", use_quote_delim: Any = True, na_value: Any = "",
                 select_cols: Any = None, exclude_cols: Any = None):
        if exclude_cols is not None:
            raise ValueError("exclude_cols is not supported: name the columns in select_cols")
        defaults = [_default(d) for d in record_defaults]
        spec = tuple(TensorSpec([], d.dtype) for d in defaults)
        variant = get("CSVDataset")(
            convert(filenames, dtypes.string, "filenames"),
            convert("" if compression_type is None else compression_type, dtypes.string, "compression_type"),
            int64(_BUFFER if buffer_size is None else buffer_size, "buffer_size"), convert(header, dtypes.bool, "header"),
            convert(field_delim, dtypes.string, "field_delim"), convert(use_quote_delim, dtypes.bool, "use_quote_delim"),
            convert(na_value, dtypes.string, "na_value"),
            convert(np.array([] if select_cols is None else select_cols, np.int64), dtypes.int64, "select_cols")
            if not isinstance(select_cols, tf.Tensor) else select_cols, defaults, output_shapes=structure.flat_shapes(spec))
        super().__init__(variant, spec)                        # type: ignore[call-arg]


def _default(value: Any) -> Any:
    """The default of a column as a tensor; an empty one where a value is required."""
    if isinstance(value, (dtypes.DType, type)):
        if dtypes.as_dtype(value) not in _TYPES:
            raise TypeError(f"A column cannot have the type {value}: use one of {', '.join(t.name for t in _TYPES)}")
        return tf.constant([], dtype=value)
    return convert(value, dtypes.float32 if isinstance(value, list) and not value else None, "record_defaults")


@export(v2=["data.experimental.CsvDataset"])
class CsvDatasetV2(_Csv, VariantDataset):
    """The records of CSV files.

    >>> tf.data.experimental.CsvDataset("a.csv", [tf.float32, [0]], header=True)
    """


@export(v1=["data.experimental.CsvDataset"])
class CsvDatasetV1(_Csv, VariantDatasetV1):
    """The records of CSV files.

    >>> tf.data.experimental.CsvDataset("a.csv", [tf.float32, [0]], header=True)
    """


# -- finding out about columns --------------------------------------------------------------------------------------------
def _rows(path: str, field_delim: str, use_quote_delim: bool, header: bool, compression: Any, encoding: str) -> Any:
    """The rows of a file as lists of text."""
    stream = open_stream(path, compression or "", 1 << 16)
    try:
        lines = _lines(stream, encoding)
        rows = csv.reader(lines, delimiter=field_delim, quoting=csv.QUOTE_MINIMAL if use_quote_delim else csv.QUOTE_NONE)
        if header:
            next(rows, None)
        yield from rows
    finally:
        stream.close()


def _lines(stream: Any, encoding: str) -> Any:
    left = b""
    while piece := stream.read(1 << 16):
        *lines, left = (left + piece).split(b"\n")
        for line in lines:
            yield line.decode(encoding, "replace") + "\n"
    if left:
        yield left.decode(encoding, "replace")


def _column_names(files: list, field_delim: str, use_quote_delim: bool, compression: Any, encoding: str) -> list[str]:
    names: list = []
    for i, path in enumerate(files):
        found = next(_rows(path, field_delim, use_quote_delim, False, compression, encoding), None)
        if found is None:
            raise ValueError("Received StopIteration when reading the header line of a file. Empty file?")
        if i and found != names:
            raise ValueError("The header lines of the files differ.")
        names = found
    return names


def _fits(text: str, dtype: Any) -> bool:
    if dtype == dtypes.string:
        return True
    try:
        value = float(text) if dtype.is_floating else int(text)
    except ValueError:
        return False
    return bool(dtype.min <= value <= dtype.max)


_ORDER = (dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64, dtypes.string)


def _inferred(text: str, missing: str, known: Any) -> Any:
    """The narrowest type for a field and those before it."""
    if text in ("", missing):
        return known
    least = 0 if known is None else _ORDER.index(known)
    return next(t for t in _ORDER[least:] if _fits(text, t))


def _column_defaults(files: list, width: int, field_delim: str, use_quote_delim: bool, missing: str, header: bool, rows: Any,
                     selected: list[int] | None, compression: Any, encoding: str) -> list:
    """A default for each selected column; its type is inferred from the first rows."""
    chosen = list(range(width)) if selected is None else selected
    types: list = [None] * len(chosen)
    every = itertools.chain.from_iterable(_rows(f, field_delim, use_quote_delim, header, compression, encoding) for f in files)
    for row in itertools.islice(every, rows):
        if len(row) != width:
            raise ValueError("Problem inferring types: CSV row has different number of fields than expected.")
        types = [_inferred(row[c], missing, t) for c, t in zip(chosen, types, strict=True)]
    return [tf.constant([""] if t in (None, dtypes.string) else [0], dtype=t or dtypes.string) for t in types]


def _selected(names: list[str], select: Any) -> list[int] | None:
    """The positions of selected columns, given as names or numbers."""
    if select is None:
        return None
    if not all(isinstance(c, (int, str)) for c in select) or len({isinstance(c, int) for c in select}) > 1:
        raise ValueError("select_columns must be either all numbers or all names of columns")
    if isinstance(select[0], int):
        positions = sorted(select)
        if positions[0] < 0 or positions[-1] >= len(names):
            raise ValueError("Some column indices in select_columns are out of range")
    else:
        unknown = [c for c in select if c not in names]
        if unknown:
            raise ValueError(f"Value '{unknown[0]}' is not in the list of columns {names}")
        positions = sorted(names.index(c) for c in select)
    if len(set(positions)) != len(positions):
        raise ValueError("select_columns contains duplicate columns")
    return positions


# -- make_csv_dataset -------------------------------------------------------------------------------------------------------
@export(v2=["data.experimental.make_csv_dataset"])
def make_csv_dataset(file_pattern: Any, batch_size: Any, column_names: Any = None, column_defaults: Any = None,
                     label_name: str | None = None, select_columns: Any = None, field_delim: str = ",",
                     use_quote_delim: bool = True, na_value: str = "", header: bool = True, num_epochs: Any = None,
                     shuffle: bool = True, shuffle_buffer_size: int = 10000, shuffle_seed: Any = None,
                     prefetch_buffer_size: Any = None, num_parallel_reads: Any = None, sloppy: bool = False,
                     num_rows_for_inference: Any = 100, compression_type: Any = None, ignore_errors: bool = False,
                     encoding: str = "utf-8") -> Any:
    """A dataset of batches of the columns of CSV files, as dicts; with `label_name`, as pairs of a dict and a label.

    >>> tf.data.experimental.make_csv_dataset("train*.csv", 32, label_name="survived")
    """
    files = _files(file_pattern)
    dataset = DatasetV2.from_tensor_slices(files)
    if shuffle:
        dataset = dataset.shuffle(len(files), shuffle_seed)
    if column_names is None:
        if not header:
            raise ValueError("Without a header line, column_names is required.")
        if compression_type not in (None, "", "GZIP"):
            raise ValueError(f"compression_type ({compression_type}) is not supported for probing columns")
        column_names = _column_names(files, field_delim, use_quote_delim, compression_type, encoding)
    if len(column_names) != len(set(column_names)):
        raise ValueError("Cannot have duplicate column names.")
    selected = _selected(list(column_names), select_columns)
    if column_defaults is not None:
        column_defaults = [_default(d) for d in column_defaults]
    else:
        column_defaults = _column_defaults(files, len(column_names), field_delim, use_quote_delim, na_value, header,
                                           num_rows_for_inference, selected, compression_type, encoding)
    if selected is not None and len(column_defaults) != len(selected):
        raise ValueError("column_defaults and select_columns must have the same length.")
    names = list(column_names) if selected is None else [column_names[i] for i in selected]
    if label_name is not None and label_name not in names:
        raise ValueError(f"`label_name` provided must be one of the columns: {names}. Received: {label_name!r}.")

    def read(filename: Any) -> Any:
        records = CsvDatasetV2(filename, column_defaults, compression_type, None, header, field_delim, use_quote_delim,
                               na_value, selected)
        return records.ignore_errors() if ignore_errors else records
    cycle = 1 if num_parallel_reads is None or num_parallel_reads == AUTOTUNE else num_parallel_reads
    dataset = dataset.interleave(read, cycle_length=cycle, num_parallel_calls=None if cycle == 1 else cycle,
                                 deterministic=not sloppy)
    dataset = _shuffled(dataset, num_epochs, shuffle, shuffle_buffer_size, shuffle_seed)
    dataset = dataset.batch(batch_size, drop_remainder=num_epochs is None).map(_named(names, label_name))
    return dataset.prefetch(AUTOTUNE if prefetch_buffer_size is None else prefetch_buffer_size)


def _files(pattern: Any) -> list[str]:
    patterns = [pattern] if isinstance(pattern, (str, bytes)) else list(pattern)
    if not patterns:
        raise ValueError("File pattern is empty.")
    files = [f for p in patterns for f in sorted(paths.glob(p))]
    if not files:
        raise ValueError(f"No files match {patterns}.")
    return files


def _shuffled(dataset: Any, epochs: Any, shuffle: bool, size: int, seed: Any) -> Any:
    if shuffle:
        dataset = dataset.shuffle(size, seed)
    return dataset if epochs == 1 else dataset.repeat(epochs)


def _named(names: list[str], label: str | None) -> Callable:
    def columns(*values: Any) -> Any:
        features = collections.OrderedDict(zip(names, values, strict=True))
        return features if label is None else (features, features.pop(label))
    return columns


@export(v1=["data.experimental.make_csv_dataset"])
def make_csv_dataset_v1(file_pattern: Any, batch_size: Any, column_names: Any = None, column_defaults: Any = None,
                        label_name: str | None = None, select_columns: Any = None, field_delim: str = ",",
                        use_quote_delim: bool = True, na_value: str = "", header: bool = True, num_epochs: Any = None,
                        shuffle: bool = True, shuffle_buffer_size: int = 10000, shuffle_seed: Any = None,
                        prefetch_buffer_size: Any = None, num_parallel_reads: Any = None, sloppy: bool = False,
                        num_rows_for_inference: Any = 100, compression_type: Any = None, ignore_errors: bool = False,
                        encoding: str = "utf-8") -> Any:
    """A dataset of batches of the columns of CSV files, as dicts; with `label_name`, as pairs of a dict and a label."""
    return as_v1(make_csv_dataset(
        file_pattern, batch_size, column_names, column_defaults, label_name, select_columns, field_delim, use_quote_delim,
        na_value, header, num_epochs, shuffle, shuffle_buffer_size, shuffle_seed, prefetch_buffer_size, num_parallel_reads,
        sloppy, num_rows_for_inference, compression_type, ignore_errors, encoding))
