"""Layers and models without `get_config` are described by the arguments that they were constructed with.

The expected configs are those of tf_keras 2.21.
"""
import numpy as np
import pytest

import penstock as tf


class Scale(tf.keras.layers.Layer):
    def __init__(self, factor, unit="m", **kwargs):
        super().__init__(**kwargs)
        self.factor = factor

    def call(self, x):
        return x * self.factor


class Sizes(tf.keras.layers.Layer):
    def __init__(self, factor, sizes=(1, 2)):
        super().__init__()


class Doubled(Scale):
    def __init__(self, half):
        super().__init__(half * 2)


class Own(Scale):
    def __init__(self, half):
        super().__init__(half * 2)
        self.half = half

    def get_config(self):
        return {**super().get_config(), "half": self.half}


class Net(tf.keras.Model):
    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.dense = tf.keras.layers.Dense(units)

    def call(self, x):
        return self.dense(x)


@pytest.mark.parametrize("made, expected", [
    (lambda: Scale(2, name="s"), {"name": "s", "trainable": True, "dtype": "float32", "factor": 2}),
    (lambda: Scale(2, "x", name="q"), {"name": "q", "trainable": True, "dtype": "float32", "factor": 2, "unit": "x"}),
    (lambda: Sizes(3, sizes=(2, [3])), {"factor": 3, "sizes": (2, [3])}),
    (lambda: Sizes(factor={"a": None}), {"factor": {"a": None}}),
    (lambda: Doubled(2), {"half": 2}),
    (lambda: Own(3).from_config({"half": 5}), None),
], ids=["defaults", "positional", "no-keywords", "nested", "subclass", "own"])
def test_the_config_has_the_arguments(made, expected):
    layer = made()
    assert layer.get_config() == expected or expected is None and layer.get_config()["half"] == 5


def test_arguments_that_are_no_plain_values_need_a_config():
    for value in (tf.nn.relu, np.ones(2), [tf.keras.layers.Dense(1)]):
        with pytest.raises(NotImplementedError, match="must override `get_config`"):
            Scale(value).get_config()


def test_the_config_is_a_copy():
    sizes = [1, 2]
    layer = Sizes(1, sizes=sizes)
    sizes.append(3)
    assert layer.get_config()["sizes"] == [1, 2]


@pytest.mark.parametrize("suffix", ["m.keras", "m.h5"])
def test_files_keep_the_arguments(tmp_path, suffix):
    tf.keras.Sequential([tf.keras.Input((2,)), Scale(3)]).save(tmp_path / suffix)
    loaded = tf.keras.models.load_model(tmp_path / suffix, custom_objects={"Scale": Scale})
    np.testing.assert_array_equal(loaded(tf.ones([1, 2])), [[3., 3.]])


def test_models_are_rebuilt_from_their_arguments(tmp_path):
    assert Net.from_config(Net(4).get_config()).dense.units == 4
    model = Net(2)
    rows = tf.random.stateless_normal([3, 2], seed=[1, 2])
    expected = model(rows)
    model.save(tmp_path / "net.keras")
    loaded = tf.keras.models.load_model(tmp_path / "net.keras", custom_objects={"Net": Net})
    np.testing.assert_allclose(loaded(rows), expected, rtol=1e-6)


def test_a_model_inside_of_a_cloned_one_is_copied():
    inputs = tf.keras.Input((2,))
    inner = Net(3)
    for model in (tf.keras.Sequential([inputs, inner]), tf.keras.Model(inputs, inner(inputs))):
        copy = tf.keras.models.clone_model(model)
        assert copy.layers[-1] is not inner and copy.layers[-1].dense.units == 3
