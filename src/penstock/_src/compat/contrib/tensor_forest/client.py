"""tf.contrib.tensor_forest.client.random_forest: a forest as an estimator of contrib.learn."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.compat.contrib.learn.estimators import Estimator, ModelFnOps
from penstock._src.compat.contrib.learn.modes import ModeKeys
from penstock._src.compat.contrib.tensor_forest.graphs import RandomForestGraphs
from penstock.compat import v1 as tf

_MODULE = "contrib.tensor_forest.client.random_forest"
VARIANCE_PREDICTION_KEY, TREE_PATHS_PREDICTION_KEY = "prediction_variance", "tree_paths"


class _StopWhenGrown(tf.train.SessionRunHook):
    """Stops when the loss has not fallen for some steps."""

    def __init__(self, loss: Any, rounds: int):
        self._loss, self._rounds, self._least, self._steps = loss, rounds, None, 0

    def before_run(self, run_context: Any) -> Any:
        return tf.train.SessionRunArgs(self._loss)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self._steps += 1
        if self._least is None or run_values.results < self._least:
            self._least, self._steps = run_values.results, 0
        if self._steps > self._rounds:
            run_context.request_stop()


@export(v1=[f"{_MODULE}.TensorForestEstimator"])
class TensorForestEstimator(Estimator):
    """A random forest that learns to classify, or to predict numbers.

    >>> model = TensorForestEstimator(ForestHParams(num_classes=3, num_features=4, num_trees=10).fill())
    >>> model.fit(x, y, steps=100).evaluate(x, y)
    """

    def __init__(self, params: Any, device_assigner: Any = None, model_dir: Any = None, feature_columns: Any = None,
                 graph_builder_class: Any = RandomForestGraphs, config: Any = None, early_stopping_rounds: int | None = 100,
                 **others: Any):
        params = params.fill()

        def model_fn(features: Any, labels: Any, mode: str) -> ModelFnOps:
            if feature_columns:
                features = tf.feature_column.input_layer(features, feature_columns)
            forest = graph_builder_class(params, device_assigner=device_assigner)
            values, paths, variance = forest.inference_graph(features)
            predictions = {VARIANCE_PREDICTION_KEY: variance, TREE_PATHS_PREDICTION_KEY: paths}
            if params.regression:
                predictions["scores"] = tf.squeeze(values, 1) if params.num_classes == 1 else values
            else:
                predictions.update(probabilities=values, classes=tf.argmax(values, 1))
            if mode == ModeKeys.INFER:
                return ModelFnOps(mode, predictions)
            loss, metrics = _loss(params, values, predictions, labels)
            train = None
            if mode == ModeKeys.TRAIN:
                with tf.control_dependencies([values]):
                    train = tf.group(forest.training_graph(features, labels), tf.assign_add(tf.train.get_global_step(), 1))
            hooks = [_StopWhenGrown(forest.training_loss(None, None), early_stopping_rounds)] if early_stopping_rounds else []
            return ModelFnOps(mode, predictions, loss, train, metrics, training_hooks=hooks)
        super().__init__(model_fn, model_dir, config)


def _loss(params: Any, values: Any, predictions: Any, labels: Any) -> tuple:
    """The loss of the forest's answers, and what evaluation tells."""
    if params.regression:
        return tf.losses.mean_squared_error(tf.reshape(tf.cast(labels, tf.float32), [-1, params.num_classes]), values), {}
    labels = tf.reshape(tf.cast(labels, tf.int64), [-1])
    mine = tf.reduce_sum(values * tf.one_hot(labels, params.num_classes), 1)
    return -tf.reduce_mean(tf.log(tf.maximum(mine, 1e-6))), {"accuracy": tf.metrics.accuracy(labels, predictions["classes"])}
