"""categorical_column_with_embedding: columns whose categories are keys of embedding variables."""
import numpy as np
import pytest

import penstock as tf
from penstock.compat import v1

fc = v1.feature_column
KEYS = {"string": ["a", "b", "a"], "int64": [-5, 2 ** 50, -5], "int32": [4, 5, 4]}


def _ids(dtype):
    return {"c": v1.SparseTensor([[0, 0], [0, 1], [2, 2]], tf.constant(KEYS[dtype], dtype), [4, 5])}


@pytest.mark.parametrize("parts", [None, 3])
@pytest.mark.parametrize("dtype", KEYS)
def test_input_layers_and_linear_models_train_keys(dtype, parts):
    with v1.Graph().as_default(), v1.Session() as sess:
        column = fc.categorical_column_with_embedding("c", dtype=tf.as_dtype(dtype), partition_num=parts)
        ids = _ids(dtype)
        dense = fc.input_layer(ids, [fc.embedding_column(column, 3, combiner="sum", initializer=v1.ones_initializer())])
        linear = fc.linear_model(ids, [column])
        train = v1.train.GradientDescentOptimizer(1.0).minimize(tf.reduce_sum(dense) + tf.reduce_sum(linear))
        sess.run(v1.global_variables_initializer())
        np.testing.assert_array_equal(sess.run(dense), [[2] * 3, [0] * 3, [1] * 3, [0] * 3])
        sess.run(train)
        found = sess.run(dense)
    np.testing.assert_array_equal(found, [[-1] * 3, [0] * 3, [-1] * 3, [0] * 3])      # the first key has two gradients


def test_weighted_and_sequence_columns():
    with v1.Graph().as_default(), v1.Session() as sess:
        column = fc.categorical_column_with_embedding("c", dtype=tf.int64)
        ids = {**_ids("int64"), "w": v1.SparseTensor([[0, 0], [0, 1], [2, 2]], [2.0, 3.0, 0.5], [4, 5])}
        weighted = fc.embedding_column(fc.weighted_categorical_column(column, "w"), 2, combiner="sum",
                                       initializer=v1.ones_initializer())
        out = fc.input_layer(ids, [weighted])
        sess.run(v1.global_variables_initializer())
        np.testing.assert_array_equal(sess.run(out), [[5] * 2, [0] * 2, [0.5] * 2, [0] * 2])


def test_a_keras_layer_of_columns_trains_keys():
    keys = fc.categorical_column_with_embedding("c", dtype=tf.int64)
    column = fc.embedding_column(keys, 2, initializer=v1.ones_initializer())
    layer = tf.keras.layers.DenseFeatures([column])
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer({"c": tf.constant([[5], [6], [5]], tf.int64)}))
    variables = layer.trainable_variables
    tf.keras.optimizers.SGD(1.0).apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
    np.testing.assert_array_equal(layer({"c": tf.constant([[5], [6]], tf.int64)}), [[-1, -1], [0, 0]])


def test_columns_share_the_vectors_of_keys():
    """Options count by their values: two columns without any, or with equal ones, have the same keys."""
    with v1.Graph().as_default(), v1.Session() as sess:
        a, b = (fc.categorical_column_with_embedding(n, dtype=tf.int64, ev_option=v1.EmbeddingVariableOption(
            filter_option=v1.CounterFilter(1))) for n in "ab")
        out = fc.input_layer({"a": tf.constant([[7]], tf.int64), "b": tf.constant([[8]], tf.int64)},
                             v1.feature_column.shared_embedding_columns([a, b], 1, initializer=v1.ones_initializer()))
        [table] = v1.trainable_variables()
        train = v1.train.GradientDescentOptimizer(1.0).minimize(out[:, 0])
        sess.run(v1.global_variables_initializer())
        sess.run(train)
        np.testing.assert_array_equal(sess.run(v1.nn.embedding_lookup(table, tf.constant([7, 8], tf.int64))), [[0], [1]])
    assert fc.categorical_column_with_embedding("a") == fc.categorical_column_with_embedding("a")
    other = v1.EmbeddingVariableOption(filter_option=v1.CounterFilter(2))
    with pytest.raises(ValueError, match="same number of buckets"):
        v1.feature_column.shared_embedding_columns([a, fc.categorical_column_with_embedding("b", ev_option=other)], 1)


def test_filters_of_options_reach_the_table():
    option = v1.EmbeddingVariableOption(filter_option=v1.CounterFilter(filter_freq=3),
                                        init_option=v1.InitializerOption(default_value_no_permission=9.0))
    with v1.Graph().as_default(), v1.Session() as sess:
        column = fc.categorical_column_with_embedding("c", dtype=tf.int64, ev_option=option)
        out = fc.input_layer({"c": tf.constant([[7]], tf.int64)},
                             [fc.embedding_column(column, 1, initializer=v1.ones_initializer())])
        sess.run(v1.global_variables_initializer())
        assert [sess.run(out).item() for _ in range(4)] == [9.0, 9.0, 1.0, 1.0]
