"""Steps on a host and a fake GPU (fake_gpu.py): values are on the devices that kernels need, and results return to the host."""
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings

import penstock.compat.v1 as tf
from penstock._src.graph import context
from penstock._src.kernels.devices.cpu import Cpu
from tests.step.partition.test_partition import build, programs
from tests.step.place.fake_gpu import FakeGpu, OnGpu


@pytest.fixture(autouse=True)
def fake(monkeypatch):
    monkeypatch.setattr("penstock._src.session.local.local_devices",
                        lambda config=None: [Cpu(0, 0, 1), Cpu(1, 0, 1), FakeGpu(0, 0, 1), FakeGpu(1, 0, 1)])
    monkeypatch.setenv("PENSTOCK_TIER", "1")
    context.process.v2_control_flow = False
    with tf.Graph().as_default():
        yield


def test_devices_are_as_expected():
    with tf.Session() as sess:
        assert [d.device_type for d in sess.list_devices()] == ["CPU", "CPU", "GPU", "GPU"]


def test_variables_live_on_the_gpu():
    v = tf.get_variable("v", [2, 3], initializer=tf.random_normal_initializer(seed=1))
    n = tf.get_variable("n", [], tf.int32, initializer=tf.zeros_initializer())
    x = tf.placeholder(tf.float32, [None, 2])
    loss = tf.reduce_mean(tf.square(tf.matmul(x, v) - 1.0))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.control_dependencies([train]):
        count = tf.assign_add(n, 1)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        held = {key[1]: getattr(item, "value", None) for key, item in sess._resources.items()}
        assert isinstance(held["v"], OnGpu)
        assert not isinstance(held["n"], OnGpu)
        feed = {x: np.ones([4, 2], np.float32)}
        losses = [sess.run([loss, count], feed)[0] for _ in range(5)]
        assert losses == sorted(losses, reverse=True)
        assert losses[-1] < 0.5 * losses[0]
        assert sess.run(n) == 5


def test_shape_arithmetic_stays_on_the_host():
    x = tf.placeholder(tf.float32, [None, None])
    n = tf.shape(x)[0] * tf.shape(x)[1]
    y = tf.reshape(x, [n])
    i = tf.cast(tf.argmax(y), tf.int32) + 1
    with tf.Session() as sess:
        out = sess.run([y, n, i], {x: np.arange(6.0).reshape(2, 3)})
    np.testing.assert_array_equal(out[0], np.arange(6.0))
    assert out[1:] == [6, 6]


def test_shapes_that_are_fed_are_not_copied():
    x, shape = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.int64, [2])
    y = tf.reshape(x, shape) * 2.0 + tf.reshape(x, tf.constant([2, 3], tf.int64))
    with tf.Session() as sess:
        np.testing.assert_array_equal(sess.run(y, {x: np.ones(6), shape: [2, 3]}), np.full([2, 3], 3.0))
        source = sess.explain(y, {x: 0, shape: 0})
    assert source.count(": Identity") == 1                    # x; the shape stays where it is


def test_strings_and_queues_stay_on_the_host():
    q = tf.FIFOQueue(3, [tf.float32, tf.string])
    put = q.enqueue([tf.placeholder(tf.float32, [], name="x") * 2.0, tf.strings.lower(tf.placeholder(tf.string, [], name="s"))])
    a, b = q.dequeue()
    with tf.Session() as sess:
        sess.run(put, {"x:0": 3.0, "s:0": "ABC"})
        assert sess.run([a + 1.0, b]) == [7.0, b"abc"]


def test_loops_and_functions():
    def body(i, x):
        return i + 1, tf.matmul(x, x) * 0.5 + tf.constant(1.0)
    x = tf.placeholder(tf.float32, [2, 2])
    _, y = tf.while_loop(lambda i, _: i < 3, body, [0, x])
    z = tf.cond(tf.reduce_sum(y) > 0, lambda: y * 2.0, lambda: -y)
    context.process.v2_control_flow = True
    _, w = tf.while_loop(lambda i, _: i < 3, body, [0, x])
    data = np.array([[0.1, 0.2], [0.3, 0.4]], np.float32)
    expected = data
    for _ in range(3):
        expected = expected @ expected * 0.5 + 1
    with tf.Session() as sess:
        got = sess.run([y, z, w], {x: data})
    np.testing.assert_allclose(got[0], expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(got[1], expected * 2, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(got[2], expected, rtol=1e-5, atol=1e-6)


def test_functions_with_ops_of_the_host():
    """The arguments of a branch come from the GPU; Python functions and int32 products are for the host."""
    context.process.v2_control_flow = True
    x = tf.placeholder(tf.float32, [2, 2])
    seen = []

    def branch():
        doubled = tf.py_func(lambda a: seen.append(type(a)) or a * 2, [y], tf.float32)
        whole = tf.matmul(tf.cast(y, tf.int32), tf.cast(y, tf.int32))
        return tf.ensure_shape(doubled, [2, 2]) + tf.cast(whole, tf.float32)
    y = tf.exp(x * 0.0) * 3.0
    z = tf.cond(tf.reduce_sum(y) > 0, branch, lambda: y)
    with tf.Session() as sess:
        np.testing.assert_allclose(sess.run(z, {x: np.ones([2, 2])}), np.full([2, 2], 6.0 + 18.0), rtol=1e-6)
    assert seen == [np.ndarray]


def test_partial_and_traced_runs():
    x = tf.placeholder(tf.float32, [2], name="x")
    v = tf.get_variable("v", [2], initializer=tf.ones_initializer())
    y = x * v + 1.0
    with tf.Session() as sess:
        sess.run(v.initializer)
        metadata = tf.RunMetadata()
        np.testing.assert_array_equal(
            sess.run(y, {x: [1, 2]}, tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), metadata), [2, 3])
        assert any(d.device.endswith("GPU:0") for d in metadata.step_stats.dev_stats)
        handle = sess.partial_run_setup([y], [x])
        np.testing.assert_array_equal(sess.partial_run(handle, y, {x: [1, 2]}), [2, 3])


@given(program=programs())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_graphs_on_host_and_gpus(program):
    nodes, fetched = program
    feed = np.array([[0.5, -1.0], [2.0, 0.25]], np.float32)
    results = []
    for places in (["/cpu:0"] * 3, ["/cpu:0", "/gpu:0", "/gpu:1"], [None, "/gpu:1", "/cpu:1"]):
        with tf.Graph().as_default():
            x, values, _ = build(nodes, places)
            with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as sess:
                sess.run(tf.global_variables_initializer())
                results.append([sess.run(values[-fetched:], {x: feed}) for _ in range(2)])
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            for p, q in zip(a, b, strict=True):
                assert isinstance(q, np.ndarray)
                np.testing.assert_allclose(p, q, rtol=1e-5, atol=1e-6)


def test_the_pretended_gpu_refuses_mixtures():
    with pytest.raises(RuntimeError, match="same device"):
        torch.add(torch.ones(2).as_subclass(OnGpu), torch.ones(2))


def test_the_gradient_of_a_functional_loop():
    """Functions that the gradient's loop calls are not written in place on a GPU: what they take must exist."""
    context.process.v2_control_flow = True
    found = []
    for where in ("/cpu:0", "/gpu:0"):
        with tf.Graph().as_default(), tf.device(where):
            x = tf.constant(np.linspace(-1, 1, 24).reshape(2, 3, 4).astype(np.float32))
            with tf.variable_scope("rnn", initializer=tf.constant_initializer(0.1)):
                outputs, state = tf.nn.dynamic_rnn(tf.nn.rnn_cell.LSTMCell(3), x, dtype=tf.float32)
            loss = tf.reduce_mean(tf.square(outputs)) + tf.reduce_sum(state.h)
            train = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
            with tf.Session() as sess:
                sess.run(tf.global_variables_initializer())
                found.append([sess.run([loss, train])[0] for _ in range(3)])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5)
    assert len(set(found[0])) == 3


def test_counting_and_comparing_stay_on_the_host():
    x, n = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.int32, [])
    small = tf.logical_and(tf.shape(x)[0] < n, tf.constant(True))
    chosen = tf.where(tf.fill([2], small), tf.exp(x[:2]), x[:2])
    on_gpu = tf.logical_not(x > 0.0)
    kinds = []
    with tf.Session() as sess:
        step = sess._engine._compile(("key",), [small, chosen, on_gpu], [x, n])
        raw = step.runnable.run(sess._engine.context(None), torch.tensor([1.0, -1.0]), torch.tensor(3, dtype=torch.int32))
        kinds = [isinstance(v, OnGpu) for v in raw]
        values = sess.run([small, chosen, on_gpu], {x: [1.0, -1.0], n: 3})
    assert kinds == [False, True, True]
    assert values[0] and values[2].tolist() == [False, True]
    np.testing.assert_allclose(values[1], np.exp([1.0, -1.0]), rtol=1e-5)


def test_the_length_of_a_loop_is_read_once(monkeypatch):
    """A condition that is computed on the device in each iteration would stop the host each time."""
    reads = []
    usual = torch.Tensor.item
    monkeypatch.setattr(OnGpu, "item", lambda self: reads.append(self.dtype) or usual(self), raising=False)
    with tf.device("/gpu:0"):
        x = tf.placeholder(tf.float32, [3])
        n = tf.cast(tf.reduce_sum(x), tf.int64)
        last = tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, tf.sin(y) + tf.cast(i, tf.float32)),
                             [tf.constant(0, tf.int64), x])
    with tf.Session() as sess:
        i, y = sess.run(last, {x: [1.0, 2.0, 3.0]})
    expected = np.float32([1, 2, 3])
    for k in range(6):
        expected = np.sin(expected) + np.float32(k)
    assert i == 6
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)
    assert reads.count(torch.int64) == 1 and torch.bool not in reads
