"""CLIP, images and texts, batch 128, AdamW, bf16, tf.function."""

from __future__ import annotations

from typing import Any

FULL = {"n": 128, "side": 112, "t": 32, "d": 256, "heads": 4, "layers": 4, "words": 10000}
SMALL = {"n": 4, "side": 32, "t": 8, "d": 32, "heads": 2, "layers": 1, "words": 50}
POLICY = "mixed_bfloat16"


def data(r: Any, s: Any) -> tuple:
    """Images and their texts."""
    return r.randn(s.n, s.side, s.side, 3).astype("f"), r.randint(0, s.words, [s.n, s.t])


def ours(s: Any, arrays: tuple) -> Any:
    """The loss of both directions."""
    from benchmarks.gpu.penstock_side import K, L, cross_entropy, tf, trained

    class Tower(L.Layer):
        """A transformer of Keras's layers, and the mean of what it returns."""

        def __init__(self, s: Any):
            super().__init__()
            self.parts = [
                (
                    L.LayerNormalization(),
                    L.MultiHeadAttention(s.heads, s.d // s.heads),
                    L.LayerNormalization(),
                    L.Dense(4 * s.d, "gelu"),
                    L.Dense(s.d),
                )
                for _ in range(s.layers)
            ]
            self.norm = L.LayerNormalization()

        def call(self, x: Any) -> Any:
            """Of [batch, places, channels]."""
            for one, attention, two, up, down in self.parts:
                h = one(x)
                x = x + attention(h, h)
                x = x + down(up(two(x)))
            return tf.math.l2_normalize(tf.cast(tf.reduce_mean(self.norm(x), 1), tf.float32), -1)

    class Clip(K.Model):
        """Images and texts that belong together are close."""

        def __init__(self, s: Any):
            super().__init__()
            self.patches, self.words, self.s = L.Conv2D(s.d, 16, 16), L.Embedding(s.words, s.d), s
            self.see, self.read = Tower(s), Tower(s)

        def call(self, images: Any, ids: Any) -> Any:
            """The cosines of all pairs."""
            x = self.patches(images)
            return (
                tf.matmul(self.see(tf.reshape(x, [x.shape[0], -1, self.s.d])), self.read(self.words(ids)), transpose_b=True)
                * 14.0
            )

    labels = tf.range(s.n)

    def loss(m: Any, images: Any, ids: Any) -> Any:
        a = m(images, ids)
        return cross_entropy(labels, a) + cross_entropy(labels, tf.transpose(a))

    return trained(Clip(s), loss, K.optimizers.AdamW(1e-4, weight_decay=0.1), arrays)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import DEVICE, images, trained

    class Tower(nn.Module):
        """A transformer, and the mean of what it returns."""

        def __init__(self, s: Any):
            super().__init__()
            self.heads, self.norm = s.heads, nn.LayerNorm(s.d)
            self.parts = nn.ModuleList(
                nn.ModuleList(
                    [
                        nn.LayerNorm(s.d),
                        nn.Linear(s.d, 3 * s.d),
                        nn.Linear(s.d, s.d),
                        nn.LayerNorm(s.d),
                        nn.Linear(s.d, 4 * s.d),
                        nn.Linear(4 * s.d, s.d),
                    ]
                )
                for _ in range(s.layers)
            )

        def forward(self, x: Any) -> Any:
            for one, qkv, o, two, up, down in self.parts:
                q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in qkv(one(x)).chunk(3, -1))
                x = x + o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
                x = x + down(F.gelu(up(two(x))))
            return F.normalize(self.norm(x).mean(1).float(), dim=-1)

    class Clip(nn.Module):
        """Images and texts that belong together are close."""

        def __init__(self, s: Any):
            super().__init__()
            self.patches, self.words, self.see, self.read = (
                nn.Conv2d(3, s.d, 16, 16),
                nn.Embedding(s.words, s.d),
                Tower(s),
                Tower(s),
            )

        def forward(self, x: Any, ids: Any) -> Any:
            return self.see(self.patches(x).flatten(2).transpose(1, 2)) @ self.read(self.words(ids)).T * 14.0

    x, ids = images(given[0]), given[1]
    labels = torch.arange(s.n, device=DEVICE)

    def loss(m: Any) -> Any:
        a = m(x, ids).float()
        return F.cross_entropy(a, labels) + F.cross_entropy(a.T, labels)

    return trained(Clip(s), loss, lambda p: torch.optim.AdamW(p, 1e-4, weight_decay=0.1, fused=True), short, compiled)
