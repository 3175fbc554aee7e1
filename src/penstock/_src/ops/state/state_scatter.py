"""Updates of parts of variables: rows (scatter), coordinates (scatter_nd) and slices, for references and resources.

Every family is declared twice, as TensorFlow has it: on a reference, which it returns, and on a resource handle.
"""
from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors, tracing
from penstock._src.base.static_shape import Dims, bracketed, compatible, show
from penstock._src.graph.handles import handle_dims
from penstock._src.kernels import arrays, device_rows, indexing, strided
from penstock._src.kernels.strided import MASK_NAMES, MASKS
from penstock._src.ops import rules
from penstock._src.ops.registry import OpDef, get, internal, op
from penstock._src.ops.state.state import VariableResource, variable_of

_NUMERIC = "in {numeric quantized}"
_ORDERED = "in {half bfloat16 float32 float64 int32 int64}"


# -- rows -------------------------------------------------------------------------------------------------------------
def _scatter_rows(resource: VariableResource, indices: torch.Tensor, updates: Any, how: str) -> None:
    """ref[indices] = or += or … updates, where updates may be one scalar for all rows."""
    with variable_of(resource).lock:
        dims = arrays.dims_of(resource.read())
        if not dims:
            raise errors.invalid("params must be at least 1-D, got shape []")
        wanted, found = tuple(indices.shape) + dims[1:], arrays.dims_of(updates)
        if found and found != wanted:
            raise errors.invalid("Must have updates.shape = indices.shape + params.shape[1:] or updates.shape = [], got "
                                 f"updates.shape {arrays.show(found)}, indices.shape {arrays.show(indices.shape)}, "
                                 f"params.shape {arrays.show(dims)}")
        if how == "add" and found and indices.is_cuda and device_rows.add(resource.writable(), updates, indices):
            return
        if (indices.is_cuda or tracing.lowering()) and how in ("add", "sub") and found and 0 not in dims:
            indices, updates = indexing.added(indices, dims[0], updates)
        else:
            indexing.check(indices, dims[0])
        if how == "add" and found and indices.ndim == 1 and resource.dtype in _ADDED_AT_ONCE:
            resource.writable().index_add_(0, indices, updates)
            return
        flat = indices.reshape(-1).long()
        rows = arrays.expand(updates, wanted).reshape((flat.numel(), *dims[1:]))
        if flat.numel():
            _write(resource.writable(), flat, rows, how)


_ADDED_AT_ONCE = (dtypes.float32, dtypes.float64)


def _write(table: Any, flat: torch.Tensor, rows: Any, how: str) -> None:
    if how in ("mul", "div"):
        _multiply(table, flat, rows, how)
    elif how in ("min", "max"):
        width = rows[0].numel()
        indexing.write_rows(table.view(table.shape[0], width), flat, rows.reshape(-1, width), how)
    elif how == "update" or not _rounds_between(rows):
        indexing.write_rows(table, flat, rows, how)
    else:
        _add_in_turn(table, flat, rows, how)


def _rounds_between(rows: Any) -> bool:
    """Whether rounding after each addition changes sums of repeated rows."""
    return isinstance(rows, torch.Tensor) and rows.dtype in (torch.float16, torch.bfloat16)


def _add_in_turn(table: torch.Tensor, flat: torch.Tensor, rows: torch.Tensor, how: str) -> None:
    """Adds rows in sequence, rounding each time, as TensorFlow does."""
    for group in rounds(flat):
        indexing.write_rows(table, flat[group], rows[group], how)


def _multiply(table: torch.Tensor, flat: torch.Tensor, rows: torch.Tensor, how: str) -> None:
    """Each row times, or divided by, the product of its updates."""
    unique, where = torch.unique(flat, return_inverse=True)
    if unique.numel() != flat.numel():
        product = torch.ones((unique.numel(), *rows.shape[1:]), dtype=rows.dtype, device=rows.device)
        for group in rounds(flat):
            product[where[group]] *= rows[group]
        rows = product
    else:
        rows = rows[torch.argsort(where)]
    old = table.index_select(0, unique)
    if how == "mul":
        new = old * rows
    elif rows.is_floating_point() or rows.is_complex():
        new = old / rows
    else:
        if bool((rows == 0).any()):
            raise errors.invalid("Integer division by zero")
        new = torch.div(old, rows, rounding_mode="trunc")
    table.index_copy_(0, unique, new)


def rounds(indices: torch.Tensor) -> Any:
    """Positions of a vector of indices in groups without duplicates, in order: usually one group of all.

    Applying an update group by group is equivalent to applying it index by index.
    """
    if indices.is_cpu:                          # numpy sorts plain numbers several times faster
        alone = np.sort(indices.numpy())
        if not (alone[1:] == alone[:-1]).any():
            yield slice(None)
            return
    order = torch.argsort(indices, stable=True)
    ordered = indices[order]
    begins = torch.ones_like(indices, dtype=torch.bool)
    begins[1:] = ordered[1:] != ordered[:-1]
    if bool(begins.all()):
        yield slice(None)
        return
    places = torch.arange(indices.numel(), device=indices.device)
    first = torch.cummax(torch.where(begins, places, torch.zeros_like(places)), 0).values
    occurrence = torch.empty_like(places)
    occurrence[order] = places - first
    for i in range(int(occurrence.max()) + 1):
        yield (occurrence == i).nonzero().reshape(-1)


def _check_rows(dims: Dims, indices: Dims, updates: Dims) -> None:
    """ValueError if updates cannot be one row per index, or a scalar."""
    if dims is not None and not dims:
        raise ValueError("Shape must be at least rank 1 but is rank 0")
    if dims is None or indices is None or updates is None or not updates:
        return
    if not compatible(updates, indices + dims[1:]):
        raise ValueError(f"Must have updates.shape = indices.shape + params.shape[1:] or updates.shape = [], got updates "
                         f"{show(updates)}, indices {show(indices)}, params {show(dims)}: Shapes must be equal")


def _declare(name: str, types: str, resource_types: str, locking: bool, apply: Callable, check: Callable,
             arg: str, attr: str) -> tuple[OpDef, OpDef]:
    """The two forms of an update: `apply(resource, indices, updates)` does it, `check` is the shape rule's part."""
    use_locking = f", use_locking: bool = {locking}"
    on_ref = op(name, "ref: Ref(T), indices: Tindices, updates: T -> output_ref: Ref(T)",
                f"T: type {types}, Tindices: type in {{index}}{use_locking}", foldable=False).no_gradient()
    on_resource = op(f"Resource{name}", f"{arg}: resource, indices: Tindices, updates: {attr} ->",
                     f"{attr}: type {resource_types}, Tindices: type in {{index}}"
                     + (", use_locking: bool = True" if arg == "ref" else ""), stateful=True).no_gradient()

    @on_ref.shape
    def _on_ref_shape(ref, indices, updates):
        check(ref, indices, updates)
        return ref

    @on_ref.kernel
    def _on_ref_kernel(ref, indices, updates):
        apply(ref, indices, updates)
        return ref

    @on_resource.shape
    def _on_resource_shape(resource, indices, updates, *, c):
        check(handle_dims(c.input(arg)), indices, updates)
        return []

    on_resource.kernel(apply)
    return on_ref, on_resource


def _rows_family(title: str, types: str, resource_types: str, locking: bool = False) -> None:
    how = title.lower()
    made = _declare(f"Scatter{title}", types, resource_types, locking,
                    lambda resource, indices, updates: _scatter_rows(resource, indices, updates, how), _check_rows,
                    "resource", "dtype")
    if how in ("add", "sub"):
        rules.rows.skips.update({o: rules.Skipping(1, rows_of_variable) for o in made})


def rows_of_variable(op: Any) -> int | None:
    """How many rows the variable has that is the first input of an op of a step; None if that is unknown."""
    first = op.inputs[0]
    if first.dtype._is_ref_dtype:
        dims = first.static_dims
    else:
        dims = None if op.origin is None else handle_dims(op.origin.inputs[0])
    return dims[0] if dims else None


def _add_scaled_rows() -> None:
    """Rows that are subtracted after a multiplication by a number, as gradient descent does, are multiplied and added: a pass
    over them less, with the same result."""
    for name, state, out, flags in (("ScatterSub", "Ref(T)", "out: Ref(T)", {"foldable": False}),
                                    ("ResourceScatterSub", "resource", "", {"stateful": True})):
        made = internal(f"_{name}Scaled", f"ref: {state}, indices: Tindices, updates: T, factor: T -> {out}",
                        "T: type in {float32 float64}, Tindices: type in {index}", **flags)
        kernel = _subtract_scaled if out else _subtract_scaled_from_resource
        made.kernel(kernel)
        rules.program.prepare[made] = functools.partial(_by_a_number, kernel=kernel)
        rules.fusion.fuse[get(name)] = functools.partial(_fuse_factor, into=made.name)


def _subtract_scaled(ref: Any, indices: Any, updates: Any, factor: Any) -> Any:
    _scatter_rows(ref, indices, updates * -factor, "add")
    return ref


def _subtract_scaled_from_resource(ref: Any, indices: Any, updates: Any, factor: Any) -> None:
    _scatter_rows(ref, indices, updates * -factor, "add")


def _by_a_number(known: Any, *, kernel: Callable) -> Callable | None:
    factor = known.const(3)
    if factor is None:
        return None
    number = factor.item()
    return lambda ref, indices, updates, factor: kernel(ref, indices, updates, number)


def _fuse_factor(op: Any, f: Any, *, into: str) -> Any:
    ref, indices, updates = op.inputs
    product = f.only(updates, op)
    if product is None or product.opdef not in rules.algebra.multiplies or \
            updates.dtype.base_dtype not in (dtypes.float32, dtypes.float64):
        return None
    rows, factor = product.inputs
    if factor.static_dims != ():
        rows, factor = factor, rows
    if factor.static_dims != () or rows.static_dims is None or not rows.static_dims:
        return None
    attrs = {"T": updates.dtype.base_dtype, "Tindices": op.attrs["Tindices"]}
    return f.make(into, [ref, indices, rows, factor], attrs, op)


_rows_family("Update", "", "", locking=True)
for _title in ("Add", "Sub", "Mul", "Div"):
    _rows_family(_title, _NUMERIC, _NUMERIC)
for _title in ("Min", "Max"):
    _rows_family(_title, _ORDERED, _NUMERIC)
_add_scaled_rows()


# -- coordinates ------------------------------------------------------------------------------------------------------
def _scatter_nd(resource: VariableResource, indices: torch.Tensor, updates: Any, how: str) -> None:
    with variable_of(resource).lock:
        dims = arrays.dims_of(resource.read())
        if not dims:
            raise errors.invalid("Output must be at least 1-D, got shape: []")
        indexing.check_scatter_nd(indices, updates, dims)
        if how not in ("add", "sub") or not _rounds_between(updates):
            indexing.scatter_nd(resource.writable(), indices, updates, how)
            return
        flat, width = indexing.flat_rows(indices, dims, "shape"), math.prod(dims[indices.shape[-1]:])
        _add_in_turn(resource.writable().view(-1, width), flat, updates.reshape(-1, width), how)


def _check_nd(dims: Dims, indices: Dims, updates: Dims) -> None:
    if indices is not None and not indices:
        raise ValueError("Shape must be at least rank 1 but is rank 0")
    if not dims or indices is None or updates is None or indices[-1] is None:
        return
    depth, lead = indices[-1], len(indices) - 1
    if depth > len(dims):
        raise ValueError(f"The inner {depth} dimensions of indices {show(indices)} are more than the rank of the "
                         f"variable {show(dims)}")
    if not compatible(indices[:-1], updates[:lead]):
        raise ValueError(f"Dimensions [0,{lead}) of indices[shape={bracketed(indices)}] must match dimensions [0,{lead}) of "
                         f"updates[shape={bracketed(updates)}]: Shapes must be equal")
    if not compatible(dims[depth:], updates[lead:]):
        raise ValueError(f"Dimensions [{depth},{len(dims)}) of input[shape={bracketed(dims)}] must match dimensions [{lead},"
                         f"{len(updates)}) of updates[shape={bracketed(updates)}]: Shapes must be equal")


def _nd_family(title: str, types: str, locking: bool = False) -> None:
    how = title.lower()
    _declare(f"ScatterNd{title}", types, "", locking,
             lambda resource, indices, updates: _scatter_nd(resource, indices, updates, how), _check_nd, "ref", "T")


_nd_family("Update", "", locking=True)
_nd_family("Add", _NUMERIC)
_nd_family("Sub", _NUMERIC)
_nd_family("Max", _NUMERIC)
_nd_family("Min", _NUMERIC)


# -- slices -----------------------------------------------------------------------------------------------------------
_BOUNDS = "begin: Index, end: Index, strides: Index, value: T"
_SLICE_ATTRS = f"T: type, Index: type in {{index}}, {MASKS}"
strided_slice_assign = op("StridedSliceAssign", f"ref: Ref(T), {_BOUNDS} -> output_ref: Ref(T)", _SLICE_ATTRS,
                          foldable=False).no_gradient()
strided_slice_assign.shape(lambda ref, begin, end, strides, value: ref)
resource_strided_slice_assign = op("ResourceStridedSliceAssign", f"ref: resource, {_BOUNDS} ->", _SLICE_ATTRS,
                                   stateful=True).no_gradient()


def _assign_slice(resource: VariableResource, begin: Any, end: Any, strides: Any, value: Any, masks: tuple) -> None:
    named = dict(zip(MASK_NAMES, masks, strict=True))
    with variable_of(resource).lock:
        held = resource.writable()
        if isinstance(held, np.ndarray) and not isinstance(value, np.ndarray):
            raise errors.invalid("a slice of strings can only be set to strings")
        strided.write(held, begin, end, strides, value, **named)


@strided_slice_assign.kernel
def _strided_slice_assign_kernel(ref, begin, end, strides, value, *, begin_mask, end_mask, ellipsis_mask, new_axis_mask,
                                 shrink_axis_mask):
    _assign_slice(ref, begin, end, strides, value,
                  (begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask))
    return ref


@resource_strided_slice_assign.kernel
def _resource_strided_slice_assign_kernel(ref, begin, end, strides, value, *, begin_mask, end_mask, ellipsis_mask,
                                          new_axis_mask, shrink_axis_mask):
    _assign_slice(ref, begin, end, strides, value,
                  (begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask))
