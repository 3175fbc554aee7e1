"""Serialized configs: in 2.x they name the module and the registered name of a class, as tf_keras writes them."""
import json

import numpy as np
import pytest

import penstock as tf

keras = tf.keras
layers = keras.layers


def named(module, class_name, config, registered=None):
    return {"module": module, "class_name": class_name, "config": config, "registered_name": registered}


ZEROS = named("keras.initializers", "Zeros", {})
GLOROT = named("keras.initializers", "GlorotUniform", {"seed": None})


@pytest.fixture
def distance():
    @keras.utils.register_keras_serializable("lab")
    class Distance(layers.Layer):
        def __init__(self, eps=1e-6, **kwargs):
            super().__init__(**kwargs)
            self.eps = eps

        def call(self, x):
            return tf.sqrt(tf.reduce_sum(tf.square(x[0] - x[1]), -1, keepdims=True) + self.eps)

        def get_config(self):
            return {**super().get_config(), "eps": self.eps}
    yield Distance
    del keras.utils.get_custom_objects()["lab>Distance"]


@pytest.mark.parametrize("module, value, expected", [
    ("losses", lambda: keras.losses.Huber(0.5), named(
        "keras.losses", "Huber", {"delta": 0.5, "fn": "huber", "name": "huber_loss", "reduction": "auto"})),
    ("losses", lambda: keras.losses.mse, named("builtins", "function", "mean_squared_error", "function")),
    ("regularizers", lambda: keras.regularizers.L2(0.5), named("keras.regularizers", "L2", {"l2": 0.5})),
    ("constraints", lambda: keras.constraints.MaxNorm(2), named("keras.constraints", "MaxNorm", {"max_value": 2, "axis": 0})),
    ("optimizers.schedules", lambda: keras.optimizers.schedules.CosineDecay(0.5, 3), named(
        "keras.optimizers.schedules", "CosineDecay", {"initial_learning_rate": 0.5, "decay_steps": 3, "alpha": 0.0,
                                                      "name": None, "warmup_target": None, "warmup_steps": 0})),
    ("metrics", lambda: keras.metrics.AUC(name="auc"), named("keras.metrics", "AUC", {
        "curve": "ROC", "dtype": "float32", "from_logits": False, "label_weights": None, "multi_label": False, "name": "auc",
        "num_labels": None, "num_thresholds": 200, "summation_method": "interpolation"})),
    ("activations", lambda: keras.activations.relu, "relu"),
], ids=["loss", "function", "regularizer", "constraint", "schedule", "metric", "activation"])
def test_values_recorded_from_tf_keras(module, value, expected):
    space = keras
    for part in module.split("."):
        space = getattr(space, part)
    assert space.serialize(value()) == expected
    assert space.serialize(space.deserialize(expected)) == expected


def test_layers_name_their_parts_and_wrappers_their_layers():
    config = layers.serialize(layers.Bidirectional(layers.LSTM(2, name="l"), name="b"))
    assert (config["module"], config["registered_name"]) == ("keras.layers", None)
    inner = config["config"]["layer"]
    assert (inner["module"], inner["class_name"], inner["registered_name"]) == ("keras.layers", "LSTM", None)
    assert inner["config"]["kernel_initializer"] == GLOROT and inner["config"]["bias_initializer"] == ZEROS
    cells = layers.RNN([layers.GRUCell(2), layers.LSTMCell(3)]).get_config()["cell"]["config"]["cells"]
    assert [c["module"] for c in cells] == ["keras.layers"] * 2
    mixed = layers.Dense(1, dtype=keras.mixed_precision.Policy("mixed_float16")).get_config()["dtype"]
    assert mixed == named("keras.mixed_precision", "Policy", {"name": "mixed_float16"})
    legacy = layers.serialize(layers.Dense(2), use_legacy_format=True)
    assert set(legacy) == {"class_name", "config"} and legacy["config"]["bias_initializer"] == ZEROS


def test_networks_and_their_registered_layers(distance):
    tower_in = keras.Input((4,))
    tower = keras.Model(tower_in, layers.Dense(2)(tower_in), name="tower")
    a, b = keras.Input((4,), name="a"), keras.Input((4,), name="b")
    model = keras.Model([a, b], distance(eps=0.5, name="d")([tower(a), tower(b)]))
    config = model.get_config()
    inner, last = config["layers"][2], config["layers"][3]
    assert (inner["module"], inner["class_name"], inner["registered_name"]) == (
        "keras.src.engine.functional", "Functional", "Functional")
    assert inner["build_config"] == {"input_shape": (None, 4)} and "build_config" not in config["layers"][0]
    assert (last["module"], last["class_name"], last["registered_name"]) == (
        distance.__module__, "Distance", "lab>Distance")
    assert last["build_config"] == {"input_shape": [(None, 2), (None, 2)]}
    x = [np.ones((3, 4), "float32"), np.zeros((3, 4), "float32")]
    for again in (keras.Model.from_config(json.loads(json.dumps(config))), keras.models.model_from_json(model.to_json())):
        again.set_weights(model.get_weights())
        np.testing.assert_allclose(again.predict(x, verbose=0), model.predict(x, verbose=0), rtol=1e-6)


def test_a_stack_begins_with_its_input():
    model = keras.Sequential([layers.Dense(2, input_shape=(4,), name="d")], name="s")
    described = model.get_config()["layers"]
    assert [v["class_name"] for v in described] == ["InputLayer", "Dense"]
    assert described[1]["build_config"] == {"input_shape": (None, 4)}
    again = keras.Sequential.from_config(model.get_config())
    assert again.input_shape == (None, 4) and [v.name for v in again.layers] == ["d"]
    assert json.loads(model.to_json())["keras_version"].startswith("2.1")


def test_a_registered_class_takes_precedence_over_a_layer_of_its_name():
    @keras.utils.register_keras_serializable("own")
    class Dense(layers.Dense):
        pass
    try:
        config = layers.serialize(Dense(2))
        assert config["class_name"] == "Dense" and config["registered_name"] == "own>Dense"
        assert type(layers.deserialize(config)) is Dense
        assert type(layers.deserialize(layers.serialize(layers.Dense(2)))) is layers.Dense
    finally:
        del keras.utils.get_custom_objects()["own>Dense"]


def test_arguments_of_compile_as_they_were_given():
    model = keras.Sequential([layers.Dense(1, input_shape=(2,))])
    assert model.get_compile_config() == {}
    model.compile(keras.optimizers.SGD(0.5), ["mse"], metrics=["mae"], jit_compile=True)
    config = model.get_compile_config()
    assert list(config) == ["optimizer", "loss", "metrics", "loss_weights", "weighted_metrics", "run_eagerly",
                            "steps_per_execution", "jit_compile"]
    assert (config["loss"], config["metrics"], config["jit_compile"]) == (["mse"], ["mae"], True)
    assert config["optimizer"]["module"] == "keras.optimizers"
