"""The premade estimators: linear models, networks, both together, and baselines.

Variables have the names of TensorFlow 1.x (`linear/linear_model/…`, `dnn/hiddenlayer_0/kernel`), so that checkpoints are
interchangeable.
"""
from __future__ import annotations

import math
from typing import Any

import penstock.compat.v1 as tf
from penstock._src.base.api import export
from penstock._src.models.estimator.estimator import Estimator
from penstock._src.models.estimator.head import BinaryClassHead, Head, MultiClassHead, RegressionHead
from penstock._src.models.estimator.linear_sdca import LinearSDCA
from penstock._src.models.estimator.spec import ModeKeys

_OPTIMIZERS = {"Adagrad": tf.train.AdagradOptimizer, "Adam": tf.train.AdamOptimizer, "Ftrl": tf.train.FtrlOptimizer,
               "RMSProp": tf.train.RMSPropOptimizer, "SGD": tf.train.GradientDescentOptimizer}


def _optimizer(given: Any, rate: float) -> Any:
    """An optimizer from itself, its name, or a function that makes it."""
    if isinstance(given, str):
        if given not in _OPTIMIZERS:
            raise ValueError(f"Unsupported optimizer name: {given}. Supported names are: {tuple(sorted(_OPTIMIZERS))}")
        return _OPTIMIZERS[given](learning_rate=rate)
    made = given() if callable(given) and not hasattr(given, "minimize") else given
    if not hasattr(made, "minimize"):
        raise ValueError(f"The given object is not an Optimizer instance. Given: {made}")
    return made


def _class_head(n_classes: int, weight_column: Any, vocabulary: Any, reduction: str) -> Head:
    if n_classes == 2:
        return BinaryClassHead(weight_column, label_vocabulary=vocabulary, loss_reduction=reduction)
    return MultiClassHead(n_classes, weight_column, vocabulary, reduction)


def _check_features(features: Any) -> None:
    if not isinstance(features, dict):
        raise ValueError(f"features should be a dictionary of `Tensor`s. Given type: {type(features)}")


# -- logits ------------------------------------------------------------------------------------------------------------
def linear_logits(features: Any, columns: Any, units: int, combiner: str, partitioner: Any,
                  cols_to_vars: dict | None = None) -> Any:
    with tf.variable_scope("linear", values=list(features.values()), partitioner=partitioner):
        return tf.feature_column.linear_model(features, columns, units, combiner, cols_to_vars=cols_to_vars)


def dnn_logits(features: Any, columns: Any, hidden: Any, units: int, mode: str, activation: Any, dropout: Any,
                partitioner: Any, batch_norm: bool) -> Any:
    training = mode == ModeKeys.TRAIN
    with tf.variable_scope("dnn", values=list(features.values()), partitioner=partitioner):
        with tf.variable_scope("input_from_feature_columns", values=list(features.values())):
            net = tf.feature_column.input_layer(features, columns)
        for i, size in enumerate(hidden):
            with tf.variable_scope(f"hiddenlayer_{i}", values=[net]) as scope:
                net = tf.layers.dense(net, size, activation=activation, name=scope,
                                      kernel_initializer=tf.glorot_uniform_initializer())
                if dropout is not None and training:
                    net = tf.layers.dropout(net, rate=dropout, training=True)
                if batch_norm:
                    net = tf.layers.batch_normalization(net, momentum=0.999, training=training, name=f"batchnorm_{i}")
            _summarize(net, f"dnn/hiddenlayer_{i}")
        with tf.variable_scope("logits", values=[net]) as scope:
            net = tf.layers.dense(net, units, activation=None, name=scope, kernel_initializer=tf.glorot_uniform_initializer())
        _summarize(net, "dnn/logits")
        return net


def _summarize(value: Any, name: str) -> None:
    tf.summary.scalar(f"{name}/fraction_of_zero_values", tf.nn.zero_fraction(value))
    tf.summary.histogram(f"{name}/activation", value)


# -- linear ------------------------------------------------------------------------------------------------------------
@export(v1=["estimator.LinearEstimator"])
class LinearEstimator(Estimator):
    """A linear model with a custom head."""

    def __init__(self, head: Any, feature_columns: Any, model_dir: Any = None, optimizer: Any = "Ftrl", config: Any = None,
                 partitioner: Any = None, sparse_combiner: str = "sum", warm_start_from: Any = None):
        columns = tuple(feature_columns or ())
        head._scope = "linear/head"
        if isinstance(optimizer, LinearSDCA):
            optimizer.check(head, sparse_combiner)

        def model_fn(features: Any, labels: Any, mode: str, config: Any) -> Any:
            _check_features(features)
            variables: dict[Any, Any] = {}
            logits = linear_logits(features, columns, head.logits_dimension, sparse_combiner, partitioner, variables)
            if isinstance(optimizer, LinearSDCA):
                return head.create_estimator_spec(features, mode, logits, labels, train_op_fn=lambda loss: optimizer.train_op(
                    head, features, labels, variables))
            rate = min(0.2, 1.0 / math.sqrt(len(columns) or 1))
            return head.create_estimator_spec(features, mode, logits, labels, _optimizer(optimizer, rate))
        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)


@export(v1=["estimator.LinearClassifier"])
class LinearClassifier(LinearEstimator):
    """A linear model of classes.

    >>> tf.estimator.LinearClassifier([tf.feature_column.numeric_column("x", 4)], n_classes=3)
    """

    def __init__(self, feature_columns: Any, model_dir: Any = None, n_classes: int = 2, weight_column: Any = None,
                 label_vocabulary: Any = None, optimizer: Any = "Ftrl", config: Any = None, partitioner: Any = None,
                 warm_start_from: Any = None, loss_reduction: str = "weighted_sum", sparse_combiner: str = "sum"):
        super().__init__(_class_head(n_classes, weight_column, label_vocabulary, loss_reduction), feature_columns, model_dir,
                         optimizer, config, partitioner, sparse_combiner, warm_start_from)


@export(v1=["estimator.LinearRegressor"])
class LinearRegressor(LinearEstimator):
    """A linear model of numbers."""

    def __init__(self, feature_columns: Any, model_dir: Any = None, label_dimension: int = 1, weight_column: Any = None,
                 optimizer: Any = "Ftrl", config: Any = None, partitioner: Any = None, warm_start_from: Any = None,
                 loss_reduction: str = "weighted_sum", sparse_combiner: str = "sum"):
        super().__init__(RegressionHead(label_dimension, weight_column, loss_reduction), feature_columns, model_dir, optimizer,
                         config, partitioner, sparse_combiner, warm_start_from)


# -- networks ----------------------------------------------------------------------------------------------------------
@export(v1=["estimator.DNNEstimator"])
class DNNEstimator(Estimator):
    """A network of dense layers with a custom head."""

    def __init__(self, head: Any, hidden_units: Any, feature_columns: Any, model_dir: Any = None, optimizer: Any = "Adagrad",
                 activation_fn: Any = tf.nn.relu, dropout: float | None = None, input_layer_partitioner: Any = None,
                 config: Any = None, warm_start_from: Any = None, batch_norm: bool = False):
        columns = tuple(feature_columns or ())
        head._scope = "dnn/head"

        def model_fn(features: Any, labels: Any, mode: str, config: Any) -> Any:
            _check_features(features)
            logits = dnn_logits(features, columns, hidden_units, head.logits_dimension, mode, activation_fn, dropout,
                                 input_layer_partitioner, batch_norm)
            return head.create_estimator_spec(features, mode, logits, labels, _optimizer(optimizer, 0.05))
        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)


@export(v1=["estimator.DNNClassifier"])
class DNNClassifier(DNNEstimator):
    """A classifier made of dense layers.

    Args:
        hidden_units: Sizes of the hidden layers.
        feature_columns: Columns of `tf.feature_column` that turn features into numbers.
        model_dir: Directory for checkpoints and events.
        n_classes: Number of classes.
        weight_column: Name of the feature with the weight of an example.
        label_vocabulary: Values of text labels, in the order of the classes.
        optimizer: Optimizer, its name, or a function that returns one.
        activation_fn: Function after each hidden layer.
        dropout: Probability that an input of a layer is dropped; None for never.
        input_layer_partitioner: Partitioner of the input layer's variables.
        config: `tf.ConfigProto` with options of the session.
        warm_start_from: Checkpoint, or `WarmStartSettings`, to take initial values from.
        loss_reduction: How losses of a batch are combined.
        batch_norm: Whether to normalize after each hidden layer.

    >>> import numpy as np
    >>> column = tf.feature_column.numeric_column("x", 2)
    >>> classifier = tf.estimator.DNNClassifier([4], [column], model_dir="model", n_classes=2)
    >>> data = {"x": np.float32([[0., 0.], [1., 1.]])}, np.array([0, 1])
    >>> input_fn = tf.estimator.inputs.numpy_input_fn(*data, num_epochs=None, shuffle=True)
    >>> classifier.train(input_fn, steps=2).get_variable_names()[:2]
    ['dnn/hiddenlayer_0/bias', 'dnn/hiddenlayer_0/bias/Adagrad']
    """

    def __init__(self, hidden_units: Any, feature_columns: Any, model_dir: Any = None, n_classes: int = 2,
                 weight_column: Any = None, label_vocabulary: Any = None, optimizer: Any = "Adagrad",
                 activation_fn: Any = tf.nn.relu, dropout: float | None = None, input_layer_partitioner: Any = None,
                 config: Any = None, warm_start_from: Any = None, loss_reduction: str = "weighted_sum",
                 batch_norm: bool = False):
        super().__init__(_class_head(n_classes, weight_column, label_vocabulary, loss_reduction), hidden_units,
                         feature_columns, model_dir, optimizer, activation_fn, dropout, input_layer_partitioner, config,
                         warm_start_from, batch_norm)


@export(v1=["estimator.DNNRegressor"])
class DNNRegressor(DNNEstimator):
    """A network of dense layers that returns numbers."""

    def __init__(self, hidden_units: Any, feature_columns: Any, model_dir: Any = None, label_dimension: int = 1,
                 weight_column: Any = None, optimizer: Any = "Adagrad", activation_fn: Any = tf.nn.relu,
                 dropout: float | None = None, input_layer_partitioner: Any = None, config: Any = None,
                 warm_start_from: Any = None, loss_reduction: str = "weighted_sum", batch_norm: bool = False):
        super().__init__(RegressionHead(label_dimension, weight_column, loss_reduction), hidden_units, feature_columns,
                         model_dir, optimizer, activation_fn, dropout, input_layer_partitioner, config, warm_start_from,
                         batch_norm)


# -- both together -----------------------------------------------------------------------------------------------------
@export(v1=["estimator.DNNLinearCombinedEstimator"])
class DNNLinearCombinedEstimator(Estimator):
    """A linear model and a network, added up ("wide and deep"), with a custom head."""

    def __init__(self, head: Any, model_dir: Any = None, linear_feature_columns: Any = None, linear_optimizer: Any = "Ftrl",
                 dnn_feature_columns: Any = None, dnn_optimizer: Any = "Adagrad", dnn_hidden_units: Any = None,
                 dnn_activation_fn: Any = tf.nn.relu, dnn_dropout: float | None = None, input_layer_partitioner: Any = None,
                 config: Any = None, linear_sparse_combiner: str = "sum", warm_start_from: Any = None,
                 batch_norm: bool = False):
        linear, deep = tuple(linear_feature_columns or ()), tuple(dnn_feature_columns or ())
        if not linear and not deep:
            raise ValueError("Either linear_feature_columns or dnn_feature_columns must be defined.")
        if bool(deep) != bool(dnn_hidden_units):
            raise ValueError("dnn_hidden_units must be defined when dnn_feature_columns is specified, and only then.")

        def model_fn(features: Any, labels: Any, mode: str, config: Any) -> Any:
            _check_features(features)
            parts = []
            if deep:
                parts.append(dnn_logits(features, deep, dnn_hidden_units, head.logits_dimension, mode, dnn_activation_fn,
                                         dnn_dropout, input_layer_partitioner, batch_norm))
            if linear:
                parts.append(linear_logits(features, linear, head.logits_dimension, linear_sparse_combiner,
                                            input_layer_partitioner))

            def train_op(loss: Any) -> Any:
                step, ops = tf.train.get_global_step(), []
                for given, rate, scope in ((dnn_optimizer if deep else None, 0.05, "dnn"),
                                           (linear_optimizer if linear else None, _linear_rate(linear), "linear")):
                    if given is not None:
                        ops.append(_optimizer(given, rate).minimize(
                            loss, var_list=tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, scope + "/")))
                with tf.control_dependencies([tf.group(*ops)]):
                    return tf.assign_add(step, 1).op
            return head.create_estimator_spec(features, mode, tf.add_n(parts) if len(parts) > 1 else parts[0], labels,
                                              train_op_fn=train_op)
        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)


def _linear_rate(columns: tuple) -> float:
    return min(0.005, 1.0 / math.sqrt(len(columns) or 1))


@export(v1=["estimator.DNNLinearCombinedClassifier"])
class DNNLinearCombinedClassifier(DNNLinearCombinedEstimator):
    """A linear model and a network together, for classes."""

    def __init__(self, model_dir: Any = None, linear_feature_columns: Any = None, linear_optimizer: Any = "Ftrl",
                 dnn_feature_columns: Any = None, dnn_optimizer: Any = "Adagrad", dnn_hidden_units: Any = None,
                 dnn_activation_fn: Any = tf.nn.relu, dnn_dropout: float | None = None, n_classes: int = 2,
                 weight_column: Any = None, label_vocabulary: Any = None, input_layer_partitioner: Any = None,
                 config: Any = None, warm_start_from: Any = None, loss_reduction: str = "weighted_sum",
                 batch_norm: bool = False, linear_sparse_combiner: str = "sum"):
        super().__init__(_class_head(n_classes, weight_column, label_vocabulary, loss_reduction), model_dir,
                         linear_feature_columns, linear_optimizer, dnn_feature_columns, dnn_optimizer, dnn_hidden_units,
                         dnn_activation_fn, dnn_dropout, input_layer_partitioner, config, linear_sparse_combiner,
                         warm_start_from, batch_norm)


@export(v1=["estimator.DNNLinearCombinedRegressor"])
class DNNLinearCombinedRegressor(DNNLinearCombinedEstimator):
    """A linear model and a network together, for numbers."""

    def __init__(self, model_dir: Any = None, linear_feature_columns: Any = None, linear_optimizer: Any = "Ftrl",
                 dnn_feature_columns: Any = None, dnn_optimizer: Any = "Adagrad", dnn_hidden_units: Any = None,
                 dnn_activation_fn: Any = tf.nn.relu, dnn_dropout: float | None = None, label_dimension: int = 1,
                 weight_column: Any = None, input_layer_partitioner: Any = None, config: Any = None,
                 warm_start_from: Any = None, loss_reduction: str = "weighted_sum", batch_norm: bool = False,
                 linear_sparse_combiner: str = "sum"):
        super().__init__(RegressionHead(label_dimension, weight_column, loss_reduction), model_dir, linear_feature_columns,
                         linear_optimizer, dnn_feature_columns, dnn_optimizer, dnn_hidden_units, dnn_activation_fn,
                         dnn_dropout, input_layer_partitioner, config, linear_sparse_combiner, warm_start_from, batch_norm)


# -- baselines ---------------------------------------------------------------------------------------------------------
@export("estimator.BaselineEstimator")
class BaselineEstimator(Estimator):
    """A model that uses only the labels, with a custom head."""

    def __init__(self, head: Any, model_dir: Any = None, optimizer: Any = "Ftrl", config: Any = None):
        def model_fn(features: Any, labels: Any, mode: str, config: Any) -> Any:
            _check_features(features)
            with tf.variable_scope("baseline"):
                bias = tf.get_variable("bias", [head.logits_dimension], initializer=tf.zeros_initializer())
                first = next(iter(features.values()))
                rows = first.dense_shape[0] if isinstance(first, tf.SparseTensor) else tf.shape(first)[0]
                logits = tf.ones([rows, 1]) * bias
            return head.create_estimator_spec(features, mode, logits, labels, _optimizer(optimizer, 0.3))
        super().__init__(model_fn, model_dir, config)


@export(v1=["estimator.BaselineClassifier"])
class BaselineClassifier(BaselineEstimator):
    """The frequency of each class."""

    def __init__(self, model_dir: Any = None, n_classes: int = 2, weight_column: Any = None, label_vocabulary: Any = None,
                 optimizer: Any = "Ftrl", config: Any = None, loss_reduction: str = "weighted_sum"):
        super().__init__(_class_head(n_classes, weight_column, label_vocabulary, loss_reduction), model_dir, optimizer, config)


@export(v1=["estimator.BaselineRegressor"])
class BaselineRegressor(BaselineEstimator):
    """The mean of the labels."""

    def __init__(self, model_dir: Any = None, label_dimension: int = 1, weight_column: Any = None, optimizer: Any = "Ftrl",
                 config: Any = None, loss_reduction: str = "weighted_sum"):
        super().__init__(RegressionHead(label_dimension, weight_column, loss_reduction), model_dir, optimizer, config)


@export("estimator.classifier_parse_example_spec")
def classifier_parse_example_spec(feature_columns: Any, label_key: str, label_dtype: Any = tf.int64, label_default: Any = None,
                                  weight_column: Any = None) -> dict[str, Any]:
    """The features for parse_example, from the columns and the label of a classifier."""
    return _with_label(feature_columns, label_key, tf.FixedLenFeature([1], label_dtype, label_default), weight_column)


@export("estimator.regressor_parse_example_spec")
def regressor_parse_example_spec(feature_columns: Any, label_key: str, label_dtype: Any = tf.float32, label_default: Any = None,
                                 label_dimension: int = 1, weight_column: Any = None) -> dict[str, Any]:
    """The features for parse_example, from the columns and the label of a regressor."""
    return _with_label(feature_columns, label_key, tf.FixedLenFeature([label_dimension], label_dtype, label_default),
                       weight_column)


def _with_label(columns: Any, key: str, spec: Any, weight_column: Any) -> dict[str, Any]:
    out = tf.feature_column.make_parse_example_spec(columns)
    if key in out:
        raise ValueError(f"Label should not be used as feature. label_key: {key}, features: {sorted(out)}")
    out[key] = spec
    if isinstance(weight_column, str):
        weight_column = tf.feature_column.numeric_column(weight_column)
    if weight_column is not None:
        out.update(weight_column.parse_example_spec)
    return out
