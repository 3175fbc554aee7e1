"""Poolings of tf.layers."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.models.keras.layers import pooling as keras
from penstock._src.models.layers.base import Layer
from penstock._src.models.layers.functional import arguments, function_of


@export(v1=["layers.AveragePooling1D"])
class AveragePooling1D(keras.AveragePooling1D, Layer):
    """Averages over windows of one dimension.

    Args:
        pool_size: Size of the windows in each dimension; one integer for all.
        strides: Step of the window in each dimension; one integer for all.
        padding: `"valid"` uses only complete windows; `"same"` pads with zeros so that stride 1 keeps the size.
        data_format: `"channels_last"` or `"channels_first"`.
        name: Name of the layer and prefix of its variables.
        **kwargs: `dtype`, `_reuse` and `_scope`.

    >>> tf.layers.AveragePooling1D(2, 2)(tf.ones([2, 8, 3])).shape
    TensorShape([2, 4, 3])
    """

    def __init__(self, pool_size: Any, strides: Any, padding: str = "valid", data_format: str = "channels_last",
                 name: str | None = None, **kwargs: Any):
        super().__init__(**_checked(arguments(locals())))


@export(v1=["layers.MaxPooling1D"])
class MaxPooling1D(keras.MaxPooling1D, Layer):
    """Maxima over windows of one dimension.

    Args:
        pool_size: Size of the windows in each dimension; one integer for all.
        strides: Step of the window in each dimension; one integer for all.
        padding: `"valid"` uses only complete windows; `"same"` pads with zeros so that stride 1 keeps the size.
        data_format: `"channels_last"` or `"channels_first"`.
        name: Name of the layer and prefix of its variables.
        **kwargs: `dtype`, `_reuse` and `_scope`.

    >>> tf.layers.MaxPooling1D(2, 2)(tf.ones([2, 8, 3])).shape
    TensorShape([2, 4, 3])
    """

    def __init__(self, pool_size: Any, strides: Any, padding: str = "valid", data_format: str = "channels_last",
                 name: str | None = None, **kwargs: Any):
        super().__init__(**_checked(arguments(locals())))


@export(v1=["layers.AveragePooling2D"])
class AveragePooling2D(keras.AveragePooling2D, Layer):
    """Averages over windows of images.

    Args:
        pool_size: Size of the windows in each dimension; one integer for all.
        strides: Step of the window in each dimension; one integer for all.
        padding: `"valid"` uses only complete windows; `"same"` pads with zeros so that stride 1 keeps the size.
        data_format: `"channels_last"` or `"channels_first"`.
        name: Name of the layer and prefix of its variables.
        **kwargs: `dtype`, `_reuse` and `_scope`.

    >>> tf.layers.AveragePooling2D(2, 2)(tf.ones([1, 8, 8, 3])).shape
    TensorShape([1, 4, 4, 3])
    """

    def __init__(self, pool_size: Any, strides: Any, padding: str = "valid", data_format: str = "channels_last",
                 name: str | None = None, **kwargs: Any):
        super().__init__(**_checked(arguments(locals())))


@export(v1=["layers.MaxPooling2D"])
class MaxPooling2D(keras.MaxPooling2D, Layer):
    """Maxima over windows of images.

    Args:
        pool_size: Size of the windows in each dimension; one integer for all.
        strides: Step of the window in each dimension; one integer for all.
        padding: `"valid"` uses only complete windows; `"same"` pads with zeros so that stride 1 keeps the size.
        data_format: `"channels_last"` or `"channels_first"`.
        name: Name of the layer and prefix of its variables.
        **kwargs: `dtype`, `_reuse` and `_scope`.

    >>> tf.layers.MaxPooling2D(2, 2)(tf.ones([1, 8, 8, 3])).shape
    TensorShape([1, 4, 4, 3])
    """

    def __init__(self, pool_size: Any, strides: Any, padding: str = "valid", data_format: str = "channels_last",
                 name: str | None = None, **kwargs: Any):
        super().__init__(**_checked(arguments(locals())))


@export(v1=["layers.AveragePooling3D"])
class AveragePooling3D(keras.AveragePooling3D, Layer):
    """Averages over windows of volumes.

    Args:
        pool_size: Size of the windows in each dimension; one integer for all.
        strides: Step of the window in each dimension; one integer for all.
        padding: `"valid"` uses only complete windows; `"same"` pads with zeros so that stride 1 keeps the size.
        data_format: `"channels_last"` or `"channels_first"`.
        name: Name of the layer and prefix of its variables.
        **kwargs: `dtype`, `_reuse` and `_scope`.

    >>> tf.layers.AveragePooling3D(2, 2)(tf.ones([2, 8, 8, 8, 3])).shape
    TensorShape([2, 4, 4, 4, 3])
    """

    def __init__(self, pool_size: Any, strides: Any, padding: str = "valid", data_format: str = "channels_last",
                 name: str | None = None, **kwargs: Any):
        super().__init__(**_checked(arguments(locals())))


@export(v1=["layers.MaxPooling3D"])
class MaxPooling3D(keras.MaxPooling3D, Layer):
    """Maxima over windows of volumes.

    Args:
        pool_size: Size of the windows in each dimension; one integer for all.
        strides: Step of the window in each dimension; one integer for all.
        padding: `"valid"` uses only complete windows; `"same"` pads with zeros so that stride 1 keeps the size.
        data_format: `"channels_last"` or `"channels_first"`.
        name: Name of the layer and prefix of its variables.
        **kwargs: `dtype`, `_reuse` and `_scope`.

    >>> tf.layers.MaxPooling3D(2, 2)(tf.ones([2, 8, 8, 8, 3])).shape
    TensorShape([2, 4, 4, 4, 3])
    """

    def __init__(self, pool_size: Any, strides: Any, padding: str = "valid", data_format: str = "channels_last",
                 name: str | None = None, **kwargs: Any):
        super().__init__(**_checked(arguments(locals())))


def _checked(given: dict[str, Any]) -> dict[str, Any]:
    """Checks that strides are given: they have no default here."""
    if given["strides"] is None:
        raise ValueError("`strides` is required.")
    return given


average_pooling1d = function_of(AveragePooling1D, "average_pooling1d", """Averages over windows of one dimension.

    >>> tf.layers.average_pooling1d(tf.ones([2, 8, 3]), pool_size=2, strides=2).shape
    TensorShape([2, 4, 3])
    """,
                                variables=False)
max_pooling1d = function_of(MaxPooling1D, "max_pooling1d", """Maxima over windows of one dimension.

    >>> tf.layers.max_pooling1d(tf.ones([2, 8, 3]), pool_size=2, strides=2).shape
    TensorShape([2, 4, 3])
    """, variables=False)
average_pooling2d = function_of(AveragePooling2D, "average_pooling2d", """Averages over windows of images.

    >>> with tf.Graph().as_default():
    ...     y = tf.layers.average_pooling2d(tf.ones([1, 8, 8, 3]), pool_size=2, strides=2)
    >>> y.shape
    TensorShape([1, 4, 4, 3])
    """, variables=False)
max_pooling2d = function_of(MaxPooling2D, "max_pooling2d", """Maxima over windows of images.

    >>> with tf.Graph().as_default():
    ...     smaller = tf.layers.max_pooling2d(tf.zeros([1, 8, 8, 3]), pool_size=2, strides=2)
    >>> smaller.shape
    TensorShape([1, 4, 4, 3])
    """, variables=False)
average_pooling3d = function_of(AveragePooling3D, "average_pooling3d", """Averages over windows of volumes.

    >>> tf.layers.average_pooling3d(tf.ones([2, 8, 8, 8, 3]), pool_size=2, strides=2).shape
    TensorShape([2, 4, 4, 4, 3])
    """, variables=False)
max_pooling3d = function_of(MaxPooling3D, "max_pooling3d", """Maxima over windows of volumes.

    >>> tf.layers.max_pooling3d(tf.ones([2, 8, 8, 8, 3]), pool_size=2, strides=2).shape
    TensorShape([2, 4, 4, 4, 3])
    """, variables=False)
