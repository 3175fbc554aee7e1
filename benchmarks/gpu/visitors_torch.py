"""The models of visitors.py in PyTorch."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from others_torch import adam, images, measured, trained
from torch import nn
from visitors import S, data


def prepared(name: str, compiled: bool) -> tuple[Callable, Callable, None, Callable]:
    """See others.prepared."""
    return measured(STEPS[name], S[name], data(name), name == "views", compiled)


class Pointer(nn.Module):
    """An LSTM reads points, another one points at them in turn."""

    def __init__(self, s: Any):
        super().__init__()
        self.s, self.read, self.ask = s, nn.LSTM(2, s.d, batch_first=True), nn.LSTMCell(s.d, s.d)
        self.keys, self.question = nn.Linear(s.d, s.d, bias=False), nn.Linear(s.d, s.d)
        self.weigh = nn.Parameter(torch.randn(s.d) * 0.1)

    def forward(self, points: Any, order: Any) -> Any:
        states, (h, c) = self.read(points)
        keys, h, c, x = self.keys(states), h[0], c[0], torch.zeros_like(h[0])
        used, loss = torch.zeros_like(keys[:, :, 0]), 0.0
        for i in range(self.s.t):
            h, c = self.ask(x, (h, c))
            scores = (torch.tanh(keys + self.question(h)[:, None]) * self.weigh).sum(-1) - 1e9 * used
            loss = loss + F.cross_entropy(scores, order[:, i])
            chosen = F.one_hot(order[:, i], self.s.t).float()
            x, used = (states * chosen[:, :, None]).sum(1), used + chosen
        return loss / self.s.t


def pointer(s: Any, given: list, short: bool, compiled: bool) -> Callable:
    """Orders of points."""
    return trained(Pointer(s), lambda m: m(*given), adam(1e-3), short, compiled)


def views(s: Any, given: list, short: bool, compiled: bool) -> Callable:
    """Two views of an image."""
    parts: list = []
    for j, (i, c) in enumerate(((3, s.c), (s.c, s.c), (s.c, 2 * s.c), (2 * s.c, 4 * s.c))):
        parts += [nn.Conv2d(i, c, 3, 1 + (j > 1), 1, bias=False), nn.BatchNorm2d(c), nn.ReLU(True)]
    parts += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * s.c, 512), nn.ReLU(), nn.Linear(512, 128)]
    a, b = map(images, given)
    right = torch.cat([torch.arange(s.n, 2 * s.n), torch.arange(s.n)]).to(a.device)

    def changed(x: Any) -> Any:
        x = torch.where(torch.rand(s.n, 1, 1, 1, device=x.device) < 0.5, x.flip(3), x)
        return x * (0.6 + 0.8 * torch.rand(s.n, 3, 1, 1, device=x.device)) + 0.1 * torch.randn(s.n, 3, 1, 1, device=x.device)

    def loss(m: Any) -> Any:
        z = F.normalize(m(torch.cat([changed(a), changed(b)])).float(), dim=1)
        near = (z @ z.T / 0.2).masked_fill(torch.eye(2 * s.n, dtype=torch.bool, device=z.device), -1e9)
        return F.cross_entropy(near, right)

    def optimizer(p: Any) -> Any:
        return torch.optim.SGD(p, 0.1, 0.9, nesterov=True)

    return trained(nn.Sequential(*parts), loss, optimizer, short, compiled, last=True)


class Forecast(nn.Module):
    """Each block explains a part of the past."""

    def __init__(self, s: Any):
        super().__init__()
        self.blocks = nn.ModuleList()
        for _ in range(s.blocks):
            parts: list = []
            for j in range(4):
                parts += [nn.Linear(s.d if j else s.back, s.d), nn.ReLU()]
            self.blocks.append(nn.ModuleList([nn.Sequential(*parts), nn.Linear(s.d, s.back), nn.Linear(s.d, s.ahead)]))

    def forward(self, left: Any) -> Any:
        total = 0.0
        for body, back, ahead in self.blocks:
            h = body(left)
            left, total = left - back(h), total + ahead(h)
        return total


def forecast(s: Any, given: list, short: bool, compiled: bool) -> Callable:
    """Series."""
    x, y = given
    return trained(Forecast(s), lambda m: F.huber_loss(m(x), y), adam(1e-3), short, compiled)


def ode(s: Any, given: list, short: bool, compiled: bool) -> Callable:
    """A network is the slope of a curve through x and y."""
    x, y = given
    slope = nn.Sequential(nn.Linear(s.d, s.h), nn.Tanh(), nn.Linear(s.h, s.h), nn.Tanh(), nn.Linear(s.h, s.d))

    def loss(m: Any) -> Any:
        now, width = x, 1.0 / s.steps
        for _ in range(s.steps):
            a = m(now)
            b = m(now + 0.5 * width * a)
            c = m(now + 0.5 * width * b)
            now = now + width / 6.0 * (a + 2.0 * b + 2.0 * c + m(now + width * c))
        return F.mse_loss(now, y)

    return trained(slope, loss, adam(1e-3), short, compiled)


class Items(nn.Module):
    """What is bought next."""

    def __init__(self, s: Any):
        super().__init__()
        self.s, self.table, self.places = s, nn.Embedding(s.items, s.d), nn.Embedding(s.t, s.d)
        self.q, self.kv, self.out = (nn.ModuleList(nn.Linear(s.d, k * s.d) for _ in range(2)) for k in (1, 2, 1))
        self.norms = nn.ModuleList(nn.LayerNorm(s.d, 1e-3) for _ in range(4))
        self.feeds = nn.ModuleList(
            nn.Sequential(nn.Linear(s.d, s.d), nn.ReLU(), nn.Dropout(0.2), nn.Linear(s.d, s.d)) for _ in range(2)
        )

    def forward(self, ids: Any) -> Any:
        s, (n, t) = self.s, (ids.shape[0], ids.shape[1] - 1)
        wrong = torch.randint(1, s.items, (n, t), device=ids.device)
        h = self.table(ids[:, :-1]) * s.d**0.5 + self.places(torch.arange(t, device=ids.device))
        for j in range(2):
            q = self.q[j](self.norms[2 * j](h)).view(n, t, s.heads, -1).transpose(1, 2)
            k, v = self.kv[j](h).view(n, t, 2, s.heads, -1).permute(2, 0, 3, 1, 4)
            a = F.scaled_dot_product_attention(q, k, v, dropout_p=0.2, is_causal=True)
            h = h + self.out[j](a.transpose(1, 2).reshape(n, t, s.d))
            h = h + self.feeds[j](self.norms[2 * j + 1](h))
        good, bad = ((h * self.table(x)).sum(-1) for x in (ids[:, 1:], wrong))
        return (F.softplus(-good) + F.softplus(bad)).mean()


def items(s: Any, given: list, short: bool, compiled: bool) -> Callable:
    """Histories of three lengths in turns."""
    turns = itertools.cycle(given)
    model = Items(s)
    run = torch.compile(model, dynamic=False) if compiled else model
    return trained(model, lambda m: run(next(turns)), adam(1e-3), short, False)


STEPS = {f.__name__: f for f in (pointer, views, forecast, ode, items)}
