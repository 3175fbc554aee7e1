"""Datasets that group, sample and drop elements, and those of tf.data.experimental."""
from __future__ import annotations

from penstock._src.base import errors
from penstock._src.data.pipelines import background, batching, grouping
from penstock._src.ops.data.dataset_base import ARGUMENTS, body, dataset, integer, number, stage_of
from penstock._src.ops.data.dataset_transforms import parallelism

_IN = "input_dataset: variant"


@dataset("GroupByWindowDataset", "ExperimentalGroupByWindowDataset",
         inputs=f"{_IN}, key_func_other_arguments: Tkey_func_other_arguments, "
                "reduce_func_other_arguments: Treduce_func_other_arguments, "
                "window_size_func_other_arguments: Twindow_size_func_other_arguments",
         attrs="key_func: func, reduce_func: func, window_size_func: func, Tkey_func_other_arguments: list(type) >= 0, "
               "Treduce_func_other_arguments: list(type) >= 0, Twindow_size_func_other_arguments: list(type) >= 0")
def _group_by_window_dataset(input_dataset, key_args, reduce_args, size_args, *, key_func, reduce_func, window_size_func, node):
    return grouping.GroupByWindow(stage_of(input_dataset), body(key_func, node, key_args), body(reduce_func, node, reduce_args),
                                  body(window_size_func, node, size_args))


@dataset("GroupByReducerDataset", "ExperimentalGroupByReducerDataset",
         inputs=f"{_IN}, key_func_other_arguments: Tkey_func_other_arguments, "
                "init_func_other_arguments: Tinit_func_other_arguments, "
                "reduce_func_other_arguments: Treduce_func_other_arguments, "
                "finalize_func_other_arguments: Tfinalize_func_other_arguments",
         attrs="key_func: func, init_func: func, reduce_func: func, finalize_func: func, "
               "Tkey_func_other_arguments: list(type) >= 0, Tinit_func_other_arguments: list(type) >= 0, "
               "Treduce_func_other_arguments: list(type) >= 0, Tfinalize_func_other_arguments: list(type) >= 0", stateful=True)
def _group_by_reducer_dataset(input_dataset, key_args, first_args, reduce_args, last_args, *, key_func, init_func,
                              reduce_func, finalize_func, node):
    return grouping.GroupByReducer(stage_of(input_dataset), body(key_func, node, key_args), body(init_func, node, first_args),
                                   body(reduce_func, node, reduce_args), body(finalize_func, node, last_args))


@dataset("DirectedInterleaveDataset", "ExperimentalDirectedInterleaveDataset",
         inputs="selector_input_dataset: variant, data_input_datasets: N * variant",
         attrs="N: int >= 1, stop_on_empty_dataset: bool = False")
def _directed_interleave_dataset(selector_input_dataset, data_input_datasets, *, stop_on_empty_dataset):
    return grouping.DirectedInterleave(stage_of(selector_input_dataset), [stage_of(d) for d in data_input_datasets],
                                       stop_on_empty_dataset)


@dataset("UniqueDataset", "ExperimentalUniqueDataset", inputs=_IN)
def _unique_dataset(input_dataset):
    return grouping.Unique(stage_of(input_dataset))


@dataset("IgnoreErrorsDataset", "ExperimentalIgnoreErrorsDataset", inputs=_IN, attrs="log_warning: bool = False")
def _ignore_errors_dataset(input_dataset, *, log_warning):
    return grouping.IgnoreErrors(stage_of(input_dataset), log_warning)


@dataset("AssertCardinalityDataset", inputs=f"{_IN}, cardinality: int64")
def _assert_cardinality_dataset(input_dataset, cardinality):
    return grouping.AssertCardinality(stage_of(input_dataset), integer(cardinality, "cardinality"))


@dataset("DenseToSparseBatchDataset", "ExperimentalDenseToSparseBatchDataset",
         inputs=f"{_IN}, batch_size: int64, row_shape: int64")
def _dense_to_sparse_batch_dataset(input_dataset, batch_size, row_shape):
    if row_shape.ndim != 1 or bool((row_shape < -1).any()):
        raise errors.invalid("row_shape must be a vector of sizes, or -1 for those that are not known")
    return batching.SparseBatch(stage_of(input_dataset), integer(batch_size, "batch_size"), tuple(row_shape.tolist()))


@dataset("MapAndBatchDataset", "ExperimentalMapAndBatchDataset",
         inputs=f"{_IN}, other_arguments: Targuments, batch_size: int64, num_parallel_calls: int64, drop_remainder: bool",
         attrs=f"f: func, {ARGUMENTS}, preserve_cardinality: bool = False")
def _map_and_batch_dataset(input_dataset, other_arguments, batch_size, num_parallel_calls, drop_remainder, *, f,
                           preserve_cardinality, node):
    calls = integer(num_parallel_calls, "num_parallel_calls")
    if calls <= 0 and calls != -1:
        raise errors.invalid("num_parallel_calls must be greater than zero.")
    size = batching.positive(integer(batch_size, "batch_size"), "batch_size")
    mapped = background.ParallelMap(stage_of(input_dataset), body(f, node, other_arguments), parallelism(calls), None,
                                    preserve_cardinality)
    return batching.Batch(mapped, size, bool(number(drop_remainder, "drop_remainder")), whole=True)


@dataset("CopyToDeviceDataset", inputs=_IN, attrs="device: string")
def _copy_to_device_dataset(input_dataset, *, device):
    return grouping.OnDevice(stage_of(input_dataset), device)


# -- datasets that say how to run their input: elements are the same -------------------------------------------------------
@dataset("NonSerializableDataset", "ExperimentalNonSerializableDataset", inputs=_IN)
def _non_serializable_dataset(input_dataset):
    return stage_of(input_dataset)


@dataset("MaxIntraOpParallelismDataset", "ExperimentalMaxIntraOpParallelismDataset",
         inputs=f"{_IN}, max_intra_op_parallelism: int64")
def _max_intra_op_parallelism_dataset(input_dataset, max_intra_op_parallelism):
    return stage_of(input_dataset)


@dataset("PrivateThreadPoolDataset", "ExperimentalPrivateThreadPoolDataset", inputs=f"{_IN}, num_threads: int64")
def _private_thread_pool_dataset(input_dataset, num_threads):
    return background.adjusted(stage_of(input_dataset), None, integer(num_threads, "num_threads"))


@dataset("ModelDataset", inputs=_IN, attrs="algorithm: int = 0, cpu_budget: int = 0")
def _model_dataset(input_dataset):
    return stage_of(input_dataset)


@dataset("OptimizeDataset", inputs=f"{_IN}, optimizations: string", attrs="optimization_configs: list(string) = []")
def _optimize_dataset(input_dataset, optimizations):
    return stage_of(input_dataset)
