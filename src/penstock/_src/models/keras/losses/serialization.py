"""Losses by name or configuration."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.models.keras.losses import classes, functions
from penstock._src.models.keras.utils.generic_utils import deserialize_keras_object
from penstock._src.models.keras.utils.object_config import serialized

_SHORT = {"mse": "mean_squared_error", "mae": "mean_absolute_error", "mape": "mean_absolute_percentage_error",
          "msle": "mean_squared_logarithmic_error", "kld": "kl_divergence"}
KNOWN: dict[str, Any] = {n: f for m in (functions, classes) for n, f in vars(m).items()
                         if getattr(f, "__module__", "") == m.__name__ and not n.startswith("_")}
KNOWN.update({k: KNOWN[v] for short, v in _SHORT.items() for k in (short, short.upper())})
KNOWN.update(kullback_leibler_divergence=functions.kl_divergence, logcosh=functions.log_cosh,
             cosine_proximity=functions.cosine_similarity, cosine=functions.cosine_similarity,
             huber_loss=functions.huber, bce=functions.binary_crossentropy, BCE=functions.binary_crossentropy)


@export("keras.losses.serialize", v2=["losses.serialize"])
def serialize(loss: Any, use_legacy_format: bool = False) -> Any:
    """The configuration of a loss, or of a loss function: the name of the function alone in 1.x.

    >>> tf.keras.losses.serialize(tf.keras.losses.mse)["config"]
    'mean_squared_error'
    """
    return serialized(loss, use_legacy_format)


@export("keras.losses.deserialize", v2=["losses.deserialize"])
def deserialize(name: Any, custom_objects: Any = None, use_legacy_format: bool = False) -> Any:
    """The loss with a name or configuration."""
    return deserialize_keras_object(name, module_objects=KNOWN, custom_objects=custom_objects,
                                    printable_module_name="loss function")


@export("keras.losses.get", v2=["losses.get"])
def get(identifier: Any) -> Any:
    """The loss with a name or configuration; a function is returned unchanged."""
    if identifier is None:
        return None
    if isinstance(identifier, (str, dict)):
        return deserialize(identifier)
    if callable(identifier):
        return identifier
    raise ValueError(f"Could not interpret loss function identifier: {identifier}")


def is_categorical_crossentropy(loss: Any) -> bool:
    """Whether a loss, or its name, is the cross-entropy of distributions over classes."""
    fn = getattr(loss, "fn", loss)
    return isinstance(loss, classes.CategoricalCrossentropy) or \
        "categorical_crossentropy" in (fn, getattr(fn, "__name__", None))
