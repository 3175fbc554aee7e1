"""Models: built in three ways, trained from arrays, generators and datasets, in eager mode and in graphs."""
import numpy as np
import pytest

import penstock as tf
from penstock.compat import v1 as tf1

K = tf.keras


@pytest.fixture(params=["eager", "graph"])
def keras(request):
    if request.param == "eager":
        yield tf.keras
        return
    with tf1.Graph().as_default():
        tf1.keras.backend.set_session(None)
        yield tf1.keras


def data(n=64):
    x = np.random.default_rng(0).normal(size=(n, 4)).astype("float32")
    return x, x.sum(1, keepdims=True)


def sequential(keras, **kwargs):
    return keras.Sequential([keras.layers.Dense(8, activation="relu", input_shape=(4,)), keras.layers.Dense(1)])


def functional(keras):
    x = keras.Input((4,))
    return keras.Model(x, keras.layers.Dense(1)(keras.layers.Dense(8, activation="relu")(x)))


def subclassed(keras):
    class Net(keras.Model):
        def __init__(self):
            super().__init__()
            self.inner = [keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)]

        def call(self, x):
            for layer in self.inner:
                x = layer(x)
            return x
    return Net()


@pytest.mark.parametrize("make", [sequential, functional, subclassed])
def test_fit_lowers_the_loss(keras, make):
    x, y = data()
    model = make(keras)
    model.compile("adam", "mse", metrics=["mae"])
    history = model.fit(x, y, batch_size=16, epochs=5, verbose=0, validation_split=0.25).history
    assert history["loss"][-1] < history["loss"][0]
    assert {"loss", "val_loss"} < set(history) and len(history) == 4
    loss, mae = model.evaluate(x, y, verbose=0)
    error = model.predict(x) - y
    assert np.isclose(loss, np.mean(error ** 2), atol=1e-5) and np.isclose(mae, np.abs(error).mean(), atol=1e-5)


def test_one_step_of_descent_is_what_it_should_be(keras):
    x, y = data(8)
    model = keras.Sequential([keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros", input_shape=(4,))])
    model.compile(keras.optimizers.SGD(0.1), "mse")
    loss = model.train_on_batch(x, y)
    assert np.isclose(loss, np.mean(y ** 2))
    assert np.allclose(model.get_weights()[0], 0.1 * 2 * x.T @ y / 8, atol=1e-6)


def test_weights_of_samples_and_classes(keras):
    x, _ = data(6)
    labels = np.array([0, 1, 0, 1, 0, 1])
    y = labels[:, None].astype("float32")
    model = keras.Sequential([keras.layers.Dense(1, kernel_initializer="zeros", input_shape=(4,))])
    model.compile("sgd", "mse")
    weights = np.array([1., 2., 1., 2., 1., 2.])
    assert np.isclose(model.test_on_batch(x, y, sample_weight=weights), np.mean(weights * labels))
    assert np.isclose(model.train_on_batch(x, y, class_weight={0: 5., 1: 3.}), np.mean(3. * labels))
    with pytest.raises(ValueError, match="class_weight"):
        model.fit(x, y, class_weight={0: 1.}, verbose=0)


def test_many_inputs_and_outputs_by_name(keras):
    a, b = keras.Input((4,), name="a"), keras.Input((4,), name="b")
    shared = keras.layers.Dense(2)
    out = keras.layers.concatenate([shared(a), shared(b)])
    model = keras.Model([a, b], [keras.layers.Dense(1, name="p")(out), keras.layers.Dense(1, name="q")(out)])
    model.compile("sgd", {"p": "mse", "q": "mae"}, loss_weights={"p": 1., "q": 0.5})
    x, y = data(8)
    loss, p, q = model.test_on_batch({"a": x, "b": x}, {"p": y, "q": y})
    assert model.metrics_names == ["loss", "p_loss", "q_loss"]
    assert np.isclose(loss, p + 0.5 * q)
    assert len(shared._inbound_nodes) == 2 and len(model.weights) == 6


def test_generators_sequences_and_datasets(keras):
    x, y = data()

    class Batches(tf.keras.utils.Sequence):
        def __len__(self):
            return 4

        def __getitem__(self, i):
            return x[16 * i:16 * i + 16], y[16 * i:16 * i + 16]

    def forever():
        while True:
            yield from Batches()
    model = functional(keras)
    model.compile("sgd", "mse")
    assert len(model.fit(Batches(), epochs=2, verbose=0).history["loss"]) == 2
    model.fit(forever(), steps_per_epoch=3, verbose=0)
    expected = model.evaluate(x, y, batch_size=16, verbose=0)
    assert np.isclose(model.evaluate(Batches(), verbose=0), expected, rtol=1e-5)
    dataset = tf1.data.Dataset.from_tensor_slices((x, y)).batch(16)
    assert np.isclose(model.evaluate(dataset, verbose=0), expected, rtol=1e-5)
    model.fit(dataset, epochs=2, verbose=0, validation_data=dataset)
    assert model.predict(dataset).shape == (64, 1)


def test_losses_and_metrics_of_layers(keras):
    x, y = data(8)
    inputs = keras.Input((4,))
    hidden = keras.layers.Dense(2, activity_regularizer="l2")(inputs)
    model = keras.Model(inputs, keras.layers.Dense(1)(hidden))
    model.add_loss(tf.reduce_mean(hidden ** 2))
    model.add_metric(tf.reduce_max(hidden), aggregation="mean", name="largest")
    model.compile("sgd", "mse")
    loss, largest = model.test_on_batch(x, y)
    h = keras.Model(inputs, hidden).predict(x)
    wanted = np.mean((model.predict(x) - y) ** 2) + np.mean(h ** 2) + 0.01 * np.sum(h ** 2) / 8
    assert np.isclose(loss, wanted, rtol=1e-4) and np.isclose(largest, h.max(), rtol=1e-5)


def test_a_train_step_of_ones_own():
    class Mine(K.Model):
        def train_step(self, batch):
            x, y = batch
            with tf.GradientTape() as tape:
                loss = self.compiled_loss(y, self(x, training=True))
            self.optimizer.apply_gradients(zip(tape.gradient(loss, self.trainable_variables), self.trainable_variables))
            return {"loss": loss, "seven": tf.constant(7.)}
    inputs = K.Input((4,))
    model = Mine(inputs, K.layers.Dense(1)(inputs))
    model.compile("sgd", "mse")
    before = model.evaluate(*data(), verbose=0)
    assert model.fit(*data(), epochs=2, verbose=0).history["seven"] == [7., 7.]
    assert model.evaluate(*data(), verbose=0) < before


def test_dropout_and_batch_normalization_know_the_phase(keras):
    x = np.ones((8, 4), "float32")
    model = keras.Sequential([keras.layers.Dropout(0.5, input_shape=(4,)), keras.layers.BatchNormalization(momentum=0.)])
    model.compile("sgd", "mse")
    assert np.allclose(model.predict(x), x, atol=1e-2)
    model.fit(x, x, epochs=1, batch_size=8, verbose=0)
    assert model.layers[1].get_weights()[2].any()                    # the mean moved in training


def test_steps_are_compiled_once_per_size_of_batch():
    traces = []

    class Counting(K.layers.Layer):
        def call(self, x):
            traces.append(1)
            return x
    inputs = K.Input((4,))
    model = K.Model(inputs, K.layers.Dense(1)(Counting()(inputs)))
    model.compile("sgd", "mse")
    x, y = data(40)
    traces.clear()
    model.fit(x, y, batch_size=16, epochs=3, verbose=0)              # batches of 16, 16 and 8
    assert len(traces) == 2
    model.fit(x[:20], y[:20], batch_size=7, epochs=1, verbose=0)     # 7 and 6: what was traced for any size
    assert len(traces) <= 4


@pytest.mark.parametrize("wrong, message", [
    (lambda m, x, y: m.fit(x[:3], y, verbose=0), "same number of samples"),
    (lambda m, x, y: m.fit(x[:, :2], y, verbose=0),
     r'Input 0 of layer "model" is incompatible with the layer: expected shape=\(None, 4\), found shape=\(32, 2\)'),
    (lambda m, x, y: m.predict(x[:, None], verbose=0), r"expected shape=\(None, 4\), found shape=\(32, 1, 4\)"),
    (lambda m, x, y: m.predict(x[:, 0], verbose=0), r"calling layer 'model' \(type Functional\)(.|\n)*expected min_ndim=2"),
    (lambda m, x, y: m.fit([x, x], y, verbose=0), r'Layer "model" expects 1 input\(s\), but it received 2 input tensors'),
    (lambda m, x, y: m.fit(x, y, epochs=-1), "Expected epochs to be positive. Received is -1."),
    (lambda m, x, y: m.fit(x, y, class_weight={1: 1.0, 2: 1.0}), "keys from 0 to one less than the number of classes"),
    (lambda m, x, y: m.compile("sgd", "no_such_loss"), "no_such_loss"),
    (lambda m, x, y: m.compile("sgd", []), "one entry per model outputs"),
])
def test_mistakes_are_named(wrong, message):
    model = functional(K)
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match=message):
        wrong(model, *data())


def test_an_uncompiled_model_cannot_be_trained():
    with pytest.raises(RuntimeError, match="compile your model"):
        functional(K).fit(*data(), verbose=0)
    x, other = K.Input((4,)), K.Input((4,))
    with pytest.raises(ValueError, match="Graph disconnected"):
        K.Model(x, K.layers.add([x, other]))


def test_stop_initial_epoch_and_summary(capsys):
    model = functional(K)
    model.compile("sgd", "mse")

    class Stop(K.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            self.model.stop_training = epoch == 3
    history = model.fit(*data(), initial_epoch=2, epochs=9, verbose=0, callbacks=[Stop()])
    assert history.epoch == [2, 3]
    model.summary()
    out = capsys.readouterr().out
    assert "Total params: 49" in out and "(None, 8)" in out


def test_one_row_as_a_list():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, kernel_initializer="ones", input_shape=[3])])
    assert model.predict([[100, 70, 101]], verbose=0).tolist() == [[271.0]]
    assert model.predict([[1, 2, 3], [4, 5, 6]], verbose=0).tolist() == [[6.0], [15.0]]
    assert model.predict([np.ones([2, 3])], verbose=0).tolist() == [[3.0], [3.0]]


def test_targets_are_of_the_type_of_predictions(keras):
    seen = []

    def loss(y, y_pred):
        seen.append((y.dtype, y_pred.dtype))
        return y - y_pred
    model = keras.Sequential([keras.layers.Dense(2, dtype="float64", input_shape=(3,))])
    model.compile("sgd", loss)
    model.train_on_batch(np.ones((4, 3)), np.ones((4, 2), "float32"))
    assert set(seen) == {(tf.float64, tf.float64)}


def test_a_model_that_gives_itself_for_a_name_has_one_of_its_own(keras):
    class Mine(keras.Model):
        def __init__(self):
            super().__init__(self)
            self.dense = keras.layers.Dense(1)

        def call(self, inputs):
            return self.dense(inputs["a"])
    model = Mine()
    assert model.name == "mine"
    model.compile("sgd", "mae")
    assert model.fit({"a": np.ones((4, 2))}, np.ones((4, 1)), verbose=0).history["loss"]


@pytest.mark.parametrize("kind", ["sparse", "ragged"])
def test_sparse_and_ragged_tensors_are_cut_into_batches(kind):
    class Dense(tf.keras.layers.Layer):
        def call(self, x):
            return tf.cast(tf.sparse.to_dense(x) if kind == "sparse" else x.to_tensor(), tf.float32)
    rows = np.array([[1, 0, 2], [3, 4, 5], [6, 7, 8]])
    given = tf.sparse.from_dense(rows) if kind == "sparse" else tf.ragged.constant(rows.tolist())
    x = tf.keras.Input([3 if kind == "sparse" else None], dtype=tf.int32, name="x", sparse=kind == "sparse",
                       ragged=kind == "ragged")
    model = tf.keras.Model(x, Dense()(x))
    model.compile("sgd", "mse")
    for data in (given, {"x": given}):
        np.testing.assert_array_equal(model.predict(data, batch_size=2, verbose=0), rows)
        assert model.evaluate(data, rows.astype("float32"), batch_size=2, verbose=0) == 0
        seen = []
        model.fit(data, rows.astype("float32"), batch_size=2, verbose=0, callbacks=[
            tf.keras.callbacks.LambdaCallback(on_batch_end=lambda batch, logs, seen=seen: seen.append(batch))])
        assert seen == [0, 1]


def test_graphs_say_what_they_train_on(capsys):
    x, y = np.ones((10, 2), np.float32), np.ones((10, 1), np.float32)
    with tf1.Graph().as_default(), tf1.Session():
        model = tf1.keras.Sequential([tf1.keras.layers.Dense(1, input_shape=(2,))])
        model.compile("sgd", "mse")
        model.fit(x, y, batch_size=5, validation_data=(x[:4], y[:4]))
        assert "Train on 10 samples, validate on 4 samples" in capsys.readouterr().out
        model.fit(tf1.data.Dataset.from_tensor_slices((x, y)).batch(5))
        assert "Train on 2 steps" in capsys.readouterr().out
        model.fit(x, y, verbose=0)
        assert not capsys.readouterr().out


def test_generators_that_go_on_need_a_number_of_steps():
    def rows():
        while True:
            yield np.ones((2, 3)), np.ones((2, 1))
    model = K.Sequential([K.layers.Dense(1, input_shape=(3,))])
    model.compile("sgd", "mse")
    model.fit_generator(rows(), steps_per_epoch=2, validation_data=rows(), validation_steps=1, verbose=0)
    for call, name in ((lambda: model.fit_generator(rows()), "steps_per_epoch"),
                       (lambda: model.fit_generator(rows(), 2, validation_data=rows()), "validation_steps"),
                       (lambda: model.evaluate_generator(rows()), "steps"), (lambda: model.predict_generator(rows()), "steps")):
        with pytest.raises(ValueError, match=f"`{name}=None` is only valid"):
            call()


@pytest.mark.parametrize("kind", ["arrays", "dataset"])
def test_inputs_alone_reach_train_step_as_a_tensor(kind):
    seen = []

    class Model(tf.keras.Model):
        def train_step(self, data):
            seen.append(data)
            return {"loss": tf.reduce_mean(data)}

    x = np.ones([8, 3], "f")
    m = Model()
    m.compile("sgd")
    m.fit(x if kind == "arrays" else tf.data.Dataset.from_tensor_slices(x).batch(4), batch_size=4 if kind == "arrays" else None,
          verbose=0)
    assert all(isinstance(data, tf.Tensor) for data in seen)
    assert isinstance(tf.keras.utils.pack_x_y_sample_weight(x), np.ndarray)


@pytest.mark.parametrize("shuffle", [False, True])
def test_strings_are_cut_into_batches(shuffle):
    words = np.array([b"one", b"two", b"three", b"seventeen"] * 4, dtype=object)
    lengths = np.array([[float(len(w))] for w in words], np.float32)
    inputs = tf.keras.Input((), dtype=tf.string)
    x = tf.keras.layers.Lambda(lambda s: tf.cast(tf.strings.length(s), tf.float32)[:, None])(inputs)
    model = tf.keras.Model(inputs, tf.keras.layers.Dense(1, kernel_initializer="ones", trainable=False)(x))
    model.compile("sgd", "mse")
    for data in (tf.constant(words), words):
        assert model.fit(data, lengths, batch_size=5, shuffle=shuffle, verbose=0).history["loss"] == [0.0]


def test_metrics_that_layers_hold_in_containers_are_reported():
    """Metrics set as attributes, alone or in lists, belong to their layer; those of the model stand first."""
    class Watched(K.layers.Layer):
        def __init__(self):
            super().__init__()
            self.many, self.one = [K.metrics.Mean(name="input")], K.metrics.Mean(name="double")

        def call(self, x):
            self.many[0].update_state(x)
            self.one.update_state(2 * x)
            return x

    class Net(K.Model):
        def __init__(self):
            super().__init__()
            self.watched, self.dense, self.own = Watched(), K.layers.Dense(1), {"m": K.metrics.Mean(name="own")}

        def call(self, x):
            self.own["m"].update_state(x - 1)
            return self.dense(self.watched(x))

    model = Net()
    model.compile("sgd", "mse", metrics=["mae"])
    logs = model.fit(np.full((4, 2), 3.0), np.ones((4, 1)), verbose=0).history
    assert [m.name for m in model.watched.metrics] == ["input", "double"]
    assert [m.name for m in model.metrics] == ["loss", "mae", "own", "input", "double"]
    assert (logs["own"], logs["input"], logs["double"]) == ([2.0], [3.0], [6.0])


def test_structures_pass_through_a_sequential_model():
    class Parts(K.layers.Layer):
        def call(self, inputs):
            return [inputs["a"], 2 * inputs["b"]]

    model = K.Sequential([Parts(), K.layers.Concatenate()])
    found = model({"a": tf.ones([2, 1]), "b": tf.ones([2, 2])})
    assert found.numpy().tolist() == [[1, 2, 2]] * 2


def test_dictionaries_reach_the_layers_of_a_sequential_model_in_2x_only():
    class Total(tf.keras.layers.Layer):
        def call(self, inputs):
            return inputs["a"] + inputs["b"]

    x = {"a": np.ones([2, 1], "f"), "b": np.ones([2, 1], "f")}
    model = tf.keras.Sequential([Total()])
    model.compile("sgd", "mse")
    assert model.predict(x, verbose=0).tolist() == [[2.0], [2.0]]
    with tf.Graph().as_default(), pytest.raises(ValueError, match="Passing a dictionary input"):
        tf.keras.Sequential([Total()])(x)


def test_targets_of_size_one_broadcast_in_2_x_only(keras):
    model = keras.Sequential([keras.layers.Dense(2, kernel_initializer="zeros", input_shape=(4,))])
    model.compile("sgd", "mse")
    x, y = data()
    if tf.executing_eagerly():
        assert model.evaluate(x, y, batch_size=64, verbose=0) == pytest.approx(np.mean(y ** 2), rel=1e-5)
        model.fit(x, y, verbose=0)
        with pytest.raises(ValueError, match="Dimensions must be equal, but are 2 and 3"):
            model.fit(x, np.ones((64, 3)), verbose=0)
    else:
        with pytest.raises(ValueError, match="same shape"):
            model.fit(x, y, verbose=0)


@pytest.mark.parametrize("known", [False, True])
def test_vectors_stay_vectors_in_2x(known):
    """What train_step and call are given has the rank of the data, whether the model knows its shapes or not."""
    seen = []

    class Net(K.Sequential):
        def train_step(self, data):
            seen.append(tuple(part.shape.rank for part in data))
            return super().train_step(data)
    model = Net([K.layers.Lambda(lambda x: seen.append(x.shape.rank) or tf.reshape(x, [-1, 1])), K.layers.Dense(1)])
    if known:
        model = Net([K.Input([4]), K.layers.Dense(1)])
    model.compile("sgd", "mse", metrics=["mae"])
    x, y = data()
    model.fit(x if known else x[:, 0], y[:, 0], batch_size=16, verbose=0)
    assert set(seen) == ({(2, 1)} if known else {(1, 1), 1})


@pytest.mark.parametrize("make", [sequential, functional, subclassed])
def test_targets_as_vectors_and_as_columns_give_the_same(make):
    x, y = data()
    model = make(K)
    model.compile("sgd", "mse", metrics=["mae", K.metrics.RootMeanSquaredError()], weighted_metrics=["mse"])
    weights = np.linspace(0, 1, 64)
    column, vector = (model.evaluate(x, t, sample_weight=weights, verbose=0) for t in (y, y[:, 0]))
    np.testing.assert_allclose(vector, column, rtol=1e-5)


@pytest.mark.parametrize("eagerly", [False, True])
def test_predict_and_evaluate_are_not_in_training_mode(eagerly):
    """Whatever learning phase surrounds them."""
    class Phase(tf.keras.layers.Layer):
        def call(self, x):
            return tf.keras.backend.in_train_phase(lambda: tf.ones_like(x), lambda: tf.zeros_like(x))
    model = tf.keras.Sequential([tf.keras.Input((1,)), Phase()])
    model.compile("sgd", "mse", run_eagerly=eagerly)
    with tf1.keras.backend.learning_phase_scope(1):
        assert model.predict(np.ones((1, 1)), verbose=0) == 0
        assert model.evaluate(np.ones((1, 1)), np.zeros((1, 1)), verbose=0) == 0


def test_a_batch_size_beside_a_dataset():
    """TensorFlow 2 ignores it, TensorFlow 1 refuses it."""
    data = tf.data.Dataset.from_tensor_slices((np.ones((4, 3), "f"), np.ones((4, 1), "f"))).batch(2)
    m = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(3,))])
    m.compile("sgd", "mse")
    if tf.executing_eagerly():
        assert m.fit(data, batch_size=4, verbose=0).params["steps"] == 2
    else:
        with pytest.raises(ValueError, match="batch_size"):
            m.fit(data, batch_size=4, verbose=0)


@pytest.mark.parametrize("given", ["mae", tf.keras.metrics.MeanAbsoluteError(name="mae"),
                                   lambda y, p: tf.reduce_mean(tf.abs(y - p), -1)], ids=["name", "object", "function"])
def test_one_metric_needs_no_list(given):
    x, y = data()
    m = sequential(tf.keras)
    m.compile("sgd", "mse", metrics=given, weighted_metrics="mse")
    assert len(m.fit(x, y, verbose=0).history) == 3


def test_a_batch_of_one_example_has_any_size():
    """Layers take a last dimension of 1 for one that may be dropped, which must not be the examples'."""
    x = tf.keras.Input((), dtype="int64")
    model = tf.keras.Model(x, tf.keras.layers.CategoryEncoding(3, output_mode="one_hot")(x))
    assert model.predict(tf.data.Dataset.from_tensor_slices([2]).batch(1), verbose=0).tolist() == [[0, 0, 1]]
    assert model.predict(np.array([2]), verbose=0).tolist() == [[0, 0, 1]]
    assert model.predict(np.array([2, 0]), verbose=0).tolist() == [[0, 0, 1], [1, 0, 0]]


@pytest.mark.parametrize("kind", ["arrays", "generator", "dataset"])
@pytest.mark.parametrize("steps, expected", [(2.5, 3), (2.0, 2), (-1, 4)])
def test_steps_with_a_fraction_and_of_all_data(kind, steps, expected):
    x, y = data()
    batches = tf.data.Dataset.from_tensor_slices((x, y)).batch(16)
    given = {"arrays": {"x": x, "y": y, "batch_size": 16}, "generator": {"x": batches.as_numpy_iterator()},
             "dataset": {"x": batches}}[kind]
    m = sequential(tf.keras)
    m.compile("sgd", "mse")
    before = m.optimizer.iterations.numpy()
    m.fit(**given, steps_per_epoch=steps, verbose=0)
    assert m.optimizer.iterations.numpy() - before == expected


@pytest.mark.parametrize("as_dataset", [False, True])
@pytest.mark.parametrize("shape", [(4,), (4, 1)])
def test_weights_may_have_a_last_dimension_of_one(as_dataset, shape):
    """A column of weights for a vector of targets, too."""
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, kernel_initializer=tf.keras.initializers.Constant(0.1))])
    model.compile("sgd", "mse", weighted_metrics=["mae"])
    x, y = np.arange(12, dtype=np.float32).reshape(4, 3), np.ones(shape, np.float32)
    weights = np.array([[1.0], [2], [3], [4]], np.float32)
    dataset = tf.data.Dataset.from_tensor_slices((x, y, weights)).batch(4)
    run = (lambda f: f(dataset, verbose=0)) if as_dataset else (lambda f: f(x, y, sample_weight=weights, verbose=0))
    np.testing.assert_allclose(run(model.evaluate), [5.05, 1.24], rtol=1e-5)          # recorded from tf.keras
    np.testing.assert_allclose(run(model.fit).history["loss"], [5.05], rtol=1e-5)
    with pytest.raises(ValueError, match=r"cannot be\s+broadcast|same number of samples"):
        model.evaluate(x, y, sample_weight=np.ones([5, 1]), verbose=0)


def test_a_sequential_model_takes_a_module_as_a_layer():
    class Doubled(tf.Module):
        def __init__(self):
            super().__init__()
            self.w = tf.Variable(2.0, name="w")

        def __call__(self, x):
            return self.w * x

    model = K.Sequential([Doubled(), K.layers.Dense(1, kernel_initializer="ones")])
    assert model(tf.ones((1, 3))).numpy().tolist() == [[6.0]]
    assert model.layers[0].name.startswith("module_wrapper") and len(model.trainable_weights) == 3


def test_a_class_may_declare_that_its_layers_have_a_state():
    class Counting(K.layers.Layer):
        stateful = True

    assert Counting().stateful and not K.layers.Layer().stateful
