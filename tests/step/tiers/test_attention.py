"""Attention found in traced steps: the fused kernels give what the separate ops give, forward and backward."""
import math

import numpy as np
import pytest
import torch

import penstock as tf
from penstock._src.execute.context import eager_context
from penstock._src.step.tiers import attention, inductor, lower, products

B, T, H, D = 2, 16, 2, 16


def traced(function, *args):
    """The functional graph of a tf.function's step, and a maker of fresh inputs for it."""
    function(*args)
    concrete, ctx = function.get_concrete_function(*args), eager_context()
    feeds = tuple(t._value for t in (*args, *concrete.captured_inputs))
    low = lower.trace(concrete.graph_function.unfused(ctx), ctx, feeds, torch.device("cpu"))
    graph = inductor.functional(low.graph, low.example)

    def inputs():
        return [v.value.clone() for v in low.variables] + [feeds[i] for i in low.feeds] + [low.draws.next(False)]
    return graph, inputs


def training(net, variables, x):
    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(net(x)))
        for v, g in zip(variables(), tape.gradient(loss, variables()), strict=True):
            v.assign_sub(0.01 * g)
        return loss
    return traced(step, x)


def agrees(graph, inputs, rewrite, count):
    before = inputs()
    expected = graph(*before)
    assert rewrite(graph) == count
    after = inputs()
    torch.testing.assert_close(graph(*after), expected, rtol=1e-4, atol=1e-6)
    for a, b in zip(after, before, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


def draw(*shape, seed=0):
    return np.random.RandomState(seed).randn(*shape).astype(np.float32)


@pytest.fixture
def weights():
    return [tf.Variable(draw(D, 3 * D) * 0.3), tf.Variable(draw(D, D, seed=1) * 0.3)]


def split(x, w):
    h = tf.transpose(tf.reshape(tf.matmul(tf.reshape(x, [B * T, D]), w), [B, T, 3, H, D // H]), [2, 0, 3, 1, 4])
    return tf.unstack(h)


def merged(y, w):
    return tf.matmul(tf.reshape(tf.transpose(y, [0, 2, 1, 3]), [B * T, D]), w)


def causal_by_where(a):
    return tf.where(tf.linalg.band_part(tf.ones([T, T]), -1, 0) > 0, a, -1e4)


def causal_by_hiding(a):
    places = tf.range(T)
    return tf.where(places[:, None] < places[None], -1e9, a)


def causal_by_factors(a):
    mask = tf.linalg.band_part(tf.ones([T, T]), -1, 0)
    return a * mask - 1e4 * (1 - mask)


def window(a):
    return tf.where(tf.linalg.band_part(tf.ones([T, T]), 3, 3) > 0, a, -1e9)


@pytest.mark.parametrize("mask", [causal_by_where, causal_by_hiding, causal_by_factors, window, lambda a: a])
@pytest.mark.parametrize("scale", [lambda a: a * (1 / math.sqrt(D // H)), lambda a: a / math.sqrt(D // H), lambda a: a])
def test_written_out(mask, scale, weights):
    def net(x):
        q, k, v = split(x, weights[0])
        return merged(tf.matmul(tf.nn.softmax(mask(scale(tf.matmul(q, k, transpose_b=True)))), v), weights[1])
    agrees(*training(net, lambda: weights, tf.constant(draw(B, T, D))), attention.use_kernels, 1)


def test_a_mask_that_is_added_at_run_time(weights):
    lengths = tf.Variable([10, 16])

    def net(x):
        q, k, v = split(x, weights[0])
        low = (1.0 - tf.cast(tf.sequence_mask(lengths, T), tf.float32))[:, None, None, :] * -1e9
        return merged(tf.matmul(tf.nn.softmax(tf.matmul(q, k, transpose_b=True) * 0.35 + low), v), weights[1])
    agrees(*training(net, lambda: weights, tf.constant(draw(B, T, D))), attention.use_kernels, 1)


@pytest.mark.parametrize("causal", [False, True])
def test_keras(causal):
    layer = tf.keras.layers.MultiHeadAttention(H, D // H)

    def net(x):
        return layer(x, x, use_causal_mask=causal)
    agrees(*training(net, lambda: layer.trainable_variables, tf.constant(draw(B, T, D))), attention.use_kernels, 1)


def test_several_layers(weights):
    def net(x):
        for _ in range(3):
            q, k, v = split(x, weights[0])
            y = merged(tf.matmul(tf.nn.softmax(tf.matmul(q, k, transpose_b=True) * 0.3), v), weights[1])
            x = x + tf.reshape(y, [B, T, D])
        return x
    agrees(*training(net, lambda: weights, tf.constant(draw(B, T, D))), attention.use_kernels, 3)


def test_einsum_forward_only(weights):
    @tf.function
    def f(x):
        q, k, v = (tf.reshape(tf.matmul(tf.reshape(x, [-1, D]), weights[0][:, i * D:(i + 1) * D]), [B, T, H, -1])
                   for i in range(3))
        return tf.einsum("bhij,bjhd->bihd", tf.nn.softmax(tf.einsum("bihd,bjhd->bhij", q, k) * 0.3), v)
    agrees(*traced(f, tf.constant(draw(B, T, D))), attention.use_kernels, 1)


@pytest.mark.parametrize("other", ["probabilities", "no mask", "learned bias"])
def test_what_is_not_attention_stays(other, weights):
    bias = tf.Variable(draw(1, H, T, T, seed=2))

    def net(x):
        q, k, v = split(x, weights[0])
        a = tf.matmul(q, k, transpose_b=True)
        if other == "no mask":
            a = tf.where(a > 0, a, -1e4)                    # depends on the scores
        elif other == "learned bias":
            a = a + bias                                    # its gradient needs that of the scores
        p = tf.nn.softmax(a)
        out = merged(tf.matmul(p, v), weights[1])
        return out + tf.reduce_mean(tf.abs(p)) if other == "probabilities" else out
    variables = [*weights, bias] if other == "learned bias" else weights
    agrees(*training(net, lambda: variables, tf.constant(draw(B, T, D))), attention.use_kernels, 0)


@pytest.mark.parametrize("transpose", [False, True])
def test_the_gradient_of_a_matrix_is_one_product(transpose):
    w = tf.Variable(draw(8, D) if transpose else draw(D, 8))

    def net(x):
        return tf.matmul(tf.tanh(x), w, transpose_b=transpose)
    graph, inputs = training(net, lambda: [w], tf.constant(draw(B, T, D)))
    batched = sum(n.target is torch.ops.aten.bmm.default for n in graph.graph.nodes)
    agrees(graph, inputs, products.join_sums, batched)
    assert not any(n.target is torch.ops.aten.bmm.default for n in graph.graph.nodes)
