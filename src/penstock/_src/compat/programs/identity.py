"""Identification as TensorFlow: its version, and the modules of classes.

Libraries call `importlib.metadata.version("tensorflow")` to find out whether TensorFlow is installed, and inspect
`type(x).__module__` to recognize a tensor or a dataset of TensorFlow without importing it.
"""
from __future__ import annotations

import importlib
import importlib.metadata
import pathlib
import re
from collections.abc import Iterable
from email.message import Message
from typing import Any

from penstock._src.base import switches

DISTRIBUTIONS = ("tensorflow", "tensorflow-cpu", "tensorflow_cpu")
CLASSES = {                     # module of ours, class: where TensorFlow has it
    ("graph.node", "Tensor"): "framework.ops",
    ("graph.eager_tensor", "EagerTensor"): "framework.ops",
    ("graph.func_graph", "FuncGraph"): "framework.func_graph",
    ("graph.sparse_tensor", "SparseTensor"): "framework.sparse_tensor",
    ("graph.indexed_slices", "IndexedSlices"): "framework.indexed_slices",
    ("library.ragged.tensor", "RaggedTensor"): "ops.ragged.ragged_tensor",
    ("data.datasets.dataset", "DatasetV2"): "data.ops.dataset_ops",
    ("data.datasets.dataset_v1", "DatasetV1"): "data.ops.dataset_ops",
}

KERASES = {                     # value of the switch, API: what an installed Keras offers as tf.keras
    ("3", "v2"): "keras._tf_keras.keras",
    ("2", "v2"): "tf_keras.api._v2.keras",
    ("2", "v1"): "tf_keras.api._v1.keras",
}


class Version(str):
    """A version that is ordered by its numbers. Programs compare it with strings (`tf.__version__ >= "2.4"`), of whose
    characters 2.21 has the smaller ones."""

    __slots__ = ()

    def __lt__(self, other: str) -> bool:
        mine, theirs = _numbers(self), _numbers(other)
        return mine < theirs if theirs else str.__lt__(self, other)

    def __le__(self, other: str) -> bool:
        mine, theirs = _numbers(self), _numbers(other)
        return mine <= theirs if theirs else str.__le__(self, other)

    def __gt__(self, other: str) -> bool:
        return not self <= other

    def __ge__(self, other: str) -> bool:
        return not self < other


def _numbers(version: Any) -> list[int]:
    """The numbers that a version begins with; 2.0 is 2."""
    found = re.match(r"\d+(\.\d+)*", version) if isinstance(version, str) else None
    numbers = [int(n) for n in found.group().split(".")] if found else []
    while len(numbers) > 1 and not numbers[-1]:
        numbers.pop()
    return numbers


class _Distribution(importlib.metadata.Distribution):
    """The distribution `tensorflow`, as far as programs inspect it: its name and its version."""

    def __init__(self, name: str, version: str):
        self._of = name, version

    def read_text(self, filename: str) -> str | None:
        """The metadata; there are no other files."""
        if filename not in ("METADATA", "PKG-INFO"):
            return None
        message = Message()
        message["Metadata-Version"] = "2.1"
        message["Name"], message["Version"] = self._of
        return message.as_string()

    def locate_file(self, path: Any) -> pathlib.Path:
        """Files are those of penstock."""
        return pathlib.Path(__file__).parent / path


def distributions(context: Any, version: str) -> Iterable[importlib.metadata.Distribution]:
    """The finder's distributions: only TensorFlow's, and only if it is requested by name."""
    return [_Distribution(context.name, version)] if context.name in DISTRIBUTIONS else []


def name_classes() -> None:
    """Sets `__module__` of the classes of tensors and datasets to TensorFlow's modules, for the rest of the process."""
    for (module, name), theirs in CLASSES.items():
        getattr(importlib.import_module(f"penstock._src.{module}"), name).__module__ = f"tensorflow.python.{theirs}"


def shared_keras(api: str) -> str | None:
    """The module of an installed Keras that `tf.keras` is (standalone_keras.share); None where it is penstock's own."""
    return KERASES.get((switches.RUN_KERAS.value(), api))
