"""Metrics by name or configuration."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.models.keras.losses import functions
from penstock._src.models.keras.losses.serialization import KNOWN as LOSSES
from penstock._src.models.keras.metrics import accuracy, auc, averages, confusion, metric, overlap, wrapped_losses
from penstock._src.models.keras.utils.generic_utils import deserialize_keras_object
from penstock._src.models.keras.utils.object_config import serialized

KNOWN: dict[str, Any] = {n: f for n, f in LOSSES.items() if hasattr(functions, getattr(f, "__name__", ""))}
for _module in (metric, averages, accuracy, confusion, auc, overlap, wrapped_losses):
    KNOWN.update({n: f for n, f in vars(_module).items()
                  if getattr(f, "__module__", "") == _module.__name__ and not n.startswith("_")})
KNOWN.update(cosine_proximity=wrapped_losses.cosine_similarity)


@export("keras.metrics.serialize", v2=["metrics.serialize"])
def serialize(metric: Any, use_legacy_format: bool = False) -> Any:
    """The name of a metric function, or the configuration of a metric."""
    return serialized(metric, use_legacy_format)


@export("keras.metrics.deserialize", v2=["metrics.deserialize"])
def deserialize(config: Any, custom_objects: Any = None, use_legacy_format: bool = False) -> Any:
    """The metric with a name or configuration."""
    return deserialize_keras_object(config, module_objects=KNOWN, custom_objects=custom_objects,
                                    printable_module_name="metric function")


@export("keras.metrics.get", v2=["metrics.get"])
def get(identifier: Any) -> Any:
    """The metric with a name or configuration; a function is returned unchanged.

    >>> tf.keras.metrics.get("binary_accuracy")
    """
    if isinstance(identifier, (str, dict)):
        return deserialize(identifier)
    if callable(identifier):
        return identifier
    raise ValueError(f"Could not interpret metric function identifier: {identifier}")
