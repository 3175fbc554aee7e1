"""Hooks that report on training: values in the log, steps per second, summaries, profiles."""
from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from penstock._src.base import tf_logging
from penstock._src.base.api import export
from penstock._src.execute.timeline import Timeline
from penstock._src.graph import context, messages
from penstock._src.graph.messages import SessionLog, Summary
from penstock._src.io.paths import write_atomically
from penstock._src.training.summary.file_writer import FileWriterCache
from penstock._src.training.train.hooks.base import SessionRunArgs, SessionRunHook
from penstock._src.training.train.hooks.stopping import step_tensor
from penstock._src.training.train.hooks.timer import NeverTriggerTimer, SecondOrStepTimer, step_if_due


def graph_element(of: Any) -> Any:
    """A tensor or operation of the default graph, by itself or by name."""
    return context.current_graph().as_graph_element(of) if isinstance(of, str) or hasattr(of, "graph") else of


def writer_for(given: Any, folder: str | None) -> Any:
    """A summary writer: the given one, or one for a folder, which hooks share."""
    if given is None and folder:
        return FileWriterCache.get(folder)
    return given


@export(v1=["train.LoggingTensorHook", "estimator.LoggingTensorHook"], v2=["estimator.LoggingTensorHook"])
class LoggingTensorHook(SessionRunHook):
    """Logs tensors every `every_n_iter` steps or `every_n_secs` seconds, and at the end if requested.

    Args:
        tensors: Tensors or names: a list, or a dictionary by label.
        every_n_iter: Number of steps between lines.
        every_n_secs: Seconds between lines.
        at_end: Whether to log at the end only.
        formatter: Function from a dictionary of values to text.

    Raises:
        ValueError: if both or neither interval is given.

    >>> with tf.Graph().as_default():
    ...     loss = tf.constant(0.5, name="loss")
    ...     hook = tf.estimator.LoggingTensorHook({"loss": loss}, every_n_iter=100)
    ...     with tf.compat.v1.train.MonitoredSession(hooks=[hook]) as sess:
    ...         print(sess.run(loss))
    0.5
    """

    def __init__(self, tensors: Any, every_n_iter: int | None = None, every_n_secs: float | None = None,
                 at_end: bool = False, formatter: Callable[[dict], str] | None = None):
        if (every_n_iter is None) + (every_n_secs is None) != 1 and not (
                at_end and every_n_iter is None and every_n_secs is None):
            raise ValueError("either at_end and/or exactly one of every_n_iter and every_n_secs must be provided.")
        if every_n_iter is not None and every_n_iter <= 0:
            raise ValueError(f"invalid every_n_iter={every_n_iter}.")
        if isinstance(tensors, dict):
            self._tag_order: Iterable = tensors.keys()
        else:
            self._tag_order = tensors
            tensors = {t: t for t in tensors}
        self._tensors, self._formatter, self._at_end = tensors, formatter, at_end
        self._timer = NeverTriggerTimer() if every_n_iter is None and every_n_secs is None else \
            SecondOrStepTimer(every_secs=every_n_secs, every_steps=every_n_iter)

    def begin(self) -> None:
        """Finds the tensors."""
        self._timer.reset()
        self._iter_count = 0
        self._current_tensors = {tag: graph_element(t) for tag, t in self._tensors.items()}

    def before_run(self, run_context: Any) -> Any:
        """Requests the tensors when it is time."""
        self._should_trigger = self._timer.should_trigger_for_step(self._iter_count)
        return SessionRunArgs(self._current_tensors) if self._should_trigger else None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Logs them."""
        if self._should_trigger:
            self._log_tensors(run_values.results)
        self._iter_count += 1

    def end(self, session: Any) -> None:
        """Logs them again, if requested."""
        if self._at_end:
            self._log_tensors(session.run(self._current_tensors))

    def _log_tensors(self, values: dict) -> None:
        seconds, _ = self._timer.update_last_triggered_step(self._iter_count)
        if self._formatter:
            tf_logging.info(self._formatter(values))
            return
        with np.printoptions(suppress=True):
            text = ", ".join(f"{tag} = {values[tag]}" for tag in self._tag_order)
        tf_logging.info("%s (%.3f sec)" if seconds is not None else "%s", *(text,) if seconds is None else (text, seconds))


@export(v1=["train.StepCounterHook", "estimator.StepCounterHook"], v2=["estimator.StepCounterHook"])
class StepCounterHook(SessionRunHook):
    """Logs steps per second, and writes them as the summary `global_step/sec`."""

    def __init__(self, every_n_steps: int | None = 100, every_n_secs: float | None = None, output_dir: str | None = None,
                 summary_writer: Any = None):
        if (every_n_steps is None) == (every_n_secs is None):
            raise ValueError("exactly one of every_n_steps and every_n_secs should be provided.")
        self._timer = SecondOrStepTimer(every_steps=every_n_steps, every_secs=every_n_secs)
        self._summary_writer, self._output_dir = summary_writer, output_dir
        self._last_global_step: int | None = None
        self._steps_per_run = 1
        self._said = False

    def _set_steps_per_run(self, steps_per_run: int) -> None:
        self._steps_per_run = steps_per_run

    def begin(self) -> None:
        """Finds the global step and the writer."""
        self._summary_writer = writer_for(self._summary_writer, self._output_dir)
        self._global_step_tensor = step_tensor("StepCounterHook")
        self._summary_tag = f"{self._global_step_tensor.op.name}/sec"

    def before_run(self, run_context: Any) -> Any:
        """Requests the global step."""
        return SessionRunArgs(self._global_step_tensor)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Counts."""
        stale = int(run_values.results)
        step = step_if_due(self._timer, run_context.session, stale, self._steps_per_run, self._global_step_tensor)
        if step is not None:
            seconds, steps = self._timer.update_last_triggered_step(step)
            if seconds is not None:
                self._log_and_record(steps, seconds, step)
        self._warn_if_stuck(stale)

    def _log_and_record(self, elapsed_steps: Any, elapsed_time: float, global_step: int) -> None:
        rate = elapsed_steps / elapsed_time if elapsed_time else float("inf")
        if self._summary_writer is not None:
            value = Summary.Value(tag=self._summary_tag, simple_value=rate)
            self._summary_writer.add_summary(Summary(value=[value]), global_step)
        tf_logging.info("%s: %g", self._summary_tag, rate)

    def _warn_if_stuck(self, stale: int) -> None:
        """Warns if the global step does not change: usually `global_step=` is missing in minimize()."""
        if self._last_global_step is not None and stale == self._last_global_step and \
                self._timer.last_triggered_step() is not None:
            tf_logging.log(tf_logging.DEBUG if self._said else tf_logging.WARN,
                     "It seems that global step (tf.train.get_global_step) has not been increased. Current value (could "
                     "be stable): %s vs previous value: %s. You could increase the global step by passing "
                     "tf.train.get_global_step() to Optimizer.apply_gradients or Optimizer.minimize.",
                     stale, self._last_global_step)
            self._said = True
        self._last_global_step = stale


@export(v1=["train.SummarySaverHook", "estimator.SummarySaverHook"], v2=["estimator.SummarySaverHook"])
class SummarySaverHook(SessionRunHook):
    """Writes summaries every `save_steps` steps or `save_secs` seconds."""

    def __init__(self, save_steps: int | None = None, save_secs: float | None = None, output_dir: str | None = None,
                 summary_writer: Any = None, scaffold: Any = None, summary_op: Any = None):
        if (scaffold is None) == (summary_op is None):
            raise ValueError("Exactly one of scaffold or summary_op must be provided.")
        self._summary_op, self._scaffold = summary_op, scaffold
        self._summary_writer, self._output_dir = summary_writer, output_dir
        self._timer = SecondOrStepTimer(every_secs=save_secs, every_steps=save_steps)

    def begin(self) -> None:
        """Finds the global step and the writer."""
        self._summary_writer = writer_for(self._summary_writer, self._output_dir)
        self._next_step: int | None = None
        self._global_step_tensor = step_tensor("SummarySaverHook")

    def before_run(self, run_context: Any) -> Any:
        """Requests the summaries when it is time."""
        self._request_summary = self._next_step is None or self._timer.should_trigger_for_step(self._next_step)
        requests = {"global_step": self._global_step_tensor}
        if self._request_summary and self._get_summary_op() is not None:
            requests["summary"] = self._get_summary_op()
        return SessionRunArgs(requests)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Writes them."""
        if not self._summary_writer:
            return
        step = int(run_values.results["global_step"])
        if self._next_step is None or self._request_summary:
            step = int(run_context.session.run(self._global_step_tensor))
        if self._next_step is None:
            self._summary_writer.add_session_log(SessionLog(status=SessionLog.START), step)
        if self._request_summary:
            self._timer.update_last_triggered_step(step)
            for summary in run_values.results.get("summary", ()):
                self._summary_writer.add_summary(summary, step)
        self._next_step = step + 1

    def end(self, session: Any = None) -> None:
        """Flushes."""
        if self._summary_writer:
            self._summary_writer.flush()

    def _get_summary_op(self) -> Any:
        op = self._summary_op if self._summary_op is not None else \
            self._scaffold.summary_op if self._scaffold.summary_op is not None else None
        return None if op is None else op if isinstance(op, list) else [op]


@export(v1=["train.ProfilerHook", "estimator.ProfilerHook"], v2=["estimator.ProfilerHook"])
class ProfilerHook(SessionRunHook):
    """Writes a Chrome trace of a step (`timeline-N.json`) every `save_steps` steps or `save_secs` seconds."""

    def __init__(self, save_steps: int | None = None, save_secs: float | None = None, output_dir: str = "",
                 show_dataflow: bool = True, show_memory: bool = False):
        self._output_file = os.path.join(output_dir, "timeline-{}.json")
        self._file_writer = writer_for(None, output_dir)
        self._show_dataflow, self._show_memory = show_dataflow, show_memory
        self._timer = SecondOrStepTimer(every_secs=save_secs, every_steps=save_steps)

    def begin(self) -> None:
        """Finds the global step."""
        self._next_step: int | None = None
        self._global_step_tensor = step_tensor("ProfilerHook")

    def before_run(self, run_context: Any) -> Any:
        """Requests a trace when it is time."""
        self._request_summary = self._next_step is not None and self._timer.should_trigger_for_step(self._next_step)
        options = messages.RunOptions(trace_level=messages.RunOptions.FULL_TRACE) if self._request_summary else None
        return SessionRunArgs({"global_step": self._global_step_tensor}, options=options)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Writes it."""
        stale = int(run_values.results["global_step"])
        if self._next_step is None:
            self._timer.update_last_triggered_step(stale)
        step = stale + 1
        if self._request_summary:
            step = int(run_context.session.run(self._global_step_tensor))
            self._timer.update_last_triggered_step(step)
            self._save(step, run_values.run_metadata)
            if self._file_writer is not None:
                self._file_writer.add_run_metadata(run_values.run_metadata, f"step_{step}")
        self._next_step = step + 1

    def _save(self, step: int, metadata: Any) -> None:
        trace = Timeline(metadata.step_stats).generate_chrome_trace_format(self._show_dataflow, self._show_memory)
        path = self._output_file.format(step)
        write_atomically(path, trace.encode())
        tf_logging.info("Saving timeline for %d into '%s'.", step, path)


