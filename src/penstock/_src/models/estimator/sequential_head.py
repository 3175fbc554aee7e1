"""A head for every step of sequences: another head receives the steps of all rows, without the padding, as rows."""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import penstock.compat.v1 as tf
from penstock._src.models.estimator.head import Head, MultiHead
from penstock._src.models.estimator.spec import EstimatorSpec, ModeKeys


class SequentialHeadWrapper(Head):
    """Applies a head to each step of sequences.

    Args:
        static_head: Head of one step.
        sequence_length_mask: Name of the feature [rows, steps] that is False for padding.
        feature_columns: Names of features [rows, steps] that the head reads, such as weights.
    """

    def __init__(self, static_head: Any, sequence_length_mask: str = "sequence_length_mask", feature_columns: Any = None):
        super().__init__()
        if not isinstance(sequence_length_mask, str):
            raise TypeError(f"`sequence_mask` column must be a string. Given type: {type(sequence_length_mask)}.")
        columns = [feature_columns] if isinstance(feature_columns, str) else feature_columns or []
        if not isinstance(columns, Iterable):
            raise TypeError(f"`feature_columns` must be either a string or an iterable of strings got {type(columns)} instead.")
        self._feature_columns = list(columns)
        for column in self._feature_columns:
            if not isinstance(column, str):
                raise TypeError(f"Column must a string. Given type: {type(column)}.")
        if isinstance(static_head, MultiHead):
            raise ValueError("`MultiHead` is not supported with `SequentialHeadWrapper`.")
        self._static_head, self._mask = static_head, sequence_length_mask

    static_head = property(lambda self: self._static_head, doc="The head of one step.")
    input_sequence_mask_key = property(lambda self: self._mask, doc="The name of the feature that tells padding.")
    logits_dimension = property(lambda self: self._static_head.logits_dimension, doc="That of the head of one step.")
    loss_reduction = property(lambda self: self._static_head.loss_reduction, doc="That of the head of one step.")
    name = property(lambda self: self._static_head.name and f"{self._static_head.name}_sequential", doc="The name of the head.")

    def _flatten(self, labels: Any, logits: Any, features: Any) -> tuple[Any, Any, dict[str, Any]]:
        """Labels, logits and features of the steps that are no padding."""
        if self._mask not in features:
            raise ValueError(f"The provided sequence_length_mask key `{self._mask}` should be included in the features "
                             f"dictionary, but was not found. Found keys: {list(features)}.")
        mask = features[self._mask]
        if mask.shape.rank != 2:
            raise ValueError(f"Mask is expected to have two dimensions, got {mask.shape.rank} instead.")
        for column in self._feature_columns:
            if column not in features:
                raise ValueError(f"`{column}` column expected in features dictionary.")
        with tf.name_scope("flatten"):
            return _flat(labels, mask), _flat(logits, mask), {c: _flat(features[c], mask) for c in self._feature_columns}

    def loss(self, labels: Any, logits: Any, features: Any = None, mode: Any = None, regularization_losses: Any = None) -> Any:
        """The loss of the steps that are no padding."""
        labels, logits, features = self._flatten(labels, logits, features)
        return self._static_head.loss(labels, logits, features, mode, regularization_losses)

    def predictions(self, logits: Any, keys: Any = None) -> dict[str, Any]:
        """The predictions of every step."""
        return self._static_head.predictions(logits, keys)

    def metrics(self, regularization_losses: Any = None) -> dict[str, Any]:
        """The metrics of the head of one step."""
        return self._static_head.metrics(regularization_losses)

    def update_metrics(self, eval_metrics: dict[str, Any], features: Any, logits: Any, labels: Any, mode: Any = None,
                       regularization_losses: Any = None) -> dict[str, Any]:
        """Updates the metrics with the steps that are no padding."""
        labels, logits, features = self._flatten(labels, logits, features)
        return self._static_head.update_metrics(eval_metrics, features, logits, labels,
                                                regularization_losses=regularization_losses)

    def create_estimator_spec(self, features: Any, mode: str, logits: Any, labels: Any = None, optimizer: Any = None,
                              trainable_variables: Any = None, train_op_fn: Any = None, update_ops: Any = None,
                              regularization_losses: Any = None) -> EstimatorSpec:
        """The EstimatorSpec of the steps; predictions contain the mask."""
        if mode == ModeKeys.PREDICT:
            spec = self._static_head.create_estimator_spec(features, mode, logits)
            return spec._replace(predictions={**spec.predictions, self._mask: features[self._mask]})
        labels, logits, features = self._flatten(labels, logits, features)
        return self._static_head.create_estimator_spec(features, mode, logits, labels, optimizer, trainable_variables,
                                                       train_op_fn, update_ops, regularization_losses)


def _flat(value: Any, mask: Any) -> Any:
    """The steps of all rows that are no padding, as rows. A sparse value has no padding."""
    if isinstance(value, tf.SparseTensor):
        value = tf.sparse_reorder(value)
        steps, expected = tf.size(value.values), tf.reduce_sum(tf.cast(mask, tf.int32))
        with tf.control_dependencies([tf.assert_equal(steps, expected, message="The steps of a sparse tensor and its mask")]):
            return tf.expand_dims(tf.identity(value.values), -1)
    if value.shape.rank is None or value.shape.rank < 2:
        raise ValueError(f"Input tensor expected to have at least 2 dimensions, got {value.shape.rank} instead.")
    flat = tf.boolean_mask(value, mask)
    return tf.expand_dims(flat, -1) if value.shape.rank == 2 else flat
