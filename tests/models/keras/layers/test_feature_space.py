"""FeatureSpace: sizes and values of encoded columns, crosses, single examples, models."""
from __future__ import annotations

import numpy as np
import pytest

import penstock as tf

keras = tf.keras
Space = keras.utils.FeatureSpace
DATA = {"age": np.array([20., 30., 40., 50.], "float32"), "city": np.array(["a", "b", "a", "c"]),
        "kind": np.array([1, 2, 2, 2]), "size": np.array([0., 1., 2., 3.], "float32")}
ROWS = tf.data.Dataset.from_tensor_slices(DATA)


def test_columns_are_encoded_and_concatenated():
    space = Space({"age": "float_normalized", "city": "string_categorical",
                   "kind": Space.integer_categorical(num_oov_indices=0), "size": Space.float_rescaled(scale=2., offset=1.)},
                  crosses=[("city", "kind")], crossing_dim=5)
    with pytest.raises(ValueError, match="You need to call `.adapt"):
        space(DATA)
    space.adapt(ROWS.batch(2))
    found = space(DATA).numpy()
    assert found.shape == (4, 1 + 4 + 2 + 1 + 5)
    np.testing.assert_allclose(found[:, 0], (DATA["age"] - 35) / np.sqrt(125), rtol=1e-5)
    np.testing.assert_array_equal(found[:, 1:5], np.eye(4)[[1, 2 if found[1, 2] else 3, 1, 3 if found[1, 2] else 2]])
    np.testing.assert_array_equal(found[:, 5:7].sum(1), np.ones(4))
    np.testing.assert_allclose(found[:, 7], DATA["size"] * 2 + 1, rtol=1e-6)
    np.testing.assert_array_equal(found[:, 8:].sum(1), np.ones(4))
    np.testing.assert_allclose(space({k: v[1] for k, v in DATA.items()}), found[1], rtol=1e-6)     # a single example
    model = keras.Model(space.get_inputs(), keras.layers.Dense(1)(space.get_encoded_features()))
    assert model.predict({k: v[:, None] for k, v in DATA.items()}, verbose=0).shape == (4, 1)
    trained = keras.Model(space.get_encoded_features(), model.outputs)
    whole = model({k: tf.constant(v)[:, None] for k, v in DATA.items()})
    np.testing.assert_allclose(trained(found), whole, rtol=1e-5, atol=1e-6)


def test_columns_by_name():
    space = Space({"age": Space.float_discretized(3, bin_boundaries=[25., 45.]), "city": Space.string_hashed(7, "int"),
                   "kind": "integer_hashed", "size": "float"}, output_mode="dict", hashing_dim=6)
    found = next(iter(ROWS.map(space).batch(4)))
    assert {k: tuple(v.shape) for k, v in found.items()} == {"age": (4, 3), "city": (4, 1), "kind": (4, 6), "size": (4, 1)}
    np.testing.assert_array_equal(found["age"], np.eye(3)[[0, 1, 1, 2]])


def test_mistakes():
    with pytest.raises(ValueError, match="cannot be None or empty"):
        Space({})
    with pytest.raises(ValueError, match="Invalid feature type: nothing"):
        Space({"a": "nothing"})
    with pytest.raises(ValueError, match="Received unknown features"):
        Space({"a": "float"}, crosses=[("a", "b")])
    with pytest.raises(ValueError, match="Cannot concatenate features because feature 'a' has not been encoded"):
        Space({"a": Space.string_hashed(3, "int"), "b": "float"})({"a": ["x"], "b": [1.]})
    with pytest.raises(ValueError, match="can only be called on a tf.data.Dataset"):
        Space({"a": "float"}).adapt({"a": [1.]})
    with pytest.raises(ValueError, match="can only be called with a dict"):
        Space({"a": "float"})([1.])
