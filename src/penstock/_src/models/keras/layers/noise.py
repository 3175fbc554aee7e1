"""Noise while training."""
from __future__ import annotations

import math
from typing import Any

from penstock._src.base.api import export
from penstock._src.models.keras.layers.parts import described, when
from penstock._src.models.keras.layers.random_layer import RandomLayer
from penstock.compat import v1 as tf

_ALPHA_PRIME = -1.6732632423543772 * 1.0507009873554805      # the limit of SELU at minus infinity


class _Noise(RandomLayer):
    """A layer that changes its inputs at random while training, and not otherwise."""

    _words: tuple = ()

    def __init__(self, seed: int | None = None, **kwargs: Any):
        super().__init__(seed, **kwargs)
        self.supports_masking = True

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The inputs' shape."""
        return input_shape

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        return described(self, super().get_config(), (*self._words, "seed"))


@export("keras.layers.GaussianNoise")
class GaussianNoise(_Noise):
    """Adds normally distributed noise.

    It is active while training only.

    Args:
        stddev: Standard deviation of the noise.
        seed: Seed of the noise.
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.
    """

    _words = ("stddev",)

    def __init__(self, stddev: float, seed: int | None = None, **kwargs: Any):
        super().__init__(seed, **kwargs)
        self.stddev = stddev

    def call(self, inputs: Any, training: Any = None) -> Any:
        """The inputs, with noise while training."""
        return when(training, lambda: inputs + self._draws().random_normal(tf.shape(inputs), 0., self.stddev, inputs.dtype),
                    lambda: tf.identity(inputs))


@export("keras.layers.GaussianDropout")
class GaussianDropout(_Noise):
    """Multiplies with normally distributed noise of mean 1 and variance rate / (1 - rate).

    It is active while training only.

    Args:
        rate: Dropout rate with the same variance.
        seed: Seed of the noise.
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.
    """

    _words = ("rate",)

    def __init__(self, rate: float, seed: int | None = None, **kwargs: Any):
        super().__init__(seed, **kwargs)
        self.rate = rate

    def call(self, inputs: Any, training: Any = None) -> Any:
        """The inputs, with noise while training."""
        if not 0 < self.rate < 1:
            return inputs
        stddev = math.sqrt(self.rate / (1. - self.rate))
        return when(training, lambda: inputs * self._draws().random_normal(tf.shape(inputs), 1., stddev, inputs.dtype),
                    lambda: tf.identity(inputs))


@export("keras.layers.AlphaDropout")
class AlphaDropout(_Noise):
    """Dropout that keeps the mean and the variance of what SELU returns.

    Args:
        rate: The fraction of elements to drop.
        noise_shape: Shape of the mask, which broadcasts; by default that of the inputs.
        seed: A number that makes the choice reproducible.
        **kwargs: Passed to the base class: `name`, `dtype`, `trainable`, `input_shape`.

    >>> tf.keras.layers.AlphaDropout(0.5)(tf.ones([1, 2]), training=False).numpy().tolist()
    [[1.0, 1.0]]
    """

    _words = ("rate",)

    def __init__(self, rate: float, noise_shape: Any = None, seed: int | None = None, **kwargs: Any):
        super().__init__(seed, **kwargs)
        self.rate, self.noise_shape = rate, noise_shape

    def call(self, inputs: Any, training: Any = None) -> Any:
        """The inputs, some of them replaced while training."""
        if not 0. < self.rate < 1.:
            return inputs
        return when(training, lambda: self._dropped(inputs), lambda: tf.identity(inputs))

    def _dropped(self, inputs: Any) -> Any:
        draw = self._draws().random_uniform(self.noise_shape or tf.shape(inputs), dtype=inputs.dtype)
        kept = tf.cast(tf.greater_equal(draw, self.rate), inputs.dtype)
        a = ((1 - self.rate) * (1 + self.rate * _ALPHA_PRIME ** 2)) ** -0.5
        return a * (inputs * kept + _ALPHA_PRIME * (1 - kept)) - a * _ALPHA_PRIME * self.rate
