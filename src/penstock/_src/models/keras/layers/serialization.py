"""Layers as configurations, and back."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import TABLES, export, resolve
from penstock._src.graph import context
from penstock._src.models.keras.engine.function_layer import SlicingOpLambda, TFOpLambda
from penstock._src.models.keras.engine.op_layer import AddLoss, AddMetric, Components, Composed, TensorFlowOpLayer
from penstock._src.models.keras.utils.generic_utils import deserialize_keras_object
from penstock._src.models.keras.utils.object_config import serialized

# Names in configurations that are not public names of layers: of models, of older versions.
_ALIASES = {"BatchNormalizationV1": ("v1", "BatchNormalization"), "BatchNormalizationV2": ("v2", "BatchNormalization")}
_LATER = {"DenseFeatures": "keras.layers.DenseFeatures", "SequenceFeatures": "keras.experimental.SequenceFeatures"}
_MODELS = ("Model", "Sequential", "Functional", "Network", "models.LinearModel", "models.WideDeepModel")


def layer_classes() -> dict[str, Any]:
    """The layers of the API in use, by the names that configurations have for them."""
    api = "v2" if context.process.resource_variables else "v1"
    prefix = "keras.layers."
    found: dict[str, Any] = {}
    for table in ("v1" if api == "v2" else "v2", api):                  # the API in use takes precedence
        for name in list(TABLES[table]):
            if name.startswith(prefix):
                cls = resolve(table, name)
                if isinstance(cls, type):
                    found[name.removeprefix(prefix).removeprefix("experimental.preprocessing.")] = cls
    for alias, (table, name) in _ALIASES.items():
        if prefix + name in TABLES[table]:
            found[alias] = TABLES[table][prefix + name]
    for name in _MODELS:
        cls = TABLES["v2"].get(f"keras.{name}")
        if cls is not None:
            found[name.removeprefix("models.")] = cls
    found.update({c.__name__: c for c in (AddLoss, AddMetric, Components, Composed, SlicingOpLambda,
                                              TensorFlowOpLayer, TFOpLambda)})
    if "Model" in found:
        found.setdefault("Functional", found["Model"])
        found.setdefault("Network", found["Model"])
    return found


@export("keras.layers.serialize")
def serialize(layer: Any, use_legacy_format: bool = False) -> dict[str, Any]:
    """The configuration of a layer: its module, class and config, as `serialize_keras_object` writes them."""
    return serialized(layer, use_legacy_format)


@export("keras.layers.deserialize")
def deserialize(config: Any, custom_objects: Any = None, use_legacy_format: bool = False) -> Any:
    """The layer of a configuration.

    >>> tf.keras.layers.deserialize({"class_name": "Dense", "config": {"units": 3}})
    """
    classes = layer_classes()
    name = config.get("class_name") if isinstance(config, dict) else config
    if name in _LATER:                                                  # of a module that may not be imported yet
        classes[name] = resolve("v1", _LATER[name])
    return deserialize_keras_object(config, classes, custom_objects, "layer")
