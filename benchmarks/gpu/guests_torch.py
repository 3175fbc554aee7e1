"""The models of guests.py in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from guests import S, data
from others_torch import DEVICE, adam, images, measured, trained
from torch import nn

BF16 = ("gates", "speech")


def prepared(name: str, compiled: bool) -> tuple[Callable, Callable, None, Callable]:
    """See others.prepared."""
    return measured(STEPS[name], S[name], data(name), name in BF16, compiled)


# -- images ------------------------------------------------------------------------------------------------------------------
class Gates(nn.Module):
    """What goes down the U is let through to the other side by a gate that sees both."""

    def __init__(self, s: Any):
        super().__init__()
        widths = [s.c << j for j in range(s.levels + 1)]
        self.down = nn.ModuleList(self.double(3 if not j else widths[j - 1], w) for j, w in enumerate(widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in widths[:-1])
        self.join = nn.ModuleList(self.double(2 * w, w) for w in widths[:-1])
        self.skips = nn.ModuleList(nn.Conv2d(w, w // 2, 1) for w in widths[:-1])
        self.below = nn.ModuleList(nn.Conv2d(w, w // 2, 1) for w in widths[:-1])
        self.gate = nn.ModuleList(nn.Conv2d(w // 2, 1, 1) for w in widths[:-1])
        self.out = nn.Conv2d(s.c, 8, 1)

    @staticmethod
    def double(i: int, c: int) -> nn.Module:
        """Two convolutions with their norms."""
        parts: list = []
        for j in (i, c):
            parts += [nn.Conv2d(j, c, 3, 1, 1, bias=False), nn.BatchNorm2d(c), nn.ReLU(True)]
        return nn.Sequential(*parts)

    def forward(self, x: Any) -> Any:
        kept = []
        for j, part in enumerate(self.down):
            x = part(x)
            if j < len(self.up):
                kept.append(x)
                x = F.max_pool2d(x, 2)
        for j in reversed(range(len(self.up))):
            x = self.up[j](x)
            gate = torch.sigmoid(self.gate[j](F.relu(self.skips[j](kept[j]) + self.below[j](x))))
            x = self.join[j](torch.cat([kept[j] * gate, x], 1))
        return self.out(x)


def gates(s: Any, given: list, short: bool, compiled: bool) -> Callable:
    """Segmentation."""
    x, y = images(given[0]), given[1]
    return trained(Gates(s), lambda m: F.cross_entropy(m(x).float(), y), adam(1e-3), short, compiled, last=True)


class Residual(nn.Module):
    """Two convolutions beside the input."""

    def __init__(self, c: int):
        super().__init__()
        self.net = nn.Sequential(nn.ReLU(), nn.Conv2d(c, c // 2, 3, 1, 1), nn.ReLU(), nn.Conv2d(c // 2, c, 1))

    def forward(self, x: Any) -> Any:
        return x + self.net(x)


class Codes(nn.Module):
    """An encoder, codes, and a decoder."""

    def __init__(self, s: Any):
        super().__init__()
        c = s.c
        self.encoder = nn.Sequential(
            nn.Conv2d(3, c, 4, 2, 1), nn.ReLU(), nn.Conv2d(c, c, 4, 2, 1), Residual(c), Residual(c), nn.Conv2d(c, 64, 1)
        )
        self.decoder = nn.Sequential(
            nn.Conv2d(64, c, 3, 1, 1), Residual(c), Residual(c), nn.ConvTranspose2d(c, c, 4, 2, 1), nn.ReLU(),
            nn.ConvTranspose2d(c, 3, 4, 2, 1),
        )
        table = torch.randn(s.codes, 64)
        self.register_buffer("table", table)
        self.register_buffer("sums", table.clone())
        self.register_buffer("counts", torch.ones(s.codes))

    def forward(self, x: Any) -> Any:
        z = self.encoder(x)
        flat = z.permute(0, 2, 3, 1).reshape(-1, 64)
        far = (flat**2).sum(1, keepdim=True) - 2 * flat @ self.table.T + (self.table**2).sum(1)
        chosen = far.argmin(1)
        q = self.table[chosen].view(z.shape[0], z.shape[2], z.shape[3], 64).permute(0, 3, 1, 2)
        out = self.decoder(z + (q - z).detach())
        with torch.no_grad():
            hot = F.one_hot(chosen, self.table.shape[0]).float()
            self.counts.mul_(0.99).add_(hot.sum(0), alpha=0.01)
            self.sums.mul_(0.99).add_(hot.T @ flat, alpha=0.01)
            self.table.copy_(self.sums / (self.counts[:, None] + 1e-5))
        return F.mse_loss(out, x) + 0.25 * F.mse_loss(z, q.detach())


def codes(s: Any, given: list, short: bool, compiled: bool) -> Callable:
    """A VQ-VAE."""
    x = images(given[0])
    return trained(Codes(s), lambda m: m(x), adam(3e-4), short, compiled, last=True)


# -- sound -------------------------------------------------------------------------------------------------------------------
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


def speech(s: Any, given: list, short: bool, compiled: bool) -> Callable:
    """Classes of sounds."""
    x, y = given

    def optimizer(p: Any) -> Any:
        return torch.optim.AdamW(p, 1e-4, weight_decay=0.01, fused=True)

    return trained(Speech(s), lambda m: F.cross_entropy(m(x).float(), y), optimizer, short, compiled)


# -- words and tables --------------------------------------------------------------------------------------------------------
class Translator(nn.Module):
    """An encoder over lengths, and a decoder that looks at its states."""

    def __init__(self, s: Any):
        super().__init__()
        self.s, self.words, self.encoder = s, nn.Embedding(s.words, s.d), nn.GRU(s.d, s.d, batch_first=True)
        self.keys, self.ask, self.weigh = nn.Linear(s.d, s.d, bias=False), nn.Linear(s.d, s.d), nn.Parameter(torch.randn(s.d))
        self.cell, self.out = nn.GRUCell(2 * s.d, s.d), nn.Linear(2 * s.d, s.words)

    def forward(self, ids: Any, lengths: Any, target: Any) -> Any:
        states, _ = self.encoder(self.words(ids))
        seen = torch.arange(self.s.t, device=ids.device) < lengths[:, None]
        states = states * seen[:, :, None]
        h = states[torch.arange(self.s.n, device=ids.device), (lengths - 1).long()]
        keys, given, out = self.keys(states), self.words(target[:, :-1]), []
        for i in range(self.s.t):
            scores = (torch.tanh(keys + self.ask(h)[:, None]) * self.weigh).sum(-1)
            now = (scores.masked_fill(~seen, -1e9).softmax(-1)[:, :, None] * states).sum(1)
            h = self.cell(torch.cat([given[:, i], now], 1), h)
            out.append(torch.cat([h, now], 1))
        logits = self.out(torch.stack(out, 1))
        each = F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), reduction="none").view(seen.shape)
        return (each * seen).sum() / lengths.sum()


def translator(s: Any, given: list, short: bool, compiled: bool) -> Callable:
    """Words to words."""
    return trained(Translator(s), lambda m: m(*given), adam(1e-3), short, compiled, clip=5.0)


class Factors(nn.Module):
    """Products of pairs of fields, and layers over all."""

    def __init__(self, s: Any):
        super().__init__()
        self.s = s
        self.table = nn.Embedding(s.fields * s.rows, s.d, sparse=True)
        self.single = nn.Embedding(s.fields * s.rows, 1, sparse=True)
        nn.init.normal_(self.table.weight, std=0.01)
        nn.init.zeros_(self.single.weight)
        parts: list = []
        for i in (s.fields * s.d, 400, 400):
            parts += [nn.Linear(i, 400), nn.ReLU(), nn.Dropout(0.1)]
        self.deep = nn.Sequential(*parts, nn.Linear(400, 1))

    def forward(self, ids: Any, y: Any) -> Any:
        places = ids + torch.arange(self.s.fields, device=ids.device) * self.s.rows
        rows = self.table(places)
        pairs = 0.5 * (rows.sum(1) ** 2 - (rows**2).sum(1)).sum(1)
        logits = self.single(places).sum((1, 2)) + pairs + self.deep(rows.flatten(1))[:, 0]
        return F.binary_cross_entropy_with_logits(logits, y)


def factors(s: Any, given: list, short: bool, compiled: bool) -> Callable:
    """Clicks; the tables have an optimizer for the rows that were used."""
    model = Factors(s).to(DEVICE)
    rare = torch.optim.SparseAdam([model.table.weight, model.single.weight], 1e-3)
    often = torch.optim.Adam(model.deep.parameters(), 1e-3, fused=DEVICE == "cuda")
    run = torch.compile(model) if compiled else model

    def step() -> Any:
        loss = run(*given)
        model.zero_grad(set_to_none=True)
        loss.backward()
        rare.step()
        often.step()
        return loss.detach()

    return step


STEPS = {f.__name__: f for f in (gates, speech, translator, factors, codes)}
