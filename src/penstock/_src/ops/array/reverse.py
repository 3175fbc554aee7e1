"""Elements of an axis in another order: reversed, partly reversed, rolled."""
from __future__ import annotations

from typing import Any

import numpy as np
import torch

from penstock._src.base import errors
from penstock._src.base.api import export
from penstock._src.base.static_shape import Dims, compatible, rank_at_least, rank_at_most, rank_is, show
from penstock._src.graph.node import Tensor
from penstock._src.kernels import arrays
from penstock._src.ops import rules
from penstock._src.ops.arguments import renamed
from penstock._src.ops.composite import dispatched
from penstock._src.ops.registry import get, op

_TYPES = "uint8 int8 uint16 int16 uint32 int32 uint64 int64 bool bfloat16 half float32 float64 complex64 complex128 string"

# -- reverse --------------------------------------------------------------
reverse_op = op("Reverse", "tensor: T, dims: bool -> output: T", f"T: type in {{{_TYPES}}}")
reverse_v2 = op("ReverseV2", "tensor: T, axis: Tidx -> output: T",
                f"Tidx: type in {{index}} = int32, T: type in {{{_TYPES}}}", export_as="reverse",
                v1_as="manip.reverse reverse_v2", doc="A tensor with the order of elements along some axes reversed.")
rules.batching.axis[reverse_v2] = 1


@reverse_op.shape
def _reverse_shape(tensor, dims):
    (n,) = rank_is(dims, 1)
    if tensor is not None and n not in (None, len(tensor)):
        raise ValueError(f"dims has {n} elements for a tensor of rank {len(tensor)}: {show(tensor)}")
    return tensor


@reverse_op.kernel
def _reverse_kernel(tensor, dims):
    if dims.dim() != 1 or dims.numel() != len(arrays.dims_of(tensor)):
        raise errors.invalid(f"'dims' must have as many values as 'tensor' has dimensions. 'tensor' has "
                             f"{len(arrays.dims_of(tensor))}, 'dims' has {dims.numel()} values")
    return arrays.flip(tensor, [i for i, d in enumerate(dims.tolist()) if d])


reverse_op.gradient(lambda op, grad: (reverse_op(grad, op.inputs[1]), None))


@reverse_v2.shape
def _reverse_v2_shape(tensor, axis, *, c):
    rank_is(axis, 1)
    value = c.const("axis")
    if tensor is not None and value is not None:
        rank = len(tensor)
        for i, a in enumerate(value.tolist()):
            if not -rank <= a < rank:
                raise ValueError(f"'axis'[{i}] = {a} is out of valid range [{-rank}, {rank - 1}]")
        axes = [a % rank for a in value.tolist()]
        for a in axes:
            if axes.count(a) > 1:
                raise ValueError(f"axis {a} specified more than once.")
    return tensor


@reverse_v2.kernel
def _reverse_v2_kernel(tensor, axis):
    rank, axes = len(arrays.dims_of(tensor)), []
    if not rank:
        return tensor
    for i, a in enumerate(arrays.ints(axis)):
        at = arrays.canonical_axis(a, rank, f"'axis'[{i}] = {a} is out of valid range [{-rank}, {rank - 1}]")
        if at in axes:
            raise errors.invalid(f"axis {at} specified more than once.")
        axes.append(at)
    return arrays.flip(tensor, axes)


reverse_v2.gradient(lambda op, grad: (reverse_v2(grad, op.inputs[1]), None))

# -- reverse_sequence --------------------------------------------------------------
reverse_sequence_op = op("ReverseSequence", "input: T, seq_lengths: Tlen -> output: T",
                         "seq_dim: int, batch_dim: int = 0, T: type, Tlen: type in {index} = int64")


@reverse_sequence_op.shape
def _reverse_sequence_shape(input, seq_lengths, *, seq_dim, batch_dim):
    (n,) = rank_is(seq_lengths, 1)
    if input is None:
        return None
    for name, a in (("batch_dim", batch_dim), ("seq_dim", seq_dim)):
        if a >= len(input):
            raise ValueError(f"{name} must be < input rank: {a} vs. {len(input)}")
    batch = input[batch_dim]
    if None not in (n, batch) and n != batch:
        raise ValueError(f"Dimensions must be equal, but are {n} and {batch}: one length per batch is needed")
    merged = batch if batch is not None else n
    return tuple(merged if i == batch_dim else d for i, d in enumerate(input))


@reverse_sequence_op.kernel
def _reverse_sequence_kernel(input, seq_lengths, *, seq_dim, batch_dim):
    dims = arrays.dims_of(input)
    rank = len(dims)
    if not 0 <= seq_dim < rank or not 0 <= batch_dim < rank:
        raise errors.invalid(f"batch_dim ({batch_dim}) and seq_dim ({seq_dim}) must be in [0, {rank})")
    if seq_dim == batch_dim:
        raise errors.invalid(f"batch_dim == seq_dim == {seq_dim}")
    if tuple(seq_lengths.shape) != (dims[batch_dim],):
        raise errors.invalid(f"Length of seq_lengths != input.dims({batch_dim}), ({arrays.show(seq_lengths.shape)} vs. "
                             f"{dims[batch_dim]})")
    for i, n in enumerate(seq_lengths.tolist() if seq_lengths.is_cpu else ()):       # inspecting others would block the host
        if not 0 <= n <= dims[seq_dim]:
            raise errors.invalid(f"seq_lens({i}) = {n} is not in [0, {dims[seq_dim]}], the size of dimension {seq_dim}")
    shape = [1] * rank
    shape[batch_dim] = -1
    lengths = seq_lengths.long().clamp(0, dims[seq_dim]).reshape(shape)
    shape[batch_dim], shape[seq_dim] = 1, -1
    place = torch.arange(dims[seq_dim], device=lengths.device).reshape(shape)
    source = torch.where(place < lengths, lengths - 1 - place, place).expand(dims)
    if isinstance(input, torch.Tensor):
        return arrays.unsigned_as(arrays.signed(input).gather(seq_dim, source.to(input.device)), input)
    return np.take_along_axis(input, source.numpy(), seq_dim)


@reverse_sequence_op.gradient
def _reverse_sequence_gradient(op, grad):
    return reverse_sequence_op(grad, op.inputs[1], seq_dim=op.attrs["seq_dim"], batch_dim=op.attrs["batch_dim"]), None


@export(v1=["reverse_sequence"])
@dispatched
def reverse_sequence(input: Any, seq_lengths: Any, seq_axis: int | None = None, batch_axis: int | None = None,
                     name: str | None = None, seq_dim: int | None = None, batch_dim: int | None = None) -> Tensor:
    """In each batch, the first `seq_lengths[b]` elements along `seq_axis` in reverse."""
    seq_axis = renamed("seq_axis", seq_axis, "seq_dim", seq_dim)
    batch_axis = renamed("batch_axis", batch_axis, "batch_dim", batch_dim)
    return reverse_sequence_op(input, seq_lengths, seq_dim=seq_axis, batch_dim=batch_axis or 0, name=name)


@export(v2=["reverse_sequence"])
@dispatched
def reverse_sequence_v2(input: Any, seq_lengths: Any, seq_axis: int | None = None, batch_axis: int | None = None,
                        name: str | None = None) -> Tensor:
    """In each batch, the first `seq_lengths[b]` elements along `seq_axis` in reverse.

    Args:
        input: Tensor.
        seq_lengths: Integer vector: how many elements of each sequence are reversed.
        seq_axis: The axis of time.
        batch_axis: The axis of sequences, 0 by default.
        name: Name of the operation.

    Returns:
        Tensor of the shape of `input`.

    >>> tf.reverse_sequence([[1, 2, 3]], [2], seq_axis=1).numpy().tolist()
    [[2, 1, 3]]
    """
    return reverse_sequence(input, seq_lengths, seq_axis, batch_axis, name)


# -- roll --------------------------------------------------------------
roll_op = op("Roll", "input: T, shift: Tshift, axis: Taxis -> output: T",
             "T: type, Tshift: type in {index}, Taxis: type in {index}")
rules.batching.axis[roll_op] = 2


@roll_op.shape
def _roll_shape(input: Dims, shift: Dims, axis: Dims) -> Dims:
    rank_at_least(input, 1)
    rank_at_most(shift, 1)
    rank_at_most(axis, 1)
    if not compatible(shift, axis):
        raise ValueError(f"shift and axis must have the same size, both shapes must be equal: {show(shift)} and "
                         f"{show(axis)}")
    return input


@roll_op.kernel
def _roll_kernel(input, shift, axis):
    dims = arrays.dims_of(input)
    if not dims:
        raise errors.invalid("input must be 1-D or higher")
    for name, v in (("shift", shift), ("axis", axis)):
        if v.dim() > 1:
            raise errors.invalid(f"{name} must be a scalar or a 1-D vector. Found: {arrays.show(v.shape)}")
    if shift.shape != axis.shape:
        raise errors.invalid(f"shift and axis must have the same size: {arrays.show(shift.shape)} and "
                             f"{arrays.show(axis.shape)}")
    axes = [arrays.canonical_axis(a, len(dims), f"axis {a} is out of range") for a in arrays.ints(axis)]
    if not axes:
        return input
    if isinstance(input, torch.Tensor):
        return torch.roll(input, arrays.ints(shift), axes)
    return np.roll(input, tuple(arrays.ints(shift)), tuple(axes))


roll_op.gradient(lambda op, grad: (roll_op(grad, get("Neg")(op.inputs[1]), op.inputs[2]), None, None))


@export("roll", v1=["manip.roll"])
@dispatched
def roll(input: Any, shift: Any, axis: Any, name: str | None = None) -> Tensor:
    """A tensor whose elements are moved along axes; elements moved past one end reappear at the other.

    Args:
        input: Tensor.
        shift: By how many places, one for each of `axis`; negative ones go to the front.
        axis: The axes.
        name: Name of the operation.

    Returns:
        The tensor, whose elements leave at one end and enter at the other.

    >>> tf.roll([1, 2, 3], 1, axis=0).numpy().tolist()
    [3, 1, 2]
    """
    return roll_op(input, shift, axis, name=name)
