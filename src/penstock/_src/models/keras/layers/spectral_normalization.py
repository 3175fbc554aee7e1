"""SpectralNormalization: a layer whose weights are divided by their largest singular value."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.models.keras import initializers
from penstock._src.models.keras.engine.input_spec import InputSpec
from penstock._src.models.keras.layers.parts import dims_of, when
from penstock._src.models.keras.layers.wrappers import Wrapper
from penstock.compat import v1 as tf


@export("keras.layers.SpectralNormalization")
class SpectralNormalization(Wrapper):
    """Keeps the spectral norm of a layer's `kernel` (or `embeddings`) at one while training, by power iteration.

    Args:
        layer: The layer.
        power_iterations: How many iterations each step runs.
        **kwargs: `name` and other arguments of `Layer`.

    >>> layer = tf.keras.layers.SpectralNormalization(tf.keras.layers.Dense(4))
    >>> layer(tf.ones([2, 3]), training=True).shape
    TensorShape([2, 4])
    """

    def __init__(self, layer: Any, power_iterations: int = 1, **kwargs: Any):
        super().__init__(layer, **kwargs)
        if power_iterations <= 0:
            raise ValueError(f"`power_iterations` should be greater than zero. Received: `power_iterations={power_iterations}`")
        self.power_iterations = power_iterations

    def build(self, input_shape: Any = None) -> None:
        """Builds the wrapped layer, and the vector that power iteration continues from."""
        super().build(input_shape)
        self.input_spec = InputSpec(shape=[None, *dims_of(input_shape)[1:]])
        kernel = getattr(self.layer, "kernel", None)
        self.w: Any = getattr(self.layer, "embeddings", None) if kernel is None else kernel
        if self.w is None:
            raise ValueError(f"{type(self.layer).__name__} object has no attribute 'kernel' nor 'embeddings'")
        self.vector_u = self.add_weight("vector_u", shape=(1, self.w.shape.as_list()[-1]), trainable=False,
                                        initializer=initializers.get({"class_name": "TruncatedNormal",
                                                                      "config": {"stddev": 0.02}}))

    def call(self, inputs: Any, training: Any = None) -> Any:
        """What the wrapped layer returns, with normalized weights while training."""
        if training is None or training is False:
            return self.layer(inputs)
        with tf.control_dependencies(self._normalized(training)):
            return self.layer(tf.nest.map_structure(tf.identity, inputs))

    def _normalized(self, training: Any) -> list:
        """Updates of the kernel and of the vector, which leave both as they are when not training."""
        kernel, start = tf.convert_to_tensor(self.w), tf.convert_to_tensor(self.vector_u)
        matrix, u = tf.reshape(kernel, [-1, start.shape[1]]), start
        v = u
        for _ in range(self.power_iterations):
            v = tf.nn.l2_normalize(tf.matmul(u, matrix, transpose_b=True))
            u = tf.nn.l2_normalize(tf.matmul(v, matrix))
        norm = tf.matmul(tf.matmul(v, matrix), u, transpose_b=True)
        empty = tf.reduce_all(tf.equal(kernel, 0))
        smaller = tf.where_v2(empty, kernel, tf.reshape(matrix / norm, tf.shape(kernel)))
        u = tf.where_v2(empty, start, u)
        return [variable.assign(when(training, lambda new=new: new, lambda old=old: tf.identity(old)))
                for variable, new, old in ((self.w, smaller, kernel), (self.vector_u, u, start))]

    def compute_output_shape(self, input_shape: Any) -> Any:
        """That of the wrapped layer."""
        return self.layer.compute_output_shape(input_shape)

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        return {**super().get_config(), "power_iterations": self.power_iterations}
