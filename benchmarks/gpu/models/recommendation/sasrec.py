"""SASRec, 2 layers of 128, histories of three lengths in turns, 20,000 items, TF32, tf.function."""

from __future__ import annotations

import itertools
from typing import Any

FULL = {"n": 256, "t": 64, "d": 128, "heads": 2, "items": 20000}
SMALL = {"n": 3, "t": 8, "d": 8, "items": 30}
POLICY = "float32"


def data(r: Any, s: Any) -> tuple:
    """Histories of three lengths."""
    return tuple(r.randint(1, s.items, [s.n, t + 1]) for t in (s.t, s.t // 2, s.t * 3 // 4))


def ours(s: Any, arrays: tuple) -> Any:
    """What is bought next: attention over what was bought before, and one item that was not."""
    from benchmarks.gpu.penstock_side import K, L, tf

    class Recommends(K.Model):
        """Histories to scores."""

        def __init__(self) -> None:
            super().__init__()
            self.table, self.places = L.Embedding(s.items, s.d), L.Embedding(s.t, s.d)
            self.attention = [L.MultiHeadAttention(s.heads, s.d // s.heads, dropout=0.2) for _ in range(2)]
            self.norms = [L.LayerNormalization() for _ in range(4)]
            self.feeds = [K.Sequential([L.Dense(s.d, "relu"), L.Dropout(0.2), L.Dense(s.d)]) for _ in range(2)]

        def call(self, ids: Any, right: Any, wrong: Any) -> Any:
            """Scores of the right and of the wrong next items."""
            h = self.table(ids) * s.d**0.5 + self.places(tf.range(tf.shape(ids)[1]))
            for j in range(2):
                q = self.norms[2 * j](h)
                h += self.attention[j](q, h, use_causal_mask=True, training=True)
                h += self.feeds[j](self.norms[2 * j + 1](h), training=True)
            return [tf.reduce_sum(h * self.table(x), -1) for x in (right, wrong)]

    model, optimizer = Recommends(), K.optimizers.Adam(1e-3)
    turns = itertools.cycle([tf.constant(a) for a in arrays])

    @tf.function(reduce_retracing=True)
    def step(ids: Any) -> Any:
        wrong = tf.random.uniform(tf.shape(ids[:, 1:]), 1, s.items, tf.int64)
        with tf.GradientTape() as tape:
            good, bad = model(ids[:, :-1], ids[:, 1:], wrong)
            loss = tf.reduce_mean(tf.nn.softplus(-good) + tf.nn.softplus(bad))
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    return lambda: step(next(turns))


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """Histories of three lengths in turns."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import adam, trained

    class Items(nn.Module):
        """What is bought next."""

        def __init__(self, s: Any):
            super().__init__()
            self.s, self.table, self.places = s, nn.Embedding(s.items, s.d), nn.Embedding(s.t, s.d)
            self.q, self.kv, self.out = (nn.ModuleList(nn.Linear(s.d, k * s.d) for _ in range(2)) for k in (1, 2, 1))
            self.norms = nn.ModuleList(nn.LayerNorm(s.d, 1e-3) for _ in range(4))
            self.feeds = nn.ModuleList(
                nn.Sequential(nn.Linear(s.d, s.d), nn.ReLU(), nn.Dropout(0.2), nn.Linear(s.d, s.d)) for _ in range(2)
            )

        def forward(self, ids: Any) -> Any:
            s, (n, t) = self.s, (ids.shape[0], ids.shape[1] - 1)
            wrong = torch.randint(1, s.items, (n, t), device=ids.device)
            h = self.table(ids[:, :-1]) * s.d**0.5 + self.places(torch.arange(t, device=ids.device))
            for j in range(2):
                q = self.q[j](self.norms[2 * j](h)).view(n, t, s.heads, -1).transpose(1, 2)
                k, v = self.kv[j](h).view(n, t, 2, s.heads, -1).permute(2, 0, 3, 1, 4)
                a = F.scaled_dot_product_attention(q, k, v, dropout_p=0.2, is_causal=True)
                h = h + self.out[j](a.transpose(1, 2).reshape(n, t, s.d))
                h = h + self.feeds[j](self.norms[2 * j + 1](h))
            good, bad = ((h * self.table(x)).sum(-1) for x in (ids[:, 1:], wrong))
            return (F.softplus(-good) + F.softplus(bad)).mean()

    turns = itertools.cycle(given)
    model = Items(s)
    run = torch.compile(model, dynamic=False) if compiled else model
    return trained(model, lambda m: run(next(turns)), adam(1e-3), short, False)
