"""Layers: variables, masks, losses, calls; the same in eager mode and in graphs."""
import numpy as np
import pytest

import penstock as tf
from penstock.compat import v1 as tf1

K = tf.keras


class Scale(K.layers.Layer):
    def build(self, input_shape):
        self.scale = self.add_weight("scale", [input_shape[-1]], initializer="ones", regularizer="l2")

    def call(self, inputs):
        return inputs * self.scale


def test_a_layer_is_built_by_its_first_input():
    layer = Scale()
    assert not layer.built and layer.weights == []
    assert layer(tf.constant([[1., 2.]])).numpy().tolist() == [[1., 2.]]
    assert [w.shape.as_list() for w in layer.trainable_weights] == [[2]]
    assert np.isclose(layer.losses[0], 0.02)               # l2 of two ones


def test_inputs_that_do_not_fit_name_the_layer_and_both_shapes():
    layer = K.layers.Dense(2, name="mine")
    layer(tf.ones([1, 3]))
    with pytest.raises(ValueError, match=r"mine.*axis -1.*value 3.*\(1, 4\)"):
        layer(tf.ones([1, 4]))
    with pytest.raises(ValueError, match="mine.*min_ndim=2, found ndim=1"):
        layer(tf.ones([3]))


def test_nested_layers_are_tracked_through_attributes_and_lists():
    class Outer(K.layers.Layer):
        def __init__(self):
            super().__init__()
            self.first, self.rest = Scale(), [Scale(), {"deep": Scale()}]

        def call(self, x):
            return self.rest[1]["deep"](self.rest[0](self.first(x)))

    outer = Outer()
    outer(tf.ones([1, 2]))
    assert len(outer.weights) == 3 and len(outer.losses) == 3
    outer.trainable = False
    assert outer.trainable_weights == [] and len(outer.non_trainable_weights) == 3
    del outer.first
    assert len(outer.weights) == 2


def test_weights_are_set_and_checked():
    layer = K.layers.Dense(2)
    layer.build((None, 3))
    layer.set_weights([np.full((3, 2), 2.), np.ones(2)])
    assert layer(tf.ones([1, 3])).numpy().tolist() == [[7., 7.]]
    with pytest.raises(ValueError, match="expecting 2 weights"):
        layer.set_weights([np.ones((3, 2))])
    with pytest.raises(ValueError, match="not compatible"):
        layer.set_weights([np.ones((2, 2)), np.ones(2)])


def test_masks_travel_with_tensors():
    x = K.layers.Masking()(tf.constant([[[1.], [0.]]]))
    assert x._keras_mask.numpy().tolist() == [[True, False]]
    assert K.layers.Activation("relu")(x)._keras_mask is not None


def test_a_policy_keeps_variables_wide_and_computes_narrow():
    layer = K.layers.Dense(2, dtype=K.mixed_precision.Policy("mixed_float16"))
    y = layer(tf.ones([1, 3]))
    assert y.dtype == tf.float16 and layer.kernel.true_dtype == tf.float32
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.cast(layer(tf.ones([1, 3])), "float32"))
    assert tape.gradient(loss, layer.trainable_variables)[0] is not None


def test_ops_between_layers_become_layers():
    x = K.Input((2,))
    model = K.Model(x, K.layers.Dense(1, kernel_initializer="ones")(tf.abs(x) * 2.0 + 1.0))
    assert np.allclose(model.predict(np.array([[-1., 2.]])), [[8.]])
    copy = K.Model.from_config(model.get_config())
    copy.set_weights(model.get_weights())
    assert np.allclose(copy.predict(np.array([[-1., 2.]])), [[8.]])


def test_in_graphs_names_are_those_of_tensorflow():
    with tf1.Graph().as_default():
        layer = tf1.keras.layers.Dense(2, name="d")
        x = tf1.placeholder(tf1.float32, [None, 3])
        assert layer(x).op.name == "d/BiasAdd" and layer(x).op.name == "d_1/BiasAdd"
        assert [w.name for w in layer.weights] == ["d/kernel:0", "d/bias:0"]


def test_the_config_makes_the_same_layer():
    layer = K.layers.Dense(3, activation="relu", kernel_regularizer="l2", name="x")
    again = K.layers.Dense.from_config(layer.get_config())
    assert again.get_config() == layer.get_config()

    class WithArgument(K.layers.Layer):
        def __init__(self, size):
            super().__init__()
            self.size = size
    with pytest.raises(NotImplementedError, match="get_config"):
        WithArgument(layer).get_config()


def test_shape_of_a_weight_as_an_array():
    """Shapes may be arrays, and an empty one is a scalar's."""
    layer = tf.keras.layers.Layer()
    assert layer.add_weight("a", np.array([2, 3]), initializer="ones").shape == (2, 3)
    assert layer.add_weight("b", np.array([], int), initializer="ones").shape == ()


@pytest.mark.parametrize("default", [False, True, None])
def test_the_default_of_training_is_for_the_layers_inside_too(default):
    """As in tf.keras since 2.4: what `call` has as default, its layers get, when a model is made and when it runs."""
    seen = []

    class Inner(tf.keras.layers.Layer):
        def call(self, x, training=None):
            seen.append(training)
            return x

    class Outer(tf.keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def call(self, x, training=default):
            seen.append(training)
            return self.inner(x)
    x = tf.keras.Input((3,))
    model = tf.keras.Model(x, Outer()(x))
    if default is not None:                     # without a default, what a model is made with is a tensor
        assert seen == [default, default]
    seen.clear()
    model(tf.ones([1, 3]))
    assert seen == [default, default]
    seen.clear()
    model(tf.ones([1, 3]), training=True)
    assert seen == [True, True]


def test_name_scopes_of_layers_are_called():
    seen = []

    class Outer(tf.keras.layers.Layer):
        def __init__(self):
            super().__init__(name="outer")
            self.inner = tf.keras.layers.Dense(1, name="inner")

        def call(self, x):
            seen.append((self.name_scope(), self.inner.name_scope()))
            return self.inner(x)
    model = tf.keras.Sequential([Outer()], name="model")
    model(tf.ones([1, 2]))
    tf.function(model.layers[0])(tf.ones([1, 2]))
    alone = ("outer/outer/", "outer/inner/")
    assert seen == [alone, ("model/outer/outer/", "model/outer/inner/"), alone]               # as in TensorFlow
    assert model.name_scope() == "model/" and model.layers[0].inner.name_scope() == "inner/"
