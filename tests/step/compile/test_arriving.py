"""Steps that take a batch of unknown size: what follows gets programs for the shapes that come."""
import numpy as np
import pytest

import penstock as tf2
import penstock.compat.v1 as tf
from penstock._src.step.compile.arriving import Arriving
from penstock._src.step.optimize.variants import Variants

X = np.arange(30, dtype=np.float32).reshape(10, 3)
PARTS = X[:4], X[4:8], X[8:]


def batches(size=4, repeats=None):
    """Batches of which the last one of each epoch is smaller."""
    return tf2.data.Dataset.from_tensor_slices(X).batch(size).repeat(repeats)


def runnables(session):
    return [step.runnable for step in session._engine._programs.values()]


def scores(batch, w):
    h = tf.tanh(tf.matmul(batch, w)) * 0.1
    return tf.reduce_sum(h * h + h, -1)


def expected(rows, w):
    h = np.tanh(rows @ w) * np.float32(0.1)
    return (h * h + h).sum(-1)


def test_batches_of_an_iterator_get_programs_for_their_sizes():
    w = np.full((3, 5), 0.01, np.float32)
    with tf.Graph().as_default(), tf.Session() as sess:
        batch = tf.data.make_one_shot_iterator(batches()).get_next()
        result = scores(batch, w)
        for rows in PARTS * 4:
            np.testing.assert_allclose(sess.run(result), expected(rows, w), rtol=1e-5)
        step, = runnables(sess)
        assert isinstance(step, Arriving) and sorted(step.rest._made) == [((2, 3),), ((4, 3),)]
        assert "# Data arrives:" in sess.explain(result)


def test_the_batch_itself_and_what_it_was_made_of_are_fetched():
    with tf.Graph().as_default(), tf.Session() as sess:
        batch = tf.data.make_one_shot_iterator(batches()).get_next()
        with tf.control_dependencies([batch]):
            count = tf.shape(batch)[0] + tf.constant(1)
        for rows in PARTS * 3:
            found, n = sess.run([batch, count])
            assert n == len(rows) + 1
            np.testing.assert_array_equal(found, rows)


@pytest.mark.parametrize("kind", ["argument", "captured", "nested"])
def test_functions_take_from_iterators(kind):
    iterator, w = iter(batches(repeats=6)), tf2.Variable(np.full((3, 5), 0.01, np.float32))
    inner = tf2.function(lambda it: scores(next(it), w))

    @tf2.function
    def step(it):
        found = inner(iterator) if kind == "nested" else scores(next(it if kind == "argument" else iterator), w)
        w.assign_add(tf2.ones_like(w) * 0.001)
        return found
    value = w.numpy()
    for rows in PARTS * 6:
        np.testing.assert_allclose(step(iterator), expected(rows, value), rtol=1e-4)
        value = value + np.float32(0.001)
    with pytest.raises(tf2.errors.OutOfRangeError):
        step(iterator)
    np.testing.assert_allclose(w, value, rtol=1e-6)


def test_effects_before_the_data_still_come_first():
    iterator, count = iter(batches(repeats=1)), tf2.Variable(0)

    @tf2.function
    def step():
        count.assign_add(1)
        return tf2.reduce_sum(next(iterator))
    for rows in PARTS:
        assert step() == rows.sum()
    with pytest.raises(tf2.errors.OutOfRangeError):
        step()
    assert count.numpy() == 4


def test_an_effect_between_two_batches_stays_between_them():
    first, second, seen = iter(batches(repeats=1)), iter(batches(size=7)), tf2.Variable(0.0)

    @tf2.function
    def step():
        a = next(first)
        seen.assign_add(tf2.reduce_sum(a))
        return tf2.reduce_sum(next(second)) + tf2.reduce_sum(a)
    for rows, others in zip(PARTS, (X[:7], X[7:], X[:7]), strict=True):
        assert step() == rows.sum() + others.sum()
    assert seen.numpy() == X.sum()


def test_queues_bring_as_many_elements_as_there_are():
    with tf.Graph().as_default(), tf.Session() as sess:
        queue = tf.FIFOQueue(30, [tf.float32], [[3]])
        sess.run(queue.enqueue_many([X]))
        total = tf.reduce_sum(tf.square(queue.dequeue_up_to(4)), -1)
        sess.run(queue.close())
        for rows in PARTS:
            np.testing.assert_allclose(sess.run(total), (rows * rows).sum(-1), rtol=1e-5)
        assert any(isinstance(r, Arriving) for r in runnables(sess))
        with pytest.raises(tf.errors.OutOfRangeError):
            sess.run(total)


def test_a_step_may_fill_the_queue_that_it_empties():
    with tf.Graph().as_default(), tf.Session() as sess:
        queue = tf.FIFOQueue(30, [tf.float32], [[3]])
        total = tf.reduce_sum(queue.dequeue_up_to(1), -1)
        fill = queue.enqueue(X[3])
        assert sess.run([total, fill], options=tf.RunOptions(timeout_in_ms=60_000))[0] == X[3].sum()


def test_errors_name_the_op_of_either_part():
    with tf.Graph().as_default(), tf.Session() as sess:
        batch = tf.data.make_one_shot_iterator(batches(repeats=1)).get_next(name="take")
        checked = tf.debugging.check_numerics(1.0 / (batch - 29.0), "bad", name="check")
        sess.run(checked)
        sess.run(checked)
        with pytest.raises(tf.errors.InvalidArgumentError) as failed:
            sess.run(checked)
        assert failed.value.op.name == "check"
        with pytest.raises(tf.errors.OutOfRangeError) as ended:
            sess.run(checked)
        assert ended.value.op.name.startswith("take") or ended.value.op.type == "IteratorGetNext"


def test_training_from_batches_of_unknown_size_equals_training_from_feeds():
    def trained(fed):
        with tf.Graph().as_default(), tf.Session() as sess:
            batch = tf.placeholder(tf.float32, [None, 3]) if fed else tf.data.make_one_shot_iterator(batches()).get_next()
            w = tf.get_variable("w", initializer=np.full((3, 2), 0.1, np.float32))
            loss = tf.reduce_mean(tf.square(tf.tanh(tf.matmul(batch, w)) - 0.5))
            step = tf.train.get_or_create_global_step()
            train = tf.train.MomentumOptimizer(0.01, 0.9).minimize(loss, step)
            sess.run(tf.global_variables_initializer())
            losses = [sess.run([loss, train], {batch: rows} if fed else None)[0] for rows in PARTS * 4]
            return losses, sess.run([w, step])
    (losses, values), (other, wanted) = trained(False), trained(True)
    np.testing.assert_allclose(losses, other, rtol=1e-5)
    np.testing.assert_allclose(values[0], wanted[0], rtol=1e-5)
    assert values[1] == wanted[1] == 12


def parts_of(runnable):
    """The parts of a step, in order."""
    return [*parts_of(runnable.first), *parts_of(runnable.rest)] if isinstance(runnable, Arriving) else [runnable]


def test_batches_after_effects_get_programs_for_their_sizes():
    """A read before the effect returns the old value, one after it the new value, also of what is fetched."""
    with tf.Graph().as_default(), tf.Session() as sess:
        take = tf.data.make_one_shot_iterator(batches(repeats=12)).get_next
        w = tf.get_variable("w", [3, 5], initializer=tf.constant_initializer(0.01), use_resource=True)
        batch = take()
        before = w.read_value()
        with tf.control_dependencies([before]):
            update = tf.assign_add(w, tf.tile(tf.reduce_mean(batch, 0)[:, None] * 1e-3, [1, 5]))
        with tf.control_dependencies([update]):
            after, other = w.read_value(), take()
        fetches = [before, after, scores(other, after), scores(batch, before)]
        sess.run(w.initializer)
        held, rows = np.full((3, 5), 0.01, np.float32), [part for _ in range(12) for part in PARTS]
        for one, two in zip(rows[::2], rows[1::2], strict=True):
            old, new, later, first = sess.run(fetches)
            np.testing.assert_allclose(old, held, rtol=1e-6)
            np.testing.assert_allclose(first, expected(one, held), rtol=1e-5)
            held = held + one.mean(0)[:, None] * np.float32(1e-3)
            np.testing.assert_allclose(new, held, rtol=1e-6)
            np.testing.assert_allclose(later, expected(two, held), rtol=1e-5)
        step = runnables(sess)[-1]
        assert len(parts_of(step)) == 4 and isinstance(step.rest, Arriving) and not step.rest.takes
        assert [len(part._made) for part in parts_of(step) if isinstance(part, Variants)] == [2, 3]
        text = sess.explain(fetches)
        assert text.count("# Data arrives:") == 2 and "# Before more data arrives:" in text


def test_a_function_that_takes_many_batches_is_cut_some_times():
    iterator, w = iter(batches(repeats=None)), tf2.Variable(np.zeros(3, np.float32))

    @tf2.function
    def step():
        for _ in range(20):
            w.assign_add(tf2.reduce_sum(next(iterator), 0))
        return w.read_value()
    for i in range(1, 4):
        total = sum((PARTS[k % 3].sum(0) for k in range(20 * i)), np.zeros(3))
        np.testing.assert_allclose(step(), total, rtol=1e-5)
