"""ConvNeXt, 4 stages, batch 64 of 128×128, TF32, tf.function."""

from __future__ import annotations

from typing import Any

FULL = {"n": 64, "side": 128}
SMALL = {"n": 2, "side": 32}
POLICY = "float32"


def data(r: Any, s: Any) -> tuple:
    """Images and classes."""
    return r.randn(s.n, s.side, s.side, 3).astype("f"), r.randint(0, 100, s.n)


def ours(s: Any, arrays: tuple) -> Any:
    """A network of such blocks."""
    from benchmarks.gpu.penstock_side import K, L, cross_entropy, trained

    class ConvNextBlock(L.Layer):
        """Depthwise convolution, layer norm, two products, and a learned scale."""

        def __init__(self, c: int):
            super().__init__()
            self.conv, self.norm = L.DepthwiseConv2D(7, padding="same"), L.LayerNormalization(epsilon=1e-6)
            self.up, self.down, self.c = L.Dense(4 * c, activation="gelu"), L.Dense(c), c

        def build(self, shape: Any) -> None:
            """The scale of each channel."""
            self.gamma = self.add_weight(name="gamma", shape=[self.c], initializer=K.initializers.Constant(1e-2))

        def call(self, x: Any) -> Any:
            """One residual block."""
            return x + self.gamma * self.down(self.up(self.norm(self.conv(x))))

    i = K.Input([s.side, s.side, 3])
    x = L.LayerNormalization(epsilon=1e-6)(L.Conv2D(96, 4, 4)(i))
    for j, (c, n) in enumerate(((96, 2), (192, 2), (384, 4), (768, 2))):
        if j:
            x = L.Conv2D(c, 2, 2)(L.LayerNormalization(epsilon=1e-6)(x))
        for _ in range(n):
            x = ConvNextBlock(c)(x)
    model = K.Model(i, L.Dense(100)(L.LayerNormalization(epsilon=1e-6)(L.GlobalAveragePooling2D()(x))))
    return trained(model, lambda m, x, y: cross_entropy(y, m(x, training=True)), K.optimizers.Adam(1e-4), arrays)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import adam, images, trained

    class ConvNextBlock(nn.Module):
        """Depthwise convolution, layer norm, two products, and a learned scale."""

        def __init__(self, c: int):
            super().__init__()
            self.conv, self.norm = nn.Conv2d(c, c, 7, 1, 3, groups=c), nn.LayerNorm(c, 1e-6)
            self.up, self.down, self.gamma = nn.Linear(c, 4 * c), nn.Linear(4 * c, c), nn.Parameter(torch.full([c], 1e-2))

        def forward(self, x: Any) -> Any:
            h = self.norm(self.conv(x).permute(0, 2, 3, 1))
            return x + (self.gamma * self.down(F.gelu(self.up(h)))).permute(0, 3, 1, 2)

    class ChannelNorm(nn.LayerNorm):
        """Layer norm over channels."""

        def forward(self, x: Any) -> Any:
            return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)

    x, y = given
    parts, i = [nn.Conv2d(3, 96, 4, 4), ChannelNorm(96, 1e-6)], 96
    for j, (c, n) in enumerate(((96, 2), (192, 2), (384, 4), (768, 2))):
        if j:
            parts += [ChannelNorm(i, 1e-6), nn.Conv2d(i, c, 2, 2)]
        parts += [ConvNextBlock(c) for _ in range(n)]
        i = c
    model = nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(i, 1e-6), nn.Linear(i, 100))
    x = images(x)
    return trained(model, lambda m: F.cross_entropy(m(x), y), adam(1e-4), short, compiled, last=True)
