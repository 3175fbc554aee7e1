"""Keras under strategies: the programs of the lectures, custom training steps, metrics, and what is refused."""
import contextlib

import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as tf1

STRATEGIES = {
    "mirrored": lambda: tf.distribute.MirroredStrategy(),
    "mirrored_devices": lambda: tf.distribute.MirroredStrategy(devices=["/cpu:0", "/cpu:1"]),
    "hierarchical": lambda: tf.distribute.MirroredStrategy(cross_device_ops=tf.distribute.HierarchicalCopyAllReduce()),
    "central": lambda: tf.distribute.experimental.CentralStorageStrategy(),
    "one_device": lambda: tf.distribute.OneDeviceStrategy("/cpu:0"),
}


def digits(n=256):
    random = np.random.RandomState(0)
    y = random.randint(0, 10, n)
    return (random.rand(n, 64) * 0.1 + np.eye(10)[y].repeat(7, 1)[:, :64]).astype(np.float32), y


@pytest.mark.parametrize("name", STRATEGIES)
def test_lecture_program(name):
    """Build and compile in the scope; fit and predict outside of it."""
    x, y = digits()
    distribution = STRATEGIES[name]()
    with distribution.scope():
        model = tf.keras.models.Sequential([
            tf.keras.layers.Dense(32, activation="relu", input_shape=[64]),
            tf.keras.layers.Dense(10, activation="softmax"),
        ])
        model.compile(loss="sparse_categorical_crossentropy", optimizer=tf.keras.optimizers.SGD(0.5), metrics=["accuracy"])
    batch_size = 64                                            # must be divisible by the number of replicas
    history = model.fit(x, y, epochs=4, batch_size=batch_size, validation_data=(x, y), verbose=0)
    assert history.history["loss"][-1] < history.history["loss"][0]
    assert history.history["val_accuracy"][-1] > 0.9
    assert model.predict(x[:10]).shape == (10, 10)
    assert model.distribute_strategy is distribution
    for v in model.variables:
        copies = [c.numpy() for c in distribution.experimental_local_results(v)]
        assert all((c == copies[0]).all() for c in copies)


def test_datasets(mirrored):
    x, y = digits(96)
    with mirrored.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(10)])             # built by the first batch, inside of the replicas
        model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(32).repeat()
    history = model.fit(dataset, epochs=2, steps_per_epoch=3, verbose=0)
    assert len(history.history["loss"]) == 2
    assert all(len(v.values) == 2 for v in model.variables)


def test_custom_step_and_loop(mirrored):
    class Doubled(tf.keras.Sequential):
        def train_step(self, data):
            x, y = data
            with tf.GradientTape() as tape:
                loss = self.compiled_loss(y, self(x, training=True))
            self.optimizer.apply_gradients(zip(tape.gradient(loss, self.trainable_variables), self.trainable_variables))
            self.seen.update_state(tf.cast(tf.shape(x)[0], tf.float32))
            return {"rows": self.seen.result()}
    with mirrored.scope():
        model = Doubled([tf.keras.layers.Dense(1, input_shape=(64,))])
        model.seen = tf.keras.metrics.Sum()
        model.compile("sgd", "mse")
    x, y = digits(64)
    assert model.fit(x, y, batch_size=32, verbose=0).history["rows"] == [64.0]


def test_custom_loop(mirrored):
    """A loop of the user's own: tf.function, strategy.run, reduce, metrics."""
    x, y = digits(128)
    with mirrored.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(10, input_shape=(64,))])
        optimizer = tf.keras.optimizers.Adam(0.05)
        accuracy = tf.keras.metrics.SparseCategoricalAccuracy()
        losses = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=tf.keras.losses.Reduction.NONE)

    def step(inputs):
        images, labels = inputs
        with tf.GradientTape() as tape:
            logits = model(images, training=True)
            loss = tf.nn.compute_average_loss(losses(labels, logits), global_batch_size=32)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        accuracy.update_state(labels, logits)
        return loss

    @tf.function
    def train(inputs):
        return mirrored.reduce(tf.distribute.ReduceOp.SUM, mirrored.run(step, args=(inputs,)), axis=None)
    dataset = mirrored.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices((x, y)).batch(32))
    seen = []
    for _ in range(5):
        accuracy.reset_states()
        seen += [float(train(batch)) for batch in dataset]
    assert seen[-1] < seen[0] / 2 and float(accuracy.result()) > 0.9
    assert int(optimizer.iterations) == 20


def test_metrics_add_up(mirrored):
    with mirrored.scope():
        mean, auc = tf.keras.metrics.Mean(), tf.keras.metrics.AUC()

    def step(x):
        mean.update_state(x)
        auc.update_state([0.0, 1.0], [0.2, 0.7])
        return mean.result()
    batch = next(iter(mirrored.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices([1.0, 2.0, 6.0]).batch(3))))
    inside = mirrored.experimental_local_results(mirrored.run(step, args=(batch,)))
    assert [float(v) for v in inside] == [3.0, 3.0] and float(mean.result()) == 3.0
    assert float(auc.result()) == 1.0
    mean.reset_states()
    assert [float(c) for c in mean.total.values] == [0.0, 0.0]


def test_batch_normalization(mirrored):
    """Plain averages are kept per replica, and are their mean outside; synchronized ones see the whole batch."""
    x = np.arange(8, dtype=np.float32).reshape(8, 1)
    batch = next(iter(mirrored.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(x).batch(8))))
    with mirrored.scope():
        plain, sync = (tf.keras.layers.BatchNormalization(momentum=0.0, synchronized=s) for s in (False, True))
    out = mirrored.run(lambda v: (plain(v, training=True), sync(v, training=True)), args=(batch,))
    np.testing.assert_allclose([c.numpy()[0] for c in plain.moving_mean.values], [1.5, 5.5], rtol=1e-6)
    np.testing.assert_allclose(plain.moving_mean.numpy(), [3.5], rtol=1e-6)
    np.testing.assert_allclose([c.numpy()[0] for c in sync.moving_mean.values], [3.5, 3.5], rtol=1e-6)
    np.testing.assert_allclose(sync.moving_variance.numpy(), [x.var()], rtol=1e-6)
    whole = np.concatenate([v.numpy() for v in mirrored.experimental_local_results(out[1])])
    np.testing.assert_allclose(whole, (x - x.mean()) / np.sqrt(x.var() + 1e-3), rtol=1e-5)


def test_refused(mirrored):
    x, y = digits(32)
    outside = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(64,), name="outer")])
    outside.compile("sgd", "mse")
    with mirrored.scope():
        with pytest.raises(ValueError, match=r"outside of any scope, as was its variable 'outer/kernel:0' of shape \(64, 1\)"):
            outside.fit(x, y, verbose=0)
        inside = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(64,))])
        inside.compile("sgd", "mse")
        with pytest.raises(RuntimeError, match="cannot be called in cross-replica context"):
            inside.optimizer.apply_gradients([(tf.ones([64, 1]), inside.trainable_variables[0])])
    with pytest.raises(ValueError, match=r"`batch_size` argument \(7\) must be divisible by the number of replicas \(2\)"):
        inside.fit(x, y, batch_size=7, verbose=0)
    with mirrored.scope():
        mixed = tf.keras.Sequential([outside.layers[0], tf.keras.layers.Dense(1)])
        mixed.compile("sgd", "mse")
    with pytest.raises(ValueError, match=r"'outer/kernel:0' of shape \(64, 1\) was created outside of the scope"):
        mixed.fit(x, y, verbose=0)


@pytest.mark.parametrize("name", ["mirrored_devices", pytest.param("central", marks=pytest.mark.slow),
                                  pytest.param("one_device", marks=pytest.mark.slow)])
def test_graph_mode(name):
    """Keras models in graphs and sessions: as on one device."""
    x, y = digits(96)

    def train(strategy):
        with tf1.Graph().as_default(), tf1.Session().as_default():
            tf1.set_random_seed(1)
            with strategy.scope() if strategy is not None else contextlib.nullcontext():
                model = tf1.keras.Sequential([
                    tf1.keras.layers.Dense(8, activation="relu", input_shape=(64,), kernel_regularizer="l2"),
                    tf1.keras.layers.BatchNormalization(synchronized=True), tf1.keras.layers.Dense(10, activation="softmax")])
                model.compile(tf1.keras.optimizers.SGD(0.1, momentum=0.9), "sparse_categorical_crossentropy", metrics=["acc"])
            random = np.random.RandomState(0)
            model.set_weights([random.rand(*w.shape) * 0.1 for w in model.get_weights()])
            history = model.fit(x, y, batch_size=24, epochs=4, shuffle=False, verbose=0)
            found = [*history.history["loss"], *history.history["acc"], *model.evaluate(x, y, verbose=0), model.predict(x[:5])]
            for v in model.variables:
                copies = tf1.keras.backend.batch_get_value(list(getattr(v, "values", (v,))))
                assert all(np.allclose(c, copies[0]) for c in copies)
            return found + model.get_weights()
    tf1.disable_eager_execution()
    for a, b in zip(train(None), train(STRATEGIES[name]()), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-3, atol=1e-4)


def test_loss_scale(mirrored):
    """Scaled losses: the scale falls when any replica's gradients are not finite, and no copy changes then."""
    with mirrored.scope():
        v = tf.Variable(1.0)
        optimizer = tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1), initial_scale=8.0)

    @tf.function
    def run(x):
        def step(x):
            optimizer.apply_gradients([(x, v)])
        mirrored.run(step, args=(x,))
    numbers = tf.constant([1.0, np.inf])
    bad = mirrored.experimental_distribute_values_from_function(lambda c: numbers[c.replica_id_in_sync_group])
    run(bad)
    assert [float(c) for c in v.values] == [1.0, 1.0] and float(optimizer.loss_scale) == 4.0
    run(tf.nest.map_structure(tf.zeros_like, bad, expand_composites=True))
    good = mirrored.experimental_distribute_values_from_function(lambda c: tf.constant(1.0 + c.replica_id_in_sync_group))
    run(good)
    np.testing.assert_allclose([float(c) for c in v.values], [0.7, 0.7], rtol=1e-6)


def test_gradients_outside_of_replicas_are_refused(mirrored):
    with mirrored.scope():
        v = tf.Variable(1.0, name="v")
    for optimizer in (tf.keras.optimizers.SGD(0.1), tf1.train.GradientDescentOptimizer(0.1)):
        with pytest.raises(RuntimeError, match="Variable 'v:0' of shape .* only inside of the replicas"):
            optimizer.apply_gradients([(tf.constant(1.0), v)])


@pytest.fixture
def half_precision():
    tf.keras.mixed_precision.set_global_policy("mixed_float16")          # tests/conftest.py restores it


def test_variables_in_mixed_precision_keep_their_copies(mirrored, half_precision, tmp_path):
    """They are trained, saved and restored as variables of the strategy; one device finds the same values."""
    def trained(strategy):
        with strategy.scope():
            model = tf.keras.Sequential([tf.keras.layers.Dense(4, kernel_initializer="ones", input_shape=(6,)),
                                         tf.keras.layers.Dense(1, kernel_initializer="ones", dtype="float32")])
            model.compile(tf.keras.optimizers.Adam(0.01), "mse")
        x = np.random.RandomState(0).standard_normal((16, 6)).astype(np.float32)
        model.fit(x, x.sum(1, keepdims=True), batch_size=8, epochs=2, shuffle=False, verbose=0)
        return model
    model = trained(mirrored)
    for path in ("weights.h5", "weights"):
        model.save_weights(str(tmp_path / path))
        for found, other in ((trained(mirrored), mirrored), (trained(tf.distribute.get_strategy()), None)):
            for a, b in zip(found.get_weights(), model.get_weights(), strict=True):
                np.testing.assert_allclose(a, b, atol=2e-3)          # float16, summed by replica or in one
            found.load_weights(str(tmp_path / path))
            for a, b in zip(found.get_weights(), model.get_weights(), strict=True):
                np.testing.assert_array_equal(a, b)
            if other is not None:
                assert all(len(other.experimental_local_results(v)) == 2 for v in found.weights)
    kernel = model.weights[0]
    before = kernel.numpy()
    mirrored.extended.update(kernel, lambda copy: copy.assign_add(tf.ones_like(copy)))
    for copy in mirrored.experimental_local_results(kernel):
        np.testing.assert_array_equal(copy.numpy(), before + 1)


def test_training_leaves_no_learning_phase_behind(mirrored):
    """Replicas take turns: the second enters its step before the first one leaves it."""
    x = np.random.RandomState(0).randn(8, 3).astype(np.float32)
    with mirrored.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(3,))])
        model.compile("sgd", "mse")
    model.fit(x, x[:, :1], verbose=0)
    assert tf1.keras.backend.learning_phase() == 0
    norm = tf.keras.layers.BatchNormalization()
    norm(x)
    np.testing.assert_array_equal(norm.moving_mean, np.zeros(3))


def test_a_learning_phase_counts_in_replicas(mirrored):
    with mirrored.scope():
        dropout = tf.keras.layers.Dropout(0.5)
    with tf1.keras.backend.learning_phase_scope(1):
        found = mirrored.run(lambda: dropout(tf.ones([100])))
    assert all(float(tf.reduce_min(f)) == 0.0 for f in mirrored.experimental_local_results(found))
    assert float(tf.reduce_min(dropout(tf.ones([100])))) == 1.0
