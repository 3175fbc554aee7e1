"""Estimators of contrib.learn: fit, evaluate and predict, from arrays or input functions, around those of tf.estimator."""
from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from penstock._src.base.api import export
from penstock._src.compat.contrib.learn.monitors import replace_monitors_with_hooks
from penstock.compat import v1 as tf

_ESTIMATORS = ("contrib.learn", "contrib.learn.python.learn.estimators.estimator", "contrib.learn.estimators")


def _estimator(thing: Any) -> Any:
    return export(v1=[f"{p}.{thing.__name__}" for p in _ESTIMATORS])(thing)


@_estimator
class ModelFnOps(NamedTuple):
    """The result of a model function."""

    mode: str
    predictions: Any = None
    loss: Any = None
    train_op: Any = None
    eval_metric_ops: Any = None
    output_alternatives: Any = None
    training_chief_hooks: Any = None
    training_hooks: Any = None
    scaffold: Any = None


@_estimator
class MetricSpec(NamedTuple):
    """A metric, and which predictions, labels and weights it is of."""

    metric_fn: Any
    prediction_key: Any = None
    label_key: Any = None
    weight_key: Any = None

    def create_metric_ops(self, inputs: Any, labels: Any, predictions: Any) -> Any:
        """The value and the update of the metric."""
        weights = {} if self.weight_key is None else {"weights": inputs[self.weight_key]}
        return self.metric_fn(_part(predictions, self.prediction_key), _part(labels, self.label_key), **weights) if \
            _predictions_first(self.metric_fn) else \
            self.metric_fn(labels=_part(labels, self.label_key), predictions=_part(predictions, self.prediction_key), **weights)


def _predictions_first(function: Any) -> bool:
    return not {"labels", "predictions"} <= set(inspect.signature(function).parameters)


def _part(values: Any, key: Any) -> Any:
    if key is not None:
        return values[key]
    return next(iter(values.values())) if isinstance(values, dict) and len(values) == 1 else values


class RunConfig(tf.estimator.RunConfig):
    """How a model is run, with the arguments of contrib.learn."""

    def __init__(self, master: str | None = None, num_cores: int = 0, log_device_placement: bool = False,
                 gpu_memory_fraction: float = 1.0, tf_random_seed: int | None = None, save_summary_steps: int = 100,
                 save_checkpoints_secs: int | None = None, save_checkpoints_steps: int | None = None,
                 keep_checkpoint_max: int = 5, keep_checkpoint_every_n_hours: float = 10000, log_step_count_steps: int = 100,
                 protocol: Any = None, evaluation_master: str = "", model_dir: Any = None, session_config: Any = None):
        if master or evaluation_master:
            raise ValueError("master and evaluation_master come from TF_CONFIG: set it instead of these arguments.")
        saves = {"save_checkpoints_secs": save_checkpoints_secs, "save_checkpoints_steps": save_checkpoints_steps}
        if session_config is None and (log_device_placement or num_cores or gpu_memory_fraction != 1.0):
            session_config = tf.ConfigProto(log_device_placement=log_device_placement, inter_op_parallelism_threads=num_cores,
                                            intra_op_parallelism_threads=num_cores, gpu_options=tf.GPUOptions(
                                                per_process_gpu_memory_fraction=gpu_memory_fraction))
        super().__init__(model_dir, tf_random_seed, save_summary_steps, session_config=session_config,
                         keep_checkpoint_max=keep_checkpoint_max, keep_checkpoint_every_n_hours=keep_checkpoint_every_n_hours,
                         log_step_count_steps=log_step_count_steps, protocol=protocol,
                         **{k: v for k, v in saves.items() if v is not None})


export.value(RunConfig, v1=["contrib.learn.RunConfig", "contrib.learn.python.learn.run_config.RunConfig",
                            "contrib.learn.python.learn.estimators.run_config.RunConfig"])


class _StopIfConstant(tf.train.SessionRunHook):
    """Ends a prediction after one step if its input does not change: no queue feeds it, no iterator."""

    def begin(self) -> None:
        graph = tf.get_default_graph()
        self._constant = not graph.get_collection(tf.GraphKeys.QUEUE_RUNNERS) and not any(
            "Iterator" in op.type for op in graph.get_operations())

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if self._constant:
            run_context.request_stop()


def _from(x: Any, y: Any, input_fn: Any, batch_size: int | None, training: bool) -> Any:
    """The input function that was given, or one of arrays."""
    if input_fn is not None:
        if x is not None or y is not None:
            raise ValueError("Can not provide both input_fn and x or y.")
        return input_fn
    if x is None:
        raise ValueError("Either x or input_fn must be provided.")
    x = {k: np.asarray(v) for k, v in x.items()} if isinstance(x, dict) else np.asarray(x)
    y = None if y is None else {k: np.asarray(v) for k, v in y.items()} if isinstance(y, dict) else np.asarray(y)
    count = len(next(iter(x.values())) if isinstance(x, dict) else x)
    return tf.estimator.inputs.numpy_input_fn(x, y, batch_size or min(count, 128), None if training else 1, shuffle=training)


@_estimator
class BaseEstimator:
    """The common part of the estimators of contrib.learn, around one of tf.estimator."""

    def __init__(self, core: Any):
        self._core = core

    model_dir = property(lambda self: self._core.model_dir, doc="Where the checkpoints are.")
    config = property(lambda self: self._core.config, doc="The RunConfig.")

    def fit(self, x: Any = None, y: Any = None, input_fn: Any = None, steps: int | None = None, batch_size: int | None = None,
            monitors: Any = None, max_steps: int | None = None) -> Any:
        """Trains; a second call continues where the first ended."""
        hooks = replace_monitors_with_hooks(monitors, self)
        self._core.train(self._input(_from(x, y, input_fn, batch_size, True)), hooks, steps, max_steps)
        return self

    def partial_fit(self, x: Any = None, y: Any = None, input_fn: Any = None, steps: int = 1, batch_size: int | None = None,
                    monitors: Any = None) -> Any:
        """Trains a few steps."""
        return self.fit(x, y, input_fn, steps, batch_size, monitors)

    def evaluate(self, x: Any = None, y: Any = None, input_fn: Any = None, feed_fn: Any = None, batch_size: int | None = None,
                 steps: int | None = None, metrics: Any = None, name: str | None = None, checkpoint_path: str | None = None,
                 hooks: Any = None, log_progress: bool = True) -> dict[str, Any]:
        """The loss and the metrics, its own and those given by name (a MetricSpec each)."""
        if feed_fn is not None:
            raise ValueError("feed_fn is not supported: pass a FeedFnHook in hooks.")
        core = _with_metrics(self._core, metrics) if metrics else self._core
        return core.evaluate(self._input(_from(x, y, input_fn, batch_size, False)), steps, hooks, checkpoint_path, name)

    def predict(self, x: Any = None, input_fn: Any = None, batch_size: int | None = None, outputs: Any = None,
                as_iterable: bool = True, iterate_batches: bool = False) -> Any:
        """The predictions for each row, as an iterator; or all in arrays."""
        found = self._core.predict(self._input(_from(x, None, input_fn, batch_size, False)), outputs, [_StopIfConstant()],
                                   yield_single_examples=as_iterable and not iterate_batches)
        if as_iterable:
            return found
        batches = list(found)
        if isinstance(batches[0], dict):
            return {k: np.concatenate([b[k] for b in batches]) for k in batches[0]}
        return np.concatenate(batches)

    def _input(self, input_fn: Any) -> Any:
        return input_fn

    def get_variable_names(self) -> list[str]:
        """The names of all variables of the newest checkpoint."""
        return self._core.get_variable_names()

    def get_variable_value(self, name: str) -> Any:
        """The value of a variable in the newest checkpoint."""
        return self._core.get_variable_value(name)

    def export_savedmodel(self, export_dir_base: Any, serving_input_fn: Any, assets_extra: Any = None, as_text: bool = False,
                          checkpoint_path: str | None = None) -> bytes:
        """Writes the model as a SavedModel; the path of its directory."""
        return self._core.export_savedmodel(export_dir_base, serving_input_fn, assets_extra, as_text, checkpoint_path)


@_estimator
class Estimator(BaseEstimator):
    """A model given by a function of features and labels, and of mode, params and config if it has such arguments. It returns
    ModelFnOps, an EstimatorSpec, or predictions, loss and train_op.

    >>> tf.contrib.learn.Estimator(model_fn).fit(x, y, steps=100)
    """

    def __init__(self, model_fn: Any, model_dir: Any = None, config: Any = None, params: Any = None,
                 feature_engineering_fn: Any = None):
        names = set(inspect.signature(model_fn).parameters)
        known: dict[str, Any] = {}

        def adapted(features: Any, labels: Any, mode: str, config: Any) -> Any:
            if labels is None and known:                   # for predictions, placeholders that nothing feeds
                labels = tf.nest.map_structure(lambda t: tf.placeholder(t.dtype, t.shape), known["labels"])
            elif labels is not None:
                known["labels"] = tf.nest.map_structure(_batch_spec, labels)
            if feature_engineering_fn is not None:
                features, labels = feature_engineering_fn(features, labels)
            given = {"mode": mode, "params": params or {}, "config": config, "model_dir": model_dir}
            made = model_fn(features, labels, **{k: v for k, v in given.items() if k in names})
            return _spec(made, mode)

        super().__init__(tf.estimator.Estimator(adapted, model_dir, config))


def _batch_spec(labels: Any) -> Any:
    """The type of labels, for batches of any size."""
    return tf.TensorSpec([None, *labels.shape[1:]] if labels.shape.rank else labels.shape, labels.dtype)


def _spec(made: Any, mode: str) -> Any:
    if isinstance(made, tf.estimator.EstimatorSpec):
        return made
    if not isinstance(made, ModelFnOps):
        predictions, loss, train_op = made
        made = ModelFnOps(mode, predictions, loss, train_op)
    return tf.estimator.EstimatorSpec(mode, made.predictions, made.loss, made.train_op, made.eval_metric_ops,
                                      training_chief_hooks=made.training_chief_hooks, training_hooks=made.training_hooks,
                                      scaffold=made.scaffold)


def _numbered(predictions: Any) -> Any:
    """Predictions in which `classes` are numbers, as contrib.learn has them; those of tf.estimator are strings."""
    if not isinstance(predictions, dict) or "class_ids" not in predictions:
        return predictions
    return {**predictions, "classes": tf.squeeze(predictions["class_ids"], axis=[-1])}


def _with_metrics(core: Any, metrics: dict[Any, Any]) -> Any:
    """An estimator of the same checkpoints with more metrics."""
    def model_fn(features: Any, labels: Any, mode: str, config: Any) -> Any:
        spec, more = core.model_fn(features, labels, mode, config), {}
        for name, metric in metrics.items():
            name, key = name if isinstance(name, tuple) else (name, None)
            metric = metric if isinstance(metric, MetricSpec) else MetricSpec(metric, key)
            more[name] = metric.create_metric_ops(features, labels, _numbered(spec.predictions))
        return spec._replace(eval_metric_ops={**(spec.eval_metric_ops or {}), **more})
    return tf.estimator.Estimator(model_fn, core.model_dir, core.config)


@_estimator
class SKCompat:
    """An estimator with fit, predict and score on arrays, as scikit-learn has them.

    >>> tf.contrib.learn.SKCompat(tf.contrib.learn.Estimator(model_fn)).fit(x, y, steps=100)
    """

    def __init__(self, estimator: Any):
        self._estimator = estimator

    def fit(self, x: Any, y: Any, batch_size: int = 128, steps: int | None = None, max_steps: int | None = None,
            monitors: Any = None) -> SKCompat:
        """Trains on arrays."""
        self._estimator.fit(x, y, steps=steps, batch_size=batch_size, monitors=monitors, max_steps=max_steps)
        return self

    def score(self, x: Any, y: Any, batch_size: int = 128, steps: int | None = None, metrics: Any = None,
              name: str | None = None) -> dict[str, Any]:
        """The metrics on arrays."""
        return self._estimator.evaluate(x, y, batch_size=batch_size, steps=steps, metrics=metrics, name=name)

    def predict(self, x: Any, batch_size: int = 128, outputs: Any = None) -> Any:
        """The predictions for all rows."""
        return BaseEstimator.predict(self._estimator, x, batch_size=batch_size, outputs=outputs, as_iterable=False)


def each(rows: Iterator[Any], key: str, flat: bool) -> Iterator[Any]:
    """One value of each row, without its last dimension if that is of one."""
    for row in rows:
        yield row[key][0] if flat and len(row[key]) == 1 else row[key]
