"""The models of later.py in PyTorch."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from later import S, data
from others_torch import DEVICE, adam, images, measured, trained
from torch import nn

BF16 = ("translate", "resnext", "conformer", "pairs")


def prepared(name: str, compiled: bool) -> tuple[Callable, Callable, None, Callable]:
    """See others.prepared."""
    return measured(STEPS[name], S[name], data(name), name in BF16, compiled)


# -- language ----------------------------------------------------------------------------------------------------------------
class T5Attention(nn.Module):
    """Attention without a scale, with a bias of relative positions and dropout of the probabilities."""

    def __init__(self, d: int, heads: int, causal: bool, t: int):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.q, self.k, self.v, self.o = (nn.Linear(d, d, bias=False) for _ in range(4))
        self.table = nn.Parameter(torch.randn(32, heads) * 0.05)
        places = torch.arange(t)
        self.register_buffer("bucket", (places[None] - places[:, None] + 16).clamp(0, 31))
        self.register_buffer("hidden", torch.full([t, t], -math.inf).triu(1))

    def forward(self, x: Any, memory: Any = None) -> Any:
        other = x if memory is None else memory
        q, k, v = (
            f(y).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f, y in ((self.q, x), (self.k, other), (self.v, other))
        )
        bias = None
        if memory is None:
            bias = self.table[self.bucket].permute(2, 0, 1)[None]
            bias = (bias + self.hidden if self.causal else bias).to(q.dtype)
        y = F.scaled_dot_product_attention(q, k, v, bias, 0.1, scale=1.0)
        return self.o(y.transpose(1, 2).flatten(2))


class T5Block(nn.Module):
    """A layer of the encoder, or of the decoder."""

    def __init__(self, s: Any, decodes: bool):
        super().__init__()
        self.norms = nn.ModuleList(nn.RMSNorm(s.d, 1e-6) for _ in range(3))
        self.own, self.cross = (
            T5Attention(s.d, s.heads, decodes, s.t),
            T5Attention(s.d, s.heads, False, s.t) if decodes else None,
        )
        self.gate, self.up, self.down = (
            nn.Linear(*size, bias=False) for size in ((s.d, 4 * s.d), (s.d, 4 * s.d), (4 * s.d, s.d))
        )

    def forward(self, x: Any, memory: Any = None) -> Any:
        x = x + F.dropout(self.own(self.norms[0](x)), 0.1)
        if self.cross is not None:
            x = x + F.dropout(self.cross(self.norms[1](x), memory), 0.1)
        h = self.norms[2](x)
        return x + F.dropout(self.down(F.gelu(self.gate(h), approximate="tanh") * self.up(h)), 0.1)


class T5(nn.Module):
    """Encoder and decoder that share their table of words."""

    def __init__(self, s: Any):
        super().__init__()
        self.words = nn.Embedding(s.words, s.d)
        nn.init.uniform_(self.words.weight, -0.05, 0.05)
        self.encoder, self.decoder = (nn.ModuleList(T5Block(s, decodes) for _ in range(s.layers)) for decodes in (False, True))
        self.norms = nn.ModuleList([nn.RMSNorm(s.d, 1e-6), nn.RMSNorm(s.d, 1e-6)])

    def forward(self, ids: Any, target: Any) -> Any:
        x, y = self.words(ids), self.words(target)
        for block in self.encoder:
            x = block(x)
        x = self.norms[0](x)
        for block in self.decoder:
            y = block(y, x)
        return self.norms[1](y) @ self.words.weight.T


def translate(s: Any, given: list, short: bool, compiled: bool) -> Callable:
    """T5."""
    ids, target, labels = given
    return trained(
        T5(s), lambda m: F.cross_entropy(m(ids, target).float().flatten(0, 1), labels.flatten()), adam(1e-4), short, compiled
    )


class Tagger(nn.Module):
    """Packed sequences would copy; the padding is computed, too."""

    def __init__(self, s: Any):
        super().__init__()
        self.words = nn.Embedding(s.words, s.d)
        self.gru, self.out = nn.GRU(s.d, s.d, 2, batch_first=True, bidirectional=True), nn.Linear(2 * s.d, 20)

    def forward(self, ids: Any) -> Any:
        return self.out(self.gru(self.words(ids))[0])


def tagger(s: Any, given: list, short: bool, compiled: bool) -> Callable:
    """Words without their masks."""
    ids, y = given
    weight = (ids != 0).float().flatten()

    def loss(m: Any) -> Any:
        return (F.cross_entropy(m(ids).flatten(0, 1), y.flatten(), reduction="none") * weight).sum() / weight.sum()

    return trained(Tagger(s), loss, adam(1e-3), short, compiled)


# -- images, sound, series ---------------------------------------------------------------------------------------------------
class Unit(nn.Module):
    """Grouped convolutions, and channels weighted by their means."""

    def __init__(self, i: int, c: int, stride: int, groups: int):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(i, c, 1, bias=False),
            nn.BatchNorm2d(c),
            nn.ReLU(),
            nn.Conv2d(c, c, 3, stride, 1, groups=groups, bias=False),
            nn.BatchNorm2d(c),
            nn.ReLU(),
            nn.Conv2d(c, 2 * c, 1, bias=False),
            nn.BatchNorm2d(2 * c),
        )
        self.weigh = nn.Sequential(nn.Linear(2 * c, c // 8), nn.ReLU(), nn.Linear(c // 8, 2 * c), nn.Sigmoid())
        self.skip = (
            nn.Identity()
            if i == 2 * c and stride == 1
            else nn.Sequential(nn.Conv2d(i, 2 * c, 1, stride, bias=False), nn.BatchNorm2d(2 * c))
        )

    def forward(self, x: Any) -> Any:
        h = self.net(x)
        return F.relu(self.skip(x) + h * self.weigh(h.mean((2, 3)))[..., None, None])


def resnext(s: Any, given: list, short: bool, compiled: bool) -> Callable:
    """ResNeXt."""
    parts, i = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
    for j, count in enumerate((2, 2, 3, 2)):
        for k in range(count):
            parts.append(Unit(i, s.c << j, 2 if j and not k else 1, s.groups))
            i = 2 * (s.c << j)
    model = nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(i, 100))
    x, y = images(given[0]), given[1]
    return trained(
        model,
        lambda m: F.cross_entropy(m(x).float(), y),
        lambda p: torch.optim.SGD(p, 0.01, momentum=0.9, nesterov=True),
        short,
        compiled,
        last=True,
    )


class Conformer(nn.Module):
    """Half a feed-forward part, attention, a convolution over time, and the other half."""

    def __init__(self, s: Any):
        super().__init__()
        self.feeds = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(s.d), nn.Linear(s.d, 4 * s.d), nn.SiLU(), nn.Dropout(0.1), nn.Linear(4 * s.d, s.d))
            for _ in range(2)
        )
        self.norms, self.heads = nn.ModuleList(nn.LayerNorm(s.d) for _ in range(3)), s.heads
        self.qkv, self.o = nn.Linear(s.d, 3 * s.d), nn.Linear(s.d, s.d)
        self.wide, self.depth = nn.Linear(s.d, 2 * s.d), nn.Conv1d(s.d, s.d, 31, padding=15, groups=s.d)
        self.batch, self.out = nn.BatchNorm1d(s.d), nn.Linear(s.d, s.d)

    def forward(self, x: Any) -> Any:
        x = x + 0.5 * self.feeds[0](x)
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in self.qkv(self.norms[0](x)).chunk(3, -1))
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, dropout_p=0.1).transpose(1, 2).flatten(2))
        h = self.batch(self.depth(F.glu(self.wide(self.norms[1](x)), -1).transpose(1, 2)))
        x = x + self.out(F.silu(h).transpose(1, 2))
        return self.norms[2](x + 0.5 * self.feeds[1](x))


def conformer(s: Any, given: list, short: bool, compiled: bool) -> Callable:
    """Frames of sound to letters."""
    model = nn.Sequential(nn.Linear(80, s.d), *[Conformer(s) for _ in range(s.layers)], nn.Linear(s.d, 40))
    x, y = given
    return trained(
        model, lambda m: F.cross_entropy(m(x).float().flatten(0, 1), y.flatten()), adam(1e-4), short, compiled, clip=1.0
    )


class Causal(nn.Module):
    """A dilated causal convolution, normalized."""

    def __init__(self, c: int, dilation: int):
        super().__init__()
        self.conv, self.norm, self.pad = nn.Conv1d(c, c, 3, dilation=dilation), nn.LayerNorm(c), 2 * dilation

    def forward(self, x: Any) -> Any:
        return F.dropout(self.norm(F.relu(self.conv(F.pad(x.transpose(1, 2), (self.pad, 0)))).transpose(1, 2)), 0.1)


class Series(nn.Module):
    """Residual blocks of causal convolutions."""

    def __init__(self, s: Any):
        super().__init__()
        self.first, self.out = nn.Linear(1, s.c), nn.Linear(s.c, 1)
        self.levels = nn.ModuleList(nn.Sequential(Causal(s.c, 1 << i), Causal(s.c, 1 << i)) for i in range(s.levels))

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        for level in self.levels:
            x = x + level(x)
        return self.out(x)


def series(s: Any, given: list, short: bool, compiled: bool) -> Callable:
    """Lengths in turns."""
    model = Series(s).to(DEVICE)
    opt, run = adam(1e-3)(model.parameters()), torch.compile(model, dynamic=False) if compiled else model
    held = itertools.cycle([given[0][:, : n + 1].contiguous() for n in s.lengths])

    def step() -> Any:
        x = next(held)
        loss = F.mse_loss(run(x[:, :-1]), x[:, 1:])
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        return loss.detach()

    return step


class Channels(nn.Module):
    """Batch norm of the last axis."""

    def __init__(self, c: int):
        super().__init__()
        self.norm = nn.BatchNorm1d(c)

    def forward(self, x: Any) -> Any:
        return self.norm(x.flatten(0, -2)).view(x.shape)


class Largest(nn.Module):
    """The maximum over points."""

    def forward(self, x: Any) -> Any:
        return x.amax(1)


def points(s: Any, given: list, short: bool, compiled: bool) -> Callable:
    """PointNet."""

    def dense(i: int, c: int) -> list:
        return [nn.Linear(i, c, bias=False), Channels(c), nn.ReLU()]

    model = nn.Sequential(
        *dense(3, 64),
        *dense(64, 64),
        *dense(64, 128),
        *dense(128, 1024),
        Largest(),
        *dense(1024, 512),
        nn.Dropout(0.3),
        *dense(512, 256),
        nn.Linear(256, 40),
    )
    x, y = given
    return trained(model, lambda m: F.cross_entropy(m(x), y), adam(1e-3), short, compiled)


# -- tables and graphs -------------------------------------------------------------------------------------------------------
class Crosses(nn.Module):
    """Products of features with themselves."""

    def __init__(self, s: Any):
        super().__init__()
        d = 13 + s.tables * s.d
        self.tables = nn.ModuleList(nn.Embedding(s.rows, s.d) for _ in range(s.tables))
        self.cross = nn.ModuleList(nn.Linear(d, d) for _ in range(3))
        self.deep, self.out = nn.Sequential(nn.Linear(d, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU()), nn.Linear(d + 256, 1)

    def forward(self, numbers: Any, ids: Any) -> Any:
        first = torch.cat([numbers, *[t(ids[:, i]) for i, t in enumerate(self.tables)]], 1)
        x = first
        for layer in self.cross:
            x = first * layer(x) + x
        return self.out(torch.cat([x, self.deep(first)], 1))[:, 0]


def crosses(s: Any, given: list, short: bool, compiled: bool) -> Callable:
    """DCN-v2."""
    numbers, ids, y = given
    return trained(Crosses(s), lambda m: F.binary_cross_entropy_with_logits(m(numbers, ids), y), adam(1e-3), short, compiled)


class GraphAttention(nn.Module):
    """Each node takes the mean of its neighbours, weighted by a softmax over its edges."""

    def __init__(self, i: int, d: int, heads: int):
        super().__init__()
        self.heads, self.dense = heads, nn.Linear(i, d * heads, bias=False)
        self.a, self.b = (nn.Parameter(torch.randn(heads, d) * 0.1) for _ in range(2))

    def forward(self, x: Any, source: Any, target: Any) -> Any:
        h = self.dense(x).unflatten(-1, (self.heads, -1))
        e = F.leaky_relu((h * self.a).sum(-1)[source] + (h * self.b).sum(-1)[target], 0.2)
        at = target[:, None].expand_as(e)
        top = torch.full([len(x), self.heads], -math.inf, device=e.device).scatter_reduce(0, at, e.detach(), "amax")
        e = (e - top[target]).exp()
        total = torch.zeros([len(x), self.heads], device=e.device).index_add(0, target, e)
        p = e / (total[target] + 1e-9)
        return torch.zeros_like(h).index_add(0, target, h[source] * p[..., None]).flatten(1)


class Gat(nn.Module):
    """Two layers of graph attention."""

    def __init__(self, s: Any):
        super().__init__()
        self.one, self.two = GraphAttention(s.d, s.d, s.heads), GraphAttention(s.d * s.heads, s.d, s.heads)
        self.out = nn.Linear(s.d * s.heads, 7)

    def forward(self, x: Any, source: Any, target: Any) -> Any:
        return self.out(F.elu(self.two(F.elu(self.one(x, source, target)), source, target)))


def gat(s: Any, given: list, short: bool, compiled: bool) -> Callable:
    """The classes of nodes."""
    x, source, target, y = given
    return trained(Gat(s), lambda m: F.cross_entropy(m(x, source, target), y), adam(1e-3), short, compiled)


# -- two networks ------------------------------------------------------------------------------------------------------------
class Tower(nn.Module):
    """A transformer, and the mean of what it returns."""

    def __init__(self, s: Any):
        super().__init__()
        self.heads, self.norm = s.heads, nn.LayerNorm(s.d)
        self.parts = nn.ModuleList(
            nn.ModuleList(
                [
                    nn.LayerNorm(s.d),
                    nn.Linear(s.d, 3 * s.d),
                    nn.Linear(s.d, s.d),
                    nn.LayerNorm(s.d),
                    nn.Linear(s.d, 4 * s.d),
                    nn.Linear(4 * s.d, s.d),
                ]
            )
            for _ in range(s.layers)
        )

    def forward(self, x: Any) -> Any:
        for one, qkv, o, two, up, down in self.parts:
            q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in qkv(one(x)).chunk(3, -1))
            x = x + o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
            x = x + down(F.gelu(up(two(x))))
        return F.normalize(self.norm(x).mean(1).float(), dim=-1)


class Clip(nn.Module):
    """Images and texts that belong together are close."""

    def __init__(self, s: Any):
        super().__init__()
        self.patches, self.words, self.see, self.read = (
            nn.Conv2d(3, s.d, 16, 16),
            nn.Embedding(s.words, s.d),
            Tower(s),
            Tower(s),
        )

    def forward(self, x: Any, ids: Any) -> Any:
        return self.see(self.patches(x).flatten(2).transpose(1, 2)) @ self.read(self.words(ids)).T * 14.0


def pairs(s: Any, given: list, short: bool, compiled: bool) -> Callable:
    """The loss of both directions."""
    x, ids = images(given[0]), given[1]
    labels = torch.arange(s.n, device=DEVICE)

    def loss(m: Any) -> Any:
        a = m(x, ids).float()
        return F.cross_entropy(a, labels) + F.cross_entropy(a.T, labels)

    return trained(Clip(s), loss, lambda p: torch.optim.AdamW(p, 1e-4, weight_decay=0.1, fused=True), short, compiled)


def critic(s: Any, given: list, short: bool, compiled: bool) -> Callable:
    """A gradient of the critic is part of its loss."""
    c = s.c
    make = nn.Sequential(
        nn.Linear(s.z, 64 * c),
        nn.ReLU(),
        nn.Unflatten(1, (4 * c, 4, 4)),
        nn.ConvTranspose2d(4 * c, 2 * c, 4, 2, 1),
        nn.ReLU(),
        nn.ConvTranspose2d(2 * c, c, 4, 2, 1),
        nn.ReLU(),
        nn.ConvTranspose2d(c, 3, 4, 2, 1),
        nn.Tanh(),
    )
    judge = nn.Sequential(
        nn.Conv2d(3, c, 4, 2, 1),
        nn.LeakyReLU(0.2),
        nn.Conv2d(c, 2 * c, 4, 2, 1),
        nn.LeakyReLU(0.2),
        nn.Conv2d(2 * c, 4 * c, 4, 2, 1),
        nn.LeakyReLU(0.2),
        nn.Flatten(),
        nn.Linear(64 * c, 1),
    )
    make, judge = make.to(DEVICE), judge.to(DEVICE)
    ours, theirs = (torch.optim.Adam(m.parameters(), 1e-4, (0.5, 0.999), fused=True) for m in (make, judge))
    real, z, mix = images(given[0]).contiguous(), given[1], given[2]

    def first() -> Any:
        made = make(z)
        between = (mix * real + (1 - mix) * made).detach().requires_grad_()
        (gradient,) = torch.autograd.grad(judge(between).sum(), between, create_graph=True)
        size = (gradient.square().sum((1, 2, 3)) + 1e-12).sqrt()
        return judge(made.detach()).mean() - judge(real).mean() + 10 * (size - 1).square().mean()

    def second() -> Any:
        return -judge(make(z)).mean()

    if compiled:
        first, second = torch.compile(first), torch.compile(second)

    def step() -> Any:
        loss = first()
        theirs.zero_grad(set_to_none=True)
        loss.backward()
        theirs.step()
        cost = second()
        ours.zero_grad(set_to_none=True)
        cost.backward()
        ours.step()
        return loss.detach()

    return step


STEPS = {f.__name__: f for f in (translate, resnext, points, tagger, crosses, gat, conformer, pairs, critic, series)}
