"""tf.contrib.learn.monitors: callbacks for `fit` from before hooks, run as hooks of the session.

A monitor is called around each step with the global step that the step reaches, requests tensors by name, and ends training by
returning True. `replace_monitors_with_hooks` adapts a list of them; `fit` and `Experiment` call it.
"""
from __future__ import annotations

import inspect
import os
import time
from collections.abc import Iterable
from typing import Any

import numpy as np

from penstock._src.base.api import export
from penstock.compat import v1 as tf


def _monitor(thing: Any) -> Any:
    return export(v1=[f"{p}.monitors.{thing.__name__}" for p in ("contrib.learn", "contrib.learn.python.learn")])(thing)


@_monitor
class BaseMonitor:
    """The callbacks of a monitor. Subclasses call those of this class from their own."""

    def __init__(self) -> None:
        self._begun = False
        self._current_epoch: int | None = None
        self._current_step: int | None = None
        self._max_steps: int | None = None
        self._estimator: Any = None

    @property
    def run_on_all_workers(self) -> bool:
        """Whether it runs on every worker, not only on the chief."""
        return False

    def set_estimator(self, estimator: Any) -> None:
        """Called with the estimator that is trained, before training."""
        if estimator is None:
            raise ValueError("estimator is None; a monitor needs the estimator that it follows.")
        self._estimator = estimator

    def begin(self, max_steps: int | None = None) -> None:
        """Called when training begins, with its graph as the default graph."""
        if self._begun:
            raise ValueError("begin was called twice without end.")
        self._max_steps, self._begun = max_steps, True

    def end(self, session: Any = None) -> None:
        """Called when training has ended."""
        if not self._begun:
            raise ValueError("end was called without begin.")
        self._max_steps, self._begun = None, False

    def epoch_begin(self, epoch: int) -> None:
        """Called when an epoch begins."""
        if self._current_epoch is not None:
            raise ValueError("epoch_begin was called twice without epoch_end.")
        if epoch < 0:
            raise ValueError(f"Invalid epoch {epoch}.")
        self._current_epoch = epoch

    def epoch_end(self, epoch: int) -> None:
        """Called when an epoch has ended."""
        if self._current_epoch != epoch:
            raise ValueError(f"epoch_end was called for epoch {epoch}, but the current one is {self._current_epoch}.")
        self._current_epoch = None

    def step_begin(self, step: int) -> list:
        """Called before a step; returns the tensors, or names of tensors, that the step shall compute, too."""
        if step < 0 or self._max_steps is not None and step > self._max_steps:
            raise ValueError(f"Invalid step {step}.")
        self._current_step = step
        return []

    def step_end(self, step: int, output: dict) -> bool:
        """Called after a step with the values of the requested tensors; returns whether training shall stop."""
        if self._current_step != step:
            raise ValueError(f"step_end was called for step {step}, but the current one is {self._current_step}.")
        self._current_step = None
        return False

    def post_step(self, step: int, session: Any) -> None:
        """Called after `step_end` of all monitors, with a session to run something else in."""


@_monitor
class EveryN(BaseMonitor):
    """Calls `every_n_step_begin`, `every_n_step_end` and `every_n_post_step` in the first steps and in every n-th; the last one
    also at the end."""

    def __init__(self, every_n_steps: int = 100, first_n_steps: int = 1):
        super().__init__()
        self._every_n_steps, self._first_n_steps = every_n_steps, first_n_steps
        self._last_successful_step: int | None = None
        self._last_active_step = 0
        self._every_n_step_begin_called = False

    def every_n_step_begin(self, step: int) -> list:
        """As `step_begin`, in the steps that are selected."""
        return []

    def every_n_step_end(self, step: int, outputs: dict) -> bool | None:
        """As `step_end`, in the steps that are selected."""
        return False

    def every_n_post_step(self, step: Any, session: Any) -> None:
        """As `post_step`, in the steps that are selected and at the end."""

    def step_begin(self, step: int) -> list:
        """Selects the step or not."""
        super().step_begin(step)
        self._every_n_step_begin_called = (step <= self._first_n_steps or step == self._max_steps or
                                           step >= self._every_n_steps + self._last_active_step)
        return self.every_n_step_begin(step) if self._every_n_step_begin_called else []

    def step_end(self, step: int, output: dict) -> bool:
        """Passes the values to `every_n_step_end` if the step is selected."""
        super().step_end(step, output)
        return bool(self._every_n_step_begin_called and self.every_n_step_end(step, output))

    def post_step(self, step: int, session: Any) -> None:
        """Counts the step."""
        super().post_step(step, session)
        if self._every_n_step_begin_called:
            self.every_n_post_step(step, session)
            self._last_active_step = step
        self._last_successful_step = step

    def end(self, session: Any = None) -> None:
        """Calls `every_n_post_step` if the last step was not selected."""
        super().end(session=session)
        if self._last_successful_step != self._last_active_step:
            self.every_n_post_step(self._last_successful_step, session)


def _value(outputs: dict, request: Any) -> Any:
    return outputs[request] if request in outputs else outputs[request.name]


def _shown(outputs: dict, names: dict) -> str:
    return ", ".join(f"{tag} = {_value(outputs, name)}" for tag, name in names.items() if name in outputs)


@_monitor
class StopAtStep(BaseMonitor):
    """Ends training after a number of steps, or at a step."""

    def __init__(self, num_steps: int | None = None, last_step: int | None = None):
        super().__init__()
        if (num_steps is None) == (last_step is None):
            raise ValueError("Give one of num_steps and last_step.")
        self._num_steps, self._last_step = num_steps, last_step

    @property
    def run_on_all_workers(self) -> bool:
        """Every worker counts."""
        return True

    def step_begin(self, step: int) -> list:
        """The first step determines the last one."""
        if self._last_step is None:
            assert self._num_steps is not None
            self._last_step = step + self._num_steps - 1
        return super().step_begin(step)

    def step_end(self, step: int, output: dict) -> bool:
        """True at the last step."""
        super().step_end(step, output)
        assert self._last_step is not None
        return step >= self._last_step


@_monitor
class PrintTensor(EveryN):
    """Logs the values of tensors, given by name or as a dictionary of names."""

    def __init__(self, tensor_names: Any, every_n: int = 100, first_n: int = 1):
        super().__init__(every_n, first_n)
        self._tensor_names = dict(tensor_names) if isinstance(tensor_names, dict) else {n: n for n in tensor_names}

    def every_n_step_begin(self, step: int) -> list:
        """Requests the tensors."""
        return list(self._tensor_names.values())

    def every_n_step_end(self, step: int, outputs: dict) -> None:
        """Logs them."""
        tf.logging.info("Step %d: %s", step, _shown(outputs, self._tensor_names))


@_monitor
class LoggingTrainable(EveryN):
    """Logs the values of trainable variables."""

    def __init__(self, scope: str | None = None, every_n: int = 100, first_n: int = 1):
        super().__init__(every_n, first_n)
        self._scope, self._names = scope, {}

    def begin(self, max_steps: int | None = None) -> None:
        """Finds the variables, while the graph can still get the ops that read them."""
        super().begin(max_steps)
        self._names = {v.name: v.value().name for v in tf.trainable_variables(self._scope)}

    def every_n_step_begin(self, step: int) -> list:
        """Requests the variables."""
        return list(self._names.values())

    def every_n_step_end(self, step: int, outputs: dict) -> None:
        """Logs them."""
        tf.logging.info("Trainable variables at step %d: %s", step, _shown(outputs, self._names))


@_monitor
class SummarySaver(EveryN):
    """Writes summaries, by default to the folder of the model."""

    def __init__(self, summary_op: Any, save_steps: int = 100, output_dir: Any = None, summary_writer: Any = None,
                 scaffold: Any = None):
        super().__init__(every_n_steps=save_steps)
        self._summary_op, self._scaffold = summary_op, scaffold
        self._summary_writer = tf.summary.FileWriter(output_dir) if summary_writer is None and output_dir else summary_writer

    def set_estimator(self, estimator: Any) -> None:
        """Opens a file in the folder of the model if no other was given."""
        super().set_estimator(estimator)
        if self._summary_writer is None:
            self._summary_writer = tf.summary.FileWriterCache.get(estimator.model_dir)

    def every_n_step_begin(self, step: int) -> list:
        """Requests the summary."""
        if self._summary_op is None and self._scaffold is not None:
            self._summary_op = self._scaffold.summary_op
        return [] if self._summary_op is None else [self._summary_op]

    def every_n_step_end(self, step: int, outputs: dict) -> None:
        """Writes it."""
        if self._summary_op is not None and self._summary_writer is not None:
            self._summary_writer.add_summary(_value(outputs, self._summary_op), step)

    def end(self, session: Any = None) -> None:
        """Flushes the file."""
        super().end(session)
        if self._summary_writer is not None:
            self._summary_writer.flush()


@_monitor
class ValidationMonitor(EveryN):
    """Evaluates the newest checkpoint during training, and ends training if a metric has not improved for a number of steps.

    >>> monitor = tf.contrib.learn.monitors.ValidationMonitor(x, y, every_n_steps=50, early_stopping_rounds=200)
    >>> classifier.fit(x=x_train, y=y_train, steps=2000, monitors=[monitor])
    """

    def __init__(self, x: Any = None, y: Any = None, input_fn: Any = None, batch_size: int | None = None,
                 eval_steps: int | None = None, every_n_steps: int = 100, metrics: Any = None, hooks: Any = None,
                 early_stopping_rounds: int | None = None, early_stopping_metric: str = "loss",
                 early_stopping_metric_minimize: bool = True, name: str | None = None, check_interval_secs: float | None = 5):
        super().__init__(every_n_steps=every_n_steps, first_n_steps=-1)
        if x is None and input_fn is None:
            raise ValueError("Either x or input_fn must be provided.")
        self.x, self.y, self.input_fn, self.batch_size = x, y, input_fn, batch_size
        self.eval_steps, self.metrics, self.hooks, self.name = eval_steps, metrics, hooks, name
        self.early_stopping_rounds = early_stopping_rounds
        self.early_stopping_metric = early_stopping_metric
        self.early_stopping_metric_minimize = early_stopping_metric_minimize
        self._best_value_step: int | None = None
        self._best_value: Any = None
        self._best_metrics: dict | None = None
        self._early_stopped = False
        self._latest_path: str | None = None
        self._checked_at: float | None = None
        self._check_interval_secs = check_interval_secs

    early_stopped = property(lambda self: self._early_stopped, doc="Whether this monitor has ended training.")
    best_step = property(lambda self: self._best_value_step, doc="The step with the best value of the metric.")
    best_value = property(lambda self: self._best_value, doc="The best value of the metric.")
    best_metrics = property(lambda self: self._best_metrics, doc="All metrics of the best step.")

    def every_n_step_end(self, step: int, outputs: dict) -> bool:
        """Evaluates if there is a new checkpoint."""
        if self._estimator is None:
            raise ValueError("set_estimator was not called: pass the monitor to fit, or to replace_monitors_with_hooks.")
        if not self._new_checkpoint():
            return False
        found = self._evaluate()
        tf.logging.info("Validation at step %d: %s", step, ", ".join(f"{k} = {v}" for k, v in found.items()))
        return self.early_stopping_rounds is not None and self._stops(step, found)

    def _new_checkpoint(self) -> bool:
        """Whether there is another checkpoint than at the last evaluation. Folders are not listed too often."""
        now = time.monotonic()
        if self._checked_at is not None and self._check_interval_secs is not None and \
                now - self._checked_at <= self._check_interval_secs:
            return False
        self._checked_at = now
        before, self._latest_path = self._latest_path, tf.train.latest_checkpoint(self._estimator.model_dir)
        return self._latest_path not in (None, before)

    def _evaluate(self) -> dict:
        common = {"input_fn": self.input_fn, "steps": self.eval_steps, "hooks": self.hooks, "name": self.name}
        own = {"x": self.x, "y": self.y, "batch_size": self.batch_size, "metrics": self.metrics}
        if not isinstance(self._estimator, tf.estimator.Estimator):
            return self._estimator.evaluate(**common, **own)
        if given := [k for k, v in own.items() if v is not None]:
            raise ValueError(f"tf.estimator.Estimator does not take {', '.join(given)}: give ValidationMonitor an input_fn.")
        return self._estimator.evaluate(**common)

    def _stops(self, step: int, found: dict) -> bool:
        if self.early_stopping_metric not in found:
            raise ValueError(f"There is no metric {self.early_stopping_metric!r} among {sorted(found)}.")
        value = found[self.early_stopping_metric]
        if self._best_value is None or \
                (value < self._best_value if self.early_stopping_metric_minimize else value > self._best_value):
            self._best_value, self._best_metrics, self._best_value_step = value, dict(found), step
        assert self._best_value_step is not None and self.early_stopping_rounds is not None
        if step - self._best_value_step < self.early_stopping_rounds:
            return False
        tf.logging.info("Training ends early. The best step was %d, with %s = %s.", self._best_value_step,
                        self.early_stopping_metric, self._best_value)
        self._early_stopped = True
        return True


@_monitor
class CaptureVariable(EveryN):
    """Keeps the values of a tensor, by step."""

    def __init__(self, var_name: str, every_n: int = 100, first_n: int = 1):
        super().__init__(every_n, first_n)
        self._var_name = var_name
        self._var_values: dict[int, Any] = {}

    values = property(lambda self: self._var_values, doc="The values, by step.")

    def every_n_step_begin(self, step: int) -> list:
        """Requests the tensor."""
        return [self._var_name]

    def every_n_step_end(self, step: int, outputs: dict) -> None:
        """Keeps its value."""
        self._var_values[step] = _value(outputs, self._var_name)


@_monitor
class CheckpointSaver(BaseMonitor):
    """Writes a checkpoint every so many steps or seconds, and at the end."""

    def __init__(self, checkpoint_dir: str, save_secs: float | None = None, save_steps: int | None = None, saver: Any = None,
                 checkpoint_basename: str = "model.ckpt", scaffold: Any = None):
        super().__init__()
        if (save_steps is None) == (save_secs is None):
            raise ValueError("Give one of save_steps and save_secs.")
        self._saver, self._scaffold = saver, scaffold
        self._save_path = os.path.join(checkpoint_dir, checkpoint_basename)
        self._save_secs, self._save_steps = save_secs, save_steps
        self._forget()

    def _forget(self) -> None:
        self._saved_at: float | None = None
        self._last_saved_step: int | None = None
        self._last_begin_step: int | None = None

    def begin(self, max_steps: int | None = None) -> None:
        """Counts from here."""
        super().begin(max_steps)
        self._forget()

    def step_begin(self, step: int) -> list:
        """Keeps the step for the checkpoint of the end."""
        self._last_begin_step = step
        return super().step_begin(step)

    def post_step(self, step: int, session: Any) -> None:
        """Writes a checkpoint if one is due."""
        super().post_step(step, session)
        if self._saved_at is None or self._last_saved_step is None or \
                self._save_steps is not None and step >= self._last_saved_step + self._save_steps or \
                self._save_secs is not None and time.monotonic() >= self._saved_at + self._save_secs:
            self._save(step, session)

    def end(self, session: Any = None) -> None:
        """Writes the last checkpoint."""
        super().end(session)
        self._save(self._last_begin_step, session)

    def _save(self, step: int | None, session: Any) -> None:
        if step is None or step == self._last_saved_step:
            return
        self._saved_at, self._last_saved_step = time.monotonic(), step
        (self._saver or self._scaffold.saver).save(session, self._save_path, global_step=step)


@_monitor
class StepCounter(EveryN):
    """Writes a summary of the steps per second."""

    def __init__(self, every_n_steps: int = 100, output_dir: Any = None, summary_writer: Any = None):
        super().__init__(every_n_steps=every_n_steps)
        self._reported: tuple[int, float] | None = None
        self._summary_writer = tf.summary.FileWriterCache.get(output_dir) if summary_writer is None and output_dir else \
            summary_writer

    def set_estimator(self, estimator: Any) -> None:
        """Opens a file in the folder of the model if no other was given."""
        super().set_estimator(estimator)
        if self._summary_writer is None:
            self._summary_writer = tf.summary.FileWriterCache.get(estimator.model_dir)

    def every_n_step_end(self, step: int, outputs: dict) -> None:
        """Writes the rate since the last time."""
        now = time.monotonic()
        if self._reported is not None and self._summary_writer is not None:
            rate = (step - self._reported[0]) / max(now - self._reported[1], 1e-9)
            value = tf.Summary.Value(tag="global_step/sec", simple_value=rate)
            self._summary_writer.add_summary(tf.Summary(value=[value]), step)
        self._reported = step, now


NanLossDuringTrainingError = tf.train.NanLossDuringTrainingError
export.value(NanLossDuringTrainingError, v1=["contrib.learn.NanLossDuringTrainingError",
                                             "contrib.learn.monitors.NanLossDuringTrainingError",
                                             "contrib.learn.python.learn.monitors.NanLossDuringTrainingError"])


@_monitor
class NanLoss(EveryN):
    """Ends training, by default with an error, if the loss is NaN."""

    def __init__(self, loss_tensor: Any, every_n_steps: int = 100, fail_on_nan_loss: bool = True):
        super().__init__(every_n_steps=every_n_steps)
        self._loss_tensor, self._fail_on_nan_loss = loss_tensor, fail_on_nan_loss

    def every_n_step_begin(self, step: int) -> list:
        """Requests the loss."""
        return [self._loss_tensor]

    def every_n_step_end(self, step: int, outputs: dict) -> bool:
        """Checks it."""
        if not np.isnan(_value(outputs, self._loss_tensor)):
            return False
        if self._fail_on_nan_loss:
            raise NanLossDuringTrainingError
        tf.logging.warning("The loss is NaN at step %d; training ends.", step)
        return True


@_monitor
def get_default_monitors(loss_op: Any = None, summary_op: Any = None, save_summary_steps: int = 100, output_dir: Any = None,
                         summary_writer: Any = None) -> list:
    """Monitors that log the loss and write a summary."""
    found: list[BaseMonitor] = []
    if loss_op is not None:
        found.append(PrintTensor({"loss": loss_op.name}))
    if summary_op is not None:
        found.append(SummarySaver(summary_op, save_summary_steps, output_dir, summary_writer))
    return found


@_monitor
class RunHookAdapterForMonitors(tf.train.SessionRunHook):
    """Monitors as one hook."""

    def __init__(self, monitors: Iterable[BaseMonitor]):
        self._monitors = list(monitors)

    def begin(self) -> None:
        """Begins all monitors."""
        self._global_step = tf.train.get_global_step()
        for monitor in self._monitors:
            monitor.begin(max_steps=None)

    def before_run(self, run_context: Any) -> Any:
        """Collects the requests of all monitors. The global step is read here, because the step itself may read it before or
        after its update."""
        self._step = int(run_context.session.run(self._global_step)) + 1
        requests = [r for m in self._monitors for r in m.step_begin(self._step) or ()]
        graph = run_context.session.graph
        return tf.train.SessionRunArgs({r: _element(graph, r) for r in requests})

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Passes the values to all monitors, then the session."""
        for monitor in self._monitors:
            if monitor.step_end(self._step, run_values.results):
                run_context.request_stop()
        for monitor in self._monitors:
            monitor.post_step(self._step, run_context.session)

    def end(self, session: Any) -> None:
        """Ends all monitors."""
        for monitor in self._monitors:
            monitor.end(**({"session": session} if "session" in inspect.signature(monitor.end).parameters else {}))


def _element(graph: Any, request: Any) -> Any:
    """What a monitor requests; a name without an output is that of the first one."""
    if isinstance(request, str) and ":" not in request:
        request += ":0"
    return graph.as_graph_element(request)


@_monitor
def replace_monitors_with_hooks(monitors_or_hooks: Any, estimator: Any) -> list:
    """The hooks of a list, and one hook for all monitors in it."""
    given = list(monitors_or_hooks or ())
    hooks = [m for m in given if isinstance(m, tf.train.SessionRunHook)]
    monitors = [m for m in given if not isinstance(m, tf.train.SessionRunHook) and
                (estimator.config.is_chief or m.run_on_all_workers)]
    for monitor in monitors:
        monitor.set_estimator(estimator)
    return [*hooks, RunHookAdapterForMonitors(monitors)] if monitors else hooks
