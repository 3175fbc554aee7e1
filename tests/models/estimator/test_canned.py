"""The canned estimators: each learns a small table, and their variables have TensorFlow's names."""
import numpy as np
import pytest

import penstock.compat.v1 as tf

DRAW = np.random.RandomState(0)
X = DRAW.randn(200, 2).astype(np.float32)
WORDS = np.array(["red", "green", "blue"])[DRAW.randint(0, 3, 200)]
CLASSES = (X[:, 0] + (WORDS == "red") * 1.5 > 0.5).astype(np.int64)
THREE = np.where(X[:, 0] > 0.3, 2, np.where(X[:, 1] > 0, 1, 0))
NUMBERS = (2 * X[:, 0] - X[:, 1] + 3).astype(np.float32)


def columns():
    return [tf.feature_column.numeric_column("x", 2),
            tf.feature_column.categorical_column_with_vocabulary_list("w", ["red", "green", "blue"])]


def dense():
    x, w = columns()
    return [x, tf.feature_column.indicator_column(w)]


def feed(labels, epochs=None, extra=None):
    return tf.estimator.inputs.numpy_input_fn({"x": X, "w": WORDS, **(extra or {})}, labels, 50, epochs, shuffle=epochs is None)


def names(model):
    return {n for n in model.get_variable_names() if "/" in n and "Adagrad" not in n and "Ftrl" not in n}


def test_linear_models():
    model = tf.estimator.LinearClassifier(columns()).train(feed(CLASSES), steps=120)
    result = model.evaluate(feed(CLASSES, 1))
    assert result["accuracy"] > 0.9 and result["auc"] > 0.95
    np.testing.assert_allclose(result["label/mean"], CLASSES.mean(), rtol=1e-5)
    np.testing.assert_allclose(result["accuracy_baseline"], max(CLASSES.mean(), 1 - CLASSES.mean()), rtol=1e-5)
    np.testing.assert_allclose(result["loss"], result["average_loss"] * 50, rtol=1e-4)
    assert names(model) == {f"linear/linear_model/{n}" for n in ("bias_weights", "w/weights", "x/weights")}
    first = next(model.predict(feed(None, 1)))
    assert set(first) == {"logits", "logistic", "probabilities", "class_ids", "classes", "all_class_ids", "all_classes"}
    np.testing.assert_allclose(first["probabilities"], [1 - first["logistic"][0], first["logistic"][0]], rtol=1e-5)
    regression = tf.estimator.LinearRegressor(columns()).train(feed(NUMBERS), steps=250).evaluate(feed(NUMBERS, 1))
    assert regression["average_loss"] < 0.5


def test_networks():
    model = tf.estimator.DNNClassifier([16, 8], dense(), n_classes=3, optimizer="Adam", dropout=0.05, batch_norm=True)
    before = model.train(feed(THREE), steps=1).get_variable_value("dnn/hiddenlayer_0/batchnorm_0/moving_mean")
    after = model.train(feed(THREE), steps=5).get_variable_value("dnn/hiddenlayer_0/batchnorm_0/moving_mean")
    assert not np.array_equal(before, after)
    model = tf.estimator.DNNClassifier([16], dense(), n_classes=3)
    assert model.train(feed(THREE), steps=200).evaluate(feed(THREE, 1))["accuracy"] > 0.85
    assert names(model) == {"dnn/hiddenlayer_0/bias", "dnn/hiddenlayer_0/kernel", "dnn/logits/bias", "dnn/logits/kernel"}
    model = tf.estimator.DNNRegressor([16], dense(), optimizer=lambda: tf.train.AdamOptimizer(0.01))
    assert model.train(feed(NUMBERS), steps=250).evaluate(feed(NUMBERS, 1))["average_loss"] < 0.3


def test_wide_and_deep():
    model = tf.estimator.DNNLinearCombinedClassifier(linear_feature_columns=columns()[1:], dnn_feature_columns=dense(),
                                                     dnn_hidden_units=[8])
    assert model.train(feed(CLASSES), steps=150).evaluate(feed(CLASSES, 1))["accuracy"] > 0.85
    assert model.get_variable_value("global_step") == 150
    assert {"linear/linear_model/w/weights", "dnn/hiddenlayer_0/kernel"} <= names(model)
    regressor = tf.estimator.DNNLinearCombinedRegressor(linear_feature_columns=columns(), dnn_feature_columns=dense(),
                                                        dnn_hidden_units=[8], dnn_optimizer="Adam")
    assert "average_loss" in regressor.train(feed(NUMBERS), steps=20).evaluate(feed(NUMBERS, 1))


def test_baselines_learn_the_labels_alone():
    model = tf.estimator.BaselineClassifier(n_classes=3).train(feed(THREE), steps=200)
    rate = np.bincount(THREE) / len(THREE)
    np.testing.assert_allclose(next(model.predict(feed(None, 1)))["probabilities"], rate, atol=0.05)
    model = tf.estimator.BaselineRegressor().train(feed(NUMBERS), steps=300)
    np.testing.assert_allclose(next(model.predict(feed(None, 1)))["predictions"], [NUMBERS.mean()], atol=0.3)


def test_labels_as_words_and_weights():
    labels = np.array(["no", "yes"])[CLASSES]
    model = tf.estimator.LinearClassifier(columns(), label_vocabulary=["no", "yes"], weight_column="weight")
    weights = {"weight": np.where(CLASSES == 1, 2., 1.).astype(np.float32)}
    result = model.train(feed(labels, extra=weights), steps=100).evaluate(feed(labels, 1, weights))
    assert result["accuracy"] > 0.85
    np.testing.assert_allclose(result["label/mean"], (CLASSES * 2).sum() / (CLASSES + 1).sum(), rtol=1e-5)
    assert next(model.predict(feed(None, 1)))["classes"][0] in (b"no", b"yes")


def test_an_exported_classifier_has_its_signatures(tmp_path):
    model = tf.estimator.DNNClassifier([4], dense(), n_classes=3).train(feed(THREE), steps=2)
    spec = tf.feature_column.make_parse_example_spec(dense())
    folder = model.export_saved_model(str(tmp_path), tf.estimator.export.build_parsing_serving_input_receiver_fn(spec))
    with tf.Graph().as_default(), tf.Session() as sess:
        signatures = tf.saved_model.load(sess, ["serve"], folder.decode()).signature_def
        assert {"serving_default", "classification", "predict"} <= set(signatures)
        example = tf.train.Example()
        example.features.feature["x"].float_list.value.extend([1., 2.])
        example.features.feature["w"].bytes_list.value.extend([b"red"])
        served = signatures["serving_default"]
        scores = sess.run(served.outputs["scores"].name, {served.inputs["inputs"].name: [example.SerializeToString()]})
    np.testing.assert_allclose(scores.sum(), 1, rtol=1e-5)


def test_heads_by_themselves():
    with tf.Graph().as_default(), tf.Session() as sess:
        logits, labels = tf.constant([[1., -2.]]), tf.constant([[1., 0.]])
        want = np.mean([np.log1p(np.exp(-1.)), np.log1p(np.exp(-2.))])
        np.testing.assert_allclose(sess.run(tf.estimator.MultiLabelHead(2).loss(labels, logits)), want, rtol=1e-5)
        poisson = tf.estimator.PoissonRegressionHead(compute_full_loss=False)
        np.testing.assert_allclose(sess.run(poisson.loss([[2.]], tf.constant([[0.5]]))), np.exp(0.5) - 2 * 0.5, rtol=1e-5)
        both = tf.estimator.MultiHead([tf.estimator.RegressionHead(name="a"), tf.estimator.RegressionHead(name="b")], [1., 3.])
        found = sess.run(both.loss({"a": [[1.]], "b": [[2.]]}, tf.constant([[0., 0.]])))
        np.testing.assert_allclose(found, 1 + 3 * 4, rtol=1e-6)


def test_what_is_wrong_is_said():
    with pytest.raises(ValueError, match="Unsupported optimizer name"):
        tf.estimator.LinearRegressor(columns(), optimizer="nope").train(feed(NUMBERS), steps=1)
    with pytest.raises(ValueError, match="must be defined"):
        tf.estimator.DNNLinearCombinedRegressor()
    with pytest.raises(tf.errors.InvalidArgumentError, match="Labels must be in"):
        tf.estimator.LinearClassifier(columns(), n_classes=3).train(feed(THREE + 5), steps=1)


def test_the_losses_of_2x_are_means(tmp_path):
    import penstock as tf2
    model = tf2.estimator.LinearRegressor(columns()[:1], str(tmp_path)).train(feed(NUMBERS), steps=3)
    result = model.evaluate(feed(NUMBERS, 1))
    np.testing.assert_allclose(result["loss"], result["average_loss"], rtol=1e-5)


@pytest.mark.parametrize("make, scope", [
    (lambda c: tf.estimator.LinearClassifier(c), "linear/"), (lambda c: tf.estimator.DNNClassifier([3], c), "dnn/"),
    (lambda c: tf.estimator.DNNLinearCombinedClassifier(linear_feature_columns=c), "")])
def test_the_loss_has_its_name(make, scope):
    """Hooks of programs log head/weighted_loss/Sum and head/truediv."""
    seen = []

    class Look(tf.train.SessionRunHook):
        def before_run(self, run_context):
            return tf.train.SessionRunArgs([f"{scope}head/weighted_loss/Sum:0", f"{scope}head/truediv:0"])

        def after_run(self, run_context, run_values):
            seen.append(run_values.results)
    x = np.arange(8, dtype=np.float32)
    feed = tf.estimator.inputs.numpy_input_fn({"x": x}, (x > 3).astype(np.int32), 4, 1, shuffle=False)
    make([tf.feature_column.numeric_column("x")]).train(feed, hooks=[Look()])
    assert len(seen) == 2 and all(abs(total / 4 - mean) < 1e-5 for total, mean in seen)
