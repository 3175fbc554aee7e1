"""tf.estimator.experimental: hooks that end training depending on evaluations, in all tasks of a cluster.

The chief reads the summaries that evaluations have written, and sets a variable; the workers read it.
"""
from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import penstock.compat.v1 as tf
from penstock._src.base.api import export
from penstock._src.models.estimator.estimator import Estimator, _global_step_of


@export("estimator.experimental.make_early_stopping_hook")
def make_early_stopping_hook(estimator: Any, should_stop_fn: Any, run_every_secs: float | None = 60,
                             run_every_steps: int | None = None) -> Any:
    """A hook that ends training once `should_stop_fn()` is true, which is called from time to time.

    >>> hook = tf.estimator.experimental.make_early_stopping_hook(estimator, lambda: os.path.exists("/tmp/stop"))
    """
    if not isinstance(estimator, Estimator):
        raise TypeError(f"`estimator` must have type `tf.estimator.Estimator`. Got: {type(estimator)}")
    if run_every_secs is not None and run_every_steps is not None:
        raise ValueError("Only one of `run_every_secs` and `run_every_steps` must be set.")
    return _Stop(should_stop_fn, run_every_secs, run_every_steps) if estimator.config.is_chief else _FollowStop()


def _stop_variable() -> Any:
    with tf.variable_scope("signal_early_stopping", reuse=tf.AUTO_REUSE):
        return tf.get_variable("STOP", [], tf.bool, tf.zeros_initializer(), trainable=False,
                               collections=[tf.GraphKeys.GLOBAL_VARIABLES])


class _Stop(tf.train.SessionRunHook):
    """The chief's hook: decides, and notifies the others."""

    def __init__(self, should_stop: Callable[[], bool], secs: float | None, steps: int | None):
        self._should_stop = should_stop
        self._timer = tf.train.SecondOrStepTimer(every_secs=secs, every_steps=steps)

    def begin(self) -> None:
        """Creates the variable, and the ops that set it."""
        self._step = tf.train.get_global_step()
        variable = _stop_variable()
        self._stop, self._go = tf.assign(variable, True), tf.assign(variable, False)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Training that ended early in another run continues in this one."""
        session.run(self._go)

    def before_run(self, run_context: Any) -> Any:
        """Requests the step."""
        return tf.train.SessionRunArgs(self._step)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Calls the condition when it is due, and ends training if it holds."""
        step = run_values.results
        if self._timer.should_trigger_for_step(step):
            self._timer.update_last_triggered_step(step)
            if self._should_stop():
                tf.logging.info("Requesting early stopping at global step %d", step)
                run_context.session.run(self._stop)
                run_context.request_stop()


class _FollowStop(tf.train.SessionRunHook):
    """On a worker: reads the variable."""

    def begin(self) -> None:
        """Finds the variable."""
        self._variable = _stop_variable()

    def before_run(self, run_context: Any) -> Any:
        """Requests it."""
        return tf.train.SessionRunArgs(self._variable)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Ends training if the chief has requested it."""
        if run_values.results:
            tf.logging.info("Early stopping requested, suspending run.")
            run_context.request_stop()


# -- what evaluations say ----------------------------------------------------------------------------------------------
def evaluations(folder: str) -> list[tuple[int, dict[str, float]]]:
    """The numbers of the evaluations that a folder has summaries of, in the order of their steps."""
    found: dict[int, dict[str, float]] = {}
    for name in sorted(tf.gfile.ListDirectory(folder)) if tf.gfile.Exists(folder) else ():
        if "tfevents" in name:
            for event in tf.train.summary_iterator(os.path.join(folder, name)):
                for value in event.summary.value:
                    if value.HasField("simple_value"):
                        found.setdefault(event.step, {})[value.tag] = value.simple_value
    return sorted(found.items())


def _hook(estimator: Any, judge: Callable[[list[tuple[int, float]]], bool], metric_name: str, eval_dir: str | None,
          min_steps: int, run_every_secs: float | None, run_every_steps: int | None) -> Any:
    def should_stop() -> bool:
        folder = eval_dir or estimator.eval_dir()
        values = []
        for step, metrics in evaluations(folder):
            if step >= min_steps:
                if metric_name not in metrics:
                    raise ValueError(f"The evaluation of step {step} in {folder} has no metric {metric_name!r}; it has "
                                     f"{sorted(metrics)}.")
                values.append((step, metrics[metric_name]))
        return judge(values)
    return make_early_stopping_hook(estimator, should_stop, run_every_secs, run_every_steps)


def _stalled(better: Callable[[float, float], bool], patience: int) -> Callable[[list[tuple[int, float]]], bool]:
    """Whether, at some evaluation, the best one was `patience` steps ago."""
    def judge(values: list[tuple[int, float]]) -> bool:
        best: tuple[int, float] | None = None
        for step, value in values:
            if best is None or better(value, best[1]):
                best = step, value
            if step - best[0] >= patience:
                tf.logging.info("No better value than %s, of step %s, at step %s.", best[1], best[0], step)
                return True
        return False
    return judge


@export("estimator.experimental.stop_if_higher_hook")
def stop_if_higher_hook(estimator: Any, metric_name: str, threshold: float, eval_dir: str | None = None, min_steps: int = 0,
                        run_every_secs: float | None = 60, run_every_steps: int | None = None) -> Any:
    """A hook that ends training once a metric of an evaluation is higher than a threshold.

    >>> hook = tf.estimator.experimental.stop_if_higher_hook(estimator, "accuracy", 0.95)
    """
    return _hook(estimator, lambda values: any(v > threshold for _, v in values), metric_name, eval_dir, min_steps,
                 run_every_secs, run_every_steps)


@export("estimator.experimental.stop_if_lower_hook")
def stop_if_lower_hook(estimator: Any, metric_name: str, threshold: float, eval_dir: str | None = None, min_steps: int = 0,
                       run_every_secs: float | None = 60, run_every_steps: int | None = None) -> Any:
    """A hook that ends training once a metric of an evaluation is lower than a threshold."""
    return _hook(estimator, lambda values: any(v < threshold for _, v in values), metric_name, eval_dir, min_steps,
                 run_every_secs, run_every_steps)


@export("estimator.experimental.stop_if_no_increase_hook")
def stop_if_no_increase_hook(estimator: Any, metric_name: str, max_steps_without_increase: int, eval_dir: str | None = None,
                             min_steps: int = 0, run_every_secs: float | None = 60, run_every_steps: int | None = None) -> Any:
    """A hook that ends training once a metric has not become higher for a number of steps."""
    return _hook(estimator, _stalled(lambda a, b: a > b, max_steps_without_increase), metric_name, eval_dir, min_steps,
                 run_every_secs, run_every_steps)


@export("estimator.experimental.stop_if_no_decrease_hook")
def stop_if_no_decrease_hook(estimator: Any, metric_name: str, max_steps_without_decrease: int, eval_dir: str | None = None,
                             min_steps: int = 0, run_every_secs: float | None = 60, run_every_steps: int | None = None) -> Any:
    """A hook that ends training once a metric has not become lower for a number of steps.

    >>> hook = tf.estimator.experimental.stop_if_no_decrease_hook(estimator, "loss", max_steps_without_decrease=1000)
    """
    return _hook(estimator, _stalled(lambda a, b: a < b, max_steps_without_decrease), metric_name, eval_dir, min_steps,
                 run_every_secs, run_every_steps)


# -- at a step that is saved -------------------------------------------------------------------------------------------
@export("estimator.experimental.make_stop_at_checkpoint_step_hook")
def make_stop_at_checkpoint_step_hook(estimator: Any, last_step: int, wait_after_file_check_secs: float = 30) -> Any:
    """A hook that ends training at a step; workers stay until there is a checkpoint of it."""
    if estimator.config.is_chief:
        return tf.train.StopAtStepHook(last_step=last_step)
    return _StopWhenSaved(str(estimator.model_dir), last_step, wait_after_file_check_secs)


class _StopWhenSaved(tf.train.SessionRunHook):
    def __init__(self, folder: str, last_step: int, wait_secs: float):
        self._folder, self._last, self._wait = folder, last_step, wait_secs

    def begin(self) -> None:
        """Finds the step."""
        self._step = tf.train.get_global_step()

    def before_run(self, run_context: Any) -> Any:
        """Requests the step."""
        return tf.train.SessionRunArgs(self._step)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Ends training when the last step is saved; waits a while if it is only reached."""
        if run_values.results + 1 >= self._last and run_context.session.run(self._step) >= self._last:
            if _global_step_of(self._folder) >= self._last:
                run_context.request_stop()
            else:
                time.sleep(self._wait)
