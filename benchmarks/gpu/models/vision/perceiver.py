"""Perceiver, 256 latents of 512, 16 × 2,048 inputs, Keras's MultiHeadAttention, bf16, tf.function."""

from __future__ import annotations

from typing import Any

FULL = {"n": 16, "t": 2048, "c": 64, "latents": 256, "d": 512, "heads": 8, "layers": 6}
SMALL = {"n": 2, "t": 24, "c": 8, "latents": 4, "d": 16, "heads": 2, "layers": 2}
POLICY = "mixed_bfloat16"


def data(r: Any, s: Any) -> tuple:
    """Sets of inputs and their classes."""
    return r.randn(s.n, s.t, s.c).astype("f"), r.randint(0, 100, s.n)


def ours(s: Any, arrays: tuple) -> Any:
    """Weights decay."""
    from benchmarks.gpu.penstock_side import K, L, cross_entropy, tf, trained

    class Reader(L.Layer):
        """Attention of latents to something, and a feed-forward part."""

        def __init__(self, d: int, heads: int):
            super().__init__()
            self.attend = L.MultiHeadAttention(heads, d // heads, dropout=0.1)
            self.norms = [L.LayerNormalization(epsilon=1e-5) for _ in range(3)]
            self.up, self.down = L.Dense(4 * d, "gelu"), L.Dense(d)

        def call(self, x: Any, other: Any = None, training: bool = True) -> Any:
            """Of the latents themselves, or of the inputs."""
            h = self.norms[0](x)
            memory = h if other is None else self.norms[1](other)
            x = x + self.attend(h, memory, training=training)
            return x + self.down(self.up(self.norms[2](x)))

    class Perceiver(K.Model):
        """Latents that read the inputs twice."""

        def __init__(self, s: Any):
            super().__init__()
            start = K.initializers.RandomNormal(stddev=0.02)
            self.latents = self.add_weight(name="latents", shape=[s.latents, s.d], initializer=start)
            self.readers = [Reader(s.d, s.heads) for _ in range(2)]
            self.thinkers = [Reader(s.d, s.heads) for _ in range(s.layers)]
            self.out = L.Dense(100)

        def call(self, inputs: Any, training: bool = True) -> Any:
            """The classes of sets of inputs."""
            h = tf.cast(tf.tile(self.latents[None], [tf.shape(inputs)[0], 1, 1]), tf.bfloat16)
            inputs = tf.cast(inputs, tf.bfloat16)
            for i, thinker in enumerate(self.thinkers):
                if i % (len(self.thinkers) // 2) == 0:
                    h = self.readers[i // (len(self.thinkers) // 2)](h, inputs, training=training)
                h = thinker(h, training=training)
            return self.out(tf.reduce_mean(h, 1))

    return trained(Perceiver(s), lambda m, x, y: cross_entropy(y, m(x)), K.optimizers.AdamW(1e-4, weight_decay=0.01), arrays)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import trained

    class Reader(nn.Module):
        """Attention of latents to something, and a feed-forward part."""

        def __init__(self, d: int, heads: int, inputs: int):
            super().__init__()
            self.heads = heads
            self.q, self.k, self.v, self.o = nn.Linear(d, d), nn.Linear(inputs, d), nn.Linear(inputs, d), nn.Linear(d, d)
            self.norms = nn.ModuleList(nn.LayerNorm(n) for n in (d, inputs, d))
            self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

        def forward(self, x: Any, other: Any = None) -> Any:
            h = self.norms[0](x)
            memory = h if other is None else self.norms[1](other)
            given = (self.q, h), (self.k, memory), (self.v, memory)
            q, k, v = (f(y).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f, y in given)
            x = x + self.o(F.scaled_dot_product_attention(q, k, v, None, 0.1).transpose(1, 2).flatten(2))
            return x + self.down(F.gelu(self.up(self.norms[2](x))))

    class Perceiver(nn.Module):
        """Latents that read the inputs twice."""

        def __init__(self, s: Any):
            super().__init__()
            self.latents = nn.Parameter(torch.randn(s.latents, s.d) * 0.02)
            self.readers = nn.ModuleList(Reader(s.d, s.heads, s.c) for _ in range(2))
            self.thinkers = nn.ModuleList(Reader(s.d, s.heads, s.d) for _ in range(s.layers))
            self.out = nn.Linear(s.d, 100)

        def forward(self, inputs: Any) -> Any:
            h = self.latents.expand(len(inputs), -1, -1)
            for i, thinker in enumerate(self.thinkers):
                if i % (len(self.thinkers) // 2) == 0:
                    h = self.readers[i // (len(self.thinkers) // 2)](h, inputs)
                h = thinker(h)
            return self.out(h.mean(1))

    x, y = given
    return trained(
        Perceiver(s),
        lambda m: F.cross_entropy(m(x).float(), y),
        lambda p: torch.optim.AdamW(p, 1e-4, weight_decay=0.01, fused=True),
        short,
        compiled,
    )
