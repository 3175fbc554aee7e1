"""Estimators under strategies: RunConfig(train_distribute=…, eval_distribute=…) against one device."""
import numpy as np
import pytest

import penstock.compat.v1 as tf

CPUS = ["/cpu:0", "/cpu:1"]


def rows(n=64):
    random = np.random.RandomState(0)
    x = random.rand(n, 3).astype(np.float32)
    return x, (x @ [[1.0], [2.0], [-1.0]]).astype(np.float32)


def model_fn(features, labels, mode):
    out = tf.layers.dense(features, 1, kernel_initializer=tf.ones_initializer(), name="dense")
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"y": out})
    loss = tf.losses.mean_squared_error(labels, out)
    metrics = {"mae": tf.metrics.mean_absolute_error(labels, out)}
    if mode == tf.estimator.ModeKeys.EVAL:
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
    train = tf.train.AdamOptimizer(0.05).minimize(loss, global_step=tf.train.get_or_create_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)


def run(folder, batch, train=None, evaluate=None):
    config = tf.estimator.RunConfig(model_dir=str(folder), train_distribute=train, eval_distribute=evaluate,
                                    save_summary_steps=None)
    estimator = tf.estimator.Estimator(model_fn, config=config)

    def input_fn():
        return tf.data.Dataset.from_tensor_slices(rows()).batch(batch, drop_remainder=True).repeat(4)
    estimator.train(input_fn)
    found = estimator.evaluate(lambda: tf.data.Dataset.from_tensor_slices(rows(41)).batch(4))
    predicted = [p["y"] for p in estimator.predict(lambda: tf.data.Dataset.from_tensors(rows()[0]))]
    return found, estimator.get_variable_value("dense/kernel"), np.array(predicted), estimator.get_variable_names()


@pytest.mark.parametrize("name", ["mirrored", pytest.param("central", marks=pytest.mark.slow),
                                  pytest.param("one_device", marks=pytest.mark.slow)])
def test_as_one_device(name, tmp_path):
    """Batches are those of replicas: two replicas with 4 rows each take the steps of one with 8."""
    make = {"mirrored": lambda: tf.distribute.MirroredStrategy(CPUS),
            "central": lambda: tf.distribute.experimental.CentralStorageStrategy(CPUS),
            "one_device": lambda: tf.distribute.OneDeviceStrategy("/cpu:1")}[name]
    alone = run(tmp_path / "alone", 8)
    together = run(tmp_path / "together", 8 // make().num_replicas_in_sync, make(), make())
    assert together[0]["global_step"] == alone[0]["global_step"] == 32
    assert together[3] == alone[3]                                     # copies are saved as one variable
    np.testing.assert_allclose(together[1], alone[1], rtol=1e-4)
    np.testing.assert_allclose(together[2], alone[2], rtol=1e-4)
    np.testing.assert_allclose(together[0]["mae"], alone[0]["mae"], rtol=1e-4)


def test_continues_under_another_strategy(tmp_path):
    strategy = tf.distribute.MirroredStrategy(CPUS)
    run(tmp_path, 4, strategy, None)
    found = run(tmp_path, 8, None, strategy)
    assert found[0]["global_step"] == 64


def test_canned(tmp_path):
    """A premade estimator, whose model function is not ours."""
    config = tf.estimator.RunConfig(model_dir=str(tmp_path), train_distribute=tf.distribute.MirroredStrategy(CPUS),
                                    eval_distribute=tf.distribute.MirroredStrategy(CPUS))
    estimator = tf.estimator.LinearRegressor([tf.feature_column.numeric_column("x", [3])], config=config,
                                             optimizer=lambda: tf.train.FtrlOptimizer(0.5))

    def input_fn():
        x, y = rows()
        return tf.data.Dataset.from_tensor_slices(({"x": x}, y)).batch(16, drop_remainder=True).repeat(40)
    before = estimator.train(input_fn, steps=1).evaluate(input_fn, steps=1)["average_loss"]
    assert estimator.train(input_fn).evaluate(input_fn, steps=1)["average_loss"] < before / 2


def test_input_must_be_a_dataset(tmp_path):
    config = tf.estimator.RunConfig(model_dir=str(tmp_path), train_distribute=tf.distribute.MirroredStrategy(CPUS))
    with pytest.raises(ValueError, match="input_fn must return a tf.data.Dataset"):
        tf.estimator.Estimator(model_fn, config=config).train(lambda: (tf.ones([4, 3]), tf.ones([4, 1])), steps=1)
