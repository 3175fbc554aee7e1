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


def test_input_function_whose_feature_has_no_name(tmp_path, points):
    x, y = points
    model = learn.LinearClassifier([layers.real_valued_column("", dimension=3)], str(tmp_path))
    model.fit(input_fn=lambda: ({"": tf.constant(x)}, tf.constant(y)), steps=60)
    assert model.evaluate(x, y)["accuracy"] > 0.8


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
    found = learn.SKCompat(model).predict(x)               # the function computes a loss then, too
    np.testing.assert_allclose(found, 3 * x[:, 0], atol=0.05)


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


def test_validation_monitor_ends_training_early(tmp_path):
    x, y = line()
    model = learn.Estimator(model_fn, str(tmp_path), learn.RunConfig(save_checkpoints_steps=5), {"rate": 0.0})
    error = learn.MetricSpec(tf.contrib.metrics.streaming_mean_squared_error, "y")
    monitor = learn.monitors.ValidationMonitor(x, y, every_n_steps=5, metrics={"mse": error}, early_stopping_rounds=10,
                                               check_interval_secs=None)
    model.fit(x, y, steps=60, monitors=[monitor])
    assert monitor.early_stopped and monitor.best_metrics["mse"] == pytest.approx(monitor.best_value, rel=1e-5)
    assert model.get_variable_value("global_step") == monitor.best_step + 10


def test_monitors_see_steps_and_values(tmp_path):
    x, y = line()
    capture, stop = learn.monitors.CaptureVariable("Mean", every_n=3, first_n=2), learn.monitors.StopAtStep(num_steps=10)

    class Counted(learn.monitors.BaseMonitor):
        seen = ()

        def step_end(self, step, output):
            self.seen = (*self.seen, step)
            return super().step_end(step, output)

    counted, hook = Counted(), tf.train.StopAtStepHook(last_step=50)
    model = learn.Estimator(model_fn, str(tmp_path), params={"rate": 0.1})
    model.fit(x, y, steps=100, monitors=[capture, counted, stop, hook, learn.monitors.LoggingTrainable(every_n=4),
                                         learn.monitors.PrintTensor(["Mean"], every_n=5), learn.monitors.StepCounter(4)])
    assert counted.seen == tuple(range(1, 11)) and sorted(capture.values) == [1, 2, 5, 8]
    assert capture.values[8] < capture.values[1]
    rates = [v.tag for f in tf.gfile.Glob(f"{tmp_path}/events*") for e in tf.train.summary_iterator(f) for v in e.summary.value]
    assert "global_step/sec" in rates


def test_nan_loss_monitor_and_checkpoints(tmp_path):
    global_step = tf.train.get_or_create_global_step()
    loss = tf.log(2.0 - tf.cast(tf.assign_add(global_step, 1), tf.float32))
    saver = learn.monitors.CheckpointSaver(str(tmp_path), save_steps=2, saver=tf.train.Saver(max_to_keep=None))
    quiet, raising = (learn.monitors.NanLoss(loss, every_n_steps=1, fail_on_nan_loss=f) for f in (False, True))
    with tf.train.MonitoredSession(hooks=[learn.monitors.RunHookAdapterForMonitors([saver, quiet])]) as session:
        while not session.should_stop():
            session.run(loss)
    assert len(tf.gfile.Glob(f"{tmp_path}/model.ckpt-*.index")) == 2
    with pytest.raises(learn.NanLossDuringTrainingError), \
            tf.train.MonitoredSession(hooks=[learn.monitors.RunHookAdapterForMonitors([raising])]) as session:
        for _ in range(4):
            session.run(loss)


def test_experiment_takes_monitors(tmp_path):
    x, y = line()
    capture = learn.monitors.CaptureVariable("Mean:0", every_n=2)
    model = learn.Estimator(model_fn, str(tmp_path), params={"rate": 0.1})
    given = tf.estimator.inputs.numpy_input_fn(x, y, 40, None, shuffle=False)
    learn.Experiment(model, given, given, train_steps=4, eval_steps=1, train_monitors=[capture]).train_and_evaluate()
    assert sorted(capture.values) == [1, 3]


def test_metric_of_predicted_classes(tmp_path, points):
    x, y = points
    model = learn.DNNClassifier([4], learn.infer_real_valued_columns_from_input(x), str(tmp_path))
    metric = learn.MetricSpec(tf.contrib.metrics.streaming_accuracy, learn.PredictionKey.CLASSES)
    found = model.fit(x, y, steps=2).evaluate(x, y, metrics={"right": metric})
    assert found["right"] == pytest.approx(found["accuracy"])
