"""Adding a bias to every position of a channel."""
from __future__ import annotations

from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors
from penstock._src.base import static_shape as shapes
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.kernels import unsigned
from penstock._src.ops import rules
from penstock._src.ops.composite import dispatched
from penstock._src.ops.math import matmul
from penstock._src.ops.math.reduction import column_sum
from penstock._src.ops.nn import conv, pool_places, windows
from penstock._src.ops.registry import get, op

_T = ("T: type in {float32 float64 int32 uint8 int16 int8 complex64 int64 qint8 quint8 qint32 bfloat16 uint16 "
      "complex128 half uint32 uint64}")
_FORMAT = ", data_format: string in {NHWC NCHW} = 'NHWC'"

bias_add_op = op("BiasAdd", "value: T, bias: T -> output: T", _T + _FORMAT)
bias_add_v1 = op("BiasAddV1", "value: T, bias: T -> output: T", _T)
bias_add_grad = op("BiasAddGrad", "out_backprop: T -> output: T", _T + _FORMAT)


@rules.batching.rule(bias_add_op, bias_add_v1)
def _bias_add_batching(op, rows, value, bias):
    rank = rows.rank(value)
    if rank is None:
        return None
    axis = _channel_axis(rank, op.attrs.get("data_format", "NHWC"))
    shape = get("ConcatV2")([np.ones(axis, np.int32), [-1], np.ones(rank - 1 - axis, np.int32)], np.int32(0))
    bias = get("Reshape")(bias.tensor, rows.shape(shape) if bias.stacked else shape)
    return [get("AddV2")(value.tensor, bias)]


@rules.batching.rule(bias_add_grad)
def _bias_add_grad_batching(op, rows, out_backprop):
    rank = rows.rank(out_backprop)
    if rank is None:
        return None
    axis = _channel_axis(rank, op.attrs["data_format"])
    return [get("Sum")(out_backprop.tensor, np.array([a + 1 for a in range(rank) if a != axis], np.int32))]

rules.loops.sums_rows[bias_add_grad] = lambda op: len(op.inputs[0].static_dims or ()) == 2
rules.memory.cheap.add(bias_add_op)
rules.pointwise.on_device[bias_add_op] = "ADD"
rules.pointwise.of_columns[bias_add_grad] = column_sum
for _op in (bias_add_op, bias_add_grad):
    rules.pointwise.along_last[_op] = lambda op: _channel_axis(
        len(op.inputs[0].static_dims or ()), op.attrs["data_format"]) == len(op.inputs[0].static_dims or ()) - 1


def _channel_axis(rank: int, data_format: str) -> int:
    return 1 if data_format == "NCHW" and rank > 2 else rank - 1


@bias_add_op.shape
def _bias_add_shape(value, bias, *, data_format):
    value, bias = shapes.rank_at_least(value, 2), shapes.rank_is(bias, 1)
    if value is None:
        return None
    axis = _channel_axis(len(value), data_format)
    return (*value[:axis], *shapes.merge(value[axis:axis + 1], bias), *value[axis + 1:])


@bias_add_op.kernel
def _bias_add_kernel(value, bias, *, data_format):
    if value.ndim < 2:
        raise errors.invalid(f"Input tensor must be at least 2D: {tuple(value.shape)}")
    if bias.ndim != 1:
        raise errors.invalid(f"Biases must be 1D: {tuple(bias.shape)}")
    axis = _channel_axis(value.ndim, data_format)
    if bias.shape[0] != value.shape[axis]:
        raise errors.invalid(f"Must provide as many biases as the last dimension of the input tensor: "
                             f"{tuple(bias.shape)} vs. {tuple(value.shape)}")
    if axis != value.ndim - 1:
        bias = bias.reshape(-1, *[1] * (value.ndim - 2))
    return value + bias


bias_add_op.kernel(unsigned.wrapping(_bias_add_kernel), types=unsigned.TYPES)
rules.program.overwrites(bias_add_op, 0, lambda value, bias: value.add_(bias))


@rules.program.prepare(bias_add_op)
def _bias_add_prepare(known):
    value, bias = known.dims(0), known.dims(1)
    if value is None or bias is None or _channel_axis(len(value), known.attrs["data_format"]) != len(value) - 1:
        return None
    return torch.add if value[-1:] == bias and known.floating() else None


@rules.fusion.fuse(bias_add_op)
def _bias_add_fuse(op, f):
    if op.inputs[0].static_dims is None or _channel_axis(len(op.inputs[0].static_dims), op.attrs["data_format"]) \
            != len(op.inputs[0].static_dims) - 1:
        return None
    made = matmul.fuse_bias(op, f, *op.inputs) or conv.fuse_bias(op, f, *op.inputs)
    row = op.inputs[1].static_dims
    if made is None and row and None not in row and row == op.inputs[0].static_dims[-1:] and f.on_host(op) and \
            op.attrs["T"] is dtypes.float32:
        return f.make("AddV2", op.inputs, {"T": op.attrs["T"]}, op)      # it may be fused with the following op
    return made


bias_add_v1.shape(lambda value, bias: _bias_add_shape(value, bias, data_format="NHWC"))
bias_add_v1.kernel(lambda value, bias: _bias_add_kernel(value, bias, data_format="NHWC"))
bias_add_v1.kernel(unsigned.wrapping(bias_add_v1.kernels["any"].fn), types=unsigned.TYPES)


@bias_add_grad.shape
def _bias_add_grad_shape(out_backprop, *, data_format):
    out_backprop = shapes.rank_at_least(out_backprop, 2)
    return (None,) if out_backprop is None else (out_backprop[_channel_axis(len(out_backprop), data_format)],)


@bias_add_grad.kernel
def _bias_add_grad_kernel(out_backprop, *, data_format):
    if out_backprop.ndim < 2:
        raise errors.invalid(f"Input tensor must be at least 2D: {tuple(out_backprop.shape)}")
    axis = _channel_axis(out_backprop.ndim, data_format)
    return torch.sum(out_backprop, [a for a in range(out_backprop.ndim) if a != axis], dtype=out_backprop.dtype)


bias_add_grad.kernel(unsigned.wrapping(_bias_add_grad_kernel), types=unsigned.TYPES)


@rules.fusion.simplify(bias_add_grad)
def _no_gradient_before_batch_norm(op, f):
    """The gradient of batch norm in training sums to zero in each channel. On a GPU it is not summed up."""
    made = None if f.on_host(op) else f.maker(op.inputs[0], op)
    dims = op.outputs[0].static_dims
    if made is None or made.opdef is not get("FusedBatchNormGradV3") or not made.attrs["is_training"] or dims is None or \
            None in dims or f.source(op.inputs[0]) is not made.outputs[0] or \
            op.attrs["data_format"] != ("NCHW" if windows.channels_first(made.attrs["data_format"]) else "NHWC"):
        return None
    zero = f.make("Const", [], {"value": np.zeros([], np.float32), "dtype": dtypes.float32}, op,
                  outputs=[f.result(dtypes.float32, ())])
    narrow = f.make("Cast", [f.add(zero)[0]], {"SrcT": dtypes.float32, "DstT": op.attrs["T"]}, op,
                    outputs=[f.result(op.attrs["T"], ())])
    sizes = f.make("Const", [], {"value": np.array(dims, np.int32), "dtype": dtypes.int32}, op,
                   outputs=[f.result(dtypes.int32, (1,))])
    return f.make("Fill", [f.add(sizes)[0], f.add(narrow)[0]], {"T": op.attrs["T"], "index_type": dtypes.int32}, op)


@rules.regions.lower(bias_add_grad)
def _bias_add_grad_in_region(op, r):
    view = r.view(op.inputs[0])
    axis = _channel_axis(len(view.dims), op.attrs["data_format"])
    return [r.reshaped(r.reduced(view, [a for a in range(len(view.dims)) if a != axis]), op.outputs[0].static_dims)]


@rules.regions.lower(bias_add_op)
def _bias_add_in_region(op, r):
    value, bias = (r.view(t) for t in op.inputs)
    axis = _channel_axis(len(value.dims), op.attrs["data_format"])
    bias = r.reshaped(bias, [d if i == axis else 1 for i, d in enumerate(value.dims)])
    return [r.terms(value.dims, [value, bias], lambda terms, x, b: terms.step_of("ADD", x, b))]


@rules.fusion.fuse(bias_add_grad)
def _bias_add_grad_fuse(op, f):
    grad, rank = op.inputs[0], len(op.inputs[0].static_dims or ())
    made = f.maker(grad, op)
    if made is None or not rank or _channel_axis(rank, op.attrs["data_format"]) != rank - 1:
        return None
    if made.opdef is get("_MaxPoolGradPlaces"):
        return pool_places.fuse_bias_grad(op, f, made)
    if made.opdef is get("_MaxPoolGradWithIndices") and made.attrs["data_format"] == "NHWC":
        grad = made.inputs[2]                      # a pooling's gradient only moves numbers: sums over a channel stay the same
    return None if grad is op.inputs[0] else f.make("BiasAddGrad", [grad], op.attrs, op)


@bias_add_op.gradient
def _bias_add_gradient(op, grad):
    return grad, bias_add_grad(grad, data_format=op.attrs["data_format"])


@bias_add_v1.gradient
def _bias_add_v1_gradient(op, grad):
    return grad, bias_add_grad(grad)


@bias_add_grad.gradient
def _bias_add_grad_gradient(op, grad):
    return bias_add_op(get("ZerosLike")(op.inputs[0]), grad, data_format=op.attrs["data_format"])


@export("nn.bias_add")
@dispatched
def bias_add(value: Any, bias: Any, data_format: str | None = None, name: str | None = None) -> Tensor:
    """Adds a vector to the channels of `value`.

    Args:
        value: Tensor with channels in its last axis, or in its second for `"NCHW"`.
        bias: Vector with one number per channel.
        data_format: `"N...C"` or `"NC..."`; `"NHWC"` and `"NCHW"` are accepted as well.
        name: Name of the operation.

    Returns:
        A tensor of the type and shape of `value`.

    >>> tf.nn.bias_add(tf.zeros([2, 3]), [1., 2., 3.]).numpy()
    array([[1., 2., 3.],
           [1., 2., 3.]], dtype=float32)
    """
    with name_scope(name, "BiasAdd", [value, bias]) as scope:
        if data_format is not None:
            if not data_format.startswith("NC") and not (data_format.startswith("N") and data_format.endswith("C")):
                raise ValueError(f"data_format must be of the form `N...C` or `NC...`, got {data_format!r}")
            data_format = "NCHW" if data_format.startswith("NC") else "NHWC"
        if not context.executing_eagerly():
            value = convert(value, name="input")
            bias = convert(bias, value.dtype, name="bias")
        return bias_add_op(value, bias, data_format=data_format, name=scope)
