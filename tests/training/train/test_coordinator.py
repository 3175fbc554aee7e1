"""Threads that end together."""
import threading

import pytest

import penstock.compat.v1 as tf


def start(function, *args):
    t = threading.Thread(target=function, args=args, daemon=True)
    t.start()
    return t


def test_stopping():
    coord = tf.train.Coordinator()
    threads = [start(coord.wait_for_stop) for _ in range(3)]
    assert not coord.should_stop()
    coord.request_stop()
    coord.join(threads)
    assert coord.joined and coord.should_stop()
    coord.clear_stop()
    assert not coord.joined and not coord.should_stop()


def test_joining_ends_with_the_threads():
    coord, over = tf.train.Coordinator(), threading.Event()
    thread = start(over.wait, 60)
    joins = start(coord.join, [thread])
    assert not coord.joined
    over.set()
    joins.join(60)
    assert coord.joined and not thread.is_alive()


def test_the_first_error_is_raised_where_the_threads_are_joined():
    coord = tf.train.Coordinator()

    def fail():
        with coord.stop_on_exception():
            raise ValueError("the reason")
    t = start(fail)
    t.join()
    coord.request_stop(KeyError("later"))
    with pytest.raises(ValueError, match="the reason") as info:
        coord.join([t])
    assert info.traceback[-1].name == "fail"
    with pytest.raises(ValueError, match="the reason"):
        coord.raise_requested_exception()


def test_the_end_of_input_is_no_error():
    coord = tf.train.Coordinator()
    coord.request_stop(tf.errors.OutOfRangeError(None, None, "end"))
    coord.join([])
    coord = tf.train.Coordinator(clean_stop_exception_types=(KeyError,))
    coord.request_stop(KeyError())
    coord.join([])


def test_threads_that_do_not_end():
    coord, release = tf.train.Coordinator(), threading.Event()
    t = start(release.wait)
    coord.request_stop()
    with pytest.raises(RuntimeError, match="threads still running"):
        coord.join([t], stop_grace_period_secs=0.05)
    coord.clear_stop()
    coord.request_stop()
    coord.join([t], stop_grace_period_secs=0.05, ignore_live_threads=True)
    release.set()
    t.join()


def test_an_error_after_joining_is_raised_at_once():
    coord = tf.train.Coordinator()
    coord.join([])
    with pytest.raises(ValueError, match="late"):
        coord.request_stop(ValueError("late"))


def test_looper():
    coord, turns = tf.train.Coordinator(), []

    def turn(x):
        turns.append(x)
        if len(turns) == 3:
            coord.request_stop()
    tf.train.LooperThread.loop(coord, 0.001, target=turn, args=("x",))
    coord.join()
    assert turns == ["x"] * 3
    with pytest.raises(ValueError, match="must be a Coordinator"):
        tf.train.LooperThread(None, 1)


def test_what_ends_a_thread_that_fills_a_queue_is_raised():
    """SystemExit, too, or others would wait for the queue."""
    def exits():
        raise SystemExit(3)
    with tf.Graph().as_default(), tf.Session() as sess:
        queue = tf.FIFOQueue(2, tf.float32, ())
        tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(tf.py_func(exits, [], tf.float32))]))
        taken, coord = queue.dequeue(), tf.train.Coordinator()
        threads = tf.train.start_queue_runners(sess, coord)
        with pytest.raises(tf.errors.OutOfRangeError):
            sess.run(taken)
        with pytest.raises(SystemExit):
            coord.join(threads)
