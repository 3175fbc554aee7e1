"""What programs for PyTorch share: a training step, optimizers, and layers of several models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from benchmarks.gpu.measuring import Program

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def program(model: Any, sizes: Any, arrays: tuple, compiled: bool) -> Program:
    """The program of a model on the device, eager or compiled."""
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = torch.backends.cudnn.allow_tf32 = True
    given = [torch.from_numpy(a).to(DEVICE) for a in arrays]
    return Program(model.theirs(sizes, given, model.POLICY != "float32", compiled))


def trained(
    model: nn.Module,
    loss: Callable,
    optimizer: Callable,
    short: bool,
    compiled: bool,
    clip: float | None = None,
    last: bool = False,
) -> Callable:
    """A step of training, with channels last in memory if wanted; the compiler gets the model and its loss."""
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


class Feed(nn.Module):
    """The feed-forward part of a block."""

    def __init__(self, d: int):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x: Any) -> Any:
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Patches(nn.Module):
    """Patches of images, blocks, and a class."""

    def __init__(self, d: int, blocks: list):
        super().__init__()
        self.stem, self.blocks, self.out = nn.Conv2d(3, d, 16, 16), nn.Sequential(*blocks), nn.Linear(d, 100)

    def forward(self, x: Any) -> Any:
        return self.out(self.blocks(self.stem(x).flatten(2).transpose(1, 2)).mean(1))
