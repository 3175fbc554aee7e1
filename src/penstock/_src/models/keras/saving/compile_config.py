"""How a model was compiled, as plain data, and back."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import LazyModule
from penstock._src.models.keras.utils import object_config
from penstock._src.models.keras.utils.generic_utils import (
    custom_object_scope,
    earlier_configs,
    serialize_keras_object,
    uses_earlier_configs,
)

optimizers = LazyModule("penstock._src.models.keras.optimizers")
losses = LazyModule("penstock._src.models.keras.losses")
metrics = LazyModule("penstock._src.models.keras.metrics")


def _plain(x: Any) -> Any:
    if x is None or isinstance(x, (str, int, float, bool)):
        return x
    if isinstance(x, dict):
        return {k: _plain(v) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        return [_plain(v) for v in x]
    if hasattr(x, "_fn") and type(x).__name__ == "MeanMetricWrapper":
        return _plain(x._fn)
    if hasattr(x, "get_config") or hasattr(x, "__name__"):
        return _for_all_versions(serialize_keras_object(x))
    return x


def _for_all_versions(described: Any) -> Any:
    """A loss without the reduction "auto", which Keras 3 does not know: outside of strategies it means the same."""
    if isinstance(described, dict) and described["config"].get("reduction") == "auto":
        return {**described, "config": {**described["config"], "reduction": "sum_over_batch_size"}}
    return described


@earlier_configs()
def training_config(model: Any) -> dict[str, Any] | None:
    """The arguments of compile; None if the optimizer cannot be described."""
    optimizer = model.optimizer
    try:
        config = optimizer.get_config()
    except (NotImplementedError, AttributeError):
        return None
    return {"loss": _plain(model.loss), "metrics": _plain(model._compile_metrics),
            "weighted_metrics": _plain(model._compile_weighted_metrics), "loss_weights": _plain(model.loss_weights),
            "sample_weight_mode": model.sample_weight_mode,
            "optimizer_config": {"class_name": type(optimizer).__name__, "config": config}}


def compile_config(model: Any) -> dict[str, Any]:
    """The arguments of compile, in the current form of configurations."""
    if uses_earlier_configs():
        found = training_config(model) or {}
        return {"optimizer": found.pop("optimizer_config"), **found} if found else {}
    return object_config.serialize_keras_object({
        "optimizer": model.optimizer, "loss": model.loss, "metrics": model._compile_metrics or None,
        "loss_weights": model.loss_weights, "weighted_metrics": model._compile_weighted_metrics,
        "run_eagerly": model._run_eagerly, **model._step_options})


def compile_from_config(model: Any, config: dict[str, Any], custom_objects: Any = None) -> None:
    """Compiles a model with stored arguments."""
    with custom_object_scope(custom_objects or {}):
        given = config.get("optimizer_config") or config.get("optimizer")
        optimizer = optimizers.deserialize(given) if isinstance(given, dict) else optimizers.get(given or "rmsprop")
        model.compile(optimizer=optimizer, loss=_deserialized(losses, config.get("loss")),
                      metrics=_deserialized(metrics, config.get("metrics")),
                      loss_weights=config.get("loss_weights"),
                      weighted_metrics=_deserialized(metrics, config.get("weighted_metrics")),
                      sample_weight_mode=config.get("sample_weight_mode"))


def _deserialized(module: Any, x: Any) -> Any:
    """Losses or metrics from their configs, in any nesting; names stay names."""
    if isinstance(x, dict) and "class_name" in x:
        return module.deserialize(x)
    if isinstance(x, dict):
        return {k: _deserialized(module, v) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        return [_deserialized(module, v) for v in x]
    return x
