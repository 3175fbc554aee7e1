"""Estimators of sequences, and the parts of models that they and users build on."""
import itertools

import numpy as np
import pytest

import penstock as tf2
import penstock.compat.v1 as tf
from penstock._src.models.estimator.sequential_head import SequentialHeadWrapper


def sequences():
    """Rows of one to three numbers; the class of a row is whether their sum is positive."""
    rows = [[1.0, 2.0, -1.0], [-3.0], [2.0, -4.0], [0.5, 0.25, 2.0], [-1.0, -1.0, -1.0], [3.0]]
    indices = [[i, j] for i, row in enumerate(rows) for j in range(len(row))]
    return tf.SparseTensor(indices, [v for row in rows for v in row], [6, 3]), np.array([[float(sum(r) > 0)] for r in rows])


def input_fn():
    x, y = sequences()
    return {"x": x, "context": tf.constant([[1.0]] * 6)}, tf.constant(y)


@pytest.mark.parametrize("options", [{"units": [8], "cell_type": "gru"}, {"units": 8, "cell_type": "lstm"}, {"units": [4, 4]},
                                     {"rnn_cell_fn": lambda: tf.keras.layers.GRUCell(8)}])
def test_classifier_learns_the_sign_of_a_sum(tmp_path, options):
    column = tf.feature_column.sequence_numeric_column("x")
    context = tf.feature_column.numeric_column("context")
    classifier = tf2.estimator.experimental.RNNClassifier(
        [column], [context], model_dir=str(tmp_path), optimizer=lambda: tf.train.AdamOptimizer(0.05),
        config=tf.estimator.RunConfig(tf_random_seed=1), **options)
    classifier.train(input_fn, steps=80)
    assert classifier.evaluate(input_fn, steps=1)["accuracy"] == 1.0
    probabilities = np.array([p["probabilities"] for p in itertools.islice(classifier.predict(input_fn), 6)])
    np.testing.assert_array_equal(probabilities.argmax(1), sequences()[1][:, 0])
    assert {"rnn_model/logits/kernel", "rnn_model/logits/bias", "global_step"} <= set(classifier.get_variable_names())


def test_variables_have_the_names_of_checkpoints_of_2(tmp_path):
    column = tf.feature_column.sequence_numeric_column("x")
    estimator = tf2.estimator.experimental.RNNEstimator(tf2.estimator.RegressionHead(), [column], units=[3],
                                                        model_dir=str(tmp_path), optimizer="SGD")
    estimator.train(lambda: ({"x": sequences()[0]}, tf.zeros([6, 1])), steps=1)
    assert estimator.get_variable_value("rnn_model/rnn/kernel").shape == (1, 3)
    assert estimator.get_variable_value("rnn_model/rnn/recurrent_kernel").shape == (3, 3)


def test_class_for_every_step(tmp_path):
    column = tf.feature_column.sequence_numeric_column("x")
    classifier = tf2.estimator.experimental.RNNClassifier(
        [column], units=[6], return_sequences=True, model_dir=str(tmp_path), optimizer=lambda: tf.train.AdamOptimizer(0.1),
        config=tf.estimator.RunConfig(tf_random_seed=1))

    def steps():
        x, _ = sequences()
        return {"x": x}, tf.SparseTensor(x.indices, tf.cast(x.values > 0, tf.int64), x.dense_shape)
    classifier.train(steps, steps=60)
    assert classifier.evaluate(steps, steps=1)["accuracy"] == 1.0
    first = next(classifier.predict(steps))
    assert first["probabilities"].shape == (3, 2) and first["sequence_mask"].tolist() == [True, True, True]


def test_loss_of_steps_ignores_padding():
    head = SequentialHeadWrapper(tf2.estimator.RegressionHead(), "mask", "w")
    features = {"mask": tf.constant([[True, True], [True, False]]), "w": tf.ones([2, 2])}
    loss = head.loss(tf.constant([[1.0, 2.0], [3.0, 100.0]]), tf.zeros([2, 2, 1]), features)
    assert float(loss) == pytest.approx((1 + 4 + 9) / 3)


@pytest.mark.parametrize("arguments, error", [(dict(static_head=None, sequence_length_mask=3), TypeError),
                                              (dict(static_head=None, feature_columns=[1]), TypeError),
                                              (dict(static_head=tf2.estimator.MultiHead([tf2.estimator.RegressionHead(name="a")])),
                                               ValueError)])
def test_sequential_head_checks_its_arguments(arguments, error):
    with pytest.raises(error):
        SequentialHeadWrapper(**arguments)


def test_cells_and_units_exclude_each_other():
    with pytest.raises(ValueError, match="rnn_cell_fn"):
        tf2.estimator.experimental.RNNClassifier([], units=[3], rnn_cell_fn=lambda: None)


def test_model_from_its_configuration():
    from penstock._src.models.estimator.recurrent import RNNModel
    column = tf.feature_column.sequence_numeric_column("x")
    model = RNNModel(tf.keras.layers.GRU(3), 2, [column], activation="sigmoid", name="m")
    again = RNNModel.from_config(model.get_config())
    first, second = model.get_config(), again.get_config()
    assert first.pop("rnn_layer")["config"] == second.pop("rnn_layer")["config"] and first == second


@pytest.mark.parametrize("mode, names", [("train", {"loss"}), ("eval", {"loss", "predictions/y", "metrics/mean/value",
                                                                        "metrics/mean/update_op"})])
def test_model_exported_with_labels(tmp_path, mode, names):
    def model_fn(features, labels, mode):
        w = tf.get_variable("w", initializer=2.0)
        predictions = features["x"] * w
        loss = tf.losses.mean_squared_error(labels, predictions)
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_global_step())
        metrics = {"mean": tf.metrics.mean(predictions)} if mode == "eval" else None
        return tf.estimator.EstimatorSpec(mode, None if mode == "train" else {"y": predictions}, loss, train, metrics)
    estimator = tf.estimator.Estimator(model_fn, str(tmp_path / "model"))
    estimator.train(lambda: ({"x": tf.ones([2])}, tf.ones([2])), steps=1)
    receive = tf.estimator.experimental.build_raw_supervised_input_receiver_fn(
        {"x": tf.zeros([2])}, tf.zeros([2]))
    folder = estimator.experimental_export_all_saved_models(str(tmp_path / "out"), {mode: receive})
    with tf.Session(graph=tf.Graph()) as sess:
        signature = tf.saved_model.load(sess, [mode], folder).signature_def[mode]
        assert set(signature.outputs) == names and set(signature.inputs) == {"x", "label"}
        feeds = {signature.inputs["x"].name: [1.0, 2.0], signature.inputs["label"].name: [0.0, 0.0]}
        w = estimator.get_variable_value("w")
        assert sess.run(signature.outputs["loss"].name, feeds) == pytest.approx(2.5 * w * w)
