"""Reductions of rows by segments: row i goes to output row segment_ids[i].

`Segment*` need sorted ids and have as many segments as the last id requires; `UnsortedSegment*` take ids in any order (and
drop negative ones; on GPUs all that are out of range) and are told how many segments there are; `SparseSegment*` first pick
rows by `indices`.
"""
from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors, tracing
from penstock._src.base import static_shape as shapes
from penstock._src.base.api import export
from penstock._src.graph.convert import convert
from penstock._src.graph.indexed_slices import IndexedSlices
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.kernels import device_rows, indexing, reuse, unsigned
from penstock._src.kernels import rows as fast_rows
from penstock._src.ops import rules
from penstock._src.ops.array.select import select_v2
from penstock._src.ops.composite import dispatched
from penstock._src.ops.registry import OpDef, get, internal, op


# -- kernels ----------------------------------------------------------------------------------------------------------
def _sum(rows: torch.Tensor, ids: torch.Tensor, n: int) -> torch.Tensor:
    quick = fast_rows.sums(rows, ids, n)
    return quick if quick is not None else rows.new_zeros(n, rows.shape[1]).index_add_(0, ids, rows)


def _scatter(how: str, start: Callable) -> Callable:
    def run(rows: torch.Tensor, ids: torch.Tensor, n: int) -> torch.Tensor:
        out = torch.full((n, rows.shape[1]), start(rows.dtype), dtype=rows.dtype, device=rows.device)
        if rows.is_complex():
            return _multiply_in_rounds(out, rows, ids)
        return out.scatter_reduce_(0, ids.unsqueeze(1).expand_as(rows), rows, how)
    return run


def _multiply_in_rounds(out: torch.Tensor, rows: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """Products of complex rows, for which ATen has no scatter: the k-th row of every segment in round k."""
    order = torch.argsort(ids, stable=True)
    ids, rows = ids[order], rows[order]
    _, sizes = torch.unique_consecutive(ids, return_counts=True)
    starts = torch.repeat_interleave(torch.cumsum(sizes, 0) - sizes, sizes)
    place = torch.arange(len(ids), device=ids.device) - starts
    for k in range(int(sizes.max()) if len(ids) else 0):
        now = place == k
        out[ids[now]] *= rows[now]
    return out


def _smallest(dtype: torch.dtype) -> Any:
    return torch.finfo(dtype).min if dtype.is_floating_point else torch.iinfo(dtype).min


def _largest(dtype: torch.dtype) -> Any:
    return torch.finfo(dtype).max if dtype.is_floating_point else torch.iinfo(dtype).max


_prod = _scatter("prod", lambda dtype: 1)
_max = _scatter("amax", _smallest)
_min = _scatter("amin", _largest)


def _counts(ids: torch.Tensor, n: int) -> torch.Tensor:
    return indexing.counts(ids, n).unsqueeze(1)


def _mean(rows: torch.Tensor, ids: torch.Tensor, n: int) -> torch.Tensor:
    counts = _counts(ids, n).clamp(min=1)
    if rows.dtype.is_floating_point or rows.is_complex():
        return _sum(rows, ids, n) / counts.to(rows.dtype)
    return torch.div(_sum(rows.to(torch.int64), ids, n), counts, rounding_mode="trunc").to(rows.dtype)


def _root(counts: torch.Tensor) -> torch.Tensor:
    return torch.sqrt(counts.to(torch.float64))


def _sqrt_n(rows: torch.Tensor, ids: torch.Tensor, n: int) -> torch.Tensor:
    return _sum(rows, ids, n) / _root(_counts(ids, n).clamp(min=1)).to(rows.dtype)


def _flat(data: torch.Tensor, lead: int) -> torch.Tensor:
    """Rows: the first `lead` axes made one, and the rest made one."""
    n = 1
    for d in data.shape[lead:]:
        n *= d
    return data.reshape(-1, n) if n else data.new_zeros(_numel(data.shape[:lead]), 0)


def _numel(sizes: Any) -> int:
    n = 1
    for d in sizes:
        n *= d
    return n


def _sorted_ids(data: torch.Tensor, segment_ids: torch.Tensor) -> tuple[torch.Tensor, int]:
    """The checked ids, and the number of segments."""
    if segment_ids.ndim != 1:
        raise errors.invalid("segment_ids should be a vector.")
    if data.ndim < 1 or data.shape[0] != segment_ids.shape[0]:
        raise errors.invalid("segment_ids should be the same size as dimension 0 of input.")
    n = _last(segment_ids) + 1
    _check_order(segment_ids, n)
    return segment_ids.to(torch.int64), n


def _last(segment_ids: torch.Tensor) -> int:
    """The last segment, from which their number follows; -1 if there is none."""
    if not len(segment_ids):
        return -1
    last = int(segment_ids[-1])
    if not 0 <= last < 2 ** 31 - 1:
        raise errors.invalid(f"segment ids must be >= 0 and fit 32 bits, got {last}")
    return last


def _check_order(segment_ids: torch.Tensor, n: int) -> None:
    """InvalidArgumentError unless the ids are sorted, and below n."""
    if fast_rows.rising(segment_ids, n):
        return
    ids = segment_ids.to(torch.int64)
    if len(ids) and bool(torch.any(ids[1:] < ids[:-1]) | (ids[0] < 0) | (ids[-1] >= n)):
        listed = ids.tolist()
        for now, then in zip(listed, [*listed[1:], None]):
            if then is not None and then < now:
                raise errors.invalid("segment ids are not increasing")
            if now != then and not 0 <= now < n:
                raise errors.invalid(f"Segment id {now} out of range [0, {n}), possibly because 'segment_ids' input is "
                                     "not sorted.")


# -- sorted segments --------------------------------------------------------------------------------------------------
def _segment_dims(data, segment_ids):
    shapes.rank_at_least(data, 1)
    shapes.rank_is(segment_ids, 1)
    return None if data is None else (None, *data[1:])


def _sorted(name: str, reduce: Callable, types: str, empty: Any = None) -> OpDef:
    made = op(f"Segment{name}", "data: T, segment_ids: Tindices -> output: T",
              f"T: type in {{{types}}}, Tindices: type in {{index}}",
              export_as=f"math.segment_{name.lower()}", v1_as=f"segment_{name.lower()}")
    made.shape(_segment_dims)

    def run(data, segment_ids):
        ids, n = _sorted_ids(data, segment_ids)
        out = reduce(_flat(data, 1), ids, n)
        if empty is not None:
            out = out.masked_fill(_counts(ids, n) == 0, empty)
        return out.reshape(n, *data.shape[1:])
    made.kernel(run)
    return made


_ORDERED = "real"
segment_sum = _sorted("Sum", _sum, "numeric")
segment_mean = _sorted("Mean", _mean, "numeric")
segment_prod = _sorted("Prod", _prod, "numeric")
segment_min = _sorted("Min", _min, _ORDERED, 0)
segment_max = _sorted("Max", _max, _ORDERED, 0)
for _op, _adapt in ((segment_sum, unsigned.wrapping), (segment_prod, unsigned.wrapping)):
    _op.kernel(_adapt(_op.kernels["any"].fn), types=unsigned.TYPES)


def _wide_extremum(reduce: Callable) -> Callable:
    def run(data, segment_ids):
        ids, n = _sorted_ids(data, segment_ids)
        out = unsigned.signed(unsigned.flip(reduce(_flat(unsigned.flip(data), 1), ids, n)))
        return unsigned.unsigned(out.masked_fill(_counts(ids, n) == 0, 0)).reshape(n, *data.shape[1:])
    return run


segment_min.kernel(_wide_extremum(_min), types=unsigned.TYPES)
segment_max.kernel(_wide_extremum(_max), types=unsigned.TYPES)
segment_mean.kernel(lambda data, segment_ids: segment_mean.kernels["any"].fn(
    data.to(torch.int64), segment_ids).to(data.dtype), types=unsigned.TYPES)

segment_sum.gradient(lambda op, grad: (get("GatherV2")(grad, op.inputs[1], 0), None))


@segment_mean.gradient
def _segment_mean_gradient(op, grad):
    data, ids = op.inputs
    ones = get("Fill")(_row_shape(data, ids), convert(1, grad.dtype.base_dtype))
    return get("GatherV2")(grad / segment_sum(ones, ids), ids, 0), None


def _row_shape(data: Tensor, ids: Tensor, lead: Tensor | None = None) -> Tensor:
    """The shape of `ids` (or of `lead`), with as many axes of size 1 behind as the rows of `data` have."""
    rank, above = data.shape.rank, ids.shape.rank
    if rank is None or above is None:
        ones = get("Fill")(get("Reshape")(get("Rank")(data) - get("Rank")(ids), [1]), 1)
    else:
        ones = convert([1] * (rank - above), dtypes.int32)
    return get("ConcatV2")([get("Shape")(ids if lead is None else lead), ones], 0)


@segment_min.gradient
@segment_max.gradient
def _segment_min_gradient(op, grad):
    data, ids = op.inputs
    hit = get("Equal")(data, get("GatherV2")(op.outputs[0], ids, 0))
    number = segment_sum(get("Cast")(hit, DstT=grad.dtype.base_dtype), ids)
    share = get("GatherV2")(grad / number, ids, 0)
    return get("Select")(hit, share, get("ZerosLike")(data)), None


@segment_prod.gradient
def _segment_prod_gradient(op, grad):
    data, ids = op.inputs

    def gather(x):
        return get("GatherV2")(x, ids, 0)
    return _product_gradient(op, grad, lambda x: segment_sum(x, ids), lambda x: segment_prod(x, ids), gather), None


def _product_gradient(op: Any, grad: Tensor, total: Callable, product: Callable, gather: Callable) -> Tensor:
    """Each element's factor is the product of the others; zeros are handled separately, because dividing by them is
    impossible."""
    data = op.inputs[0]
    zero = get("Equal")(data, convert(0, data.dtype.base_dtype))
    zeros = total(get("Cast")(zero, DstT=dtypes.int32))
    grad = get("Select")(get("Greater")(zeros, 1), get("ZerosLike")(grad), grad)
    of_others = gather(product(get("Select")(zero, get("OnesLike")(data), data)))
    divided = gather(op.outputs[0]) / get("Select")(zero, get("OnesLike")(data), data)
    factor = get("Select")(zero, of_others, divided)
    if factor.dtype.is_complex:
        factor = get("Conj")(factor)
    return gather(grad) * factor


# -- unsorted segments ------------------------------------------------------------------------------------------------
def _unsorted_dims(data, segment_ids, num_segments, *, c):
    shapes.rank_is(num_segments, 0)
    n = c.const("num_segments")
    if n is not None and int(n) < 0:
        raise ValueError(f"Dimension size, given by scalar input 2, must be non-negative but is {int(n)}")
    if data is None or segment_ids is None:
        return None
    lead = len(segment_ids)
    if lead > len(data):
        raise ValueError(f"Shape must be at least rank {lead} but is rank {len(data)}: {shapes.show(data)}")
    shapes.merge(data[:lead], segment_ids)
    return (None if n is None else int(n), *data[lead:])


_UNSORTED_DOC = """The {0} of the rows of each segment; ids come in any order, negative ones are dropped.

    Args:
        data: Tensor whose first axes are those of `segment_ids`.
        segment_ids: Integer tensor: the segment of each row.
        num_segments: Number of segments; one without rows gets the neutral element.
        name: Name of the operation.

    Returns:
        Tensor [num_segments, ...].

    Raises:
        InvalidArgumentError: for an id that is not less than `num_segments`.

    >>> tf.math.unsorted_segment_{0}([1, 9, 3], [0, 1, 0], 2).numpy().tolist()
    [{1}, 9]
    """


def _unsorted_batching(op: Any, rows: Any, data: Any, segment_ids: Any, num_segments: Any) -> list[Tensor] | None:
    """The segments of each row are separate."""
    if num_segments.stacked or rows.rank(segment_ids) is None:
        return None
    ids = get("ExpandDims")(rows.stack(segment_ids), np.int32(-1))
    numbers, count = rows.numbers(ids), get("Cast")(num_segments.tensor, DstT=ids.dtype.base_dtype)
    own = get("Squeeze")(get("SelectV2")(get("GreaterEqual")(ids, get("ZerosLike")(ids)), ids + numbers * count, ids), [-1])
    total = num_segments.tensor * get("Cast")(convert(rows.count), DstT=num_segments.tensor.dtype.base_dtype)
    made = rows.again(op, [rows.stack(data), own, total])
    of_row = [get("Reshape")(get("Cast")(num_segments.tensor, DstT=dtypes.int32), [1]), get("Shape")(made[0])[1:]]
    return [get("Reshape")(made[0], rows.shape(get("ConcatV2")(of_row, np.int32(0))))]


def _unsorted(name: str, reduce: Callable, types: str, wide: Callable, quick: Callable | None = None) -> OpDef:
    made = op(f"UnsortedSegment{name}", "data: T, segment_ids: Tindices, num_segments: Tnumsegments -> output: T",
              f"T: type in {{{types}}}, Tindices: type in {{int16 int32 int64}}, "
              "Tnumsegments: type in {index} = int32")
    made.shape(_unsorted_dims)
    rules.batching.rule[made] = _unsorted_batching

    def run(data, segment_ids, num_segments):
        if quick is not None and (found := quick(data, segment_ids, num_segments)) is not None:
            return found
        rows, ids, n = _unsorted_ids(data, segment_ids, num_segments)
        if ids.is_cuda:                             # a check would block the host: invalid ids get a separate segment
            out = reduce(rows, torch.where((ids >= 0) & (ids < n), ids, n), n + 1)[:n]
        else:
            out = reduce(rows, ids, n)
        return out.reshape(n, *data.shape[segment_ids.ndim:])
    made.kernel(run)
    made.kernel(wide(run), types=unsigned.TYPES)

    def call(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Tensor:
        return made(data, segment_ids, num_segments, name=name)
    call.__name__ = call.__qualname__ = f"unsorted_segment_{name.lower()}"
    call.__doc__ = _UNSORTED_DOC.format(name.lower(), {"Sum": 4, "Prod": 3, "Max": 3, "Min": 1}[name])
    export.value(dispatched(call), f"math.unsorted_segment_{name.lower()}", v1=[f"unsorted_segment_{name.lower()}"])
    return made


def _unsorted_ids(data: torch.Tensor, segment_ids: torch.Tensor, num_segments: torch.Tensor) -> tuple:
    """Rows, their ids and the number of segments; on the host, ids are checked, and rows with negative ones gone."""
    if num_segments.ndim:
        raise errors.invalid(f"num_segments should be a scalar, not shape {list(num_segments.shape)}")
    n = int(num_segments)
    if n < 0:
        raise errors.invalid(f"Input num_segments == {n} must not be negative.")
    if data.shape[:segment_ids.ndim] != segment_ids.shape:
        raise errors.invalid(f"data.shape = {list(data.shape)} does not start with segment_ids.shape = "
                             f"{list(segment_ids.shape)}")
    rows, ids = _flat(data, segment_ids.ndim), segment_ids.reshape(-1).to(torch.int64)
    if ids.numel() and ids.is_cpu:
        low, high = (int(v) for v in torch.aminmax(ids))
        if high >= n:
            _out_of_range(segment_ids, n)
        if low < 0:
            keep = ids >= 0
            rows, ids = rows[keep], ids[keep]
    return rows, ids, n


def _out_of_range(segment_ids: torch.Tensor, limit: int) -> None:
    flat = segment_ids.reshape(-1)
    first = int(torch.nonzero(flat >= limit)[0])
    place, at = [], first
    for size in reversed(segment_ids.shape):
        place.append(at % size)
        at //= size
    where = ",".join(map(str, reversed(place)))
    raise errors.invalid(f"segment_ids[{where}] = {int(flat[first])} is out of range [0, {limit})")


def _quick_sum(data: torch.Tensor, segment_ids: torch.Tensor, num_segments: torch.Tensor) -> torch.Tensor | None:
    """The sums of few rows, or on a GPU; None where the other kernel computes them, or reports what is wrong."""
    n = _fitting_count(data, segment_ids, num_segments)
    sums = device_rows.sums if data.is_cuda else fast_rows.sums
    return sums(data, segment_ids, n) if n >= 0 else None


def _quick_extremes(largest: bool, start: Callable) -> Callable:
    def run(data: torch.Tensor, segment_ids: torch.Tensor, num_segments: torch.Tensor) -> torch.Tensor | None:
        n = _fitting_count(data, segment_ids, num_segments)
        return fast_rows.extremes(data, segment_ids, n, largest, start(data.dtype)) if n >= 0 else None
    return run


def _fitting_count(data: torch.Tensor, segment_ids: torch.Tensor, num_segments: torch.Tensor) -> int:
    """The number of segments; negative if the arguments do not fit together."""
    fits = num_segments.ndim == 0 and data.shape[:segment_ids.ndim] == segment_ids.shape
    return int(num_segments) if fits else -1


unsorted_sum = _unsorted("Sum", _sum, "numeric", unsigned.wrapping, _quick_sum)
rules.rows.sums.add(unsorted_sum)
rules.regions.lower[unsorted_sum] = lambda op, r: [r.summed_by(
    r.view(op.inputs[0]), r.view(op.inputs[1]), int(r.constant(op.inputs[2])))]
add_by = internal("_AddBySegment", "total: T, data: T, segment_ids: Tindices, num_segments: Tnumsegments -> output: T",
                  "T: type, Tindices: type in {index}, Tnumsegments: type in {index}")
rules.program.consumes[add_by] = frozenset(["total"])
_LARGE = 1 << 14                # elements of a sum that takes longer to add up than its rows


def _references(total: Any, data: Any, segment_ids: Any, num_segments: Any) -> int:
    return sys.getrefcount(total)


_GIVEN = functools.partial(_references)(object(), 0, 0, 0) if sys.version_info < (3, 14) else 0


@add_by.kernel
def _add_by_kernel(total, data, segment_ids, num_segments):
    """The sums of segments, added to a tensor that nothing else may read."""
    rows, ids, n = _unsorted_ids(data, segment_ids, num_segments)
    if n != total.shape[0]:
        raise errors.invalid(f"Inputs must have the same shape: {list(total.shape)} and {[n, *total.shape[1:]]}")
    if sys.getrefcount(total) > _GIVEN or not reuse.owned(0, total):
        total = total.clone(memory_format=torch.contiguous_format)
    total.view(n, -1).index_add_(0, ids, rows)
    return total


@rules.loops.adds_to_part(unsorted_sum)
def _add_to_segments(op, total, summed, loop):
    dims, (data, ids, count) = total.static_dims, summed.inputs
    if not dims or None in dims or op.outputs[0].static_dims != dims or math.prod(dims) < _LARGE or \
            not total.dtype.is_floating or ids.static_dims is None or data.static_dims is None or \
            data.static_dims[len(ids.static_dims):] != dims[1:]:
        return False
    op.opdef, op.counts = add_by, (None, None, None, None)
    op.attrs = {"T": total.dtype, "Tindices": ids.dtype, "Tnumsegments": count.dtype}
    op.set_inputs([total, data, ids, count])
    return True


unsorted_prod = _unsorted("Prod", _prod, "numeric", unsigned.wrapping)
unsorted_min = _unsorted("Min", _min, _ORDERED, unsigned.ordered, _quick_extremes(False, _largest))
unsorted_max = _unsorted("Max", _max, _ORDERED, unsigned.ordered, _quick_extremes(True, _smallest))


def _gather_kept(params: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """params[ids], zero where the id is negative; and the mask of the others, which broadcasts to the result's shape."""
    gathered = get("GatherV2")(params, get("Maximum")(ids, get("ZerosLike")(ids)), 0)
    kept = get("GreaterEqual")(ids, convert(0, ids.dtype.base_dtype))
    if gathered.shape.rank is None or gathered.shape.rank != ids.shape.rank:
        kept = get("Reshape")(kept, _row_shape(gathered, ids))
    return get("SelectV2")(kept, gathered, get("ZerosLike")(gathered)), kept


kept_op = internal("_GatherKept", "params: T, ids: Tindices -> output: T", "T: type, Tindices: type in {index}")


@kept_op.kernel
def _kept_kernel(params, ids):
    """Rows of `params`, zeros where the id is negative."""
    if params.is_cpu and params.numel() and not tracing.lowering() and not tracing.recording():
        try:
            return indexing.rows(params, ids)
        except errors.InvalidArgumentError:            # one that is negative, or too large
            pass
    found = indexing.gather(params, ids.clamp(min=0))
    kept = (ids >= 0).reshape(*ids.shape, *(1 for _ in params.shape[1:]))
    return torch.where(kept, found, torch.zeros_like(found))


@rules.fusion.fuse(select_v2)
def _fuse_kept(op, f):
    """What `_gather_kept` has made."""
    kept, found, zeros = op.inputs
    gather, mask = f.maker(found, op), f.maker(kept, op)
    if gather is None or mask is None or gather.opdef is not get("GatherV2") or not _is_zero(zeros, op, f) or \
            f.constant(gather.inputs[2]) != 0 or gather.attrs["batch_dims"]:
        return None
    index = f.maker(gather.inputs[1], op)
    if mask.opdef is get("Reshape") and mask.outputs[0].static_dims is not None and found.static_dims is not None:
        inner, shown = mask.inputs[0].static_dims, mask.outputs[0].static_dims
        spread = inner is not None and len(shown) == len(found.static_dims) and set(shown[len(inner):]) <= {1}
        mask = f.maker(mask.inputs[0], op) if spread else None
    if index is None or mask is None or index.opdef is not get("Maximum") or mask.opdef is not get("GreaterEqual") or \
            f.constant(mask.inputs[1]) != 0:
        return None
    ids = f.source(mask.inputs[0])
    if f.source(index.inputs[0]) is not ids or not _is_zero(index.inputs[1], op, f) or \
            ids.dtype not in (dtypes.int32, dtypes.int64):
        return None
    return f.make(kept_op.name, [gather.inputs[0], ids], {"T": op.attrs["T"], "Tindices": ids.dtype}, op)


def _is_zero(t: Any, op: Any, f: Any) -> bool:
    made = f.maker(t, op)
    if made is None or made.opdef is get("ZerosLike"):
        return made is not None
    return made.opdef.constant and not made.control_inputs and not np.any(np.asarray(made.attrs["value"]))


unsorted_sum.gradient(lambda op, grad: (_gather_kept(grad, op.inputs[1])[0], None, None))


@unsorted_min.gradient
@unsorted_max.gradient
def _unsorted_min_gradient(op, grad):
    data, ids, n = op.inputs
    outputs, kept = _gather_kept(op.outputs[0], ids)
    hit = get("LogicalAnd")(get("Equal")(data, outputs), kept)
    number = unsorted_sum(get("Cast")(hit, DstT=grad.dtype.base_dtype), ids, n)
    share, _ = _gather_kept(grad / number, ids)
    return get("Select")(hit, share, get("ZerosLike")(share)), None, None


@unsorted_prod.gradient
def _unsorted_prod_gradient(op, grad):
    _, ids, n = op.inputs
    return _product_gradient(op, grad, lambda x: unsorted_sum(x, ids, n), lambda x: unsorted_prod(x, ids, n),
                             lambda x: _gather_kept(x, ids)[0]), None, None


def _segment_sizes(data: Tensor, segment_ids: Tensor, num_segments: Any) -> Tensor:
    """How many rows each segment has (1 at least), in a shape that divides the sums."""
    ones = get("Fill")(get("Shape")(segment_ids), convert(1, data.dtype.base_dtype))
    number = unsorted_sum(ones, segment_ids, num_segments)
    return get("Maximum")(get("Reshape")(number, _row_shape(data, segment_ids, number)), convert(1, data.dtype.base_dtype))


@export("math.unsorted_segment_mean", v1=["unsorted_segment_mean"])
@dispatched
def unsorted_segment_mean(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Tensor:
    """The mean of the rows of each segment.

    Args:
        data: The rows.
        segment_ids: The segment of each row, in any order; rows with a negative number are left out.
        num_segments: How many segments the result has.
        name: A name for the op.

    Returns:
        One row per segment; zeros for a segment without rows.

    >>> tf.math.unsorted_segment_mean([[1.0], [2.0], [4.0]], [1, 0, 1], 2).numpy().tolist()
    [[2.0], [2.5]]
    """
    with name_scope(name, "UnsortedSegmentMean", [data]):
        data, segment_ids = convert(data), convert(segment_ids)
        num_segments = convert(num_segments, dtypes.int32 if not isinstance(num_segments, Tensor) else None)
        return unsorted_sum(data, segment_ids, num_segments) / _segment_sizes(data, segment_ids, num_segments)


@export("math.unsorted_segment_sqrt_n", v1=["unsorted_segment_sqrt_n"])
@dispatched
def unsorted_segment_sqrt_n(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Tensor:
    """The sum of the rows of each segment over the square root of their number."""
    with name_scope(name, "UnsortedSegmentSqrtN", [data]):
        data, segment_ids = convert(data), convert(segment_ids)
        num_segments = convert(num_segments, dtypes.int32 if not isinstance(num_segments, Tensor) else None)
        sizes = _segment_sizes(data, segment_ids, num_segments)
        return unsorted_sum(data, segment_ids, num_segments) / get("Sqrt")(sizes)


# -- segments of picked rows ------------------------------------------------------------------------------------------
_PICKED = "data: T, indices: Tidx, segment_ids: Tsegmentids"
_PICKED_TYPES = "Tidx: type in {index} = int32"
_ID_TYPES = "Tsegmentids: type in {index} = int32"


def _picked_rows(data: torch.Tensor, indices: torch.Tensor, segment_ids: torch.Tensor) -> tuple:
    if indices.ndim != 1:
        raise errors.invalid("indices should be a vector.")
    if segment_ids.ndim != 1:
        raise errors.invalid("segment_ids should be a vector.")
    if indices.shape != segment_ids.shape:
        raise errors.invalid("segment_ids and indices should have same size.")
    if data.ndim < 1:
        raise errors.invalid("Shape must be at least rank 1")
    rows = _flat(data, 1)
    if not indexing.inside(indices, data.shape[0]):
        at = int(torch.nonzero((indices < 0) | (indices >= data.shape[0]))[0])
        raise errors.invalid(f"Bad: indices[{at}] == {int(indices[at])} out of range [0, {data.shape[0]})")
    return rows.index_select(0, indices.to(torch.int64)), segment_ids.to(torch.int64)


def _picked(name: str, reduce: Callable, types: str) -> tuple[OpDef, OpDef]:
    """Declares a reduction of picked rows, without and with a given number of segments."""
    plain = op(f"SparseSegment{name}", f"{_PICKED} -> output: T",
               f"T: type in {{{types}}}, {_PICKED_TYPES}, {_ID_TYPES}, sparse_gradient: bool = False")
    counted = op(f"SparseSegment{name}WithNumSegments", f"{_PICKED}, num_segments: Tnumsegments -> output: T",
                 f"T: type in {{{types}}}, {_PICKED_TYPES}, Tnumsegments: type in {{index}} = int32, {_ID_TYPES}, "
                 "sparse_gradient: bool = False")

    @plain.shape
    def _plain_shape(data, indices, segment_ids):
        return _picked_dims(data, indices, segment_ids, None)

    @counted.shape
    def _counted_shape(data, indices, segment_ids, num_segments, *, c):
        n = c.const("num_segments")
        if n is not None and n.ndim == 0 and int(n) < 0:
            raise ValueError("Cannot specify a negative value for num_segments")
        return _picked_dims(data, indices, segment_ids, None if n is None else int(n))

    def run(data, indices, segment_ids):
        n = _last(segment_ids) + 1
        _check_order(segment_ids, n)
        rows, ids = _picked_rows(data, indices, segment_ids)
        return reduce(rows, ids, n).reshape(n, *data.shape[1:])

    def run_counted(data, indices, segment_ids, num_segments):
        if num_segments.ndim:
            raise errors.invalid(f"num_segments should be a scalar, not shape {list(num_segments.shape)}")
        n = int(num_segments)
        if n < 0:
            raise errors.invalid("segment ids must be >= 0")
        if _last(segment_ids) >= n:
            raise errors.invalid("segment ids must be < num_segments")
        _check_order(segment_ids, n)
        rows, ids = _picked_rows(data, indices, segment_ids)
        return reduce(rows, ids, n).reshape(n, *data.shape[1:])

    plain.kernel(run)
    counted.kernel(run_counted)
    return plain, counted


def _picked_dims(data, indices, segment_ids, n):
    shapes.rank_at_least(data, 1)
    shapes.merge(shapes.rank_is(indices, 1), shapes.rank_is(segment_ids, 1))
    return None if data is None else (n, *data[1:])


sparse_sum, sparse_sum_counted = _picked("Sum", _sum, "real")
for _op in (sparse_sum, sparse_sum_counted):
    _op.kernel(unsigned.wrapping(_op.kernels["any"].fn), types=unsigned.TYPES)
sparse_mean, sparse_mean_counted = _picked("Mean", _mean, "float")
sparse_sqrt_n, sparse_sqrt_n_counted = _picked("SqrtN", _sqrt_n, "float")


def _within(what: str, values: torch.Tensor, limit: int) -> None:
    if not indexing.inside(values, limit):
        at = int(torch.nonzero((values < 0) | (values >= limit))[0])
        raise errors.invalid(f"{what} {int(values[at])} out of range [0, {limit}).")


def _picked_grad(name: str, weight: Callable) -> OpDef:
    """The gradient of a sparse segment op: the segments' gradients, weighted, added to the picked rows."""
    made = op(f"SparseSegment{name}Grad",
              "grad: T, indices: Tidx, segment_ids: Tsegmentids, output_dim0: int32 -> output: T",
              f"T: type in {{float}}, {_PICKED_TYPES}, {_ID_TYPES}")

    @made.shape
    def _made_shape(grad, indices, segment_ids, output_dim0, *, c):
        n = c.const("output_dim0")
        return _picked_dims(grad, indices, segment_ids, None if n is None else int(n))

    @made.kernel
    def _made_kernel(grad, indices, segment_ids, output_dim0):
        n = int(output_dim0)
        if n < 0:
            raise errors.invalid("output_dim0 must not be negative")
        ids = segment_ids.to(torch.int64)
        if indices.ndim != 1 or indices.shape != ids.shape:
            raise errors.invalid("segment_ids and indices should have same size.")
        if ids.numel() and int(ids[-1]) >= grad.shape[0]:
            raise errors.invalid("Invalid number of segments")
        _within("Segment id", ids, grad.shape[0])
        _within("Index", indices, n)
        rows = _flat(grad, 1)
        counts = _counts(ids, grad.shape[0]).clamp(min=1)
        scaled = (rows / weight(counts).to(rows.dtype)).index_select(0, ids)
        return _sum(scaled, indices.to(torch.int64), n).reshape(n, *grad.shape[1:])
    return made


sparse_mean_grad = _picked_grad("Mean", lambda n: n)
sparse_sqrt_n_grad = _picked_grad("SqrtN", _root)
_picked_grad("Sum", torch.ones_like).no_gradient()


def _picked_grad_rows(name: str) -> None:
    """The gradient of a sparse segment op as the rows that are not zero, and their sorted places."""
    whole = get(f"SparseSegment{name}Grad").kernels["any"].fn
    made = op(f"SparseSegment{name}GradV2", "grad: T, indices: Tidx, segment_ids: Tsegmentids, dense_output_dim0: int32 -> "
              "output: T, sorted_unique_indices: Tidx", f"T: type in {{float}}, {_PICKED_TYPES}, {_ID_TYPES}").no_gradient()

    @made.shape
    def _rows_shape(grad, indices, segment_ids, dense_output_dim0):
        return [_picked_dims(grad, indices, segment_ids, None), (None,)]

    @made.kernel
    def _rows_kernel(grad, indices, segment_ids, dense_output_dim0):
        _within("Index", indices, int(dense_output_dim0))
        places, inverse = torch.unique(indices, return_inverse=True)
        return whole(grad, inverse, segment_ids, torch.tensor(len(places))), places


for _name in ("Sum", "Mean", "SqrtN"):
    _picked_grad_rows(_name)


def _rows(op: Any) -> Tensor:
    return get("Shape")(op.inputs[0])[0]


def _sum_back(grad: Tensor, indices: Tensor, segment_ids: Tensor, rows: Tensor) -> Tensor:
    return unsorted_sum(get("GatherV2")(grad, segment_ids, 0), indices, rows)


def _set_gradient(made: OpDef, name: str, dense: Callable) -> None:
    """The gradient of a reduction of picked rows: of all rows, or, if requested, of the picked ones."""
    @made.gradient
    def _gradient(op, grad):
        others = [None] * (len(op.inputs) - 1)
        if not op.attrs["sparse_gradient"]:
            return dense(grad, op.inputs[1], op.inputs[2], _rows(op)), *others
        rows, places = get(f"SparseSegment{name}GradV2")(grad, op.inputs[1], op.inputs[2], _rows(op))
        return IndexedSlices(rows, places, get("Shape")(op.inputs[0])), *others


for _name, _dense, *_ops in (("Sum", _sum_back, sparse_sum, sparse_sum_counted),
                             ("Mean", sparse_mean_grad, sparse_mean, sparse_mean_counted),
                             ("SqrtN", sparse_sqrt_n_grad, sparse_sqrt_n, sparse_sqrt_n_counted)):
    for _op in _ops:
        _set_gradient(_op, _name, _dense)


def _publish(name: str, plain: OpDef, counted: OpDef, doc: str) -> None:
    def compute(data, indices, segment_ids, num_segments, name, sparse_gradient):
        if num_segments is not None:
            return counted(data, indices, segment_ids, num_segments, sparse_gradient=sparse_gradient, name=name)
        return plain(data, indices, segment_ids, sparse_gradient=sparse_gradient, name=name)

    def v1(data: Any, indices: Any, segment_ids: Any, name: str | None = None, num_segments: Any = None,
           sparse_gradient: bool = False) -> Tensor:
        return compute(data, indices, segment_ids, num_segments, name, sparse_gradient)

    def v2(data: Any, indices: Any, segment_ids: Any, num_segments: Any = None, name: str | None = None,
           sparse_gradient: bool = False) -> Tensor:
        return compute(data, indices, segment_ids, num_segments, name, sparse_gradient)

    for f in (v1, v2):
        f.__name__ = f.__qualname__ = f"sparse_segment_{name}"
        f.__doc__ = doc
    export.value(v1, v1=[f"sparse.segment_{name}", f"sparse_segment_{name}"])
    export.value(v2, v2=[f"sparse.segment_{name}"])


_publish("sum", sparse_sum, sparse_sum_counted, "The sums, by segments, of the rows of `data` picked by `indices`.")
_publish("mean", sparse_mean, sparse_mean_counted, "The means, by segments, of the rows of `data` picked by `indices`.")
_publish("sqrt_n", sparse_sqrt_n, sparse_sqrt_n_counted,
         "The sums, by segments, of the rows of `data` picked by `indices`, over the square root of their number.")
