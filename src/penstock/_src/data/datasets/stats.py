"""Statistics of input pipelines: aggregators, and the transformations that measure elements."""
from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.graph.convert import convert
from penstock._src.ops.registry import get
from penstock._src.training.summary.writers import create_file_writer_v2


class StatsAggregator:
    """The base of aggregators in both APIs: a resource to which iterators of datasets send their statistics."""

    _resource: Any


@export(v1=["data.experimental.StatsAggregator"])
class StatsAggregatorV1(StatsAggregator):
    """Gathers statistics of the iterators of datasets whose options name it, and returns them as a summary.

    >>> aggregator = tf.data.experimental.StatsAggregator()
    >>> options.experimental_stats.aggregator = aggregator
    >>> tf.add_to_collection(tf.GraphKeys.SUMMARIES, aggregator.get_summary())
    """

    def __init__(self) -> None:
        self._resource = get("StatsAggregatorHandle")()

    def get_summary(self) -> Any:
        """A string tensor with a serialized Summary of what was gathered."""
        return get("StatsAggregatorSummary")(self._resource)


@export(v2=["data.experimental.StatsAggregator"])
class StatsAggregatorV2(StatsAggregator):
    """Gathers statistics of the iterators of datasets whose options name it, and writes them to an event file."""

    def __init__(self) -> None:
        self._resource = get("StatsAggregatorHandleV2")()
        self._logdir = tempfile.mkdtemp()
        self._summary_writer = create_file_writer_v2(self._logdir)
        get("StatsAggregatorSetSummaryWriter")(self._resource, self._summary_writer._resource)


@export("data.experimental.latency_stats")
def latency_stats(tag: Any) -> Callable:
    """A transformation: the microseconds that each element takes go to a histogram of the pipeline's aggregator.

    >>> ds = ds.apply(tf.data.experimental.latency_stats("record_latency"))
    """
    return lambda dataset: dataset._then("LatencyStatsDataset", convert(tag, dtypes.string, "tag"))


@export("data.experimental.bytes_produced_stats")
def bytes_produced_stats(tag: Any) -> Callable:
    """A transformation: the size of each element goes to a histogram of the pipeline's aggregator.

    >>> ds = ds.apply(tf.data.experimental.bytes_produced_stats("bytes"))
    """
    return lambda dataset: dataset._then("BytesProducedStatsDataset", convert(tag, dtypes.string, "tag"))


@export(v1=["data.experimental.set_stats_aggregator", "contrib.data.set_stats_aggregator"])
def set_stats_aggregator(stats_aggregator: StatsAggregator, prefix: str = "", counter_prefix: str = "") -> Callable:
    """A transformation: statistics of the dataset go to an aggregator, under tags that begin with a prefix."""
    return lambda dataset: dataset._then("SetStatsAggregatorDataset", stats_aggregator._resource,
                                         convert(prefix, dtypes.string), convert(counter_prefix, dtypes.string))


def with_statistics(dataset: Any) -> Any:
    """The variant of a dataset for an iterator, with statistics if its options request them."""
    stats = dataset.options().experimental_stats
    if stats.aggregator is None:
        return dataset._variant_tensor
    return dataset.apply(set_stats_aggregator(stats.aggregator, stats.prefix, stats.counter_prefix))._variant_tensor
