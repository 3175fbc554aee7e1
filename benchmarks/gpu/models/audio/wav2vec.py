"""wav2vec, seven convolutions over 16,000 samples and 6 layers of 384, batch 16, bf16, tf.function."""

from __future__ import annotations

from typing import Any

FULL = {"n": 16, "t": 16000, "c": 256, "d": 384, "heads": 6, "layers": 6}
SMALL = {"n": 2, "t": 800, "c": 8, "d": 16, "heads": 2, "layers": 1}
POLICY = "mixed_bfloat16"


def data(r: Any, s: Any) -> tuple:
    """Samples of sound and classes."""
    return r.randn(s.n, s.t).astype("f"), r.randint(0, 64, s.n)


def ours(s: Any, arrays: tuple) -> Any:
    """Samples to frames by convolutions, places by a grouped convolution, and a transformer."""
    from benchmarks.gpu.penstock_side import K, L, cross_entropy, trained

    x = i = K.Input([s.t])
    x = L.Reshape([s.t, 1])(x)
    for j, (k, stride) in enumerate(((10, 5), (3, 2), (3, 2), (3, 2), (3, 2), (2, 2), (2, 2))):
        x = L.Conv1D(s.c, k, stride, use_bias=False)(x)
        if not j:
            x = L.GroupNormalization(s.c)(x)
        x = L.Activation("gelu")(x)
    x = L.Dense(s.d)(L.LayerNormalization()(x))
    x = L.Add()([x, L.Conv1D(s.d, 31, padding="same", groups=4, activation="gelu")(x)])
    for _ in range(s.layers):
        h = L.LayerNormalization()(x)
        x = L.Add()([x, L.MultiHeadAttention(s.heads, s.d // s.heads, dropout=0.1)(h, h)])
        h = L.Dense(s.d)(L.Dense(4 * s.d, "gelu")(L.LayerNormalization()(x)))
        x = L.Add()([x, L.Dropout(0.1)(h)])
    model = K.Model(i, L.Dense(64)(L.GlobalAveragePooling1D()(x)))
    optimizer = K.optimizers.AdamW(1e-4, weight_decay=0.01)
    return trained(model, lambda m, x, y: cross_entropy(y, m(x, training=True)), optimizer, arrays)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import trained

    class Layer(nn.Module):
        """A layer of a transformer with its norms before."""

        def __init__(self, s: Any):
            super().__init__()
            self.norms = nn.ModuleList(nn.LayerNorm(s.d, 1e-3) for _ in range(2))
            self.qkv, self.out, self.heads = nn.Linear(s.d, 3 * s.d), nn.Linear(s.d, s.d), s.heads
            self.feed = nn.Sequential(nn.Linear(s.d, 4 * s.d), nn.GELU(), nn.Linear(4 * s.d, s.d), nn.Dropout(0.1))

        def forward(self, x: Any) -> Any:
            n, t, d = x.shape
            q, k, v = self.qkv(self.norms[0](x)).view(n, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
            x = x + self.out(F.scaled_dot_product_attention(q, k, v, dropout_p=0.1).transpose(1, 2).reshape(n, t, d))
            return x + self.feed(self.norms[1](x))

    class Speech(nn.Module):
        """Samples to frames, and a transformer."""

        def __init__(self, s: Any):
            super().__init__()
            parts: list = []
            for j, (k, stride) in enumerate(((10, 5), (3, 2), (3, 2), (3, 2), (3, 2), (2, 2), (2, 2))):
                parts.append(nn.Conv1d(s.c if j else 1, s.c, k, stride, bias=False))
                parts += [nn.GELU()] if j else [nn.GroupNorm(s.c, s.c), nn.GELU()]
            self.frames, self.norm, self.enter = nn.Sequential(*parts), nn.LayerNorm(s.c, 1e-3), nn.Linear(s.c, s.d)
            self.places, self.out = nn.Conv1d(s.d, s.d, 31, padding=15, groups=4), nn.Linear(s.d, 64)
            self.layers = nn.Sequential(*[Layer(s) for _ in range(s.layers)])

        def forward(self, x: Any) -> Any:
            x = self.enter(self.norm(self.frames(x[:, None]).transpose(1, 2)))
            x = x + F.gelu(self.places(x.transpose(1, 2))).transpose(1, 2)
            return self.out(self.layers(x).mean(1))

    x, y = given

    def optimizer(p: Any) -> Any:
        return torch.optim.AdamW(p, 1e-4, weight_decay=0.01, fused=True)

    return trained(Speech(s), lambda m: F.cross_entropy(m(x).float(), y), optimizer, short, compiled)
