"""Swin, shifted-window transformer, batch 64 of 112×112, bias of places, bf16, tf.function."""

from __future__ import annotations

from typing import Any

FULL = {"n": 64, "side": 112, "d": 96, "window": 7}
SMALL = {"n": 2, "side": 56, "d": 32}
POLICY = "mixed_bfloat16"


def data(r: Any, s: Any) -> tuple:
    """Images and classes."""
    return r.randn(s.n, s.side, s.side, 3).astype("f"), r.randint(0, 100, s.n)


def ours(s: Any, arrays: tuple) -> Any:
    """Shifted windows."""
    from benchmarks.gpu.penstock_side import K, L, cross_entropy, tf, trained

    class WindowAttention(L.Layer):
        """Attention within windows, with a learned bias for each pair of places."""

        def __init__(self, d: int, heads: int, window: int):
            super().__init__()
            self.d, self.heads, self.n = d, heads, window * window
            self.qkv, self.out = L.Dense(3 * d), L.Dense(d)

        def build(self, shape: Any) -> None:
            """The bias."""
            self.bias = self.add_weight(name="bias", shape=[self.heads, self.n, self.n], initializer="zeros")

        def call(self, x: Any) -> Any:
            """Of [windows, places, channels]."""
            shape = [-1, self.n, 3, self.heads, self.d // self.heads]
            q, k, v = tf.unstack(tf.transpose(tf.reshape(self.qkv(x), shape), [2, 0, 3, 1, 4]))
            scores = tf.einsum("bhqd,bhkd->bhqk", q * (self.d // self.heads) ** -0.5, k) + tf.cast(self.bias, q.dtype)
            y = tf.einsum("bhqk,bhkd->bqhd", tf.nn.softmax(scores), v)
            return self.out(tf.reshape(y, [-1, self.n, self.d]))

    i = K.Input([s.side, s.side, 3], batch_size=s.n)
    x, side, d, w = L.Conv2D(s.d, 4, 4)(i), s.side // 4, s.d, s.window
    for stage in range(2):
        for block in range(2):
            h = L.LayerNormalization(epsilon=1e-5)(x)
            if block:
                h = tf.roll(h, [-(w // 2), -(w // 2)], [1, 2])
            h = tf.reshape(h, [s.n, side // w, w, side // w, w, d])
            h = tf.reshape(tf.transpose(h, [0, 1, 3, 2, 4, 5]), [-1, w * w, d])
            h = tf.reshape(WindowAttention(d, d // 32, w)(h), [s.n, side // w, side // w, w, w, d])
            h = tf.reshape(tf.transpose(h, [0, 1, 3, 2, 4, 5]), [s.n, side, side, d])
            if block:
                h = tf.roll(h, [w // 2, w // 2], [1, 2])
            x = x + h
            x = x + L.Dense(d)(L.Dense(4 * d, "gelu")(L.LayerNormalization(epsilon=1e-5)(x)))
        if stage == 0:
            x, side, d = L.Conv2D(2 * d, 2, 2)(x), side // 2, 2 * d
    model = K.Model(i, L.Dense(100)(L.GlobalAveragePooling2D()(x)))
    return trained(model, lambda m, x, y: cross_entropy(y, m(x, training=True)), K.optimizers.Adam(1e-4), arrays)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import Feed, adam, images, trained

    class Window(nn.Module):
        """Attention within windows with a bias."""

        def __init__(self, d: int, w: int, shift: bool):
            super().__init__()
            self.heads, self.w, self.shift, self.norm = d // 32, w, shift, nn.LayerNorm(d)
            self.qkv, self.out, self.feed = nn.Linear(d, 3 * d), nn.Linear(d, d), Feed(d)
            self.bias = nn.Parameter(torch.zeros(self.heads, w * w, w * w))

        def forward(self, x: Any) -> Any:
            n, side, _, d = x.shape
            w, h = self.w, self.norm(x)
            if self.shift:
                h = h.roll((-(w // 2), -(w // 2)), (1, 2))
            h = h.view(n, side // w, w, side // w, w, d).permute(0, 1, 3, 2, 4, 5).reshape(-1, w * w, d)
            q, k, v = self.qkv(h).view(-1, w * w, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
            y = (
                F.scaled_dot_product_attention(q, k, v, attn_mask=self.bias.to(q.dtype)[None])
                .transpose(1, 2)
                .reshape(-1, w * w, d)
            )
            y = self.out(y).view(n, side // w, side // w, w, w, d).permute(0, 1, 3, 2, 4, 5).reshape(n, side, side, d)
            if self.shift:
                y = y.roll((w // 2, w // 2), (1, 2))
            return self.feed(x + y)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.down = nn.Conv2d(3, s.d, 4, 4), nn.Conv2d(s.d, 2 * s.d, 2, 2)
            self.a = nn.Sequential(Window(s.d, s.window, False), Window(s.d, s.window, True))
            self.b = nn.Sequential(Window(2 * s.d, s.window, False), Window(2 * s.d, s.window, True))
            self.out = nn.Linear(2 * s.d, 100)

        def forward(self, x: Any) -> Any:
            x = self.a(self.stem(x).permute(0, 2, 3, 1))
            return self.out(self.b(self.down(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)).mean((1, 2)))

    x, y = images(given[0]), given[1]
    return trained(Net(), lambda m: F.cross_entropy(m(x).float(), y), adam(1e-4), short, compiled, last=True)
