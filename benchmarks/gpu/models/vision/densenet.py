"""DenseNet-121, batch 64 of 128×128, bf16, Keras fit step."""

from __future__ import annotations

from typing import Any

FULL = {"n": 64, "side": 128, "grow": 32, "blocks": (6, 12, 24, 16)}
SMALL = {"n": 2, "side": 64, "grow": 4, "blocks": (2, 2)}
POLICY = "mixed_bfloat16"


def data(r: Any, s: Any) -> tuple:
    """Images and classes."""
    return r.randn(s.n, s.side, s.side, 3).astype("f"), r.randint(0, 100, s.n)


def ours(s: Any, arrays: tuple) -> Any:
    """Every layer sees all before it."""
    from benchmarks.gpu.penstock_side import K, L, fitted

    def plain(x: Any, c: int, size: int) -> Any:
        return L.Conv2D(c, size, padding="same", use_bias=False)(L.ReLU()(L.BatchNormalization()(x)))

    i = K.Input([s.side, s.side, 3])
    x = L.Conv2D(2 * s.grow, 7, 2, "same", use_bias=False)(i)
    x = L.MaxPool2D(3, 2, "same")(L.ReLU()(L.BatchNormalization()(x)))
    for j, count in enumerate(s.blocks):
        if j:
            x = L.AveragePooling2D(2)(plain(x, x.shape[-1] // 2, 1))
        for _ in range(count):
            x = L.Concatenate()([x, plain(plain(x, 4 * s.grow, 1), s.grow, 3)])
    x = L.GlobalAveragePooling2D()(L.ReLU()(L.BatchNormalization()(x)))
    return fitted(K.Model(i, L.Dense(100, dtype="float32")(x)), K.optimizers.SGD(0.05, momentum=0.9), arrays)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import images, trained

    class Dense(nn.Module):
        """A layer of a dense block."""

        def __init__(self, i: int, grow: int):
            super().__init__()
            self.net = nn.Sequential(plain(i, 4 * grow, 1), plain(4 * grow, grow, 3))

        def forward(self, x: Any) -> Any:
            return torch.cat([x, self.net(x)], 1)

    def plain(i: int, c: int, size: int) -> nn.Module:
        """Norm, ReLU, convolution."""
        return nn.Sequential(nn.BatchNorm2d(i), nn.ReLU(), nn.Conv2d(i, c, size, 1, size // 2, bias=False))

    i = 2 * s.grow
    parts = [nn.Conv2d(3, i, 7, 2, 3, bias=False), nn.BatchNorm2d(i), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    for j, count in enumerate(s.blocks):
        if j:
            parts += [plain(i, i // 2, 1), nn.AvgPool2d(2)]
            i //= 2
        for _ in range(count):
            parts.append(Dense(i, s.grow))
            i += s.grow
    model = nn.Sequential(*parts, nn.BatchNorm2d(i), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(i, 100))
    x, y = images(given[0]), given[1]
    sgd = lambda p: torch.optim.SGD(p, 0.05, momentum=0.9)  # noqa: E731
    return trained(model, lambda m: F.cross_entropy(m(x).float(), y), sgd, short, compiled, last=True)
