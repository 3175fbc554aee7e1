"""Datasets of windows as batches, and of batches with other sizes."""
from __future__ import annotations

from penstock._src.base import errors
from penstock._src.data.pipelines import batching
from penstock._src.ops.data.dataset_base import dataset, integer, number, stage_of

_IN = "input_dataset: variant"
_SLIDING = f"{_IN}, window_size: int64, window_shift: int64, window_stride: int64"


@dataset("SlidingWindowDataset", inputs=_SLIDING, attrs="drop_remainder: bool = True")
def _sliding_window_dataset(input_dataset, window_size, window_shift, window_stride, *, drop_remainder):
    return batching.SlidingBatch(stage_of(input_dataset), integer(window_size, "window_size"),
                                 integer(window_shift, "window_shift"), integer(window_stride, "window_stride"), drop_remainder)


@dataset("ExperimentalSlidingWindowDataset", inputs=_SLIDING)
def _experimental_sliding_window_dataset(input_dataset, window_size, window_shift, window_stride):
    return _sliding_window_dataset(input_dataset, window_size, window_shift, window_stride, drop_remainder=True)


@dataset("RebatchDataset", "ExperimentalRebatchDataset", inputs=f"{_IN}, num_replicas: int64",
         attrs="use_fallback: bool = True")
def _rebatch_dataset(input_dataset, num_replicas):
    return batching.SplitBatches(stage_of(input_dataset), integer(num_replicas, "num_replicas"))


@dataset("RebatchDatasetV2", inputs=f"{_IN}, batch_sizes: int64, drop_remainder: bool")
def _rebatch_dataset_v2(input_dataset, batch_sizes, drop_remainder):
    if batch_sizes.ndim > 1:
        raise errors.invalid("batch_sizes must be a scalar or a vector")
    return batching.Rebatch(stage_of(input_dataset), batch_sizes.reshape(-1).tolist(),
                            bool(number(drop_remainder, "drop_remainder")))
