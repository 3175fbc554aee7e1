"""Configurations of objects of Keras: their fields, in order, and the defaults; recorded from tf_keras 2.21."""
import json
import pathlib

import numpy as np
import pytest

import penstock as tf

RECORDED = json.loads((pathlib.Path(__file__).parent / "recorded_configs.json").read_text())


def _plain(value):
    """A value of a configuration as the record has it: of an object, its class."""
    return value["class_name"] if isinstance(value, dict) and "class_name" in value else value


@pytest.mark.parametrize("name", RECORDED)
def test_configurations_have_the_fields_of_tf_keras_in_their_order(name):
    arguments, expected = RECORDED[name]
    made = tf.keras
    for part in name.split("."):
        made = getattr(made, part)
    config = made(*[tuple(a) if name.endswith(("Reshape", "Permute")) else a for a in arguments]).get_config()
    if name.startswith("layers."):
        config.pop("name")
    found = {k: _plain(v) for k, v in config.items()}
    assert json.dumps(found, default=lambda o: type(o).__name__) == json.dumps(expected)


def test_layers_that_were_built_by_adapt_have_an_input_shape_of_open_sizes():
    layer = tf.keras.layers.Normalization()
    layer.adapt(np.ones((4, 3)))
    assert layer.get_config()["batch_input_shape"] == (None, None)
    assert list(layer.get_config())[:4] == ["name", "trainable", "dtype", "batch_input_shape"]


def test_an_input_shape_follows_the_dtype():
    assert list(tf.keras.layers.Dense(2, input_dim=3).get_config())[:4] == ["name", "trainable", "dtype", "batch_input_shape"]


def test_results_of_metrics_in_a_dictionary_are_tensors():
    class Counts(tf.keras.metrics.Metric):
        def __init__(self):
            super().__init__()
            self.n = self.add_weight(name="n", initializer="zeros")

        def update_state(self, y_true, y_pred, sample_weight=None):
            self.n.assign_add(1.0)

        def result(self):
            return {"n": self.n, "twice": 2 * self.n}

    metric = Counts()
    found = metric([1.0], [1.0])
    metric.update_state([1.0], [1.0])
    assert isinstance(found["n"], tf.Tensor) and float(found["n"]) == 1.0 and float(metric.result()["twice"]) == 4.0


def test_a_loss_for_one_output_takes_targets_of_all():
    inputs = tf.keras.Input((2,))
    outputs = [tf.keras.layers.Dense(1, name=name, kernel_initializer="ones")(inputs) for name in "ab"]
    model = tf.keras.Model(inputs, outputs)
    x = np.array([[1.0, 2.0]], np.float32)
    for loss in ({"a": "mse"}, [None, "mse"]):
        model.compile("sgd", loss)
        found = model.evaluate(x, [np.array([[5.0]]), np.array([[9.0]])], verbose=0, return_dict=True)
        assert found == ({"loss": 4.0, "a_loss": 4.0} if loss == {"a": "mse"} else {"loss": 36.0, "b_loss": 36.0})


def test_rows_are_split_in_the_order_of_tf_keras():
    first, rest = tf.keras.utils.split_dataset(np.arange(10), left_size=0.7, shuffle=True, seed=1)
    assert [int(v) for v in first] == [6, 8, 9, 7, 5, 3, 0] and [int(v) for v in rest] == [4, 1, 2]


def test_columns_may_be_vectors_for_inputs_of_size_one():
    a, b = tf.keras.Input((4,), name="a"), tf.keras.Input((1,), name="b")
    model = tf.keras.Model({"a": a, "b": b}, a + b)
    assert model.predict({"a": np.ones((6, 4)), "b": np.arange(6.0)}, verbose=0).tolist() == [[n + 1.0] * 4 for n in range(6)]
