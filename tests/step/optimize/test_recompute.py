"""Memory of steps on a (pretended) GPU: what frees memory runs early, what is cheap is computed again, and numbers stay."""
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import penstock.compat.v1 as tf
from penstock._src.graph import context
from penstock._src.kernels.devices.cpu import Cpu
from penstock._src.step import compiler
from penstock._src.step.optimize import memory
from tests.step.partition.test_partition import build, programs
from tests.step.place.fake_gpu import FakeGpu


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """One GPU, on which every byte counts."""
    monkeypatch.setattr("penstock._src.session.local.local_devices", lambda config=None: [Cpu(0, 0, 1), FakeGpu(0, 0, 1)])
    monkeypatch.setenv("PENSTOCK_TIER", "1")
    monkeypatch.setattr(memory, "_LARGE", 1)
    monkeypatch.setattr(memory, "_LEAST", 1)
    monkeypatch.setattr(context.process, "v2_control_flow", False)


@pytest.fixture
def steps(monkeypatch):
    """The optimized steps, in the order in which they were compiled."""
    seen = []
    usual = compiler.optimized

    def optimized(*args, **kw):
        seen.append(usual(*args, **kw))
        return seen[-1]
    monkeypatch.setattr(compiler, "optimized", optimized)
    return seen


def perceptron(device, layers=4, options=None):
    """Five steps of training: losses and variables."""
    draw = np.random.RandomState(0)
    with tf.Graph().as_default(), tf.device(device):
        x = h = tf.placeholder(tf.float32, [32, 8])
        weights = [tf.Variable(draw.randn(8, 8).astype("f") * 0.4) for _ in range(layers)]
        for w in weights:
            h = tf.matmul(h, w)
            h = 0.5 * h * (1.0 + tf.tanh(0.8 * (h + 0.04 * h * h * h)))
        loss = tf.reduce_mean(tf.square(h - 1.0))
        gradients = tf.gradients(loss, weights)
        train = [tf.assign_sub(w, 0.1 * g) for w, g in zip(weights, gradients, strict=True)]
        with tf.Session(config=options) as sess:
            sess.run(tf.global_variables_initializer())
            losses = [sess.run([loss, train], {x: draw.randn(32, 8)})[0] for _ in range(5)]
            return losses, sess.run(weights)


def same(found, expected):
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5, atol=1e-7)
    for a, b in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def peak(step):
    """The bytes that are alive at the peak of a step."""
    plan = memory._Plan(step, set())
    return sum(plan.bytes.get(v, 0) for v in plan.alive)


def largest(steps):
    return max(steps, key=lambda s: len(s.ops))


def test_training_keeps_less_and_gives_the_same_numbers(steps, monkeypatch):
    found = perceptron("/gpu:0")
    lean = peak(largest(steps))
    steps.clear()
    monkeypatch.setattr(memory, "_LEAST", 1 << 60)
    same(perceptron("/gpu:0"), found)
    assert lean < 0.6 * peak(largest(steps))
    same(found, perceptron("/cpu:0"))


def test_an_option_turns_it_off(steps):
    options = tf.ConfigProto()
    options.graph_options.rewrite_options.memory_optimization = options.graph_options.rewrite_options.NO_MEM_OPT
    perceptron("/gpu:0", options=options)
    whole = peak(largest(steps))
    steps.clear()
    perceptron("/gpu:0")
    assert peak(largest(steps)) < whole


def test_gradients_of_filters_do_not_wait_for_those_of_first_layers(steps):
    """Fetches of the first layers come first: their gradients need those of all activations."""
    perceptron("/gpu:0", layers=6)
    step = largest(steps)
    places = {op: i for i, op in enumerate(step.ops)}
    products = [op for op in step.ops if op.type == "MatMul" and op.name.startswith("gradients/")]
    by_layer = {}
    for op in products:
        by_layer.setdefault(op.name.rsplit("/", 1)[0], []).append(places[op])
    pairs = [sorted(p) for p in by_layer.values() if len(p) == 2]
    assert len(pairs) == 5
    for a, b in pairs:
        assert sum(a < places[op] < b for op in products) == 0


def test_a_read_is_not_used_behind_an_update():
    def run(device):
        with tf.Graph().as_default(), tf.device(device):
            v = tf.Variable(np.linspace(-1, 1, 16, dtype="f").reshape(4, 4))
            x = tf.placeholder(tf.float32, [4, 4])
            first = tf.sin(v * x) + tf.cos(v)
            total = tf.matmul(first, first)
            with tf.control_dependencies([total]):
                changed = tf.assign_add(v, x)
            with tf.control_dependencies([changed]):
                late = tf.matmul(first, tf.identity(v.read_value() if hasattr(v, "read_value") else v))
            with tf.Session() as sess:
                sess.run(tf.global_variables_initializer())
                draw = np.random.RandomState(1)
                return [sess.run([total, late], {x: draw.randn(4, 4)}) for _ in range(3)]
    np.testing.assert_allclose(run("/gpu:0"), run("/cpu:0"), rtol=1e-5, atol=1e-6)


@given(program=programs())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_graphs(program):
    nodes, fetched = program
    feed = np.array([[0.5, -1.0], [2.0, 0.25]], np.float32)
    results = []
    for place in ("/cpu:0", "/gpu:0"):
        with tf.Graph().as_default():
            x, values, _ = build(nodes, [place] * 3)
            with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as sess:
                sess.run(tf.global_variables_initializer())
                results.append([sess.run(values[-fetched:], {x: feed}) for _ in range(2)])
    for a, b in zip(*results, strict=True):
        for p, q in zip(a, b, strict=True):
            np.testing.assert_allclose(q, p, rtol=1e-5, atol=1e-6)
