"""Losses of replicas: scaled so that the sum over all replicas is the loss of the global batch."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.graph.convert import convert
from penstock._src.graph.scopes import control_dependencies
from penstock._src.models.distribute.contexts import get_strategy, in_cross_replica_context
from penstock._src.models.keras.losses.reduction import compute_weighted_loss
from penstock._src.ops.array.check_shapes import assert_rank_at_least
from penstock._src.ops.control.checks import assert_non_negative
from penstock._src.ops.core import identity
from penstock._src.ops.math.division import TRUEDIV
from penstock._src.ops.math.reduction import reduce, sum_op
from penstock._src.ops.registry import get


@export("nn.compute_average_loss")
def compute_average_loss(per_example_loss: Any, sample_weight: Any = None, global_batch_size: Any = None,
                         max_sequence_length: Any = None) -> Any:
    """The sum of a replica's losses, divided by the number of examples of all replicas.

    Args:
        per_example_loss: Losses of the examples of this replica.
        sample_weight: Weights of the examples.
        global_batch_size: Examples of all replicas; by default those here, times the replicas.
        max_sequence_length: Longest sequence, if losses are per position.

    Returns:
        A scalar, to be added up over the replicas.

    >>> tf.nn.compute_average_loss(tf.constant([1., 2.]), global_batch_size=4).numpy().item()
    0.75
    """
    losses = convert(per_example_loss)
    dtype = losses.dtype
    if sample_weight is not None:
        losses = get("Cast")(compute_weighted_loss(losses, sample_weight, reduction="none"), DstT=dtype)
    if global_batch_size is None:
        if in_cross_replica_context():
            raise RuntimeError("You are calling `compute_average_loss` in cross replica context, while it was expected to be "
                               "called in replica context.")
        with control_dependencies([*filter(None, [assert_rank_at_least(
                losses, 1, message="Invalid value passed for `per_example_loss`. Expected a tensor with at least rank 1.")])]):
            global_batch_size = get("Shape")(losses)[0] * get_strategy().num_replicas_in_sync
    count = convert(global_batch_size)
    if count.shape.rank not in (0, None):
        raise ValueError(f"global_batch_size must be scalar, but its shape is {count.shape}.")
    if not count.dtype.is_integer:
        raise TypeError(f"global_batch_size must be an int, but it is {count.dtype.name}.")
    with control_dependencies([*filter(None, [assert_non_negative(count, message="global_batch_size must be non-negative.")])]):
        count = identity(count)
    flat = _total(losses)
    found = get("Cast")(flat, DstT=TRUEDIV[dtype]) if dtype.is_integer else flat        # the mean of integers is not one
    for divisor in (count, max_sequence_length):
        if divisor is not None:
            found = get("DivNoNan")(found, get("Cast")(convert(divisor), DstT=found.dtype))
    return found


def _total(losses: Any) -> Any:
    """The sum over all axes."""
    return reduce(sum_op, losses, None, False, None)


@export("nn.scale_regularization_loss")
def scale_regularization_loss(regularization_loss: Any) -> Any:
    """The sum of regularization losses, divided by the number of replicas: all of them have the same one.

    Args:
        regularization_loss: Losses of weights, which each replica computes.

    Returns:
        A scalar, to be added up over the replicas.

    >>> tf.nn.scale_regularization_loss(tf.constant([1., 2.])).numpy().item()
    3.0
    """
    if in_cross_replica_context():
        raise RuntimeError("You are calling `scale_regularization_loss` in cross replica context, while it was expected to be "
                           "called in replica context.")
    return _total(convert(regularization_loss)) / get_strategy().num_replicas_in_sync
