"""Separable convolutions over time with CTC, 32 × 512 frames, TF32, tf.function."""

from __future__ import annotations

from typing import Any

FULL = {"n": 32, "t": 512, "c": 256, "labels": 40}
SMALL = {"n": 2, "t": 32, "c": 8, "labels": 4}
POLICY = "float32"


def data(r: Any, s: Any) -> tuple:
    """Frames of sound, labels, and how many there are."""
    lengths = r.randint(s.labels // 2, s.labels + 1, s.n)
    return r.randn(s.n, s.t, 64).astype("f"), r.randint(1, 29, [s.n, s.labels]), lengths


def ours(s: Any, arrays: tuple) -> Any:
    """Labels without their times."""
    from benchmarks.gpu.penstock_side import K, L, tf, trained

    model = K.Sequential([L.SeparableConv1D(s.c, 11, 2, "same", use_bias=False), L.BatchNormalization(), L.ReLU()])
    for size in (11, 13, 17, 21):
        for _ in range(2):
            model.add(L.SeparableConv1D(s.c, size, padding="same", use_bias=False))
            model.add(L.BatchNormalization())
            model.add(L.Activation("swish"))
            model.add(L.Dropout(0.1))
    model.add(L.Dense(29))
    frames = tf.fill([s.n], s.t // 2)

    def loss(model: Any, x: Any, y: Any, lengths: Any) -> Any:
        logits = model(x, training=True)
        return tf.reduce_mean(tf.nn.ctc_loss(y, logits, lengths, frames, logits_time_major=False, blank_index=0))

    x, y, lengths = arrays
    return trained(model, loss, K.optimizers.Adam(1e-3), (x, y.astype("i"), lengths.astype("i")), clip=1.0)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """Separable convolutions with CTC."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import adam, trained

    def separable(i: int, size: int, stride: int) -> list:
        deep = nn.Conv1d(i, i, size, stride, size // 2, groups=i, bias=False)
        return [deep, nn.Conv1d(i, s.c, 1, bias=False), nn.BatchNorm1d(s.c)]

    parts = [*separable(64, 11, 2), nn.ReLU()]
    for size in (11, 13, 17, 21):
        for _ in range(2):
            parts += [*separable(s.c, size, 1), nn.SiLU(), nn.Dropout(0.1)]
    model = nn.Sequential(*parts, nn.Conv1d(s.c, 29, 1))
    x, y, lengths = given[0].permute(0, 2, 1).contiguous(), given[1], given[2]
    frames = torch.full([s.n], s.t // 2, device=x.device)

    def loss(m: Any) -> Any:
        return F.ctc_loss(m(x).permute(2, 0, 1).log_softmax(-1), y, frames, lengths, reduction="sum") / s.n

    return trained(model, loss, adam(1e-3), short, compiled, clip=1.0)
