"""Incremental checkpoints of embedding variables: what they contain, restores, and kills while they are written."""
import os
import subprocess
import sys

import numpy as np
import pytest

import penstock as tf
from penstock.compat import v1

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def _model(parts=1):
    table = v1.get_embedding_variable("table", 2, initializer=v1.constant_initializer(0.0),
                                      partitioner=v1.fixed_size_partitioner(parts) if parts > 1 else None)
    keys = v1.placeholder(tf.int64, [None])
    loss = -tf.reduce_sum(v1.nn.embedding_lookup(table, keys))
    train = v1.train.AdagradOptimizer(1.0).minimize(loss, v1.train.get_or_create_global_step())
    return table, keys, train


def test_an_increment_has_the_rows_that_changed(tmp_path):
    with v1.Graph().as_default(), v1.Session() as sess:
        table, keys, train = _model()
        saver = v1.train.IncrementalSaver()
        forget = table.remove([3])
        sess.run(v1.global_variables_initializer())
        with pytest.raises(RuntimeError, match="full"):
            saver.incremental_save(sess)
        sess.run(train, {keys: range(100)})
        full = saver.save(sess, str(tmp_path / "model"))
        sess.run(train, {keys: [5, 200]})
        sess.run(forget)
        first = saver.incremental_save(sess)
        second = saver.incremental_save(sess)
    assert sorted(v1.train.load_variable(first, "table-delta-keys")) == [5, 200]
    assert v1.train.load_variable(first, "table-delta-gone").tolist() == [3]
    assert v1.train.load_variable(second, "table-delta-keys").size == 0
    assert os.path.getsize(first + ".data-00000-of-00001") < os.path.getsize(full + ".data-00000-of-00001") / 4


@pytest.mark.parametrize("parts", [1, 3])
def test_a_restore_adds_the_increments_and_training_continues(tmp_path, parts):
    with v1.Graph().as_default(), v1.Session() as sess:
        table, keys, train = _model()
        saver = v1.train.IncrementalSaver()
        sess.run(v1.global_variables_initializer())
        sess.run(train, {keys: range(20)})
        path = saver.save(sess, str(tmp_path / "model"))
        for i in range(3):
            sess.run(train, {keys: [i, 100 + i]})
            sess.run(table.remove([10 + i]))
            saver.incremental_save(sess)
        sess.run(train, {keys: [0, 1]})
        expected = dict(zip(*(t.tolist() for t in sess.run(table.export())), strict=True))
    with v1.Graph().as_default(), v1.Session() as sess:
        table, keys, train = _model(parts)
        saver = v1.train.IncrementalSaver()
        saver.restore(sess, path)
        assert sess.run(v1.train.get_global_step()) == 4
        sess.run(train, {keys: [0, 1]})
        found = dict(zip(*(t.tolist() for t in sess.run(table.export())), strict=True))
        np.testing.assert_allclose([found[k] for k in sorted(expected)], [expected[k] for k in sorted(expected)], rtol=1e-6)
        assert found.keys() == expected.keys()
        fourth = saver.incremental_save(sess)
        assert fourth.endswith("increment-00004")
        stems = ["table"] if parts == 1 else [f"table/part_{i}" for i in range(parts)]
        changed = [k for s in stems for k in v1.train.load_variable(fourth, f"{s}-delta-keys").tolist()]
        assert sorted(changed) == [0, 1]              # restored rows are saved already


def test_increments_leave_with_their_full_checkpoint(tmp_path):
    with v1.Graph().as_default(), v1.Session() as sess:
        _, keys, train = _model()
        saver = v1.train.IncrementalSaver(max_to_keep=1)
        sess.run(v1.global_variables_initializer())
        for i in range(3):
            sess.run(train, {keys: [i]})
            saver.save(sess, str(tmp_path / "model"), global_step=i)
            saver.incremental_save(sess)
    assert sorted(p.name for p in tmp_path.glob("*.index")) == ["model-2.increment-00001.index", "model-2.index"]


def test_nothing_acknowledged_is_lost_when_a_process_is_killed():
    done = subprocess.run([sys.executable, "-m", "tests.state.embeddings.kills", "--rounds", "4", "--seed", "1"],
                          capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing acknowledged was lost" in done.stdout


def test_a_monitored_session_saves_increments(tmp_path, monkeypatch):
    """By a clock that moves a minute each time it is read: an increment after each step but the first."""
    clock = iter(range(0, 10**9, 60))
    monkeypatch.setattr("penstock._src.training.train.hooks.timer.time.monotonic", lambda: next(clock))

    def session(steps):
        with v1.Graph().as_default():
            table, keys, train = _model()
            rows = v1.nn.embedding_lookup(table, keys)
            with v1.train.MonitoredTrainingSession(checkpoint_dir=str(tmp_path), save_checkpoint_steps=1000,
                                                   save_incremental_checkpoint_secs=60) as sess:
                found = sess.run(rows, {keys: range(6)})
                for i in range(steps):
                    sess.run(train, {keys: [i]})
                if steps:
                    raise _Killed
        return found
    with pytest.raises(_Killed):
        session(4)
    assert len(list(tmp_path.glob("*.increment-*.index"))) >= 3
    found = session(0)
    np.testing.assert_array_equal(found[:, 0] != 0, [True, True, True, True, False, False])


class _Killed(BaseException):
    """Ends a session as a kill would: nothing is saved at the end."""
