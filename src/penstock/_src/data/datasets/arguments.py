"""Arguments of dataset ops: constants, conversions and checks."""
from __future__ import annotations

from typing import Any

from penstock._src.base import dtypes, errors
from penstock._src.base.api import export
from penstock._src.data.pipelines.ordering import SHARD_HINT
from penstock._src.graph.constant import constant_value
from penstock._src.graph.convert import convert
from penstock._src.graph.random_seed import get_seed

AUTOTUNE = -1
INFINITE, UNKNOWN = -1, -2
export.value(AUTOTUNE, "data.experimental.AUTOTUNE", v2=["data.AUTOTUNE"], v1=["data.AUTOTUNE"])
export.value(INFINITE, "data.experimental.INFINITE_CARDINALITY", v1=["data.INFINITE_CARDINALITY"],
             v2=["data.INFINITE_CARDINALITY"])
export.value(UNKNOWN, "data.experimental.UNKNOWN_CARDINALITY", v1=["data.UNKNOWN_CARDINALITY"],
             v2=["data.UNKNOWN_CARDINALITY"])


def int64(value: Any, name: str) -> Any:
    """A number as an int64 tensor of the current graph."""
    return convert(value, dtypes.int64, name)


def seeds(seed: Any) -> tuple[Any, Any]:
    """The two seed tensors of a dataset op; both are 0 without a seed."""
    first, second = get_seed(seed)
    a = int64(0 if first is None else first, "seed")
    if second is None:
        return a, int64(0, "seed2")
    b = int64(second, "seed2")
    if constant_value(a) == 0 and constant_value(b) == 0:
        b = int64(2**31 - 1, "seed2")                       # a seed of 0 was requested, which differs from no seed
    return a, b


def static_size(size: Any, drop: Any) -> int | None:
    """The size of batches, if it is static."""
    known = constant_value(size)
    return int(known) if constant_value(drop) and known is not None else None


def check_parallel(calls: Any, cycle: Any = None) -> None:
    """Checks a static number of parallel calls; with a cycle, there are not more than datasets in it."""
    value = constant_value(calls)
    if value is not None and value < 1 and value != AUTOTUNE:
        raise errors.invalid("num_parallel_calls must be greater than zero.")
    most = None if cycle is None else constant_value(cycle)
    if value is not None and most is not None and value > most:
        raise errors.invalid(f"`num_parallel_calls` must be `tf.data.AUTOTUNE` or at most `cycle_length`, but it is {value} "
                             f"and `cycle_length` is {most}.")


def deterministic_attr(dataset: Any, asked: bool | None) -> str:
    """The attribute `deterministic` of an op: as requested by the call, or else by the options of the dataset."""
    if asked is None:
        asked = dataset.options().deterministic
    return "default" if asked is None else "true" if asked else "false"


def shard_arguments(num_shards: Any, index: Any) -> tuple[Any, Any]:
    """The number of shards and the index of one, checked if they are static."""
    shards, i = int64(num_shards, "num_shards"), int64(index, "index")
    n, k = constant_value(shards), constant_value(i)
    if n == k == SHARD_HINT:
        return shards, i
    if n is not None and n < 1:
        raise errors.invalid(f"num_shards must be >= 1; got: {n}")
    if k is not None and k < 0 or n is not None and k is not None and k >= n:
        raise errors.invalid(f"Index must be between 0 and {None if n is None else n - 1} (currently index = {k}).")
    return shards, i
