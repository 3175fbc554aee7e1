"""tf.nn.compute_average_loss: what its arguments may be."""
from __future__ import annotations

import pytest

import penstock as tf
import penstock.compat.v1 as tf1


def test_batch_sizes_are_integers_that_are_not_negative():
    losses = [1.0, 2.0, 3.0, 4.0, 5.0]
    assert float(tf.nn.compute_average_loss(losses, global_batch_size=10)) == 1.5
    assert float(tf.nn.compute_average_loss(losses, global_batch_size=0)) == 0.0
    with pytest.raises(TypeError, match="global_batch_size must be an int"):
        tf.nn.compute_average_loss(losses, global_batch_size=10.0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="global_batch_size must be non-negative"):
        tf.nn.compute_average_loss(losses, global_batch_size=-1)


def test_a_scalar_of_unknown_rank_fails_when_it_is_run():
    with tf1.Graph().as_default(), tf1.Session() as session:
        given = tf1.placeholder(tf.float32)
        loss = tf.nn.compute_average_loss(given)
        assert session.run(loss, {given: [2.0, 4.0]}) == 3.0
        with pytest.raises(tf.errors.InvalidArgumentError, match="at least rank 1"):
            session.run(loss, {given: 2.0})
