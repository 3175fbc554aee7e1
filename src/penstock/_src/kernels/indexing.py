"""Reading and writing by index: gather along an axis, and gather and scatter by rows of coordinates.

Every index is checked before it is used. A bad index is an InvalidArgumentError; on a GPU, where inspecting the values
would stop the host, a bad index of a gather reads zeros and adds nothing where something is added, as TensorFlow's do.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from penstock._src.base import errors, tracing
from penstock._src.kernels import arrays, device_rows
from penstock._src.kernels.host_threads import compiled

_INDEX_TYPES = (torch.int32, torch.int64)
_MOST_AXES = 16        # of rows of coordinates in C code
_is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor       # under vmap it has no memory
FEW = 8                # elements below which Python checks indices faster than torch


def first_bad(index: torch.Tensor, size: int) -> int | None:
    """The flat position of the first index outside [0, size), or None."""
    if tracing.recording():                # checked in each run of the recording; on failure the program raises the error
        if index.numel():
            low, high = torch.aminmax(index)
            torch._assert_async((low >= 0) & (high < size))
        return None
    if index.numel() <= FEW and not tracing.lowering():
        return next((p for p, i in enumerate(index.reshape(-1).tolist()) if not 0 <= i < size), None)
    if inside(index, size):
        return None
    return int(((index < 0) | (index >= size)).reshape(-1).nonzero()[0])


def inside(index: torch.Tensor, size: int) -> bool:
    """Whether all indices are in [0, size). A traced step reads one boolean: its graph holds for all such indices."""
    if not index.numel():
        return True
    low, high = torch.aminmax(index)
    if tracing.lowering():
        return bool((low >= 0) & (high < size))
    return int(low) >= 0 and int(high) < size


def wide(index: torch.Tensor) -> torch.Tensor:
    """The indices in a type that kernels index by: int16 becomes int32."""
    return index.int() if index.dtype is torch.int16 else index


def counts(index: torch.Tensor, size: int) -> torch.Tensor:
    """How often each of `size` numbers occurs among valid indices, without reading them on the host: bincount does."""
    if index.is_cpu and not tracing.lowering():
        return torch.bincount(index, minlength=size)
    ones = torch.ones((), dtype=torch.int64, device=index.device).expand(index.shape)
    return torch.zeros(size, dtype=torch.int64, device=index.device).index_add(0, index, ones)


def position(flat: int, dims: Sequence[int]) -> str:
    """A flat position as it is written in messages: [1,2]."""
    return "[" + ",".join(str(int(i)) for i in np.unravel_index(flat, tuple(dims))) + "]" if dims else ""


def check(index: torch.Tensor, size: int, name: str = "indices") -> None:
    """InvalidArgumentError unless 0 <= index < size everywhere."""
    bad = first_bad(index, size)
    if bad is not None:
        raise errors.invalid(f"{name}{position(bad, index.shape)} = {int(index.reshape(-1)[bad])} is not in "
                             f"[0, {size})")


def added(indices: torch.Tensor, size: int, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Indices and rows for an addition on a GPU, where indices are not validated: for a bad index, zeros are added to row 0."""
    good = (indices >= 0) & (indices < size)
    return torch.where(good, indices, 0), _or_zeros(good, rows)


def _or_zeros(good: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    return torch.where(good.reshape(good.shape + (1,) * (rows.dim() - good.dim())), rows, torch.zeros_like(rows))


def beside(indices: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """Indices (or weights) on the device of a table; from the host they are copied asynchronously through pinned memory."""
    if indices.device == table.device:
        return indices
    if table.is_cuda and torch.cuda.is_current_stream_capturing():
        raise errors.FailedPreconditionError(None, None, "A value of the host cannot become part of a CUDA graph.")
    return indices.pin_memory().to(table.device, non_blocking=True) if table.is_cuda else indices.to(table.device)


def gather(params: Any, indices: torch.Tensor, axis: int = 0, batch_dims: int = 0) -> Any:
    """Slices of `params` along an axis; the leading `batch_dims` axes of both go together."""
    dims = arrays.dims_of(params)
    axis = arrays.canonical_axis(axis, len(dims), f"Expected axis in the range [{-len(dims)}, {len(dims)}), but got "
                                                  f"{axis}")
    rank = indices.dim()
    if not -rank <= batch_dims <= rank:
        raise errors.invalid(f"Expected batch_dims in the range [{-rank}, {rank}], but got {batch_dims}")
    batch_dims += rank if batch_dims < 0 else 0
    if batch_dims > axis:
        raise errors.invalid(f"batch_dims ({batch_dims}) must be less than or equal to axis ({axis}).")
    if tuple(indices.shape[:batch_dims]) != dims[:batch_dims]:
        raise errors.invalid(f"params.shape[:batch_dims]: {arrays.show(dims[:batch_dims])} should equal "
                             f"indices.shape[:batch_dims]: {arrays.show(indices.shape[:batch_dims])}")
    shape = dims[:axis] + tuple(indices.shape[batch_dims:]) + dims[axis + 1:]
    if math.prod(shape) == 0 and indices.numel() == 0:
        return arrays.zeros(shape, params)
    if arrays.is_torch(params) and params.is_cuda:
        return _gather_masked(params, indices.to(params.device), axis, batch_dims).reshape(shape)
    if tracing.lowering():
        indices = torch.where(indices < 0, dims[axis], indices)      # compiled code counts negative ones from the end
    elif batch_dims == 0 and arrays.is_torch(params) and params.numel():
        return rows(params, indices, axis)
    else:
        found = _picked(params, indices, axis, batch_dims)
        if found is not None:
            return found.reshape(shape)
        check(indices, dims[axis])
    return _gathered(params, indices, axis, batch_dims).reshape(shape)


def rows(params: torch.Tensor, indices: torch.Tensor, axis: int = 0) -> torch.Tensor:
    """Slices of `params` along an axis. On the host torch compares each index anyway, and does the only check."""
    if params.is_cpu and params.dim() and params.numel():
        try:
            if indices.dim() == 1:
                return arrays.take(params, indices, axis)
            shape = params.shape[:axis] + indices.shape + params.shape[axis + 1:]
            return arrays.take(params, indices.reshape(-1), axis).reshape(shape)
        except (IndexError, RuntimeError):           # which one depends on the axis
            check(indices, params.shape[axis])
            raise
    return gather(params, indices, axis)


def _gathered(params: Any, indices: torch.Tensor, axis: int, batch_dims: int) -> Any:
    if batch_dims == 0:
        return arrays.take(params, indices.reshape(-1), axis)
    dims = arrays.dims_of(params)
    batch, outer = math.prod(dims[:batch_dims]), math.prod(dims[batch_dims:axis])
    inner = math.prod(dims[axis + 1:])
    table = params.reshape(batch, outer, dims[axis], inner)
    index = indices.reshape(batch, 1, -1, 1).long().expand(batch, outer, indices.numel() // max(batch, 1), inner)
    if not arrays.is_torch(params):
        return np.take_along_axis(table, index.numpy(), 2)
    return arrays.unsigned_as(arrays.signed(table).gather(2, index), params)


def _in_memory(indices: torch.Tensor) -> bool:
    """Whether C code can read the indices."""
    return indices.is_cpu and indices.dtype in _INDEX_TYPES and not _is_wrapped(indices)


def _picked(params: Any, indices: torch.Tensor, axis: int, batch_dims: int) -> torch.Tensor | None:
    """The same with each index checked, in one pass. None where no C code is compiled, or where an index is bad."""
    kernels = compiled("_gather")
    if kernels is None or not arrays.is_torch(params) or not _in_memory(indices) or _is_wrapped(params):
        return None
    dims, table, places = params.shape, params.contiguous(), indices.contiguous()
    batch, outer = math.prod(dims[:batch_dims]), math.prod(dims[batch_dims:axis])
    inner, count = math.prod(dims[axis + 1:]), math.prod(indices.shape[batch_dims:])
    out = torch.empty(batch * outer * count * inner, dtype=params.dtype)
    bad = kernels.pick(table.data_ptr(), places.data_ptr(), places.dtype is torch.int64, out.data_ptr(), batch, outer,
                       dims[axis], inner, count, params.element_size())
    return out if bad < 0 else None


def _gather_masked(params: torch.Tensor, indices: torch.Tensor, axis: int, batch_dims: int) -> torch.Tensor:
    size = params.shape[axis]
    shape = params.shape[:axis] + indices.shape[batch_dims:] + params.shape[axis + 1:]
    if size == 0:
        return torch.zeros(shape, dtype=params.dtype, device=params.device)
    made = device_rows.gather(params, indices, axis) if batch_dims == 0 else None
    if made is not None:
        return made
    ok = (indices >= 0) & (indices < size)
    out = _gathered(params, indices.clamp(0, size - 1), axis, batch_dims).reshape(shape)
    inner = (1,) * (params.dim() - axis - 1)
    lead = indices.shape[:batch_dims] + (1,) * (axis - batch_dims)
    return torch.where(ok.reshape(lead + indices.shape[batch_dims:] + inner), out, torch.zeros_like(out))


def flat_rows(indices: torch.Tensor, dims: Sequence[int], what: str = "param shape") -> torch.Tensor:
    """Rows of coordinates as positions in the leading axes of a value of shape `dims`."""
    depth = indices.shape[-1]
    if depth > len(dims):
        raise errors.invalid(f"index innermost dimension length must be <= params rank; saw: {depth} vs. {len(dims)}")
    lead = list(dims[:depth])
    kernels = compiled("_gather")
    if kernels is not None and _in_memory(indices) and depth <= _MOST_AXES:
        places, flat = indices.contiguous(), torch.empty(math.prod(indices.shape[:-1]), dtype=torch.int64)
        if kernels.locate(places.data_ptr(), places.dtype is torch.int64, len(flat), tuple(lead), flat.data_ptr()) < 0:
            return flat
    rows = indices.reshape(math.prod(indices.shape[:-1]), depth).long()
    if depth == 1 and first_bad(rows, lead[0]) is None:
        return rows.reshape(-1)
    if rows.numel():
        limit = torch.tensor(lead, dtype=torch.int64, device=rows.device)
        bad = ((rows < 0) | (rows >= limit)).any(1)
        if tracing.recording():
            torch._assert_async(bad.any().logical_not())
        elif bool(bad.any()):
            at = int(bad.nonzero()[0])
            raise errors.invalid(f"indices{position(at, indices.shape[:-1])} = "
                                 f"[{', '.join(map(str, rows[at].tolist()))}] does not index into {what} "
                                 f"{arrays.show(dims)}")
    steps = [math.prod(lead[i + 1:]) for i in range(depth)]
    return (rows * torch.tensor(steps, dtype=torch.int64, device=rows.device)).sum(1)


def _positions(rows: torch.Tensor, lead: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """The same on a GPU without reading values: positions, and a mask of the valid ones; the others are arbitrary."""
    flat = torch.zeros(rows.shape[0], dtype=torch.int64, device=rows.device)
    good = torch.ones(rows.shape[0], dtype=torch.bool, device=rows.device)
    for at, size in zip(rows.long().unbind(1), lead, strict=True):
        good &= (at >= 0) & (at < size)
        flat = flat * size + at.clamp(0, size - 1)
    return flat, good


def gather_nd(params: Any, indices: torch.Tensor) -> Any:
    """The slices of `params` at rows of coordinates."""
    dims = arrays.dims_of(params)
    if not indices.dim():
        raise errors.invalid("indices must be at least a vector")
    depth = indices.shape[-1]
    if math.prod(dims) == 0 and indices.shape[:-1].numel() and depth:
        raise errors.invalid("Requested more than 0 entries, but params is empty.  Params shape: " + arrays.show(dims))
    table = params.reshape([math.prod(dims[:depth]), *dims[depth:]])
    shape = tuple(indices.shape[:-1]) + dims[depth:]
    if arrays.is_torch(params) and params.is_cuda and math.prod(dims) and depth <= len(dims):
        flat, good = _positions(indices.reshape(math.prod(indices.shape[:-1]), depth), dims[:depth])
        return _or_zeros(good, arrays.take(table, flat, 0)).reshape(shape)
    return arrays.take(table, flat_rows(indices, dims), 0).reshape(shape)


def gather_nd_or_zeros(params: Any, indices: torch.Tensor) -> Any:
    """The slices of `params` at rows of coordinates; zeros for coordinates beyond it."""
    dims = arrays.dims_of(params)
    depth = indices.shape[-1]
    limits = torch.tensor(dims[:depth], dtype=indices.dtype, device=indices.device)
    good = ((indices >= 0) & (indices < limits)).all(-1)
    found = gather_nd(params, torch.where(good[..., None], indices, torch.zeros_like(indices)))
    if arrays.is_torch(found):
        return torch.where(good.reshape(*good.shape, *[1] * (found.dim() - good.dim())), found, torch.zeros_like(found))
    found = found.copy()
    found[~good.cpu().numpy()] = b""
    return found


def inside_only(indices: torch.Tensor, updates: Any, dims: Sequence[int]) -> tuple[torch.Tensor, Any]:
    """The rows of coordinates that are inside of `dims`, and their updates."""
    check_scatter_nd(indices, updates, dims)
    depth = indices.shape[-1]
    rows = indices.reshape(-1, depth)
    good = ((rows >= 0) & (rows < torch.tensor(dims[:depth], device=rows.device))).all(-1)
    flat = updates.reshape(len(rows), *dims[depth:])
    return rows[good], flat[good] if arrays.is_torch(flat) else flat[good.cpu().numpy()]


def check_scatter_nd(indices: torch.Tensor, updates: Any, dims: Sequence[int]) -> None:
    """InvalidArgumentError unless updates are one slice of a value of shape `dims` per row of `indices`."""
    if not indices.dim():
        raise errors.invalid("indices must be at least a vector")
    found = arrays.dims_of(updates)
    depth, lead = indices.shape[-1], tuple(indices.shape[:-1])
    if math.prod(dims) == 0 and indices.numel() and math.prod(found):
        raise errors.invalid(f"Indices and updates specified for empty output: shape {arrays.show(dims)}")
    if depth > len(dims):
        raise errors.invalid(f"The inner dimension of indices ({depth}) is larger than the rank of the shape "
                             f"{arrays.show(dims)}")
    if found != lead + tuple(dims[depth:]):
        raise errors.invalid(f"The shape of updates must be indices.shape[:-1] + shape[indices.shape[-1]:], got "
                             f"updates shape {arrays.show(found)}, indices shape {arrays.show(indices.shape)}, shape "
                             f"{arrays.show(dims)}")


def scatter_nd(target: Any, indices: torch.Tensor, updates: Any, how: str) -> None:
    """Writes slices at rows of coordinates, in place; `how` is one of update, add, sub, min, max."""
    dims = arrays.dims_of(target)
    check_scatter_nd(indices, updates, dims)
    depth = indices.shape[-1]
    rows = updates.reshape([math.prod(indices.shape[:-1]), math.prod(dims[depth:])])
    if how in ("add", "sub") and arrays.is_torch(target) and target.is_cuda and math.prod(dims):
        flat, good = _positions(indices.reshape(rows.shape[0], depth), dims[:depth])
        rows = _or_zeros(good, rows)
    else:
        flat = flat_rows(indices, dims, "shape")
    if not flat.numel() or not math.prod(dims[depth:]):
        return
    table = target.view([-1, math.prod(dims[depth:])]) if arrays.is_torch(target) else \
        target.reshape([-1, math.prod(dims[depth:])])
    write_rows(table, flat, rows, how)


def write_rows(table: Any, flat: torch.Tensor, rows: Any, how: str) -> None:
    """table[flat] = or += or … rows, in place, for checked positions; repeated positions all count."""
    if not arrays.is_torch(table):
        _write_objects(table, flat.cpu().numpy(), rows, how)
        return
    flat = flat.to(table.device)
    if how == "update":
        arrays.signed(table).index_copy_(0, flat, arrays.signed(rows))
    elif how in ("add", "sub"):
        if table.dtype is torch.bool:
            table.index_put_((flat,), table.index_select(0, flat) | rows)
        else:
            rows = arrays.signed(rows)              # a factor of -1 would take ATen's slow path, row by row
            arrays.signed(table).index_add_(0, flat, rows if how == "add" else rows.neg())
    else:
        index = flat.unsqueeze(1).expand_as(rows)
        table.scatter_reduce_(0, index, rows, "amin" if how == "min" else "amax")


def _write_objects(table: np.ndarray, flat: np.ndarray, rows: np.ndarray, how: str) -> None:
    if how == "update":
        table[flat] = rows
    elif how == "add":                                 # strings are joined, in order
        np.add.at(table, flat, rows)
    else:
        raise errors.invalid(f"strings cannot be scattered with {how}")
