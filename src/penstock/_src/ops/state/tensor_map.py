"""Maps from tensors to tensors as values (dtype variant), like TensorLists. A map is immutable: edits copy it."""
from __future__ import annotations

from typing import Any

import numpy as np
import torch

from penstock._src.base import errors
from penstock._src.ops.control.control_flow import cond
from penstock._src.ops.registry import get, op


class TensorMap:
    """The run-time value of a map: keys are compared by type, shape and content."""

    __slots__ = ("items",)

    def __init__(self, items: dict):
        self.items = items                   # content of a key -> (key, value)

    def zeros_like(self) -> TensorMap:
        """An empty map, which adds nothing."""
        return TensorMap({})

    def add(self, other: TensorMap) -> TensorMap:
        """The keys of both, with the sum where both have one."""
        merged = dict(self.items)
        for content, (key, value) in other.items.items():
            merged[content] = (key, merged[content][1] + value) if content in merged else (key, value)
        return TensorMap(merged)


def _map(handle: Any) -> TensorMap:
    if isinstance(handle, np.ndarray) and handle.size == 1:
        handle = handle.reshape(-1)[0]
    if not isinstance(handle, TensorMap):
        raise errors.invalid(f"Input handle is not a map. Saw: '{type(handle).__name__}'")
    return handle


def _content(key: Any) -> tuple:
    if isinstance(key, torch.Tensor):
        return str(key.dtype), tuple(key.shape), tuple(key.reshape(-1).tolist())
    key = np.asarray(key)
    return str(key.dtype), key.shape, tuple(key.reshape(-1).tolist())


empty_map = op("EmptyTensorMap", "-> handle: variant").no_gradient()
map_size = op("TensorMapSize", "input_handle: variant -> size: int32").no_gradient()
map_has_key = op("TensorMapHasKey", "input_handle: variant, key: key_dtype -> has_key: bool", "key_dtype: type").no_gradient()
map_stack_keys = op("TensorMapStackKeys", "input_handle: variant -> keys: key_dtype", "key_dtype: type").no_gradient()
map_insert = op("TensorMapInsert", "input_handle: variant, key: key_dtype, value: value_dtype -> output_handle: variant",
                "key_dtype: type, value_dtype: type")
map_lookup = op("TensorMapLookup", "input_handle: variant, key: key_dtype -> value: value_dtype",
                "key_dtype: type, value_dtype: type")
map_erase = op("TensorMapErase", "input_handle: variant, key: key_dtype -> output_handle: variant",
               "key_dtype: type, value_dtype: type")
for _op in (empty_map, map_size):
    _op.shape(lambda *inputs: ())
for _op in (map_has_key, map_erase):
    _op.shape(lambda input_handle, key: ())
map_insert.shape(lambda input_handle, key, value: ())
map_lookup.shape(lambda input_handle, key: None)
map_stack_keys.shape(lambda input_handle: None)

empty_map.kernel(lambda: TensorMap({}))
map_size.kernel(lambda input_handle: torch.tensor(len(_map(input_handle).items), dtype=torch.int32))
map_has_key.kernel(lambda input_handle, key: torch.tensor(_content(key) in _map(input_handle).items))


@map_insert.kernel
def _insert_kernel(input_handle, key, value):
    return TensorMap({**_map(input_handle).items, _content(key): (key, value)})


@map_lookup.kernel
def _lookup_kernel(input_handle, key, *, value_dtype):
    found = _map(input_handle).items.get(_content(key))
    if found is None:
        raise errors.invalid("Trying to lookup non-existent key.")
    if isinstance(found[1], torch.Tensor) != (value_dtype.torch is not None) or \
            isinstance(found[1], torch.Tensor) and found[1].dtype != value_dtype.torch:
        raise errors.invalid(f"Key does not match requested dtype. Requested {value_dtype.name}")
    return found[1]


@map_erase.kernel
def _erase_kernel(input_handle, key):
    items = dict(_map(input_handle).items)
    if items.pop(_content(key), None) is None:
        raise errors.invalid("Trying to erase non-existent item.")
    return TensorMap(items)


@map_stack_keys.kernel
def _stack_keys_kernel(input_handle, *, key_dtype):
    keys = [key for key, _ in _map(input_handle).items.values()]
    if not keys:
        raise errors.invalid("TensorMapStackKeys cannot be called on empty map.")
    for k in keys:
        if isinstance(k, torch.Tensor) != (key_dtype.torch is not None) or \
                isinstance(k, torch.Tensor) and k.dtype != key_dtype.torch:
            raise errors.invalid("Key does not match requested dtype.")
        if tuple(k.shape) != tuple(keys[0].shape):
            raise errors.invalid("Keys must all have the same shape.")
    return torch.stack(keys) if isinstance(keys[0], torch.Tensor) else np.stack(keys)


# -- gradients: the gradient of a map is a map of gradients, which has the keys that were looked up -------------------
@map_lookup.gradient
def _lookup_gradient(op, grad):
    return map_insert(empty_map(), op.inputs[1], grad), None


@map_insert.gradient
def _insert_gradient(op, grad):
    _, key, value = op.inputs
    there = map_has_key(grad, key)
    of_map = cond(there, lambda: map_erase(grad, key, value_dtype=value.dtype), lambda: get("Identity")(grad))
    of_value = cond(there, lambda: map_lookup(grad, key, value_dtype=value.dtype), lambda: get("ZerosLike")(value))
    return of_map, None, of_value


@map_erase.gradient
def _erase_gradient(op, grad):
    return grad, None
