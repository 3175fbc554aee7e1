"""Fourier neural operator, batch 16 of 128×128, float32, tf.function."""

from __future__ import annotations

from typing import Any

FULL = {"n": 16, "side": 128, "c": 32, "modes": 12}
SMALL = {"n": 2, "side": 16, "c": 4, "modes": 3}
POLICY = "float32"


def data(r: Any, s: Any) -> tuple:
    """Fields, and fields that follow from them."""
    return r.randn(s.n, s.side, s.side, 3).astype("f"), r.randn(s.n, s.side, s.side, 1).astype("f")


def ours(s: Any, arrays: tuple) -> Any:
    """The relative error of fields."""
    from benchmarks.gpu.penstock_side import K, L, tf, trained

    class Spectral(L.Layer):
        """Mixes channels per frequency, of the low ones."""

        def __init__(self, c: int, modes: int):
            super().__init__()
            self.c, self.modes = c, modes

        def build(self, shape: Any) -> None:
            """Complex matrices for both ends of the first axis."""
            size, start = [2, self.c, self.c, self.modes, self.modes], K.initializers.RandomUniform(0, 1 / self.c**2)
            self.parts = [self.add_weight(name=n, shape=size, initializer=start) for n in ("real", "imaginary")]

        def call(self, x: Any) -> Any:
            """Of channels first."""
            m, (_, _, h, w) = self.modes, x.shape
            found, by = tf.signal.rfft2d(x), tf.complex(*self.parts)
            low = tf.einsum("bihw,iohw->bohw", found[:, :, :m, :m], by[0])
            high = tf.einsum("bihw,iohw->bohw", found[:, :, -m:, :m], by[1])
            low = tf.pad(low, [[0, 0], [0, 0], [0, h - 2 * m], [0, 0]])
            return tf.signal.irfft2d(tf.pad(tf.concat([low, high], 2), [[0, 0], [0, 0], [0, 0], [0, w // 2 + 1 - m]]), [h, w])

    class Operator(K.Model):
        """Four layers in frequencies and in space."""

        def __init__(self, s: Any):
            super().__init__()
            self.lift, self.one, self.two = L.Dense(s.c), L.Dense(128, "gelu"), L.Dense(1)
            self.spectral, self.local = [Spectral(s.c, s.modes) for _ in range(4)], [L.Dense(s.c) for _ in range(4)]

        def call(self, x: Any) -> Any:
            """From fields to fields."""
            x = self.lift(x)
            for spectral, local in zip(self.spectral, self.local, strict=True):
                x = tf.nn.gelu(tf.transpose(spectral(tf.transpose(x, [0, 3, 1, 2])), [0, 2, 3, 1]) + local(x))
            return self.two(self.one(x))

    def loss(model: Any, x: Any, y: Any) -> Any:
        return tf.reduce_mean(tf.norm(model(x) - y, axis=[1, 2]) / tf.norm(y, axis=[1, 2]))

    return trained(Operator(s), loss, K.optimizers.Adam(1e-3), arrays)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import trained

    class Spectral(nn.Module):
        """Mixes channels per frequency, of the low ones."""

        def __init__(self, c: int, modes: int):
            super().__init__()
            self.modes = modes
            self.by = nn.ParameterList(
                nn.Parameter(torch.rand(c, c, modes, modes, dtype=torch.cfloat) / c**2) for _ in range(2)
            )

        def forward(self, x: Any) -> Any:
            m, found = self.modes, torch.fft.rfft2(x)
            low, high = (
                torch.einsum("bihw,iohw->bohw", part, by)
                for part, by in zip((found[:, :, :m, :m], found[:, :, -m:, :m]), self.by, strict=True)
            )
            out = torch.zeros_like(found)
            out[:, :, :m, :m], out[:, :, -m:, :m] = low, high
            return torch.fft.irfft2(out, s=x.shape[2:])

    class Operator(nn.Module):
        """Four layers in frequencies and in space."""

        def __init__(self, s: Any):
            super().__init__()
            self.lift, self.one, self.two = nn.Conv2d(3, s.c, 1), nn.Conv2d(s.c, 128, 1), nn.Conv2d(128, 1, 1)
            self.spectral = nn.ModuleList(Spectral(s.c, s.modes) for _ in range(4))
            self.local = nn.ModuleList(nn.Conv2d(s.c, s.c, 1) for _ in range(4))

        def forward(self, x: Any) -> Any:
            x = self.lift(x)
            for spectral, local in zip(self.spectral, self.local, strict=True):
                x = F.gelu(spectral(x) + local(x))
            return self.two(F.gelu(self.one(x)))

    x, y = (g.permute(0, 3, 1, 2).contiguous() for g in given)

    def loss(m: Any) -> Any:
        return ((m(x) - y).norm(dim=(2, 3)) / y.norm(dim=(2, 3))).mean()

    return trained(Operator(s), loss, lambda p: torch.optim.Adam(p, 1e-3), short, compiled)
