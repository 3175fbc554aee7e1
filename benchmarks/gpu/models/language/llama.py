"""Llama, 8 layers of 512, 8 × 512 words, AdamW and clipping, bf16, tf.function."""

from __future__ import annotations

import math
from typing import Any

FULL = {"n": 8, "t": 512, "d": 512, "heads": 8, "groups": 4, "layers": 8, "words": 32000}
SMALL = {"n": 2, "t": 16, "d": 64, "layers": 1, "words": 100}
POLICY = "mixed_bfloat16"


def data(r: Any, s: Any) -> tuple:
    """Words."""
    return (r.randint(0, s.words, [s.n, s.t + 1]),)


def ours(s: Any, arrays: tuple) -> Any:
    """Clipped gradients and AdamW."""
    from benchmarks.gpu.penstock_side import K, L, cross_entropy, tf, trained

    class Llama(K.Model):
        """RMS norm, rotary positions, grouped queries and SwiGLU."""

        class Block(L.Layer):
            """Attention and a gated product."""

            def __init__(self, s: Any):
                super().__init__()
                self.s, self.dh = s, s.d // s.heads
                self.q, self.k, self.v, self.o = (
                    L.Dense(n, use_bias=False) for n in (s.d, s.groups * self.dh, s.groups * self.dh, s.d)
                )
                self.gate, self.up = (L.Dense(8 * s.d // 3 // 64 * 64, use_bias=False) for _ in range(2))
                self.down = L.Dense(s.d, use_bias=False)

            def build(self, shape: Any) -> None:
                """The scales of the norms."""
                self.g1, self.g2 = (self.add_weight(name=n, shape=[self.s.d], initializer="ones") for n in ("g1", "g2"))

            def call(self, x: Any, cos: Any, sin: Any) -> Any:
                """One layer."""
                s, h = self.s, rms(x, self.g1)
                q, k, v = (
                    tf.transpose(tf.reshape(f(h), [s.n, s.t, -1, self.dh]), [0, 2, 1, 3]) for f in (self.q, self.k, self.v)
                )
                q, k = rotated(q, cos, sin), rotated(k, cos, sin)
                k, v = (tf.repeat(a, s.heads // s.groups, axis=1) for a in (k, v))
                scores = tf.cast(tf.einsum("bhqd,bhkd->bhqk", q, k), tf.float32) / math.sqrt(self.dh)
                late = tf.range(s.t)[:, None] < tf.range(s.t)[None]
                p = tf.cast(tf.nn.softmax(tf.where(late, -1e9, scores)), x.dtype)
                y = tf.transpose(tf.einsum("bhqk,bhkd->bhqd", p, v), [0, 2, 1, 3])
                x = x + self.o(tf.reshape(y, [s.n, s.t, s.d]))
                h = rms(x, self.g2)
                return x + self.down(tf.nn.silu(self.gate(h)) * self.up(h))

        def __init__(self, s: Any):
            super().__init__()
            self.s, self.words, self.blocks = s, L.Embedding(s.words, s.d), [Llama.Block(s) for _ in range(s.layers)]
            self.out = L.Dense(s.words, use_bias=False)
            self.g = self.add_weight(name="g", shape=[s.d], initializer="ones")

        def call(self, ids: Any) -> Any:
            """The logits of the next word."""
            half = self.s.d // self.s.heads // 2
            angle = tf.range(self.s.t, dtype=tf.float32)[:, None] * 1e4 ** (-tf.range(half, dtype=tf.float32) / half)
            cos, sin = (tf.cast(f(angle), tf.bfloat16) for f in (tf.cos, tf.sin))
            x = tf.cast(self.words(ids), tf.bfloat16)
            for b in self.blocks:
                x = b(x, cos, sin)
            return self.out(rms(x, self.g))

    def rms(x: Any, g: Any) -> Any:
        """RMS norm in single precision."""
        y = tf.cast(x, tf.float32)
        y = y * tf.math.rsqrt(tf.reduce_mean(tf.square(y), -1, keepdims=True) + 1e-6)
        return tf.cast(y * tf.cast(g, tf.float32), x.dtype)

    def rotated(x: Any, cos: Any, sin: Any) -> Any:
        """Pairs of numbers, turned by angles."""
        a, b = tf.split(x, 2, -1)
        return tf.concat([a * cos - b * sin, b * cos + a * sin], -1)

    def loss(m: Any, ids: Any) -> Any:
        return cross_entropy(ids[:, 1:], m(ids[:, :-1]))

    return trained(Llama(s), loss, K.optimizers.AdamW(3e-4, weight_decay=0.1), arrays, clip=1.0)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import trained

    class Decoder(nn.Module):
        """A layer of Llama."""

        def __init__(self, s: Any):
            super().__init__()
            dh, wide = s.d // s.heads, 8 * s.d // 3 // 64 * 64
            linear = lambda i, o: nn.Linear(i, o, bias=False)  # noqa: E731
            self.q, self.k, self.v = linear(s.d, s.d), linear(s.d, s.groups * dh), linear(s.d, s.groups * dh)
            self.o, self.gate, self.up, self.down = linear(s.d, s.d), linear(s.d, wide), linear(s.d, wide), linear(wide, s.d)
            self.n1, self.n2, self.s, self.dh = nn.RMSNorm(s.d, 1e-6), nn.RMSNorm(s.d, 1e-6), s, dh

        def forward(self, x: Any, cos: Any, sin: Any) -> Any:
            n, t, d = x.shape
            h = self.n1(x)
            q, k, v = (f(h).view(n, t, -1, self.dh).transpose(1, 2) for f in (self.q, self.k, self.v))
            turned = (
                lambda a: torch.cat(
                    [
                        a[..., : self.dh // 2] * cos - a[..., self.dh // 2 :] * sin,  # noqa: E731
                        a[..., self.dh // 2 :] * cos + a[..., : self.dh // 2] * sin,
                    ],
                    -1,
                )
            )
            many = self.s.heads // self.s.groups
            q, k, v = turned(q), turned(k).repeat_interleave(many, 1), v.repeat_interleave(many, 1)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.o(y.transpose(1, 2).reshape(n, t, d))
            h = self.n2(x)
            return x + self.down(F.silu(self.gate(h)) * self.up(h))

    class Llama(nn.Module):
        """A language model."""

        def __init__(self, s: Any):
            super().__init__()
            self.words, self.out, self.n, self.s = (
                nn.Embedding(s.words, s.d),
                nn.Linear(s.d, s.words, bias=False),
                nn.RMSNorm(s.d, 1e-6),
                s,
            )
            self.layers = nn.ModuleList(Decoder(s) for _ in range(s.layers))

        def forward(self, ids: Any) -> Any:
            half = self.s.d // self.s.heads // 2
            angle = torch.arange(self.s.t, device=ids.device)[:, None] * 1e4 ** (-torch.arange(half, device=ids.device) / half)
            cos, sin = angle.cos().bfloat16(), angle.sin().bfloat16()
            x = self.words(ids[:, :-1]).bfloat16()
            for layer in self.layers:
                x = layer(x, cos, sin)
            return F.cross_entropy(self.out(self.n(x)).flatten(0, 1).float(), ids[:, 1:].flatten())

    return trained(
        Llama(s),
        lambda m: m(given[0]),
        lambda p: torch.optim.AdamW(p, 3e-4, weight_decay=0.1, fused=True),
        short,
        compiled,
        clip=1.0,
    )
