"""Which tensors have gradients, and the zero gradients of unused tensors."""
from __future__ import annotations

from typing import Any

from penstock._src.base import dtypes
from penstock._src.graph.convert import convert
from penstock._src.graph.handles import handle_dtype
from penstock._src.graph.node import Tensor
from penstock._src.ops.registry import get

TRAINABLE = {"float16", "float32", "float64", "complex64", "complex128", "resource", "variant", "bfloat16"}


def is_trainable(tensor_or_dtype: Any) -> bool:
    """Whether gradients flow through tensors of this dtype."""
    d = tensor_or_dtype if isinstance(tensor_or_dtype, dtypes.DType) else tensor_or_dtype.dtype
    return d.base_dtype.name in TRAINABLE


def zeros_for(t: Tensor) -> Any:
    """Zeros shaped like a tensor; for a resource handle, like the variable behind it."""
    if t.dtype == dtypes.resource:
        return get("Fill")(get("VariableShape")(t), convert(0, handle_dtype(t)))
    return get("ZerosLike")(t)
