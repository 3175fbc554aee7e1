"""Reductions by the names of NCCL's ops, among two devices of the host."""
import numpy as np
import pytest

import penstock.compat.v1 as tf
from penstock._src.ops.comm import nccl


@pytest.fixture
def session():
    with tf.Graph().as_default(), tf.Session(config=tf.ConfigProto(device_count={"CPU": 2})) as session:
        yield session


def tensors(*values):
    made = []
    for i, value in enumerate(values):
        with tf.device(f"/cpu:{i}"):
            made.append(tf.placeholder_with_default(np.float32(value), [2]))
    return made


@pytest.mark.parametrize("name, expected", [("all_sum", [4, 7]), ("all_prod", [3, 10]), ("all_min", [1, 2]),
                                            ("all_max", [3, 5])])
def test_all(name, expected, session):
    a, b = session.run(getattr(tf.contrib.nccl, name)(tensors([1, 5], [3, 2])))
    assert a.tolist() == b.tolist() == expected


def test_reduce_and_broadcast(session):
    assert session.run(tf.contrib.nccl.reduce_sum(tensors([1, 5], [3, 2]))).tolist() == [4, 7]
    assert session.run(tf.contrib.nccl.broadcast(tensors([1, 5])[0])).tolist() == [1, 5]


def test_gradients(session):
    a, b = tensors([1, 5], [3, 2])
    both = tf.contrib.nccl.all_sum([a, b])
    grads = tf.gradients([both[0] * 2.0, both[1] * 3.0], [a, b])
    assert [g.tolist() for g in session.run(grads)] == [[5, 5], [5, 5]]
    assert [g.tolist() for g in session.run(tf.gradients(tf.contrib.nccl.reduce_sum([a, b]), [a, b]))] == [[1, 1], [1, 1]]
    with pytest.raises(LookupError, match="only sums have gradients"):
        tf.gradients(nccl._all("max", [a, b])[0], a)


def test_a_device_is_required():
    with tf.Graph().as_default(), pytest.raises(ValueError, match="Device assignment required"):
        tf.contrib.nccl.all_sum([tf.constant([1.0])])
