"""EDSR, 16 blocks of 64, ×2 by depth_to_space, batch 16 of 48×48, TF32, tf.function."""

from __future__ import annotations

from typing import Any

FULL = {"n": 16, "side": 48, "c": 64, "blocks": 16}
SMALL = {"n": 2, "side": 8, "c": 4, "blocks": 2}
POLICY = "float32"


def data(r: Any, s: Any) -> tuple:
    """Images of both sizes."""
    return r.rand(s.n, s.side, s.side, 3).astype("f"), r.rand(s.n, 2 * s.side, 2 * s.side, 3).astype("f")


def ours(s: Any, arrays: tuple) -> Any:
    """Residual blocks without norms, and pixels out of channels."""
    from benchmarks.gpu.penstock_side import K, L, tf, trained

    i = K.Input([s.side, s.side, 3])
    x = first = L.Conv2D(s.c, 3, padding="same")(i)
    for _ in range(s.blocks):
        h = L.Conv2D(s.c, 3, padding="same")(L.Conv2D(s.c, 3, padding="same", activation="relu")(x))
        x = L.Add()([x, L.Rescaling(0.1)(h)])
    x = L.Add()([first, L.Conv2D(s.c, 3, padding="same")(x)])
    x = L.Lambda(lambda t: tf.nn.depth_to_space(t, 2))(L.Conv2D(4 * s.c, 3, padding="same")(x))
    model = K.Model(i, L.Conv2D(3, 3, padding="same")(x))
    return trained(model, lambda m, x, y: tf.reduce_mean(tf.abs(m(x) - y)), K.optimizers.Adam(1e-4), arrays)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    from torch import nn

    from benchmarks.gpu.torch_side import adam, images, trained

    class Edsr(nn.Module):
        """Residual blocks without norms, and pixels out of channels."""

        def __init__(self, s: Any):
            super().__init__()
            self.first, self.last = nn.Conv2d(3, s.c, 3, 1, 1), nn.Conv2d(s.c, s.c, 3, 1, 1)
            self.blocks = nn.ModuleList(
                nn.Sequential(nn.Conv2d(s.c, s.c, 3, 1, 1), nn.ReLU(True), nn.Conv2d(s.c, s.c, 3, 1, 1))
                for _ in range(s.blocks)
            )
            self.up = nn.Sequential(nn.Conv2d(s.c, 4 * s.c, 3, 1, 1), nn.PixelShuffle(2), nn.Conv2d(s.c, 3, 3, 1, 1))

        def forward(self, x: Any) -> Any:
            x = first = self.first(x)
            for block in self.blocks:
                x = x + 0.1 * block(x)
            return self.up(first + self.last(x))

    x, y = map(images, given)
    return trained(Edsr(s), lambda m: (m(x) - y).abs().mean(), adam(1e-4), short, compiled, last=True)
