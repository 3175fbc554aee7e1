"""GRU encoder and decoder with attention, 64 × 60 words, TF32, Keras fit step."""

from __future__ import annotations

from typing import Any

FULL = {"n": 64, "t": 60, "d": 512, "words": 8000}
SMALL = {"n": 2, "t": 6, "d": 16, "words": 50}
POLICY = "float32"


def data(r: Any, s: Any) -> tuple:
    """Words of the source, of the target, and labels."""
    return tuple(r.randint(0, s.words, [s.n, s.t]) for _ in range(3))


def ours(s: Any, arrays: tuple) -> Any:
    """Two recurrent networks with attention between them, trained by Keras."""
    from benchmarks.gpu.penstock_side import K, L, fitted

    source, target = K.Input([s.t], dtype="int64"), K.Input([s.t], dtype="int64")
    h, state = L.GRU(s.d, return_sequences=True, return_state=True)(L.Embedding(s.words, s.d)(source))
    y = L.GRU(s.d, return_sequences=True)(L.Embedding(s.words, s.d)(target), initial_state=state)
    context = L.Attention()([y, h])
    logits = L.Dense(s.words)(L.Dropout(0.1)(L.Dense(s.d, activation="tanh")(L.Concatenate()([y, context]))))
    model = K.Model([source, target], logits)
    return fitted(model, K.optimizers.Adam(), (arrays[:2], arrays[2]))


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import adam, trained

    class Seq2Seq(nn.Module):
        """Two recurrent networks with attention between them."""

        def __init__(self, s: Any):
            super().__init__()
            self.e1, self.e2 = nn.Embedding(s.words, s.d), nn.Embedding(s.words, s.d)
            self.g1, self.g2 = nn.GRU(s.d, s.d, batch_first=True), nn.GRU(s.d, s.d, batch_first=True)
            self.mix, self.drop, self.out = nn.Linear(2 * s.d, s.d), nn.Dropout(0.1), nn.Linear(s.d, s.words)

        def forward(self, source: Any, target: Any, labels: Any) -> Any:
            h, state = self.g1(self.e1(source))
            y, _ = self.g2(self.e2(target), state)
            context = (y @ h.transpose(1, 2)).softmax(-1) @ h
            logits = self.out(self.drop(torch.tanh(self.mix(torch.cat([y, context], -1)))))
            return F.cross_entropy(logits.flatten(0, 1), labels.flatten())

    return trained(Seq2Seq(s), lambda m: m(*given), adam(1e-3), short, compiled)
