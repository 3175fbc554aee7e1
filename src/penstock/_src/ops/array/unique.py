"""Tensors as sets and as permutations: distinct elements, differences, inverses, and one-hot rows."""
from __future__ import annotations

from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors
from penstock._src.base.api import export
from penstock._src.base.static_shape import rank_is
from penstock._src.graph.convert import convert
from penstock._src.graph.indexed_slices import IndexedSlices
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.kernels import arrays, indexing, strings
from penstock._src.kernels import rows as fast_rows
from penstock._src.kernels.distinct import distinct_numbers
from penstock._src.ops import rules
from penstock._src.ops.composite import dispatched
from penstock._src.ops.registry import get, internal, op

# -- distinct elements --------------------------------------------------------------
_OUT = "out_idx: type in {index} = int32"
_AXIS = "T: type, Taxis: type in {index} = int64, " + _OUT

unique_op = op("Unique", "x: T -> y: T, idx: out_idx", "T: type, " + _OUT)
unique_v2_op = op("UniqueV2", "x: T, axis: Taxis -> y: T, idx: out_idx", _AXIS)
unique_counts_op = op("UniqueWithCounts", "x: T -> y: T, idx: out_idx, count: out_idx", "T: type, " + _OUT)
unique_counts_v2_op = op("UniqueWithCountsV2", "x: T, axis: Taxis -> y: T, idx: out_idx, count: out_idx", _AXIS)

# The same for a GPU, where the host does not know how many there are: each number stays where it is first, -1 is in all other
# places, and `idx` has the place where a number is first. Numbers are rows of something that has `rows` (0: unknown).
in_place_op = internal("_DistinctInPlace", "x: T -> y: T, idx: out_idx", f"T: type in {{int32 int64}}, rows: int = 0, {_OUT}")
in_place_op.shape(lambda x: [x, x])

rules.program.distinct.update((unique_op, unique_v2_op, unique_counts_op, unique_counts_v2_op, in_place_op))


@unique_op.shape
def _unique_shape(x):
    (n,) = rank_is(x, 1)
    return [(None,), (n,)]


@unique_counts_op.shape
def _unique_counts_shape(x):
    (n,) = rank_is(x, 1)
    return [(None,), (n,), (None,)]


def _along_axis(x: Any, c: Any) -> list:
    axis = c.const("axis")
    if axis is not None and axis.ndim != 1:
        raise ValueError(f"axis expects a 1D vector, got shape {axis.shape}")
    if axis is not None and axis.size > 1:
        raise ValueError(f"axis does not support input tensors larger than 1 element, got {axis.size}")
    if x is None or axis is None:
        return [None if x is None else (None,) * len(x), (None,)]
    if axis.size == 0:
        if len(x) != 1:
            raise ValueError(f"x expects a 1D vector, got rank {len(x)}")
        (n,) = x
        return [(None,), (n,)]
    at = int(axis.reshape(-1)[0])
    if not -len(x) <= at < len(x):
        raise ValueError(f"axis expects to be in the range [{-len(x)}, {len(x)}), but got {at}")
    return [tuple(None if i == at % len(x) else d for i, d in enumerate(x)), (x[at],)]


unique_v2_op.shape(lambda x, axis, *, c: _along_axis(x, c))
unique_counts_v2_op.shape(lambda x, axis, *, c: [*_along_axis(x, c), (None,)])


def distinct(x: Any, axis: int = 0) -> tuple[Any, torch.Tensor]:
    """Distinct slices along an axis in the order of their first appearance, and where each came from."""
    dims = arrays.dims_of(x)
    if not len(dims):
        raise errors.invalid("unique expects a 1D vector.")
    n = dims[axis]
    if isinstance(x, torch.Tensor) and len(dims) == 1 and n and x.is_cpu and x.dtype in (torch.int32, torch.int64):
        quick = fast_rows.distinct(x)
        if quick is not None:
            return x.index_select(0, quick[0]), quick[1]
        found = distinct_numbers(x.numpy().astype(np.int64, copy=False))
        if found is not None:
            first, index = map(torch.from_numpy, found)
            return x.index_select(0, first), index
    if not isinstance(x, torch.Tensor) and len(dims) == 1:
        numbers: dict[Any, int] = {}
        inverse = arrays.vector([numbers.setdefault(text, len(numbers)) for text in x.tolist()], n, torch.int64)
        return strings.pack(list(numbers)), inverse
    if not isinstance(x, torch.Tensor):
        _, codes = np.unique(x, return_inverse=True)
        inverse = torch.from_numpy(np.array(codes).reshape(-1).astype(np.int64))
    elif n == 0 or x.numel() == 0:
        inverse = torch.zeros(n, dtype=torch.int64, device=x.device)
    elif len(dims) == 1:
        inverse = torch.unique(arrays.signed(x), return_inverse=True)[1]
    else:
        inverse = torch.unique(arrays.signed(x), return_inverse=True, dim=axis)[1]
    kinds = int(inverse.max()) + 1 if n else 0
    place = torch.arange(n, device=inverse.device)
    first = torch.full((kinds,), n, dtype=torch.int64, device=inverse.device)
    first.scatter_reduce_(0, inverse, place, "amin")
    order = torch.argsort(first)
    rank = torch.empty_like(order)
    rank[order] = torch.arange(kinds, device=inverse.device)
    index = rank[inverse]
    return arrays.take(x, first[order], axis), index


def _vector(x: Any) -> int:
    if len(arrays.dims_of(x)) != 1:
        raise errors.invalid("unique expects a 1D vector.")
    return 0


def _chosen_axis(x: Any, axis: torch.Tensor) -> int:
    given = arrays.ints(axis)
    if not given:
        return _vector(x)
    if len(given) != 1:
        raise errors.invalid("axis does not support input tensors larger than 1 elements")
    rank = len(arrays.dims_of(x))
    return arrays.canonical_axis(given[0], rank, f"axis has to be between [{-rank}, {rank}), but got {given[0]}")


@in_place_op.kernel
def _in_place_kernel(x, *, rows, out_idx):
    place = torch.arange(x.numel(), out=x.new_empty(x.shape, dtype=torch.int32))
    first = _first_by_table(x, place, rows) if rows else _first_by_order(x, place)
    return torch.where(first == place, x, -1), first.to(out_idx.torch)


def _first_by_table(x: torch.Tensor, place: torch.Tensor, rows: int) -> torch.Tensor:
    """The first position of each number; a number that is not a row is first everywhere."""
    good = (x >= 0) & (x < rows)
    at = torch.where(good, x, 0).long()
    table = x.new_full((rows,), x.numel(), dtype=torch.int32).scatter_reduce(0, at, torch.where(good, place, x.numel()), "amin")
    return torch.where(good, table[at], place)


def _first_by_order(x: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    """The same without a table, by sorting."""
    ordered, order = torch.sort(x, stable=True)
    begins = torch.cat([torch.ones_like(ordered[:1], dtype=torch.bool), ordered[1:] != ordered[:-1]])
    begin = torch.cummax(torch.where(begins, place, 0), 0).values
    return torch.empty_like(place).scatter(0, order, order[begin.long()].to(torch.int32))


@rules.rows.fixed(unique_op)
def _fix_unique(op: Any, f: Any) -> Any:
    """On a GPU, rows of repeated indices are added up without the host, if all that follows skips the rows of -1."""
    if f.on_host(op) or op.attrs["T"] not in (dtypes.int32, dtypes.int64):
        return None
    y, where = op.outputs
    sums, takers = f.users(where), f.users(y)
    if not sums or takers is None or any(u.opdef not in rules.rows.sums or f.source(u.inputs[1]) is not where for u in sums):
        return None
    updates = [u for u in takers if u.opdef in rules.rows.skips]
    others = [u for u in takers if u.opdef not in rules.rows.skips]
    if not updates or not all(_counts(u, sums, f) for u in others) or not all(_skipped(u.outputs[0], f) for u in sums):
        return None
    sizes = [rules.rows.skips[u.opdef].size(u) for u in updates]
    rows = 0 if None in sizes else max(size for size in sizes if size is not None)
    return f.make(in_place_op.name, op.inputs, {"T": op.attrs["T"], "out_idx": op.attrs["out_idx"], "rows": rows}, op,
                  outputs=[f.result(t.dtype, op.inputs[0].static_dims) for t in op.outputs])


def _counts(op: Any, sums: list, f: Any) -> bool:
    """Whether an op reads only the shape of the distinct numbers, to tell `sums` how many there are."""
    if op in sums:
        return True
    followers = [f.takers(t) for t in op.outputs]
    return op.opdef in rules.algebra.metadata | rules.rows.parts and \
        all(us is not None and all(_counts(u, sums, f) for u in us) for us in followers)


def _skipped(rows: Any, f: Any) -> bool:
    """Whether all that is made of rows is made of each alone, and goes into updates that skip the rows of -1."""
    takers = f.takers(rows)
    return takers is not None and all(
        u.opdef in rules.rows.skips or u.opdef in rules.algebra.elementwise and _skipped(u.outputs[0], f) for u in takers)


@unique_op.kernel
def _unique_kernel(x, *, out_idx):
    y, index = distinct(x, _vector(x))
    return y, index.to(out_idx.torch)


@unique_v2_op.kernel
def _unique_v2_kernel(x, axis, *, out_idx):
    y, index = distinct(x, _chosen_axis(x, axis))
    return y, index.to(out_idx.torch)


def _counted(y: Any, index: torch.Tensor, dtype: torch.dtype) -> tuple[Any, torch.Tensor, torch.Tensor]:
    return y, index.to(dtype), torch.bincount(index).to(dtype)


@unique_counts_op.kernel
def _unique_counts_kernel(x, *, out_idx):
    y, index = distinct(x, _vector(x))
    return _counted(y, index, out_idx.torch)


@unique_counts_v2_op.kernel
def _unique_counts_v2_kernel(x, axis, *, out_idx):
    y, index = distinct(x, _chosen_axis(x, axis))
    return _counted(y, index, out_idx.torch)


@export("unique")
@dispatched
def unique(x: Any, out_idx: Any = dtypes.int32, name: str | None = None) -> Any:
    """The distinct elements of a vector in the order of appearance, and for each element which one it is.

    Args:
        x: Vector.
        out_idx: Type of the indices.
        name: Name of the operation.

    Returns:
        `y`, the distinct elements, and `idx`, for each element of `x` its position in `y`.

    >>> values, index = tf.unique([4, 4, 7])
    >>> values.numpy(), index.numpy()
    (array([4, 7], dtype=int32), array([0, 0, 1], dtype=int32))
    """
    return unique_op(x, out_idx=out_idx, name=name)


@export("unique_with_counts")
@dispatched
def unique_with_counts(x: Any, out_idx: Any = dtypes.int32, name: str | None = None) -> Any:
    """Like tf.unique, and how often each distinct element occurs.

    Args:
        x: Vector.
        out_idx: Type of the indices and counts.
        name: Name of the operation.

    Returns:
        A tuple `(y, idx, count)`: the elements in the order of their first place, the place in `y` of each, and how often
            each occurs.

    >>> tf.unique_with_counts([7, 8, 7]).count.numpy().tolist()
    [2, 1]
    """
    return unique_counts_op(x, out_idx=out_idx, name=name)


# -- differences, permutations --------------------------------------------------------------
list_diff = op("ListDiff", "x: T, y: T -> out: T, idx: out_idx", "T: type, " + _OUT)
rules.folding.selects |= {unique_op, list_diff}


@list_diff.shape
def _list_diff_shape(x, y):
    rank_is(x, 1)
    rank_is(y, 1)
    return [(None,), (None,)]


@list_diff.kernel
def _list_diff_kernel(x, y, *, out_idx):
    for name, v in (("x", x), ("y", y)):
        if len(arrays.dims_of(v)) != 1:
            raise errors.invalid(f"{name} should be a 1D vector.")
    if isinstance(x, torch.Tensor):
        keep = torch.isin(_comparable(x), _comparable(y), invert=True)
    else:
        gone = set(y.tolist())
        keep = torch.tensor([v not in gone for v in x.tolist()], dtype=torch.bool)
    where = keep.nonzero().reshape(-1)
    return arrays.take(x, where, 0), where.to(out_idx.torch)


def _comparable(x: torch.Tensor) -> torch.Tensor:
    if x.dtype in (torch.float16, torch.bfloat16):
        return x.float()
    return x.byte() if x.dtype is torch.bool else arrays.signed(x)


@export(v1=["setdiff1d", "listdiff"])
@dispatched
def setdiff1d(x: Any, y: Any, index_dtype: Any = dtypes.int32, name: str | None = None) -> Any:
    """The elements of `x` that are not in `y`, and their positions.

    >>> out, idx = tf.setdiff1d([1, 2, 3], [2])    # [1, 3], [0, 2]
    """
    return list_diff(x, y, out_idx=index_dtype, name=name)


@export("sparse.mask", v1=["sparse_mask"])
@dispatched
def sparse_mask(a: Any, mask_indices: Any, name: str | None = None) -> IndexedSlices:
    """`a` (IndexedSlices) without the rows at `mask_indices`."""
    with name_scope(name, "sparse_mask", [a.values, a.indices, mask_indices]) as scope:
        kept, rows = list_diff(a.indices, mask_indices)
        return IndexedSlices(get("GatherV2")(a.values, rows, 0, name=scope), kept, a.dense_shape)


invert_permutation = op("InvertPermutation", "x: T -> y: T", "T: type in {index} = int32",
                        export_as="math.invert_permutation", v1_as="invert_permutation",
                        doc="The inverse of a permutation given as a vector.").no_gradient()
invert_permutation.shape(lambda x: rank_is(x, 1))


@invert_permutation.kernel
def _invert_permutation_kernel(x):
    if x.dim() != 1:
        raise errors.invalid("invert_permutation expects a 1D vector.")
    n = x.numel()
    index = x.long()
    if not indexing.inside(index, n):
        bad = index[(index < 0) | (index >= n)][0]
        raise errors.invalid(f"{int(bad)} is not between 0 and {n}")
    count = indexing.counts(index, n)
    if bool((count > 1).any()):
        raise errors.invalid(f"{int((count > 1).nonzero()[0])} is duplicated in the input.")
    out = torch.empty_like(x)
    out[index] = torch.arange(n, dtype=x.dtype, device=x.device)
    return out


# -- one-hot --------------------------------------------------------------------------------------------------------------
one_hot_op = op("OneHot", "indices: TI, depth: int32, on_value: T, off_value: T -> output: T",
                "axis: int = -1, T: type, TI: type in {uint8 int8 int32 int64} = int64").no_gradient()


@rules.batching.rule(one_hot_op)
def _one_hot_batching(op, rows, indices, *others):
    if any(v.stacked for v in others):
        return None
    axis = op.attrs["axis"]
    return rows.again(op, [indices.tensor, *(v.tensor for v in others)], axis=axis + (axis >= 0))



@one_hot_op.shape
def _one_hot_shape(indices, depth, on_value, off_value, *, axis, c):
    for s in (depth, on_value, off_value):
        rank_is(s, 0)
    size = c.const("depth")
    if size is not None and int(size) < 0:
        raise ValueError(f"Dimension -1 must be >= 0: depth must be non-negative, got {int(size)}")
    if axis < -1:
        raise ValueError(f"axis must be >= -1, got {axis}")
    if indices is None:
        return None
    if axis > len(indices):
        raise ValueError(f"axis must be in [-1, {len(indices)}], got {axis}")
    at = len(indices) if axis == -1 else axis
    return indices[:at] + (None if size is None else int(size),) + indices[at:]


@one_hot_op.kernel
def _one_hot_kernel(indices, depth, on_value, off_value, *, axis):
    for name, v in (("depth", depth), ("on_value", on_value), ("off_value", off_value)):
        if len(arrays.dims_of(v)):
            raise errors.invalid(f"{name} must be a scalar, but got: {arrays.show(arrays.dims_of(v))}")
    rank, size = indices.dim() + 1, int(depth)
    if axis != -1 and not 0 <= axis < rank:
        raise errors.invalid(f"Expected axis to be -1 or between [0, {rank}).  But received: {axis}")
    if size < 0:
        raise errors.invalid(f"depth must be non-negative, got: {size}")
    arrays.checked_dims(torch.tensor([*indices.shape, size], dtype=torch.int64))
    at = rank - 1 if axis == -1 else axis
    places = torch.arange(size, device=indices.device).reshape([size] + [1] * (rank - 1 - at))
    hot = indices.unsqueeze(at) == places
    if isinstance(on_value, torch.Tensor):
        return torch.where(hot, on_value.to(hot.device), off_value.to(hot.device))
    return np.asarray(np.where(hot.numpy(), arrays.boxed(on_value), arrays.boxed(off_value)), dtype=object)


@rules.regions.lower(one_hot_op)
def _one_hot_in_region(op, r):
    places, on, off = (r.view(op.inputs[i]) for i in (0, 2, 3))
    axis = op.attrs["axis"] if op.attrs["axis"] != -1 else len(places.dims)
    return [r.one_hot(places, axis, int(r.constant(op.inputs[1])), on, off)]


@rules.program.prepare(one_hot_op)
def _one_hot_prepare(known):
    """With constant numbers, one comparison with the positions, which are made once."""
    rank, depth, axis = known.rank(0), known.const(1), known.attrs["axis"]
    on, off = known.const(2), known.const(3)
    if rank is None or depth is None or on is None or off is None or depth.ndim or on.ndim or off.ndim or depth < 0 or \
            not known.plain(2) or not -1 <= axis <= rank:
        known.used.clear()
        return None
    at = rank if axis == -1 else axis
    size, form = int(depth), [int(depth)] + [1] * (rank - at)
    places = torch.arange(size).reshape(form)
    dtype, on, off = known.op.outputs[0].dtype.torch, on.item(), off.item()

    def one_hot(indices, *_):
        hot = indices.unsqueeze(at) == (places if indices.is_cpu else torch.arange(size, device=indices.device).reshape(form))
        return hot.to(dtype) if on == 1 and off == 0 else torch.full_like(hot, off, dtype=dtype).masked_fill_(hot, on)
    return one_hot


@export("one_hot")
@dispatched
def one_hot(indices: Any, depth: Any, on_value: Any = None, off_value: Any = None, axis: int | None = None,
            dtype: Any = None, name: str | None = None) -> Tensor:
    """For each index, a row of `depth` values: `on_value` at the index, `off_value` elsewhere.

    Args:
        indices: Integer tensor; an index outside [0, depth) returns a row of `off_value`.
        depth: Size of the new axis.
        on_value: Value at the index, 1 by default.
        off_value: Value elsewhere, 0 by default.
        axis: Position of the new axis, by default the last one.
        dtype: Element type, by default that of the values, else float32.
        name: Name of the operation.

    Returns:
        A tensor with one axis more than `indices`.

    >>> tf.one_hot([0, 2], 3).numpy()
    array([[1., 0., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    with name_scope(name, "one_hot", [indices, depth, on_value, off_value, axis, dtype]) as scope:
        dtype = None if dtype is None else dtypes.as_dtype(dtype)
        on = None if on_value is None else convert(on_value, preferred_dtype=dtype, name="on_value")
        off = None if off_value is None else convert(off_value, preferred_dtype=dtype, name="off_value")
        for what, t in (("on_value", on), ("off_value", off)):
            if t is not None and dtype is not None and t.dtype.base_dtype != dtype:
                raise TypeError(f"dtype {t.dtype.base_dtype} of {what} does not match dtype parameter {dtype}")
        if on is not None and off is not None and on.dtype.base_dtype != off.dtype.base_dtype:
            raise TypeError(f"dtype {on.dtype.base_dtype} of on_value does not match dtype {off.dtype.base_dtype} of "
                            "off_value")
        given = off if on is None else on
        kind = dtype or (dtypes.float32 if given is None else given.dtype.base_dtype)
        on = convert(1, kind, name="on_value") if on is None else on
        off = convert(0, kind, name="off_value") if off is None else off
        return one_hot_op(indices, depth, on, off, axis=-1 if axis is None else axis, name=scope)
