"""Feature columns: the numbers that each kind returns, against numpy, and the errors."""
import numpy as np
import pytest

import penstock as tf2
import penstock.compat.v1 as tf

fc = tf.feature_column


def run(make):
    with tf.Graph().as_default(), tf.Session() as sess:
        out = make()
        sess.run([tf.global_variables_initializer(), tf.tables_initializer()])
        return sess.run(out)


def layer(features, columns):
    return run(lambda: fc.input_layer({k: tf.constant(v) if not callable(v) else v() for k, v in features.items()}, columns))


def test_numbers_and_buckets():
    x = fc.numeric_column("x", 2, normalizer_fn=lambda v: v * 2)
    age = fc.numeric_column("age")
    found = layer({"x": [[1., 2.], [3., 4.]], "age": [17, 30]}, [x, fc.bucketized_column(age, [18, 25])])
    np.testing.assert_array_equal(found, [[1, 0, 0, 2, 4], [0, 0, 1, 6, 8]])


def test_categories_as_indicators():
    words = fc.categorical_column_with_vocabulary_list("w", ["a", "b", "c"], num_oov_buckets=1)
    days = fc.categorical_column_with_identity("d", 3, default_value=0)
    found = layer({"w": [["a", "a"], ["c", ""], ["q", "b"]], "d": [2, 7, 1]},
                  [fc.indicator_column(words), fc.indicator_column(days)])
    np.testing.assert_array_equal(found[:, :3], [[0, 0, 1], [1, 0, 0], [0, 1, 0]])
    np.testing.assert_array_equal(found[:, 3:], [[2, 0, 0, 0], [0, 0, 1, 0], [0, 1, 0, 1]])


def test_a_vocabulary_file(tmp_path):
    (tmp_path / "words").write_text("x\ny\nz\n")
    column = fc.categorical_column_with_vocabulary_file("w", str(tmp_path / "words"))
    assert column.num_buckets == 3
    found = layer({"w": ["z", "x", "?"]}, [fc.indicator_column(column)])
    np.testing.assert_array_equal(found, [[0, 0, 1], [1, 0, 0], [0, 0, 0]])


def test_hashes_and_crosses_are_those_of_the_ops():
    hashed = fc.categorical_column_with_hash_bucket("w", 10)
    found = layer({"w": ["a", "b"]}, [fc.indicator_column(hashed)])
    np.testing.assert_array_equal(found.argmax(1), run(lambda: tf.strings.to_hash_bucket_fast(["a", "b"], 10)))
    crossed = fc.crossed_column(["w", "v"], 7)
    assert crossed.name == "v_X_w" and crossed.num_buckets == 7
    found = layer({"w": ["a", "b"], "v": ["1", "2"]}, [fc.indicator_column(crossed)])
    want = run(lambda: tf.sparse.cross_hashed([tf.constant([["a"], ["b"]]), tf.constant([["1"], ["2"]])], 7).values)
    np.testing.assert_array_equal(found.argmax(1), want)
    assert found.sum() == 2
    buckets = fc.bucketized_column(fc.numeric_column("n"), [0., 1.])
    assert layer({"w": ["a"], "n": [0.5]}, [fc.indicator_column(fc.crossed_column(["w", buckets], 5))]).sum() == 1


def test_embeddings_are_means_of_their_rows():
    table = np.arange(12, dtype=np.float32).reshape(4, 3)
    column = fc.embedding_column(fc.categorical_column_with_identity("d", 4), 3,
                                 initializer=lambda *a, **k: tf.constant(table))
    found = layer({"d": [[0, 2], [3, -1]]}, [column])
    np.testing.assert_allclose(found, [(table[0] + table[2]) / 2, table[3]], rtol=1e-6)
    with tf.Graph().as_default():
        fc.input_layer({"d": tf.constant([[1]])}, [column])
        assert [v.name for v in tf.global_variables()] == ["input_layer/d_embedding/embedding_weights:0"]


def test_a_shared_table():
    a, b = (fc.categorical_column_with_identity(k, 4) for k in "ab")
    with tf.Graph().as_default(), tf.Session() as sess:
        out = fc.input_layer({"a": tf.constant([1, 2]), "b": tf.constant([1, 3])}, fc.shared_embedding_columns([a, b], 2))
        sess.run(tf.global_variables_initializer())
        found = sess.run(out)
        assert len(tf.global_variables()) == 1
    np.testing.assert_array_equal(found[0, :2], found[0, 2:])
    assert not np.array_equal(found[1, :2], found[1, 2:])


def test_weights_of_categories():
    column = fc.weighted_categorical_column(fc.categorical_column_with_identity("d", 3), "w")
    found = layer({"d": [[0, 1], [2, 2]], "w": [[0.5, 2.], [1., 3.]]}, [fc.indicator_column(column)])
    np.testing.assert_array_equal(found, [[0.5, 2, 0], [0, 0, 4]])


def test_a_linear_model_is_a_weighted_sum():
    x, d = fc.numeric_column("x", 2), fc.categorical_column_with_identity("d", 3)
    with tf.Graph().as_default(), tf.Session() as sess:
        kept = {}
        out = fc.linear_model({"x": tf.constant([[1., 2.], [3., 4.]]), "d": tf.constant([[0, 1], [2, -1]])}, [x, d],
                              cols_to_vars=kept)
        sess.run(tf.global_variables_initializer())
        np.testing.assert_array_equal(sess.run(out), np.zeros((2, 1)))
        sess.run([kept[x][0].assign([[10.], [1.]]), kept[d][0].assign([[100.], [200.], [300.]]), kept["bias"][0].assign([0.5])])
        np.testing.assert_allclose(sess.run(out), [[12 + 300 + 0.5], [34 + 300 + 0.5]], rtol=1e-6)
        assert sorted(v.op.name for v in tf.global_variables()) == [
            "linear_model/bias_weights", "linear_model/d/weights", "linear_model/x/weights"]


def test_columns_read_examples():
    columns = [fc.numeric_column("x", 2), fc.indicator_column(fc.categorical_column_with_vocabulary_list("w", ["a", "b"]))]
    spec = fc.make_parse_example_spec(columns)
    example = tf.train.Example()
    example.features.feature["x"].float_list.value.extend([1., 2.])
    example.features.feature["w"].bytes_list.value.extend([b"b"])
    found = run(lambda: fc.input_layer(tf.parse_example([example.SerializeToString()], spec), columns))
    np.testing.assert_array_equal(found, [[0, 1, 1, 2]])


def test_sequences():
    words = fc.sequence_categorical_column_with_identity("d", 3)
    number = fc.sequence_numeric_column("n")
    features = {"d": tf2.sparse.from_dense([[1, 2], [2, 0]]), "n": tf2.sparse.from_dense([[1., 2.], [3., 0.]])}
    with tf.Graph().as_default(), tf.Session() as sess:
        given = {"d": tf.SparseTensor([[0, 0], [0, 1], [1, 0]], tf.constant([1, 2, 2], tf.int64), [2, 2]),
                 "n": tf.SparseTensor([[0, 0], [0, 1], [1, 0]], [1., 2., 3.], [2, 2])}
        out, steps = tf.contrib.feature_column.sequence_input_layer(given, [fc.indicator_column(words), number])
        found, count = sess.run([out, steps])
    assert features and count.tolist() == [2, 1]
    np.testing.assert_array_equal(found, [[[0, 1, 0, 1], [0, 0, 1, 2]], [[0, 0, 1, 3], [0, 0, 0, 0]]])


def test_a_keras_layer_of_columns():
    table = np.arange(8, dtype=np.float32).reshape(4, 2)
    column = tf2.feature_column.embedding_column(tf2.feature_column.categorical_column_with_identity("d", 4), 2,
                                                 initializer=tf2.constant_initializer(table))
    made = tf2.keras.layers.DenseFeatures([column, tf2.feature_column.numeric_column("x")])
    out = made({"d": tf2.constant([[1], [3]]), "x": tf2.constant([[5.], [6.]])})
    np.testing.assert_array_equal(out, [[2, 3, 5], [6, 7, 6]])
    assert len(made.trainable_weights) == 1
    made({"d": tf2.constant([[0]]), "x": tf2.constant([[5.]])})
    assert len(made.trainable_weights) == 1


def test_what_is_wrong_is_said():
    with pytest.raises(ValueError, match="key must be a string"):
        fc.numeric_column(3)
    with pytest.raises(ValueError, match="sorted list"):
        fc.bucketized_column(fc.numeric_column("x"), [3, 1])
    with pytest.raises(ValueError, match="not supported for crossing"):
        fc.crossed_column(["a", fc.categorical_column_with_hash_bucket("b", 3)], 5)
    with pytest.raises(ValueError, match="embedding_column or indicator_column"):
        fc.input_layer({"a": tf.constant([1])}, [fc.categorical_column_with_identity("a", 3)])
    with pytest.raises(ValueError, match="not in features dictionary"):
        layer({"x": [1.]}, [fc.numeric_column("y")])
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be in"):
        layer({"d": [5]}, [fc.indicator_column(fc.categorical_column_with_identity("d", 3))])
    with pytest.raises(ValueError, match="Duplicate"):
        fc.categorical_column_with_vocabulary_list("w", ["a", "a"])


def test_what_is_refused():
    category = fc.categorical_column_with_hash_bucket("w", 4)
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="must be a _DenseColumn"):
            fc.input_layer({"w": [[0]]}, [category])
        with pytest.raises(ValueError, match="must be either a _DenseColumn or _CategoricalColumn"):
            fc.linear_model({"w": [[0]]}, ["w"])
    with pytest.raises(ValueError, match="boundaries must not be empty"):
        fc.bucketized_column(fc.numeric_column("x"), None)
    with pytest.raises(ValueError, match="vocabulary dtype must be string or integer"):
        fc.categorical_column_with_vocabulary_list("w", (1., 2.))
    column = fc.embedding_column(category, 2, combiner="none")
    with tf.Graph().as_default(), pytest.raises(ValueError, match="combiner"):
        fc.input_layer({"w": [["a"]]}, [column])


def test_weights_of_a_linear_model_come_before_those_of_its_columns():
    column = fc.embedding_column(fc.categorical_column_with_identity("i", 3), 2)
    variables = {}
    with tf.Graph().as_default():
        fc.linear_model({"i": [[0], [2]]}, [column], cols_to_vars=variables)
        assert [v.shape.as_list() for v in variables[column]] == [[2, 1], [3, 2]]


def test_columns_without_variables_need_no_state_manager():
    from penstock._src.models.feature_column.base import Batch
    column = tf.feature_column.sequence_numeric_column("a")
    values = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], [0., 1., 10.], [2, 2])
    made = column.get_sequence_dense_tensor(Batch({"a": values}), None)
    np.testing.assert_array_equal(made.dense_tensor, [[[0.], [1.]], [[10.], [0.]]])


@pytest.mark.parametrize("config", [{}, {"class_name": "NumericColumn"}, 3])
def test_an_improper_configuration_of_a_column_is_refused(config):
    with pytest.raises(ValueError, match="Improper config format"):
        tf2.__internal__.feature_column.deserialize_feature_column(config)


def records(path, values):
    with tf2.io.TFRecordWriter(str(path), tf2.io.TFRecordOptions("GZIP")) as writer:
        for value in values:
            writer.write(value)
    return str(path)


def indicators(column, values):
    with tf.Graph().as_default(), tf.Session() as sess:
        out = tf.feature_column.input_layer({"a": values}, [tf.feature_column.indicator_column(column)])
        sess.run(tf.tables_initializer())
        return sess.run(out).tolist()


def test_vocabularies_in_compressed_records(tmp_path):
    names, numbers = records(tmp_path / "names", [b"x", b"y", b"z"]), records(tmp_path / "numbers", [b"30", b"11"])
    make = tf2.feature_column.categorical_column_with_vocabulary_file
    for size, rows in ((None, [[0, 0, 1], [1, 0, 0], [0, 0, 0]]), (2, [[0, 0], [1, 0], [0, 0]])):
        assert indicators(make("a", names, size, file_format="tfrecord_gzip"), [["z"], ["x"], ["?"]]) == rows
    assert indicators(make("a", numbers, dtype=tf.int32, file_format="tfrecord_gzip"), [[11], [5]]) == [[0, 1], [0, 0]]
    assert make("a", names, 3, num_oov_buckets=2, file_format="tfrecord_gzip").num_buckets == 5
    with pytest.raises(tf.errors.FailedPreconditionError, match="expected to contain 4 elements"):
        indicators(make("a", names, 4, file_format="tfrecord_gzip"), [["z"]])
    with pytest.raises(ValueError, match="file_format should be"):
        make("a", names, file_format="zip")
    assert make("a", names, 3).get_config()["file_format"] is None


def test_columns_of_user_programs_have_the_public_methods():
    class Twice(tf2.__internal__.feature_column.DenseColumn):
        name, variable_shape, parse_example_spec, parents = "twice", tf2.TensorShape([1]), {}, ["a"]

        def transform_feature(self, transformation_cache, state_manager):
            return 2.0 * transformation_cache.get("a", state_manager)

        def get_dense_tensor(self, transformation_cache, state_manager):
            return transformation_cache.get(self, state_manager)

    with tf.Graph().as_default(), tf.Session() as sess:
        out = tf.feature_column.input_layer({"a": [[1.0], [3.0]]}, [Twice()])
        assert sess.run(out).tolist() == [[2.0], [6.0]]
