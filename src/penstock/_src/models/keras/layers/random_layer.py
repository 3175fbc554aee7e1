"""Random numbers of layers: the base of layers that draw them, and the generator that it has."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.random_seed import initial_seed
from penstock._src.graph.scopes import init_scope
from penstock._src.models.keras.backend import floatx
from penstock._src.models.keras.engine.base_layer import Layer
from penstock.compat import v1 as tf

STATELESS, STATEFUL, LEGACY = "stateless", "stateful", "legacy_stateful"


class RandomGenerator:
    """Draws numbers by ops with a seed, from its generator, or the same ones in every call.

    `rng_type` says which: `"legacy_stateful"` (the default), `"stateful"` or `"stateless"`. Ops with a seed get another seed
    each time one is made, so that two of them in one function differ.
    """

    RNG_STATELESS, RNG_STATEFUL, RNG_LEGACY_STATEFUL = STATELESS, STATEFUL, LEGACY

    def __init__(self, seed: int | None = None, rng_type: str | None = None, force_generator: bool = False):
        rng_type = STATEFUL if force_generator else rng_type or LEGACY
        if rng_type not in (STATELESS, STATEFUL, LEGACY):
            raise ValueError('Invalid `rng_type` received. Valid `rng_type` are ["stateless", "stateful", "legacy_stateful"]. '
                             f"Got: {rng_type}")
        self._rng_type, self._generator, self._seed = rng_type, None, seed

    def _maybe_init(self) -> None:
        """Makes the generator, which needs variables of 2.x; in graphs of 1.x, ops with a seed take its place."""
        if self._rng_type == STATEFUL and not context.eager_outside_functions():
            self._rng_type = LEGACY
        if self._rng_type == LEGACY:
            return
        if self._seed is None:                      # drawn when the layer is built, between those of initializers
            self._seed = initial_seed()
        if self._rng_type == STATEFUL and self._generator is None:
            with init_scope():
                self._generator = tf.random.experimental.Generator.from_seed(self._seed)

    def make_seed_for_stateless_op(self) -> Any:
        """A seed of two numbers; None where ops with a seed are used."""
        self._maybe_init()
        if self._rng_type == STATELESS:
            return [self._seed, 0]
        return None if self._generator is None else self._generator.make_seeds()[:, 0]

    def make_legacy_seed(self) -> int | None:
        """The seed of the next op; None without one."""
        seed = self._seed
        if seed is not None:
            self._seed = seed + 1
        return seed

    def _draw(self, kind: str, shape: Any, dtype: Any, nonce: int | None, limits: dict) -> Any:
        self._maybe_init()
        limits = {"shape": shape, "dtype": dtype or floatx(), **limits}
        if self._rng_type == STATELESS:
            seed = self.make_seed_for_stateless_op()
            seed = tf.random.experimental.stateless_fold_in(seed, nonce) if nonce else seed
            return getattr(tf.random, f"stateless_{kind}")(seed=seed, **limits)
        if self._rng_type == STATEFUL:
            return getattr(self._generator, kind)(**limits)
        return getattr(tf.random, kind)(seed=self.make_legacy_seed(), **limits)

    def random_normal(self, shape: Any, mean: Any = 0., stddev: Any = 1., dtype: Any = None, nonce: int | None = None) -> Any:
        """Numbers of a normal distribution; `nonce` changes those of stateless ops."""
        return self._draw("normal", shape, dtype, nonce, {"mean": mean, "stddev": stddev})

    def truncated_normal(self, shape: Any, mean: Any = 0., stddev: Any = 1., dtype: Any = None,
                         nonce: int | None = None) -> Any:
        """Numbers of a normal distribution, at most two deviations from the mean."""
        return self._draw("truncated_normal", shape, dtype, nonce, {"mean": mean, "stddev": stddev})

    def random_uniform(self, shape: Any, minval: Any = 0., maxval: Any = None, dtype: Any = None,
                       nonce: int | None = None) -> Any:
        """Numbers of a uniform distribution, from `minval` to below `maxval`."""
        return self._draw("uniform", shape, dtype, nonce, {"minval": minval, "maxval": maxval})

    def dropout(self, inputs: Any, rate: Any, noise_shape: Any = None) -> Any:
        """The inputs, some of them zeros, and the others larger."""
        self._maybe_init()
        if self._rng_type == LEGACY:
            return tf.nn.dropout(inputs, rate=rate, noise_shape=noise_shape, seed=self.make_legacy_seed())
        if self._rng_type == STATELESS:
            return tf.nn.experimental.stateless_dropout(inputs, rate, [self._seed, 0], noise_shape=noise_shape)
        assert self._generator is not None                                                      # made by _maybe_init
        return tf.nn.experimental.general_dropout(inputs, rate, self._generator.uniform, noise_shape)


@export(v2=["keras.__internal__.layers.BaseRandomLayer"])
class RandomLayer(Layer):
    """A layer that draws numbers from its `_random_generator`, a RandomGenerator of these arguments.

    >>> layer = tf.keras.__internal__.layers.BaseRandomLayer(seed=1)
    >>> layer._random_generator.random_uniform([2], maxval=1.).shape
    TensorShape([2])
    """

    _random_generator: RandomGenerator

    def __init__(self, seed: int | None = None, force_generator: bool = False, rng_type: str | None = None, **kwargs: Any):
        super().__init__(**kwargs)
        self.seed = seed
        self.__dict__["_random_generator"] = RandomGenerator(seed, rng_type, force_generator)   # not a dependency itself

    def _draws(self) -> RandomGenerator:
        """The generator, whose state is a dependency of the layer once it exists."""
        draws = self._random_generator
        draws._maybe_init()
        if draws._generator is not None:
            self._track_trackable(draws._generator, "_random_generator", overwrite=True)
        return draws

    def build(self, input_shape: Any) -> None:
        """Makes the generator."""
        super().build(input_shape)
        self._draws()

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        kind = self._random_generator._rng_type
        return {**super().get_config(), **({"rng_type": kind} if kind != LEGACY else {})}
