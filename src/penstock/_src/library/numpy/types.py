"""Types of tf.experimental.numpy: NumPy's scalar types, type promotion, and conversion to tensors by NumPy's rules.

A Python number is weak, as in NumPy: it takes the type of the arrays beside it, and is int64 or float64 alone (int32 or
float32 after `experimental_enable_numpy_behavior(prefer_float32=True)`).
"""
from __future__ import annotations

import numbers
from typing import Any

import numpy as np

import penstock as tf
from penstock._src.base.api import export

_state = {"prefer_float32": False}


def name(*names: str) -> Any:
    """Exports under tf.experimental.numpy."""
    return export(*(f"experimental.numpy.{n}" for n in names))


def value(obj: Any, *names: str) -> None:
    """Exports a value that cannot be decorated."""
    export.value(obj, *(f"experimental.numpy.{n}" for n in names))


for _name in ("complex64", "complex128", "float16", "float32", "float64", "inexact", "int8", "int16", "int32", "int64",
              "object_", "uint8", "uint16", "uint32", "uint64", "iinfo"):
    value(getattr(np, _name), _name)
for _names, _type in (("bool_", np.bool_), ("complex_", np.complex128), ("float_", np.float64), ("int_", np.int64),
                      ("string_", np.bytes_), ("unicode_", np.str_), ("ndarray", tf.Tensor), ("e", np.e), ("pi", np.pi),
                      ("inf", np.inf), ("newaxis", None), ("issubdtype", np.issubdtype)):
    value(_type, _names)


def prefer_float32(wanted: bool) -> None:
    """Sets the types of Python numbers without arrays."""
    _state["prefer_float32"] = wanted


def canonical(dtype: Any) -> np.dtype:
    """A NumPy dtype, or its 32-bit counterpart if these are preferred."""
    dtype = np.dtype(dtype.as_numpy_dtype if isinstance(dtype, tf.DType) else dtype)
    if _state["prefer_float32"]:
        return {np.dtype(np.float64): np.dtype(np.float32), np.dtype(np.complex128): np.dtype(np.complex64)}.get(dtype, dtype)
    return dtype


def default_float() -> np.dtype:
    """The default floating-point type."""
    return np.dtype(np.float32 if _state["prefer_float32"] else np.float64)


def as_dtype(dtype: Any) -> Any:
    """A tf.DType from what a caller gives as dtype, or None."""
    if dtype is None:
        return None
    if isinstance(dtype, tf.DType):
        return dtype
    return tf.as_dtype(canonical(dtype) if dtype in (float, int, complex, bool) else np.dtype(dtype))


def _kind(x: Any) -> Any:
    """The argument for np.result_type: a dtype, or a weak Python number."""
    if isinstance(x, (tf.Tensor, tf.Variable, tf.IndexedSlices)):
        return x.dtype.as_numpy_dtype
    if isinstance(x, tf.DType):
        return x.as_numpy_dtype
    if isinstance(x, (np.ndarray, np.generic)):
        return x.dtype
    if not isinstance(x, type) and hasattr(x, "__tf_tensor__"):
        return tf.convert_to_tensor(x).dtype.as_numpy_dtype
    return x


@name("result_type")
def public_result_type(*arrays_and_dtypes: Any) -> tf.DType:
    """The type that NumPy promotes these to. The numbers in a list are weak, as a number on its own is.

    >>> tf.experimental.numpy.result_type(tf.int32, 1.0)
    tf.float64
    """
    return tf.as_dtype(result_type(*arrays_and_dtypes))


def result_type(*arrays_and_dtypes: Any) -> np.dtype:
    """The type that NumPy promotes these to, as a NumPy dtype."""
    kinds: dict[Any, Any] = {}                     # one of each: NumPy takes a limited number of arguments
    for x in tf.nest.flatten(list(arrays_and_dtypes)):
        kind = _kind(x)
        kinds.setdefault(type(kind) if isinstance(kind, numbers.Number) else kind, kind)
    return canonical(np.result_type(*kinds.values()) if kinds else np.float64)


@name("promote_types")
def promote_types(type1: Any, type2: Any) -> np.dtype:
    """The smallest type that holds both."""
    return canonical(np.promote_types(canonical(type1), canonical(type2)))


@name("finfo")
def finfo(dtype: Any) -> Any:
    """The limits of a floating-point type."""
    return np.finfo(canonical(dtype))


def tensor(x: Any, dtype: Any = None) -> Any:
    """A tensor of `x`; without a dtype, by NumPy's rules."""
    dtype = as_dtype(dtype)
    if isinstance(x, (tf.Variable, tf.IndexedSlices)) or hasattr(x, "__tf_tensor__"):
        x = tf.convert_to_tensor(x)
    if isinstance(x, tf.Tensor):
        return x if dtype is None or x.dtype == dtype else tf.cast(x, dtype)
    if isinstance(x, (list, tuple)) and any(isinstance(v, (tf.Tensor, tf.Variable)) for v in tf.nest.flatten(list(x))):
        kind = dtype or tf.as_dtype(result_type(x))
        return tf.stack([tensor(v, kind) for v in x])
    array = np.asarray(x)
    wanted = dtype or tf.as_dtype(canonical(array.dtype) if not isinstance(x, (np.ndarray, np.generic)) else array.dtype)
    return tf.cast(tf.constant(array), wanted) if array.dtype != wanted.as_numpy_dtype else tf.constant(array)


def promoted(*values: Any) -> list:
    """The values as tensors of the type they promote to."""
    kind = tf.as_dtype(result_type(*values))
    return [tensor(v, kind) for v in values]


def floating(x: Any) -> Any:
    """The value as a floating-point tensor."""
    x = tensor(x)
    return x if x.dtype.is_floating or x.dtype.is_complex else tf.cast(x, default_float())


def static(x: Any) -> Any:
    """A Python or NumPy value from one that may be a tensor with a known value."""
    found = tf.get_static_value(x) if isinstance(x, (tf.Tensor, tf.Variable)) else x
    return x if found is None else found
