"""Old gradients in asynchronous training: dropped or scaled, and counted."""
import numpy as np
import pytest

import penstock.compat.v1 as tf


class Model:
    """A variable whose gradient is one; `during` steps are taken by others while a gradient is computed."""

    def __init__(self, **options):
        self.step = tf.train.get_or_create_global_step()
        self.v = tf.get_variable("v", initializer=0.0)
        self.during = tf.placeholder_with_default(np.int64(0), [])
        self.opt = tf.train.experimental.StaleGradientOptimizer(tf.train.GradientDescentOptimizer(1.0), **options)
        pairs = self.opt.compute_gradients(self.v)
        with tf.control_dependencies([self.opt._begun_at, *(g for g, _ in pairs)]):
            passed = tf.assign_add(self.step, self.during)
        with tf.control_dependencies([passed]):
            pairs = [(tf.identity(g), v) for g, v in pairs]
        self.train = self.opt.apply_gradients(pairs, global_step=self.step)
        self.sess = tf.Session()
        self.sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])

    def run(self, during):
        self.sess.run(self.train, {self.during: during})
        return tuple(float(x) for x in self.sess.run([self.v, self.step]))


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default():
        yield


def test_gradients_that_are_too_old_are_dropped():
    model = Model(staleness=2)
    assert model.run(0) == (-1.0, 1.0)
    assert model.run(2) == (-2.0, 4.0)
    assert model.run(3) == (-2.0, 7.0)                     # the three steps of the others, and none of its own
    assert model.opt.gradient_counts(model.sess) == {"applied": 2, "stale": 1, "dropped": 1}


def test_gradients_that_are_too_old_count_less():
    model = Model(staleness=1, policy="scale")
    assert model.run(1) == (-1.0, 2.0)
    assert model.run(3) == (-1.5, 6.0)
    assert model.run(7) == (-1.75, 14.0)
    assert model.opt.gradient_counts(model.sess) == {"applied": 3, "stale": 2, "dropped": 0}


def test_sparse_gradients_are_scaled_by_rows():
    step = tf.train.get_or_create_global_step()
    v = tf.get_variable("v", initializer=np.ones((4, 2), np.float32))
    opt = tf.train.experimental.StaleGradientOptimizer(tf.train.GradientDescentOptimizer(1.0), 0, "scale")
    train = opt.minimize(tf.reduce_sum(tf.gather(v, [1, 3])), global_step=step)
    with tf.Session() as sess:
        sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        sess.run(train)
        assert sess.run(v).tolist() == [[1.0, 1.0], [0.0, 0.0], [1.0, 1.0], [0.0, 0.0]]


def test_mistakes():
    inside = tf.train.GradientDescentOptimizer(1.0)
    with pytest.raises(ValueError, match="policy"):
        tf.train.experimental.StaleGradientOptimizer(inside, 1, "halve")
    with pytest.raises(ValueError, match="negative"):
        tf.train.experimental.StaleGradientOptimizer(inside, -1)
    v = tf.get_variable("v", initializer=0.0)
    with pytest.raises(ValueError, match="Global step"):
        tf.train.experimental.StaleGradientOptimizer(inside, 1).minimize(v)
