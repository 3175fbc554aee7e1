"""Two bidirectional GRUs over masked words, 64 × 128, TF32, Keras fit step."""

from __future__ import annotations

from typing import Any

import numpy as np

FULL = {"n": 64, "t": 128, "d": 256, "words": 20000}
SMALL = {"n": 2, "t": 8, "d": 16, "words": 50}
POLICY = "float32"


def data(r: Any, s: Any) -> tuple:
    """Words, with zeros behind each text, and their classes."""
    ids = r.randint(1, s.words, [s.n, s.t])
    ids[np.arange(s.t) >= r.randint(s.t // 2, s.t + 1, s.n)[:, None]] = 0
    return ids, r.randint(0, 20, [s.n, s.t])


def ours(s: Any, arrays: tuple) -> Any:
    """Keras's masks through both directions."""
    from benchmarks.gpu.penstock_side import K, L, fitted

    model = K.Sequential(
        [
            L.Embedding(s.words, s.d, mask_zero=True),
            L.Bidirectional(L.GRU(s.d, return_sequences=True)),
            L.Bidirectional(L.GRU(s.d, return_sequences=True)),
            L.Dense(20),
        ]
    )
    return fitted(model, K.optimizers.Adam(1e-3), arrays)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import adam, trained

    class Tagger(nn.Module):
        """Packed sequences would copy; the padding is computed, too."""

        def __init__(self, s: Any):
            super().__init__()
            self.words = nn.Embedding(s.words, s.d)
            self.gru, self.out = nn.GRU(s.d, s.d, 2, batch_first=True, bidirectional=True), nn.Linear(2 * s.d, 20)

        def forward(self, ids: Any) -> Any:
            return self.out(self.gru(self.words(ids))[0])

    ids, y = given
    weight = (ids != 0).float().flatten()

    def loss(m: Any) -> Any:
        return (F.cross_entropy(m(ids).flatten(0, 1), y.flatten(), reduction="none") * weight).sum() / weight.sum()

    return trained(Tagger(s), loss, adam(1e-3), short, compiled)
