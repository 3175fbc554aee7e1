"""Convolution over two or three spatial axes as one op, with any number of batch dimensions.

It is Conv2D or Conv3D of the input with merged batch dimensions, and has their kernels and gradients.
"""
from __future__ import annotations

import math
from typing import Any

from penstock._src.base import errors
from penstock._src.graph.node import Tensor
from penstock._src.ops.nn.conv import conv2d_op, conv2d_to_filter, conv2d_to_input, conv3d_op, conv3d_to_filter, conv3d_to_input
from penstock._src.ops.registry import get, op

conv = op("Conv", "input: T, filter: T -> output: T",
          "T: type in {half bfloat16 float32 float64}, strides: list(int), padding: string in {SAME VALID EXPLICIT}, "
          "explicit_paddings: list(int) = [], data_format: string in {CHANNELS_FIRST CHANNELS_LAST} = 'CHANNELS_LAST', "
          "dilations: list(int) = [], batch_dims: int = 1, groups: int = 1", export_as="conv")
_FORMATS = {(2, "CHANNELS_LAST"): "NHWC", (2, "CHANNELS_FIRST"): "NCHW", (3, "CHANNELS_LAST"): "NDHWC",
            (3, "CHANNELS_FIRST"): "NCDHW"}
_FORWARD, _TO_INPUT = {2: conv2d_op, 3: conv3d_op}, {2: conv2d_to_input, 3: conv3d_to_input}
_TO_FILTER = {2: conv2d_to_filter, 3: conv3d_to_filter}


def _geometry(spatial: int, attrs: dict[str, Any], error: Any) -> dict[str, Any]:
    """The attributes of Conv2D or Conv3D for those of a Conv."""
    if attrs["batch_dims"] < 1:
        raise error(f"batch_dims must be positive, got {attrs['batch_dims']}")
    if (spatial, attrs["data_format"]) not in _FORMATS:
        raise error(f"Conv has two or three spatial dimensions, not {spatial}")
    made = {"strides": list(attrs["strides"]), "padding": attrs["padding"],
            "data_format": _FORMATS[spatial, attrs["data_format"]],
            "dilations": list(attrs["dilations"]) or [1] * (spatial + 2)}
    if spatial == 2:
        made["explicit_paddings"] = list(attrs["explicit_paddings"])
    elif attrs["padding"] == "EXPLICIT":
        raise error("Explicit padding is only for two spatial dimensions")
    return made


@conv.shape
def _conv_shape(input, filter, *, c):
    attrs = c.op.attrs
    if filter is None or input is None:
        return None
    spatial, lead = len(filter) - 2, attrs["batch_dims"]
    if len(input) != spatial + 1 + lead:
        raise ValueError(f"Input must have rank {spatial + 1 + lead}, but has rank {len(input)}")
    made = _geometry(spatial, attrs, ValueError)
    forward = _FORWARD[spatial]
    joined = math.prod(input[:lead]) if None not in input[:lead] else None
    out = forward.shapes_of(((joined, *input[lead:]), filter), {n: a.default for n, a in forward.attrs.items()} | made)
    return None if out is None else (*input[:lead], *out[1:])


@conv.kernel
def _conv_kernel(input, filter, *, node):
    spatial, lead = filter.dim() - 2, node.attrs["batch_dims"]
    made = _geometry(spatial, node.attrs, errors.invalid)
    if input.dim() != spatial + 1 + lead:
        raise errors.invalid(f"Input must have rank {spatial + 1 + lead}, but has rank {input.dim()}")
    kernel = _FORWARD[spatial].kernel_for("cpu")
    out = kernel.fn(input.flatten(0, lead - 1) if lead > 1 else input, filter, **{n: made[n] for n in kernel.attrs})
    return out.reshape(*input.shape[:lead], *out.shape[1:])


@conv.gradient
def _conv_gradient(op, grad):
    input, filter = op.inputs
    if filter.shape.rank is None:
        raise ValueError("The gradient of a Conv needs a filter of known rank")
    spatial, shape, reshape = filter.shape.rank - 2, get("Shape"), get("Reshape")
    made = _geometry(spatial, op.attrs, ValueError)
    flat, flat_grad = (_joined(t, op.attrs["batch_dims"]) for t in (input, grad))
    of_input = _TO_INPUT[spatial](shape(flat), filter, flat_grad, **made)
    return reshape(of_input, shape(input)), _TO_FILTER[spatial](flat, shape(filter), flat_grad, **made)


def _joined(t: Tensor, lead: int) -> Tensor:
    return t if lead == 1 else get("Reshape")(t, get("ConcatV2")([[-1], get("Shape")(t)[lead:]], 0))
