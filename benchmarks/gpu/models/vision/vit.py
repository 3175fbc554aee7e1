"""Vision transformer, 8 layers of 384, batch 64 of 224×224, half precision with scaled loss, Keras fit step."""

from __future__ import annotations

from typing import Any

FULL = {"n": 64, "side": 224, "d": 384, "heads": 6, "layers": 8}
SMALL = {"n": 2, "side": 32, "d": 32, "heads": 2, "layers": 1}
POLICY = "mixed_float16"


def data(r: Any, s: Any) -> tuple:
    """Images and classes."""
    return r.randn(s.n, s.side, s.side, 3).astype("f"), r.randint(0, 100, s.n)


def ours(s: Any, arrays: tuple) -> Any:
    """Keras's own attention and optimizer with a scaled loss, trained by fit's step."""
    from benchmarks.gpu.penstock_side import K, L, fitted

    i = K.Input([s.side, s.side, 3])
    x = L.Reshape([-1, s.d])(L.Conv2D(s.d, 16, 16)(i))
    for _ in range(s.layers):
        h = L.LayerNormalization(epsilon=1e-6)(x)
        x = L.Add()([x, L.MultiHeadAttention(s.heads, s.d // s.heads)(h, h)])
        x = L.Add()([x, L.Dense(s.d)(L.Dense(4 * s.d, "gelu")(L.LayerNormalization(epsilon=1e-6)(x)))])
    model = K.Model(i, L.Dense(100, dtype="float32")(L.GlobalAveragePooling1D()(x)))
    return fitted(model, K.optimizers.Adam(1e-4), arrays)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import Feed, Patches, adam, images, trained

    class Block(nn.Module):
        """A block of a transformer."""

        def __init__(self, d: int, heads: int):
            super().__init__()
            self.heads, self.norm, self.feed = heads, nn.LayerNorm(d), Feed(d)
            self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)

        def forward(self, x: Any) -> Any:
            n, t, d = x.shape
            q, k, v = self.qkv(self.norm(x)).view(n, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
            return self.feed(x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, t, d)))

    x, y = images(given[0]), given[1]
    return trained(
        Patches(s.d, [Block(s.d, s.heads) for _ in range(s.layers)]),
        lambda m: F.cross_entropy(m(x).float(), y),
        adam(1e-4),
        short,
        compiled,
        last=True,
    )
