"""Which metric "accuracy" is, and what metrics are called, in the 2.x API: both follow from the targets of the first batch."""
import numpy as np
import pytest

import penstock as tf

K = tf.keras


@pytest.fixture
def data():
    rng = np.random.RandomState(0)
    return rng.rand(8, 4).astype("f"), rng.rand(8).astype("f"), rng.randint(0, 3, 8)


def fitted(x, y, units, loss, **metrics):
    model = K.Sequential([K.layers.Dense(units, activation="softmax" if units > 1 else "sigmoid", input_shape=(4,),
                                         kernel_initializer=K.initializers.RandomUniform(-1, 1, seed=2))])
    model.compile(K.optimizers.SGD(0.0), loss, **metrics)
    return model, model.fit(x, y, batch_size=4, verbose=0).history


def seen(shapes):
    def loss(y_true, y_pred):
        shapes.append((y_true.shape.rank, y_pred.shape.rank))
        return tf.reduce_mean(tf.square(tf.cast(y_true, tf.float32) - y_pred), -1)
    return loss


@pytest.mark.parametrize("units", [1, 3])
@pytest.mark.parametrize("batched", [False, True])
def test_targets_of_one_number_per_row_are_a_column(units, batched, data):
    x, y, _ = data
    shapes: list = []
    given = (tf.data.Dataset.from_tensor_slices((x, y)).batch(4), None) if batched else (x, y)
    model = K.Sequential([K.layers.Dense(units, input_shape=(4,), kernel_initializer="ones")])
    model.compile(K.optimizers.SGD(0.0), seen(shapes))
    loss = model.fit(*given, verbose=0).history["loss"][0]
    assert set(shapes) == {(2, 2)}
    np.testing.assert_allclose(loss, np.mean((y - x.sum(-1)) ** 2), rtol=1e-5, atol=1e-6)


def test_accuracy_of_classes_under_any_loss(data):
    x, _, classes = data
    shapes: list = []
    model, history = fitted(x, classes, 3, seen(shapes), metrics=["accuracy"])
    found = np.mean(model.predict(x, verbose=0).argmax(-1) == classes)
    np.testing.assert_allclose(history["accuracy"], [found], rtol=1e-6, atol=0)


def test_accuracy_of_rows_under_binary_cross_entropy(data):
    """As in Keras 2: whole rows are compared, not their numbers."""
    x, _, classes = data
    model, history = fitted(x, np.eye(3, dtype="f")[classes], 3, "binary_crossentropy", metrics=["acc"])
    found = np.mean(model.predict(x, verbose=0).argmax(-1) == classes)
    np.testing.assert_allclose(history["acc"], [found], rtol=1e-6, atol=0)


@pytest.mark.parametrize("given,names", [
    ("AUC", ["auc", "auc_1"]), ("Precision", ["precision", "precision_1"]), ("MAE", ["MAE", "weighted_MAE"]),
    ("MeanSquaredError", ["mean_squared_error", "weighted_mean_squared_error"])])
def test_names_of_metrics_given_by_their_names(given, names, data):
    x, _, classes = data
    for _ in range(2):                                     # a second model has the same names
        _, history = fitted(x, np.eye(3, dtype="f")[classes], 3, "mse", metrics=[given], weighted_metrics=[given])
        assert list(history) == ["loss", *names]
