"""Monitored sessions: hooks around steps, checkpoints, recovery, threads."""
import numpy as np
import pytest

import penstock.compat.v1 as tf


@pytest.fixture
def counting():
    """A graph whose step adds one to the global step."""
    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        yield tf.assign_add(step, 1)


def test_training_stops_saves_and_goes_on_where_it_was(counting, tmp_path):
    def train(last):
        with tf.train.MonitoredTrainingSession(checkpoint_dir=str(tmp_path), hooks=[tf.train.StopAtStepHook(last_step=last)],
                                               save_checkpoint_steps=2) as sess:
            steps = []
            while not sess.should_stop():
                steps.append(int(sess.run(counting)))
        return steps
    assert train(5) == [1, 2, 3, 4, 5]
    assert tf.train.latest_checkpoint(str(tmp_path)).endswith("model.ckpt-5")
    assert train(7) == [6, 7]
    tags = {v.tag for f in tmp_path.glob("events*") for e in tf.train.summary_iterator(str(f)) for v in e.summary.value}
    assert tags <= {"global_step/sec"} and any(tmp_path.glob("graph.pbtxt"))


def test_a_lost_task_is_survived_from_the_last_checkpoint(counting, tmp_path):
    class Lose(tf.train.SessionRunHook):
        lost = False

        def before_run(self, run_context):
            if not self.lost and run_context.session.run(tf.train.get_global_step()) == 3:
                self.lost = True
                raise tf.errors.AbortedError(None, None, "a task has gone")

    hooks = [Lose(), tf.train.StopAtStepHook(last_step=6)]
    with tf.train.MonitoredTrainingSession(checkpoint_dir=str(tmp_path), save_checkpoint_steps=2, hooks=hooks) as sess:
        steps = []
        while not sess.should_stop():
            steps.append(int(sess.run(counting)))
    assert steps == [1, 2, 3, 3, 4, 5, 6] and hooks[0].lost


def test_hooks_fetch_feed_and_see_results(counting):
    x = tf.placeholder(tf.float32)
    seen = []

    class Watch(tf.train.SessionRunHook):
        def before_run(self, run_context):
            return tf.train.SessionRunArgs(double)

        def after_run(self, run_context, run_values):
            seen.append(run_values.results)
            run_context.request_stop()

    double = x * 2.0
    feed = tf.train.FeedFnHook(lambda: {x: 3.0})
    with tf.train.MonitoredSession(hooks=[Watch(), feed]) as sess:
        assert sess.run(x) == 3.0 and sess.should_stop()
        with pytest.raises(RuntimeError, match="should_stop"):
            sess.run(x)
    assert seen == [6.0]
    with tf.train.MonitoredSession(hooks=[feed]) as sess, pytest.raises(RuntimeError, match="SessionRunHook and user"):
        sess.run(x, {x: 1.0})


def test_nan_losses_end_the_training(counting):
    loss = tf.log(tf.cast(counting, tf.float32) * -1.0)
    with pytest.raises(tf.train.NanLossDuringTrainingError), \
            tf.train.MonitoredSession(hooks=[tf.train.NanTensorHook(loss)]) as sess:
        sess.run(loss)


def test_a_worker_waits_for_the_chief_and_gives_up_in_time(counting):
    scaffold = tf.train.Scaffold(ready_op=tf.report_uninitialized_variables())
    creator = tf.train.WorkerSessionCreator(scaffold, max_wait_secs=0)
    creator._session_manager = None
    with pytest.raises(tf.errors.DeadlineExceededError, match="not ready after waiting 0 secs"):
        tf.train.MonitoredSession(creator)


def test_logged_tensors(counting, caplog):
    value = tf.constant(np.float32(1.5), name="value")
    tf.logging.set_verbosity(tf.logging.INFO)
    with caplog.at_level("INFO", "tensorflow"), tf.train.MonitoredSession(
            hooks=[tf.train.LoggingTensorHook({"seen": value}, every_n_iter=2)]) as sess:
        for _ in range(4):
            sess.run(counting)
    assert sum("seen = 1.5" in r.getMessage() for r in caplog.records) == 2
