"""Lists of tensors as values (dtype variant): functional loops save values in them, and TensorArrays in functions are lists.

Lists are immutable; kernels change one in place if they hold its only reference (ops/state/list_values.py).
"""
from __future__ import annotations

import functools
import sys
from sys import getrefcount
from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors
from penstock._src.base.static_shape import compatible, merge, rank_at_most, rank_is, show
from penstock._src.graph.build import ShapeContext
from penstock._src.graph.constant import constant_value
from penstock._src.graph.convert import convert
from penstock._src.graph.list_types import EMPTY, UNSET, Elements, elements_of
from penstock._src.ops import rules
from penstock._src.ops.registry import get, internal, op
from penstock._src.ops.state.list_values import (
    TensorList,
    as_list,
    check_fits,
    checked_index,
    concatenated,
    dims_in,
    element_dims,
    filled,
    is_plain,
    joined,
    merged,
    plus,
    scattered,
    shape_text,
    stacked,
    typed,
    unset,
    zero_element,
)


def _references(handle: Any, *, element_dtype: Any) -> int:
    return getrefcount(handle)


# How many references a kernel sees to a list that only its caller held, and donated: as many as to a new object. Newer
# versions of Python do not count all references of callers.
_ALONE = functools.partial(_references, element_dtype=None)(object()) if sys.version_info < (3, 14) else 0


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
    _op.shape(lambda element_shape, number: _one_list(element_shape, number))
from_tensor.shape(lambda tensor, element_shape: ())


@split.shape
def _split_shape(tensor, element_shape, lengths, *, c):
    dims = _given(c)
    if tensor is not None and dims is not None:
        merge((None, *tensor[1:]), (None, *dims[1:]) if dims else ())
    return ()


scatter.shape(lambda tensor, indices, element_shape: _one_list(element_shape))
scatter_v2.shape(lambda tensor, indices, element_shape, num_elements: _one_list(element_shape, num_elements))


def _one_list(element_shape: Any, number: Any = ()) -> tuple:
    """The shape of a list's handle. The shape of its elements is a vector or -1, their number a scalar."""
    rank_at_most(element_shape, 1)
    rank_is(number, 0)
    return ()


def _number(x: torch.Tensor, name: str) -> int:
    if x.dim():
        raise errors.invalid(f"{name} must be a scalar, got shape {list(x.shape)}")
    return int(x)


@empty_list.kernel
def _empty_list_kernel(element_shape, max_num_elements, *, element_dtype):
    return TensorList([], 0, element_dtype, dims_in(element_shape), _number(max_num_elements, "max_num_elements"))


@reserve.kernel
def _reserve_kernel(element_shape, num_elements, *, element_dtype):
    n = _number(num_elements, "num_elements")
    if n < 0:
        raise errors.invalid(f"The num_elements to reserve must be a non negative number, but got {n}")
    return TensorList(unset(n), n, element_dtype, dims_in(element_shape), only=-1)


@from_tensor.kernel
def _from_tensor_kernel(tensor, element_shape, *, element_dtype):
    if tensor.ndim == 0:
        raise errors.invalid("Tensor must be at least a vector, but saw shape: []")
    dims = dims_in(element_shape)
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
        raise errors.invalid(f"Expected lengths to be a vector, received shape: {shape_text(tuple(lengths.shape))}")
    dims = dims_in(element_shape)
    if dims == ():
        raise errors.invalid("TensorListSplit requires element_shape to be at least of rank 1, but saw: []")
    if dims is not None and (len(dims) != tensor.ndim or not compatible(dims[1:], tuple(tensor.shape[1:]))):
        raise errors.invalid(f"tensor shape {shape_text(tuple(tensor.shape))} is not compatible with element_shape "
                             f"{shape_text(dims)}")
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


@scatter.kernel
def _scatter_kernel(tensor, indices, element_shape, *, element_dtype):
    items = scattered(tensor, indices, [], None)
    return TensorList(items, len(items), element_dtype, dims_in(element_shape))


@scatter_v2.kernel
def _scatter_v2_kernel(tensor, indices, element_shape, num_elements, *, element_dtype):
    n = _number(num_elements, "num_elements")
    if n < -1:
        raise errors.invalid(f"TensorListScatter expects num_elements >= -1, found: {n}")
    items = scattered(tensor, indices, unset(max(n, 0)), n if n >= 0 else None)
    return TensorList(items, len(items), element_dtype, dims_in(element_shape))


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
    return torch.tensor(as_list(input_handle).size, dtype=torch.int32)


@shape_op.kernel
def _shape_kernel(input_handle, *, shape_type):
    dims = as_list(input_handle).dims
    if dims is None:
        return torch.tensor(-1, dtype=shape_type.torch)
    return torch.tensor([-1 if d is None else d for d in dims], dtype=shape_type.torch)


@push_back.kernel
def _push_back_kernel(input_handle, tensor, *, element_dtype):
    if type(input_handle) is TensorList and getrefcount(input_handle) <= _ALONE and is_plain(input_handle, element_dtype) and \
            input_handle.dims == tensor.shape and len(input_handle.store) == input_handle.size:
        input_handle.store.append(tensor)
        input_handle.size += 1
        return input_handle
    target = typed(as_list(input_handle), element_dtype)
    check_fits(target, tensor)
    return target.push(tensor)


@rules.loops.lists(push_back)
class _Pushing:
    """Appends to a list in all iterations of a loop: elements of the list's type and shape go to its store without checks."""

    __slots__ = ("step", "_list", "_dtype")

    def __init__(self, handle: Any, dtype: Any, dims: tuple | None):
        self._list, self._dtype = handle, dtype
        plain = type(handle) is TensorList and is_plain(handle, dtype) and dims is not None and None not in dims and \
            compatible(handle.dims, dims)
        if plain and (getrefcount(handle) > _OWN or len(handle.store) != handle.size):
            self._list = handle.like(handle.items())
        self.step = self._list.store.append if plain else self._push

    def _push(self, item: Any) -> None:
        target = typed(as_list(self._list), self._dtype)
        check_fits(target, item)
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
        plain = type(handle) is TensorList and is_plain(handle, dtype) and not any(x is None for x in handle.store)
        if plain and (getrefcount(handle) > _OWN or getrefcount(handle.store) > 2 or len(handle.store) != handle.size):
            self._list = handle.like(handle.items())
        self.step = self._list.store.pop if plain else self._pop

    def _pop(self) -> Any:
        source = self._list
        self._list, item = typed(as_list(source), self._dtype).pop()
        return zero_element(self._dtype, element_dims(source, self._dims)) if item is None else item

    def finish(self) -> Any:
        """The list."""
        if self.step != self._pop:
            self._list.size = len(self._list.store)
        return self._list


class _Counting:
    """The number of references that a constructor sees to a donated argument."""

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
        check_fits(typed(as_list(h), element_dtype), x, i)
        out[i] = h.push(x)
    return out


@pop_back.kernel
def _pop_back_kernel(input_handle, element_shape, *, element_dtype):
    alone = type(input_handle) is TensorList and getrefcount(input_handle) <= _ALONE and getrefcount(input_handle.store) <= 2
    if alone and is_plain(input_handle, element_dtype) and len(input_handle.store) == input_handle.size and \
            input_handle.size and input_handle.store[-1] is not None:
        return input_handle.pop(True)
    rest, item = typed(as_list(input_handle), element_dtype).pop(alone)
    if item is None:
        item = zero_element(element_dtype, element_dims(input_handle, dims_in(element_shape)))
    return rest, item


@get_item.kernel
def _get_item_kernel(input_handle, index, element_shape, *, element_dtype):
    if type(index) is int and type(input_handle) is TensorList and input_handle.dtype is element_dtype and \
            0 <= index < input_handle.size and input_handle.store[index] is not None:
        return input_handle.store[index]
    source = typed(as_list(input_handle), element_dtype)
    item = source.store[checked_index(source, index)]
    return zero_element(element_dtype, element_dims(source, dims_in(element_shape))) if item is None else item


@set_item.kernel
def _set_item_kernel(input_handle, index, item, *, element_dtype, resize_if_index_out_of_bounds):
    alone = type(input_handle) is TensorList and getrefcount(input_handle) <= _ALONE and getrefcount(input_handle.store) <= 2
    if alone and type(index) is int and input_handle.dtype is element_dtype and 0 <= index < input_handle.size and \
            (input_handle.dims is None or item.shape == input_handle.dims):              # a loop writes its array
        input_handle.store[index] = item
        input_handle.only = index if input_handle.only in (-1, index) else None
        return input_handle
    target = typed(as_list(input_handle), element_dtype)
    check_fits(target, item)
    if resize_if_index_out_of_bounds and int(index) >= target.size:
        target, alone = _grown(target, int(index) + 1, alone), True
    at = checked_index(target, index, "modify")
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
    target = typed(as_list(input_handle), element_dtype)
    check_fits(target, item)
    at = checked_index(target, index, "modify")
    if not alone:
        only = target.only
        target = target.like(target.items())
        target.only = only
    target.store[at] = plus(target.store[at], item)
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


def _grown(target: TensorList, size: int, alone: bool) -> TensorList:
    """A list with more elements, not set; the same one if nothing else refers to it, so that appending takes no copies."""
    more = unset(size - target.size)
    if alone and len(target.store) == target.size:
        target.store += more
        target.size = size
        return target
    out = target.like(target.items() + more)
    out.only = target.only
    return out


@resize.kernel
def _resize_kernel(input_handle, size):
    source, n = as_list(input_handle), int(size)
    if n < 0:
        raise errors.invalid("TensorListSlice expects size to be non-negative.")
    items = source.items()
    return source.like(items[:n] + unset(max(0, n - source.size)))


@concat_lists.kernel
def _concat_lists_kernel(input_a, input_b, *, element_dtype):
    if not isinstance(input_a, np.ndarray):
        return joined(input_a, input_b, element_dtype)
    if not isinstance(input_b, np.ndarray) or input_a.shape != input_b.shape:
        raise errors.invalid("input_a and input_b must have the same shape")
    out = np.empty(input_a.size, dtype=object)
    for i, (a, b) in enumerate(zip(input_a.reshape(-1), input_b.reshape(-1), strict=True)):
        out[i] = joined(a, b, element_dtype, i)
    return out.reshape(input_a.shape)


@scatter_into.kernel
def _scatter_into_kernel(input_handle, tensor, indices, *, element_dtype):
    target = typed(as_list(input_handle), element_dtype)
    return target.like(scattered(tensor, indices, target.items(), None))


@stack.kernel
def _stack_kernel(input_handle, element_shape, *, element_dtype, num_elements):
    source, dims = typed(as_list(input_handle), element_dtype), dims_in(element_shape)
    if num_elements >= 0 and source.size != num_elements:
        raise errors.invalid(f"Operation expected a list with {num_elements} elements but got a list with {source.size} "
                             "elements.")
    return stacked(filled(source, dims), element_dtype, element_dims(source, dims))


@gather.kernel
def _gather_kernel(input_handle, indices, element_shape, *, element_dtype):
    source, dims = typed(as_list(input_handle), element_dtype), dims_in(element_shape)
    where = [checked_index(source, i) for i in indices.reshape(-1)]
    picked = source.like([source.store[i] for i in where])
    known = element_dims(source, dims) if any(x is None for x in picked.items()) or not where else dims
    if any(x is None for x in picked.items()) and (known is None or None in known):
        raise errors.invalid("Tried to gather uninitialized tensors from a list with non-fully-defined element_shape: "
                             f"{shape_text(known)}")
    return stacked(filled(picked, known), element_dtype, known)


@concat.kernel
def _concat_kernel(input_handle, *, element_dtype, element_shape):
    source = typed(as_list(input_handle), element_dtype)
    return concatenated(source, merged(source.dims, element_shape.static_dims), None)


@concat_v2.kernel
def _concat_v2_kernel(input_handle, element_shape, leading_dims, *, element_dtype):
    source = typed(as_list(input_handle), element_dtype)
    return concatenated(source, merged(source.dims, dims_in(element_shape)), leading_dims.tolist() or None)


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
