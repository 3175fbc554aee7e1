"""Estimators under a distribution strategy: the model function runs for each replica, and their results are merged to one spec.

The input function makes the batches of single replicas. Gradients are averaged over the replicas, unless the loss is a sum.
"""
from __future__ import annotations

import contextlib
import inspect
import types
from collections.abc import Iterator
from typing import Any

import penstock.compat.v1 as tf
from penstock._src.data.datasets.dataset import DatasetV2
from penstock._src.models.distribute.datasets import InputFunctionIterator
from penstock._src.models.estimator.spec import EstimatorSpec, ModeKeys


@contextlib.contextmanager
def scope(strategy: Any) -> Iterator[None]:
    """The scope of a strategy, with losses scaled for the mean over its replicas; nothing without a strategy."""
    if strategy is None:
        yield
        return
    before, strategy._scale_loss_for_estimator = strategy._scale_loss_for_estimator, True
    try:
        with strategy.scope():
            yield
    finally:
        strategy._scale_loss_for_estimator = before


def own_copies(strategy: Any) -> bool:
    """Whether the workers of a strategy have a copy of the variables each, in their own sessions, and train in step."""
    return strategy is not None and strategy.extended._own_copies


def build(estimator: Any, strategy: Any, input_fn: Any, mode: str) -> EstimatorSpec:
    """Runs the model function for each replica; returns one spec for all of them."""
    iterator = InputFunctionIterator(lambda c: _input(estimator, input_fn, mode, c), strategy, fill=mode != ModeKeys.TRAIN)
    tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, iterator.initialize())
    element = iterator.get_next()
    features, labels = element if isinstance(element, (tuple, list)) and len(element) == 2 else (element, None)

    def parts(*args: Any) -> dict[str, Any]:
        spec = estimator._call_model_fn(*args)
        return {**spec._asdict(), "eval_metric_ops": metric_pairs(spec) if mode == ModeKeys.EVAL else {}}
    made = strategy.extended.call_for_each_replica(parts, args=(features, labels, mode, estimator.config))
    return _combined(strategy, types.SimpleNamespace(**made), mode)


def metric_pairs(spec: EstimatorSpec) -> dict[str, tuple]:
    """Value and update of each metric, and of the mean of the loss."""
    pairs = {k: (m.result(), tf.group(*m.updates)) if hasattr(m, "result") else m for k, m in spec.eval_metric_ops.items()}
    if "loss" in pairs:
        raise ValueError("Metric with name 'loss' is not allowed, because Estimator already defines a default metric with the "
                         "same name.")
    return {**pairs, "loss": tf.metrics.mean(spec.loss)}


def _input(estimator: Any, input_fn: Any, mode: str, input_context: Any) -> Any:
    taken = inspect.signature(input_fn).parameters if callable(input_fn) else {}
    given = {"mode": mode, "params": estimator.params, "config": estimator.config, "input_context": input_context}
    with tf.device("/cpu:0"):
        made = input_fn(**{n: v for n, v in given.items() if n in taken})
    if not isinstance(made, DatasetV2):
        raise ValueError("With a distribution strategy, input_fn must return a tf.data.Dataset, from which each replica takes "
                         f"a batch; it returned {made!r}.")
    return made


def _combined(strategy: Any, made: Any, mode: str) -> EstimatorSpec:
    def first(value: Any) -> Any:
        return tf.nest.map_structure(lambda v: strategy.experimental_local_results(v)[0], value)
    loss = made.loss
    if loss is not None:
        with tf.device("/cpu:0"):
            loss = strategy.reduce(tf.distribute.get_loss_reduction(), loss, axis=None)
    metrics = {name: (first(value), strategy.group(update)) for name, (value, update) in made.eval_metric_ops.items()}
    return EstimatorSpec(
        mode=mode, loss=loss, predictions=first(made.predictions), eval_metric_ops=metrics,
        train_op=None if made.train_op is None else strategy.group(made.train_op), export_outputs=made.export_outputs and
        {k: strategy.experimental_local_results(v)[0] for k, v in made.export_outputs.items()},
        training_chief_hooks=first(made.training_chief_hooks), training_hooks=first(made.training_hooks),
        scaffold=strategy.experimental_local_results(made.scaffold)[0], evaluation_hooks=first(made.evaluation_hooks),
        prediction_hooks=first(made.prediction_hooks))
