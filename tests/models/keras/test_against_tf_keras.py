"""Details of Keras objects that random calls found to differ from tf_keras; the numbers are tf_keras's."""
import numpy as np
import pytest

import penstock as tf


@pytest.mark.parametrize("option, moved", [({"clipvalue": 0.3}, [0.7, 1.9]), ({"clipnorm": 0.3}, [0.70148885, 1.9701489]),
                                           ({"global_clipnorm": 0.3}, [0.70148885, 1.9701489])])
@pytest.mark.parametrize("made", [tf.keras.optimizers.legacy.SGD, tf.keras.optimizers.SGD])
def test_gradients_are_clipped_when_they_are_applied(made, option, moved):
    v = tf.Variable([1.0, 2.0])
    made(1.0, **option).apply_gradients([(tf.constant([1.0, 0.1]), v)])
    np.testing.assert_allclose(v.numpy(), moved, rtol=1e-6)


@pytest.mark.parametrize("name", ["SGD", "Adam", "RMSprop", "Ftrl", "Adagrad"])
def test_decay_is_a_plain_number_in_a_configuration(name):
    found = getattr(tf.keras.optimizers.legacy, name)(0.1, decay=0.1).get_config()["decay"]
    assert type(found) is float and found == 0.1


def test_nadam_takes_the_decay_of_its_schedule_only():
    assert tf.keras.optimizers.legacy.Nadam(decay=0.1).get_config()["decay"] == 0.004
    assert tf.keras.optimizers.legacy.Nadam(schedule_decay=0.1).get_config()["decay"] == 0.1


def test_averages_of_rmsprop_are_taken_every_hundred_steps():
    assert tf.keras.optimizers.RMSprop().get_config()["ema_overwrite_frequency"] == 100
    assert tf.keras.optimizers.RMSprop(ema_overwrite_frequency=None).get_config()["ema_overwrite_frequency"] is None
    assert tf.keras.optimizers.Adam().get_config()["ema_overwrite_frequency"] is None


def test_ignored_classes_do_not_count_in_means():
    y_true, y_pred = [[0.0], [2.0], [1.0], [1.0]], [[0.5, 0.25, 0.25]] * 4
    expected = (np.log(2) + np.log(4)) / 2
    metric = tf.keras.metrics.SparseCategoricalCrossentropy(ignore_class=1)
    metric.update_state(y_true, y_pred)
    assert float(metric.result()) == pytest.approx(expected) and float(metric.count) == 2
    loss = tf.keras.losses.SparseCategoricalCrossentropy(ignore_class=1)
    assert float(loss(y_true, y_pred)) == pytest.approx(expected)
    assert float(loss(y_true, y_pred, sample_weight=[1.0, 0.0, 5.0, 5.0])) == pytest.approx(np.log(2) / 2)


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_confusion_matrices_have_the_dtype_of_their_metric(dtype):
    metric = tf.keras.metrics.MeanIoU(3, dtype=dtype)
    metric.update_state([0, 1, 2], [0, 1, 1])
    assert metric.weights[0].dtype == metric.result().dtype == dtype


def test_binary_accuracy_counts_each_prediction():
    metric = tf.keras.metrics.BinaryAccuracy()
    metric.update_state([0.0, 1.0, 1.0], [0.9, 0.6, 0.7], sample_weight=[1.0, 1.0, 0.0])
    assert float(metric.result()) == 0.5 and float(metric.count) == 2


def test_r2_score_of_labels_that_do_not_vary():
    metric = tf.keras.metrics.R2Score(class_aggregation=None)
    metric.update_state([[1.0, 1.0], [1.0, 2.0]], [[0.0, 1.0], [1.0, 2.0]])
    assert metric.result().numpy().tolist() == [0.0, 1.0]
    with pytest.raises(ValueError, match="expects 2D"):
        tf.keras.metrics.R2Score().update_state([1.0], [1.0])


def test_adjusted_r2_score_of_few_samples_is_the_plain_one():
    y_true, y_pred = [[1.0], [2.0], [4.0]], [[1.0], [2.5], [4.0]]
    plain = tf.keras.metrics.R2Score()
    plain.update_state(y_true, y_pred)
    for regressors, same in ((1, False), (2, True), (5, True)):
        adjusted = tf.keras.metrics.R2Score(num_regressors=regressors)
        adjusted.update_state(y_true, y_pred)
        assert (float(adjusted.result()) == float(plain.result())) is same


@pytest.mark.parametrize("layer, dtype", [
    (lambda: tf.keras.layers.Hashing(3), "int64"), (lambda: tf.keras.layers.Hashing(3, output_mode="one_hot"), "float32"),
    (lambda: tf.keras.layers.Discretization([0.0, 1.0]), "int64"),
    (lambda: tf.keras.layers.StringLookup(vocabulary=["a"]), "int64"),
    (lambda: tf.keras.layers.IntegerLookup(vocabulary=[1], output_mode="count"), "float32"),
    (lambda: tf.keras.layers.Hashing(3, dtype="int32"), "int32")])
def test_layers_of_categories_have_the_dtype_of_their_output(layer, dtype):
    config = layer().get_config()
    assert config["dtype"] == dtype
    again = type(layer()).from_config(config)
    assert again.get_config() == {**config, "name": again.name}


def test_lookups_write_the_size_of_their_vocabulary():
    assert tf.keras.layers.StringLookup(vocabulary=["a", "b"]).get_config()["vocabulary_size"] == 3
    config = tf.keras.layers.TextVectorization(vocabulary=["a", "b"]).get_config()
    assert config["vocabulary_size"] == 4
    assert tf.keras.layers.TextVectorization.from_config(config).vocabulary_size() == 4


@pytest.mark.parametrize("options", [{"ragged": True, "output_mode": "count"}, {"ragged": True, "output_sequence_length": 3}])
def test_ragged_texts_have_one_form(options):
    with pytest.raises(ValueError, match="must not be"):
        tf.keras.layers.TextVectorization(**options)


@pytest.mark.parametrize("mode", ["multi_hot", "count"])
def test_rows_without_categories_are_zero(mode):
    assert tf.keras.layers.CategoryEncoding(3, output_mode=mode)(tf.zeros([2, 0], tf.int32)).numpy().tolist() == [[0.0] * 3] * 2


@pytest.mark.parametrize("layer", [lambda: tf.keras.layers.ConvLSTM2D(2, 3), lambda: tf.keras.layers.SeparableConv1D(2, 3)])
def test_configurations_have_the_arguments_of_the_base(layer):
    config = layer().get_config()
    assert {"time_major", "unroll"} <= config.keys() or {"kernel_regularizer", "kernel_constraint"} <= config.keys()
    assert type(layer()).from_config(config).get_config() == config
