"""The options of embedding variables, with DeepRec's names: which keys are admitted, which are evicted, where rows are kept."""
from __future__ import annotations

import dataclasses
import enum
import zlib
from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.kernels import keyed
from penstock._src.kernels.keyed import KeyedConfig
from penstock._src.state.variables import initializers


@export(v1=["CounterFilter"])
@dataclasses.dataclass
class CounterFilter:
    """Admits a key when it has been looked up `filter_freq` times. The counts are exact.

    >>> tf.EmbeddingVariableOption(filter_option=tf.CounterFilter(filter_freq=3))
    """

    filter_freq: int = 0


@export(v1=["CBFFilter"])
@dataclasses.dataclass
class CBFFilter:
    """Admits a key when it has been looked up about `filter_freq` times: a counting Bloom filter, of bounded size, counts."""

    filter_freq: int = 0
    max_element_size: int = 0
    false_positive_probability: float = -1.0
    counter_type: Any = dtypes.uint64

    def __post_init__(self) -> None:
        if self.false_positive_probability != -1.0 and not 0.0 < self.false_positive_probability < 1.0:
            raise ValueError(f"false_positive_probability must be between 0 and 1, got {self.false_positive_probability}")
        if self.false_positive_probability != -1.0 and self.max_element_size <= 0:
            raise ValueError(f"max_element_size must be positive, got {self.max_element_size}")


@export(v1=["ProbabilityFilter"])
@dataclasses.dataclass
class ProbabilityFilter:
    """Admits a new key with a probability each time that it is looked up. It needs no memory."""

    probability: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.probability <= 1.0:
            raise ValueError(f"probability must be between 0 and 1, got {self.probability}")


@export(v1=["GlobalStepEvict"])
@dataclasses.dataclass
class GlobalStepEvict:
    """Evicts keys that were not updated for `steps_to_live` steps, when a checkpoint is saved."""

    steps_to_live: int | None = None


@export(v1=["L2WeightEvict"])
@dataclasses.dataclass
class L2WeightEvict:
    """Evicts keys whose embedding has a norm below `l2_weight_threshold`, when a checkpoint is saved."""

    l2_weight_threshold: float = -1.0


class StorageType(enum.IntEnum):
    """Where rows are kept: the tiers, fastest first, with DeepRec's numbers."""

    DEFAULT = 0
    DRAM = 1
    PMEM_MEMKIND = 2
    PMEM_LIBPMEM = 3
    SSDHASH = 4
    LEVELDB = 5
    HBM = 6
    DRAM_PMEM = 11
    DRAM_SSDHASH = 12
    HBM_DRAM = 13
    DRAM_LEVELDB = 14
    DRAM_PMEM_SSDHASH = 101
    HBM_DRAM_SSDHASH = 102


class CacheStrategy(enum.IntEnum):
    """Which rows leave a tier first."""

    LRU = 0
    LFU = 1


@export(v1=["StorageOption"])
@dataclasses.dataclass
class StorageOption:
    """Where rows are kept. `storage_size` bounds the rows of each tier but the last, in bytes of values.

    With the type `DRAM_SSDHASH`, rows that leave memory are kept in files under `storage_path`; without, they are dropped.
    With `HBM_DRAM` and `HBM_DRAM_SSDHASH`, the rows of recent keys are in the memory of the GPU that the variable is placed on.

    >>> tf.StorageOption("HBM_DRAM", storage_size=[1 << 30])
    """

    storage_type: Any = None
    storage_path: str | None = None
    storage_size: Any = None
    cache_strategy: Any = CacheStrategy.LRU
    layout: Any = None
    capacity: int | None = None           # rows in host memory, in place of `storage_size`
    device_capacity: int | None = None    # rows in the memory of a GPU, in place of `storage_size`


@export(v1=["InitializerOption"])
@dataclasses.dataclass
class InitializerOption:
    """Initial values of rows. An initializer that is not a simple distribution creates `default_value_dim` rows, which keys
    share."""

    initializer: Any = None
    default_value_dim: int = 4096
    default_value_no_permission: float = 0.0

    def __post_init__(self) -> None:
        if self.default_value_dim <= 0:
            raise ValueError(f"default_value_dim must be positive, got {self.default_value_dim}")


@export(v1=["CheckpointOption"])
@dataclasses.dataclass
class CheckpointOption:
    """A checkpoint from which the variable is initialized."""

    ckpt_to_load_from: str | None = None
    tensor_name_in_ckpt: str | None = None
    always_load_from_specific_ckpt: bool = False
    init_data_source: Any = None


@export(v1=["EmbeddingVariableOption"])
@dataclasses.dataclass
class EmbeddingVariableOption:
    """All options of an embedding variable.

    >>> option = tf.EmbeddingVariableOption(filter_option=tf.CounterFilter(3), evict_option=tf.GlobalStepEvict(4000))
    """

    ht_type: str = ""
    ht_partition_num: int = 1000
    evict_option: Any = None
    ckpt: Any = None
    filter_option: Any = None
    storage_option: Any = dataclasses.field(default_factory=StorageOption)
    init_option: Any = dataclasses.field(default_factory=InitializerOption)


def _admission(option: Any) -> dict[str, Any]:
    if option is None:
        return {}
    if isinstance(option, CounterFilter):
        return {"admission": keyed.ADMIT_COUNTED, "threshold": int(option.filter_freq)}
    if isinstance(option, ProbabilityFilter):
        return {"admission": keyed.ADMIT_PROBABLY, "probability": float(option.probability)}
    if isinstance(option, CBFFilter):
        if option.false_positive_probability == -1.0:
            return {"admission": keyed.ADMIT_COUNTED, "threshold": int(option.filter_freq)}
        return {"admission": keyed.ADMIT_BLOOM, "threshold": int(option.filter_freq),
                "bloom_items": int(option.max_element_size), "bloom_error": float(option.false_positive_probability)}
    raise TypeError(f"filter_option must be a CounterFilter, a CBFFilter or a ProbabilityFilter, got {option!r}")


def _eviction(option: Any) -> dict[str, Any]:
    if option is None:
        return {}
    if isinstance(option, GlobalStepEvict):
        return {"steps_to_live": int(option.steps_to_live or 0)}
    if isinstance(option, L2WeightEvict):
        return {"l2_threshold": float(option.l2_weight_threshold)}
    raise TypeError(f"evict_option must be a GlobalStepEvict or an L2WeightEvict, got {option!r}")


_DEVICE_BYTES = 1 << 30         # of values in the memory of a GPU, if nothing is said


def _storage(option: Any, dim: int) -> dict[str, Any]:
    if option is None:
        return {}
    tiers = _tiers(option.storage_type)
    sizes = list(option.storage_size) if isinstance(option.storage_size, (list, tuple)) else [option.storage_size or 0]
    rows = [max(1, int(size) // (4 * dim)) if size else 0 for size in sizes]
    made: dict[str, Any] = {"storage": "", "policy": keyed.LEAST_RECENT}
    if "HBM" in tiers:
        first = rows.pop(0)
        made["device_rows"] = min(option.device_capacity or first or max(1, _DEVICE_BYTES // (4 * dim)), (1 << 31) - 1)
    if _ON_DISK & set(tiers):
        if not option.storage_path:
            raise ValueError(f"storage_type {'_'.join(tiers)} needs a storage_path")
        made["storage"] = option.storage_path
    if getattr(option.cache_strategy, "name", "") == "LFU" or option.cache_strategy == CacheStrategy.LFU:
        made["policy"] = keyed.LEAST_FREQUENT
    return {**made, "capacity": option.capacity or next(iter(rows), 0)}


_ON_DISK = {"SSDHASH", "LEVELDB"}


def _tiers(kind: Any) -> list[str]:
    """The tiers that a storage type names; a type is a StorageType, its number or its name."""
    if isinstance(kind, int):
        kind = StorageType(kind)
    tiers = (getattr(kind, "name", kind) or "DEFAULT").split("_")
    if "PMEM" in tiers:
        raise ValueError(f"storage_type {'_'.join(tiers)} is not supported: there is no tier in persistent memory")
    unknown = set(tiers) - {"DEFAULT", "HBM", "DRAM"} - _ON_DISK
    if unknown:
        raise ValueError(f"Unknown storage_type {'_'.join(tiers)}; types are {', '.join(StorageType.__members__)}")
    return tiers


_UNIFORM = (initializers.RandomUniform, initializers.RandomUniformV2)
_NORMAL = (initializers.RandomNormal, initializers.RandomNormalV2)
_TRUNCATED = (initializers.TruncatedNormal, initializers.TruncatedNormalV2)


def _beginning(initializer: Any) -> dict[str, Any]:
    """The initial values of rows: computed from the key if possible, else from a matrix of the initializer (POOL)."""
    number = constant_of(initializer)
    if number is not None:
        return {"start": keyed.CONSTANT, "start_a": number}
    for kinds, start, names in ((_UNIFORM, keyed.UNIFORM, ("minval", "maxval")), (_NORMAL, keyed.NORMAL, ("mean", "stddev")),
                                (_TRUNCATED, keyed.TRUNCATED, ("mean", "stddev"))):
        if isinstance(initializer, kinds):
            a, b = (getattr(initializer, n) for n in names)
            b = 1.0 if b is None else b
            if isinstance(a, (int, float)) and isinstance(b, (int, float)):
                return {"start": start, "start_a": float(a), "start_b": float(b)}
    return {"start": keyed.POOL}


def constant_of(initializer: Any) -> float | None:
    """The constant of an initializer; None if it is not constant."""
    if isinstance(initializer, (int, float)):
        return float(initializer)
    if isinstance(initializer, (initializers.Zeros, initializers.ZerosV2)):
        return 0.0
    if isinstance(initializer, (initializers.Ones, initializers.OnesV2)):
        return 1.0
    value = getattr(initializer, "value", None)
    return float(value) if isinstance(value, (int, float)) else None


def config_of(name: str, dim: int, initializer: Any, option: Any, part: int = 0, parts: int = 1) -> KeyedConfig:
    """The configuration of a table. Without a seed, rows depend on the name of the variable."""
    seed = getattr(initializer, "seed", None)
    made = KeyedConfig(dim=int(dim), seed=zlib.crc32(name.encode()) if seed is None else int(seed), part=part, parts=parts,
                       refused=float(option.init_option.default_value_no_permission if option.init_option else 0.0),
                       **_beginning(initializer), **_admission(option.filter_option), **_eviction(option.evict_option),
                       **_storage(option.storage_option, dim))
    made.check()
    return made
