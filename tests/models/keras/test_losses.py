"""Losses of tf.keras against numpy, with weights, reductions and configurations."""
import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as tf1

rng = np.random.RandomState(1)
Y = rng.rand(4, 3).astype("f")
P = rng.rand(4, 3).astype("f") * 0.8 + 0.1
ONE_HOT = np.eye(3, dtype="f")[[0, 2, 1, 1]]
D = P / P.sum(-1, keepdims=True)
EPS = 1e-7


def normed(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


FORMULAS = {
    "mean_squared_error": (Y, P, ((Y - P) ** 2).mean(-1)),
    "mean_absolute_error": (Y, P, abs(Y - P).mean(-1)),
    "mean_absolute_percentage_error": (Y, P, 100 * abs((Y - P) / Y).mean(-1)),
    "mean_squared_logarithmic_error": (Y, P, ((np.log1p(Y) - np.log1p(P)) ** 2).mean(-1)),
    "hinge": (ONE_HOT, P, np.maximum(1 - (2 * ONE_HOT - 1) * P, 0).mean(-1)),
    "squared_hinge": (ONE_HOT, P, (np.maximum(1 - (2 * ONE_HOT - 1) * P, 0) ** 2).mean(-1)),
    "categorical_hinge": (ONE_HOT, P, np.maximum(((1 - ONE_HOT) * P).max(-1) - (ONE_HOT * P).sum(-1) + 1, 0)),
    "logcosh": (Y, P, np.log(np.cosh(P - Y)).mean(-1)),
    "categorical_crossentropy": (ONE_HOT, D, -(ONE_HOT * np.log(D)).sum(-1)),
    "sparse_categorical_crossentropy": (ONE_HOT.argmax(-1), D, -(ONE_HOT * np.log(D)).sum(-1)),
    "binary_crossentropy": (ONE_HOT, P, -(ONE_HOT * np.log(P) + (1 - ONE_HOT) * np.log(1 - P)).mean(-1)),
    "kullback_leibler_divergence": (Y, P, (Y * np.log(Y / P)).sum(-1)),
    "poisson": (Y, P, (P - Y * np.log(P)).mean(-1)),
    "cosine_similarity": (Y, P, -(normed(Y) * normed(P)).sum(-1)),
}
CLASSES = {
    "mean_squared_error": "MeanSquaredError", "mean_absolute_error": "MeanAbsoluteError", "hinge": "Hinge",
    "mean_absolute_percentage_error": "MeanAbsolutePercentageError", "squared_hinge": "SquaredHinge",
    "mean_squared_logarithmic_error": "MeanSquaredLogarithmicError", "categorical_hinge": "CategoricalHinge",
    "logcosh": "LogCosh", "categorical_crossentropy": "CategoricalCrossentropy", "poisson": "Poisson",
    "sparse_categorical_crossentropy": "SparseCategoricalCrossentropy", "binary_crossentropy": "BinaryCrossentropy",
    "kullback_leibler_divergence": "KLDivergence", "cosine_similarity": "CosineSimilarity",
}


@pytest.mark.parametrize("name", FORMULAS)
def test_functions(name):
    y, p, expected = FORMULAS[name]
    np.testing.assert_allclose(getattr(tf.keras.losses, name)(y, p).numpy(), expected, rtol=2e-4)
    assert tf.keras.losses.get(name) is tf.keras.losses.deserialize(name)


@pytest.mark.parametrize("name", FORMULAS)
def test_objects_reduce_and_weigh(name):
    y, p, each = FORMULAS[name]
    y, p, weights = tf.constant(y), tf.constant(p), np.array([0, 1, 2, 3], "f")
    cls = getattr(tf.keras.losses, CLASSES[name])
    np.testing.assert_allclose(cls()(y, p).numpy(), each.mean(), rtol=2e-4)
    np.testing.assert_allclose(cls(reduction="none")(y, p).numpy(), each, rtol=2e-4)
    np.testing.assert_allclose(cls(reduction="sum")(y, p, weights).numpy(), (each * weights).sum(), rtol=2e-4)
    np.testing.assert_allclose(cls()(y, p, weights[:, None]).numpy(), (each * weights).mean(), rtol=2e-4)
    np.testing.assert_allclose(cls(reduction="mean_with_sample_weight")(y, p, weights).numpy(),
                               (each * weights).sum() / weights.sum(), rtol=2e-4)
    again = tf.keras.losses.deserialize(tf.keras.losses.serialize(cls(reduction="sum", name="mine")))
    assert type(again) is cls and again.reduction == "sum" and again.name == "mine"


@pytest.mark.parametrize("name", FORMULAS)
def test_graphs_give_the_same(name):
    y, p, each = FORMULAS[name]
    with tf.Graph().as_default(), tf1.Session() as session:
        a, b = tf1.placeholder(y.dtype, [None, *y.shape[1:]]), tf1.placeholder("float32", [None, 3])
        loss = getattr(tf1.keras.losses, CLASSES[name])()(a, b)
        np.testing.assert_allclose(session.run(loss, {a: y, b: p}), each.mean(), rtol=2e-4)


def test_logits_and_smoothing():
    logits = np.array([[1.0, -2.0, 0.5]], "f")
    label = np.array([[0.0, 1.0, 0.0]], "f")
    smooth = label * 0.9 + 0.1 / 3
    log_p = logits - np.log(np.exp(logits).sum())
    found = tf.keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1)(label, logits)
    np.testing.assert_allclose(found.numpy(), -(smooth * log_p).sum(), rtol=1e-5)
    half = label * 0.8 + 0.1
    each = -(half * -np.log1p(np.exp(-logits)) + (1 - half) * -np.log1p(np.exp(logits)))
    found = tf.keras.losses.BinaryCrossentropy(from_logits=True, label_smoothing=0.2)(label, logits)
    np.testing.assert_allclose(found.numpy(), each.mean(), rtol=1e-5)


def test_huber_is_a_square_and_then_a_line():
    y, p = np.array([[0.0, 0.0]], "f"), np.array([[0.5, 3.0]], "f")
    np.testing.assert_allclose(tf.keras.losses.Huber(delta=2.0)(y, p).numpy(), (0.5 * 0.25 + 0.5 * 4 + 2 * 1) / 2, rtol=1e-6)


def test_ignored_classes_and_focal_losses():
    found = tf.keras.losses.SparseCategoricalCrossentropy(ignore_class=-1, reduction="none")([0, -1], [[0.5, 0.5], [0.1, 0.9]])
    np.testing.assert_allclose(found.numpy(), [np.log(2), 0], rtol=1e-5)
    found = tf.keras.losses.BinaryFocalCrossentropy(gamma=2.0)([[1.0]], [[0.8]])
    np.testing.assert_allclose(found.numpy(), 0.04 * -np.log(0.8), rtol=1e-4)


def test_users_write_losses():
    class Fourth(tf.keras.losses.Loss):
        def call(self, y_true, y_pred):
            return tf.reduce_mean((y_true - y_pred) ** 4, axis=-1)
    np.testing.assert_allclose(Fourth()(tf.constant(Y), tf.constant(P)).numpy(), ((Y - P) ** 4).mean(), rtol=1e-5)


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="Invalid reduction"):
        tf.keras.losses.MeanSquaredError(reduction="product")
    with pytest.raises(ValueError, match="Unknown loss function"):
        tf.keras.losses.get("nothing")
    with pytest.raises(ValueError, match="Could not interpret"):
        tf.keras.losses.get(3)


def test_configurations_of_keras_2_name_the_function_too():
    loss = tf.keras.losses.deserialize({"class_name": "MeanSquaredError", "config": {
        "reduction": "auto", "name": "mean_squared_error", "fn": "mean_squared_error"}})
    np.testing.assert_allclose(loss([[0., 1.]], [[1., 1.]]), 0.5, rtol=1e-6)


@pytest.mark.parametrize("activation, loss, labels", [
    ("sigmoid", "BinaryCrossentropy", np.eye(4, 3)),
    ("softmax", "CategoricalCrossentropy", np.eye(4, 3)),
    ("softmax", "SparseCategoricalCrossentropy", np.array([0, 1, 2, 0]))])
def test_outputs_of_an_activation_are_not_taken_for_logits(activation, loss, labels):
    """As in tf_keras: the loss is that of the logits, and a warning says so."""
    x = np.linspace(-2, 2, 12).reshape(4, 3).astype(np.float32)
    kernel = np.linspace(-1, 1, 9).reshape(3, 3).astype(np.float32)

    def loss_of(activation):
        model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(3, activation=activation)])
        model.set_weights([kernel, np.zeros(3, np.float32)])
        model.compile("sgd", getattr(tf.keras.losses, loss)(from_logits=True))
        return model.evaluate(x, labels, verbose=0)
    with pytest.warns(UserWarning, match="from_logits=True"):
        found = loss_of(activation)
    np.testing.assert_allclose(found, loss_of(None), rtol=1e-6)


def test_masked_elements_do_not_count_in_means():
    """Values recorded from tf_keras 2.21."""
    keras = tf.keras
    x = np.ones((2, 4, 1), "float32")
    x[0, 2:] = 0
    y = np.zeros((2, 4, 1), "float32")
    model = keras.Sequential([keras.Input((4, 1)), keras.layers.Masking(),
                              keras.layers.TimeDistributed(keras.layers.Dense(1, kernel_initializer="ones"))])
    weights = np.array([1., 2.])
    for reduction, wanted in (("auto", [1, 5 / 3]), ("sum_over_batch_size", [1, 5 / 3]), ("sum", [6, 10])):
        model.compile("sgd", keras.losses.MeanSquaredError(reduction=reduction))
        found = [model.evaluate(x, y, verbose=0), model.evaluate(x, y, sample_weight=weights, verbose=0)]
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    model.compile(keras.optimizers.SGD(0.01), "mse", metrics=["mse"], weighted_metrics=["mae"])
    assert model.evaluate(x, y, verbose=0) == [1., 1., 1.]
    model.fit(x, y, verbose=0)
    np.testing.assert_allclose(model.layers[-1].weights[0], [[0.98]], rtol=1e-6)
    model.compile("sgd", lambda a, b: tf.reduce_mean(tf.square(a - b), -1))
    np.testing.assert_allclose(model.evaluate(x, y, verbose=0), 0.9216, rtol=1e-5)
    predicted = tf.constant(x)
    predicted._keras_mask = tf.constant([[True, True, False, False]] * 2)
    np.testing.assert_allclose(keras.losses.MeanSquaredError()(y, predicted), 1., rtol=1e-6)


RAGGED = tf.ragged.constant([[1., 2.], [3.]]), tf.ragged.constant([[1.5, 2.], [2.]])


@pytest.mark.parametrize("name, rows", [
    ("MeanSquaredError", [0.125, 1.0]), ("MeanAbsoluteError", [0.25, 1.0]), ("Huber", [0.0625, 0.5]),
    ("BinaryCrossentropy", [-7.66662, -30.66648])])
def test_losses_of_ragged_rows(name, rows):
    """The mean of the elements that a row has. Values recorded from tf_keras."""
    cls = getattr(tf.keras.losses, name)
    np.testing.assert_allclose(cls(reduction="none")(*RAGGED), rows, rtol=1e-5)
    np.testing.assert_allclose(cls()(*RAGGED), np.mean(rows), rtol=1e-5)


@pytest.mark.parametrize("name, labels", [
    ("SparseCategoricalCrossentropy", np.array([0, 1, 1])),
    ("CategoricalCrossentropy", np.array([[1., 0.], [0., 1.], [0., 1.]], "f"))])
def test_crossentropy_of_ragged_sequences(name, labels):
    predicted = tf.RaggedTensor.from_row_splits(np.array([[.9, .1], [.2, .8], [.4, .6]], "f"), [0, 2, 3])
    labels = tf.RaggedTensor.from_row_splits(labels, [0, 2, 3])
    losses = getattr(tf.keras.losses, name)(reduction="none")(labels, predicted)
    np.testing.assert_allclose(losses.flat_values, -np.log([.9, .8, .6]), rtol=1e-5)
    assert losses.row_splits.numpy().tolist() == [0, 2, 3]
    np.testing.assert_allclose(getattr(tf.keras.losses, name)()(labels, predicted), 0.27978, rtol=1e-4)


def test_training_on_ragged_labels():
    x = tf.keras.Input((None, 1), ragged=True)
    model = tf.keras.Model(x, tf.keras.layers.TimeDistributed(tf.keras.layers.Dense(1, kernel_initializer="ones"))(x))
    model.compile("sgd", "mse")
    data = tf.RaggedTensor.from_row_splits(np.array([[1.], [2.], [3.]], "f"), [0, 2, 3])
    np.testing.assert_allclose(model.fit(data, data * 2, epochs=2, verbose=0).history["loss"], [4.66667, 3.69274], rtol=1e-5)
