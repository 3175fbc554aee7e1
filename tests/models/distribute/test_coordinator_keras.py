"""Keras under ParameterServerStrategy with a coordinator: as on one device, data of workers, shards, the example."""
import json

import numpy as np
import pytest

import penstock as tf
from tests.cluster.conftest import addresses
from tests.models.distribute.coordinated import made  # noqa: F401
from tests.models.distribute.test_equivalence import TOLERANCE, floatx, trained  # noqa: F401
from tests.test_docs import ROOT
from tests.test_examples import load

pytestmark = pytest.mark.distributed
X = np.random.RandomState(0).randn(96, 4).astype(np.float32)
Y = X @ np.array([[1.0], [-2.0], [3.0], [0.5]], np.float32)
QUICK = {("SGD", "dense", "float64"), ("Adam", "embedding", "float64")}
CASES = [pytest.param(o, m, d, marks=() if (o, m, d) in QUICK else pytest.mark.slow, id=f"{o}-{m}-{d}")
         for o in ("SGD", "Adam") for m in ("dense", "conv", "embedding") for d in ("float64", "float32")]


def network(rate=0.1):
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=[4], kernel_initializer="zeros")])
    model.compile(tf.keras.optimizers.Adam(rate), "mse", metrics=["mae"])
    return model


@pytest.mark.parametrize("opt, kind, dtype", CASES)
def test_one_worker_follows_a_single_device(made, floatx, opt, kind, dtype):  # noqa: F811
    """50 steps, with variables on two servers."""
    floatx(dtype)
    alone = trained(None, kind, opt, dtype)
    together = trained(made(worker=1).strategy, kind, opt, dtype)
    for a, b in zip(alone, together, strict=True):
        np.testing.assert_allclose(b, a, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


def creator(dataset_fn):
    return tf.keras.utils.experimental.DatasetCreator(dataset_fn)


def test_datasets_that_workers_make(made):  # noqa: F811
    c = made(partitioner=tf.distribute.experimental.partitioners.FixedShardsPartitioner(2))
    with c.strategy.scope():
        model = network()
    assert [v.shape.as_list() for v in model.weights] == [[2, 1], [2, 1], [1]]
    data = creator(lambda context: tf.data.Dataset.from_tensor_slices((X, Y)).shuffle(96).repeat().batch(
        context.get_per_replica_batch_size(24)))
    history = model.fit(data, epochs=15, steps_per_epoch=10, verbose=0, validation_data=data, validation_steps=4).history
    assert history["loss"][-1] < 0.1 * history["loss"][0] and len(history["val_mae"]) == 15
    assert int(model.optimizer.iterations.numpy()) == 150
    again = tf.data.Dataset.from_tensor_slices((X, Y)).repeat().batch(24)
    assert model.fit(again, epochs=1, steps_per_epoch=5, verbose=0).history["loss"][0] < history["loss"][1]
    few = model.fit(tf.data.Dataset.from_tensor_slices((X, Y)).batch(48), epochs=1, steps_per_epoch=50, verbose=0)
    assert len(few.history["loss"]) == 1 and c.coordinator.done()            # it ran out of data, and says so
    np.testing.assert_allclose(model.evaluate(X, Y, verbose=0)[1], np.abs(model.predict(X) - Y).mean(), rtol=1e-4)
    with pytest.raises(ValueError, match="steps_per_epoch"):
        model.fit(data, epochs=1)
    with pytest.raises(ValueError, match="keys from 0"):
        model.fit(data, steps_per_epoch=1, class_weight={1: 1.0})


def test_weights_of_classes_in_datasets_that_workers_make(made):  # noqa: F811
    """As for arrays on one device."""
    classes = (X[:, :1] > 0).astype(np.float32)
    alone = network().fit(X, classes, batch_size=24, epochs=3, shuffle=False, verbose=0, class_weight={0: 0.5, 1: 3.0}).history
    c = made(worker=1)
    with c.strategy.scope():
        model = network()
    data = creator(lambda context: tf.data.Dataset.from_tensor_slices((X, classes)).repeat().batch(24))
    found = model.fit(data, epochs=3, steps_per_epoch=4, verbose=0, class_weight={0: 0.5, 1: 3.0}).history
    np.testing.assert_allclose(found["loss"], alone["loss"], rtol=1e-4)


def test_a_worker_is_lost_and_comes_back_while_a_model_is_fitted(made):  # noqa: F811
    """All steps are taken, callbacks see every epoch, and what is measured afterwards is that of the fitted model."""
    c = made()
    with c.strategy.scope():
        model = network()

    class Loses(tf.keras.callbacks.Callback):
        epochs = []

        def on_epoch_begin(self, epoch, logs=None):
            if epoch == 1:
                c.stop("worker", 0)
            if epoch == 3:
                c.start("worker", 0)

        def on_epoch_end(self, epoch, logs=None):
            self.epochs.append((epoch, sorted(logs)))
    data = creator(lambda context: tf.data.Dataset.from_tensor_slices((X, Y)).shuffle(96).repeat().batch(24))
    history = model.fit(data, epochs=5, steps_per_epoch=10, verbose=0, validation_data=data, validation_steps=2,
                        callbacks=[Loses()]).history
    assert Loses.epochs == [(i, ["loss", "mae", "val_loss", "val_mae"]) for i in range(5)]
    assert history["loss"][-1] < history["loss"][0]
    assert 50 <= int(model.optimizer.iterations.numpy()) <= 54              # what the lost one had begun may count twice
    whole = creator(lambda context: tf.data.Dataset.from_tensor_slices((X, Y)).repeat().batch(96))
    loss, _ = model.evaluate(whole, steps=4, verbose=0)
    assert loss == pytest.approx(((model.predict(X) - Y) ** 2).mean(), rel=1e-3)


def test_a_dataset_creator_without_a_coordinator():
    data = creator(lambda context: tf.data.Dataset.from_tensor_slices((X, Y)).repeat().batch(24))
    assert network().fit(data, epochs=3, steps_per_epoch=10, verbose=0).history["loss"][-1] < 8.0
    with pytest.raises(TypeError, match="callable"):
        creator(3)
    with pytest.raises(TypeError, match="must return a Dataset"):
        creator(lambda context: 3)(None)


def test_a_step_of_ones_own(made):  # noqa: F811
    class Model(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = tf.keras.layers.Dense(1, kernel_initializer="zeros")

        def call(self, x):
            return self.dense(x)

        def train_step(self, data):
            x, y = data
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((self(x) - y) ** 2)
            self.optimizer.apply_gradients(zip(tape.gradient(loss, self.trainable_variables), self.trainable_variables))
            return {"own": loss}
    c = made()
    with c.strategy.scope():
        model = Model()
        model.compile(tf.keras.optimizers.SGD(0.1))
    seen = []
    history = model.fit(X, Y, batch_size=24, epochs=5, verbose=0, callbacks=[
        tf.keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(logs["own"]))]).history
    assert history["own"] == seen and seen[-1] < seen[0]


def test_checkpoints_move_between_shards_and_none(made, tmp_path):  # noqa: F811
    """Weights and what the optimizer keeps beside them."""
    c = made(worker=1, partitioner=tf.distribute.experimental.partitioners.FixedShardsPartitioner(2))
    with c.strategy.scope():
        model = network()
    model.fit(X, Y, batch_size=24, epochs=2, verbose=0, shuffle=False)
    path = tf.train.Checkpoint(model=model, optimizer=model.optimizer).write(str(tmp_path / "c"))
    whole = network()
    tf.train.Checkpoint(model=whole, optimizer=whole.optimizer).read(path)
    np.testing.assert_allclose(whole.predict(X), model.predict(X), rtol=1e-5, atol=1e-6)
    for m in (model, whole):                                               # the same moments: the same next steps
        m.fit(X, Y, batch_size=24, epochs=1, verbose=0, shuffle=False)
    np.testing.assert_allclose(whole.predict(X), model.predict(X), rtol=1e-4, atol=1e-5)
    back = tf.train.Checkpoint(model=whole, optimizer=whole.optimizer).write(str(tmp_path / "d"))
    model.fit(X, Y, batch_size=24, epochs=1, verbose=0)
    tf.train.Checkpoint(model=model, optimizer=model.optimizer).read(back)
    np.testing.assert_allclose(model.predict(X), whole.predict(X), rtol=1e-5, atol=1e-6)


def test_the_example_goes_on_from_its_checkpoint(made, tmp_path):  # noqa: F811
    example = load("coordinated")
    c = made()
    accuracy, began = example.train(c.strategy, steps=60, folder=str(tmp_path), save_steps=30)
    assert began == 0 and accuracy > 0.3
    accuracy, began = example.train(c.strategy, steps=180, folder=str(tmp_path), save_steps=120)
    assert began == 60 and accuracy > 0.6


def test_the_page(made, monkeypatch):  # noqa: F811
    """The program of docs/coordinator.md, in the chief."""
    c = made()
    spec = {**c.spec, **addresses(chief=1)}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": spec, "task": {"type": "chief", "index": 0}}))
    page = ROOT / "docs" / "coordinator.md"
    names: dict = {}
    exec(compile(page.read_text().split("```python\n")[1].split("```")[0], str(page), "exec"), names)
    np.testing.assert_allclose(names["w"].numpy(), [[1.0], [2.0], [3.0]], atol=0.3)
