"""EGNN, 8,192 atoms in space, 100,000 pairs, 4 layers of 128, TF32, tf.function."""

from __future__ import annotations

from typing import Any

FULL = {"atoms": 8192, "pairs": 100000, "d": 128, "layers": 4}
SMALL = {"atoms": 20, "pairs": 50, "d": 8, "layers": 2}
POLICY = "float32"


def data(r: Any, s: Any) -> tuple:
    """Features and places of atoms, both ends of pairs, and the next places."""
    ends = [r.randint(0, s.atoms, s.pairs) for _ in range(2)]
    return r.randn(s.atoms, s.d).astype("f"), r.randn(s.atoms, 3).astype("f"), *ends, r.randn(s.atoms, 3).astype("f")


def ours(s: Any, arrays: tuple) -> Any:
    """Where the atoms go."""
    from benchmarks.gpu.penstock_side import K, L, tf, trained

    class Equivariant(L.Layer):
        """Messages over pairs that move the atoms, too."""

        def __init__(self, d: int):
            super().__init__()
            self.message = K.Sequential([L.Dense(d, "swish"), L.Dense(d, "swish")])
            self.pull = K.Sequential([L.Dense(d, "swish"), L.Dense(1, use_bias=False)])
            self.change = K.Sequential([L.Dense(d, "swish"), L.Dense(d)])

        def call(self, h: Any, x: Any, a: Any, b: Any) -> Any:
            """Of features and places, over pairs (a, b)."""
            count = h.shape[0]
            gap = tf.gather(x, a) - tf.gather(x, b)
            far = tf.reduce_sum(tf.square(gap), -1, keepdims=True)
            m = self.message(tf.concat([tf.gather(h, a), tf.gather(h, b), far], -1))
            move = tf.clip_by_value(gap / (tf.sqrt(far + 1e-8) + 1.0) * self.pull(m), -10.0, 10.0)
            x = x + tf.math.unsorted_segment_mean(move, a, count)
            return h + self.change(tf.concat([h, tf.math.unsorted_segment_sum(m, a, count)], -1)), x

    class Network(K.Model):
        """Some layers."""

        def __init__(self) -> None:
            super().__init__()
            self.parts = [Equivariant(s.d) for _ in range(s.layers)]

        def call(self, h: Any, x: Any, a: Any, b: Any) -> Any:
            """The new places."""
            for part in self.parts:
                h, x = part(h, x, a, b)
            return x + 0.0 * tf.reduce_sum(h)

    def loss(m: Any, h: Any, x: Any, a: Any, b: Any, y: Any) -> Any:
        return tf.reduce_mean(tf.square(m(h, x, a, b) - y))

    return trained(Network(), loss, K.optimizers.Adam(1e-3), arrays, clip=10.0)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch
    from torch import nn

    from benchmarks.gpu.torch_side import adam, trained

    class Equivariant(nn.Module):
        """Messages over pairs that move the atoms, too."""

        def __init__(self, d: int):
            super().__init__()
            self.message = nn.Sequential(nn.Linear(2 * d + 1, d), nn.SiLU(), nn.Linear(d, d), nn.SiLU())
            self.pull = nn.Sequential(nn.Linear(d, d), nn.SiLU(), nn.Linear(d, 1, bias=False))
            self.change = nn.Sequential(nn.Linear(2 * d, d), nn.SiLU(), nn.Linear(d, d))

        def forward(self, h: Any, x: Any, a: Any, b: Any, count: Any) -> Any:
            gap = x[a] - x[b]
            far = gap.square().sum(-1, keepdim=True)
            m = self.message(torch.cat([h[a], h[b], far], -1))
            move = (gap / ((far + 1e-8).sqrt() + 1.0) * self.pull(m)).clamp(-10.0, 10.0)
            x = x + torch.zeros_like(x).index_add(0, a, move) / count
            return h + self.change(torch.cat([h, torch.zeros_like(h).index_add(0, a, m)], -1)), x

    class Atoms(nn.Module):
        """Some layers."""

        def __init__(self, s: Any):
            super().__init__()
            self.parts = nn.ModuleList(Equivariant(s.d) for _ in range(s.layers))

        def forward(self, h: Any, x: Any, a: Any, b: Any, count: Any) -> Any:
            for part in self.parts:
                h, x = part(h, x, a, b, count)
            return x + 0.0 * h.sum()

    h, x, a, b, y = given
    count = torch.bincount(a, minlength=s.atoms).clamp(1).float()[:, None]
    return trained(Atoms(s), lambda m: (m(h, x, a, b, count) - y).square().mean(), adam(1e-3), short, compiled, clip=10.0)
