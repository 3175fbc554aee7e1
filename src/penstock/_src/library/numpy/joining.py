"""Joining and splitting arrays."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import penstock as tf
from penstock._src.library.numpy.shaping import _padded
from penstock._src.library.numpy.types import name, promoted, static, tensor, value


def _all(arrays: Any) -> list:
    return promoted(*arrays) if isinstance(arrays, (list, tuple)) else tf.unstack(tensor(arrays))


@name("concatenate")
def concatenate(arys: Any, axis: Any = 0) -> Any:
    """Arrays concatenated along an axis."""
    if not isinstance(arys, (list, tuple)):
        arys = [arys]
    if not arys:
        raise ValueError("Need at least one array to concatenate.")
    arrays = _all(arys)
    return tf.concat([tf.reshape(a, [-1]) for a in arrays] if axis is None else arrays, 0 if axis is None else axis)


@name("stack")
def stack(arrays: Any, axis: int = 0) -> Any:
    """Arrays along a new axis."""
    if isinstance(arrays, (tf.Tensor, np.ndarray)):
        return tensor(arrays) if axis == 0 else tf.stack(tf.unstack(tensor(arrays)), axis)
    return tf.stack(_all(arrays), axis)


@name("hstack")
def hstack(tup: Any) -> Any:
    """Arrays side by side."""
    arrays = [_padded(a, 1) for a in _all(tup)]
    return tf.concat(arrays, 0 if arrays[0].shape.rank == 1 else 1)


@name("vstack")
def vstack(tup: Any) -> Any:
    """Arrays one below the other."""
    return tf.concat([_padded(a, 2) for a in _all(tup)], 0)


@name("dstack")
def dstack(tup: Any) -> Any:
    """Arrays along the third axis."""
    return tf.concat([_padded(a, 3) for a in _all(tup)], 2)


@name("append")
def append(arr: Any, values: Any, axis: Any = None) -> Any:
    """Values at the end of an array."""
    return concatenate([arr, values], axis)


@name("split")
def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list:
    """Equal parts, or parts that end at the given indices."""
    return _parts(tensor(ary), indices_or_sections, axis)


def _parts(ary: Any, wanted: Any, axis: int) -> list:
    wanted = static(wanted)
    if isinstance(wanted, (int, np.integer)) or np.ndim(wanted) == 0:
        return tf.split(ary, int(wanted), axis)
    ends = [0, *np.asarray(wanted).tolist(), None]
    axis = axis % ary.shape.rank
    return [ary[(slice(None),) * axis + (slice(a, b),)] for a, b in zip(ends[:-1], ends[1:], strict=True)]


def _splitter(title: str, axis: int) -> None:
    def call(ary: Any, indices_or_sections: Any) -> list:
        ary = tensor(ary)
        if ary.shape.rank is not None and ary.shape.rank <= axis and not (title == "hsplit" and ary.shape.rank == 1):
            raise ValueError(f"{title} only works on arrays of {axis + 1} or more dimensions")
        return _parts(ary, indices_or_sections, 0 if ary.shape.rank == 1 else axis)
    call.__name__, call.__doc__ = title, f"NumPy's `{title}` on tensors."
    value(call, title)


_splitter("vsplit", 0)
_splitter("hsplit", 1)
_splitter("dsplit", 2)


def _sorter(title: str, function: Callable) -> None:
    def call(a: Any, axis: Any = -1, kind: str = "quicksort", order: Any = None) -> Any:
        if kind not in ("quicksort", "stable"):
            raise ValueError(f"Invalid value for argument `kind`. Only kind='quicksort' and kind='stable' are supported. "
                             f"Received: kind={kind}")
        if order is not None:
            raise ValueError("The `order` argument is not supported. Pass order=None")
        a = tensor(a)
        return function(tf.reshape(a, [-1]), -1, kind == "stable") if axis is None else function(a, axis, kind == "stable")
    call.__name__, call.__doc__ = title, f"NumPy's `{title}` on tensors."
    value(call, title)


_sorter("sort", lambda a, axis, stable: tf.sort(a, axis))
_sorter("argsort", lambda a, axis, stable: tf.cast(tf.argsort(a, axis, stable=stable), tf.int64))
