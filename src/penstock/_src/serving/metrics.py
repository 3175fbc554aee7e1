"""Counters and histograms under TensorFlow Serving's names, written as Prometheus reads them."""
from __future__ import annotations

import bisect
import re
import threading
from collections.abc import Sequence


def exponential(scale: float, growth: float, count: int) -> list[float]:
    """The upper limits of `count` buckets, of which the last has none."""
    return [scale * growth ** i for i in range(count - 1)]


class Metric:
    """A number, or a histogram, for each combination of label values."""

    def __init__(self, name: str, kind: str, labels: Sequence[str], limits: Sequence[float] = ()):
        self.name, self.kind, self.labels, self.limits = name, kind, tuple(labels), list(limits)
        self._cells: dict[tuple[str, ...], list[float]] = {}
        self._lock = threading.Lock()

    def add(self, *values: str, by: float = 1) -> None:
        """Adds to a counter or gauge."""
        with self._lock:
            self._cells.setdefault(values, [0])[0] += by

    def observe(self, *values: str, value: float) -> None:
        """Counts a value of a histogram. A cell has the counts of its buckets, then the sum."""
        with self._lock:
            cell = self._cells.setdefault(values, [0] * (len(self.limits) + 2))
            cell[bisect.bisect_left(self.limits, value)] += 1
            cell[-1] += value

    def value(self, *values: str) -> float:
        """The value of a counter; of a histogram, how many values were counted."""
        with self._lock:
            cell = self._cells.get(values, [0])
            return sum(cell[:-1]) if self.kind == "histogram" else cell[0]

    def lines(self) -> list[str]:
        """The metric in Prometheus' text format."""
        name = re.sub("[^a-zA-Z0-9_]", ":", self.name)
        with self._lock:
            cells = {k: list(v) for k, v in self._cells.items()}
        out = [f"# TYPE {name} {self.kind}"]
        for values, cell in cells.items():
            given = ",".join(f'{k}="{_escaped(v)}"' for k, v in zip(self.labels, values, strict=True))
            if self.kind != "histogram":
                out.append(f"{name}{{{given}}} {cell[0]:g}")
                continue
            total, comma = 0.0, "," if given else ""
            for limit, count in zip([*map("{:g}".format, self.limits), "+Inf"], cell):
                total += count
                out.append(f'{name}_bucket{{{given}{comma}le="{limit}"}} {total:.0f}')
            out += [f"{name}_sum{{{given}}} {cell[-1]:.10g}", f"{name}_count{{{given}}} {total:.0f}"]
        return out


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


_LATENCY = exponential(10, 1.8, 33)                  # microseconds, up to about 20 minutes


class Metrics:
    """The metrics of one server."""

    def __init__(self) -> None:
        self.all: list[Metric] = []
        self.requests = self._new("request_count", "counter", ("model_name", "status"))
        self.request_latency = self._new("request_latency", "histogram", ("model_name", "API", "entrypoint"), _LATENCY)
        self.runtime_latency = self._new("runtime_latency", "histogram", ("model_name", "API", "runtime"), _LATENCY)
        self.example_counts = self._new("request_example_counts", "histogram", ("model",), exponential(1, 2, 15))
        self.example_total = self._new("request_example_count_total", "counter", ("model",))
        self.logged = self._new("request_log_count", "counter", ("model_name", "status_code"))
        self.warmup_latency = self._new("model_warmup_latency", "histogram", ("model_path", "status"), _LATENCY)
        self.warmup_records = self._new("model_warmup_records_read", "counter", ("model_path", "status"))
        self.queuing_latency = self._new("batching_session/queuing_latency", "histogram", ("thread_pool_name",),
                                         exponential(1, 2, 26))
        sizes = exponential(1, 2, 15)
        self.batch_sizes = self._new("batching_session/processed_batch_size", "histogram", ("model_name",), sizes)
        self.padding_sizes = self._new("batching_session/padding_size", "histogram", ("model_name",), sizes)
        self.in_flight = self._new("in_flight_requests", "gauge", ())

    def _new(self, name: str, kind: str, labels: Sequence[str], limits: Sequence[float] = ()) -> Metric:
        self.all.append(Metric(f"/tensorflow/serving/{name}", kind, labels, limits))
        return self.all[-1]

    def page(self) -> str:
        """All metrics, for Prometheus."""
        return "\n".join(line for metric in self.all for line in metric.lines()) + "\n"
