"""tf.summary.trace_on, trace_export and trace_off: collect the graphs of called functions for TensorBoard."""
from __future__ import annotations

import threading
from typing import Any

from penstock._src.base import tf_logging as logging
from penstock._src.base.api import export
from penstock._src.eager.function import OBSERVERS
from penstock._src.graph import context
from penstock._src.graph.convert import constant
from penstock._src.graph.messages import RunMetadata, SummaryMetadata
from penstock._src.training.summary.writers import write

_lock = threading.Lock()
_tracing: Any = None


@export(v2=["summary.trace_on"])
def trace_on(graph: bool = True, profiler: bool = False, profiler_outdir: Any = None) -> None:
    """Starts to collect the graphs of called functions."""
    global _tracing
    if not context.executing_eagerly():
        logging.warning("Cannot enable trace inside a tf.function.")
        return
    with _lock:
        if _tracing is not None:
            logging.warning("Trace already enabled")
            return
        _tracing = _Functions() if graph else False


class _Functions:
    """The functions that are called while this collects."""

    def __init__(self) -> None:
        self._found: dict[int, Any] = {}
        OBSERVERS.append(self.add)

    def add(self, function: Any) -> None:
        """Records a function."""
        self._found[id(function)] = function

    def graphs(self) -> list:
        """Their graphs."""
        return [f.graph for f in self._found.values()]

    def end(self) -> None:
        """Stops collecting."""
        OBSERVERS.remove(self.add)


@export(v2=["summary.trace_export"])
def trace_export(name: str, step: Any = None, profiler_outdir: Any = None) -> None:
    """Writes the collected graphs, and stops collecting."""
    if not context.executing_eagerly():
        logging.warning("Cannot export trace inside a tf.function.")
        return
    with _lock:
        if _tracing is None:
            raise ValueError("Must enable trace before export.")
        found = _tracing.graphs() if _tracing else []
    message = RunMetadata()
    for g in found:
        message.function_graphs.add().pre_optimization_graph.CopyFrom(g.as_graph_def())
    metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="graph_run_metadata_graph", content=b"1"))
    write(name, constant(message.SerializeToString()), step, metadata)
    trace_off()


@export(v2=["summary.trace_off"])
def trace_off() -> None:
    """Stops collecting."""
    global _tracing
    with _lock:
        if _tracing:
            _tracing.end()
        _tracing = None
