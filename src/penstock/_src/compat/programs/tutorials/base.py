"""`contrib.learn.datasets.base`: data sets as tuples, CSV files, and downloads."""
from __future__ import annotations

import collections
import csv
import os
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import penstock.compat.v1 as tf
from penstock._src.io.download import download

Dataset = collections.namedtuple("Dataset", ["data", "target"])
Datasets = collections.namedtuple("Datasets", ["train", "validation", "test"])


def load_csv_with_header(filename: Any, target_dtype: Any, features_dtype: Any, target_column: int = -1) -> Dataset:
    """A CSV file whose first line has the numbers of rows and columns, as the iris tutorial has it."""
    with tf.gfile.Open(filename) as file:
        rows = csv.reader(file)
        header = next(rows)
        data, target = _split(rows, target_column)
    if len(target) != int(header[0]):
        raise ValueError(f"{filename} should have {header[0]} rows, and has {len(target)}")
    return Dataset(np.asarray(data, dtype=features_dtype), np.asarray(target).astype(target_dtype))


def load_csv_without_header(filename: Any, target_dtype: Any, features_dtype: Any, target_column: int = -1) -> Dataset:
    """A CSV file of rows alone."""
    with tf.gfile.Open(filename) as file:
        data, target = _split(csv.reader(file), target_column)
    return Dataset(np.asarray(data, dtype=features_dtype), np.asarray(target).astype(target_dtype))


def _split(rows: Any, column: int) -> tuple[list, list]:
    data, target = [], []
    for row in rows:
        target.append(row.pop(column))
        data.append(row)
    return data, target


def shrink_csv(filename: str, ratio: int) -> None:
    """Writes every `ratio`-th line of a CSV file beside it, as `<name>_small.csv`."""
    with tf.gfile.Open(filename) as file, tf.gfile.Open(filename.replace(".", "_small."), "w") as small:
        small.write("".join(line for k, line in enumerate(file) if k % ratio == 0))


def retry(initial_delay: float, max_delay: float, factor: float = 2.0, jitter: float = 0.25,
          is_retriable: Callable | None = None) -> Callable:
    """A decorator that calls again after an error, waiting longer each time, as long as `is_retriable(error)`."""
    def decorate(function: Callable) -> Callable:
        def call(*args: Any, **kwargs: Any) -> Any:
            delay = initial_delay
            while True:
                try:
                    return function(*args, **kwargs)
                except Exception as error:
                    if is_retriable is None or not is_retriable(error) or delay > max_delay:
                        raise
                time.sleep(delay * (1 + jitter * np.random.uniform(-1, 1)))
                delay *= factor
        return call
    return decorate


def urlretrieve_with_retry(url: str, filename: str | None = None) -> tuple[str, Any]:
    """Downloads a file; returns its path and headers, which are empty: the download may have taken several connections."""
    target = filename or os.path.join(tempfile.mkdtemp(), os.path.basename(url))
    download(url, target)
    return target, {}


def maybe_download(filename: str, work_directory: str, source_url: str) -> str:
    """The path of a file in a folder; it is fetched from `source_url` if it does not exist.

    >>> maybe_download("train-images-idx3-ubyte.gz", "MNIST_data", "https://storage.googleapis.com/cvdf-datasets/mnist/")
    """
    tf.gfile.MakeDirs(work_directory)
    path = os.path.join(work_directory, filename)
    if not tf.gfile.Exists(path):
        try:
            urlretrieve_with_retry(source_url, path)
        except OSError as e:
            raise FileNotFoundError(f"{path} is not there, and cannot be fetched from {source_url}: {e}. "
                                    f"Put the file there and run the program again.") from e
        print("Successfully downloaded", filename, os.path.getsize(path), "bytes.")
    return path
