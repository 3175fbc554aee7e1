"""Graph network, 20,000 nodes, 200,000 edges, TF32, 1.x session."""

from __future__ import annotations

from typing import Any

import numpy as np

FULL = {"nodes": 20000, "edges": 200000, "d": 128, "layers": 4}
SMALL = {"nodes": 30, "edges": 90, "d": 8}
POLICY = "float32"


def data(r: Any, s: Any) -> tuple:
    """Features of nodes, both ends of edges, and classes of nodes."""
    x, source = r.randn(s.nodes, s.d).astype("f"), r.randint(0, s.nodes, s.edges)
    return x, source, np.sort(r.randint(0, s.nodes, s.edges)), r.randint(0, 40, s.nodes)


def ours(s: Any, arrays: tuple) -> Any:
    """Means over neighbors and edges that are weighted by attention, in a session."""
    import penstock.compat.v1 as tf
    from benchmarks.gpu.penstock_side import DEVICE, in_session

    tf.disable_v2_behavior()
    with tf.device(DEVICE):
        x, source, target, y = (
            tf.get_variable(n, initializer=tf.constant(a), trainable=False)
            for n, a in zip(("x", "from", "to", "y"), arrays, strict=True)
        )
        h = x
        for i in range(s.layers):
            z = tf.layers.dense(h, s.d, use_bias=False, name=f"z{i}")
            a, b = tf.layers.dense(z, 1, name=f"a{i}"), tf.layers.dense(z, 1, name=f"b{i}")
            e = tf.exp(tf.tanh(tf.gather(a, source) + tf.gather(b, target)))
            total = tf.unsorted_segment_sum(e, target, s.nodes)
            messages = tf.gather(z, source) * (e / tf.gather(total, target))
            h = tf.nn.dropout(h + tf.nn.elu(tf.unsorted_segment_sum(messages, target, s.nodes)), rate=0.2)
        logits = tf.layers.dense(h, 40, name="out")
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
        train = tf.train.AdamOptimizer(1e-3).minimize(loss)
    return in_session(loss, train)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import adam, trained

    class Graph(nn.Module):
        """Means over neighbors, weighted by attention."""

        def __init__(self, s: Any):
            super().__init__()
            self.z = nn.ModuleList(nn.Linear(s.d, s.d, bias=False) for _ in range(s.layers))
            self.a, self.b = (nn.ModuleList(nn.Linear(s.d, 1) for _ in range(s.layers)) for _ in range(2))
            self.drop, self.out, self.nodes = nn.Dropout(0.2), nn.Linear(s.d, 40), s.nodes

        def forward(self, h: Any, source: Any, target: Any, y: Any) -> Any:
            for z, a, b in zip(self.z, self.a, self.b, strict=True):
                x = z(h)
                e = torch.exp(torch.tanh(a(x)[source] + b(x)[target]))
                total = torch.zeros(self.nodes, 1, device=x.device).index_add(0, target, e)
                messages = x[source] * (e / total[target])
                h = self.drop(h + F.elu(torch.zeros_like(x).index_add(0, target, messages)))
            return F.cross_entropy(self.out(h), y)

    return trained(Graph(s), lambda m: m(*given), adam(1e-3), short, compiled)
