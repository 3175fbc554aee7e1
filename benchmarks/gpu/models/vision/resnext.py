"""ResNeXt with squeeze and excitation, batch 64 of 128×128, bf16, Keras fit step."""

from __future__ import annotations

from typing import Any

FULL = {"n": 64, "side": 128, "c": 128, "groups": 32}
SMALL = {"n": 2, "side": 32, "c": 16, "groups": 4}
POLICY = "mixed_bfloat16"


def data(r: Any, s: Any) -> tuple:
    """Images and classes."""
    return r.randn(s.n, s.side, s.side, 3).astype("f"), r.randint(0, 100, s.n)


def ours(s: Any, arrays: tuple) -> Any:
    """Grouped convolutions, and channels weighted by their means."""
    from benchmarks.gpu.penstock_side import K, L, fitted

    def unit(x: Any, c: int, stride: int) -> Any:
        h = L.ReLU()(L.BatchNormalization()(L.Conv2D(c, 1, use_bias=False)(x)))
        h = L.Conv2D(c, 3, stride, padding="same", groups=s.groups, use_bias=False)(h)
        h = L.BatchNormalization()(L.Conv2D(2 * c, 1, use_bias=False)(L.ReLU()(L.BatchNormalization()(h))))
        weight = L.Dense(2 * c, "sigmoid")(L.Dense(c // 8, "relu")(L.GlobalAveragePooling2D(keepdims=True)(h)))
        if x.shape[-1] != 2 * c or stride > 1:
            x = L.BatchNormalization()(L.Conv2D(2 * c, 1, stride, use_bias=False)(x))
        return L.ReLU()(L.Add()([x, L.Multiply()([h, weight])]))

    i = K.Input([s.side, s.side, 3])
    x = L.MaxPool2D(3, 2, "same")(L.ReLU()(L.BatchNormalization()(L.Conv2D(64, 7, 2, padding="same", use_bias=False)(i))))
    for j, count in enumerate((2, 2, 3, 2)):
        for k in range(count):
            x = unit(x, s.c << j, 2 if j and not k else 1)
    model = K.Model(i, L.Dense(100, dtype="float32")(L.GlobalAveragePooling2D()(x)))
    return fitted(model, K.optimizers.SGD(0.01, momentum=0.9, nesterov=True), arrays)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import images, trained

    class Unit(nn.Module):
        """Grouped convolutions, and channels weighted by their means."""

        def __init__(self, i: int, c: int, stride: int, groups: int):
            super().__init__()
            self.net = nn.Sequential(
                nn.Conv2d(i, c, 1, bias=False),
                nn.BatchNorm2d(c),
                nn.ReLU(),
                nn.Conv2d(c, c, 3, stride, 1, groups=groups, bias=False),
                nn.BatchNorm2d(c),
                nn.ReLU(),
                nn.Conv2d(c, 2 * c, 1, bias=False),
                nn.BatchNorm2d(2 * c),
            )
            self.weigh = nn.Sequential(nn.Linear(2 * c, c // 8), nn.ReLU(), nn.Linear(c // 8, 2 * c), nn.Sigmoid())
            self.skip = (
                nn.Identity()
                if i == 2 * c and stride == 1
                else nn.Sequential(nn.Conv2d(i, 2 * c, 1, stride, bias=False), nn.BatchNorm2d(2 * c))
            )

        def forward(self, x: Any) -> Any:
            h = self.net(x)
            return F.relu(self.skip(x) + h * self.weigh(h.mean((2, 3)))[..., None, None])

    parts, i = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
    for j, count in enumerate((2, 2, 3, 2)):
        for k in range(count):
            parts.append(Unit(i, s.c << j, 2 if j and not k else 1, s.groups))
            i = 2 * (s.c << j)
    model = nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(i, 100))
    x, y = images(given[0]), given[1]
    return trained(
        model,
        lambda m: F.cross_entropy(m(x).float(), y),
        lambda p: torch.optim.SGD(p, 0.01, momentum=0.9, nesterov=True),
        short,
        compiled,
        last=True,
    )
