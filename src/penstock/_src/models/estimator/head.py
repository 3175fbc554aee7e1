"""Heads: from the logits of a model to loss, predictions, metrics, exports and the training op."""
from __future__ import annotations

from typing import Any

import penstock.compat.v1 as tf
from penstock._src.base.api import export
from penstock._src.models.estimator.export_outputs import ClassificationOutput, PredictOutput, RegressionOutput
from penstock._src.models.estimator.spec import EstimatorSpec, ModeKeys
from penstock._src.models.feature_column.base import Batch
from penstock._src.models.keras.metrics import Mean

_DEFAULT = "serving_default"


@export("estimator.Head")
class Head:
    """The base of heads. Subclasses define the losses per row, predictions and metrics."""

    def __init__(self, weight_column: Any = None, loss_reduction: str = "sum_over_batch_size", loss_fn: Any = None,
                 name: str | None = None):
        self._weight_column, self._loss_reduction, self._loss_fn, self._name = weight_column, loss_reduction, loss_fn, name

    _scope = "head"                     # of the ops of the loss
    name = property(lambda self: self._name, doc="The name of the head.")
    loss_reduction = property(lambda self: self._loss_reduction, doc="How the losses of rows become one.")

    @property
    def logits_dimension(self) -> int:
        """The size of the last dimension of the logits."""
        raise NotImplementedError(f"{type(self).__name__} has to define logits_dimension")

    # -- loss --------------------------------------------------------------------------------------------------------
    def _labels(self, labels: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has to define _labels")

    def _unreduced(self, labels: Any, logits: Any, features: Any) -> Any:
        """The loss of each row."""
        raise NotImplementedError(f"{type(self).__name__} has to define _unreduced")

    def _row_weights(self, features: Any) -> Any:
        if self._weight_column is None:
            return None
        column = self._weight_column
        if isinstance(column, str):
            weights = tf.cast(features[column], tf.float32)
        else:
            weights = column.dense(Batch(features), None)
        if weights.shape.rank == 1:
            weights = tf.expand_dims(weights, -1)
        return weights

    def _losses(self, labels: Any, logits: Any, features: Any) -> tuple[Any, Any]:
        """The loss of each row [rows, 1], and their weights."""
        if self._loss_fn is not None:
            row = self._loss_fn(labels=labels, logits=logits)
        else:
            row = self._unreduced(labels, logits, features)
        row = tf.reshape(row, [tf.shape(row)[0], -1])
        if row.shape.as_list()[1:] != [1]:
            row = tf.reduce_mean(row, 1, keepdims=True)
        return row, self._row_weights(features)

    def loss(self, labels: Any, logits: Any, features: Any = None, mode: Any = None, regularization_losses: Any = None) -> Any:
        """One number for a batch. Hooks that log it know its ops by name: `head/weighted_loss/Sum`, `head/truediv`."""
        with tf.name_scope(self._scope):
            row, weights = self._losses(self._labels(labels), logits, features)
            with tf.name_scope("weighted_loss"):
                total = tf.reduce_sum(row if weights is None else row * weights, name="Sum")
            count = tf.cast(tf.size(row), tf.float32)
            weight = count if weights is None else tf.reduce_sum(weights * tf.ones_like(row))
            average = tf.truediv(total, weight, name="truediv")
            if self._loss_reduction in ("weighted_sum", "sum"):
                loss = total
            else:
                loss = average if self._loss_reduction == "weighted_mean" else total / count
        if regularization_losses:
            loss = loss + tf.add_n(list(regularization_losses))
        return loss

    # -- predictions -------------------------------------------------------------------------------------------------
    def predictions(self, logits: Any, keys: Any = None) -> dict[str, Any]:
        """The predictions by name."""
        raise NotImplementedError(f"{type(self).__name__} has to define predictions")

    def _export_outputs(self, predictions: dict[str, Any]) -> dict[str, Any]:
        raise NotImplementedError(f"{type(self).__name__} has to define _export_outputs")

    def _metric_ops(self, labels: Any, logits: Any, features: Any, predictions: dict[str, Any]) -> dict[str, Any]:
        raise NotImplementedError(f"{type(self).__name__} has to define _metric_ops")

    def metrics(self, regularization_losses: Any = None) -> dict[str, Any]:
        """Keras metrics by name, which update_metrics updates."""
        names = ["average_loss", *(["regularization_loss"] if regularization_losses else [])]
        return {n: Mean(name=n) for n in names}

    def update_metrics(self, eval_metrics: dict[str, Any], features: Any, logits: Any, labels: Any, mode: Any = None,
                       regularization_losses: Any = None) -> dict[str, Any]:
        """Updates the metrics that `metrics` has made."""
        row, weights = self._losses(self._labels(labels), logits, features)
        eval_metrics["average_loss"].update_state(row, sample_weight=weights)
        if regularization_losses and "regularization_loss" in eval_metrics:
            eval_metrics["regularization_loss"].update_state(tf.add_n(list(regularization_losses)))
        return eval_metrics

    def create_estimator_spec(self, features: Any, mode: str, logits: Any, labels: Any = None, optimizer: Any = None,
                              trainable_variables: Any = None, train_op_fn: Any = None, update_ops: Any = None,
                              regularization_losses: Any = None) -> EstimatorSpec:
        """The EstimatorSpec of a model with these logits."""
        logits = tf.convert_to_tensor(logits)
        if logits.shape.rank is not None and logits.shape.as_list()[-1] not in (None, self.logits_dimension):
            raise ValueError(f"logits shape must be [D0, D1, ... DN, logits_dimension], logits_dimension is "
                             f"{self.logits_dimension}, got {logits.shape}.")
        predictions = self.predictions(logits)
        if mode == ModeKeys.PREDICT:
            return EstimatorSpec(mode, predictions=predictions, export_outputs=self._export_outputs(predictions))
        if labels is None:
            raise ValueError("You must provide a labels Tensor. Given: None. Suggested troubleshooting steps: Check that your "
                             "data contains your label feature. Check that your input_fn properly parses and returns labels.")
        loss = self.loss(labels, logits, features, mode, regularization_losses)
        if mode == ModeKeys.EVAL:
            ops = self._metric_ops(self._labels(labels), logits, features, predictions)
            suffix = f"/{self._name}" if self._name else ""
            return EstimatorSpec(mode, predictions, loss, eval_metric_ops={k + suffix: v for k, v in ops.items()})
        tf.summary.scalar("loss", loss)
        return EstimatorSpec(mode, predictions, loss, self._train_op(loss, optimizer, trainable_variables, train_op_fn,
                                                                     update_ops))

    @staticmethod
    def _train_op(loss: Any, optimizer: Any, variables: Any, train_op_fn: Any, update_ops: Any) -> Any:
        if (optimizer is None) == (train_op_fn is None):
            raise ValueError("train_op_fn and optimizer cannot both be None, nor both be given.")
        updates = list(update_ops or tf.get_collection(tf.GraphKeys.UPDATE_OPS))
        if train_op_fn is not None:
            op = train_op_fn(loss)
        elif hasattr(optimizer, "get_updates") and not hasattr(optimizer, "compute_gradients"):
            optimizer.iterations = tf.train.get_or_create_global_step()
            op = tf.group(*optimizer.get_updates(loss, variables if variables is not None else tf.trainable_variables()))
        else:
            op = optimizer.minimize(loss, global_step=tf.train.get_or_create_global_step(), var_list=variables)
        return tf.group(op, *updates) if updates else op




def _update_metrics(self: Head, eval_metrics: dict[str, Any], features: Any, logits: Any, labels: Any,
                    regularization_losses: Any = None) -> dict[str, Any]:
    """Updates the metrics that `metrics` has made."""
    return Head.update_metrics(self, eval_metrics, features, logits, labels, None, regularization_losses)


def _curves(labels: Any, p: Any, weights: Any, thresholds: Any) -> dict[str, Any]:
    """Metrics of probabilities: the areas under their curves, and metrics at thresholds."""
    out = {"auc": tf.metrics.auc(labels, p, weights),
           "auc_precision_recall": tf.metrics.auc(labels, p, weights, curve="PR", summation_method="careful_interpolation")}
    for t in thresholds:
        above = tf.cast(p >= t, tf.float32)
        out[f"accuracy/positive_threshold_{t:g}"] = tf.metrics.accuracy(labels, above, weights)
        out[f"precision/positive_threshold_{t:g}"] = tf.metrics.precision(labels, above, weights)
        out[f"recall/positive_threshold_{t:g}"] = tf.metrics.recall(labels, above, weights)
    return out


class _ClassHead(Head):
    """The base of the heads of exclusive classes."""

    def __init__(self, n_classes: int, weight_column: Any, label_vocabulary: Any, loss_reduction: str, loss_fn: Any,
                 name: str | None):
        super().__init__(weight_column, loss_reduction, loss_fn, name)
        self._n_classes, self._vocabulary = n_classes, None if label_vocabulary is None else tuple(label_vocabulary)
        if self._vocabulary is not None and len(self._vocabulary) != n_classes:
            raise ValueError(f"Length of label_vocabulary must be n_classes ({n_classes}). Given: {len(self._vocabulary)}")

    update_metrics = _update_metrics                             # type: ignore[assignment]

    def _ids(self, labels: Any) -> Any:
        """Labels as ids [rows, 1]."""
        if isinstance(labels, tf.SparseTensor):
            raise ValueError("SparseTensor labels are not supported. labels must be a Tensor of shape [D0, D1, ..., DN, 1].")
        if isinstance(labels, dict):
            raise ValueError("labels must be a Tensor, got a dict")
        labels = tf.convert_to_tensor(labels)
        if labels.shape.rank == 1:
            labels = tf.expand_dims(labels, -1)
        if self._vocabulary is not None:
            if labels.dtype != tf.string:
                raise ValueError(f"Labels dtype should be string when there is a vocabulary. Instead got {labels.dtype}")
            return tf.contrib.lookup.index_table_from_tensor(tf.constant(self._vocabulary),
                                                             name="class_id_lookup").lookup(labels)
        if labels.dtype == tf.string:
            raise ValueError("Labels are strings: pass label_vocabulary")
        return labels

    def _classes(self, ids: Any) -> Any:
        if self._vocabulary is None:
            return tf.as_string(ids, name="str_classes")
        return tf.contrib.lookup.index_to_string_table_from_tensor(tf.constant(self._vocabulary),
                                                                   name="class_string_lookup").lookup(ids)

    def _all(self, logits: Any) -> dict[str, Any]:
        """All classes, for every row (or step of a row)."""
        shape = tf.concat([tf.shape(logits)[:-1], [self._n_classes]], 0)
        names = tf.constant(self._vocabulary) if self._vocabulary is not None else tf.as_string(tf.range(self._n_classes))
        ids = tf.range(self._n_classes)
        return {"all_class_ids": tf.broadcast_to(ids, shape), "all_classes": tf.broadcast_to(names, shape)}

    def _export_outputs(self, predictions: dict[str, Any]) -> dict[str, Any]:
        scored = ClassificationOutput(scores=predictions["probabilities"], classes=predictions["all_classes"])
        return {_DEFAULT: scored, "classification": scored, "predict": PredictOutput(predictions)}


@export("estimator.MultiClassHead")
class MultiClassHead(_ClassHead):
    """One of three or more classes."""

    def __init__(self, n_classes: int, weight_column: Any = None, label_vocabulary: Any = None,
                 loss_reduction: str = "sum_over_batch_size", loss_fn: Any = None, name: str | None = None):
        if n_classes is None or n_classes <= 2:
            raise ValueError(f"n_classes must be > 2: {n_classes}.")
        super().__init__(n_classes, weight_column, label_vocabulary, loss_reduction, loss_fn, name)

    logits_dimension = property(lambda self: self._n_classes, doc="The number of classes.")

    def _labels(self, labels: Any) -> Any:
        ids = tf.cast(self._ids(labels), tf.int64)
        inside = tf.reduce_all(tf.logical_and(ids >= 0, ids < self._n_classes))
        with tf.control_dependencies([tf.Assert(inside, [f"Labels must be in [0, {self._n_classes}):", ids])]):
            return tf.identity(ids)

    def _unreduced(self, labels: Any, logits: Any, features: Any) -> Any:
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.squeeze(labels, -1), logits=logits)

    def predictions(self, logits: Any, keys: Any = None) -> dict[str, Any]:
        """Logits, probabilities and the class of each row."""
        ids = tf.expand_dims(tf.argmax(logits, -1), -1)
        made = {"logits": logits, "probabilities": tf.nn.softmax(logits), "class_ids": ids, "classes": self._classes(ids),
                **self._all(logits)}
        return made if keys is None else {k: made[k] for k in keys}

    def _metric_ops(self, labels: Any, logits: Any, features: Any, predictions: dict[str, Any]) -> dict[str, Any]:
        row, weights = self._losses(labels, logits, features)
        return {"average_loss": tf.metrics.mean(row, weights),
                "accuracy": tf.metrics.accuracy(labels, predictions["class_ids"], weights)}


@export("estimator.BinaryClassHead")
class BinaryClassHead(_ClassHead):
    """One of two classes, by one logit."""

    def __init__(self, weight_column: Any = None, thresholds: Any = None, label_vocabulary: Any = None,
                 loss_reduction: str = "sum_over_batch_size", loss_fn: Any = None, name: str | None = None):
        self._thresholds = tuple(thresholds or ())
        for t in self._thresholds:
            if not 0 < t < 1:
                raise ValueError(f"thresholds not in (0, 1): {thresholds}.")
        super().__init__(2, weight_column, label_vocabulary, loss_reduction, loss_fn, name)

    logits_dimension = property(lambda self: 1, doc="One.")

    def _labels(self, labels: Any) -> Any:
        values = tf.cast(self._ids(labels), tf.float32)
        inside = tf.reduce_all(tf.logical_and(values >= 0, values <= 1))
        with tf.control_dependencies([tf.Assert(inside, ["Labels must be in [0, 1]:", values])]):
            return tf.identity(values)

    def _unreduced(self, labels: Any, logits: Any, features: Any) -> Any:
        return tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)

    def predictions(self, logits: Any, keys: Any = None) -> dict[str, Any]:
        """Logits, the probability of the second class, of both, and the class of each row."""
        two = tf.concat([tf.zeros_like(logits), logits], -1)
        ids = tf.expand_dims(tf.argmax(two, -1), -1)
        made = {"logits": logits, "logistic": tf.sigmoid(logits), "probabilities": tf.nn.softmax(two), "class_ids": ids,
                "classes": self._classes(ids), **self._all(logits)}
        return made if keys is None else {k: made[k] for k in keys}

    def _metric_ops(self, labels: Any, logits: Any, features: Any, predictions: dict[str, Any]) -> dict[str, Any]:
        row, w = self._losses(labels, logits, features)
        p, ids = predictions["logistic"], predictions["class_ids"]
        mean = tf.metrics.mean(labels, w)
        return {"average_loss": tf.metrics.mean(row, w), "accuracy": tf.metrics.accuracy(labels, ids, w),
               "precision": tf.metrics.precision(labels, ids, w), "recall": tf.metrics.recall(labels, ids, w),
               "prediction/mean": tf.metrics.mean(p, w), "label/mean": mean,
               "accuracy_baseline": (tf.maximum(mean[0], 1 - mean[0]), mean[1]),
               **_curves(labels, p, w, self._thresholds)}

    def _export_outputs(self, predictions: dict[str, Any]) -> dict[str, Any]:
        return {**super()._export_outputs(predictions), "regression": RegressionOutput(predictions["logistic"])}


@export("estimator.RegressionHead")
class RegressionHead(Head):
    """Numbers, by squared error."""

    def __init__(self, label_dimension: int = 1, weight_column: Any = None, loss_reduction: str = "sum_over_batch_size",
                 loss_fn: Any = None, inverse_link_fn: Any = None, name: str | None = None):
        if label_dimension < 1:
            raise ValueError(f"Invalid label_dimension {label_dimension}.")
        super().__init__(weight_column, loss_reduction, loss_fn, name)
        self._dimension, self._inverse = label_dimension, inverse_link_fn

    update_metrics = _update_metrics                             # type: ignore[assignment]

    logits_dimension = property(lambda self: self._dimension, doc="The numbers of a row.")

    def _labels(self, labels: Any) -> Any:
        labels = tf.cast(tf.convert_to_tensor(labels), tf.float32)
        return tf.expand_dims(labels, -1) if labels.shape.rank == 1 else labels

    def _losses(self, labels: Any, logits: Any, features: Any) -> tuple[Any, Any]:
        """The loss of each number."""
        row = self._loss_fn(labels=labels, logits=logits) if self._loss_fn is not None else \
            self._unreduced(labels, logits, features)
        return row, self._row_weights(features)

    def _unreduced(self, labels: Any, logits: Any, features: Any) -> Any:
        return tf.squared_difference(labels, logits)

    def predictions(self, logits: Any, keys: Any = None) -> dict[str, Any]:
        """The numbers."""
        if self._inverse is None:
            return {"predictions": logits}
        return {"predictions": self._inverse(logits), "logits": logits}

    def _metric_ops(self, labels: Any, logits: Any, features: Any, predictions: dict[str, Any]) -> dict[str, Any]:
        row, w = self._losses(labels, logits, features)
        return {"average_loss": tf.metrics.mean(row, w), "prediction/mean": tf.metrics.mean(predictions["predictions"], w),
                "label/mean": tf.metrics.mean(labels, w)}

    def _export_outputs(self, predictions: dict[str, Any]) -> dict[str, Any]:
        value = RegressionOutput(predictions["predictions"])
        return {_DEFAULT: value, "regression": value, "predict": PredictOutput(predictions)}


@export("estimator.LogisticRegressionHead")
class LogisticRegressionHead(RegressionHead):
    """Probabilities, by cross entropy."""

    def __init__(self, weight_column: Any = None, loss_reduction: str = "sum_over_batch_size", name: str | None = None):
        super().__init__(1, weight_column, loss_reduction, inverse_link_fn=tf.sigmoid, name=name)

    def _unreduced(self, labels: Any, logits: Any, features: Any) -> Any:
        return tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)


@export("estimator.PoissonRegressionHead")
class PoissonRegressionHead(RegressionHead):
    """Counts, by the Poisson likelihood."""

    def __init__(self, label_dimension: int = 1, weight_column: Any = None, loss_reduction: str = "sum_over_batch_size",
                 compute_full_loss: bool = True, name: str | None = None):
        super().__init__(label_dimension, weight_column, loss_reduction, inverse_link_fn=tf.exp, name=name)
        self._full = compute_full_loss

    def _unreduced(self, labels: Any, logits: Any, features: Any) -> Any:
        return tf.nn.log_poisson_loss(targets=labels, log_input=logits, compute_full_loss=self._full)


@export("estimator.MultiLabelHead")
class MultiLabelHead(Head):
    """Any number of classes at once."""

    def __init__(self, n_classes: int, weight_column: Any = None, thresholds: Any = None, label_vocabulary: Any = None,
                 loss_reduction: str = "sum_over_batch_size", loss_fn: Any = None, classes_for_class_based_metrics: Any = None,
                 name: str | None = None):
        if n_classes is None or n_classes < 2:
            raise ValueError(f"n_classes must be > 1 for multi-label classification. Given: {n_classes}")
        super().__init__(weight_column, loss_reduction, loss_fn, name)
        self._n_classes, self._vocabulary, self._thresholds = n_classes, label_vocabulary, tuple(thresholds or ())
        self._watched = tuple(classes_for_class_based_metrics or ())

    update_metrics = _update_metrics                             # type: ignore[assignment]

    logits_dimension = property(lambda self: self._n_classes, doc="The number of classes.")

    def _labels(self, labels: Any) -> Any:
        if not isinstance(labels, tf.SparseTensor):
            return tf.cast(labels, tf.float32)
        ids = labels
        if self._vocabulary is not None:
            ids = tf.contrib.lookup.index_table_from_tensor(tf.constant(list(self._vocabulary)),
                                                            name="class_id_lookup").lookup(labels)
        return tf.cast(tf.sparse_to_indicator(ids, self._n_classes), tf.float32)

    def _unreduced(self, labels: Any, logits: Any, features: Any) -> Any:
        return tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)

    def predictions(self, logits: Any, keys: Any = None) -> dict[str, Any]:
        """Logits and probabilities."""
        return {"logits": logits, "probabilities": tf.sigmoid(logits)}

    def _metric_ops(self, labels: Any, logits: Any, features: Any, predictions: dict[str, Any]) -> dict[str, Any]:
        row, w = self._losses(labels, logits, features)
        p = predictions["probabilities"]
        out = {"average_loss": tf.metrics.mean(row, w), **_curves(labels, p, w, self._thresholds)}
        for i in self._watched:
            out[f"probability_mean/class{i}"] = tf.metrics.mean(p[:, i], None)
        return out

    def _export_outputs(self, predictions: dict[str, Any]) -> dict[str, Any]:
        names = tf.constant(list(self._vocabulary)) if self._vocabulary is not None else \
            tf.as_string(tf.range(self._n_classes))
        rows = tf.shape(predictions["probabilities"])[0]
        scored = ClassificationOutput(scores=predictions["probabilities"],
                                      classes=tf.tile(tf.expand_dims(names, 0), tf.stack([rows, 1])))
        return {_DEFAULT: scored, "classification": scored, "predict": PredictOutput(predictions)}


@export("estimator.MultiHead")
class MultiHead(Head):
    """Several heads, each with its own logits and labels."""

    def __init__(self, heads: Any, head_weights: Any = None):
        heads = list(heads or ())
        if not heads:
            raise ValueError(f"Must specify heads. Given: {heads}")
        if any(not h.name for h in heads):
            raise ValueError("All given heads must have name specified. Given: " + ", ".join(str(h) for h in heads))
        if head_weights is not None and len(head_weights) != len(heads):
            raise ValueError(f"heads and head_weights must have the same size. Given len(heads): {len(heads)}. Given "
                             f"len(head_weights): {len(head_weights)}")
        super().__init__(name="_".join(h.name for h in heads))
        self._heads, self._strengths = heads, list(head_weights or [1.0] * len(heads))

    def metrics(self, regularization_losses: Any = None) -> dict[str, Any]:
        """The metrics of all heads, by name and head."""
        return {f"{k}/{h.name}": m for h in self._heads for k, m in h.metrics().items()}

    def update_metrics(self, eval_metrics: dict[str, Any], features: Any, logits: Any, labels: Any,      # type: ignore[override]
                       regularization_losses: Any = None) -> dict[str, Any]:
        """Updates the metrics of all heads."""
        parts = self._parts(logits)
        for h in self._heads:
            own = {k.removesuffix(f"/{h.name}"): m for k, m in eval_metrics.items() if k.endswith(f"/{h.name}")}
            h.update_metrics(own, features, parts[h.name], labels[h.name])
        return eval_metrics

    logits_dimension = property(lambda self: sum(h.logits_dimension for h in self._heads), doc="The sum.")

    def _parts(self, logits: Any) -> dict[str, Any]:
        if isinstance(logits, dict):
            return logits
        sizes = [h.logits_dimension for h in self._heads]
        return dict(zip([h.name for h in self._heads], tf.split(logits, sizes, -1), strict=True))

    def loss(self, labels: Any, logits: Any, features: Any = None, mode: Any = None, regularization_losses: Any = None) -> Any:
        """The weighted sum of the heads' losses."""
        parts = self._parts(logits)
        loss = tf.add_n([s * h.loss(labels[h.name], parts[h.name], features, mode)
                         for h, s in zip(self._heads, self._strengths, strict=True)])
        return loss + tf.add_n(list(regularization_losses)) if regularization_losses else loss

    def predictions(self, logits: Any, keys: Any = None) -> dict[Any, Any]:
        """The predictions of all heads, by head and name."""
        parts = self._parts(logits)
        return {(h.name, k): v for h in self._heads for k, v in h.predictions(parts[h.name]).items()}

    def create_estimator_spec(self, features: Any, mode: str, logits: Any, labels: Any = None, optimizer: Any = None,
                              trainable_variables: Any = None, train_op_fn: Any = None, update_ops: Any = None,
                              regularization_losses: Any = None) -> EstimatorSpec:
        """The EstimatorSpec of all heads together."""
        parts, predictions = self._parts(logits), self.predictions(logits)
        if mode == ModeKeys.PREDICT:
            outputs: dict[str, Any] = {}
            for h in self._heads:
                made = h._export_outputs(h.predictions(parts[h.name]))
                if _DEFAULT not in outputs:
                    outputs[_DEFAULT] = made[_DEFAULT]
                outputs.update({f"{h.name}/{k}" if k != _DEFAULT else h.name: v for k, v in made.items()})
            return EstimatorSpec(mode, predictions, export_outputs=outputs)
        loss = self.loss(labels, logits, features, mode, regularization_losses)
        if mode == ModeKeys.EVAL:
            ops = {}
            for h in self._heads:
                found = h._metric_ops(h._labels(labels[h.name]), parts[h.name], features, h.predictions(parts[h.name]))
                ops.update({f"{k}/{h.name}": v for k, v in found.items()})
            return EstimatorSpec(mode, predictions, loss, eval_metric_ops=ops)
        return EstimatorSpec(mode, predictions, loss, self._train_op(loss, optimizer, trainable_variables, train_op_fn,
                                                                     update_ops))
