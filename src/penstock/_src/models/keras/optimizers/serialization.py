"""Optimizers by name, configuration or instance; optimizers of tf.train wrapped as Keras optimizers."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.models.keras import backend
from penstock._src.models.keras.optimizers import adagrad, adam, adamax, ftrl, loss_scale, newer, rmsprop, sgd
from penstock._src.models.keras.optimizers.optimizer import Optimizer
from penstock._src.models.keras.optimizers.wrapped import TFOptimizer
from penstock._src.models.keras.utils.generic_utils import deserialize_keras_object, serialize_keras_object
from penstock._src.training.train.optimizer import Optimizer as TrainOptimizer

V1 = {"adadelta": adagrad.AdadeltaV1, "adagrad": adagrad.AdagradV1, "adam": adam.AdamV1, "adamax": adamax.AdamaxV1,
      "nadam": adamax.NadamV1, "rmsprop": rmsprop.RMSpropV1, "sgd": sgd.SGDV1, "ftrl": ftrl.FtrlV1, "adamw": adam.AdamW,
      "lion": newer.Lion, "adafactor": newer.Adafactor, "lossscaleoptimizer": loss_scale.LossScaleOptimizerV1,
      "lossscaleoptimizerv1": loss_scale.LossScaleOptimizerV1}
V2 = {**V1, "adadelta": adagrad.Adadelta, "adagrad": adagrad.Adagrad, "adam": adam.Adam, "adamax": adamax.Adamax,
      "nadam": adamax.Nadam, "rmsprop": rmsprop.RMSprop, "sgd": sgd.SGD, "ftrl": ftrl.Ftrl,
      "lossscaleoptimizer": loss_scale.LossScaleOptimizer}


@export("keras.optimizers.serialize", v2=["optimizers.serialize"])
def serialize(optimizer: Any, use_legacy_format: bool = False) -> dict[str, Any]:
    """The configuration of an optimizer.

    >>> tf.keras.optimizers.serialize(tf.keras.optimizers.SGD())["class_name"]
    'SGD'
    """
    return serialize_keras_object(optimizer)


@export("keras.optimizers.deserialize", v2=["optimizers.deserialize"])
def deserialize(config: dict[str, Any], custom_objects: Any = None, use_legacy_format: bool = False) -> Any:
    """The optimizer of a configuration. The names of the built-in ones may be in lower case."""
    known: dict[str, Any] = dict(V2 if context.eager_outside_functions() else V1)
    name = config["class_name"].removeprefix("Custom>").lower()                # tf.keras 2.11 to 2.15 writes "Custom>Adam"
    if name in known:
        config = {**config, "class_name": name}
    return deserialize_keras_object(config, module_objects=known, custom_objects=custom_objects,
                                    printable_module_name="optimizer")


@export("keras.optimizers.get", v2=["optimizers.get"])
def get(identifier: Any) -> Any:
    """The optimizer with a name or configuration; an optimizer is returned unchanged, one of tf.train is wrapped.

    >>> tf.keras.optimizers.get("adam")
    """
    if isinstance(identifier, (Optimizer, TFOptimizer)):
        return identifier
    if isinstance(identifier, TrainOptimizer):
        made = TFOptimizer(identifier)
        backend.track_tf_optimizer(made)
        return made
    if isinstance(identifier, dict):
        return deserialize(identifier)
    if isinstance(identifier, str):
        return deserialize({"class_name": identifier, "config": {}})
    raise ValueError(f"Could not interpret optimizer identifier: {identifier}")
