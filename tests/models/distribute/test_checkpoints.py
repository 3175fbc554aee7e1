"""Checkpoints: what any strategy writes, any other one reads, since the copies of a variable are saved as one."""
import contextlib
import itertools

import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as tf1

STRATEGIES = {
    "none": lambda: None,
    "one_device": lambda: tf.distribute.OneDeviceStrategy("/cpu:1"),
    "mirrored": lambda: tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"]),
    "mirrored_3": lambda: tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1", "/cpu:2"]),
    "central": lambda: tf.distribute.experimental.CentralStorageStrategy(["/cpu:0", "/cpu:1"]),
}
QUICK = [("mirrored", "none"), ("none", "mirrored"), ("central", "mirrored_3")]
PAIRS = [p if p in QUICK else pytest.param(*p, marks=pytest.mark.slow) for p in itertools.permutations(STRATEGIES, 2)]


def scope(strategy):
    return strategy.scope() if strategy is not None else contextlib.nullcontext()


def model(name):
    strategy = STRATEGIES[name]()
    with scope(strategy):
        made = tf.keras.Sequential([tf.keras.layers.Dense(3, input_shape=(4,)),
                                    tf.keras.layers.BatchNormalization(synchronized=True)])
        made.compile(tf.keras.optimizers.Adam(0.1), "mse", metrics=["mae"])
    return made


@pytest.fixture
def data():
    random = np.random.RandomState(0)
    return random.rand(12, 4).astype(np.float32), random.rand(12, 3).astype(np.float32)


@pytest.mark.parametrize("writer, reader", PAIRS)
def test_objects(writer, reader, data, tmp_path):
    """tf.train.Checkpoint with an optimizer: training continues as if nothing had happened."""
    first = model(writer)
    first.fit(*data, epochs=2, batch_size=12, verbose=0)
    path = tf.train.Checkpoint(model=first, optimizer=first.optimizer).save(str(tmp_path / "c"))
    second = model(reader)
    status = tf.train.Checkpoint(model=second, optimizer=second.optimizer).restore(path)
    for a, b in zip(first.get_weights(), second.get_weights(), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-6)
    second.fit(*data, epochs=1, batch_size=12, verbose=0)
    status.assert_existing_objects_matched()
    assert int(second.optimizer.iterations) == 3
    for v in second.trainable_variables:
        slot = second.optimizer.get_slot(v, "m")
        for copy in getattr(slot, "values", (slot,)):
            assert np.abs(copy.numpy()).max() > 0


@pytest.mark.parametrize("writer, reader", PAIRS)
def test_savers(writer, reader, tmp_path):
    """tf.train.Saver in graphs."""
    def build(name, value):
        with tf1.Graph().as_default() as graph, scope(STRATEGIES[name]()):
            v = tf1.get_variable("v", initializer=tf1.constant(value))
            count = tf1.get_variable("count", [], initializer=tf1.zeros_initializer(), trainable=False,
                                     synchronization=tf1.VariableSynchronization.ON_READ,
                                     aggregation=tf1.VariableAggregation.SUM)
            return graph, v, count, count.assign(6.0), tf1.train.Saver(), tf1.global_variables_initializer()
    path = str(tmp_path / "c")
    graph, v, count, assign, saver, init = build(writer, [1.0, 2.0])
    with tf1.Session(graph=graph) as sess:
        sess.run(init)
        sess.run(getattr(assign, "values", assign))
        saver.save(sess, path)
    assert sorted(n for n, _ in tf1.train.list_variables(path)) == ["count", "v"]
    graph, v, count, _, saver, _ = build(reader, [0.0, 0.0])
    with tf1.Session(graph=graph) as sess:
        saver.restore(sess, path)
        for copy in getattr(v, "values", (v,)):
            np.testing.assert_allclose(sess.run(copy), [1.0, 2.0], rtol=1e-6)
        np.testing.assert_allclose(sess.run(count), 6.0, rtol=1e-6)


@pytest.mark.parametrize("writer, reader", [("mirrored", "none"), ("none", "mirrored")])
@pytest.mark.parametrize("kind", ["h5", pytest.param("tf", marks=pytest.mark.slow)])
def test_weights_and_models(writer, reader, kind, data, tmp_path):
    first, second = model(writer), model(reader)
    first.fit(*data, epochs=1, batch_size=12, verbose=0)
    path = str(tmp_path / ("w.h5" if kind == "h5" else "w"))
    first.save_weights(path)
    second.load_weights(path)
    np.testing.assert_allclose(second.predict(data[0]), first.predict(data[0]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("writer, reader", [("mirrored", "none"), ("none", "mirrored"),
                                            pytest.param("mirrored", "mirrored_3", marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", [pytest.param("h5", marks=pytest.mark.slow), "saved_model"])
def test_saved_models(writer, reader, kind, data, tmp_path):
    first = model(writer)
    first.fit(*data, epochs=1, batch_size=12, verbose=0)
    path = str(tmp_path / ("m.h5" if kind == "h5" else "m"))
    first.save(path)
    with scope(STRATEGIES[reader]()):
        second = tf.keras.models.load_model(path)
    np.testing.assert_allclose(second.predict(data[0]), first.predict(data[0]), rtol=1e-5, atol=1e-6)
    if reader != "none":
        assert all(len(v.values) == STRATEGIES[reader]().num_replicas_in_sync for v in second.variables)
