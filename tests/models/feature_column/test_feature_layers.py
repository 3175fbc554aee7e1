"""DenseFeatures and SequenceFeatures: their numbers, names, errors and configurations."""
import json

import numpy as np
import pytest

import penstock as tf2
import penstock.compat.v1 as tf

fc = tf.feature_column


def doubled(x):
    return 2.0 * x


def columns():
    words = fc.categorical_column_with_vocabulary_list("word", ["a", "b", "c"])
    size = fc.numeric_column("size", normalizer_fn=doubled)
    return [size, fc.bucketized_column(fc.numeric_column("age"), [10, 20]), fc.indicator_column(words),
            fc.embedding_column(fc.crossed_column([words, "other"], 7), 2),
            fc.indicator_column(fc.weighted_categorical_column(fc.categorical_column_with_identity("day", 3), "weight"))]


FEATURES = {"size": [[1.], [2.]], "age": [[5.], [25.]], "word": [["b"], ["z"]], "other": [["x"], ["y"]],
            "day": [[0], [2]], "weight": [[0.5], [4.0]]}


def test_a_layer_and_its_configuration_give_the_same_numbers():
    layer = tf2.keras.layers.DenseFeatures(columns())
    out = layer({k: tf2.constant(v) for k, v in FEATURES.items()}).numpy()
    by_name = dict(zip([c.name for c in layer._feature_columns], np.split(out, [3, 6, 8, 9], 1), strict=False))
    assert by_name["age_bucketized"].tolist() == [[1, 0, 0], [0, 0, 1]]
    assert out[:, -1].tolist() in ([0.0, 0.0], [0.0, 1.0])                  # of the words: neither is "c"
    config = json.loads(json.dumps(layer.get_config()))
    again = tf2.keras.layers.DenseFeatures.from_config(config, custom_objects={"doubled": doubled})
    assert [c for c in again._feature_columns if "embedding" not in c.name] == \
        [c for c in layer._feature_columns if "embedding" not in c.name]
    again({k: tf2.constant(v) for k, v in FEATURES.items()})
    again.set_weights(layer.get_weights())
    np.testing.assert_array_equal(again({k: tf2.constant(v) for k, v in FEATURES.items()}).numpy(), out)


@pytest.mark.parametrize("change, error", [({"class_name": "Nothing"}, "Unknown feature_column"),
                                           ({"config": {"key": "x"}}, "Invalid config.*expected keys.*dtype")])
def test_a_wrong_configuration(change, error):
    config = tf2.keras.layers.DenseFeatures([fc.numeric_column("x")]).get_config()
    config["feature_columns"][0].update(change)
    with pytest.raises(ValueError, match=error):
        tf2.keras.layers.DenseFeatures.from_config(config)


def test_layers_share_a_table():
    a, b = (fc.categorical_column_with_identity(k, 3) for k in "ab")
    shared = tf2.feature_column.shared_embeddings([a, b], 2)
    one, two = tf2.keras.layers.DenseFeatures(shared), tf2.keras.layers.DenseFeatures(shared[:1])
    x = {"a": tf2.constant([[1]]), "b": tf2.constant([[1]])}
    both, first = one(x).numpy(), two(x).numpy()
    assert len(one.weights) == 1 and one.weights[0] is two.weights[0]
    assert (both[:, :2] == first).all() and (both[:, 2:] == first).all()
    again = tf2.keras.layers.DenseFeatures.from_config(one.get_config())
    assert (again(x).numpy()[:, :2] == again(x).numpy()[:, 2:]).all() and len(again.weights) == 1


def test_names_of_weights_in_a_graph():
    with tf.Graph().as_default():
        column = fc.embedding_column(fc.categorical_column_with_identity("a", 3), 2)
        for _ in range(2):
            tf.keras.layers.DenseFeatures([column])({"a": tf.constant([[0]])})
        assert [v.name for v in tf.global_variables()] == [
            "dense_features/a_embedding/embedding_weights:0", "dense_features_1/a_embedding/embedding_weights:0"]


def test_a_model_with_columns_is_saved_and_loaded(tmp_path):
    inputs = {"x": tf2.keras.Input((1,), name="x"), "day": tf2.keras.Input((1,), name="day", dtype="int64")}
    day = fc.embedding_column(fc.categorical_column_with_identity("day", 7), 3)
    hidden = tf2.keras.layers.DenseFeatures([fc.numeric_column("x"), day])(inputs)
    model = tf2.keras.Model(inputs, tf2.keras.layers.Dense(1)(hidden))
    model.compile("adam", "mse")
    data = {"x": np.arange(8.)[:, None].astype("float32"), "day": (np.arange(8) % 7)[:, None]}
    before = model.get_weights()
    model.fit(data, np.ones((8, 1), "float32"), verbose=0)
    assert all((a != b).any() for a, b in zip(before, model.get_weights(), strict=True))
    model.save(str(tmp_path / "model.h5"))
    again = tf2.keras.models.load_model(str(tmp_path / "model.h5"))
    np.testing.assert_allclose(again.predict(data), model.predict(data), rtol=1e-6, atol=1e-6)


def test_sequences():
    words = fc.sequence_categorical_column_with_identity("w", 3)
    layer = tf2.keras.experimental.SequenceFeatures([fc.indicator_column(words), fc.sequence_numeric_column("x")])
    w = tf2.SparseTensor([[0, 0], [1, 0], [1, 1]], [2, 0, 1], [2, 2])
    x = tf2.SparseTensor([[0, 0], [1, 0], [1, 1]], [1., 2., 3.], [2, 2])
    out, steps = layer({"w": w, "x": x})
    assert steps.numpy().tolist() == [1, 2]
    np.testing.assert_array_equal(out.numpy(), [[[0, 0, 1, 1], [0, 0, 0, 0]], [[1, 0, 0, 2], [0, 1, 0, 3]]])
    longer = tf2.SparseTensor([[0, 0], [0, 1], [1, 0]], [1., 2., 3.], [2, 2])
    with pytest.raises(tf.errors.InvalidArgumentError):
        layer({"w": w, "x": longer})
    with pytest.raises(ValueError, match="must not be of type SequenceCategoricalColumn"):
        tf2.keras.layers.DenseFeatures([fc.indicator_column(words)])({"w": w})
    plain = fc.indicator_column(fc.categorical_column_with_identity("w", 3))
    with pytest.raises(ValueError, match="to use SequenceFeatures"):
        tf2.keras.experimental.SequenceFeatures([plain])({"w": w})


def test_features_of_unknown_rank():
    with tf.Graph().as_default():
        x, words = tf.placeholder(tf.float32), tf.sparse_placeholder(tf.int64)
        out = fc.input_layer({"x": x, "w": words},
                             [fc.numeric_column("x"), fc.indicator_column(fc.categorical_column_with_identity("w", 2))])
        with tf.Session() as sess:
            fed = tf.SparseTensorValue([[0], [1]], [1, 0], [2])
            assert sess.run(out, {x: [3., 4.], words: fed}).tolist() == [[0, 1, 3], [1, 0, 4]]
            with pytest.raises(tf.errors.InvalidArgumentError, match="cannot have rank 0"):
                sess.run(out, {x: 3., words: fed})


def test_columns_with_different_numbers_of_rows():
    with pytest.raises(ValueError, match="Batch size .first dimension. of each feature must be same.*x, y.*3, 2"):
        tf2.keras.layers.DenseFeatures([fc.numeric_column("x"), fc.numeric_column("y")])(
            {"x": tf2.constant([[1.], [2.], [3.]]), "y": tf2.constant([[1.], [2.]])})


def test_a_sequential_model_that_begins_with_columns_is_saved_as_a_saved_model(tmp_path):
    model = tf2.keras.Sequential([tf2.keras.layers.DenseFeatures([fc.numeric_column("x")]), tf2.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    data = {"x": np.arange(8, dtype=np.float32)[:, None]}
    model.fit(data, np.ones((8, 1), np.float32), verbose=0)
    model.save(str(tmp_path / "model"))
    loaded = tf2.saved_model.load(str(tmp_path / "model"))
    out = loaded.signatures["serving_default"](x=tf2.constant(data["x"]))
    np.testing.assert_allclose(next(iter(out.values())).numpy(), model.predict(data), rtol=1e-6, atol=1e-6)


def test_models_of_vocabularies_are_saved_and_loaded(tmp_path):
    words = tf2.feature_column.categorical_column_with_vocabulary_list("w", ["a", "b", "c"])
    others = tf2.feature_column.categorical_column_with_vocabulary_list("w", ["c", "b"])
    model = tf2.keras.Sequential([tf2.keras.layers.DenseFeatures([tf2.feature_column.embedding_column(words, 4),
                                                                 tf2.feature_column.indicator_column(others)]),
                                  tf2.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    features = {"w": np.array([["a"], ["b"], ["c"]])}
    model.fit(features, np.ones((3, 1)), epochs=2, verbose=0)
    expected = model.predict(features)
    model.save(str(tmp_path / "m"), save_format="tf")
    again = tf2.keras.models.load_model(str(tmp_path / "m"))
    np.testing.assert_allclose(again.predict(features), expected, rtol=1e-6, atol=1e-6)
    loaded = tf2.saved_model.load(str(tmp_path / "m"))
    assert len(loaded.variables) == 3


def test_layers_of_columns_from_a_configuration():
    for layer in (tf2.keras.layers.DenseFeatures([tf2.feature_column.numeric_column("x")]),
                  tf2.keras.experimental.SequenceFeatures([tf2.feature_column.sequence_numeric_column("x")])):
        made = tf2.keras.layers.deserialize(tf2.keras.layers.serialize(layer))
        assert type(made) is type(layer) and made._feature_columns == layer._feature_columns


class Manager(tf2.__internal__.feature_column.StateManager):
    """How a layer of another library makes the variables of columns."""


class Borrowing(tf2.keras.layers.Layer):
    """Takes columns by the protocol that TensorFlow's columns have."""

    def __init__(self, columns):
        super().__init__()
        self._columns, self._manager = columns, Manager(self, True)

    def build(self, _):
        for column in self._columns:
            column.create_state(self._manager)

    def call(self, features):
        cache = tf2.__internal__.feature_column.FeatureTransformationCache(features)
        made = [column.get_dense_tensor(cache, self._manager) for column in self._columns]
        return tf2.concat([tf2.reshape(m, [2, -1]) for m in made], 1)


def test_layers_of_other_libraries_get_the_same_numbers():
    chosen = sorted(columns(), key=lambda c: c.name)
    shared = tf2.feature_column.shared_embeddings([fc.categorical_column_with_identity("day", 3)], 2)
    features = {key: tf2.constant(value) for key, value in FEATURES.items()}
    ours, other = tf2.keras.layers.DenseFeatures(chosen), Borrowing(chosen)
    want, _ = ours(features), other(features)
    other.set_weights(ours.get_weights())
    np.testing.assert_array_equal(tf2.function(other)(features), want)
    assert len(other._column_tables) == 1
    layer = Borrowing(shared)
    assert layer(features).shape == (2, 2) and layer._manager.has_resource(shared[0], "embedding_weights")
