"""Codecs for code that holds torch tensors: collectives encode what they send, and decode what they receive.

They are what `collective` takes as codecs. A codec's ops are compiled once for each dtype, for any number of
elements. `RememberingCodec` adds error feedback.

    coder = ArrayCodec("top_k")
    parts = coder.encode(chunk)                            # a list of torch tensors: what travels
    chunk = coder.decode(parts, size, torch.float32)       # a vector
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from penstock._src.base import dtypes
from penstock._src.eager.function import Function
from penstock._src.graph import context
from penstock._src.graph.eager_tensor import EagerTensor
from penstock._src.graph.type_spec import TensorSpec
from penstock._src.models.compression.codec import as_codec


class ArrayCodec:
    """A codec on torch vectors. May be used by several threads."""

    def __init__(self, codec: Any):
        self.codec = as_codec(codec)
        self.linear = not self.codec.lossy            # encoded arrays may be added up
        self._compiled: dict[torch.dtype, tuple[Callable, Callable]] = {}

    def encode(self, x: torch.Tensor) -> list[torch.Tensor]:
        """The encoded form of a floating-point tensor."""
        return self._run(self._programs(x.dtype)[0], x.reshape(-1))

    def decode(self, parts: list[torch.Tensor], size: int, dtype: torch.dtype) -> torch.Tensor:
        """Decodes the parts to a vector."""
        return self._run(self._programs(dtype)[1], *parts, torch.tensor(size, dtype=torch.int32))[0]

    def _programs(self, dtype: torch.dtype) -> tuple[Callable, Callable]:
        if dtype not in self._compiled:
            ours = dtypes.as_dtype(dtype)
            with context.enter(None):
                encode = Function(self.codec.encode, input_signature=[TensorSpec([None], ours)], autograph=False)
                made = encode.get_concrete_function()
                parts = [TensorSpec(t.shape, t.dtype) for t in made.outputs]
                decode = Function(lambda *given: [self.codec.decode(list(given[:-1]), given[-1], ours)],
                                  input_signature=[*parts, TensorSpec([], dtypes.int32)], autograph=False)
                self._compiled[dtype] = made, decode.get_concrete_function()
        return self._compiled[dtype]

    @staticmethod
    def _run(program: Callable, *values: torch.Tensor) -> list[torch.Tensor]:
        with context.enter(None):
            return [t._value for t in program(*(EagerTensor(v, dtypes.as_dtype(v.dtype)) for v in values))]


class RememberingCodec(ArrayCodec):
    """A codec with error feedback, for one array that is sent repeatedly: the error is added to the next one."""

    def __init__(self, codec: Any):
        super().__init__(codec)
        self.rest: torch.Tensor | None = None

    def encode(self, x: torch.Tensor) -> list[torch.Tensor]:
        """Encodes `x` plus the error of earlier calls."""
        total = x.reshape(-1) if self.rest is None else x.reshape(-1) + self.rest
        parts = super().encode(total)
        if self.codec.lossy:
            rest = total - self.decode(parts, total.numel(), total.dtype)
            self.rest = torch.where(rest.isfinite(), rest, 0)
        return parts
