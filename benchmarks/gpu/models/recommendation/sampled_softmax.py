"""Retrieval with sampled softmax over 200,000 items, batch 2,048, TF32, 1.x session."""

from __future__ import annotations

import math
from typing import Any

FULL = {"n": 2048, "items": 200000, "d": 64, "past": 20, "some": 4096}
SMALL = {"n": 4, "items": 100, "d": 8, "past": 3, "some": 16}
POLICY = "float32"


def data(r: Any, s: Any) -> tuple:
    """Past items and the next."""
    return r.randint(0, s.items, [s.n, s.past]), r.randint(0, s.items, [s.n, 1])


def ours(s: Any, arrays: tuple) -> Any:
    """The mean of past items predicts the next, as a graph of 1.x."""
    import penstock.compat.v1 as tf
    from benchmarks.gpu.penstock_side import DEVICE, in_session

    tf.disable_v2_behavior()
    with tf.device(DEVICE):
        past, item = (
            tf.get_variable(n, initializer=tf.constant(a, tf.int64), trainable=False) for n, a in zip("pi", arrays, strict=True)
        )
        start = tf.random_uniform_initializer(-0.05, 0.05)
        table, weights = (tf.get_variable(n, [s.items, s.d], initializer=start) for n in ("table", "weights"))
        biases = tf.get_variable("biases", [s.items], initializer=tf.zeros_initializer())
        h = tf.reduce_mean(tf.nn.embedding_lookup(table, past), 1)
        for width in (256, s.d):
            h = tf.layers.dense(h, width, tf.nn.relu)
        loss = tf.reduce_mean(tf.nn.sampled_softmax_loss(weights, biases, item, h, s.some, s.items))
        train = tf.train.AdagradOptimizer(0.1).minimize(loss)
    return in_session(loss, train, tf.ConfigProto(allow_soft_placement=True))  # candidates are drawn on the host


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """Sampled softmax; the gradients of tables are dense, as the compiler of PyTorch takes no others."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import trained

    class Retrieval(nn.Module):
        """The mean of past items predicts the next."""

        def __init__(self, s: Any):
            super().__init__()
            self.s, self.table, self.weights = s, nn.Embedding(s.items, s.d, sparse=False), nn.Embedding(s.items, s.d)
            self.biases = nn.Parameter(torch.zeros(s.items))
            self.deep = nn.Sequential(nn.Linear(s.d, 256), nn.ReLU(), nn.Linear(256, s.d), nn.ReLU())

        def forward(self, past: Any, item: Any) -> Any:
            s = self.s
            h = self.deep(self.table(past).mean(1))
            some = (torch.rand(s.some, device=h.device) * math.log(s.items + 1)).exp().long().sub(1).clamp(0, s.items - 1)
            expected = lambda i: (s.some * torch.log((i + 2.0) / (i + 1.0)) / math.log(s.items + 1)).log()  # noqa: E731
            own = (h * self.weights(item)).sum(-1) + self.biases[item] - expected(item)
            other = h @ self.weights(some).T + self.biases[some] - expected(some)
            other = other.masked_fill(item[:, None] == some, -1e9)
            return F.cross_entropy(torch.cat([own[:, None], other], 1), torch.zeros(len(h), dtype=torch.long, device=h.device))

    past, item = given[0], given[1][:, 0]
    adagrad = lambda p: torch.optim.Adagrad(p, 0.1, initial_accumulator_value=0.1)  # noqa: E731
    return trained(Retrieval(s), lambda m: m(past, item), adagrad, short, compiled)
