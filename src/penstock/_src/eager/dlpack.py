"""tf.experimental.dlpack, async scopes, and other small names of eager execution."""
from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
import torch.utils.dlpack

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.graph.eager_tensor import EagerTensor
from penstock._src.graph.node import Tensor


@export("experimental.dlpack.to_dlpack")
def to_dlpack(tf_tensor: Any) -> Any:
    """A DLPack capsule that shares the memory of an eager tensor.

    >>> torch.utils.dlpack.from_dlpack(tf.experimental.dlpack.to_dlpack(x))
    """
    value = getattr(tf_tensor, "_value", None)
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"to_dlpack takes an eager tensor of numbers, not {type(tf_tensor).__name__}")
    return torch.utils.dlpack.to_dlpack(value)


@export("experimental.dlpack.from_dlpack")
def from_dlpack(dlcapsule: Any) -> Tensor:
    """An eager tensor that shares the memory of a DLPack capsule."""
    value = torch.utils.dlpack.from_dlpack(dlcapsule)
    return EagerTensor(value, dtypes.as_dtype(str(value.dtype).removeprefix("torch.")))


@export("experimental.async_scope")
@contextlib.contextmanager
def async_scope() -> Iterator[None]:
    """A scope for asynchronous execution. Ops are executed at once here, so errors are raised where they happen."""
    yield


@export("experimental.async_clear_error")
def async_clear_error() -> None:
    """Clears errors of asynchronous ops; there are none."""


@export("is_symbolic_tensor")
def is_symbolic_tensor(tensor: Any) -> bool:
    """Whether it is a tensor of a graph, which has no value yet."""
    return isinstance(tensor, Tensor) and not isinstance(tensor, EagerTensor)
