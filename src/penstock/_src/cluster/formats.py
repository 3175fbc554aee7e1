"""How float32 tensors travel between tasks: as they are, or with fewer bits.

GraphOptions.enable_bfloat16_sendrecv chooses bfloat16 for a session; PENSTOCK_WIRE_FORMAT chooses "bfloat16", "float16" or
"int8" for all sessions of a task. Eight bits are spread evenly between the least and the greatest element. Small tensors, and
tensors with elements that are not finite, are sent unchanged.
"""
from __future__ import annotations

from typing import Any

import torch

from penstock._src.base import errors, switches

FORMATS = ("bfloat16", "float16", "int8")
_LEAST = 16                         # elements


def chosen(config: Any) -> str:
    """The format for a session's transfers; empty for none."""
    if config.graph_options.enable_bfloat16_sendrecv:
        return "bfloat16"
    name = switches.WIRE_FORMAT.value()
    if name and name not in FORMATS:
        raise errors.invalid(f"Unknown PENSTOCK_WIRE_FORMAT {name!r}. Known formats: {', '.join(FORMATS)}.")
    return name


def encode(value: Any, how: str) -> tuple[Any, Any]:
    """The encoded value and the parameters for decoding it; None if the value is sent unchanged."""
    if not isinstance(value, torch.Tensor) or value.dtype is not torch.float32 or value.numel() < _LEAST:
        return value, None
    if how == "bfloat16":
        return value.to(torch.bfloat16), [how]
    least, greatest = (float(x) for x in value.aminmax())
    span = greatest - least
    if not -_HUGE < least <= greatest < _HUGE:
        return value, None
    if how == "float16":
        return (value.to(torch.float16), [how]) if max(-least, greatest) < 65504 else (value, None)
    scale = span / 255 or 1.0
    return ((value - least) / scale).round_().to(torch.uint8), [how, least, scale]


_HUGE = 1e38


def decode(value: Any, form: Any) -> Any:
    """The value that was sent."""
    if form is None:
        return value
    if form[0] == "int8":
        return value.to(torch.float32).mul_(float(form[2])).add_(float(form[1]))
    return value.to(torch.float32)
