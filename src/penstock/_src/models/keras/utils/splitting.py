"""Data in two parts: split_dataset."""
from __future__ import annotations

import random
from typing import Any

import numpy as np

import penstock as tf
from penstock._src.base import nest
from penstock._src.base.api import export


@export("keras.utils.split_dataset")
def split_dataset(dataset: Any, left_size: Any = None, right_size: Any = None, shuffle: bool = False,
                  seed: int | None = None) -> tuple:
    """A dataset, array, or structure of arrays as two datasets.

    Args:
        dataset: What to split. A dataset of batches is split by samples, and its parts have batches of the same size.
        left_size: The number of elements of the first part, or its share between 0 and 1.
        right_size: The number or share of the second part; by default the rest.
        shuffle: Whether to shuffle before splitting.
        seed: The seed of the shuffling.

    Returns:
        Two datasets.

    Raises:
        ValueError: if the sizes exceed the data, or one part would be empty.

    >>> train, test = tf.keras.utils.split_dataset(tf.range(10).numpy(), left_size=0.8)
    >>> print(len(train), len(test))
    8 2
    """
    size = _batch_size(dataset)
    if size is not None:
        return tuple(part.batch(size) for part in split_dataset(dataset.unbatch(), left_size, right_size, shuffle, seed))
    if isinstance(dataset, tf.data.Dataset):
        elements = list(dataset)
        if shuffle:
            random.Random(seed).shuffle(elements)
        total = len(elements)
    else:
        total = len(nest.flatten(dataset)[0])
        if any(len(part) != total for part in nest.flatten(dataset)):
            raise ValueError(f"All arrays should have the same length, got {[len(part) for part in nest.flatten(dataset)]}.")
    left, right = _sizes(left_size, right_size, total)

    def part(start: int, size: int) -> Any:
        if not isinstance(dataset, tf.data.Dataset):
            rows = order[start:start + size]
            return tf.data.Dataset.from_tensor_slices(nest.map_structure(lambda a: np.asarray(a)[rows], dataset))
        if size == 0:
            return dataset.take(0)
        stacked = nest.map_structure(lambda *values: tf.stack(values), *elements[start:start + size])
        return tf.data.Dataset.from_tensor_slices(stacked)
    order = list(range(total))
    if shuffle:
        random.Random(seed).shuffle(order)                   # tf_keras's order for a seed
    return part(0, left), part(total - right, right)


def _batch_size(dataset: Any) -> int | None:
    """How many samples the elements of a dataset that `batch` returned have; None for any other."""
    size = getattr(dataset, "_batch_size", None) if isinstance(dataset, tf.data.Dataset) else None
    return None if size is None else int(size)


def _sizes(left: Any, right: Any, total: int) -> tuple[int, int]:
    """The numbers of elements; a missing one is the rest."""
    if left is None and right is None:
        raise ValueError("At least one of the `left_size` or `right_size` must be specified. Received: left_size=None and "
                         "right_size=None")
    found = []
    for name, size in (("left_size", left), ("right_size", right)):
        if isinstance(size, float) and not 0 < size < 1 or isinstance(size, int) and not 0 < size < total:
            raise ValueError(f"`{name}` should be a fraction between 0 and 1, or a number of elements between 0 and "
                             f"{total}, got {size}.")
        found.append(round(size * total) if isinstance(size, float) else size)
    a, b = found
    a, b = total - b if a is None else a, total - a if b is None else b
    if a + b > total:
        raise ValueError(f"The sum of `left_size` ({left}) and `right_size` ({right}) is more than the {total} elements.")
    return a, b
