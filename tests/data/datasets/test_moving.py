"""Datasets that were created in another graph."""
import numpy as np
import pytest

import penstock.compat.v1 as tf


@pytest.fixture(autouse=True)
def graphs():
    with tf.Graph().as_default():
        yield


def values(dataset, size=10):
    get = tf.data.make_one_shot_iterator(dataset).get_next()
    with tf.Session() as sess:
        return [sess.run(get) for _ in range(size)]


def test_a_dataset_is_used_in_another_graph():
    scale = 3
    outside = tf.data.Dataset.from_tensor_slices(np.arange(6)).map(lambda x: x * scale).filter(lambda x: x > 2)
    for _ in range(2):
        with tf.Graph().as_default() as inside:
            assert values(outside.batch(2), 2)[1].tolist() == [9, 12]
            made = tf.data.make_initializable_iterator(outside.shuffle(10).batch(5))
            with tf.Session(graph=inside) as sess:
                sess.run(made.initializer)
                assert sorted(sess.run(made.get_next())) == [3, 6, 9, 12, 15]
    assert values(outside, 1) == [3]                          # where it was created, it is as it was
    with tf.Graph().as_default() as inside:
        names = len(inside.get_operations())
        outside.batch(1)
        once = len(inside.get_operations()) - names
        outside.batch(1)
        assert len(inside.get_operations()) - names < 2 * once           # the copy is created once


def test_an_estimator_takes_it():
    rows = tf.data.Dataset.from_tensor_slices(({"x": np.arange(8.0, dtype=np.float32)}, np.arange(8.0, dtype=np.float32)))
    model = tf.estimator.LinearRegressor([tf.feature_column.numeric_column("x")])
    model.train(lambda: rows.shuffle(8).repeat().batch(4), steps=20)
    assert model.evaluate(lambda: rows.batch(8))["global_step"] == 20


def test_state_is_not_copied():
    limit = tf.placeholder(tf.int64, [])
    outside = tf.data.Dataset.range(limit)
    with tf.Graph().as_default(), pytest.raises(ValueError, match="same graph"):
        outside.batch(2)
