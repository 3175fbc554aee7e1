"""WaveNet, 20 dilated layers, batch 8 of 4,096 samples, bf16, tf.function."""

from __future__ import annotations

from typing import Any

FULL = {"n": 8, "t": 4096, "c": 128, "layers": 20}
SMALL = {"n": 2, "t": 64, "c": 16, "layers": 4}
POLICY = "mixed_bfloat16"


def data(r: Any, s: Any) -> tuple:
    """Samples of sound, quantized."""
    return (r.randint(0, 256, [s.n, s.t + 1]),)


def ours(s: Any, arrays: tuple) -> Any:
    """Samples of sound, quantized."""
    from benchmarks.gpu.penstock_side import K, L, cross_entropy, tf, trained

    class WaveNet(K.Model):
        """Dilated causal convolutions with gates, and skip connections."""

        def __init__(self, s: Any):
            super().__init__()
            self.words, c = L.Embedding(256, s.c), s.c
            self.convs = [L.Conv1D(2 * c, 2, padding="causal", dilation_rate=2 ** (i % 10)) for i in range(s.layers)]
            self.mixes, self.skips = ([L.Conv1D(c, 1) for _ in range(s.layers)] for _ in range(2))
            self.o1, self.o2 = L.Conv1D(c, 1, activation="relu"), L.Conv1D(256, 1)

        def call(self, ids: Any) -> Any:
            """The logits of the next sample."""
            x, total = self.words(ids), 0.0
            for conv, mix, skip in zip(self.convs, self.mixes, self.skips, strict=True):
                a, b = tf.split(conv(x), 2, -1)
                h = tf.tanh(a) * tf.sigmoid(b)
                total, x = total + skip(h), x + mix(h)
            return self.o2(self.o1(tf.nn.relu(total)))

    return trained(WaveNet(s), lambda m, ids: cross_entropy(ids[:, 1:], m(ids[:, :-1])), K.optimizers.Adam(1e-3), arrays)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import adam, trained

    class WaveNet(nn.Module):
        """Dilated causal convolutions with gates, and skip connections."""

        def __init__(self, s: Any):
            super().__init__()
            c, self.words = s.c, nn.Embedding(256, s.c)
            self.convs = nn.ModuleList(nn.Conv1d(c, 2 * c, 2, dilation=2 ** (i % 10)) for i in range(s.layers))
            self.mixes, self.skips = (nn.ModuleList(nn.Conv1d(c, c, 1) for _ in range(s.layers)) for _ in range(2))
            self.o1, self.o2 = nn.Conv1d(c, c, 1), nn.Conv1d(c, 256, 1)

        def forward(self, ids: Any) -> Any:
            x, total = self.words(ids[:, :-1]).transpose(1, 2), 0.0
            for i, (conv, mix, skip) in enumerate(zip(self.convs, self.mixes, self.skips, strict=True)):
                a, b = conv(F.pad(x, [2 ** (i % 10), 0])).chunk(2, 1)
                h = torch.tanh(a) * torch.sigmoid(b)
                total, x = total + skip(h), x + mix(h)
            return F.cross_entropy(self.o2(F.relu(self.o1(F.relu(total)))).float(), ids[:, 1:])

    return trained(WaveNet(s), lambda m: m(given[0]), adam(1e-3), short, compiled)
