"""experimental_enable_numpy_behavior: tensors get NumPy's methods, and their operators promote types as NumPy does."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import penstock as tf
from penstock._src.base.api import TABLES
from penstock._src.library.numpy.types import as_dtype, name, prefer_float32

_OPERATORS = {"add": "add", "sub": "subtract", "mul": "multiply", "truediv": "true_divide", "floordiv": "floor_divide",
              "mod": "mod", "pow": "power", "matmul": "matmul"}
_COMPARISONS = {"lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal"}


def _function(title: str) -> Callable:
    return TABLES["v2"][f"experimental.numpy.{title}"]


def _operator(title: str, swapped: bool) -> Callable:
    function = _function(title)

    def call(self: Any, other: Any) -> Any:
        if other is None or isinstance(other, str) or hasattr(other, "dense_shape") or hasattr(other, "ragged_rank"):
            return NotImplemented
        return function(other, self) if swapped else function(self, other)
    return call


def _method(function: Callable) -> Callable:
    """A function as a method; NumPy's functions call it with `out=None`."""
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("out", self) is None:
            del kwargs["out"]
        return function(self, *args, **kwargs)
    return call


def _getitem(original: Callable) -> Callable:
    """Indexing that also takes masks and arrays of integers, as NumPy's does."""
    def call(self: Any, key: Any, *args: Any) -> Any:
        keys = tuple(list(k) if isinstance(k, tuple) else k for k in (key if isinstance(key, tuple) else (key,)))
        arrays = [k for k in keys if isinstance(k, (list, np.ndarray)) or isinstance(k, tf.Tensor) and k.shape.rank]
        if not arrays:
            return original(self, key, *args)
        if len(keys) == 1:
            index = tf.convert_to_tensor(keys[0])
            return tf.boolean_mask(self, index) if index.dtype == tf.bool else tf.gather(self, _positive(index, self, 0))
        masked = any(tf.convert_to_tensor(k).dtype == tf.bool for k in arrays)
        if all(isinstance(k, (list, np.ndarray, tf.Tensor, int)) for k in keys) and not masked:
            index = [_positive(tf.convert_to_tensor(k), self, i) for i, k in enumerate(keys)]
            shape = tf.shape(index[0])
            for i in index[1:]:
                shape = tf.broadcast_dynamic_shape(shape, tf.shape(i))
            return tf.gather_nd(self, tf.stack([tf.broadcast_to(tf.cast(i, tf.int64), shape) for i in index], -1))
        out = self
        for axis, k in enumerate(keys):
            if k in arrays if not isinstance(k, (list, np.ndarray, tf.Tensor)) else True:
                index = tf.convert_to_tensor(k)
                out = tf.boolean_mask(out, index, axis=axis) if index.dtype == tf.bool else \
                    tf.gather(out, _positive(index, out, axis), axis=axis)
            else:
                out = original(out, (slice(None),) * axis + (k,))
        return out
    return call


def _positive(index: Any, array: Any, axis: int) -> Any:
    size = tf.cast(tf.shape(array)[axis], index.dtype)
    return tf.where(index < 0, index + size, index)


@name("experimental_enable_numpy_behavior")
def experimental_enable_numpy_behavior(prefer_float32: bool = False, dtype_conversion_mode: str = "legacy") -> None:
    """Gives tensors NumPy's methods (`T`, `astype`, `reshape`, ...) and operators that promote types.

    >>> tf.experimental.numpy.experimental_enable_numpy_behavior()
    >>> (tf.ones([2], tf.int32) + 1.5).dtype
    """
    if dtype_conversion_mode not in ("legacy", "off", "safe", "all"):
        raise ValueError(f"dtype_conversion_mode: The provided conversion mode {dtype_conversion_mode} does not exist.")
    _prefer(prefer_float32)
    cls = tf.Tensor
    if getattr(cls, "_numpy_behavior", False):
        return
    for op, title in _OPERATORS.items():
        setattr(cls, f"__{op}__", _operator(title, False))
        setattr(cls, f"__r{op}__", _operator(title, True))
    for op, title in _COMPARISONS.items():
        setattr(cls, f"__{op}__", _operator(title, False))
    cls.__getitem__ = _getitem(cls.__getitem__)
    cls.T = property(lambda self: tf.transpose(self), doc="The transposed array.")
    cls.size = property(lambda self: _function("size")(self), doc="The number of elements.")
    cls.ndim = property(lambda self: self.shape.rank, doc="The number of dimensions.")
    cls.data = property(lambda self: self, doc="The values.")
    cls.astype = lambda self, dtype: tf.cast(self, as_dtype(dtype))
    cls.ravel = lambda self: _function("ravel")(self)
    cls.flatten = lambda self, order="C": _function("flatten")(self, order)
    cls.clip = lambda self, a_min=None, a_max=None: _function("clip")(self, a_min, a_max)
    cls.reshape = lambda self, *newshape, **kw: _function("reshape")(
        self, newshape[0] if len(newshape) == 1 else newshape, **kw)
    cls.transpose = lambda self, *axes: _function("transpose")(
        self, None if not axes else axes[0] if len(axes) == 1 else axes)
    cls.tolist = lambda self: self.numpy().tolist()
    for title in ("all", "any", "argmax", "argmin", "max", "mean", "min", "prod", "sum", "std", "var", "cumsum", "squeeze",
                  "round", "repeat", "take", "dot"):
        setattr(cls, title, _method(_function(title)))
    cls._numpy_behavior = True


_prefer = prefer_float32
