"""ALBERT, one layer of 768 used 12 times, masked words gathered, 16 × 256, bf16, tf.function."""

from __future__ import annotations

from typing import Any

import numpy as np

FULL = {"n": 16, "t": 256, "d": 768, "heads": 12, "layers": 12, "words": 30000, "small": 128, "hidden": 40}
SMALL = {"n": 2, "t": 16, "d": 32, "heads": 2, "layers": 2, "words": 50, "small": 8, "hidden": 3}
POLICY = "mixed_bfloat16"


def data(r: Any, s: Any) -> tuple:
    """Words, which of them count, places of the hidden ones, and those."""
    where = np.stack([r.permutation(s.t)[: s.hidden] for _ in range(s.n)])
    seen = (np.arange(s.t) < r.randint(s.t // 2, s.t + 1, s.n)[:, None]).astype("f")
    return r.randint(0, s.words, [s.n, s.t]), seen, where, r.randint(0, s.words, [s.n, s.hidden])


def ours(s: Any, arrays: tuple) -> Any:
    """Masked words, with AdamW and clipping."""
    from benchmarks.gpu.penstock_side import K, L, cross_entropy, tf, trained

    def heads_of(x: Any, heads: int) -> Any:
        """[batch, heads, places, depth]."""
        return tf.transpose(tf.reshape(x, [*x.shape[:2], heads, x.shape[2] // heads]), [0, 2, 1, 3])

    class Shared(L.Layer):
        """A layer of a transformer with its norms behind."""

        def __init__(self, s: Any):
            super().__init__()
            self.heads, self.qkv, self.out = s.heads, L.Dense(3 * s.d), L.Dense(s.d)
            self.up, self.down, self.norms = (
                L.Dense(4 * s.d),
                L.Dense(s.d),
                [L.LayerNormalization(epsilon=1e-12) for _ in range(2)],
            )

        def call(self, x: Any, hidden: Any) -> Any:
            """With what is added to the scores of hidden places."""
            q, k, v = (heads_of(t, self.heads) for t in tf.split(self.qkv(x), 3, -1))
            scores = tf.einsum("bhqd,bhkd->bhqk", q, k) / tf.cast(tf.sqrt(float(q.shape[-1])), q.dtype) + hidden
            y = tf.einsum("bhqk,bhkd->bhqd", tf.nn.dropout(tf.nn.softmax(scores), 0.1), v)
            y = tf.reshape(tf.transpose(y, [0, 2, 1, 3]), x.shape)
            x = self.norms[0](x + tf.nn.dropout(self.out(y), 0.1))
            return self.norms[1](x + tf.nn.dropout(self.down(tf.nn.gelu(self.up(x), approximate=True)), 0.1))

    class Albert(K.Model):
        """Small vectors of words, and one layer that is used again and again."""

        def __init__(self, s: Any):
            super().__init__()
            self.s, self.layer, self.widen, self.narrow = s, Shared(s), L.Dense(s.d), L.Dense(s.small, "gelu")
            self.norms = [L.LayerNormalization(epsilon=1e-12) for _ in range(2)]
            start = K.initializers.TruncatedNormal(stddev=0.02)
            self.words = self.add_weight(name="words", shape=[s.words, s.small], initializer=start)
            self.places = self.add_weight(name="places", shape=[s.t, s.small], initializer=start)

        def call(self, ids: Any, seen: Any, where: Any) -> Any:
            """The scores of the hidden words."""
            x = tf.cast(self.norms[0](tf.nn.embedding_lookup(self.words, ids) + self.places), tf.bfloat16)
            x, hidden = self.widen(x), tf.cast((1.0 - seen[:, None, None, :]) * -1e4, tf.bfloat16)
            for _ in range(self.s.layers):
                x = self.layer(x, hidden)
            x = self.norms[1](self.narrow(tf.gather(x, where, batch_dims=1)))
            return tf.matmul(x, tf.cast(self.words, x.dtype), transpose_b=True)

    return trained(
        Albert(s),
        lambda m, ids, seen, where, y: cross_entropy(y, m(ids, seen, where)),
        K.optimizers.AdamW(1e-4, weight_decay=0.01),
        arrays,
        clip=1.0,
    )


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import trained

    class Shared(nn.Module):
        """A layer of a transformer with its norms behind."""

        def __init__(self, s: Any):
            super().__init__()
            self.heads, self.qkv, self.out = s.heads, nn.Linear(s.d, 3 * s.d), nn.Linear(s.d, s.d)
            self.up, self.down = nn.Linear(s.d, 4 * s.d), nn.Linear(4 * s.d, s.d)
            self.norms = nn.ModuleList(nn.LayerNorm(s.d, 1e-12) for _ in range(2))

        def forward(self, x: Any, hidden: Any) -> Any:
            q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
            y = F.scaled_dot_product_attention(q, k, v, hidden.to(q.dtype), dropout_p=0.1).transpose(1, 2).flatten(2)
            x = self.norms[0](x + F.dropout(self.out(y), 0.1))
            return self.norms[1](x + F.dropout(self.down(F.gelu(self.up(x), approximate="tanh")), 0.1))

    class Albert(nn.Module):
        """Small vectors of words, and one layer that is used again and again."""

        def __init__(self, s: Any):
            super().__init__()
            self.s, self.layer, self.widen, self.narrow = s, Shared(s), nn.Linear(s.small, s.d), nn.Linear(s.d, s.small)
            self.words, self.places = nn.Embedding(s.words, s.small), nn.Parameter(torch.randn(s.t, s.small) * 0.02)
            self.norms = nn.ModuleList(nn.LayerNorm(s.small, 1e-12) for _ in range(2))
            nn.init.normal_(self.words.weight, std=0.02)

        def forward(self, ids: Any, seen: Any, where: Any) -> Any:
            x, hidden = self.widen(self.norms[0](self.words(ids) + self.places)), (1.0 - seen[:, None, None, :]) * -1e4
            hidden = hidden.expand(-1, self.s.heads, self.s.t, -1)
            for _ in range(self.s.layers):
                x = self.layer(x, hidden)
            x = x.gather(1, where[:, :, None].expand(-1, -1, x.shape[-1]))
            return self.norms[1](F.gelu(self.narrow(x))) @ self.words.weight.T

    ids, seen, where, y = given
    return trained(
        Albert(s),
        lambda m: F.cross_entropy(m(ids, seen, where).float().flatten(0, 1), y.flatten()),
        lambda p: torch.optim.AdamW(p, 1e-4, weight_decay=0.01, fused=True),
        short,
        compiled,
        clip=1.0,
    )
