"""Of `estimator.canned.head` and `estimator.canned.optimizers`: building blocks of custom heads and model functions."""
from __future__ import annotations

import collections
from typing import Any

from penstock._src.models.estimator import canned
from penstock._src.models.estimator.head import BinaryClassHead, Head, MultiClassHead, RegressionHead

_Head = Head


_DEFAULT_SERVING_KEY = "serving_default"


class PredictionKeys:
    """The names of predictions (`estimator.canned.prediction_keys`)."""
    CLASSES, CLASS_IDS, ALL_CLASSES, ALL_CLASS_IDS = "classes", "class_ids", "all_classes", "all_class_ids"
    LOGISTIC, LOGITS, PREDICTIONS, PROBABILITIES, TOP_K = "logistic", "logits", "predictions", "probabilities", "top_k"


class MetricKeys:
    """The names of metrics (`estimator.canned.metric_keys`)."""
    LOSS, LOSS_MEAN, LOSS_REGULARIZATION = "loss", "average_loss", "regularization_loss"
    ACCURACY, ACCURACY_BASELINE, PRECISION, RECALL = "accuracy", "accuracy_baseline", "precision", "recall"
    PRECISION_AT_RECALL, RECALL_AT_PRECISION, SENSITIVITY_AT_SPECIFICITY = (
        "precision_at_recall", "recall_at_precision", "sensitivity_at_specificity")
    AUC, AUC_PR, LABEL_MEAN, PREDICTION_MEAN = "auc", "auc_precision_recall", "label/mean", "prediction/mean"
    ACCURACY_AT_THRESHOLD, PRECISION_AT_THRESHOLD, RECALL_AT_THRESHOLD = (
        f"{what}/positive_threshold_%g" for what in ("accuracy", "precision", "recall"))
    PROBABILITY_MEAN_AT_CLASS, AUC_AT_CLASS, AUC_PR_AT_CLASS = (
        f"{what}/class%d" for what in ("probability_mean", "auc", "auc_precision_recall"))
    PROBABILITY_MEAN_AT_NAME, AUC_AT_NAME, AUC_PR_AT_NAME = (
        f"{what}/%s" for what in ("probability_mean", "auc", "auc_precision_recall"))


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
