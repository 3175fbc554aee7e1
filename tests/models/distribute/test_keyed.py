"""Embedding variables under strategies: replicas share one table, and each update happens once."""
import numpy as np

import penstock as tf


def test_replicas_share_a_table(mirrored):
    """As one replica that has the whole batch, by gradient descent."""
    rng = np.random.default_rng(0)
    keys, labels = rng.integers(-4, 5, (32, 2)), rng.normal(size=(32, 1)).astype(np.float32)
    start = tf.keras.initializers.Constant(0.5)

    class Model(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.rows, self.out = tf.dynamic_embedding.keras.layers.Embedding(3, initializer=start), tf.keras.layers.Dense(
                1, kernel_initializer="ones")

        def call(self, keys):
            return self.out(tf.reduce_sum(self.rows(keys), 1))
    with mirrored.scope():
        model = Model()
        model.compile(tf.keras.optimizers.SGD(0.05), "mse")
    model.fit(tf.data.Dataset.from_tensor_slices((keys, labels)).batch(8), epochs=2, verbose=0)
    table, weights, bias = np.full((9, 3), 0.5), np.ones((3, 1)), 0.0
    for at in [*range(0, 32, 8)] * 2:
        some = keys[at:at + 8] + 4
        x = table[some].sum(1)
        grad = 2 * (x @ weights + bias - labels[at:at + 8]) / 8
        np.add.at(table, some, (-0.05 * grad @ weights.T)[:, None])
        weights, bias = weights - 0.05 * x.T @ grad, bias - 0.05 * grad.sum()
    np.testing.assert_allclose(model.rows.params.lookup(np.arange(-4, 5)), table, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(model.predict(keys, verbose=0), table[keys + 4].sum(1) @ weights + bias, rtol=1e-4, atol=1e-5)
