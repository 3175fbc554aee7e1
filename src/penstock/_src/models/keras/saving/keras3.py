"""Descriptions of models that Keras 2 (tf_keras) and Keras 3 read, from ours, and those of both back."""
from __future__ import annotations

import inspect
from typing import Any

from penstock._src.base import tf_logging as logging
from penstock._src.base.api import TABLES, LazyModule
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph import context
from penstock._src.models.keras.engine.base_layer import Layer
from penstock._src.models.keras.engine.input_layer import InputLayer
from penstock._src.models.keras.engine.network_config import class_name as registered
from penstock._src.models.keras.saving.compile_config import compile_from_config, training_config
from penstock._src.models.keras.utils import type_config
from penstock._src.models.keras.utils.generic_utils import earlier_configs

serialization = LazyModule("penstock._src.models.keras.layers.serialization")
VERSION = "3.0.0"
_KINDS = {"initializer": "keras.initializers", "regularizer": "keras.regularizers", "constraint": "keras.constraints"}
# Fields of our configs that Keras 3 does not have.
_OURS_ONLY = {"batch_input_shape", "time_major", "implementation", "fused", "virtual_batch_size", "adjustment", "dynamic",
              "input_length", "decay", "is_legacy_optimizer", "jit_compile"}


# -- to Keras ------------------------------------------------------------------------------------------------------
@earlier_configs()
def describe(model: Any, include_optimizer: bool = True) -> dict[str, Any]:
    """The description of a model, with how it was compiled."""
    found = _layer(model)
    if include_optimizer and getattr(model, "optimizer", None) is not None:
        config = training_config(model)
        if config is not None:
            found["compile_config"] = _compile_config(config)
            if context.eager_outside_functions() and getattr(model.optimizer, "_modern", True) is False:
                found["compile_config"]["optimizer"]["module"] = "keras.optimizers.legacy"
    return found


def _is_ours(cls: type) -> bool:
    return cls.__module__.startswith("penstock.")


def _layer(layer: Any) -> dict[str, Any]:
    cls = type(layer)
    if cls.__name__ == "Functional" and _is_ours(cls):          # which has no public name in either: both make it from Model
        return {"module": "keras", "class_name": "Model", "config": _functional(layer), "registered_name": None}
    if cls.__name__ == "Sequential" and _is_ours(cls):
        config = {"name": layer.name, "trainable": layer.trainable, "layers": [_layer(v) for v in layer._layers]}
        shape = layer.__dict__.get("_build_input_shape")
        if shape is not None and not isinstance(layer._layers[0], InputLayer):
            config["build_input_shape"] = list(shape)
        return {"module": "keras", "class_name": "Sequential", "config": config, "registered_name": None}
    config = _config(_own_config(layer))
    if isinstance(layer, InputLayer) and "type_spec" not in config:
        config["batch_input_shape"] = layer._batch_input_shape
    name = cls.__name__.removesuffix("V1")
    found = {"module": "keras.layers" if _is_ours(cls) else cls.__module__, "class_name": name, "config": config,
             "registered_name": None if _is_ours(cls) else registered(layer)}
    shape = layer.get_build_config().get("input_shape") if not isinstance(layer, InputLayer) else None
    if isinstance(shape, tuple):
        found["build_config"] = {"input_shape": list(shape)}
    return found


def _config(config: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for key, value in config.items():
        if key in _OURS_ONLY:
            continue
        kind = next((m for k, m in _KINDS.items() if key.endswith(k)), None)
        found[key] = _object(value, kind)
    if isinstance(found.get("axis"), (list, tuple)) and len(found["axis"]) == 1:
        found["axis"] = found["axis"][0]
    return found


def _object(value: Any, kind: str | None) -> Any:
    if isinstance(value, dict) and value.get("class_name") == type_config.TAG:
        return value
    if isinstance(value, dict) and "class_name" in value and "config" in value:
        module = kind or ("keras.mixed_precision" if value["class_name"] == "Policy" else "keras.layers")
        name = value["class_name"].removesuffix("V1").removesuffix("V2")
        return {"module": module, "class_name": name, "config": _config(value["config"]), "registered_name": None}
    if isinstance(value, (list, tuple)):
        return [_object(v, kind) for v in value]
    return value


def _own_config(layer: Any) -> dict[str, Any]:
    """The config of a layer; of a subclassed model without `get_config`, its name and dtype, if that may be enough."""
    if getattr(layer, "_is_graph_network", True) or not hasattr(layer.get_config, "_is_default"):
        return layer.get_config()
    try:
        return Layer.get_config(layer)
    except NotImplementedError:
        logging.warning(f"Model {layer.name} has arguments in `__init__` and no `get_config`: it is saved without them, and "
                        "can only be loaded if they have defaults.")
        return {}


@earlier_configs()
def classic(model: Any) -> dict[str, Any]:
    """The description in HDF5 files, which Keras 2 and Keras 3 can read: calls as lists, nested objects with their modules."""
    def layer(data: dict[str, Any], one: Any) -> dict[str, Any]:
        inner = classic(one)["config"] if hasattr(one, "_is_graph_network") else _config(data["config"])
        if isinstance(one, InputLayer) and "type_spec" not in inner:
            inner["batch_input_shape"] = one._batch_input_shape
        return {**data, "class_name": data["class_name"].removesuffix("V1"), "config": inner}

    config = model.get_config()
    if "layers" in config:
        described = [layer(d, v) for d, v in zip(config["layers"], model.layers, strict=True)]
        first = model._layers[0] if model._layers else None
        if type(model).__name__ == "Sequential" and isinstance(first, InputLayer):
            described.insert(0, layer({"class_name": "InputLayer", "config": first.get_config()}, first))
        config = {**config, "layers": described}
    return {"class_name": type(model).__name__, "config": config}


def _functional(model: Any) -> dict[str, Any]:
    config = model.get_config()
    by_name = {layer.name: layer for layer in model.layers}
    layers = []
    for data in config["layers"]:
        layer = by_name[data["name"]]
        layers.append({**_layer(layer), "name": layer.name, "inbound_nodes": data["inbound_nodes"]})
    return {**config, "layers": layers}


def _compile_config(config: dict[str, Any]) -> dict[str, Any]:
    def described(x: Any, module: str) -> Any:
        if isinstance(x, dict) and "class_name" in x:
            inner = {k: v for k, v in x["config"].items() if k not in _OURS_ONLY}
            return {"module": module, "class_name": x["class_name"].removesuffix("V1"), "config": inner,
                    "registered_name": None}
        if isinstance(x, dict):
            return {k: described(v, module) for k, v in x.items()}
        return [described(v, module) for v in x] if isinstance(x, list) else x
    return {"optimizer": described(config["optimizer_config"], "keras.optimizers"),
            "loss": described(config["loss"] or None, "keras.losses"), "loss_weights": config["loss_weights"],
            "metrics": described(config["metrics"] or None, "keras.metrics"),
            "weighted_metrics": described(config["weighted_metrics"], "keras.metrics"), "run_eagerly": False,
            "steps_per_execution": 1, "jit_compile": False}


# -- from Keras 3 ----------------------------------------------------------------------------------------------------
def rebuild(config: dict[str, Any], custom_objects: Any = None) -> Any:
    """A model from its description."""
    data = translated(config, custom_objects)
    model = serialization.deserialize(data, custom_objects=custom_objects)
    shape = (config.get("build_config") or {}).get("input_shape")
    if not model.built and not model._is_graph_network and shape:
        model.build(TensorShape(shape) if not isinstance(shape, dict) else shape)
    return model


def translated(x: Any, custom_objects: Any = None) -> Any:
    """Converts a description of Keras 3 to ours: objects without modules, layers without unknown arguments."""
    if isinstance(x, list):
        return [translated(v, custom_objects) for v in x]
    if not isinstance(x, dict):
        return x
    if x.get("class_name") in ("DTypePolicy", "Policy") and "config" in x:
        return x["config"]["name"]
    if x.get("class_name") == "__keras_tensor__":
        return x
    if "class_name" not in x or "config" not in x:
        return {k: translated(v, custom_objects) for k, v in x.items()}
    if x["class_name"] == "function":
        return x["config"]
    if x["class_name"] in ("__lambda__", type_config.TAG):
        return x
    config = translated(x["config"], custom_objects)
    name = x.get("registered_name") or x["class_name"]
    name = x["class_name"] if name == "Functional" or name not in (custom_objects or {}) and ">" not in name else name
    found = {"class_name": name, "config": _accepted(x, config)}
    if x.get("module") == "keras.optimizers.legacy":
        found["module"] = x["module"]
    for key in ("name", "inbound_nodes"):
        if key in x:
            found[key] = translated(x[key], custom_objects)
    return found


def _accepted(x: dict[str, Any], config: Any) -> Any:
    """The config without arguments that our class does not have."""
    module = str(x.get("module", "keras.layers") or "")             # HDF5 files have no modules for layers
    if not isinstance(config, dict) or not module.startswith("keras"):
        return config
    kind = module.rsplit(".", 1)[-1]
    cls = _our_class(kind, x["class_name"])
    if cls is None or x["class_name"] in ("Sequential", "Functional", "Model"):
        return config
    known: set[str] = {"trainable", "dtype", "name", "batch_shape", "batch_input_shape"} if issubclass(cls, Layer) else set()
    anything = False
    for c in cls.__mro__:
        init = c.__dict__.get("__init__")
        if init is None or c is object or c is Layer:
            continue
        parameters = inspect.signature(init).parameters.values()
        known.update(p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY))
        anything = anything or c is cls and not issubclass(cls, Layer) and any(p.kind is p.VAR_KEYWORD for p in parameters)
    if anything and kind != "optimizers":
        return config
    known |= {"activity_regularizer", *getattr(cls, "_only_in_config", ())} if issubclass(cls, Layer) else set()
    known |= {"clipnorm", "clipvalue", "global_clipnorm", "weight_decay", "use_ema", "ema_momentum",
              "ema_overwrite_frequency"} if kind == "optimizers" else set()
    return {k: v for k, v in config.items() if k in known}


def _our_class(kind: str, name: str) -> Any:
    found = TABLES["v2"].get(f"keras.{kind}.{name}")
    return found if isinstance(found, type) else None


def compile_as(model: Any, config: dict[str, Any], custom_objects: Any) -> None:
    """Compiles a model with the configuration in a Keras 3 file."""
    data = translated(config, custom_objects)
    compile_from_config(model, {**data, "optimizer_config": data.get("optimizer")}, custom_objects)


def translated_training(config: dict[str, Any], custom_objects: Any) -> dict[str, Any]:
    """How a model was compiled, from what Keras 3 writes to HDF5 files."""
    optimizer = config.get("optimizer_config")
    if isinstance(optimizer, dict):
        config = {**config, "optimizer_config": {**optimizer, "module": "keras.optimizers"}}
    return translated(config, custom_objects)
