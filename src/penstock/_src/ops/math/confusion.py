"""Confusion matrices."""
from __future__ import annotations

from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import control_dependencies, name_scope
from penstock._src.ops.composite import dispatched
from penstock._src.ops.control.checks import assert_less, assert_non_negative
from penstock._src.ops.control.control_flow import cond
from penstock._src.ops.math.cast import cast
from penstock._src.ops.math.reduction import reduce_max
from penstock._src.ops.registry import get


def remove_squeezable_dimensions(labels: Any, predictions: Any, expected_rank_diff: int = 0,
                                 name: str | None = None) -> tuple[Tensor, Tensor]:
    """Squeezes the last dimension of whichever of the two has one more than expected."""
    with name_scope(name, "remove_squeezable_dimensions", [labels, predictions]):
        predictions, labels = convert(predictions), convert(labels)
        p_rank, l_rank = predictions.shape.rank, labels.shape.rank
        if p_rank is not None and l_rank is not None:
            diff = p_rank - l_rank
            if diff == expected_rank_diff + 1 and predictions.shape[-1:].is_compatible_with([1]):
                predictions = get("Squeeze")(predictions, squeeze_dims=[-1])
            elif diff == expected_rank_diff - 1 and labels.shape[-1:].is_compatible_with([1]):
                labels = get("Squeeze")(labels, squeeze_dims=[-1])
            return labels, predictions
        diff = get("Rank")(predictions) - get("Rank")(labels)
        if p_rank is None or predictions.shape[-1:].is_compatible_with([1]):
            whole = predictions
            predictions = cond(get("Equal")(expected_rank_diff + 1, diff),
                               lambda: get("Squeeze")(whole, squeeze_dims=[-1]), lambda: get("Identity")(whole))
        if l_rank is None or labels.shape[-1:].is_compatible_with([1]):
            all_labels = labels
            labels = cond(get("Equal")(expected_rank_diff - 1, diff),
                          lambda: get("Squeeze")(all_labels, squeeze_dims=[-1]),
                          lambda: get("Identity")(all_labels))
        return labels, predictions


def _matrix(labels: Any, predictions: Any, num_classes: Any, weights: Any, dtype: Any, name: str | None) -> Tensor:
    with name_scope(name, "confusion_matrix", [predictions, labels, num_classes, weights]) as scope:
        labels, predictions = remove_squeezable_dimensions(convert(labels, name="labels"),
                                                           convert(predictions, name="predictions"))
        predictions, labels = cast(predictions, dtypes.int64), cast(labels, dtypes.int64)
        labels = _after([assert_non_negative(labels, message="`labels` contains negative values")], labels)
        predictions = _after([assert_non_negative(predictions, message="`predictions` contains negative values")],
                             predictions)
        if num_classes is None:
            top = get("Maximum")(reduce_max(predictions), reduce_max(labels))
            num_classes = top + convert(1, dtypes.int64)
        else:
            num_classes = cast(num_classes, dtypes.int64)
            labels = _after([assert_less(labels, num_classes, message="`labels` out of bound")], labels)
            predictions = _after([assert_less(predictions, num_classes, message="`predictions` out of bound")],
                                 predictions)
        if weights is not None:
            weights = convert(weights, name="weights")
            predictions.shape.assert_is_compatible_with(weights.shape)
            weights = cast(weights, dtype)
        shape = get("Pack")([num_classes, num_classes])
        indices = get("Pack")([labels, predictions], axis=1)
        ones = get("Fill")(get("Shape")(predictions), convert(1, dtype))
        return get("ScatterNd")(indices, ones if weights is None else weights, shape, name=scope)


def _after(checks: list, value: Tensor) -> Tensor:
    with control_dependencies([c for c in checks if c is not None]):
        return get("Identity")(value)


@export(v1=["math.confusion_matrix", "confusion_matrix"])
@dispatched
def confusion_matrix_v1(labels: Any, predictions: Any, num_classes: Any = None, dtype: Any = dtypes.int32,
                        name: str | None = None, weights: Any = None) -> Tensor:
    """How often class i (row) was predicted as class j (column)."""
    return _matrix(labels, predictions, num_classes, weights, dtypes.as_dtype(dtype), name)


@export(v2=["math.confusion_matrix"])
@dispatched
def confusion_matrix(labels: Any, predictions: Any, num_classes: Any = None, weights: Any = None,
                     dtype: Any = dtypes.int32, name: str | None = None) -> Tensor:
    """How often class i (row) was predicted as class j (column).

    Args:
        labels: Integer vector of classes.
        predictions: Integer vector of classes.
        num_classes: Size of the matrix, by default one more than the largest class.
        weights: What each pair counts.
        dtype: Element type of the matrix.
        name: Name of the operation.

    Returns:
        Matrix whose rows are labels, and whose columns are predictions.

    Raises:
        InvalidArgumentError: for a class outside the matrix.

    >>> tf.math.confusion_matrix([0, 1, 1], [0, 1, 0]).numpy().tolist()
    [[1, 0], [1, 1]]
    """
    return _matrix(labels, predictions, num_classes, weights, dtypes.as_dtype(dtype), name)
