"""Ops between layers as tf_keras writes them: layers that name a public function. The calls were recorded from tf_keras."""
import numpy as np
import pytest

import penstock as tf

NOTHING = {"start": None, "stop": None, "step": None}


def layer(symbol, *calls, kind="TFOpLambda", name=None):
    name = name or f"tf.{symbol}"
    return {"class_name": kind, "name": name, "inbound_nodes": list(calls),
            "config": {"name": name, "trainable": True, "dtype": "float32", "function": symbol}}


def entry(name):
    return {"class_name": "InputLayer", "name": name, "inbound_nodes": [],
            "config": {"batch_input_shape": [None, 4], "dtype": "float32", "sparse": False, "ragged": False, "name": name}}


LAYERS = [
    entry("a"), entry("b"),
    layer("math.multiply", ["b", 0, 0, {"y": 2.0, "name": None}]),
    layer("concat", [["a", 0, 0, {"axis": -1}], ["tf.math.multiply", 0, 0, {"axis": -1}]]),
    layer("nn.relu", ["tf.concat", 0, 0, {"name": None}]),
    layer("__operators__.getitem", ["tf.nn.relu", 0, 0, {"slice_spec": [NOTHING, {"start": 1, "stop": 5, "step": None}]}],
          kind="SlicingOpLambda"),
    layer("__operators__.add", ["tf.__operators__.getitem", 0, 0, {"y": 1.0, "name": None}]),
    layer("math.subtract", ["_CONSTANT_VALUE", -1, 1.0, {"y": ["a", 0, 0], "name": None}]),
    layer("math.greater", ["a", 0, 0, {"y": 0.5, "name": None}]),
    layer("where", ["tf.math.greater", 0, 0, {"x": ["a", 0, 0], "y": ["b", 0, 0]}]),
    layer("stack", [["a", 0, 0, {"axis": 1}], ["b", 0, 0, {"axis": 1}]]),
    layer("linalg.matmul", ["tf.stack", 0, 0, {"b": ["tf.stack", 0, 0], "transpose_b": True}]),
    layer("compat.v1.gather", ["a", 0, 0, {"indices": [0, 2], "validate_indices": None, "name": None, "axis": 1,
                                           "batch_dims": 0}]),
    layer("split", ["a", 0, 0, {"num_or_size_splits": 2, "axis": 1}]),
    layer("__operators__.getitem", ["a", 0, 0, {"slice_spec": [{"class_name": "__ellipsis__"}, None,
                                                               {"start": None, "stop": None, "step": 2}]}],
          kind="SlicingOpLambda", name="every_second"),
]
OUTPUTS = ["tf.__operators__.add", "tf.math.subtract", "tf.where", "tf.linalg.matmul", "tf.compat.v1.gather", "every_second"]
CONFIG = {"name": "ops", "trainable": True, "layers": LAYERS, "input_layers": [["a", 0, 0], ["b", 0, 0]],
          "output_layers": [*([name, 0, 0] for name in OUTPUTS), ["tf.split", 0, 1]]}


def test_functions_are_called_with_their_arguments():
    model = tf.keras.Model.from_config(CONFIG)
    a, b = np.arange(8, dtype="float32").reshape(2, 4) / 8 - 0.2, np.full((2, 4), 0.3, "float32")
    both = np.stack([a, b], 1)
    expected = [np.maximum(np.concatenate([a, b * 2], -1), 0)[:, 1:5] + 1, 1 - a, np.where(a > 0.5, a, b),
                both @ both.transpose(0, 2, 1), a[:, [0, 2]], a[..., None, ::2], a[:, 2:]]
    for one in (model, tf.keras.models.model_from_json(model.to_json())):
        for found, value in zip(one.predict([a, b], verbose=0), expected, strict=True):
            np.testing.assert_allclose(found, value, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("symbol", ["io.write_file", "io.read_file", "load_op_library", "py_function", "saved_model.load",
                                    "compat.v1.py_func", "raw_ops.WriteFile"])
def test_a_file_cannot_call_everything(symbol):
    with pytest.raises(ValueError, match="may not call"):
        tf.keras.layers.deserialize(layer(symbol))


def calls(model):
    return [(layer["class_name"], layer["name"], layer["inbound_nodes"]) for layer in model.get_config()["layers"]
            if "OpLambda" in layer["class_name"]]


def test_functions_between_layers_are_layers():
    x, y = tf.keras.Input((4, 4), name="x"), tf.keras.Input((4, 4), name="y")
    h = tf.concat([1.0 - x[:, ::2], y * 2.0], 1)
    h = tf.where(h > 0, tf.transpose(tf.cast(h, tf.float32), [0, 1, 2]), tf.maximum(0.0, h))
    outputs = tf.reshape(h, (tf.shape(x)[0], -1))
    model = tf.keras.Model([x, y], [outputs, -abs(x), tf.math.top_k(x, 2), tf.keras.backend.sum(y, -1)])
    every = {"start": None, "stop": None, "step": 2}
    found = {name: (kind, nodes) for kind, name, nodes in calls(model)}
    assert found["tf.__operators__.getitem"] == ("SlicingOpLambda", [["x", 0, 0, {"slice_spec": (
        {"start": None, "stop": None, "step": None}, every)}]])
    assert found["tf.math.subtract"][1] == [["_CONSTANT_VALUE", -1, 1.0, {"y": ["tf.__operators__.getitem", 0, 0]}]]
    assert found["tf.concat"][1] == [[["tf.math.subtract", 0, 0, {"axis": 1}], ["tf.math.multiply", 0, 0, {"axis": 1}]]]
    assert found["tf.where"][1] == [["tf.math.greater", 0, 0, {"x": ["tf.compat.v1.transpose", 0, 0],
                                                              "y": ["tf.math.maximum", 0, 0]}]]
    assert found["tf.cast"][1] == [["tf.concat", 0, 0, {"dtype": "float32"}]]
    assert found["tf.reshape"][1] == [["tf.where", 0, 0, {"shape": (["tf.__operators__.getitem_1", 0, 0], -1)}]]
    assert {"tf.compat.v1.shape", "tf.math.negative", "tf.math.abs", "tf.math.top_k", "tf.math.reduce_sum"} < set(found)
    data = [np.random.RandomState(i).randn(3, 4, 4).astype("float32") for i in range(2)]
    both = np.concatenate([1 - data[0][:, ::2], data[1] * 2], 1)
    np.testing.assert_allclose(model(data)[0], np.maximum(both, 0).reshape(3, -1), rtol=1e-6)
    for copied in (tf.keras.models.model_from_json(model.to_json()), tf.keras.models.clone_model(model)):
        for one, other in zip(tf.nest.flatten(copied(data)), tf.nest.flatten(model(data)), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6)


def test_functions_in_layers_are_no_layers():
    class Halved(tf.keras.layers.Layer):
        def call(self, x):
            return tf.abs(x) / 2.0

    x = tf.keras.Input((2,))
    model = tf.keras.Sequential([tf.keras.layers.Lambda(lambda t: tf.square(t) + 1.0)])
    assert [type(v).__name__ for v in tf.keras.Model(x, model(Halved()(x))).layers] == ["InputLayer", "Halved", "Sequential"]


def test_results_of_layers_say_where_they_come_from():
    x = tf.keras.Input((2,), name="given")
    y = tf.keras.layers.Dense(3, name="last")(x)
    assert repr(y) == "<KerasTensor: shape=(None, 3) dtype=float32 (created by layer 'last')>"
    assert str(x) == ("KerasTensor(type_spec=TensorSpec(shape=(None, 2), dtype=tf.float32, name='given'), name='given', "
                      "description=\"created by layer 'given'\")")


def test_variables_in_functions_are_read_at_each_call():
    weight = tf.Variable([[2.0], [3.0]])
    x = tf.keras.Input((2,))
    model = tf.keras.Model(x, tf.matmul(x, weight))
    assert model(np.ones((1, 2), "float32")).numpy() == [[5.0]]
    weight.assign([[1.0], [1.0]])
    assert model.predict(np.ones((1, 2), "float32"), verbose=0) == [[2.0]]


def test_mixed_and_variadic_arguments():
    x = tf.keras.Input((2, 2))
    model = tf.keras.Model(x, [tf.einsum("bij,bjk->bik", x, x), tf.stack([x, tf.ones((1, 2, 2))[0] + x]),
                               tf.concat([x, tf.zeros_like(x)], 1)])
    data = np.arange(4, dtype="float32").reshape(1, 2, 2)
    product, stacked, joined = model(data)
    np.testing.assert_allclose(product, data @ data, rtol=1e-6)
    np.testing.assert_array_equal(stacked, np.stack([data, data + 1]))
    np.testing.assert_array_equal(joined, np.concatenate([data, 0 * data], 1))


def test_arrays_on_the_left_have_the_type_of_the_tensor():
    x = tf.keras.Input((3,), name="inp")
    assert x.name == "inp"
    model = tf.keras.Model(x, [np.arange(3.0) * x, 1 / x, np.ones((1, 3)) - x, x + np.ones(3)])
    assert all(layer.output.dtype == tf.float32 for layer in model.layers)
    found = [v.numpy().tolist() for v in model(np.full((1, 3), 2.0, "float32"))]
    assert found == [[[0, 2, 4]], [[0.5] * 3], [[-1] * 3], [[3] * 3]]
