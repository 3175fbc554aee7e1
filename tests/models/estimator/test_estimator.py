"""Estimators of model functions: training that continues, evaluation, prediction, export, and what is wrong with them."""
import os

import numpy as np
import pytest

import penstock.compat.v1 as tf

DRAW = np.random.RandomState(0)
X = DRAW.randn(64, 3).astype(np.float32)
Y = (X @ np.array([1., -2., 0.5], np.float32) + 0.25)[:, None].astype(np.float32)


def linear_model(features, labels, mode, params):
    w = tf.get_variable("w", [3, 1], initializer=tf.zeros_initializer())
    b = tf.get_variable("b", [1], initializer=tf.zeros_initializer())
    y = tf.matmul(features["x"], w) + b
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"y": y, "twice": 2 * y})
    loss = tf.reduce_mean(tf.square(y - labels))
    train = tf.train.GradientDescentOptimizer(params["rate"]).minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, {"y": y}, loss, train,
                                      {"error": tf.metrics.mean_absolute_error(labels, y)})


def inputs(epochs=None, shuffle=True):
    return tf.estimator.inputs.numpy_input_fn({"x": X}, Y, batch_size=16, num_epochs=epochs, shuffle=shuffle)


def made(folder, **config):
    return tf.estimator.Estimator(linear_model, config=tf.estimator.RunConfig(str(folder), **config), params={"rate": 0.1})


def test_training_goes_on_where_it_stopped(tmp_path):
    model = made(tmp_path)
    assert model.evaluate(inputs(1, False))["global_step"] == 0
    first = model.train(inputs(), steps=20).evaluate(inputs(1, False))
    again = made(tmp_path).train(inputs(), max_steps=100).evaluate(inputs(1, False), name="again")
    assert first["global_step"] == 20 and again["global_step"] == 100
    assert again["loss"] < first["loss"] and again["loss"] < 1e-3 and again["error"] < 0.05
    model.train(inputs(), max_steps=50)
    assert model.get_variable_value("global_step") == 100
    np.testing.assert_allclose(model.get_variable_value("w")[:, 0], [1., -2., 0.5], atol=0.05)
    assert {"w", "b", "global_step"} <= set(model.get_variable_names())
    assert os.path.isdir(tmp_path / "eval_again") and model.latest_checkpoint().endswith("model.ckpt-100")


def test_the_end_of_the_input_ends_training(tmp_path):
    assert made(tmp_path).train(inputs(epochs=2)).get_variable_value("global_step") == 8


def test_rows_are_predicted_one_by_one(tmp_path):
    model = made(tmp_path).train(inputs(), steps=5)
    rows = list(model.predict(inputs(1, False)))
    assert len(rows) == 64 and rows[0]["y"].shape == (1,)
    np.testing.assert_allclose([r["twice"] for r in rows], [2 * r["y"] for r in rows], rtol=1e-6)
    w, b = model.get_variable_value("w"), model.get_variable_value("b")
    np.testing.assert_allclose([r["y"] for r in rows], X @ w + b, rtol=1e-4, atol=1e-5)
    batches = list(model.predict(inputs(1, False), predict_keys="y", yield_single_examples=False))
    assert [b["y"].shape for b in batches] == [(16, 1)] * 4


def test_a_dataset_and_hooks(tmp_path):
    seen = []

    class Counting(tf.train.SessionRunHook):
        def after_run(self, run_context, run_values):
            seen.append(1)

    def from_dataset():
        return tf.data.Dataset.from_tensor_slices(({"x": X}, Y)).batch(8)
    made(tmp_path, save_checkpoints_steps=3).train(from_dataset, hooks=[Counting()])
    assert len(seen) == 8
    assert sorted(int(f.name.split("-")[-1].split(".")[0]) for f in tmp_path.glob("*.index")) == [0, 3, 6, 8]


def test_export_and_serve(tmp_path):
    model = made(tmp_path / "m").train(inputs(), steps=10)
    receiver = tf.estimator.export.build_parsing_serving_input_receiver_fn({"x": tf.FixedLenFeature([3], tf.float32)})
    folder = model.export_saved_model(str(tmp_path / "export"), receiver)
    example = tf.train.Example()
    example.features.feature["x"].float_list.value.extend([1., 2., 3.])
    with tf.Graph().as_default(), tf.Session() as sess:
        signature = tf.saved_model.load(sess, ["serve"], folder.decode()).signature_def["serving_default"]
        found = sess.run(signature.outputs["y"].name, {signature.inputs["examples"].name: [example.SerializeToString()]})
    want = np.array([[1., 2., 3.]]) @ model.get_variable_value("w") + model.get_variable_value("b")
    np.testing.assert_allclose(found, want, rtol=1e-5)


def test_a_model_begins_with_the_weights_of_another(tmp_path):
    old = made(tmp_path / "old").train(inputs(), steps=30)
    new = tf.estimator.Estimator(linear_model, str(tmp_path / "new"), params={"rate": 1e-9},
                                 warm_start_from=str(tmp_path / "old"))
    new.train(inputs(), steps=1)
    np.testing.assert_allclose(new.get_variable_value("w"), old.get_variable_value("w"), rtol=1e-5)
    assert new.get_variable_value("global_step") == 1


def test_what_is_wrong_is_said(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="must include features"):
        tf.estimator.Estimator(lambda labels: None)
    with pytest.raises(ValueError, match="does not include params"):
        tf.estimator.Estimator(lambda features: None, params={"a": 1})
    model = made(tmp_path)
    with pytest.raises(ValueError, match="both steps and max_steps"):
        model.train(inputs(), steps=1, max_steps=2)
    with pytest.raises(ValueError, match="Could not find trained model"):
        model.get_variable_names()
    with pytest.raises(ValueError, match="Missing train_op"):
        tf.estimator.EstimatorSpec("train", loss=tf.constant(1.))
    with pytest.raises(ValueError, match="explicitly set as boolean"):
        tf.estimator.inputs.numpy_input_fn({"x": X})
    monkeypatch.setenv("TF_CONFIG", "{not json")
    with pytest.raises(ValueError, match="TF_CONFIG is not JSON"):
        tf.estimator.RunConfig()
    monkeypatch.setenv("TF_CONFIG", '{"cluster": {"chief": ["a:1"], "worker": ["b:1"]}, '
                                    '"task": {"type": "worker", "index": 3}}')
    with pytest.raises(ValueError, match="worker:3"):
        tf.estimator.RunConfig()
    monkeypatch.setenv("TF_CONFIG", '{"cluster": {"chief": ["a:1"]}}')
    with pytest.raises(ValueError, match='"task"'):
        tf.estimator.RunConfig()


def test_a_config_of_a_cluster(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", '{"cluster": {"chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1"]}, '
                                    '"task": {"type": "worker", "index": 1}}')
    config = tf.estimator.RunConfig()
    assert (config.task_type, config.task_id, config.master, config.is_chief) == ("worker", 1, "grpc://c:1", False)
    assert (config.num_ps_replicas, config.num_worker_replicas, config.global_id_in_cluster) == (1, 3, 2)


def test_a_dataset_is_no_input_function(tmp_path):
    estimator = tf.estimator.LinearRegressor([tf.feature_column.numeric_column("x")], str(tmp_path))
    with pytest.raises(TypeError, match="input_fn must be a function.*lambda: dataset"):
        estimator.train(tf.data.Dataset.from_tensors(({"x": [1.0]}, [1.0])), steps=1)


def test_variables_as_predictions_and_train_op(tmp_path):
    def model_fn(features, labels, mode):
        step = tf.train.get_or_create_global_step()
        total = tf.get_variable("total", initializer=2.0, use_resource=True)
        return tf.estimator.EstimatorSpec(mode, predictions=total, train_op=step.assign_add(1), loss=tf.constant(0.0))

    estimator = tf.estimator.Estimator(model_fn, str(tmp_path))
    estimator.train(lambda: tf.data.Dataset.from_tensors({"x": [1.0]}), steps=1)
    assert estimator.get_variable_value("global_step") == 1
