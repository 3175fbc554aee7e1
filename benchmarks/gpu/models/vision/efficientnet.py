"""EfficientNetV2, fused and separable blocks with squeeze and excitation, batch 64 of 128×128, bf16, Keras fit step."""

from __future__ import annotations

from typing import Any

FULL = {
    "n": 64,
    "side": 128,
    "blocks": ((24, 2, 1, 1, 0), (48, 3, 2, 4, 0), (64, 3, 2, 4, 0), (128, 4, 2, 4, 1), (160, 5, 1, 6, 1)),
}
SMALL = {"n": 2, "side": 32, "blocks": ((8, 1, 1, 1, 0), (8, 1, 2, 2, 1))}
POLICY = "mixed_bfloat16"


def data(r: Any, s: Any) -> tuple:
    """Images and classes."""
    return r.randn(s.n, s.side, s.side, 3).astype("f"), r.randint(0, 100, s.n)


def ours(s: Any, arrays: tuple) -> Any:
    """The step of fit."""
    from benchmarks.gpu.penstock_side import K, L, fitted

    def normed(x: Any, swish: bool = True) -> Any:
        x = L.BatchNormalization()(x)
        return L.Activation("swish")(x) if swish else x

    def block(x: Any, c: int, stride: int, expand: int, separable: int) -> Any:
        i = x.shape[-1]
        h = x
        if separable:
            h = normed(L.Conv2D(i * expand, 1, use_bias=False)(h))
            h = normed(L.DepthwiseConv2D(3, stride, padding="same", use_bias=False)(h))
            gate = L.GlobalAveragePooling2D(keepdims=True)(h)
            gate = L.Conv2D(i * expand, 1, activation="sigmoid")(L.Conv2D(max(1, i // 4), 1, activation="swish")(gate))
            h = normed(L.Conv2D(c, 1, use_bias=False)(L.Multiply()([h, gate])), False)
        elif expand == 1:
            h = normed(L.Conv2D(c, 3, stride, padding="same", use_bias=False)(h))
        else:
            h = normed(L.Conv2D(i * expand, 3, stride, padding="same", use_bias=False)(h))
            h = normed(L.Conv2D(c, 1, use_bias=False)(h), False)
        return L.Add()([L.Dropout(0.1, noise_shape=[None, 1, 1, 1])(h), x]) if stride == 1 and i == c else h

    x = i = K.Input([s.side, s.side, 3])
    x = normed(L.Conv2D(s.blocks[0][0], 3, 2, padding="same", use_bias=False)(x))
    for c, count, stride, expand, separable in s.blocks:
        for j in range(count):
            x = block(x, c, stride if j == 0 else 1, expand, separable)
    x = L.Dense(100, dtype="float32")(L.Dropout(0.2)(L.GlobalAveragePooling2D()(normed(L.Conv2D(640, 1, use_bias=False)(x)))))
    return fitted(K.Model(i, x), K.optimizers.SGD(0.01, 0.9), arrays)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import images, trained

    def conv(i: int, c: int, k: int, stride: int = 1, groups: int = 1, swish: bool = True) -> nn.Module:
        parts = [nn.Conv2d(i, c, k, stride, k // 2, groups=groups, bias=False), nn.BatchNorm2d(c)]
        return nn.Sequential(*parts, nn.SiLU(True)) if swish else nn.Sequential(*parts)

    class Gate(nn.Module):
        def __init__(self, c: int, small: int):
            super().__init__()
            self.a, self.b = nn.Conv2d(c, small, 1), nn.Conv2d(small, c, 1)

        def forward(self, x: Any) -> Any:
            return x * torch.sigmoid(self.b(F.silu(self.a(x.mean((2, 3), keepdim=True)))))

    class Block(nn.Module):
        def __init__(self, i: int, c: int, stride: int, expand: int, separable: int):
            super().__init__()
            w, self.same = i * expand, stride == 1 and i == c
            if separable:
                parts = [conv(i, w, 1), conv(w, w, 3, stride, w), Gate(w, max(1, i // 4)), conv(w, c, 1, swish=False)]
            else:
                parts = [conv(i, c, 3, stride)] if expand == 1 else [conv(i, w, 3, stride), conv(w, c, 1, swish=False)]
            self.body = nn.Sequential(*parts)

        def forward(self, x: Any) -> Any:
            h = self.body(x)
            if not self.same:
                return h
            return x + F.dropout(torch.ones_like(h[:, :1, :1, :1]), 0.1) * h

    i = s.blocks[0][0]
    parts = [conv(3, i, 3, 2)]
    for c, count, stride, expand, separable in s.blocks:
        for j in range(count):
            parts.append(Block(i, c, stride if j == 0 else 1, expand, separable))
            i = c
    parts += [conv(i, 640, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(640, 100)]
    x, y = images(given[0]), given[1]
    return trained(
        nn.Sequential(*parts),
        lambda m: F.cross_entropy(m(x).float(), y),
        lambda p: torch.optim.SGD(p, 0.01, 0.9),
        short,
        compiled,
        last=True,
    )
