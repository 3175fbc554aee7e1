"""Subclassed models in SavedModels: their classes are found by the names that they are registered under."""
import numpy as np
import pytest

import penstock as tf
from penstock._src.models.keras.saving import saved_model


@tf.keras.utils.register_keras_serializable("tests")
class Counted(tf.keras.Model):
    """A model whose `build` cannot know its inputs: integers, and a weight for each."""

    def __init__(self, size=4, **kwargs):
        super().__init__(**kwargs)
        self.size, self.embedding = size, tf.keras.layers.Embedding(10, size)

    def call(self, inputs, weights=None, training=False):
        rows = self.embedding(inputs)
        return rows if weights is None else rows * weights[..., None]

    def get_config(self):
        return {"size": self.size}


@pytest.mark.parametrize("weighted", [False, True])
def test_registered_models_are_loaded_as_their_class(tmp_path, weighted):
    model, x = Counted(3), tf.constant([[1, 2], [3, 4]])
    options = {"weights": tf.constant([[1.0, 2.0], [3.0, 4.0]])} if weighted else {}
    expected = model(x, **options)
    model.save(tmp_path / "model", save_format="tf")
    loaded = tf.keras.models.load_model(tmp_path / "model")
    assert type(loaded) is Counted and loaded.size == 3
    np.testing.assert_array_equal(loaded(x, **options), expected)


def test_class_that_tf_keras_registered_is_found_by_its_registered_name(tmp_path):
    """tf_keras writes the plain name of a class beside the config, and the registered one elsewhere; and TypeSpecs."""
    model = Counted(5)
    model(tf.constant([[1, 2]]))
    model.save(tmp_path / "model", save_format="tf")
    found = saved_model._stored_metadata(str(tmp_path / "model"))
    assert (found["class_name"], found["model_config"]["class_name"]) == ("tests>Counted", "Counted")
    assert found["full_save_spec"][0] == [tf.TensorSpec([1, 2], tf.int32, "input_1")]


def test_model_whose_call_cannot_be_traced_runs_its_saved_functions(tmp_path):
    class Picky(Counted):
        traceable = True

        def call(self, inputs, training=False):
            if not self.traceable:
                raise ValueError("not now")
            return self.embedding(inputs)
    model, x = Picky(2), tf.constant([[1, 2]])
    expected = model(x)
    model.save(tmp_path / "model", save_format="tf")
    Picky.traceable = False
    loaded = tf.keras.models.load_model(tmp_path / "model", custom_objects={"Picky": Picky, "Custom>Picky": Picky})
    assert not isinstance(loaded, Picky)
    np.testing.assert_array_equal(loaded(x), expected)


def test_a_class_that_is_registered_again_is_the_newest_one():
    def made(factor):
        @tf.keras.utils.register_keras_serializable("again")
        class Scaled(tf.keras.layers.Layer):
            def call(self, x):
                return x * factor
        return Scaled
    first, second = made(2.), made(3.)
    config = tf.keras.layers.serialize(first(name="s"))
    assert type(tf.keras.layers.deserialize(config)) is second
    assert tf.keras.utils.get_registered_object("again>Scaled") is second
    assert tf.keras.utils.get_registered_name(first) == "again>Scaled"
