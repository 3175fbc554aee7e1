"""Datasets over files: lines, records, records of a fixed length, names that match a pattern."""
from __future__ import annotations

from typing import Any

import numpy as np

from penstock import dtypes, errors
from penstock.io import paths
from penstock.ops.dataset_base import dataset, integer, stage_of, text
from penstock.pipelines import caching, readers, sources


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
def _(filenames, compression_type, buffer_size):
    return _strings(readers.Lines(_names(filenames), text(compression_type, "compression_type"),
                                  integer(buffer_size, "buffer_size")))


@dataset("TFRecordDataset", inputs=_FILES, outputs="", stateful=True)
def _(filenames, compression_type, buffer_size):
    return _strings(readers.Records(_names(filenames), text(compression_type, "compression_type"),
                                    integer(buffer_size, "buffer_size")))


_FIXED = "filenames: string, header_bytes: int64, record_bytes: int64, footer_bytes: int64, buffer_size: int64"


def _fixed(filenames: Any, header: Any, record: Any, footer: Any, buffer_size: Any, compression: str) -> Any:
    return _strings(readers.FixedLength(_names(filenames), integer(header, "header_bytes"), integer(record, "record_bytes"),
                                        integer(footer, "footer_bytes"), integer(buffer_size, "buffer_size"), compression))


@dataset("FixedLengthRecordDataset", inputs=_FIXED, outputs="", stateful=True)
def _(filenames, header_bytes, record_bytes, footer_bytes, buffer_size):
    return _fixed(filenames, header_bytes, record_bytes, footer_bytes, buffer_size, "")


@dataset("FixedLengthRecordDatasetV2", inputs=f"{_FIXED}, compression_type: string", outputs="", stateful=True)
def _(filenames, header_bytes, record_bytes, footer_bytes, buffer_size, compression_type):
    return _fixed(filenames, header_bytes, record_bytes, footer_bytes, buffer_size, text(compression_type, "compression_type"))


@dataset("MatchingFilesDataset", "ExperimentalMatchingFilesDataset", inputs="patterns: string", outputs="", stateful=True)
def _(patterns):
    found: list = []
    for pattern in _names(patterns):
        matching = sorted(paths.glob(pattern))
        if not matching:
            raise errors.NotFoundError(None, None, "Didn't find any matching files")
        found.extend(name.encode() for name in matching)
    column = np.empty(len(found), dtype=object)
    column[:] = sorted(found)
    return _strings(sources.Slices([column]))


def _cache(input_dataset: Any, filename: Any) -> Any:
    name = text(filename, "filename")
    source = stage_of(input_dataset)
    return caching.FileCache(source, name) if name else caching.MemoryCache(source)


@dataset("CacheDataset", inputs="input_dataset: variant, filename: string")
def _(input_dataset, filename):
    return _cache(input_dataset, filename)


@dataset("CacheDatasetV2", inputs="input_dataset: variant, filename: string, cache: resource", stateful=True)
def _(input_dataset, filename, cache):
    return _cache(input_dataset, filename)
