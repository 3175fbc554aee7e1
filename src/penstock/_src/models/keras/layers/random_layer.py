"""The base of layers that draw random numbers."""
from __future__ import annotations

import random
from typing import Any

from penstock._src.graph.scopes import init_scope
from penstock._src.models.keras.engine.base_layer import Layer
from penstock.compat import v1 as tf

STATELESS, STATEFUL, LEGACY = "stateless", "stateful", "legacy_stateful"


class RandomLayer(Layer):
    """A layer that draws numbers by ops with a seed, from its own generator, or the same ones in every call.

    `rng_type` says which: `"legacy_stateful"` (the default), `"stateful"` or `"stateless"`.
    """

    _generator: Any = None

    def __init__(self, seed: int | None = None, force_generator: bool = False, rng_type: str | None = None, **kwargs: Any):
        super().__init__(**kwargs)
        rng_type = STATEFUL if force_generator else rng_type or LEGACY
        if rng_type not in (STATELESS, STATEFUL, LEGACY):
            raise ValueError('Invalid `rng_type` received. Valid `rng_type` are ["stateless", "stateful", "legacy_stateful"]. '
                             f"Got: {rng_type}")
        self.seed, self._rng_type = seed, rng_type
        self._own_seed = seed if seed is not None or rng_type == LEGACY else random.randint(1, 10 ** 9)

    def _own_generator(self) -> Any:
        if self._generator is None:
            with init_scope():
                made = tf.random.experimental.Generator.from_seed(self._own_seed)
            self.__dict__["_generator"] = made
            self._track_trackable(made, "_random_generator")
        return self._generator

    def _with_dropout(self, inputs: Any, rate: Any, noise_shape: Any) -> Any:
        if self._rng_type == LEGACY:
            return tf.nn.dropout(inputs, rate=rate, noise_shape=noise_shape, seed=self.seed)
        if self._rng_type == STATELESS:
            return tf.nn.experimental.stateless_dropout(inputs, rate, [self._own_seed, 0], noise_shape=noise_shape)
        return tf.nn.experimental.general_dropout(inputs, rate, self._own_generator().uniform, noise_shape)

    def _normal(self, inputs: Any, mean: float, stddev: float) -> Any:
        shape = tf.shape(inputs)
        if self._rng_type == LEGACY:
            return tf.random_normal(shape, mean, stddev, inputs.dtype, seed=self.seed)
        if self._rng_type == STATELESS:
            return tf.random.stateless_normal(shape, [self._own_seed, 0], mean, stddev, inputs.dtype)
        return self._own_generator().normal(shape, mean, stddev, inputs.dtype)

    def _uniform(self, shape: Any, dtype: Any) -> Any:
        if self._rng_type == LEGACY:
            return tf.random_uniform(shape, dtype=dtype, seed=self.seed)
        if self._rng_type == STATELESS:
            return tf.random.stateless_uniform(shape, [self._own_seed, 0], dtype=dtype)
        return self._own_generator().uniform(shape, dtype=dtype)

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        return {**super().get_config(), **({"rng_type": self._rng_type} if self._rng_type != LEGACY else {})}
