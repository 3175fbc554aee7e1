"""LinearSDCA as the optimizer of linear estimators."""
import numpy as np
import pytest

import penstock as tf2
import penstock.compat.v1 as tf

LinearSDCA = tf.estimator.experimental.LinearSDCA


def numbers():
    return ({"id": tf.constant(["1", "2"]), "cost": tf.constant([[500.0], [200.0]]), "feet": tf.constant([[800.0], [600.0]]),
             "weights": tf.constant([[1.0], [1.0]])}, tf.constant([[0], [1]]))


def words():
    country = tf.SparseTensor([[0, 0], [1, 3], [2, 1]], ["IT", "US", "GB"], [3, 5])
    price = tf.SparseTensor([[0, 0], [1, 0], [2, 0]], [2.0, 3.0, 1.0], [3, 5])
    return {"id": tf.constant(["1", "2", "3"]), "country": country, "price": price}, tf.constant([[1], [0], [1]])


@pytest.mark.parametrize("linear", [tf.estimator.LinearClassifier, tf2.estimator.LinearClassifier])
def test_classifier_of_numbers(linear, tmp_path):
    columns = [tf.feature_column.numeric_column("cost"), tf.feature_column.numeric_column("feet")]
    classifier = linear(columns, model_dir=str(tmp_path), optimizer=LinearSDCA("id"), weight_column="weights")
    classifier.train(numbers, steps=100)
    result = classifier.evaluate(numbers, steps=1)
    assert result["loss"] < 0.4 and result["accuracy"] == 1.0 and result["global_step"] == 100


def test_classifier_of_words_and_pairs(tmp_path):
    country = tf.feature_column.categorical_column_with_hash_bucket("country", 5)
    weighted = tf.feature_column.weighted_categorical_column(
        tf.feature_column.categorical_column_with_hash_bucket("country", 7), "price")
    classifier = tf.estimator.LinearClassifier([weighted], optimizer=LinearSDCA("id", symmetric_l2_regularization=0.01),
                                               model_dir=str(tmp_path / "weighted"))
    assert classifier.train(words, steps=60).evaluate(words, steps=1)["average_loss"] < 0.2
    classifier = tf.estimator.LinearClassifier([country], optimizer=LinearSDCA("id", symmetric_l2_regularization=0.01),
                                               model_dir=str(tmp_path / "words"), partitioner=tf.fixed_size_partitioner(2))
    assert classifier.train(words, steps=60).evaluate(words, steps=1)["average_loss"] < 0.2


@pytest.mark.parametrize("l1, zero", [(0.0, False), (40.0, True)])
def test_regression_reaches_the_optimum(l1, zero, tmp_path):
    draw = np.random.RandomState(0)
    x = draw.randn(30, 2).astype(np.float32)
    y = (x @ [[2.0], [0.3]]).astype(np.float32)

    def rows():
        return {"id": tf.as_string(tf.range(30)), "x": tf.constant(x)}, tf.constant(y)
    sdca = LinearSDCA("id", symmetric_l1_regularization=l1, symmetric_l2_regularization=2.0)
    column = tf.feature_column.numeric_column("x", 2)
    regressor = tf.estimator.LinearRegressor([column], optimizer=sdca, model_dir=str(tmp_path))
    regressor.train(rows, steps=30)
    regressor.train(rows, steps=30)             # dual variables are part of the checkpoint
    w = regressor.get_variable_value("linear/linear_model/x/weights").ravel()
    b = regressor.get_variable_value("linear/linear_model/bias_weights")
    residual = x @ w + b - y[:, 0]
    slope = np.append(x.T @ residual, residual.sum()) + 2.0 * np.append(w, b)       # of the smooth part of the loss
    if zero:
        assert w[1] == 0.0 and w[0] > 0
        np.testing.assert_allclose(slope[0], -l1, rtol=1e-3)
        assert abs(slope[1]) <= l1
    else:
        np.testing.assert_allclose(slope, 0, atol=1e-3)


@pytest.mark.parametrize("make", [
    lambda c: tf.estimator.LinearClassifier(c, n_classes=3, optimizer=LinearSDCA("id")),
    lambda c: tf.estimator.LinearRegressor(c, label_dimension=2, optimizer=LinearSDCA("id")),
    lambda c: tf.estimator.LinearRegressor(c, sparse_combiner="mean", optimizer=LinearSDCA("id")),
    lambda c: LinearSDCA("id", symmetric_l2_regularization=0.0)])
def test_what_it_cannot_train(make):
    with pytest.raises(ValueError):
        make([tf.feature_column.numeric_column("x")])
