"""tf.contrib.boosted_trees: messages and estimators."""
import numpy as np
import pytest

import penstock.compat.v1 as tf

X = np.random.RandomState(0).rand(300, 4).astype(np.float32)


def learner_config(**constraints):
    learner_pb2 = tf.contrib.boosted_trees.proto.learner_pb2
    config = learner_pb2.LearnerConfig()
    config.learning_rate_tuner.fixed.learning_rate = 0.5
    config.regularization.l2 = 1.0 / 300
    config.constraints.max_tree_depth = 3
    config.growing_mode = learner_pb2.LearnerConfig.LAYER_BY_LAYER
    config.multi_class_strategy = learner_pb2.LearnerConfig.DIAGONAL_HESSIAN
    return config


def feed(labels, epochs=1):
    return tf.estimator.inputs.numpy_input_fn({"x": X}, labels, 100, epochs, shuffle=epochs is None)


def test_the_message():
    config = learner_config()
    same = type(config).FromString(config.SerializeToString())
    assert same == config and same.growing_mode == 2 and same.learning_rate_tuner.fixed.learning_rate == 0.5
    assert "growing_mode: LAYER_BY_LAYER" in str(config) and "multi_class_strategy: DIAGONAL_HESSIAN" in str(config)


def test_the_classifier():
    labels = (X[:, 1] * 3).astype(np.int32)
    model = tf.contrib.boosted_trees.estimator_batch.estimator.GradientBoostedDecisionTreeClassifier(
        learner_config(), examples_per_layer=300, n_classes=3, num_trees=4, center_bias=False,
        config=tf.contrib.learn.RunConfig(save_checkpoints_secs=300))
    model.fit(input_fn=feed(labels, None), max_steps=200)
    result = model.evaluate(input_fn=feed(labels))
    assert result["accuracy"] > 0.95 and result["global_step"] <= 40                # 4 trees of 3 layers, 3 batches each
    rows = list(model.predict(input_fn=feed(labels)))
    assert np.mean([r["classes"] for r in rows] == labels) > 0.95 and abs(rows[0]["probabilities"].sum() - 1) < 1e-5


def test_the_regressor():
    target = (5 + 2 * (X[:, 0] > 0.5)).astype(np.float32)
    model = tf.contrib.boosted_trees.estimator_batch.estimator.GradientBoostedDecisionTreeRegressor(
        learner_config(), examples_per_layer=100, num_trees=6)
    model.fit(input_fn=feed(target, None), max_steps=100)
    assert model.evaluate(input_fn=feed(target))["loss"] < 0.05


def test_what_cannot_be():
    trees = tf.contrib.boosted_trees.estimator_batch.estimator
    config = learner_config()
    config.growing_mode = type(config).WHOLE_TREE
    with pytest.raises(ValueError, match="LAYER_BY_LAYER"):
        trees.GradientBoostedDecisionTreeClassifier(config, 10)
    config = learner_config()
    config.num_classes = 5
    with pytest.raises(ValueError, match=r"n_classes \(3\) doesn't match"):
        trees.GradientBoostedDecisionTreeClassifier(config, 10, n_classes=3)
