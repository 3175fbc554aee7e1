"""Small numpy functions of tf.keras.utils."""
from __future__ import annotations

from typing import Any

import numpy as np

from penstock._src.base.api import export


@export("keras.utils.to_categorical")
def to_categorical(y: Any, num_classes: int | None = None, dtype: Any = "float32") -> np.ndarray:
    """Numbers of classes as one-hot rows.

    Args:
        y: Class numbers.
        num_classes: Number of classes, by default the largest number plus 1.
        dtype: Element type of the result.

    Returns:
        A numpy array with one axis more than `y`.

    >>> tf.keras.utils.to_categorical([0, 2])
    array([[1., 0., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    y = np.array(y, dtype="int")
    shape = y.shape[:-1] if y.ndim > 1 and y.shape[-1] == 1 else y.shape
    flat = y.ravel()
    count = num_classes or int(flat.max()) + 1
    made = np.zeros((flat.size, count), dtype=dtype)
    made[np.arange(flat.size), flat] = 1
    return made.reshape(*shape, count)


@export("keras.utils.to_ordinal")
def to_ordinal(y: Any, num_classes: int | None = None, dtype: Any = "float32") -> np.ndarray:
    """Numbers of ordered classes as rows with as many ones in front.

    >>> tf.keras.utils.to_ordinal([0, 1, 2])
    array([[0., 0.], [1., 0.], [1., 1.]], dtype=float32)
    """
    y = np.array(y, dtype="int")
    shape = y.shape[:-1] if y.ndim > 1 and y.shape[-1] == 1 else y.shape
    count = num_classes or int(y.max()) + 1
    return (np.arange(count - 1) < y.reshape(-1, 1)).astype(dtype).reshape(*shape, count - 1)


@export("keras.utils.normalize")
def normalize(x: Any, axis: int = -1, order: int = 2) -> np.ndarray:
    """An array divided by its norms along an axis.

    Args:
        x: The array.
        axis: The axis.
        order: The order of the norm; 2 is Euclid's.

    Returns:
        A NumPy array of the same shape.

    >>> tf.keras.utils.normalize([[3.0, 4.0]])
    array([[0.6, 0.8]])
    """
    norms = np.atleast_1d(np.linalg.norm(x, order, axis))
    norms[norms == 0] = 1
    return x / np.expand_dims(norms, axis)
