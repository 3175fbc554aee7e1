"""The geometry of sliding windows, shared by convolution, pooling and morphology.

A data format is a string such as "NHWC" or "NCDHW". *Spatial* means the axes between batch and channel, in order.
Kernels work channels first, because ATen does: a contiguous NHWC tensor seen as NCHW is ATen's channels-last layout, so inputs
and outputs are not copied.
"""
from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from penstock._src.base import errors

Pair = tuple[int, int]


def channels_first(data_format: str) -> bool:
    """Whether the channel axis comes before the spatial ones."""
    return data_format[1] == "C"


def channel_axis(data_format: str) -> int:
    """The index of the channel axis."""
    return data_format.index("C")


def spatial(values: Sequence, data_format: str) -> tuple:
    """The spatial part of a list with one entry per axis."""
    return tuple(values[2:]) if channels_first(data_format) else tuple(values[1:-1])


def assemble(batch: Any, space: Sequence, channels: Any, data_format: str) -> tuple:
    """A shape in the data format from its parts."""
    return (batch, channels, *space) if channels_first(data_format) else (batch, *space, channels)


@functools.cache
def orders(rank: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The permutation from channels last to channels first, and its inverse."""
    return (0, rank - 1, *range(1, rank - 1)), (0, *range(2, rank), 1)


def to_channels_first(x: torch.Tensor, data_format: str) -> torch.Tensor:
    """A view with the channels at axis 1."""
    return x if data_format[1] == "C" else x.permute(orders(x.ndim)[0])


def from_channels_first(x: torch.Tensor, data_format: str) -> torch.Tensor:
    """The inverse view of `to_channels_first`."""
    return x if data_format[1] == "C" else x.permute(orders(x.ndim)[1])


# -- sizes -----------------------------------------------------------------------------------------------------------
def output_size(size: int | None, window: int | None, stride: int, padding: str, pads: Pair = (0, 0),
                dilation: int = 1) -> int | None:
    """The number of windows along one axis; None if it is unknown; ValueError if none fits."""
    if padding == "SAME":
        return None if size is None else -(-size // stride)
    if size is None or window is None:
        return None
    reach, room = (window - 1) * dilation + 1, size + sum(pads)
    if room < reach and size:
        raise ValueError(f"Negative dimension size caused by subtracting {reach} from {room}")
    return max(0, (room - reach) // stride + 1)


def pads_of(size: int, window: int, stride: int, padding: str, explicit: Pair = (0, 0), dilation: int = 1) -> Pair:
    """The padding before and after the elements of one axis."""
    if padding == "VALID":
        return 0, 0
    if padding == "EXPLICIT":
        return explicit
    total = max(0, (-(-size // stride) - 1) * stride + (window - 1) * dilation + 1 - size)
    return total // 2, total - total // 2


def explicit_pads(explicit_paddings: Sequence[int], data_format: str) -> tuple[Pair, ...]:
    """The flat attribute (before and after for each axis) as pairs for the spatial axes; empty if the attribute is."""
    if not explicit_paddings:
        return ()
    pairs = list(zip(explicit_paddings[::2], explicit_paddings[1::2], strict=True))
    return spatial(pairs, data_format)


def check_explicit(padding: str, explicit_paddings: Sequence[int], data_format: str) -> None:
    """Refuses explicit paddings that do not fit the padding mode or the data format (InvalidArgumentError)."""
    if padding != "EXPLICIT":
        if explicit_paddings:
            raise errors.invalid("explicit_paddings attribute must be empty if the padding attribute is not EXPLICIT")
        return
    if len(explicit_paddings) != 2 * len(data_format):
        raise errors.invalid(f"explicit_paddings attribute must contain {2 * len(data_format)} values, but got: "
                         f"{len(explicit_paddings)}")
    if any(p < 0 for p in explicit_paddings):
        raise errors.invalid(f"All elements of explicit_paddings must be nonnegative: {list(explicit_paddings)}")
    channel = channel_axis(data_format)
    if any(explicit_paddings[:2]) or any(explicit_paddings[2 * channel:2 * channel + 2]):
        raise errors.invalid("Nonzero explicit padding in the batch or depth dimensions is not supported")


def check_steps(name: str, values: Sequence[int], data_format: str, what: str = "strides") -> None:
    """Refuses strides or dilations that are not positive, or not one along batch and channels (InvalidArgumentError)."""
    if len(values) != len(data_format):
        raise errors.invalid(f"{name} requires the {what.rstrip('s')} attribute to contain {len(data_format)} values, but "
                         f"got: {len(values)}")
    if any(v <= 0 for v in values):
        raise errors.invalid(f"{name} requires all {what} to be positive, got {list(values)}")
    if values[0] != 1 or values[channel_axis(data_format)] != 1:
        raise errors.UnimplementedError(None, None, f"Current implementation does not yet support {what} in the batch and "
                                                    "depth dimensions.")


def sequence(value: Any, n: int, data_format: str, name: str) -> list[int]:
    """Strides or dilations for all axes from one number, one per spatial axis, or one per axis."""
    value = [1] if value is None else list(value) if isinstance(value, Iterable) else [value]
    if len(value) == n + 2:
        return value
    if len(value) not in (1, n):
        raise ValueError(f"{name} should be of length 1, {n} or {n + 2} but was {len(value)}")
    space = value * n if len(value) == 1 else value
    return list(assemble(1, space, 1, data_format))


def checked(rule: Any, *args: Any) -> Any:
    """A geometry function in a kernel: its ValueError becomes an InvalidArgumentError."""
    try:
        return rule(*args)
    except ValueError as e:
        raise errors.invalid(str(e)) from None
