"""Convolutions over words, four lengths in turns, TF32, tf.function."""

from __future__ import annotations

from typing import Any

FULL = {"n": 128, "words": 20000, "d": 128, "lengths": (32, 64, 96, 128)}
SMALL = {"n": 2, "words": 50, "d": 8}
POLICY = "float32"


def data(r: Any, s: Any) -> tuple:
    """Words and classes."""
    return r.randint(0, s.words, [s.n, max(s.lengths)]), r.randint(0, 4, s.n)


def ours(s: Any, arrays: tuple) -> Any:
    """Convolutions over words, for batches of four lengths in turns."""
    from benchmarks.gpu.penstock_side import K, L, cross_entropy, tf

    class Net(K.Model):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.out = L.Embedding(s.words, s.d), L.Dense(4)
            self.convs = [L.Conv1D(s.d, k, padding="same", activation="relu") for k in (3, 4, 5)]

        def call(self, ids: Any) -> Any:
            x = self.table(ids)
            return self.out(tf.concat([tf.reduce_max(c(x), 1) for c in self.convs], -1))

    model, opt = Net(), K.optimizers.Adam(1e-3)
    batches, turn = [(tf.constant(arrays[0][:, :t]), tf.constant(arrays[1])) for t in s.lengths], [0]

    @tf.function(reduce_retracing=True)
    def step(ids: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = cross_entropy(y, model(ids))
        opt.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True))
        return loss

    def run() -> Any:
        turn[0] += 1
        return step(*batches[turn[0] % len(batches)])

    return run


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import DEVICE

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.out = nn.Embedding(s.words, s.d), nn.Linear(3 * s.d, 4)
            self.convs = nn.ModuleList([nn.Conv1d(s.d, s.d, k, padding="same") for k in (3, 4, 5)])

        def forward(self, ids: Any) -> Any:
            x = self.table(ids).transpose(1, 2)
            return self.out(torch.cat([F.relu(c(x)).amax(2) for c in self.convs], 1))

    model, turn = Net().to(DEVICE), [0]
    batches, y = [given[0][:, :t].contiguous() for t in s.lengths], given[1]
    opt = torch.optim.Adam(model.parameters(), 1e-3, fused=True)
    loss = torch.compile(lambda ids: F.cross_entropy(model(ids), y)) if compiled else lambda ids: F.cross_entropy(model(ids), y)

    def step() -> Any:
        turn[0] += 1
        value = loss(batches[turn[0] % len(batches)])
        opt.zero_grad(set_to_none=True)
        value.backward()
        opt.step()
        return value.detach()

    return step
