"""tf.keras.constraints: projections of weights after each training step."""
from __future__ import annotations

from typing import Any

import numpy as np

from penstock._src.base.api import export
from penstock._src.models.keras import backend as K
from penstock._src.models.keras.utils.generic_utils import deserialize_keras_object
from penstock._src.models.keras.utils.object_config import serialized
from penstock.compat import v1 as tf


@export("keras.constraints.Constraint")
class Constraint:
    """A function of a weight that returns its new value, with a configuration."""

    def __call__(self, w: Any) -> Any:
        return w

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the constraint."""
        return {}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """The constraint of a configuration."""
        return cls(**config)


def _norms(w: Any, axis: Any) -> Any:
    return K.sqrt(tf.reduce_sum(tf.square(w), axis=axis, keepdims=True))


@export("keras.constraints.MaxNorm", "keras.constraints.max_norm")
class MaxNorm(Constraint):
    """Norms along `axis` of at most `max_value`.

    Args:
        max_value: The largest norm.
        axis: The axis, or axes, of the vectors: 0 for the weights into each unit of a dense layer.

    >>> tf.keras.constraints.MaxNorm(1.0)(tf.constant([[3.], [4.]])).numpy().round(2).tolist()[0][0] < 0.61
    True
    """

    def __init__(self, max_value: float = 2, axis: Any = 0):
        self.max_value, self.axis = max_value, axis

    def __call__(self, w: Any) -> Any:
        norms = _norms(w, self.axis)
        return w * (K.clip(norms, 0, self.max_value) / (K.epsilon() + norms))

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the constraint."""
        return {"max_value": self.max_value, "axis": self.axis}


@export("keras.constraints.NonNeg", "keras.constraints.non_neg")
class NonNeg(Constraint):
    """Sets negative weights to zero.

    >>> tf.keras.constraints.NonNeg()(tf.constant([-1.0, 2.0])).numpy()
    array([0., 2.], dtype=float32)
    """

    def __call__(self, w: Any) -> Any:
        return w * tf.cast(tf.greater_equal(w, 0.), w.dtype.base_dtype)


@export("keras.constraints.UnitNorm", "keras.constraints.unit_norm")
class UnitNorm(Constraint):
    """Norms of 1 along `axis`.

    Args:
        axis: The axis, or axes, of the vectors.

    >>> w = tf.keras.constraints.UnitNorm()(tf.constant([[3.], [4.]]))
    >>> round(float(tf.norm(w)), 3)
    1.0
    """

    def __init__(self, axis: Any = 0):
        self.axis = axis

    def __call__(self, w: Any) -> Any:
        return w / (K.epsilon() + _norms(w, self.axis))

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the constraint."""
        return {"axis": self.axis}


@export("keras.constraints.MinMaxNorm", "keras.constraints.min_max_norm")
class MinMaxNorm(Constraint):
    """Norms along `axis` between two values; `rate` is the fraction of the correction that each step applies.

    Args:
        min_value: The smallest norm.
        max_value: The largest norm.
        rate: The fraction of the correction that each step applies; 1 for all of it.
        axis: The axis, or axes, of the vectors.

    >>> w = tf.keras.constraints.MinMaxNorm(max_value=1.0)(tf.constant([[3.], [4.]]))
    >>> round(float(tf.norm(w)), 3)
    1.0
    """

    def __init__(self, min_value: float = 0.0, max_value: float = 1.0, rate: float = 1.0, axis: Any = 0):
        self.min_value, self.max_value, self.rate, self.axis = min_value, max_value, rate, axis

    def __call__(self, w: Any) -> Any:
        norms = _norms(w, self.axis)
        wanted = self.rate * K.clip(norms, self.min_value, self.max_value) + (1 - self.rate) * norms
        return w * (wanted / (K.epsilon() + norms))

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the constraint."""
        return {"min_value": self.min_value, "max_value": self.max_value, "rate": self.rate, "axis": self.axis}


@export("keras.constraints.RadialConstraint", "keras.constraints.radial_constraint")
class RadialConstraint(Constraint):
    """Kernels [size, size, in, out] that are the same at each distance from the middle, with values from the diagonal."""

    def __call__(self, w: Any) -> Any:
        if w.shape.rank != 4:
            raise ValueError(f"RadialConstraint needs weights of rank 4, got shape {w.shape}")
        size = w.shape.as_list()[0]
        w = tf.convert_to_tensor(w)
        diagonal = tf.stack([w[i, i] for i in range(size)])
        return tf.gather(diagonal, _rings(size))


def _rings(size: int) -> Any:
    """For each place of a square the element of the diagonal that it takes its value from."""
    middle, places = size // 2, np.arange(size)
    if size % 2:
        ring = np.abs(places - middle)
        distance = np.maximum(ring[:, None], ring[None, :])             # 0 is the middle
        return np.where(distance == 0, middle - 1, middle + distance - 1)
    ring = np.maximum(places - middle, middle - 1 - places)
    distance = np.maximum(ring[:, None], ring[None, :])
    return np.where(distance == 0, middle - 1, middle + distance)


_CLASSES: dict[str, Any] = {c.__name__: c for c in (Constraint, MaxNorm, NonNeg, UnitNorm, MinMaxNorm, RadialConstraint)}
_CLASSES |= {"max_norm": MaxNorm, "maxnorm": MaxNorm, "non_neg": NonNeg, "nonneg": NonNeg, "unit_norm": UnitNorm,
             "unitnorm": UnitNorm, "min_max_norm": MinMaxNorm, "radial_constraint": RadialConstraint}


@export("keras.constraints.serialize")
def serialize(constraint: Any, use_legacy_format: bool = False) -> Any:
    """The configuration of a constraint."""
    return serialized(constraint, use_legacy_format)


@export("keras.constraints.deserialize")
def deserialize(config: Any, custom_objects: Any = None, use_legacy_format: bool = False) -> Any:
    """The constraint of a name or configuration."""
    return deserialize_keras_object(config, _CLASSES, custom_objects, "constraint")


@export("keras.constraints.get")
def get(identifier: Any) -> Any:
    """A constraint: itself, or by its name or configuration.

    Args:
        identifier: A constraint, a name, a configuration, a function, or None.

    Returns:
        A function of a tensor, or None.

    Raises:
        ValueError: for an unknown name.

    >>> type(tf.keras.constraints.get("non_neg")).__name__
    'NonNeg'
    """
    if identifier is None or isinstance(identifier, (dict, str)):
        return deserialize(identifier)
    if callable(identifier):
        return identifier
    raise ValueError(f"Could not interpret constraint identifier: {identifier}")
