"""Of `estimator.canned.head` and `estimator.canned.optimizers`: building blocks of custom heads and model functions."""
from __future__ import annotations

import collections
from typing import Any

from penstock._src.models.estimator import canned
from penstock._src.models.estimator.head import BinaryClassHead, Head, MultiClassHead, RegressionHead

_Head = Head
LossSpec = collections.namedtuple("LossSpec", ("training_loss", "unreduced_loss", "weights", "processed_labels"))


def _regression_head(weight_column: Any = None, label_dimension: int = 1, loss_reduction: str = "weighted_sum_over_batch_size",
                     loss_fn: Any = None, inverse_link_fn: Any = None, name: str | None = None) -> Head:
    """The head of regressors; it has the arguments of RegressionHead in another order."""
    return RegressionHead(label_dimension, weight_column, loss_reduction, loss_fn, inverse_link_fn, name)


def _multi_class_head_with_softmax_cross_entropy_loss(
        n_classes: int, weight_column: Any = None, label_vocabulary: Any = None,
        loss_reduction: str = "weighted_sum_over_batch_size", loss_fn: Any = None, name: str | None = None) -> Head:
    """The head of three or more classes."""
    return MultiClassHead(n_classes, weight_column, label_vocabulary, loss_reduction, loss_fn, name)


def _binary_logistic_head_with_sigmoid_cross_entropy_loss(
        weight_column: Any = None, thresholds: Any = None, label_vocabulary: Any = None,
        loss_reduction: str = "weighted_sum_over_batch_size", loss_fn: Any = None, name: str | None = None) -> Head:
    """The head of two classes."""
    return BinaryClassHead(weight_column, thresholds, label_vocabulary, loss_reduction, loss_fn, name)


def get_optimizer_instance(opt: Any, learning_rate: float | None = None) -> Any:
    """An optimizer from itself, a function that makes it, or its name and a learning rate."""
    if isinstance(opt, str) and not learning_rate:
        raise ValueError("learning_rate must be specified when opt is string.")
    return canned._optimizer(opt, learning_rate or 0.0)
