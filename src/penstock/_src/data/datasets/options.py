"""Options of datasets: typed, named values, which are merged along a pipeline."""
from __future__ import annotations

import enum
from typing import Any

from penstock._src.base.api import export
from penstock._src.data.datasets.stats import StatsAggregator


class _Option:
    """One option: a descriptor that checks the type of what is set."""

    def __init__(self, kind: Any, doc: str, default: Any = None):
        self.kind, self.default, self.__doc__ = kind, default, doc

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name
        owner._names = (*owner.__dict__.get("_names", ()), name)             # type: ignore[attr-defined]

    def __get__(self, instance: Any, owner: Any) -> Any:
        if instance is None:
            return self
        if self.name not in instance._values and self.default is not None:
            instance._values[self.name] = self.default()
        return instance._values.get(self.name)

    def __set__(self, instance: Any, value: Any) -> None:
        if value is not None and not isinstance(value, self.kind):
            raise TypeError(f"Property \"{self.name}\" must be of type {self.kind}, got: {value!r} (type: {type(value)})")
        instance._values[self.name] = value


class OptionsBase:
    """Named values; only those that are declared."""

    _names: tuple = ()

    def __init__(self) -> None:
        object.__setattr__(self, "_values", {})
        object.__setattr__(self, "_mutable", True)

    def __setattr__(self, name: str, value: Any) -> None:
        if not self._mutable:                                            # type: ignore[attr-defined]
            raise ValueError("Mutating `tf.data.Options()` returned by `tf.data.Dataset.options()` has no effect. Use "
                             "`tf.data.Dataset.with_options(options)` to set or update dataset options.")
        if not hasattr(type(self), name):
            raise AttributeError(f"Cannot set the property {name} on {type(self).__name__}.")
        object.__setattr__(self, name, value)

    def _set_mutable(self, mutable: bool) -> None:
        object.__setattr__(self, "_mutable", mutable)

    def _set(self) -> dict[str, Any]:
        """The options that were set; groups without set options are left out."""
        return {k: v for k, v in self._values.items()                    # type: ignore[attr-defined]
                if v is not None and not (isinstance(v, OptionsBase) and not v._set())}

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        return self._set() == other._set()

    def __ne__(self, other: Any) -> Any:
        result = self.__eq__(other)
        return result if result is NotImplemented else not result

    __hash__ = None                                                      # type: ignore[assignment]

    def merge(self, options: Any) -> Any:
        """These options, overridden by those that are set in others."""
        return merged(self, options)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in sorted(self._set().items()))})"


def merged(*options: Any) -> Any:
    """Merges several options; the last value that was set wins."""
    kind = type(options[0])
    for o in options:
        if type(o) is not kind:
            raise TypeError(f"Could not merge incompatible options of type {type(o)} and {kind}.")
    out = kind()
    for o in options:
        for name, value in o._set().items():
            old = out._values.get(name)
            out._values[name] = merged(old, value) if isinstance(value, OptionsBase) and old is not None else value
    return out


@export("data.experimental.AutoShardPolicy")
class AutoShardPolicy(enum.IntEnum):
    """How a dataset is divided among workers."""
    OFF = -1
    AUTO = 0
    FILE = 1
    DATA = 2
    HINT = 3


@export("data.experimental.AutotuneAlgorithm")
class AutotuneAlgorithm(enum.Enum):
    """The algorithm that tunes parallelism and buffers. All values select the same one here."""
    DEFAULT = 0
    HILL_CLIMB = 1
    GRADIENT_DESCENT = 2
    MAX_PARALLELISM = 3
    STAGE_BASED = 4


@export("data.experimental.ExternalStatePolicy")
class ExternalStatePolicy(enum.Enum):
    """What happens to a dataset with external state when it is written as a graph."""
    WARN = 0
    IGNORE = 1
    FAIL = 2


@export("data.experimental.DistributeOptions")
class DistributeOptions(OptionsBase):
    """How a dataset is divided among workers."""
    auto_shard = _Option(bool, "Whether to shard automatically.")
    auto_shard_policy = _Option(AutoShardPolicy, "How to divide it.")
    num_devices = _Option(int, "How many devices it feeds.")


@export("data.experimental.MapVectorizationOptions")
class MapVectorizationOptions(OptionsBase):
    """Calling functions on batches. penstock decides this automatically."""
    enabled = _Option(bool, "Whether to do so.")
    use_choose_fastest = _Option(bool, "Whether to measure first.")


@export("data.experimental.OptimizationOptions")
class OptimizationOptions(OptionsBase):
    """Rewriting of pipelines. penstock decides this automatically; the options are accepted for compatibility."""
    apply_default_optimizations = _Option(bool, "Whether the default optimizations apply.")
    autotune = _Option(bool, "Whether parallelism is adjusted.")
    autotune_algorithm = _Option(AutotuneAlgorithm, "How it is adjusted.")
    autotune_buffers = _Option(bool, "Whether buffers are adjusted.")
    autotune_cpu_budget = _Option(int, "How many processors may be used.")
    autotune_ram_budget = _Option(int, "How much memory may be used.")
    filter_fusion = _Option(bool, "Whether filters are fused.")
    filter_parallelization = _Option(bool, "Whether filters run in parallel.")
    filter_with_random_uniform_fusion = _Option(bool, "Whether random filters become sampling.")
    hoist_random_uniform = _Option(bool, "Whether random ops move into the pipeline.")
    inject_prefetch = _Option(bool, "Whether prefetching is added.")
    map_and_batch_fusion = _Option(bool, "Whether map and batch are fused.")
    map_and_filter_fusion = _Option(bool, "Whether map and filter are fused.")
    map_fusion = _Option(bool, "Whether maps are fused.")
    map_parallelization = _Option(bool, "Whether maps run in parallel.")
    map_vectorization = _Option(MapVectorizationOptions, "Calling functions on batches.", MapVectorizationOptions)
    noop_elimination = _Option(bool, "Whether stages without effect are dropped.")
    parallel_batch = _Option(bool, "Whether batches are copied in parallel.")
    reorder_data_discarding_ops = _Option(bool, "Whether take and skip move to the front.")
    seq_interleave_prefetch = _Option(bool, "Whether interleave prefetches.")
    shuffle_and_repeat_fusion = _Option(bool, "Whether shuffle and repeat are fused.")
    warm_start = _Option(bool, "Whether threads start with the iterator.")


@export("data.experimental.StatsOptions", v1=["data.experimental.StatsOptions"])
class StatsOptions(OptionsBase):
    """Statistics of a pipeline."""
    aggregator = _Option(StatsAggregator, "Where they go.")
    prefix = _Option(str, "Prefix of the statistics' names.", str)
    counter_prefix = _Option(str, "Prefix of the counters' names.", str)
    latency_all_edges = _Option(bool, "Whether the latency of all elements is measured.")


@export("data.experimental.ServiceOptions")
class ServiceOptions(OptionsBase):
    """Options of the tf.data service."""
    pinned = _Option(bool, "Whether data is transferred through page-locked memory.")


@export("data.ThreadingOptions", "data.experimental.ThreadingOptions")
class ThreadingOptions(OptionsBase):
    """Threads of a pipeline."""
    max_intra_op_parallelism = _Option(int, "How many threads an op may use.")
    private_threadpool_size = _Option(int, "How many threads the pipeline has.")


@export("data.experimental.AutotuneOptions")
class AutotuneOptions(OptionsBase):
    """Automatic adjustment of parallelism and buffers."""
    enabled = _Option(bool, "Whether to adjust.")
    cpu_budget = _Option(int, "How many processors may be used.")
    ram_budget = _Option(int, "How much memory may be used.")
    autotune_algorithm = _Option(object, "How to adjust.")
    initial_parallelism = _Option(int, "The initial values.")
    min_parallelism = _Option(int, "The least parallelism.")


@export("data.Options")
class Options(OptionsBase):
    """Options of a dataset and of those it is created from.

    >>> options = tf.data.Options()
    >>> options.deterministic = False
    >>> ds = tf.data.Dataset.range(3).with_options(options)
    >>> ds.options().deterministic
    False
    """
    autotune = _Option(AutotuneOptions, "Automatic adjustment.", AutotuneOptions)
    dataset_name = _Option(str, "A name for reports.")
    deterministic = _Option(bool, "Whether parallel stages keep the order of elements.")
    experimental_autotune = _Option(bool, "Whether parallelism is adjusted.")
    experimental_distribute = _Option(DistributeOptions, "Dividing among workers.", DistributeOptions)
    experimental_external_state_policy = _Option(ExternalStatePolicy, "What to do about external state.")
    experimental_optimization = _Option(OptimizationOptions, "Rewriting.", OptimizationOptions)
    experimental_slack = _Option(bool, "Whether the last prefetch leaves room.")
    experimental_stateful_whitelist = _Option((list, tuple), "Ops that may be stateful.")
    experimental_stats = _Option(StatsOptions, "Statistics.", StatsOptions)
    experimental_symbolic_checkpoint = _Option(bool, "Whether checkpoints hold no elements.")
    experimental_warm_start = _Option(bool, "Whether threads start with the iterator.")
    experimental_service = _Option(ServiceOptions, "The tf.data service.", ServiceOptions)
    framework_type = _Option((list, tuple), "For reports.")
    threading = _Option(ThreadingOptions, "Threads.", ThreadingOptions)

    def _serialized(self) -> bytes:
        """The options that a pipeline needs at run time, serialized as TensorFlow's message.

        Field 1 is `deterministic`; field 5 is `threading`, in which field 2 is the number of threads.
        """
        out = b"" if self.deterministic is None else b"\x08" + bytes([self.deterministic])
        threads = min(self.threading.private_threadpool_size or 0, 127)
        return out + (b"\x2a\x02\x10" + bytes([threads]) if threads > 0 else b"")

    @property
    def experimental_deterministic(self) -> Any:
        """The older name of `deterministic`."""
        return self.deterministic

    @experimental_deterministic.setter
    def experimental_deterministic(self, value: Any) -> None:
        self.deterministic = value

    @property
    def experimental_threading(self) -> Any:
        """The older name of `threading`."""
        return self.threading

    @experimental_threading.setter
    def experimental_threading(self, value: Any) -> None:
        self.threading = value
