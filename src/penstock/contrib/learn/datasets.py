"""Small data sets and helpers to read them: CSV files, synthetic shapes, MNIST in its files."""
from __future__ import annotations

import collections
import csv
import importlib
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from penstock.api import export
from penstock.compat import v1 as tf

Dataset = collections.namedtuple("Dataset", ["data", "target"])
Datasets = collections.namedtuple("Datasets", ["train", "validation", "test"])
_BASE = ("contrib.learn.datasets.base", "contrib.learn.python.learn.datasets.base")
_TOP = ("contrib.learn.datasets", "contrib.learn.python.learn.datasets")


def _base(function: Any) -> Any:
    return export(v1=[f"{p}.{function.__name__}" for p in _BASE])(function)


for _class in (Dataset, Datasets):
    export.value(_class, v1=[f"{p}.{_class.__name__}" for p in _BASE])


@_base
def load_csv_with_header(filename: str, target_dtype: Any, features_dtype: Any, target_column: int = -1) -> Dataset:
    """Features and target of a CSV file whose first line holds the number of samples and of features."""
    with tf.gfile.Open(filename) as f:
        rows = csv.reader(f)
        header = next(rows)
        samples, features = int(header[0]), int(header[1])
        data, target = np.zeros((samples, features), features_dtype), np.zeros((samples,), target_dtype)
        for i, row in enumerate(rows):
            target[i] = np.asarray(row.pop(target_column), dtype=target_dtype)
            data[i] = np.asarray(row, dtype=features_dtype)
    return Dataset(data=data, target=target)


@_base
def load_csv_without_header(filename: str, target_dtype: Any, features_dtype: Any, target_column: int = -1) -> Dataset:
    """Features and target of a CSV file."""
    data, target = [], []
    with tf.gfile.Open(filename) as f:
        for row in csv.reader(f):
            target.append(row.pop(target_column))
            data.append(np.asarray(row, dtype=features_dtype))
    return Dataset(data=np.array(data), target=np.array(target, dtype=target_dtype))


@_base
def shrink_csv(filename: str, ratio: int) -> None:
    """Writes every `ratio`-th line of a CSV file to another one, `<name>_small.csv`."""
    with tf.gfile.Open(f"{os.path.splitext(filename)[0]}_small.csv", "w") as small, \
            tf.gfile.Open(filename) as whole:
        writer = csv.writer(small)
        writer.writerows(row for i, row in enumerate(csv.reader(whole)) if i % ratio == 0)


@_base
def maybe_download(filename: str, work_directory: str, source_url: str) -> str:
    """The path of a file in a directory; it is fetched from the address if it is not there."""
    tf.gfile.MakeDirs(work_directory)
    path = os.path.join(work_directory, filename)
    if not tf.gfile.Exists(path):
        import urllib.request
        partial = path + ".part"
        with urllib.request.urlopen(source_url, timeout=60) as response, tf.gfile.Open(partial, "wb") as f:
            while block := response.read(1 << 20):
                f.write(block)
        tf.gfile.Rename(partial, path)
    return path


def _synthetic(function: Callable) -> Callable:
    places = ("contrib.learn.datasets.synthetic", "contrib.learn.python.learn.datasets.synthetic")
    return export(v1=[f"{p}.{function.__name__}" for p in places])(function)


@_synthetic
def circles(n_samples: int = 100, noise: float | None = None, seed: int | None = None, factor: float = 0.8, n_classes: int = 2,
            *args: Any, **kwargs: Any) -> Dataset:
    """Points on circles around each other, one class each."""
    if seed is not None:
        np.random.seed(seed)
    angles = np.linspace(0, 2 * np.pi, n_samples // n_classes + 1)[:-1]
    rings = [np.column_stack([np.cos(angles), np.sin(angles)]) * factor**i for i in range(n_classes)]
    return _shuffled(np.concatenate(rings), np.repeat(np.arange(n_classes), len(angles)), noise)


@_synthetic
def spirals(n_samples: int = 100, noise: float | None = None, seed: int | None = None, mode: str = "archimedes",
            n_loops: int = 2, *args: Any, **kwargs: Any) -> Dataset:
    """Points on two spirals, one class each."""
    if seed is not None:
        np.random.seed(seed)
    shapes = {"archimedes": lambda t: t, "bernoulli": lambda t: np.exp(0.1 * t), "fermat": np.sqrt}
    if mode not in shapes:
        raise ValueError(f"mode must be one of {sorted(shapes)}, got {mode}")
    t = np.linspace(0.01, 2 * n_loops * np.pi, n_samples // 2)
    radius = shapes[mode](t)
    arm = np.column_stack([radius * np.cos(t), radius * np.sin(t)])
    return _shuffled(np.concatenate([arm, -arm]), np.repeat([0, 1], len(t)), noise)


def _shuffled(data: np.ndarray, target: np.ndarray, noise: float | None) -> Dataset:
    order = np.random.permutation(len(data))
    data = data[order]
    if noise is not None and noise > 0:
        data = data + np.random.normal(scale=noise, size=data.shape)
    return Dataset(data=data, target=target[order])


SYNTHETIC = {"circles": circles, "spirals": spirals}
export.value(SYNTHETIC, v1=[f"{p}.SYNTHETIC" for p in _TOP])


@export(v1=[f"{p}.make_dataset" for p in _TOP])
def make_dataset(name: str, n_samples: int = 100, noise: float | None = None, seed: int = 42, *args: Any,
                 **kwargs: Any) -> Dataset:
    """One of the synthetic data sets, by name."""
    if name not in SYNTHETIC:
        raise ValueError(f"Synthetic dataset not found or not able to generate {name}")
    return SYNTHETIC[name](n_samples=n_samples, noise=noise, seed=seed, **kwargs)


for _place in ("contrib.learn.datasets.mnist", "contrib.learn.python.learn.datasets.mnist"):
    for _name in ("read_data_sets", "DataSet", "extract_images", "extract_labels", "dense_to_one_hot"):
        export.later(lambda _name=_name: getattr(importlib.import_module("penstock.programs.tutorials.input_data"), _name),
                     v1=[f"{_place}.{_name}"])
