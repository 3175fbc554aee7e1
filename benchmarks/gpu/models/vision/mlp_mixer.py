"""MLP-Mixer, 8 layers of 512, batch 128 of 224×224, TF32, tf.function."""

from __future__ import annotations

from typing import Any

FULL = {"n": 128, "side": 224, "d": 512, "layers": 8}
SMALL = {"n": 2, "side": 32, "d": 32, "layers": 1}
POLICY = "float32"


def data(r: Any, s: Any) -> tuple:
    """Images and classes."""
    return r.randn(s.n, s.side, s.side, 3).astype("f"), r.randint(0, 100, s.n)


def ours(s: Any, arrays: tuple) -> Any:
    """Products over places and over channels in turns."""
    from benchmarks.gpu.penstock_side import K, L, cross_entropy, trained

    i = K.Input([s.side, s.side, 3])
    x = L.Reshape([-1, s.d])(L.Conv2D(s.d, 16, 16)(i))
    for _ in range(s.layers):
        h = L.Permute([2, 1])(L.LayerNormalization(epsilon=1e-6)(x))
        x = L.Add()([x, L.Permute([2, 1])(L.Dense(x.shape[1])(L.Dense(s.d // 2, "gelu")(h)))])
        x = L.Add()([x, L.Dense(s.d)(L.Dense(4 * s.d, "gelu")(L.LayerNormalization(epsilon=1e-6)(x)))])
    return trained(
        K.Model(i, L.Dense(100)(L.GlobalAveragePooling1D()(x))),
        lambda m, x, y: cross_entropy(y, m(x)),
        K.optimizers.Adam(1e-4),
        arrays,
    )


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import Feed, Patches, adam, images, trained

    class MixerBlock(nn.Module):
        """Products over places, then over channels."""

        def __init__(self, d: int, places: int):
            super().__init__()
            self.norm, self.feed = nn.LayerNorm(d), Feed(d)
            self.up, self.down = nn.Linear(places, d // 2), nn.Linear(d // 2, places)

        def forward(self, x: Any) -> Any:
            return self.feed(x + self.down(F.gelu(self.up(self.norm(x).transpose(1, 2)))).transpose(1, 2))

    x, y = images(given[0]), given[1]
    return trained(
        Patches(s.d, [MixerBlock(s.d, (s.side // 16) ** 2) for _ in range(s.layers)]),
        lambda m: F.cross_entropy(m(x), y),
        adam(1e-4),
        short,
        compiled,
    )
