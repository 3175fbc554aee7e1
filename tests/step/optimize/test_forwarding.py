"""Values are forwarded through ops that change nothing."""
import pytest

import penstock.compat.v1 as tf
from penstock._src.step.optimize.forwarding import forward_values

from .steps import after


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default():
        yield


def test_identities_are_taken_out():
    x = tf.placeholder(tf.float32, [2])
    y = tf.negative(tf.stop_gradient(tf.identity(tf.cast(x, tf.float32))))
    assert after(forward_values, [y], feeds=[x]) == ["Neg"]


def test_reads_and_waiting_identities_stay():
    v = tf.Variable(1., use_resource=False)
    with tf.control_dependencies([tf.assign(v, 2.)]):
        y = tf.identity(tf.constant(1.)) + tf.identity(v)
    assert after(forward_values, [y]).count("Identity") == 2


def test_a_fed_identity_is_what_was_fed():
    x = tf.constant(1.)
    y = tf.identity(x)
    with tf.Session() as sess:
        assert sess.run(-y, {y: 5.}) == -5.
