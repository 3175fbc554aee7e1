"""tf.math.approx_max_k and approx_min_k: the k largest or smallest elements along an axis. Here they are exact."""
from __future__ import annotations

from typing import Any, NamedTuple

import torch

from penstock._src.base import errors
from penstock._src.base.api import export
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.ops.composite import dispatched
from penstock._src.ops.registry import get, op

approx_top_k = op("ApproxTopK", "input: T -> values: T, indices: int32",
                  "k: int >= 0, reduction_dimension: int = -1, recall_target: float = 0.95, is_max_k: bool = True, "
                  "reduction_input_size_override: int = -1, aggregate_to_topk: bool = True, "
                  "T: type in {half bfloat16 float32}", export_as="approx_top_k")


@approx_top_k.shape
def _shape(input, *, k, reduction_dimension):
    if input is None:
        return [None, None]
    if not -len(input) <= reduction_dimension < len(input):
        raise ValueError(f"reduction_dimension {reduction_dimension} is out of bounds for rank {len(input)}")
    dims = list(input)
    if dims[reduction_dimension] is not None and dims[reduction_dimension] < k:
        raise ValueError(f"input must have at least {k} elements along dimension {reduction_dimension}")
    dims[reduction_dimension] = k
    return [tuple(dims), tuple(dims)]


@approx_top_k.kernel
def _kernel(input, *, k, reduction_dimension, is_max_k):
    if not input.dim() or not -input.dim() <= reduction_dimension < input.dim() or input.shape[reduction_dimension] < k:
        raise errors.invalid(f"input must have at least {k} elements along dimension {reduction_dimension}")
    values, indices = torch.topk(input, k, dim=reduction_dimension, largest=is_max_k, sorted=True)
    return values, indices.to(torch.int32)


@approx_top_k.gradient
def _gradient(op, grad, _):
    """The gradient of each value goes to its place along the axis."""
    input, indices = op.inputs[0], op.outputs[1]
    axis = op.attrs["reduction_dimension"] % input.shape.rank
    size = get("GatherV2")(get("Shape")(input), axis, 0)
    picked = get("OneHot")(indices, size, convert(1, grad.dtype), convert(0, grad.dtype), axis=-1)     # [..., k, ..., size]
    spread = get("Sum")(picked * get("ExpandDims")(grad, -1), [axis])
    order = [*range(axis), input.shape.rank - 1, *range(axis, input.shape.rank - 1)]
    return get("Transpose")(spread, order)


class ApproxTopK(NamedTuple):
    """The result of approx_max_k and approx_min_k."""

    values: Tensor
    indices: Tensor


@export("math.approx_max_k", "nn.approx_max_k")
@dispatched
def approx_max_k(operand: Any, k: int, reduction_dimension: int = -1, recall_target: float = 0.95,
                 reduction_input_size_override: int = -1, aggregate_to_topk: bool = True,
                 name: str | None = None) -> ApproxTopK:
    """The `k` largest elements along an axis, and their indices.

    >>> tf.math.approx_max_k([3., 1., 2.], 2).indices       # [0, 2]
    """
    return ApproxTopK(*approx_top_k(operand, k=k, reduction_dimension=reduction_dimension, recall_target=recall_target,
                                    is_max_k=True, reduction_input_size_override=reduction_input_size_override,
                                    aggregate_to_topk=aggregate_to_topk, name=name))


@export("math.approx_min_k", "nn.approx_min_k")
@dispatched
def approx_min_k(operand: Any, k: int, reduction_dimension: int = -1, recall_target: float = 0.95,
                 reduction_input_size_override: int = -1, aggregate_to_topk: bool = True,
                 name: str | None = None) -> ApproxTopK:
    """The `k` smallest elements along an axis, and their indices."""
    return ApproxTopK(*approx_top_k(operand, k=k, reduction_dimension=reduction_dimension, recall_target=recall_target,
                                    is_max_k=False, reduction_input_size_override=reduction_input_size_override,
                                    aggregate_to_topk=aggregate_to_topk, name=name))
