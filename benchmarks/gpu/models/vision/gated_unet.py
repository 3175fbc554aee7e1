"""U-Net with gated skips, batch 16 of 128×128, bf16, Keras fit step."""

from __future__ import annotations

from typing import Any

FULL = {"n": 16, "side": 128, "c": 32, "levels": 4}
SMALL = {"n": 2, "side": 16, "c": 4, "levels": 2}
POLICY = "mixed_bfloat16"


def data(r: Any, s: Any) -> tuple:
    """Images and classes of pixels."""
    return r.randn(s.n, s.side, s.side, 3).astype("f"), r.randint(0, 8, [s.n, s.side, s.side])


def ours(s: Any, arrays: tuple) -> Any:
    """What goes down the U is let through to the other side by a gate that sees both."""
    from benchmarks.gpu.penstock_side import K, L, fitted

    def double(x: Any, c: int) -> Any:
        for _ in range(2):
            x = L.Activation("relu")(L.BatchNormalization()(L.Conv2D(c, 3, padding="same", use_bias=False)(x)))
        return x

    def gated(skip: Any, x: Any, c: int) -> Any:
        both = L.Activation("relu")(L.Add()([L.Conv2D(c, 1)(skip), L.Conv2D(c, 1)(x)]))
        return L.Multiply()([skip, L.Conv2D(1, 1, activation="sigmoid")(both)])

    x = i = K.Input([s.side, s.side, 3])
    kept = []
    for j in range(s.levels):
        x = double(x, s.c << j)
        kept.append(x)
        x = L.MaxPooling2D()(x)
    x = double(x, s.c << s.levels)
    for j in reversed(range(s.levels)):
        x = L.Conv2DTranspose(s.c << j, 2, 2)(x)
        x = double(L.Concatenate()([gated(kept[j], x, max(s.c << j >> 1, 1)), x]), s.c << j)
    model = K.Model(i, L.Conv2D(8, 1, dtype="float32")(x))
    return fitted(model, K.optimizers.Adam(1e-3), arrays)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import adam, images, trained

    class Gates(nn.Module):
        """What goes down the U is let through to the other side by a gate that sees both."""

        def __init__(self, s: Any):
            super().__init__()
            widths = [s.c << j for j in range(s.levels + 1)]
            self.down = nn.ModuleList(self.double(3 if not j else widths[j - 1], w) for j, w in enumerate(widths))
            self.up = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in widths[:-1])
            self.join = nn.ModuleList(self.double(2 * w, w) for w in widths[:-1])
            self.skips = nn.ModuleList(nn.Conv2d(w, w // 2, 1) for w in widths[:-1])
            self.below = nn.ModuleList(nn.Conv2d(w, w // 2, 1) for w in widths[:-1])
            self.gate = nn.ModuleList(nn.Conv2d(w // 2, 1, 1) for w in widths[:-1])
            self.out = nn.Conv2d(s.c, 8, 1)

        @staticmethod
        def double(i: int, c: int) -> nn.Module:
            """Two convolutions with their norms."""
            parts: list = []
            for j in (i, c):
                parts += [nn.Conv2d(j, c, 3, 1, 1, bias=False), nn.BatchNorm2d(c), nn.ReLU(True)]
            return nn.Sequential(*parts)

        def forward(self, x: Any) -> Any:
            kept = []
            for j, part in enumerate(self.down):
                x = part(x)
                if j < len(self.up):
                    kept.append(x)
                    x = F.max_pool2d(x, 2)
            for j in reversed(range(len(self.up))):
                x = self.up[j](x)
                gate = torch.sigmoid(self.gate[j](F.relu(self.skips[j](kept[j]) + self.below[j](x))))
                x = self.join[j](torch.cat([kept[j] * gate, x], 1))
            return self.out(x)

    x, y = images(given[0]), given[1]
    return trained(Gates(s), lambda m: F.cross_entropy(m(x).float(), y), adam(1e-3), short, compiled, last=True)
