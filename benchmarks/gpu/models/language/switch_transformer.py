"""Mixture of 8 experts, 6 layers of 512, 8 × 512 words, clipping, bf16, tf.function."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

FULL = {"n": 8, "t": 512, "d": 512, "heads": 8, "layers": 6, "experts": 8, "words": 16000}
SMALL = {"n": 2, "t": 16, "d": 32, "heads": 2, "layers": 2, "experts": 4, "words": 50}
POLICY = "mixed_bfloat16"


def data(r: Any, s: Any) -> tuple:
    """Words."""
    return (r.randint(0, s.words, [s.n, s.t + 1]),)


def ours(s: Any, arrays: tuple) -> Any:
    """The next word, and even shares."""
    from benchmarks.gpu.penstock_side import K, L, cross_entropy, tf, trained

    class Experts(L.Layer):
        """Each word goes to one of several feed-forward parts, as long as there is room."""

        def __init__(self, d: int, count: int):
            super().__init__()
            self.d, self.count, self.route = d, count, L.Dense(count, use_bias=False, dtype="float32")

        def build(self, shape: Any) -> None:
            """One pair of matrices per expert."""
            self.up = self.add_weight(name="up", shape=[self.count, self.d, 4 * self.d])
            self.down = self.add_weight(name="down", shape=[self.count, 4 * self.d, self.d])

        def call(self, x: Any) -> Any:
            """The words, and how uneven the shares are."""
            shape = x.shape
            x = tf.reshape(x, [-1, self.d])
            room = x.shape[0] * 5 // (4 * self.count)
            p = tf.nn.softmax(self.route(tf.cast(x, tf.float32)))
            best = tf.argmax(p, -1)
            chosen = tf.one_hot(best, self.count)
            even = self.count * tf.reduce_sum(tf.reduce_mean(chosen, 0) * tf.reduce_mean(p, 0))
            place = tf.cumsum(chosen, 0, exclusive=True) * chosen
            fits = tf.cast(tf.less(place, room), tf.float32) * chosen
            slot = tf.one_hot(tf.cast(tf.reduce_sum(place * fits, -1), tf.int32), room)
            send = fits[..., None] * slot[:, None]
            weight = send * tf.reduce_max(p, -1)[:, None, None]
            h = tf.einsum("tec,td->ecd", tf.cast(send, x.dtype), x)
            h = tf.nn.relu(tf.einsum("ecd,edf->ecf", h, tf.cast(self.up, x.dtype)))
            h = tf.einsum("ecf,efd->ecd", h, tf.cast(self.down, x.dtype))
            return tf.reshape(tf.einsum("tec,ecd->td", tf.cast(weight, x.dtype), h), shape), even

    class Switch(K.Model):
        """A language model of experts."""

        def __init__(self, s: Any):
            super().__init__()
            self.s, self.words, self.places = s, L.Embedding(s.words, s.d), L.Embedding(s.t, s.d)
            self.norms = [[L.LayerNormalization(epsilon=1e-5) for _ in range(2)] for _ in range(s.layers)]
            self.qkv, self.o = ([L.Dense(n * s.d) for _ in range(s.layers)] for n in (3, 1))
            self.experts = [Experts(s.d, s.experts) for _ in range(s.layers)]
            self.last, self.out = L.LayerNormalization(epsilon=1e-5), L.Dense(s.words)

        def call(self, ids: Any) -> Any:
            """Logits, and how uneven the experts' shares are."""
            s, total = self.s, 0.0
            x = self.words(ids) + self.places(tf.range(s.t))
            hidden = tf.constant(np.triu(np.full([s.t, s.t], -1e9, "f"), 1), x.dtype)
            for norms, qkv, o, experts in zip(self.norms, self.qkv, self.o, self.experts, strict=True):
                q, k, v = (tf.reshape(y, [-1, s.t, s.heads, s.d // s.heads]) for y in tf.split(qkv(norms[0](x)), 3, -1))
                a = tf.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(s.d // s.heads) + hidden
                x = x + o(tf.reshape(tf.einsum("bhqk,bkhd->bqhd", tf.nn.softmax(a), v), x.shape))
                h, even = experts(norms[1](x))
                x, total = x + h, total + even
            return self.out(self.last(x)), total

    def loss(model: Any, ids: Any) -> Any:
        logits, total = model(ids[:, :-1])
        return cross_entropy(ids[:, 1:], logits) + 0.01 * total

    return trained(Switch(s), loss, K.optimizers.Adam(1e-4), arrays, clip=1.0)


def theirs(s: Any, given: list, short: bool, compiled: bool) -> Any:
    """The same in PyTorch."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn

    from benchmarks.gpu.torch_side import DEVICE, adam, trained

    class Experts(nn.Module):
        """Each word goes to one of several feed-forward parts, as long as there is room."""

        def __init__(self, d: int, count: int):
            super().__init__()
            self.count, self.route = count, nn.Linear(d, count, bias=False)
            self.up = nn.Parameter(torch.randn(count, d, 4 * d) * 0.02)
            self.down = nn.Parameter(torch.randn(count, 4 * d, d) * 0.02)

        def forward(self, x: Any) -> Any:
            shape, x = x.shape, x.flatten(0, 1)
            room = len(x) * 5 // (4 * self.count)
            with torch.autocast(DEVICE, enabled=False):
                p = self.route(x.float()).softmax(-1)
            chosen = F.one_hot(p.argmax(-1), self.count).float()
            even = self.count * (chosen.mean(0) * p.mean(0)).sum()
            place = (chosen.cumsum(0) - chosen) * chosen
            fits = (place < room).float() * chosen
            slot = F.one_hot((place * fits).sum(-1).long(), room).float()
            send = fits[..., None] * slot[:, None]
            weight = send * p.amax(-1)[:, None, None]
            h = torch.einsum("tec,td->ecd", send, x)
            h = torch.einsum("ecf,efd->ecd", F.relu(torch.einsum("ecd,edf->ecf", h, self.up)), self.down)
            return torch.einsum("tec,ecd->td", weight, h).view(shape), even

    class Switch(nn.Module):
        """A language model of experts."""

        def __init__(self, s: Any):
            super().__init__()
            self.heads, self.words, self.places = (
                s.heads,
                nn.Embedding(s.words, s.d),
                nn.Parameter(torch.randn(s.t, s.d) * 0.02),
            )
            self.norms = nn.ModuleList(nn.LayerNorm(s.d) for _ in range(2 * s.layers))
            self.qkv, self.o = (nn.ModuleList(nn.Linear(s.d, n * s.d) for _ in range(s.layers)) for n in (3, 1))
            self.experts = nn.ModuleList(Experts(s.d, s.experts) for _ in range(s.layers))
            self.last, self.out = nn.LayerNorm(s.d), nn.Linear(s.d, s.words)

        def forward(self, ids: Any) -> Any:
            x, total = self.words(ids) + self.places, 0.0
            for i, (qkv, o, experts) in enumerate(zip(self.qkv, self.o, self.experts, strict=True)):
                q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in qkv(self.norms[2 * i](x)).chunk(3, -1))
                x = x + o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
                h, even = experts(self.norms[2 * i + 1](x))
                x, total = x + h, total + even
            return self.out(self.last(x)), total

    (ids,) = given

    def loss(m: Any) -> Any:
        logits, total = m(ids[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten()) + 0.01 * total

    return trained(Switch(s), loss, adam(1e-4), short, compiled, clip=1.0)
