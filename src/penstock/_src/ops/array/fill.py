"""Tensors of one value: fill, zeros, ones, and those with the shape of another tensor."""
from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape, rank_is
from penstock._src.graph import context
from penstock._src.graph.convert import constant, convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.kernels import arrays
from penstock._src.ops import rules
from penstock._src.ops.array.array import known, reshape_op, shape_internal
from penstock._src.ops.composite import dispatched
from penstock._src.ops.registry import get, op

_SMALL = 1000          # elements up to which zeros and ones of a static shape are a constant of the graph

fill_op = op("Fill", "dims: index_type, value: T -> output: T", "T: type, index_type: type in {index} = int32")


@rules.batching.rule(fill_op)
def _fill_batching(op, rows, dims, value):
    if dims.stacked or op.outputs[0].static_dims is None:
        return None
    return [get("BroadcastTo")(rows.widened(value, len(op.outputs[0].static_dims)), rows.shape(dims.tensor))]

rules.arithmetic.repeats[fill_op] = 1


@fill_op.shape
def _fill_shape(dims, value, *, c):
    rank_is(dims, 1)
    rank_is(value, 0)
    given = c.const("dims")
    if given is not None and (given < 0).any():
        raise ValueError(f"Fill dims must be >= 0: {given.tolist()}")
    return c.dims("dims")


@fill_op.kernel
def _fill_kernel(dims, value):
    if dims.dim() > 1:
        raise errors.invalid(f"dims must be a vector, got shape {arrays.show(dims.shape)}")
    if math.prod(arrays.dims_of(value)) != 1 or len(arrays.dims_of(value)) > 1:
        raise errors.invalid(f"value must be a scalar, got shape {arrays.show(arrays.dims_of(value))}")
    sizes = arrays.checked_dims(dims.reshape(-1), "Fill dims")
    value = value.reshape(()) if arrays.dims_of(value) else value
    if isinstance(value, torch.Tensor):
        return torch.empty(sizes, dtype=value.dtype, device=value.device).copy_(value)
    out = np.empty(sizes, dtype=object)
    out.fill(arrays.boxed(value)[()])
    return out


fill_op.gradient(lambda op, grad: (None, get("Sum")(grad, get("Range")(0, get("Rank")(grad), 1))))


@export("fill")
@dispatched
def fill(dims: Any, value: Any, name: str | None = None) -> Tensor:
    """A tensor of shape `dims` filled with `value`.

    Args:
        dims: Sizes: an integer vector.
        value: Scalar.
        name: Name of the operation.

    Returns:
        A tensor of the type of `value`.

    >>> tf.fill([2, 2], 9).numpy()
    array([[9, 9],
           [9, 9]], dtype=int32)
    """
    return fill_op(dims, value, name=name)


zeros_like_op = op("ZerosLike", "x: T -> y: T", "T: type").no_gradient()
zeros_like_op.shape(lambda x: x)


@zeros_like_op.kernel
def _zeros_like_kernel(x):
    if hasattr(x, "zeros_like"):                      # variants that know their own zero
        return x.zeros_like()
    return arrays.zeros(arrays.dims_of(x), x)


ones_like_op = op("OnesLike", "x: T -> y: T",
                  "T: type in {bfloat16 half float32 float64 int8 uint8 int16 uint16 int32 int64 complex64 complex128 "
                  "bool uint32 uint64}").no_gradient()
rules.batching.elementwise.update((zeros_like_op, ones_like_op))
ones_like_op.shape(lambda x: x)
ones_like_op.kernel(lambda x: torch.ones(x.shape, dtype=x.dtype, device=x.device))
rules.folding.fills.update({zeros_like_op: 0, ones_like_op: 1})

empty_op = op("Empty", "shape: int32 -> output: dtype", "dtype: type, init: bool = False", stateful=True).no_gradient()
empty_op.shape(lambda shape, *, c: c.dims("shape"))


@empty_op.kernel
def _empty_kernel(shape, *, dtype):
    sizes = arrays.checked_dims(shape)
    return np.full(sizes, b"", dtype=object) if dtype.torch is None else torch.zeros(sizes, dtype=dtype.torch)


def _filled(value: int, shape: Any, dtype: Any, name: str | None, default: str) -> Tensor:
    """A constant when the shape is static and small, a Fill otherwise."""
    dtype = dtypes.as_dtype(dtype).base_dtype
    one: Any = bool(value) if dtype == dtypes.bool else "" if dtype == dtypes.string else value
    with name_scope(name, default, [shape]) as scope:
        if not isinstance(shape, Tensor):
            dims = _static(shape)
            if dims is not None:
                if math.prod(dims) < _SMALL and not context.executing_eagerly():
                    return constant(one, dtype, shape=list(dims), name=scope)
                shape = dtypes.integers(dims)
        shape = convert(shape) if isinstance(shape, Tensor) else convert(shape, _index_type(shape))
        if shape.static_dims is not None and len(shape.static_dims) != 1:
            shape = reshape_op(shape, [-1])
        return fill_op(shape, constant(one, dtype), name=scope)


def _index_type(shape: Any) -> Any:
    return None if hasattr(shape, "dtype") else dtypes.int32


def _static(shape: Any) -> tuple | None:
    """A shape given as ints; None if tensors are among them."""
    if isinstance(shape, TensorShape) or shape is None:
        if shape is None or not known(shape.static_dims):
            raise ValueError(f"Cannot convert a partially known TensorShape to a Tensor: {shape}")
        return shape.static_dims
    if isinstance(shape, (list, tuple)) and any(isinstance(d, Tensor) or hasattr(d, "_is_tensor_like") for d in shape):
        return None
    try:
        dims = TensorShape(np.asarray(shape).reshape(-1).tolist() if isinstance(shape, np.ndarray) else shape).static_dims
    except (TypeError, ValueError):
        return None
    return dims if known(dims) else None


@export("zeros")
@dispatched
def zeros(shape: Any, dtype: Any = dtypes.float32, name: str | None = None) -> Tensor:
    """A tensor of zeros (False, empty strings).

    Args:
        shape: Sizes: a list or an integer vector.
        dtype: Element type.
        name: Name of the operation.

    Returns:
        A tensor.

    >>> tf.zeros([2, 3], tf.int32).numpy()
    array([[0, 0, 0],
           [0, 0, 0]], dtype=int32)
    """
    return _filled(0, shape, dtype, name, "zeros")


@export("ones")
@dispatched
def ones(shape: Any, dtype: Any = dtypes.float32, name: str | None = None) -> Tensor:
    """A tensor of ones (True).

    Args:
        shape: Sizes: a list or an integer vector.
        dtype: Element type.
        name: Name of the operation.

    Returns:
        A tensor.

    >>> tf.ones([2, 3], tf.int32).numpy()
    array([[1, 1, 1],
           [1, 1, 1]], dtype=int32)
    """
    return _filled(1, shape, dtype, name, "ones")


def _zeros_like(tensor: Any, dtype: Any, name: str | None, optimize: bool) -> Tensor:
    with name_scope(name, "zeros_like", [tensor]) as scope:
        tensor = convert(tensor, name="tensor")
        dtype = tensor.dtype.base_dtype if dtype is None else dtypes.as_dtype(dtype).base_dtype
        eager = context.executing_eagerly()
        if not eager and optimize and known(tensor.static_dims) and dtype not in (dtypes.variant, dtypes.resource):
            return zeros(tensor.static_dims, dtype, scope)
        if dtype != tensor.dtype.base_dtype and dtype != dtypes.variant:
            return zeros(shape_internal(tensor, optimize=optimize), dtype, scope)
        return zeros_like_op(tensor, name=scope)


def _ones_like(tensor: Any, dtype: Any, name: str | None, optimize: bool) -> Tensor:
    with name_scope(name, "ones_like", [tensor]) as scope:
        tensor = convert(tensor, name="tensor")
        dtype = tensor.dtype.base_dtype if dtype is None else dtypes.as_dtype(dtype).base_dtype
        out = ones(shape_internal(tensor, optimize=optimize), dtype, scope)
        if not context.executing_eagerly():
            out.set_shape(tensor.shape)
        return out


@export(v1=["zeros_like"])
@dispatched
def zeros_like(tensor: Any, dtype: Any = None, name: str | None = None, optimize: bool = True) -> Tensor:
    """Zeros of the shape (and the type, unless `dtype` is given) of `tensor`.

    Args:
        tensor: Tensor whose shape is taken.
        dtype: Element type, by default that of `tensor`.
        name: Name of the operation.
        optimize: Whether a known static shape becomes a constant.

    Returns:
        A tensor.

    >>> tf.zeros_like([[1, 2], [3, 4]]).numpy()
    array([[0, 0],
           [0, 0]], dtype=int32)
    """
    return _zeros_like(tensor, dtype, name, optimize)


@export(v2=["zeros_like"])
@dispatched
def zeros_like_v2(input: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    """Zeros of the shape (and the type, unless `dtype` is given) of `input`.

    Args:
        input: Tensor.
        dtype: Element type, by default that of `input`.
        name: Name of the operation.

    Returns:
        Zeros of the shape of `input`.

    >>> tf.zeros_like([2, 3]).numpy().tolist()
    [0, 0]
    """
    return _zeros_like(input, dtype, name, True)


@export(v1=["ones_like"])
@dispatched
def ones_like(tensor: Any, dtype: Any = None, name: str | None = None, optimize: bool = True) -> Tensor:
    """Ones of the shape (and the type, unless `dtype` is given) of `tensor`.

    Args:
        tensor: Tensor whose shape is taken.
        dtype: Element type, by default that of `tensor`.
        name: Name of the operation.
        optimize: Whether a known static shape becomes a constant.

    Returns:
        A tensor.

    >>> tf.ones_like([[1, 2], [3, 4]]).numpy()
    array([[1, 1],
           [1, 1]], dtype=int32)
    """
    return _ones_like(tensor, dtype, name, optimize)


@export(v2=["ones_like"])
@dispatched
def ones_like_v2(input: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    """Ones of the shape (and the type, unless `dtype` is given) of `input`.

    Args:
        input: Tensor.
        dtype: Element type, by default that of `input`.
        name: Name of the operation.

    Returns:
        Ones of the shape of `input`.

    >>> tf.ones_like([2, 3]).numpy().tolist()
    [1, 1]
    """
    return _ones_like(input, dtype, name, True)
