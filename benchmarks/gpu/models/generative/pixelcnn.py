"""Gated PixelCNN, 8 masked layers of 64 over 32×32 pixels of 64 levels, batch 64, bf16, tf.function."""

from __future__ import annotations

from typing import Any

import numpy as np

FULL = {"n": 64, "side": 32, "c": 64, "layers": 8, "levels": 64}
SMALL = {"n": 2, "side": 6, "c": 4, "layers": 2, "levels": 8}
POLICY = "mixed_bfloat16"


def data(r: Any, s: Any) -> tuple:
    """Images of integers."""
    return (r.randint(0, s.levels, [s.n, s.side, s.side]),)


def masked(size: int, first: bool) -> Any:
    """Which pixels a filter sees: those above, and those before."""
    mask = np.ones([size, size], np.float32)
    mask[size // 2 + 1 :] = 0
    mask[size // 2, size // 2 + (not first) :] = 0
    return mask


def ours(s: Any, arrays: tuple) -> Any:
    """Every pixel from those before it."""
    from benchmarks.gpu.penstock_side import K, L, cross_entropy, tf

    class Masked(L.Layer):
        def __init__(self, c: int, size: int, first: bool):
            super().__init__()
            self.c, self.size, self.mask = c, size, tf.constant(masked(size, first)[:, :, None, None])

        def build(self, shape: Any) -> None:
            self.w = self.add_weight(name="w", shape=[self.size, self.size, shape[-1], self.c])
            self.b = self.add_weight(name="b", shape=[self.c], initializer="zeros")

        def call(self, x: Any) -> Any:
            w = self.w * tf.cast(self.mask, self.w.dtype)
            return tf.nn.bias_add(tf.nn.conv2d(x, tf.cast(w, x.dtype), 1, "SAME"), tf.cast(self.b, x.dtype))

    class Gated(L.Layer):
        def build(self, shape: Any) -> None:
            self.both, self.out = Masked(2 * s.c, 3, False), L.Conv2D(s.c, 1)

        def call(self, x: Any) -> Any:
            a, b = tf.split(self.both(x), 2, -1)
            return x + self.out(tf.tanh(a) * tf.sigmoid(b))

    layers = [
        L.Embedding(s.levels, s.c),
        Masked(s.c, 7, True),
        *[Gated() for _ in range(s.layers)],
        L.ReLU(),
        L.Conv2D(s.levels, 1),
    ]
    model, optimizer = K.Sequential([K.Input([s.side, s.side]), *layers]), K.optimizers.Adam(1e-3)
    x = tf.constant(arrays[0])
    model(x)

    @tf.function
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = cross_entropy(x, model(x, training=True))
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    return lambda: step(x)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import adam, trained

    class Masked(nn.Conv2d):
        def __init__(self, i: int, c: int, size: int, first: bool):
            super().__init__(i, c, size, padding=size // 2)
            self.register_buffer("mask", torch.from_numpy(masked(size, first)))

        def forward(self, x: Any) -> Any:
            return F.conv2d(x, self.weight * self.mask, self.bias, padding=self.padding)

    class Gated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.both, self.out = Masked(s.c, 2 * s.c, 3, False), nn.Conv2d(s.c, s.c, 1)

        def forward(self, x: Any) -> Any:
            a, b = self.both(x).chunk(2, 1)
            return x + self.out(torch.tanh(a) * torch.sigmoid(b))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(s.levels, s.c)
            layers = [Masked(s.c, s.c, 7, True), *[Gated() for _ in range(s.layers)], nn.ReLU(), nn.Conv2d(s.c, s.levels, 1)]
            self.body = nn.Sequential(*layers)

        def forward(self, x: Any) -> Any:
            return F.cross_entropy(self.body(self.table(x).permute(0, 3, 1, 2)).float(), x)

    x = given[0]
    return trained(Model(), lambda m: m(x), adam(1e-3), short, compiled, last=True)
