"""Mixture of experts with a gate per task, 20 tables of 50,000 × 16, batch 8,192, TF32, Keras fit step."""

from __future__ import annotations

from typing import Any

FULL = {"n": 8192, "tables": 20, "rows": 50000, "d": 16, "experts": 8}
SMALL = {"n": 8, "tables": 3, "rows": 50, "d": 4, "experts": 2}
POLICY = "float32"


def data(r: Any, s: Any) -> tuple:
    """Categories, and labels of three tasks."""
    labels = [r.randint(0, 2, [s.n, 1]).astype("f") for _ in range(3)]
    return (r.randint(0, s.rows, [s.n, s.tables]), *labels)


def ours(s: Any, arrays: tuple) -> Any:
    """Experts that three tasks mix by their own gates."""
    from benchmarks.gpu.penstock_side import K, L, fitted, tf

    i = K.Input([s.tables], dtype="int64")
    rows = [L.Embedding(s.rows, s.d)(i[:, j]) for j in range(s.tables)]
    x = L.Concatenate()(rows)
    experts = [L.Dense(128, "relu")(L.Dense(256, "relu")(x)) for _ in range(s.experts)]
    every = L.Lambda(lambda t: tf.stack(t, 1))(experts)
    outs = []
    for _ in range(3):
        gate = L.Dense(s.experts, "softmax")(x)
        mixed = L.Dot(1)([gate, every])
        outs.append(L.Dense(1)(L.Dense(64, "relu")(mixed)))
    losses = [K.losses.BinaryCrossentropy(from_logits=True) for _ in range(3)]
    ids, *labels = arrays
    return fitted(K.Model(i, outs), K.optimizers.Adagrad(0.01), (ids, tuple(labels)), losses)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """Three losses. Dense gradients: fused Adagrad is faster than sparse rows here."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import trained

    class Tasks(nn.Module):
        """Experts that three tasks mix by their own gates."""

        def __init__(self, s: Any):
            super().__init__()
            wide = s.tables * s.d
            self.tables = nn.ModuleList(nn.Embedding(s.rows, s.d) for _ in range(s.tables))
            self.experts = nn.ModuleList(
                nn.Sequential(nn.Linear(wide, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU()) for _ in range(s.experts)
            )
            self.gates = nn.ModuleList(nn.Linear(wide, s.experts) for _ in range(3))
            self.towers = nn.ModuleList(nn.Sequential(nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 1)) for _ in range(3))

        def forward(self, ids: Any) -> Any:
            x = torch.cat([table(ids[:, j]) for j, table in enumerate(self.tables)], 1)
            every = torch.stack([expert(x) for expert in self.experts], 1)
            return [
                tower((gate(x).softmax(-1)[:, :, None] * every).sum(1))
                for gate, tower in zip(self.gates, self.towers, strict=True)
            ]

    ids, *labels = given

    def loss(m: Any) -> Any:
        return sum(F.binary_cross_entropy_with_logits(o, y) for o, y in zip(m(ids), labels, strict=True))

    return trained(Tasks(s), loss, lambda p: torch.optim.Adagrad(p, 0.01), short, compiled)
