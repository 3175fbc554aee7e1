"""Steps with dataflow loops: updates wait for the last use of what they overwrite, and ops run where a loop ends."""
import numpy as np
import pytest

import penstock.compat.v1 as tf
from penstock._src.ops.state.state import VariableResource
from penstock._src.step.compile.program import Program
from penstock._src.step.loops import structured


@pytest.fixture(autouse=True)
def _dataflow():
    tf.disable_control_flow_v2()                 # the next test has the modes of before


def network():
    """A dense layer behind a loop: its gradient reads the weights when their update could have been computed."""
    x = tf.constant(np.random.RandomState(0).randn(3, 4, 5).astype("f"))
    cell = tf.nn.rnn_cell.GRUCell(5, kernel_initializer=tf.random_uniform_initializer(-0.5, 0.5, seed=3))
    out, _ = tf.nn.dynamic_rnn(cell, x, sequence_length=[4, 2, 3], dtype=tf.float32)
    dense = tf.layers.Dense(6, tf.tanh, kernel_initializer=tf.random_uniform_initializer(-0.5, 0.5, seed=4))
    loss = tf.reduce_mean(tf.square(dense(out)))
    return loss, tf.train.RMSPropOptimizer(0.1).minimize(loss)


def trained():
    """Losses, values, the programs of the steps, and how many variables moved in memory in the last step."""
    with tf.Graph().as_default(), tf.Session() as sess:
        loss, train = network()
        sess.run(tf.global_variables_initializer())
        losses = [sess.run([loss, train])[0] for _ in range(4)]
        held = [v for _, v in sess._resources.items() if isinstance(v, VariableResource)]
        before = [v.value.data_ptr() for v in held]
        losses.append(sess.run([loss, train])[0])
        moved = sum(v.value.data_ptr() != p for v, p in zip(held, before, strict=True))
        programs = [s.runnable for s in sess._engine._programs.values()]
        return losses, sess.run(tf.trainable_variables()), programs, moved


def test_variables_stay_where_they_are():
    _, _, programs, moved = trained()
    assert moved == 0 and all(isinstance(p, Program) for p in programs)


def test_the_same_numbers_without_delay(monkeypatch):
    found = trained()
    monkeypatch.setattr(structured, "_MOST_WAITS", 0)
    expected = trained()
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-6)
    for a, b in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    assert expected[3] > 0


def test_a_read_behind_an_update_stays_there():
    with tf.Graph().as_default(), tf.Session() as sess:
        v = tf.Variable([1.0, 2.0])
        loop = tf.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, s * v), (0, tf.ones([2])))[1]
        update = v.assign_add([1.0, 1.0])
        with tf.control_dependencies([update]):
            after = tf.identity(v.read_value()) * 1.0
        total = loop + after
        sess.run(tf.global_variables_initializer())
        np.testing.assert_allclose(sess.run([total, after])[1], [2.0, 3.0], rtol=1e-6)


@pytest.mark.parametrize("count", [0, 1, 5])
def test_ops_where_a_loop_ends(count):
    """The gradient of a loop variable that the loop does not change goes through an op on the way out."""
    def run():
        with tf.Graph().as_default(), tf.Session() as sess:
            n, x, y = tf.placeholder(tf.int32, []), tf.placeholder(tf.float32, [2]), tf.placeholder(tf.float32, [2])
            _, a, b = tf.while_loop(lambda i, a, b: i < n, lambda i, a, b: (i + 1, a * y + b, b), (0, x, y))
            grads = tf.gradients(tf.reduce_sum(a * b), [x, y])
            return sess.run([a, *grads], {n: count, x: [1.0, 2.0], y: [0.5, -1.0]})
    a, of_x, of_y = run()

    def value(x, y):
        s = x
        for _ in range(count):
            s = s * y + y
        return s, (s * y).sum()
    x, y = np.array([1.0, 2.0]), np.array([0.5, -1.0])
    np.testing.assert_allclose(a, value(x, y)[0], rtol=1e-6)
    for found, at in ((of_x, 0), (of_y, 1)):
        for i in range(2):
            step = [np.zeros(2), np.zeros(2)]
            step[at][i] = 1e-6
            slope = (value(x + step[0], y + step[1])[1] - value(x - step[0], y - step[1])[1]) / 2e-6
            np.testing.assert_allclose(found[i], slope, rtol=1e-4, atol=1e-6)
