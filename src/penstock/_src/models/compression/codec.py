"""The base of codecs, which encode a vector as tensors to send, and decode those.

Codecs have no state. They are made of ops, so that the same one encodes in a graph on a worker and decodes on a parameter
server, runs eagerly, or (`arrays.py`) serves a collective that holds torch tensors. The error of a lossy codec is kept by
`memory.py`.
"""
from __future__ import annotations

import math
from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.ops.registry import get

KINDS: dict[str, type[Codec]] = {}


class Codec:
    """The base of the codecs. A subclass has a `kind`, `encode` and `decode`; its arguments are its `config`."""

    kind = ""
    lossy = True                 # what it leaves out is worth keeping for the next step
    sparsifies = False           # sends some elements, with their places

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        KINDS[cls.kind] = cls

    def encode(self, x: Any) -> list:
        """Encodes a floating-point vector as tensors."""
        raise NotImplementedError

    def decode(self, parts: list, size: Any, dtype: Any) -> Any:
        """Decodes the parts to a vector of `size` numbers."""
        raise NotImplementedError

    @property
    def config(self) -> dict[str, Any]:
        """The arguments that recreate the codec."""
        return dict(vars(self))

    def __repr__(self) -> str:
        given = ", ".join(f"{k}={v!r}" for k, v in self.config.items())
        return f"{type(self).__name__}({given})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.kind, *sorted(vars(self).items())))


@export("distribute.experimental.compression.NoCompression")
class NoCompression(Codec):
    """Numbers as they are; for comparisons."""

    kind, lossy = "none", False

    def encode(self, x: Any) -> list:
        """The numbers."""
        return [x]

    def decode(self, parts: list, size: Any, dtype: Any) -> Any:
        """The numbers."""
        return parts[0]


def as_codec(which: Any) -> Codec:
    """A codec, from itself, its kind, or what `described` returns."""
    if isinstance(which, Codec):
        return which
    kind, config = (which, {}) if isinstance(which, str) else (which["kind"], which["config"])
    if kind not in KINDS:
        raise ValueError(f"Unknown gradient codec {kind!r}. Known codecs: {', '.join(sorted(KINDS))}.")
    return KINDS[kind](**{k: as_codec(v) if isinstance(v, dict) else v for k, v in config.items()})


def described(codec: Codec) -> dict[str, Any]:
    """A codec as plain data, for configurations."""
    return {"kind": codec.kind, "config": {k: described(v) if isinstance(v, Codec) else v for k, v in codec.config.items()}}


def flat(x: Any) -> Any:
    """A tensor as a vector."""
    return get("Reshape")(x, [-1])


def static_size(shape: Any) -> int:
    """The number of elements of a shape that is known."""
    if shape.rank is None or None in shape.as_list():
        raise ValueError(f"A gradient of shape {shape} cannot be compressed: create the variable with a known shape.")
    return math.prod(shape.as_list())


def number_of_bytes(parts: list) -> Any:
    """The number of bytes of tensors, computed at run time (int64)."""
    sizes = [get("Size")(p, out_type=dtypes.int64) * p.dtype.size for p in parts]
    return get("AddN")(sizes)
