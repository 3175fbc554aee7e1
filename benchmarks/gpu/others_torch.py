"""The models of others.py in PyTorch, as its users write them."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from others import S, data
from torch import nn

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
BF16 = ("mobilenet", "diffusion", "wavenet", "gan", "llama")


def measured(make: Callable, sizes: Any, arrays: Any, short: bool, compiled: bool) -> tuple[Callable, Callable, None, Callable]:
    """The step of a model on the device, and what waits for it and checks its loss."""
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = torch.backends.cudnn.allow_tf32 = True
    run = make(sizes, [torch.from_numpy(a).to(DEVICE) for a in arrays], short, compiled)
    last: list = [None]

    def step() -> None:
        last[0] = run()

    def sync() -> None:
        assert math.isfinite(float(last[0]))
    return step, sync, None, list


def prepared(name: str, compiled: bool) -> tuple[Callable, Callable, None, Callable]:
    """See others.prepared."""
    return measured(STEPS[name], S[name], data(name), name in BF16, compiled)


def trained(model: nn.Module, loss: Callable, optimizer: Callable, short: bool, compiled: bool, clip: float | None = None,
            last: bool = False) -> Callable:
    """A step of training; the compiler gets the model and its loss."""
    model = model.to(DEVICE)
    if last:
        model = model.to(memory_format=torch.channels_last)
    opt = optimizer(model.parameters())
    run = torch.compile(lambda: loss(model)) if compiled else lambda: loss(model)

    def step() -> Any:
        with torch.autocast(DEVICE, torch.bfloat16, enabled=short):
            value = run()
        opt.zero_grad(set_to_none=True)
        value.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        opt.step()
        return value.detach()
    return step


def adam(rate: float, **more: Any) -> Callable:
    """A fused Adam."""
    return lambda p: torch.optim.Adam(p, rate, fused=True, **more)


def images(x: torch.Tensor) -> torch.Tensor:
    """Channels first in shape, last in memory."""
    return x.permute(0, 3, 1, 2)


# -- images ------------------------------------------------------------------------------------------------------------------
class Inverted(nn.Module):
    """An inverted residual."""

    def __init__(self, i: int, c: int, stride: int, expand: int):
        super().__init__()
        h, parts = i * expand, []
        if expand > 1:
            parts += [nn.Conv2d(i, h, 1, bias=False), nn.BatchNorm2d(h), nn.ReLU6()]
        parts += [nn.Conv2d(h, h, 3, stride, 1, groups=h, bias=False), nn.BatchNorm2d(h), nn.ReLU6(),
                  nn.Conv2d(h, c, 1, bias=False), nn.BatchNorm2d(c)]
        self.net, self.same = nn.Sequential(*parts), stride == 1 and i == c

    def forward(self, x: Any) -> Any:
        return x + self.net(x) if self.same else self.net(x)


def mobilenet(s: Any, given: list, short: bool, compiled: bool) -> Callable:
    x, y = given
    parts, i = [nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU6()], 32
    for expand, c, n, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2)):
        for j in range(n):
            parts.append(Inverted(i, c, stride if j == 0 else 1, expand))
            i = c
    parts += [nn.Conv2d(i, 1280, 1, bias=False), nn.BatchNorm2d(1280), nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
              nn.Dropout(.2), nn.Linear(1280, 100)]
    x = images(x)
    return trained(nn.Sequential(*parts), lambda m: F.cross_entropy(m(x).float(), y),
                   lambda p: torch.optim.RMSprop(p, 1e-3, .9, momentum=.9), short, compiled, last=True)


class ConvNextBlock(nn.Module):
    """Depthwise convolution, layer norm, two products, and a learned scale."""

    def __init__(self, c: int):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(c, c, 7, 1, 3, groups=c), nn.LayerNorm(c, 1e-6)
        self.up, self.down, self.gamma = nn.Linear(c, 4 * c), nn.Linear(4 * c, c), nn.Parameter(torch.full([c], 1e-2))

    def forward(self, x: Any) -> Any:
        h = self.norm(self.conv(x).permute(0, 2, 3, 1))
        return x + (self.gamma * self.down(F.gelu(self.up(h)))).permute(0, 3, 1, 2)


class ChannelNorm(nn.LayerNorm):
    """Layer norm over channels."""

    def forward(self, x: Any) -> Any:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def convnext(s: Any, given: list, short: bool, compiled: bool) -> Callable:
    x, y = given
    parts, i = [nn.Conv2d(3, 96, 4, 4), ChannelNorm(96, 1e-6)], 96
    for j, (c, n) in enumerate(((96, 2), (192, 2), (384, 4), (768, 2))):
        if j:
            parts += [ChannelNorm(i, 1e-6), nn.Conv2d(i, c, 2, 2)]
        parts += [ConvNextBlock(c) for _ in range(n)]
        i = c
    model = nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(i, 1e-6), nn.Linear(i, 100))
    x = images(x)
    return trained(model, lambda m: F.cross_entropy(m(x), y), adam(1e-4), short, compiled, last=True)


class Residual(nn.Module):
    """Two convolutions with the embedding of the time between them."""

    def __init__(self, i: int, c: int, t: int):
        super().__init__()
        self.n1, self.n2 = nn.GroupNorm(32, i), nn.GroupNorm(32, c)
        self.c1, self.c2, self.t = nn.Conv2d(i, c, 3, 1, 1), nn.Conv2d(c, c, 3, 1, 1), nn.Linear(t, c)
        self.s = nn.Identity() if i == c else nn.Conv2d(i, c, 1)

    def forward(self, x: Any, t: Any) -> Any:
        h = self.c1(F.silu(self.n1(x))) + self.t(F.silu(t))[:, :, None, None]
        return self.s(x) + self.c2(F.silu(self.n2(h)))


class Diffusion(nn.Module):
    """A U-Net that predicts noise, with attention at its bottom."""

    def __init__(self, c: int):
        super().__init__()
        t = 4 * c
        self.c, self.first, self.t1, self.t2 = c, nn.Conv2d(3, c, 3, 1, 1), nn.Linear(c, t), nn.Linear(t, t)
        self.down = nn.ModuleList([Residual(c, c, t), Residual(c, 2 * c, t), Residual(2 * c, 2 * c, t)])
        self.shrink = nn.ModuleList([nn.Conv2d(c, c, 3, 2, 1), nn.Conv2d(2 * c, 2 * c, 3, 2, 1)])
        self.mid, self.norm = Residual(2 * c, 2 * c, t), nn.GroupNorm(32, 2 * c)
        self.qkv, self.o = nn.Linear(2 * c, 6 * c), nn.Linear(2 * c, 2 * c)
        self.grow = nn.ModuleList([nn.ConvTranspose2d(2 * c, 2 * c, 4, 2, 1), nn.ConvTranspose2d(2 * c, c, 4, 2, 1)])
        self.up = nn.ModuleList([Residual(4 * c, 2 * c, t), Residual(2 * c, c, t)])
        self.out = nn.Conv2d(c, 3, 3, 1, 1)

    def forward(self, x: Any, t: Any) -> Any:
        half = self.c // 2
        angle = t.float()[:, None] * torch.exp(-math.log(1e4) * torch.arange(half, device=t.device) / half)
        t = self.t2(F.silu(self.t1(torch.cat([angle.sin(), angle.cos()], -1))))
        a = self.down[0](self.first(x), t)
        b = self.down[1](self.shrink[0](a), t)
        h = self.mid(self.down[2](self.shrink[1](b), t), t)
        n, c, height, width = h.shape
        q, k, v = self.qkv(self.norm(h).flatten(2).transpose(1, 2)).view(n, -1, 3, 4, c // 4).permute(2, 0, 3, 1, 4)
        y = self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, -1, c))
        h = h + y.transpose(1, 2).reshape(n, c, height, width)
        h = self.up[0](torch.cat([self.grow[0](h), b], 1), t)
        return self.out(F.silu(self.up[1](torch.cat([self.grow[1](h), a], 1), t)))


def diffusion(s: Any, given: list, short: bool, compiled: bool) -> Callable:
    x, noise, t = given
    x, noise = images(x), images(noise)
    kept = torch.from_numpy(np.cumprod(1 - np.linspace(1e-4, .02, 1000)).astype("f")).to(DEVICE)

    def loss(m: Any) -> Any:
        a = kept[t][:, None, None, None]
        return F.mse_loss(m(a.sqrt() * x + (1 - a).sqrt() * noise, t).float(), noise)
    return trained(Diffusion(s.c), loss, adam(1e-4), short, compiled, last=True)


def gan(s: Any, given: list, short: bool, compiled: bool) -> Callable:
    real, z = given
    real = images(real)

    class Generator(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, parts, i = nn.Linear(s.z, 16 * 8 * s.c, bias=False), [nn.BatchNorm2d(8 * s.c), nn.ReLU()], 8 * s.c
            for c in (4 * s.c, 2 * s.c, s.c):
                parts += [nn.ConvTranspose2d(i, c, 4, 2, 1, bias=False), nn.BatchNorm2d(c), nn.ReLU()]
                i = c
            self.net = nn.Sequential(*parts, nn.ConvTranspose2d(i, 3, 4, 2, 1), nn.Tanh())

        def forward(self, z: Any) -> Any:
            return self.net(self.first(z).view(-1, 8 * s.c, 4, 4).contiguous(memory_format=torch.channels_last))
    parts, i = [nn.Conv2d(3, s.c, 4, 2, 1), nn.LeakyReLU(.2)], s.c
    for c in (2 * s.c, 4 * s.c, 8 * s.c):
        parts += [nn.Conv2d(i, c, 4, 2, 1, bias=False), nn.BatchNorm2d(c), nn.LeakyReLU(.2)]
        i = c
    g = Generator().to(DEVICE).to(memory_format=torch.channels_last)
    d = nn.Sequential(*parts, nn.Flatten(), nn.Linear(16 * i, 1)).to(DEVICE).to(memory_format=torch.channels_last)
    of_g, of_d = (torch.optim.Adam(m.parameters(), 2e-4, (.5, .999), fused=True) for m in (g, d))
    entropy = F.binary_cross_entropy_with_logits
    run_g, run_d = (torch.compile(m) if compiled else m for m in (g, d))

    def step() -> Any:
        with torch.autocast(DEVICE, torch.bfloat16, enabled=short):
            fake = run_g(z)
            r, f = run_d(real).float(), run_d(fake.detach()).float()
            ld = entropy(r, torch.ones_like(r)) + entropy(f, torch.zeros_like(f))
        of_d.zero_grad(set_to_none=True)
        ld.backward()
        of_d.step()
        with torch.autocast(DEVICE, torch.bfloat16, enabled=short):
            f = run_d(fake).float()
            lg = entropy(f, torch.ones_like(f))
        of_g.zero_grad(set_to_none=True)
        lg.backward()
        of_g.step()
        return (lg + ld).detach()
    return step


# -- language ----------------------------------------------------------------------------------------------------------------
class Encoder(nn.Module):
    """A layer of BERT."""

    def __init__(self, s: Any):
        super().__init__()
        self.heads, self.qkv, self.o = s.heads, nn.Linear(s.d, 3 * s.d), nn.Linear(s.d, s.d)
        self.f1, self.f2 = nn.Linear(s.d, 4 * s.d), nn.Linear(4 * s.d, s.d)
        self.n1, self.n2, self.drop = nn.LayerNorm(s.d, 1e-12), nn.LayerNorm(s.d, 1e-12), nn.Dropout(.1)

    def forward(self, x: Any, adder: Any) -> Any:
        n, t, d = x.shape
        q, k, v = self.qkv(x).view(n, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, adder, .1).transpose(1, 2).reshape(n, t, d)
        x = self.n1(x + self.drop(self.o(y)))
        return self.n2(x + self.drop(self.f2(F.gelu(self.f1(x), approximate="tanh"))))


class Bert(nn.Module):
    """An encoder with the loss of masked words."""

    def __init__(self, s: Any):
        super().__init__()
        self.words, self.places = nn.Embedding(s.words, s.d), nn.Parameter(torch.randn(s.t, s.d) * .02)
        nn.init.normal_(self.words.weight, std=.02)
        self.n, self.drop, self.out = nn.LayerNorm(s.d, 1e-12), nn.Dropout(.1), nn.Parameter(torch.zeros(s.words))
        self.layers = nn.ModuleList(Encoder(s) for _ in range(s.layers))

    def forward(self, ids: Any, mask: Any, labels: Any) -> Any:
        x = self.drop(self.n(self.words(ids) + self.places))
        adder = ((1.0 - mask) * -10000.0)[:, None, None].expand(-1, 1, ids.shape[1], -1)
        for layer in self.layers:
            x = layer(x, adder)
        logits = x @ self.words.weight.T + self.out
        entropy = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
        return (entropy * mask.flatten()).sum() / mask.sum()


def bert(s: Any, given: list, short: bool, compiled: bool) -> Callable:
    return trained(Bert(s), lambda m: m(*given), adam(1e-4), short, compiled, clip=1.0)


class Decoder(nn.Module):
    """A layer of Llama."""

    def __init__(self, s: Any):
        super().__init__()
        dh, wide = s.d // s.heads, 8 * s.d // 3 // 64 * 64
        linear = lambda i, o: nn.Linear(i, o, bias=False)                                       # noqa: E731
        self.q, self.k, self.v = linear(s.d, s.d), linear(s.d, s.groups * dh), linear(s.d, s.groups * dh)
        self.o, self.gate, self.up, self.down = linear(s.d, s.d), linear(s.d, wide), linear(s.d, wide), linear(wide, s.d)
        self.n1, self.n2, self.s, self.dh = nn.RMSNorm(s.d, 1e-6), nn.RMSNorm(s.d, 1e-6), s, dh

    def forward(self, x: Any, cos: Any, sin: Any) -> Any:
        n, t, d = x.shape
        h = self.n1(x)
        q, k, v = (f(h).view(n, t, -1, self.dh).transpose(1, 2) for f in (self.q, self.k, self.v))
        turned = lambda a: torch.cat([a[..., :self.dh // 2] * cos - a[..., self.dh // 2:] * sin,    # noqa: E731
                                      a[..., self.dh // 2:] * cos + a[..., :self.dh // 2] * sin], -1)
        many = self.s.heads // self.s.groups
        q, k, v = turned(q), turned(k).repeat_interleave(many, 1), v.repeat_interleave(many, 1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(n, t, d))
        h = self.n2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Llama(nn.Module):
    """A language model."""

    def __init__(self, s: Any):
        super().__init__()
        self.words, self.out, self.n, self.s = nn.Embedding(s.words, s.d), nn.Linear(s.d, s.words, bias=False), \
            nn.RMSNorm(s.d, 1e-6), s
        self.layers = nn.ModuleList(Decoder(s) for _ in range(s.layers))

    def forward(self, ids: Any) -> Any:
        half = self.s.d // self.s.heads // 2
        angle = torch.arange(self.s.t, device=ids.device)[:, None] * 1e4 ** (-torch.arange(half, device=ids.device) / half)
        cos, sin = angle.cos().bfloat16(), angle.sin().bfloat16()
        x = self.words(ids[:, :-1]).bfloat16()
        for layer in self.layers:
            x = layer(x, cos, sin)
        return F.cross_entropy(self.out(self.n(x)).flatten(0, 1).float(), ids[:, 1:].flatten())


def llama(s: Any, given: list, short: bool, compiled: bool) -> Callable:
    return trained(Llama(s), lambda m: m(given[0]), lambda p: torch.optim.AdamW(p, 3e-4, weight_decay=.1, fused=True), short,
                   compiled, clip=1.0)


class Seq2Seq(nn.Module):
    """Two recurrent networks with attention between them."""

    def __init__(self, s: Any):
        super().__init__()
        self.e1, self.e2 = nn.Embedding(s.words, s.d), nn.Embedding(s.words, s.d)
        self.g1, self.g2 = nn.GRU(s.d, s.d, batch_first=True), nn.GRU(s.d, s.d, batch_first=True)
        self.mix, self.drop, self.out = nn.Linear(2 * s.d, s.d), nn.Dropout(.1), nn.Linear(s.d, s.words)

    def forward(self, source: Any, target: Any, labels: Any) -> Any:
        h, state = self.g1(self.e1(source))
        y, _ = self.g2(self.e2(target), state)
        context = (y @ h.transpose(1, 2)).softmax(-1) @ h
        logits = self.out(self.drop(torch.tanh(self.mix(torch.cat([y, context], -1)))))
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def seq2seq(s: Any, given: list, short: bool, compiled: bool) -> Callable:
    return trained(Seq2Seq(s), lambda m: m(*given), adam(1e-3), short, compiled)


# -- others ------------------------------------------------------------------------------------------------------------------
class Recommender(nn.Module):
    """Tables of categories, a tower for numbers, and the products of all pairs."""

    def __init__(self, s: Any, sparse: bool):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(s.rows, s.d, sparse=sparse) for _ in range(s.tables))
        tower = lambda *n: [m for i, o in zip(n, n[1:], strict=False) for m in (nn.Linear(i, o), nn.ReLU())]   # noqa: E731
        self.bottom, n = nn.Sequential(*tower(13, 512, 256, s.d)), s.tables + 1
        self.top = nn.Sequential(*tower(s.d + n * (n - 1) // 2, 512, 256), nn.Linear(256, 1))
        self.register_buffer("pairs", torch.tensor([i * n + j for i in range(n) for j in range(i)]))

    def forward(self, x: Any, ids: Any, y: Any) -> Any:
        h = self.bottom(x)
        z = torch.stack([h] + [t(ids[:, i]) for i, t in enumerate(self.tables)], 1)
        pairs = (z @ z.transpose(1, 2)).flatten(1)[:, self.pairs]
        return F.binary_cross_entropy_with_logits(self.top(torch.cat([h, pairs], 1))[:, 0], y)


def recommender(s: Any, given: list, short: bool, compiled: bool) -> Callable:
    return trained(Recommender(s, sparse=not compiled), lambda m: m(*given), lambda p: torch.optim.Adagrad(p, .01), short,
                   compiled)


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


def wavenet(s: Any, given: list, short: bool, compiled: bool) -> Callable:
    return trained(WaveNet(s), lambda m: m(given[0]), adam(1e-3), short, compiled)


class Graph(nn.Module):
    """Means over neighbors, weighted by attention."""

    def __init__(self, s: Any):
        super().__init__()
        self.z = nn.ModuleList(nn.Linear(s.d, s.d, bias=False) for _ in range(s.layers))
        self.a, self.b = (nn.ModuleList(nn.Linear(s.d, 1) for _ in range(s.layers)) for _ in range(2))
        self.drop, self.out, self.nodes = nn.Dropout(.2), nn.Linear(s.d, 40), s.nodes

    def forward(self, h: Any, source: Any, target: Any, y: Any) -> Any:
        for z, a, b in zip(self.z, self.a, self.b, strict=True):
            x = z(h)
            e = torch.exp(torch.tanh(a(x)[source] + b(x)[target]))
            total = torch.zeros(self.nodes, 1, device=x.device).index_add(0, target, e)
            messages = x[source] * (e / total[target])
            h = self.drop(h + F.elu(torch.zeros_like(x).index_add(0, target, messages)))
        return F.cross_entropy(self.out(h), y)


def graph(s: Any, given: list, short: bool, compiled: bool) -> Callable:
    return trained(Graph(s), lambda m: m(*given), adam(1e-3), short, compiled)


STEPS = {f.__name__: f for f in (mobilenet, convnext, diffusion, gan, bert, llama, seq2seq, recommender, wavenet, graph)}
