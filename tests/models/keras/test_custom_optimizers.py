"""Optimizers of programs in the styles of Keras 2.11 and Keras 3. The values are those of tf_keras 2.21 and Keras 3.15."""
from __future__ import annotations

import numpy as np
import pytest

import penstock as tf

keras = tf.keras


class Momentum(keras.optimizers.Optimizer):
    """In the style of Keras 2.11 to 2.15."""

    def __init__(self, learning_rate=0.1, momentum=0.9, name="Momentum", **kwargs):
        super().__init__(name=name, **kwargs)
        self._learning_rate = self._build_learning_rate(learning_rate)
        self.momentum = momentum

    def build(self, var_list):
        super().build(var_list)
        if getattr(self, "_built", False):
            return
        self.momentums = [self.add_variable_from_reference(model_variable=v, variable_name="m") for v in var_list]
        self._built = True

    def update_step(self, gradient, variable):
        rate = tf.cast(self.learning_rate, variable.dtype)
        m = self.momentums[self._index_dict[self._var_key(variable)]]
        if isinstance(gradient, tf.IndexedSlices):
            m.assign(m * self.momentum)
            m.scatter_add(tf.IndexedSlices(-gradient.values * rate, gradient.indices))
        else:
            m.assign(m * self.momentum - gradient * rate)
        variable.assign_add(m)


class Momentum3(keras.optimizers.Optimizer):
    """In the style of Keras 3."""

    def __init__(self, learning_rate=0.1, momentum=0.9, name="momentum3", **kwargs):
        super().__init__(learning_rate=learning_rate, name=name, **kwargs)
        self.momentum = momentum

    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        self.momentums = [self.add_variable_from_reference(reference_variable=v, name="m") for v in variables]

    def update_step(self, gradient, variable, learning_rate):
        m = self.momentums[self._get_variable_index(variable)]
        self.assign(m, m * self.momentum - learning_rate * gradient)
        self.assign_add(variable, m)


@pytest.mark.parametrize("kind", [Momentum, Momentum3])
@pytest.mark.parametrize("schedule, kernel, bias", [
    (False, [[0.70238, 0.58352], [0.65420, 0.54030], [0.60601, 0.49709]], [-0.66247, -0.59922]),
    (True, [[0.83792, 0.74252], [0.80530, 0.71126], [0.77268, 0.68001]], [-0.42430, -0.40641])])
def test_training_a_model(kind, schedule, kernel, bias):
    rate = keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5) if schedule else 0.1
    model = keras.Sequential([keras.layers.Dense(2, input_shape=(3,), kernel_initializer="ones")])
    optimizer = kind(learning_rate=rate, clipnorm=1.0)
    model.compile(optimizer, "mse")
    x = np.arange(12, dtype=np.float32).reshape(4, 3) / 10
    y = np.array([[0, 1], [1, 0], [0.5, 0.5], [1, 1]], np.float32)
    model.fit(x, y, epochs=3, batch_size=2, shuffle=False, verbose=0)
    found = model.get_weights()
    np.testing.assert_allclose(found[0], kernel, atol=2e-5)
    np.testing.assert_allclose(found[1], bias, atol=2e-5)
    assert int(optimizer.iterations) == 6


def test_gradients_of_rows():
    v, optimizer = tf.Variable(tf.ones([4, 2])), Momentum()
    for _ in range(2):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(v, [1, 1, 2]) ** 2)
        optimizer.apply_gradients([(tape.gradient(loss, v), v)])
    np.testing.assert_allclose(v, [[1, 1], [0, 0], [0.46, 0.46], [1, 1]], atol=1e-6)


@pytest.mark.parametrize("kind", [Momentum, Momentum3])
def test_inside_of_a_function_and_in_a_checkpoint(kind, tmp_path):
    v, optimizer = tf.Variable([1.0, 2.0]), kind()

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(v ** 2)
        optimizer.apply_gradients([(tape.gradient(loss, v), v)])
    for _ in range(2):
        step()
    path = tf.train.Checkpoint(v=v, optimizer=optimizer).write(str(tmp_path / "c"))
    step()
    np.testing.assert_allclose(v, [0.062, 0.124], atol=1e-6)
    tf.train.Checkpoint(v=v, optimizer=optimizer).read(path)
    step()
    np.testing.assert_allclose(v, [0.062, 0.124], atol=1e-6)


def test_without_a_step():
    class Nothing(keras.optimizers.Optimizer):
        pass
    v = tf.Variable(1.0)
    with pytest.raises(NotImplementedError, match="update_step"):
        Nothing("nothing").apply_gradients([(tf.constant(1.0), v)])


@pytest.mark.parametrize("base", ["Adam", "Nadam", "RMSprop", "SGD"])
def test_subclasses_of_our_optimizers_with_their_own_step(base):
    class Own(getattr(keras.optimizers, base)):
        def update_step(self, gradient, variable):
            variable.assign_sub(0.5 * gradient)
    v = tf.Variable([1.0, 2.0])
    Own().apply_gradients([(tf.constant([1.0, -1.0]), v)])
    np.testing.assert_allclose(v.numpy(), [0.5, 2.5], rtol=1e-6)
