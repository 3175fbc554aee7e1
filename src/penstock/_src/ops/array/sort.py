"""Order: the largest elements, sorting, and whether a class is among the best."""
from __future__ import annotations

from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors
from penstock._src.base import static_shape as shapes
from penstock._src.base.api import export
from penstock._src.graph.constant import constant_value
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.kernels import unsigned
from penstock._src.ops import rules
from penstock._src.ops.composite import dispatched
from penstock._src.ops.registry import get, op

top_k_v1 = op("TopK", "input: T -> values: T, indices: int32", "k: int >= 0, sorted: bool = True, T: type in {real}")
top_k_op = op("TopKV2", "input: T, k: Tk -> values: T, indices: index_type",
              "sorted: bool = True, T: type in {real}, Tk: type in {int16 int32 int64} = int32, "
              "index_type: type in {int16 int32 int64} = int32")
rules.batching.leading[top_k_op] = (0,)


# -- the k largest ----------------------------------------------------------------------------------------------------
def _top_dims(input: Any, k: int | None) -> list:
    shapes.rank_at_least(input, 1)
    if k is not None and k < 0:
        raise ValueError(f"Need k >= 0, got {k}")
    if input is None:
        return [None, None]
    if k is not None and input[-1] is not None and input[-1] < k:
        raise ValueError(f"input must have last dimension >= k = {k} but is {input[-1]}")
    return [input[:-1] + (k,)] * 2


top_k_v1.shape(lambda input, *, k: _top_dims(input, k))


@top_k_op.shape
def _top_k_shape(input, k, *, c):
    shapes.rank_is(k, 0)
    known = c.const("k")
    return _top_dims(input, None if known is None else int(known))


_SORTED = 1 << 20                # elements on a GPU that are sorted, rather than inspected for equal ones, which stops the host


def _top(x: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The k largest of each row, largest first; of equal ones the first comes first."""
    if x.ndim < 1:
        raise errors.invalid(f"input must be >= 1-D, got shape {list(x.shape)}")
    if k < 0:
        raise errors.invalid(f"Need k >= 0, got {k}")
    if k > x.shape[-1]:
        raise errors.invalid(f"input must have at least k columns. Had {x.shape[-1]}, needed {k}")
    if unsigned.is_wide(x):
        values, indices = _top(unsigned.flip(x), k)
        return unsigned.flip(values), indices
    if k * 4 < x.shape[-1] and (x.is_cpu or x.numel() > _SORTED):
        values, indices = torch.topk(x, k + 1)
        if not bool(torch.any(values[..., 1:] == values[..., :-1])):      # ATen does not define the order of equal elements
            return values[..., :k], indices[..., :k]
    values, indices = torch.sort(x, dim=-1, descending=True, stable=True)
    return values[..., :k], indices[..., :k]


@top_k_v1.kernel
def _top_k_v1_kernel(input, *, k):
    values, indices = _top(input, k)
    return values, indices.to(torch.int32)


@top_k_op.kernel
def _top_k_kernel(input, k, *, index_type):
    if k.ndim:
        raise errors.invalid(f"k must be scalar, got shape {list(k.shape)}")
    values, indices = _top(input, int(k))
    return values, indices.to(index_type.torch)


@rules.regions.lower(top_k_op)
def _top_k_in_region(op, r):
    return r.top(r.view(op.inputs[0]), int(r.constant(op.inputs[1])), r.kind(op.outputs[1]))


def _top_gradient(op: Any, grad: Tensor) -> Tensor:
    """The gradient of the values, scattered to their positions."""
    x, indices = op.inputs[0], op.outputs[1]
    if indices.dtype != dtypes.int32:
        indices = get("Cast")(indices, DstT=dtypes.int32)
    shape = get("Shape")(x)
    last = shape[-1]
    rows = get("Reshape")(indices, get("Pack")([-1, get("Shape")(indices)[-1]]))
    starts = get("Range")(0, get("Shape")(rows)[0] * last, get("Maximum")(last, 1))
    flat = get("Reshape")(rows + get("ExpandDims")(starts, -1), [-1, 1])
    total = get("Reshape")(get("Prod")(shape, [0]), [1])
    return get("Reshape")(get("ScatterNd")(flat, get("Reshape")(grad, [-1]), total), shape)


top_k_v1.gradient(lambda op, grad, _: _top_gradient(op, grad))
top_k_op.gradient(lambda op, grad, _: (_top_gradient(op, grad), None))


@export("math.top_k", "nn.top_k")
@dispatched
def top_k(input: Any, k: Any = 1, sorted: bool = True, index_type: Any = dtypes.int32, name: str | None = None) -> Any:
    """The `k` largest elements along the last axis, and their indices.

    Args:
        input: Tensor of numbers.
        k: How many elements to take.
        sorted: Whether the results are in descending order.
        index_type: Type of the indices.
        name: Name of the operation.

    Returns:
        `values` and `indices`, both with a last axis of size `k`.

    Raises:
        InvalidArgumentError: if the last axis is shorter than `k`.

    >>> values, indices = tf.nn.top_k([1, 98, 1, 97], k=2)
    >>> values.numpy(), indices.numpy()
    (array([98, 97], dtype=int32), array([1, 3], dtype=int32))
    """
    return top_k_op(input, k, sorted=sorted, index_type=index_type, name=name)


# -- the n-th ---------------------------------------------------------------------------------------------------------
nth_element_op = op("NthElement", "input: T, n: int32 -> values: T", "reverse: bool = False, T: type in {real}")


@nth_element_op.shape
def _nth_element_shape(input, n, *, c):
    shapes.rank_at_least(input, 1)
    if n:
        raise ValueError(f"n must be a scalar but has rank {len(n)}")
    known = c.const("n")
    if known is not None and input is not None:
        if int(known) < 0:
            raise ValueError(f"Input n must be non-negative but is {int(known)}")
        if input[-1] is not None and int(known) >= input[-1]:
            raise ValueError(f"Input must have last dimension > n = {int(known)} but is {input[-1]}")
    return None if input is None else input[:-1]


@nth_element_op.kernel
def _nth_element_kernel(input, n, *, reverse):
    if n.ndim:
        raise errors.invalid(f"N must be scalar but has rank {n.ndim}")
    at = int(n)
    if input.ndim < 1:
        raise errors.invalid("Input must be at least rank 1 but is rank 0")
    if at < 0:
        raise errors.invalid(f"Input n must be non-negative but is {at}")
    if at >= input.shape[-1]:
        raise errors.invalid(f"Input must have last dimension > n = {at} but is {input.shape[-1]}")
    if unsigned.is_wide(input):
        return unsigned.flip(torch.sort(unsigned.flip(input), dim=-1, descending=reverse)[0][..., at])
    return torch.sort(input, dim=-1, descending=reverse)[0][..., at]


@nth_element_op.gradient
def _nth_element_gradient(op, grad):
    """In equal parts to all elements that equal the n-th one."""
    x = op.inputs[0]
    hit = get("Cast")(get("Equal")(x, get("ExpandDims")(op.outputs[0], -1)), DstT=grad.dtype.base_dtype)
    share = hit / get("Sum")(hit, [-1], keep_dims=True)
    return share * get("ExpandDims")(grad, -1), None


# -- sorting ----------------------------------------------------------------------------------------------------------
def _sorted(values: Any, axis: Any, direction: str, arguments: bool) -> Tensor:
    if direction not in ("ASCENDING", "DESCENDING"):
        raise ValueError(f"Unknown direction: `{direction}` should be one of ASCENDING, DESCENDING.")
    at = constant_value(convert(axis, name="axis"))
    if at is None or at.ndim:
        raise ValueError("axis must be a constant scalar")
    values = convert(values, name="values")
    flipped = _flipped(values) if direction == "ASCENDING" else values
    out = _descending(flipped, int(at))[1 if arguments else 0]
    return _flipped(out) if direction == "ASCENDING" and not arguments else out


def _flipped(values: Tensor) -> Tensor:
    """The same values in reverse order; the same function brings them back."""
    dtype = values.dtype.base_dtype
    if dtype.is_unsigned:
        return convert(dtype.max, dtype) - values
    return convert(-1, dtype) - values if dtype.is_integer else -values


def _descending(values: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    rank = values.shape.rank
    if rank is None:
        return _descending_of_unknown_rank(values, axis)
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} is out of range for a tensor of rank {rank}: slice index {axis} of its shape is "
                         "out of bounds")
    axis %= rank
    if axis == rank - 1:
        return top_k_op(values, _size(values, axis))
    axes = list(range(rank))
    axes[axis], axes[-1] = axes[-1], axes[axis]                  # its own inverse
    return _exchanged(values, convert(np.array(axes, np.int32), name="transposition"), _size(values, axis))


def _descending_of_unknown_rank(values: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    size = get("Shape")(values)[axis]
    if axis == -1:
        return top_k_op(values, size)
    last = get("Rank")(values) - 1
    at = convert(axis, dtypes.int32) if axis >= 0 else last + (axis + 1)
    axes = get("Range")(0, last + 1, 1)
    select, equal = get("SelectV2"), get("Equal")
    return _exchanged(values, select(equal(axes, at), last, select(equal(axes, last), at, axes)), size)


def _exchanged(values: Tensor, perm: Tensor, size: Any) -> tuple[Tensor, Tensor]:
    """The values in descending order along an axis that `perm` exchanges with the last one."""
    best = top_k_op(get("Transpose")(values, perm), size)
    return get("Transpose")(best[0], perm), get("Transpose")(best[1], perm)


def _size(values: Tensor, axis: int) -> Any:
    known = values.static_dims[axis]
    return convert(known, dtypes.int32) if known is not None else get("Shape")(values)[axis]


@export("sort")
@dispatched
def sort(values: Any, axis: Any = -1, direction: str = "ASCENDING", name: str | None = None) -> Tensor:
    """`values` sorted along `axis`.

    Args:
        values: Tensor of numbers.
        axis: The axis to sort along.
        direction: `"ASCENDING"` or `"DESCENDING"`.
        name: Name of the operation.

    Returns:
        The sorted tensor.

    Raises:
        ValueError: for another direction.

    >>> tf.sort([3, 1, 2], direction="DESCENDING").numpy().tolist()
    [3, 2, 1]
    """
    with name_scope(name, "sort"):
        return _sorted(values, axis, direction, False)


@export("argsort")
@dispatched
def argsort(values: Any, axis: Any = -1, direction: str = "ASCENDING", stable: bool = False,
            name: str | None = None) -> Tensor:
    """The indices that sort `values` along `axis`; equal elements keep their order.

    Args:
        values: Tensor of numbers.
        axis: The axis to sort along.
        direction: `"ASCENDING"` or `"DESCENDING"`.
        stable: Whether equal elements keep their order; they always do here.
        name: Name of the operation.

    Returns:
        int32 indices that sort `values`, of its shape.

    Raises:
        ValueError: for another direction.

    >>> tf.argsort([3, 1, 2]).numpy().tolist()
    [1, 2, 0]
    """
    with name_scope(name, "argsort"):
        return _sorted(values, axis, direction, True)


# -- among the best ---------------------------------------------------------------------------------------------------
in_top_k_v1 = op("InTopK", "predictions: float32, targets: T -> precision: bool",
                 "k: int, T: type in {index} = int32").no_gradient()
in_top_k_op = op("InTopKV2", "predictions: float32, targets: T, k: T -> precision: bool",
                 "T: type in {index} = int32").no_gradient()


def _hit_dims(predictions: Any, targets: Any) -> Any:
    return shapes.merge(shapes.rank_is(predictions, 2)[:1], shapes.rank_is(targets, 1))


in_top_k_v1.shape(lambda predictions, targets: _hit_dims(predictions, targets))


@in_top_k_op.shape
def _in_top_k_shape(predictions, targets, k):
    shapes.rank_is(k, 0)
    return _hit_dims(predictions, targets)


def _among(predictions: torch.Tensor, targets: torch.Tensor, k: int) -> torch.Tensor:
    """Whether fewer than k classes have a higher score than the target; False if scores are not finite."""
    if predictions.ndim != 2:
        raise errors.invalid("predictions must be 2-dimensional")
    if targets.ndim != 1:
        raise errors.invalid("targets must be 1-dimensional")
    if predictions.shape[0] != targets.shape[0]:
        raise errors.invalid(f"First dimension of predictions {predictions.shape[0]} must match length of targets "
                             f"{targets.shape[0]}")
    known = (targets >= 0) & (targets < predictions.shape[1])
    if predictions.shape[1] == 0:
        return known
    at = torch.where(known, targets, torch.zeros_like(targets)).to(torch.int64)
    score = predictions.gather(1, at.unsqueeze(1))
    better = (predictions > score).sum(1)
    return known & torch.isfinite(predictions).all(1) & (better < k)


in_top_k_v1.kernel(lambda predictions, targets, *, k: _among(predictions, targets, k))


@in_top_k_op.kernel
def _in_top_k_kernel(predictions, targets, k):
    if k.ndim:
        raise errors.invalid("k must be a scalar")
    return _among(predictions, targets, int(k))


@export(v1=["math.in_top_k", "nn.in_top_k"])
@dispatched
def in_top_k(predictions: Any, targets: Any, k: Any, name: str | None = None) -> Tensor:
    """Whether each target class is among the `k` classes with the highest scores.

    Args:
        predictions: Scores [batch, classes].
        targets: Class numbers [batch].
        k: How many classes count as top; ties with the last are in, too.
        name: Name of the operation.

    Returns:
        A boolean vector [batch].

    >>> tf.nn.in_top_k([[0.1, 0.7, 0.2], [0.5, 0.3, 0.2]], [2, 0], k=1).numpy()
    array([False,  True])
    """
    with name_scope(name, "in_top_k", [predictions, targets]) as scope:
        return in_top_k_op(predictions, targets, k, name=scope)


@export(v2=["math.in_top_k", "nn.in_top_k"])
@dispatched
def in_top_k_v2(targets: Any, predictions: Any, k: Any, name: str | None = None) -> Tensor:
    """Whether each target class is among the `k` classes with the highest scores.

    Args:
        targets: Integer vector of classes.
        predictions: Matrix with a row of scores for each.
        k: How many of the largest scores count.
        name: Name of the operation.

    Returns:
        Booleans: whether the score of the target is among them.

    >>> tf.math.in_top_k([1], [[0.1, 0.9]], k=1).numpy().tolist()
    [True]
    """
    return in_top_k(predictions, targets, k, name)
