"""Hyena, 4 layers of 256 with long convolutions by Fourier transforms over 2,048 samples, batch 8, TF32, tf.function."""

from __future__ import annotations

from typing import Any

FULL = {"n": 8, "t": 2048, "d": 256, "layers": 4}
SMALL = {"n": 2, "t": 16, "d": 8, "layers": 2}
POLICY = "float32"


def data(r: Any, s: Any) -> tuple:
    """Sounds and classes."""
    return r.randn(s.n, s.t, s.d).astype("f"), r.randint(0, 10, s.n), r.rand(s.t, 16).astype("f")


def ours(s: Any, arrays: tuple) -> Any:
    """Filters are made by a network from places; gates before and behind each."""
    from benchmarks.gpu.penstock_side import K, L, cross_entropy, tf

    class Block(L.Layer):
        def build(self, shape: Any) -> None:
            self.norm, self.inside, self.outside = L.LayerNormalization(), L.Dense(3 * s.d), L.Dense(s.d)
            self.short = L.DepthwiseConv1D(3, padding="same")
            self.filters = K.Sequential([L.Dense(64, tf.sin), L.Dense(s.d)])

        def call(self, x: Any, places: Any) -> Any:
            a, b, v = tf.split(self.short(self.inside(self.norm(x))), 3, -1)
            h = tf.transpose(self.filters(places) * tf.exp(-3.0 * places[:, :1]))
            z = tf.transpose(b * v, [0, 2, 1])
            y = tf.signal.irfft(tf.signal.rfft(z, [2 * s.t]) * tf.signal.rfft(h, [2 * s.t]), [2 * s.t])[..., : s.t]
            return x + self.outside(a * tf.transpose(y, [0, 2, 1]))

    blocks, head = [Block() for _ in range(s.layers)], L.Dense(10)
    optimizer = K.optimizers.Adam(1e-3)
    x, y, places = map(tf.constant, arrays)

    def scores(x: Any, places: Any) -> Any:
        for block in blocks:
            x = block(x, places)
        return head(tf.reduce_mean(x, 1))

    scores(x, places)

    @tf.function
    def step(x: Any, y: Any, places: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = cross_entropy(y, scores(x, places))
        variables = [v for layer in (*blocks, head) for v in layer.trainable_variables]
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    return lambda: step(x, y, places)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import adam, trained

    x, y, places = given

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.inside, self.outside = nn.LayerNorm(s.d), nn.Linear(s.d, 3 * s.d), nn.Linear(s.d, s.d)
            self.short = nn.Conv1d(3 * s.d, 3 * s.d, 3, padding=1, groups=3 * s.d)
            self.a, self.b = nn.Linear(16, 64), nn.Linear(64, s.d)

        def forward(self, x: Any) -> Any:
            a, b, v = self.short(self.inside(self.norm(x)).transpose(1, 2)).chunk(3, 1)
            h = (self.b(torch.sin(self.a(places))) * torch.exp(-3.0 * places[:, :1])).T
            y = torch.fft.irfft(torch.fft.rfft(b * v, 2 * s.t) * torch.fft.rfft(h, 2 * s.t), 2 * s.t)[..., : s.t]
            return x + self.outside((a * y).transpose(1, 2))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks, self.head = nn.Sequential(*[Block() for _ in range(s.layers)]), nn.Linear(s.d, 10)

        def forward(self) -> Any:
            return F.cross_entropy(self.head(self.blocks(x).mean(1)), y)

    return trained(Model(), lambda m: m(), adam(1e-3), short, compiled)
