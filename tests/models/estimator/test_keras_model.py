"""Keras models as estimators: the same predictions, training that continues from their weights, metrics, and bad input."""
import numpy as np
import pytest

import penstock
import penstock.compat.v1 as tf

keras = tf.keras
DRAW = np.random.RandomState(3)
X = DRAW.randn(96, 4).astype(np.float32)
Y = (X @ np.array([1., -1., 0.5, 2.], np.float32) > 0).astype(np.int64)


def sequential(optimizer="adam"):
    model = keras.Sequential([keras.layers.Dense(8, "relu", input_shape=(4,)), keras.layers.BatchNormalization(),
                              keras.layers.Dropout(0.2), keras.layers.Dense(2, "softmax", name="kind")])
    model.compile(optimizer, "sparse_categorical_crossentropy", ["accuracy"])
    return model


def functional():
    a, b = keras.Input((2,), name="a"), keras.Input((2,), name="b")
    both = keras.layers.concatenate([a, b])
    hidden = keras.layers.Dense(6, "tanh", kernel_regularizer=keras.regularizers.l2(0.01))(both)
    total, kind = keras.layers.Dense(1, name="sum")(hidden), keras.layers.Dense(2, "softmax", name="kind")(hidden)
    model = keras.Model([a, b], [total, kind])
    model.compile(keras.optimizers.SGD(0.1), {"sum": "mse", "kind": "sparse_categorical_crossentropy"},
                  {"sum": [keras.metrics.MeanAbsoluteError(name="mae")]}, loss_weights={"sum": 0.5, "kind": 2.0})
    return model


def batches(x, y=None, repeat=False):
    def input_fn():
        data = tf.data.Dataset.from_tensor_slices((x, y) if y is not None else x).batch(32)
        return data.repeat() if repeat else data
    return input_fn


@pytest.fixture(params=["graph", "eager"])
def mode(request):
    """Models are created in a graph with a session, or eagerly."""
    from penstock._src.graph import context
    before = context.process.eager
    keras.backend.clear_session()
    (tf.enable_v2_behavior if request.param == "eager" else tf.disable_v2_behavior)()
    yield request.param
    (tf.enable_v2_behavior if before else tf.disable_v2_behavior)()
    keras.backend.clear_session()


@pytest.mark.parametrize("api", ["v1", "v2"])
def test_same_predictions_then_trained_further(tmp_path, mode, api):
    model = sequential()
    model.fit(X, Y, batch_size=32, epochs=2, verbose=0)
    make = (tf if api == "v1" else penstock).keras.estimator.model_to_estimator
    estimator = make(model, model_dir=str(tmp_path))
    wanted, (loss, accuracy) = model.predict(X), model.evaluate(X, Y, verbose=0)
    found = list(estimator.predict(batches(X)))
    np.testing.assert_allclose([row["kind"] for row in found], wanted, rtol=1e-4, atol=1e-5)
    first = estimator.evaluate(batches(X, Y))
    assert first["global_step"] == 0
    metric = next(v for k, v in first.items() if "acc" in k)
    np.testing.assert_allclose([first["loss"], metric], [loss, accuracy], rtol=1e-4)
    estimator.train(batches(X, Y, repeat=True), steps=60).train(batches(X, Y, repeat=True), steps=60)
    after = estimator.evaluate(batches(X, Y))
    assert after["global_step"] == 120 and after["loss"] < 0.8 * first["loss"]
    moved = estimator.get_variable_value(next(n for n in estimator.get_variable_names() if n.endswith("moving_mean")))
    assert np.abs(moved - model.layers[1].get_weights()[2]).max() > 1e-3          # training updates the layers' state, too
    np.testing.assert_allclose(model.predict(X), wanted, rtol=1e-5, atol=1e-6)               # the model itself is unchanged


def test_one_step_is_the_step_that_fit_takes(tmp_path, mode):
    model = functional()
    x, y = {"a": X[:32, :2], "b": X[:32, 2:]}, {"sum": X[:32].sum(1, keepdims=True), "kind": Y[:32]}
    estimator = keras.estimator.model_to_estimator(model, model_dir=str(tmp_path))
    estimator.train(batches(x, y), steps=1)
    model.train_on_batch([x["a"], x["b"]], [y["sum"], y["kind"]])
    for row, name in zip(model.predict([x["a"], x["b"]]), ("sum", "kind"), strict=True):
        np.testing.assert_allclose([r[name] for r in estimator.predict(batches(x))], row, rtol=1e-4, atol=1e-5)
    result = estimator.evaluate(batches(x, y))
    np.testing.assert_allclose(result["sum_mae"], np.abs(model.predict([x["a"], x["b"]])[0] - y["sum"]).mean(), rtol=1e-4)


def test_optimizers_of_tf_train_and_models_in_files(tmp_path):
    with tf.Graph().as_default():
        with tf.Session() as session:
            keras.backend.set_session(session)
            model = sequential(tf.train.GradientDescentOptimizer(0.1))
            estimator = keras.estimator.model_to_estimator(model, model_dir=str(tmp_path / "one"))
            assert estimator.train(batches(X, Y, repeat=True), steps=3).get_variable_value("global_step") == 3
            model = sequential()
            model.save(str(tmp_path / "model.h5"))
            wanted = model.predict(X)
            estimator = keras.estimator.model_to_estimator(keras_model_path=str(tmp_path / "model.h5"))
            np.testing.assert_allclose([r["kind"] for r in estimator.predict(batches(X))], wanted, rtol=1e-4, atol=1e-5)
    keras.backend.clear_session()


def test_bad_input():
    with tf.Graph().as_default():
        make, bare = keras.estimator.model_to_estimator, keras.Sequential([keras.layers.Dense(1, input_shape=(2,))])
        for given, match in (({}, "needs to be provided"), ({"keras_model": bare, "keras_model_path": "x"}, "not both"),
                             ({"keras_model": bare}, "has not been compiled"),
                             ({"keras_model": bare, "checkpoint_format": "zip"}, "checkpoint_format")):
            with pytest.raises(ValueError, match=match):
                make(**given)
        estimator = make(functional())
        with pytest.raises(KeyError, match="missing are \\['b'\\], unknown are \\['c'\\]"):
            list(estimator.predict(batches({"a": X[:, :2], "c": X[:, 2:]})))
    keras.backend.clear_session()
