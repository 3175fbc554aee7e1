"""Random numbers of training after `set_random_seed`: rows, dropout and noise are those of tf_keras 2.21 (recorded)."""
from __future__ import annotations

import random

import numpy as np
import pytest

import penstock as tf

keras = tf.keras


class Steps(keras.Model):
    """A train_step that also draws random numbers."""

    def train_step(self, data):
        x, _ = data
        drawn, other = tf.random.uniform((2,)), tf.random.normal((tf.shape(x)[0], 2))
        return {"loss": _weighted(None, self(x, training=True)) + tf.reduce_sum(drawn), "other": tf.reduce_sum(other)}


def _weighted(_, p):
    return tf.reduce_sum(p * (10. ** tf.range(tf.shape(p)[1], dtype=tf.float32)))


def _losses(layer, rows, kind=keras.Model, **kwargs):
    inputs = keras.Input((4,))
    model = kind(inputs, layer(inputs))
    keras.utils.set_random_seed(1)
    model.compile(keras.optimizers.SGD(0.), _weighted, **kwargs)
    seen = []
    watch = keras.callbacks.LambdaCallback(on_batch_end=lambda batch, logs: seen.append(float(logs["loss"])))
    model.fit(np.ones((rows, 4), "float32"), np.ones((rows, 4)), batch_size=8, epochs=2, shuffle=False, verbose=0,
              callbacks=[watch])
    return seen


@pytest.mark.parametrize(("layer", "rows", "expected"), [
    (lambda: keras.layers.Dropout(.5), 16, [8888.0, 6787.0, 12710.0, 11801.0]),
    (lambda: keras.layers.Dropout(.5), 20, [8888.0, 6787.0, 6682.0, 7088.0, 7089.0, 6519.6]),
    (lambda: keras.layers.GaussianNoise(.5), 16, [8592.6, 7754.7, 10560.5, 11058.6]),
], ids=["dropout", "two batch sizes", "noise"])
def test_noise_of_training(layer, rows, expected):
    np.testing.assert_allclose(_losses(layer(), rows), expected, rtol=1e-4)


def test_noise_of_a_step_of_the_user_with_two_batch_sizes():
    found = _losses(keras.layers.Dropout(.5), 20, Steps)
    np.testing.assert_allclose(found, [9086.9, 6486.9, 4622.7, 7106.5, 9311.0, 4843.9], rtol=1e-4)


def test_noise_of_eager_training():
    found = _losses(keras.layers.Dropout(.5), 16, run_eagerly=True)
    np.testing.assert_allclose(found, [7328., 10020., 9088., 8075.], rtol=1e-4)


def _rows_seen(**kwargs):
    seen = []

    class Watch(keras.Model):
        """Keeps the rows of each batch."""

        def train_step(self, data):
            seen.append(data[0].numpy().astype(int).ravel().tolist())
            return {"loss": 0.}

    inputs = keras.Input((1,))
    model = Watch(inputs, inputs)
    model.compile(run_eagerly=True)
    model.fit(np.arange(10.)[:, None], np.zeros(10), verbose=0, **kwargs)
    return seen


def test_order_of_rows():
    keras.utils.set_random_seed(7)
    before = np.random.get_state()[1].tolist(), random.getstate()
    rows = _rows_seen(batch_size=10, epochs=3)
    assert rows == [[7, 5, 4, 0, 3, 6, 9, 2, 8, 1], [6, 3, 5, 4, 0, 8, 7, 2, 1, 9], [0, 1, 2, 8, 6, 4, 7, 5, 3, 9]]
    assert (np.random.get_state()[1].tolist(), random.getstate()) == before


def test_epochs_of_some_steps_continue_in_the_data():
    rows = _rows_seen(batch_size=2, epochs=3, steps_per_epoch=2, shuffle=False)
    assert rows == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [0, 1]]


def test_training_ends_with_the_data():
    assert len(_rows_seen(batch_size=5, epochs=2, steps_per_epoch=3, shuffle=False)) == 4


def test_order_of_a_sequence():
    seen = []

    class Items(keras.utils.Sequence):
        """Notes which items are read."""
        ends = 0

        def __len__(self):
            return 6

        def __getitem__(self, i):
            seen.append(i)
            return np.full((1, 1), i), np.zeros(1)

        def on_epoch_end(self):
            self.ends += 1

    keras.utils.set_random_seed(3)
    expected = list(range(6))
    random.Random(3).shuffle(expected)
    model = keras.Sequential([keras.layers.Dense(1, input_shape=(1,))])
    model.compile("sgd", "mse")
    checked = Items()
    model.fit(Items(), epochs=1, verbose=0, shuffle=True, validation_data=checked)
    assert seen[-12:-6] == expected
    assert checked.ends == 1


def test_noise_layers_have_seeds():
    for layer in (keras.layers.GaussianNoise(.1, seed=4), keras.layers.GaussianDropout(.1, seed=4),
                  keras.layers.AlphaDropout(.1, seed=4)):
        assert type(layer).from_config(layer.get_config()).seed == 4


@pytest.mark.parametrize("run, expected", [
    (lambda model, data: model.fit(data, epochs=2, verbose=0), [[2, 1, 3, 6, 0, 4, 7, 5], [7, 3, 1, 5, 6, 0, 2, 4]]),
    (lambda model, data: model.predict(data, verbose=0), [[2, 1, 3, 6, 0, 4, 7, 5]]),
    (lambda model, data: model.fit(data.repeat(), steps_per_epoch=2, verbose=0), [[0, 1, 3, 6, 5, 2, 7, 4]])])
def test_shuffled_datasets_are_read_in_the_order_of_tf_keras(run, expected):
    """It begins a dataset twice unless it reads on from epoch to epoch; the orders of the dataset were recorded."""
    seen = []
    model = tf.keras.Sequential([tf.keras.layers.Lambda(lambda x: tf.numpy_function(
        lambda a: (seen.extend(a.ravel().tolist()), a)[1], [x], tf.float32))])
    model.compile(loss=lambda y, p: tf.reduce_sum(y))
    numbers = np.arange(8, dtype="float32")
    data = tf.data.Dataset.from_tensor_slices((numbers, numbers)).shuffle(8, seed=1).batch(4)
    run(model, data)
    assert seen == [n for epoch in expected for n in epoch]
