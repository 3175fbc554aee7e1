"""Models with steps, metrics and losses of the user: what they are given, and what `fit` reports."""
from __future__ import annotations

import numpy as np
import pytest

import penstock as tf

keras = tf.keras


class Pairs(keras.Model):
    """Takes stacked pairs, which do not have the shape of the model's input."""

    def train_step(self, data):
        first, second = data[0], data[1]
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self(first, training=True) - self(second, training=True)))
        grads = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.trainable_variables, strict=True))
        self.compiled_metrics.update_state(tf.zeros([3, 1]), self(first))
        return {**{m.name: m.result() for m in self.metrics}, "distance": loss}


def test_a_step_gets_the_data_as_they_are():
    inputs = keras.Input((4,))
    model = Pairs(inputs, keras.layers.Dense(1)(inputs))
    model.compile("sgd", metrics=[keras.metrics.MeanSquaredError(name="far")])
    data = tf.data.Dataset.from_tensor_slices(np.ones((6, 2, 3, 4), "float32"))
    history = model.fit(data, epochs=2, verbose=0).history
    assert sorted(history) == ["distance", "far"]           # no loss: that of `compile` was not computed
    with pytest.raises(ValueError, match="incompatible|dimensions|expects"):
        keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)]).predict(np.ones((2, 3, 5), "float32"), verbose=0)


def test_results_of_a_test_step_are_listed_after_the_metrics():
    class Tested(keras.Model):
        def call(self, x):
            return x

        def test_step(self, data):
            x, y = data
            self.compiled_metrics.update_state(y, x)
            return {**{m.name: m.result() for m in self.metrics}, "b": tf.constant(2.), "a": tf.constant(1.)}

    model = Tested()
    model.compile(metrics=["mae"])
    assert model.evaluate(np.zeros((4, 1)), np.ones((4, 1)), verbose=0) == [1.0, 1.0, 2.0]


def test_metrics_that_a_model_names_start_anew_in_each_epoch():
    seen = keras.metrics.Mean(name="seen")                  # not an attribute of the model

    class Counting(keras.Model):
        def call(self, x):
            return x

        def train_step(self, data):
            seen.update_state(data)
            return {"seen": seen.result()}

        @property
        def metrics(self):
            return [seen]

    model = Counting()
    model.compile()
    numbers = iter([1., 2., 5., 6.])
    data = tf.data.Dataset.from_generator(lambda: (np.full((1, 1), next(numbers), "float32") for _ in range(2)),
                                          output_signature=tf.TensorSpec([1, 1], tf.float32))
    assert model.fit(data, epochs=2, verbose=0).history["seen"] == [1.5, 5.5]


def test_a_layer_may_return_another_of_its_arguments():
    class Costs(keras.layers.Layer):
        def call(self, y, y_pred):
            self.add_loss(tf.square(y - y_pred))            # a loss per example: its mean is reported, its sum minimized
            self.add_metric(tf.reduce_mean(y), name="mean_y")
            return y_pred

    x, y = keras.Input((2,), name="x"), keras.Input((1,), name="y")
    dense = keras.layers.Dense(1, kernel_initializer="zeros")
    model = keras.Model([x, y], Costs()(y, dense(x)))
    model.compile(keras.optimizers.SGD(0.1))
    history = model.fit({"x": np.ones((4, 2)), "y": np.arange(4.)[:, None]}, verbose=0).history
    np.testing.assert_allclose([history["loss"][0], history["mean_y"][0]], [3.5, 1.5], rtol=1e-6)
    np.testing.assert_allclose(dense.kernel, np.full((2, 1), 0.1 * 2 * 6.), rtol=1e-6)


def test_vectors_of_targets_are_columns_beside_matrices():
    shapes = []

    def loss(y, y_pred):
        shapes.append((y.shape.as_list(), y_pred.shape.as_list()))
        return tf.reduce_mean(tf.square(y - y_pred), -1)

    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4)])
    model.compile("sgd", loss)
    model.fit(np.ones((8, 3)), np.ones(8), batch_size=8, verbose=0)
    assert all(len(y) == len(p) == 2 and y[-1] == 1 for y, p in shapes) and shapes


def test_models_from_results_of_layers():
    x = np.random.RandomState(0).rand(5, 4).astype("float32")
    inputs = keras.Input((4,))
    a = keras.layers.Dense(3, name="a")(inputs)
    b = keras.layers.Dense(2, name="b")(a)
    outputs = keras.layers.Add()([b, keras.layers.Dense(2)(a)]) * 2.
    whole, front, back = keras.Model(inputs, outputs), keras.Model(inputs, a), keras.Model(a, outputs)
    assert back.input_shape == (None, 3) and len(back.trainable_weights) == 4
    np.testing.assert_allclose(back.predict(front(x).numpy(), verbose=0), whole(x), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(keras.Model([a, b], outputs)([front(x), tf.zeros([5, 2])]),
                               2 * whole.layers[-3](front(x)), rtol=1e-5, atol=1e-6)
    back.compile("sgd", "mse")
    back.fit(front(x).numpy(), np.zeros((5, 2)), verbose=0)
    np.testing.assert_allclose(back(front(x)), whole(x), rtol=1e-5, atol=1e-6)         # the layers are the same


def test_metrics_of_add_metric_in_saved_models(tmp_path):
    """Calls of a loaded model update them, so they are saved with it."""
    class Inner(tf.keras.layers.Layer):
        def call(self, x):
            self.add_metric(tf.reduce_mean(x), name="inner", aggregation="mean")
            return x * 2.0

    class Doubled(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def call(self, x):
            y = self.inner(x)
            self.add_metric(tf.reduce_max(y), name="largest", aggregation="mean")
            return y

    model = Doubled()
    x = tf.constant([[1.0], [3.0]])
    model(x)
    model.save(tmp_path, save_format="tf")
    loaded = tf.keras.models.load_model(tmp_path)
    assert loaded(x).numpy().tolist() == [[2.0], [6.0]]
