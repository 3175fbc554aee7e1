"""The elements of datasets as numpy arrays."""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

import penstock.compat.v1 as tf
from penstock._src.base.api import export
from penstock._src.data.datasets import structure
from penstock._src.graph.trackable import Trackable


def _as_numpy(x: Any) -> Any:
    """The value of a component, which cannot be written to: it may share the tensor's memory."""
    if x is None:
        return None
    value = x._numpy() if not isinstance(x, tf.Tensor) and hasattr(x, "_numpy") else x.numpy()
    if isinstance(value, np.ndarray):
        value = value.view()
        value.flags.writeable = False
    return value


@export("data.NumpyIterator")
class NumpyIterator(Trackable):
    """The elements of a dataset as numpy arrays, see `tf.data.Dataset.as_numpy_iterator`."""

    def __init__(self, dataset: Iterable[Any]):
        self._iterator: Any = iter(dataset)

    def __repr__(self) -> str:
        return f"NumpyIterator(iterator={self._iterator!r})"

    def __iter__(self) -> NumpyIterator:
        return self

    def __next__(self) -> Any:
        return structure.map_structure(_as_numpy, next(self._iterator))

    def next(self) -> Any:
        """The next element."""
        return next(self)

    def _gather_saveables_for_checkpoint(self) -> dict:
        return self._iterator._gather_saveables_for_checkpoint()
