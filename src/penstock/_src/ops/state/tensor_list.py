"""Lists of tensors as values (dtype variant): what functional loops save, and TensorArrays there are made of.

A list is immutable. Appending to the latest version is cheap all the same: versions share one store, of which each sees
a part from the front. Elements that were never set read as zeros.
"""
from __future__ import annotations

import functools
import sys
from sys import getrefcount
from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors
from penstock._src.base.static_shape import compatible, merge, show
from penstock._src.graph.build import ShapeContext
from penstock._src.graph.constant import constant_value
from penstock._src.graph.convert import convert
from penstock._src.graph.list_types import EMPTY, UNSET, Elements, elements_of
from penstock._src.ops import rules
from penstock._src.ops.registry import get, internal, op


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
        if len(self.store) != self.size:                # another version went on from here
            self.store = self.store[:self.size]
        if 0 <= self.limit <= self.size:
            raise errors.invalid(f"Tried to push item into a full list. list size: {self.size} max_num_elements: "
                                 f"{self.limit}")
        self.store.append(item)
        return TensorList(self.store, self.size + 1, self.dtype, self.dims, self.limit)

    def pop(self, alone: bool = False) -> tuple[TensorList, Any]:
        """This list without its last element, and that. `alone`: the list has no other reference, so the element can be
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
            return self.like([_plus(a, b) for a, b in zip(self.items(), other.items(), strict=True)])
        items = self.items()
        if other.only >= 0:
            items[other.only] = _plus(items[other.only], other.store[other.only])
        return self.like(items)


def _zeros_like(x: Any) -> Any:
    if isinstance(x, TensorList):
        return x.zeros_like()
    return torch.zeros_like(x) if isinstance(x, torch.Tensor) else x


def _plus(a: Any, b: Any) -> Any:
    if a is None or b is None:
        return b if a is None else a
    return a.add(b) if isinstance(a, TensorList) else a + b


def _references(handle: Any, *, element_dtype: Any) -> int:
    return getrefcount(handle)


# How many references a kernel sees to a list that only its caller had, who gave it away: as many as to a new object. Newer
# versions of Python do not count all references of callers.
_ALONE = functools.partial(_references, element_dtype=None)(object()) if sys.version_info < (3, 14) else 0


def _list(handle: Any) -> TensorList:
    if isinstance(handle, np.ndarray) and handle.size == 1:
        handle = handle.reshape(-1)[0]
    if not isinstance(handle, TensorList):
        raise errors.invalid("Input handle is not a list. Saw: '" + type(handle).__name__ + "'")
    return handle


def _text(dims: tuple | None) -> str:
    """A shape as kernels write it: [2,?]."""
    return "<unknown>" if dims is None else f"[{','.join('?' if d is None else str(d) for d in dims)}]"


def _dims(shape: Any) -> tuple | None:
    """The static shape in an element_shape input: -1 for what is unknown, a scalar -1 for an unknown rank."""
    if shape.ndim == 0:
        if int(shape) != -1:
            raise errors.invalid("The only valid scalar shape tensor is the fully unknown shape specified as -1.")
        return None
    if shape.ndim != 1:
        raise errors.invalid(f"Shape must be at most rank 1 but is rank {shape.ndim}")
    return tuple(None if d < 0 else d for d in shape.tolist())


def _typed(handle: TensorList, dtype: Any) -> TensorList:
    if handle.dtype != dtype:
        raise errors.invalid(f"Invalid data types; op elements {dtype.name} but list elements {handle.dtype.name}")
    return handle


def _is_plain(handle: TensorList, dtype: Any) -> bool:
    """Whether a list holds any number of tensors of this type, and may be changed in place."""
    return handle.dtype is dtype and dtype.torch is not None and handle.limit < 0 and handle.only is None


def _fits(handle: TensorList, item: Any, index: int | None = None) -> None:
    if isinstance(item, (torch.Tensor, np.ndarray)) and item.shape != handle.dims and \
            not compatible(handle.dims, tuple(item.shape)):
        at = "" if index is None else f" at index {index}"
        raise errors.invalid(f"Tried to append a tensor with incompatible shape to a list{at}. Op element shape: "
                             f"{_text(tuple(item.shape))} list shape: {_text(handle.dims)}")


def _merged(a: tuple | None, b: tuple | None) -> tuple | None:
    try:
        return merge(a, b)
    except ValueError:
        if a is not None and b is not None and len(a) != len(b):
            raise errors.invalid(f"Incompatible ranks during merge: {len(a)} vs. {len(b)}") from None
        raise errors.invalid(f"Incompatible shapes during merge: {_text(a)} vs. {_text(b)}") from None


def _element_dims(handle: TensorList, dims: tuple | None) -> tuple | None:
    """The shape of the elements, from the list, the op, and elements that are there."""
    dims = _merged(dims, handle.dims)
    for x in handle.items():
        if isinstance(x, (torch.Tensor, np.ndarray)):
            dims = _merged(dims, tuple(x.shape))
    return dims


def _blank(dtype: Any, dims: tuple | None) -> Any:
    """Zeros for an element that was never set."""
    if dims is None or None in dims:
        raise errors.invalid("Trying to read an uninitialized tensor but element_shape is not fully defined: "
                             f"{show(dims)} and no list element is set.")
    if dtype == dtypes.variant:
        raise errors.invalid("Trying to read an uninitialized list element of type variant.")
    return np.full(dims, b"", dtype=object) if dtype.torch is None else torch.zeros(dims, dtype=dtype.torch)


def _filled(handle: TensorList, dims: tuple | None) -> list:
    items = handle.items()
    if any(x is None for x in items):
        blank = _blank(handle.dtype, _element_dims(handle, dims))
        items = [blank if x is None else x for x in items]
    return items


def _index(handle: TensorList, index: Any, doing: str = "access") -> int:
    i = int(index)
    if not 0 <= i < handle.size:
        raise errors.invalid(f"Trying to {doing} element {i} in a list with {handle.size} elements.")
    return i


def _stacked(items: list, dtype: Any, dims: tuple | None) -> Any:
    if not items:
        if dims is None or None in dims:
            raise errors.invalid("Tried to stack elements of an empty list with non-fully-defined element_shape: "
                                 f"{show(dims)}")
        return np.empty((0, *dims), dtype=object) if dtype.torch is None else torch.zeros((0, *dims), dtype=dtype.torch)
    first = items[0].shape
    for x in items:
        if x.shape != first:
            _merged(tuple(first), tuple(x.shape))
    return np.stack(items) if isinstance(items[0], np.ndarray) else torch.stack(items)


# -- making lists -------------------------------------------------------------------------------------------------
_ELEMENTS = "element_dtype: type, shape_type: type in {int32 int64}"
empty_list = op("EmptyTensorList", "element_shape: shape_type, max_num_elements: int32 -> handle: variant", _ELEMENTS)
reserve = op("TensorListReserve", "element_shape: shape_type, num_elements: int32 -> handle: variant", _ELEMENTS)
from_tensor = op("TensorListFromTensor", "tensor: element_dtype, element_shape: shape_type -> output_handle: variant",
                 _ELEMENTS)
split = op("TensorListSplit", "tensor: element_dtype, element_shape: shape_type, lengths: int64 -> output_handle: variant",
           _ELEMENTS)
scatter = op("TensorListScatter", "tensor: element_dtype, indices: int32, element_shape: shape_type -> "
             "output_handle: variant", _ELEMENTS, host="indices")
scatter_v2 = op("TensorListScatterV2", "tensor: element_dtype, indices: int32, element_shape: shape_type, "
                "num_elements: int32 -> output_handle: variant", _ELEMENTS, host="indices")
for _op in (empty_list, reserve):
    _op.no_gradient()
    _op.shape(lambda element_shape, number: ())
from_tensor.shape(lambda tensor, element_shape: ())


@split.shape
def _split_shape(tensor, element_shape, lengths, *, c):
    dims = _given(c)
    if tensor is not None and dims is not None:
        merge((None, *tensor[1:]), (None, *dims[1:]) if dims else ())
    return ()


scatter.shape(lambda tensor, indices, element_shape: ())
scatter_v2.shape(lambda tensor, indices, element_shape, num_elements: ())


@empty_list.kernel
def _empty_list_kernel(element_shape, max_num_elements, *, element_dtype):
    return TensorList([], 0, element_dtype, _dims(element_shape), int(max_num_elements))


@reserve.kernel
def _reserve_kernel(element_shape, num_elements, *, element_dtype):
    n = int(num_elements)
    if n < 0:
        raise errors.invalid(f"The num_elements to reserve must be a non negative number, but got {n}")
    return TensorList(_blanks(n), n, element_dtype, _dims(element_shape), only=-1)


def _blanks(n: int) -> list:
    if n > 1 << 28:
        raise errors.ResourceExhaustedError(None, None, f"a list of {n} elements is too large")
    return [None] * n


@from_tensor.kernel
def _from_tensor_kernel(tensor, element_shape, *, element_dtype):
    if tensor.ndim == 0:
        raise errors.invalid("Tensor must be at least a vector, but saw shape: []")
    dims = _dims(element_shape)
    if not compatible(dims, tuple(tensor.shape[1:])):
        raise errors.invalid("Specified a list with shape " + show(dims) + " from a tensor with shape "
                             + show(tuple(tensor.shape[1:])))
    items = list(tensor.unbind(0)) if isinstance(tensor, torch.Tensor) else list(tensor.reshape(tensor.shape[0], -1)
                                                                                 .reshape(tensor.shape))
    return TensorList([np.asarray(x, dtype=object) if element_dtype.torch is None else x for x in items], len(items),
                      element_dtype, dims)


@split.kernel
def _split_kernel(tensor, element_shape, lengths, *, element_dtype):
    if tensor.ndim == 0:
        raise errors.invalid("Tensor must be at least a vector, but saw shape: []")
    sizes = lengths.tolist()
    if lengths.ndim != 1:
        raise errors.invalid(f"Expected lengths to be a vector, received shape: {_text(tuple(lengths.shape))}")
    dims = _dims(element_shape)
    if dims == ():
        raise errors.invalid("TensorListSplit requires element_shape to be at least of rank 1, but saw: []")
    if dims is not None and (len(dims) != tensor.ndim or not compatible(dims[1:], tuple(tensor.shape[1:]))):
        raise errors.invalid(f"tensor shape {_text(tuple(tensor.shape))} is not compatible with element_shape {_text(dims)}")
    items, at, rows = [], 0, tensor.shape[0]
    for n in sizes:
        if n < 0:
            raise errors.invalid(f"Invalid value in lengths: {n}")
        if at + n > rows:
            raise errors.invalid(f"Attempting to slice [{at}, {at + n}] from tensor with length {rows}")
        items.append(tensor[at:at + n])
        at += n
    if at < rows:
        raise errors.invalid(f"Unused values in tensor. Length of tensor: {rows} Values used: {at}")
    return TensorList(items, len(items), element_dtype, dims)


def _scattered(tensor: Any, indices: Any, items: list, size: int | None) -> list:
    where = indices.tolist()
    if indices.ndim != 1 or tensor.ndim == 0:
        raise errors.invalid(f"Expected a vector of indices and a tensor with rows, got shapes {_text(tuple(indices.shape))} "
                             f"and {_text(tuple(tensor.shape))}")
    if tensor.shape[0] != len(where):
        raise errors.invalid(f"Invalid number of rows in input tensor. Expected: {len(where)} Actual: {tensor.shape[0]}")
    if any(i < 0 for i in where):
        raise errors.invalid("Indices in TensorListScatter must all be non-negative.")
    needed = max(where, default=-1) + 1
    if size is not None and needed > size:
        raise errors.invalid(f"TensorListScatter: Trying to scatter at index {needed - 1} in list with size {size}")
    items = items + _blanks(needed - len(items)) if needed > len(items) else items
    for i, x in zip(where, tensor, strict=True):
        items[i] = x if isinstance(x, torch.Tensor) else np.asarray(x, dtype=object)
    return items


@scatter.kernel
def _scatter_kernel(tensor, indices, element_shape, *, element_dtype):
    items = _scattered(tensor, indices, [], None)
    return TensorList(items, len(items), element_dtype, _dims(element_shape))


@scatter_v2.kernel
def _scatter_v2_kernel(tensor, indices, element_shape, num_elements, *, element_dtype):
    n = int(num_elements)
    if n < -1:
        raise errors.invalid(f"TensorListScatter expects num_elements >= -1, found: {n}")
    items = _scattered(tensor, indices, _blanks(max(n, 0)), n if n >= 0 else None)
    return TensorList(items, len(items), element_dtype, _dims(element_shape))


# -- asking and changing --------------------------------------------------------------------------------------------
_T = "element_dtype: type"
length = op("TensorListLength", "input_handle: variant -> length: int32").no_gradient()
shape_op = op("TensorListElementShape", "input_handle: variant -> element_shape: shape_type",
              "shape_type: type in {int32 int64}").no_gradient()
push_back = op("TensorListPushBack", "input_handle: variant, tensor: element_dtype -> output_handle: variant", _T)
push_back_batch = op("TensorListPushBackBatch", "input_handles: variant, tensor: element_dtype -> output_handles: variant",
                     _T).no_gradient()
pop_back = op("TensorListPopBack", "input_handle: variant, element_shape: int32 -> output_handle: variant, "
              "tensor: element_dtype", _T)
get_item = op("TensorListGetItem", "input_handle: variant, index: int32, element_shape: int32 -> item: element_dtype", _T)
set_item = op("TensorListSetItem", "input_handle: variant, index: int32, item: element_dtype -> output_handle: variant",
              "element_dtype: type, resize_if_index_out_of_bounds: bool = False")
resize = op("TensorListResize", "input_handle: variant, size: int32 -> output_handle: variant", stateful=True)
concat_lists = op("TensorListConcatLists", "input_a: variant, input_b: variant -> output: variant", _T).no_gradient()
scatter_into = op("TensorListScatterIntoExistingList",
                  "input_handle: variant, tensor: element_dtype, indices: int32 -> output_handle: variant", _T,
                  host="indices")
stack = op("TensorListStack", "input_handle: variant, element_shape: int32 -> tensor: element_dtype",
           "element_dtype: type, num_elements: int = -1")
gather = op("TensorListGather", "input_handle: variant, indices: int32, element_shape: int32 -> values: element_dtype", _T,
            host="indices")
concat = op("TensorListConcat", "input_handle: variant -> tensor: element_dtype, lengths: int64",
            "element_dtype: type, element_shape: shape = None")
concat_v2 = op("TensorListConcatV2", "input_handle: variant, element_shape: shape_type, leading_dims: int64 -> "
               "tensor: element_dtype, lengths: int64", _ELEMENTS)


def _given(c: Any) -> tuple | None:
    """The element shape that an op is given, as far as it is constant."""
    value = c.const("element_shape")
    if value is None:
        return c.dims("element_shape") if c.input("element_shape").static_dims not in ((), None) else None
    return None if value.ndim == 0 else tuple(None if d < 0 else int(d) for d in value)


def _known(c: Any) -> tuple | None:
    """The static shape of the elements of the list that an op takes, from what it is given and from the list."""
    known = elements_of(c.op.inputs[0])
    return _given(c) if known is None else merge(_given(c), known[1])


length.shape(lambda input_handle: ())
shape_op.shape(lambda input_handle: None)
push_back.shape(lambda input_handle, tensor: ())


@push_back_batch.shape
def _push_back_batch_shape(input_handles, tensor, *, element_dtype, c):
    known = elements_of(c.op.inputs[0])
    if known is not None and known[0] != element_dtype:
        raise ValueError(f"Trying to push to list with wrong element dtype. List has type {known[0].name} but trying to push "
                         f"element with type {element_dtype.name}")
    return input_handles


pop_back.shape(lambda input_handle, element_shape, *, c: [(), _given(c)])
for _op in (pop_back, push_back, set_item):
    rules.program.consumes[_op] = frozenset(["input_handle"])
rules.numbers.inputs[get_item] = rules.numbers.inputs[set_item] = frozenset(["index"])
get_item.shape(lambda input_handle, index, element_shape, *, c: _known(c))
set_item.shape(lambda input_handle, index, item: ())
resize.shape(lambda input_handle, size: ())
for _op in (empty_list, reserve, from_tensor, split, scatter, scatter_v2):
    rules.lists.elements[_op] = lambda op, i: (op.attrs["element_dtype"], _given(ShapeContext(op)))
for _op in (push_back, push_back_batch, pop_back, set_item, resize, scatter_into, concat_lists):
    rules.lists.elements[_op] = lambda op, i: op.inputs[0]
rules.lists.makes[empty_list] = lambda op: EMPTY
rules.lists.makes[reserve] = lambda op: UNSET._replace(size=None if (n := constant_value(op.inputs[1])) is None else int(n))
rules.lists.makes[from_tensor] = lambda op: Elements(dims[1:], None, dims[0]) if (dims := op.inputs[0].static_dims) else None
rules.lists.puts[push_back], rules.lists.puts[set_item] = 1, 2
rules.lists.takes[pop_back] = lambda op, known: [(), known.dims]
rules.lists.takes[get_item] = lambda op, known: [known.dims]
rules.lists.takes[stack] = lambda op, known: [(known.size if (n := op.attrs["num_elements"]) < 0 else n, *known.dims)]
rules.lists.takes[gather] = lambda op, known: [((op.inputs[1].static_dims or (None,))[0], *known.dims)]
rules.lists.resizes[push_back] = rules.lists.resizes[pop_back] = rules.lists.resizes[resize] = lambda op: True
rules.lists.resizes[set_item] = lambda op: op.attrs["resize_if_index_out_of_bounds"]


@concat_lists.shape
def _concat_lists_shape(input_a, input_b, *, element_dtype, c):
    shapes = []
    for name, t in zip(("input_a", "input_b"), c.op.inputs, strict=True):
        known = elements_of(t)
        if known is not None and known[0] != element_dtype:
            raise ValueError(f"{name}.type != element_dtype: {known[0].name} vs. {element_dtype.name}")
        shapes.append(None if known is None else known[1])
    merge(*shapes)
    return merge(input_a, input_b)


scatter_into.shape(lambda input_handle, tensor, indices: ())


@stack.shape
def _stack_shape(input_handle, element_shape, *, num_elements, c):
    dims = _known(c)
    return None if dims is None else (None if num_elements < 0 else num_elements, *dims)


@gather.shape
def _gather_shape(input_handle, indices, element_shape, *, c):
    dims = _known(c)
    return None if dims is None or indices is None else (indices[0], *dims)


@concat.shape
def _concat_shape(input_handle, *, element_shape, c):
    known = elements_of(c.op.inputs[0])
    dims = element_shape.static_dims if known is None else merge(element_shape.static_dims, known[1])
    return [None if dims is None else (None, *dims[1:]), (None,)]


@concat_v2.shape
def _concat_v2_shape(input_handle, element_shape, leading_dims, *, c):
    dims = _known(c)
    return [None if dims is None else (None, *dims[1:]), (None,)]


@length.kernel
def _length_kernel(input_handle):
    return torch.tensor(_list(input_handle).size, dtype=torch.int32)


@shape_op.kernel
def _shape_kernel(input_handle, *, shape_type):
    dims = _list(input_handle).dims
    if dims is None:
        return torch.tensor(-1, dtype=shape_type.torch)
    return torch.tensor([-1 if d is None else d for d in dims], dtype=shape_type.torch)


@push_back.kernel
def _push_back_kernel(input_handle, tensor, *, element_dtype):
    if type(input_handle) is TensorList and getrefcount(input_handle) <= _ALONE and _is_plain(input_handle, element_dtype) and \
            input_handle.dims == tensor.shape and len(input_handle.store) == input_handle.size:
        input_handle.store.append(tensor)
        input_handle.size += 1
        return input_handle
    target = _typed(_list(input_handle), element_dtype)
    _fits(target, tensor)
    return target.push(tensor)


@rules.loops.lists(push_back)
class _Pushing:
    """Appends to a list in all iterations of a loop: elements of the list's type and shape go to its store without checks."""

    __slots__ = ("step", "_list", "_dtype")

    def __init__(self, handle: Any, dtype: Any, dims: tuple | None):
        self._list, self._dtype = handle, dtype
        plain = type(handle) is TensorList and _is_plain(handle, dtype) and dims is not None and None not in dims and \
            compatible(handle.dims, dims)
        if plain and (getrefcount(handle) > _OWN or len(handle.store) != handle.size):
            self._list = handle.like(handle.items())
        self.step = self._list.store.append if plain else self._push

    def _push(self, item: Any) -> None:
        target = _typed(_list(self._list), self._dtype)
        _fits(target, item)
        self._list = target.push(item)

    def finish(self) -> Any:
        """The list."""
        if self.step != self._push:
            self._list.size = len(self._list.store)
        return self._list


@rules.loops.lists(pop_back)
class _Popping:
    """Takes the last element off a list in all iterations of a loop."""

    __slots__ = ("step", "_list", "_dtype", "_dims")

    def __init__(self, handle: Any, dtype: Any, dims: tuple | None):
        self._list, self._dtype, self._dims = handle, dtype, dims
        plain = type(handle) is TensorList and _is_plain(handle, dtype) and not any(x is None for x in handle.store)
        if plain and (getrefcount(handle) > _OWN or getrefcount(handle.store) > 2 or len(handle.store) != handle.size):
            self._list = handle.like(handle.items())
        self.step = self._list.store.pop if plain else self._pop

    def _pop(self) -> Any:
        source = self._list
        self._list, item = _typed(_list(source), self._dtype).pop()
        return _blank(self._dtype, _element_dims(source, self._dims)) if item is None else item

    def finish(self) -> Any:
        """The list."""
        if self.step != self._pop:
            self._list.size = len(self._list.store)
        return self._list


class _Counting:
    """How many references a constructor sees to what its caller gave away, and it has taken."""

    __slots__ = ("taken", "count")

    def __init__(self, handle: Any, dtype: Any, dims: Any):
        self.taken = handle
        self.count = getrefcount(handle)


_OWN = _Counting(object(), None, None).count if sys.version_info < (3, 14) else 0      # as _ALONE, in such a constructor


@push_back_batch.kernel
def _push_back_batch_kernel(input_handles, tensor, *, element_dtype):
    handles = np.asarray(input_handles, dtype=object)
    if tensor.ndim < 1 or handles.ndim != 1 or tensor.shape[0] != handles.shape[0]:
        raise errors.invalid(f"Batch sizes do not match: {handles.shape} and {tuple(tensor.shape)}")
    out = np.empty(handles.shape, dtype=object)
    for i, (h, x) in enumerate(zip(handles, tensor, strict=True)):
        _fits(_typed(_list(h), element_dtype), x, i)
        out[i] = h.push(x)
    return out


@pop_back.kernel
def _pop_back_kernel(input_handle, element_shape, *, element_dtype):
    alone = type(input_handle) is TensorList and getrefcount(input_handle) <= _ALONE and getrefcount(input_handle.store) <= 2
    if alone and _is_plain(input_handle, element_dtype) and len(input_handle.store) == input_handle.size and \
            input_handle.size and input_handle.store[-1] is not None:
        return input_handle.pop(True)
    rest, item = _typed(_list(input_handle), element_dtype).pop(alone)
    if item is None:
        item = _blank(element_dtype, _element_dims(input_handle, _dims(element_shape)))
    return rest, item


@get_item.kernel
def _get_item_kernel(input_handle, index, element_shape, *, element_dtype):
    if type(index) is int and type(input_handle) is TensorList and input_handle.dtype is element_dtype and \
            0 <= index < input_handle.size and input_handle.store[index] is not None:
        return input_handle.store[index]
    source = _typed(_list(input_handle), element_dtype)
    item = source.store[_index(source, index)]
    return _blank(element_dtype, _element_dims(source, _dims(element_shape))) if item is None else item


@set_item.kernel
def _set_item_kernel(input_handle, index, item, *, element_dtype, resize_if_index_out_of_bounds):
    if resize_if_index_out_of_bounds and int(index) >= _list(input_handle).size:
        input_handle = _resize_kernel(input_handle, int(index) + 1)
    alone = type(input_handle) is TensorList and getrefcount(input_handle) <= _ALONE and getrefcount(input_handle.store) <= 2
    target = _typed(_list(input_handle), element_dtype)
    _fits(target, item)
    at = _index(target, index, "modify")
    if alone:
        target.store[at] = item
        target.only = at if target.only in (-1, at) else None
        return target
    items, only = target.items(), target.only
    items[at] = item
    out = target.like(items)
    out.only = at if only in (-1, at) else None
    return out


# The gradient of a read is a list with one element, which loops add to a list of sums: they add to the one element instead.
add_element = internal("_TensorListAddElement", "input_handle: variant, index: int32, item: element_dtype -> "
                       "output_handle: variant", "element_dtype: type")
add_element.shape(lambda input_handle, index, item: ())
rules.program.consumes[add_element] = frozenset(["input_handle"])
rules.numbers.inputs[add_element] = frozenset(["index"])
rules.lists.elements[add_element] = lambda op, i: op.inputs[0]
rules.lists.puts[add_element] = 2


@add_element.kernel
def _add_element_kernel(input_handle, index, item, *, element_dtype):
    alone = type(input_handle) is TensorList and getrefcount(input_handle) <= _ALONE and getrefcount(input_handle.store) <= 2
    target = _typed(_list(input_handle), element_dtype)
    _fits(target, item)
    at = _index(target, index, "modify")
    if not alone:
        only = target.only
        target = target.like(target.items())
        target.only = only
    target.store[at] = _plus(target.store[at], item)
    target.only = at if target.only in (-1, at) else None
    return target


@rules.loops.adds_to_part(set_item)
def _add_one_element(op, total, put, loop):
    made = loop.only(put.inputs[0], put)
    if made is None or made.opdef is not reserve or made.control_inputs or put.attrs["resize_if_index_out_of_bounds"]:
        return False
    op.opdef, op.counts = add_element, (None, None, None)
    op.attrs = {"element_dtype": put.attrs["element_dtype"]}
    op.set_inputs([total, put.inputs[1], put.inputs[2]])
    return True


@resize.kernel
def _resize_kernel(input_handle, size):
    source, n = _list(input_handle), int(size)
    if n < 0:
        raise errors.invalid("TensorListSlice expects size to be non-negative.")
    items = source.items()
    return source.like(items[:n] + _blanks(max(0, n - source.size)))


@concat_lists.kernel
def _concat_lists_kernel(input_a, input_b, *, element_dtype):
    if not isinstance(input_a, np.ndarray):
        return _joined(input_a, input_b, element_dtype)
    if not isinstance(input_b, np.ndarray) or input_a.shape != input_b.shape:
        raise errors.invalid("input_a and input_b must have the same shape")
    out = np.empty(input_a.size, dtype=object)
    for i, (a, b) in enumerate(zip(input_a.reshape(-1), input_b.reshape(-1), strict=True)):
        out[i] = _joined(a, b, element_dtype, i)
    return out.reshape(input_a.shape)


def _joined(a: Any, b: Any, dtype: Any, index: int = 0) -> TensorList:
    a, b = _list(a), _list(b)
    for x, name in ((a, "input_a"), (b, "input_b")):
        if x.dtype != dtype:
            raise errors.invalid(f"{name}[{index}].dtype != element_dtype. Found {x.dtype.name}, expected {dtype.name}")
    if not compatible(a.dims, b.dims):
        raise errors.invalid(f"input_a and input_b TensorList element shapes are not identical at index {index}. Saw "
                             f"{_text(a.dims)} vs. {_text(b.dims)}")
    return a.like(a.items() + b.items(), _merged(a.dims, b.dims))


@scatter_into.kernel
def _scatter_into_kernel(input_handle, tensor, indices, *, element_dtype):
    target = _typed(_list(input_handle), element_dtype)
    return target.like(_scattered(tensor, indices, target.items(), None))


@stack.kernel
def _stack_kernel(input_handle, element_shape, *, element_dtype, num_elements):
    source, dims = _typed(_list(input_handle), element_dtype), _dims(element_shape)
    if num_elements >= 0 and source.size != num_elements:
        raise errors.invalid(f"Operation expected a list with {num_elements} elements but got a list with {source.size} "
                             "elements.")
    return _stacked(_filled(source, dims), element_dtype, _element_dims(source, dims))


@gather.kernel
def _gather_kernel(input_handle, indices, element_shape, *, element_dtype):
    source, dims = _typed(_list(input_handle), element_dtype), _dims(element_shape)
    where = [_index(source, i) for i in indices.reshape(-1)]
    picked = source.like([source.store[i] for i in where])
    known = _element_dims(source, dims) if any(x is None for x in picked.items()) or not where else dims
    if any(x is None for x in picked.items()) and (known is None or None in known):
        raise errors.invalid("Tried to gather uninitialized tensors from a list with non-fully-defined element_shape: "
                             f"{_text(known)}")
    return _stacked(_filled(picked, known), element_dtype, known)


def _rest_dims(items: list, dims: tuple | None) -> tuple | None:
    """The shape of elements of which only the first dimensions may differ."""
    rest = None if dims is None else dims[1:]
    for x in items:
        rest = _merged(rest, tuple(x.shape[1:]))
    first = dims[0] if dims else None
    if first is None and items and all(len(x) == len(items[0]) for x in items):
        first = len(items[0])
    return None if rest is None else (first, *rest)


def _concatenated(source: TensorList, dims: tuple | None, sizes: list | None) -> tuple:
    items = source.items()
    if dims == ():
        raise errors.invalid("Concat requires elements to be at least vectors, found scalars instead.")
    if any(x is None for x in items):
        rest = _rest_dims([x for x in items if x is not None], dims)
        missing = next(i for i, x in enumerate(items) if x is None)
        if rest is None or None in rest[1:]:
            raise errors.invalid("Trying to concat list with only uninitialized tensors but element_shape_except_first_dim_ is "
                                 f"not fully defined: {_text(rest)}")
        if sizes is None and rest[0] is None or sizes is not None and len(sizes) <= missing:
            raise errors.invalid(f"List contains uninitialized tensor at index {missing} but leading_dims has only "
                                 f"{len(sizes or [])} elements.")
        items = [_blank(source.dtype, (sizes[i] if sizes else rest[0], *rest[1:])) if x is None else x
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


@concat.kernel
def _concat_kernel(input_handle, *, element_dtype, element_shape):
    source = _typed(_list(input_handle), element_dtype)
    return _concatenated(source, _merged(source.dims, element_shape.static_dims), None)


@concat_v2.kernel
def _concat_v2_kernel(input_handle, element_shape, leading_dims, *, element_dtype):
    source = _typed(_list(input_handle), element_dtype)
    return _concatenated(source, _merged(source.dims, _dims(element_shape)), leading_dims.tolist() or None)


# -- gradients --------------------------------------------------------------------------------------------------------
def _shape_of(t: Any) -> Any:
    dims = t.static_dims
    return convert(list(dims), dtypes.int32) if dims is not None and None not in dims else get("Shape")(t)


def _element_shape_of(handle: Any) -> Any:
    return shape_op(handle, shape_type=dtypes.int32)


@push_back.gradient
def _push_back_gradient(op, grad):
    return list(pop_back(grad, _shape_of(op.inputs[1]) if op.attrs["element_dtype"] != dtypes.variant else convert(-1),
                         element_dtype=op.attrs["element_dtype"]))


@pop_back.gradient
def _pop_back_gradient(op, list_grad, grad):
    if list_grad is None:
        list_grad = zeros_list(op.outputs[0])
    if grad is None:
        grad = get("ZerosLike")(op.outputs[1])
    return push_back(list_grad, grad), None


def zeros_list(handle: Any) -> Any:
    """The gradient of a list that nothing differentiable uses."""
    return get("ZerosLike")(handle)


@stack.gradient
def _stack_gradient(op, grad):
    dims = grad.static_dims
    shape = convert(list(dims[1:]), dtypes.int32) if dims is not None and None not in dims[1:] else get("Shape")(grad)[1:]
    return from_tensor(grad, shape), None


@concat.gradient
def _concat_gradient(op, grad, _):
    return split(grad, _element_shape_of(op.inputs[0]), op.outputs[1])


@concat_v2.gradient
def _concat_v2_gradient(op, grad, _):
    return split(grad, _element_shape_of(op.inputs[0]), op.outputs[1]), None, None


@split.gradient
def _split_gradient(op, grad):
    tensor, _, lengths = op.inputs
    shape = get("ConcatV2")([convert([-1], dtypes.int32), get("Shape")(tensor)[1:]], 0)
    return concat_v2(grad, shape, lengths, element_dtype=tensor.dtype.base_dtype)[0], None, None


@from_tensor.gradient
def _from_tensor_gradient(op, grad):
    t = op.inputs[0]
    n = t.static_dims[0] if t.static_dims else None
    return stack(grad, get("Shape")(t)[1:], element_dtype=t.dtype.base_dtype, num_elements=-1 if n is None else n), None


@get_item.gradient
def _get_item_gradient(op, grad):
    handle, index, _ = op.inputs
    blank = reserve(_element_shape_of(handle), length(handle), element_dtype=grad.dtype.base_dtype)
    return set_item(blank, index, grad), None, None


@set_item.gradient
def _set_item_gradient(op, grad):
    _, index, item = op.inputs
    item_grad = get_item(grad, index, _shape_of(item), element_dtype=item.dtype.base_dtype)
    rest = set_item(grad, index, get("ZerosLike")(item))
    if op.get_attr("resize_if_index_out_of_bounds"):
        rest = resize(rest, length(op.inputs[0]))
    return rest, None, item_grad


@resize.gradient
def _resize_gradient(op, grad):
    return resize(grad, length(op.inputs[0])), None


@gather.gradient
def _gather_gradient(op, grad):
    handle, indices, _ = op.inputs
    blank = reserve(_element_shape_of(handle), length(handle), element_dtype=grad.dtype.base_dtype)
    return scatter_into(blank, grad, indices), None, None


def _scatter_gradient(op: Any, grad: Any) -> Any:
    tensor, indices = op.inputs[0], op.inputs[1]
    return gather(grad, indices, get("Shape")(tensor)[1:], element_dtype=tensor.dtype.base_dtype)


scatter.gradient(lambda op, grad: (_scatter_gradient(op, grad), None, None))
scatter_v2.gradient(lambda op, grad: (_scatter_gradient(op, grad), None, None, None))


@scatter_into.gradient
def _scatter_into_gradient(op, grad):
    _, tensor, indices = op.inputs
    tensor_grad = gather(grad, indices, get("Shape")(tensor)[1:], element_dtype=tensor.dtype.base_dtype)
    return scatter_into(grad, get("ZerosLike")(tensor), indices), tensor_grad, None
