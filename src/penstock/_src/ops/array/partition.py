"""Partitioning a tensor by a tensor of labels, and stitching one from indexed parts."""
from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from penstock._src.base import errors
from penstock._src.base.static_shape import Dims, compatible, concat, merge, show
from penstock._src.graph.constant import constant_value
from penstock._src.graph.node import Tensor
from penstock._src.kernels import arrays, indexing
from penstock._src.kernels import rows as fast_rows
from penstock._src.ops.array.array import reshape_op, shape_of
from penstock._src.ops.array.concat import cut
from penstock._src.ops.registry import get, op

# -- DynamicPartition --------------------------------------------------------------
dynamic_partition = op("DynamicPartition", "data: T, partitions: int32 -> outputs: num_partitions * T",
                       "num_partitions: int >= 1, T: type", export_as="dynamic_partition",
                       doc="The slices of `data` with label 0, those with label 1, …: one tensor per label.")


@dynamic_partition.shape
def _dynamic_partition_shape(data, partitions, *, num_partitions):
    if data is None or partitions is None:
        return [None] * num_partitions
    if not compatible(data[:len(partitions)], partitions) or len(data) < len(partitions):
        raise ValueError(f"The shape of partitions must be a prefix of that of data: {show(data)} and {show(partitions)}")
    return [(None, *data[len(partitions):])] * num_partitions


@dynamic_partition.kernel
def _dynamic_partition_kernel(data, partitions, *, num_partitions):
    dims, labels = arrays.dims_of(data), tuple(partitions.shape)
    if dims[:len(labels)] != labels:
        raise errors.invalid(f"data.shape must start with partitions.shape, got data.shape = {arrays.show(dims)}, "
                             f"partitions.shape = {arrays.show(labels)}")
    flat = partitions.reshape(-1)
    found = fast_rows.labelled(flat, num_partitions)
    if found is None:
        indexing.check(partitions, num_partitions, "partitions")
        found = torch.argsort(flat, stable=True), indexing.counts(flat, num_partitions).tolist()
    order, counts = found
    rows = arrays.take(data.reshape([math.prod(labels), *dims[len(labels):]]), order, 0)
    return cut(rows, counts, 0)


@dynamic_partition.gradient
def _dynamic_partition_gradient(op, *grads):
    data, partitions = op.inputs
    places = get("Range")(0, get("Size")(partitions), 1)
    shape = shape_of(partitions)
    parts = dynamic_partition(reshape_op(places, shape), partitions, num_partitions=op.attrs["num_partitions"])
    back = parallel_dynamic_stitch(list(parts), list(grads))
    return reshape_op(back, shape_of(data)), None


# -- DynamicStitch --------------------------------------------------------------
_ARGS = ("indices: N * int32, data: N * T -> merged: T", "N: int >= 1, T: type")
_DOC = "One tensor with row indices[i][j] = data[i][j]; the last one counts where an index comes twice."
dynamic_stitch = op("DynamicStitch", *_ARGS, export_as="dynamic_stitch", doc=_DOC)
parallel_dynamic_stitch = op("ParallelDynamicStitch", *_ARGS, doc=_DOC)


def _stitched(indices: list, data: list, *, c: Any) -> Dims:
    rest: Dims = None
    for i, (index, d) in enumerate(zip(indices, data, strict=True)):
        if index is None or d is None:
            continue
        if len(d) < len(index) or not compatible(d[:len(index)], index):
            raise ValueError(f"data[{i}].shape = {show(d)} does not start with indices[{i}].shape = {show(index)}")
        rest = merge(rest, d[len(index):])
    values = [v for v in map(constant_value, c.op.inputs[:len(indices)]) if v is not None]
    if len(values) < len(indices):
        return concat((None,), rest)
    return concat((max([int(v.max()) + 1 for v in values if v.size], default=0),), rest)


def _stitch(indices: list, data: list) -> Any:
    rest, size = None, 0
    for i, (index, d) in enumerate(zip(indices, data, strict=True)):
        dims, lead = arrays.dims_of(d), tuple(index.shape)
        if dims[:len(lead)] != lead:
            raise errors.invalid(f"data[{i}].shape = {arrays.show(dims)} does not start with indices[{i}].shape = "
                                 f"{arrays.show(lead)}")
        if rest is not None and dims[len(lead):] != rest:
            raise errors.invalid(f"Need data[0].shape[{len(indices[0].shape)}:] = data[{i}].shape[{len(lead)}:], got "
                                 f"{arrays.show(rest)} and {arrays.show(dims[len(lead):])}")
        rest = dims[len(lead):]
        if index.numel():
            low, high = (int(v) for v in torch.aminmax(index))
            if low < 0:
                raise errors.invalid(f"indices[{i}] is out of range: {low} is negative")
            size = max(size, high + 1)
    dims = (size, *(rest or ()))
    if math.prod(dims) > _MANY:
        arrays.checked_dims(torch.tensor(dims))
    if not size:
        return arrays.zeros(dims, data[0])
    parts = [d.reshape((i.numel(), *dims[1:])) for i, d in zip(indices, data, strict=True)]
    out = _written(indices, parts, dims)
    return _gathered(indices, parts, size) if out is None else out


_MANY = 1 << 62              # elements that a shape of 64-bit sizes may have


def _written(indices: list, parts: list, dims: tuple) -> torch.Tensor | None:
    """The parts, written one after the other to their places on the host; None where that is not possible."""
    if not all(isinstance(p, torch.Tensor) and p.is_cpu for p in parts):
        return None
    out = torch.zeros(dims, dtype=parts[0].dtype)
    for index, part in zip(indices, parts, strict=True):
        if not fast_rows.spread(part.contiguous(), index.reshape(-1).long().contiguous(), out):
            return None
    return out


def _gathered(indices: list, parts: list, size: int) -> Any:
    """The result as rows of all parts: for each place the last one."""
    flat = torch.cat([i.reshape(-1) for i in indices]).long()
    rows = arrays.cat(parts, 0)
    last = torch.full((size,), -1, dtype=torch.int64, device=flat.device)
    last.scatter_reduce_(0, flat, torch.arange(flat.numel(), device=flat.device), "amax")
    out = arrays.take(rows, last.clamp(min=0), 0)
    missing = last < 0
    if bool(missing.any()):
        out[missing if isinstance(out, torch.Tensor) else missing.numpy()] = 0 if isinstance(out, torch.Tensor) else b""
    return out


def _stitch_gradient(op: Any, grad: Tensor) -> list:
    n = op.attrs["N"]
    return [None] * n + [get("GatherV2")(grad, i, np.int32(0)) for i in op.inputs[:n]]


for _made in (dynamic_stitch, parallel_dynamic_stitch):
    _made.shape(_stitched)
    _made.kernel(_stitch)
    _made.gradient(_stitch_gradient)
