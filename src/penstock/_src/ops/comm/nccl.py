"""Reductions among the GPUs of one task, by the names of NCCL's ops. They are implemented by penstock's collectives, on any
device.

`NcclAllReduce` is one op on each device, which wait for each other (ops with the same `shared_name` form a group). `NcclReduce`
and `NcclBroadcast` are single ops: what they need from other devices is sent to them as any tensor is.
"""
from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable
from typing import Any

import torch

from penstock._src.base import errors
from penstock._src.base import static_shape as shapes
from penstock._src.graph import context
from penstock._src.graph.node import Tensor
from penstock._src.kernels.devices.device_spec import canonical_name
from penstock._src.ops.comm import collective
from penstock._src.ops.registry import op
from penstock.compat import v1 as tf

_TYPES = "T: type in {half float32 float64 int32 int64}"
_REDUCTION = "reduction: string in {min max prod sum}"

all_reduce_op = op("NcclAllReduce", "input: T -> data: T", f"{_REDUCTION}, {_TYPES}, num_devices: int, shared_name: string",
                   stateful=True, blocking=True)
reduce_op = op("NcclReduce", "input: num_devices * T -> data: T", f"{_REDUCTION}, {_TYPES}, num_devices: int >= 1",
               stateful=True)
broadcast_op = op("NcclBroadcast", "input: T -> output: T", f"{_TYPES}, shape: shape", stateful=True)

_MERGES = {"sum": "Add", "prod": "Mul", "min": "Min", "max": "Max"}
_COMBINES: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "sum": torch.add, "prod": torch.mul, "min": torch.minimum, "max": torch.maximum}
_numbers = itertools.count()

all_reduce_op.shape(lambda input: input)


@reduce_op.shape
def _reduce_shape(input):
    merged = input[0]
    for other in input[1:]:
        merged = shapes.merge(merged, other)
    return merged


@broadcast_op.shape
def _broadcast_shape(input, *, shape):
    return shapes.merge(input, shapes.as_dims(shape))


@all_reduce_op.kernel
def _all_reduce_kernel(input, *, reduction, num_devices, shared_name, node, ctx):
    if num_devices == 1:
        return input
    key = zlib.crc32(shared_name if isinstance(shared_name, bytes) else shared_name.encode())
    return collective._reduce(input, (num_devices, key, key), _MERGES[reduction], "Id", "auto", 0.0, node, ctx)


@reduce_op.kernel
def _reduce_kernel(input, *, reduction):
    if any(x.shape != input[0].shape for x in input):
        raise errors.invalid(f"Tensors that are reduced must have one shape: {[tuple(x.shape) for x in input]}")
    total = input[0]
    for other in input[1:]:
        total = _COMBINES[reduction](total, other.to(total.device))
    return total


@broadcast_op.kernel
def _broadcast_kernel(input, *, shape):
    dims = shapes.as_dims(shape)
    if dims is not None and (len(dims) != input.ndim or any(d not in (None, n) for d, n in zip(dims, input.shape))):
        raise errors.invalid(f"The input has shape {tuple(input.shape)}, and {dims} was declared.")
    return input


@all_reduce_op.gradient
def _all_reduce_gradient(op, grad):
    if op.attrs["reduction"] not in ("sum", b"sum"):
        raise LookupError("Of NcclAllReduce, only sums have gradients.")
    with context.current_graph().device(op.device):
        return all_reduce_op(grad, reduction="sum", num_devices=op.attrs["num_devices"],
                             shared_name=f"{op.attrs['shared_name']}_grad")


@reduce_op.gradient
def _reduce_gradient(op, grad):
    if op.attrs["reduction"] not in ("sum", b"sum"):
        raise LookupError("Of NcclReduce, only sums have gradients.")
    return [broadcast_op(grad, shape=grad.shape)] * len(op.inputs)


@broadcast_op.gradient
def _broadcast_gradient(op, grad):
    return grad


def _on_devices(tensors: Any) -> Any:
    if not tensors:
        raise ValueError("Must pass >0 tensors to reduce operations")
    if any(not canonical_name(t.device or "") for t in tensors):
        raise ValueError("Device assignment required for nccl collective ops")
    return tensors


def _all(reduction: str, tensors: Any) -> list[Tensor]:
    tensors, shared_name = _on_devices(tensors), f"c{next(_numbers)}"

    def members() -> list[Tensor]:
        made = []
        for t in tensors:
            with tf.device(t.device):
                made.append(all_reduce_op(t, reduction=reduction, num_devices=len(tensors), shared_name=shared_name))
        return made
    return tf.function(members)() if tf.executing_eagerly() else members()


def all_sum(tensors: Any) -> list[Tensor]:
    """The sum of tensors that are on different devices, on each of these. All of the results must be run together.

    >>> a, b = nccl_ops.all_sum([on_gpu_0, on_gpu_1])
    """
    return _all("sum", tensors)


def all_prod(tensors: Any) -> list[Tensor]:
    """The product, like `all_sum`."""
    return _all("prod", tensors)


def all_min(tensors: Any) -> list[Tensor]:
    """The minimum, like `all_sum`."""
    return _all("min", tensors)


def all_max(tensors: Any) -> list[Tensor]:
    """The maximum, like `all_sum`."""
    return _all("max", tensors)


def reduce_sum(tensors: Any) -> Tensor:
    """The sum of tensors that are on different devices, on the current one."""
    return reduce_op(_on_devices(tensors), reduction="sum")


def broadcast(tensor: Any) -> Tensor:
    """A tensor that ops on other devices may read."""
    _on_devices([tensor])
    return broadcast_op(tensor, shape=tensor.shape)

