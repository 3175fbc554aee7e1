"""Models as copies, as bytes, as SavedModels without their classes, and as exports; objects as plain data."""
from __future__ import annotations

import copy
import json
import pickle

import numpy as np
import pytest

import penstock as tf

keras = tf.keras
X = np.random.RandomState(0).rand(4, 3).astype("float32")


class Net(keras.Model):
    """A model of the user."""

    def __init__(self, units=2, **kwargs):
        super().__init__(**kwargs)
        self.units, self.dense = units, keras.layers.Dense(units)

    def call(self, x, training=False):
        return {"out": self.dense(x) + (1. if training else 0.)}

    def get_config(self):
        return {"units": self.units}


def compiled():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, "relu"), keras.layers.Dense(2)])
    model.compile("adam", "mse", metrics=["mae"])
    model.fit(X, X[:, :2], verbose=0)
    return model


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_have_weights_and_optimizers_of_their_own(copied):
    model = compiled()
    before = model.predict(X, verbose=0)
    made = copied(model)
    np.testing.assert_allclose(made.predict(X, verbose=0), before, rtol=1e-6, atol=1e-6)
    assert int(made.optimizer.iterations) == 1 and made.optimizer is not model.optimizer
    made.fit(X, X[:, :2], verbose=0, epochs=2)
    np.testing.assert_array_equal(model.predict(X, verbose=0), before)
    own = Net(3)
    np.testing.assert_allclose(own(X)["out"], copied(own)(X)["out"], rtol=1e-6, atol=1e-6)
    assert copied(keras.Sequential([keras.layers.Dense(2)]))(X).shape == (4, 2)


def test_a_saved_model_without_its_class_predicts(tmp_path):
    model = Net(name="net")
    model(X)
    model.save(tmp_path / "model")
    found = keras.models.load_model(tmp_path / "model")
    assert not isinstance(found, Net) and found.name == "net" and len(found.trainable_weights) == 2
    for x in (X, X[:1]):
        np.testing.assert_allclose(found.predict(x, verbose=0)["out"], model(x)["out"], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found(X, training=True)["out"], model(X, training=True)["out"], rtol=1e-6, atol=1e-6)


def test_exports_serve(tmp_path):
    model = compiled()
    model.export(tmp_path / "one")
    found = tf.saved_model.load(str(tmp_path / "one"))
    np.testing.assert_allclose(found.serve(X), model(X), rtol=1e-6, atol=1e-6)
    assert set(found.signatures) == {"serve", "serving_default"} and len(found.trainable_variables) == 4
    inputs = [keras.Input((3,), name="a"), keras.Input((3,), name="b")]
    two = keras.Model(inputs, keras.layers.Add()(inputs))
    two.export(str(tmp_path / "two"))
    np.testing.assert_allclose(tf.saved_model.load(str(tmp_path / "two")).serve(X, X), 2 * X, rtol=1e-6)
    with pytest.raises(ValueError, match="must be built before export"):
        keras.Sequential([keras.layers.Dense(2)]).export(str(tmp_path / "three"))


def test_archives_have_the_functions_that_were_added(tmp_path):
    model, archive = compiled(), keras.export.ExportArchive()
    with pytest.raises(ValueError, match="No endpoints have been set yet"):
        archive.write_out(str(tmp_path / "a"))
    other = keras.layers.Dense(2)
    with pytest.raises(ValueError, match="must be built before export"):
        archive.track(other)
    other.build((None, 3))
    archive.track(model)
    archive.track(other)
    assert len(archive.variables) == 6
    archive.add_endpoint("other", other.call, [tf.TensorSpec([None, 3], tf.float32)])
    archive.add_endpoint("double", lambda x: 2. * model(x), [tf.TensorSpec([None, 3], tf.float32)])
    call = tf.function(model)
    with pytest.raises(ValueError, match="has never been called"):
        archive.add_endpoint("call", call)
    call(X)
    archive.add_endpoint("call", call)
    with pytest.raises(ValueError, match="already taken"):
        archive.add_endpoint("call", call)
    with pytest.raises(ValueError, match="you must provide an `input_signature`"):
        archive.add_endpoint("plain", lambda x: x)
    with pytest.raises(ValueError, match="to be a list/tuple/set"):
        archive.add_variable_collection("some", model.weights[0])
    archive.add_variable_collection("some", model.weights[:1])
    archive.write_out(str(tmp_path / "a"))
    found = tf.saved_model.load(str(tmp_path / "a"))
    np.testing.assert_allclose(found.double(X), 2 * model(X), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found.call(X), model(X), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found.other(X), other(X), rtol=1e-6, atol=1e-6)
    assert len(found.some) == 1 and len(found.trainable_variables) == 6


def test_the_arguments_of_compile_are_data():
    model = compiled()
    config = model.get_compile_config()
    assert config["loss"] == "mse" and config["optimizer"]["class_name"] == "Adam"
    other = keras.models.clone_model(model)
    assert other.get_compile_config() == {}
    other.compile_from_config(config)
    other.set_weights(model.get_weights())
    np.testing.assert_allclose(other.evaluate(X, X[:, :2], verbose=0), model.evaluate(X, X[:, :2], verbose=0), rtol=1e-5)


@pytest.mark.parametrize("value", [None, 3, "text", (1, 2.5), [True, {"a": [None]}], b"bytes", {"a": (b"x", 1)}])
def test_plain_values_are_data(value):
    data = keras.saving.serialize_keras_object(value)
    assert keras.saving.deserialize_keras_object(data) == value
    json.dumps(data)


def test_arrays_specs_and_functions_are_data():
    to, back = keras.saving.serialize_keras_object, keras.saving.deserialize_keras_object
    array = back(to(np.arange(3, dtype="int16")))
    assert array.dtype == "int16" and array.tolist() == [0, 1, 2] and to(np.float32(0.5)) == 0.5
    tensor = back(json.loads(json.dumps(to({"x": tf.constant([[1., 2.]])}))))["x"]
    assert tensor.dtype == "float32" and tensor.numpy().tolist() == [[1., 2.]]
    assert to(tf.float32) == "float32" and to(tf.TensorShape([None, 2])) == [None, 2]
    assert back(to(tf.TensorSpec([None, 2], tf.int32))) == tf.TensorSpec([None, 2], tf.int32)
    assert back(to(keras.losses.mean_squared_error)) is keras.losses.mean_squared_error
    with pytest.warns(UserWarning, match="arbitrary code execution"):
        data = to(lambda x: x + 1)
    assert back(data, safe_mode=False)(2) == 3
    with pytest.raises(TypeError, match="must implement the `get_config"):
        to(object())


def test_objects_name_their_modules():
    to, back = keras.saving.serialize_keras_object, keras.saving.deserialize_keras_object
    layer = keras.layers.Dense(3, name="d")
    layer.build((None, 2))
    data = to({"layer": layer, "loss": keras.losses.Huber(0.5)})
    assert list(data["layer"])[:4] == ["module", "class_name", "config", "registered_name"]
    assert (data["layer"]["module"], data["layer"]["registered_name"]) == ("keras.layers", None)
    made = back(data)
    assert made["layer"].built and made["layer"].units == 3 and isinstance(made["loss"], keras.losses.Huber)
    assert back(to(compiled())).optimizer.get_config()["name"] == "Adam"
    with pytest.raises(TypeError, match="Could not locate class 'Unknown'"):
        back({"module": "nowhere", "class_name": "Unknown", "config": {}, "registered_name": "Unknown"})
    with pytest.raises(ValueError, match="Could not locate function 'system'"):
        back({"module": "os", "class_name": "function", "config": "system", "registered_name": "system"})
    found = keras.utils.deserialize_keras_object({"class_name": "A", "config": {}}, module_objects={"A": keras.layers.Add})
    assert isinstance(found, keras.layers.Add)
