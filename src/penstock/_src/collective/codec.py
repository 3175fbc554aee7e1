"""The interface of compression: a codec defines how data is encoded on the wire.

A codec that is `linear` (encode(x) + encode(y) may be added before decoding, as with fewer bits per number) is used with any
algorithm: its encoded arrays are reduced. With all others, the encoded arrays of all members are gathered, decoded, and added
up in the order of the members, so that all get the same bits; what the encoding has lost is the codec's to remember.
"""
from __future__ import annotations

from typing import Protocol

import torch


class Codec(Protocol):
    """How data is encoded for a reduction."""

    linear: bool

    def encode(self, data: torch.Tensor) -> list[torch.Tensor]:
        """Arrays that represent a vector; one, if the codec is linear."""

    def decode(self, parts: list[torch.Tensor], size: int, dtype: torch.dtype) -> torch.Tensor:
        """The vector of `size` numbers that the arrays represent."""


class Cast:
    """Fewer bits per number: a linear codec.

    >>> group.all_reduce(gradient, codec=Cast(torch.bfloat16))
    """

    linear = True

    def __init__(self, dtype: torch.dtype):
        self.dtype = dtype

    def encode(self, data: torch.Tensor) -> list[torch.Tensor]:
        """The numbers in the smaller type."""
        return [data.to(self.dtype)]

    def decode(self, parts: list[torch.Tensor], size: int, dtype: torch.dtype) -> torch.Tensor:
        """The numbers in their own type."""
        return parts[0].to(dtype)
