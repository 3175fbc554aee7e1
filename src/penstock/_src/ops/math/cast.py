"""Changing the element type: Cast, and the functions around it."""
from __future__ import annotations

from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors
from penstock._src.base.api import export, with_sections
from penstock._src.graph.convert import convert
from penstock._src.graph.indexed_slices import IndexedSlices
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.ops import rules
from penstock._src.ops.composite import dispatched
from penstock._src.ops.registry import get, op

cast_op = op("Cast", "x: SrcT -> y: DstT", "SrcT: type, DstT: type, Truncate: bool = False")
rules.batching.elementwise.add(cast_op)
rules.algebra.forwards[cast_op] = lambda attrs: attrs["SrcT"] == attrs["DstT"]
rules.pointwise.instruction[cast_op] = "COPY"              # of a boolean: there it is 1 or 0
rules.regions.each[cast_op] = "CONVERT"
rules.numbers.inputs[cast_op] = frozenset(["x"])
cast_op.shape(lambda x: x)
rules.memory.cheap.add(cast_op)


@rules.fusion.fuse(cast_op)
def _cast_before_reshape(op, f):
    """On a GPU, a cast of what an op computes moves before a reshape, so that it is joined with that op."""
    made = None if f.on_host(op) else f.only(op.inputs[0], op)
    if made is None or made.opdef not in rules.arithmetic.takes_shape or not rules.is_pointwise(f.source(made.inputs[0]).op):
        return None
    x = f.source(made.inputs[0])
    moved = f.make("Cast", [x], op.attrs, op, outputs=[f.result(op.outputs[0].dtype, x.static_dims)])
    return f.make(made.type, [f.add(moved)[0], *made.inputs[1:]], {**made.attrs, "T": op.attrs["DstT"]}, op)


_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@cast_op.kernel
def _cast_kernel(x, *, DstT, Truncate):
    wanted = DstT.torch
    if wanted is None:
        raise TypeError(f"cannot cast to {DstT.name}")
    if type(x) is int or type(x) is bool:           # a number of a program (step/compile/numbers.py)
        return torch.scalar_tensor(x, dtype=wanted if wanted in _FLOATS else torch.int64).to(wanted)
    if isinstance(x, np.ndarray):
        raise errors.UnimplementedError(None, None, f"Cast string to {DstT.name} is not supported. Use tf.strings.to_number.")
    if x.is_complex() and not wanted.is_complex:
        x = x.real
    if x.dtype in _FLOATS and wanted in _SMALL:
        # as C++ compilers do: convert to a wide integer and keep the low bits
        return x.to(torch.int64).to(wanted)
    if Truncate and x.dtype in _FLOATS and wanted in (torch.bfloat16, torch.float16):
        return _truncated(x, wanted)
    return x.to(wanted)


_SMALL = (torch.int8, torch.int16, torch.uint8, torch.uint16, torch.uint32)


def _truncated(x: torch.Tensor, wanted: torch.dtype) -> torch.Tensor:
    """Rounds towards zero instead of to the nearest."""
    near = x.to(wanted)
    too_far = near.to(x.dtype).abs() > x.abs()
    return torch.where(too_far, torch.nextafter(near, torch.zeros_like(near)), near)


@cast_op.gradient
def _cast_gradient(op, grad):
    kinds = (op.inputs[0].dtype.base_dtype, grad.dtype.base_dtype)
    if all(d.is_floating or d.is_complex for d in kinds):
        return cast_op(grad, DstT=kinds[0])
    return None


@cast_op.value
def _cast_value(op, values):
    return values(0) if op.attrs["SrcT"].is_integer and op.attrs["DstT"].is_integer else None


@export("cast", "dtypes.cast")
@dispatched
def cast(x: Any, dtype: Any, name: str | None = None) -> Any:
    """`x` with elements of type `dtype`.

    Args:
        x: Tensor, SparseTensor or IndexedSlices.
        dtype: New element type.
        name: Name of the operation.

    Returns:
        A tensor of the shape of `x`. Floats are truncated to integers; complex numbers lose their imaginary part.

    >>> tf.cast([1.8, 2.2], tf.int32).numpy()
    array([1, 2], dtype=int32)
    """
    wanted = dtypes.as_dtype(dtype).base_dtype
    if isinstance(x, Tensor) and x.dtype == wanted:
        return x
    with name_scope(name, "Cast", [x]) as scope:
        if isinstance(x, IndexedSlices):
            return IndexedSlices(cast(x.values, wanted, scope), x.indices, x.dense_shape)
        x = convert(x, name="x")
        return x if x.dtype.base_dtype == wanted and not x.dtype._is_ref_dtype else cast_op(x, DstT=wanted, name=scope)


@export("saturate_cast", "dtypes.saturate_cast")
@dispatched
def saturate_cast(value: Any, dtype: Any, name: str | None = None) -> Tensor:
    """`value` cast to `dtype`; values out of range are clamped to the limits of the type.

    Args:
        value: Tensor.
        dtype: The new element type; values outside its range become its ends.
        name: Name of the operation.

    Returns:
        Tensor of that type.

    >>> tf.saturate_cast([300, -5], tf.uint8).numpy().tolist()
    [255, 0]
    """
    with name_scope(name, "saturate_cast", [value]) as scope:
        value = convert(value, name="value")
        wanted = dtypes.as_dtype(dtype).base_dtype
        if wanted.is_complex:
            return _saturated_complex(value, wanted, scope)
        if value.dtype.is_complex:
            value = get("Real")(value, Tout=value.dtype.real_dtype)
        if value.dtype.min < wanted.min:
            value = get("Maximum")(value, convert(_inside(wanted.min, value.dtype, False), value.dtype.base_dtype, "min"))
        if value.dtype.max > wanted.max:
            value = get("Minimum")(value, convert(_inside(wanted.max, value.dtype, True), value.dtype.base_dtype, "max"))
        return cast(value, wanted, name=scope)


def _saturated_complex(value: Tensor, dtype: Any, name: str) -> Tensor:
    """A complex result has both parts in range."""
    if not value.dtype.is_complex:
        return cast(saturate_cast(value, dtype.real_dtype), dtype, name=name)
    parts = [saturate_cast(get(part)(value, Tout=value.dtype.real_dtype), dtype.real_dtype) for part in ("Real", "Imag")]
    return get("Complex")(*parts, Tout=dtype, name=name)


def _inside(limit: Any, dtype: Any, upper: bool) -> Any:
    """The number of type `dtype` nearest to an integer limit that does not pass it."""
    if not dtype.is_floating:
        return int(limit)
    near = np.asarray(limit).astype(dtype.as_numpy_dtype)
    if np.issubdtype(np.asarray(limit).dtype, np.integer):
        passed = int(near) > int(limit) if upper else int(near) < int(limit)
        if passed:
            near = np.nextafter(near, np.zeros_like(near))
    return near


def _to(name: str, dtype: Any, default: str) -> None:
    def function(x: Any, name: str = default) -> Any:
        return cast(x, dtype, name=name)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = with_sections(
        f"Casts to {dtype.name}.\n\n>>> tf.compat.v1.{name}([1, 2]).dtype\ntf.{dtype.name}",
        "Args:\n    x: Tensor, or SparseTensor, or IndexedSlices.\n    name: Name of the op.\n\n"
        f"Returns:\n    A tensor of type {dtype.name} and the shape of `x`.")
    export.value(function, v1=[name])


for _name, _dtype, _default in (
        ("to_float", dtypes.float32, "ToFloat"), ("to_double", dtypes.float64, "ToDouble"),
        ("to_int32", dtypes.int32, "ToInt32"), ("to_int64", dtypes.int64, "ToInt64"),
        ("to_bfloat16", dtypes.bfloat16, "ToBFloat16"), ("to_complex64", dtypes.complex64, "ToComplex64"),
        ("to_complex128", dtypes.complex128, "ToComplex128")):
    _to(_name, _dtype, _default)
