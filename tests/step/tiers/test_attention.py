"""Attention in traced steps: the fused kernels return what the separate ops return, forward and backward."""
import math

import numpy as np
import pytest
import torch

import penstock as tf
from penstock._src.execute.context import eager_context
from penstock._src.step.tiers import attention, inductor, lower, products, views
from penstock._src.step.tiers.views import aten

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


def attended(weights, scores=lambda a: a, probabilities=lambda p: p):
    """A network with one attention, and what it does to the scores and to the probabilities."""
    def net(x):
        q, k, v = split(x, weights[0])
        p = probabilities(tf.nn.softmax(scores(tf.matmul(q, k, transpose_b=True) * 0.35)))
        return merged(tf.matmul(p, v), weights[1])
    return net


@pytest.mark.parametrize("written", [
    lambda a, mask: tf.where(mask, a, -1e9),
    lambda a, mask: tf.where(tf.logical_not(mask), tf.constant(-1e9), a),
    lambda a, mask: a - 1e9 * (1.0 - tf.cast(mask, tf.float32)),
    lambda a, mask: tf.where(mask, a + tf.reshape(tf.range(H, dtype=tf.float32), [H, 1, 1]), -1e9),
])
def test_masks_that_are_computed(weights, written):
    lengths = tf.Variable([10, 16])
    net = attended(weights, lambda a: written(a, tf.sequence_mask(lengths, T)[:, None, None, :]))
    agrees(*training(net, lambda: weights, tf.constant(draw(B, T, D))), attention.use_kernels, 1)


def test_slopes_of_places_with_a_causal_mask(weights):
    """ALiBi: each head adds its own slope times the distance."""
    places = np.arange(T)
    slopes = (2.0 ** -np.arange(1, H + 1))[:, None, None] * -np.abs(places[:, None] - places[None]).astype(np.float32)
    net = attended(weights, lambda a: causal_by_where(a + tf.constant(slopes, tf.float32)))
    agrees(*training(net, lambda: weights, tf.constant(draw(B, T, D))), attention.use_kernels, 1)


class Reference:
    """A kernel of plain ops that derives its bias; it notes the rates of dropout, and does none."""

    drops, derives_bias = True, True
    rates: list = []

    @staticmethod
    def forward(g, q, k, v, bias, causal, scale, rate):
        Reference.rates.append(rate)
        a = views.call(g, aten.mul.Tensor, (views.call(g, aten.matmul.default, (q, flipped(g, k))), scale))
        if causal:
            low = torch.full((T, T), -math.inf).triu(1)
            g.owning_module.register_buffer("low", low)
            node = g.get_attr("low")
            node.meta["val"] = q.meta["val"].fake_mode.from_tensor(low)
            bias = node
        p = views.call(g, aten._softmax.default, (views.call(g, aten.add.Tensor, (a, bias)) if bias else a, -1, False))
        return [views.call(g, aten.matmul.default, (p, v)), p]

    @staticmethod
    def backward(g, of_out, given, kept, bias, causal, scale, rate, of_bias):
        (q, k, v), p = given, kept[1]
        of_a = views.call(g, aten._softmax_backward_data.default,
                          (views.call(g, aten.matmul.default, (of_out, flipped(g, v))), p, -1, torch.float32))
        of_s = views.call(g, aten.mul.Tensor, (of_a, scale))
        return [views.call(g, aten.matmul.default, (of_s, k)), views.call(g, aten.matmul.default, (flipped(g, of_s), q)),
                views.call(g, aten.matmul.default, (flipped(g, p), of_out)), of_a]


def flipped(g, x):
    return views.call(g, aten.transpose.int, (x, -2, -1))


@pytest.fixture
def unseeded():
    """Draws that may differ between tiers."""
    tf.random.set_seed(None)


@pytest.fixture
def reference(monkeypatch):
    monkeypatch.setattr(attention, "kernel_for", lambda *given: Reference)
    monkeypatch.setattr(Reference, "rates", [])
    monkeypatch.setattr(attention, "_LONG", 1)
    return Reference


@pytest.mark.parametrize("shape", [(1, H, T, T), (H, T, T), (B, 1, T, T), (T,)])
@pytest.mark.parametrize("after", [lambda a: a, causal_by_where, lambda a: tf.cast(tf.cast(a, tf.float32), tf.float32)])
def test_a_bias_that_is_learned(weights, reference, shape, after):
    """Relative positions: the bias's gradient is a sum of that of the scores."""
    bias = tf.Variable(draw(*shape, seed=2))
    net = attended(weights, lambda a: after(a + bias))
    agrees(*training(net, lambda: [*weights, bias], tf.constant(draw(B, T, D))), attention.use_kernels, 1)


@pytest.mark.parametrize("drop", [
    lambda p: tf.nn.dropout(p, 0.25),
    lambda p: tf.compat.v1.nn.dropout(p, keep_prob=0.75),
    lambda p: tf.where(tf.random.uniform(tf.shape(p)) < 0.75, p, 0.0) / 0.75,
    lambda p: p * tf.floor(tf.random.uniform(tf.shape(p)) + 0.75) * (1 / 0.75),
])
def test_dropout_is_left_to_the_kernel(weights, reference, unseeded, drop):
    graph, inputs = training(attended(weights, probabilities=drop), lambda: weights, tf.constant(draw(B, T, D)))
    assert attention.use_kernels(graph) == 1 and reference.rates == [pytest.approx(0.25)]
    left = [n.target for n in graph.graph.nodes]
    assert aten.rand.generator not in left and aten.rand.default not in left
    plain, others = training(attended(weights), lambda: weights, tf.constant(draw(B, T, D)))
    torch.testing.assert_close(graph(*inputs()), plain(*others()), rtol=1e-4, atol=1e-6)     # the reference drops nothing


def test_keras_with_dropout_and_a_mask(reference, unseeded):
    layer = tf.keras.layers.MultiHeadAttention(H, D // H, dropout=0.1)
    lengths = tf.Variable([10, 16])

    def net(x):
        return layer(x, x, attention_mask=tf.sequence_mask(lengths, T)[:, None, :], training=True)
    graph, _ = training(net, lambda: layer.trainable_variables, tf.constant(draw(B, T, D)))
    assert attention.use_kernels(graph) == 1 and reference.rates == [pytest.approx(0.1)]


@pytest.mark.parametrize("drop", [
    lambda p: tf.nn.dropout(p, 0.25, seed=3),                               # its numbers are the same in every tier
    lambda p: tf.nn.dropout(p, 0.25, noise_shape=[B, H, 1, T]),             # whole columns
    lambda p: tf.nn.dropout(p, 0.25) * 2.0,
    lambda p: tf.where(tf.random.normal([B, H, T, T]) < 0.75, p, 0.0) / 0.75,
])
def test_other_dropout_stays(weights, reference, drop):
    graph, _ = training(attended(weights, probabilities=drop), lambda: weights, tf.constant(draw(B, T, D)))
    assert attention.use_kernels(graph) == 0


@pytest.mark.parametrize("transpose", [False, True])
def test_the_gradient_of_a_matrix_is_one_product(transpose):
    w = tf.Variable(draw(8, D) if transpose else draw(D, 8))

    def net(x):
        return tf.matmul(tf.tanh(x), w, transpose_b=transpose)
    graph, inputs = training(net, lambda: [w], tf.constant(draw(B, T, D)))
    batched = sum(n.target is torch.ops.aten.bmm.default for n in graph.graph.nodes)
    agrees(graph, inputs, products.join_sums, batched)
    assert not any(n.target is torch.ops.aten.bmm.default for n in graph.graph.nodes)


def compiled_on_gpu(dtype, scores=lambda a: a, rate=0.0, variables=()):
    """A step on a GPU, of [B, 2, 64, 32]: the attention, and its gradients by q, k, v and variables, in the best tier."""
    q, k, v = (tf.Variable(draw(B, 2, 64, 32, seed=i)) for i in range(3))
    weight = tf.Variable(draw(B, 2, 64, 32, seed=5), trainable=False)

    @tf.function(jit_compile=True)
    def step():
        with tf.GradientTape() as tape:
            a = scores(tf.matmul(tf.cast(q, dtype), tf.cast(k, dtype), transpose_b=True) * tf.constant(0.2, dtype))
            p = tf.nn.softmax(a)
            out = tf.matmul(tf.nn.dropout(p, rate) if rate else p, tf.cast(v, dtype))
            total = tf.reduce_sum(tf.cast(out, tf.float32) * weight)
        return out, tape.gradient(total, [q, k, v, *variables]), total
    return step, v


@pytest.mark.parametrize("dtype", [tf.bfloat16, tf.float32])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_dropout_on_a_gpu(dtype, masked, monkeypatch):
    """Forward and backward drop the same probabilities, and each step drops others, also when it is replayed.

    The output is linear in the values, so <output, weight> = <values, gradient by values> for any mask of dropout.
    """
    places = []
    monkeypatch.setattr(attention, "_LONG", 1)
    monkeypatch.setattr(attention, "use_kernels", lambda g, usual=attention.use_kernels: places.append(usual(g)))
    with tf.device("/gpu:0"):
        hidden = tf.constant(np.where(np.arange(64) < 40, 0.0, -1e9).astype("f"))
        step, v = compiled_on_gpu(dtype, (lambda a: a + tf.cast(hidden, dtype)) if masked else (lambda a: a), 0.3)
        plain, _ = compiled_on_gpu(dtype, (lambda a: a + tf.cast(hidden, dtype)) if masked else (lambda a: a))
        for _ in range(4):
            expected = plain()[0].numpy().astype(np.float64)
        found = []
        for _ in range(60):
            out, gradients, total = step()
            np.testing.assert_allclose(np.sum(v.numpy().astype(np.float64) * gradients[2].numpy()), float(total), rtol=0.05,
                                       atol=0.5)
            found.append(out.numpy().astype(np.float64))
    assert places[0] == 1
    assert len({f.tobytes() for f in found}) == 60
    spread = np.std(found, axis=0) / 60 ** 0.5
    assert np.mean(np.abs(np.mean(found, axis=0) - expected) < 4 * spread + 0.02) > 0.99


@pytest.mark.parametrize("dtype", [tf.bfloat16, tf.float32])
@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_a_learned_bias_on_a_gpu(dtype, monkeypatch):
    places = []
    monkeypatch.setattr(attention, "use_kernels", lambda g, usual=attention.use_kernels: places.append(usual(g)))
    found = {}
    for device in ("/gpu:0", "/cpu:0"):
        with tf.device(device):
            bias = tf.Variable(draw(1, 2, 64, 64, seed=9))
            step, _ = compiled_on_gpu(dtype, lambda a, bias=bias: a + tf.cast(bias, dtype), variables=[bias])
            found[device] = [step() for _ in range(4)][-1][1]
    assert places[0] == 1
    for a, b in zip(found["/gpu:0"], found["/cpu:0"], strict=True):
        a, b = a.numpy().astype(np.float64), b.numpy().astype(np.float64)
        assert np.linalg.norm(a - b) < (0.03 if dtype == tf.bfloat16 else 5e-3) * np.linalg.norm(b)
