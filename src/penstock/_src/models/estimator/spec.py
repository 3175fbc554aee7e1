"""The interface of model functions: ModeKeys, the purpose of a call, and EstimatorSpec, the ops of the model."""
from __future__ import annotations

import collections
from typing import Any

import penstock.compat.v1 as tf
from penstock._src.base.api import export
from penstock._src.models.estimator.export_outputs import ExportOutput, PredictOutput


@export("estimator.ModeKeys")
class ModeKeys:
    """The purpose of a model: training, evaluation or prediction."""

    TRAIN = "train"
    EVAL = "eval"
    PREDICT = "infer"


@export("estimator.EstimatorSpec")
class EstimatorSpec(collections.namedtuple("EstimatorSpec", [
        "mode", "predictions", "loss", "train_op", "eval_metric_ops", "export_outputs", "training_chief_hooks",
        "training_hooks", "scaffold", "evaluation_hooks", "prediction_hooks"])):
    """The ops of a model, checked for what its mode needs.

    Args:
        mode: `tf.estimator.ModeKeys` of the call.
        predictions: A tensor, or a dictionary of them.
        loss: Scalar.
        train_op: Op of a training step.
        eval_metric_ops: Pairs of value and update op by name.
        export_outputs: `ExportOutput` objects by the name of their signature.
        training_chief_hooks: Hooks of the chief while training.
        training_hooks: Hooks of every worker while training.
        scaffold: How the model is initialized and saved.
        evaluation_hooks: Hooks while evaluating.
        prediction_hooks: Hooks while predicting.

    >>> with tf.Graph().as_default():
    ...     loss = tf.constant(0.5)
    ...     spec = tf.estimator.EstimatorSpec(tf.estimator.ModeKeys.EVAL, loss=loss)
    >>> spec.loss is loss
    True
    """

    eval_metric_ops: Any
    evaluation_hooks: Any
    export_outputs: Any
    loss: Any
    prediction_hooks: Any
    predictions: Any
    scaffold: Any
    train_op: Any
    training_chief_hooks: Any
    training_hooks: Any

    def __new__(cls, mode: str, predictions: Any = None, loss: Any = None, train_op: Any = None, eval_metric_ops: Any = None,
                export_outputs: Any = None, training_chief_hooks: Any = None, training_hooks: Any = None,
                scaffold: Any = None, evaluation_hooks: Any = None, prediction_hooks: Any = None) -> EstimatorSpec:
        train_op = _checked_train_op(train_op, mode)
        loss = _checked_loss(loss, mode)
        predictions = {} if predictions is None else predictions
        if mode == ModeKeys.PREDICT and isinstance(predictions, dict) and not predictions:
            raise ValueError("Missing predictions.")
        _check_predictions(predictions)
        hooks = [_checked_hooks(h, n) for h, n in ((training_chief_hooks, "training_chief_hooks"),
                                                   (training_hooks, "training_hooks"), (evaluation_hooks, "evaluation_hooks"),
                                                   (prediction_hooks, "prediction_hooks"))]
        scaffold = scaffold or tf.train.Scaffold()
        if not isinstance(scaffold, tf.train.Scaffold):
            raise TypeError(f"scaffold must be tf.train.Scaffold. Given: {scaffold}")
        return super().__new__(cls, mode, predictions, loss, train_op, _checked_metrics(eval_metric_ops),
                               _checked_exports(export_outputs, predictions) if mode == ModeKeys.PREDICT else export_outputs,
                               hooks[0], hooks[1], scaffold, hooks[2], hooks[3])


def _checked_train_op(train_op: Any, mode: str) -> Any:
    if train_op is None:
        if mode == ModeKeys.TRAIN:
            raise ValueError("Missing train_op.")
        return None
    if not isinstance(train_op, (tf.Tensor, tf.Variable, tf.Operation)):
        raise TypeError(f"train_op must be Operation or Tensor, given: {train_op}")
    return train_op


def _checked_loss(loss: Any, mode: str) -> Any:
    if loss is None:
        if mode in (ModeKeys.TRAIN, ModeKeys.EVAL):
            raise ValueError("Missing loss.")
        return None
    loss = tf.convert_to_tensor(loss)
    if not loss.shape.is_compatible_with([]) and not loss.shape.is_compatible_with([1]):
        raise ValueError(f"Loss must be scalar, given: {loss}")
    return loss if loss.shape.rank == 0 else tf.reshape(loss, [])


def _check_predictions(predictions: Any) -> None:
    for key, value in (predictions.items() if isinstance(predictions, dict) else [("predictions", predictions)]):
        if not isinstance(value, (tf.Tensor, tf.SparseTensor, tf.Variable)) and not hasattr(value, "row_splits"):
            raise TypeError(f"predictions[{key}] must be Tensor, given: {value}")


def _checked_metrics(metrics: Any) -> dict[str, Any]:
    metrics = {} if metrics is None else metrics
    if not isinstance(metrics, dict):
        raise TypeError(f"eval_metric_ops must be a dict, given: {metrics}")
    for key, pair in metrics.items():
        if not hasattr(pair, "result") and (not isinstance(pair, tuple) or len(pair) != 2):
            raise TypeError(f"Values of eval_metric_ops must be (metric_value, update_op) tuples, given: {pair} for key: {key}")
    return metrics


def _checked_exports(outputs: Any, predictions: Any) -> dict[str, ExportOutput]:
    default = tf.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY
    if outputs is None:
        return {default: PredictOutput(predictions)}
    if not isinstance(outputs, dict):
        raise TypeError(f"export_outputs must be a dictionary, got {outputs}")
    for value in outputs.values():
        if not isinstance(value, ExportOutput):
            raise TypeError(f"The values of export_outputs must be ExportOutputs, got {outputs}")
    if default not in outputs:
        if len(outputs) > 1:
            raise ValueError(f"One of several export_outputs must be the default: name it '{default}'.")
        outputs = {**outputs, default: next(iter(outputs.values()))}
    return outputs


def _checked_hooks(hooks: Any, name: str) -> tuple:
    hooks = tuple(hooks or ())
    for hook in hooks:
        if not isinstance(hook, tf.train.SessionRunHook):
            raise TypeError(f"All hooks in {name} must be SessionRunHook instances, given: {hook}")
    return hooks


