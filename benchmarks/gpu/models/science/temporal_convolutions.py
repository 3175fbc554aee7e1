"""Temporal convolutions, 64 series of three lengths in turns, TF32, tf.function."""

from __future__ import annotations

import itertools
from typing import Any

FULL = {"n": 64, "c": 64, "levels": 6, "lengths": (256, 384, 512)}
SMALL = {"n": 2, "c": 8, "levels": 2, "lengths": (8, 16)}
POLICY = "float32"


def data(r: Any, s: Any) -> tuple:
    """Series."""
    return (r.randn(s.n, max(s.lengths) + 1, 1).astype("f"),)


def ours(s: Any, arrays: tuple) -> Any:
    """Dilated causal convolutions with residuals; the length changes from step to step."""
    from benchmarks.gpu.penstock_side import K, L, tf

    i = K.Input([None, 1])
    x = L.Conv1D(s.c, 1)(i)
    for level in range(s.levels):
        h = x
        for _ in range(2):
            h = L.Dropout(0.1)(
                L.LayerNormalization()(L.Conv1D(s.c, 3, padding="causal", dilation_rate=1 << level, activation="relu")(h))
            )
        x = L.Add()([x, h])
    model, opt = K.Model(i, L.Dense(1)(x)), K.optimizers.Adam(1e-3)
    held = itertools.cycle([tf.constant(arrays[0][:, : n + 1]) for n in s.lengths])

    @tf.function
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x[:, :-1], training=True) - x[:, 1:]))
        opt.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True))
        return loss

    return lambda: step(next(held))


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import DEVICE, adam

    class Causal(nn.Module):
        """A dilated causal convolution, normalized."""

        def __init__(self, c: int, dilation: int):
            super().__init__()
            self.conv, self.norm, self.pad = nn.Conv1d(c, c, 3, dilation=dilation), nn.LayerNorm(c), 2 * dilation

        def forward(self, x: Any) -> Any:
            return F.dropout(self.norm(F.relu(self.conv(F.pad(x.transpose(1, 2), (self.pad, 0)))).transpose(1, 2)), 0.1)

    class Series(nn.Module):
        """Residual blocks of causal convolutions."""

        def __init__(self, s: Any):
            super().__init__()
            self.first, self.out = nn.Linear(1, s.c), nn.Linear(s.c, 1)
            self.levels = nn.ModuleList(nn.Sequential(Causal(s.c, 1 << i), Causal(s.c, 1 << i)) for i in range(s.levels))

        def forward(self, x: Any) -> Any:
            x = self.first(x)
            for level in self.levels:
                x = x + level(x)
            return self.out(x)

    model = Series(s).to(DEVICE)
    opt, run = adam(1e-3)(model.parameters()), torch.compile(model, dynamic=False) if compiled else model
    held = itertools.cycle([given[0][:, : n + 1].contiguous() for n in s.lengths])

    def step() -> Any:
        x = next(held)
        loss = F.mse_loss(run(x[:, :-1]), x[:, 1:])
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        return loss.detach()

    return step
