"""Weights and models in files, and back."""
import json
import types

import h5py
import numpy as np
import pytest

import penstock as tf
from penstock._src.graph import messages
from penstock._src.models.keras.saving import archive, model_files
from penstock._src.state.saved_model import load_context
from penstock.compat import v1 as tf1

K = tf.keras
X = np.random.default_rng(1).normal(size=(8, 6)).astype("float32")


def model_of(keras):
    x = keras.Input((6,), name="x")
    h = keras.layers.BatchNormalization()(keras.layers.Dense(5, activation="relu")(x))
    model = keras.Model(x, [keras.layers.Dense(2, name="a")(h), keras.layers.Dense(1, name="b")(h)])
    model.compile("adam", {"a": "mse", "b": "mae"})
    model.train_on_batch(X, [np.ones((8, 2)), np.ones((8, 1))])
    return model


def same(a, b):
    return all(np.allclose(p, q, atol=1e-6) for p, q in zip(a.predict(X), b.predict(X)))


@pytest.mark.parametrize("name", ["w.h5", "w.weights.h5", "w"])
def test_weights(tmp_path, name):
    model, other = model_of(K), model_of(K)
    assert not same(model, other)
    model.save_weights(str(tmp_path / name))
    other.load_weights(str(tmp_path / name))
    assert same(model, other)


@pytest.mark.parametrize("name", ["m.h5", "m.keras", "m"])
def test_whole_models_go_on_training(tmp_path, name):
    model = model_of(K)
    model.save(str(tmp_path / name))
    again = K.models.load_model(str(tmp_path / name))
    assert same(model, again) and type(again.optimizer).__name__ == "Adam"
    y = [np.zeros((8, 2)), np.zeros((8, 1))]
    assert np.allclose(model.train_on_batch(X, y), again.train_on_batch(X, y), rtol=1e-4)
    assert np.allclose(model.train_on_batch(X, y), again.train_on_batch(X, y), rtol=1e-4)


def test_descriptions_in_a_file_of_their_own(tmp_path):
    """As tf.keras 2.4 to 2.15 writes them; `make oracle` reads real ones."""
    model = K.Sequential([K.layers.InputLayer((3,)), K.layers.Dense(2)])
    model.compile("sgd", "mse")
    model.save(str(tmp_path / "m"))
    text = json.dumps({"class_name": "Sequential", "config": model.get_config(),
                       "model_config": {"class_name": "Sequential", "config": {"name": "other", "layers": [
                           {"class_name": "InputLayer", "config": {"batch_input_shape": {
                               "class_name": "__tuple__", "items": [None, 3]}, "dtype": "float32", "optional": False}},
                           {"class_name": "Dense", "config": {"units": 2, "name": "dense"}}]}},
                       "training_config": {"loss": "mse", "optimizer_config": {
                           "class_name": "Custom>SGD", "config": {"learning_rate": 0.5}}}})
    described = messages.SavedMetadata()
    described.nodes.add(node_id=0, identifier="_tf_keras_sequential", metadata=text)
    (tmp_path / "m" / "keras_metadata.pb").write_bytes(described.SerializeToString())
    again = K.models.load_model(str(tmp_path / "m"))
    assert again.name == "other" and float(again.optimizer.learning_rate.numpy()) == 0.5
    assert all((a == b).all() for a, b in zip(model.get_weights(), again.get_weights(), strict=True))
    (tmp_path / "m" / "keras_metadata.pb").write_bytes(b"\xff" * 10)
    with pytest.raises(OSError, match="keras_metadata.pb"):
        K.models.load_model(str(tmp_path / "m"))


def test_a_saved_model_as_a_layer(tmp_path):
    model = K.Sequential([K.layers.InputLayer((3,)), K.layers.Dense(2)])
    model.save(str(tmp_path / "m"))
    x = np.ones((4, 3), np.float32)
    layer = K.layers.TFSMLayer(str(tmp_path / "m"), call_endpoint="serving_default")
    assert np.allclose(next(iter(layer(tf.constant(x)).values())).numpy(), model.predict(x))
    again = K.layers.TFSMLayer.from_config(layer.get_config())
    assert np.allclose(next(iter(again(tf.constant(x)).values())).numpy(), model.predict(x))
    with pytest.raises(ValueError, match="no endpoint 'nothing'.*serving_default"):
        K.layers.TFSMLayer(str(tmp_path / "m"), call_endpoint="nothing")


def test_graph_mode(tmp_path):
    with tf1.Graph().as_default():
        tf1.keras.backend.set_session(None)
        model = model_of(tf1.keras)
        for name in ("g.h5", "g.keras", "g"):
            model.save(str(tmp_path / name))
            assert same(model, tf1.keras.models.load_model(str(tmp_path / name)))
        model.save_weights(str(tmp_path / "checkpoint_of_objects"))
        other = model_of(tf1.keras)
        other.load_weights(str(tmp_path / "checkpoint_of_objects"))
        assert same(model, other)


def test_the_layout_of_hdf5_files_is_that_of_keras(tmp_path):
    model = K.Sequential([K.layers.Dense(3, input_shape=(2,), name="one")])
    model.save_weights(str(tmp_path / "w.h5"))
    with h5py.File(tmp_path / "w.h5") as f:
        assert list(f.attrs["layer_names"]) == [b"one"]
        assert list(f["one"].attrs["weight_names"]) == [b"one/kernel:0", b"one/bias:0"]
        assert f["one"]["one/kernel:0"].shape == (2, 3)


def test_nothing_is_half_loaded(tmp_path):
    K.Sequential([K.layers.Dense(3, input_shape=(2,)), K.layers.Dense(2)]).save_weights(str(tmp_path / "w.h5"))
    other = K.Sequential([K.layers.Dense(3, input_shape=(2,)), K.layers.Dense(4)])
    before = other.get_weights()
    with pytest.raises(ValueError, match=r"shape \(3, 4\).*\(3, 2\)"):
        other.load_weights(str(tmp_path / "w.h5"))
    assert all(np.array_equal(a, b) for a, b in zip(before, other.get_weights()))
    with pytest.raises(ValueError, match="2 layers into a model with 1"):
        K.Sequential([K.layers.Dense(3, input_shape=(2,))]).load_weights(str(tmp_path / "w.h5"))
    with pytest.raises(OSError):
        other.load_weights(str(tmp_path / "none.h5"))


def test_custom_objects(tmp_path):
    class Twice(K.layers.Layer):
        def call(self, x):
            return 2 * x
    model = K.Sequential([Twice(input_shape=(6,)), K.layers.Dense(1)])
    model.save(str(tmp_path / "m.h5"))
    with pytest.raises(ValueError, match="Twice"):
        K.models.load_model(str(tmp_path / "m.h5"))
    again = K.models.load_model(str(tmp_path / "m.h5"), custom_objects={"Twice": Twice})
    assert np.allclose(again.predict(X), model.predict(X))


def test_descriptions_and_copies():
    model = model_of(K)
    again = K.models.model_from_json(model.to_json())
    again.set_weights(model.get_weights())
    assert same(model, again)
    copy = K.models.clone_model(model)
    assert not same(model, copy) and [v.name for v in copy.layers] == [v.name for v in model.layers]


def test_a_saved_model_can_be_called_without_keras(tmp_path):
    model = model_of(K)
    model.save(str(tmp_path / "m"))
    loaded = tf.saved_model.load(str(tmp_path / "m"))
    served = loaded.signatures["serving_default"](x=tf.constant(X))
    assert set(served) == {"a", "b"} and np.allclose(served["a"], model.predict(X)[0], atol=1e-6)


@K.utils.register_keras_serializable("subclassed")
class Unsized(K.Model):
    def __init__(self, name=None, **kwargs):
        super().__init__(**kwargs)
        self.dense = K.layers.Dense(2)

    def call(self, x):
        return self.dense(x)


@K.utils.register_keras_serializable("subclassed")
class Sized(Unsized):
    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.dense = K.layers.Dense(units)

    def get_config(self):
        return {**super().get_config(), "units": self.dense.units}


@pytest.mark.parametrize("create", [Unsized, lambda: Sized(3)])
def test_subclassed_models_in_keras_files(tmp_path, create):
    model = create()
    expected = model(X)
    model.save(tmp_path / "m.keras")
    loaded = K.models.load_model(tmp_path / "m.keras")
    assert type(loaded) is type(model)
    np.testing.assert_allclose(loaded(X), expected, rtol=1e-6, atol=1e-6)


def test_loading_inside_of_a_load_sees_its_options(tmp_path, monkeypatch):
    seen = []
    reader = types.SimpleNamespace(load=lambda *args: seen.append(load_context.get_load_options()))
    monkeypatch.setattr(model_files, "saved_model", reader)
    options = tf.saved_model.LoadOptions(experimental_io_device="/job:localhost")
    K.models.load_model(tmp_path, options=options)
    assert seen == [options] and load_context.get_load_options() is None


def test_what_programs_look_for_in_a_loaded_model(tmp_path):
    x = K.Input((1,))
    inner = K.Sequential([K.layers.Dense(1, kernel_initializer="ones", kernel_regularizer=K.regularizers.l2(0.5))])
    model = K.Model(x, K.layers.Dense(1, kernel_initializer="zeros", kernel_regularizer="l2")(inner(x)))
    (tmp_path / "number.txt").write_text("12")
    model.sample, model.number = tf.Variable([[7]], dtype=tf.int64), tf.saved_model.Asset(str(tmp_path / "number.txt"))
    assert any(v is model.sample for v in model.weights)
    tf.saved_model.save(model, str(tmp_path / "m"))
    loaded = tf.saved_model.load(str(tmp_path / "m"))
    assert sorted(float(f()) for f in loaded.regularization_losses) == [0.0, 0.5]
    assert loaded.sample.numpy().tolist() == [[7]] and len(loaded.variables) == 5
    assert tf.io.read_file(loaded.number.asset_path) == b"12"
    loaded.trainable_variables[0].assign([[2.0]])
    assert max(float(f()) for f in loaded.regularization_losses) == 2.0


def test_functions_as_constraints_are_loaded(tmp_path):
    def positive(w):
        return tf.where(w < 0.0, tf.zeros_like(w), w)

    inputs = tf.keras.Input((2,))
    model = tf.keras.Model(inputs, tf.keras.layers.Dense(1, kernel_constraint=positive)(inputs))
    model.save(str(tmp_path / "m.keras"))
    loaded = tf.keras.models.load_model(str(tmp_path / "m.keras"), custom_objects={"positive": positive})
    assert loaded.layers[1].kernel_constraint is positive
    assert tf.keras.constraints.get("non_neg").get_config() == {}


def test_the_state_of_optimizers_is_read_with_and_without_a_learning_rate():
    """Keras 3 keeps the learning rate after the iterations, tf_keras does not."""
    inputs = tf.keras.Input((2,))
    model = tf.keras.Model(inputs, tf.keras.layers.Dense(1)(inputs))
    model.compile(tf.keras.optimizers.SGD(0.1, momentum=0.9), "mse")
    momenta = [np.full((2, 1), 3, "f"), np.full(1, 4, "f")]
    for n, rate in enumerate(([], [np.float32(0.1)])):
        archive.set_optimizer(model, [np.int64(n + 5), *rate, *momenta])
        assert int(model.optimizer.iterations) == n + 5
        for v, expected in zip(model.trainable_variables, momenta, strict=True):
            np.testing.assert_array_equal(model.optimizer.get_slot(v, "momentum"), expected)


class _Scaled(K.Model):
    """A model that is called with a second tensor."""

    def __init__(self):
        super().__init__()
        self.dense = K.layers.Dense(3)

    def call(self, x, scale=None, training=False, power=1):
        y = self.dense(x["a"] if isinstance(x, dict) else x)
        return y if scale is None else y * scale ** power


def test_the_specs_of_a_call():
    """The values are those of tf.keras 2.15."""
    model = _Scaled()
    assert model.save_spec() is None
    model(tf.ones([2, 4]), tf.ones([2, 1]), training=True, power=2)
    model(tf.ones([3, 4]))                                            # the first call counts
    assert model.save_spec() == ([tf.TensorSpec((None, 4), name="input_1"), tf.TensorSpec((None, 1))], {})
    assert model.save_spec(dynamic_batch=False) == ([tf.TensorSpec((2, 4), name="input_1"), tf.TensorSpec((2, 1))], {})
    model = _Scaled()
    model(tf.ones([2, 4]), scale=tf.ones([2, 1]), power=2)
    assert model.save_spec() == ([tf.TensorSpec((None, 4), name="input_1")], {"scale": tf.TensorSpec((None, 1))})
    model = _Scaled()
    model._set_save_spec({"a": tf.TensorSpec((None, 4), name="x"), "b": tf.TensorSpec((None, None), "int32")})
    model({"a": tf.ones([2, 4])})
    specs = {"a": tf.TensorSpec((None, 4), name="x"), "b": tf.TensorSpec((None, None), "int32", "b")}
    assert model.save_spec() == ([specs], {})


def test_the_specs_of_a_functional_model():
    x = K.Input((4,), batch_size=3, name="x")
    assert K.Model(x, K.layers.Dense(2)(x)).save_spec() == ([tf.TensorSpec((3, 4), name="x")], {})
    model = K.Sequential([K.layers.Dense(2, name="d")])
    assert model.save_spec() is None
    model(tf.ones([2, 3]))
    assert model.save_spec() == ([tf.TensorSpec((None, 3), name="d_input")], {})


@pytest.mark.parametrize("by_name", [False, True])
def test_a_model_of_several_tensors_is_saved_with_all(tmp_path, by_name):
    x, scale = tf.constant(X), tf.fill([8, 1], 2.0)
    model = _Scaled()
    expected = model(x, scale=scale) if by_name else model(x, scale)
    model.save(str(tmp_path / "m"))
    served = tf.saved_model.load(str(tmp_path / "m")).signatures["serving_default"]
    names = served.structured_input_signature[1]
    assert len(names) == 2 and "input_1" in names
    values = {n: x if n == "input_1" else scale for n in names}
    assert np.allclose(next(iter(served(**values).values())), expected, atol=1e-6)
    again = K.models.load_model(str(tmp_path / "m"))
    assert np.allclose(again(x, scale=scale) if by_name else again(x, scale), expected, atol=1e-6)


def of_ragged():
    x = tf.keras.Input([None], dtype=tf.int64, ragged=True)
    return tf.keras.Model(x, tf.keras.layers.LSTM(3)(tf.keras.layers.Embedding(10, 4)(x)))


def of_sparse():
    x = tf.keras.Input([4], sparse=True)
    return tf.keras.Model(x, tf.keras.layers.Dense(2)(x))


class OfDict(tf.keras.Model):
    """A subclassed model of a dictionary with a ragged and a sparse tensor."""

    def __init__(self):
        super().__init__()
        self.embedding, self.dense = tf.keras.layers.Embedding(10, 2), tf.keras.layers.Dense(2)

    def call(self, x):
        return self.dense(x["s"]) + tf.reduce_sum(self.embedding(x["r"]), 1)


RAGGED = tf.ragged.constant([[1, 2], [3]], dtype=tf.int64)
SPARSE = tf.sparse.from_dense([[0., 1, 0, 2], [1, 0, 0, 0]])


@pytest.mark.parametrize(("make", "given", "arguments"), [
    (of_ragged, RAGGED, ["args_0", "args_0_1"]), (of_sparse, SPARSE, ["args_0", "args_0_1", "args_0_2"]),
    (OfDict, {"r": RAGGED, "s": SPARSE}, ["args_0", "args_0_1", "args_0_2", "args_0_3", "args_0_4"])])
def test_saved_models_of_ragged_and_sparse_inputs(make, given, arguments, tmp_path):
    model = make()
    want = model(given).numpy()
    specs = tf.nest.map_structure(lambda x: type(tf.type_spec_from_value(x)), given)
    assert tf.nest.map_structure(type, model.save_spec()[0][0]) == specs
    assert all(s.shape[0] is None for s in tf.nest.flatten(model.save_spec()[0]))
    model.save(str(tmp_path / "m"))
    loaded = tf.saved_model.load(str(tmp_path / "m"))
    np.testing.assert_allclose(loaded(given), want, 1e-6)
    assert sorted(loaded.signatures["serving_default"].structured_input_signature[1]) == arguments
    again = tf.keras.models.load_model(str(tmp_path / "m"))
    np.testing.assert_allclose(again(given), want, 1e-6)
