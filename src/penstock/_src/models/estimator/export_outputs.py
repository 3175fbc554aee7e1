"""The outputs (ExportOutputs, which become signatures) and inputs (ServingInputReceivers) of an exported model."""
from __future__ import annotations

import abc
import collections
from typing import Any

import penstock.compat.v1 as tf
from penstock._src.base.api import export


@export("estimator.export.ExportOutput")
class ExportOutput:
    """One output of an exported model; subclasses make its signature."""

    __metaclass__ = abc.ABCMeta

    def as_signature_def(self, receiver_tensors: dict[str, Any]) -> Any:
        """The SignatureDef for tensors that requests are fed to."""
        raise NotImplementedError(f"{type(self).__name__} has to define as_signature_def(receiver_tensors)")


def _single(receivers: dict[str, Any], what: str) -> Any:
    if len(receivers) != 1:
        raise ValueError(f"{what} input must be a single string Tensor; got {receivers}")
    tensor, = receivers.values()
    if tensor.dtype != tf.string:
        raise ValueError(f"{what} input must be a single string Tensor; got {tensor}")
    return tensor


@export("estimator.export.ClassificationOutput")
class ClassificationOutput(ExportOutput):
    """Scores, classes, or both."""

    def __init__(self, scores: Any = None, classes: Any = None):
        if scores is None and classes is None:
            raise ValueError("At least one of scores and classes must be set.")
        if scores is not None and not (isinstance(scores, tf.Tensor) and scores.dtype.is_floating):
            raise ValueError(f"Classification scores must be a float32 Tensor; got {scores}")
        if classes is not None and not (isinstance(classes, tf.Tensor) and classes.dtype == tf.string):
            raise ValueError(f"Classification classes must be a string Tensor; got {classes}")
        self._scores, self._classes = scores, classes

    scores = property(lambda self: self._scores, doc="A score for every class.")
    classes = property(lambda self: self._classes, doc="The names of the classes.")

    def as_signature_def(self, receiver_tensors: dict[str, Any]) -> Any:
        """The signature of a classification."""
        return tf.saved_model.classification_signature_def(_single(receiver_tensors, "Classification"), self._classes,
                                                           self._scores)


@export("estimator.export.RegressionOutput")
class RegressionOutput(ExportOutput):
    """Values."""

    def __init__(self, value: Any):
        if not (isinstance(value, tf.Tensor) and value.dtype.is_floating):
            raise ValueError(f"Regression output value must be a float32 Tensor; got {value}")
        self._value = value

    value = property(lambda self: self._value, doc="The values.")

    def as_signature_def(self, receiver_tensors: dict[str, Any]) -> Any:
        """The signature of a regression."""
        return tf.saved_model.regression_signature_def(_single(receiver_tensors, "Regression"), self._value)


@export("estimator.export.PredictOutput")
class PredictOutput(ExportOutput):
    """Any tensors by name.

    Args:
        outputs: A tensor, or a dictionary of them.

    >>> output = tf.estimator.export.PredictOutput({"class": tf.constant([1])})
    >>> list(output.outputs)
    ['class']
    """

    def __init__(self, outputs: Any):
        if not isinstance(outputs, dict):
            outputs = {"output": outputs}
        for key, value in outputs.items():
            if not isinstance(key, str):
                raise ValueError(f"Prediction output key must be a string; got {key!r}.")
            if not isinstance(value, tf.Tensor):
                raise ValueError(f"Prediction output value must be a Tensor; got {value!r}.")
        self._outputs = outputs

    outputs = property(lambda self: self._outputs, doc="The tensors by name.")

    def as_signature_def(self, receiver_tensors: dict[str, Any]) -> Any:
        """The signature of a prediction."""
        return tf.saved_model.predict_signature_def(receiver_tensors, self._outputs)


def _named(tensors: Any, default: str, what: str) -> dict[str, Any]:
    if not isinstance(tensors, dict):
        tensors = {default: tensors}
    for key, value in tensors.items():
        if not isinstance(key, str):
            raise ValueError(f"{what} keys must be strings: {key}.")
        if not isinstance(value, (tf.Tensor, tf.SparseTensor)):
            raise ValueError(f"{what} {key} must be a Tensor or SparseTensor.")
    return tensors


@export("estimator.export.ServingInputReceiver")
class ServingInputReceiver(collections.namedtuple("ServingInputReceiver",
                                                  ["features", "receiver_tensors", "receiver_tensors_alternatives"])):
    """The tensors that requests are fed to, and the features made of them.

    Args:
        features: Features by name.
        receiver_tensors: Placeholders that requests are fed to: a tensor, or a dictionary.
        receiver_tensors_alternatives: Further sets of placeholders by the name of a signature.

    >>> with tf.Graph().as_default():
    ...     x = tf.compat.v1.placeholder(tf.string, [None])
    ...     features = tf.compat.v1.parse_example(x, {"x": tf.compat.v1.FixedLenFeature([], tf.float32)})
    ...     receiver = tf.estimator.export.ServingInputReceiver(features, {"examples": x})
    >>> list(receiver.features), list(receiver.receiver_tensors)
    (['x'], ['examples'])
    """

    def __new__(cls, features: Any, receiver_tensors: Any, receiver_tensors_alternatives: Any = None) -> ServingInputReceiver:
        if features is None:
            raise ValueError("features must be defined.")
        if receiver_tensors is None:
            raise ValueError("receiver_tensors must be defined.")
        return super().__new__(cls, _named(features, "feature", "feature"),
                               _named(receiver_tensors, "input", "receiver_tensors"), receiver_tensors_alternatives)


@export("estimator.export.TensorServingInputReceiver")
class TensorServingInputReceiver(collections.namedtuple("TensorServingInputReceiver",
                                                        ["features", "receiver_tensors", "receiver_tensors_alternatives"])):
    """Like ServingInputReceiver, for model functions that take their features as one tensor.

    Args:
        features: A tensor.
        receiver_tensors: Placeholders that requests are fed to: a tensor, or a dictionary.
        receiver_tensors_alternatives: Further sets of placeholders by the name of a signature.

    >>> with tf.Graph().as_default():
    ...     x = tf.compat.v1.placeholder(tf.float32, [None, 4])
    ...     receiver = tf.estimator.export.TensorServingInputReceiver(x, {"x": x})
    >>> receiver.features is x
    True
    """

    def __new__(cls, features: Any, receiver_tensors: Any,
                receiver_tensors_alternatives: Any = None) -> TensorServingInputReceiver:
        if not isinstance(features, (tf.Tensor, tf.SparseTensor)):
            raise ValueError("feature must be a Tensor or SparseTensor.")
        return super().__new__(cls, features, _named(receiver_tensors, "input", "receiver_tensors"),
                               receiver_tensors_alternatives)


@export("estimator.export.build_parsing_serving_input_receiver_fn")
def build_parsing_serving_input_receiver_fn(feature_spec: dict[str, Any], default_batch_size: int | None = None) -> Any:
    """A function that makes a receiver of serialized tf.Examples.

    >>> tf.estimator.export.build_parsing_serving_input_receiver_fn({"x": tf.io.FixedLenFeature([3], tf.float32)})
    """
    def receive() -> ServingInputReceiver:
        serialized = tf.placeholder(tf.string, [default_batch_size], "input_example_tensor")
        return ServingInputReceiver(tf.parse_example(serialized, feature_spec), {"examples": serialized})
    return receive


@export("estimator.export.build_raw_serving_input_receiver_fn")
def build_raw_serving_input_receiver_fn(features: dict[str, Any], default_batch_size: int | None = None) -> Any:
    """A function that makes a receiver of the features themselves.

    Args:
        features: Features by name.
        default_batch_size: Size of the batch; unknown by default.

    Returns:
        A function without arguments.

    >>> with tf.Graph().as_default():
    ...     features = {"x": tf.compat.v1.placeholder(tf.float32, [None, 4])}
    ...     receiver = tf.estimator.export.build_raw_serving_input_receiver_fn(features)()
    >>> receiver.features["x"].shape
    TensorShape([None, 4])
    """
    def receive() -> ServingInputReceiver:
        made = {}
        for name, t in features.items():
            dims = t.shape.as_list()
            label = name if hasattr(t, "_value") else t.op.name
            made[name] = tf.placeholder(t.dtype, [default_batch_size, *dims[1:]], label)
        return ServingInputReceiver(made, dict(made))
    return receive
