"""Sessions: fetches, feeds, errors, threads, partial runs, callables, memory."""
import collections
import gc
import threading

import numpy as np
import pytest
import torch

import penstock.compat.v1 as tf


@pytest.fixture
def sess():
    with tf.Graph().as_default(), tf.Session() as s:
        yield s


Pair = collections.namedtuple("Pair", ["first", "second"])


def test_fetches_keep_their_structure(sess):
    a, b = tf.constant(1.0), tf.constant([2.0, 3.0])
    op = tf.no_op()
    out = sess.run([a, (b, {"k": a}), Pair(a, b), op, "Const:0"])
    assert out[0] == 1.0 and out[3] is None and out[4] == 1.0
    assert isinstance(out[1], tuple) and out[1][1]["k"] == 1.0
    assert isinstance(out[2], Pair) and out[2].second.tolist() == [2.0, 3.0]


def test_one_tensor_fetched_twice_gives_two_arrays(sess):
    x = tf.placeholder(tf.float32, [2])
    y = x + 1.0
    first, second = sess.run([y, y], {x: [1, 2]})
    first[0] = 99
    assert second.tolist() == [2.0, 3.0]


@pytest.mark.parametrize("bad", [None, 1.5, object()])
def test_fetching_nonsense_is_a_type_error(sess, bad):
    tf.constant(1.0)
    with pytest.raises(TypeError):
        sess.run(bad)
    assert sess.run(tf.constant(2.0)) == 2.0


def test_fetching_from_another_graph_is_refused(sess):
    with tf.Graph().as_default():
        other = tf.constant(1.0)
    tf.constant(1.0)
    with pytest.raises(ValueError, match="not an element of this graph"):
        sess.run(other)


def test_any_tensor_may_be_fed(sess):
    a = tf.constant(1.0)
    b = a + 1.0
    c = b * 10.0
    assert sess.run(c, {b: 5.0}) == 50.0
    assert sess.run(c) == 20.0


@pytest.mark.parametrize("value, error, match", [
    ([1.0, 2.0, 3.0], ValueError, "Cannot feed value of shape"),
    ("text", ValueError, "could not convert string to float"),
])
def test_wrong_feeds(sess, value, error, match):
    x = tf.placeholder(tf.float32, [2])
    y = x + 1.0
    with pytest.raises(error, match=match):
        sess.run(y, {x: value})
    assert sess.run(y, {x: [1, 2]}).tolist() == [2.0, 3.0]


def test_feeding_a_tensor_is_refused(sess):
    x = tf.placeholder(tf.float32, [])
    with pytest.raises(TypeError, match="cannot be a tf.Tensor object"):
        sess.run(x + 1.0, {x: tf.constant(1.0)})


def test_feeding_an_integer_that_does_not_fit(sess):
    x = tf.placeholder(tf.int8, [])
    with pytest.raises(TypeError, match="not compatible"):
        sess.run(tf.identity(x), {x: 300})


def test_use_after_close():
    with tf.Graph().as_default():
        c = tf.constant(1.0)
        s = tf.Session()
        s.close()
        with pytest.raises(RuntimeError, match="closed Session"):
            s.run(c)


def test_many_threads_run_one_session(sess):
    x = tf.placeholder(tf.float32, [])
    y = x * x
    found = {}

    def work(i):
        for _ in range(50):
            found[i] = sess.run(y, {x: float(i)})
    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    [t.start() for t in threads]
    [t.join(60) for t in threads]
    assert found == {i: float(i * i) for i in range(8)}


def test_callable(sess):
    x = tf.placeholder(tf.float32, [])
    f = sess.make_callable([x + 1.0, x * 2.0], feed_list=[x])
    assert f(3.0) == [4.0, 6.0]
    with pytest.raises(tf.errors.InvalidArgumentError, match="takes 1 feed values, got 0"):
        f()


def test_partial_run(sess):
    a, b = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
    c = a + 1.0
    d = c * b
    h = sess.partial_run_setup([c, d], [a, b])
    assert sess.partial_run(h, c, {a: 1.0}) == 2.0
    with pytest.raises(tf.errors.InvalidArgumentError, match="Must feed"):
        sess.partial_run(h, d)
    assert sess.partial_run(h, d, {b: 10.0}) == 20.0


def test_partial_run_with_branches_and_loops(sess):
    """A branch is taken in the first call, a second loop and the other use of the branch run in later ones."""
    tf.disable_control_flow_v2()
    x, y, training = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.float32, []), tf.placeholder_with_default(True, [])
    count = tf.get_variable("count", initializer=0.0, use_resource=False)
    sess.run(count.initializer)
    mean = tf.cond(training, lambda: tf.reduce_mean(x), lambda: tf.reduce_sum(x))
    doubled = tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * 2.0), [0, mean])[1]
    counted = tf.cond(training, lambda: count.assign_add(1.0), lambda: count + 100.0)
    scaled = tf.cond(doubled > 0.0, lambda: doubled * y, lambda: -doubled)
    total = tf.while_loop(lambda i, v: i < 2, lambda i, v: (i + 1, v + counted), [0, scaled])[1]
    for flag, expected in ((True, [8.0, 1.0, 16.0, 18.0]), (False, [16.0, 101.0, 32.0, 234.0])):
        handle = sess.partial_run_setup([doubled, counted, scaled, total], [x, y, training])
        found = [sess.partial_run(handle, doubled, {x: [0.5, 1.5], training: flag}), sess.partial_run(handle, counted),
                 sess.partial_run(handle, scaled, {y: 2.0}), sess.partial_run(handle, total)]
        assert found == expected
        with pytest.raises(tf.errors.InvalidArgumentError, match="setup"):
            sess.partial_run(handle, total)
        assert sess.run(count) == 1.0


def test_a_fetched_array_does_not_alias_a_variable(sess):
    v = tf.Variable([1.0, 2.0])
    sess.run(v.initializer)
    out = sess.run(v)
    out[0] = 77.0
    assert sess.run(v).tolist() == [1.0, 2.0]


def test_a_feed_is_not_aliased_by_a_variable(sess):
    x = tf.placeholder(tf.float32, [2])
    v = tf.Variable(x)
    fed = np.array([1.0, 2.0], np.float32)
    sess.run(v.initializer, {x: fed})
    fed[:] = -1
    assert sess.run(v).tolist() == [1.0, 2.0]


def test_uninitialized_variables_are_named(sess):
    v = tf.Variable(1.0, name="weights")
    with pytest.raises(tf.errors.FailedPreconditionError, match="weights"):
        sess.run(v + 1.0)
    sess.run(v.initializer)
    assert sess.run(v + 1.0) == 2.0


def test_finalized_graphs_cannot_grow(sess):
    c = tf.constant(1.0)
    sess.graph.finalize()
    with pytest.raises(RuntimeError, match="finalized"):
        tf.constant(2.0)
    assert sess.run(c) == 1.0


def test_nothing_grows_with_the_number_of_steps(sess):
    x = tf.placeholder(tf.float32, [64])
    v = tf.Variable(tf.zeros([64]))
    step = tf.assign_add(v, x * 2.0)
    sess.run(v.initializer)
    feed = {x: np.ones(64, np.float32)}
    for _ in range(3):
        sess.run(step, feed)
    gc.collect()
    before = sum(issubclass(type(o), torch.Tensor) for o in gc.get_objects())
    for _ in range(50):
        sess.run(step, feed)
    gc.collect()
    assert sum(issubclass(type(o), torch.Tensor) for o in gc.get_objects()) <= before + 1


def test_values_die_at_their_last_use(sess):
    x = tf.placeholder(tf.float32, [None])
    y = tf.tanh(tf.exp(x))
    source = sess.explain(y, {x: [0.0]})
    assert source.count("del ") == 2


def test_a_cycle_of_control_inputs_is_found(sess):
    a, b = tf.constant(1.0), tf.constant(2.0)
    a.op._add_control_input(b.op)
    b.op._add_control_input(a.op)
    with pytest.raises(tf.errors.InvalidArgumentError, match="cycle with 2 nodes"):
        sess.run(a)


def test_control_dependencies_hold(sess):
    v = tf.Variable(0.0)
    with tf.control_dependencies([tf.assign_add(v, 1.0)]):
        after = tf.identity(v.read_value())
    sess.run(v.initializer)
    assert [sess.run(after) for _ in range(3)] == [1.0, 2.0, 3.0]


def test_a_graph_that_grows_in_the_loop_is_reported_once(caplog):
    with tf.Graph().as_default(), tf.Session() as sess:
        v = tf.constant(1.0)
        for _ in range(120):
            sess.run(v + 1.0)
    said = [r.getMessage() for r in caplog.records if "has grown" in r.getMessage()]
    assert len(said) == 1 and "test_session.py" in said[0] and "finalize" in said[0]


def test_the_first_nan_is_named(monkeypatch):
    monkeypatch.setattr("penstock._src.step.compile.program.CHECK_NUMERICS", True)
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.float32, [2])
        y = tf.sqrt(tf.log(x, name="culprit"), name="later") * 2.0
        np.testing.assert_allclose(sess.run(y, {x: [np.e, 1.0]}), [2.0, 0.0], rtol=1e-6)
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"first to produce a NaN: 1 of 2[\s\S]*culprit"):
            sess.run(y, {x: [-1.0, 1.0]})


def test_a_state_is_fed_as_it_was_fetched(sess):
    Pair = collections.namedtuple("Pair", ["c", "h"])
    state = (Pair(tf.constant([1.0]), tf.constant([2.0])), tf.constant([3.0]))
    total = tf.add_n([*state[0], state[1]])
    kept = sess.run(state)
    assert sess.run(total, {state: (Pair(kept[0].c + 10, kept[0].h), kept[1] + 100)}).tolist() == [116.0]
    assert sess.run(total, {state[0]: np.array([[5.0], [6.0]])}).tolist() == [14.0]
    assert sess.run(total, {state[0]: ([5.0], [6.0])}).tolist() == [14.0]
    with pytest.raises(ValueError, match="Key had 2 elements, but value had 3"):
        sess.run(total, {state[0]: (1.0, 2.0, 3.0)})


def test_placements_are_logged_of_steps_that_are_fed(capfd):
    with tf.Graph().as_default(), tf.Session(config=tf.ConfigProto(log_device_placement=True)) as session:
        x = tf.constant(1.0) * 2.0
        y = x + 1.0
        assert session.run(y, {x: 5.0}) == 6.0
        handle = session.partial_run_setup([y], [x])
        assert session.partial_run(handle, y, {x: 7.0}) == 8.0
    assert "(AddV2): /job:localhost/replica:0/task:0/device:CPU:0" in "".join(capfd.readouterr())


def test_partial_runs_that_come_again_are_compiled(sess, monkeypatch):
    """Pieces, values that are fetched later than computed, variables that a piece updates, and other orders of calls."""
    from penstock._src.execute import pieces
    made = []
    monkeypatch.setattr(pieces.PiecewiseRun, "_planned", lambda self, e, plan=pieces.PiecewiseRun._planned: made.append(1) or
                        plan(self, e))
    x, code = tf.placeholder(tf.float32, [2, 3]), tf.placeholder(tf.float32, [2, 3])
    w = tf.get_variable("w", [3, 3], initializer=tf.constant_initializer(0.5), use_resource=True)
    hidden = tf.tanh(tf.matmul(x, w))
    loss = tf.reduce_sum(tf.square(code - hidden))
    with tf.control_dependencies([loss]):
        update = tf.assign_sub(w, tf.matmul(x, code, transpose_a=True) * 0.01)
    sess.run(w.initializer)
    held, r = np.full((3, 3), 0.5, np.float32), np.random.RandomState(0)
    for i in range(6):
        a, b = r.randn(2, 3).astype("f"), r.randn(2, 3).astype("f")
        handle = sess.partial_run_setup([hidden, loss, update.op], [x, code])
        expected = np.tanh(a @ held)
        if i % 2:
            np.testing.assert_allclose(sess.partial_run(handle, hidden, {x: a}), expected, rtol=1e-5)
            total = sess.partial_run(handle, loss, {code: b})
        else:
            with pytest.raises(tf.errors.InvalidArgumentError, match="Must feed"):
                sess.partial_run(handle, loss, {x: a})
            total = sess.partial_run(handle, loss, {code: b})
            np.testing.assert_allclose(sess.partial_run(handle, hidden), expected, rtol=1e-5)
        assert total == pytest.approx(np.square(b - expected).sum(), rel=1e-5)
        sess.partial_run(handle, update.op)
        held = held - a.T @ b * np.float32(0.01)
        np.testing.assert_allclose(sess.run(w), held, rtol=1e-5)
    assert len(made) == 3 + 4 + 1                           # two orders of calls, and one that lacks a feed, each time again
