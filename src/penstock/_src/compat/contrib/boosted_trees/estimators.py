"""`contrib.boosted_trees.estimator_batch.estimator`: boosted trees as estimators of contrib.learn."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.compat.contrib.boosted_trees import learner
from penstock._src.compat.contrib.learn.estimators import BaseEstimator
from penstock._src.models.estimator import boosted_trees
from penstock._src.models.estimator.estimator import Estimator
from penstock._src.models.estimator.head import BinaryClassHead, MultiClassHead, RegressionHead

_MODULE = "contrib.boosted_trees.estimator_batch.estimator"


def _export(thing: Any) -> Any:
    return export(v1=[f"{_MODULE}.{thing.__name__}"])(thing)


class _Trees(BaseEstimator):
    """An ensemble that grows by a layer whenever it has seen enough examples."""

    def _begin(self, config: Any, examples: Any, head: Any, trees: Any, columns: Any, model_dir: Any, run_config: Any,
               center: bool, quantiles: int) -> None:
        rules = learner.rules(config, trees, quantiles)
        wanted = examples if not callable(examples) else examples(0)

        def model_fn(features: Any, labels: Any, mode: str, config: Any) -> Any:
            return boosted_trees.model(features, labels, mode, head, columns, rules, lambda _, seen: seen >= wanted, center)
        super().__init__(Estimator(model_fn, model_dir, run_config))


@_export
class GradientBoostedDecisionTreeClassifier(_Trees):
    """Boosted trees for classification.

    >>> config = learner_pb2.LearnerConfig(); config.learning_rate_tuner.fixed.learning_rate = 0.1
    >>> GradientBoostedDecisionTreeClassifier(config, examples_per_layer=1000, n_classes=10, num_trees=10)
    """

    def __init__(self, learner_config: Any, examples_per_layer: Any, n_classes: int = 2, num_trees: int | None = None,
                 feature_columns: Any = None, weight_column_name: Any = None, model_dir: Any = None, config: Any = None,
                 label_keys: Any = None, feature_engineering_fn: Any = None, logits_modifier_function: Any = None,
                 center_bias: bool = True, use_core_libs: bool = False, output_leaf_index: bool = False,
                 override_global_step_value: Any = None, num_quantiles: int = 100):
        if learner_config.num_classes not in (0, n_classes):
            raise ValueError(f"n_classes ({n_classes}) doesn't match learner_config ({learner_config.num_classes}).")
        head = BinaryClassHead(weight_column_name, label_vocabulary=label_keys) if n_classes == 2 else \
            MultiClassHead(n_classes, weight_column_name, label_keys)
        self._begin(learner_config, examples_per_layer, head, num_trees, feature_columns, model_dir, config, center_bias,
                    num_quantiles)

    def predict(self, *args: Any, **kwargs: Any) -> Any:
        """Classes, logits and probabilities; classes are numbers."""
        for row in super().predict(*args, **{**kwargs, "as_iterable": True}):
            yield {**row, "classes": int(row["class_ids"][0])}


@_export
class GradientBoostedDecisionTreeRegressor(_Trees):
    """Boosted trees that predict numbers."""

    def __init__(self, learner_config: Any, examples_per_layer: Any, label_dimension: int = 1, num_trees: int | None = None,
                 feature_columns: Any = None, label_name: Any = None, weight_column_name: Any = None, model_dir: Any = None,
                 config: Any = None, feature_engineering_fn: Any = None, logits_modifier_function: Any = None,
                 center_bias: bool = True, use_core_libs: bool = False, output_leaf_index: bool = False,
                 override_global_step_value: Any = None, num_quantiles: int = 100):
        self._begin(learner_config, examples_per_layer, RegressionHead(label_dimension, weight_column_name), num_trees,
                    feature_columns, model_dir, config, center_bias, num_quantiles)
