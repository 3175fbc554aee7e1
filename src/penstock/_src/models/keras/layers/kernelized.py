"""RandomFourierFeatures: a random map whose inner products approximate a kernel (Rahimi and Recht, 2007)."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from penstock._src.base.api import export
from penstock._src.models.keras import initializers
from penstock._src.models.keras.engine.base_layer import Layer
from penstock._src.models.keras.engine.input_spec import InputSpec
from penstock._src.models.keras.layers.parts import dims_of
from penstock.compat import v1 as tf


@export("keras.layers.experimental.RandomFourierFeatures")
class RandomFourierFeatures(Layer):
    """cos(x·W / scale + b) for random W and b: linear models on top approximate kernel machines.

    >>> tf.keras.layers.experimental.RandomFourierFeatures(output_dim=4096, scale=10., kernel_initializer="gaussian")
    """

    def __init__(self, output_dim: int, kernel_initializer: Any = "gaussian", scale: float | None = None,
                 trainable: bool = False, name: str | None = None, **kwargs: Any):
        if output_dim <= 0:
            raise ValueError(f"`output_dim` should be a positive integer. Received: {output_dim}")
        if isinstance(kernel_initializer, str) and kernel_initializer.lower() not in ("gaussian", "laplacian"):
            raise ValueError(f"Unsupported `kernel_initializer`: {kernel_initializer} Expected one of: "
                             "['gaussian', 'laplacian']")
        if scale is not None and scale <= 0.:
            raise ValueError(f"When provided, `scale` should be a positive float. Received: {scale}")
        super().__init__(trainable=trainable, name=name, **kwargs)
        self.output_dim, self.kernel_initializer, self.scale = output_dim, kernel_initializer, scale

    def build(self, input_shape: Any) -> None:
        """Draws the map."""
        dims = dims_of(input_shape)
        if len(dims) != 2:
            raise ValueError(f"The rank of the input tensor should be 2. Received input with rank {len(dims)} instead. "
                             f"Full input shape received: {input_shape}")
        if dims[1] is None:
            raise ValueError("The last dimension of the input tensor should be defined. Found `None`. Full input shape "
                             f"received: {input_shape}")
        self.input_spec = InputSpec(ndim=2, axes={1: dims[1]})
        kind = self.kernel_initializer.lower() if isinstance(self.kernel_initializer, str) else None
        if self.scale is None:
            self.scale = math.sqrt(dims[1] / 2.) if kind == "gaussian" else 1.
        self.unscaled_kernel = self.add_weight("unscaled_kernel", shape=(dims[1], self.output_dim), dtype=tf.float32,
                                               initializer=self._drawn(kind, dims[1]), trainable=False)
        self.bias = self.add_weight("bias", shape=(self.output_dim,), dtype=tf.float32, trainable=False,
                                    initializer=tf.random_uniform_initializer(0., 2 * math.pi))
        self.kernel_scale = self.add_weight("kernel_scale", shape=(1,), dtype=tf.float32, constraint="NonNeg",
                                            initializer=tf.constant_initializer(self.scale), trainable=True)
        super().build(input_shape)

    def _drawn(self, kind: str | None, size: int) -> Any:
        if kind == "gaussian":
            return tf.random_normal_initializer(stddev=1.)
        if kind == "laplacian":
            return tf.constant_initializer(np.random.standard_cauchy((size, self.output_dim)).astype(np.float32))
        return initializers.get(self.kernel_initializer)

    def call(self, inputs: Any) -> Any:
        """The features."""
        products = tf.matmul(tf.cast(inputs, tf.float32), self.unscaled_kernel / self.kernel_scale)
        return tf.cos(tf.nn.bias_add(products, self.bias))

    def compute_output_shape(self, input_shape: Any) -> Any:
        """[batch, output_dim]."""
        return tf.TensorShape([dims_of(input_shape)[0], self.output_dim])

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        kernel = self.kernel_initializer
        return {**super().get_config(), "output_dim": self.output_dim, "scale": self.scale,
                "kernel_initializer": kernel if isinstance(kernel, str) else initializers.serialize(kernel)}
