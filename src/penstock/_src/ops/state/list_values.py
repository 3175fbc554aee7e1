"""The run-time value of a list of tensors, and the operations of the list kernels.

A list is immutable. Appending to the latest version is still cheap: versions share one store, each a prefix of it. Elements
that were never set are zeros.
"""
from __future__ import annotations

from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors
from penstock._src.base.static_shape import compatible, merge, show


class TensorList:
    """The run-time value of a list."""

    __slots__ = ("store", "size", "dtype", "dims", "limit", "only")

    def __init__(self, store: list, size: int, dtype: Any, dims: tuple | None, limit: int = -1, only: int | None = None):
        self.store, self.size, self.dtype, self.dims, self.limit = store, size, dtype, dims, limit
        self.only = only                                # the only element that is set; -1: none is; None: that is not known

    def items(self) -> list:
        """The elements; None for those that were never set."""
        return self.store[:self.size]

    def like(self, items: list, dims: Any = ...) -> TensorList:
        """A list of other elements with this one's type."""
        return TensorList(items, len(items), self.dtype, self.dims if dims is ... else dims, self.limit)

    def push(self, item: Any) -> TensorList:
        """This list and one more element."""
        self.only = None
        if len(self.store) != self.size:                # another version was appended here
            self.store = self.store[:self.size]
        if 0 <= self.limit <= self.size:
            raise errors.invalid(f"Tried to push item into a full list. list size: {self.size} max_num_elements: "
                                 f"{self.limit}")
        self.store.append(item)
        return TensorList(self.store, self.size + 1, self.dtype, self.dims, self.limit)

    def pop(self, alone: bool = False) -> tuple[TensorList, Any]:
        """This list without its last element, and the element. `alone`: the list has no other reference, so the element can be
        freed."""
        if not self.size:
            raise errors.invalid("Trying to pop from an empty list.")
        if alone and len(self.store) == self.size:
            self.size, self.only = self.size - 1, None
            return self, self.store.pop()
        return TensorList(self.store, self.size - 1, self.dtype, self.dims, self.limit), self.store[self.size - 1]

    def zeros_like(self) -> TensorList:
        """A list of zeros of the same shapes."""
        return self.like([None if x is None else _zeros_like(x) for x in self.items()])

    def map(self, function: Any) -> TensorList:
        """A list of the results of a function of the elements."""
        return self.like([None if x is None else function(x) for x in self.items()])

    def add(self, other: TensorList) -> TensorList:
        """Element by element."""
        if self.size != other.size:
            raise errors.invalid(f"Trying to add two lists of tensors with different lengths. One is {self.size} and the "
                                 f"other is {other.size}")
        if self.only is not None:
            self, other = other, self                   # the gradient of one element, as loops have it in every iteration
        if other.only is None:
            return self.like([plus(a, b) for a, b in zip(self.items(), other.items(), strict=True)])
        items = self.items()
        if other.only >= 0:
            items[other.only] = plus(items[other.only], other.store[other.only])
        return self.like(items)


def _zeros_like(x: Any) -> Any:
    if isinstance(x, TensorList):
        return x.zeros_like()
    if isinstance(x, torch.Tensor):
        return torch.zeros_like(x)
    if isinstance(x, np.ndarray) and x.size and hasattr(x.flat[0], "zeros_like"):           # of variants
        out = np.empty(x.shape, dtype=object)
        out.flat[:] = [v.zeros_like() for v in x.flat]
        return out
    return x


def plus(a: Any, b: Any) -> Any:
    """The sum of two elements; an element that was never set counts as zero."""
    if a is None or b is None:
        return b if a is None else a
    if isinstance(a, np.ndarray):                           # of variants: the sum of two scalars stays an array
        return np.add(a, b, out=np.empty(a.shape, dtype=object))
    return a.add(b) if isinstance(a, TensorList) else a + b


def as_list(handle: Any) -> TensorList:
    """The list in a handle; InvalidArgumentError for other values."""
    if isinstance(handle, np.ndarray) and handle.size == 1:
        handle = handle.reshape(-1)[0]
    if not isinstance(handle, TensorList):
        raise errors.invalid("Input handle is not a list. Saw: '" + type(handle).__name__ + "'")
    return handle


def shape_text(dims: tuple | None) -> str:
    """A shape as kernels write it: [2,?]."""
    return "<unknown>" if dims is None else f"[{','.join('?' if d is None else str(d) for d in dims)}]"


def dims_in(shape: Any) -> tuple | None:
    """The static shape in an element_shape input: -1 for what is unknown, a scalar -1 for an unknown rank."""
    if shape.ndim == 0:
        if int(shape) != -1:
            raise errors.invalid("The only valid scalar shape tensor is the fully unknown shape specified as -1.")
        return None
    if shape.ndim != 1:
        raise errors.invalid(f"Shape must be at most rank 1 but is rank {shape.ndim}")
    return tuple(None if d < 0 else d for d in shape.tolist())


def typed(handle: TensorList, dtype: Any) -> TensorList:
    """The list, if its elements have this type; InvalidArgumentError otherwise."""
    if handle.dtype is not dtype and handle.dtype != dtype:
        raise errors.invalid(f"Invalid data types; op elements {dtype.name} but list elements {handle.dtype.name}")
    return handle


def is_plain(handle: TensorList, dtype: Any) -> bool:
    """Whether a list holds any number of tensors of this type, and may be changed in place."""
    return handle.dtype is dtype and dtype.torch is not None and handle.limit < 0 and handle.only is None


def check_fits(handle: TensorList, item: Any, index: int | None = None) -> None:
    """InvalidArgumentError if a tensor cannot be an element of the list."""
    if isinstance(item, (torch.Tensor, np.ndarray)) and item.shape != handle.dims and \
            not compatible(handle.dims, tuple(item.shape)):
        at = "" if index is None else f" at index {index}"
        raise errors.invalid(f"Tried to append a tensor with incompatible shape to a list{at}. Op element shape: "
                             f"{shape_text(tuple(item.shape))} list shape: {shape_text(handle.dims)}")


def merged(a: tuple | None, b: tuple | None) -> tuple | None:
    """Merges two static shapes; InvalidArgumentError if they are incompatible."""
    try:
        return merge(a, b)
    except ValueError:
        if a is not None and b is not None and len(a) != len(b):
            raise errors.invalid(f"Incompatible ranks during merge: {len(a)} vs. {len(b)}") from None
        raise errors.invalid(f"Incompatible shapes during merge: {shape_text(a)} vs. {shape_text(b)}") from None


def element_dims(handle: TensorList, dims: tuple | None) -> tuple | None:
    """The shape of the elements, from the list, the op, and existing elements."""
    dims = merged(dims, handle.dims)
    for x in handle.items():
        if isinstance(x, (torch.Tensor, np.ndarray)) and x.shape != dims:
            dims = merged(dims, tuple(x.shape))
    return dims


def zero_element(dtype: Any, dims: tuple | None, device: torch.device | None = None) -> Any:
    """Zeros for an element that was never set."""
    if dims is None or None in dims:
        raise errors.invalid("Trying to read an uninitialized tensor but element_shape is not fully defined: "
                             f"{show(dims)} and no list element is set.")
    if dtype == dtypes.variant:
        raise errors.invalid("Trying to read an uninitialized list element of type variant.")
    return np.full(dims, b"", dtype=object) if dtype.torch is None else torch.zeros(dims, dtype=dtype.torch, device=device)


def filled(handle: TensorList, dims: tuple | None) -> list:
    """The elements, with zeros for those that were never set."""
    items = handle.items()
    if any(x is None for x in items):
        device = next((x.device for x in items if isinstance(x, torch.Tensor)), None)
        blank = zero_element(handle.dtype, element_dims(handle, dims), device)
        items = [blank if x is None else x for x in items]
    return items


def checked_index(handle: TensorList, index: Any, doing: str = "access") -> int:
    """The index of an element of the list; InvalidArgumentError if it has none there."""
    i = int(index)
    if not 0 <= i < handle.size:
        raise errors.invalid(f"Trying to {doing} element {i} in a list with {handle.size} elements.")
    return i


def stacked(items: list, dtype: Any, dims: tuple | None) -> Any:
    """The elements as one tensor, along a new first dimension."""
    if not items:
        if dims is None or None in dims:
            raise errors.invalid("Tried to stack elements of an empty list with non-fully-defined element_shape: "
                                 f"{show(dims)}")
        return np.empty((0, *dims), dtype=object) if dtype.torch is None else torch.zeros((0, *dims), dtype=dtype.torch)
    first = items[0].shape
    for x in items:
        if x.shape != first:
            merged(tuple(first), tuple(x.shape))
    return np.stack(items) if isinstance(items[0], np.ndarray) else torch.stack(items)


def unset(n: int) -> list:
    """The store of a list of which no element is set."""
    if n > 1 << 28:
        raise errors.ResourceExhaustedError(None, None, f"a list of {n} elements is too large")
    return [None] * n


def scattered(tensor: Any, indices: Any, items: list, size: int | None) -> list:
    """`items` with the rows of a tensor at some indices; longer if need be, unless `size` forbids it."""
    where = indices.tolist()
    if indices.ndim != 1 or tensor.ndim == 0:
        raise errors.invalid("Expected a vector of indices and a tensor with rows, got shapes "
                             f"{shape_text(tuple(indices.shape))} and {shape_text(tuple(tensor.shape))}")
    if tensor.shape[0] != len(where):
        raise errors.invalid(f"Invalid number of rows in input tensor. Expected: {len(where)} Actual: {tensor.shape[0]}")
    if any(i < 0 for i in where):
        raise errors.invalid("Indices in TensorListScatter must all be non-negative.")
    needed = max(where, default=-1) + 1
    if size is not None and needed > size:
        raise errors.invalid(f"TensorListScatter: Trying to scatter at index {needed - 1} in list with size {size}")
    items = items + unset(needed - len(items)) if needed > len(items) else items
    for i, x in zip(where, tensor, strict=True):
        items[i] = x if isinstance(x, torch.Tensor) else np.asarray(x, dtype=object)
    return items


def joined(a: Any, b: Any, dtype: Any, index: int = 0) -> TensorList:
    """The elements of two lists as one."""
    a, b = as_list(a), as_list(b)
    for x, name in ((a, "input_a"), (b, "input_b")):
        if x.dtype != dtype:
            raise errors.invalid(f"{name}[{index}].dtype != element_dtype. Found {x.dtype.name}, expected {dtype.name}")
    if not compatible(a.dims, b.dims):
        raise errors.invalid(f"input_a and input_b TensorList element shapes are not identical at index {index}. Saw "
                             f"{shape_text(a.dims)} vs. {shape_text(b.dims)}")
    return a.like(a.items() + b.items(), merged(a.dims, b.dims))


def _rest_dims(items: list, dims: tuple | None) -> tuple | None:
    """The shape of elements of which only the first dimensions may differ."""
    rest = None if dims is None else dims[1:]
    for x in items:
        rest = merged(rest, tuple(x.shape[1:]))
    first = dims[0] if dims else None
    if first is None and items and all(len(x) == len(items[0]) for x in items):
        first = len(items[0])
    return None if rest is None else (first, *rest)


def concatenated(source: TensorList, dims: tuple | None, sizes: list | None) -> tuple:
    """The elements along their first dimension, and their lengths; `sizes` are those of elements never set."""
    items = source.items()
    if dims == ():
        raise errors.invalid("Concat requires elements to be at least vectors, found scalars instead.")
    if any(x is None for x in items):
        rest = _rest_dims([x for x in items if x is not None], dims)
        missing = next(i for i, x in enumerate(items) if x is None)
        if rest is None or None in rest[1:]:
            raise errors.invalid("Trying to concat list with only uninitialized tensors but element_shape_except_first_dim_ is "
                                 f"not fully defined: {shape_text(rest)}")
        if sizes is None and rest[0] is None or sizes is not None and len(sizes) <= missing:
            raise errors.invalid(f"List contains uninitialized tensor at index {missing} but leading_dims has only "
                                 f"{len(sizes or [])} elements.")
        items = [zero_element(source.dtype, (sizes[i] if sizes else rest[0], *rest[1:])) if x is None else x
                 for i, x in enumerate(items)]
    if not items:
        if dims is None or None in dims[1:]:
            raise errors.invalid("All except the first dimension must be fully defined when concating an empty tensor list. "
                                 f"element_shape: {show(dims)}")
        return torch.zeros((0, *dims[1:]), dtype=source.dtype.torch), torch.zeros(0, dtype=torch.int64)
    for i, x in enumerate(items):
        if x.ndim == 0:
            raise errors.invalid(f"Concat saw a scalar shape at index {i} but requires at least vectors.")
    _rest_dims(items, None)
    lengths = torch.tensor([x.shape[0] for x in items], dtype=torch.int64)
    return (np.concatenate(items) if isinstance(items[0], np.ndarray) else torch.cat(items)), lengths
