"""`tensorflow.examples.tutorials.mnist.input_data`: MNIST from its four files, in batches.

    >>> from tensorflow.examples.tutorials.mnist import input_data
    >>> mnist = input_data.read_data_sets("MNIST_data", one_hot=True)
    >>> images, labels = mnist.train.next_batch(100)
"""
from __future__ import annotations

import gzip
import os
from typing import Any

import numpy as np

import penstock.compat.v1 as tf
from penstock._src.compat.programs.tutorials.base import Datasets, maybe_download  # noqa: F401

DEFAULT_SOURCE_URL = "https://storage.googleapis.com/cvdf-datasets/mnist/"
SOURCE_URL = DEFAULT_SOURCE_URL
FILES = ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz")
MAXIMUM_BYTES = 1 << 32


def _read_idx(file: Any, magic: int, dimensions: int) -> np.ndarray:
    """The array of an IDX file, compressed or not: a header with its sizes, then bytes."""
    with gzip.GzipFile(fileobj=file) if _is_compressed(file) else file as stream:
        header = np.frombuffer(stream.read(4 * (1 + dimensions)), dtype=">u4")
        if len(header) != 1 + dimensions or header[0] != magic:
            raise ValueError(f"Invalid magic number in MNIST file {getattr(file, 'name', '')}: "
                             f"{header[0] if len(header) else None}, expected {magic}")
        sizes = [int(n) for n in header[1:]]
        total = int(np.prod(sizes, dtype=np.float64))
        if total > MAXIMUM_BYTES:
            raise ValueError(f"MNIST file {getattr(file, 'name', '')} claims to hold {total} bytes")
        content = stream.read(total)
        if len(content) != total:
            raise ValueError(f"MNIST file {getattr(file, 'name', '')} holds {len(content)} of {total} bytes")
        return np.frombuffer(content, dtype=np.uint8).reshape(sizes)


def _is_compressed(file: Any) -> bool:
    start = file.read(2)
    file.seek(0)
    return start == b"\x1f\x8b"


def extract_images(f: Any) -> np.ndarray:
    """Images as bytes, of shape [number, rows, columns, 1], from an open IDX file."""
    return _read_idx(f, 2051, 3)[..., np.newaxis]


def extract_labels(f: Any, one_hot: bool = False, num_classes: int = 10) -> np.ndarray:
    """Labels, as numbers or one-hot, from an open IDX file."""
    labels = _read_idx(f, 2049, 1)
    return dense_to_one_hot(labels, num_classes) if one_hot else labels


def dense_to_one_hot(labels_dense: np.ndarray, num_classes: int) -> np.ndarray:
    """Labels as rows with one 1."""
    return np.eye(num_classes)[labels_dense.ravel()]


class DataSet:
    """Images and labels, returned in batches, in another order each epoch."""

    def __init__(self, images: Any, labels: Any, fake_data: bool = False, one_hot: bool = False, dtype: Any = tf.float32,
                 reshape: bool = True, seed: int | None = None):
        dtype = tf.as_dtype(dtype).base_dtype
        if dtype not in (tf.uint8, tf.float32):
            raise TypeError(f"Invalid image dtype {dtype!r}, expected uint8 or float32")
        if seed is not None:
            np.random.seed(seed)
        self.one_hot, self._fake = one_hot, fake_data
        self._epochs_completed = self._index = 0
        if fake_data:
            self._num_examples, self._images, self._labels = 10000, images, labels
            return
        if len(images) != len(labels):
            raise ValueError(f"images.shape: {images.shape} labels.shape: {labels.shape}")
        if reshape:
            images = images.reshape(len(images), int(np.prod(images.shape[1:])))
        if dtype == tf.float32:
            images = images.astype(np.float32) * np.float32(1.0 / 255.0)
        self._num_examples, self._images, self._labels = len(images), images, labels

    images = property(lambda self: self._images, doc="All images.")
    labels = property(lambda self: self._labels, doc="All labels.")
    num_examples = property(lambda self: self._num_examples, doc="The number of examples.")
    epochs_completed = property(lambda self: self._epochs_completed, doc="The number of completed epochs.")

    def next_batch(self, batch_size: int, fake_data: bool = False, shuffle: bool = True) -> tuple[Any, Any]:
        """The next images and labels; the rest of an epoch is completed with the beginning of the next one."""
        if fake_data or self._fake:
            return [[1] * 784] * batch_size, [([1] + [0] * 9) if self.one_hot else 0] * batch_size
        start = self._index
        if self._epochs_completed == 0 and start == 0 and shuffle:
            self._shuffle()
        self._index = start + batch_size
        if self._index <= self._num_examples:
            return self._images[start:self._index], self._labels[start:self._index]
        self._epochs_completed += 1
        rest = self._images[start:], self._labels[start:]
        if shuffle:
            self._shuffle()
        self._index = batch_size - len(rest[0])
        return np.concatenate([rest[0], self._images[:self._index]]), np.concatenate([rest[1], self._labels[:self._index]])

    def _shuffle(self) -> None:
        order = np.random.permutation(self._num_examples)
        self._images, self._labels = self._images[order], self._labels[order]


def _path(folder: str, name: str, source_url: str) -> str:
    """Where a file is: in the folder, compressed or not, or fetched."""
    for found in (name, name.removesuffix(".gz"), name.removesuffix(".gz").replace("-idx", ".idx")):
        if os.path.exists(os.path.join(folder, found)):
            return os.path.join(folder, found)
    return maybe_download(name, folder, (source_url or DEFAULT_SOURCE_URL) + name)


def read_data_sets(train_dir: str, fake_data: bool = False, one_hot: bool = False, dtype: Any = tf.float32,
                   reshape: bool = True, validation_size: int = 5000, seed: int | None = None,
                   source_url: str = DEFAULT_SOURCE_URL) -> Datasets:
    """MNIST from the four files in a folder: training, validation and test data."""
    if fake_data:
        fake = [DataSet([], [], fake_data=True, one_hot=one_hot, dtype=dtype, seed=seed) for _ in range(3)]
        return Datasets(*fake)
    found = []
    for name in FILES:
        path = _path(train_dir, name, source_url)
        print("Extracting", path)
        with tf.gfile.Open(path, "rb") as file:
            found.append(extract_images(file) if "images" in name else extract_labels(file, one_hot=one_hot))
    images, labels, test_images, test_labels = found
    if not 0 <= validation_size <= len(images):
        raise ValueError(f"Validation size should be between 0 and {len(images)}. Received: {validation_size}.")
    n, options = validation_size, dict(dtype=dtype, reshape=reshape, seed=seed, one_hot=one_hot)
    return Datasets(DataSet(images[n:], labels[n:], **options), DataSet(images[:n], labels[:n], **options),
                    DataSet(test_images, test_labels, **options))


def load_mnist(train_dir: str = "MNIST-data") -> Datasets:
    """`read_data_sets` of a folder."""
    return read_data_sets(train_dir)
