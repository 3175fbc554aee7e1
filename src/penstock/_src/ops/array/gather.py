"""Gathers and scatters: slices by index, slices by rows of coordinates, and updates at such positions.

The gradient of a gather of rows is IndexedSlices: it stays sparse up to the optimizer.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors, tracing
from penstock._src.base.api import export
from penstock._src.base.static_shape import Dims, bracketed, compatible, merge, rank_at_least, rank_is, show
from penstock._src.base.text import shown_text
from penstock._src.graph.constant import constant_value
from penstock._src.graph.convert import convert
from penstock._src.graph.indexed_slices import IndexedSlices
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.kernels import arrays, indexing, unsigned
from penstock._src.ops import rules
from penstock._src.ops.array.array import canonical, known, reshape_op, shape_of
from penstock._src.ops.composite import dispatched
from penstock._src.ops.registry import get, op

# -- gather along an axis --------------------------------------------------------------
gather_v2_op = op("GatherV2", "params: Tparams, indices: Tindices, axis: Taxis -> output: Tparams",
                  "batch_dims: int = 0, Tparams: type, Tindices: type in {int16 int32 int64}, Taxis: type in {index}")


@rules.batching.rule(gather_v2_op)
def _gather_v2_batching(op, rows, params, indices, axis):
    place, deep = constant_value(axis.tensor), op.attrs["batch_dims"]
    rank = rows.rank(params)
    if axis.stacked or place is None or rank is None or rows.rank(indices) is None:
        return None
    place, deep = int(place) % max(rank, 1), deep % (rows.rank(indices) + 1) if deep < 0 else deep
    if indices.stacked and not params.stacked and not deep:
        made = gather_v2_op(params.tensor, indices.tensor, np.int32(place))
        order = [place, *range(place), *range(place + 1, rank + rows.rank(indices))]
        return [get("Transpose")(made, np.array(order, np.int32)) if place else made]
    if params.stacked and not indices.stacked and not deep:
        return [gather_v2_op(params.tensor, indices.tensor, np.int32(place + 1))]
    return [gather_v2_op(rows.stack(params), rows.stack(indices), np.int32(place + 1), batch_dims=deep + 1)]

gather_op = op("Gather", "params: Tparams, indices: Tindices -> output: Tparams",
               "validate_indices: bool = True, Tparams: type, Tindices: type in {index}")


@gather_v2_op.shape
def _gather_v2_shape(params, indices, axis, *, batch_dims, c):
    rank_is(axis, 0)
    value = c.const("axis")
    rank_at_least(params, 1)
    if value is None or params is None or indices is None:
        if params is None or indices is None:
            return None
        return (None,) * (len(params) + len(indices) - 1 - (batch_dims + (len(indices) if batch_dims < 0 else 0)))
    return gathered_dims(params, indices, int(value), batch_dims)


def gathered_dims(params: tuple, indices: tuple, axis: int, batch_dims: int = 0) -> tuple:
    """The static shape of a gather."""
    if not -len(indices) <= batch_dims <= len(indices):
        raise ValueError(f"batch_dims = {batch_dims} must be in [{-len(indices)}, {len(indices)}], the rank of indices "
                         f"{show(indices)}")
    batch_dims += len(indices) if batch_dims < 0 else 0
    rank_at_least(params, axis + 1 if axis >= 0 else -axis)
    axis = canonical(axis, len(params))
    if batch_dims > axis:
        raise ValueError(f"batch_dims = {batch_dims} must be less than or equal to axis = {axis}")
    batch = merge(params[:batch_dims], indices[:batch_dims])
    return batch + params[batch_dims:axis] + indices[batch_dims:] + params[axis + 1:]


@gather_v2_op.kernel
def _gather_v2_kernel(params, indices, axis, *, batch_dims):
    if axis.numel() != 1:
        raise errors.invalid("axis must be scalar")
    return indexing.gather(params, indexing.wide(indices), int(axis), batch_dims)


@rules.program.prepare(gather_v2_op)
def _gather_v2_prepare(known):
    axis, batch = known.const(2), known.attrs["batch_dims"]
    if axis is None or axis.size != 1 or not known.plain(0) or known.op.inputs[1].dtype == dtypes.int16:
        return None
    if batch > 0 and batch == int(axis) and known.dims(0) is not None and known.dims(1) is not None:
        return _gather_in_batches(known.dims(0), known.dims(1), batch)
    return None if batch or int(axis) else lambda params, indices, axis: indexing.rows(params, indices)


@rules.regions.lower(gather_v2_op)
def _gather_v2_in_region(op, r):
    params, indices, axis = r.view(op.inputs[0]), r.view(op.inputs[1]), int(r.constant(op.inputs[2]))
    batch = op.attrs["batch_dims"]
    return [r.gathered(params, indices, axis % len(params.dims), batch + len(indices.dims) if batch < 0 else batch)]


rules.regions.lower[gather_op] = lambda op, r: [r.gathered(*(r.view(t) for t in op.inputs), 0, 0)]
rules.regions.tables |= {gather_v2_op, gather_op}


def _gather_in_batches(dims: tuple, places: tuple, batch: int) -> Callable | None:
    """A kernel for slices along the axis after the batch axes, all of known size: as rows of one matrix."""
    count, size = math.prod(dims[:batch]), dims[batch]
    if dims[:batch] != places[:batch] or not math.prod(dims) or not math.prod(places):
        return None
    shape = (*places, *dims[batch + 1:])
    begins = torch.arange(0, count * size, size).view(count, 1)

    def run(params, indices, axis):
        if not params.is_cpu or tracing.lowering():
            return indexing.gather(params, indices, batch, batch)
        flat = indices.reshape(count, -1)
        least, greatest = flat.aminmax()
        if int(least) < 0 or int(greatest) >= size:
            return indexing.gather(params, indices, batch, batch)        # raises the error
        return params.reshape(count * size, *dims[batch + 1:]).index_select(0, (flat + begins).view(-1)).view(shape)
    return run


gather_op.shape(lambda params, indices: None if params is None or indices is None else
                gathered_dims(rank_at_least(params, 1), indices, 0))
gather_op.kernel(lambda params, indices: indexing.gather(params, indices))


def rows_gradient(grad: Any, indices: Tensor, dims: Dims, dense_shape: Any) -> IndexedSlices:
    """The gradient of params[indices] as IndexedSlices; `dims` is the static shape of params."""
    grad = convert(grad)
    if dims is not None and known(dims[1:]) and (known(indices.static_dims) or math.prod(dims[1:])):
        rows = math.prod(indices.static_dims) if known(indices.static_dims) else -1
        wanted: Any = np.array([rows, *dims[1:]], np.int32)
    else:
        wanted = get("ConcatV2")([reshape_op(get("Size")(indices), [1]), dense_shape[1:]], 0)
    values = grad if indices.ndim == 1 else reshape_op(grad, wanted)
    return IndexedSlices(values, indices if indices.ndim == 1 else reshape_op(indices, [-1]), dense_shape)


@gather_op.gradient
def _gather_gradient(op, grad):
    params, indices = op.inputs
    return rows_gradient(grad, indices, params.static_dims, convert(shape_of(params))), None


@gather_v2_op.gradient
def _gather_v2_gradient(op, grad):
    params, indices, axis = op.inputs
    batch_dims, at = op.attrs["batch_dims"], constant_value(axis)
    if at is not None and int(at) == 0 and batch_dims == 0:
        return rows_gradient(grad, indices, params.static_dims, convert(shape_of(params))), None, None
    return _dense_gradient(params, indices, axis, at, batch_dims, convert(grad)), None, None


def _dense_gradient(params: Tensor, indices: Tensor, axis: Tensor, at: Any, batch_dims: int, grad: Tensor) -> Tensor:
    """The gradient of a gather inside a tensor: rows are brought to the front, summed by index, and brought back."""
    batch, outer, size, inner, rows = _extents(params, indices, axis, at, batch_dims)
    transpose = get("Transpose")
    shape = _vector([batch, outer, rows, inner])
    grad = reshape_op(transpose(reshape_op(grad, shape), [0, 2, 1, 3]), _vector([_times(batch, rows), outer, inner]))
    index = indices
    if batch_dims:
        offsets = get("Range")(0, batch, 1)
        offsets = get("Mul")(offsets, size)
        if indices.dtype != dtypes.int32:
            offsets = get("Cast")(offsets, DstT=indices.dtype)
        index = get("AddV2")(reshape_op(indices, _vector([batch, rows])), reshape_op(offsets, _vector([batch, 1])))
    index = reshape_op(index, [-1])
    total = get("UnsortedSegmentSum")(grad, index, _times(batch, size))
    total = transpose(reshape_op(total, _vector([batch, size, outer, inner])), [0, 2, 1, 3])
    return reshape_op(total, shape_of(params))


def _extents(params: Tensor, indices: Tensor, axis: Tensor, at: Any, batch_dims: int) -> tuple:
    """Sizes of the batch, the axes before, the axis, the axes behind, and the indices per batch: ints or tensors."""
    if known(params.static_dims) and known(indices.static_dims) and at is not None:
        a = canonical(int(at), len(params.static_dims))
        b = batch_dims + (len(indices.static_dims) if batch_dims < 0 else 0)
        dims = params.static_dims
        groups = dims[:b], dims[b:a], dims[a:a + 1], dims[a + 1:], indices.static_dims[b:]
        return tuple(math.prod(g) for g in groups)
    shape, rows = get("Shape")(params), get("Shape")(indices)
    n = get("FloorMod")(get("Cast")(axis, DstT=dtypes.int32), get("Rank")(params))
    b = batch_dims if batch_dims >= 0 or indices.ndim is None else batch_dims + indices.ndim
    groups = shape[:b], shape[b:n], shape[n:n + 1], shape[n + 1:], rows[b:]
    return tuple(get("Prod")(g, [0]) for g in groups)


def _vector(sizes: list) -> Any:
    if any(isinstance(s, Tensor) for s in sizes):
        return get("Pack")(sizes)
    return np.array(sizes, np.int32)


def _times(a: Any, b: Any) -> Any:
    return get("Mul")(a, b) if isinstance(a, Tensor) else a * b


@export(v1=["gather"])
@dispatched
def gather(params: Any, indices: Any, validate_indices: Any = None, name: str | None = None, axis: Any = None,
           batch_dims: int = 0) -> Tensor:
    """Slices of `params` along `axis` (by default, rows) at the positions `indices`.

    Args:
        params: Tensor to take slices from.
        indices: Integer tensor.
        validate_indices: Accepted for compatibility and unused: indices are always checked.
        name: Name of the operation.
        axis: Axis of `params` that `indices` refer to.
        batch_dims: How many leading axes of `params` and `indices` are a batch.

    Returns:
        A tensor whose axis `axis` is replaced by the axes of `indices`.

    Raises:
        InvalidArgumentError: if an index is out of range.

    >>> tf.gather([10, 20, 30], [2, 0]).numpy()
    array([30, 10], dtype=int32)
    """
    return gather_v2(params, indices, validate_indices, axis, batch_dims, name)


@export(v2=["gather"])
@dispatched
def gather_v2(params: Any, indices: Any, validate_indices: Any = None, axis: Any = None, batch_dims: int = 0,
              name: str | None = None) -> Tensor:
    """Slices of `params` along `axis` (by default, rows) at the positions `indices`.

    Args:
        params: Tensor.
        indices: Integer tensor.
        validate_indices: Accepted; indices are always checked on the CPU.
        axis: The axis of `params` that indices count along, by default `batch_dims`.
        batch_dims: How many first axes of `params` and `indices` belong together.
        name: Name of the operation.

    Returns:
        Tensor with the axis replaced by the axes of `indices`.

    Raises:
        InvalidArgumentError: for an index outside the axis.

    >>> tf.gather([10, 20, 30], [2, 0]).numpy().tolist()
    [30, 10]
    """
    axis = batch_dims if axis is None else axis
    if batch_dims == 0 and hasattr(params, "sparse_read") and isinstance(axis, (int, np.integer)) and axis == 0:
        return params.sparse_read(indices, name=name)
    if getattr(indices, "dtype", None) == dtypes.int16:            # small tables: the kernels index by 32 or 64 bits
        indices = get("Cast")(indices, DstT=dtypes.int32)
    return gather_v2_op(params, indices, axis, batch_dims=batch_dims, name=name)


@export(v1=["batch_gather"])
@dispatched
def batch_gather(params: Any, indices: Any, name: str | None = None) -> Tensor:
    """`tf.gather` within each batch: all axes of `indices` but the last one are batch axes."""
    with name_scope(name, "BatchGather", [params, indices]):
        indices, params = convert(indices, name="indices"), convert(params, name="params")
        if indices.ndim is None:
            raise ValueError("batch_gather does not allow indices with unknown shape.")
        if indices.ndim == 0:
            raise ValueError("batch_gather needs indices of rank 1 or more, got a scalar")
        return gather_v2_op(params, indices, indices.ndim - 1, batch_dims=indices.ndim - 1)


# -- gather_nd, scatter_nd --------------------------------------------------------------
gather_nd_op = op("GatherNd", "params: Tparams, indices: Tindices -> output: Tparams",
                  "Tparams: type, Tindices: type in {int16 int32 int64}, bad_indices_policy: string = ''")


@rules.batching.rule(gather_nd_op)
def _gather_nd_batching(op, rows, params, indices):
    if not params.stacked:
        return [gather_nd_op(params.tensor, indices.tensor)]
    if rows.rank(indices) is None:
        return None
    return [gather_nd_op(params.tensor, _with_rows(rows, indices))]

_POLICIES = ("", "DEFAULT", "ERROR", "IGNORE")


@gather_nd_op.shape
def _gather_nd_shape(params, indices):
    rank_at_least(indices, 1)
    if params is None or indices is None or indices[-1] is None:
        return None
    if indices[-1] > len(params):
        raise ValueError(f"indices.shape[-1] must be <= params.rank, but saw indices shape: {show(indices)} and params "
                         f"shape: {show(params)}")
    return indices[:-1] + params[indices[-1]:]


@gather_nd_op.kernel
def _gather_nd_kernel(params, indices, *, bad_indices_policy):
    """With policy IGNORE, slices at coordinates beyond `params` are zeros."""
    return (indexing.gather_nd_or_zeros if _ignores(bad_indices_policy) else indexing.gather_nd)(params, indices)


def _ignores(policy: str | bytes) -> bool:
    """Whether coordinates out of range are ignored; otherwise they are errors."""
    policy = shown_text(policy)
    if policy not in _POLICIES:
        raise errors.invalid(f"Bad indices policy {policy!r} is none of {_POLICIES[1:]}")
    return policy == "IGNORE"


@gather_nd_op.gradient
def _gather_nd_gradient(op, grad):
    params, indices = op.inputs
    shape, policy = shape_of(params, indices.dtype), op.attrs["bad_indices_policy"]
    if indices.ndim == 2 and indices.static_dims[-1] == 1 and not _ignores(policy):
        return IndexedSlices(grad, get("Squeeze")(indices, squeeze_dims=[-1]), convert(shape)), None
    return scatter_nd_op(indices, grad, shape, bad_indices_policy=policy), None


@export(v1=["gather_nd", "manip.gather_nd"])
@dispatched
def gather_nd(params: Any, indices: Any, name: str | None = None, batch_dims: int = 0,
              bad_indices_policy: str = "") -> Tensor:
    """The slices of `params` at the rows of coordinates `indices`.

    Args:
        params: Tensor to take slices from.
        indices: Integer tensor; its last axis holds coordinates.
        name: Name of the operation.
        batch_dims: How many leading axes of `params` and `indices` are a batch.
        bad_indices_policy: `"ERROR"` or `"IGNORE"` for indices out of range.

    Returns:
        A tensor of the type of `params`.

    Raises:
        InvalidArgumentError: if a coordinate is out of range.

    >>> tf.gather_nd([[1, 2], [3, 4]], [[0, 1], [1, 0]]).numpy()
    array([2, 3], dtype=int32)
    """
    return gather_nd_v2(params, indices, batch_dims, name, bad_indices_policy)


@export(v2=["gather_nd"])
@dispatched
def gather_nd_v2(params: Any, indices: Any, batch_dims: int = 0, name: str | None = None,
                 bad_indices_policy: str = "") -> Tensor:
    """The slices of `params` at the rows of coordinates `indices`.

    Args:
        params: Tensor.
        indices: Integer tensor whose last axis has coordinates in `params`.
        batch_dims: How many first axes belong together.
        bad_indices_policy: `"ERROR"` or `"IGNORE"`, which gives zeros for coordinates outside; empty for the default.
        name: Name of the operation.

    Returns:
        Tensor of shape `indices.shape[:-1]`, plus the axes that the coordinates leave.

    Raises:
        InvalidArgumentError: for coordinates outside.

    >>> tf.gather_nd([[1, 2], [3, 4]], [[0, 1], [1, 0]]).numpy().tolist()
    [2, 3]
    """
    if constant_value(batch_dims) != 0:
        return batch_gather_nd(params, indices, batch_dims, name, bad_indices_policy)
    if hasattr(params, "gather_nd") and not isinstance(params, Tensor) and not _ignores(bad_indices_policy):
        return params.gather_nd(indices, name=name)
    return gather_nd_op(params, indices, bad_indices_policy=bad_indices_policy, name=name)


def batch_gather_nd(params: Any, indices: Any, batch_dims: int, name: str | None = None,
                    bad_indices_policy: str = "") -> Tensor:
    """gather_nd within each batch: the batch coordinates are prepended to the given ones."""
    with name_scope(name, "BatchGatherND", [params, indices]):
        indices, params = convert(indices, name="indices"), convert(params, name="params")
        if not isinstance(batch_dims, int):
            raise TypeError(f"batch_dims must be an int; got {batch_dims!r}")
        if batch_dims < 0:
            raise ValueError("tf.gather_nd does not allow negative batch_dims.")
        for what, t in (("indices", indices), ("params", params)):
            if t.ndim is not None and batch_dims >= t.ndim:
                raise ValueError(f"batch_dims = {batch_dims} must be less than rank({what}) = {t.ndim}")
        shape = get("Shape")(indices)
        grid_shape = get("ConcatV2")([shape[:-1], [1]], 0)
        grids = []
        for i in range(batch_dims):
            line = get("Range")(0, shape[i], 1)
            line = line if indices.dtype == dtypes.int32 else get("Cast")(line, DstT=indices.dtype)
            grids.append(get("BroadcastTo")(reshape_op(line, _line_shape(indices, i)), grid_shape))
        return gather_nd_op(params, get("ConcatV2")([*grids, indices], -1) if grids else indices,
                            bad_indices_policy=bad_indices_policy)


def _line_shape(indices: Tensor, axis: int) -> Any:
    """The shape of coordinates along an axis, ready to be broadcast to that of `indices`."""
    if indices.ndim is not None:
        return [1] * axis + [-1] + [1] * (indices.ndim - axis - 1)
    rest = get("Reshape")(get("Sub")(get("Rank")(indices), axis + 1), [1])
    return get("ConcatV2")([[1] * axis + [-1], get("Fill")(rest, 1)], 0)


scatter_nd_op = op("ScatterNd", "indices: Tindices, updates: T, shape: Tindices -> output: T",
                   "T: type, Tindices: type in {int16 int32 int64}, bad_indices_policy: string = ''")


@rules.batching.rule(scatter_nd_op)
def _scatter_nd_batching(op, rows, indices, updates, shape):
    if shape.stacked or rows.rank(indices) is None:
        return None
    return rows.again(op, [_with_rows(rows, indices), rows.stack(updates), rows.shape(shape.tensor)])


def _with_rows(rows: Any, indices: Any) -> Tensor:
    """Indices of elements of stacked tensors, from those in a row."""
    places = rows.stack(indices)
    return get("ConcatV2")([rows.numbers(places), places], np.int32(-1))


def _check_scatter_shapes(indices: Dims, updates: Dims, dims: Dims) -> None:
    """Raises ValueError unless updates have one slice of `dims` per row of `indices`."""
    rank_at_least(indices, 1)
    if indices is None or updates is None or dims is None or indices[-1] is None:
        return
    if 0 in dims and 0 not in indices and 0 not in updates and known(indices) and known(updates):
        raise ValueError(f"Indices and updates specified for empty output shape {show(dims)}")
    outer, depth = len(indices) - 1, indices[-1]
    if outer > len(updates) or not compatible(indices[:-1], updates[:outer]):
        raise ValueError(f"Dimensions [0,{outer}) of indices[shape={bracketed(indices)}] must match dimensions [0,{outer}) of "
                         f"updates[shape={bracketed(updates)}]")
    if depth > len(dims) or not compatible(dims[depth:], updates[outer:]):
        raise ValueError(f"Dimensions [{depth},{len(dims)}) of input[shape={bracketed(dims)}] must match dimensions [{outer},"
                         f"{len(updates)}) of updates[shape={bracketed(updates)}]")


@scatter_nd_op.shape
def _scatter_nd_shape(indices, updates, shape, *, c):
    rank_is(shape, 1)
    dims = c.dims("shape")
    _check_scatter_shapes(indices, updates, dims)
    return dims


@scatter_nd_op.kernel
def _scatter_nd_kernel(indices, updates, shape, *, bad_indices_policy):
    dims = arrays.checked_dims(shape)
    out, indices = arrays.zeros(dims, updates), indexing.wide(indices)
    if _ignores(bad_indices_policy):
        indices, updates = indexing.inside_only(indices, updates, dims)
    indexing.scatter_nd(out, indices, updates, "add")
    return out


@scatter_nd_op.gradient
def _scatter_nd_gradient(op, grad):
    return None, gather_nd_op(grad, op.inputs[0], bad_indices_policy=op.attrs["bad_indices_policy"]), None


@export("scatter_nd", v1=["manip.scatter_nd"])
@dispatched
def scatter_nd(indices: Any, updates: Any, shape: Any, name: str | None = None, bad_indices_policy: str = "") -> Tensor:
    """Zeros of `shape`, with `updates` added at the rows of coordinates `indices`.

    With `bad_indices_policy="IGNORE"`, rows that are out of range are left out; otherwise they are errors.

    Args:
        indices: Integer tensor whose last axis has coordinates in the result.
        updates: Values for them; those of equal coordinates are added.
        shape: Shape of the result.
        bad_indices_policy: `"ERROR"` or `"IGNORE"`; empty for the default.
        name: Name of the operation.

    Returns:
        Zeros with the updates in their places.

    Raises:
        InvalidArgumentError: for coordinates outside, or updates that do not fit.

    >>> tf.scatter_nd([[0], [2]], [5, 7], [4]).numpy().tolist()
    [5, 0, 7, 0]
    """
    return scatter_nd_op(indices, updates, shape, bad_indices_policy=bad_indices_policy, name=name)


# -- tensors changed at some places --------------------------------------------------------------
_SCATTER_DOC = """A copy of `tensor`, changed ({how}) by `updates` at the rows of coordinates `indices`.

    Args:
        tensor: Tensor.
        indices: Integer tensor whose last axis has coordinates in `tensor`.
        updates: A value, or a slice, for each row of coordinates.
        name: Name of the operation.{policy}

    Returns:
        A tensor of the shape of `tensor`.

    Raises:
        InvalidArgumentError: for coordinates outside, or updates that do not fit.

    >>> tf.{name}([10, 20], [[0]], [5]).numpy().tolist()
    [{shown}, 20]
    """


_POLICY_DOC = """
        bad_indices_policy: `"ERROR"` or `"IGNORE"`, which leaves out coordinates outside; empty for the default."""


def _tensor_scatter(name: str, how: str, v1: list[str]) -> Any:
    made = op(name, "tensor: T, indices: Tindices, updates: T -> output: T",
              "T: type, Tindices: type in {index}, bad_indices_policy: string = ''")

    @rules.batching.rule(made)
    def _made_batching(op, rows, tensor, indices, updates):
        return None if rows.rank(indices) is None else rows.again(
            op, [rows.stack(tensor), _with_rows(rows, indices), rows.stack(updates)])

    @made.shape
    def _made_shape(tensor, indices, updates):
        _check_scatter_shapes(indices, updates, tensor)
        return tensor

    @made.kernel
    def _made_kernel(tensor, indices, updates, *, bad_indices_policy):
        out = tensor.contiguous().clone() if isinstance(tensor, torch.Tensor) else tensor.copy()
        if _ignores(bad_indices_policy):
            indices, updates = indexing.inside_only(indices, updates, tuple(out.shape))
        indexing.scatter_nd(out, indices, updates, how)
        return out
    if how in ("min", "max"):
        made.kernel(unsigned.ordered(_made_kernel), types=unsigned.TYPES)

    def public(tensor: Any, indices: Any, updates: Any, name: str | None = None, bad_indices_policy: str = "") -> Tensor:
        return made(tensor, indices, updates, bad_indices_policy=bad_indices_policy, name=name)

    def plain(tensor: Any, indices: Any, updates: Any, name: str | None = None) -> Tensor:
        return made(tensor, indices, updates, name=name)

    chosen = plain if how == "update" else public       # which has no policy in TensorFlow either
    chosen.__name__ = chosen.__qualname__ = v1[-1]
    chosen.__doc__ = _SCATTER_DOC.format(how=how, name=v1[-1], policy="" if chosen is plain else _POLICY_DOC, shown={
        "update": 5, "add": 15, "sub": 5, "min": 5, "max": 10}[how])
    export.value(chosen, v1[-1], v1=v1)
    return made


tensor_scatter_update = _tensor_scatter("TensorScatterUpdate", "update",
                                        ["tensor_scatter_update", "tensor_scatter_nd_update"])
tensor_scatter_add = _tensor_scatter("TensorScatterAdd", "add", ["tensor_scatter_add", "tensor_scatter_nd_add"])
tensor_scatter_sub = _tensor_scatter("TensorScatterSub", "sub", ["tensor_scatter_sub", "tensor_scatter_nd_sub"])
tensor_scatter_min = _tensor_scatter("TensorScatterMin", "min", ["tensor_scatter_min", "tensor_scatter_nd_min"])
tensor_scatter_max = _tensor_scatter("TensorScatterMax", "max", ["tensor_scatter_max", "tensor_scatter_nd_max"])


def _policy(op: Any) -> dict[str, Any]:
    return {"bad_indices_policy": op.attrs["bad_indices_policy"]}


@tensor_scatter_update.gradient
def _tensor_scatter_update_gradient(op, grad):
    _, indices, updates = op.inputs
    return (tensor_scatter_update(grad, indices, get("ZerosLike")(updates), **_policy(op)), None,
            gather_nd_op(grad, indices, **_policy(op)))


tensor_scatter_add.gradient(lambda op, grad: (grad, None, gather_nd_op(grad, op.inputs[1], **_policy(op))))
tensor_scatter_sub.gradient(lambda op, grad: (grad, None, get("Neg")(gather_nd_op(grad, op.inputs[1], **_policy(op)))))


def _extreme_gradient(op: Any, grad: Any) -> tuple:
    """The gradient of min and max goes to the chosen elements, divided between equal ones."""
    tensor, indices, updates = op.inputs
    out, policy = op.outputs[0], _policy(op)
    cast, equal = get("Cast"), get("Equal")
    old = cast(equal(tensor, out), DstT=grad.dtype)
    new = cast(equal(updates, gather_nd_op(out, indices, **policy)), DstT=grad.dtype)
    share = get("RealDiv")(grad, tensor_scatter_add(old, indices, new, **policy))
    return get("Mul")(share, old), None, get("Mul")(gather_nd_op(share, indices, **policy), new)


tensor_scatter_min.gradient(_extreme_gradient)
tensor_scatter_max.gradient(_extreme_gradient)

scatter_nd_add = op("ScatterNdNonAliasingAdd", "input: T, indices: Tindices, updates: T -> output: T",
                    "T: type in {numeric bool}, Tindices: type in {index}")


@scatter_nd_add.shape
def _scatter_nd_add_shape(input, indices, updates):
    _check_scatter_shapes(indices, updates, input)
    return input


@scatter_nd_add.kernel
def _scatter_nd_add_kernel(input, indices, updates):
    out = input.contiguous().clone()
    indexing.scatter_nd(out, indices, updates, "add")
    return out


scatter_nd_add.gradient(lambda op, grad: (grad, None, gather_nd_op(grad, op.inputs[1])))
