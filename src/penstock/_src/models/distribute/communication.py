"""Options for the communication between workers of a strategy."""
from __future__ import annotations

import enum
from typing import Any

from penstock._src.base.api import export


@export(v1=["distribute.experimental.CollectiveCommunication"],
        v2=["distribute.experimental.CollectiveCommunication", "distribute.experimental.CommunicationImplementation"])
class CollectiveCommunication(enum.Enum):
    """AUTO measures and selects the fastest; RING is a ring all-reduce; NCCL is for GPUs.

    >>> tf.distribute.experimental.MultiWorkerMirroredStrategy(tf.distribute.experimental.CollectiveCommunication.RING)
    """

    AUTO = "AUTO"
    RING = "RING"
    NCCL = "NCCL"


@export(v2=["distribute.experimental.CommunicationOptions"])
class CommunicationOptions:
    """How values are reduced between workers: in packs of about `bytes_per_pack` (0: all in one), for at most
    `timeout_seconds`, by an implementation. With `overlap`, packs of gradients travel while the backward pass continues, in the
    order in which they are there; with `prioritize`, those of the first layers, which the next forward pass needs first,
    before others that are there.

    >>> tf.distribute.experimental.CommunicationOptions(bytes_per_pack=4 << 20, timeout_seconds=120.0)
    """

    def __init__(self, bytes_per_pack: int = 0, timeout_seconds: float | None = None,
                 implementation: Any = CollectiveCommunication.AUTO, *, overlap: bool = False, prioritize: bool = False):
        if bytes_per_pack < 0:
            raise ValueError(f"bytes_per_pack must be >=0, got {bytes_per_pack}.")
        self.bytes_per_pack, self.timeout_seconds = bytes_per_pack, timeout_seconds
        self.overlap, self.prioritize = overlap or prioritize, prioritize
        self.implementation = CollectiveCommunication(implementation) if isinstance(implementation, str) else implementation
        if not isinstance(self.implementation, CollectiveCommunication):
            raise ValueError(f"implementation must be a CommunicationImplementation, got {implementation!r}.")


@export(v2=["distribute.experimental.CollectiveHints"])
class CollectiveHints:
    """The older name of CommunicationOptions: it creates one."""

    def __new__(cls, bytes_per_pack: int = 0, timeout_seconds: float | None = None) -> CommunicationOptions:     # type: ignore[misc]
        return CommunicationOptions(bytes_per_pack, timeout_seconds)
