"""tf.layers: variables from scopes, reuse, collections; values against numpy."""
import numpy as np
import pytest

from penstock.compat import v1 as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default():
        yield


def run(*fetches):
    with tf.Session() as s:
        s.run(tf.global_variables_initializer())
        return s.run(fetches)


def test_dense_makes_variables_in_the_scope_and_reuses_them():
    x = tf.constant(np.arange(6.).reshape(2, 3), tf.float32)
    with tf.variable_scope("a"):
        y = tf.layers.dense(x, 2, name="d")
    with tf.variable_scope("a", reuse=True):
        z = tf.layers.dense(x, 2, name="d")
    assert [v.name for v in tf.global_variables()] == ["a/d/kernel:0", "a/d/bias:0"]
    kernel, a, b = run(tf.global_variables()[0], y, z)
    assert np.allclose(a, np.arange(6.).reshape(2, 3) @ kernel, atol=1e-6) and np.array_equal(a, b)
    with pytest.raises(ValueError, match="already exists"):
        tf.layers.dense(x, 2, name="d2")
        tf.layers.dense(x, 2, name="d2")


def test_names_without_a_name():
    x = tf.ones([1, 2])
    tf.layers.dense(tf.layers.dense(x, 3), 3)
    assert [v.op.name for v in tf.trainable_variables()] == ["dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias"]


def test_regularizers_and_updates_go_to_collections():
    x = tf.ones([4, 2])
    y = tf.layers.dense(x, 3, kernel_regularizer=lambda w: tf.reduce_sum(w ** 2))
    training = tf.placeholder_with_default(True, [])
    z = tf.layers.batch_normalization(y, training=training, momentum=0.5)
    assert len(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)) == 1
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    assert len(updates) == 2
    mean = next(v for v in tf.global_variables() if "moving_mean" in v.name)
    with tf.Session() as s:
        s.run(tf.global_variables_initializer())
        before = s.run(y)
        out, _ = s.run([z, updates])
        assert np.allclose(out, 0, atol=1e-2)                        # all examples are the same
        assert np.allclose(s.run(mean), before[0] / 2, atol=1e-5)


def test_convolution_and_pooling():
    x = np.random.default_rng(0).normal(size=(2, 8, 8, 3)).astype("float32")
    y = tf.layers.conv2d(tf.constant(x), 4, 3, padding="same", activation=tf.nn.relu)
    z = tf.layers.max_pooling2d(y, 2, 2)
    flat = tf.layers.flatten(z)
    assert (y.shape.as_list(), z.shape.as_list(), flat.shape.as_list()) == ([2, 8, 8, 4], [2, 4, 4, 4], [2, 64])
    a, b = run(y, z)
    assert (a >= 0).all() and np.allclose(b, a.reshape(2, 4, 2, 4, 2, 4).max((2, 4)))


def test_dropout_only_in_training():
    x = tf.ones([100, 10])
    kept, dropped = run(tf.layers.dropout(x, 0.5), tf.layers.dropout(x, 0.5, training=True))
    assert (kept == 1).all() and set(np.unique(dropped)) == {0., 2.}


def test_a_layer_of_ones_own():
    class Double(tf.layers.Layer):
        def build(self, input_shape):
            self.w = self.add_weight("w", [], initializer=tf.constant_initializer(2.))

        def call(self, x):
            return x * self.w
    layer = Double(name="twice")
    y = layer(tf.constant(3.))
    assert layer.scope_name == "twice" and run(y) == (6.,) and layer.trainable_weights == tf.trainable_variables()


def test_units_may_be_a_dimension():
    with tf.Graph().as_default():
        x = tf.zeros([2, 7])
        assert tf.layers.dense(x, tf.Dimension(5)).shape.as_list() == [2, 5]
        assert tf.layers.dense(x, x.shape[1]).shape.as_list() == [2, 7]
