"""The models of fresh.py in PyTorch."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from fresh import S, data
from others_torch import DEVICE, adam, images, measured, trained
from torch import nn

BF16 = ("swin", "vit", "volumes")                          # vit in half precision with a scaled loss costs PyTorch more


def prepared(name: str, compiled: bool) -> tuple[Callable, Callable, None, Callable]:
    """See others.prepared."""
    return measured(STEPS[name], S[name], data(name), name in BF16, compiled)


class Feed(nn.Module):
    """The feed-forward part of a block."""

    def __init__(self, d: int):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x: Any) -> Any:
        return x + self.down(F.gelu(self.up(self.norm(x))))


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
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=self.bias.to(q.dtype)[None]).transpose(1, 2).reshape(-1, w * w, d)
        y = self.out(y).view(n, side // w, side // w, w, w, d).permute(0, 1, 3, 2, 4, 5).reshape(n, side, side, d)
        if self.shift:
            y = y.roll((w // 2, w // 2), (1, 2))
        return self.feed(x + y)


def swin(s: Any, arrays: list, short: bool, compiled: bool) -> Callable:
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
    x, y = images(arrays[0]), arrays[1]
    return trained(Net(), lambda m: F.cross_entropy(m(x).float(), y), adam(1e-4), short, compiled, last=True)


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


class Patches(nn.Module):
    """Patches of images, blocks, and a class."""

    def __init__(self, d: int, blocks: list):
        super().__init__()
        self.stem, self.blocks, self.out = nn.Conv2d(3, d, 16, 16), nn.Sequential(*blocks), nn.Linear(d, 100)

    def forward(self, x: Any) -> Any:
        return self.out(self.blocks(self.stem(x).flatten(2).transpose(1, 2)).mean(1))


def vit(s: Any, arrays: list, short: bool, compiled: bool) -> Callable:
    x, y = images(arrays[0]), arrays[1]
    return trained(Patches(s.d, [Block(s.d, s.heads) for _ in range(s.layers)]), lambda m: F.cross_entropy(m(x).float(), y),
                   adam(1e-4), short, compiled, last=True)


class MixerBlock(nn.Module):
    """Products over places, then over channels."""

    def __init__(self, d: int, places: int):
        super().__init__()
        self.norm, self.feed = nn.LayerNorm(d), Feed(d)
        self.up, self.down = nn.Linear(places, d // 2), nn.Linear(d // 2, places)

    def forward(self, x: Any) -> Any:
        return self.feed(x + self.down(F.gelu(self.up(self.norm(x).transpose(1, 2)))).transpose(1, 2))


def mixer(s: Any, arrays: list, short: bool, compiled: bool) -> Callable:
    x, y = images(arrays[0]), arrays[1]
    return trained(Patches(s.d, [MixerBlock(s.d, (s.side // 16) ** 2) for _ in range(s.layers)]),
                   lambda m: F.cross_entropy(m(x), y), adam(1e-4), short, compiled)


def volumes(s: Any, arrays: list, short: bool, compiled: bool) -> Callable:
    def unit(i: int, c: int) -> Any:
        parts: list = []
        for a in (i, c):
            parts += [nn.Conv3d(a, c, 3, padding=1, bias=False), nn.BatchNorm3d(c), nn.ReLU()]
        return nn.Sequential(*parts)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            c = s.c
            self.down = nn.ModuleList([unit(1, c), unit(c, 2 * c), unit(2 * c, 4 * c)])
            self.middle, self.out = unit(4 * c, 8 * c), nn.Conv3d(c, 2, 1)
            self.up = nn.ModuleList([nn.ConvTranspose3d(2 * (c << j), c << j, 2, 2) for j in range(3)])
            self.join = nn.ModuleList([unit(2 * (c << j), c << j) for j in range(3)])

        def forward(self, x: Any) -> Any:
            kept = []
            for d in self.down:
                x = d(x)
                kept.append(x)
                x = F.max_pool3d(x, 2)
            x = self.middle(x)
            for j in (2, 1, 0):
                x = self.join[j](torch.cat([self.up[j](x), kept[j]], 1))
            return self.out(x)
    x, y = arrays[0].permute(0, 4, 1, 2, 3), arrays[1]
    return trained(Net().to(memory_format=torch.channels_last_3d), lambda m: F.cross_entropy(m(x).float(), y),
                   lambda p: torch.optim.SGD(p, .01, momentum=.9), short, compiled)


def speech(s: Any, arrays: list, short: bool, compiled: bool) -> Callable:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Conv2d(1, 32, 3, (2, 2), 1), nn.Conv2d(32, 32, 3, (1, 2), 1)
            self.na, self.nb = nn.BatchNorm2d(32), nn.BatchNorm2d(32)
            self.rnn = nn.LSTM(32 * s.bands // 4, s.d, 2, batch_first=True, bidirectional=True)
            self.out = nn.Linear(2 * s.d, 40)

        def forward(self, x: Any) -> Any:
            x = F.relu(self.nb(self.b(F.relu(self.na(self.a(x))))))
            return self.out(self.rnn(x.permute(0, 2, 3, 1).flatten(2))[0])
    x, y = images(arrays[0]), arrays[1]
    return trained(Net(), lambda m: F.cross_entropy(m(x).flatten(0, 1), y.flatten()), adam(1e-3), short, compiled)


def sentences(s: Any, arrays: list, short: bool, compiled: bool) -> Callable:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.out = nn.Embedding(s.words, s.d), nn.Linear(3 * s.d, 4)
            self.convs = nn.ModuleList([nn.Conv1d(s.d, s.d, k, padding="same") for k in (3, 4, 5)])

        def forward(self, ids: Any) -> Any:
            x = self.table(ids).transpose(1, 2)
            return self.out(torch.cat([F.relu(c(x)).amax(2) for c in self.convs], 1))
    model, turn = Net().to(DEVICE), [0]
    batches, y = [arrays[0][:, :t].contiguous() for t in s.lengths], arrays[1]
    opt = torch.optim.Adam(model.parameters(), 1e-3, fused=True)
    loss = torch.compile(lambda ids: F.cross_entropy(model(ids), y)) if compiled else lambda ids: F.cross_entropy(model(ids), y)

    def step() -> Any:
        turn[0] += 1
        value = loss(batches[turn[0] % len(batches)])
        opt.zero_grad(set_to_none=True)
        value.backward()
        opt.step()
        return value.detach()
    return step


def clicks(s: Any, arrays: list, short: bool, compiled: bool) -> Callable:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.first = (nn.Embedding(s.rows, d, sparse=not compiled) for d in (s.d, 1))
            self.deep = nn.Sequential(nn.Linear(s.fields * s.d, 400), nn.ReLU(), nn.Linear(400, 400), nn.ReLU(),
                                      nn.Linear(400, 1))

        def forward(self, ids: Any) -> Any:
            e = self.table(ids)
            pairs = .5 * (e.sum(1).square() - e.square().sum(1)).sum(1)
            return pairs + self.first(ids).sum((1, 2)) + self.deep(e.flatten(1))[:, 0]
    ids, y = arrays
    return trained(Net(), lambda m: F.binary_cross_entropy_with_logits(m(ids), y), lambda p: torch.optim.Adagrad(p, .01), short,
                   compiled)


def molecules(s: Any, arrays: list, short: bool, compiled: bool) -> Callable:
    x, source, target, of, y = arrays

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Sequential(nn.Linear(s.d, s.d), nn.BatchNorm1d(s.d), nn.ReLU(), nn.Linear(s.d, s.d),
                                                       nn.ReLU()) for _ in range(s.layers)])
            self.eps, self.out = nn.Parameter(torch.zeros(s.layers)), nn.Linear(s.d, 1)

        def forward(self, x: Any) -> Any:
            for i, layer in enumerate(self.layers):
                x = layer((1 + self.eps[i]) * x + torch.zeros_like(x).index_add(0, target, x[source]))
            return self.out(x.new_zeros(s.graphs, s.d).index_add(0, of, x))[:, 0]
    return trained(Net(), lambda m: F.mse_loss(m(x), y), adam(1e-3), short, compiled)


def digits(s: Any, arrays: list, short: bool, compiled: bool) -> Callable:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            side, c = s.side // 4, s.c
            self.encoder = nn.Sequential(nn.Conv2d(1, c, 4, 2, 1), nn.ReLU(), nn.Conv2d(c, 2 * c, 4, 2, 1), nn.ReLU(),
                                         nn.Flatten(), nn.Linear(side * side * 2 * c, 2 * s.z))
            self.decoder = nn.Sequential(nn.Linear(s.z, side * side * 2 * c), nn.ReLU(), nn.Unflatten(1, (2 * c, side, side)),
                                         nn.ConvTranspose2d(2 * c, c, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(c, 1, 4, 2, 1))

        def forward(self, x: Any) -> Any:
            mean, log = self.encoder(x).chunk(2, 1)
            logits = self.decoder(mean + torch.exp(.5 * log) * torch.randn_like(mean))
            return (F.binary_cross_entropy_with_logits(logits, x, reduction="none").sum((1, 2, 3)) -
                    .5 * (1 + log - mean.square() - log.exp()).sum(1)).mean()
    x = images(arrays[0])
    return trained(Net(), lambda m: m(x), adam(1e-3), short, compiled, last=True)


def flow(s: Any, arrays: list, short: bool, compiled: bool) -> Callable:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.ModuleList([nn.Sequential(nn.Linear(s.d // 2, s.wide), nn.ReLU(), nn.Linear(s.wide, s.wide),
                                                      nn.ReLU(), nn.Linear(s.wide, s.d)) for _ in range(s.layers)])

        def forward(self, h: Any) -> Any:
            total: Any = 0.0
            for part in self.parts:
                a, b = h.chunk(2, 1)
                scale, shift = part(a).chunk(2, 1)
                scale = scale.tanh()
                h, total = torch.cat([b * scale.exp() + shift, a], 1), total + scale.sum(1)
            return (.5 * h.square().sum(1) - total).mean()
    x = arrays[0]
    return trained(Net(), lambda m: m(x), adam(1e-4), short, compiled)


STEPS = {f.__name__: f for f in (swin, vit, volumes, mixer, speech, sentences, clicks, molecules, digits, flow)}
