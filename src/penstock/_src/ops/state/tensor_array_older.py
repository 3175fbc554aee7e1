"""TensorArrays of GraphDefs written before TensorFlow 1.0: their handles are strings, or references to strings.

At run time a handle is the array itself, as it is for the third version, whose kernels these ops have. A reference to a handle
has it as its value.
"""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from penstock._src.graph.scopes import control_dependencies, name_scope
from penstock._src.ops.registry import OpDef, get, op
from penstock._src.ops.state import tensor_array_ops as newest

_SHAPE = "element_shape: shape = None"
_SIZES = "dynamic_size: bool = False, clear_after_read: bool = True, tensor_array_name: string = ''"
_FLOW = "flow_in: float32"
OPS: dict[tuple[str, str], OpDef] = {}         # by what it does, and by version


class _Reference:
    """The run-time value of a reference to a handle."""

    __slots__ = ("array",)

    def __init__(self, array: Any):
        self.array = array

    def read(self) -> Any:
        """The handle."""
        return self.array


def _of_reference(kernel: Callable) -> Callable:
    """A kernel whose first argument may be a reference."""
    @functools.wraps(kernel)
    def call(handle: Any, *args: Any, **kwargs: Any) -> Any:
        return kernel(handle.array if isinstance(handle, _Reference) else handle, *args, **kwargs)
    return call


def _declare(what: str, inputs: str, outputs: str, attrs: str, newer: OpDef) -> None:
    """Both older versions of an op, with the shape rule and the kernel of the newest one."""
    for version, handle in (("", "Ref(string)"), ("V2", "string")):
        made = OPS[what, version] = op(f"TensorArray{what}{version}", f"handle: {handle}{inputs} -> {outputs}", attrs,
                                       stateful=True)
        if newer.shape_rule is not None:
            made.shape(newer.shape_rule)
        made.kernel(_of_reference(newer.kernels["any"].fn))


_declare("Close", "", "", "", newest.close)
_declare("Size", f", {_FLOW}", "size: int32", "", newest.size)
_declare("Read", f", index: int32, {_FLOW}", "value: dtype", "dtype: type", newest.read)
_declare("Write", f", index: int32, value: T, {_FLOW}", "flow_out: float32", "T: type", newest.write)
_declare("Gather", f", indices: int32, {_FLOW}", "value: dtype", f"dtype: type, {_SHAPE}", newest.gather)
_declare("Scatter", f", indices: int32, value: T, {_FLOW}", "flow_out: float32", "T: type", newest.scatter)
_declare("Concat", f", {_FLOW}", "value: dtype, lengths: int64", "dtype: type, element_shape_except0: shape = None",
         newest.concat)
_declare("Split", f", value: T, lengths: int64, {_FLOW}", "flow_out: float32", "T: type", newest.split)
for _version in ("", "V2"):
    OPS["Close", _version].no_gradient()
    OPS["Size", _version].no_gradient()

make = {"": op("TensorArray", "size: int32 -> handle: Ref(string)", f"dtype: type, {_SIZES}, {_SHAPE}", stateful=True),
        "V2": op("TensorArrayV2", "size: int32 -> handle: string", f"dtype: type, {_SHAPE}, {_SIZES}", stateful=True)}
of_gradients = {
    "": op("TensorArrayGrad", f"handle: string, {_FLOW} -> grad_handle: Ref(string)", "source: string", stateful=True),
    "V2": op("TensorArrayGradV2", f"handle: string, {_FLOW} -> grad_handle: string", "source: string", stateful=True)}


def _make_kernel(size, *, dtype, element_shape, dynamic_size, clear_after_read, tensor_array_name):
    return newest.make.kernels["any"].fn(
        size, dtype=dtype, element_shape=element_shape, dynamic_size=dynamic_size, clear_after_read=clear_after_read,
        identical_element_shapes=False, tensor_array_name=tensor_array_name)[0]


def _grad_kernel(handle, flow_in, *, source):
    return newest.grad_op.kernels["any"].fn(handle, flow_in, source=source)[0]


for _version in ("", "V2"):
    make[_version].no_gradient().shape(lambda size: (2,))
    of_gradients[_version].no_gradient().shape(lambda handle, flow_in: (2,))

make["V2"].kernel(_make_kernel)
make[""].kernel(functools.wraps(_make_kernel)(lambda *args, **kwargs: _Reference(_make_kernel(*args, **kwargs))))
of_gradients["V2"].kernel(_grad_kernel)
of_gradients[""].kernel(functools.wraps(_grad_kernel)(lambda *args, **kwargs: _Reference(_grad_kernel(*args, **kwargs))))

pack = op("TensorArrayPack", f"handle: Ref(string), {_FLOW} -> value: dtype", f"dtype: type, {_SHAPE}", stateful=True)
unpack = op("TensorArrayUnpack", f"handle: Ref(string), value: T, {_FLOW} -> flow_out: float32", "T: type", stateful=True)
pack.shape(lambda handle, flow_in, *, element_shape:
           None if element_shape.static_dims is None else (None, *element_shape.static_dims))
unpack.shape(lambda handle, value, flow_in: ())


@pack.kernel
@_of_reference
def _pack_kernel(handle, flow_in, *, dtype, element_shape):
    count = newest.size.kernels["any"].fn(handle, flow_in)
    return newest.gather.kernels["any"].fn(handle, torch.arange(int(count)), flow_in, dtype=dtype, element_shape=element_shape)


@unpack.kernel
@_of_reference
def _unpack_kernel(handle, value, flow_in, *, T):
    rows = value.shape[0] if len(value.shape) else 0
    return newest.scatter.kernels["any"].fn(handle, torch.arange(rows), value, flow_in, T=T)


# -- gradients: as those of the newest version, in ops of the same version ---------------------------------------------
def _array(op_: Any, version: str, flow: Any, grad: Any) -> tuple:
    with name_scope("TensorArrayGrad"):
        made = of_gradients[version](op_.inputs[0], flow, source=newest.gradient_source(grad))
        with control_dependencies([made.op]):
            return made, get("Identity")(flow, name="gradient_flow")


def _taken(what: str, put: str, at: int, version: str) -> Callable:
    """The gradient of an op that takes elements out: the gradient is put there."""
    def gradient(op_: Any, grad: Any, *others: Any) -> tuple:
        handle, flow = _array(op_, version, op_.inputs[-1], grad)
        where = [op_.inputs[1]] if at else []
        lengths = [op_.outputs[1]] if what == "Concat" else []
        return *[None] * (len(op_.inputs) - 1), OPS[put, version](handle, *where, grad, *lengths, flow)
    return gradient


def _put(take: str, at: int, version: str) -> Callable:
    """The gradient of an op that puts elements in: they are taken from the gradients."""
    def gradient(op_: Any, flow: Any) -> tuple:
        handle, after = _array(op_, version, flow, flow)
        value = op_.inputs[at]
        where = [op_.inputs[1]] if at == 2 else []
        found = OPS[take, version](handle, *where, after, dtype=value.dtype.base_dtype)
        grads: list = [None] * len(op_.inputs)
        grads[at], grads[-1] = found[0] if take == "Concat" else found, flow
        return tuple(grads)
    return gradient


for _version in ("", "V2"):
    for _take, _into, _at in (("Read", "Write", 2), ("Gather", "Scatter", 2), ("Concat", "Split", 1)):
        OPS[_take, _version].gradient(_taken(_take, _into, _at - 1, _version))
        OPS[_into, _version].gradient(_put(_take, _at, _version))


@pack.gradient
def _pack_gradient(op, grad):
    handle, flow = _array(op, "", op.inputs[1], grad)
    return None, unpack(handle, grad, flow)


@unpack.gradient
def _unpack_gradient(op, flow):
    handle, after = _array(op, "", flow, flow)
    return None, pack(handle, after, dtype=op.inputs[1].dtype.base_dtype), flow
