"""What programs print and inspect of models in 2.x; the values are those of tf_keras."""
import numpy as np
import pytest

import penstock as tf

K = tf.keras
X = np.ones((8, 3), np.float32)


def model():
    made = K.Sequential([K.layers.Dense(1, input_shape=(3,))])
    made.compile("sgd", "mse", metrics=["mae"])
    return made


def test_metrics_exist_from_the_first_batch_on():
    made = model()
    assert made.metrics_names == [] and made.metrics == []
    made.fit(X, X[:, :1], verbose=0)
    assert made.metrics_names == ["loss", "mae"]


def test_callbacks_know_epochs_and_steps():
    assert model().fit(X, X[:, :1], batch_size=4, verbose=0, validation_split=0.5).params == \
        {"verbose": 0, "epochs": 1, "steps": 1}


def test_reduced_rate_is_printed_as_a_float32(capsys):
    made = model()
    K.backend.set_value(made.optimizer.learning_rate, 0.5)
    made.fit(X, X[:, :1] * np.nan, epochs=3, verbose=0, callbacks=[
        K.callbacks.ReduceLROnPlateau("loss", factor=0.3, patience=1, verbose=1)])
    assert "Epoch 1: ReduceLROnPlateau reducing learning rate to 0.15000000596046448." in capsys.readouterr().out


def test_lengths_that_differ_are_listed():
    with pytest.raises(ValueError, match="Data cardinality is ambiguous:\n  x sizes: 8\n  y sizes: 7\nMake sure all arrays"):
        model().fit(X, X[:7, :1], verbose=0)


def test_state_is_reset_in_each_call_of_a_function():
    mean = K.metrics.Mean()

    @tf.function
    def start_again():
        mean.reset_state()
        mean.update_state(100.0)
    for _ in range(3):
        start_again()
    assert float(mean.count) == 1


def test_a_call_keeps_its_inputs_when_their_list_changes():
    a = K.Input((4, 5))
    given, first = [a, a], K.layers.Concatenate(1)
    given.append(first(given))
    K.layers.Concatenate(1)(given)
    assert len(first.inbound_nodes[0].input_tensors) == 2


def test_a_model_without_its_class_has_the_name_of_it(tmp_path):
    class Own(K.Model):
        def __init__(self):
            super().__init__()
            self.dense = K.layers.Dense(2)

        def call(self, x):
            return self.dense(x)
    made = Own()
    expected = made(X)
    made.save(tmp_path / "model", save_format="tf")
    loaded = K.models.load_model(tmp_path / "model")
    assert type(loaded).__name__ == "Own"
    assert np.allclose(loaded(X), expected)


@pytest.mark.parametrize("made, expected", [
    (K.losses.LogCosh(), {"name": "log_cosh"}), (K.losses.KLDivergence(), {"name": "kl_divergence"}),
    (K.losses.CategoricalCrossentropy(), {"axis": -1}), (K.losses.SparseCategoricalCrossentropy(), {"ignore_class": None}),
    (K.metrics.MeanIoU(2), {"ignore_class": None, "sparse_y_true": True, "sparse_y_pred": True, "axis": -1}),
    (K.metrics.OneHotIoU(2, [0]), {"sparse_y_pred": False}), (K.metrics.PrecisionAtRecall(0.5), {"class_id": None})])
def test_configurations_have_the_newer_arguments(made, expected):
    config = made.get_config()
    assert {k: config[k] for k in expected} == expected
    assert type(made).from_config(config).get_config() == config


class Branching(K.metrics.Metric):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.total = self.add_weight("total", initializer="zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        value = 2.
        if tf.reduce_sum(y_pred) > 0:
            value = 1.
        for _ in tf.range(3):
            value += 1.
        self.total.assign_add(value)

    def result(self):
        if self.total > 100.:
            return self.total
        return -self.total


class BranchingLoss(K.losses.Loss):
    def call(self, y_true, y_pred):
        if tf.reduce_sum(y_pred) > 1e9:
            return tf.reduce_mean(y_true, -1)
        return tf.reduce_mean((y_true - y_pred) ** 2, -1)


def branching_metric(y_true, y_pred):
    if tf.reduce_sum(y_pred) > 1e9:
        return tf.zeros_like(y_pred)
    return tf.abs(y_true - y_pred)


def test_tensors_decide_control_flow_of_losses_and_metrics():
    made = K.Sequential([K.layers.Dense(1, input_shape=(3,), kernel_initializer="ones")])
    made.compile("sgd", BranchingLoss(), metrics=[Branching(name="branching"), branching_metric])
    found = made.evaluate(X, X[:, :1], batch_size=4, verbose=0, return_dict=True)
    assert found == {"loss": 4.0, "branching": -8.0, "branching_metric": 2.0}


def test_cells_return_states_as_they_are_given():
    for cell in (tf.keras.layers.GRUCell(3), tf.keras.layers.SimpleRNNCell(3)):
        state = cell.get_initial_state(batch_size=2, dtype="float32")
        x = np.ones((2, 2), "float32")
        assert cell(x, state)[1].shape == state.shape
        assert [s.shape for s in cell(x, [state])[1]] == [state.shape]


def test_more_losses_than_outputs():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(2,), kernel_initializer="zeros")])
    model.compile("sgd", ["mse", "mae"])
    assert model.evaluate(np.ones((2, 2)), np.full(2, 3.0), verbose=0) == 9.0
