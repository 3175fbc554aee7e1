"""Eager execution with a GPU, with a pretended one (fake_gpu.py)."""
import numpy as np
import pytest

import penstock as tf
from penstock._src.base import errors
from penstock._src.graph import context
from penstock._src.kernels.devices import device_config
from penstock._src.kernels.devices.cpu import Cpu
from penstock._src.kernels.devices.devices import DeviceSet
from tests.step.place.fake_gpu import FakeGpu, OnGpu

NAME = "/job:localhost/replica:0/task:0/device:"


@pytest.fixture(autouse=True)
def fake(monkeypatch):
    context.process.eager = True
    monkeypatch.setenv("PENSTOCK_TIER", "1")
    device_config.settings.devices = DeviceSet([Cpu(0, 0, 1), FakeGpu(0, 0, 1)])


def test_tensors_are_on_the_gpu_by_default():
    x = tf.constant([1.0, 2.0])
    y = x * 2.0 + 1.0
    assert x.device == y.device == NAME + "GPU:0"
    assert isinstance(y._value, OnGpu)
    np.testing.assert_array_equal(y.numpy(), [3, 5])
    i = tf.constant([1, 2])
    assert not isinstance((i + 1)._value, OnGpu)
    assert tf.constant("text").device == NAME + "CPU:0"


def test_scopes_and_copies():
    with tf.device("CPU:0"):
        x = tf.constant([1.0, 2.0])
        y = x + 1.0
    assert y.device == NAME + "CPU:0"
    assert not isinstance(y._value, OnGpu)
    z = y.gpu()
    assert z.device == NAME + "GPU:0"
    assert isinstance(z._value, OnGpu)
    back = z.cpu()
    assert back.device == NAME + "CPU:0"
    assert not isinstance(back._value, OnGpu)
    with tf.device("GPU:0"):
        assert isinstance((y * 2.0)._value, OnGpu)


def test_missing_kernels():
    i = tf.ones([2, 2], tf.int32)
    with tf.device("GPU:0"):
        np.testing.assert_array_equal(tf.matmul(i, i).numpy(), [[2, 2], [2, 2]])
        tf.config.set_soft_device_placement(False)
        with pytest.raises(errors.InvalidArgumentError, match="MatMul, which has kernels for CPU"):
            tf.matmul(i, i)


def test_training():
    w, b = tf.Variable(tf.ones([2, 1])), tf.Variable(tf.zeros([1]))
    n = tf.Variable(0)
    assert w.device == NAME + "GPU:0"
    assert n.device == NAME + "CPU:0"
    x, y = tf.constant([[1.0, 2.0], [3.0, 4.0]]), tf.constant([[1.0], [0.0]])
    losses = []
    for _ in range(5):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.matmul(x, w) + b - y))
        for v, g in zip([w, b], tape.gradient(loss, [w, b]), strict=True):
            v.assign_sub(0.01 * g)
        n.assign_add(1)
        losses.append(float(loss))
    assert losses == sorted(losses, reverse=True)
    assert int(n) == 5
    assert isinstance(w.handle._value.value, OnGpu)


def test_functions():
    v = tf.Variable(2.0)

    @tf.function
    def f(x, n):
        total = tf.zeros([2])
        for _ in tf.range(n):
            total += x * v
        return total, tf.shape(x)[0] * n
    total, size = f(tf.constant([1.0, 2.0]), tf.constant(3))
    np.testing.assert_array_equal(total.numpy(), [6, 12])
    assert int(size) == 6
    assert isinstance(total._value, OnGpu)


def test_strings_and_shapes():
    x = tf.ones([2, 3])
    assert tf.strings.as_string(tf.constant([1.5])).numpy().tolist() == [b"1.500000"]
    np.testing.assert_array_equal(tf.reshape(x, [tf.size(x)]).numpy(), np.ones(6))
    np.testing.assert_array_equal(tf.gather(x, tf.constant([1, 0])).numpy(), np.ones([2, 3]))
    assert tf.argmax(tf.constant([1.0, 3.0, 2.0])).numpy() == 1


def test_variables_of_the_host_in_functions_for_the_gpu():
    with tf.device("CPU:0"):
        v = tf.Variable([[2.0]])
    with tf.device("GPU:0"):
        w = tf.Variable([[3.0]])
    assert not isinstance(v.handle._value.value, OnGpu) and isinstance(w.handle._value.value, OnGpu)

    @tf.function
    def f(x):
        with tf.device("GPU:0"):
            there = tf.matmul(tf.nn.relu(x), v) + w
        with tf.device("CPU:0"):
            here = tf.matmul(tf.nn.relu(x), w)
        return there, here
    there, here = f(tf.constant([[5.0]]))
    assert isinstance(there._value, OnGpu) and not isinstance(here._value, OnGpu)
    assert there.numpy() == 13 and here.numpy() == 15
