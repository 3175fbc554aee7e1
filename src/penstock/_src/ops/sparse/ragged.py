"""Ops on the row splits and flat values of ragged tensors: ranges, gathers, sparse and variant forms (library/ragged has the
class and the public functions)."""
from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors
from penstock._src.data.pipelines import codec
from penstock._src.graph.convert import convert
from penstock._src.graph.indexed_slices import IndexedSlices
from penstock._src.kernels import arrays
from penstock._src.kernels import rows as fast_rows
from penstock._src.ops.registry import get, op

# -- ranges -----------------------------------------------------------------------------------------------------------
range_op = op("RaggedRange", "starts: T, limits: T, deltas: T -> rt_nested_splits: Tsplits, rt_dense_values: T",
              "T: type in {bfloat16 float32 float64 int32 int64} = int32, Tsplits: type in {int32 int64} = int64").no_gradient()


@range_op.shape
def _range_shape(starts, limits, deltas):
    n = None
    for s in (starts, limits, deltas):
        if s is not None and len(s) > 1:
            raise ValueError("starts, limits, and deltas must be scalars or vectors")
        if s is not None and len(s) == 1 and s[0] is not None:
            if n is not None and n != s[0]:
                raise ValueError("starts, limits, and deltas must have the same shape")
            n = s[0]
    if all(s == () for s in (starts, limits, deltas)):
        n = 1
    return [(None if n is None else n + 1,), (None,)]


@range_op.kernel(device="cpu")
def _range_kernel(starts, limits, deltas, *, Tsplits):
    sizes = {t.shape[0] for t in (starts, limits, deltas) if t.dim()}
    if any(t.dim() > 1 for t in (starts, limits, deltas)) or len(sizes) > 1:
        raise errors.invalid("starts, limits, and deltas must have the same shape")
    n = sizes.pop() if sizes else 1
    starts, limits, deltas = (t.expand(n) for t in (starts, limits, deltas))
    if (deltas == 0).any():
        raise errors.invalid("Requires delta != 0")
    if starts.is_floating_point():
        lengths = torch.ceil((limits.double() - starts.double()) / deltas.double())
    else:
        wide = [t.to(torch.int64) for t in (starts, limits, deltas)]
        lengths = -torch.div(wide[0] - wide[1], wide[2], rounding_mode="floor")
    if len(lengths) and not bool((lengths <= 2**31 - 1).all()):
        raise errors.invalid(f"Requires ((limit - start) / delta) <= 2147483647, got {float(lengths.max())}")
    counts = lengths.clamp(min=0).to(torch.int64)
    splits = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])
    total = int(splits[-1])
    if total > 2**31 - 1 and (Tsplits == dtypes.int32 or total > 2**31):
        raise errors.invalid(f"The total range size overflowed. Consider using int64 instead of int32 for row_splits_dtype; "
                             f"the ranges have {total} elements")
    steps = torch.arange(total) - splits[:-1].repeat_interleave(counts)
    values = starts.repeat_interleave(counts) + steps.to(starts.dtype) * deltas.repeat_interleave(counts)
    return splits.to(Tsplits.torch), values


# -- gathers ---------------------------------------------------------------------------------------------------------
gather_op = op("RaggedGather", "params_nested_splits: PARAMS_RAGGED_RANK * Tsplits, params_dense_values: Tvalues, "
               "indices: Tindices -> output_nested_splits: OUTPUT_RAGGED_RANK * Tsplits, output_dense_values: Tvalues",
               "Tvalues: type, Tindices: type in {int32 int64}, Tsplits: type in {int32 int64} = int64, "
               "PARAMS_RAGGED_RANK: int >= 1, OUTPUT_RAGGED_RANK: int >= 0")


@gather_op.shape
def _gather_shape(params_nested_splits, params_dense_values, indices, *, OUTPUT_RAGGED_RANK):
    values = None if params_dense_values is None else (None, *params_dense_values[1:])
    return [(None,)] * OUTPUT_RAGGED_RANK + [values]


def _check_splits(splits: torch.Tensor, most: int) -> torch.Tensor:
    """The splits of rows of so many values; InvalidArgumentError if they lead elsewhere."""
    if splits.dim() != 1 or not splits.numel() or int(splits[0]) < 0 or int(splits[-1]) > most \
            or bool((splits[1:] < splits[:-1]).any()):
        raise errors.invalid("Ragged splits must be sorted, and must not be larger than the number of values")
    return splits


@gather_op.kernel(device="cpu")
def _gather_kernel(params_nested_splits, params_dense_values, indices, *, OUTPUT_RAGGED_RANK):
    if len(params_nested_splits) == 1:
        found = fast_rows.chosen(params_nested_splits[0], params_dense_values.shape[0], indices)
        if found is not None:
            outer = _outer_splits(indices, params_nested_splits[0].dtype)
            return [*outer, found[0]], _taken(params_dense_values, found[1])
    n = params_nested_splits[0].numel() - 1
    bad = (indices < 0) | (indices >= n)
    if bad.any():
        raise errors.invalid(f"indices[{int(bad.reshape(-1).nonzero()[0])}] = {int(indices[bad][0])} is not in [0, {n})")
    splits_out = _outer_splits(indices, params_nested_splits[0].dtype)
    rows = indices.reshape(-1).to(torch.int64)
    inner = [*(s.numel() - 1 for s in params_nested_splits[1:]), params_dense_values.shape[0]]
    for s, most in zip(params_nested_splits, inner, strict=True):
        s = _check_splits(s, most).to(torch.int64)
        starts, lengths = s[rows], s[rows + 1] - s[rows]
        splits = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
        splits_out.append(splits.to(params_nested_splits[0].dtype))
        rows = torch.arange(int(splits[-1])) - (splits[:-1] - starts).repeat_interleave(lengths)
    return splits_out, _taken(params_dense_values, rows)


def _taken(values: Any, rows: torch.Tensor) -> Any:
    return values.index_select(0, rows) if isinstance(values, torch.Tensor) else values[rows.numpy()]


def _outer_splits(indices: torch.Tensor, dtype: torch.dtype) -> list:
    """Row splits for the dimensions that the indices bring in."""
    out, count = [], 1
    for i in range(indices.dim() - 1):
        count *= indices.shape[i]
        out.append(torch.arange(0, count + 1, dtype=dtype) * indices.shape[i + 1])
    return out


@gather_op.gradient
def _gather_gradient(op, *grads):
    """Adds the gradient to the gathered rows of the flat values; duplicates are summed."""
    n = op.attrs["PARAMS_RAGGED_RANK"]
    splits, values, indices = list(op.inputs[:n]), op.inputs[n], op.inputs[n + 1]
    flat = get("Range")(convert(0, dtypes.int64), get("Shape")(values, out_type=dtypes.int64)[0], convert(1, dtypes.int64))
    which = gather_op(splits, flat, indices, OUTPUT_RAGGED_RANK=op.attrs["OUTPUT_RAGGED_RANK"])[-1]
    return [None] * n + [IndexedSlices(grads[-1], which, get("Shape")(values)), None]


# -- the sparse form --------------------------------------------------------------------------------------------------
ragged_to_sparse = op("RaggedTensorToSparse", "rt_nested_splits: RAGGED_RANK * Tsplits, rt_dense_values: T -> "
                      "sparse_indices: int64, sparse_values: T, sparse_dense_shape: int64",
                      "RAGGED_RANK: int >= 1, T: type, Tsplits: type in {int32 int64} = int64")


@ragged_to_sparse.shape
def _ragged_to_sparse_shape(rt_nested_splits, rt_dense_values, *, RAGGED_RANK):
    rank = None if rt_dense_values is None else len(rt_dense_values) + RAGGED_RANK
    known = rt_dense_values is not None and None not in rt_dense_values
    count = math.prod(rt_dense_values) if known else None
    return [(count, rank), (count,), (rank,)]


@ragged_to_sparse.kernel
def _ragged_to_sparse_kernel(rt_nested_splits, rt_dense_values):
    n = rt_dense_values.shape[0]
    for s in rt_nested_splits:
        if not s.numel():
            raise errors.invalid("ragged splits may not be empty.")
        if s[0] != 0:
            raise errors.invalid("First value of ragged splits must be 0.")
    if int(rt_nested_splits[-1][-1]) != n:
        raise errors.invalid("Final value of ragged splits must match the length the corresponding ragged values.")
    if len(rt_nested_splits) == 1 and rt_dense_values.ndim == 1:
        found = fast_rows.coordinates(rt_nested_splits[0], n)
        if found is not None:
            return found[0], rt_dense_values, torch.tensor([rt_nested_splits[0].numel() - 1, found[1]])
    columns: list[Any]
    columns, box = [], [rt_nested_splits[0].numel() - 1]
    device = rt_nested_splits[0].device
    row = torch.arange(box[0], device=device)
    for s in rt_nested_splits:
        s = s.to(torch.int64)
        lengths = s[1:] - s[:-1]
        if lengths.numel() != row.numel():
            raise errors.invalid("Final value of ragged splits must match the length the corresponding ragged values.")
        if (lengths < 0).any():
            raise errors.invalid("Ragged splits are not valid.")
        columns = [c.repeat_interleave(lengths) for c in [*columns, row]]
        total = int(s[-1])
        position = torch.arange(total, device=device) - s[:-1].repeat_interleave(lengths)
        box.append(int(lengths.max()) if lengths.numel() else 0)
        row = position
    columns.append(row)
    inner = rt_dense_values.shape[1:]
    if isinstance(rt_dense_values, torch.Tensor):
        flat = rt_dense_values.reshape(-1)
    else:
        flat = rt_dense_values.ravel()
    indices = torch.stack(columns, 1) if columns else torch.zeros((n, 0), dtype=torch.int64)
    if inner:
        size = 1
        for d in inner:
            size *= d
        grid = torch.stack([g.reshape(-1) for g in torch.meshgrid(*[torch.arange(d) for d in inner], indexing="ij")], 1)
        indices = torch.cat([indices.repeat_interleave(size, 0), grid.repeat(n, 1)], 1)
    return indices, flat, torch.tensor([*box, *inner], dtype=torch.int64)


@ragged_to_sparse.gradient
def _ragged_to_sparse_gradient(op, _indices, grad, _shape):
    values = op.inputs[-1]
    return [None] * (len(op.inputs) - 1) + [get("Reshape")(grad, get("Shape")(values))]


# -- variants: a ragged tensor as one value, or its rows as a vector of values ----------------------------------------
to_variant_op = op("RaggedTensorToVariant", "rt_nested_splits: RAGGED_RANK * Tsplits, rt_dense_values: Tvalues -> "
                   "encoded_ragged: variant", "RAGGED_RANK: int >= 0, Tvalues: type, Tsplits: type in {int32 int64} = int64, "
                   "batched_input: bool")
from_variant_op = op("RaggedTensorFromVariant", "encoded_ragged: variant -> output_nested_splits: output_ragged_rank * "
                     "Tsplits, output_dense_values: Tvalues", "input_ragged_rank: int >= -1, output_ragged_rank: int >= 0, "
                     "Tvalues: type, Tsplits: type in {int32 int64} = int64")
to_variant_gradient_op = op("RaggedTensorToVariantGradient", "encoded_ragged_grad: variant, row_splits: Tsplits, "
                            "dense_values_shape: int32 -> dense_values_grad: Tvalues",
                            "Tvalues: type, Tsplits: type in {int32 int64} = int64").no_gradient()


@to_variant_op.gradient
def _to_variant_grad(op, grad):
    *splits, values = op.inputs
    flat = splits[0] if splits else convert(np.zeros(0, np.int64))
    for s in splits[1:]:                                    # where each row begins in the flat values
        flat = get("GatherV2")(s, flat, 0)
    return [None] * len(splits) + [to_variant_gradient_op(grad, flat, get("Shape")(values), Tvalues=values.dtype.base_dtype)]


@from_variant_op.gradient
def _from_variant_grad(op, *grads):
    # All rows of the outer dimensions are one vector of variants, whose splits are those of the inner dimensions.
    splits, inner = list(op.outputs[:-1]), op.attrs["input_ragged_rank"]
    variant = op.inputs[0]
    if variant.static_dims is None:
        raise errors.UnimplementedError(None, None, "The gradient of RaggedTensorFromVariant needs variants of known rank.")
    if variant.static_dims == ():
        return to_variant_op(splits, grads[-1], batched_input=False)
    inner = len(splits) - len(variant.static_dims) if inner == -1 else inner
    rows = to_variant_op(splits[len(splits) - inner - 1:], grads[-1], batched_input=True)
    return rows if len(variant.static_dims) == 1 else get("Reshape")(rows, get("Shape")(variant))


to_variant_gradient_op.shape(lambda encoded_ragged_grad, row_splits, dense_values_shape, *, c: c.dims("dense_values_shape"))


@to_variant_gradient_op.kernel(device="cpu")
def _to_variant_gradient_kernel(encoded_ragged_grad, row_splits, dense_values_shape, *, Tvalues):
    items = [encoded_ragged_grad] if isinstance(encoded_ragged_grad, EncodedRagged) else encoded_ragged_grad.ravel().tolist()
    dims = arrays.checked_dims(dense_values_shape)
    if row_splits.numel() != len(items) + 1:                # one variant for all
        return items[0].values.reshape(dims) if isinstance(items[0], EncodedRagged) else torch.zeros(dims, dtype=Tvalues.torch)
    out = torch.zeros(dims, dtype=Tvalues.torch)
    for item, a, b in zip(items, row_splits[:-1].tolist(), row_splits[1:].tolist(), strict=True):
        if isinstance(item, EncodedRagged) and item.values.numel():
            out[a:b] = item.values.reshape(b - a, *dims[1:])
    return out


@to_variant_op.shape
def _to_variant_shape(rt_nested_splits, rt_dense_values, *, batched_input):
    if not batched_input:
        return ()
    first = rt_nested_splits[0] if rt_nested_splits else None
    return (None,) if first is None or first[0] is None else (first[0] - 1,)


from_variant_op.shape(lambda encoded_ragged, *, output_ragged_rank: [(None,)] * output_ragged_rank + [None])


class EncodedRagged:
    """The variant form: row splits and values."""

    __slots__ = ("splits", "values")

    def __init__(self, splits: list, values: Any):
        self.splits, self.values = splits, values

    def zeros_like(self) -> EncodedRagged:
        """The gradient of an unused value."""
        return EncodedRagged(self.splits, torch.zeros_like(self.values))

    def __add__(self, other: EncodedRagged) -> EncodedRagged:
        """The sum of two gradients of one value."""
        return EncodedRagged(self.splits, self.values + other.values)


codec.register("ragged", EncodedRagged, lambda v: [v.splits, v.values], lambda p: EncodedRagged(list(p[0]), p[1]))


def _vector(items: list) -> Any:
    out = np.empty(len(items), dtype=object)
    out[:] = items
    return out


@to_variant_op.kernel
def _to_variant_kernel(rt_nested_splits, rt_dense_values, *, batched_input):
    if not batched_input:
        out = np.empty((), dtype=object)
        out[()] = EncodedRagged(list(rt_nested_splits), rt_dense_values)
        return out
    if not rt_nested_splits:
        raise errors.invalid("batched_input needs at least one ragged dimension")
    inner = [*(s.numel() - 1 for s in rt_nested_splits[1:]), rt_dense_values.shape[0]]
    for s, most in zip(rt_nested_splits, inner, strict=True):
        _check_splits(s, most)
    rows = []
    outer = rt_nested_splits[0].tolist()
    for a, b in zip(outer[:-1], outer[1:], strict=True):
        splits, lo, hi = [], a, b
        for s in rt_nested_splits[1:]:
            part = s[lo:hi + 1]
            lo, hi = int(part[0]), int(part[-1])
            splits.append(part - part[0])
        rows.append(EncodedRagged(splits, rt_dense_values[lo:hi]))
    return _vector(rows)


@from_variant_op.kernel
def _from_variant_kernel(encoded_ragged, *, input_ragged_rank, output_ragged_rank, Tvalues, Tsplits):
    if isinstance(encoded_ragged, EncodedRagged):            # a single variant
        encoded_ragged = _vector([encoded_ragged]).reshape(())
    items = encoded_ragged.ravel().tolist()
    for e in items:
        if not isinstance(e, EncodedRagged):
            raise errors.invalid("encoded_ragged does not hold ragged tensors")
        if any(splits.dtype != Tsplits.torch for splits in e.splits):
            raise errors.invalid(f"Expected row_splits Tensor dtype: {Tsplits.name}, found: {e.splits[0].dtype}")
        if (e.values.dtype if isinstance(e.values, torch.Tensor) else None) != Tvalues.torch:
            raise errors.invalid(f"Expected values Tensor dtype: {Tvalues.name}, found: {e.values.dtype}")
    if encoded_ragged.ndim == 0:
        return list(items[0].splits), items[0].values
    inner = output_ragged_rank - encoded_ragged.ndim if input_ragged_rank == -1 else input_ragged_rank
    if inner < 0 or any(len(e.splits) != inner for e in items):
        raise errors.invalid(f"Ragged rank {inner} was expected of every element.")
    dims = encoded_ragged.shape
    outer, count = [], 1
    for d in dims:
        outer.append(torch.arange(0, count * d + 1, max(d, 1))[:count + 1] if d else torch.zeros(count + 1, dtype=torch.int64))
        count *= d
    outer = [o.to(Tsplits.torch) for o in outer[1:]]
    sizes = [(e.splits[0].numel() - 1) if e.splits else len(e.values) for e in items]
    levels = [_joined(sizes, Tsplits)]
    for i in range(inner):
        levels.append(_chained([e.splits[i] for e in items], Tsplits))
    for i, e in enumerate(items):
        if tuple(e.values.shape[1:]) != tuple(items[0].values.shape[1:]):
            raise errors.invalid("All flat_values must have compatible shapes. Shape at index 0: "
                                 f"{list(items[0].values.shape)}, at index {i}: {list(e.values.shape)}")
    return outer + levels, _concatenated([e.values for e in items], Tvalues)


def _joined(sizes: list[int], dtype: Any) -> torch.Tensor:
    return torch.tensor([0, *torch.tensor(sizes, dtype=torch.int64).cumsum(0).tolist()], dtype=dtype.torch)


def _chained(parts: list, dtype: Any) -> torch.Tensor:
    out, offset = [torch.zeros(1, dtype=torch.int64)], 0
    for p in parts:
        out.append(p[1:].to(torch.int64) + offset)
        offset += int(p[-1]) if p.numel() else 0
    return torch.cat(out).to(dtype.torch)


def _concatenated(parts: list, dtype: Any) -> Any:
    if dtype.torch is None:
        return np.concatenate(parts) if parts else np.empty(0, dtype=object)
    return torch.cat(parts) if parts else torch.empty(0, dtype=dtype.torch)
