"""The system clock is set back an hour: waits and measured seconds are not affected."""
import ast
import pathlib
import time

import pytest

import penstock
import penstock.compat.v1 as tf
from penstock._src.base import clock

# Modules that write dates for people and other programs (events, names of folders, tf.timestamp), or compare those of files.
DATES = {"base/clock.py", "compat/programs/inside/pywrap.py", "io/events.py", "io/hdf5_guard.py",
         "models/estimator/estimator.py", "ops/control/print.py", "ops/io/summary_writer.py", "serving/request_log.py",
         "tools/demo.py", "training/summary/file_writer.py", "execute/trace.py"}


def wall_clock_calls(tree):
    names = {"time", "time_ns", "clock"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in names and ast.unparse(node.value) == "time":
            yield node.lineno
        if isinstance(node, ast.ImportFrom) and node.module == "time" and names & {a.name for a in node.names}:
            yield node.lineno


def test_intervals_are_not_measured_with_the_wall_clock():
    root = pathlib.Path(penstock.__file__).parent / "_src"
    found = {str(p.relative_to(root)): list(wall_clock_calls(ast.parse(p.read_text()))) for p in sorted(root.rglob("*.py"))}
    wrong = {p: lines for p, lines in found.items() if lines and p not in DATES}
    assert not wrong, f"use time.monotonic, or base/clock.py: {wrong}"
    assert all(found[p] for p in DATES), "a module that is listed does not read the clock any longer"


@pytest.fixture
def back_by_an_hour(monkeypatch):
    """A function that sets the clock back; what is monotonic continues, by as many seconds as are requested."""
    wall, even, passed = time.time, time.monotonic, [0.0]

    def set_back(seconds):
        passed[0] += seconds
        monkeypatch.setattr(time, "time", lambda: wall() - 3600)
    monkeypatch.setattr(time, "monotonic", lambda: even() + passed[0])
    return set_back


def test_timers_of_hooks_go_on(back_by_an_hour):
    timer = tf.train.SecondOrStepTimer(every_secs=600)
    timer.update_last_triggered_step(1)
    assert not timer.should_trigger_for_step(2)
    back_by_an_hour(601)
    assert timer.should_trigger_for_step(2)
    seconds, steps = timer.update_last_triggered_step(2)
    assert 601 <= seconds < 700 and steps == 1


def test_checkpoints_are_still_saved(back_by_an_hour, tmp_path):
    tf.disable_v2_behavior()
    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        more = tf.assign_add(step, 1)
        hook = tf.train.CheckpointSaverHook(str(tmp_path), save_secs=600)
        with tf.train.SingularMonitoredSession(hooks=[hook]) as sess:
            sess.run(more)
            back_by_an_hour(601)
            sess.run(more)
            assert tf.train.latest_checkpoint(str(tmp_path)).endswith("-2")


def test_checkpoints_that_are_kept_for_hours_are(back_by_an_hour, tmp_path):
    """One checkpoint per half an hour is kept, also after the clock was set back."""
    tf.disable_v2_behavior()
    with tf.Graph().as_default(), tf.Session() as sess:
        tf.get_variable("v", [])
        sess.run(tf.global_variables_initializer())
        saver = tf.train.Saver(max_to_keep=1, keep_checkpoint_every_n_hours=0.5)
        saver.save(sess, str(tmp_path / "m"), global_step=1)
        back_by_an_hour(1801)
        for step in (2, 3, 4):
            saver.save(sess, str(tmp_path / "m"), global_step=step)
    assert [tf.train.checkpoint_exists(str(tmp_path / f"m-{i}")) for i in (1, 2, 3, 4)] == [False, True, False, True]


def test_a_manager_keeps_checkpoints_for_hours(back_by_an_hour, tmp_path):
    tf.enable_v2_behavior()
    manager = penstock.train.CheckpointManager(penstock.train.Checkpoint(v=penstock.Variable(1.)), str(tmp_path), 1, 0.5)
    manager.save()
    back_by_an_hour(1801)
    for _ in range(3):
        manager.save()
    assert [tf.train.checkpoint_exists(str(tmp_path / f"ckpt-{i}")) for i in (1, 2, 3, 4)] == [False, True, False, True]


def test_steady_time_is_the_time_of_day():
    assert abs(clock.steady() - time.time()) < 24 * 3600
