"""The messages of `contrib.boosted_trees.proto.learner_pb2`, and their conversion to rules for growing trees."""
from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pool

from penstock._src.base.api import export
from penstock._src.graph.messages import declare
from penstock._src.models.estimator.boosting import Rules

_MESSAGES = declare("penstock/learner.proto", "penstock.boosted_trees", descriptor_pool.DescriptorPool(), {
    "TreeRegularizationConfig": "float l1 = 1; float l2 = 2; float tree_complexity = 3",
    "TreeConstraintsConfig": "uint32 max_tree_depth = 1; float min_node_weight = 2; "
                             "int64 max_number_of_unique_feature_columns = 3",
    "LearningRateFixedConfig": "float learning_rate = 1",
    "LearningRateDropoutDrivenConfig": "float dropout_probability = 1; float probability_of_skipping_dropout = 2; "
                                       "float learning_rate = 3",
    "LearningRateLineSearchConfig": "float max_learning_rate = 1; int32 num_steps = 2",
    "LearningRateConfig": "LearningRateFixedConfig fixed = 1 | LearningRateDropoutDrivenConfig dropout = 2 | "
                          "LearningRateLineSearchConfig line_search = 3",
    "AveragingConfig": "float average_last_n_trees = 1 | float average_last_percent_trees = 2",
    "LearnerConfig": "uint32 num_classes = 1; float feature_fraction_per_tree = 2 | float feature_fraction_per_level = 3; "
                     "TreeRegularizationConfig regularization = 4; TreeConstraintsConfig constraints = 5; "
                     "LearningRateConfig learning_rate_tuner = 6; LearnerConfig.PruningMode pruning_mode = 8; "
                     "LearnerConfig.GrowingMode growing_mode = 9; LearnerConfig.MultiClassStrategy multi_class_strategy = 10; "
                     "AveragingConfig averaging_config = 11; LearnerConfig.WeakLearnerType weak_learner_type = 12"},
    enums={"LearnerConfig": {
        "PruningMode": "PRUNING_MODE_UNSPECIFIED PRE_PRUNE POST_PRUNE",
        "GrowingMode": "GROWING_MODE_UNSPECIFIED WHOLE_TREE LAYER_BY_LAYER",
        "MultiClassStrategy": "MULTI_CLASS_STRATEGY_UNSPECIFIED TREE_PER_CLASS FULL_HESSIAN DIAGONAL_HESSIAN",
        "WeakLearnerType": "NORMAL_DECISION_TREE OBLIVIOUS_DECISION_TREE"}})
for _name, _class in _MESSAGES.items():
    export.value(_class, v1=[f"contrib.boosted_trees.proto.learner_pb2.{_name}"])
LearnerConfig = _MESSAGES["LearnerConfig"]


def rules(config: Any, trees: int | None, quantiles: int) -> Rules:
    """The rules of a LearnerConfig; ValueError for unsupported ones."""
    if config.growing_mode == LearnerConfig.WHOLE_TREE:                          # type: ignore[attr-defined]
        raise ValueError("Only layer-by-layer growth is supported: set growing_mode to LAYER_BY_LAYER.")
    if config.weak_learner_type == LearnerConfig.OBLIVIOUS_DECISION_TREE:        # type: ignore[attr-defined]
        raise ValueError("Oblivious trees are not supported: set weak_learner_type to NORMAL_DECISION_TREE.")
    tuner = config.learning_rate_tuner
    kind = tuner.WhichOneof("kind") or "fixed"
    if kind == "line_search":
        raise ValueError("Line search is not supported: set learning_rate_tuner.fixed.learning_rate.")
    prune = {LearnerConfig.PRE_PRUNE: "pre", LearnerConfig.POST_PRUNE: "post"}   # type: ignore[attr-defined]
    penalty = config.regularization
    return Rules(getattr(tuner, kind).learning_rate or 0.1, penalty.l1, penalty.l2, penalty.tree_complexity,
                 config.constraints.min_node_weight, config.constraints.max_tree_depth or 4, trees or 100, quantiles,
                 prune.get(config.pruning_mode, "none"))
