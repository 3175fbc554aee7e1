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
