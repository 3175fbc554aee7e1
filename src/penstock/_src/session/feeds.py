"""Feeds: converts the caller's values to run-time values, checked against dtype and static shape.

It is the first part of a step (session.py); fetches.py resolves the keys of a feed_dict to tensors.
"""
from __future__ import annotations

import reprlib
from typing import Any

import numpy as np

from penstock._src.base import dtypes
from penstock._src.graph.node import Tensor
from penstock._src.kernels import bridge


def fed_value(engine: Any, tensor: Tensor, value: Any) -> Any:
    """`value` as the run-time value of `tensor` in a step of `engine`."""
    dtype = tensor.dtype
    if hasattr(value, "_session_value"):
        return value._session_value(engine, tensor)
    if isinstance(value, Tensor) and not hasattr(value, "_value"):
        raise TypeError("The value of a feed cannot be a tf.Tensor object. Acceptable feed values include Python "
                        "scalars, strings, lists, numpy ndarrays, or TensorHandles. For reference, the tensor object "
                        f"was {value} which was passed to the feed with key {tensor}.")
    if dtype.torch is None:
        return _object(tensor, value)
    base = dtype.np
    if isinstance(value, int) and not isinstance(value, bool) and dtype.is_integer and \
            not dtype.base_dtype.min <= value <= dtype.base_dtype.max:
        raise TypeError(f"Type of feed value {value} with type {type(value)} is not compatible with Tensor type "
                        f"{base}. Try explicitly setting the type of the feed tensor to a larger type (e.g. int64).")
    if type(value) is np.ndarray and value.dtype == base:
        array = value
    else:
        try:
            array = dtypes.exact_cast(np.asarray(value), base) if isinstance(value, (np.ndarray, np.generic)) \
                else np.asarray(value, dtype=base)
        except (TypeError, ValueError, OverflowError) as e:
            kind = TypeError if isinstance(e, TypeError) else ValueError
            raise kind(f"Cannot feed {reprlib.repr(value)} for Tensor {tensor.name!r} of type {dtype.name}: {e}") from None
    check_shape(tensor, array.shape)
    return bridge.to_torch(array, dtype.base_dtype)


def _object(tensor: Tensor, value: Any) -> Any:
    """The run-time value of a string, a resource or a variant."""
    if tensor.dtype.base_dtype.name == "string":
        if isinstance(value, (int, float)):
            raise TypeError(f"Type of feed value {value} with type {type(value)} is not compatible with Tensor type "
                            f"{tensor.dtype.as_numpy_dtype}. Feed text or bytes.")
        array = bridge.string_array(np.array(value, dtype=object) if not isinstance(value, np.ndarray) else value)
        check_shape(tensor, array.shape)
        return array
    return value._value if hasattr(value, "_value") else value


def check_shape(tensor: Tensor, shape: tuple) -> None:
    """ValueError if a value of this shape cannot be fed for `tensor`."""
    dims = tensor.static_dims
    if dims is not None and dims != shape and (
            len(dims) != len(shape) or any(d is not None and d != n for d, n in zip(dims, shape, strict=True))):
        raise ValueError(f"Cannot feed value of shape {shape} for Tensor {tensor.name!r}, which has shape "
                         f"{str(tensor.shape)!r}{tensor.op.made_note}")
    graph = tensor.op.graph
    if graph._unfeedable and not graph.is_feedable(tensor):
        raise ValueError(f"Tensor {tensor} may not be fed.")
