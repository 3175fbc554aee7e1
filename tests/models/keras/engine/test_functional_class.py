"""The class of functional models, dictionaries of inputs, and files that tf_keras reads."""
from __future__ import annotations

import io
import json
import zipfile

import h5py
import numpy as np
import pytest

import penstock as tf

keras = tf.keras


def _nested():
    inner_in = keras.Input((3,))
    inner = keras.Model(inner_in, keras.layers.Dense(2)(inner_in), name="inner")
    a, b = keras.Input((3,)), keras.Input((3,))
    return inner, keras.Model([a, b], keras.layers.Add()([inner(a), inner(b)]))


def test_model_of_inputs_and_outputs_is_a_functional():
    inner, outer = _nested()
    assert type(outer).__name__ == "Functional" and isinstance(outer, keras.Model)
    assert outer.name.startswith("model") and inner.name == "inner"
    assert outer.get_config()["layers"][2]["class_name"] == "Functional"
    assert isinstance(keras.Sequential(), type(outer)) and type(keras.Sequential()).__name__ == "Sequential"

    class Mine(keras.Model):
        """A class of the user."""

    x = keras.Input((3,))
    assert type(Mine(x, x)) is Mine


def test_summary_numbers_calls_of_a_nested_model_from_zero():
    lines = []
    _nested()[1].summary(print_fn=lines.append)
    text = "\n".join(lines)
    assert "inner (Functional)" in text and "'inner[0][0]'" in text and "'inner[1][0]'" in text


def test_data_by_the_keys_of_a_dictionary_of_inputs():
    a, b = keras.Input((2,), name="first"), keras.Input((2,), name="second")
    model = keras.Model({"x": a, "w": b}, keras.layers.Subtract()([a, b]))
    model.compile("sgd", "mse")
    data = {"x": np.full((4, 2), 5.), "w": np.full((4, 2), 2.)}
    assert (model.predict(data, verbose=0) == 3).all()
    assert model.fit(data, np.full((4, 2), 3.), verbose=0).history["loss"] == [0.]


def test_the_description_in_a_file_is_one_that_keras_2_reads(tmp_path):
    inner, outer = _nested()
    outer.save(tmp_path / "m.keras")
    with zipfile.ZipFile(tmp_path / "m.keras") as z:
        config = json.loads(z.read("config.json"))
    first, nested = config["config"]["layers"][0], config["config"]["layers"][2]
    assert (config["module"], config["class_name"]) == ("keras", "Model") == (nested["module"], nested["class_name"])
    assert first["config"]["batch_input_shape"] == [None, 3] and "batch_shape" not in first["config"]
    assert nested["inbound_nodes"] == [[[first["name"], 0, 0, {}]], [[config["config"]["layers"][1]["name"], 0, 0, {}]]]
    x = np.arange(6.).reshape(2, 3)
    again = keras.models.load_model(tmp_path / "m.keras")
    np.testing.assert_allclose(again.predict([x, x], verbose=0), outer.predict([x, x], verbose=0), rtol=1e-5)


def test_training_ends_at_a_loss_that_is_not_a_number(capsys):
    x = np.ones((12, 2), "float32")
    x[5] = np.nan
    model = keras.Sequential([keras.layers.Dense(1, activation="sigmoid", input_shape=(2,))])
    model.compile("sgd", "binary_crossentropy", metrics=[keras.metrics.AUC()])
    history = model.fit(x, np.ones(12), batch_size=4, epochs=3, shuffle=False, verbose=0,
                        callbacks=[keras.callbacks.TerminateOnNaN()])
    assert len(history.history["loss"]) == 1 and "Batch 1: Invalid loss, terminating training" in capsys.readouterr().out


def test_messages_of_callbacks_and_what_training_ends_with(capsys):
    seen = {}
    model = keras.Sequential([keras.layers.Dense(1, input_shape=(2,))])
    model.compile("sgd", "mse")
    model.fit(np.ones((4, 2)), np.ones(4), verbose=0, callbacks=[
        keras.callbacks.LearningRateScheduler(lambda epoch: .5, verbose=1),
        keras.callbacks.LambdaCallback(on_train_end=lambda logs: seen.update(logs))])
    assert "Epoch 1: LearningRateScheduler setting learning rate to 0.5." in capsys.readouterr().out
    assert list(seen) == ["loss"]


def _trained():
    model = keras.Sequential([keras.layers.Dense(2, input_shape=(3,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(.1), "mse")
    model.fit(np.ones((4, 3)), np.ones(4), epochs=2, verbose=0)
    return model


def _slots(model):
    return [model.optimizer.get_slot(v, name).numpy() for v in model.trainable_variables for name in ("m", "v")]


def test_optimizers_in_keras_files_are_laid_out_as_in_tf_keras(tmp_path):
    model = _trained()
    model.save(tmp_path / "m.keras")
    with zipfile.ZipFile(tmp_path / "m.keras") as z, h5py.File(io.BytesIO(z.read("model.weights.h5"))) as f:
        stored = [np.asarray(f["optimizer/vars"][str(i)]) for i in range(len(f["optimizer/vars"]))]
    assert stored[0] == 2
    for value, slot in zip(stored[1:], _slots(model), strict=True):
        np.testing.assert_array_equal(value, slot)


def test_state_of_newer_optimizers_in_hdf5_files(tmp_path):
    model = _trained()
    model.save(tmp_path / "m.h5")
    with h5py.File(tmp_path / "m.h5", "r+") as f:           # as tf_keras writes it: the slots of each variable together
        del f["optimizer_weights"]
        group = f.create_group("optimizer_weights")
        values = {"iteration:0": np.int64(7), **{f"Adam/{i}:0": s + 1 for i, s in enumerate(_slots(model))}}
        group.attrs["weight_names"] = [n.encode() for n in values]
        for name, value in values.items():
            group[name] = value
    again = keras.models.load_model(tmp_path / "m.h5")
    assert int(again.optimizer.iterations) == 7
    for found, slot in zip(_slots(again), _slots(model), strict=True):
        np.testing.assert_array_equal(found, slot + 1)


@pytest.mark.parametrize(("declared", "times"), [(True, 3), (False, 1)])
def test_a_stack_takes_one_layer_several_times(declared, times):
    """As in TensorFlow, where a stack that is built by its first input applies such a layer once."""
    shared = tf.keras.layers.Dense(2, use_bias=False)
    first = [tf.keras.Input([2])] if declared else []
    model = tf.keras.Sequential([*first, shared, shared, shared, tf.keras.layers.Dense(1, use_bias=False)])
    x = np.array([[1.0, -2.0]], np.float32)
    model(x)
    assert len(model.layers) == len(model.weights) == 2
    matrix, last = np.array([[2.0, 1.0], [0.5, -1.0]], np.float32), np.array([[1.0], [3.0]], np.float32)
    model.set_weights([matrix, last])
    np.testing.assert_allclose(model(x), x @ np.linalg.matrix_power(matrix, times) @ last, rtol=1e-5)
    with pytest.raises(ValueError, match="should have unique names"):
        model.add(tf.keras.layers.Dense(2, name=shared.name))


@pytest.mark.parametrize("how", ["call", "fit", "predict", "function"])
def test_a_stack_without_an_input_shape_is_a_network_after_its_first_batch(how):
    model = tf.keras.Sequential([tf.keras.layers.Dense(3), tf.keras.layers.Dropout(0.5), tf.keras.layers.Dense(2)])
    x = np.random.RandomState(0).rand(4, 6).astype(np.float32)
    if how == "call":
        model(x)
    elif how == "fit":
        model.compile("sgd", "mse")
        model.fit(x, np.ones([4, 2]), verbose=0)
    elif how == "predict":
        model.predict(x, verbose=0)
    else:
        tf.function(lambda v: model(v))(tf.constant(x))
    batch = None if how in ("fit", "predict") else 4
    assert model.output_shape == (batch, 2) and model.layers[1].input_shape == (batch, 3)
    features = tf.keras.Model(model.input, model.layers[0].output)
    kernel, bias = model.layers[0].get_weights()
    np.testing.assert_allclose(features(x[:2]), x[:2] @ kernel + bias, rtol=1e-5, atol=1e-6)
    model(x[:1])
    assert model.input_shape == (None, 6) and [len(v.inbound_nodes) for v in model.layers] == [1, 1, 1]
    assert [v.__class__.__name__ for v in type(model).from_config(model.get_config()).layers] == ["Dense", "Dropout", "Dense"]


def test_layers_that_read_the_shapes_of_others_in_a_nested_stack():
    class Tied(tf.keras.layers.Layer):
        def __init__(self, dense):
            super().__init__()
            self.dense = dense

        def build(self, shape):
            self.bias = self.add_weight(name="bias", shape=self.dense.input_shape[-1:])

        def call(self, x):
            return tf.matmul(x, self.dense.kernel, transpose_b=True) + self.bias
    inner = tf.keras.layers.Dense(2)
    model = tf.keras.Sequential([tf.keras.Sequential([inner]), tf.keras.Sequential([Tied(inner)])])
    model.compile("sgd", "mse")
    x = np.ones([4, 5], np.float32)
    model.fit(x, x, verbose=0)
    assert model.output_shape == (None, 5) and len(model.weights) == 3


def test_a_stack_of_layers_that_take_no_symbolic_tensors_still_runs():
    class Read(tf.keras.layers.Layer):
        def call(self, x):
            return tf.constant(x.numpy() * 2)
    model = tf.keras.Sequential([Read(), tf.keras.layers.Flatten()])
    np.testing.assert_array_equal(model(tf.ones([2, 1])), [[2], [2]])
    np.testing.assert_array_equal(model(tf.ones([3, 1])), [[2], [2], [2]])
    assert not model.inputs
