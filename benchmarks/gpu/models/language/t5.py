"""T5, 4 + 4 layers of 512, relative positions, dropout, 16 × 256 words, bf16, tf.function."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

FULL = {"n": 16, "t": 256, "d": 512, "heads": 8, "layers": 4, "words": 16000}
SMALL = {"n": 2, "t": 16, "d": 32, "heads": 2, "layers": 1, "words": 50}
POLICY = "mixed_bfloat16"


def data(r: Any, s: Any) -> tuple:
    """Words of the source, of the target, and labels."""
    return tuple(r.randint(0, s.words, [s.n, s.t]) for _ in range(3))


def ours(s: Any, arrays: tuple) -> Any:
    """Training with Adafactor's rate, by Adam."""
    from benchmarks.gpu.penstock_side import K, L, cross_entropy, tf, trained

    class Rms(L.Layer):
        """Root-mean-square norm."""

        def build(self, shape: Any) -> None:
            """The scale."""
            self.scale = self.add_weight(name="scale", shape=shape[-1:], initializer="ones")

        def call(self, x: Any) -> Any:
            """In single precision."""
            wide = tf.cast(x, tf.float32)
            wide *= tf.math.rsqrt(tf.reduce_mean(tf.square(wide), -1, keepdims=True) + 1e-6)
            return tf.cast(wide * tf.cast(self.scale, tf.float32), x.dtype)

    class T5Attention(L.Layer):
        """Attention without a scale, with a bias of relative positions and dropout of the probabilities."""

        def __init__(self, d: int, heads: int, causal: bool):
            super().__init__()
            self.d, self.heads, self.causal = d, heads, causal
            self.q, self.k, self.v, self.o = (L.Dense(d, use_bias=False) for _ in range(4))

        def build(self, shape: Any) -> None:
            """The bias of each distance."""
            self.table = self.add_weight(
                name="table", shape=[32, self.heads], initializer=K.initializers.RandomNormal(stddev=0.05)
            )

        def split(self, x: Any) -> Any:
            """[batch, heads, places, depth]."""
            return tf.transpose(tf.reshape(x, [x.shape[0], x.shape[1], self.heads, self.d // self.heads]), [0, 2, 1, 3])

        def call(self, x: Any, memory: Any = None) -> Any:
            """Of itself, or of a memory."""
            other = x if memory is None else memory
            q, k, v = self.split(self.q(x)), self.split(self.k(other)), self.split(self.v(other))
            a = tf.matmul(q, k, transpose_b=True)
            if memory is None:
                places = np.arange(x.shape[1])
                bucket = np.clip(places[None] - places[:, None] + 16, 0, 31)
                a += tf.cast(tf.transpose(tf.gather(self.table, bucket), [2, 0, 1])[None], a.dtype)
            if self.causal:
                a = tf.where(tf.linalg.band_part(tf.ones(a.shape[-2:], tf.bool), -1, 0), a, tf.constant(-1e9, a.dtype))
            y = tf.matmul(tf.nn.dropout(tf.nn.softmax(a), 0.1), v)
            return self.o(tf.reshape(tf.transpose(y, [0, 2, 1, 3]), x.shape))

    class T5Block(L.Layer):
        """A layer of the encoder, or of the decoder."""

        def __init__(self, s: Any, decodes: bool):
            super().__init__()
            self.norms = [Rms() for _ in range(3)]
            self.own, self.up, self.down = (
                T5Attention(s.d, s.heads, decodes),
                L.Dense(4 * s.d, use_bias=False),
                L.Dense(s.d, use_bias=False),
            )
            self.gate = L.Dense(4 * s.d, use_bias=False)
            self.cross = T5Attention(s.d, s.heads, False) if decodes else None

        def call(self, x: Any, memory: Any = None) -> Any:
            """Attention, and a gated product."""
            x = x + tf.nn.dropout(self.own(self.norms[0](x)), 0.1)
            if self.cross is not None:
                x = x + tf.nn.dropout(self.cross(self.norms[1](x), memory), 0.1)
            h = self.norms[2](x)
            return x + tf.nn.dropout(self.down(tf.nn.gelu(self.gate(h), approximate=True) * self.up(h)), 0.1)

    class T5(K.Model):
        """Encoder and decoder that share their table of words."""

        def __init__(self, s: Any):
            super().__init__()
            self.words = L.Embedding(s.words, s.d)
            self.encoder, self.decoder = ([T5Block(s, decodes) for _ in range(s.layers)] for decodes in (False, True))
            self.norms = [Rms(), Rms()]

        def call(self, ids: Any, target: Any) -> Any:
            """The scores of the next words."""
            x, y = self.words(ids), self.words(target)
            for block in self.encoder:
                x = block(x)
            x = self.norms[0](x)
            for block in self.decoder:
                y = block(y, x)
            return tf.matmul(self.norms[1](y), tf.cast(self.words.embeddings, y.dtype), transpose_b=True)

    return trained(T5(s), lambda m, ids, target, labels: cross_entropy(labels, m(ids, target)), K.optimizers.Adam(1e-4), arrays)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import adam, trained

    class T5Attention(nn.Module):
        """Attention without a scale, with a bias of relative positions and dropout of the probabilities."""

        def __init__(self, d: int, heads: int, causal: bool, t: int):
            super().__init__()
            self.heads, self.causal = heads, causal
            self.q, self.k, self.v, self.o = (nn.Linear(d, d, bias=False) for _ in range(4))
            self.table = nn.Parameter(torch.randn(32, heads) * 0.05)
            places = torch.arange(t)
            self.register_buffer("bucket", (places[None] - places[:, None] + 16).clamp(0, 31))
            self.register_buffer("hidden", torch.full([t, t], -math.inf).triu(1))

        def forward(self, x: Any, memory: Any = None) -> Any:
            other = x if memory is None else memory
            q, k, v = (
                f(y).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f, y in ((self.q, x), (self.k, other), (self.v, other))
            )
            bias = None
            if memory is None:
                bias = self.table[self.bucket].permute(2, 0, 1)[None]
                bias = (bias + self.hidden if self.causal else bias).to(q.dtype)
            y = F.scaled_dot_product_attention(q, k, v, bias, 0.1, scale=1.0)
            return self.o(y.transpose(1, 2).flatten(2))

    class T5Block(nn.Module):
        """A layer of the encoder, or of the decoder."""

        def __init__(self, s: Any, decodes: bool):
            super().__init__()
            self.norms = nn.ModuleList(nn.RMSNorm(s.d, 1e-6) for _ in range(3))
            self.own, self.cross = (
                T5Attention(s.d, s.heads, decodes, s.t),
                T5Attention(s.d, s.heads, False, s.t) if decodes else None,
            )
            self.gate, self.up, self.down = (
                nn.Linear(*size, bias=False) for size in ((s.d, 4 * s.d), (s.d, 4 * s.d), (4 * s.d, s.d))
            )

        def forward(self, x: Any, memory: Any = None) -> Any:
            x = x + F.dropout(self.own(self.norms[0](x)), 0.1)
            if self.cross is not None:
                x = x + F.dropout(self.cross(self.norms[1](x), memory), 0.1)
            h = self.norms[2](x)
            return x + F.dropout(self.down(F.gelu(self.gate(h), approximate="tanh") * self.up(h)), 0.1)

    class T5(nn.Module):
        """Encoder and decoder that share their table of words."""

        def __init__(self, s: Any):
            super().__init__()
            self.words = nn.Embedding(s.words, s.d)
            nn.init.uniform_(self.words.weight, -0.05, 0.05)
            self.encoder, self.decoder = (
                nn.ModuleList(T5Block(s, decodes) for _ in range(s.layers)) for decodes in (False, True)
            )
            self.norms = nn.ModuleList([nn.RMSNorm(s.d, 1e-6), nn.RMSNorm(s.d, 1e-6)])

        def forward(self, ids: Any, target: Any) -> Any:
            x, y = self.words(ids), self.words(target)
            for block in self.encoder:
                x = block(x)
            x = self.norms[0](x)
            for block in self.decoder:
                y = block(y, x)
            return self.norms[1](y) @ self.words.weight.T

    ids, target, labels = given
    return trained(
        T5(s), lambda m: F.cross_entropy(m(ids, target).float().flatten(0, 1), labels.flatten()), adam(1e-4), short, compiled
    )
