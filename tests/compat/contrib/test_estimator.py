"""contrib.estimator: heads, estimators around estimators, clipped gradients, logits."""
import numpy as np
import pytest

import penstock.compat.v1 as tf

contrib = tf.contrib.estimator
COLUMNS = [tf.feature_column.numeric_column("x")]


def rows():
    return {"x": tf.constant([[1.0], [2.0], [3.0]]), "id": tf.constant([7, 8, 9])}, tf.constant([[2.0], [4.0], [6.0]])


def model_fn(features, labels, mode, config):
    logits = contrib.call_logit_fn(contrib.linear_logit_fn_builder(1, COLUMNS), features, mode, None, config)
    return contrib.regression_head().create_estimator_spec(features, mode, logits, labels,
                                                           tf.train.GradientDescentOptimizer(0.1))


def test_forwarded_features_are_among_predictions(tmp_path):
    model = contrib.forward_features(tf.estimator.Estimator(model_fn, str(tmp_path)), "id")
    model.train(rows, steps=200)
    found = model.predict(lambda: tf.data.Dataset.from_tensor_slices(rows()[0]).batch(2))
    found = [(row["id"], row["predictions"][0]) for row in found]
    np.testing.assert_allclose(found, [(7, 2), (8, 4), (9, 6)], atol=0.2)
    assert contrib.add_metrics(model, lambda labels: {"mean": tf.metrics.mean(labels)}).evaluate(rows, steps=1)["mean"] == 4
    assert contrib.read_eval_metrics(model.eval_dir())[200]["mean"] == 4


@pytest.mark.parametrize("keys,error", [("y", "no feature 'y'"), (["predictions"], "no feature"), (3, "string")])
def test_features_that_cannot_be_forwarded(tmp_path, keys, error):
    with pytest.raises((TypeError, ValueError), match=error):
        model = contrib.forward_features(tf.estimator.Estimator(model_fn, str(tmp_path)), keys)
        model.train(rows, steps=1)


def test_sparse_feature_is_forwarded_with_a_default(tmp_path):
    def given():
        return {**rows()[0], "s": tf.SparseTensor([[0, 1], [2, 0]], [5, 6], [3, 2])}, rows()[1]
    core = tf.estimator.Estimator(model_fn, str(tmp_path))
    with pytest.raises(ValueError, match="SparseTensor"):
        contrib.forward_features(core, "s").train(given, steps=1)
    model = contrib.forward_features(core, "s", {"s": -1}).train(given, steps=1)
    assert next(iter(model.predict(given)))["s"].tolist() == [-1, 5]


def test_gradients_are_clipped_together():
    a, b = tf.get_variable("a", initializer=[0.0]), tf.get_variable("b", initializer=[0.0])
    optimizer = contrib.clip_gradients_by_norm(tf.train.MomentumOptimizer(1.0, 0.5), 1.0)
    step = optimizer.minimize(3 * tf.reduce_sum(a) + 4 * tf.reduce_sum(b))
    assert optimizer.get_slot_names() == ["momentum"] and optimizer.get_slot(a, "momentum").shape == [1]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(step)
        np.testing.assert_allclose(session.run([a, b]), [[-0.6], [-0.8]], rtol=1e-6)


def test_heads_and_dense_logits():
    features, labels = rows()
    logits = contrib.dnn_logit_fn_builder(1, [4], COLUMNS, tf.nn.relu, None, None, False)(features, "train")
    assert logits.shape.as_list() == [3, 1] and {v.op.name for v in tf.trainable_variables()} >= {"dnn/hiddenlayer_0/kernel"}
    head = contrib.poisson_regression_head(label_dimension=1, name="counts")
    spec = head.create_estimator_spec(features, "eval", tf.zeros([3, 1]), labels)
    assert sorted(spec.eval_metric_ops) == ["average_loss/counts", "label/mean/counts", "prediction/mean/counts"]
    heads = contrib.binary_classification_head(), contrib.multi_class_head(4), contrib.multi_label_head(3)
    assert [h.logits_dimension for h in heads] == [1, 4, 3]


def test_parameter_server_strategy_of_one_process(tmp_path):
    strategy = tf.contrib.distribute.ParameterServerStrategy(num_gpus_per_worker=0)
    assert isinstance(strategy, tf.contrib.distribute.DistributionStrategy)
    config = tf.estimator.RunConfig(train_distribute=strategy)
    model = tf.estimator.Estimator(model_fn, str(tmp_path), config)
    model.train(lambda: tf.data.Dataset.from_tensors(rows()).repeat(3))
    assert model.get_variable_value("global_step") == 3
