"""Datasets of numpy files in the cache (`~/.keras/datasets`), downloaded when they are missing.

Downloads are verified by checksum. A file that is already there is used unchanged.
"""
from __future__ import annotations

import gzip
import json
import os
from typing import Any

import numpy as np

from penstock._src.base.api import export
from penstock._src.models.keras import backend as K
from penstock._src.models.keras.backend.config import keras_home
from penstock._src.models.keras.datasets.object_arrays import Plain, load
from penstock._src.models.keras.preprocessing.sequence import _remove_long_seq
from penstock._src.models.keras.utils.file_cache import fetch, get_file
from penstock._src.tools.digits import load as load_digits

_ORIGIN = "https://storage.googleapis.com/tensorflow/tf-keras-datasets/"
_CHECKSUMS = {
    "mnist.npz": "731c5ac602752760c8e48fbffcf8c3b850d9dc2a2aedcf2cc48468fc17b673d1",
    "boston_housing.npz": "f553886a1f8d56431e820c5b82552d9d95cfcb96d1e678153f8839538947dff5",
    "imdb.npz": "69664113be75683a8fe16e3ed0ab59fda8886cb3cd7ada244f7d9544e4676b9f",
    "imdb_word_index.json": "bfafd718b763782e994055a2d397834f",
    "reuters.npz": "d6586e694ee56d7a4e65172e12b3e987c03096cb01eab99753921ef915959916",
    "reuters_word_index.json": "4d44cc38712099c9e383dc6e5f11a921",
}
Split = tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def _file(path: str, name: str) -> str:
    """The path of a dataset's file in the cache, downloaded if it is missing."""
    found = os.path.join(keras_home(), "datasets", path)
    if not os.path.exists(found):
        fetch(_ORIGIN + name, found, _CHECKSUMS[name])
    return found


@export("keras.datasets.mnist.load_data")
def mnist(path: str = "mnist.npz") -> Split:
    """Handwritten digits: 60000 images of 28 x 28 for training, 10000 for tests.

    Args:
        path: Name of the file in `~/.keras/datasets`; it is downloaded when it does not exist.

    Returns:
        `(x_train, y_train), (x_test, y_test)`: uint8 arrays.

    >>> (x_train, y_train), (x_test, y_test) = tf.keras.datasets.mnist.load_data()    # doctest: +SKIP
    >>> x_train.shape, y_test.shape    # doctest: +SKIP
    """
    with np.load(_file(path, "mnist.npz"), allow_pickle=False) as f:
        return (f["x_train"], f["y_train"]), (f["x_test"], f["y_test"])


@export("keras.datasets.fashion_mnist.load_data")
def fashion_mnist() -> Split:
    """Pieces of clothing: 60000 images of 28 x 28 for training, 10000 for tests."""
    def read(name: str, head: int) -> np.ndarray:
        path = get_file(name, _ORIGIN + name, cache_subdir=os.path.join("datasets", "fashion-mnist"))
        with gzip.open(path, "rb") as f:
            return np.frombuffer(f.read(), np.uint8, offset=head)
    made = []
    for part in ("train", "t10k"):
        labels = read(f"{part}-labels-idx1-ubyte.gz", 8)
        made.append((read(f"{part}-images-idx3-ubyte.gz", 16).reshape(len(labels), 28, 28), labels))
    return made[0], made[1]


@export("keras.datasets.boston_housing.load_data")
def boston_housing(path: str = "boston_housing.npz", test_split: float = 0.2, seed: int = 113) -> Split:
    """House prices in Boston in the 1970s: 13 attributes and a price per district."""
    if not 0 <= test_split < 1:
        raise ValueError(f"test_split must be in [0, 1). Received: {test_split}")
    with np.load(_file(path, "boston_housing.npz"), allow_pickle=False) as f:
        x, y = f["x"], f["y"]
    order = np.random.RandomState(seed).permutation(len(x))
    x, y = x[order], y[order]
    cut = int(len(x) * (1 - test_split))
    return (x[:cut], y[:cut]), (x[cut:], y[cut:])


# -- CIFAR: pickles in an archive, of which only data are made -----------------------------------------------------------
def _cifar_folder(name: str, archive: str) -> str:
    """The folder of the batches in the cache: unpacked already, or from the archive under either of its names."""
    for folder in (name, os.path.join(f"{name}-target", name)):         # the second is where Keras 3 unpacks
        if os.path.isdir(path := os.path.join(keras_home(), "datasets", folder)):
            return path
    original = os.path.join(keras_home(), "datasets", f"{archive}.tar.gz")
    origin = f"file://{original}" if os.path.exists(original) else f"https://www.cs.toronto.edu/~kriz/{archive}.tar.gz"
    return get_file(name, origin, untar=True)


def load_batch(fpath: Any, label_key: str = "labels") -> tuple[np.ndarray, np.ndarray]:
    """Images and labels of a batch file of CIFAR. The pickle is untrusted: only arrays and lists are created from it."""
    with open(fpath, "rb") as f:
        made = Plain(f, encoding="bytes").load()
    batch = {k.decode() if isinstance(k, bytes) else k: v for k, v in made.items()} if isinstance(made, dict) else {}
    images = batch.get("data")
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8 or label_key not in batch:
        raise ValueError(f"{fpath} is not a batch file of CIFAR: no images, or no {label_key}.")
    return images.reshape(-1, 3, 32, 32), np.array(batch[label_key])


def _channels(x: np.ndarray) -> np.ndarray:
    return x.transpose(0, 2, 3, 1) if K.image_data_format() == "channels_last" else x


@export("keras.datasets.cifar10.load_data")
def cifar10() -> Split:
    """Small pictures in 10 classes: 50000 of 32 x 32 for training, 10000 for tests."""
    folder = _cifar_folder("cifar-10-batches-py", "cifar-10-python")
    parts = [load_batch(os.path.join(folder, f"data_batch_{i}")) for i in range(1, 6)]
    x, y = np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])
    x_test, y_test = load_batch(os.path.join(folder, "test_batch"))
    return (_channels(x), y.reshape(-1, 1).astype("uint8")), (_channels(x_test), y_test.reshape(-1, 1).astype("uint8"))


@export("keras.datasets.cifar100.load_data")
def cifar100(label_mode: str = "fine") -> Split:
    """Small pictures in 100 classes (`fine`) or 20 (`coarse`)."""
    if label_mode not in ("fine", "coarse"):
        raise ValueError("`label_mode` must be one of `\"fine\"`, `\"coarse\"`.")
    folder = _cifar_folder("cifar-100-python", "cifar-100-python")
    made = [load_batch(os.path.join(folder, n), label_mode + "_labels") for n in ("train", "test")]
    return tuple((_channels(x), y.reshape(-1, 1)) for x, y in made)  # type: ignore[return-value]


# -- texts as numbers of words ----------------------------------------------------------------------------------------
def _ragged_rows(path: str, names: tuple[str, ...]) -> list:
    """Arrays of an .npz, of which some hold Python lists: those are read by numpy's pickle, of lists and numbers alone."""
    found = load(path)
    return [found[n] for n in names]


def _chosen(xs: Any, labels: Any, num_words: Any, skip_top: int, maxlen: Any, start_char: Any, oov_char: Any,
            index_from: int) -> tuple[list, Any]:
    """Sequences with a start, words moved by `index_from`, and rare or very frequent words taken out."""
    lead = [] if start_char is None else [start_char]
    shift = index_from if start_char is not None or index_from else 0
    xs = [[*lead, *(w + shift for w in x)] for x in xs]
    if maxlen:
        xs, labels = _remove_long_seq(maxlen, xs, labels)
        if not xs:
            raise ValueError(f"No sequence is shorter than maxlen={maxlen}. Increase maxlen.")
    limit = num_words or max(max(x) for x in xs) + 1
    if oov_char is None:
        return [[w for w in x if skip_top <= w < limit] for x in xs], labels
    return [[w if skip_top <= w < limit else oov_char for w in x] for x in xs], labels


def _objects(rows: list) -> np.ndarray:
    made = np.empty(len(rows), dtype=object)
    made[:] = rows
    return made


@export("keras.datasets.imdb.load_data")
def imdb(path: str = "imdb.npz", num_words: int | None = None, skip_top: int = 0, maxlen: int | None = None, seed: int = 113,
         start_char: int | None = 1, oov_char: int | None = 2, index_from: int = 3, **kwargs: Any) -> Split:
    """Film reviews as numbers of words, with labels 0 and 1."""
    if kwargs:
        raise TypeError(f"Unrecognized keyword arguments: {kwargs}")
    x_train, y_train, x_test, y_test = _ragged_rows(_file(path, "imdb.npz"),
                                                    ("x_train", "y_train", "x_test", "y_test"))
    rng = np.random.RandomState(seed)
    xs: list = []
    ys: list = []
    for x, y in ((x_train, y_train), (x_test, y_test)):
        order = np.arange(len(x))
        rng.shuffle(order)
        xs += [x[i] for i in order]
        ys += [y[i] for i in order]
    xs, ys = _chosen(xs, ys, num_words, skip_top, maxlen, start_char, oov_char, index_from)
    cut = min(len(x_train), len(xs))
    return (_objects(xs[:cut]), np.array(ys[:cut])), (_objects(xs[cut:]), np.array(ys[cut:]))


@export("keras.datasets.reuters.load_data")
def reuters(path: str = "reuters.npz", num_words: int | None = None, skip_top: int = 0, maxlen: int | None = None,
            test_split: float = 0.2, seed: int = 113, start_char: int | None = 1, oov_char: int | None = 2,
            index_from: int = 3, **kwargs: Any) -> Split:
    """Newswires as numbers of words, in 46 topics."""
    if kwargs:
        raise TypeError(f"Unrecognized keyword arguments: {kwargs}")
    xs, ys = _ragged_rows(_file(path, "reuters.npz"), ("x", "y"))
    order = np.arange(len(xs))
    np.random.RandomState(seed).shuffle(order)
    xs, ys = _chosen([xs[i] for i in order], [ys[i] for i in order], num_words, skip_top, maxlen, start_char, oov_char,
                     index_from)
    cut = int(len(xs) * (1 - test_split))
    return (_objects(xs[:cut]), np.array(ys[:cut])), (_objects(xs[cut:]), np.array(ys[cut:]))


def _word_index(path: str, name: str) -> dict[str, int]:
    with open(_file(path, name)) as f:
        return json.load(f)


@export("keras.datasets.imdb.get_word_index")
def imdb_word_index(path: str = "imdb_word_index.json") -> dict[str, int]:
    """The numbers of the words of the reviews."""
    return _word_index(path, "imdb_word_index.json")


@export("keras.datasets.reuters.get_word_index")
def reuters_word_index(path: str = "reuters_word_index.json") -> dict[str, int]:
    """The numbers of the words of the newswires."""
    return _word_index(path, "reuters_word_index.json")


@export("keras.datasets.digits.load_data")
def digits(test_split: float = 0.2, seed: int = 0) -> Split:
    """The UCI optical digits, which come with the package: 8 x 8 x 1 images with values from 0 to 1, and their digits.

    >>> (x_train, y_train), (x_test, y_test) = tf.keras.datasets.digits.load_data()
    """
    return load_digits(test_split, seed)
