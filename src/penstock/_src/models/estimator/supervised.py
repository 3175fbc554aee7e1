"""Models exported for training and evaluation: inputs with labels, and signatures with loss, predictions and metrics."""
from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import penstock.compat.v1 as tf
from penstock._src.base.api import export
from penstock._src.models.estimator.export_outputs import ExportOutput, _named
from penstock._src.models.estimator.spec import EstimatorSpec, ModeKeys

_METHODS = {ModeKeys.TRAIN: "tensorflow/supervised/training", ModeKeys.EVAL: "tensorflow/supervised/eval"}


class SupervisedInputReceiver(collections.namedtuple("SupervisedInputReceiver", ["features", "labels", "receiver_tensors"])):
    """The tensors that examples are fed to, and the features and labels made of them."""

    def __new__(cls, features: Any, labels: Any, receiver_tensors: Any) -> SupervisedInputReceiver:
        for what, given in (("features", features), ("labels", labels)):
            if given is None:
                raise ValueError(f"{what} must be defined.")
            _named(given, what, what.removesuffix("s"))
        if receiver_tensors is None:
            raise ValueError("receiver_tensors must be defined.")
        return super().__new__(cls, features, labels, _named(receiver_tensors, "input", "receiver_tensors"))


class SupervisedOutput(ExportOutput):
    """The loss, predictions and metrics of a model that is exported for training or evaluation."""

    def __init__(self, spec: EstimatorSpec):
        self._method = _METHODS[spec.mode]
        outputs: dict[str, Any] = {} if spec.loss is None else {"loss": spec.loss}
        predictions = {} if spec.predictions is None else spec.predictions
        for key, value in (predictions if isinstance(predictions, dict) else {"output": predictions}).items():
            outputs[_below("predictions", key)] = value
        for key, metric in (spec.eval_metric_ops or {}).items():
            value, update = (metric.result(), metric.updates[0]) if hasattr(metric, "result") else metric
            if isinstance(update, tf.Operation):            # a signature names tensors
                with tf.control_dependencies([update]):
                    update = tf.constant([], name="metric_op_wrapper")
            outputs[_below("metrics", key) + "/value"] = value
            outputs[_below("metrics", key) + "/update_op"] = update
        self.outputs = outputs

    def as_signature_def(self, receiver_tensors: dict[str, Any]) -> Any:
        """The signature, from features and labels to the outputs."""
        def infos(tensors: dict[str, Any]) -> dict[str, Any]:
            return {name: tf.saved_model.build_tensor_info(t) for name, t in tensors.items()}
        return tf.saved_model.build_signature_def(infos(receiver_tensors), infos(self.outputs), self._method)


def _below(prefix: str, key: Any) -> str:
    name = "/".join(key) if isinstance(key, tuple) else key
    return name if name.startswith(prefix) else f"{prefix}/{name}"


def outputs_of(spec: EstimatorSpec) -> dict[str, Any]:
    """The exported outputs of a model, by the name of the signature."""
    return (spec.export_outputs or {}) if spec.mode == ModeKeys.PREDICT else {spec.mode: SupervisedOutput(spec)}


@export("estimator.experimental.build_raw_supervised_input_receiver_fn",
        v1=["contrib.estimator.build_raw_supervised_input_receiver_fn"])
def build_raw_supervised_input_receiver_fn(features: Any, labels: Any, default_batch_size: int | None = None) -> Callable:
    """A function that makes a receiver of features and labels, to export a model for training or evaluation.

    Args:
        features: Tensor, or tensors by name, that placeholders are made like.
        labels: Tensor, or tensors by name.
        default_batch_size: Size of the batch; unknown by default.

    Returns:
        A function without arguments.

    >>> with tf.Graph().as_default():
    ...     x, y = tf.compat.v1.placeholder(tf.float32, [None, 4]), tf.compat.v1.placeholder(tf.int64, [None])
    ...     receiver = tf.estimator.experimental.build_raw_supervised_input_receiver_fn({"x": x}, y)()
    >>> sorted(receiver.receiver_tensors)
    ['label', 'x']
    """
    parts = [given if isinstance(given, dict) else {name: given} for given, name in ((features, "input"), (labels, "label"))]
    common = sorted(parts[0].keys() & parts[1].keys())
    if common:
        raise ValueError(f"Features and labels must have distinct keys. Found overlapping keys: {common}")

    def placeholder(name: str, like: Any) -> Any:
        dims = like.shape.as_list()
        label = name if hasattr(like, "_value") else like.op.name
        return tf.placeholder(like.dtype, [default_batch_size, *dims[1:]] if dims else dims, label)

    def receive() -> SupervisedInputReceiver:
        made = [{name: placeholder(name, t) for name, t in part.items()} for part in parts]
        x, y = (m if isinstance(given, dict) else next(iter(m.values())) for given, m in zip((features, labels), made))
        return SupervisedInputReceiver(x, y, made[0] | made[1])
    return receive


@export(v1=["contrib.estimator.build_supervised_input_receiver_fn_from_input_fn"])
def build_supervised_input_receiver_fn_from_input_fn(input_fn: Any, **input_fn_args: Any) -> Callable:
    """Such a function for features and labels like those that an input function returns.

    >>> make = tf.contrib.estimator.build_supervised_input_receiver_fn_from_input_fn
    >>> receive = make(lambda: ({"x": tf.zeros([2, 3])}, tf.zeros([2])))
    """
    with tf.Graph().as_default():
        result = input_fn(**input_fn_args)
        if isinstance(result, tf.data.Dataset):
            result = tf.data.make_one_shot_iterator(result).get_next()
        features, labels = result
    return build_raw_supervised_input_receiver_fn(features, labels)
