"""Aggregators of the statistics of input pipelines, and the datasets that feed them (see `data.pipelines.statistics`)."""
from __future__ import annotations

import threading
from typing import Any

import numpy as np

from penstock._src.base import errors
from penstock._src.data.pipelines.statistics import Measured, Watched
from penstock._src.graph.message_names import message_class
from penstock._src.kernels import strings
from penstock._src.ops.data.dataset_base import dataset, stage_of, text
from penstock._src.ops.io.summary import histogram_limits, write_histogram
from penstock._src.ops.registry import op


class _Histogram:
    """The distribution of the numbers so far."""

    __slots__ = ("counts", "low", "high", "sum", "squares")

    def __init__(self) -> None:
        self.counts = np.zeros(len(histogram_limits()))
        self.low, self.high, self.sum, self.squares = np.inf, -np.inf, 0.0, 0.0

    def add(self, value: float) -> None:
        self.counts[np.searchsorted(histogram_limits(), value, side="right")] += 1
        self.low, self.high = min(self.low, value), max(self.high, value)
        self.sum += value
        self.squares += value * value


class StatsAggregatorResource:
    """Histograms and numbers by their tags, from any number of iterators."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._histograms: dict[str, _Histogram] = {}
        self._scalars: dict[str, float] = {}
        self._steps = 0
        self.writer: Any = None                     # where each new number is written, too

    def histogram(self, tag: str, value: float) -> None:
        """Adds a number to a histogram."""
        with self._lock:
            self._histograms.setdefault(tag, _Histogram()).add(float(value))
            self._write(tag)

    def scalar(self, tag: str, value: float) -> None:
        """Sets a number."""
        with self._lock:
            self._scalars[tag] = float(value)
            self._write(tag)

    def summary(self) -> bytes:
        """Everything so far as a serialized Summary."""
        with self._lock:
            return self._message([*self._histograms, *self._scalars]).SerializeToString()

    def _write(self, tag: str) -> None:
        if self.writer is not None:
            self._steps += 1
            self.writer.opened().add_summary(self._message([tag]), self._steps)

    def _message(self, tags: list[str]) -> Any:
        out = message_class("Summary")()
        for tag in tags:
            h = self._histograms.get(tag)
            if h is None:
                out.value.add(tag=tag, simple_value=self._scalars[tag])
            else:
                write_histogram(h.counts, h.low, h.high, h.sum, h.squares, out.value.add(tag=tag).histo)
        return out


class _Prefixed:
    """An aggregator as one pipeline sees it: all of its tags begin with a prefix."""

    def __init__(self, aggregator: StatsAggregatorResource, prefix: str):
        self._aggregator, self._prefix = aggregator, f"{prefix}::" if prefix else ""

    def histogram(self, tag: str, value: float) -> None:
        self._aggregator.histogram(self._prefix + tag, value)

    def scalar(self, tag: str, value: float) -> None:
        self._aggregator.scalar(self._prefix + tag, value)


def _aggregator(handle: Any) -> StatsAggregatorResource:
    if not isinstance(handle, StatsAggregatorResource):
        raise errors.invalid(f"a statistics aggregator was expected, got {type(handle).__name__}")
    return handle


for _name in ("StatsAggregatorHandle", "StatsAggregatorHandleV2", "ExperimentalStatsAggregatorHandle"):
    _handle = op(_name, "-> handle: resource", "container: string = '', shared_name: string = ''", stateful=True,
                 per_session=True).no_gradient()
    _handle.shape(lambda: ())

    @_handle.kernel
    def _handle_kernel(*, container, shared_name, ctx, node):
        if node.graph is None and not shared_name:
            return StatsAggregatorResource()
        kind = StatsAggregatorResource
        return ctx.resources.get_or_create(container, shared_name or node.name, kind, kind)

for _name in ("StatsAggregatorSummary", "ExperimentalStatsAggregatorSummary"):
    _summary_op = op(_name, "iterator: resource -> summary: string", stateful=True).no_gradient()
    _summary_op.shape(lambda iterator: ())
    _summary_op.kernel(lambda iterator: strings.pack([_aggregator(iterator).summary()], ()))

set_summary_writer = op("StatsAggregatorSetSummaryWriter", "stats_aggregator: resource, summary: resource ->",
                        stateful=True).no_gradient()
set_summary_writer.shape(lambda stats_aggregator, summary: [])


@set_summary_writer.kernel
def _set_summary_writer_kernel(stats_aggregator, summary):
    _aggregator(stats_aggregator).writer = summary


@dataset("LatencyStatsDataset", "ExperimentalLatencyStatsDataset", inputs="input_dataset: variant, tag: string")
def _latency_stats_dataset(input_dataset, tag):
    return Watched(stage_of(input_dataset), text(tag, "tag"), "latency")


@dataset("BytesProducedStatsDataset", "ExperimentalBytesProducedStatsDataset", inputs="input_dataset: variant, tag: string")
def _bytes_produced_stats_dataset(input_dataset, tag):
    return Watched(stage_of(input_dataset), text(tag, "tag"), "bytes")


@dataset("SetStatsAggregatorDataset", "ExperimentalSetStatsAggregatorDataset", stateful=True,
         inputs="input_dataset: variant, stats_aggregator: resource, tag: string, counter_prefix: string")
def _set_stats_aggregator_dataset(input_dataset, stats_aggregator, tag, counter_prefix):
    return Measured(stage_of(input_dataset), _Prefixed(_aggregator(stats_aggregator), text(tag, "tag")))
