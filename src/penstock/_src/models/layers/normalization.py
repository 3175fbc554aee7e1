"""Batch normalization of tf.layers."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.models.keras.layers import normalization as keras
from penstock._src.models.layers.base import Layer
from penstock._src.models.layers.functional import arguments, function_of
from penstock.compat import v1 as tf


@export(v1=["layers.BatchNormalization"])
class BatchNormalization(keras.BatchNormalizationV1, Layer):
    """Each channel with mean 0 and variance 1 over the batch, scaled and shifted; by the averages, when predicting.

    The updates of the averages are in the collection UPDATE_OPS: run them with the training op.

    Args:
        axis: Axis, or axes, of the channels.
        momentum: Share of the old value in moving averages.
        epsilon: Added to the variance before the division.
        center: Whether to add `beta`.
        scale: Whether to multiply by `gamma`.
        beta_initializer: Initializer of the offset.
        gamma_initializer: Initializer of the factor.
        moving_mean_initializer: Initializer of the moving mean.
        moving_variance_initializer: Initializer of the moving variance.
        beta_regularizer: Function of the offset whose result is added to the losses.
        gamma_regularizer: Function of the factor whose result is added to the losses.
        beta_constraint: Function applied to the offset after each update.
        gamma_constraint: Function applied to the factor after each update.
        renorm: Whether to use batch renormalization.
        renorm_clipping: Dictionary with the limits `rmax`, `rmin` and `dmax` of batch renormalization.
        renorm_momentum: Share of the old value in the averages of batch renormalization.
        fused: Accepted for compatibility: the compiler fuses the layer where it can.
        trainable: Whether the variables are added to the collection of trainable variables.
        virtual_batch_size: Size of the parts of a batch that are normalized separately.
        adjustment: Function of the shape of the inputs that returns a random factor and offset, for training.
        name: Name of the layer and prefix of its variables.
        **kwargs: `dtype`, `_reuse` and `_scope`.

    >>> with tf.Graph().as_default():
    ...     layer = tf.layers.BatchNormalization()
    ...     y = layer(tf.ones([4, 3]), training=True)
    >>> y.shape, len(layer.updates)
    (TensorShape([4, 3]), 2)
    """

    def __init__(self, axis: Any = -1, momentum: float = 0.99, epsilon: float = 1e-3, center: bool = True, scale: bool = True,
                 beta_initializer: Any = tf.zeros_initializer(), gamma_initializer: Any = tf.ones_initializer(),
                 moving_mean_initializer: Any = tf.zeros_initializer(),
                 moving_variance_initializer: Any = tf.ones_initializer(), beta_regularizer: Any = None,
                 gamma_regularizer: Any = None, beta_constraint: Any = None, gamma_constraint: Any = None, renorm: bool = False,
                 renorm_clipping: Any = None, renorm_momentum: float = 0.99, fused: Any = None, trainable: bool = True,
                 virtual_batch_size: int | None = None, adjustment: Any = None, name: str | None = None, **kwargs: Any):
        super().__init__(**arguments(locals()))

    def call(self, inputs: Any, training: Any = False, mask: Any = None) -> Any:
        """The normalized inputs; by the averages unless `training`."""
        return super().call(inputs, training=training)


batch_normalization = function_of(
    BatchNormalization, "batch_normalization",
    """Each channel with mean 0 and variance 1 over the batch, scaled and shifted; by the averages, when predicting.

    >>> with tf.Graph().as_default():
    ...     x = tf.layers.batch_normalization(tf.ones([4, 3]), training=True)
    ...     updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)       # to be run with the training op
    >>> x.shape, len(updates)
    (TensorShape([4, 3]), 2)
    """, call={"training": False})
