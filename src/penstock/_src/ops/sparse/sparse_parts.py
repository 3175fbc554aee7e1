"""Joining and splitting sparse tensors: concat, split, slice."""
from __future__ import annotations

from typing import Any

import torch

from penstock._src.base import dtypes, errors
from penstock._src.base.api import export
from penstock._src.base.static_shape import merge, num_elements, rank_is
from penstock._src.graph.constant import constant_value
from penstock._src.graph.convert import convert
from penstock._src.graph.sparse_tensor import SparseTensor
from penstock._src.kernels import arrays, sparse
from penstock._src.ops.arguments import renamed
from penstock._src.ops.registry import op
from penstock._src.ops.sparse.sparse_layout import as_sparse, check_ranks, parts_of
from penstock.compat import v1 as tf

# -- SparseConcat --------------------------------------------------------------------------------------------------
concat_op = op("SparseConcat", "indices: N * int64, values: N * T, shapes: N * int64 -> output_indices: int64, "
                               "output_values: T, output_shape: int64", "concat_dim: int, N: int >= 2, T: type"
               ).no_gradient()


@concat_op.shape
def _concat_shape(indices, values, shapes):
    rows: int | None = 0
    columns, out = (None,), None
    for i, v, s in zip(indices, values, shapes, strict=True):
        check_ranks(i, v, s)
        n = merge((rank_is(i, 2)[0],), rank_is(v, 1))[0]
        rows = None if rows is None or n is None else rows + n
        columns = merge(columns, (rank_is(i, 2)[1],))
        out = merge(out, rank_is(s, 1))
    return [(rows, columns[0]), (rows,), out]


@concat_op.kernel
def _concat_kernel(indices, values, shapes, *, concat_dim):
    every = [sparse.check(i, v, s) for i, v, s in zip(indices, values, shapes, strict=True)]
    rank = len(every[0])
    axis = arrays.canonical_axis(concat_dim, rank, f"Concat dimension must be in range [{-rank}, {rank}), got "
                                                   f"{concat_dim}")
    for at, dims in enumerate(every):
        _check_beside(every[0], dims, axis, at)
        if 0 in dims and indices[at].shape[0]:
            raise errors.invalid("SparseTensor cannot have non-zero indices if dense shape has zero volume, at position "
                                 f"{at}")
    moved, start = [], 0
    for i, dims in zip(indices, every, strict=True):
        i = i.clone()
        i[:, axis] += start
        start += dims[axis]
        moved.append(i)
    out = [start if d == axis else n for d, n in enumerate(every[0])]
    if start >= 2 ** 63:
        raise errors.invalid(f"The sizes of concat dimension {axis} overflowed: their sum is {start}")
    sparse.check_product(out)
    joined = torch.cat(moved)
    order = sparse.order(joined)
    return joined[order], sparse.take(arrays.cat(values, 0), order), sparse.vector(out, shapes[0])


def _check_beside(first: list[int], dims: list[int], axis: int, at: int) -> None:
    if len(dims) != len(first):
        raise errors.invalid(f"Ranks of all input tensors must match: expected {len(first)} but got {len(dims)} at "
                             f"position {at}")
    for j, (a, b) in enumerate(zip(first, dims, strict=True)):
        if j != axis and a != b:
            raise errors.invalid(f"Input shapes must match: expected {a} for dimension {j} but got {b} at position {at}")


@export(v1=["sparse.concat", "sparse_concat"])
def sparse_concat(axis: Any, sp_inputs: Any, name: str | None = None, expand_nonconcat_dim: bool = False,
                  concat_dim: Any = None, expand_nonconcat_dims: bool | None = None) -> SparseTensor:
    """Sparse tensors joined along `axis`.

    With `expand_nonconcat_dims` the other sizes may differ; the result has the largest.
    """
    if expand_nonconcat_dims is not None:
        expand_nonconcat_dim = expand_nonconcat_dims
    return sparse_concat_v2(renamed("axis", axis, "concat_dim", concat_dim), sp_inputs, expand_nonconcat_dim, name)


@export(v2=["sparse.concat"])
def sparse_concat_v2(axis: int, sp_inputs: Any, expand_nonconcat_dims: bool = False, name: str | None = None
                     ) -> SparseTensor:
    """Sparse tensors joined along `axis`.

    >>> tf.sparse.concat(0, [a, b])
    """
    if not isinstance(sp_inputs, (list, tuple)):
        raise TypeError("Inputs must be a list or tuple.")
    inputs = [as_sparse(sp) for sp in sp_inputs]
    if len(inputs) == 1:
        return inputs[0]
    indices, values, shapes = (list(p) for p in zip(*map(parts_of, inputs), strict=True))
    if expand_nonconcat_dims:
        shapes = _widened(shapes, axis)
    out = concat_op(indices, values, shapes, concat_dim=axis, name=name)
    known = [k for k in map(constant_value, shapes) if k is not None]
    if len(known) < len(shapes):
        return SparseTensor(*out)
    shape = known[0].copy()
    shape[axis] = sum(k[axis] for k in known)
    return SparseTensor(out.output_indices, out.output_values, shape)


def _widened(shapes: list, axis: int) -> list:
    """The shapes with every size but that of `axis` the largest among them."""
    largest = tf.reduce_max(tf.stack(shapes), 0)
    end = None if axis == -1 else axis + 1
    after = [] if end is None else [largest[end:]]
    return [tf.concat([largest[:axis], s[axis:end], *after], 0) for s in shapes]


# -- SparseSplit ---------------------------------------------------------------------------------------------------
split_op = op("SparseSplit", "split_dim: int64, indices: int64, values: T, shape: int64 -> "
                             "output_indices: num_split * int64, output_values: num_split * T, "
                             "output_shape: num_split * int64", "num_split: int >= 1, T: type").no_gradient()


@split_op.shape
def _split_shape(split_dim, indices, values, shape, *, num_split):
    return [(None, num_elements(shape))] * num_split + [(None,)] * num_split + [shape] * num_split


@split_op.kernel
def _split_kernel(split_dim, indices, values, shape, *, num_split):
    if split_dim.dim():
        raise errors.invalid(f"Input axis should be a scalar but received shape {arrays.show(split_dim.shape)}")
    dims, axis = sparse.check(indices, values, shape), int(split_dim)
    if not -len(dims) <= axis < len(dims):
        raise errors.invalid(f"Input axis should be in range [{-len(dims)}, {len(dims)}), got {axis}")
    axis %= len(dims)
    size = dims[axis]
    if not 1 <= num_split <= size:
        raise errors.invalid(f"Input num_split should be between 1 and the splitting dimension size ({size}), got "
                             f"{num_split}")
    sparse.check_bounds(indices, dims)
    each, extra = divmod(size, num_split)              # the first `extra` parts have one more
    lengths = [each + (i < extra) for i in range(num_split)]
    ends = torch.tensor(lengths, dtype=torch.int64, device=indices.device).cumsum(0)
    part = torch.bucketize(indices[:, axis].contiguous(), ends, right=True)
    order = torch.argsort(part, stable=True)
    counts = torch.bincount(part, minlength=num_split).tolist()
    moved = indices[order]
    moved[:, axis] -= (ends - sparse.vector(lengths, ends))[part[order]]
    shapes = [sparse.vector([n if d == axis else s for d, s in enumerate(dims)], shape) for n in lengths]
    return list(moved.split(counts)), _cut(sparse.take(values, order), counts), shapes


def _cut(values: Any, counts: list[int]) -> list:
    out, start = [], 0
    for n in counts:
        out.append(values[start:start + n])
        start += n
    return out


class _KeywordRequired:
    def __repr__(self) -> str:
        return "KeywordRequired()"


@export(v1=["sparse.split", "sparse_split"])
def sparse_split(keyword_required: Any = _KeywordRequired(), sp_input: Any = None, num_split: int | None = None,
                 axis: Any = None, name: str | None = None, split_dim: Any = None) -> list[SparseTensor]:
    """The sparse tensor in `num_split` parts along `axis`; the first parts are one longer if it does not divide."""
    if not isinstance(keyword_required, _KeywordRequired):
        raise ValueError("Keyword arguments are required for this function.")
    axis = renamed("axis", axis, "split_dim", split_dim)
    return sparse_split_v2(sp_input, num_split, axis, name)


@export(v2=["sparse.split"])
def sparse_split_v2(sp_input: Any = None, num_split: int | None = None, axis: Any = None, name: str | None = None
                    ) -> list[SparseTensor]:
    """The sparse tensor in `num_split` parts along `axis`.

    >>> a, b = tf.sparse.split(sp_input=x, num_split=2, axis=1)
    """
    for what, value in (("sp_input", sp_input), ("num_split", num_split), ("axis", axis)):
        if value is None:
            raise ValueError(f"{what} is required")
    out = split_op(axis, *parts_of(as_sparse(sp_input)), num_split=num_split, name=name)
    return [SparseTensor(*p) for p in zip(*out, strict=True)]


# -- SparseSlice ---------------------------------------------------------------------------------------------------
slice_op = op("SparseSlice", "indices: int64, values: T, shape: int64, start: int64, size: int64 -> output_indices: int64, "
                             "output_values: T, output_shape: int64", "T: type")


@slice_op.shape
def _slice_shape(indices, values, shape, start, size):
    return [(None, num_elements(shape)), (None,), shape]


@slice_op.kernel
def _slice_kernel(indices, values, shape, start, size):
    dims = sparse.check(indices, values, shape)
    for what, v in (("start", start), ("size", size)):
        if v.dim() != 1:
            raise errors.invalid(f"Input {what} should be a vector but received shape {arrays.show(v.shape)}")
        if v.numel() != len(dims):
            raise errors.invalid(f"Expected {what} to be a vector of length {len(dims)} but got length {v.numel()}")
    first, count = start.tolist(), size.tolist()
    out = [c if f + c < n else max(n - f, 0) for f, c, n in zip(first, count, dims, strict=True)]    # none beyond the end
    if any(d < 0 for d in out):
        raise errors.invalid(f"A slice from {first} of size {count} does not fit into shape {arrays.show(dims)}")
    sparse.check_product(out)
    start, size = start.to(indices.device), size.to(indices.device)
    inside = ((indices >= start) & (indices - start < size)).all(1)
    return indices[inside] - start, sparse.chosen(values, inside), sparse.vector(out, shape)


slice_grad_op = op("SparseSliceGrad", "backprop_val_grad: T, input_indices: int64, input_start: int64, "
                                      "output_indices: int64 -> val_grad: T", "T: type in {numeric quantized}"
                   ).no_gradient()


@slice_grad_op.shape
def _slice_grad_shape(backprop_val_grad, input_indices, input_start, output_indices):
    return (rank_is(input_indices, 2)[0],)


@slice_grad_op.kernel
def _slice_grad_kernel(backprop_val_grad, input_indices, input_start, output_indices):
    if input_indices.dim() != 2 or output_indices.dim() != 2 or input_indices.shape[1] != output_indices.shape[1]:
        raise errors.invalid("Input indices and output indices should be matrices with as many columns, but have shapes "
                             f"{arrays.show(input_indices.shape)} and {arrays.show(output_indices.shape)}")
    if tuple(input_start.shape) != (input_indices.shape[1],):
        raise errors.invalid(f"input_start should be a vector of length {input_indices.shape[1]}, but has shape "
                             f"{arrays.show(input_start.shape)}")
    if tuple(backprop_val_grad.shape) != (output_indices.shape[0],):
        raise errors.invalid(f"Input backprop_val_grad should be a vector with {output_indices.shape[0]} elements, but has "
                             f"shape {arrays.show(backprop_val_grad.shape)}")
    both = sparse.Union(input_indices - input_start, output_indices)
    return sparse.take(both.spread(backprop_val_grad, both.b), both.a)


@slice_op.gradient
def _slice_gradient(op, _, grad, __):
    out = slice_grad_op(grad, op.inputs[0], op.inputs[3], op.outputs[0])
    return None, out, None, None, None


@export("sparse.slice", v1=["sparse_slice"])
def sparse_slice(sp_input: Any, start: Any, size: Any, name: str | None = None) -> SparseTensor:
    """The part of a sparse tensor from `start` on, at most `size` along each axis."""
    sp = as_sparse(sp_input)
    with tf.name_scope(name, "SparseSlice", [sp]) as scope:
        return SparseTensor(*slice_op(*parts_of(sp), convert(start, dtypes.int64), convert(size, dtypes.int64), name=scope))
