"""U-Net of a diffusion model, batch 32 of 32×32, bf16, tf.function."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

FULL = {"n": 32, "side": 32, "c": 128}
SMALL = {"n": 2, "side": 8, "c": 32}
POLICY = "mixed_bfloat16"


def data(r: Any, s: Any) -> tuple:
    """Images, noise, and times."""
    x, noise = (r.randn(s.n, s.side, s.side, 3).astype("f") for _ in range(2))
    return x, noise, r.randint(0, 1000, s.n)


def ours(s: Any, arrays: tuple) -> Any:
    """Noise is added by a schedule, and predicted."""
    from benchmarks.gpu.penstock_side import K, L, tf, trained

    class GroupNorm(L.Layer):
        """Group normalization over 32 groups, written out."""

        def build(self, shape: Any) -> None:
            """Scale and offset."""
            self.g = self.add_weight(name="g", shape=[shape[-1]], initializer="ones")
            self.b = self.add_weight(name="b", shape=[shape[-1]], initializer="zeros")

        def call(self, x: Any) -> Any:
            """Normalizes in single precision."""
            n, h, w, c = x.shape
            y = tf.reshape(tf.cast(x, tf.float32), [-1, h, w, 32, c // 32])
            mean, variance = tf.nn.moments(y, [1, 2, 4], keepdims=True)
            y = tf.reshape((y - mean) * tf.math.rsqrt(variance + 1e-5), [-1, h, w, c])
            return tf.cast(y * tf.cast(self.g, tf.float32) + tf.cast(self.b, tf.float32), x.dtype)

    class Residual(L.Layer):
        """Two convolutions with the embedding of the time between them."""

        def __init__(self, c: int, same: bool):
            super().__init__()
            self.n1, self.n2 = GroupNorm(), GroupNorm()
            self.c1, self.c2 = (L.Conv2D(c, 3, padding="same") for _ in range(2))
            self.t, self.s = L.Dense(c), None if same else L.Conv2D(c, 1)

        def call(self, x: Any, t: Any) -> Any:
            """One block."""
            h = self.c1(tf.nn.silu(self.n1(x))) + self.t(tf.nn.silu(t))[:, None, None]
            return (x if self.s is None else self.s(x)) + self.c2(tf.nn.silu(self.n2(h)))

    class Diffusion(K.Model):
        """A U-Net that predicts noise, with attention at its bottom."""

        def __init__(self, c: int):
            super().__init__()
            self.c, self.first, self.t1, self.t2 = c, L.Conv2D(c, 3, padding="same"), L.Dense(4 * c), L.Dense(4 * c)
            self.down = [Residual(c, True), Residual(2 * c, False), Residual(2 * c, True)]
            self.shrink = [L.Conv2D(c, 3, 2, padding="same"), L.Conv2D(2 * c, 3, 2, padding="same")]
            self.mid, self.norm, self.attend = Residual(2 * c, True), GroupNorm(), L.MultiHeadAttention(4, c // 2)
            self.grow = [L.Conv2DTranspose(2 * c, 4, 2, padding="same"), L.Conv2DTranspose(c, 4, 2, padding="same")]
            self.up = [Residual(2 * c, False), Residual(c, False)]
            self.out = L.Conv2D(3, 3, padding="same")

        def call(self, x: Any, t: Any) -> Any:
            """The noise in images, at given times."""
            half = self.c // 2
            angle = tf.cast(t, tf.float32)[:, None] * tf.exp(-math.log(1e4) * tf.range(half, dtype=tf.float32) / half)
            t = self.t2(tf.nn.silu(self.t1(tf.concat([tf.sin(angle), tf.cos(angle)], -1))))
            x = self.first(x)
            a = self.down[0](x, t)
            b = self.down[1](self.shrink[0](a), t)
            h = self.mid(self.down[2](self.shrink[1](b), t), t)
            n, height, width, c = h.shape
            flat = tf.reshape(self.norm(h), [-1, height * width, c])
            h = h + tf.reshape(self.attend(flat, flat), [-1, height, width, c])
            h = self.up[0](tf.concat([self.grow[0](h), b], -1), t)
            return self.out(tf.nn.silu(self.up[1](tf.concat([self.grow[1](h), a], -1), t)))

    kept = tf.constant(np.cumprod(1 - np.linspace(1e-4, 0.02, 1000)).astype("f"))

    def loss(m: Any, x: Any, noise: Any, t: Any) -> Any:
        a = tf.gather(kept, t)[:, None, None, None]
        return tf.reduce_mean(tf.square(noise - tf.cast(m(tf.sqrt(a) * x + tf.sqrt(1 - a) * noise, t), tf.float32)))

    return trained(Diffusion(s.c), loss, K.optimizers.Adam(1e-4), arrays)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import DEVICE, adam, images, trained

    class Residual(nn.Module):
        """Two convolutions with the embedding of the time between them."""

        def __init__(self, i: int, c: int, t: int):
            super().__init__()
            self.n1, self.n2 = nn.GroupNorm(32, i), nn.GroupNorm(32, c)
            self.c1, self.c2, self.t = nn.Conv2d(i, c, 3, 1, 1), nn.Conv2d(c, c, 3, 1, 1), nn.Linear(t, c)
            self.s = nn.Identity() if i == c else nn.Conv2d(i, c, 1)

        def forward(self, x: Any, t: Any) -> Any:
            h = self.c1(F.silu(self.n1(x))) + self.t(F.silu(t))[:, :, None, None]
            return self.s(x) + self.c2(F.silu(self.n2(h)))

    class Diffusion(nn.Module):
        """A U-Net that predicts noise, with attention at its bottom."""

        def __init__(self, c: int):
            super().__init__()
            t = 4 * c
            self.c, self.first, self.t1, self.t2 = c, nn.Conv2d(3, c, 3, 1, 1), nn.Linear(c, t), nn.Linear(t, t)
            self.down = nn.ModuleList([Residual(c, c, t), Residual(c, 2 * c, t), Residual(2 * c, 2 * c, t)])
            self.shrink = nn.ModuleList([nn.Conv2d(c, c, 3, 2, 1), nn.Conv2d(2 * c, 2 * c, 3, 2, 1)])
            self.mid, self.norm = Residual(2 * c, 2 * c, t), nn.GroupNorm(32, 2 * c)
            self.qkv, self.o = nn.Linear(2 * c, 6 * c), nn.Linear(2 * c, 2 * c)
            self.grow = nn.ModuleList([nn.ConvTranspose2d(2 * c, 2 * c, 4, 2, 1), nn.ConvTranspose2d(2 * c, c, 4, 2, 1)])
            self.up = nn.ModuleList([Residual(4 * c, 2 * c, t), Residual(2 * c, c, t)])
            self.out = nn.Conv2d(c, 3, 3, 1, 1)

        def forward(self, x: Any, t: Any) -> Any:
            half = self.c // 2
            angle = t.float()[:, None] * torch.exp(-math.log(1e4) * torch.arange(half, device=t.device) / half)
            t = self.t2(F.silu(self.t1(torch.cat([angle.sin(), angle.cos()], -1))))
            a = self.down[0](self.first(x), t)
            b = self.down[1](self.shrink[0](a), t)
            h = self.mid(self.down[2](self.shrink[1](b), t), t)
            n, c, height, width = h.shape
            q, k, v = self.qkv(self.norm(h).flatten(2).transpose(1, 2)).view(n, -1, 3, 4, c // 4).permute(2, 0, 3, 1, 4)
            y = self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, -1, c))
            h = h + y.transpose(1, 2).reshape(n, c, height, width)
            h = self.up[0](torch.cat([self.grow[0](h), b], 1), t)
            return self.out(F.silu(self.up[1](torch.cat([self.grow[1](h), a], 1), t)))

    x, noise, t = given
    x, noise = images(x), images(noise)
    kept = torch.from_numpy(np.cumprod(1 - np.linspace(1e-4, 0.02, 1000)).astype("f")).to(DEVICE)

    def loss(m: Any) -> Any:
        a = kept[t][:, None, None, None]
        return F.mse_loss(m(a.sqrt() * x + (1 - a).sqrt() * noise, t).float(), noise)

    return trained(Diffusion(s.c), loss, adam(1e-4), short, compiled, last=True)
