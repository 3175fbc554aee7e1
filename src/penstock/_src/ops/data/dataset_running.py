"""Datasets that change how their input runs: which part of it a worker reads, on which threads, and how fast."""
from __future__ import annotations

import copy
from typing import Any

from penstock._src.base import errors
from penstock._src.data.pipelines import background, grouping, ordering, readers
from penstock._src.ops.data.dataset_base import dataset, integer, stage_of
from penstock._src.ops.registry import op

_IN = "input_dataset: variant"

# -- parts for workers --------------------------------------------------------------------------------------------------------
OFF, AUTO, FILE, DATA, HINT = -1, 0, 1, 2, 3       # of auto_shard_policy


@dataset("AutoShardDataset", inputs=f"{_IN}, num_workers: int64, index: int64",
         attrs="auto_shard_policy: int = 0, num_replicas: int = 0")
def _auto_shard_dataset(input_dataset, num_workers, index, *, auto_shard_policy):
    source, count, at = stage_of(input_dataset), integer(num_workers, "num_workers"), integer(index, "index")
    if count < 1 or not 0 <= at < count:
        raise errors.invalid(f"num_workers must be greater than zero, and index less than it: got {count} and {at}")
    if auto_shard_policy == HINT:
        return _filled(source, count, at)
    if auto_shard_policy == OFF or count == 1:
        return source
    if auto_shard_policy in (AUTO, FILE):
        found = _by_files(source, count, at)
        if found is not None:
            return found
        if auto_shard_policy == FILE:
            raise errors.NotFoundError(None, None, "Found an unshardable source dataset: it does not read files, or fewer than "
                                                   f"there are workers ({count})")
    return ordering.Shard(source, count, at, False)


@dataset("ExperimentalAutoShardDataset", inputs=f"{_IN}, num_workers: int64, index: int64", attrs="auto_shard_policy: int = 0")
def _experimental_auto_shard_dataset(input_dataset, num_workers, index, *, auto_shard_policy):
    return _auto_shard_dataset(input_dataset, num_workers, index, auto_shard_policy=auto_shard_policy)


def _filled(stage: Any, count: int, index: int) -> Any:
    """A copy of a pipeline in which open shard hints are replaced by a worker's shard."""
    out = copy.copy(stage)
    out.inputs = tuple(_filled(s, count, index) for s in stage.inputs)
    if isinstance(out, ordering.Shard) and out.shards == ordering.SHARD_HINT:
        out.shards, out.index = count, index
    return out


def _by_files(stage: Any, count: int, index: int) -> Any:
    """A copy of a pipeline whose sources read every `count`-th file; None if one of them has fewer files, or none."""
    files: Any = None
    if isinstance(stage, readers.Files):
        files = stage.files
    elif stage.recipe is not None and stage.recipe.opdef.name.endswith("MatchingFilesDataset"):
        files = stage.columns[0]
    if files is None and not stage.inputs or files is not None and len(files) < count:
        return None
    out = copy.copy(stage)
    if files is None:
        out.inputs = tuple(_by_files(s, count, index) for s in stage.inputs)
        return None if None in out.inputs else out
    if isinstance(stage, readers.Files):
        out.files = files[index::count]
    else:
        out.columns, out.size = (files[index::count],), len(files[index::count])
    return out


# -- threads ------------------------------------------------------------------------------------------------------------------
class ThreadPool:
    """How many threads the parallel stages of a pipeline share."""

    def __init__(self, threads: int):
        if threads < 1:
            raise errors.invalid("`num_threads` must be greater than zero.")
        self.threads = threads


for _name in ("ThreadPoolHandle", "ExperimentalThreadPoolHandle"):
    _pool = op(_name, "-> handle: resource", "num_threads: int, max_intra_op_parallelism: int = 1, display_name: string, "
               "container: string = '', shared_name: string = ''", stateful=True, per_session=True).no_gradient()
    _pool.shape(lambda: ())

    @_pool.kernel(device="cpu")
    def _pool_kernel(*, num_threads, container, shared_name, ctx, node):
        if node.graph is None and not shared_name:
            return ThreadPool(num_threads)
        return ctx.resources.get_or_create(container, shared_name or node.name, ThreadPool, lambda: ThreadPool(num_threads))


@dataset("ThreadPoolDataset", "ExperimentalThreadPoolDataset", inputs=f"{_IN}, thread_pool: resource", stateful=True)
def _thread_pool_dataset(input_dataset, thread_pool):
    if not isinstance(thread_pool, ThreadPool):
        raise errors.invalid(f"a thread pool was expected, got {type(thread_pool).__name__}")
    return background.adjusted(stage_of(input_dataset), None, thread_pool.threads)


# -- speed --------------------------------------------------------------------------------------------------------------------
@dataset("SleepDataset", "ExperimentalSleepDataset", inputs=f"{_IN}, sleep_microseconds: int64")
def _sleep_dataset(input_dataset, sleep_microseconds):
    return grouping.Slow(stage_of(input_dataset), integer(sleep_microseconds, "sleep_microseconds") / 1e6)


@dataset("ChooseFastestDataset", "ExperimentalChooseFastestDataset", inputs="input_datasets: N * variant",
         attrs="N: int >= 2, num_experiments: int")
def _choose_fastest_dataset(input_datasets, *, num_experiments):
    return grouping.Fastest([stage_of(d) for d in input_datasets], num_experiments)


# -- rewriting: elements are the same -----------------------------------------------------------------------------------------
@dataset("OptimizeDatasetV2", inputs=f"{_IN}, optimizations_enabled: string, optimizations_disabled: string, "
                                     "optimizations_default: string", attrs="optimization_configs: list(string) = []")
def _optimize_dataset_v2(input_dataset, optimizations_enabled, optimizations_disabled, optimizations_default):
    return stage_of(input_dataset)


@dataset("RewriteDataset", inputs=f"{_IN}, rewrite_name: string")
def _rewrite_dataset(input_dataset, rewrite_name):
    return stage_of(input_dataset)
