"""Datasets over files: lines, records, records of a fixed length, names that match a pattern."""
from __future__ import annotations

import os
from typing import Any

import numpy as np

from penstock._src.base import dtypes, errors
from penstock._src.base import static_shape as shapes
from penstock._src.data.pipelines import caching, csv_records, readers, sources
from penstock._src.io import paths
from penstock._src.ops.data.dataset_base import dataset, integer, number, stage_of, text
from penstock._src.ops.registry import get, op


def _names(filenames: Any) -> list[bytes]:
    if not isinstance(filenames, np.ndarray) or filenames.ndim > 1:
        raise errors.invalid("`filenames` must be a scalar or a vector.")
    return filenames.reshape(-1).tolist()


def _strings(stage: Any) -> Any:
    """A stage of single strings."""
    stage.types, stage.shapes = (dtypes.string,), ((),)
    return stage


_FILES = "filenames: string, compression_type: string, buffer_size: int64"


@dataset("TextLineDataset", inputs=_FILES, outputs="", stateful=True)
def _text_line_dataset(filenames, compression_type, buffer_size):
    return _strings(readers.Lines(_names(filenames), text(compression_type, "compression_type"),
                                  integer(buffer_size, "buffer_size")))


@dataset("TFRecordDataset", inputs=_FILES, outputs="", stateful=True)
def _tf_record_dataset(filenames, compression_type, buffer_size):
    return _strings(readers.Records(_names(filenames), text(compression_type, "compression_type"),
                                    integer(buffer_size, "buffer_size")))


@dataset("TFRecordDatasetV2", inputs=f"{_FILES}, byte_offsets: int64", attrs="metadata: string = ''", outputs="", stateful=True)
def _tf_record_dataset_v2_dataset(filenames, compression_type, buffer_size, byte_offsets):
    names, offsets = _names(filenames), byte_offsets.reshape(-1).tolist()
    if offsets and len(offsets) != len(names):
        raise errors.invalid(f"`byte_offsets` must be empty or have as many elements as `filenames`, got {len(offsets)} for "
                             f"{len(names)}")
    return _strings(readers.Records(names, text(compression_type, "compression_type"), integer(buffer_size, "buffer_size"),
                                    offsets))


_FIXED = "filenames: string, header_bytes: int64, record_bytes: int64, footer_bytes: int64, buffer_size: int64"


def _fixed(filenames: Any, header: Any, record: Any, footer: Any, buffer_size: Any, compression: str) -> Any:
    return _strings(readers.FixedLength(_names(filenames), integer(header, "header_bytes"), integer(record, "record_bytes"),
                                        integer(footer, "footer_bytes"), integer(buffer_size, "buffer_size"), compression))


@dataset("FixedLengthRecordDataset", inputs=_FIXED, outputs="", stateful=True)
def _fixed_length_record_dataset(filenames, header_bytes, record_bytes, footer_bytes, buffer_size):
    return _fixed(filenames, header_bytes, record_bytes, footer_bytes, buffer_size, "")


@dataset("FixedLengthRecordDatasetV2", inputs=f"{_FIXED}, compression_type: string", outputs="", stateful=True)
def _fixed_length_record_dataset_v2_dataset(filenames, header_bytes, record_bytes, footer_bytes, buffer_size, compression_type):
    return _fixed(filenames, header_bytes, record_bytes, footer_bytes, buffer_size, text(compression_type, "compression_type"))


@dataset("LMDBDataset", "ExperimentalLMDBDataset", inputs="filenames: string", stateful=True)
def _lmdb_dataset(filenames):
    return readers.Lmdb(_names(filenames))


@dataset("MatchingFilesDataset", "ExperimentalMatchingFilesDataset", inputs="patterns: string", outputs="", stateful=True)
def _matching_files_dataset(patterns):
    found: list = []
    for pattern in _names(patterns):
        matching = sorted(paths.glob(pattern))
        if not matching:
            raise errors.NotFoundError(None, None, "Didn't find any matching files")
        found.extend(os.fsencode(name) for name in matching)
    column = np.empty(len(found), dtype=object)
    column[:] = sorted(found)
    return _strings(sources.Slices([column]))


def _cache(input_dataset: Any, filename: Any, store: Any = None) -> Any:
    name = text(filename, "filename")
    source = stage_of(input_dataset)
    return caching.FileCache(source, name) if name else caching.MemoryCache(source, store)


@dataset("CacheDataset", inputs="input_dataset: variant, filename: string")
def _cache_dataset(input_dataset, filename):
    return _cache(input_dataset, filename)


@dataset("CacheDatasetV2", inputs="input_dataset: variant, filename: string, cache: resource", stateful=True)
def _cache_dataset_v2_dataset(input_dataset, filename, cache):
    return _cache(input_dataset, filename, cache if isinstance(cache, caching.Store) else None)


@dataset("SnapshotDataset", inputs="input_dataset: variant, path: string",
         attrs="compression: string = '', reader_path_prefix: string = '', writer_path_prefix: string = '', "
               "shard_size_bytes: int = 10737418240, pending_snapshot_expiry_seconds: int = 86400, "
               "num_reader_threads: int = 1, reader_buffer_size: int = 1, num_writer_threads: int = 1, "
               "writer_buffer_size: int = 1, shuffle_on_read: bool = False, seed: int = 0, seed2: int = 0, "
               "mode: string = 'auto', snapshot_name: string = ''")
def _snapshot_dataset(input_dataset, path, *, mode):
    if mode not in ("", "auto", b"", b"auto"):
        raise errors.UnimplementedError(None, None, f"SnapshotDataset has the mode 'auto', not {mode!r}")
    folder = text(path, "path")
    paths.makedirs(folder)
    return caching.FileCache(stage_of(input_dataset), paths.join(folder, "snapshot"), one_writes=True)


# The memory of caches. That of the dummy is not shared: each dataset with it has a separate one.
anonymous_memory_cache = op("AnonymousMemoryCache", "-> handle: resource, deleter: variant", stateful=True).no_gradient()
anonymous_memory_cache.shape(lambda: [(), ()])
anonymous_memory_cache.kernel(lambda: (caching.Store(),) * 2, device="cpu")
dummy_memory_cache = op("DummyMemoryCache", "-> handle: resource", stateful=True).no_gradient()
dummy_memory_cache.shape(lambda: ())
dummy_memory_cache.kernel(lambda: object(), device="cpu")
delete_memory_cache = op("DeleteMemoryCache", "handle: resource, deleter: variant ->", stateful=True).no_gradient()
delete_memory_cache.shape(lambda handle, deleter: [])


@delete_memory_cache.kernel(device="cpu")
def _delete_memory_cache_kernel(handle, deleter):
    if isinstance(handle, caching.Store):
        handle.kept = None


@dataset("SqlDataset", "ExperimentalSqlDataset", inputs="driver_name: string, data_source_name: string, query: string",
         stateful=True)
def _sql_dataset(driver_name, data_source_name, query):
    driver = text(driver_name, "driver_name")
    if driver != "sqlite":
        raise errors.invalid(f"tensorflow does not support SQL driver: {driver}. The only one is sqlite.")
    return readers.Sql(text(data_source_name, "data_source_name"), text(query, "query"))


_CSV = "output_types: list(type) in {float32 float64 int32 int64 string} >= 1, output_shapes: list(shape) >= 1"


_CSV_INPUTS = ("filenames: string, compression_type: string, buffer_size: int64, header: bool, field_delim: string, "
               "use_quote_delim: bool, na_value: string, select_cols: int64, record_defaults: output_types")


@dataset("CSVDataset", "ExperimentalCSVDataset", stateful=True, outputs=_CSV, inputs=_CSV_INPUTS)
def _csv_dataset(filenames, compression_type, buffer_size, header, field_delim, use_quote_delim, na_value, select_cols,
                 record_defaults, *, output_types):
    return csv_records.Csv(_names(filenames), text(compression_type, "compression_type"), integer(buffer_size, "buffer_size"),
                           bool(number(header, "header")), text(field_delim, "field_delim").encode(),
                           bool(number(use_quote_delim, "use_quote_delim")), text(na_value, "na_value").encode(),
                           select_cols.tolist(), output_types, [_default(d) for d in record_defaults])


def _default(value: Any) -> Any:
    """The value of a field that is empty; None if it must not be."""
    if value.ndim > 1:
        raise errors.invalid("Each record default should be at most rank 1")
    size = value.size if isinstance(value, np.ndarray) else value.numel()
    if size > 1:
        raise errors.invalid("There should only be 1 default per field")
    return None if not size else value.reshape(-1)[0] if isinstance(value, np.ndarray) else value.reshape(-1)[0].item()


@dataset("CSVDatasetV2", stateful=True, outputs=_CSV, inputs=f"{_CSV_INPUTS}, exclude_cols: int64")
def _csv_dataset_v2(*values, output_types):
    *rest, exclude_cols = values
    made, left_out = _csv_dataset(*rest, output_types=output_types), exclude_cols.tolist()
    if left_out and made.selected:
        raise errors.invalid("Either select_cols or exclude_cols should be empty")
    made.exclude(left_out)
    return made


def _csv_shape(*inputs):
    for dims in inputs[8]:
        shapes.rank_at_most(dims, 1)
    return ()


for _name in ("CSVDataset", "ExperimentalCSVDataset", "CSVDatasetV2"):
    get(_name).shape(_csv_shape)
