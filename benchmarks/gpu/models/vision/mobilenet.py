"""MobileNet-v2, batch 128 of 128×128, bf16, Keras fit step."""

from __future__ import annotations

from typing import Any

FULL = {"n": 128, "side": 128}
SMALL = {"n": 2, "side": 32}
POLICY = "mixed_bfloat16"


def data(r: Any, s: Any) -> tuple:
    """Images and classes."""
    return r.randn(s.n, s.side, s.side, 3).astype("f"), r.randint(0, 100, s.n)


def ours(s: Any, arrays: tuple) -> Any:
    """Inverted residuals with depthwise convolutions, trained by Keras."""
    from benchmarks.gpu.penstock_side import K, L, fitted

    def unit(x: Any, c: int, stride: int, expand: int) -> Any:
        i = x.shape[-1]
        h = L.ReLU(6.0)(L.BatchNormalization()(L.Conv2D(i * expand, 1, use_bias=False)(x))) if expand > 1 else x
        h = L.DepthwiseConv2D(3, stride, padding="same", use_bias=False)(h)
        h = L.BatchNormalization()(L.Conv2D(c, 1, use_bias=False)(L.ReLU(6.0)(L.BatchNormalization()(h))))
        return L.Add()([x, h]) if stride == 1 and i == c else h

    i = K.Input([s.side, s.side, 3])
    x = L.ReLU(6.0)(L.BatchNormalization()(L.Conv2D(32, 3, 2, padding="same", use_bias=False)(i)))
    for expand, c, n, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2)):
        for j in range(n):
            x = unit(x, c, stride if j == 0 else 1, expand)
    x = L.ReLU(6.0)(L.BatchNormalization()(L.Conv2D(1280, 1, use_bias=False)(x)))
    model = K.Model(i, L.Dense(100, dtype="float32")(L.Dropout(0.2)(L.GlobalAveragePooling2D()(x))))
    return fitted(model, K.optimizers.RMSprop(1e-3, momentum=0.9), arrays)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import images, trained

    class Inverted(nn.Module):
        """An inverted residual."""

        def __init__(self, i: int, c: int, stride: int, expand: int):
            super().__init__()
            h, parts = i * expand, []
            if expand > 1:
                parts += [nn.Conv2d(i, h, 1, bias=False), nn.BatchNorm2d(h), nn.ReLU6()]
            parts += [
                nn.Conv2d(h, h, 3, stride, 1, groups=h, bias=False),
                nn.BatchNorm2d(h),
                nn.ReLU6(),
                nn.Conv2d(h, c, 1, bias=False),
                nn.BatchNorm2d(c),
            ]
            self.net, self.same = nn.Sequential(*parts), stride == 1 and i == c

        def forward(self, x: Any) -> Any:
            return x + self.net(x) if self.same else self.net(x)

    x, y = given
    parts, i = [nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU6()], 32
    for expand, c, n, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2)):
        for j in range(n):
            parts.append(Inverted(i, c, stride if j == 0 else 1, expand))
            i = c
    parts += [
        nn.Conv2d(i, 1280, 1, bias=False),
        nn.BatchNorm2d(1280),
        nn.ReLU6(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(1280, 100),
    ]
    x = images(x)
    return trained(
        nn.Sequential(*parts),
        lambda m: F.cross_entropy(m(x).float(), y),
        lambda p: torch.optim.RMSprop(p, 1e-3, 0.9, momentum=0.9),
        short,
        compiled,
        last=True,
    )
