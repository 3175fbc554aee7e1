"""3-D U-Net, batch 2 of 64×64×64, bf16, tf.function."""

from __future__ import annotations

from typing import Any

FULL = {"n": 2, "side": 64, "c": 32}
SMALL = {"n": 2, "side": 32, "c": 4}  # at 16, PyTorch's gradients in bfloat16 are NaN now and then on CPUs
POLICY = "mixed_bfloat16"


def data(r: Any, s: Any) -> tuple:
    """Volumes and classes of their cells."""
    return r.randn(s.n, s.side, s.side, s.side, 1).astype("f"), r.randint(0, 2, [s.n, s.side, s.side, s.side])


def ours(s: Any, arrays: tuple) -> Any:
    """Segmentation of volumes: a U-Net in three dimensions."""
    from benchmarks.gpu.penstock_side import K, L, cross_entropy, trained

    def unit(x: Any, c: int) -> Any:
        for _ in range(2):
            x = L.ReLU()(L.BatchNormalization()(L.Conv3D(c, 3, padding="same", use_bias=False)(x)))
        return x

    i = K.Input([s.side, s.side, s.side, 1])
    kept, x = [], i
    for j in range(3):
        x = unit(x, s.c << j)
        kept.append(x)
        x = L.MaxPool3D()(x)
    x = unit(x, s.c << 3)
    for j in reversed(range(3)):
        x = unit(L.Concatenate()([L.Conv3DTranspose(s.c << j, 2, 2)(x), kept[j]]), s.c << j)
    return trained(
        K.Model(i, L.Conv3D(2, 1)(x)),
        lambda m, x, y: cross_entropy(y, m(x, training=True)),
        K.optimizers.SGD(0.01, momentum=0.9),
        arrays,
    )


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import trained

    def unit(i: int, c: int) -> Any:
        parts: list = []
        for a in (i, c):
            parts += [nn.Conv3d(a, c, 3, padding=1, bias=False), nn.BatchNorm3d(c), nn.ReLU()]
        return nn.Sequential(*parts)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            c = s.c
            self.down = nn.ModuleList([unit(1, c), unit(c, 2 * c), unit(2 * c, 4 * c)])
            self.middle, self.out = unit(4 * c, 8 * c), nn.Conv3d(c, 2, 1)
            self.up = nn.ModuleList([nn.ConvTranspose3d(2 * (c << j), c << j, 2, 2) for j in range(3)])
            self.join = nn.ModuleList([unit(2 * (c << j), c << j) for j in range(3)])

        def forward(self, x: Any) -> Any:
            kept = []
            for d in self.down:
                x = d(x)
                kept.append(x)
                x = F.max_pool3d(x, 2)
            x = self.middle(x)
            for j in (2, 1, 0):
                x = self.join[j](torch.cat([self.up[j](x), kept[j]], 1))
            return self.out(x)

    x, y = given[0].permute(0, 4, 1, 2, 3), given[1]
    return trained(
        Net().to(memory_format=torch.channels_last_3d),
        lambda m: F.cross_entropy(m(x).float(), y),
        lambda p: torch.optim.SGD(p, 0.01, momentum=0.9),
        short,
        compiled,
    )
