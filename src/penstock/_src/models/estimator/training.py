"""tf.estimator.train_and_evaluate: training with evaluations on the way, in one process or as one task of a cluster.

TF_CONFIG determines the task of this process. The chief and the workers train between-graph on the parameter servers, an
evaluator watches the checkpoints and evaluates each new one, a parameter server serves until it is ended.
"""
from __future__ import annotations

import collections
import contextlib
import math
import os
import time
from typing import Any

import penstock.compat.v1 as tf
from penstock._src.base.api import export
from penstock._src.base.waits import Wait
from penstock._src.models.estimator.estimator import Estimator, _global_step_of
from penstock._src.models.estimator.exporter import Exporter
from penstock._src.models.estimator.replicas import own_copies
from penstock._src.models.estimator.run_config import TaskType

_POLL_SECS = 2.0                     # how often an evaluator looks for a checkpoint
_STAGGER_SECS, _MOST_SECS = 5.0, 60.0


def _checked(spec: Any) -> Any:
    if not callable(spec.input_fn):
        raise TypeError(f"input_fn must be callable, given: {spec.input_fn}")
    for hook in spec.hooks:
        if not isinstance(hook, tf.train.SessionRunHook):
            raise TypeError(f"All hooks must be SessionRunHook instances, given: {hook}")
    return spec


@export("estimator.TrainSpec")
class TrainSpec(collections.namedtuple("TrainSpec", ["input_fn", "max_steps", "hooks", "saving_listeners"])):
    """How a model is trained.

    Args:
        input_fn: Function that returns features and labels, or a dataset.
        max_steps: Global step at which training ends; without end if None.
        hooks: List of `SessionRunHook`s.
        saving_listeners: Listeners of checkpoints.

    >>> def input_fn():
    ...     return tf.data.Dataset.from_tensors(({"x": [[1.]]}, [[2.]]))
    >>> tf.estimator.TrainSpec(input_fn, max_steps=1000).max_steps
    1000
    """

    def __new__(cls, input_fn: Any, max_steps: int | None = None, hooks: Any = None, saving_listeners: Any = None) -> TrainSpec:
        if max_steps is not None and max_steps <= 0:
            raise ValueError(f"Must specify max_steps > 0, given: {max_steps}")
        return _checked(super().__new__(cls, input_fn, max_steps, tuple(hooks or ()), tuple(saving_listeners or ())))


@export("estimator.EvalSpec")
class EvalSpec(collections.namedtuple("EvalSpec", ["input_fn", "steps", "name", "hooks", "exporters", "start_delay_secs",
                                                   "throttle_secs"])):
    """How a model is evaluated, and what is exported after.

    Args:
        input_fn: Function that returns features and labels, or a dataset.
        steps: Number of batches; until the input ends if None.
        name: Name of the evaluation, for several in one directory.
        hooks: List of `SessionRunHook`s.
        exporters: Exporters to run after each evaluation.
        start_delay_secs: Seconds before the first evaluation.
        throttle_secs: Seconds between evaluations.

    >>> def input_fn():
    ...     return tf.data.Dataset.from_tensors(({"x": [[1.]]}, [[2.]]))
    >>> tf.estimator.EvalSpec(input_fn, steps=10, throttle_secs=30).throttle_secs
    30
    """

    def __new__(cls, input_fn: Any, steps: int | None = 100, name: str | None = None, hooks: Any = None, exporters: Any = None,
                start_delay_secs: float = 120, throttle_secs: float = 600) -> EvalSpec:
        if steps is not None and steps <= 0:
            raise ValueError(f"Must specify steps > 0, given: {steps}")
        if start_delay_secs < 0 or throttle_secs < 0:
            raise ValueError("start_delay_secs and throttle_secs must be >= 0, given: "
                             f"{start_delay_secs} and {throttle_secs}")
        exporters = () if exporters is None else (exporters,) if isinstance(exporters, Exporter) else tuple(exporters)
        for exporter in exporters:
            if not isinstance(exporter, Exporter):
                raise TypeError(f"exporters must be an Exporter, an iterable of Exporter, or None; given {exporter}")
        if len({e.name for e in exporters}) < len(exporters):
            raise ValueError(f"Exporters must have different names: {[e.name for e in exporters]}")
        return _checked(super().__new__(cls, input_fn, steps, name, tuple(hooks or ()), exporters, start_delay_secs,
                                        throttle_secs))


@export("estimator.train_and_evaluate")
def train_and_evaluate(estimator: Any, train_spec: TrainSpec, eval_spec: EvalSpec) -> Any:
    """Trains and evaluates; in a cluster, does the work of this task. Locally, returns the last metrics and exports.

    Args:
        estimator: Estimator.
        train_spec: `TrainSpec`.
        eval_spec: `EvalSpec`.

    Returns:
        The metrics and exports of the last evaluation, on the task that evaluates.

    >>> def input_fn():
    ...     return tf.data.Dataset.from_tensors(({"x": [[1.]]}, [[2.]])).repeat(20)
    >>> estimator = tf.estimator.LinearRegressor([tf.feature_column.numeric_column("x")], model_dir="model")
    >>> train, evaluate = tf.estimator.TrainSpec(input_fn, max_steps=10), tf.estimator.EvalSpec(input_fn, steps=2)
    >>> results, exports = tf.estimator.train_and_evaluate(estimator, train, evaluate)
    >>> int(results["global_step"])
    10
    """
    if not isinstance(estimator, Estimator):
        raise TypeError(f"`estimator` must have type `tf.estimator.Estimator`, but it has {type(estimator)}")
    if not isinstance(train_spec, TrainSpec) or not isinstance(eval_spec, EvalSpec):
        raise TypeError("train_spec must be a TrainSpec and eval_spec an EvalSpec")
    config = estimator.config
    if config.task_type == TaskType.EVALUATOR:
        return _run_evaluator(estimator, train_spec, eval_spec)
    if not config.cluster_spec.as_dict():
        return _run_local(estimator, train_spec, eval_spec)
    if config.task_type == TaskType.PS:
        _server(config).join()
        return None
    in_step = own_copies(config.train_distribute)            # then the strategy has a server already
    with contextlib.nullcontext() if in_step else _served(config):
        if not config.is_chief and not in_step:
            delay = min(_MOST_SECS, (config.task_id + 1) * _STAGGER_SECS)
            if config.experimental_max_worker_delay_secs is not None:
                delay = min(delay, config.experimental_max_worker_delay_secs)
            tf.logging.info("Waiting %d secs before starting training.", delay)
            time.sleep(delay)
        if config.task_type == TaskType.MASTER:
            return _run_local(estimator, train_spec, eval_spec)
        estimator.train(train_spec.input_fn, hooks=train_spec.hooks, max_steps=train_spec.max_steps,
                        saving_listeners=train_spec.saving_listeners if config.is_chief else ())
    return None


def _server(config: Any) -> Any:
    return tf.train.Server(config.cluster_spec, config.task_type, config.task_id, config=config.session_config)


class _served:  # noqa: N801
    """A server of this task while the block runs."""

    def __init__(self, config: Any):
        self._config = config

    def __enter__(self) -> None:
        self._server = _server(self._config)

    def __exit__(self, *exc: Any) -> None:
        stop = getattr(self._server, "stop", None)
        if stop is not None:
            stop()


# -- evaluation --------------------------------------------------------------------------------------------------------
class _Evaluator:
    """Evaluates each checkpoint once, and exports after."""

    def __init__(self, estimator: Any, eval_spec: EvalSpec, max_steps: int | None):
        self._estimator, self._spec, self._max_steps = estimator, eval_spec, max_steps
        self._last: str | None = None
        self.result: Any = None
        self.exports: list = []

    def evaluate(self, at_end: bool = False) -> Any:
        """Evaluates the newest checkpoint if it is new; the metrics, None if it is not."""
        checkpoint = self._estimator.latest_checkpoint()
        if not checkpoint or checkpoint == self._last:
            return None
        spec = self._spec
        self.result = self._estimator.evaluate(spec.input_fn, spec.steps, list(spec.hooks), checkpoint, spec.name)
        if not self.result:
            raise ValueError(f"Estimator.evaluate returned no metrics: {self.result}")
        self._last = checkpoint
        final = at_end or bool(self._max_steps and self.result["global_step"] >= self._max_steps)
        base = os.path.join(str(self._estimator.model_dir), "export")
        self.exports = [e.export(estimator=self._estimator, export_path=os.path.join(base, e.name),
                                 checkpoint_path=checkpoint, eval_result=self.result, is_the_final_export=final)
                        for e in spec.exporters]
        return self.result


class _EvaluateAfterSave(tf.train.CheckpointSaverListener):
    """Evaluates when a checkpoint has been written, but not too often."""

    def __init__(self, evaluator: _Evaluator, throttle_secs: float):
        self._evaluator, self._throttle, self._at, self._first = evaluator, throttle_secs, time.monotonic(), True

    def after_save(self, session: Any, global_step_value: int) -> None:
        """Called with every checkpoint; the first one is from before the first step."""
        if self._first:
            self._first = False
            return
        if time.monotonic() - self._at >= self._throttle:
            self._evaluator.evaluate()
            self._at = time.monotonic()


def _run_local(estimator: Any, train_spec: TrainSpec, eval_spec: EvalSpec) -> tuple[Any, list]:
    if train_spec.max_steps and _global_step_of(estimator.model_dir) >= train_spec.max_steps:
        tf.logging.info("Skipping training: step %d is reached already.", train_spec.max_steps)
    evaluator = _Evaluator(estimator, eval_spec, train_spec.max_steps)
    estimator.train(train_spec.input_fn, hooks=train_spec.hooks, max_steps=train_spec.max_steps,
                    saving_listeners=[*train_spec.saving_listeners, _EvaluateAfterSave(evaluator, eval_spec.throttle_secs)])
    evaluator.evaluate(at_end=True)
    return evaluator.result, evaluator.exports


def _run_evaluator(estimator: Any, train_spec: TrainSpec, eval_spec: EvalSpec) -> tuple[Any, list]:
    if not train_spec.max_steps:
        raise ValueError("An evaluator needs TrainSpec.max_steps to know when training ends")
    time.sleep(eval_spec.start_delay_secs)
    evaluator = _Evaluator(estimator, eval_spec, train_spec.max_steps)
    began, waited = -math.inf, Wait(lambda: f"a checkpoint of the chief in {estimator.model_dir}")
    while not evaluator.result or evaluator.result["global_step"] < train_spec.max_steps:
        if time.monotonic() - began < eval_spec.throttle_secs:
            time.sleep(min(_POLL_SECS, eval_spec.throttle_secs))
            continue
        started = time.monotonic()
        if evaluator.evaluate() is not None:
            began = started
            waited = Wait(lambda: f"a newer checkpoint of the chief in {estimator.model_dir} than that of step "
                          f"{evaluator.result['global_step']}; training ends at {train_spec.max_steps}")
        else:
            waited.patience()
            time.sleep(_POLL_SECS)
    return evaluator.result, evaluator.exports
