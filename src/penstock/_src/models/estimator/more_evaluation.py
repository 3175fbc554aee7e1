"""Additional evaluation: metrics added to an estimator, and evaluations during training."""
from __future__ import annotations

import inspect
from typing import Any

import penstock.compat.v1 as tf
from penstock._src.base.api import export
from penstock._src.models.estimator.estimator import Estimator
from penstock._src.models.estimator.spec import ModeKeys

_TAKEN = ("features", "labels", "predictions", "config")


@export("estimator.add_metrics")
def add_metrics(estimator: Any, metric_fn: Any) -> Estimator:
    """An estimator like the given one that has more metrics.

    >>> def my_auc(labels, predictions):
    ...     return {"auc": tf.metrics.auc(labels, predictions["logistic"])}
    >>> estimator = tf.estimator.add_metrics(estimator, my_auc)
    """
    taken = list(inspect.signature(metric_fn).parameters)
    unknown = [name for name in taken if name not in _TAKEN]
    if unknown:
        raise ValueError(f"metric_fn ({metric_fn}) has following not expected args: {unknown}")

    def model_fn(features: Any, labels: Any, mode: str, config: Any) -> Any:
        spec = estimator.model_fn(features, labels, mode, config)
        if mode != ModeKeys.EVAL:
            return spec
        given = {"features": features, "labels": labels, "predictions": spec.predictions, "config": config}
        more = metric_fn(**{name: given[name] for name in taken})
        return spec._replace(eval_metric_ops={**(spec.eval_metric_ops or {}), **(more or {})})
    return Estimator(model_fn, estimator.model_dir, estimator.config, warm_start_from=estimator._warm_start_settings)


@export("estimator.experimental.InMemoryEvaluatorHook")
class InMemoryEvaluatorHook(tf.train.SessionRunHook):
    """Evaluates during training with the variables as they are, without a checkpoint: before the first step, after every
    `every_n_iter`, and at the end.

    >>> hook = tf.estimator.experimental.InMemoryEvaluatorHook(estimator, eval_input_fn, every_n_iter=500)
    >>> estimator.train(train_input_fn, hooks=[hook])
    """

    def __init__(self, estimator: Any, input_fn: Any, steps: int | None = None, hooks: Any = None, name: str | None = None,
                 every_n_iter: int = 100):
        if every_n_iter is None or every_n_iter <= 0:
            raise ValueError(f"invalid every_n_iter={every_n_iter}.")
        if estimator.config.num_ps_replicas > 0 or estimator.config.num_worker_replicas > 1:
            raise ValueError("InMemoryEvaluator supports only single machine (aka Local) setting.")
        self._estimator, self._input_fn, self._steps = estimator, input_fn, steps
        self._hooks, self._name, self._every = list(hooks or ()), name, every_n_iter
        self._count = self._evaluated = 0

    def begin(self) -> None:
        """Starts to count."""
        self._count = self._evaluated = 0

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Evaluates before the first step."""
        if tf.get_collection(tf.GraphKeys.SAVEABLE_OBJECTS):
            raise ValueError("InMemoryEvaluator does not support saveables other than global variables.")
        self._variables = {v.op.name: v for v in tf.global_variables()}
        self._evaluate(session)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Evaluates, if it is time."""
        self._count += 1
        if self._count % self._every == 0:
            self._evaluate(run_context.session)

    def end(self, session: Any) -> None:
        """Evaluates at the end."""
        if self._evaluated < self._count:
            self._evaluate(session)

    def _evaluate(self, session: Any) -> None:
        self._evaluated = self._count
        self._estimator._evaluate(self._input_fn, self._steps, self._hooks, None, self._name, session.run(self._variables))
