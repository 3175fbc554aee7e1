"""NeRF, 4,096 rays of 64 points, TF32, tf.function."""

from __future__ import annotations

from typing import Any

import numpy as np

FULL = {"n": 4096, "points": 64, "d": 256}
SMALL = {"n": 8, "points": 4, "d": 64}
POLICY = "float32"


def data(r: Any, s: Any) -> tuple:
    """Starts and directions of rays, and colours."""
    return r.randn(s.n, 3).astype("f"), r.randn(s.n, 3).astype("f"), r.rand(s.n, 3).astype("f")


def ours(s: Any, arrays: tuple) -> Any:
    """The rate of learning falls."""
    from benchmarks.gpu.penstock_side import K, L, tf, trained

    class Nerf(K.Model):
        """Colours of rays."""

        def __init__(self, s: Any):
            super().__init__()
            self.s, self.dense = s, [L.Dense(s.d, "relu") for _ in range(8)]
            self.density, self.feature = L.Dense(1), L.Dense(s.d)
            self.view, self.colour = L.Dense(s.d // 2, "relu"), L.Dense(3, "sigmoid")

        @staticmethod
        def waves(x: Any, count: int) -> Any:
            """Sines and cosines of powers of two."""
            angles = x[..., None] * tf.constant(2.0 ** np.arange(count), tf.float32)
            both = tf.concat([tf.sin(angles), tf.cos(angles)], -1)
            return tf.concat([x, tf.reshape(both, [*x.shape[:-1], -1])], -1)

        def call(self, start: Any, way: Any) -> Any:
            """Points along rays, and what is seen of them."""
            s = self.s
            way = tf.math.l2_normalize(way, -1)
            edges = tf.linspace(2.0, 6.0, s.points + 1)
            depth = edges[:-1] + (edges[1:] - edges[:-1]) * tf.random.uniform([s.n, s.points])
            points = self.waves(start[:, None] + way[:, None] * depth[..., None], 10)
            h = points
            for i, dense in enumerate(self.dense):
                h = dense(tf.concat([h, points], -1) if i == 5 else h)
            sigma = tf.nn.relu(self.density(h)[..., 0])
            seen = tf.tile(self.waves(way, 4)[:, None], [1, s.points, 1])
            colour = self.colour(self.view(tf.concat([self.feature(h), seen], -1)))
            gaps = tf.concat([depth[:, 1:] - depth[:, :-1], tf.fill([s.n, 1], 1e10)], -1)
            alpha = 1 - tf.exp(-sigma * gaps)
            weight = alpha * tf.math.cumprod(1 - alpha + 1e-10, -1, exclusive=True)
            return tf.reduce_sum(weight[..., None] * colour, 1)

    rate = K.optimizers.schedules.ExponentialDecay(5e-4, 1000, 0.1)
    return trained(Nerf(s), lambda m, a, b, y: tf.reduce_mean(tf.square(m(a, b) - y)), K.optimizers.Adam(rate), arrays)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import adam, trained

    class Nerf(nn.Module):
        """Colours of rays."""

        def __init__(self, s: Any):
            super().__init__()
            self.s = s
            self.dense = nn.ModuleList(nn.Linear(63 if i == 0 else s.d + 63 if i == 5 else s.d, s.d) for i in range(8))
            self.density, self.feature, self.view = nn.Linear(s.d, 1), nn.Linear(s.d, s.d), nn.Linear(s.d + 27, s.d // 2)
            self.colour = nn.Linear(s.d // 2, 3)

        @staticmethod
        def waves(x: Any, count: int) -> Any:
            angles = x[..., None] * 2.0 ** torch.arange(count, device=x.device)
            return torch.cat([x, torch.cat([angles.sin(), angles.cos()], -1).flatten(-2)], -1)

        def forward(self, start: Any, way: Any) -> Any:
            s, way = self.s, F.normalize(way, dim=-1)
            edges = torch.linspace(2.0, 6.0, s.points + 1, device=way.device)
            depth = edges[:-1] + (edges[1:] - edges[:-1]) * torch.rand(s.n, s.points, device=way.device)
            points = self.waves(start[:, None] + way[:, None] * depth[..., None], 10)
            h = points
            for i, dense in enumerate(self.dense):
                h = F.relu(dense(torch.cat([h, points], -1) if i == 5 else h))
            sigma = F.relu(self.density(h)[..., 0])
            seen = self.waves(way, 4)[:, None].expand(-1, s.points, -1)
            colour = self.colour(F.relu(self.view(torch.cat([self.feature(h), seen], -1)))).sigmoid()
            gaps = torch.cat([depth[:, 1:] - depth[:, :-1], torch.full([s.n, 1], 1e10, device=way.device)], -1)
            alpha = 1 - (-sigma * gaps).exp()
            left = torch.cat([torch.ones_like(alpha[:, :1]), (1 - alpha + 1e-10)[:, :-1]], -1).cumprod(-1)
            return ((alpha * left)[..., None] * colour).sum(1)

    start, way, y = given
    return trained(Nerf(s), lambda m: (m(start, way) - y).square().mean(), adam(5e-4), short, compiled)
