"""ShuffleNet-v2, batch 256 of 96×96, half precision with scaled loss, Keras fit step."""

from __future__ import annotations

from typing import Any

FULL = {"n": 256, "side": 96, "c": 116}
SMALL = {"n": 2, "side": 32, "c": 8}
POLICY = "mixed_float16"


def data(r: Any, s: Any) -> tuple:
    """Images and classes."""
    return r.randn(s.n, s.side, s.side, 3).astype("f"), r.randint(0, 100, s.n)


def ours(s: Any, arrays: tuple) -> Any:
    """Halves of the channels, mixed after each unit."""
    from benchmarks.gpu.penstock_side import K, L, fitted, tf

    def shuffled(x: Any) -> Any:
        """The channels of two groups in turns."""
        _, h, w, c = x.shape
        return tf.reshape(tf.transpose(tf.reshape(x, [-1, h, w, 2, c // 2]), [0, 1, 2, 4, 3]), [-1, h, w, c])

    def branch(x: Any, c: int, stride: int) -> Any:
        x = L.ReLU()(L.BatchNormalization()(L.Conv2D(c, 1, use_bias=False)(x)))
        x = L.BatchNormalization()(L.DepthwiseConv2D(3, stride, padding="same", use_bias=False)(x))
        return L.ReLU()(L.BatchNormalization()(L.Conv2D(c, 1, use_bias=False)(x)))

    def unit(x: Any, c: int, first: bool) -> Any:
        if first:
            a = L.BatchNormalization()(L.DepthwiseConv2D(3, 2, padding="same", use_bias=False)(x))
            a, b = L.ReLU()(L.BatchNormalization()(L.Conv2D(c // 2, 1, use_bias=False)(a))), branch(x, c // 2, 2)
        else:
            a, b = L.Lambda(lambda t: tf.split(t, 2, -1))(x)
            b = branch(b, c // 2, 1)
        return L.Lambda(shuffled)(L.Concatenate()([a, b]))

    i = K.Input([s.side, s.side, 3])
    x = L.ReLU()(L.BatchNormalization()(L.Conv2D(24, 3, 2, padding="same", use_bias=False)(i)))
    for j, count in enumerate((4, 8, 4)):
        for k in range(count):
            x = unit(x, s.c << j, not k)
    x = L.ReLU()(L.BatchNormalization()(L.Conv2D(1024, 1, use_bias=False)(x)))
    model = K.Model(i, L.Dense(100, dtype="float32")(L.GlobalAveragePooling2D()(x)))
    return fitted(model, K.optimizers.SGD(0.05, momentum=0.9), arrays)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """Half precision with a scaled loss."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import DEVICE, images

    def conv(i: int, c: int, k: int, stride: int = 1, groups: int = 1, act: bool = True) -> list:
        """A convolution, its norm, and perhaps a ReLU."""
        parts = [nn.Conv2d(i, c, k, stride, k // 2, groups=groups, bias=False), nn.BatchNorm2d(c)]
        return [*parts, nn.ReLU(True)] if act else parts

    class ShuffleUnit(nn.Module):
        """Halves of the channels, mixed."""

        def __init__(self, i: int, c: int, first: bool):
            super().__init__()
            half, self.first = c // 2, first
            own = i if first else half
            self.b = nn.Sequential(
                *conv(own, half, 1), *conv(half, half, 3, 2 if first else 1, half, False), *conv(half, half, 1)
            )
            self.a = nn.Sequential(*conv(i, i, 3, 2, i, False), *conv(i, half, 1)) if first else nn.Identity()

        def forward(self, x: Any) -> Any:
            a, b = (x, x) if self.first else x.chunk(2, 1)
            x = torch.cat([self.a(a), self.b(b)], 1)
            n, c, h, w = x.shape
            return x.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)

    x, y = images(given[0]), given[1]
    parts, i = conv(3, 24, 3, 2), 24
    for j, count in enumerate((4, 8, 4)):
        for k in range(count):
            parts.append(ShuffleUnit(i, s.c << j, not k))
            i = s.c << j
    model = nn.Sequential(*parts, *conv(i, 1024, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1024, 100))
    model = model.to(DEVICE).to(memory_format=torch.channels_last)
    opt, scaler = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9), torch.amp.GradScaler(DEVICE)
    run = torch.compile(model) if compiled else model

    def step() -> Any:
        with torch.autocast(DEVICE, torch.float16, enabled=DEVICE == "cuda"):
            loss = F.cross_entropy(run(x).float(), y)
        opt.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        return loss.detach()

    return step
