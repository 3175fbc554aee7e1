"""Input pipelines of queues, and the threads that run them."""
import contextlib

import numpy as np
import pytest

import penstock.compat.v1 as tf
from tests.checks import no_new_threads


@pytest.fixture(autouse=True)
def graph():
    with no_new_threads(), tf.Graph().as_default() as made:
        yield made


@contextlib.contextmanager
def running(**kwargs):
    """A session whose queue runners are at work, and end after it."""
    coord = tf.train.Coordinator()
    with tf.Session() as sess:
        sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        threads = tf.train.start_queue_runners(sess, coord, **kwargs)
        try:
            yield sess
        finally:
            coord.request_stop()
            coord.join(threads, stop_grace_period_secs=10)


def everything(sess, fetch):
    out = []
    while True:
        try:
            out.append(sess.run(fetch))
        except tf.errors.OutOfRangeError:
            return out


def test_names_for_some_epochs():
    q = tf.train.string_input_producer(["a", "b", "c"], num_epochs=3, shuffle=False)
    take = q.dequeue()
    with running() as sess:
        assert everything(sess, take) == [b"a", b"b", b"c"] * 3


def test_each_epoch_is_shuffled_anew():
    take = tf.train.range_input_producer(8, num_epochs=5, seed=1).dequeue_many(8)
    with running() as sess:
        epochs = [tuple(e.tolist()) for e in everything(sess, take)]
    assert all(sorted(e) == list(range(8)) for e in epochs) and len(set(epochs)) == 5


def test_no_names():
    with pytest.raises(ValueError, match="non-null input tensor"):
        tf.train.string_input_producer([])
    empty = tf.train.string_input_producer(tf.placeholder_with_default(tf.constant([], tf.string), [None])).dequeue()
    with pytest.raises(tf.errors.InvalidArgumentError, match="non-null input tensor"), running() as sess:
        with contextlib.suppress(tf.errors.OutOfRangeError):
            sess.run(empty)


def test_slices_stay_together():
    a, b = tf.train.slice_input_producer([np.arange(10), np.arange(10) * 2], num_epochs=2, seed=3)
    with running() as sess:
        got = everything(sess, [a, b])
    assert len(got) == 20 and all(y == 2 * x for x, y in got)


def counter(limit):
    return tf.Variable(tf.constant(0, tf.int64)).count_up_to(limit)


@pytest.mark.parametrize("smaller", [False, True])
def test_batches_and_the_last_one(smaller):
    n = counter(10)
    x, s = tf.train.batch([n, tf.as_string(n)], 4, allow_smaller_final_batch=smaller)
    assert x.shape.as_list() == [None if smaller else 4]
    with running() as sess:
        got = everything(sess, [x, s])
    assert [b[0].tolist() for b in got] == [[0, 1, 2, 3], [4, 5, 6, 7]] + ([[8, 9]] if smaller else [])
    assert [b[1].tolist() for b in got][0] == [b"0", b"1", b"2", b"3"]


def test_dictionaries_stay_dictionaries():
    out = tf.train.batch({"a": counter(4), "b": tf.constant([1., 2.])}, 2)
    with running() as sess:
        got = sess.run(out)
    assert got["a"].tolist() == [0, 1] and got["b"].tolist() == [[1, 2], [1, 2]]


def test_padding():
    n = counter(3)
    out = tf.train.batch([tf.range(n)], 3, dynamic_pad=True)
    with running() as sess:
        assert sess.run(out).tolist() == [[0, 0], [0, 0], [0, 1]]


def test_many_threads_in_random_order():
    out = tf.train.shuffle_batch([counter(100)], 10, capacity=60, min_after_dequeue=30, num_threads=3, seed=2)
    with running() as sess:
        got = np.concatenate(everything(sess, out)).tolist()
    assert sorted(got) == list(range(100)) and got != sorted(got)


def test_several_readers():
    out = tf.train.shuffle_batch_join([[counter(30), tf.constant("a")], [counter(20), tf.constant("b")]], 10, 40, 10)
    with running() as sess:
        batches = everything(sess, out)
    pairs = sorted((s, int(i)) for b in batches for i, s in zip(*b, strict=True))
    assert pairs == [(b"a", i) for i in range(30)] + [(b"b", i) for i in range(20)]


def test_dropping_examples():
    n = counter(10)
    out = tf.train.maybe_batch([n], tf.equal(n % 2, 0), 5)
    with running() as sess:
        assert sess.run(out).tolist() == [0, 2, 4, 6, 8]


def test_sparse_tensors_go_through_queues():
    n = counter(5)
    s = tf.SparseTensor(tf.reshape(n, [1, 1]), [tf.cast(n, tf.float32)], [10])
    out = tf.train.batch([n, s], 2, allow_smaller_final_batch=True)
    with running() as sess:
        got = everything(sess, out)
    assert [b[1].values.tolist() for b in got] == [[0, 1], [2, 3], [4]]
    assert got[1][1].indices.tolist() == [[0, 2], [1, 3]] and got[1][1].dense_shape.tolist() == [2, 10]


def test_errors_of_producers_come_to_the_main_thread():
    bad = tf.Assert(tf.less(counter(10), 3), ["three is too much"])
    with tf.control_dependencies([bad]):
        out = tf.train.batch([tf.constant(1)], 2)
    with pytest.raises(tf.errors.InvalidArgumentError, match="three is too much"), running() as sess:
        everything(sess, out)


def test_matching_files(tmp_path):
    for n in "ab":
        (tmp_path / f"{n}.csv").write_text(n)
    names = tf.train.match_filenames_once(str(tmp_path / "*.csv"))
    with tf.Session() as sess:
        sess.run(tf.local_variables_initializer())
        assert [n.decode()[-5:] for n in sess.run(names)] == ["a.csv", "b.csv"]


def test_a_queue_runner_as_a_message():
    q = tf.FIFOQueue(10, tf.float32, name="queue")
    runner = tf.train.QueueRunner(q, [q.enqueue(1.)], queue_closed_exception_types=(
        tf.errors.OutOfRangeError, tf.errors.CancelledError))
    again = tf.train.QueueRunner.from_proto(runner.to_proto())
    assert again.name == runner.name and [o.name for o in again.enqueue_ops] == [o.name for o in runner.enqueue_ops]
    assert again.queue_closed_exception_types == runner.queue_closed_exception_types
    assert again.to_proto() == runner.to_proto()


def test_a_pipeline_in_a_meta_graph():
    """Queue runners are exported with their graph: an imported pipeline runs."""
    out = tf.train.batch([tf.train.range_input_producer(6, num_epochs=1, shuffle=False).dequeue()], 3, name="out")
    exported = tf.train.export_meta_graph()
    assert [s.op.type for s in tf.get_collection(tf.GraphKeys.SUMMARIES)] == ["ScalarSummary"] * 2
    with tf.Graph().as_default():
        tf.train.import_meta_graph(exported)
        assert len(tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS)) == 2
        with running() as sess:
            assert [b.tolist() for b in everything(sess, out.name)] == [[0, 1, 2], [3, 4, 5]]
