"""contrib.learn and the columns of contrib.layers: models that learn, from arrays and from input functions."""
import numpy as np
import pytest

import penstock.compat.v1 as tf

learn, layers = tf.contrib.learn, tf.contrib.layers


@pytest.fixture
def points():
    rng = np.random.RandomState(0)
    x = rng.randn(120, 3).astype(np.float32)
    return x, (x[:, 0] + x[:, 1] > 0).astype(np.int64)


def line():
    x = np.linspace(-1, 1, 40, dtype=np.float32).reshape(-1, 1)
    return x, 2 * x[:, 0] + 1


def model_fn(features, labels, mode, params):
    w, b = tf.get_variable("w", [1], tf.float32), tf.get_variable("b", [1], tf.float32)
    y = features[:, 0] * w + b
    if mode == learn.ModeKeys.INFER:
        return learn.ModelFnOps(mode, {"y": y})
    loss = tf.reduce_mean(tf.square(y - labels))
    step = tf.train.GradientDescentOptimizer(params["rate"]).minimize(loss, tf.train.get_global_step())
    return learn.ModelFnOps(mode, {"y": y}, loss, step)


def test_classifier_of_arrays(tmp_path, points):
    x, y = points
    columns = learn.infer_real_valued_columns_from_input(x)
    model = learn.DNNClassifier([8], columns, str(tmp_path), config=learn.RunConfig(tf_random_seed=1))
    assert model.fit(x, y, steps=150, batch_size=40) is model
    result = model.evaluate(x, y)
    assert result["accuracy"] > 0.9 and result["global_step"] == 150
    classes = np.array(list(model.predict(x)))
    assert np.mean(classes == y) == pytest.approx(result["accuracy"], abs=1e-6)
    chances = model.predict_proba(x, as_iterable=False)
    np.testing.assert_array_equal(chances.argmax(1), classes)


def test_input_of_constants_is_predicted_once(tmp_path, points):
    x, y = points
    model = learn.LinearClassifier([layers.real_valued_column("", dimension=3)], str(tmp_path))
    model.fit(input_fn=lambda: (tf.constant(x), tf.constant(y)), steps=30)
    assert model.evaluate(input_fn=lambda: (tf.constant(x), tf.constant(y)), steps=1)["accuracy"] > 0.9
    assert len(list(model.predict(input_fn=lambda: tf.constant(x[:5])))) == 5


def test_regressor_with_clipped_gradients(tmp_path):
    x, y = line()
    model = learn.LinearRegressor(feature_columns=[layers.real_valued_column("x")], model_dir=str(tmp_path),
                                  optimizer=tf.train.GradientDescentOptimizer(0.1), gradient_clip_norm=1e-3)
    model.fit({"x": x}, y, steps=2, batch_size=40)
    moved = np.abs([*model.get_variable_value("linear/linear_model/x/weights").ravel(),
                    *model.get_variable_value("linear/linear_model/bias_weights")])
    assert 0 < np.linalg.norm(moved) <= 2 * 0.1 * 1e-3 + 1e-7


def test_unknown_argument_of_a_ready_model():
    with pytest.raises(TypeError, match="has no arguments"):
        learn.LinearRegressor([layers.real_valued_column("x")], hidden=3)


def test_estimator_of_a_function(tmp_path):
    x, y = line()
    model = learn.SKCompat(learn.Estimator(model_fn, str(tmp_path), params={"rate": 0.3}))
    model.fit(x, y, steps=100, batch_size=40)
    np.testing.assert_allclose(model.predict(x)["y"], y, atol=0.05)
    scores = model.score(x, y, metrics={"far": learn.MetricSpec(tf.metrics.mean_absolute_error, "y")})
    assert scores["far"] < 0.05 and scores["loss"] < 0.01
    with pytest.raises(ValueError, match="Either x or input_fn"):
        learn.Estimator(model_fn).fit(steps=1)


def test_function_that_gives_three_values(tmp_path):
    def three(features, labels):
        w = tf.get_variable("w", [1], tf.float32)
        loss = tf.reduce_mean(tf.square(features[:, 0] * w - labels))
        return features[:, 0] * w, loss, tf.train.GradientDescentOptimizer(0.5).minimize(loss, tf.train.get_global_step())

    x = line()[0]
    model = learn.Estimator(three, str(tmp_path)).fit(x, 3 * x[:, 0], steps=50, batch_size=40)
    np.testing.assert_allclose(model.get_variable_value("w"), [3], atol=0.05)


def test_metrics_of_a_ready_model(tmp_path, points):
    x, y = points
    model = learn.LinearClassifier(learn.infer_real_valued_columns_from_input(x), str(tmp_path)).fit(x, y, steps=30)
    result = model.evaluate(x, y, metrics={"p": learn.MetricSpec(tf.metrics.precision, "class_ids")})
    assert result["p"] == pytest.approx(result["precision"], abs=1e-6)


def test_columns(run):
    features = {"age": tf.constant([[20.0], [40.0]]), "word": tf.constant([["a"], ["b"]]), "job": tf.constant([["x"], ["y"]])}
    age = layers.real_valued_column("age")
    word = layers.sparse_column_with_keys("word", ["a", "b", "c"])
    job = layers.sparse_column_with_hash_bucket("job", 10)
    cross = layers.crossed_column([word, job], 7)
    out = layers.input_from_feature_columns(features, [
        age, layers.bucketized_column(age, [30.0]), layers.one_hot_column(word), layers.embedding_column(job, 4),
        layers.one_hot_column(cross)])
    assert out.shape == (2, 1 + 2 + 3 + 4 + 7)
    linear, variables, bias = layers.weighted_sum_from_feature_columns(features, [age, word, cross], 2)
    _, found, total, b = run(out, linear, bias)
    np.testing.assert_array_equal(found[:, :3], [[20, 1, 0], [40, 0, 1]])       # sorted by name: age, its buckets
    np.testing.assert_array_equal(total, np.zeros([2, 2]))
    assert set(variables) == {age, word, cross} and b.shape == (2,)
    spec = layers.create_feature_spec_for_parsing([age, word])
    assert set(spec) == {"age", "word"} and isinstance(spec["word"], tf.VarLenFeature)


def test_columns_say_what_they_cannot_do():
    with pytest.raises(ValueError, match="embedding_column"):
        layers.sparse_column_with_hash_bucket("w", 10, combiner="mean")
    with pytest.raises(ValueError, match="must be known"):
        layers.real_valued_column("x", dimension=None)
