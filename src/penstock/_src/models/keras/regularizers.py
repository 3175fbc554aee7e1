"""tf.keras.regularizers: penalties of weights, which are added to the loss."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.models.keras import backend as K
from penstock._src.models.keras.utils.generic_utils import deserialize_keras_object
from penstock._src.models.keras.utils.object_config import serialized
from penstock.compat import v1 as tf


@export("keras.regularizers.Regularizer")
class Regularizer:
    """A function of a weight that returns its penalty, with a configuration."""

    def __call__(self, x: Any) -> Any:
        return 0.

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """The regularizer of a configuration."""
        return cls(**config)

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the regularizer."""
        raise NotImplementedError(f"{self} does not implement get_config()")


@export("keras.regularizers.L1L2")
class L1L2(Regularizer):
    """l1 * sum(|x|) + l2 * sum(x * x).

    Args:
        l1: Factor of the sum of absolute values.
        l2: Factor of the sum of squares.

    >>> float(tf.keras.regularizers.L1L2(l1=1.0, l2=0.5)(tf.constant([1., -2.])))
    5.5
    """

    def __init__(self, l1: float = 0., l2: float = 0.):
        self.l1, self.l2 = K.cast_to_floatx(l1 or 0.), K.cast_to_floatx(l2 or 0.)

    def __call__(self, x: Any) -> Any:
        if not self.l1 and not self.l2:
            return K.constant(0.)
        total: Any = 0.
        if self.l1:
            total += float(self.l1) * tf.reduce_sum(tf.abs(x))
        if self.l2:
            total += float(self.l2) * tf.reduce_sum(tf.square(x))
        return total

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the regularizer."""
        return {"l1": float(self.l1), "l2": float(self.l2)}


@export(v2=["keras.regularizers.L1"])
class L1(Regularizer):
    """l1 * sum(|x|).

    Args:
        l1: Factor of the sum.
        **kwargs: `l`, the older name of the factor.
    """

    def __init__(self, l1: float = 0.01, **kwargs: Any):
        self.l1 = K.cast_to_floatx(_factor("L1", 0.01 if l1 is None else l1, kwargs))

    def __call__(self, x: Any) -> Any:
        return float(self.l1) * tf.reduce_sum(tf.abs(x))

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the regularizer."""
        return {"l1": float(self.l1)}


@export(v2=["keras.regularizers.L2"])
class L2(Regularizer):
    """l2 * sum(x * x).

    Args:
        l2: Factor of the sum.
        **kwargs: `l`, the older name of the factor.
    """

    def __init__(self, l2: float = 0.01, **kwargs: Any):
        self.l2 = K.cast_to_floatx(_factor("L2", 0.01 if l2 is None else l2, kwargs))

    def __call__(self, x: Any) -> Any:
        return float(self.l2) * tf.reduce_sum(tf.square(x))

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the regularizer."""
        return {"l2": float(self.l2)}


@export(v2=["keras.regularizers.OrthogonalRegularizer", "keras.regularizers.orthogonal_regularizer"])
class OrthogonalRegularizer(Regularizer):
    """What rows (or columns) lack to be orthogonal: the mean of |cosine| between two of them, times `factor`.

    Args:
        factor: Factor of the penalty.
        mode: `"rows"` or `"columns"`: which vectors are to be orthogonal.

    Raises:
        ValueError: for another mode.

    >>> float(tf.keras.regularizers.OrthogonalRegularizer(1.0)(tf.eye(2)))
    0.0
    """

    def __init__(self, factor: float = 0.01, mode: str = "rows"):
        if mode not in ("rows", "columns"):
            raise ValueError(f'Invalid value for argument `mode`. Expected one of {{"rows", "columns"}}. Received: {mode}')
        self.factor, self.mode = K.cast_to_floatx(factor), mode

    def __call__(self, x: Any) -> Any:
        if K.ndim(x) != 2:
            raise ValueError(f"Inputs to OrthogonalRegularizer must have rank 2. Received: inputs.shape={x.shape}")
        x = tf.convert_to_tensor(x)
        unit = tf.nn.l2_normalize(x if self.mode == "rows" else tf.transpose(x), axis=1)
        size = K.int_shape(unit)[0]
        products = tf.matmul(unit, unit, transpose_b=True) * (1. - tf.eye(size, dtype=unit.dtype))
        return self.factor * 0.5 * tf.reduce_sum(tf.abs(products)) / (size * (size - 1.) / 2.)

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the regularizer."""
        return {"factor": float(self.factor), "mode": self.mode}


def _factor(name: str, value: float, older: dict[str, Any]) -> float:
    """The factor of a regularizer, which programs for 1.x call `l`."""
    value = older.pop("l", value)
    if older:
        raise TypeError(f"Argument(s) not recognized by {name}: {', '.join(older)}")
    return value


@export(v1=["keras.regularizers.l1"])
def l1(l: float = 0.01) -> L1L2:
    """l * sum(|x|)."""
    return L1L2(l1=l)


@export(v1=["keras.regularizers.l2"])
def l2(l: float = 0.01) -> L1L2:
    """l * sum(x * x).

    Args:
        l: Factor of the sum.

    Returns:
        A regularizer.

    >>> tf.keras.regularizers.l2(0.5)(tf.constant([1., -2.])).numpy()
    np.float32(2.5)
    """
    return L1L2(l2=l)


@export(v2=["keras.regularizers.l1"])
def l1_v2(l: float = 0.01, **kwargs: Any) -> L1:
    """An `L1` of a factor.

    Args:
        l: Factor of the sum.
        **kwargs: `l1`, the newer name of the factor.

    Returns:
        A regularizer, as `tf.keras.regularizers.L1` makes it.

    >>> tf.keras.regularizers.l1(0.5)(tf.constant([1.0, -2.0]))      # 1.5
    """
    return L1(kwargs.pop("l1", l), **kwargs)


@export(v2=["keras.regularizers.l2"])
def l2_v2(l: float = 0.01, **kwargs: Any) -> L2:
    """An `L2` of a factor.

    Args:
        l: Factor of the sum.
        **kwargs: `l2`, the newer name of the factor.

    Returns:
        A regularizer, as `tf.keras.regularizers.L2` makes it.

    >>> tf.keras.regularizers.l2(0.5)(tf.constant([1.0, -2.0])).numpy()
    np.float32(2.5)
    """
    return L2(kwargs.pop("l2", l), **kwargs)


@export("keras.regularizers.l1_l2")
def l1_l2(l1: float = 0.01, l2: float = 0.01) -> L1L2:
    """l1 * sum(|x|) + l2 * sum(x * x).

    Args:
        l1: Factor of the sum of absolute values.
        l2: Factor of the sum of squares.

    Returns:
        A regularizer.

    >>> float(tf.keras.regularizers.l1_l2(1.0, 0.5)(tf.constant([1., -2.])))
    5.5
    """
    return L1L2(l1=l1, l2=l2)


_CLASSES = {"L1L2": L1L2, "L1": L1, "L2": L2, "OrthogonalRegularizer": OrthogonalRegularizer, "l1": l1, "l2": l2,
            "l1_l2": l1_l2}


_NEWER = {**_CLASSES, "l1": L1, "l2": L2}


@export("keras.regularizers.serialize")
def serialize(regularizer: Any, use_legacy_format: bool = False) -> Any:
    """The configuration of a regularizer."""
    return serialized(regularizer, use_legacy_format)


@export("keras.regularizers.deserialize")
def deserialize(config: Any, custom_objects: Any = None, use_legacy_format: bool = False) -> Any:
    """The regularizer of a name or configuration."""
    known: dict[str, Any] = dict(_NEWER if context.eager_outside_functions() else _CLASSES)
    return deserialize_keras_object(config, known, custom_objects, "regularizer")


@export("keras.regularizers.get")
def get(identifier: Any) -> Any:
    """A regularizer: itself, or by its name or configuration.

    Args:
        identifier: A regularizer, a name, a configuration, a function, or None.

    Returns:
        A function of a tensor, or None.

    Raises:
        ValueError: for an unknown name.

    >>> float(tf.keras.regularizers.get("l2")(tf.constant([10.])))
    1.0
    """
    if identifier is None or isinstance(identifier, dict):
        return deserialize(identifier)
    if isinstance(identifier, str):
        return deserialize({"class_name": identifier, "config": {}} if identifier in ("l1", "l2", "l1_l2") else identifier)
    if callable(identifier):
        return identifier
    raise ValueError(f"Could not interpret regularizer identifier: {identifier}")
