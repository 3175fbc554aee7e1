"""tf.contrib.tpu without a TPU: its estimator trains, evaluates and predicts with batch sizes from params."""
import numpy as np
import pytest

import penstock.compat.v1 as tf

X = np.linspace(-1, 1, 24, dtype=np.float32)[:, None]


def model_fn(features, labels, mode, params):
    y = tf.layers.dense(features, 1, use_bias=False, name="d")
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.contrib.tpu.TPUEstimatorSpec(mode, predictions={"y": y})
    loss = tf.losses.mean_squared_error(labels, y)
    optimizer = tf.contrib.tpu.CrossShardOptimizer(tf.train.GradientDescentOptimizer(params["rate"]))

    def metrics(labels, y):
        return {"mae": tf.metrics.mean_absolute_error(labels, y)}
    return tf.contrib.tpu.TPUEstimatorSpec(mode, loss=loss, train_op=optimizer.minimize(loss, tf.train.get_global_step()),
                                           eval_metrics=(metrics, [labels, y]))


def input_fn(params):
    size, many = params["batch_size"], params.get("many", True)
    data = tf.data.Dataset.from_tensor_slices((X, 2 * X))
    return (data.repeat() if many else data).batch(size, drop_remainder=many)


def test_training_without_a_tpu(tmp_path):
    config = tf.contrib.tpu.RunConfig(model_dir=str(tmp_path), save_checkpoints_steps=100,
                                      tpu_config=tf.contrib.tpu.TPUConfig(iterations_per_loop=10, num_shards=8))
    model = tf.contrib.tpu.TPUEstimator(model_fn, config=config, params={"rate": 0.5}, use_tpu=False, train_batch_size=8,
                                        eval_batch_size=6, predict_batch_size=4)
    result = model.train(input_fn, max_steps=60).evaluate(input_fn, steps=4)
    assert result["global_step"] == 60 and result["loss"] < 1e-3 and result["mae"] < 0.1
    first = next(model.predict(lambda params: input_fn({**params, "many": False}), yield_single_examples=False))
    assert first["y"].shape == (4, 1)


def test_a_tpu_is_refused():
    with pytest.raises(ValueError, match="use_tpu=False"):
        tf.contrib.tpu.TPUEstimator(model_fn)
    with pytest.raises(tf.errors.UnavailableError, match="TPUs are not supported"):
        tf.contrib.cluster_resolver.TPUClusterResolver("name")
