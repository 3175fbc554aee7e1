"""Eager execution: an op runs at once, with the same checks and errors as in a graph."""
import numpy as np
import pytest

import penstock as tf
from penstock._src.ops.registry import OPS, op


@pytest.fixture
def calls():
    """An op that counts the calls of its kernel."""
    seen = []
    declared = op("TestCounted", "x: T -> y: T", "T: type in {float32, int32}, scale: int = 2")

    @declared.kernel
    def _counted(x, *, scale):
        seen.append(scale)
        return x * scale
    declared.shape(lambda x, *, scale: x)
    yield declared, seen
    del OPS["TestCounted"]


def test_a_kernel_runs_once_per_call_with_defaults_and_attributes(calls):
    counted, seen = calls
    assert counted(tf.constant([1.0, 2.0])).numpy().tolist() == [2.0, 4.0]
    assert counted(tf.constant(3), scale=5).numpy() == 15
    assert seen == [2, 5]


def test_types_are_checked_before_the_kernel_runs(calls):
    counted, seen = calls
    with pytest.raises((TypeError, tf.errors.InvalidArgumentError)):
        counted(tf.constant("text"))
    assert not seen


def test_errors_name_the_op():
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[Op:Reshape\]"):
        tf.reshape(tf.zeros([2]), [3])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[Op:MatMul\].*name: product"):
        tf.raw_ops.MatMul(a=tf.zeros([2, 3]), b=tf.zeros([2, 3]), name="product")


@pytest.mark.parametrize("shape", [(), (0,), (3, 2)])
def test_eager_and_graph_agree(shape):
    x = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)

    def compute(x):
        return tf.tanh(x) + tf.cast(tf.size(x), tf.float32)
    np.testing.assert_allclose(compute(tf.constant(x)), tf.function(compute)(x), rtol=1e-6)


def test_truth_of_an_empty_tensor():
    assert not tf.zeros([0]) and not tf.zeros([2, 0]) and tf.constant([1])
    with pytest.raises(ValueError, match="ambiguous"):
        bool(tf.constant([1, 2]))
