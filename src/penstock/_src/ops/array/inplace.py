"""Rows of a tensor changed by index.

TensorFlow's kernels write into the memory of `x`, and rely on the caller that it has no other reader. Here values are
immutable, so the result is a new tensor; correct user programs compute the same.
"""
from __future__ import annotations

from typing import Any

import torch

from penstock._src.base import errors
from penstock._src.kernels import arrays, indexing
from penstock._src.ops.registry import op


def _row_op(name: str, how: str) -> Any:
    made = op(name, "x: T, i: int32, v: T -> y: T", "T: type").no_gradient()
    made.shape(lambda x, i, v: x)

    @made.kernel
    def _made_kernel(x, i, v):
        dims, found = arrays.dims_of(x), arrays.dims_of(v)
        if i.dim() > 1:
            raise errors.invalid("i must be a vector. " + arrays.show(i.shape))
        if not dims or len(found) != len(dims) - 1 + i.dim() or dims[1:] != found[i.dim():]:
            raise errors.invalid(f"x and v shape doesn't match: {arrays.show(dims)} and {arrays.show(found)}")
        if i.dim() and i.shape[0] != found[0]:
            raise errors.invalid(f"i and x shape doesn't match at index 0: {arrays.show(i.shape)} and "
                                 f"{arrays.show(found)}")
        rows = dims[0]
        index = i.reshape(-1).long()
        index = torch.where(index < 0, index + rows, index)
        indexing.check(index, rows, "i")
        out = x.contiguous().clone() if isinstance(x, torch.Tensor) else x.copy()
        indexing.write_rows(out, index, v.reshape((index.numel(), *dims[1:])), how)
        return out
    return made


inplace_update = _row_op("InplaceUpdate", "update")
inplace_add = _row_op("InplaceAdd", "add")
inplace_sub = _row_op("InplaceSub", "sub")

deep_copy = op("DeepCopy", "x: T -> y: T", "T: type", stateful=True).no_gradient()
deep_copy.shape(lambda x: x)
deep_copy.kernel(lambda x: arrays.copy(x))
