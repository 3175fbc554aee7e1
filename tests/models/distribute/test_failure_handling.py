"""PreemptionCheckpointHandler: SIGTERM, or a function, ends training after a checkpoint; the next start continues."""
import os
import signal
import threading

import pytest

import penstock as tf

Config = tf.distribute.experimental.TerminationConfig


class Exited(Exception):
    pass


def leave():
    raise Exited


def handler(folder, variable, **config):
    return tf.distribute.experimental.PreemptionCheckpointHandler(
        None, tf.train.Checkpoint(v=variable), str(folder), Config(exit_fn=leave, **config))


def test_sigterm_saves_and_the_next_start_continues(tmp_path):
    before, v = signal.getsignal(signal.SIGTERM), tf.Variable(0.0)
    here = handler(tmp_path, v)

    def step(i):
        v.assign_add(1.0)
        if i == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return i
    assert here.run(step, 0) == 0 and here.run(step, 1) == 1
    with pytest.raises(Exited):
        here.run(step, 2)
    assert signal.getsignal(signal.SIGTERM) is before
    again = tf.Variable(-1.0)
    next_start = handler(tmp_path, again)
    try:
        assert next_start.total_run_calls == 3 and again.numpy() == 3.0
    finally:
        next_start.close()


def test_a_function_announces_the_end(tmp_path):
    called, saved = threading.Event(), []

    def near():
        called.set()
        return True
    here = handler(tmp_path, tf.Variable(0.0), termination_watcher_fn=near, save_fn=lambda **k: saved.append(k))
    assert called.wait(60)
    with pytest.raises(Exited), here.watch_preemption_scope():
        with pytest.raises(NotImplementedError):
            _ = here.total_run_calls
        while here._notice is None:
            called.wait(0.01)
    assert saved == [{}]


def test_a_grace_period_lets_training_continue(tmp_path):
    here = handler(tmp_path, tf.Variable(0.0), grace_period=3600)
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        assert here.run(lambda: 7) == 7
    finally:
        here.close()


def test_arguments(tmp_path):
    with pytest.raises(tf.errors.InvalidArgumentError, match="checkpoint_dir"):
        tf.distribute.experimental.PreemptionCheckpointHandler(None, tf.train.Checkpoint(v=tf.Variable(0.0)))
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({"worker": ["a:1", "b:2"]}), task_type="worker", task_id=0)
    with pytest.raises(tf.errors.UnimplementedError, match="BackupAndRestore"):
        tf.distribute.experimental.PreemptionCheckpointHandler(resolver, tf.train.Checkpoint(), str(tmp_path))


def test_watcher():
    before = signal.getsignal(signal.SIGTERM)
    try:
        watcher = tf.distribute.experimental.PreemptionWatcher()
        assert watcher.preemption_message is None
        os.kill(os.getpid(), signal.SIGTERM)
        assert "SIGTERM" in watcher.preemption_message
    finally:
        signal.signal(signal.SIGTERM, before)


def test_older_and_smaller_names():
    hints = tf.distribute.experimental.CollectiveHints(bytes_per_pack=3, timeout_seconds=4.0)
    assert isinstance(hints, tf.distribute.experimental.CommunicationOptions) and hints.bytes_per_pack == 3
    options = tf.distribute.RunOptions()
    assert options.experimental_enable_dynamic_batch_size
    assert tf.distribute.OneDeviceStrategy("/cpu:0").run(lambda x: x + 1, args=(1,), options=options) == 2
