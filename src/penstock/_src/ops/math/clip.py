"""Clipping: by value, by norm, by the norm of many tensors together."""
from __future__ import annotations

import collections.abc
from typing import Any

import torch

from penstock._src.base import dtypes, errors
from penstock._src.base import static_shape as shapes
from penstock._src.base.api import export
from penstock._src.graph.convert import convert
from penstock._src.graph.indexed_slices import IndexedSlices
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import colocate_with, name_scope
from penstock._src.kernels import unsigned
from penstock._src.ops import rules
from penstock._src.ops.composite import dispatched
from penstock._src.ops.math.math import unbroadcast
from penstock._src.ops.math.reduction import reduce, reduction_axes, sum_op
from penstock._src.ops.registry import get, op

clip_op = op("ClipByValue", "t: T, clip_value_min: T, clip_value_max: T -> output: T", "T: type in {numeric quantized}")


@rules.batching.rule(clip_op)
def _clip_batching(op, rows, *values):
    made = rows.aligned(list(values))
    return None if made is None else [get("Minimum")(get("Maximum")(made[0], made[1]), made[2])]



@clip_op.shape
def _clip_shape(t, clip_value_min, clip_value_max):
    for limit in (clip_value_min, clip_value_max):
        if limit is not None and t is not None and len(limit) > 0:
            shapes.merge(t, limit)
    return t


@clip_op.kernel
def _clip_kernel(t, clip_value_min, clip_value_max):
    for limit in (clip_value_min, clip_value_max):
        if limit.ndim and limit.shape != t.shape:
            raise errors.invalid(f"clip_value_min and clip_value_max must be either of the same shape as input, or a "
                                 f"scalar. Input shape: {list(t.shape)}, limit: {list(limit.shape)}")
    return torch.maximum(torch.minimum(t, clip_value_max), clip_value_min)


clip_op.kernel(unsigned.ordered(_clip_kernel), types=unsigned.TYPES)


@clip_op.gradient
def _clip_gradient(op, grad):
    """Where a value was clipped, the gradient is the limit's."""
    x, low, high = op.inputs
    zeros = get("ZerosLike")(grad)
    under, over = get("Less")(x, low), get("Greater")(x, high)
    inside = get("Select")(get("LogicalOr")(under, over), zeros, grad)
    return (inside, unbroadcast(get("Select")(under, grad, zeros), low, x),
            unbroadcast(get("Select")(over, grad, zeros), high, x))


def _values(t: Any) -> Tensor:
    """The tensor, or the rows of IndexedSlices."""
    return t.values if isinstance(t, IndexedSlices) else convert(t, name="t")


def _like(t: Any, values: Tensor) -> Any:
    return IndexedSlices(values, t.indices, t.dense_shape) if isinstance(t, IndexedSlices) else values


@export("clip_by_value")
@dispatched
def clip_by_value(t: Any, clip_value_min: Any, clip_value_max: Any, name: str | None = None) -> Any:
    """`t` with values below `clip_value_min` and above `clip_value_max` replaced by these.

    Args:
        t: Tensor, or IndexedSlices.
        clip_value_min: Smallest value of the result; its shape broadcasts to that of `t`.
        clip_value_max: Largest value of the result.
        name: Name of the operation.

    Returns:
        A tensor of the type and shape of `t`.

    >>> tf.clip_by_value([-5., 0.5, 9.], 0., 1.).numpy()
    array([0. , 0.5, 1. ], dtype=float32)
    """
    with name_scope(name, "clip_by_value", [t, clip_value_min, clip_value_max]) as scope:
        values = _values(t)
        below = get("Minimum")(values, clip_value_max)
        values.shape.assert_is_compatible_with(below.shape)
        clipped = get("Maximum")(below, clip_value_min, name=scope)
        values.shape.assert_is_compatible_with(clipped.shape)
        return _like(t, clipped)


@export("clip_by_norm")
@dispatched
def clip_by_norm(t: Any, clip_norm: Any, axes: Any = None, name: str | None = None) -> Any:
    """`t` scaled down so that its L2 norm (over `axes`) is at most `clip_norm`.

    Args:
        t: Tensor, or IndexedSlices.
        clip_norm: Largest norm of the result.
        axes: Axes over which a norm is taken; by default all.
        name: Name of the operation.

    Returns:
        A tensor of the type and shape of `t`.

    >>> tf.clip_by_norm([3., 4.], 1.0).numpy()
    array([0.6, 0.8], dtype=float32)
    """
    with name_scope(name, "clip_by_norm", [t, clip_norm]) as scope:
        values = _values(t)
        total = reduce(sum_op, values * values, axes, True, None)
        positive = get("Greater")(total, convert(0, total.dtype.base_dtype))
        # the square root is taken only where its derivative is finite
        norm = get("Select")(positive, get("Sqrt")(get("Select")(positive, total, get("OnesLike")(total))), total)
        clip_norm = get("Maximum")(convert(clip_norm, values.dtype), convert(0, values.dtype))
        scaled = values * clip_norm
        values.shape.assert_is_compatible_with(scaled.shape)
        return _like(t, get("Identity")(scaled / get("Maximum")(norm, clip_norm), name=scope))


@export("linalg.global_norm", v1=["global_norm"])
@dispatched
def global_norm(t_list: Any, name: str | None = None) -> Tensor:
    """The L2 norm of all elements of several tensors (None is ignored).

    Args:
        t_list: List of tensors, IndexedSlices and None.
        name: Name of the operation.

    Returns:
        A scalar.

    >>> tf.linalg.global_norm([tf.constant([3.]), tf.constant([4.])]).numpy()
    np.float32(5.0)
    """
    _check_list(t_list)
    with name_scope(name, "global_norm", list(t_list)):
        squares = []
        for i, t in enumerate(t_list):
            if t is not None:
                value = t.values if isinstance(t, IndexedSlices) else convert(t, name=f"t_{i}")
                with colocate_with(value):
                    squares.append(get("L2Loss")(value))
        half = get("Sum")(get("Pack")(squares), [0]) if squares else convert(0.0)
        return get("Sqrt")(half * convert(2.0, half.dtype.base_dtype), name="global_norm")


def _check_list(t_list: Any) -> None:
    if not isinstance(t_list, collections.abc.Sequence) or isinstance(t_list, str):
        raise TypeError(f"t_list should be a sequence, not {type(t_list)}")


@export("clip_by_global_norm")
@dispatched
def clip_by_global_norm(t_list: Any, clip_norm: Any, use_norm: Any = None, name: str | None = None) -> tuple[list, Tensor]:
    """The tensors scaled down so that their norm together is at most `clip_norm`; and the original norm.

    Args:
        t_list: List of tensors, IndexedSlices and None.
        clip_norm: Largest norm of all elements together.
        use_norm: The norm, if it is known already.
        name: Name of the operation.

    Returns:
        The scaled tensors (None where there was None), and the norm before scaling. If the norm is not finite, all results
        are NaN.

    Raises:
        TypeError: if `t_list` is not a sequence.

    >>> clipped, norm = tf.clip_by_global_norm([tf.constant([3., 4.])], 1.0)
    >>> clipped[0].numpy(), norm.numpy()
    (array([0.6, 0.8], dtype=float32), np.float32(5.0))
    """
    _check_list(t_list)
    t_list = list(t_list)
    norm = global_norm(t_list, name) if use_norm is None else use_norm
    with name_scope(name, "clip_by_global_norm", [*t_list, clip_norm]) as scope:
        norm = convert(norm)
        one, limit = convert(1.0, norm.dtype.base_dtype), convert(clip_norm, norm.dtype.base_dtype)
        scale = limit * get("Minimum")(one / norm, one / limit)
        # an infinite or undefined norm makes all of them undefined
        scale = get("SelectV2")(get("IsFinite")(norm), scale, convert(float("nan"), norm.dtype.base_dtype))
        clipped: list = []
        for i, t in enumerate(t_list):
            if t is None:
                clipped.append(None)
                continue
            value = t.values if isinstance(t, IndexedSlices) else convert(t, name=f"t_{i}")
            with colocate_with(value):
                factor = scale if scale.dtype == value.dtype.base_dtype else get("Cast")(scale, DstT=value.dtype)
                label = f"{scope}_{i}" if scope else None
                clipped.append(_like(t, get("Identity")(value * factor, name=label)))
    return clipped, norm


@export(v1=["clip_by_average_norm"])
@dispatched
def clip_by_average_norm(t: Any, clip_norm: Any, name: str | None = None) -> Tensor:
    """`t` scaled down so that its L2 norm over the number of its elements is at most `clip_norm`."""
    with name_scope(name, "clip_by_average_norm", [t, clip_norm]) as scope:
        t = convert(t, name="t")
        size = get("Cast")(get("Size")(t), DstT=dtypes.float32)
        inverse = get("Rsqrt")(sum_op(t * t, reduction_axes(t, None)))
        one = convert(1.0, t.dtype.base_dtype)
        return get("Identity")(t * clip_norm * get("Minimum")(inverse * size, one / clip_norm), name=scope)
