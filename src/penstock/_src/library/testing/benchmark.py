"""Benchmarks: classes whose methods named `benchmark...` are run by `--benchmarks=regex`, and print what they measured."""
from __future__ import annotations

import inspect
import re
import statistics
import time
from typing import Any

from penstock._src.base.api import export
from penstock._src.graph.context import get_default_session

_registry: list[type[Benchmark]] = []


@export("test.benchmark_config")
def benchmark_config() -> Any:
    """A ConfigProto for benchmarks: without the optimizations that would remove the measured ops."""
    from tensorboard.compat.proto.config_pb2 import ConfigProto
    config = ConfigProto()
    rewrite = config.graph_options.rewrite_options
    rewrite.dependency_optimization = rewrite.OFF
    return config


@export("test.Benchmark")
class Benchmark:
    """Base of classes of benchmarks.

    >>> class MatMul(tf.test.Benchmark):
    ...     def benchmark_small(self):
    ...         with tf.Graph().as_default(), tf.compat.v1.Session() as sess:
    ...             self.run_op_benchmark(sess, tf.matmul(tf.ones([8, 8]), tf.ones([8, 8])), min_iters=2)
    >>> MatMul().benchmark_small()      # doctest: +ELLIPSIS
    Benchmark [MatMul.benchmark_small] iters: 2, wall_time: ...
    """

    def __init__(self) -> None:
        pass

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _registry.append(cls)

    @classmethod
    def is_abstract(cls) -> bool:
        """Whether this is the base class itself."""
        return cls is Benchmark

    def report_benchmark(self, iters: int | None = None, cpu_time: float | None = None, wall_time: float | None = None,
                         throughput: float | None = None, extras: dict | None = None, name: str | None = None,
                         metrics: list | None = None) -> None:
        """Prints a measurement, under the name of the method that made it or `name`."""
        if extras is not None and not isinstance(extras, dict):
            raise TypeError("extras must be a dict")
        if metrics is not None and not isinstance(metrics, list):
            raise TypeError("metrics must be a list")
        for metric in metrics or ():
            if "name" not in metric or "value" not in metric:
                raise TypeError("a metric must have a 'name' and a 'value' field")
        values = {"iters": iters, "cpu_time": cpu_time, "wall_time": wall_time, "throughput": throughput,
                  "extras": extras or None, "metrics": metrics or None}
        shown = ", ".join(f"{k}: {v:g}" if isinstance(v, float) else f"{k}: {v}" for k, v in values.items() if v is not None)
        print(f"Benchmark [{type(self).__name__}.{name or self._caller()}] {shown}")

    def _caller(self) -> str:
        """The outermost method of this object that is running."""
        for frame in reversed(inspect.stack(context=0)):
            if frame.frame.f_locals.get("self") is self:
                return frame.function
        raise ValueError("Unable to determine calling Benchmark class.")

    def run_op_benchmark(self, sess: Any, op_or_tensor: Any, feed_dict: Any = None, burn_iters: int = 2,
                         min_iters: int = 10, store_trace: bool = False, store_memory_usage: bool = True,
                         name: str | None = None, extras: dict | None = None, mbs: float = 0) -> dict[str, Any]:
        """Runs a step `min_iters` times, after `burn_iters` untimed ones, and reports the median; returns the report."""
        for _ in range(burn_iters):
            sess.run(op_or_tensor, feed_dict=feed_dict)
        times = []
        for _ in range(min_iters):
            start = time.perf_counter()
            sess.run(op_or_tensor, feed_dict=feed_dict)
            times.append(time.perf_counter() - start)
        median = statistics.median(times) if times else -1.0
        values: dict[str, Any] = {
            "iters": min_iters, "wall_time": median, "extras": dict(extras or {}), "name": name,
            "throughput": mbs / median}
        self.report_benchmark(**values)
        return values

    def evaluate(self, tensors: Any) -> Any:
        """The values of tensors, in the default session."""
        session = get_default_session()
        if session is None:
            raise ValueError("Cannot evaluate tensors: no default session is registered. Use `with sess.as_default()`.")
        return session.run(tensors)


def run_benchmarks(pattern: str) -> None:
    """Runs the methods whose full name matches a regular expression; all of them for "all"."""
    for cls in list(_registry):
        methods = [n for n in dir(cls) if n.startswith("benchmark") and callable(getattr(cls, n))]
        chosen = [n for n in methods
                  if pattern == "all" or re.search(pattern, f"{cls.__module__}.{cls.__name__}.{n}")]
        if chosen:
            instance = cls()
            for name in chosen:
                getattr(instance, name)()
