"""Datasets made from datasets: the transformations of tf.data.Dataset."""
from __future__ import annotations

import os

from penstock._src.base import errors
from penstock._src.data.pipelines import background, batching, mapping, ordering
from penstock._src.ops.data.dataset_base import ARGUMENTS, body, dataset, integer, number, stage_of

_IN = "input_dataset: variant"
_CALL = f"{_IN}, other_arguments: Targuments"
_MAP = f"f: func, {ARGUMENTS}"
_KEEP = "use_inter_op_parallelism: bool = True, preserve_cardinality: bool = False"
_DETERMINISTIC = "deterministic: string = 'default'"
_TYPED = "Toutput_types: list(type) >= 1, output_shapes: list(shape) >= 1"
AUTOTUNE = -1


def parallelism(calls: int) -> int:
    """How many calls run at a time; one per processor if that is left open."""
    return os.cpu_count() or 1 if calls == AUTOTUNE else calls


# -- calling functions --------------------------------------------------------------------------------------------------
@dataset("MapDataset", inputs=_CALL, attrs=f"{_MAP}, {_KEEP}")
def _map_dataset(input_dataset, other_arguments, *, f, preserve_cardinality, node):
    return mapping.Map(stage_of(input_dataset), body(f, node, other_arguments), preserve_cardinality)


@dataset("ParallelMapDataset", inputs=f"{_CALL}, num_parallel_calls: int32",
         attrs=f"{_MAP}, use_inter_op_parallelism: bool = True, sloppy: bool = False, preserve_cardinality: bool = False")
def _parallel_map_dataset(input_dataset, other_arguments, num_parallel_calls, *, f, sloppy, preserve_cardinality, node):
    return background.ParallelMap(stage_of(input_dataset), body(f, node, other_arguments),
                                  parallelism(integer(num_parallel_calls, "num_parallel_calls")),
                                  False if sloppy else None, preserve_cardinality)


@dataset("ParallelMapDatasetV2", inputs=f"{_CALL}, num_parallel_calls: int64",
         attrs=f"{_MAP}, use_inter_op_parallelism: bool = True, {_DETERMINISTIC}, preserve_cardinality: bool = False")
def _parallel_map_dataset_v2_dataset(input_dataset, other_arguments, num_parallel_calls, *, f, deterministic,
                                     preserve_cardinality, node):
    return background.ParallelMap(stage_of(input_dataset), body(f, node, other_arguments),
                                  parallelism(integer(num_parallel_calls, "num_parallel_calls")),
                                  {"true": True, "false": False}.get(deterministic), preserve_cardinality)


@dataset("FilterDataset", inputs=_CALL, attrs=f"predicate: func, {ARGUMENTS}")
def _filter_dataset(input_dataset, other_arguments, *, predicate, node):
    return mapping.Filter(stage_of(input_dataset), body(predicate, node, other_arguments))


@dataset("ParallelFilterDataset", inputs=f"{_CALL}, num_parallel_calls: int64",
         attrs=f"predicate: func, {_DETERMINISTIC}, {ARGUMENTS}, metadata: string = ''")
def _parallel_filter_dataset(input_dataset, other_arguments, num_parallel_calls, *, predicate, node):
    _check_calls(num_parallel_calls)
    return mapping.Filter(stage_of(input_dataset), body(predicate, node, other_arguments))


def _check_calls(num_parallel_calls):
    calls = integer(num_parallel_calls, "num_parallel_calls")
    if calls != AUTOTUNE and calls < 1:
        raise errors.invalid("num_parallel_calls must be greater than zero.")


@dataset("FlatMapDataset", inputs=_CALL, attrs=_MAP)
def _flat_map_dataset(input_dataset, other_arguments, *, f, node):
    return mapping.FlatMap(stage_of(input_dataset), body(f, node, other_arguments))


@dataset("InterleaveDataset", inputs=f"{_CALL}, cycle_length: int64, block_length: int64", attrs=_MAP)
def _interleave_dataset(input_dataset, other_arguments, cycle_length, block_length, *, f, node):
    return mapping.Interleave(stage_of(input_dataset), body(f, node, other_arguments),
                              integer(cycle_length, "cycle_length"), integer(block_length, "block_length"))


@dataset("ParallelInterleaveDatasetV2", inputs=f"{_CALL}, cycle_length: int64, block_length: int64, num_parallel_calls: int64",
         attrs=f"{_MAP}, sloppy: bool = False")
def _parallel_interleave_dataset_v2_dataset(input_dataset, other_arguments, cycle_length, block_length, num_parallel_calls, *,
                                            f, sloppy, node):
    _check_calls(num_parallel_calls)
    return background.ParallelInterleave(stage_of(input_dataset), body(f, node, other_arguments),
                                         parallelism(integer(cycle_length, "cycle_length")),
                                         integer(block_length, "block_length"), sloppy or None, 2)


_SLOPPY = {"true": False, "false": True}
_INTERLEAVED = f"{_CALL}, cycle_length: int64, block_length: int64"
_AHEAD = "buffer_output_elements: int64, prefetch_input_elements: int64"
_NEWER = f"f: func, {_DETERMINISTIC}, {ARGUMENTS}, metadata: string = ''"


@dataset("ParallelInterleaveDatasetV3", inputs=f"{_INTERLEAVED}, num_parallel_calls: int64", attrs=_NEWER)
def _parallel_interleave_dataset_v3(input_dataset, other_arguments, cycle_length, block_length, num_parallel_calls, *,
                                    f, deterministic, node):
    _check_calls(num_parallel_calls)
    return background.ParallelInterleave(stage_of(input_dataset), body(f, node, other_arguments),
                                         parallelism(integer(cycle_length, "cycle_length")),
                                         integer(block_length, "block_length"), _SLOPPY.get(deterministic), 2)


@dataset("ParallelInterleaveDatasetV4", inputs=f"{_INTERLEAVED}, {_AHEAD}, num_parallel_calls: int64", attrs=_NEWER)
def _parallel_interleave_dataset_v4(input_dataset, other_arguments, cycle_length, block_length, buffer_output_elements,
                                    prefetch_input_elements, num_parallel_calls, *, f, deterministic, node):
    _check_calls(num_parallel_calls)
    ahead = integer(buffer_output_elements, "buffer_output_elements")
    return background.ParallelInterleave(stage_of(input_dataset), body(f, node, other_arguments),
                                         parallelism(integer(cycle_length, "cycle_length")),
                                         integer(block_length, "block_length"), _SLOPPY.get(deterministic),
                                         2 if ahead == AUTOTUNE else ahead)


@dataset("LegacyParallelInterleaveDatasetV2", inputs=f"{_INTERLEAVED}, {_AHEAD}", attrs=_NEWER)
def _legacy_parallel_interleave_dataset_v2(input_dataset, other_arguments, cycle_length, block_length, buffer_output_elements,
                                           prefetch_input_elements, *, f, deterministic, node):
    return background.ParallelInterleave(
        stage_of(input_dataset), body(f, node, other_arguments), integer(cycle_length, "cycle_length"),
        integer(block_length, "block_length"), _SLOPPY.get(deterministic),
        integer(buffer_output_elements, "buffer_output_elements"))


@dataset("ParallelInterleaveDataset", "ExperimentalParallelInterleaveDataset",
         inputs=f"{_CALL}, cycle_length: int64, block_length: int64, sloppy: bool, buffer_output_elements: int64, "
                "prefetch_input_elements: int64", attrs=_MAP)
def _parallel_interleave_dataset(input_dataset, other_arguments, cycle_length, block_length, sloppy, buffer_output_elements,
                                 prefetch_input_elements, *, f, node):
    return background.ParallelInterleave(
        stage_of(input_dataset), body(f, node, other_arguments), integer(cycle_length, "cycle_length"),
        integer(block_length, "block_length"), bool(number(sloppy, "sloppy")),
        integer(buffer_output_elements, "buffer_output_elements"))


# -- batches ------------------------------------------------------------------------------------------------------------
@dataset("BatchDataset", inputs=f"{_IN}, batch_size: int64")
def _batch_dataset(input_dataset, batch_size):
    return batching.Batch(stage_of(input_dataset), integer(batch_size, "batch_size"), False)


@dataset("BatchDatasetV2", inputs=f"{_IN}, batch_size: int64, drop_remainder: bool", attrs="parallel_copy: bool = False")
def _batch_dataset_v2_dataset(input_dataset, batch_size, drop_remainder):
    return batching.Batch(stage_of(input_dataset), integer(batch_size, "batch_size"),
                          bool(number(drop_remainder, "drop_remainder")))


@dataset("ParallelBatchDataset", inputs=f"{_IN}, batch_size: int64, num_parallel_calls: int64, drop_remainder: bool",
         attrs=f"parallel_copy: bool = False, {_DETERMINISTIC}, metadata: string = ''")
def _parallel_batch_dataset(input_dataset, batch_size, num_parallel_calls, drop_remainder):
    _check_calls(num_parallel_calls)
    return _batch_dataset_v2_dataset(input_dataset, batch_size, drop_remainder)


_PADDED = f"{_IN}, batch_size: int64, padded_shapes: N * int64, padding_values: Toutput_types"


def _padded(input_dataset, batch_size, padded_shapes, padding_values, drop):
    return batching.PaddedBatch(stage_of(input_dataset), integer(batch_size, "batch_size"),
                                [tuple(s.tolist()) for s in padded_shapes], padding_values, drop)


@dataset("PaddedBatchDataset", inputs=_PADDED, attrs="N: int >= 1", outputs=_TYPED)
def _padded_batch_dataset(input_dataset, batch_size, padded_shapes, padding_values):
    return _padded(input_dataset, batch_size, padded_shapes, padding_values, False)


@dataset("PaddedBatchDatasetV2", inputs=f"{_PADDED}, drop_remainder: bool", attrs="parallel_copy: bool = False, N: int >= 1",
         outputs=_TYPED)
def _padded_batch_dataset_v2_dataset(input_dataset, batch_size, padded_shapes, padding_values, drop_remainder):
    return _padded(input_dataset, batch_size, padded_shapes, padding_values, bool(number(drop_remainder, "drop_remainder")))


@dataset("UnbatchDataset", "ExperimentalUnbatchDataset", inputs=_IN)
def _unbatch_dataset(input_dataset):
    return batching.Unbatch(stage_of(input_dataset))


@dataset("WindowDataset", inputs=f"{_IN}, size: int64, shift: int64, stride: int64, drop_remainder: bool")
def _window_dataset(input_dataset, size, shift, stride, drop_remainder):
    return batching.Window(stage_of(input_dataset), integer(size, "size"), integer(shift, "shift"), integer(stride, "stride"),
                           bool(number(drop_remainder, "drop_remainder")))


# -- choosing and ordering ----------------------------------------------------------------------------------------------
@dataset("TakeDataset", inputs=f"{_IN}, count: int64")
def _take_dataset(input_dataset, count):
    return ordering.Take(stage_of(input_dataset), integer(count, "count"))


@dataset("SkipDataset", inputs=f"{_IN}, count: int64")
def _skip_dataset(input_dataset, count):
    return ordering.Skip(stage_of(input_dataset), integer(count, "count"))


@dataset("RepeatDataset", inputs=f"{_IN}, count: int64")
def _repeat_dataset(input_dataset, count):
    return ordering.Repeat(stage_of(input_dataset), integer(count, "count"))


@dataset("ShardDataset", inputs=f"{_IN}, num_shards: int64, index: int64", attrs="require_non_empty: bool = False")
def _shard_dataset(input_dataset, num_shards, index, *, require_non_empty):
    return ordering.Shard(stage_of(input_dataset), integer(num_shards, "num_shards"), integer(index, "index"),
                          require_non_empty)


@dataset("ConcatenateDataset", inputs=f"{_IN}, another_dataset: variant")
def _concatenate_dataset(input_dataset, another_dataset):
    return ordering.Concatenate(stage_of(input_dataset), stage_of(another_dataset))


@dataset("ZipDataset", inputs="input_datasets: N * variant", attrs="N: int >= 1")
def _zip_dataset(input_datasets):
    return ordering.Zip([stage_of(d) for d in input_datasets])


@dataset("PrefetchDataset", inputs=f"{_IN}, buffer_size: int64",
         attrs="slack_period: int = 0, legacy_autotune: bool = True, buffer_size_min: int = 0")
def _prefetch_dataset(input_dataset, buffer_size):
    return background.Prefetch(stage_of(input_dataset), integer(buffer_size, "buffer_size"))


# -- states ---------------------------------------------------------------------------------------------------------------
_SCAN = f"{_IN}, initial_state: Tstate, other_arguments: Targuments"
_STATE = f"f: func, Tstate: list(type) >= 1, {ARGUMENTS}"


@dataset("ScanDataset", inputs=_SCAN, attrs=f"{_STATE}, preserve_cardinality: bool = False, use_default_device: bool = True")
def _scan(input_dataset, initial_state, other_arguments, *, f, preserve_cardinality, node):
    return mapping.Scan(stage_of(input_dataset), initial_state, body(f, node, other_arguments), preserve_cardinality)


@dataset("ExperimentalScanDataset", inputs=_SCAN, attrs=f"{_STATE}, preserve_cardinality: bool = False")
def _experimental_scan_dataset(input_dataset, initial_state, other_arguments, *, f, preserve_cardinality, node):
    return _scan(input_dataset, initial_state, other_arguments, f=f, preserve_cardinality=preserve_cardinality, node=node)


@dataset("TakeWhileDataset", "ExperimentalTakeWhileDataset", inputs=_CALL, attrs=f"predicate: func, {ARGUMENTS}")
def _take_while_dataset(input_dataset, other_arguments, *, predicate, node):
    return mapping.TakeWhile(stage_of(input_dataset), body(predicate, node, other_arguments))


@dataset("OptionsDataset", inputs=_IN, attrs="serialized_options: string, metadata: string = ''")
def _options_dataset(input_dataset, *, serialized_options):
    source = stage_of(input_dataset)
    data = serialized_options.encode() if isinstance(serialized_options, str) else serialized_options
    fields = options_fields(data)
    nested = fields.get(5)
    threads = options_fields(nested).get(2) if isinstance(nested, bytes) else None
    order = bool(fields[1]) if 1 in fields else None
    if order is None and not threads:
        return ordering.Take(source, -1)
    return ordering.Take(background.adjusted(source, order, threads if isinstance(threads, int) and threads else None), -1)


def options_fields(data: bytes) -> dict[int, int | bytes]:
    """The numbers and parts of a message of dataset options, by field number."""
    out: dict[int, int | bytes] = {}
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while at < len(data) and shift < 64:
            byte, at = data[at], at + 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
        raise errors.DataLossError(None, None, "serialized_options is not a message of dataset options")
    while at < len(data):
        key = varint()
        number_or_size = varint()
        if key & 7 == 0:
            out[key >> 3] = number_or_size
        elif key & 7 == 2 and number_or_size <= len(data) - at:
            out[key >> 3] = data[at:at + number_or_size]
            at += number_or_size
        else:
            raise errors.DataLossError(None, None, "serialized_options is not a message of dataset options")
    return out
