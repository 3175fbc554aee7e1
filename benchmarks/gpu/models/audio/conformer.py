"""Conformer, 4 layers of 256, 16 × 400 frames, dropout, bf16, tf.function."""

from __future__ import annotations

from typing import Any

FULL = {"n": 16, "t": 400, "d": 256, "heads": 4, "layers": 4}
SMALL = {"n": 2, "t": 16, "d": 32, "heads": 2, "layers": 1}
POLICY = "mixed_bfloat16"


def data(r: Any, s: Any) -> tuple:
    """Frames of sound and letters."""
    return r.randn(s.n, s.t, 80).astype("f"), r.randint(0, 40, [s.n, s.t])


def ours(s: Any, arrays: tuple) -> Any:
    """Frames of sound to letters."""
    from benchmarks.gpu.penstock_side import K, L, cross_entropy, tf, trained

    class Conformer(L.Layer):
        """Half a feed-forward part, attention, a convolution over time, and the other half."""

        def __init__(self, s: Any):
            super().__init__()
            self.feeds = [
                K.Sequential([L.LayerNormalization(), L.Dense(4 * s.d, "swish"), L.Dropout(0.1), L.Dense(s.d)])
                for _ in range(2)
            ]
            self.norms = [L.LayerNormalization() for _ in range(3)]
            self.attention = L.MultiHeadAttention(s.heads, s.d // s.heads, dropout=0.1)
            self.wide, self.depth, self.batch = (
                L.Conv1D(2 * s.d, 1),
                L.DepthwiseConv1D(31, padding="same"),
                L.BatchNormalization(),
            )
            self.out = L.Conv1D(s.d, 1)

        def call(self, x: Any, training: bool = True) -> Any:
            """Of [batch, frames, channels]."""
            x = x + 0.5 * self.feeds[0](x, training=training)
            h = self.norms[0](x)
            x = x + self.attention(h, h, training=training)
            a, b = tf.split(self.wide(self.norms[1](x)), 2, -1)
            h = self.batch(self.depth(a * tf.sigmoid(b)), training=training)
            x = x + self.out(tf.nn.silu(h))
            return self.norms[2](x + 0.5 * self.feeds[1](x, training=training))

    i = K.Input([s.t, 80], batch_size=s.n)
    x = L.Dense(s.d)(i)
    for _ in range(s.layers):
        x = Conformer(s)(x)
    return trained(
        K.Model(i, L.Dense(40)(x)),
        lambda m, x, y: cross_entropy(y, m(x, training=True)),
        K.optimizers.Adam(1e-4),
        arrays,
        clip=1.0,
    )


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import adam, trained

    class Conformer(nn.Module):
        """Half a feed-forward part, attention, a convolution over time, and the other half."""

        def __init__(self, s: Any):
            super().__init__()
            self.feeds = nn.ModuleList(
                nn.Sequential(nn.LayerNorm(s.d), nn.Linear(s.d, 4 * s.d), nn.SiLU(), nn.Dropout(0.1), nn.Linear(4 * s.d, s.d))
                for _ in range(2)
            )
            self.norms, self.heads = nn.ModuleList(nn.LayerNorm(s.d) for _ in range(3)), s.heads
            self.qkv, self.o = nn.Linear(s.d, 3 * s.d), nn.Linear(s.d, s.d)
            self.wide, self.depth = nn.Linear(s.d, 2 * s.d), nn.Conv1d(s.d, s.d, 31, padding=15, groups=s.d)
            self.batch, self.out = nn.BatchNorm1d(s.d), nn.Linear(s.d, s.d)

        def forward(self, x: Any) -> Any:
            x = x + 0.5 * self.feeds[0](x)
            q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in self.qkv(self.norms[0](x)).chunk(3, -1))
            x = x + self.o(F.scaled_dot_product_attention(q, k, v, dropout_p=0.1).transpose(1, 2).flatten(2))
            h = self.batch(self.depth(F.glu(self.wide(self.norms[1](x)), -1).transpose(1, 2)))
            x = x + self.out(F.silu(h).transpose(1, 2))
            return self.norms[2](x + 0.5 * self.feeds[1](x))

    model = nn.Sequential(nn.Linear(80, s.d), *[Conformer(s) for _ in range(s.layers)], nn.Linear(s.d, 40))
    x, y = given
    return trained(
        model, lambda m: F.cross_entropy(m(x).float().flatten(0, 1), y.flatten()), adam(1e-4), short, compiled, clip=1.0
    )
