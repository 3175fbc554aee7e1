"""Sums and maxima of sparse tensors over some axes, as dense or as sparse tensors."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors
from penstock._src.base.api import export
from penstock._src.graph.convert import convert
from penstock._src.graph.sparse_tensor import SparseTensor
from penstock._src.kernels import arrays, sparse, unsigned
from penstock._src.ops.arguments import renamed
from penstock._src.ops.registry import OpDef, get, op
from penstock._src.ops.sparse.sparse_layout import as_sparse, parts_of
from penstock.compat import v1 as tf

_INPUTS = "input_indices: int64, input_values: T, input_shape: int64, reduction_axes: int32"


# -- kernels -------------------------------------------------------------------------------------------------------
def _sum(values: torch.Tensor, group: torch.Tensor, count: int) -> torch.Tensor:
    out = torch.zeros(count, dtype=values.dtype, device=values.device)
    arrays.add_at(out, (group,), values)
    return out


def _largest(values: torch.Tensor, group: torch.Tensor, count: int) -> torch.Tensor:
    """The largest of each group; 0 where a group is empty."""
    if unsigned.is_wide(values):
        order = unsigned.flip(values)
        low = torch.full((count,), torch.iinfo(order.dtype).min, dtype=order.dtype, device=order.device)
        return unsigned.flip(low.scatter_reduce_(0, group, order, "amax"))
    out = torch.zeros(count, dtype=values.dtype, device=values.device)
    return out.scatter_reduce_(0, group, values, "amax", include_self=False)


class _Groups:
    """The elements of a sparse tensor by their position along the axes that stay."""

    def __init__(self, indices: torch.Tensor, values: torch.Tensor, shape: torch.Tensor, axes: torch.Tensor, keep: bool):
        dims = sparse.check(indices, values, shape, "input_")
        if axes.dim() > 1:
            raise errors.invalid("Expected reduction_axes to be a scalar or a vector; got shape: "
                                 f"{arrays.show(axes.shape)}")
        gone = set()
        for a in axes.reshape(-1).tolist():
            if not -len(dims) <= a < len(dims):
                raise errors.invalid(f"Invalid reduction dimension {a}, for input with {len(dims)} dimensions.")
            gone.add(a % len(dims))
        self.stay = [d for d in range(len(dims)) if d not in gone]
        self.sizes = [dims[d] for d in self.stay]
        self.out = [1 if d in gone else n for d, n in enumerate(dims)] if keep else self.sizes
        sparse.check_bounds(indices, dims)
        self.rows = indices[:, self.stay]
        self.key = sparse.positions(self.rows, self.sizes)


def _dense_dims(input_indices, input_values, input_shape, reduction_axes, *, keep_dims, c):
    axes, dims = c.const("reduction_axes"), c.dims("input_shape")
    if axes is None or dims is None:
        return None
    if not dims:
        raise ValueError("Number of dims in shape tensor must not be 0")
    gone = {int(a) % len(dims) for a in axes.reshape(-1)}
    if keep_dims:
        return tuple(1 if d in gone else n for d, n in enumerate(dims))
    return tuple(n for d, n in enumerate(dims) if d not in gone)


def _reductions(name: str, reduce: Callable, types: str) -> tuple[OpDef, OpDef]:
    """The op with a dense result and the one with a sparse result."""
    attrs = f"keep_dims: bool = False, T: type in {{{types}}}"
    dense = op(name, f"{_INPUTS} -> output: T", attrs)
    dense.shape(_dense_dims)

    @dense.kernel
    def _dense_kernel(input_indices, input_values, input_shape, reduction_axes, *, keep_dims):
        g = _Groups(input_indices, input_values, input_shape, reduction_axes, keep_dims)
        count = int(np.prod(arrays.checked_dims(sparse.vector(g.out, input_shape)), dtype=np.int64))
        return reduce(input_values, g.key, count).reshape(g.out)

    thin = op(name + "Sparse", f"{_INPUTS} -> output_indices: int64, output_values: T, output_shape: int64", attrs)
    thin.no_gradient()

    @thin.kernel
    def _thin_kernel(input_indices, input_values, input_shape, reduction_axes, *, keep_dims):
        g = _Groups(input_indices, input_values, input_shape, reduction_axes, keep_dims)
        key, group = torch.unique(g.key, return_inverse=True)
        found = sparse.coordinates(key, g.sizes)
        indices = torch.zeros((key.numel(), len(g.out)), dtype=torch.int64, device=found.device)
        indices[:, g.stay if keep_dims else list(range(len(g.stay)))] = found
        return indices, reduce(input_values, group, key.numel()), sparse.vector(g.out, input_shape)
    return dense, thin


sum_op, sum_sparse_op = _reductions("SparseReduceSum", _sum, "numeric quantized")
max_op, max_sparse_op = _reductions("SparseReduceMax", _largest, "real")


@sum_op.gradient
def _sum_gradient(op, grad):
    indices, _, shape, axes = op.inputs
    rank = get("Size")(shape)
    gone = get("FloorMod")(axes + rank, rank)
    # sizes of the result with reduced axes kept as 1: every element finds its sum there
    ones = get("Fill")(get("Shape")(gone), tf.constant(1, dtypes.int64))
    sizes = get("DynamicStitch")([get("Range")(0, rank, 1), gone], [shape, ones])
    return None, get("GatherNd")(get("Reshape")(grad, sizes), get("FloorMod")(indices, sizes)), None, None


# -- public functions ----------------------------------------------------------------------------------------------
def _axes(sp: SparseTensor, axis: Any, old: Any = None) -> Any:
    axis = renamed("axis", axis, "reduction_axes", old)
    if axis is not None:
        return axis
    rank = sp.dense_shape.shape.static_dims
    if rank is not None and rank[0] is not None:
        return convert(np.arange(rank[0], dtype=np.int32))
    return tf.range(0, tf.rank(sp), 1)


def _reduce(definition: OpDef, sp_input: Any, axis: Any, old_axis: Any, keepdims: Any, keep_dims: Any = None,
            name: str | None = None) -> Any:
    sp = as_sparse(sp_input)
    keep = renamed("keepdims", keepdims, "keep_dims", keep_dims)
    out = definition(*parts_of(sp), _axes(sp, axis, old_axis), keep_dims=bool(keep), name=name)
    return SparseTensor(*out) if isinstance(out, tuple) else out


@export(v1=["sparse.reduce_max", "sparse_reduce_max"])
def sparse_reduce_max(sp_input: Any, axis: Any = None, keepdims: Any = None, reduction_axes: Any = None,
                      keep_dims: Any = None) -> Any:
    """The largest elements along `axis` (all axes by default), dense; 0 where there are none."""
    return _reduce(max_op, sp_input, axis, reduction_axes, keepdims, keep_dims)


@export(v1=["sparse.reduce_max_sparse", "sparse_reduce_max_sparse"])
def sparse_reduce_max_sparse(sp_input: Any, axis: Any = None, keepdims: Any = None, reduction_axes: Any = None,
                             keep_dims: Any = None) -> SparseTensor:
    """The largest elements along `axis` (all axes by default), sparse."""
    return _reduce(max_sparse_op, sp_input, axis, reduction_axes, keepdims, keep_dims)


@export(v2=["sparse.reduce_max"])
def sparse_reduce_max_v2(sp_input: Any, axis: Any = None, keepdims: Any = None, output_is_sparse: bool = False,
                         name: str | None = None) -> Any:
    """The largest elements along `axis` (all axes by default); 0 where there are none.

    >>> tf.sparse.reduce_max(tf.sparse.eye(2), axis=1)     # [1., 1.]
    """
    return _reduce(max_sparse_op if output_is_sparse else max_op, sp_input, axis, None, keepdims, name=name)


@export(v1=["sparse.reduce_sum", "sparse_reduce_sum"])
def sparse_reduce_sum(sp_input: Any, axis: Any = None, keepdims: Any = None, reduction_axes: Any = None,
                      keep_dims: Any = None) -> Any:
    """The sums of the elements along `axis` (all axes by default), dense."""
    return _reduce(sum_op, sp_input, axis, reduction_axes, keepdims, keep_dims)


@export(v1=["sparse.reduce_sum_sparse", "sparse_reduce_sum_sparse"])
def sparse_reduce_sum_sparse(sp_input: Any, axis: Any = None, keepdims: Any = None, reduction_axes: Any = None,
                             keep_dims: Any = None) -> SparseTensor:
    """The sums of the elements along `axis` (all axes by default), sparse."""
    return _reduce(sum_sparse_op, sp_input, axis, reduction_axes, keepdims, keep_dims)


@export(v2=["sparse.reduce_sum"])
def sparse_reduce_sum_v2(sp_input: Any, axis: Any = None, keepdims: Any = None, output_is_sparse: bool = False,
                         name: str | None = None) -> Any:
    """The sums of the elements along `axis` (all axes by default).

    >>> tf.sparse.reduce_sum(tf.sparse.eye(3))     # 3.
    """
    return _reduce(sum_sparse_op if output_is_sparse else sum_op, sp_input, axis, None, keepdims, name=name)
