"""DeepLab, parallel dilated convolutions over noisy images, dropout, batch 16 of 96×96, half precision, Keras fit step."""

from __future__ import annotations

from typing import Any

FULL = {"n": 16, "side": 96, "c": 64}
SMALL = {"n": 2, "side": 16, "c": 4}
POLICY = "mixed_float16"


def data(r: Any, s: Any) -> tuple:
    """Images and classes of pixels."""
    return r.rand(s.n, s.side, s.side, 3).astype("f"), r.randint(0, 8, [s.n, s.side, s.side])


def ours(s: Any, arrays: tuple) -> Any:
    """The step of fit, with augmentation in the model and a scaled loss."""
    from benchmarks.gpu.penstock_side import K, L, fitted

    def conv(x: Any, c: int, k: int = 3, stride: int = 1, rate: int = 1) -> Any:
        x = L.Conv2D(c, k, stride, padding="same", dilation_rate=rate, use_bias=False)(x)
        return L.ReLU()(L.BatchNormalization()(x))

    x = i = K.Input([s.side, s.side, 3])
    x = L.GaussianNoise(0.05)(L.RandomContrast(0.2)(x))
    low = x = conv(conv(x, s.c, stride=2), s.c)
    x = conv(conv(x, 2 * s.c, stride=2), 2 * s.c)
    x = conv(conv(x, 4 * s.c, stride=2), 4 * s.c)
    parts = [conv(x, s.c, 1), *[conv(x, s.c, rate=rate) for rate in (2, 4, 6)]]
    whole = conv(L.GlobalAveragePooling2D(keepdims=True)(x), s.c, 1)
    parts.append(L.UpSampling2D(s.side // 8, interpolation="bilinear")(whole))
    x = L.Dropout(0.3)(conv(L.Concatenate()(parts), 2 * s.c, 1))
    x = conv(L.Concatenate()([L.UpSampling2D(4, interpolation="bilinear")(x), conv(low, s.c // 2, 1)]), 2 * s.c)
    x = L.UpSampling2D(2, interpolation="bilinear")(L.Conv2D(8, 1)(x))
    x = L.Activation("linear", dtype="float32")(x)
    return fitted(K.Model(i, x), K.optimizers.Adam(1e-3), arrays)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch, in bfloat16: without a scaled loss."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import adam, images, trained

    def conv(i: int, c: int, k: int = 3, stride: int = 1, rate: int = 1) -> nn.Module:
        return nn.Sequential(nn.Conv2d(i, c, k, stride, rate * (k // 2), rate, bias=False), nn.BatchNorm2d(c), nn.ReLU(True))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            c = s.c
            self.low, self.mid = (
                nn.Sequential(conv(3, c, stride=2), conv(c, c)),
                nn.Sequential(conv(c, 2 * c, stride=2), conv(2 * c, 2 * c)),
            )
            self.high = nn.Sequential(conv(2 * c, 4 * c, stride=2), conv(4 * c, 4 * c))
            self.parts = nn.ModuleList([conv(4 * c, c, 1), *[conv(4 * c, c, rate=r) for r in (2, 4, 6)]])
            self.whole, self.mix, self.skip = conv(4 * c, c, 1), conv(5 * c, 2 * c, 1), conv(c, c // 2, 1)
            self.last, self.out = conv(2 * c + c // 2, 2 * c), nn.Conv2d(2 * c, 8, 1)

        def forward(self, x: Any, y: Any) -> Any:
            factor = 0.8 + 0.4 * torch.rand(x.shape[0], 1, 1, 1, device=x.device)
            mean = x.mean((2, 3), keepdim=True)
            x = (x - mean) * factor + mean + 0.05 * torch.randn_like(x)
            low = self.low(x)
            x = self.high(self.mid(low))
            whole = self.whole(x.mean((2, 3), keepdim=True)).expand(-1, -1, *x.shape[2:])
            x = F.dropout(self.mix(torch.cat([*[p(x) for p in self.parts], whole], 1)), 0.3)
            x = F.interpolate(x, scale_factor=4, mode="bilinear")
            x = F.interpolate(self.out(self.last(torch.cat([x, self.skip(low)], 1))), scale_factor=2, mode="bilinear")
            return F.cross_entropy(x.float(), y)

    x, y = images(given[0]), given[1]
    return trained(Model(), lambda m: m(x, y), adam(1e-3), short, compiled, last=True)
