"""The watchdog reports what a stuck step waits for."""
import logging
import threading

import pytest

import penstock.compat.v1 as tf
from penstock._src.base import errors, waits
from penstock._src.execute import watchdog


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(waits, "PATIENCE", 0.2)


def test_a_stuck_step_is_reported_once_with_its_line_and_who_could_feed_it(quick, caplog):
    with tf.Graph().as_default(), tf.Session() as sess:
        q = tf.FIFOQueue(5, tf.float32, name="inputs")
        q.enqueue(1.0, name="feeder")
        x = q.dequeue(name="taker")
        with caplog.at_level(logging.WARNING, "penstock"), pytest.raises(errors.DeadlineExceededError):
            sess.run(x, options=tf.RunOptions(timeout_in_ms=1500))
    reports = [r.getMessage() for r in caplog.records if "No step" in r.getMessage()]
    assert len(reports) == 1
    for part in ("taker", "test_watchdog.py", "open queue 'inputs' with 0 of at most 5 elements", "feeder"):
        assert part in reports[0]


@pytest.mark.parametrize("wait, text", [
    (lambda: tf.raw_ops.Unstage(dtypes=[tf.float32], shared_name="area", capacity=3),
     "staging area 'area' with 0 of at most 3 elements and 0 bytes"),
    (lambda: tf.raw_ops.MapUnstage(key=tf.constant(1, tf.int64), indices=[0], dtypes=[tf.float32], shared_name="map"),
     "staging area 'map' with 0 elements"),
    (lambda: tf.ConditionalAccumulator(tf.float32, (), shared_name="sum").take_grad(1), "accumulator 'sum'")],
    ids=["area", "map", "accumulator"])
def test_what_a_step_waits_for(quick, caplog, wait, text):
    with tf.Graph().as_default(), tf.Session() as sess, caplog.at_level(logging.WARNING, "penstock"):
        with pytest.raises(errors.DeadlineExceededError):
            sess.run(wait(), options=tf.RunOptions(timeout_in_ms=1500))
    assert any(text in r.getMessage() for r in caplog.records if "No step" in r.getMessage())


def test_a_step_that_waits_while_another_computes_is_not_reported(quick, caplog, monkeypatch):
    looked, report = threading.Event(), watchdog.Wait.report
    monkeypatch.setattr(watchdog.Wait, "report", lambda self: (report(self), looked.set()))
    with tf.Graph().as_default(), tf.Session() as sess:
        q = tf.FIFOQueue(5, tf.float32)
        x, put = q.dequeue(), q.enqueue(1.0)
        computing = threading.Event()

        def compute():
            computing.set()
            assert looked.wait(60)                          # the other step has waited for longer than is usual
            sess.run(put)
            return 0.0
        slow = tf.py_func(compute, [], tf.double)
        working = threading.Thread(target=sess.run, args=(slow,))
        with caplog.at_level(logging.WARNING, "penstock"):
            working.start()
            assert computing.wait(60)
            taking = threading.Thread(target=sess.run, args=(x,))
            taking.start()
            working.join(60)
            taking.join(60)
    assert not taking.is_alive() and not any("No step" in r.getMessage() for r in caplog.records)
