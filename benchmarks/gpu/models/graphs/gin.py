"""GIN, 8,192 graphs of 23 nodes, TF32, tf.function."""

from __future__ import annotations

from typing import Any

import numpy as np

FULL = {"graphs": 8192, "nodes": 8192 * 23, "edges": 8192 * 50, "d": 64, "layers": 5}
SMALL = {"graphs": 4, "nodes": 20, "edges": 40, "d": 8, "layers": 2}
POLICY = "float32"


def data(r: Any, s: Any) -> tuple:
    """Features of nodes, both ends of edges, the graph of each node, and a number per graph."""
    of = np.sort(r.randint(0, s.graphs, s.nodes))
    of[-1] = s.graphs - 1
    return (
        r.randn(s.nodes, s.d).astype("f"),
        r.randint(0, s.nodes, s.edges),
        np.sort(r.randint(0, s.nodes, s.edges)),
        of,
        r.randn(s.graphs).astype("f"),
    )


def ours(s: Any, arrays: tuple) -> Any:
    """Sums over neighbors through small networks (GIN), and a sum over each graph."""
    from benchmarks.gpu.penstock_side import K, L, tf

    x, source, target, of, y = (tf.constant(a) for a in arrays)
    layers = [K.Sequential([L.Dense(s.d), L.BatchNormalization(), L.ReLU(), L.Dense(s.d), L.ReLU()]) for _ in range(s.layers)]
    out, opt, eps = L.Dense(1), K.optimizers.Adam(1e-3), [tf.Variable(0.0) for _ in range(s.layers)]

    def loss_of(x: Any) -> Any:
        for layer, e in zip(layers, eps, strict=True):
            x = layer((1 + e) * x + tf.math.unsorted_segment_sum(tf.gather(x, source), target, s.nodes), training=True)
        return tf.reduce_mean(tf.square(out(tf.math.segment_sum(x, of))[:, 0] - y))

    loss_of(x)
    variables = [v for m in (*layers, out) for v in m.trainable_variables] + eps

    @tf.function
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = loss_of(x)
        opt.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    return lambda: step(x)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import adam, trained

    x, source, target, of, y = given

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(
                [
                    nn.Sequential(nn.Linear(s.d, s.d), nn.BatchNorm1d(s.d), nn.ReLU(), nn.Linear(s.d, s.d), nn.ReLU())
                    for _ in range(s.layers)
                ]
            )
            self.eps, self.out = nn.Parameter(torch.zeros(s.layers)), nn.Linear(s.d, 1)

        def forward(self, x: Any) -> Any:
            for i, layer in enumerate(self.layers):
                x = layer((1 + self.eps[i]) * x + torch.zeros_like(x).index_add(0, target, x[source]))
            return self.out(x.new_zeros(s.graphs, s.d).index_add(0, of, x))[:, 0]

    return trained(Net(), lambda m: F.mse_loss(m(x), y), adam(1e-3), short, compiled)
