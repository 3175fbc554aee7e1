"""Steps that Inductor compiles for the host return what the interpreter returns, also when loaded from the cache."""
import shutil

import numpy as np
import pytest
import torch

import penstock as tf
from penstock._src.step.tiers import inductor, lower, tiers

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning"),
              pytest.mark.skipif(not shutil.which("g++"), reason="no C++ compiler")]
K, L = tf.keras, tf.keras.layers


class Attention(L.Layer):
    """Scaled-dot-product attention of one head, with a causal mask."""

    def build(self, shape):
        self.qkv = L.Dense(3 * shape[-1])

    def call(self, x):
        q, k, v = tf.split(self.qkv(x), 3, -1)
        scores = tf.matmul(q, k, transpose_b=True) / 8.0 ** 0.5
        mask = tf.linalg.band_part(tf.ones(scores.shape[-2:], scores.dtype), -1, 0)
        return x + tf.matmul(tf.nn.softmax(tf.where(mask > 0, scores, -1e9)), v)


MODELS = {
    "normalized": ([4, 8], lambda: [L.Dense(16, "gelu"), L.LayerNormalization(), L.Dense(8, "relu")]),
    "images": ([4, 8, 8, 3], lambda: [L.Conv2D(8, 3, padding="same"), L.BatchNormalization(), L.ReLU(), L.MaxPool2D(),
                                      L.GlobalAveragePooling2D()]),
    "attention": ([4, 6, 8], lambda: [Attention(), L.LayerNormalization(), L.GlobalAveragePooling1D()]),
}


def trained(name, compiled):
    tf.random.set_seed(5)
    shape, layers = MODELS[name]
    model, optimizer = K.Sequential([*layers(), L.Dense(3)]), K.optimizers.Adam(0.01)
    x, y = tf.constant(np.random.RandomState(0).randn(*shape), tf.float32), tf.constant([0, 1, 2, 1], tf.int64)
    model(x)

    @tf.function(jit_compile=compiled)
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=model(x, training=True)))
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss
    return [float(step(x, y)) for _ in range(5)]


@pytest.mark.parametrize("name", MODELS)
def test_a_compiled_step_trains_like_the_program(name):
    before = dict(tiers.refused)
    np.testing.assert_allclose(trained(name, True), trained(name, None), rtol=2e-4)
    assert dict(tiers.refused) == before


def test_passes_over_the_graph_know_its_fake_tensors(monkeypatch):
    """Some of Inductor's passes compute with fake tensors, for example those that pad products on GPUs."""
    from torch._inductor import compile_fx
    from torch._inductor.virtualized import V
    usual, modes = compile_fx._recursive_joint_graph_passes, []
    monkeypatch.setattr(compile_fx, "_recursive_joint_graph_passes", lambda g: modes.append(V.fake_mode) or usual(g))
    trained("normalized", True)
    assert modes and all(isinstance(m, torch._subclasses.FakeTensorMode) for m in modes)


def test_inputs_are_updated_in_place():
    """A graph's last ops copy into its inputs; results come in order."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    def step(w, x):
        y = torch.softmax(x @ w, 1)
        w.sub_(0.5 * (x.t() @ y))
        return [y.sum(0), y]
    mode = FakeTensorMode(shape_env=ShapeEnv())
    w, x = torch.randn(5, 3), torch.randn(4, 5)
    example = [mode.from_tensor(w), mode.from_tensor(x)]
    graph = inductor.functional(make_fx(step)(*example), example)
    run = inductor.compiled(graph, example)
    mine = w.clone()
    got = run([mine, x])
    expected = step(w, x)
    for a, b in zip([*got, mine], [*expected, w], strict=True):
        torch.testing.assert_close(a, b)


def test_graphs_of_more_than_aten_are_compiled_elsewhere():
    """Casts become ops of `prims`, which PyTorch does not send to other processes unless it is told to."""
    from torch.fx.experimental.proxy_tensor import make_fx

    def step(w, x):
        return [torch.softmax((x.bfloat16() @ w.bfloat16()).float(), 1)]
    mode = lower._fake_mode()
    w, x = torch.randn(5, 3), torch.randn(4, 5)
    example = [mode.from_tensor(w), mode.from_tensor(x)]
    graph = inductor.functional(make_fx(step)(*example), example)
    decomposed = inductor._decomposed(graph, example)
    assert any(getattr(n.target, "namespace", "") == "prims" for n in decomposed.graph.nodes)
    from torch.fx._graph_pickler import GraphPickler
    with pytest.raises(Exception, match="non-standard op"):
        GraphPickler.dumps(decomposed)
    with inductor._any_op():
        assert GraphPickler.loads(GraphPickler.dumps(decomposed), mode).code == decomposed.code
