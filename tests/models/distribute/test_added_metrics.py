"""Metrics that models and layers add in `call`, on several replicas. Values recorded from tf_keras."""
import numpy as np
import pytest

import penstock as tf


class Model(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = tf.keras.layers.Dense(1, kernel_initializer="ones")

    def call(self, inputs):
        result = self.dense(inputs)
        self.add_metric(tf.reduce_sum(result), name="total", aggregation="mean")
        return result


@pytest.mark.parametrize("eager", [False, True])
def test_replicas_share_a_metric(mirrored, eager):
    with mirrored.scope():
        model = Model()
        model.compile("sgd", "mse", run_eagerly=eager)
    data = np.arange(8, dtype="float32").reshape(8, 1)
    logs = model.fit(data, np.ones((8, 1), "float32"), batch_size=4, epochs=2, verbose=0, shuffle=False).history
    np.testing.assert_allclose(logs["total"], [6.77, 3.0824], atol=1e-3)
    np.testing.assert_allclose(logs["loss"], [10.4424, 1.4431], atol=1e-3)
    assert [m.name for m in model.metrics] == ["loss", "total"]
