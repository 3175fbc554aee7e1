"""TensorArray: an array of tensors for loops, written and read by index.

One class over three implementations: v1 graphs use a resource and a flow of scalars that orders its ops
(ops/state/tensor_array_ops.py), functions use a list that is itself the flow (ops/state/tensor_list.py), eager mode a Python
list.
"""
from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from penstock._src.base import dtypes, errors
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph import context
from penstock._src.graph.constant import constant_value
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.graph.type_registry import register
from penstock._src.graph.type_spec import TensorSpec, TypeSpec, register_type_spec_from_value_converter
from penstock._src.ops.registry import get
from penstock._src.ops.state import tensor_array_ops as v3
from penstock._src.ops.state import tensor_list as lists


@export("TensorArray")
class TensorArray:
    """An array of tensors of one dtype.

    >>> ta = tf.TensorArray(tf.float32, size=2)
    >>> ta = ta.write(0, 1.).write(1, 2.)
    >>> ta.stack()

    Every method that changes the array returns a new object to continue with.
    """

    _is_tensor_array = True

    def __init__(self, dtype: Any, size: Any = None, dynamic_size: bool | None = None,
                 clear_after_read: bool | None = None, tensor_array_name: str | None = None, handle: Any = None,
                 flow: Any = None, infer_shape: bool = True, element_shape: Any = None,
                 colocate_with_first_write_call: bool = True, name: str | None = None):
        variant = flow is not None and flow.dtype == dtypes.variant
        if context.executing_eagerly() and not variant:
            kind: Any = _Eager
        elif variant or context.process.v2_control_flow or context.current_graph().building_function:
            kind = _Listed
        else:
            kind = _Resource
        self._implementation = kind(dtypes.as_dtype(dtype).base_dtype, bool(dynamic_size), infer_shape,
                                    TensorShape(element_shape))
        self._implementation.start(size, dynamic_size, clear_after_read, tensor_array_name, handle, flow, element_shape,
                                   colocate_with_first_write_call, name)

    flow = property(lambda self: self._implementation.flow, doc="The tensor that orders operations on the array.")
    dtype = property(lambda self: self._implementation.dtype, doc="The DType of the elements.")
    handle = property(lambda self: self._implementation.handle, doc="The resource handle, in v1 graphs.")
    element_shape = property(lambda self: self._implementation.element_shape, doc="The static shape of the elements.")
    dynamic_size = property(lambda self: self._implementation.dynamic, doc="Whether the array may grow.")
    _infer_shape = property(lambda self: self._implementation.infer_shape)

    def _with_flow(self, flow: Any) -> TensorArray:
        """The array at another point of its flow."""
        if not context.executing_eagerly() and context.current_graph().building_function and \
                not isinstance(self._implementation, _Listed):
            raise NotImplementedError("Attempting to build a graph-mode TF2-style TensorArray from either an eager-mode "
                                      "TensorArray or a TF1-style TensorArray.  This is not currently supported.  You may be "
                                      "attempting to capture a TensorArray inside a tf.function or tf.data map function. "
                                      "Instead, construct a new TensorArray inside the function.")
        new = object.__new__(TensorArray)
        new._implementation = self._implementation.at(flow)
        return new

    def mark_used(self) -> None:
        """Does nothing: unused arrays cause no warnings."""

    def _after(self, flow: Any) -> TensorArray:
        return self if flow is None else self._with_flow(flow)

    def identity(self) -> TensorArray:
        """The same array, after open control dependencies."""
        return self._after(self._implementation.identity())

    def grad(self, source: str, flow: Any = None, name: str | None = None) -> TensorArray:
        """The array of gradients, in v1 graphs."""
        return self._implementation.grad(source, flow, name)

    def read(self, index: Any, name: str | None = None) -> Any:
        """Element `index`."""
        return self._implementation.read(index, name)

    def write(self, index: Any, value: Any, name: str | None = None) -> TensorArray:
        """Sets element `index`."""
        return self._after(self._implementation.write(index, value, name))

    def stack(self, name: str | None = None) -> Any:
        """All elements as one tensor, along a new first dimension."""
        return self._implementation.stack(name)

    def gather(self, indices: Any, name: str | None = None) -> Any:
        """Some elements as one tensor, along a new first dimension."""
        return self._implementation.gather(indices, name)

    def concat(self, name: str | None = None) -> Any:
        """All elements joined along their first dimension."""
        return self._implementation.concat(name)

    def unstack(self, value: Any, name: str | None = None) -> TensorArray:
        """Sets the elements to the rows of a tensor."""
        return self._after(self._implementation.unstack(value, name))

    def scatter(self, indices: Any, value: Any, name: str | None = None) -> TensorArray:
        """Sets some elements to the rows of a tensor."""
        return self._after(self._implementation.scatter(indices, value, name))

    def split(self, value: Any, lengths: Any, name: str | None = None) -> TensorArray:
        """Sets the elements to pieces of a tensor, of the given lengths."""
        return self._after(self._implementation.split(value, lengths, name))

    def size(self, name: str | None = None) -> Any:
        """The number of elements."""
        return self._implementation.size(name)

    def close(self, name: str | None = None) -> Any:
        """Frees the elements."""
        return self._implementation.close(name)


class _Base:
    """The base of the three kinds: the type, and the static shape, which all objects of one array share."""

    handle: Any = None
    flow: Any = None

    def __init__(self, dtype: Any, dynamic: bool, infer_shape: bool, element_shape: TensorShape):
        self.dtype, self.dynamic, self.infer_shape = dtype, dynamic, infer_shape
        self.shape = [element_shape]
        self.first_write: list | None = None            # what the array is colocated with

    @property
    def element_shape(self) -> TensorShape:
        """The static shape of the elements, as far as it is known."""
        return self.shape[0]

    def at(self, flow: Any) -> Any:
        """The same array with another flow."""
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__)
        new.flow = flow
        return new

    def check_shape(self, shape: TensorShape) -> None:
        """Merges the shape of an element into the static shape."""
        if not shape.is_compatible_with(self.element_shape):
            raise ValueError(f"Inconsistent shapes: saw {shape} but expected {self.element_shape} ")
        if self.infer_shape:
            self.shape[0] = self.element_shape.merge_with(shape)

    def value(self, value: Any) -> Tensor:
        """A value to write, as a tensor."""
        return convert(value, name="value", preferred_dtype=self.dtype)

    def identity(self) -> Any:
        """The flow after open control dependencies."""
        return get("Identity")(self.flow)

    def grad(self, source: str, flow: Any, name: str | None) -> TensorArray:
        """Only v1 graphs have it."""
        raise NotImplementedError("TensorArray.grad is not supported here: gradients of operations that use this kind of "
                                  "TensorArray do not need it.")

    def _start_flow(self, handle: Any, flow: Any, size: Any, element_shape: Any, dynamic: Any, clear: Any, label: Any) -> None:
        """Checks the arguments of the constructor."""
        given = "flow" if handle is None else "handle"
        if handle is not None and label:
            raise ValueError("Pass handle or tensor_array_name, not both")
        if handle is not None and not isinstance(handle, Tensor):
            raise TypeError("Handle must be a Tensor")
        for value, what in ((size, "size"), (element_shape, "element_shape"), (dynamic, "dynamic_size"),
                            (clear, "clear_after_read")):
            if value is not None:
                raise ValueError(f"Cannot provide both a {given} and {what} at the same time")
        if flow is None:
            raise ValueError("A handle needs a flow.")
        self.flow = flow


class _Resource(_Base):
    """v1 graphs: a resource, and a flow of scalars."""

    length: int | None = None           # of an array that cannot grow, where it is known

    def start(self, size: Any, dynamic: Any, clear: Any, label: Any, handle: Any, flow: Any, element_shape: Any,
              colocate: bool, name: Any) -> None:
        """Creates the array, or wraps an existing handle."""
        if handle is None and size is None:
            raise ValueError("Size must be provided if handle is not provided")
        if handle is not None:
            self._start_flow(handle, flow, size, element_shape, dynamic, clear, label)
            self.handle = handle
            return
        self.first_write = [] if colocate else None
        graph = context.current_graph()
        with name_scope(name, "TensorArray", [handle, size, flow]) as scope, contextlib.ExitStack() as stack:
            if colocate:
                stack.enter_context(graph.device(None))
                stack.enter_context(graph.colocate_with(None, ignore_existing=True))
            self.handle, self.flow = v3.make(size, dtype=self.dtype, element_shape=element_shape, dynamic_size=self.dynamic,
                                             clear_after_read=True if clear is None else clear,
                                             identical_element_shapes=self.infer_shape, tensor_array_name=label or "",
                                             name=scope)
            known = None if self.dynamic else constant_value(convert(size, dtypes.int32))
            self.length = None if known is None else int(known)

    @contextlib.contextmanager
    def _colocated(self, value: Any) -> Iterator[None]:
        if self.first_write is None:
            yield
            return
        if not self.first_write:
            self.first_write.append(value)
        with context.current_graph().colocate_with(self.first_write[0]):
            yield

    def grad(self, source: str, flow: Any, name: str | None) -> TensorArray:
        """The array of gradients."""
        flow = self.flow if flow is None else flow
        graph = context.current_graph()
        with name_scope(name, "TensorArrayGrad", [self.handle]), graph.colocate_with(self.handle):
            handle, _ = v3.grad_op(self.handle, flow, source=source, name=name)
            with graph.control_dependencies([handle]):
                flow = get("Identity")(flow, name="gradient_flow")
            made = TensorArray(self.dtype, handle=handle, flow=flow, infer_shape=self.infer_shape,
                               colocate_with_first_write_call=False)
            made._implementation.shape = self.shape
            return made

    def read(self, index: Any, name: str | None) -> Tensor:
        """TensorArrayReadV3."""
        value = v3.read(self.handle, index, self.flow, dtype=self.dtype, name=name)
        value.set_shape(self.element_shape)
        return value

    def write(self, index: Any, value: Any, name: str | None) -> Tensor:
        """TensorArrayWriteV3."""
        with name_scope(name, "TensorArrayWrite", [self.handle, index, value]):
            value = self.value(value)
            self.check_shape(value.shape)
            with self._colocated(value):
                return v3.write(self.handle, index, value, self.flow, name=name)

    def stack(self, name: str | None) -> Tensor:
        """A gather of all elements."""
        with context.current_graph().colocate_with(self.handle), name_scope(name, "TensorArrayStack", [self.handle]):
            value = self.gather(get("Range")(convert(0), self.size(None), convert(1)), name)
        if value.static_dims is not None:
            value.set_shape([self.length, *value.static_dims[1:]])
        return value

    def gather(self, indices: Any, name: str | None) -> Tensor:
        """TensorArrayGatherV3."""
        value = v3.gather(self.handle, indices, self.flow, dtype=self.dtype, element_shape=self.element_shape, name=name)
        if self.element_shape.static_dims is not None:
            value.set_shape([None, *self.element_shape.static_dims])
        return value

    def concat(self, name: str | None) -> Tensor:
        """TensorArrayConcatV3."""
        rest = self.element_shape[1:]
        value, _ = v3.concat(self.handle, self.flow, dtype=self.dtype, element_shape_except0=rest, name=name)
        if rest.static_dims is not None:
            rows = self.element_shape.static_dims[0] if self.element_shape.static_dims else None
            value.set_shape([None if rows is None or self.length is None else rows * self.length, *rest.static_dims])
        return value

    def unstack(self, value: Any, name: str | None) -> Tensor:
        """A scatter of all rows."""
        with name_scope(name, "TensorArrayUnstack", [self.handle, value]):
            value = self.value(value)
            rows = value.static_dims[0] if value.static_dims else None
            count = convert(rows) if rows is not None else get("Shape")(value)[0]
            return self.scatter(get("Range")(convert(0), count, convert(1)), value, name)

    def scatter(self, indices: Any, value: Any, name: str | None) -> Tensor:
        """TensorArrayScatterV3."""
        with name_scope(name, "TensorArrayScatter", [self.handle, value, indices]):
            value = self.value(value)
            self.check_shape(value.shape[1:])
            with self._colocated(value):
                return v3.scatter(self.handle, indices, value, self.flow, name=name)

    def split(self, value: Any, lengths: Any, name: str | None) -> Tensor:
        """TensorArraySplitV3."""
        with name_scope(name, "TensorArraySplit", [self.handle, value, lengths]):
            value = self.value(value)
            with self._colocated(value):
                lengths = get("Cast")(lengths, DstT=dtypes.int64)
                known = constant_value(lengths)
                if value.static_dims and known is not None and known.size and known.max() == known.min():
                    self.check_shape(TensorShape([int(known[0])]).concatenate(value.shape[1:]))
                return v3.split(self.handle, value, lengths, self.flow, name=name)

    def size(self, name: str | None) -> Tensor:
        """TensorArraySizeV3."""
        return v3.size(self.handle, self.flow, name=name)

    def close(self, name: str | None) -> Any:
        """TensorArrayCloseV3."""
        return v3.close(self.handle, name=name)


def _shape_tensor(shape: TensorShape) -> Any:
    """A static shape as list ops take it."""
    dims = shape.static_dims
    return convert(-1) if dims is None else convert([-1 if d is None else d for d in dims], dtypes.int32)


class _Listed(_Base):
    """Functions: the flow is the list itself."""

    def start(self, size: Any, dynamic: Any, clear: Any, label: Any, handle: Any, flow: Any, element_shape: Any,
              colocate: bool, name: Any) -> None:
        """Reserves a list, or wraps an existing one."""
        if flow is None and size is None:
            raise ValueError("Size must be provided if flow is not provided")
        if flow is not None:
            if not isinstance(flow, Tensor) or flow.dtype != dtypes.variant:
                raise TypeError("flow must be a variant tensor")
            self._start_flow(None, flow, size, element_shape, None, None, None)
            return
        with name_scope(name, "TensorArrayV2", [size, flow]) as scope:
            self.flow = lists.reserve(_shape_tensor(self.element_shape), size, element_dtype=self.dtype, name=scope)

    def read(self, index: Any, name: str | None) -> Tensor:
        """TensorListGetItem."""
        with name_scope(name, "TensorArrayV2Read", [self.flow, index]):
            return lists.get_item(self.flow, index, _shape_tensor(self.element_shape), element_dtype=self.dtype, name=name)

    def write(self, index: Any, value: Any, name: str | None) -> Tensor:
        """TensorListSetItem, which makes room where the array may grow."""
        with name_scope(name, "TensorArrayV2Write", [self.flow, index, value]):
            value = self.value(value)
            self._check_type(value)
            self.check_shape(value.shape)
            return lists.set_item(self.flow, index, value, resize_if_index_out_of_bounds=self.dynamic, name=name)

    def _check_type(self, value: Tensor) -> None:
        if value.dtype.base_dtype != self.dtype:
            raise ValueError(f"TensorArray dtype is {self.dtype.name} but Op is trying to write dtype {value.dtype.name}")

    def stack(self, name: str | None) -> Tensor:
        """TensorListStack."""
        with name_scope(name, "TensorArrayV2Stack", [self.flow]):
            return lists.stack(self.flow, _shape_tensor(self.element_shape), element_dtype=self.dtype,
                               num_elements=self._known_length())

    def _known_length(self) -> int:
        """The static number of elements, else -1: writes keep the reserved length."""
        if self.dynamic or hasattr(self.flow, "_value"):
            return -1
        made = self.flow.op
        while made.opdef is lists.set_item:
            made = made.inputs[0].op
        count = constant_value(made.inputs[1]) if made.opdef is lists.reserve else None
        return -1 if count is None else int(count)

    def gather(self, indices: Any, name: str | None) -> Tensor:
        """TensorListGather."""
        return lists.gather(self.flow, indices, _shape_tensor(self.element_shape), element_dtype=self.dtype, name=name)

    def concat(self, name: str | None) -> Tensor:
        """TensorListConcatV2."""
        dims = self.element_shape.static_dims
        shape = convert(-1) if dims is None else convert([-1, *(-1 if d is None else d for d in dims[1:])], dtypes.int32)
        return lists.concat_v2(self.flow, shape, convert([], dtypes.int64), element_dtype=self.dtype, name=name)[0]

    def unstack(self, value: Any, name: str | None) -> Tensor:
        """TensorListFromTensor."""
        with name_scope(name, "TensorArrayUnstack", [self.flow, value]):
            value = self.value(value)
            self._check_type(value)
            self.check_shape(value.shape[1:])
            return lists.from_tensor(value, _shape_tensor(value.shape[1:]))

    def scatter(self, indices: Any, value: Any, name: str | None) -> Tensor:
        """TensorListScatterIntoExistingList, after making room where the array may grow."""
        with name_scope(name, "TensorArrayScatter", [self.flow, value, indices]):
            value = self.value(value)
            self._check_type(value)
            self.check_shape(value.shape[1:])
            return lists.scatter_into(self.flow, value, indices)

    def split(self, value: Any, lengths: Any, name: str | None) -> Tensor:
        """TensorListSplit."""
        with name_scope(name, "TensorArraySplit", [self.flow, value, lengths]):
            value = self.value(value)
            self._check_type(value)
            lengths = get("Cast")(lengths, DstT=dtypes.int64)
            known = constant_value(lengths)
            if value.static_dims and known is not None and known.size and known.max() == known.min():
                self.check_shape(TensorShape([int(known.reshape(-1)[0])]).concatenate(value.shape[1:]))
            shape = convert(-1) if value.static_dims is None else \
                convert([-1, *(-1 if d is None else d for d in value.static_dims[1:])], dtypes.int32)
            return lists.split(value, shape, lengths, name=name)

    def size(self, name: str | None) -> Tensor:
        """TensorListLength."""
        return lists.length(self.flow, name=name)

    def close(self, name: str | None) -> Any:
        """Does nothing: unused lists are freed automatically."""
        return get("NoOp")(name=name)


def _zero(dtype: Any) -> Any:
    return convert("" if dtype == dtypes.string else 0, dtype)


class _Eager(_Base):
    """Eager mode: a Python list of tensors."""

    def start(self, size: Any, dynamic: Any, clear: Any, label: Any, handle: Any, flow: Any, element_shape: Any,
              colocate: bool, name: Any) -> None:
        """An empty list."""
        self.flow = convert(0, dtypes.int32)
        self.clear = True if clear is None else clear
        if size is None:
            raise ValueError("Size must be declared for TensorArrays when eager execution is enabled.")
        v3.check_size(int(size))
        self.items: list = [None] * int(size)
        self.cleared: set[int] = set()

    def at(self, flow: Any) -> Any:
        """Returns the array itself: there is no flow."""
        return self

    def identity(self) -> None:
        """Nothing to wait for."""
        return None

    def _index(self, index: Any, what: str) -> int:
        i = int(index)
        if i < 0:
            raise errors.OutOfRangeError(None, None, f"{what} negative indices (index {i}) is not allowed.")
        return i

    def read(self, index: Any, name: str | None) -> Any:
        """The element; it is freed unless clear_after_read is false."""
        i = self._index(index, "Reading from")
        if i >= len(self.items):
            raise errors.OutOfRangeError(None, None, f"Tried to read from index {i} but array size is: {len(self.items)}")
        if self.items[i] is None and i in self.cleared:
            raise errors.invalid(f"Could not read index {i} twice because it was cleared after a previous read (perhaps try "
                                 "setting clear_after_read = false?)")
        value = self._or_zero(i)
        if self.clear:
            self.items[i] = None
            self.cleared.add(i)
        return value

    def _or_zero(self, i: int) -> Any:
        if self.items[i] is None:
            dims = self.element_shape.static_dims
            if dims is None or None in dims:
                raise errors.invalid(f"Could not read from TensorArray index {i}.  Furthermore, the element shape is not fully "
                                     f"defined: {self.element_shape}.")
            self.items[i] = get("Fill")(convert(list(dims), dtypes.int32), _zero(self.dtype)) \
                if self.dtype != dtypes.string else get("Fill")(convert(list(dims), dtypes.int32), convert(""))
        return self.items[i]

    def write(self, index: Any, value: Any, name: str | None) -> None:
        """Sets an element."""
        i = self._index(index, "Writing to")
        n = len(self.items)
        if i >= n:
            if not self.dynamic:
                raise errors.OutOfRangeError(None, None, f"Tried to write to index {i} but array is not resizeable and size "
                                             f"is: {n}")
            v3.check_size(i + 1)
            self.items.extend([None] * (i - n + 1))
        value = self.value(value)
        if value.dtype != self.dtype:
            raise errors.invalid(f"TensorArray dtype is {self.dtype.name} but Op is trying to write dtype {value.dtype.name}")
        if not self.element_shape.is_compatible_with(value.shape):
            raise ValueError(f"Incompatible shape for value ({value.shape}), expected ({self.element_shape})")
        if self.infer_shape:
            self.shape[0] = self.element_shape.merge_with(value.shape)
        self.items[i] = value

    def stack(self, name: str | None) -> Any:
        """All elements, packed."""
        if not self.items:
            dims = self.element_shape.static_dims
            return get("Fill")(convert([0, *(dims if dims and None not in dims else ())], dtypes.int32), _zero(self.dtype))
        return get("Pack")([self._or_zero(i) for i in range(len(self.items))], name=name)

    def gather(self, indices: Any, name: str | None) -> Any:
        """Some elements, packed."""
        return get("Pack")([self._or_zero(int(i)) for i in convert(indices).numpy().reshape(-1)], name=name)

    def concat(self, name: str | None) -> Any:
        """All elements, joined."""
        items = [self._or_zero(i) for i in range(len(self.items))]
        for i, t in enumerate(items):
            if t.shape.ndims == 0:
                raise errors.invalid(f"Concat saw a scalar shape at index {i} but requires at least vectors.")
        return get("ConcatV2")(items, 0, name=name) if len(items) > 1 else get("Identity")(items[0])

    def unstack(self, value: Any, name: str | None) -> None:
        """Sets the elements to rows."""
        value = self.value(value)
        rows = get("Unpack")(value, num=value.static_dims[0], axis=0, name=name)
        if len(rows) > len(self.items) and not self.dynamic:
            raise ValueError(f"Cannot unstack {len(rows)} tensors into a TensorArray of static size {len(self.items)}")
        self.items = list(rows)

    def scatter(self, indices: Any, value: Any, name: str | None) -> None:
        """Sets some elements to rows."""
        value = self.value(value)
        where = convert(indices).numpy().reshape(-1)
        for i, row in zip(where, get("Unpack")(value, num=value.static_dims[0], axis=0), strict=True):
            self.write(i, row, None)

    def split(self, value: Any, lengths: Any, name: str | None) -> None:
        """Sets the elements to pieces."""
        value, lengths = self.value(value), convert(lengths)
        if lengths.shape.ndims != 1:
            raise errors.invalid(f"Expected lengths to be a vector, received shape: {lengths.shape.as_list()}")
        if value.shape.ndims == 0:
            raise errors.invalid(f"Expected value to be at least a vector, but received shape: {value.shape.as_list()}")
        sizes = [int(n) for n in lengths.numpy()]
        if sum(sizes) != value.static_dims[0]:
            raise errors.invalid(f"Expected sum of lengths to be equal to values.shape[0], but sum of lengths is {sum(sizes)} "
                                 f"and value's shape is: {value.shape.as_list()} ")
        if not self.dynamic and len(sizes) != len(self.items):
            raise errors.invalid(f"TensorArray's size is not equal to the size of lengths ({len(self.items)} vs. "
                                 f"{len(sizes)}), and the TensorArray is not marked as dynamically resizeable")
        self.items, at = [], 0
        for n in sizes:
            self.items.append(value[at:at + n])
            at += n

    def size(self, name: str | None) -> Any:
        """The length of the list."""
        return convert(len(self.items), dtypes.int32)

    def close(self, name: str | None) -> None:
        """Empties the list."""
        self.items.clear()


@register("tf.TensorArraySpec")
@export("TensorArraySpec")
class TensorArraySpec(TypeSpec):
    """The type of a TensorArray."""

    __slots__ = ("_element_shape", "_dtype", "_dynamic_size", "_infer_shape")
    value_type = property(lambda self: TensorArray, doc="The class of the values.")

    def __init__(self, element_shape: Any = None, dtype: Any = dtypes.float32, dynamic_size: bool = False,
                 infer_shape: bool = True):
        self._element_shape, self._dtype = TensorShape(element_shape), dtypes.as_dtype(dtype)
        self._dynamic_size, self._infer_shape = dynamic_size, infer_shape

    dtype = property(lambda self: self._dtype, doc="The DType of the elements.")

    def is_compatible_with(self, other: Any) -> bool:
        """Whether dtype, shape and the right to grow agree."""
        if not isinstance(other, TypeSpec):
            if not isinstance(other, TensorArray):
                return False
            other = TensorArraySpec.from_value(other)
        return isinstance(other, TensorArraySpec) and self._dtype.is_compatible_with(other.dtype) and \
            self._element_shape.is_compatible_with(other._element_shape) and self._dynamic_size == other._dynamic_size

    def most_specific_compatible_type(self, other: Any) -> TensorArraySpec:
        """The narrowest type that covers both."""
        if not self.is_compatible_with(other):
            raise ValueError("Types are not compatible")
        return TensorArraySpec(self._element_shape.most_specific_compatible_shape(other._element_shape), self._dtype,
                               self._dynamic_size, self._infer_shape and other._infer_shape)

    def _serialize(self) -> tuple:
        return self._element_shape, self._dtype, self._dynamic_size, self._infer_shape

    @property
    def _component_specs(self) -> list:
        return [TensorSpec([], dtypes.variant)]

    def _to_components(self, value: Any) -> list:
        if not isinstance(value, TensorArray):
            raise TypeError(f"value must be a TensorArray, but saw: {type(value)}")
        if value.flow is not None and value.flow.dtype == dtypes.variant:
            return [value.flow]
        return [lists.from_tensor(value.stack(), _shape_tensor(value.element_shape))]

    def _from_components(self, tensor_list: list) -> TensorArray:
        made = TensorArray(self._dtype, flow=tensor_list[0], infer_shape=self._infer_shape)
        made._implementation.shape, made._implementation.dynamic = [self._element_shape], self._dynamic_size
        return made

    @staticmethod
    def from_value(value: Any) -> TensorArraySpec:
        """The spec of a TensorArray."""
        if not isinstance(value, TensorArray):
            raise TypeError(f"Expected value to be a TensorArray, but saw: {type(value)}")
        return TensorArraySpec(value.element_shape, value.dtype, value.dynamic_size, value._infer_shape)

    def _to_legacy_output_types(self) -> Any:
        return self._dtype

    def _to_legacy_output_shapes(self) -> Any:
        return TensorShape([self._dynamic_size, self._infer_shape]).concatenate(self._element_shape)

    def _to_legacy_output_classes(self) -> Any:
        return TensorArray


register_type_spec_from_value_converter(TensorArray, TensorArraySpec.from_value)
