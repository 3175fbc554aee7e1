"""The models of strangers.py in PyTorch."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from others_torch import DEVICE, adam, images, measured, trained
from strangers import S, data
from torch import nn

BF16 = ("albert", "dit", "sets")


def prepared(name: str, compiled: bool) -> tuple[Callable, Callable, None, Callable]:
    """See others.prepared."""
    return measured(STEPS[name], S[name], data(name), name in BF16, compiled)


# -- images ------------------------------------------------------------------------------------------------------------------
def conv(i: int, c: int, k: int, stride: int = 1, groups: int = 1, act: bool = True) -> list:
    """A convolution, its norm, and perhaps a ReLU."""
    parts = [nn.Conv2d(i, c, k, stride, k // 2, groups=groups, bias=False), nn.BatchNorm2d(c)]
    return [*parts, nn.ReLU(True)] if act else parts


class ShuffleUnit(nn.Module):
    """Halves of the channels, mixed."""

    def __init__(self, i: int, c: int, first: bool):
        super().__init__()
        half, self.first = c // 2, first
        own = i if first else half
        self.b = nn.Sequential(
            *conv(own, half, 1), *conv(half, half, 3, 2 if first else 1, half, False), *conv(half, half, 1)
        )
        self.a = nn.Sequential(*conv(i, i, 3, 2, i, False), *conv(i, half, 1)) if first else nn.Identity()

    def forward(self, x: Any) -> Any:
        a, b = (x, x) if self.first else x.chunk(2, 1)
        x = torch.cat([self.a(a), self.b(b)], 1)
        n, c, h, w = x.shape
        return x.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)


def shuffle(s: Any, given: list, short: bool, compiled: bool) -> Callable:
    """Half precision with a scaled loss."""
    x, y = images(given[0]), given[1]
    parts, i = conv(3, 24, 3, 2), 24
    for j, count in enumerate((4, 8, 4)):
        for k in range(count):
            parts.append(ShuffleUnit(i, s.c << j, not k))
            i = s.c << j
    model = nn.Sequential(*parts, *conv(i, 1024, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1024, 100))
    model = model.to(DEVICE).to(memory_format=torch.channels_last)
    opt, scaler = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9), torch.amp.GradScaler(DEVICE)
    run = torch.compile(model) if compiled else model

    def step() -> Any:
        with torch.autocast(DEVICE, torch.float16, enabled=DEVICE == "cuda"):
            loss = F.cross_entropy(run(x).float(), y)
        opt.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        return loss.detach()

    return step


class Edsr(nn.Module):
    """Residual blocks without norms, and pixels out of channels."""

    def __init__(self, s: Any):
        super().__init__()
        self.first, self.last = nn.Conv2d(3, s.c, 3, 1, 1), nn.Conv2d(s.c, s.c, 3, 1, 1)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Conv2d(s.c, s.c, 3, 1, 1), nn.ReLU(True), nn.Conv2d(s.c, s.c, 3, 1, 1)) for _ in range(s.blocks)
        )
        self.up = nn.Sequential(nn.Conv2d(s.c, 4 * s.c, 3, 1, 1), nn.PixelShuffle(2), nn.Conv2d(s.c, 3, 3, 1, 1))

    def forward(self, x: Any) -> Any:
        x = first = self.first(x)
        for block in self.blocks:
            x = x + 0.1 * block(x)
        return self.up(first + self.last(x))


def sharpen(s: Any, given: list, short: bool, compiled: bool) -> Callable:
    """EDSR."""
    x, y = map(images, given)
    return trained(Edsr(s), lambda m: (m(x) - y).abs().mean(), adam(1e-4), short, compiled, last=True)


class GlowStep(nn.Module):
    """One step of the flow."""

    def __init__(self, s: Any, c: int):
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.zeros(c, 1, 1)), nn.Parameter(torch.zeros(c, 1, 1))
        start = np.linalg.qr(np.random.RandomState(c).randn(c, c))[0].astype("f")
        self.mix = nn.Parameter(torch.from_numpy(start))
        self.net = nn.Sequential(
            nn.Conv2d(c // 2, s.wide, 3, 1, 1),
            nn.ReLU(True),
            nn.Conv2d(s.wide, s.wide, 1),
            nn.ReLU(True),
            nn.Conv2d(s.wide, c, 3, 1, 1),
        )
        nn.init.zeros_(self.net[-1].weight)

    def forward(self, x: Any) -> Any:
        x = F.conv2d((x + self.shift) * self.scale.exp(), self.mix.T[:, :, None, None])
        gain = x.shape[2] * x.shape[3] * (self.scale.sum() + torch.linalg.slogdet(self.mix)[1])
        a, b = x.chunk(2, 1)
        log, shift = self.net(a).chunk(2, 1)
        log = F.logsigmoid(log + 2.0)
        return torch.cat([a, (b + shift) * log.exp()], 1), gain + log.sum((1, 2, 3))


class Glow(nn.Module):
    """Two levels."""

    def __init__(self, s: Any):
        super().__init__()
        self.levels = nn.ModuleList(nn.ModuleList(GlowStep(s, c) for _ in range(s.steps)) for c in (12, 24))

    def forward(self, x: Any) -> Any:
        size, total, prior = x[0].numel(), 0.0, 0.0
        for level in self.levels:
            x = F.pixel_unshuffle(x, 2)
            for step in level:
                x, gain = step(x)
                total = total + gain
            x, out = x.chunk(2, 1)
            prior = prior - 0.5 * (out.square() + math.log(2 * math.pi)).sum((1, 2, 3))
        prior = prior - 0.5 * (x.square() + math.log(2 * math.pi)).sum((1, 2, 3))
        return -(total + prior).mean() / (size * math.log(2.0))


def glow(s: Any, given: list, short: bool, compiled: bool) -> Callable:
    """A flow of images."""
    x = images(given[0]).contiguous()
    return trained(Glow(s), lambda m: m(x), adam(1e-4), short, compiled)


# -- language ----------------------------------------------------------------------------------------------------------------
class Shared(nn.Module):
    """A layer of a transformer with its norms behind."""

    def __init__(self, s: Any):
        super().__init__()
        self.heads, self.qkv, self.out = s.heads, nn.Linear(s.d, 3 * s.d), nn.Linear(s.d, s.d)
        self.up, self.down = nn.Linear(s.d, 4 * s.d), nn.Linear(4 * s.d, s.d)
        self.norms = nn.ModuleList(nn.LayerNorm(s.d, 1e-12) for _ in range(2))

    def forward(self, x: Any, hidden: Any) -> Any:
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, hidden.to(q.dtype), dropout_p=0.1).transpose(1, 2).flatten(2)
        x = self.norms[0](x + F.dropout(self.out(y), 0.1))
        return self.norms[1](x + F.dropout(self.down(F.gelu(self.up(x), approximate="tanh")), 0.1))


class Albert(nn.Module):
    """Small vectors of words, and one layer that is used again and again."""

    def __init__(self, s: Any):
        super().__init__()
        self.s, self.layer, self.widen, self.narrow = s, Shared(s), nn.Linear(s.small, s.d), nn.Linear(s.d, s.small)
        self.words, self.places = nn.Embedding(s.words, s.small), nn.Parameter(torch.randn(s.t, s.small) * 0.02)
        self.norms = nn.ModuleList(nn.LayerNorm(s.small, 1e-12) for _ in range(2))
        nn.init.normal_(self.words.weight, std=0.02)

    def forward(self, ids: Any, seen: Any, where: Any) -> Any:
        x, hidden = self.widen(self.norms[0](self.words(ids) + self.places)), (1.0 - seen[:, None, None, :]) * -1e4
        hidden = hidden.expand(-1, self.s.heads, self.s.t, -1)
        for _ in range(self.s.layers):
            x = self.layer(x, hidden)
        x = x.gather(1, where[:, :, None].expand(-1, -1, x.shape[-1]))
        return self.norms[1](F.gelu(self.narrow(x))) @ self.words.weight.T


def albert(s: Any, given: list, short: bool, compiled: bool) -> Callable:
    """Masked words."""
    ids, seen, where, y = given
    return trained(
        Albert(s),
        lambda m: F.cross_entropy(m(ids, seen, where).float().flatten(0, 1), y.flatten()),
        lambda p: torch.optim.AdamW(p, 1e-4, weight_decay=0.01, fused=True),
        short,
        compiled,
        clip=1.0,
    )


class Level(nn.Module):
    """A recurrence in both directions, and attention over it."""

    def __init__(self, i: int, d: int):
        super().__init__()
        self.gru, self.key = nn.GRU(i, d, batch_first=True, bidirectional=True), nn.Linear(2 * d, d)
        self.context = nn.Parameter(torch.randn(d) * 0.1)

    def forward(self, x: Any, seen: Any) -> Any:
        h = self.gru(x)[0]
        scores = (torch.tanh(self.key(h)) * self.context).sum(-1)
        if seen is not None:
            scores = scores + (seen + 1e-9).log()
        return (h * scores.softmax(-1)[:, :, None]).sum(1)


class Hierarchy(nn.Module):
    """Words to lines and lines to documents."""

    def __init__(self, s: Any):
        super().__init__()
        self.s, self.words, self.out = s, nn.Embedding(s.words, s.d), nn.Linear(2 * s.d, 5)
        self.lines, self.document = Level(s.d, s.d), Level(2 * s.d, s.d)

    def forward(self, ids: Any, seen: Any) -> Any:
        lines = self.lines(self.words(ids), seen).view(self.s.n, self.s.lines, -1)
        return self.out(self.document(lines, None))


def hierarchy(s: Any, given: list, short: bool, compiled: bool) -> Callable:
    """Packed sequences would copy; the padding is computed, too."""
    ids, lengths, y = given
    seen = (torch.arange(s.t, device=ids.device) < lengths[:, None]).float()
    return trained(
        Hierarchy(s), lambda m: F.cross_entropy(m(ids, seen), y), lambda p: torch.optim.RMSprop(p, 1e-3), short, compiled
    )


# -- tables, atoms, sound, sets ----------------------------------------------------------------------------------------------
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


def tasks(s: Any, given: list, short: bool, compiled: bool) -> Callable:
    """Three losses. Dense gradients: fused Adagrad is faster than sparse rows here."""
    ids, *labels = given

    def loss(m: Any) -> Any:
        return sum(F.binary_cross_entropy_with_logits(o, y) for o, y in zip(m(ids), labels, strict=True))

    return trained(Tasks(s), loss, lambda p: torch.optim.Adagrad(p, 0.01), short, compiled)


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


def equivariant(s: Any, given: list, short: bool, compiled: bool) -> Callable:
    """Where the atoms go."""
    h, x, a, b, y = given
    count = torch.bincount(a, minlength=s.atoms).clamp(1).float()[:, None]
    return trained(Atoms(s), lambda m: (m(h, x, a, b, count) - y).square().mean(), adam(1e-3), short, compiled, clip=10.0)


class Broadcast(nn.Module):
    """A two-dimensional part, and a one-dimensional one that is added to every frequency."""

    def __init__(self, i: int, c: int, stride: int):
        super().__init__()
        self.wide = nn.Sequential(nn.Conv2d(i, c, 1, bias=False), nn.AvgPool2d((1, stride))) if stride > 1 else nn.Identity()
        self.deep, self.norm = nn.Conv2d(c, c, (1, 3), 1, (0, 1), groups=c, bias=False), nn.BatchNorm2d(c)
        self.along, self.mix = nn.Conv2d(c, c, (3, 1), 1, (1, 0), groups=c, bias=False), nn.Conv2d(c, c, 1, bias=False)
        self.second = nn.BatchNorm2d(c)

    def forward(self, x: Any) -> Any:
        x = self.wide(x)
        h = self.norm(self.deep(x))
        mean = F.silu(self.second(self.along(h.mean(3, keepdim=True))))
        return F.relu(x + h + F.dropout(self.mix(mean), 0.1))


class Keywords(nn.Module):
    """Everything, from samples to words."""

    def __init__(self, s: Any):
        super().__init__()
        self.register_buffer("mel", torch.rand(257, 40))
        self.register_buffer("window", torch.hann_window(400))
        self.first, self.out = nn.Conv2d(1, s.c, 5, (2, 1), 2), nn.Linear(4 * s.c, 12)
        shapes = ((1, 1, 1), (1, 1, 1), (1, 2, 2), (2, 2, 1), (2, 4, 2), (4, 4, 1))
        self.parts = nn.Sequential(*[Broadcast(s.c * i, s.c * c, stride) for i, c, stride in shapes])

    def forward(self, x: Any) -> Any:
        frames = x.unfold(1, 400, 160) * self.window
        power = torch.fft.rfft(frames, 512).abs().square()
        return self.out(self.parts(self.first((power @ self.mel + 1e-6).log()[:, None])).mean((2, 3)))


def keywords(s: Any, given: list, short: bool, compiled: bool) -> Callable:
    """Sound to words."""
    x, y = given
    return trained(Keywords(s), lambda m: F.cross_entropy(m(x), y), adam(1e-3), short, compiled, last=True)


class DitBlock(nn.Module):
    """Attention and a feed-forward part, both adapted."""

    def __init__(self, s: Any):
        super().__init__()
        self.heads, self.d = s.heads, s.d
        self.adapt, self.qkv, self.out = nn.Linear(s.d, 6 * s.d), nn.Linear(s.d, 3 * s.d), nn.Linear(s.d, s.d)
        self.up, self.down = nn.Linear(s.d, 4 * s.d), nn.Linear(4 * s.d, s.d)
        nn.init.zeros_(self.adapt.weight)
        nn.init.zeros_(self.adapt.bias)

    def forward(self, x: Any, c: Any) -> Any:
        a, b, g, d, e, f = self.adapt(F.silu(c))[:, None].chunk(6, -1)
        h = F.layer_norm(x, [self.d], eps=1e-6) * (1 + b) + a
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(h).chunk(3, -1))
        x = x + g * self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        h = F.layer_norm(x, [self.d], eps=1e-6) * (1 + e) + d
        return x + f * self.down(F.gelu(self.up(h), approximate="tanh"))


class Dit(nn.Module):
    """All of it."""

    def __init__(self, s: Any):
        super().__init__()
        self.enter, self.classes, self.out = nn.Linear(16, s.d), nn.Embedding(1000, s.d), nn.Linear(s.d, 16)
        self.time = nn.Sequential(nn.Linear(256, s.d), nn.SiLU(), nn.Linear(s.d, s.d))
        self.blocks = nn.ModuleList(DitBlock(s) for _ in range(s.layers))
        self.places = nn.Parameter(torch.randn(s.t, s.d) * 0.02)

    def forward(self, x: Any, t: Any, label: Any) -> Any:
        waves = t[:, None] * 1000.0 * torch.linspace(0.0, -9.2, 128, device=t.device).exp()
        c = self.time(torch.cat([waves.sin(), waves.cos()], -1)) + self.classes(label)
        x = self.enter(x) + self.places
        for block in self.blocks:
            x = block(x, c)
        return self.out(x)


def dit(s: Any, given: list, short: bool, compiled: bool) -> Callable:
    """Slow copies follow the weights."""
    x, noise, t, label = given
    part, model = t[:, None, None], Dit(s).to(DEVICE)
    opt = torch.optim.AdamW(model.parameters(), 1e-4, weight_decay=0.0, fused=True)
    slow = [p.detach().clone() for p in model.parameters()]

    def loss() -> Any:
        return (model((1.0 - part) * x + part * noise, t, label).float() - (noise - x)).square().mean()

    run = torch.compile(loss) if compiled else loss

    def step() -> Any:
        with torch.autocast(DEVICE, torch.bfloat16):
            value = run()
        opt.zero_grad(set_to_none=True)
        value.backward()
        opt.step()
        with torch.no_grad():
            torch._foreach_lerp_(slow, list(model.parameters()), 0.001)
        return value.detach()

    return step


class Attends(nn.Module):
    """Attention with residual and feed-forward part."""

    def __init__(self, s: Any):
        super().__init__()
        self.heads, self.q, self.kv, self.out = s.heads, nn.Linear(s.d, s.d), nn.Linear(s.d, 2 * s.d), nn.Linear(s.d, s.d)
        self.feed, self.norms = nn.Linear(s.d, s.d), nn.ModuleList(nn.LayerNorm(s.d) for _ in range(2))

    def forward(self, x: Any, y: Any) -> Any:
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (self.q(x), *self.kv(y).chunk(2, -1)))
        h = self.norms[0](x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)))
        return self.norms[1](h + F.relu(self.feed(h)))


class Sets(nn.Module):
    """Through points and back, and a mean."""

    def __init__(self, s: Any):
        super().__init__()
        self.enter = nn.Linear(4, s.d)
        self.there, self.back = (nn.ModuleList(Attends(s) for _ in range(3)) for _ in range(2))
        self.points = nn.ParameterList(torch.randn(1, s.points, s.d) * 0.1 for _ in range(3))
        self.out = nn.Sequential(nn.Linear(s.d, s.d), nn.ReLU(), nn.Linear(s.d, 10))

    def forward(self, x: Any) -> Any:
        x = self.enter(x)
        for there, back, points in zip(self.there, self.back, self.points, strict=True):
            x = back(x, there(points.to(x.dtype).expand(x.shape[0], -1, -1), x))
        return self.out(x.mean(1))


def sets(s: Any, given: list, short: bool, compiled: bool) -> Callable:
    """Sets of several sizes in turns."""
    x, y = given
    held = itertools.cycle([x[:, :n].contiguous() for n in s.lengths])
    model = Sets(s).to(DEVICE)
    opt, run = adam(1e-3)(model.parameters()), torch.compile(model, dynamic=False) if compiled else model

    def step() -> Any:
        with torch.autocast(DEVICE, torch.bfloat16):
            loss = F.cross_entropy(run(next(held)).float(), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        return loss.detach()

    return step


STEPS = {f.__name__: f for f in (shuffle, sharpen, albert, hierarchy, tasks, equivariant, keywords, glow, dit, sets)}
