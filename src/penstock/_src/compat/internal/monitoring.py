"""Metrics of a process, as libraries count what is used: a metric has a cell for each combination of its labels."""
from __future__ import annotations

import bisect
import threading
from typing import Any, ClassVar

from penstock._src.base.api import export


class _Cell:
    """One value; threads may change it at the same time."""

    def __init__(self, value: Any):
        self._value, self._lock = value, threading.Lock()

    def value(self) -> Any:
        """The value now."""
        return self._value


class CounterCell(_Cell):
    """A number that is counted up."""

    def increase_by(self, value: int) -> None:
        """Adds to the number."""
        with self._lock:
            self._value += value


class _GaugeCell(_Cell):
    """A value that is set."""

    def set(self, value: Any) -> None:
        """Replaces the value."""
        self._value = value


class IntGaugeCell(_GaugeCell):
    """An integer."""


class StringGaugeCell(_GaugeCell):
    """A string."""


class BoolGaugeCell(_GaugeCell):
    """A boolean."""


class Buckets:
    """Upper bounds, in ascending order, by which samples are counted."""

    def __init__(self, buckets: Any):
        self.buckets = list(buckets)


class ExponentialBuckets(Buckets):
    """The bounds `scale * growth_factor ** i`."""

    def __init__(self, scale: float, growth_factor: float, bucket_count: int):
        super().__init__(scale * growth_factor ** i for i in range(bucket_count))


class SamplerCell:
    """How many samples fell below each bound; the last number counts those above all of them."""

    def __init__(self, buckets: Buckets):
        self._bounds, self._lock = buckets.buckets, threading.Lock()
        self._counts = [0] * (len(self._bounds) + 1)

    def add(self, value: float) -> None:
        """Counts a sample."""
        with self._lock:
            self._counts[bisect.bisect_right(self._bounds, value)] += 1

    def value(self) -> list[int]:
        """The numbers of samples now."""
        return list(self._counts)


class Metric:
    """A named metric. `labels` are the names of the labels of its cells."""

    _first: ClassVar[Any] = None
    _cell_type: ClassVar[Any] = _Cell

    def __init__(self, name: str, description: str, *labels: str):
        self.name, self.description, self.labels = name, description, labels
        self._cells: dict[tuple[str, ...], Any] = {}

    def _new_cell(self) -> Any:
        return self._cell_type(self._first)

    def get_cell(self, *labels: str) -> Any:
        """The cell for values of the labels.

        >>> tf.__internal__.monitoring.BoolGauge("/api/used", "what is used", "name").get_cell("layers").set(True)
        """
        if len(labels) != len(self.labels):
            raise ValueError(f"The {type(self).__name__} expects taking {len(self.labels)} labels")
        return self._cells.get(labels) or self._cells.setdefault(labels, self._new_cell())


class Counter(Metric):
    """Numbers that are counted up."""
    _first, _cell_type = 0, CounterCell


class IntGauge(Metric):
    """Integers that are set."""
    _first, _cell_type = 0, IntGaugeCell


class StringGauge(Metric):
    """Strings that are set."""
    _first, _cell_type = "", StringGaugeCell


@export("__internal__.monitoring.BoolGauge")
class BoolGauge(Metric):
    """Booleans that are set."""
    _first, _cell_type = False, BoolGaugeCell


class Sampler(Metric):
    """Distributions of samples, counted by `buckets`."""

    def __init__(self, name: str, buckets: Buckets, description: str, *labels: str):
        super().__init__(name, description, *labels)
        self._buckets = buckets

    def _new_cell(self) -> SamplerCell:
        return SamplerCell(self._buckets)
