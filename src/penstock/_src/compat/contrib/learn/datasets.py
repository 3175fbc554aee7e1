"""Small data sets and helpers to read them: CSV files, synthetic shapes, MNIST in its files."""
from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from penstock._src.base.api import export
from penstock._src.compat.programs.tutorials import input_data, text_datasets
from penstock._src.compat.programs.tutorials.base import Dataset

_TOP = ("contrib.learn.datasets", "contrib.learn.python.learn.datasets")


def _later(module: str, *names: str) -> None:
    """Names of a module of the tutorials' data sets, which is loaded when one of them is requested."""
    for name in names:
        source = f"penstock._src.compat.programs.tutorials.{module}"
        export.later(lambda name=name, source=source: getattr(importlib.import_module(source), name),
                     v1=[f"{p}.{'mnist' if module == 'input_data' else module}.{name}" for p in _TOP])


_later("base", "Dataset", "Datasets", "load_csv_with_header", "load_csv_without_header", "shrink_csv", "maybe_download")
_later("text_datasets", "load_dbpedia", "maybe_download_dbpedia")
_later("input_data", "read_data_sets", "DataSet", "extract_images", "extract_labels", "dense_to_one_hot")


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


@export(v1=[f"{p}.load_dataset" for p in _TOP])
def load_dataset(name: str, size: str = "small", test_with_fake_data: bool = False) -> Any:
    """A data set that is read from files: `dbpedia` or `mnist`."""
    if name == "dbpedia":
        return text_datasets.load_dbpedia(size, test_with_fake_data)
    if name == "mnist":
        return input_data.read_data_sets("MNIST-data")
    raise ValueError(f"Name of dataset is not found: {name}. There are dbpedia and mnist.")


@export(v1=[f"{p}.make_dataset" for p in _TOP])
def make_dataset(name: str, n_samples: int = 100, noise: float | None = None, seed: int = 42, *args: Any,
                 **kwargs: Any) -> Dataset:
    """One of the synthetic data sets, by name."""
    if name not in SYNTHETIC:
        raise ValueError(f"There is no synthetic data set {name}")
    return SYNTHETIC[name](n_samples=n_samples, noise=noise, seed=seed, **kwargs)

