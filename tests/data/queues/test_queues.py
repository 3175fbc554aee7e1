"""Queues in sessions: order, blocking, closing, cancelling, time-outs."""
import numpy as np
import pytest

import penstock.compat.v1 as tf

from .threads import Worker, until, waits

pytestmark = pytest.mark.usefixtures("graph")
CLOSED = "is closed and has insufficient elements"


def test_tuples_come_out_as_they_went_in(sess):
    q = tf.FIFOQueue(10, [tf.int32, tf.string], shapes=[[2], []])
    sess.run(q.enqueue([[1, 2], "a"]))
    sess.run(q.enqueue_many([[[3, 4], [5, 6]], ["b", "c"]]))
    assert sess.run(q.size()) == 3
    n, s = sess.run(q.dequeue())
    assert n.tolist() == [1, 2] and s == b"a"
    n, s = sess.run(q.dequeue_many(2))
    assert n.tolist() == [[3, 4], [5, 6]] and s.tolist() == [b"b", b"c"]


def test_names_make_dictionaries(sess):
    q = tf.FIFOQueue(10, [tf.int32, tf.float32], shapes=[[], []], names=["i", "f"])
    sess.run(q.enqueue({"i": 1, "f": 0.5}))
    assert sess.run(q.dequeue()) == {"i": 1, "f": 0.5}
    with pytest.raises(ValueError, match="do not match names"):
        q.enqueue({"i": 1})


def test_fed_arrays_are_copied(sess):
    q = tf.FIFOQueue(2, tf.float32, shapes=[[2]])
    x = tf.placeholder(tf.float32, [2])
    fed = np.ones(2, np.float32)
    sess.run(q.enqueue(x), {x: fed})
    fed[:] = 7
    assert sess.run(q.dequeue()).tolist() == [1, 1]


def test_a_full_queue_holds_the_producer_back(sess):
    q = tf.FIFOQueue(2, tf.int32, shapes=[[]])
    put, take, size = q.enqueue_many([[1, 2, 3]]), q.dequeue(), q.size()
    producer = Worker(sess.run, put)
    until(lambda: sess.run(size) == 2)
    assert waits(producer)
    assert sess.run(take) == 1
    producer.result()
    assert [sess.run(take), sess.run(take)] == [2, 3]


def test_dequeue_many_may_ask_for_more_than_fit(sess):
    q = tf.FIFOQueue(2, tf.int32, shapes=[[]])
    put, take = q.enqueue_many([np.arange(10)]), q.dequeue_many(10)
    consumer = Worker(sess.run, take)
    sess.run(put)
    assert consumer.result().tolist() == list(range(10))


def test_the_end_of_a_closed_queue(sess):
    q = tf.FIFOQueue(10, tf.int32, shapes=[[]])
    sess.run(q.enqueue_many([[1, 2, 3]]))
    sess.run(q.close())
    assert sess.run(q.is_closed())
    with pytest.raises(tf.errors.CancelledError, match="is closed"):
        sess.run(q.enqueue(4))
    with pytest.raises(tf.errors.OutOfRangeError, match=f"{CLOSED} .requested 4, current size 3"):
        sess.run(q.dequeue_many(4))
    assert sess.run(q.dequeue_up_to(2)).tolist() == [1, 2]
    assert sess.run(q.dequeue_up_to(2)).tolist() == [3]
    with pytest.raises(tf.errors.OutOfRangeError, match=CLOSED):
        sess.run(q.dequeue())


def test_closing_waits_for_pending_enqueues_or_cancels_them(sess):
    for cancel in (False, True):
        q = tf.FIFOQueue(1, tf.int32, shapes=[[]])
        first, second, close, take = q.enqueue(1), q.enqueue(2), q.close(cancel), q.dequeue()
        sess.run(first)
        producer = Worker(sess.run, second)
        assert waits(producer)
        closer = Worker(sess.run, close)
        if cancel:
            assert isinstance(producer.error(), tf.errors.CancelledError)
            assert sess.run(take) == 1
        else:
            assert waits(closer)
            assert [sess.run(take), sess.run(take)] == [1, 2]
        closer.result()
        with pytest.raises(tf.errors.OutOfRangeError):
            sess.run(take)


def test_a_step_that_times_out_takes_nothing(sess):
    q = tf.FIFOQueue(10, tf.int32, shapes=[[]])
    take, size, put = q.dequeue_many(3), q.size(), q.enqueue_many([[1, 2]])
    sess.run(put)
    with pytest.raises(tf.errors.DeadlineExceededError):
        sess.run(take, options=tf.RunOptions(timeout_in_ms=50))
    assert sess.run(size) == 2
    assert sess.run(q.dequeue()) == 1                     # and the order is as before


def test_the_time_out_of_a_session(graph):
    q = tf.FIFOQueue(10, tf.int32)
    with tf.Session(config=tf.ConfigProto(operation_timeout_in_ms=30)) as sess, \
            pytest.raises(tf.errors.DeadlineExceededError):
        sess.run(q.dequeue())


def test_closing_the_session_ends_what_waits(graph):
    q = tf.FIFOQueue(10, tf.int32)
    take = q.dequeue()
    sess = tf.Session()
    consumer = Worker(sess.run, take)
    assert waits(consumer)
    sess.close()
    assert isinstance(consumer.error(), tf.errors.CancelledError)


def test_a_failing_step_gives_back_what_it_took(sess):
    """One of two dequeues of a step has its elements, the other waits when the step is cancelled by its deadline."""
    a, b = tf.FIFOQueue(10, tf.int32, shapes=[[]]), tf.FIFOQueue(10, tf.int32, shapes=[[]])
    both = [a.dequeue_many(2), b.dequeue_many(2)]
    sess.run([a.enqueue(1), b.enqueue(2)])
    with pytest.raises(tf.errors.DeadlineExceededError):
        sess.run(both, options=tf.RunOptions(timeout_in_ms=100))
    assert sess.run([a.size(), b.size()]) == [1, 1]


def test_enqueue_and_dequeue_in_one_step(sess):
    q = tf.FIFOQueue(1, tf.int32, shapes=[[]])
    assert sess.run([q.dequeue(), q.enqueue(5)], options=tf.RunOptions(timeout_in_ms=20000))[0] == 5


def test_many_threads_lose_and_double_nothing(sess):
    q = tf.FIFOQueue(7, tf.int64, shapes=[[]])
    x = tf.placeholder(tf.int64, [])
    put, take, close = q.enqueue(x), q.dequeue_up_to(3), q.close()

    def produce(base):
        for i in range(100):
            sess.run(put, {x: base + i})

    def consume():
        out = []
        while True:
            try:
                out += sess.run(take).tolist()
            except tf.errors.OutOfRangeError:
                return out
    consumers = [Worker(consume) for _ in range(4)]
    for p in [Worker(produce, 1000 * i) for i in range(4)]:
        p.result()
    sess.run(close)
    got = sorted(v for c in consumers for v in c.result())
    assert got == sorted(1000 * i + j for i in range(4) for j in range(100))


def test_shuffling_keeps_the_minimum_and_repeats_with_a_seed(graph):
    orders = []
    for _ in range(2):
        with tf.Graph().as_default(), tf.Session() as sess:
            q = tf.RandomShuffleQueue(100, 10, tf.int32, shapes=[[]], seed=5)
            sess.run(q.enqueue_many([np.arange(30)]))
            got = sess.run(q.dequeue_many(20)).tolist()
            with pytest.raises(tf.errors.DeadlineExceededError):
                sess.run(q.dequeue(), options=tf.RunOptions(timeout_in_ms=30))
            sess.run(q.close())
            got += sess.run(q.dequeue_up_to(20)).tolist()
            assert sorted(got) == list(range(30)) and got != sorted(got)
            orders.append(got)
    assert orders[0] == orders[1]


def test_padding(sess):
    q = tf.PaddingFIFOQueue(10, [tf.int32, tf.string], shapes=[[None], [None]])
    for row in ([1], ["a"]), ([2, 3], ["b", "c"]), ([], []):
        sess.run(q.enqueue([np.array(row[0], np.int32), np.array(row[1], object)]))
    n, s = sess.run(q.dequeue_many(3))
    assert n.tolist() == [[1, 0], [2, 3], [0, 0]] and s.tolist() == [[b"a", b""], [b"b", b"c"], [b"", b""]]


def test_priority(sess):
    q = tf.PriorityQueue(10, tf.string, shapes=[()])
    sess.run(q.enqueue_many([np.array([3, 1, 2], np.int64), ["c", "a", "b"]]))
    assert [s for _, s in [sess.run(q.dequeue()) for _ in range(3)]] == [b"a", b"b", b"c"]


def test_sharing_by_name(sess):
    a = tf.FIFOQueue(5, tf.int32, shapes=[[]], shared_name="one")
    b = tf.FIFOQueue(5, tf.int32, shapes=[[]], shared_name="one")
    sess.run(a.enqueue(3))
    assert sess.run(b.dequeue()) == 3
    c = tf.FIFOQueue(6, tf.int32, shapes=[[]], shared_name="one")
    with pytest.raises(tf.errors.InvalidArgumentError, match="has capacity 5 but requested capacity was 6"):
        sess.run(c.size())


def test_a_queue_chosen_at_run_time(sess):
    queues = [tf.FIFOQueue(5, tf.int32, shapes=[[]]) for _ in range(2)]
    which = tf.placeholder(tf.int32, [])
    chosen = tf.QueueBase.from_list(which, queues)
    sess.run([queues[0].enqueue(10), queues[1].enqueue(11)])
    assert [sess.run(chosen.dequeue(), {which: i}) for i in (1, 0)] == [11, 10]


def test_bad_elements_are_refused(sess):
    q = tf.FIFOQueue(5, [tf.int32], shapes=[[2]])
    x = tf.placeholder(tf.int32)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Shape mismatch"):
        sess.run(q.enqueue(x), {x: [1, 2, 3]})
    with pytest.raises(tf.errors.InvalidArgumentError, match="< 0"):
        sess.run(q.dequeue_many(tf.placeholder_with_default(-1, [])))
