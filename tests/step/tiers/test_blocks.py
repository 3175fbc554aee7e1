"""Attention in programs. Here the pass takes the host for a GPU, with the fused attention of CPUs; `-m gpu` runs the others."""
import math

import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as tf1
from penstock._src.step.optimize import pipeline
from penstock._src.step.tiers import blocks

HOST = {"join_pointwise", "join_regions", "join_small", "save_together"}
N, T, H, D = 2, 16, 2, 32


@pytest.fixture
def found(monkeypatch):
    """Per block that was replaced, whether it has a gradient."""
    made, usual = [], blocks._put

    def noted(step, *arguments):
        usual(step, *arguments)
        made.append(arguments[-1].second is not None)
    monkeypatch.setattr(blocks, "_is_on_gpu", lambda op: True)
    monkeypatch.setattr(blocks, "_put", noted)
    monkeypatch.setattr(pipeline, "PASSES", tuple(p for p in pipeline.PASSES if p[1].__name__ not in HOST))
    return made


def heads(x):
    return tf.transpose(tf.reshape(x, [N, T, H, D // H]), [0, 2, 1, 3])


def merged(y):
    return tf.reshape(tf.transpose(y, [0, 2, 1, 3]), [N, T, D])


def plain(x, w, scores=lambda a: a):
    q, k, v = (heads(h) for h in tf.split(tf.einsum("ntd,de->nte", x, w), 3, -1))
    return merged(tf.matmul(tf.nn.softmax(scores(tf.matmul(q, k, transpose_b=True) / math.sqrt(D // H))), v))


def unstacked(x, w):
    h = tf.transpose(tf.reshape(tf.matmul(tf.reshape(x, [N * T, D]), w), [N, T, 3, H, D // H]), [2, 0, 3, 1, 4])
    q, k, v = tf.unstack(h)
    mask = tf.linalg.band_part(tf.ones([T, T]), -1, 0)
    a = tf.where(mask > 0, tf.matmul(q, k, transpose_b=True) * 0.25, -1e4)
    return merged(tf.matmul(tf.nn.softmax(a), v))


def by_einsum(x, w):
    q, k, v = (tf.reshape(h, [N, T, H, D // H]) for h in tf.split(tf.einsum("ntd,de->nte", x, w), 3, -1))
    p = tf.nn.softmax(tf.einsum("nqhd,nkhd->nhqk", q, k) * 0.25)
    return tf.reshape(tf.einsum("nhqk,nkhd->nqhd", p, v), [N, T, D])


def padded(x, w):
    return plain(x, w, lambda a: a + (1.0 - tf.cast(tf.sequence_mask([9, 16], T), a.dtype))[:, None, None] * -1e9)


WAYS = {"plain": plain, "unstacked": unstacked, "einsum": by_einsum, "padded": padded,
        "causal": lambda x, w: plain(x, w, lambda a: tf.where(tf.range(T)[:, None] < tf.range(T), -1e9, a)),
        "two layers": lambda x, w: plain(plain(x, w) + x, w)}


def draw(*shape, seed=0):
    return tf.constant(np.random.RandomState(seed).randn(*shape), tf.float32)


def trained(way):
    @tf.function
    def step(x, w):
        with tf.GradientTape() as tape:
            tape.watch([x, w])
            loss = tf.reduce_sum(tf.square(way(x, w)) * draw(N, T, D, seed=2))
        return loss, *tape.gradient(loss, [x, w])
    return [t.numpy() for t in step(draw(N, T, D), draw(D, 3 * D, seed=1) * 0.3)]


@pytest.mark.parametrize("name", WAYS)
def test_values_and_gradients_are_those_of_separate_ops(name, found, monkeypatch):
    results = trained(WAYS[name])
    assert found == [True] * (2 if name == "two layers" else 1)
    monkeypatch.setattr(blocks, "use_blocks", lambda step, ctx: None)
    monkeypatch.setattr(blocks, "_is_on_gpu", lambda op: False)
    expected = trained(WAYS[name])
    assert len(found) == (2 if name == "two layers" else 1)
    for a, b in zip(results, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * np.abs(b).max())


@pytest.mark.parametrize("name", WAYS)
def test_a_forward_pass_alone(name, found):
    x, w = draw(N, T, D), draw(D, 3 * D, seed=1) * 0.3
    result = tf.function(WAYS[name])(x, w)
    assert found == [False] * (2 if name == "two layers" else 1)
    np.testing.assert_allclose(result, WAYS[name](x, w), rtol=1e-4, atol=1e-5)


def test_layers_of_keras(found):
    layer = tf.keras.layers.MultiHeadAttention(H, D // H)
    x = draw(N, T, D)
    expected = layer(x, x, use_causal_mask=True)
    result = tf.function(lambda x: layer(x, x, use_causal_mask=True))(x)
    assert found == [False]
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_a_session(found):
    with tf1.Graph().as_default(), tf1.Session() as session:
        x, w = draw(N, T, D), tf1.Variable(draw(D, 3 * D, seed=1) * 0.3)
        loss = tf1.reduce_sum(tf1.square(plain(x, w)))
        train = tf1.train.GradientDescentOptimizer(1e-4).minimize(loss)
        session.run(tf1.global_variables_initializer())
        first, _ = session.run([loss, train])
        assert found == [True]
        assert session.run(loss) < first


def test_scores_that_are_needed_stay(found):
    x, w = draw(N, T, D), draw(D, 3 * D, seed=1)

    @tf.function
    def f(x, w):
        q, k, v = (heads(h) for h in tf.split(tf.einsum("ntd,de->nte", x, w), 3, -1))
        p = tf.nn.softmax(tf.matmul(q, k, transpose_b=True))
        return tf.matmul(p, v), p
    y, p = f(x, w)
    assert not found
    np.testing.assert_allclose(tf.reduce_sum(p, -1), np.ones([N, H, T]), rtol=1e-5)
    assert y.shape == [N, H, T, D // H]


def test_a_softmax_that_is_no_attention_stays(found):
    f = tf.function(lambda x: tf.matmul(tf.nn.softmax(x * 2.0), x, transpose_b=True))
    x = draw(N, T, D)
    np.testing.assert_allclose(f(x), tf.matmul(tf.nn.softmax(x * 2.0), x, transpose_b=True), rtol=1e-5)
    assert not found


def test_a_draw_that_others_wait_for(found, monkeypatch):
    """A dropout whose kernel the host lacks: the ops stay, and so does what they wait for."""
    v = tf.Variable(1.0)

    @tf.function
    def f(x, w):
        y = plain(x, w)
        p = tf.nn.dropout(y, 0.5)
        v.assign_add(1.0)
        return tf.reduce_sum(p) * v
    for i in range(2):
        assert math.isfinite(float(f(draw(N, T, D), draw(D, 3 * D, seed=1))))
        assert float(v) == 2.0 + i
