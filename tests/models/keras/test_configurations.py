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


def test_a_layer_may_store_its_own_variables(tmp_path):
    class Table(tf.keras.layers.Layer):
        def build(self, shape):
            self.rows = self.add_weight("rows", (2,), initializer="ones")

        def call(self, x):
            return x + self.rows

        def save_own_variables(self, store):
            store["halves"] = self.rows.numpy() / 2

        def load_own_variables(self, store):
            self.rows.assign(np.asarray(store["halves"]) * 2)

    model = tf.keras.Sequential([tf.keras.Input((2,)), Table(name="table")])
    model.layers[0].rows.assign([3.0, 5.0])
    model.save(tmp_path / "m.keras")
    made = tf.keras.models.load_model(tmp_path / "m.keras", custom_objects={"Table": Table})
    assert made.layers[0].rows.numpy().tolist() == [3.0, 5.0]


def test_vocabularies_hold_numpy_scalars_as_in_tf_keras():
    layer = tf.keras.layers.StringLookup(vocabulary=["a"])
    assert repr(layer.get_vocabulary()) == "['[UNK]', np.str_('a')]"
    layer = tf.keras.layers.IntegerLookup(vocabulary=[5])
    assert repr(layer.get_vocabulary()) == "[np.int64(-1), np.int64(5)]"


def test_a_state_that_lasts_begins_as_its_cell_says():
    class Cell(tf.keras.layers.Layer):
        units = state_size = 2

        def call(self, x, states):
            return x + states[0], [x + states[0]]

        def get_initial_state(self, inputs=None, batch_size=None, dtype=None):
            return tf.ones((batch_size, 2), dtype)

    layer = tf.keras.layers.RNN(Cell(), stateful=True)
    assert layer(tf.zeros((3, 1, 2))).numpy().tolist() == [[1.0, 1.0]] * 3
    assert layer(tf.ones((3, 1, 2))).numpy().tolist() == [[2.0, 2.0]] * 3
    layer.reset_states()
    assert layer.states[0].numpy().tolist() == [[1.0, 1.0]] * 3


def test_both_directions_may_be_reset_to_given_states():
    layer = tf.keras.layers.Bidirectional(tf.keras.layers.LSTM(2, stateful=True))
    layer(tf.zeros((1, 3, 4)))
    layer.reset_states([np.full((1, 2), n, np.float32) for n in range(4)])
    states = [*layer.forward_layer.states, *layer.backward_layer.states]
    assert [float(s[0, 0]) for s in states] == [0.0, 1.0, 2.0, 3.0]


def test_errors_name_all_arguments_of_a_call():
    with pytest.raises(ValueError) as caught:
        tf.keras.Sequential([tf.keras.layers.Dense(2, input_shape=(3,))])(np.zeros(3))
    assert str(caught.value).splitlines()[-3:] == ["  • inputs=tf.Tensor(shape=(3,), dtype=float64)", "  • training=None",
                                                   "  • mask=None"]
