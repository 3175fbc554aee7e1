"""N-BEATS, 12 blocks of 4 layers of 512, batch 1,024, TF32, Keras fit step."""

from __future__ import annotations

from typing import Any

FULL = {"n": 1024, "back": 120, "ahead": 24, "d": 512, "blocks": 12}
SMALL = {"n": 4, "d": 8, "blocks": 2}
POLICY = "float32"


def data(r: Any, s: Any) -> tuple:
    """The past and the future of series."""
    return r.randn(s.n, s.back).astype("f"), r.randn(s.n, s.ahead).astype("f")


def ours(s: Any, arrays: tuple) -> Any:
    """Each block explains a part of the past, and adds what follows from it."""
    from benchmarks.gpu.penstock_side import K, L, fitted

    left = i = K.Input([s.back])
    total = None
    for _ in range(s.blocks):
        h = left
        for _ in range(4):
            h = L.Dense(s.d, "relu")(h)
        left = L.Subtract()([left, L.Dense(s.back)(h)])
        part = L.Dense(s.ahead)(h)
        total = part if total is None else L.Add()([total, part])
    return fitted(K.Model(i, total), K.optimizers.Adam(1e-3), arrays, K.losses.Huber())


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import adam, trained

    class Forecast(nn.Module):
        """Each block explains a part of the past."""

        def __init__(self, s: Any):
            super().__init__()
            self.blocks = nn.ModuleList()
            for _ in range(s.blocks):
                parts: list = []
                for j in range(4):
                    parts += [nn.Linear(s.d if j else s.back, s.d), nn.ReLU()]
                self.blocks.append(nn.ModuleList([nn.Sequential(*parts), nn.Linear(s.d, s.back), nn.Linear(s.d, s.ahead)]))

        def forward(self, left: Any) -> Any:
            total = 0.0
            for body, back, ahead in self.blocks:
                h = body(left)
                left, total = left - back(h), total + ahead(h)
            return total

    x, y = given
    return trained(Forecast(s), lambda m: F.huber_loss(m(x), y), adam(1e-3), short, compiled)
