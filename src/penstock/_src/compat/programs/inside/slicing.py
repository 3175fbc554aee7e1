"""Of `ops.tensor_getitem_override`, and before it of `ops.array_ops`: the slices of tensors and of variables."""
from __future__ import annotations

from typing import Any

from penstock._src.ops.array.slicing import slice_helper as _slice_helper


def _slice_helper_var(var: Any, slice_spec: Any) -> Any:
    """`var[slice_spec]`, which `assign` can be called on."""
    return _slice_helper(var.value(), slice_spec, var)
