"""Parts of steps that torch.compile is given: jit_compile, global_jit_level, set_jit."""
import contextlib
import logging

import numpy as np
import pytest
import torch

import penstock as tf2
import penstock.compat.v1 as tf
from penstock._src.step.compile import part
from penstock._src.step.optimize.parts import take_parts

from .steps import after, step_of


@pytest.fixture
def graphs(monkeypatch):
    """The graphs that torch.compile would be given; they run as they are."""
    seen = []
    monkeypatch.setattr(part, "_torch_compile", lambda graph: seen.append(graph) or graph)
    return seen


def jitted(level=1):
    config = tf.ConfigProto()
    config.graph_options.optimizer_options.global_jit_level = level
    return tf.Session(config=config)


@contextlib.contextmanager
def everywhere():
    tf2.config.optimizer.set_jit(True)
    try:
        yield
    finally:
        tf2.config.optimizer.set_jit(False)


def model():
    """A network with dropout, its loss and a step of training."""
    tf.set_random_seed(3)
    x, y = tf.placeholder(tf.float32, [None, 6]), tf.placeholder(tf.int64, [None])
    w, v = (tf.Variable(np.random.RandomState(i).randn(*s).astype(np.float32)) for i, s in enumerate([(6, 8), (8, 3)]))
    h = tf.nn.dropout(tf.nn.relu(tf.matmul(x, w)), rate=0.5, seed=1)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=tf.matmul(h, v)))
    return x, y, [w, v], loss, tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)


def trained(session, steps=6):
    with tf.Graph().as_default():
        x, y, variables, loss, train = model()
        with session() as sess:
            sess.run(tf.global_variables_initializer())
            rng = np.random.RandomState(0)
            losses = [sess.run([loss, train], {x: rng.randn(5, 6), y: rng.randint(0, 3, 5)})[0] for _ in range(steps)]
            return losses, sess.run(variables)


def test_training_is_the_same(graphs):
    losses, values = trained(jitted)
    assert graphs                                            # parts were compiled
    plain_losses, plain_values = trained(tf.Session)
    np.testing.assert_allclose(losses, plain_losses, rtol=1e-5)
    for a, b in zip(values, plain_values, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("level, compiled", [(-1, False), (0, False), (1, True), (2, True)])
def test_levels(graphs, level, compiled):
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [4])
        y = tf.tanh(x) * tf.sigmoid(x)
        with jitted(level) as sess:
            assert ("CompiledPart" in sess.explain(y, {x: None})) is compiled
            for _ in range(3):
                np.testing.assert_allclose(sess.run(y, {x: np.ones(4)}), np.tanh(1.) / (1 + np.exp(-1.)), rtol=1e-6)
    assert bool(graphs) is compiled


def test_functions_and_their_gradients(graphs):
    v = tf2.Variable(2.)

    @tf2.function(jit_compile=True)
    def f(x):
        return tf2.reduce_sum(tf2.sin(x) * v * tf2.exp(x))
    x = tf2.constant([0.5, -1.])
    for _ in range(4):
        with tf2.GradientTape() as tape:
            tape.watch(x)
            out = f(x)
        grad = tape.gradient(out, [x, v])
    e, s, c = np.exp(x), np.sin(x), np.cos(x)
    np.testing.assert_allclose(out, (s * e * 2).sum(), rtol=1e-6)
    np.testing.assert_allclose(grad[0], 2 * e * (s + c), rtol=1e-6)
    np.testing.assert_allclose(grad[1], (s * e).sum(), rtol=1e-6)
    assert len(graphs) >= 2                                  # forward and backward
    count = len(graphs)
    f(x)
    assert len(graphs) == count                              # made once


def test_set_jit(graphs):
    with everywhere():
        assert tf2.config.optimizer.get_jit()

        @tf2.function
        def f(x):
            return tf2.tanh(x) + tf2.exp(x)
        for _ in range(3):
            f(tf2.constant([1., 2.]))
    assert graphs and not tf2.config.optimizer.get_jit()


def test_effects_keep_their_order(graphs):
    v = tf2.Variable([1., 2.])

    @tf2.function(jit_compile=True)
    def f(x):
        y = tf2.exp(-v) * x
        v.assign(tf2.tanh(y) + 1.)
        z = tf2.square(v) - y
        v.assign_add(tf2.sqrt(z * z) / 8.)
        return y, z, v.read_value()
    want = np.array([1., 2.], np.float32)
    for _ in range(4):
        y, z, read = f(tf2.constant(.5))
        by_hand = np.exp(-want) * .5
        want = np.tanh(by_hand) + 1
        np.testing.assert_allclose(y, by_hand, rtol=1e-5)
        np.testing.assert_allclose(z, want ** 2 - by_hand, rtol=1e-5)
        want = want + np.abs(want ** 2 - by_hand) / 8
        np.testing.assert_allclose(read, want, rtol=1e-5)
    assert len(graphs) == 2


def test_new_shapes_and_too_many_shapes(graphs):
    f = tf2.function(lambda x: tf2.tanh(x) * tf2.exp(x), jit_compile=True, input_signature=[tf2.TensorSpec([None])])
    for n in range(1, 12):
        for _ in range(4):
            x = np.arange(n, dtype=np.float32)
            np.testing.assert_allclose(f(x), np.tanh(x) * np.exp(x), rtol=1e-6)
    assert len(graphs) == 8


def test_nothing_is_said_where_it_cannot_be_compiled(monkeypatch, caplog, recwarn):
    def refuse(graph):
        raise RuntimeError("no compiler")
    monkeypatch.setattr(part, "_torch_compile", refuse)
    f = tf2.function(lambda x: tf2.tanh(x) * tf2.exp(x), jit_compile=True)
    with caplog.at_level(logging.INFO):
        for _ in range(4):
            np.testing.assert_allclose(f(tf2.constant(0.5)), np.tanh(.5) * np.exp(.5), rtol=1e-6)
    assert not caplog.records and not recwarn.list


def test_code_that_fails_later_is_left(graphs, monkeypatch):
    def break_down(graph):
        calls = []

        def run(*args):
            calls.append(args)
            if len(calls) > 1:
                raise RuntimeError("broken")
            return graph(*args)
        return run
    monkeypatch.setattr(part, "_torch_compile", break_down)
    f = tf2.function(lambda x: tf2.tanh(x) * tf2.exp(x), jit_compile=True)
    for _ in range(4):
        np.testing.assert_allclose(f(tf2.constant(0.5)), np.tanh(.5) * np.exp(.5), rtol=1e-6)


def test_errors_name_the_op():
    with tf.Graph().as_default(), jitted() as sess:
        x, at = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.int32, [None])
        y = tf.exp(tf.gather(tf.tanh(x), at, name="picked"))
        for _ in range(3):
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices\[0\] = 7 is not in \[0, 2\)") as found:
                sess.run(y, {x: [1., 2.], at: [7]})
            assert "picked" in str(found.value)


def test_what_looks_at_values_stays_outside():
    with tf.Graph().as_default():
        x, n = tf.placeholder(tf.float32, [4]), tf.placeholder(tf.int32, [1])
        y = tf.exp(tf.reshape(tf.tanh(x) * 2., n)) + 1.
        left = after(take_parts, [y], feeds=[x, n])
        assert "Reshape" in left and left.count("_CompiledPart") == 2


def test_strings_calls_and_randomness_stay_outside():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [4])
        y = tf.exp(tf.tanh(x) * tf.random_uniform([4], seed=1))
        text = tf.as_string(y)
        step = step_of([text], feeds=[x])
        take_parts(step)
        types = [op.type for op in step.ops]
        assert "RandomUniform" in types and "AsString" in types and "_CompiledPart" in types


@pytest.mark.slow
@pytest.mark.timeout(600)                                    # a compiler of C++ is at work
def test_torch_compiles():
    losses, _ = trained(jitted)
    plain, _ = trained(tf.Session)
    np.testing.assert_allclose(losses, plain, rtol=1e-5)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.timeout(600)
def test_torch_compiles_for_a_gpu():
    losses, values = trained(jitted, steps=8)                # the last steps are replayed as CUDA graphs, where they can be
    plain_losses, plain_values = trained(tf.Session, steps=8)
    np.testing.assert_allclose(losses, plain_losses, rtol=1e-3)
    for a, b in zip(values, plain_values, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


def test_parts_stay_on_their_devices(graphs):
    config = tf.ConfigProto(device_count={"CPU": 2})
    config.graph_options.optimizer_options.global_jit_level = 1
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [3])
        with tf.device("/cpu:0"):
            a = tf.tanh(x) * tf.exp(x)
        with tf.device("/cpu:1"):
            b = tf.sigmoid(a) + tf.sqrt(a * a)
        with tf.device("/cpu:0"):
            c = tf.square(b) - tf.cos(a)
        with tf.Session(config=config) as sess:
            for _ in range(3):
                given = np.array([.5, 1., 2.], np.float32)
                found = sess.run(c, {x: given})
    by_hand = np.tanh(given) * np.exp(given)
    np.testing.assert_allclose(found, (1 / (1 + np.exp(-by_hand)) + by_hand) ** 2 - np.cos(by_hand), rtol=1e-5)
    assert len(graphs) == 3
