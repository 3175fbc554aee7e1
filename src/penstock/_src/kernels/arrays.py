"""Data movement for torch tensors and for numpy object arrays of strings and variants.

The kernels of the array families are written once on top of these. Nothing here computes with elements, except
`signed`, which lets torch move unsigned integers through functions that it only has for signed ones.
"""
from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch

from penstock._src.base import errors

_SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}
_MAX_ELEMENTS = 2 ** 62
_MOST_MADE = 1 << 40                # elements; a tensor of more would not fit into any memory


def dims_of(x: Any) -> tuple[int, ...]:
    """The shape of a run-time value; a handle (resource, variant) is a scalar."""
    return tuple(x.shape) if hasattr(x, "shape") else ()


def ints(x: Any) -> list[int]:
    """The elements of an integer tensor (a scalar counts as one element)."""
    return x.reshape(-1).tolist()


_NUMPY = {torch.int64: np.int64, torch.int32: np.int32, torch.bool: np.bool_, torch.float32: np.float64,
          torch.float64: np.float64}


def vector(values: Iterable, count: int, dtype: torch.dtype) -> torch.Tensor:
    """`count` Python numbers as a tensor: for many of them several times as fast as torch.tensor."""
    if dtype not in _NUMPY:
        return torch.tensor(list(values), dtype=dtype)
    return torch.from_numpy(np.fromiter(values, _NUMPY[dtype], count)).to(dtype)       # too large values become infinite


def show(dims: Sequence[int | str]) -> str:
    """A shape as run-time messages write it: [2,3]."""
    return "[" + ",".join(map(str, dims)) + "]"


def checked_dims(x: Any, what: str = "shape") -> list[int]:
    """An integer vector used as a shape: sizes must not be negative, nor the number of elements exceed int64."""
    dims = ints(x)
    for i, d in enumerate(dims):
        if d < 0:
            raise errors.invalid(f"{what}[{i}] = {d} must be >= 0, in {show(dims)}")
    if math.prod(dims) > _MAX_ELEMENTS:
        raise errors.invalid(f"Shape {show(dims)} would have more than 2**63 - 1 elements")
    return dims


def fits(dims: Any) -> None:
    """ResourceExhaustedError for a result that no memory holds, from kernels that would not allocate all of it at once."""
    if math.prod(dims) >= _MOST_MADE:
        raise errors.ResourceExhaustedError(None, None, f"OOM when allocating tensor with shape {show(dims)}")


def canonical_axis(axis: int, rank: int, text: str | None = None) -> int:
    """A possibly negative axis as 0 <= axis < rank; InvalidArgumentError outside of it."""
    if not -rank <= axis < rank:
        raise errors.invalid(text or f"Expected dimension in the range [{-rank}, {rank}), but got {axis}")
    return axis + rank if axis < 0 else axis


def is_torch(x: Any) -> bool:
    """Whether a value is a torch tensor rather than an array of objects."""
    return isinstance(x, torch.Tensor)


def boxed(x: Any) -> np.ndarray:
    """A handle as an object array of rank 0; arrays unchanged."""
    if isinstance(x, np.ndarray):
        return x
    out = np.empty((), dtype=object)
    out[()] = x
    return out


def signed(x: torch.Tensor) -> torch.Tensor:
    """The same bits as a type for which torch has all of its indexing."""
    made = _SIGNED.get(x.dtype)
    return x if made is None else x.view(made)


def unsigned_as(made: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """What was made of the bits of `x`, in its type."""
    return made if made.dtype is x.dtype else made.view(x.dtype)


def permute(x: Any, perm: Sequence[int]) -> Any:
    """The axes of `x` in another order (a view)."""
    return x.permute(perm) if is_torch(x) else boxed(x).transpose(perm)


def cat(values: Sequence[Any], axis: int) -> Any:
    """Values joined along an axis."""
    if is_torch(values[0]):
        return torch.cat(list(values), axis)
    return np.concatenate([boxed(v) for v in values], axis)


def stack(values: Sequence[Any], axis: int) -> Any:
    """Values joined along a new axis."""
    if is_torch(values[0]):
        return torch.stack(list(values), axis)
    return np.stack([boxed(v) for v in values], axis)


def expand(x: Any, dims: Sequence[int]) -> Any:
    """`x` repeated to `dims` by numpy's broadcasting rule (a view)."""
    return x.expand(tuple(dims)) if is_torch(x) else np.broadcast_to(boxed(x), tuple(dims))


def expands(dims: Sequence[int], wanted: Sequence[int]) -> bool:
    """Whether a value of shape `dims` broadcasts to exactly `wanted`."""
    lead = len(wanted) - len(dims)
    return lead >= 0 and all(d in (1, w) for d, w in zip(dims, wanted[lead:], strict=True))


def repeat(x: Any, multiples: Sequence[int]) -> Any:
    """`x` laid side by side, multiples[i] times along axis i."""
    if not is_torch(x):
        return np.tile(boxed(x), tuple(multiples))
    return x.repeat(*multiples) if multiples else x


def take(x: Any, index: torch.Tensor, axis: int) -> Any:
    """The slices of `x` at the positions `index` (1-D, checked) along an axis."""
    if is_torch(x):
        return unsigned_as(signed(x).index_select(axis, index.to(x.device)), x)
    return np.take(x, index.cpu().numpy(), axis)


def part(x: Any, index: tuple) -> Any:
    """x[index] for ints, slices and None, as a view (of rank 0 too, where numpy would return an element)."""
    return x[index] if is_torch(x) else boxed(x)[(*index, ...)]


def flip(x: Any, axes: Sequence[int]) -> Any:
    """`x` with some axes reversed."""
    if not axes:
        return x
    if not is_torch(x):
        return np.flip(x, tuple(axes))
    bits = x.view(torch.int8) if x.element_size() == 1 else signed(x)
    return unsigned_as(bits.flip(tuple(axes)), x)


def zeros(dims: Sequence[int], like: Any) -> Any:
    """Zeros (empty strings) of the type and device of `like`."""
    if is_torch(like):
        return torch.zeros(tuple(dims), dtype=like.dtype, device=like.device)
    return np.full(tuple(dims), b"", dtype=object)


def unsqueeze(x: Any, axis: int) -> Any:
    """`x` with an axis of size 1 inserted."""
    return x.unsqueeze(axis) if is_torch(x) else np.expand_dims(boxed(x), axis)


def copy(x: Any) -> Any:
    """A copy that may be written."""
    return x.clone() if is_torch(x) else x.copy()


def add_at(x: torch.Tensor, index: tuple, values: torch.Tensor) -> None:
    """x[index] += values, counting repeated positions."""
    if x.dtype is torch.bool:
        x[index] = torch.logical_or(x[index], values)
    else:
        signed(x).index_put_(index, signed(values), accumulate=True)


def all_rows(x: torch.Tensor) -> torch.Tensor:
    """The values of all rows under `torch.func.vmap`, for checks that any of them may fail; x itself elsewhere."""
    functorch = torch._C._functorch
    while functorch.is_batchedtensor(x):
        x = functorch.get_unwrapped(x)
    return x
