"""Optimizers by name, configuration or instance; optimizers of tf.train wrapped as Keras optimizers."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.models.keras import backend
from penstock._src.models.keras.optimizers import adagrad, adam, adamax, ftrl, loss_scale, newer, rmsprop, sgd
from penstock._src.models.keras.optimizers.optimizer import Optimizer
from penstock._src.models.keras.optimizers.wrapped import TFOptimizer
from penstock._src.models.keras.utils.generic_utils import deserialize_keras_object
from penstock._src.models.keras.utils.object_config import serialized
from penstock._src.training.train.optimizer import Optimizer as TrainOptimizer

V1 = {"adadelta": adagrad.AdadeltaV1, "adagrad": adagrad.AdagradV1, "adam": adam.AdamV1, "adamax": adamax.AdamaxV1,
      "nadam": adamax.NadamV1, "rmsprop": rmsprop.RMSpropV1, "sgd": sgd.SGDV1, "ftrl": ftrl.FtrlV1, "adamw": adam.AdamW,
      "lion": newer.Lion, "adafactor": newer.Adafactor, "lossscaleoptimizer": loss_scale.LossScaleOptimizerV1,
      "lossscaleoptimizerv1": loss_scale.LossScaleOptimizerV1}
V2 = {**V1, "adadelta": adagrad.Adadelta, "adagrad": adagrad.Adagrad, "adam": adam.Adam, "adamax": adamax.Adamax,
      "nadam": adamax.Nadam, "rmsprop": rmsprop.RMSprop, "sgd": sgd.SGD, "ftrl": ftrl.Ftrl,
      "lossscaleoptimizer": loss_scale.LossScaleOptimizer, "lossscaleoptimizerv3": loss_scale.LossScaleOptimizer}


@export("keras.optimizers.serialize", v2=["optimizers.serialize"])
def serialize(optimizer: Any, use_legacy_format: bool = False) -> dict[str, Any]:
    """The configuration of an optimizer.

    >>> tf.keras.optimizers.serialize(tf.keras.optimizers.SGD())["class_name"]
    'SGD'
    """
    return serialized(optimizer, use_legacy_format)


@export("keras.optimizers.deserialize", v2=["optimizers.deserialize"])
def deserialize(config: dict[str, Any], custom_objects: Any = None, use_legacy_format: bool = False) -> Any:
    """The optimizer of a configuration. The names of the built-in ones may be in lower case."""
    legacy = not context.eager_outside_functions() or config.get("module") == "keras.optimizers.legacy" or \
        _is_older(config.get("config"))
    known: dict[str, Any] = dict(V1 if legacy else V2)
    name = config["class_name"].removeprefix("Custom>").lower()                # tf.keras 2.11 to 2.15 writes "Custom>Adam"
    if name in known:
        config = {**config, "class_name": name}
    return deserialize_keras_object(config, module_objects=known, custom_objects=custom_objects,
                                    printable_module_name="optimizer")


def _is_older(config: Any) -> bool:
    """Whether a configuration is that of an optimizer before Keras 2.11: these have a decay, and no options of newer ones."""
    return isinstance(config, dict) and "decay" in config and "is_legacy_optimizer" not in config


@export("keras.optimizers.get", v2=["optimizers.get"])
def get(identifier: Any, **kwargs: Any) -> Any:
    """The optimizer with a name or configuration; an optimizer is returned unchanged, one of tf.train is wrapped.

    >>> tf.keras.optimizers.get("adam")

    Args:
        identifier: A name, a configuration or an optimizer.
        **kwargs: `use_legacy_optimizer` chooses among those of `keras.optimizers.legacy`; `learning_rate` replaces the default.
    """
    legacy, rate = kwargs.pop("use_legacy_optimizer", False), kwargs.pop("learning_rate", None)
    if kwargs:
        raise TypeError(f"Invalid keyword arguments: {', '.join(kwargs)}")
    if isinstance(identifier, (Optimizer, TFOptimizer)):
        return identifier
    if isinstance(identifier, TrainOptimizer):
        made = TFOptimizer(identifier)
        backend.track_tf_optimizer(made)
        return made
    if isinstance(identifier, dict):
        return deserialize(identifier)
    if isinstance(identifier, str):
        return deserialize({"class_name": identifier, "config": {} if rate is None else {"learning_rate": rate},
                            "module": "keras.optimizers.legacy" if legacy else "keras.optimizers"})
    raise ValueError(f"Could not interpret optimizer identifier: {identifier}")
