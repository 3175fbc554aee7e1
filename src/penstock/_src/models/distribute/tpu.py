"""TPU names as types, for programs that compare strategies with them. Constructors raise: there are no TPUs."""
from __future__ import annotations

import enum
from typing import Any, NamedTuple, NoReturn

from penstock._src.base import errors
from penstock._src.base.api import export
from penstock._src.models.distribute.strategy import Strategy

_NONE = "TPUs are not supported: use a strategy for CPUs or GPUs, such as tf.distribute.MirroredStrategy."


def refused(*args: Any, **kwargs: Any) -> NoReturn:
    raise errors.UnimplementedError(None, None, _NONE)


class _Absent:
    """The base of what needs a TPU."""

    __init__ = refused


@export(v2=["distribute.TPUStrategy"])
class TPUStrategy(Strategy):
    """Training on TPUs. The constructor raises UnimplementedError."""

    __init__ = refused


@export("distribute.experimental.TPUStrategy")
class TPUStrategyV1(TPUStrategy):
    """The older name of TPUStrategy."""


@export("distribute.cluster_resolver.TPUClusterResolver")
class TPUClusterResolver:
    """The tasks of a TPU. The constructor raises ValueError, which user programs handle as "no TPU"."""

    def __init__(self, *args: Any, **kwargs: Any):
        raise ValueError(_NONE)

    @staticmethod
    def connect(*args: Any, **kwargs: Any) -> NoReturn:
        """Raises ValueError."""
        raise ValueError(_NONE)


class XLAOptions(NamedTuple):
    """How XLA compiles what runs on TPUs."""
    use_spmd_for_xla_partitioning: bool = True
    enable_xla_dynamic_padder: bool = True


export.value(XLAOptions, v2=["tpu.XLAOptions"])


class TPUSystemMetadata(NamedTuple):
    """The components of a TPU system."""
    num_cores: int
    num_hosts: int
    num_of_cores_per_host: int
    topology: Any
    devices: Any


export.value(TPUSystemMetadata, v2=["tpu.experimental.TPUSystemMetadata"])


@export(v2=["tpu.experimental.DeviceOrderMode"])
class DeviceOrderMode(enum.IntEnum):
    """How the devices of a TPU system are numbered."""
    AUTO = 0
    RING = 1
    MESH = 2


def _absent(name: str, *public: str) -> None:
    made = type(name, (_Absent,), {"__doc__": "Needs a TPU: making one raises UnimplementedError.", "__module__": __name__})
    export.value(made, *public)


@export("tpu.experimental.HardwareFeature")
class HardwareFeature(_Absent):
    """The features of a TPU."""

    class EmbeddingFeature(enum.Enum):
        """Which embeddings a TPU has units for."""
        UNSUPPORTED = "UNSUPPORTED"
        V1 = "V1"
        V2 = "V2"


for _name in ("DeviceAssignment", "Topology"):
    _absent(_name, f"tpu.experimental.{_name}")
for _name in ("CustomCombiner", "CustomOptimizer", "SparseCoreEmbeddingConfig", "TPUEmbeddingV0", "TPUEmbeddingV2"):
    _absent(_name, f"tpu.experimental.embedding.{_name}")
export.value(refused, "tpu.experimental.initialize_tpu_system", "tpu.experimental.shutdown_tpu_system")
