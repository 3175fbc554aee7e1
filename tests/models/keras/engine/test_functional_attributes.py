"""Functional models whose outputs are a dictionary, and models that have metrics as attributes."""
import numpy as np

import penstock as tf

layers = tf.keras.layers


def _dense(name, units, **options):
    return layers.Dense(units, kernel_initializer=tf.keras.initializers.Constant(0.1), name=name, **options)


def test_dictionaries_of_losses_have_the_keys_of_the_outputs():
    """Outputs are found by their keys, and reported under the names of their layers. Values recorded from tf_keras."""
    x = tf.keras.Input((6,), name="a")
    model = tf.keras.Model({"a": x}, {"z": _dense("x1", 2)(x), "b": _dense("x2", 3, activation="softmax")(x)})
    model.compile("sgd", {"z": "mse", "b": "sparse_categorical_crossentropy"}, metrics={"b": "accuracy", "z": ["mae"]},
                  loss_weights={"z": 2.0})
    data = {"a": np.linspace(0, 1, 24).reshape(4, 6)}
    logs = model.fit(data, {"z": np.ones((4, 2)), "b": np.zeros(4)}, sample_weight={"z": np.ones(4), "b": np.ones(4)},
                     verbose=0, shuffle=False).history
    assert list(logs) == ["loss", "x2_loss", "x1_loss", "x2_accuracy", "x1_mae"]
    np.testing.assert_allclose([v[0] for v in logs.values()], [2.13986, 1.09861, 0.52062, 1.0, 0.7], atol=1e-5)


def test_weighted_metrics_of_the_same_name_are_called_weighted():
    x = tf.keras.Input((3,))
    model = tf.keras.Model(x, layers.Dense(1, kernel_initializer="ones")(x))
    model.compile("sgd", "mse", metrics=["mae", "acc"], weighted_metrics=["mae", tf.keras.metrics.MeanSquaredError(name="q")])
    model.fit(np.ones((4, 3)), np.ones(4), sample_weight=np.arange(4), verbose=0)
    assert model.metrics_names == ["loss", "mae", "acc", "weighted_mae", "q"]


class _Tracking(tf.keras.Model):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.tracker = tf.keras.metrics.Mean(name="loss")
        self.extra = layers.Dense(3, name="extra")
        self.extra.build((None, 2))
        self.more = [layers.Dense(1, name="more")]


def test_attributes_of_functional_models_are_tracked():
    """Metrics and layers that are set on a functional model belong to it; metrics are weights but not layers."""
    x = tf.keras.Input((3,))
    model = _Tracking(x, layers.Dense(2, name="d")(x))
    assert [w.name for w in model.weights] == ["d/kernel:0", "d/bias:0", "total:0", "count:0", "kernel:0", "bias:0"]
    assert len(model.trainable_weights) == 4 and len(model.non_trainable_weights) == 2
    assert [v.name for v in model.layers][1:] == ["d", "extra", "more"]
    assert model.metrics[0] is model.tracker


def test_metrics_of_layers_are_no_weights_of_theirs():
    class Measured(layers.Layer):
        def __init__(self):
            super().__init__()
            self.mean, self.inner = tf.keras.metrics.Mean(name="m"), layers.Dense(2)

        def call(self, x):
            return self.inner(x)
    layer = Measured()
    layer(np.ones((1, 3), "f"))
    assert len(layer.weights) == 2 and [m.name for m in layer.metrics] == ["m"]


def test_a_train_step_of_the_user_says_what_is_training():
    """Layers that it calls without `training` are not: batches leave the moving averages as they are."""
    class Trained(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.norm = layers.BatchNormalization()

        def train_step(self, data):
            return {"quiet": tf.reduce_sum(self.norm(data)), "loud": tf.reduce_sum(self.norm(data, training=self.loud))}

    for loud in (False, True):
        model = Trained()
        model.loud = loud
        model.compile()
        model.fit(np.arange(8, dtype="f").reshape(4, 2), verbose=0)
        assert bool(np.any(model.norm.moving_mean.numpy() != 0)) is loud


def test_creators_make_the_variables_of_every_model():
    """Keras' graph of symbolic tensors outlives the scope in which the first model was built."""
    for _ in range(2):
        found = []

        def creator(make, *, found=found, **options):
            found.append(make(**options))
            return found[-1]
        with tf.variable_creator_scope(creator):
            model = tf.keras.Sequential([tf.keras.Input([4]), tf.keras.layers.Dense(3)])
        assert [v is w for v, w in zip(found, model.variables, strict=True)] == [True, True]
        tf.keras.Sequential([tf.keras.Input([4]), tf.keras.layers.Dense(3)])
        assert len(found) == 2
