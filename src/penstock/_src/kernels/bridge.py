"""Values between Python, numpy and torch.

A run-time value is a torch tensor, or a numpy object array of bytes for strings, or a resource object.
Conversions copy only if necessary: a writable, contiguous numpy array is shared with torch.
"""
from __future__ import annotations

import sys
from typing import Any

import ml_dtypes
import numpy as np
import torch

from penstock._src.base import dtypes

_SCALARS: dict[Any, Any] = {torch.float32: np.float32, torch.float64: np.float64, torch.int64: np.int64, torch.bool: np.bool_}
_SIMPLE = {np.dtype(t) for t in ("float32", "float64", "int32", "int64", "bool", "uint8")}       # the same in torch
_SAME = {torch.float32, torch.float64, torch.int32, torch.int64, torch.bool, torch.uint8}
_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
_EIGHT_BITS = {d.torch: np.dtype(d.as_numpy_dtype) for d in (dtypes.float8_e5m2, dtypes.float8_e4m3fn, dtypes.float8_e4m3fnuz,
                                                              dtypes.float8_e5m2fnuz)}
_storage_use_count = torch._C._storage_Use_Count


def to_torch(array: np.ndarray, dtype: Any) -> Any:
    """The run-time value of a numpy array of TF dtype `dtype`; shares memory where it can."""
    if dtype.torch is None:
        return string_array(array) if dtype == dtypes.string else array
    if array.dtype in _SIMPLE:
        return _from_numpy(array)
    if array.dtype.fields is not None:                 # quantized: one named field
        array = array[next(iter(array.dtype.fields))]
    if array.dtype == _BFLOAT16:
        return _from_numpy(array.view(np.int16)).view(torch.bfloat16)
    if array.dtype.kind == "V" or array.dtype.name.startswith("float8"):
        return _from_numpy(array.view(np.int8)).view(dtype.torch)
    return _from_numpy(array)


def _from_numpy(array: np.ndarray) -> torch.Tensor:
    if not array.flags.writeable or not array.dtype.isnative or any(s < 0 for s in array.strides):
        array = np.array(array, dtype=array.dtype.newbyteorder("="), order="C")
    return torch.from_numpy(array)


def to_numpy(value: Any, dtype: Any = None) -> Any:
    """A numpy array over a run-time value, sharing memory; the caller decides whether to copy."""
    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach().cpu().resolve_conj().resolve_neg()
    if value.dtype is torch.bfloat16:
        return value.view(torch.int16).numpy().view(_BFLOAT16)
    if dtype is not None and dtype.is_quantized:
        return value.numpy().astype(dtype.as_numpy_dtype)
    if value.dtype in _EIGHT_BITS:
        return value.view(torch.uint8).numpy().view(_EIGHT_BITS[value.dtype])
    return value.numpy()


def fetched(value: Any) -> Any:
    """A numpy result that the user owns: copied if anything else references the memory; quantized values are integers."""
    if isinstance(value, torch.Tensor):
        if not value.ndim and value.dtype in _SCALARS:
            return _shared(value)[()] if value.is_cpu else _SCALARS[value.dtype](value.item())
        # This frame and its caller's argument hold `value`; a view of it would hold the storage.
        shared = sys.getrefcount(value) > 3 or _storage_use_count(value.untyped_storage()._cdata) > 2
        if value.ndim and value.dtype in _SAME and value.is_cpu:
            return _shared(value).copy() if shared else np.ascontiguousarray(_shared(value))
        array = to_numpy(value)
        if shared and array.size and np.shares_memory(array, _alias(value)):
            array = array.copy()
        return np.ascontiguousarray(array) if array.ndim else array[()]
    if isinstance(value, np.ndarray):
        return value.copy() if value.ndim else value[()]
    return value


def _shared(value: torch.Tensor) -> np.ndarray:
    """A numpy array over a tensor on the host of a dtype that numpy has, in one call: each call of torch may wait for the lock
    of Python."""
    try:
        return value.numpy()
    except RuntimeError:                         # part of a conjugate, or differentiable
        return to_numpy(value)


def _alias(value: torch.Tensor) -> np.ndarray:
    value = value.detach().cpu()
    if value.dtype in _EIGHT_BITS:
        return value.view(torch.uint8).numpy()
    return value.view(torch.int16).numpy() if value.dtype is torch.bfloat16 else value.resolve_conj().numpy()


def exclusive(holder: Any) -> bool:
    """Whether `holder` has the only reference to `holder.value`, so that it may be written in place."""
    value = holder.value
    return sys.getrefcount(value) <= 3 and _storage_use_count(value.untyped_storage()._cdata) <= 2


def string_array(value: Any) -> np.ndarray:
    """A numpy object array of bytes from text, bytes or nested lists of them."""
    array = np.asarray(value)
    if array.dtype.kind == "U":
        flat = [s.encode("utf-8", "surrogateescape") for s in array.ravel().tolist()]
    elif array.dtype.kind == "S":
        # numpy strips trailing NULs of fixed-width bytes; lists of bytes come through object arrays.
        flat = array.ravel().tolist()
    else:
        flat = [s.encode("utf-8", "surrogateescape") if isinstance(s, str) else s for s in array.ravel().tolist()]
    for s in flat:
        if not isinstance(s, bytes):
            raise TypeError(f"Expected binary or unicode string, got {s!r}")
    out = np.empty(len(flat), dtype=object)
    out[:] = flat
    return out.reshape(array.shape)


def object_array(value: Any) -> np.ndarray:
    """`np.array(value, dtype=object)` that keeps bytes whole and rejects ragged nesting."""
    return np.array(value, dtype=object)
