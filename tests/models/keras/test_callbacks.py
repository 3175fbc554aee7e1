"""Callbacks of tf.keras: their calls and effects."""
import csv
import gzip
import json
import os
import re

import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as tf1
from penstock._src.io.events import read_events

K = tf.keras
rng = np.random.RandomState(0)
X, Y = rng.rand(40, 4).astype("f"), rng.rand(40, 1).astype("f")


def model(**kwargs):
    m = K.Sequential([K.layers.Dense(3, input_shape=(4,)), K.layers.Dense(1)])
    m.compile(K.optimizers.SGD(0.1), "mse", **kwargs)
    return m


def counter():
    """A callback that notes which of its hooks are called."""
    told = []

    def hook(name):
        return lambda self, *args, **kwargs: told.append(name)
    hooks = [n for n in dir(K.callbacks.Callback) if n.startswith("on_") and n not in ("on_batch_begin", "on_batch_end")]
    made = type("Counter", (K.callbacks.Callback,), {n: hook(n) for n in hooks})()
    made.told = told
    return made


def test_hooks_are_called_in_order():
    c = counter()
    model().fit(X, Y, batch_size=20, epochs=1, validation_data=(X, Y), callbacks=[c], verbose=0)
    batch = ["on_train_batch_begin", "on_train_batch_end"] * 2
    test = ["on_test_batch_begin", "on_test_batch_end"] * 2
    assert c.told == ["on_train_begin", "on_epoch_begin", *batch, "on_test_begin", *test, "on_test_end", "on_epoch_end",
                     "on_train_end"]


def test_bars_count_steps(capsys):
    m = model(metrics=["mae"])
    m.fit(X, Y, batch_size=10, epochs=2, validation_data=(X, Y))
    out = capsys.readouterr().out
    assert "Epoch 1/2\n" in out and "Epoch 2/2\n" in out
    assert re.search(r"4/4 \[={30}\] - \d+s \d+[mu]?s/step - loss: \d.\d+ - mae: \d.\d+ - val_loss: \d.\d+ - val_mae: \d",
                     out)
    m.fit(X, Y, epochs=1, verbose=2)
    assert re.search(r"^2/2 - \d+s - loss: .* - mae: ", capsys.readouterr().out)
    m.evaluate(X, Y, verbose=1)
    assert "2/2 [====" in capsys.readouterr().out


def test_progbar_shows_eta_and_averages(capsys):
    bar = K.utils.Progbar(4, interval=0, stateful_metrics=["b"])
    bar.update(1, [("a", 1.0), ("b", 5.0)])
    assert "1/4 [======>.......................] - ETA:" in capsys.readouterr().out
    bar.add(3, [("a", 2.0), ("b", 7.0)])
    assert re.search(r"4/4 \[={30}\].* - a: 1.7500 - b: 7.0000 *\n", capsys.readouterr().out)


def test_a_file_gets_one_bar_per_epoch(capsys):
    """What is not a terminal keeps everything that is drawn."""
    m = model()
    m.fit(X, Y, batch_size=2, epochs=2, verbose=1)
    out = capsys.readouterr().out
    assert out.count("[====") == 2 and "\b" not in out and "\r" not in out and "ETA" not in out
    assert [line.split()[0] for line in out.splitlines()] == ["Epoch", f"{len(X) // 2}/{len(X) // 2}"] * 2


def test_early_stopping_and_best_weights():
    m = model()
    values = iter([5.0, 3.0, 4.0, 4.0, 4.0, 1.0])
    weights = []
    m.fit(X, Y, epochs=6, verbose=0, callbacks=[
        K.callbacks.LambdaCallback(on_epoch_end=lambda e, logs: (weights.append(m.get_weights()), logs.update(v=next(values)))),
        K.callbacks.EarlyStopping("v", patience=2, restore_best_weights=True)])
    assert len(weights) == 4
    for a, b in zip(m.get_weights(), weights[1], strict=True):
        np.testing.assert_array_equal(a, b)


def test_rates_change():
    m = model()
    h = m.fit(X, Y, epochs=3, verbose=0, callbacks=[K.callbacks.LearningRateScheduler(lambda e: 1.0 / (e + 1))])
    np.testing.assert_allclose(h.history["lr"], [1, 0.5, 1 / 3], rtol=1e-6)
    m = model()
    K.backend.set_value(m.optimizer.lr, 0.1)
    m.fit(X, Y, epochs=4, verbose=0, callbacks=[
        K.callbacks.LambdaCallback(on_epoch_end=lambda e, logs: logs.update(v=1.0)),
        K.callbacks.ReduceLROnPlateau("v", factor=0.5, patience=1, cooldown=1)])
    np.testing.assert_allclose(K.backend.get_value(m.optimizer.lr), 0.0125, rtol=1e-6)
    with pytest.raises(ValueError, match="float"):
        m.fit(X, Y, verbose=0, callbacks=[K.callbacks.LearningRateScheduler(lambda e: "fast")])


def test_nan_ends_training():
    m = model()
    h = m.fit(X, Y * np.nan, epochs=3, verbose=0, callbacks=[K.callbacks.TerminateOnNaN()])
    assert len(h.epoch) == 1


def test_checkpoints_and_files(tmp_path):
    m = model()
    m.fit(X, Y, epochs=2, batch_size=10, verbose=0, callbacks=[
        K.callbacks.ModelCheckpoint(str(tmp_path / "w{epoch}.h5"), save_weights_only=True),
        K.callbacks.ModelCheckpoint(str(tmp_path / "b{epoch}-{batch}.h5"), save_weights_only=True, save_freq=3),
        K.callbacks.CSVLogger(str(tmp_path / "log.csv"))])
    assert sorted(f for f in os.listdir(tmp_path) if f.endswith("h5")) == ["b1-3.h5", "b2-2.h5", "w1.h5", "w2.h5"]
    other = model()
    other.load_weights(str(tmp_path / "w2.h5"))
    np.testing.assert_array_equal(other.get_weights()[0], m.get_weights()[0])
    with open(tmp_path / "log.csv", newline="") as f:
        rows = list(csv.DictReader(f))
    assert [r["epoch"] for r in rows] == ["0", "1"] and float(rows[1]["loss"]) > 0
    find = K.callbacks.ModelCheckpoint(None)._get_most_recently_modified_file_matching_pattern
    assert find(str(tmp_path / "w{epoch}.h5")) == str(tmp_path / "w2.h5") and find(str(tmp_path / "no" / "x{epoch}")) is None


def test_a_log_on_another_file_system_is_continued():
    """`memory://` is one; errors of writing are those of files everywhere."""
    log = "memory://test_callbacks/log.csv"
    for append in (False, True):
        model().fit(X, Y, epochs=2, verbose=0, callbacks=[K.callbacks.CSVLogger(log, append=append)])
    with tf.io.gfile.GFile(log) as f:
        assert [row["epoch"] for row in csv.DictReader(f.read().splitlines())] == ["0", "1", "0", "1"]
    with pytest.raises(tf.errors.ResourceExhaustedError):
        model().fit(X, Y, verbose=0, callbacks=[K.callbacks.CSVLogger("/dev/full")])


def test_log_has_columns_for_validation_that_comes_later(tmp_path):
    model().fit(X, Y, epochs=2, verbose=0, validation_data=(X, Y), validation_freq=2,
                callbacks=[K.callbacks.CSVLogger(str(tmp_path / "log.csv"))])
    with open(tmp_path / "log.csv", newline="") as f:
        first, second = csv.DictReader(f)
    assert first["val_loss"] == "NA" and float(second["val_loss"]) > 0


def test_best_only(tmp_path, capsys):
    m, values = model(), iter([3.0, 4.0, 2.0])
    m.fit(X, Y, epochs=3, verbose=0, callbacks=[
        K.callbacks.LambdaCallback(on_epoch_end=lambda e, logs: logs.update(v=next(values))),
        K.callbacks.ModelCheckpoint(str(tmp_path / "{epoch}.h5"), "v", save_best_only=True, save_weights_only=True, verbose=1)])
    assert sorted(os.listdir(tmp_path)) == ["1.h5", "3.h5"]
    assert "v did not improve from 3.00000" in capsys.readouterr().out


def test_backup_goes_on_after_an_interruption(tmp_path):
    def backup():
        return K.callbacks.BackupAndRestore(str(tmp_path / "b"))

    class Fails(K.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            if epoch == 2:
                raise RuntimeError("power cut")
    K.backend.clear_session()
    m = model()
    with pytest.raises(RuntimeError, match="power cut"):
        m.fit(X, Y, epochs=5, verbose=0, callbacks=[backup(), Fails()])
    cut = m.get_weights()
    again, seen = model(), []
    again.fit(X, Y, epochs=5, verbose=0, callbacks=[
        backup(), K.callbacks.LambdaCallback(on_epoch_begin=lambda e, logs: seen.append((e, again.get_weights()[0])))])
    assert [e for e, _ in seen] == [2, 3, 4]
    np.testing.assert_array_equal(seen[0][1], cut[0])
    assert not os.path.exists(tmp_path / "b")


def test_tensorboard_writes_metrics_and_weights(tmp_path):
    model().fit(X, Y, epochs=2, batch_size=20, verbose=0, validation_data=(X, Y),
                callbacks=[K.callbacks.TensorBoard(str(tmp_path), histogram_freq=1, update_freq=1)])
    found = {}
    for run in os.listdir(tmp_path):
        for name in os.listdir(tmp_path / run):
            for event in read_events(str(tmp_path / run / name)):
                for v in event.summary.value:
                    found.setdefault((run, v.tag.split("/")[0] if "kernel" in v.tag else v.tag), []).append(event.step)
    assert found["train", "epoch_loss"] == [0, 1] and found["validation", "epoch_loss"] == [0, 1]
    assert found["train", "batch_loss"] == [1, 2, 3, 4] and ("train", "keras") in found
    with pytest.raises(ValueError, match="Unrecognized arguments"):
        K.callbacks.TensorBoard(wwrite_images=True)


@pytest.mark.parametrize("batches, steps", [((2, 3), 2), ("2,3", 2), (4, 1), ((3, 100), 6)])
def test_tensorboard_profiles_batches(tmp_path, batches, steps):
    """The trace has the steps of these batches, over the borders of epochs; a range past the end stops at the end."""
    model = K.Sequential([K.Input((2,)), K.layers.Dense(1)])
    model.compile("sgd", "mse")

    class Marked(K.callbacks.Callback):
        """Names every batch in the trace."""

        def on_train_batch_begin(self, batch, logs=None):
            self.block = tf.profiler.experimental.Trace("one_batch")
            self.block.__enter__()

        def on_train_batch_end(self, batch, logs=None):
            self.block.__exit__(None, None, None)

    model.fit(np.ones([8, 2]), np.ones([8, 1]), 2, epochs=2, verbose=0,
              callbacks=[K.callbacks.TensorBoard(str(tmp_path), profile_batch=batches), Marked()])
    trace, = tmp_path.glob("plugins/profile/*/*.trace.json.gz")
    events = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
    assert sum(e.get("name") == "one_batch" and e.get("cat") == "user_annotation" for e in events) == steps


@pytest.mark.parametrize("batches", [-1, (3, 2), (1, 2, 3), "a"])
def test_tensorboard_refuses_batches_to_profile(batches):
    with pytest.raises(ValueError):
        K.callbacks.TensorBoard(profile_batch=batches)


def test_tensorboard_of_1x_writes_one_file(tmp_path):
    board = tf1.keras.callbacks.TensorBoard(str(tmp_path), update_freq=2, write_graph=False, profile_batch=0)
    model().fit(X, Y, epochs=2, batch_size=20, verbose=0, validation_data=(X, Y), callbacks=[board])
    name, = os.listdir(tmp_path)
    found = {}
    for event in read_events(str(tmp_path / name)):
        for v in event.summary.value:
            found.setdefault(v.tag, []).append(event.step)
    steps = len(X) // 20
    assert found["epoch_loss"] == found["epoch_val_loss"] == [steps, 2 * steps]        # 2.x does not tell the size of batches
    assert found["batch_loss"] == [1, 3]


def test_steps_without_batch_hooks_tell_nobody():
    plain = K.callbacks.CallbackList([K.callbacks.EarlyStopping()], add_history=True, model=model())
    assert not plain._should_call_train_batch_hooks
    assert K.callbacks.CallbackList([K.callbacks.TerminateOnNaN()])._should_call_train_batch_hooks
    assert K.callbacks.CallbackList([K.callbacks.LambdaCallback(on_batch_end=print)])._should_call_train_batch_hooks


def test_subclass_of_model_checkpoint_calls_its_parts(tmp_path):
    """Callbacks of other libraries override `on_train_batch_end` and call these methods by keyword."""
    class Logged(tf.keras.callbacks.ModelCheckpoint):
        saved: list = []

        def on_train_batch_end(self, batch, logs=None):
            if self._should_save_on_batch(batch):
                self._save_model(epoch=self._current_epoch, batch=batch, logs=logs)
                self.saved.append(self._get_file_path(epoch=self._current_epoch, batch=batch, logs=logs))
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    callback = Logged(str(tmp_path / "m-{epoch}-{batch}.weights.h5"), save_freq=2, save_weights_only=True)
    model.fit(np.ones((10, 2)), np.ones(10), batch_size=2, verbose=0, callbacks=[callback])
    assert [p.rsplit("/", 1)[1] for p in callback.saved] == ["m-1-2.weights.h5", "m-1-4.weights.h5"]
    assert all(os.path.exists(p) for p in callback.saved)


def test_logs_at_the_beginning_are_empty():
    seen = []
    names = [f"on_{what}_{when}" for what in ("train", "test", "predict") for when in ("begin", "end")]
    callback = type("Seen", (tf.keras.callbacks.Callback,), {
        name: lambda self, logs=None, name=name: seen.append((name, logs if name.endswith("begin") else type(logs)))
        for name in names})()
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(2,))])
    model.compile("sgd", "mse")
    model.fit(np.ones((2, 2)), np.ones(2), verbose=0, callbacks=[callback])
    model.predict(np.ones((2, 2)), verbose=0, callbacks=[callback])
    assert seen == [("on_train_begin", {}), ("on_train_end", dict), ("on_predict_begin", {}), ("on_predict_end", dict)]
