"""tf.contrib.estimator: heads as functions, estimators around estimators, and hooks that are in tf.estimator now."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export, resolve
from penstock._src.models.estimator.early_stopping import evaluations
from penstock.compat import v1 as tf

_MOVED = {
    **{n: f"experimental.{n}" for n in (
        "InMemoryEvaluatorHook", "make_early_stopping_hook", "make_stop_at_checkpoint_step_hook", "stop_if_higher_hook",
        "stop_if_lower_hook", "stop_if_no_decrease_hook", "stop_if_no_increase_hook")},
    "add_metrics": "add_metrics", "binary_classification_head": "BinaryClassHead", "multi_class_head": "MultiClassHead",
    "multi_head": "MultiHead", "multi_label_head": "MultiLabelHead", "logistic_regression_head": "LogisticRegressionHead",
}
for _old, _new in _MOVED.items():
    export.later(lambda _new=_new: resolve("v1", f"estimator.{_new}"), v1=[f"contrib.estimator.{_old}"])


def _export(thing: Any) -> Any:
    return export(v1=[f"contrib.estimator.{thing.__name__}"])(thing)


@_export
def regression_head(weight_column: Any = None, label_dimension: int = 1, loss_reduction: str = "weighted_sum_over_batch_size",
                    loss_fn: Any = None, inverse_link_fn: Any = None, name: str | None = None) -> Any:
    """A head for real numbers. It has the arguments of RegressionHead in another order."""
    return tf.estimator.RegressionHead(label_dimension, weight_column, loss_reduction, loss_fn, inverse_link_fn, name)


@_export
def poisson_regression_head(weight_column: Any = None, label_dimension: int = 1,
                            loss_reduction: str = "weighted_sum_over_batch_size", compute_full_loss: bool = True,
                            name: str | None = None) -> Any:
    """A head for counts. It has the arguments of PoissonRegressionHead in another order."""
    return tf.estimator.PoissonRegressionHead(label_dimension, weight_column, loss_reduction, compute_full_loss, name)


@_export
def forward_features(estimator: Any, keys: Any = None, sparse_default_values: dict[str, Any] | None = None) -> Any:
    """An estimator like the given one whose predictions contain features: those of `keys`, or all.

    >>> estimator = tf.contrib.estimator.forward_features(estimator, "row_id")
    """
    if keys is not None:
        keys = [keys] if isinstance(keys, str) else keys
        if not isinstance(keys, (list, tuple)) or not all(isinstance(k, str) for k in keys):
            raise TypeError(f"keys must be a string or a list of strings, not {keys!r}.")

    def model_fn(features: Any, labels: Any, mode: str, config: Any) -> Any:
        spec = estimator.model_fn(features, labels, mode, config)
        if spec.predictions is None:
            return spec
        more = _forwarded(features, spec.predictions, features if keys is None else keys, sparse_default_values or {})
        for key in ("predict", "serving_default"):
            output = (spec.export_outputs or {}).get(key)
            if isinstance(output, tf.estimator.export.PredictOutput):
                output.outputs.update(more)
        return spec._replace(predictions={**spec.predictions, **more})
    return tf.estimator.Estimator(model_fn, estimator.model_dir, estimator.config)


def _forwarded(features: Any, predictions: Any, keys: Any, defaults: dict[str, Any]) -> dict[str, Any]:
    """The features of these keys, those with a default made dense."""
    if not isinstance(predictions, dict):
        raise ValueError(f"Features are forwarded to predictions in a dictionary, not in a {type(predictions).__name__}.")
    found = {}
    for key in keys:
        if key not in features:
            raise ValueError(f"There is no feature {key!r} among {sorted(features)}.")
        if key in predictions:
            raise ValueError(f"The feature {key!r} has the name of a prediction; those are {sorted(predictions)}.")
        value = features[key]
        if key in defaults:
            if not isinstance(value, tf.SparseTensor):
                raise ValueError(f"The feature {key!r} of sparse_default_values is not a SparseTensor.")
            value = tf.sparse.to_dense(value, default_value=defaults[key])
        if isinstance(value, tf.SparseTensor):
            raise ValueError(f"The feature {key!r} is a SparseTensor: leave it out of keys, or give it a default.")
        found[key] = tf.convert_to_tensor(value)
    return found


class _ClipByNorm(tf.train.Optimizer):
    """Scales all gradients down together, then has another optimizer apply them."""

    def __init__(self, optimizer: Any, clip_norm: Any):
        super().__init__(False, f"ClipByNorm{optimizer.get_name()}")
        self._optimizer, self._clip_norm = optimizer, clip_norm

    def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
        """The gradients of the other optimizer."""
        return self._optimizer.compute_gradients(*args, **kwargs)

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """Applies the clipped gradients."""
        gradients, variables = zip(*grads_and_vars, strict=True)
        clipped, _ = tf.clip_by_global_norm(gradients, self._clip_norm)
        return self._optimizer.apply_gradients(list(zip(clipped, variables, strict=True)), global_step, name)

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        """A slot of the other optimizer."""
        return self._optimizer.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> Any:
        """The names of its slots."""
        return self._optimizer.get_slot_names(*args, **kwargs)


@_export
def clip_gradients_by_norm(optimizer: Any, clip_norm: Any) -> Any:
    """An optimizer that clips gradients by their global norm before it applies them.

    >>> tf.contrib.estimator.clip_gradients_by_norm(tf.train.AdamOptimizer(), 5.0)
    """
    return _ClipByNorm(optimizer, clip_norm)


@_export
def read_eval_metrics(eval_dir: str) -> dict[int, dict[str, float]]:
    """The metrics of each evaluation that a folder has summaries of, by step."""
    return dict(evaluations(eval_dir))
