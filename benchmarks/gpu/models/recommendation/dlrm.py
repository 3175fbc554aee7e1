"""DLRM, 26 tables of 100,000 × 32, sparse Adagrad, batch 4,096, TF32, tf.function."""

from __future__ import annotations

from typing import Any

import numpy as np

FULL = {"n": 4096, "tables": 26, "rows": 100000, "d": 32}
SMALL = {"n": 8, "tables": 3, "rows": 50}
POLICY = "float32"


def data(r: Any, s: Any) -> tuple:
    """Numbers, categories, and clicks."""
    return r.randn(s.n, 13).astype("f"), r.randint(0, s.rows, [s.n, s.tables]), r.randint(0, 2, s.n).astype("f")


def ours(s: Any, arrays: tuple) -> Any:
    """Gradients of tables stay sparse."""
    from benchmarks.gpu.penstock_side import K, L, tf, trained

    class Recommender(K.Model):
        """Tables of categories, a tower for numbers, and the products of all pairs."""

        def __init__(self, s: Any):
            super().__init__()
            self.tables = [L.Embedding(s.rows, s.d) for _ in range(s.tables)]
            self.bottom = K.Sequential([L.Dense(n, activation="relu") for n in (512, 256, s.d)])
            self.top = K.Sequential([L.Dense(n, activation="relu") for n in (512, 256)] + [L.Dense(1)])
            n = s.tables + 1
            self.pairs = np.array([i * n + j for i in range(n) for j in range(i)])

        def call(self, x: Any, ids: Any) -> Any:
            """The logit of each row."""
            h = self.bottom(x)
            z = tf.stack([h] + [t(ids[:, i]) for i, t in enumerate(self.tables)], 1)
            products = tf.reshape(tf.matmul(z, z, transpose_b=True), [-1, z.shape[1] ** 2])
            return self.top(tf.concat([h, tf.gather(products, self.pairs, axis=1)], 1))[:, 0]

    def loss(m: Any, x: Any, ids: Any, y: Any) -> Any:
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=m(x, ids)))

    return trained(Recommender(s), loss, K.optimizers.Adagrad(0.01), arrays)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import trained

    class Recommender(nn.Module):
        """Tables of categories, a tower for numbers, and the products of all pairs."""

        def __init__(self, s: Any, sparse: bool):
            super().__init__()
            self.tables = nn.ModuleList(nn.Embedding(s.rows, s.d, sparse=sparse) for _ in range(s.tables))
            tower = lambda *n: [m for i, o in zip(n, n[1:], strict=False) for m in (nn.Linear(i, o), nn.ReLU())]  # noqa: E731
            self.bottom, n = nn.Sequential(*tower(13, 512, 256, s.d)), s.tables + 1
            self.top = nn.Sequential(*tower(s.d + n * (n - 1) // 2, 512, 256), nn.Linear(256, 1))
            self.register_buffer("pairs", torch.tensor([i * n + j for i in range(n) for j in range(i)]))

        def forward(self, x: Any, ids: Any, y: Any) -> Any:
            h = self.bottom(x)
            z = torch.stack([h] + [t(ids[:, i]) for i, t in enumerate(self.tables)], 1)
            pairs = (z @ z.transpose(1, 2)).flatten(1)[:, self.pairs]
            return F.binary_cross_entropy_with_logits(self.top(torch.cat([h, pairs], 1))[:, 0], y)

    return trained(
        Recommender(s, sparse=not compiled), lambda m: m(*given), lambda p: torch.optim.Adagrad(p, 0.01), short, compiled
    )
