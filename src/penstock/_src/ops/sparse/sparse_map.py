"""A map that stores sparse tensors between steps under int64 handles, so that they can be enqueued."""
from __future__ import annotations

import threading
from typing import Any

import torch

from penstock._src.base import dtypes, errors
from penstock._src.base.static_shape import rank_is
from penstock._src.graph.node import Operation, Tensor
from penstock._src.graph.sparse_tensor import SparseTensor
from penstock._src.kernels import arrays, sparse
from penstock._src.ops.registry import op
from penstock._src.ops.sparse.sparse_layout import as_sparse, check_ranks, parts_of
from penstock._src.ops.sparse.sparse_serialize import of_rank
from penstock.compat import v1 as tf


class SparseTensorsMap:
    """Sparse tensors by handle; each is taken out once."""

    def __init__(self, name: str) -> None:
        self._name, self._next = name, 0
        self._lock = threading.Lock()
        self._items: dict[int, tuple] = {}

    def add(self, items: list[tuple]) -> list[int]:
        """Keeps (indices, values, sizes, dtype) and returns their handles."""
        with self._lock:
            handles = list(range(self._next, self._next + len(items)))
            self._next += len(items)
            self._items.update(zip(handles, items, strict=True))
        return handles

    def take(self, handles: list[int]) -> list[tuple]:
        """Removes and returns the tensors of handles; none if one of them does not exist."""
        with self._lock:
            for h in handles:
                if h not in self._items:
                    raise errors.invalid(f"Unable to find SparseTensor: {h} in map: {self._name}")
            if len(set(handles)) != len(handles):
                raise errors.invalid(f"A SparseTensor can be taken from map {self._name} only once, but the handles repeat")
            return [self._items.pop(h) for h in handles]


def _map(ctx: Any, container: str, name: str) -> SparseTensorsMap:
    return ctx.resources.get_or_create(container, name, SparseTensorsMap, lambda: SparseTensorsMap(name))


_PARTS = "sparse_indices: int64, sparse_values: T, sparse_shape: int64"
_NAMES = "container: string = '', shared_name: string = ''"
add_op = op("AddSparseToTensorsMap", f"{_PARTS} -> sparse_handle: int64", f"T: type, {_NAMES}", stateful=True).no_gradient()
add_many_op = op("AddManySparseToTensorsMap", f"{_PARTS} -> sparse_handles: int64", f"T: type, {_NAMES}",
                 stateful=True).no_gradient()
take_op = op("TakeManySparseFromTensorsMap", "sparse_handles: int64 -> sparse_indices: int64, sparse_values: dtype, "
                                             "sparse_shape: int64", f"dtype: type, {_NAMES}", stateful=True).no_gradient()


@add_op.shape
def _add_shape(sparse_indices, sparse_values, sparse_shape):
    check_ranks(sparse_indices, sparse_values, sparse_shape)
    return ()


@add_many_op.shape
def _add_many_shape(sparse_indices, sparse_values, sparse_shape):
    check_ranks(sparse_indices, sparse_values, sparse_shape)
    return (None,)


@take_op.shape
def _take_shape(sparse_handles):
    rank_is(sparse_handles, 1)
    return [(None, None), (None,), (None,)]


@add_op.kernel
def _add_kernel(sparse_indices, sparse_values, sparse_shape, *, T, container, shared_name, ctx, node):
    dims = sparse.check(sparse_indices, sparse_values, sparse_shape)
    handle, = _map(ctx, container, shared_name or node.name).add([(sparse_indices, sparse_values, dims, T)])
    return torch.tensor(handle, dtype=torch.int64)


@add_many_op.kernel
def _add_many_kernel(sparse_indices, sparse_values, sparse_shape, *, T, container, shared_name, ctx, node):
    dims = sparse.check(sparse_indices, sparse_values, sparse_shape)
    rows = [(i, v, dims[1:], T) for i, v in sparse.unbatch(sparse_indices, sparse_values, dims)]
    return torch.tensor(_map(ctx, container, shared_name or node.name).add(rows), dtype=torch.int64)


@take_op.kernel
def _take_kernel(sparse_handles, *, dtype, container, shared_name, ctx, node):
    if sparse_handles.dim() != 1:
        raise errors.invalid(f"sparse_handles should be a vector but received shape {arrays.show(sparse_handles.shape)}")
    if not sparse_handles.numel():
        raise errors.invalid("Must have at least 1 serialized SparseTensor, but input matrix has 0 rows")
    taken = _map(ctx, container, shared_name or node.name).take(sparse_handles.tolist())
    rank = len(taken[0][2])
    for i, (_, _, dims, kind) in enumerate(taken):
        if kind != dtype:
            raise errors.invalid(f"Requested SparseTensor of type {dtypes.runtime_name(dtype)} but SparseTensor[{i}]."
                                 f"values.dtype() == {dtypes.runtime_name(kind)}")
        if len(dims) != rank:
            raise errors.invalid(f"Inconsistent rank across SparseTensors: rank prior to SparseTensor[{i}] was: "
                                 f"{rank + 1} but rank of SparseTensor[{i}] is: {len(dims) + 1}")
    indices, values, dims = sparse.batch([t[:3] for t in taken], [len(taken)])
    return indices, values, sparse.vector(dims, indices)


def add_sparse_to_tensors_map(sp_input: Any, container: str | None = None, shared_name: str | None = None,
                              name: str | None = None) -> Tensor:
    """Keeps a sparse tensor; returns its handle."""
    return add_op(*parts_of(as_sparse(sp_input)), container=container, shared_name=shared_name, name=name)


def add_many_sparse_to_tensors_map(sp_input: Any, container: str | None = None, shared_name: str | None = None,
                                   name: str | None = None) -> Tensor:
    """Keeps each row of a sparse tensor; returns their handles."""
    return add_many_op(*parts_of(as_sparse(sp_input)), container=container, shared_name=shared_name, name=name)


def take_many_sparse_from_tensors_map(sparse_map_op: Any, sparse_handles: Any, rank: int | None = None,
                                      name: str | None = None) -> SparseTensor:
    """The sparse tensors that `sparse_map_op` kept, as one with an axis more."""
    if not isinstance(sparse_map_op, Operation):
        raise TypeError("sparse_map_op must be an operation")
    if sparse_map_op.type not in (add_op.name, add_many_op.name):
        raise TypeError(f"sparse_map_op must be one of {add_op.name} or {add_many_op.name}. Instead, found "
                        f"`{sparse_map_op.type}`.")
    attrs = sparse_map_op.attrs
    with tf.colocate_with(sparse_map_op):
        out = take_op(sparse_handles, dtype=attrs["T"], container=attrs["container"],
                      shared_name=attrs["shared_name"] or sparse_map_op.name, name=name)
    return of_rank(out, rank)
