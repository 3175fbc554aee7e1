"""The fused attention kernels of ATen, as calls in the graph of a step: FlashAttention, cuDNN's, the memory-efficient one, and
that of CPUs. Each is a class with `forward` and `backward`; `drops` if it has dropout, `derives_bias` if it returns
the gradient of a bias.
"""
from __future__ import annotations

import operator
from typing import Any

import torch

from penstock._src.step.tiers import views
from penstock._src.step.tiers.views import aten

_TILE = 64                           # rows and columns that cuDNN's kernels take at once


def kernel_for(device: str, dtype: torch.dtype, depth: int, value_depth: int, biased: bool, learned: bool,
               sizes: list) -> Any:
    """The fused kernel for these arguments, and for a gradient of the bias if it is learned; None if there is none."""
    if depth != value_depth:
        return None
    if device == "cpu":
        return _OnHost if dtype in (torch.float32, torch.bfloat16) else None
    short = dtype in (torch.bfloat16, torch.float16)
    if device != "cuda" or not (short or dtype is torch.float32) or depth % 8 != 0 or depth > 256:
        return None
    if biased and sizes[1] % 8:
        return None
    if short and not learned and _suits_cudnn(depth, sizes):
        return _CuDNN
    return _Flash if short and not biased else _Efficient


def _suits_cudnn(depth: int, sizes: list) -> bool:
    """Whether cuDNN has attention for this GPU, which is the faster one where the GPU multiplies groups of warps at once."""
    return torch.cuda.get_device_capability() >= (9, 0) and torch.backends.cuda.cudnn_sdp_enabled() and depth <= 128 and \
        min(sizes) >= _TILE and not torch.are_deterministic_algorithms_enabled()


def _several(g: torch.fx.Graph, node: torch.fx.Node, count: int) -> list:
    return [views.call(g, operator.getitem, (node, i)) for i in range(count)]


class _Flash:
    """FlashAttention: half precision, causal or without a mask."""

    drops, derives_bias = True, False

    @staticmethod
    def forward(g: torch.fx.Graph, q: Any, k: Any, v: Any, bias: Any, causal: bool, scale: float, rate: float) -> list:
        return _several(g, views.call(g, aten._scaled_dot_product_flash_attention.default, (q, k, v, rate, causal, False),
                                           {"scale": scale}), 8)

    @staticmethod
    def backward(g: torch.fx.Graph, of_out: Any, given: tuple, kept: list, bias: Any, causal: bool, scale: float, rate: float,
                 of_bias: bool) -> list:
        out, lse, cum_q, cum_k, max_q, max_k, seed, offset = kept
        return _several(g, views.call(g,
            aten._scaled_dot_product_flash_attention_backward.default,
            (of_out, *given, out, lse, cum_q, cum_k, max_q, max_k, rate, causal, seed, offset), {"scale": scale}), 3)


class _CuDNN:
    """cuDNN's attention: half precision, any mask that is not learned."""

    drops, derives_bias = True, False

    @staticmethod
    def forward(g: torch.fx.Graph, q: Any, k: Any, v: Any, bias: Any, causal: bool, scale: float, rate: float) -> list:
        return _several(g, views.call(g, aten._scaled_dot_product_cudnn_attention.default,
                                           (q, k, v, bias, True, rate, causal, False), {"scale": scale}), 8)

    @staticmethod
    def backward(g: torch.fx.Graph, of_out: Any, given: tuple, kept: list, bias: Any, causal: bool, scale: float, rate: float,
                 of_bias: bool) -> list:
        out, lse, cum_q, cum_k, max_q, max_k, seed, offset = kept
        return _several(g, views.call(g,
            aten._scaled_dot_product_cudnn_attention_backward.default,
            (of_out, *given, out, lse, seed, offset, bias, cum_q, cum_k, max_q, max_k, rate, causal), {"scale": scale}), 3)


class _Efficient:
    """Memory-efficient attention: any mask, also in single precision."""

    drops, derives_bias = True, True

    @staticmethod
    def forward(g: torch.fx.Graph, q: Any, k: Any, v: Any, bias: Any, causal: bool, scale: float, rate: float) -> list:
        return _several(g, views.call(g, aten._scaled_dot_product_efficient_attention.default,
                                           (q, k, v, bias, True, rate, causal), {"scale": scale}), 4)

    @staticmethod
    def backward(g: torch.fx.Graph, of_out: Any, given: tuple, kept: list, bias: Any, causal: bool, scale: float, rate: float,
                 of_bias: bool) -> list:
        out, lse, seed, offset = kept
        return _several(g, views.call(g,
            aten._scaled_dot_product_efficient_attention_backward.default,
            (of_out, *given, bias, out, lse, seed, offset, rate, [True, True, True, of_bias], causal), {"scale": scale}),
            4 if of_bias else 3)


class _OnHost:
    """ATen's fused attention on CPUs."""

    drops, derives_bias = False, False

    @staticmethod
    def forward(g: torch.fx.Graph, q: Any, k: Any, v: Any, bias: Any, causal: bool, scale: float, rate: float) -> list:
        return _several(g, views.call(g, aten._scaled_dot_product_flash_attention_for_cpu.default, (q, k, v, 0.0, causal),
                                           {"attn_mask": bias, "scale": scale}), 2)

    @staticmethod
    def backward(g: torch.fx.Graph, of_out: Any, given: tuple, kept: list, bias: Any, causal: bool, scale: float, rate: float,
                 of_bias: bool) -> list:
        return _several(g, views.call(g, aten._scaled_dot_product_flash_attention_for_cpu_backward.default,
                                           (of_out, *given, *kept, 0.0, causal), {"attn_mask": bias, "scale": scale}), 3)
