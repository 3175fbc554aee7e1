"""PointNet, 32 clouds of 2,048 points, TF32, tf.function."""

from __future__ import annotations

from typing import Any

FULL = {"n": 32, "t": 2048}
SMALL = {"n": 2, "t": 16}
POLICY = "float32"


def data(r: Any, s: Any) -> tuple:
    """Clouds of points and their classes."""
    return r.randn(s.n, s.t, 3).astype("f"), r.randint(0, 40, s.n)


def ours(s: Any, arrays: tuple) -> Any:
    """A network per point, and the largest of each feature."""
    from benchmarks.gpu.penstock_side import K, L, cross_entropy, trained

    def dense(c: int) -> list:
        return [L.Dense(c, use_bias=False), L.BatchNormalization(), L.ReLU()]

    model = K.Sequential(
        [
            *dense(64),
            *dense(64),
            *dense(128),
            *dense(1024),
            L.GlobalMaxPooling1D(),
            *dense(512),
            L.Dropout(0.3),
            *dense(256),
            L.Dense(40),
        ]
    )
    return trained(model, lambda m, x, y: cross_entropy(y, m(x, training=True)), K.optimizers.Adam(1e-3), arrays)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import adam, trained

    class Channels(nn.Module):
        """Batch norm of the last axis."""

        def __init__(self, c: int):
            super().__init__()
            self.norm = nn.BatchNorm1d(c)

        def forward(self, x: Any) -> Any:
            return self.norm(x.flatten(0, -2)).view(x.shape)

    class Largest(nn.Module):
        """The maximum over points."""

        def forward(self, x: Any) -> Any:
            return x.amax(1)

    def dense(i: int, c: int) -> list:
        return [nn.Linear(i, c, bias=False), Channels(c), nn.ReLU()]

    model = nn.Sequential(
        *dense(3, 64),
        *dense(64, 64),
        *dense(64, 128),
        *dense(128, 1024),
        Largest(),
        *dense(1024, 512),
        nn.Dropout(0.3),
        *dense(512, 256),
        nn.Linear(256, 40),
    )
    x, y = given
    return trained(model, lambda m: F.cross_entropy(m(x), y), adam(1e-3), short, compiled)
