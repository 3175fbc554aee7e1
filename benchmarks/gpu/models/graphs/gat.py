"""Graph attention, 10,000 nodes, 100,000 edges, 8 heads, TF32, tf.function."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

FULL = {"nodes": 10000, "edges": 100000, "d": 64, "heads": 8}
SMALL = {"nodes": 20, "edges": 60, "d": 8, "heads": 2}
POLICY = "float32"


def data(r: Any, s: Any) -> tuple:
    """Features of nodes, both ends of edges, and classes of nodes."""
    return (
        r.randn(s.nodes, s.d).astype("f"),
        r.randint(0, s.nodes, s.edges),
        np.sort(r.randint(0, s.nodes, s.edges)),
        r.randint(0, 7, s.nodes),
    )


def ours(s: Any, arrays: tuple) -> Any:
    """The classes of nodes."""
    from benchmarks.gpu.penstock_side import K, L, cross_entropy, tf, trained

    class GraphAttention(L.Layer):
        """Each node takes the mean of its neighbours, weighted by a softmax over its edges."""

        def __init__(self, d: int, heads: int):
            super().__init__()
            self.d, self.heads, self.dense = d, heads, L.Dense(d * heads, use_bias=False)

        def build(self, shape: Any) -> None:
            """What rates sources and targets."""
            self.a, self.b = (self.add_weight(name=n, shape=[self.heads, self.d]) for n in "ab")

        def call(self, x: Any, source: Any, target: Any) -> Any:
            """Of nodes, and the ends of edges."""
            count = x.shape[0]
            h = tf.reshape(self.dense(x), [count, self.heads, self.d])
            e = tf.nn.leaky_relu(
                tf.gather(tf.reduce_sum(h * self.a, -1), source) + tf.gather(tf.reduce_sum(h * self.b, -1), target), 0.2
            )
            e = tf.exp(e - tf.gather(tf.math.unsorted_segment_max(e, target, count), target))
            p = e / (tf.gather(tf.math.unsorted_segment_sum(e, target, count), target) + 1e-9)
            y = tf.math.unsorted_segment_sum(tf.gather(h, source) * p[..., None], target, count)
            return tf.reshape(y, [count, self.heads * self.d])

    class Gat(K.Model):
        """Two layers of graph attention."""

        def __init__(self, s: Any):
            super().__init__()
            self.one, self.two, self.out = GraphAttention(s.d, s.heads), GraphAttention(s.d, s.heads), L.Dense(7)

        def call(self, x: Any, source: Any, target: Any) -> Any:
            """The scores of nodes."""
            return self.out(tf.nn.elu(self.two(tf.nn.elu(self.one(x, source, target)), source, target)))

    return trained(Gat(s), lambda m, x, a, b, y: cross_entropy(y, m(x, a, b)), K.optimizers.Adam(1e-3), arrays)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import adam, trained

    class GraphAttention(nn.Module):
        """Each node takes the mean of its neighbours, weighted by a softmax over its edges."""

        def __init__(self, i: int, d: int, heads: int):
            super().__init__()
            self.heads, self.dense = heads, nn.Linear(i, d * heads, bias=False)
            self.a, self.b = (nn.Parameter(torch.randn(heads, d) * 0.1) for _ in range(2))

        def forward(self, x: Any, source: Any, target: Any) -> Any:
            h = self.dense(x).unflatten(-1, (self.heads, -1))
            e = F.leaky_relu((h * self.a).sum(-1)[source] + (h * self.b).sum(-1)[target], 0.2)
            at = target[:, None].expand_as(e)
            top = torch.full([len(x), self.heads], -math.inf, device=e.device).scatter_reduce(0, at, e.detach(), "amax")
            e = (e - top[target]).exp()
            total = torch.zeros([len(x), self.heads], device=e.device).index_add(0, target, e)
            p = e / (total[target] + 1e-9)
            return torch.zeros_like(h).index_add(0, target, h[source] * p[..., None]).flatten(1)

    class Gat(nn.Module):
        """Two layers of graph attention."""

        def __init__(self, s: Any):
            super().__init__()
            self.one, self.two = GraphAttention(s.d, s.d, s.heads), GraphAttention(s.d * s.heads, s.d, s.heads)
            self.out = nn.Linear(s.d * s.heads, 7)

        def forward(self, x: Any, source: Any, target: Any) -> Any:
            return self.out(F.elu(self.two(F.elu(self.one(x, source, target)), source, target)))

    x, source, target, y = given
    return trained(Gat(s), lambda m: F.cross_entropy(m(x, source, target), y), adam(1e-3), short, compiled)
