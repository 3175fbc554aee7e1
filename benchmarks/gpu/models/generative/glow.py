"""Glow, 2 levels of 8 steps, invertible products with slogdet, batch 32 of 32×32, TF32, tf.function."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

FULL = {"n": 32, "side": 32, "wide": 256, "steps": 8}
SMALL = {"n": 2, "side": 8, "wide": 8, "steps": 2}
POLICY = "float32"


def data(r: Any, s: Any) -> tuple:
    """Images."""
    return (r.rand(s.n, s.side, s.side, 3).astype("f"),)


def ours(s: Any, arrays: tuple) -> Any:
    """Actnorm, a product over channels, and an affine coupling, per step; half of the channels leave after a level."""
    from benchmarks.gpu.penstock_side import K, L, tf, trained

    class Step(L.Layer):
        """One step of the flow."""

        def build(self, shape: Any) -> None:
            """The parameters, with a rotation as the first product."""
            c = shape[-1]
            self.scale = self.add_weight(name="scale", shape=[c], initializer="zeros")
            self.shift = self.add_weight(name="shift", shape=[c], initializer="zeros")
            start = np.linalg.qr(np.random.RandomState(c).randn(c, c))[0].astype("f")
            self.mix = self.add_weight(name="mix", shape=[c, c], initializer=K.initializers.Constant(start))
            self.net = K.Sequential(
                [
                    L.Conv2D(s.wide, 3, padding="same", activation="relu"),
                    L.Conv2D(s.wide, 1, activation="relu"),
                    L.Conv2D(c, 3, padding="same", kernel_initializer="zeros"),
                ]
            )

        def call(self, x: Any) -> Any:
            """The result, and the logarithm of the determinant."""
            places = float(x.shape[1] * x.shape[2])
            x = (x + self.shift) * tf.exp(self.scale)
            x = tf.einsum("nhwc,cd->nhwd", x, self.mix)
            gain = places * (tf.reduce_sum(self.scale) + tf.linalg.slogdet(self.mix)[1])
            a, b = tf.split(x, 2, -1)
            log, shift = tf.split(self.net(a), 2, -1)
            log = tf.math.log_sigmoid(log + 2.0)
            return tf.concat([a, (b + shift) * tf.exp(log)], -1), gain + tf.reduce_sum(log, [1, 2, 3])

    class Flow(K.Model):
        """Two levels."""

        def __init__(self) -> None:
            super().__init__()
            self.levels = [[Step() for _ in range(s.steps)] for _ in range(2)]

        def call(self, x: Any) -> Any:
            """Bits per dimension."""
            size, total, prior = float(np.prod(x.shape[1:])), 0.0, 0.0
            for level in self.levels:
                x = tf.nn.space_to_depth(x, 2)
                for step in level:
                    x, gain = step(x)
                    total += gain
                x, out = tf.split(x, 2, -1)
                prior += tf.reduce_sum(-0.5 * (tf.square(out) + np.log(2 * np.pi)), [1, 2, 3])
            prior += tf.reduce_sum(-0.5 * (tf.square(x) + np.log(2 * np.pi)), [1, 2, 3])
            return -tf.reduce_mean(total + prior) / (size * np.log(2.0))

    return trained(Flow(), lambda m, x: m(x), K.optimizers.Adam(1e-4), arrays)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import adam, images, trained

    class GlowStep(nn.Module):
        """One step of the flow."""

        def __init__(self, s: Any, c: int):
            super().__init__()
            self.scale, self.shift = nn.Parameter(torch.zeros(c, 1, 1)), nn.Parameter(torch.zeros(c, 1, 1))
            start = np.linalg.qr(np.random.RandomState(c).randn(c, c))[0].astype("f")
            self.mix = nn.Parameter(torch.from_numpy(start))
            self.net = nn.Sequential(
                nn.Conv2d(c // 2, s.wide, 3, 1, 1),
                nn.ReLU(True),
                nn.Conv2d(s.wide, s.wide, 1),
                nn.ReLU(True),
                nn.Conv2d(s.wide, c, 3, 1, 1),
            )
            nn.init.zeros_(self.net[-1].weight)

        def forward(self, x: Any) -> Any:
            x = F.conv2d((x + self.shift) * self.scale.exp(), self.mix.T[:, :, None, None])
            gain = x.shape[2] * x.shape[3] * (self.scale.sum() + torch.linalg.slogdet(self.mix)[1])
            a, b = x.chunk(2, 1)
            log, shift = self.net(a).chunk(2, 1)
            log = F.logsigmoid(log + 2.0)
            return torch.cat([a, (b + shift) * log.exp()], 1), gain + log.sum((1, 2, 3))

    class Glow(nn.Module):
        """Two levels."""

        def __init__(self, s: Any):
            super().__init__()
            self.levels = nn.ModuleList(nn.ModuleList(GlowStep(s, c) for _ in range(s.steps)) for c in (12, 24))

        def forward(self, x: Any) -> Any:
            size, total, prior = x[0].numel(), 0.0, 0.0
            for level in self.levels:
                x = F.pixel_unshuffle(x, 2)
                for step in level:
                    x, gain = step(x)
                    total = total + gain
                x, out = x.chunk(2, 1)
                prior = prior - 0.5 * (out.square() + math.log(2 * math.pi)).sum((1, 2, 3))
            prior = prior - 0.5 * (x.square() + math.log(2 * math.pi)).sum((1, 2, 3))
            return -(total + prior).mean() / (size * math.log(2.0))

    x = images(given[0]).contiguous()
    return trained(Glow(s), lambda m: m(x), adam(1e-4), short, compiled)
