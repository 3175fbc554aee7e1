"""The models of unseen.py in PyTorch."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from others_torch import DEVICE, adam, images, measured, trained
from torch import nn
from unseen import S, data

BF16 = ("perceiver", "switch", "densenet")


def prepared(name: str, compiled: bool) -> tuple[Callable, Callable, None, Callable]:
    """See others.prepared."""
    return measured(STEPS[name], S[name], data(name), name in BF16, compiled)


# -- attention ---------------------------------------------------------------------------------------------------------------
class Reader(nn.Module):
    """Attention of latents to something, and a feed-forward part."""

    def __init__(self, d: int, heads: int, inputs: int):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = nn.Linear(d, d), nn.Linear(inputs, d), nn.Linear(inputs, d), nn.Linear(d, d)
        self.norms = nn.ModuleList(nn.LayerNorm(n) for n in (d, inputs, d))
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x: Any, other: Any = None) -> Any:
        h = self.norms[0](x)
        memory = h if other is None else self.norms[1](other)
        given = (self.q, h), (self.k, memory), (self.v, memory)
        q, k, v = (f(y).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f, y in given)
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, None, 0.1).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norms[2](x))))


class Perceiver(nn.Module):
    """Latents that read the inputs twice."""

    def __init__(self, s: Any):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(s.latents, s.d) * 0.02)
        self.readers = nn.ModuleList(Reader(s.d, s.heads, s.c) for _ in range(2))
        self.thinkers = nn.ModuleList(Reader(s.d, s.heads, s.d) for _ in range(s.layers))
        self.out = nn.Linear(s.d, 100)

    def forward(self, inputs: Any) -> Any:
        h = self.latents.expand(len(inputs), -1, -1)
        for i, thinker in enumerate(self.thinkers):
            if i % (len(self.thinkers) // 2) == 0:
                h = self.readers[i // (len(self.thinkers) // 2)](h, inputs)
            h = thinker(h)
        return self.out(h.mean(1))


def perceiver(s: Any, given: list, short: bool, compiled: bool) -> Callable:
    """Perceiver."""
    x, y = given
    return trained(
        Perceiver(s),
        lambda m: F.cross_entropy(m(x).float(), y),
        lambda p: torch.optim.AdamW(p, 1e-4, weight_decay=0.01, fused=True),
        short,
        compiled,
    )


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
        self.heads, self.words, self.places = s.heads, nn.Embedding(s.words, s.d), nn.Parameter(torch.randn(s.t, s.d) * 0.02)
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


def switch(s: Any, given: list, short: bool, compiled: bool) -> Callable:
    """Mixture of experts."""
    (ids,) = given

    def loss(m: Any) -> Any:
        logits, total = m(ids[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten()) + 0.01 * total

    return trained(Switch(s), loss, adam(1e-4), short, compiled, clip=1.0)


# -- images ------------------------------------------------------------------------------------------------------------------
class Dense(nn.Module):
    """A layer of a dense block."""

    def __init__(self, i: int, grow: int):
        super().__init__()
        self.net = nn.Sequential(plain(i, 4 * grow, 1), plain(4 * grow, grow, 3))

    def forward(self, x: Any) -> Any:
        return torch.cat([x, self.net(x)], 1)


def plain(i: int, c: int, size: int) -> nn.Module:
    """Norm, ReLU, convolution."""
    return nn.Sequential(nn.BatchNorm2d(i), nn.ReLU(), nn.Conv2d(i, c, size, 1, size // 2, bias=False))


def densenet(s: Any, given: list, short: bool, compiled: bool) -> Callable:
    """DenseNet."""
    i = 2 * s.grow
    parts = [nn.Conv2d(3, i, 7, 2, 3, bias=False), nn.BatchNorm2d(i), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    for j, count in enumerate(s.blocks):
        if j:
            parts += [plain(i, i // 2, 1), nn.AvgPool2d(2)]
            i //= 2
        for _ in range(count):
            parts.append(Dense(i, s.grow))
            i += s.grow
    model = nn.Sequential(*parts, nn.BatchNorm2d(i), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(i, 100))
    x, y = images(given[0]), given[1]
    sgd = lambda p: torch.optim.SGD(p, 0.05, momentum=0.9)  # noqa: E731
    return trained(model, lambda m: F.cross_entropy(m(x).float(), y), sgd, short, compiled, last=True)


class Spectral(nn.Module):
    """Mixes channels per frequency, of the low ones."""

    def __init__(self, c: int, modes: int):
        super().__init__()
        self.modes = modes
        self.by = nn.ParameterList(nn.Parameter(torch.rand(c, c, modes, modes, dtype=torch.cfloat) / c**2) for _ in range(2))

    def forward(self, x: Any) -> Any:
        m, found = self.modes, torch.fft.rfft2(x)
        low, high = (torch.einsum("bihw,iohw->bohw", part, by)
                     for part, by in zip((found[:, :, :m, :m], found[:, :, -m:, :m]), self.by, strict=True))
        out = torch.zeros_like(found)
        out[:, :, :m, :m], out[:, :, -m:, :m] = low, high
        return torch.fft.irfft2(out, s=x.shape[2:])


class Operator(nn.Module):
    """Four layers in frequencies and in space."""

    def __init__(self, s: Any):
        super().__init__()
        self.lift, self.one, self.two = nn.Conv2d(3, s.c, 1), nn.Conv2d(s.c, 128, 1), nn.Conv2d(128, 1, 1)
        self.spectral = nn.ModuleList(Spectral(s.c, s.modes) for _ in range(4))
        self.local = nn.ModuleList(nn.Conv2d(s.c, s.c, 1) for _ in range(4))

    def forward(self, x: Any) -> Any:
        x = self.lift(x)
        for spectral, local in zip(self.spectral, self.local, strict=True):
            x = F.gelu(spectral(x) + local(x))
        return self.two(F.gelu(self.one(x)))


def operator(s: Any, given: list, short: bool, compiled: bool) -> Callable:
    """Fourier neural operator."""
    x, y = (g.permute(0, 3, 1, 2).contiguous() for g in given)

    def loss(m: Any) -> Any:
        return ((m(x) - y).norm(dim=(2, 3)) / y.norm(dim=(2, 3))).mean()

    return trained(Operator(s), loss, lambda p: torch.optim.Adam(p, 1e-3), short, compiled)


class Unit(nn.Module):
    """A residual unit."""

    def __init__(self, i: int, c: int, stride: int):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(i, c, 3, stride, 1, bias=False), nn.BatchNorm2d(c), nn.ReLU(),
                                 nn.Conv2d(c, c, 3, 1, 1, bias=False), nn.BatchNorm2d(c))
        self.skip = nn.Conv2d(i, c, 1, stride) if stride > 1 or i != c else nn.Identity()

    def forward(self, x: Any) -> Any:
        return F.relu(self.net(x) + self.skip(x))


class Retina(nn.Module):
    """Boxes and classes at three scales."""

    def __init__(self, c: int):
        super().__init__()
        self.first, i, parts = nn.Conv2d(3, c, 7, 2, 3), c, []
        for o in (c, 2 * c, 4 * c, 8 * c):
            parts.append(nn.Sequential(Unit(i, o, 2), Unit(o, o, 1)))
            i = o
        self.levels = nn.ModuleList(parts)
        self.sides = nn.ModuleList(nn.Conv2d(o, 4 * c, 1) for o in (2 * c, 4 * c, 8 * c))
        self.smooth = nn.ModuleList(nn.Conv2d(4 * c, 4 * c, 3, 1, 1) for _ in range(3))
        self.classes, self.boxes = (
            nn.Sequential(
                *[m for _ in range(4) for m in (nn.Conv2d(4 * c, 4 * c, 3, 1, 1), nn.ReLU())], nn.Conv2d(4 * c, 9 * o, 3, 1, 1)
            )
            for o in (20, 4)
        )

    def forward(self, x: Any) -> Any:
        h, levels = F.relu(self.first(x)), []
        for level in self.levels:
            h = level(h)
            levels.append(h)
        top, found = None, []
        for level, side, smooth in zip(levels[:0:-1], self.sides[::-1], self.smooth, strict=True):
            top = side(level) if top is None else side(level) + F.interpolate(top, scale_factor=2.0)
            found.insert(0, smooth(top))
        flat = lambda head, o: torch.cat([head(f).permute(0, 2, 3, 1).reshape(len(x), -1, 9, o) for f in found], 1)  # noqa: E731
        return flat(self.classes, 20), flat(self.boxes, 4)


def detector(s: Any, given: list, short: bool, compiled: bool) -> Callable:
    """RetinaNet."""
    x, labels, boxes = images(given[0]), given[1], given[2]

    def loss(m: Any) -> Any:
        classes, moves = m(x)
        target = F.one_hot(labels, 21)[..., 1:].float()
        p = classes.sigmoid()
        focus = target * 0.25 * (1 - p) ** 2 + (1 - target) * 0.75 * p**2
        own = (labels > 0).float()
        count = own.sum().clamp(min=1)
        value = (focus * F.binary_cross_entropy_with_logits(classes, target, reduction="none")).sum()
        return (value + (F.huber_loss(moves, boxes, reduction="none") * own[..., None]).sum()) / count

    return trained(Retina(s.c), loss, lambda p: torch.optim.SGD(p, 1e-4, momentum=0.9), short, compiled, clip=10.0, last=True)


class Nerf(nn.Module):
    """Colours of rays."""

    def __init__(self, s: Any):
        super().__init__()
        self.s = s
        self.dense = nn.ModuleList(nn.Linear(63 if i == 0 else s.d + 63 if i == 5 else s.d, s.d) for i in range(8))
        self.density, self.feature, self.view = nn.Linear(s.d, 1), nn.Linear(s.d, s.d), nn.Linear(s.d + 27, s.d // 2)
        self.colour = nn.Linear(s.d // 2, 3)

    @staticmethod
    def waves(x: Any, count: int) -> Any:
        angles = x[..., None] * 2.0 ** torch.arange(count, device=x.device)
        return torch.cat([x, torch.cat([angles.sin(), angles.cos()], -1).flatten(-2)], -1)

    def forward(self, start: Any, way: Any) -> Any:
        s, way = self.s, F.normalize(way, dim=-1)
        edges = torch.linspace(2.0, 6.0, s.points + 1, device=way.device)
        depth = edges[:-1] + (edges[1:] - edges[:-1]) * torch.rand(s.n, s.points, device=way.device)
        points = self.waves(start[:, None] + way[:, None] * depth[..., None], 10)
        h = points
        for i, dense in enumerate(self.dense):
            h = F.relu(dense(torch.cat([h, points], -1) if i == 5 else h))
        sigma = F.relu(self.density(h)[..., 0])
        seen = self.waves(way, 4)[:, None].expand(-1, s.points, -1)
        colour = self.colour(F.relu(self.view(torch.cat([self.feature(h), seen], -1)))).sigmoid()
        gaps = torch.cat([depth[:, 1:] - depth[:, :-1], torch.full([s.n, 1], 1e10, device=way.device)], -1)
        alpha = 1 - (-sigma * gaps).exp()
        left = torch.cat([torch.ones_like(alpha[:, :1]), (1 - alpha + 1e-10)[:, :-1]], -1).cumprod(-1)
        return ((alpha * left)[..., None] * colour).sum(1)


def nerf(s: Any, given: list, short: bool, compiled: bool) -> Callable:
    """NeRF."""
    start, way, y = given
    return trained(Nerf(s), lambda m: (m(start, way) - y).square().mean(), adam(5e-4), short, compiled)


# -- sound, control, retrieval -----------------------------------------------------------------------------------------------
def speech(s: Any, given: list, short: bool, compiled: bool) -> Callable:
    """Separable convolutions with CTC."""
    def separable(i: int, size: int, stride: int) -> list:
        deep = nn.Conv1d(i, i, size, stride, size // 2, groups=i, bias=False)
        return [deep, nn.Conv1d(i, s.c, 1, bias=False), nn.BatchNorm1d(s.c)]

    parts = [*separable(64, 11, 2), nn.ReLU()]
    for size in (11, 13, 17, 21):
        for _ in range(2):
            parts += [*separable(s.c, size, 1), nn.SiLU(), nn.Dropout(0.1)]
    model = nn.Sequential(*parts, nn.Conv1d(s.c, 29, 1))
    x, y, lengths = given[0].permute(0, 2, 1).contiguous(), given[1], given[2]
    frames = torch.full([s.n], s.t // 2, device=x.device)

    def loss(m: Any) -> Any:
        return F.ctc_loss(m(x).permute(2, 0, 1).log_softmax(-1), y, frames, lengths, reduction="sum") / s.n

    return trained(model, loss, adam(1e-3), short, compiled, clip=1.0)


def actor(s: Any, given: list, short: bool, compiled: bool) -> Callable:
    """Soft actor-critic."""
    def network(i: int, o: int) -> nn.Module:
        return nn.Sequential(nn.Linear(i, s.d), nn.ReLU(), nn.Linear(s.d, s.d), nn.ReLU(), nn.Linear(s.d, o)).to(DEVICE)

    policy, critics = network(s.seen, 2 * s.acts), nn.ModuleList(network(s.seen + s.acts, 1) for _ in range(2))
    slow, heat = copy.deepcopy(critics).requires_grad_(False), torch.zeros([], device=DEVICE, requires_grad=True)
    optimizers = [torch.optim.Adam(p, 3e-4, fused=True) for p in (critics.parameters(), policy.parameters(), [heat])]
    seen, done, reward, then = given

    def act(seen: Any) -> Any:
        mean, spread = policy(seen).chunk(2, -1)
        spread = spread.clamp(-20, 2)
        noise = torch.randn_like(mean)
        raw = mean + spread.exp() * noise
        likely = -0.5 * noise.square() - spread - 0.919 - 2 * (math.log(2) - raw - F.softplus(-2 * raw))
        return raw.tanh(), likely.sum(-1)

    def rated(pair: Any, seen: Any, act: Any) -> list:
        return [c(torch.cat([seen, act], -1))[:, 0] for c in pair]

    def first() -> Any:
        with torch.no_grad():
            following, likely = act(then)
            goal = reward + 0.99 * (torch.minimum(*rated(slow, then, following)) - heat.exp() * likely)
        return sum((q - goal).square().mean() for q in rated(critics, seen, done))

    def second() -> Any:
        chosen, likely = act(seen)
        cost = (heat.exp().detach() * likely - torch.minimum(*rated(critics, seen, chosen))).mean()
        return cost, -(heat * (likely.detach() - s.acts)).mean()

    if compiled:
        first, second = torch.compile(first), torch.compile(second)

    def step() -> Any:
        loss = first()
        for o in optimizers:
            o.zero_grad(set_to_none=True)
        loss.backward()
        optimizers[0].step()
        cost, third = second()
        (cost + third).backward()
        optimizers[1].step()
        optimizers[2].step()
        with torch.no_grad():
            torch._foreach_lerp_(list(slow.parameters()), list(critics.parameters()), 0.005)
        return loss.detach()

    return step


class Retrieval(nn.Module):
    """The mean of past items predicts the next."""

    def __init__(self, s: Any):
        super().__init__()
        self.s, self.table, self.weights = s, nn.Embedding(s.items, s.d, sparse=False), nn.Embedding(s.items, s.d)
        self.biases = nn.Parameter(torch.zeros(s.items))
        self.deep = nn.Sequential(nn.Linear(s.d, 256), nn.ReLU(), nn.Linear(256, s.d), nn.ReLU())

    def forward(self, past: Any, item: Any) -> Any:
        s = self.s
        h = self.deep(self.table(past).mean(1))
        some = (torch.rand(s.some, device=h.device) * math.log(s.items + 1)).exp().long().sub(1).clamp(0, s.items - 1)
        expected = lambda i: (s.some * torch.log((i + 2.0) / (i + 1.0)) / math.log(s.items + 1)).log()  # noqa: E731
        own = (h * self.weights(item)).sum(-1) + self.biases[item] - expected(item)
        other = h @ self.weights(some).T + self.biases[some] - expected(some)
        other = other.masked_fill(item[:, None] == some, -1e9)
        return F.cross_entropy(torch.cat([own[:, None], other], 1), torch.zeros(len(h), dtype=torch.long, device=h.device))


def sampled(s: Any, given: list, short: bool, compiled: bool) -> Callable:
    """Sampled softmax; the gradients of tables are dense, as the compiler of PyTorch takes no others."""
    past, item = given[0], given[1][:, 0]
    adagrad = lambda p: torch.optim.Adagrad(p, 0.1, initial_accumulator_value=0.1)  # noqa: E731
    return trained(Retrieval(s), lambda m: m(past, item), adagrad, short, compiled)


STEPS = {f.__name__: f for f in (perceiver, switch, densenet, operator, detector, nerf, speech, actor, sampled)}
