"""Convolutions and two bidirectional LSTMs, 32 × 400 frames, TF32, tf.function."""

from __future__ import annotations

from typing import Any

FULL = {"n": 32, "t": 400, "bands": 80, "d": 320}
SMALL = {"n": 2, "t": 8, "bands": 8, "d": 8}
POLICY = "float32"


def data(r: Any, s: Any) -> tuple:
    """Spectrograms and classes of frames."""
    return r.randn(s.n, s.t, s.bands, 1).astype("f"), r.randint(0, 40, [s.n, s.t // 2])


def ours(s: Any, arrays: tuple) -> Any:
    """Convolutions over spectrograms, then LSTMs in both directions."""
    from benchmarks.gpu.penstock_side import K, L, cross_entropy, trained

    i = K.Input([s.t, s.bands, 1], batch_size=s.n)
    x = L.ReLU()(L.BatchNormalization()(L.Conv2D(32, 3, (2, 2), padding="same")(i)))
    x = L.ReLU()(L.BatchNormalization()(L.Conv2D(32, 3, (1, 2), padding="same")(x)))
    x = L.Reshape([s.t // 2, -1])(x)
    for _ in range(2):
        x = L.Bidirectional(L.LSTM(s.d, return_sequences=True))(x)
    return trained(
        K.Model(i, L.Dense(40)(x)), lambda m, x, y: cross_entropy(y, m(x, training=True)), K.optimizers.Adam(1e-3), arrays
    )


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import adam, images, trained

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Conv2d(1, 32, 3, (2, 2), 1), nn.Conv2d(32, 32, 3, (1, 2), 1)
            self.na, self.nb = nn.BatchNorm2d(32), nn.BatchNorm2d(32)
            self.rnn = nn.LSTM(32 * s.bands // 4, s.d, 2, batch_first=True, bidirectional=True)
            self.out = nn.Linear(2 * s.d, 40)

        def forward(self, x: Any) -> Any:
            x = F.relu(self.nb(self.b(F.relu(self.na(self.a(x))))))
            return self.out(self.rnn(x.permute(0, 2, 3, 1).flatten(2))[0])

    x, y = images(given[0]), given[1]
    return trained(Net(), lambda m: F.cross_entropy(m(x).flatten(0, 1), y.flatten()), adam(1e-3), short, compiled)
