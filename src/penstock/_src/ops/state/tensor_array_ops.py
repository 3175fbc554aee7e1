"""The ops of v1 TensorArrays: arrays of tensors that a step writes once and reads, ordered by a flow of scalars.

An array lives as long as the step. Its gradient is another array of the same size, found through the first one: writes
to the same element add up there. The class users see is in ops/state/tensor_array.py.
"""
from __future__ import annotations

from typing import Any

import numpy as np
import torch

from penstock._src.base import errors
from penstock._src.base.static_shape import compatible, merge, show
from penstock._src.graph.scopes import control_dependencies, name_scope
from penstock._src.kernels import draws
from penstock._src.ops import rules
from penstock._src.ops.registry import get, op

_MAKE = "dtype: type, element_shape: shape = None, dynamic_size: bool = False, clear_after_read: bool = True, " \
        "identical_element_shapes: bool = False, tensor_array_name: string = ''"
make = op("TensorArrayV3", "size: int32 -> handle: resource, flow: float32", _MAKE, stateful=True, host="size").no_gradient()
grad_op = op("TensorArrayGradV3", "handle: resource, flow_in: float32 -> grad_handle: resource, flow_out: float32",
             "source: string", stateful=True).no_gradient()
grad_with_shape = op("TensorArrayGradWithShape", "handle: resource, flow_in: float32, shape_to_prepend: int32 -> "
                     "grad_handle: resource, flow_out: float32", "source: string", stateful=True,
                     host="shape_to_prepend").no_gradient()
write = op("TensorArrayWriteV3", "handle: resource, index: int32, value: T, flow_in: float32 -> flow_out: float32",
           "T: type", stateful=True, host="index")
read = op("TensorArrayReadV3", "handle: resource, index: int32, flow_in: float32 -> value: dtype", "dtype: type",
          stateful=True, host="index")
gather = op("TensorArrayGatherV3", "handle: resource, indices: int32, flow_in: float32 -> value: dtype",
            "dtype: type, element_shape: shape = None", stateful=True, host="indices")
scatter = op("TensorArrayScatterV3", "handle: resource, indices: int32, value: T, flow_in: float32 -> flow_out: float32",
             "T: type", stateful=True, host="indices")
concat = op("TensorArrayConcatV3", "handle: resource, flow_in: float32 -> value: dtype, lengths: int64",
            "dtype: type, element_shape_except0: shape = None", stateful=True)
split = op("TensorArraySplitV3", "handle: resource, value: T, lengths: int64, flow_in: float32 -> flow_out: float32",
           "T: type", stateful=True, host="lengths")
size = op("TensorArraySizeV3", "handle: resource, flow_in: float32 -> size: int32", stateful=True).no_gradient()
close = op("TensorArrayCloseV3", "handle: resource ->", stateful=True).no_gradient()

make.shape(lambda size: [(), ()])
grad_op.shape(lambda handle, flow_in: [(), ()])
grad_with_shape.shape(lambda handle, flow_in, shape_to_prepend: [(), ()])
write.shape(lambda handle, index, value, flow_in: ())
rules.numbers.inputs[write] = rules.numbers.inputs[read] = frozenset(["index"])
read.shape(lambda handle, index, flow_in: None)
scatter.shape(lambda handle, indices, value, flow_in: ())
split.shape(lambda handle, value, lengths, flow_in: ())
size.shape(lambda handle, flow_in: ())


@gather.shape
def _gather_shape(handle, indices, flow_in, *, element_shape):
    dims = element_shape.static_dims
    return None if dims is None else (indices[0] if indices else None, *dims)


@concat.shape
def _concat_shape(handle, flow_in, *, element_shape_except0):
    dims = element_shape_except0.static_dims
    return [None if dims is None else (None, *dims), (None,)]


rules.shapes.holder.update({make: "makes", grad_op: "derives"})
rules.shapes.holder[write] = rules.shapes.holder[scatter] = rules.shapes.holder[split] = "puts"
rules.shapes.holder[read] = rules.shapes.holder[gather] = "takes"
rules.shapes.holder[concat] = rules.shapes.holder[size] = rules.shapes.holder[close] = "looks"
rules.shapes.element[make] = lambda op, dims: op.attrs["element_shape"].static_dims
rules.shapes.element[write] = lambda op, dims: op.inputs[2].static_dims
rules.shapes.element[scatter] = lambda op, dims: op.inputs[2].static_dims[1:] if op.inputs[2].static_dims else None
rules.shapes.element[split] = lambda op, dims: (None, *op.inputs[1].static_dims[1:]) if op.inputs[1].static_dims else None
rules.shapes.element[read] = lambda op, dims: dims
rules.shapes.element[gather] = lambda op, dims: None if dims is None else ((op.inputs[1].static_dims or (None,))[0], *dims)


_FLOW = torch.zeros(())
_NAMES = {"float32": "float", "float64": "double", "float16": "half"}
_LIMIT = 1 << 28
_UNWRITTEN: Any = None
_CLEARED: Any = type("Cleared", (), {})()


def _type_name(dtype: Any) -> str:
    return _NAMES.get(dtype.name, dtype.name)


def check_size(size: int) -> None:
    """Raises InvalidArgumentError for an invalid number of elements."""
    if not 0 <= size <= _LIMIT:
        raise errors.invalid(f"Size should be >= 0 and at most {_LIMIT}, got {size}")


class TensorArrayResource:
    """The run-time value of a TensorArray's handle."""

    def __init__(self, name: str, dtype: Any, size: int, dims: tuple | None, dynamic: bool, clear: bool, identical: bool,
                 is_grad: bool = False):
        check_size(size)
        self.name, self.dtype, self.dims, self.dynamic = name or "TensorArray", dtype, dims, dynamic
        self.clear, self.identical, self.is_grad = clear, identical, is_grad
        self.items: list = [_UNWRITTEN] * size
        self.shapes: list = [None] * size              # of the elements that were written, also after clearing
        self.marked = size                             # how many elements the last split set: its gradient joins these
        self.grads: dict[str, TensorArrayResource] = {}
        self.closed = False
        self.device: torch.device | None = None        # of the elements, where it is not the host

    def check_open(self) -> None:
        """InvalidArgumentError after close."""
        if self.closed:
            raise errors.invalid(f"TensorArray {self.name} has already been closed.")

    def check_type(self, dtype: Any, what: str) -> None:
        """InvalidArgumentError unless the elements are of `dtype`."""
        if dtype != self.dtype:
            raise errors.invalid(f"TensorArray dtype is {_type_name(self.dtype)} but Op {what} dtype {_type_name(dtype)}.")

    def grow(self, count: int) -> None:
        """Makes room for `count` elements, if the array may grow."""
        if count > _LIMIT:
            raise errors.ResourceExhaustedError(None, None, f"a TensorArray of {count} elements is too large")
        more = count - len(self.items)
        self.items.extend([_UNWRITTEN] * more)
        self.shapes.extend([None] * more)

    def write(self, i: int, value: Any) -> None:
        """Sets element i; adds to it in a gradient array."""
        n = len(self.items)
        if i < 0 or (i >= n and not self.dynamic):
            raise errors.invalid(f"Tried to write to index {i} but array is not resizeable and size is: {n}")
        shape = tuple(value.shape)
        if i >= n:
            self.grow(i + 1)
        if shape != self.dims:
            self._check_shape(i, shape)
        old = self.items[i]
        if old is _CLEARED:
            raise errors.invalid(f"Could not write to TensorArray index {i} because it has already been read.")
        if old is not _UNWRITTEN:
            if not self.is_grad:
                raise errors.invalid(f"Could not write to TensorArray index {i} because it has already been written to.")
            if tuple(old.shape) != shape:
                raise errors.invalid(f"Could not aggregate to TensorArray index {i} because the existing shape is "
                                     f"{show(tuple(old.shape))} but the new input shape is {show(shape)}.")
            value = old + value
        self.items[i], self.shapes[i] = value, shape
        if isinstance(value, torch.Tensor) and not value.is_cpu:
            self.device = value.device

    def write_all(self, where: list[int], values: tuple) -> None:
        """Sets elements to values of one shape."""
        if where != list(range(len(self.items))) or any(x is not _UNWRITTEN for x in self.items):
            for i, x in zip(where, values, strict=True):
                self.write(i, x)
        elif where:
            shape = tuple(values[0].shape)
            self._check_shape(0, shape)
            self.items, self.shapes = list(values), [shape] * len(values)
            self.device = None if values[0].is_cpu else values[0].device

    def _check_shape(self, i: int, shape: tuple) -> None:
        if not compatible(self.dims, shape):
            raise errors.invalid(f"Could not write to TensorArray index {i} because the value shape is {show(shape)} which is "
                                 f"incompatible with the TensorArray's inferred element shape: {show(self.dims)} (consider "
                                 "setting infer_shape=False).")
        if self.identical:
            self.dims = merge(self.dims, shape)

    def read(self, i: int, clear: bool | None = None) -> Any:
        """Element i."""
        n = len(self.items)
        if not 0 <= i < n:
            raise errors.invalid(f"Tried to read from index {i} but array size is: {n}")
        value = self.items[i]
        if value is _CLEARED:
            raise errors.invalid(f"Could not read index {i} twice because it was cleared after a previous read (perhaps try "
                                 "setting clear_after_read = false?).")
        if value is _UNWRITTEN:
            value = self._zeros(i)
        if self.clear if clear is None else clear:
            self.items[i] = _CLEARED
        return value

    def _zeros(self, i: int) -> Any:
        dims = self.shapes[i] if self.shapes[i] is not None else self.dims
        if dims is None or None in dims:
            raise errors.invalid(f"Could not read from TensorArray index {i}.  Furthermore, the element shape is not fully "
                                 f"defined: {show(dims)}.  It is possible you are working with a resizeable TensorArray and "
                                 "stop_gradients is not allowing the gradients to be written.  If you set the full "
                                 "element_shape property on the forward TensorArray, the proper all-zeros tensor will be "
                                 "returned instead of incurring this error.")
        if self.dtype.torch is None:
            return np.full(dims, b"", dtype=object)
        return torch.zeros(dims, dtype=self.dtype.torch, device=self.device)

    def gradient(self, source: str, prepend: tuple = ()) -> TensorArrayResource:
        """The array of gradients for one call of tf.gradients."""
        found = self.grads.get(source)
        if found is None:
            dims = None if self.dims is None else (*prepend, *self.dims)
            found = TensorArrayResource(f"{self.name}_grad_{source}", self.dtype, len(self.items), dims, False, self.clear,
                                        self.identical, True)
            found.shapes = [None if s is None else (*prepend, *s) for s in self.shapes]
            found.marked, found.device = self.marked, self.device
            self.grads[source] = found
            self.dynamic = False
        return found


def _array(handle: Any) -> TensorArrayResource:
    if not isinstance(handle, TensorArrayResource):
        raise errors.invalid(f"a TensorArray was expected, got {type(handle).__name__}")
    handle.check_open()
    return handle


# -- kernels --------------------------------------------------------------------------------------------------------
@make.kernel
def _make_kernel(size, *, dtype, element_shape, dynamic_size, clear_after_read, identical_element_shapes, tensor_array_name):
    if size.ndim:
        raise errors.invalid(f"TensorArray size must be scalar, but had shape: {show(tuple(size.shape))}")
    device = draws.device_for(_FLOW.device)
    return TensorArrayResource(tensor_array_name, dtype, int(size), element_shape.static_dims, dynamic_size, clear_after_read,
                               identical_element_shapes), _FLOW if device == _FLOW.device else torch.zeros((), device=device)


@grad_op.kernel
def _grad_kernel(handle, flow_in, *, source):
    return _array(handle).gradient(source), flow_in


@grad_with_shape.kernel
def _grad_with_shape_kernel(handle, flow_in, shape_to_prepend, *, source):
    return _array(handle).gradient(source, tuple(shape_to_prepend.tolist())), flow_in


@write.kernel
def _write_kernel(handle, index, value, flow_in, *, T):
    array = _array(handle)
    array.check_type(T, "is trying to write")
    if type(index) is not int and index.ndim:
        raise errors.invalid(f"TensorArray index must be scalar, but had shape: {show(tuple(index.shape))}")
    array.write(int(index), value)
    return flow_in


@read.kernel
def _read_kernel(handle, index, flow_in, *, dtype):
    array = _array(handle)
    array.check_type(dtype, "requested")
    return array.read(int(index))


@gather.kernel
def _gather_kernel(handle, indices, flow_in, *, dtype, element_shape):
    array = _array(handle)
    array.check_type(dtype, "requested")
    if indices.ndim != 1:
        raise errors.invalid(f"Expected indices to be a vector, but received shape: {show(tuple(indices.shape))}")
    items = [array.read(i) for i in indices.tolist()]
    if not items:
        dims = array.dims if array.dims is not None else element_shape.static_dims
        if dims is None or None in dims:
            raise errors.UnimplementedError(None, None, f"TensorArray has size zero, but element shape {show(dims)} is not "
                                            "fully defined. Currently only static shapes are supported when packing "
                                            "zero-size TensorArrays.")
        return np.empty((0, *dims), dtype=object) if dtype.torch is None else torch.zeros((0, *dims), dtype=dtype.torch)
    for i, x in enumerate(items):
        if x.shape != items[0].shape:
            raise errors.invalid(f"TensorArray has inconsistent shapes.  Index 0 has shape: {show(tuple(items[0].shape))} but "
                                 f"index {i} has shape: {show(tuple(x.shape))}")
    return np.stack(items) if dtype.torch is None else torch.stack(items)


@scatter.kernel
def _scatter_kernel(handle, indices, value, flow_in, *, T):
    array = _array(handle)
    array.check_type(T, "is trying to write")
    where = indices.tolist() if indices.ndim == 1 else None
    if where is None:
        raise errors.invalid(f"Expected indices to be a vector, but received shape: {show(tuple(indices.shape))}")
    if value.ndim == 0:
        raise errors.invalid(f"Expected value to be at least a vector, but received shape: {show(tuple(value.shape))}")
    if len(where) != value.shape[0]:
        raise errors.invalid(f"Expected len(indices) == values.shape[0], but saw: {len(where)} vs. {value.shape[0]}")
    if where and (max(where) >= len(array.items) and not array.dynamic or min(where) < 0):
        raise errors.invalid(f"Max scatter index must be < array size ({max(where)} vs. {len(array.items)})")
    if isinstance(value, torch.Tensor):
        array.write_all(where, value.unbind())
    else:
        for i, x in zip(where, value, strict=True):
            array.write(i, np.asarray(x, dtype=object))
    return flow_in


@concat.kernel
def _concat_kernel(handle, flow_in, *, dtype, element_shape_except0):
    array = _array(handle)
    array.check_type(dtype, "requested")
    items = [array.read(i) for i in range(array.marked if array.is_grad else len(array.items))]
    if not items:
        dims = element_shape_except0.static_dims
        if dims is None or None in dims:
            raise errors.UnimplementedError(None, None, f"TensorArray has size zero, but element_shape_except0 {show(dims)} is "
                                            "not fully defined. Currently only static shapes are supported when concatenating "
                                            "zero-size TensorArrays.")
        return torch.zeros((0, *dims), dtype=dtype.torch), torch.zeros(0, dtype=torch.int64)
    for i, x in enumerate(items):
        if x.ndim == 0:
            raise errors.invalid(f"Concat saw a scalar shape at index {i} but requires at least vectors.  Did you mean to call "
                                 "pack?")
        if x.shape[1:] != items[0].shape[1:]:
            raise errors.invalid(f"TensorArray has inconsistent shapes.  Index 0 has (excepting dimension 0) shape: "
                                 f"{show(tuple(items[0].shape[1:]))} but index {i} has (excepting dimension 0) shape: "
                                 f"{show(tuple(x.shape[1:]))}")
    lengths = torch.tensor([x.shape[0] for x in items], dtype=torch.int64)
    return (np.concatenate(items) if dtype.torch is None else torch.cat(items)), lengths


@split.kernel
def _split_kernel(handle, value, lengths, flow_in, *, T):
    array = _array(handle)
    array.check_type(T, "is trying to write")
    if lengths.ndim != 1:
        raise errors.invalid(f"Expected lengths to be a vector, received shape: {show(tuple(lengths.shape))}")
    if value.ndim == 0:
        raise errors.invalid(f"Expected value to be at least a vector, but received shape: {show(tuple(value.shape))}")
    sizes = lengths.tolist()
    if sum(sizes) != value.shape[0] or any(n < 0 for n in sizes):
        raise errors.invalid(f"Expected sum of lengths to be equal to values.shape[0], but sum of lengths is {sum(sizes)} and "
                             f"value's shape is: {show(tuple(value.shape))} ")
    if len(sizes) != len(array.items) and not (array.dynamic and len(sizes) > len(array.items)):
        raise errors.invalid(f"TensorArray's size is not equal to the size of lengths ({len(array.items)} vs. {len(sizes)}), "
                             "and the TensorArray is not marked as dynamically resizeable")
    if not array.is_grad:
        array.marked = len(sizes)
    at = 0
    for i, n in enumerate(sizes):
        array.write(i, value[at:at + n])
        at += n
    return flow_in


@size.kernel
def _size_kernel(handle, flow_in):
    return torch.tensor(len(_array(handle).items), dtype=torch.int32)


@close.kernel
def _close_kernel(handle):
    array = _array(handle)
    array.closed, array.items = True, []


# -- gradients --------------------------------------------------------------------------------------------------------
def gradient_source(tensor: Any) -> str:
    """Which call of tf.gradients a gradient belongs to, from its name: each has its own arrays."""
    parts = tensor.name.split("/")
    found = [i for i, p in enumerate(parts) if p.startswith("gradients")]
    if not found:
        raise ValueError(f"Expected op/tensor name to start with gradients (excluding scope), got: {tensor.name}. This means "
                         "that a tf.gradients op with this op in its dependency path has a custom name that does not start "
                         "with 'gradients'. Please make sure all calls to tf.gradients that include non-empty `name` "
                         "arguments start with 'gradients'")
    return "/".join(parts[:found[-1] + 1])


def _gradient_array(op: Any, flow: Any, grad: Any) -> tuple:
    """The handle of the gradient array, and a flow that depends on its creation."""
    handle = op.inputs[0]
    with name_scope("TensorArrayGrad"):
        made, _ = grad_op(handle, flow, source=gradient_source(grad))
        with control_dependencies([made]):
            return made, get("Identity")(flow, name="gradient_flow")


@read.gradient
def _read_gradient(op, grad):
    handle, flow = _gradient_array(op, op.inputs[2], grad)
    return None, None, write(handle, op.inputs[1], grad, flow)


@write.gradient
def _write_gradient(op, flow):
    handle, after = _gradient_array(op, flow, flow)
    value = op.inputs[2]
    grad = read(handle, op.inputs[1], after, dtype=value.dtype.base_dtype)
    grad.set_shape(value.shape)
    return None, None, grad, flow


@gather.gradient
def _gather_gradient(op, grad):
    handle, flow = _gradient_array(op, op.inputs[2], grad)
    return None, None, scatter(handle, op.inputs[1], grad, flow)


@scatter.gradient
def _scatter_gradient(op, flow):
    handle, after = _gradient_array(op, flow, flow)
    value = op.inputs[2]
    grad = gather(handle, op.inputs[1], after, dtype=value.dtype.base_dtype)
    grad.set_shape(value.shape)
    return None, None, grad, flow


@concat.gradient
def _concat_gradient(op, grad, _):
    handle, flow = _gradient_array(op, op.inputs[1], grad)
    return None, split(handle, grad, op.outputs[1], flow)


@split.gradient
def _split_gradient(op, flow):
    handle, after = _gradient_array(op, flow, flow)
    value = op.inputs[1]
    grad = concat(handle, after, dtype=value.dtype.base_dtype)[0]
    grad.set_shape(value.shape)
    return None, grad, None, flow
