"""The ready-made estimators under their 2.x signatures: losses are means over a batch, and there are no partitioners."""
from __future__ import annotations

from typing import Any

import penstock.compat.v1 as tf
from penstock._src.base.api import export
from penstock._src.models.estimator import canned
from penstock._src.models.estimator.canned import _class_head
from penstock._src.models.estimator.head import RegressionHead

_MEAN = "sum_over_batch_size"


@export(v2=["estimator.LinearEstimator"])
class LinearEstimatorV2(canned.LinearEstimator):
    """A linear model with a custom head."""

    def __init__(self, head: Any, feature_columns: Any, model_dir: Any = None, optimizer: Any = "Ftrl", config: Any = None,
                 sparse_combiner: str = "sum"):
        super().__init__(head, feature_columns, model_dir, optimizer, config, None, sparse_combiner)


@export(v2=["estimator.LinearClassifier"])
class LinearClassifierV2(canned.LinearEstimator):
    """A linear model of classes."""

    def __init__(self, feature_columns: Any, model_dir: Any = None, n_classes: int = 2, weight_column: Any = None,
                 label_vocabulary: Any = None, optimizer: Any = "Ftrl", config: Any = None, warm_start_from: Any = None,
                 loss_reduction: str = _MEAN, sparse_combiner: str = "sum"):
        super().__init__(_class_head(n_classes, weight_column, label_vocabulary, loss_reduction), feature_columns, model_dir,
                         optimizer, config, None, sparse_combiner, warm_start_from)


@export(v2=["estimator.LinearRegressor"])
class LinearRegressorV2(canned.LinearEstimator):
    """A linear model of numbers."""

    def __init__(self, feature_columns: Any, model_dir: Any = None, label_dimension: int = 1, weight_column: Any = None,
                 optimizer: Any = "Ftrl", config: Any = None, warm_start_from: Any = None, loss_reduction: str = _MEAN,
                 sparse_combiner: str = "sum"):
        super().__init__(RegressionHead(label_dimension, weight_column, loss_reduction), feature_columns, model_dir, optimizer,
                         config, None, sparse_combiner, warm_start_from)


@export(v2=["estimator.DNNEstimator"])
class DNNEstimatorV2(canned.DNNEstimator):
    """A network of dense layers with a custom head."""

    def __init__(self, head: Any, hidden_units: Any, feature_columns: Any, model_dir: Any = None, optimizer: Any = "Adagrad",
                 activation_fn: Any = tf.nn.relu, dropout: float | None = None, config: Any = None,
                 warm_start_from: Any = None, batch_norm: bool = False):
        super().__init__(head, hidden_units, feature_columns, model_dir, optimizer, activation_fn, dropout, None, config,
                         warm_start_from, batch_norm)


@export(v2=["estimator.DNNClassifier"])
class DNNClassifierV2(canned.DNNEstimator):
    """A classifier made of dense layers."""

    def __init__(self, hidden_units: Any, feature_columns: Any, model_dir: Any = None, n_classes: int = 2,
                 weight_column: Any = None, label_vocabulary: Any = None, optimizer: Any = "Adagrad",
                 activation_fn: Any = tf.nn.relu, dropout: float | None = None, config: Any = None,
                 warm_start_from: Any = None, loss_reduction: str = _MEAN, batch_norm: bool = False):
        super().__init__(_class_head(n_classes, weight_column, label_vocabulary, loss_reduction), hidden_units,
                         feature_columns, model_dir, optimizer, activation_fn, dropout, None, config, warm_start_from,
                         batch_norm)


@export(v2=["estimator.DNNRegressor"])
class DNNRegressorV2(canned.DNNEstimator):
    """A network of dense layers that returns numbers."""

    def __init__(self, hidden_units: Any, feature_columns: Any, model_dir: Any = None, label_dimension: int = 1,
                 weight_column: Any = None, optimizer: Any = "Adagrad", activation_fn: Any = tf.nn.relu,
                 dropout: float | None = None, config: Any = None, warm_start_from: Any = None, loss_reduction: str = _MEAN,
                 batch_norm: bool = False):
        super().__init__(RegressionHead(label_dimension, weight_column, loss_reduction), hidden_units, feature_columns,
                         model_dir, optimizer, activation_fn, dropout, None, config, warm_start_from, batch_norm)


@export(v2=["estimator.DNNLinearCombinedEstimator"])
class DNNLinearCombinedEstimatorV2(canned.DNNLinearCombinedEstimator):
    """A linear model and a network, added up, with a custom head."""

    def __init__(self, head: Any, model_dir: Any = None, linear_feature_columns: Any = None, linear_optimizer: Any = "Ftrl",
                 dnn_feature_columns: Any = None, dnn_optimizer: Any = "Adagrad", dnn_hidden_units: Any = None,
                 dnn_activation_fn: Any = tf.nn.relu, dnn_dropout: float | None = None, config: Any = None,
                 linear_sparse_combiner: str = "sum"):
        super().__init__(head, model_dir, linear_feature_columns, linear_optimizer, dnn_feature_columns, dnn_optimizer,
                         dnn_hidden_units, dnn_activation_fn, dnn_dropout, None, config, linear_sparse_combiner)


@export(v2=["estimator.DNNLinearCombinedClassifier"])
class DNNLinearCombinedClassifierV2(canned.DNNLinearCombinedEstimator):
    """A linear model and a network together, for classes."""

    def __init__(self, model_dir: Any = None, linear_feature_columns: Any = None, linear_optimizer: Any = "Ftrl",
                 dnn_feature_columns: Any = None, dnn_optimizer: Any = "Adagrad", dnn_hidden_units: Any = None,
                 dnn_activation_fn: Any = tf.nn.relu, dnn_dropout: float | None = None, n_classes: int = 2,
                 weight_column: Any = None, label_vocabulary: Any = None, config: Any = None, warm_start_from: Any = None,
                 loss_reduction: str = _MEAN, batch_norm: bool = False, linear_sparse_combiner: str = "sum"):
        super().__init__(_class_head(n_classes, weight_column, label_vocabulary, loss_reduction), model_dir,
                         linear_feature_columns, linear_optimizer, dnn_feature_columns, dnn_optimizer, dnn_hidden_units,
                         dnn_activation_fn, dnn_dropout, None, config, linear_sparse_combiner, warm_start_from, batch_norm)


@export(v2=["estimator.DNNLinearCombinedRegressor"])
class DNNLinearCombinedRegressorV2(canned.DNNLinearCombinedEstimator):
    """A linear model and a network together, for numbers."""

    def __init__(self, model_dir: Any = None, linear_feature_columns: Any = None, linear_optimizer: Any = "Ftrl",
                 dnn_feature_columns: Any = None, dnn_optimizer: Any = "Adagrad", dnn_hidden_units: Any = None,
                 dnn_activation_fn: Any = tf.nn.relu, dnn_dropout: float | None = None, label_dimension: int = 1,
                 weight_column: Any = None, config: Any = None, warm_start_from: Any = None, loss_reduction: str = _MEAN,
                 batch_norm: bool = False, linear_sparse_combiner: str = "sum"):
        super().__init__(RegressionHead(label_dimension, weight_column, loss_reduction), model_dir, linear_feature_columns,
                         linear_optimizer, dnn_feature_columns, dnn_optimizer, dnn_hidden_units, dnn_activation_fn,
                         dnn_dropout, None, config, linear_sparse_combiner, warm_start_from, batch_norm)


@export(v2=["estimator.BaselineClassifier"])
class BaselineClassifierV2(canned.BaselineEstimator):
    """The frequency of each class."""

    def __init__(self, model_dir: Any = None, n_classes: int = 2, weight_column: Any = None, label_vocabulary: Any = None,
                 optimizer: Any = "Ftrl", config: Any = None, loss_reduction: str = _MEAN):
        super().__init__(_class_head(n_classes, weight_column, label_vocabulary, loss_reduction), model_dir, optimizer, config)


@export(v2=["estimator.BaselineRegressor"])
class BaselineRegressorV2(canned.BaselineEstimator):
    """The mean of the labels."""

    def __init__(self, model_dir: Any = None, label_dimension: int = 1, weight_column: Any = None, optimizer: Any = "Ftrl",
                 config: Any = None, loss_reduction: str = _MEAN):
        super().__init__(RegressionHead(label_dimension, weight_column, loss_reduction), model_dir, optimizer, config)
