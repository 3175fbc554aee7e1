"""Small updates that run behind the graph of a compiled step. Here graphs run as they were traced, on the host, where joined
updates are requested."""
import numpy as np
import pytest

import penstock.compat.v1 as tf
from penstock._src.step.ir import StepGraph
from penstock._src.step.tiers import inductor, lower, tiers

SHAPES = [(3,), (4, 2), (300, 300), (5,)]                    # the third is not tiny


@pytest.fixture(autouse=True)
def traced(monkeypatch):
    """The traces that were created."""
    seen = []

    def trace(*args, usual=lower.trace):
        seen.append(usual(*args))
        return seen[-1]
    monkeypatch.setattr(lower, "trace", trace)
    monkeypatch.setattr(inductor, "available", lambda device: True)
    monkeypatch.setattr(inductor, "compiled", lambda graph, example: lambda inputs: graph(*inputs))
    monkeypatch.setattr(StepGraph, "on_host", lambda self, op: False)
    return seen


def run(build, jit, steps=5):
    """What a step returns, and the variables after some steps."""
    config = tf.ConfigProto()
    config.graph_options.optimizer_options.global_jit_level = 1 if jit else -1
    with tf.Graph().as_default():
        draw = np.random.RandomState(0)
        held = [tf.get_variable(f"v{i}", initializer=draw.randn(*s).astype("f"), use_resource=True)
                for i, s in enumerate(SHAPES)]
        fetched = build(held)
        with tf.Session(config=config) as sess:
            sess.run(tf.global_variables_initializer())
            results = [sess.run(fetched) for _ in range(steps)]
            return results, sess.run(tf.global_variables())


def loss_of(held):
    return tf.add_n([tf.reduce_sum(tf.square(v - 1.0) * tf.sin(v)) for v in held])


def agree(build):
    found, wanted = run(build, True), run(build, False)
    for a, b in zip(tf.nest.flatten(found), tf.nest.flatten(wanted), strict=True):
        if b is not None:
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("optimizer", [lambda: tf.train.AdamOptimizer(0.05), lambda: tf.train.MomentumOptimizer(0.01, 0.9),
                                       lambda: tf.train.RMSPropOptimizer(0.01)])
def test_tiny_updates_run_behind_the_graph(traced, optimizer):
    def build(held):
        loss = loss_of(held)
        return [loss, optimizer().minimize(loss)]
    agree(build)
    low = next(t for t in traced if t.variables)
    (_, arguments, _), = low.later
    assert [v.name for v in arguments[0]] == ["v0", "v1", "v3"]
    assert "v2" in {low.variables[i].name for i in low.changed}


def test_what_is_read_after_an_update_is_part_of_the_graph(traced):
    def build(held):
        loss = loss_of(held)
        train = tf.train.MomentumOptimizer(0.01, 0.9).minimize(loss)
        with tf.control_dependencies([train]):
            after = held[0].read_value() * 2.0
        return [loss, after]
    agree(build)
    assert [t.later for t in traced if t.variables] and not any(t.later for t in traced)


def test_a_value_from_before_the_update_is_returned():
    def build(held):
        before = tf.identity(held[0])
        loss = loss_of(held)
        with tf.control_dependencies([before]):
            train = tf.train.AdamOptimizer(0.05).minimize(loss)
        return [before, train]
    agree(build)


def test_a_wrong_update_is_not_taken_over(monkeypatch):
    """The trial compares variables whose updates run behind the graph, too."""
    def wrong(self, out, copies, beside=None, usual=tiers.Compiled._run_later):
        usual(self, out, copies, beside)
        for c in copies.values():
            c.value.add_(100.0)
    monkeypatch.setattr(tiers.Compiled, "_run_later", wrong)
    before = tiers.refused[3, "a variable differs"]

    def build(held):
        loss = loss_of(held)
        return [loss, tf.train.MomentumOptimizer(0.01, 0.9).minimize(loss)]
    agree(build)
    assert tiers.refused[3, "a variable differs"] == before + 1
