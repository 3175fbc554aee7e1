"""RaggedTensorToTensor: ragged values in a dense tensor, padded with a default.

The rows of each ragged dimension are described by their splits or by the row of each value. A value goes to the place of its
row in the box plus its column; values beyond the box have no place and are left out.
"""
from __future__ import annotations

import math
from typing import Any

import torch

from penstock._src.base import errors
from penstock._src.base.text import shown_text
from penstock._src.kernels import arrays
from penstock._src.kernels import rows as fast_rows
from penstock._src.ops.math.math import unbroadcast
from penstock._src.ops.registry import get, op

to_tensor_op = op("RaggedTensorToTensor", "shape: Tshape, values: T, default_value: T, row_partition_tensors: "
                  "num_row_partition_tensors * Tindex -> result: T",
                  "T: type, Tindex: type in {int64 int32}, Tshape: type in {int64 int32}, num_row_partition_tensors: int >= 1, "
                  "row_partition_types: list(string)")
_FIRST, _SPLITS, _ROWS = "FIRST_DIM_SIZE", "ROW_SPLITS", "VALUE_ROWIDS"


def _kinds(row_partition_types: Any) -> list[str]:
    """The descriptions of the ragged dimensions, without that of the first dimension."""
    names = [shown_text(t) for t in row_partition_types]
    unknown = next((n for n in names if n not in (_FIRST, _SPLITS, _ROWS)), None)
    if unknown is not None:
        raise errors.invalid(f"Unknown kind of row partition: {unknown}")
    if not names or names[0] == _ROWS:
        raise errors.invalid("Cannot handle VALUE_ROWIDS in first dimension." if names else "No row_partition_types given.")
    return names


def _rank(kinds: list[str]) -> int:
    return len(kinds) - (kinds[0] == _FIRST)


def _combined(wanted: Any, values: tuple, rank: int) -> list:
    """The shape of the result, with None where it depends on the rows."""
    dims: list = [None] * (rank + 1) + list(values[1:])
    if wanted is None:
        return dims
    shown = "[" + ",".join("?" if w is None else str(w) for w in wanted) + "]"
    if len(wanted) != len(dims):
        raise errors.invalid(f"rt_input.shape and shape={shown} are incompatible: rt_input.rank = {len(dims)} but shape.rank = "
                             f"{len(wanted)}")
    for i, (w, d) in enumerate(zip(wanted, dims, strict=True)):
        if w is not None and d is not None and w != d:
            raise errors.invalid(f"rt_input.shape and shape={shown} are incompatible: rt_input.shape[{i}] = {d} but "
                                 f"shape[{i}] = {w}")
    return [d if w is None else w for w, d in zip(wanted, dims, strict=True)]


@to_tensor_op.shape
def _to_tensor_shape(shape, values, default_value, row_partition_tensors, *, row_partition_types, c):
    if values is None:
        return None
    given = c.const("shape")
    rank = _rank(_kinds(row_partition_types))
    if given is None:
        known = shape is not None and len(shape) == 1 and shape[0] is not None
        return (None,) * shape[0] if known else (None,) * (rank + len(values))
    wanted = None if given.ndim == 0 else tuple(None if d < 0 else int(d) for d in given)
    try:
        return tuple(_combined(wanted, values, rank))
    except errors.InvalidArgumentError as e:
        raise ValueError(e.message) from None


@to_tensor_op.kernel
def _to_tensor_kernel(shape, values, default_value, row_partition_tensors, *, row_partition_types):
    kinds = _kinds(row_partition_types)
    if len(kinds) != len(row_partition_tensors):
        raise errors.invalid(f"{len(kinds)} row_partition_types for {len(row_partition_tensors)} row_partition_tensors")
    if arrays.dims_of(values) == () or not row_partition_tensors[0].numel():
        raise errors.invalid("Invalid first partition input. Tensor requires at least one element.")
    first, parts = _described(kinds, row_partition_tensors)
    found = fast_rows.extents(first, parts)
    if found is None:
        listed = _listed(first, parts)
        sizes = [int(columns.max()) + 1 if columns.numel() else 0 for _, columns in listed]
    else:
        listed, sizes = [], [columns for _, columns in found]
    dims = _combined(_wanted(shape), tuple(values.shape), len(parts))
    dims = [size if d is None else d for size, d in zip((first, *sizes), dims, strict=False)] + dims[len(parts) + 1:]
    _check_default(default_value, values)
    arrays.checked_dims(torch.tensor(dims))
    out = arrays.copy(arrays.expand(default_value, dims))
    place = fast_rows.places(parts, found, dims) if found and sizes else _places(first, listed, dims)
    if place.numel() != values.shape[0]:
        raise errors.invalid(f"Row partition size {place.numel()} exceeds the number of values, {values.shape[0]}"
                             if place.numel() > values.shape[0] else
                             f"Values and indices must be equal: {values.shape[0]} values for {place.numel()} places")
    if not arrays.is_torch(out) or not fast_rows.spread(values, place, out):
        _spread(values, place, out.reshape(math.prod(dims[:len(parts) + 1]), *dims[len(parts) + 1:]))
    return out


def _spread(values: Any, place: torch.Tensor, box: Any) -> None:
    """Writes values to their places."""
    used = torch.nonzero(place >= 0).reshape(-1)
    if arrays.is_torch(box):
        arrays.signed(box)[place[used]] = arrays.signed(values)[used]
    else:
        box[place[used].numpy()] = values[used.numpy()]


def _wanted(shape: torch.Tensor) -> tuple | None:
    if shape.ndim > 1 or shape.ndim == 0 and int(shape) != -1:
        raise errors.invalid(f"shape must be a vector or the scalar -1, got {shape.tolist()}")
    given = arrays.ints(shape)
    if any(d < -1 for d in given):
        raise errors.invalid(f"Sizes must be at least -1, got {given}")
    return None if shape.ndim == 0 else tuple(None if d == -1 else d for d in given)


def _check_default(default: Any, values: Any) -> None:
    """A default is like one value, or broadcasts to one."""
    if len(default.shape) >= len(values.shape):
        why = f"default_value.rank = {len(default.shape)}  must be less than rt_input.flat_values.rank = {len(values.shape)}"
    elif not arrays.expands(tuple(default.shape), tuple(values.shape[1:])):
        i = next(i for i in range(-1, -len(default.shape) - 1, -1) if default.shape[i] not in (1, values.shape[i]))
        why = f"default_value.shape[{i}] = {default.shape[i]} but rt_input.flat_values.shape[{i}] = {values.shape[i]}"
    else:
        return
    raise errors.invalid(f"default_value.shape={arrays.show(default.shape)} and rt_input.flat_values.shape="
                         f"{arrays.show(values.shape)} are incompatible: {why}")


def _described(kinds: list[str], tensors: list) -> tuple[int, list[fast_rows.Partition]]:
    """The number of rows, and the partition of each ragged dimension."""
    first = int(tensors[0].reshape(-1)[0]) if kinds[0] == _FIRST else tensors[0].numel() - 1
    if first < 0:
        raise errors.invalid(f"The first dimension has size {first}")
    parts: list[fast_rows.Partition] = []
    for kind, t in zip(kinds, tensors, strict=True):
        if kind == _FIRST:
            if parts or t.numel() != 1 or t is not tensors[0]:
                raise errors.invalid("FIRST_DIM_SIZE describes the first dimension only, by one number")
            continue
        parts.append((kind == _ROWS, t))
    return first, parts


def _listed(first: int, parts: list[fast_rows.Partition]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """For each ragged dimension, the row and the column of each of its elements."""
    listed: list[tuple[torch.Tensor, torch.Tensor]] = []
    for by_rows, t in parts:
        above = listed[-1][0].numel() if listed else first
        listed.append((_by_rows if by_rows else _by_splits)(t.to(torch.int64), above))
    return listed


def _by_splits(splits: torch.Tensor, above: int) -> tuple[torch.Tensor, torch.Tensor]:
    lengths = splits.diff()
    if splits.ndim != 1 or not splits.numel() or splits[0] != 0 or (lengths < 0).any():
        raise errors.invalid("Invalid row split size.")
    if lengths.numel() > above:
        raise errors.invalid(f"The row partition has more rows than the output: {lengths.numel()} > {above}")
    total = int(splits[-1])
    arrays.checked_dims(torch.tensor([total]))
    rows = torch.arange(lengths.numel(), device=splits.device).repeat_interleave(lengths, output_size=total)
    return rows, torch.arange(total, device=splits.device) - splits[rows]


def _by_rows(rows: torch.Tensor, above: int) -> tuple[torch.Tensor, torch.Tensor]:
    if rows.ndim != 1:
        raise errors.invalid(f"value_rowids must be a vector, got shape {arrays.show(rows.shape)}")
    if rows.numel() and (int(rows.min()) < 0 or int(rows.max()) >= above):
        raise errors.invalid(f"Got value_rowid={int(rows.max())} which is not less than {above}")
    index = torch.arange(rows.numel(), device=rows.device)
    starts = torch.ones_like(rows, dtype=torch.bool)
    starts[1:] = rows[1:] != rows[:-1]
    return rows, index - torch.where(starts, index, 0).cummax(0).values if rows.numel() else index


def _places(first: int, parts: list, dims: list) -> torch.Tensor:
    """Where in the box each value goes, counted in values; -1 if it is outside."""
    device = parts[0][0].device if parts else None
    place = torch.arange(first, device=device)
    place[dims[0]:] = -1
    for (rows, columns), size in zip(parts, dims[1:], strict=False):
        above = place[rows]
        place = torch.where((above >= 0) & (columns < size), above * size + columns, -1)
    return place


@to_tensor_op.gradient
def _to_tensor_gradient(op, grad):
    shape, values, default = op.inputs[0], op.inputs[1], op.inputs[2]
    kinds = op.attrs["row_partition_types"]
    rank = _rank(_kinds(kinds)) + 1
    box = get("Slice")(get("Shape")(op.outputs[0], out_type=shape.dtype), [0], [rank])
    count = get("StridedSlice")(get("Shape")(values), [0], [1], [1], shrink_axis_mask=1)
    place = to_tensor_op(box, get("Range")(0, count, 1), -1, list(op.inputs[3:]), row_partition_types=kinds)
    back = get("UnsortedSegmentSum")(grad, place, count)
    inner = get("Rank")(grad) - rank
    shown = get("Reshape")(get("Less")(place, 0), get("ConcatV2")([get("Shape")(place), get("Fill")(
        get("ExpandDims")(inner, 0), 1)], 0))
    missing = get("SelectV2")(shown, grad, get("ZerosLike")(grad))
    return (None, back, unbroadcast(missing, default, op.outputs[0]), *[None] * len(op.inputs[3:]))
